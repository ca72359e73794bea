//! An array whose elements are decoded by the CF conventions: `ARRAY#cf=1`, or of a level,
//! `GROUP#level=0#cf=1`.
//!
//! In: a uri. Out: the record of the numbers that the elements stand for; or the uri with the mark,
//! for a field that wants them.

use crate::base::limits::URI_BYTES_MAX;
use crate::base::status::{Status, Why};
use crate::base::text::{Tail, Uri};
use crate::fail;
use crate::read::SHOWN_BYTES;
use crate::records::{CF_MARK, HOOK_PREFIX, RAW_PREFIX, split_cf, split_level_name};
use crate::source::flat::{Pattern, flat_kind};
use crate::source::look::{Look, Seen};
use crate::source::{fields, levels, nodes};
use core::fmt;

/// The array that the uri names before its mark, decoded.
pub fn array(look: &mut Look<'_>, why: &mut Why) -> Option<Result<Seen, Status>> {
    let name = split_level_name(look.uri);
    let array = split_cf(name.map_or(look.uri, |(group, _)| group))?;
    if has_no_attributes(array) {
        let way = "only zarr arrays have attributes: leave out #cf=1, or cf = 1 of its field";
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

/// Adds the mark to a uri, which is normal, for a field with cf = 1; `of` names the field. A uri
/// that has the mark stays.
#[inline(never)] // its texts are not to stand on the stack of a push
pub fn mark(uri: &mut Uri, of: impl fmt::Display, why: &mut Why) -> Result<(), Status> {
    let (name, bytes) = (uri.as_str(), uri.as_bytes().len() + CF_MARK.len());
    let shown = Tail(name, SHOWN_BYTES);
    if split_cf(name).is_some() {
        return Ok(());
    }
    if name.starts_with(HOOK_PREFIX) || has_no_attributes(name) {
        let text = "cf = 1 needs attributes, which only zarr arrays have: use a field without it";
        return Err(fail!(why, Unsupported, "{of}{shown}: {text}"));
    }
    if bytes > URI_BYTES_MAX {
        let way = "move the array to a shorter path";
        return Err(fail!(
            why,
            Invalid,
            "{of}{shown}: uri of {bytes} bytes with the #cf=1 of cf = 1, limit {URI_BYTES_MAX}: \
             {way}"
        ));
    }
    uri.push_str(CF_MARK);
    Ok(())
}

/// Whether the name is that of an array in files without attributes.
fn has_no_attributes(array: &str) -> bool {
    array.starts_with(RAW_PREFIX) || flat_kind(array).is_some() || Pattern::of(array).is_some()
}
