//! An array whose elements are decoded by the CF conventions: `ARRAY#cf=1`, or of a level,
//! `GROUP#level=0#cf=1`.
//!
//! In: a uri. Out: the record of the numbers that the elements stand for.

use crate::base::status::{Status, Why};
use crate::base::text::Tail;
use crate::fail;
use crate::read::SHOWN_BYTES;
use crate::records::{CF_MARK, RAW_PREFIX, split_cf, split_level_name};
use crate::source::flat::{Pattern, flat_kind};
use crate::source::look::{Look, Seen};
use crate::source::{fields, levels, nodes};

/// The array that the uri names before its mark, decoded.
pub fn array(look: &mut Look<'_>, why: &mut Why) -> Option<Result<Seen, Status>> {
    let name = split_level_name(look.uri);
    let array = split_cf(name.map_or(look.uri, |(group, _)| group))?;
    if array.starts_with(RAW_PREFIX) || flat_kind(array).is_some() || Pattern::of(array).is_some() {
        let way = "only zarr arrays have attributes: leave out #cf=1";
        return Some(Err(fail!(why, Unsupported, "{}: {way}", Tail(look.uri, SHOWN_BYTES))));
    }
    // Texts name the array.
    (look.uri, look.is_cf, look.takes_groups) = (array, true, false);
    let found = match name {
        Some((_, level)) => Some(levels::level_of(look, array, level, why)),
        None => fields::field(look, why)
            .or_else(|| nodes::node(look, why))
            .or_else(|| levels::level(look, why)),
    };
    Some(look.marked(found, format_args!("{CF_MARK}"), why))
}
