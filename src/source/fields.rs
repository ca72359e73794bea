//! A field of structured elements: `ARRAY?field=NAME`, `FILE.npy?field=NAME`, or of a level,
//! `GROUP#level=0?field=NAME`.
//!
//! In: a uri. Out: the record of an array of that field alone.

use crate::base::status::{Status, Why};
use crate::base::text::Tail;
use crate::fail;
use crate::read::SHOWN_BYTES;
use crate::records::{FIELD_MARK, npy_field, split_field};
use crate::source::flat::{Pattern, flat_kind};
use crate::source::look::{Look, Seen};
use crate::source::{files, levels, nodes};

/// The field that the uri names of an array, or of a level of an image.
pub fn field(look: &mut Look<'_>, why: &mut Why) -> Option<Result<Seen, Status>> {
    let (array, name) = split_field(look.uri)?;
    let is_npy = npy_field(look.uri).is_some();
    if Pattern::of(array).is_some() || flat_kind(array).is_some() && (!is_npy || look.is_cf) {
        let way = match look.is_cf {
            true => "only zarr arrays have attributes: leave out #cf=1 or cf = 1",
            false => "numbered files have no fields: name one file of them alone",
        };
        return Some(Err(fail!(why, Unsupported, "{}: {way}", Tail(look.uri, SHOWN_BYTES))));
    }
    // Texts name the array.
    (look.uri, look.field, look.takes_groups) = (array, Some(name), false);
    let file = is_npy.then(|| files::file(look, why)).flatten();
    let found = file.or_else(|| nodes::node(look, why)).or_else(|| levels::level(look, why));
    Some(look.marked(found, format_args!("{FIELD_MARK}{name}"), why))
}
