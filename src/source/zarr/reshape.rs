//! The codec `reshape` of zarr-extensions: other axes for the same elements in the same order.
//!
//! Comes in: its configuration, and the extents that it is given. Goes out: the extents that it
//! makes. Source: its specification. Invariant: as many elements, and a list of axes is an axis of
//! all their places; so bytes of a chunk need no undoing.

use super::node::{Extension, Extents, Node};
use crate::base::limits::RANK_MAX;
use crate::base::math::product;
use crate::base::status::Status;
use crate::base::text::List;
use crate::fail;
use crate::records::ArrayRecord;
use crate::source::json::Kind;
use arrayvec::ArrayVec;

/// An axis that is made of the axes from `first` to `last`.
struct Joined {
    place: usize,
    first: usize,
    last: usize,
}

/// The extents after a reshape of a chunk; `given` are those after the one before it.
pub(super) fn read_reshape(
    extension: &Extension<'_, '_>,
    given: Option<Extents>,
    record: &ArrayRecord,
) -> Result<Extents, Status> {
    let order = &record.axis_order[record.shard_levels as usize][..record.axes()];
    let own = || order.iter().map(|axis| record.chunk_shape[usize::from(*axis)]).collect();
    let given: Extents = given.unwrap_or_else(own);
    let [shape, ..] = extension.pick("shape", 1)?;
    if record.is_rectilinear() && record.shard_levels == 0 {
        let way = "write the array again without it";
        return Err(fail!(
            shape,
            Unsupported,
            "reshape of chunks of many shapes is not read: {way}"
        ));
    }
    let (mut made, mut joined) = (Extents::new(), ArrayVec::<Joined, RANK_MAX>::new());
    let (mut open, mut next) = (None, 0);
    for item in shape.items()? {
        let size = if item.kind() == Kind::Array {
            let (size, axes) = read_axes(item, &given, &mut next)?;
            // As many as the extents at most, which are counted below.
            let place = made.len();
            let is_full = axes.map(|(first, last)| joined.try_push(Joined { place, first, last }));
            is_full.unwrap_or(Ok(())).map_err(|_| shape.too_many(RANK_MAX, "axes"))?;
            size
        } else if item.as_integer() == Some(-1) {
            if open.replace(made.len()).is_some() {
                return Err(fail!(
                    item,
                    Decode,
                    "-1 occurs twice: only one extent can be left open"
                ));
            }
            1
        } else {
            item.extent(1)?
        };
        made.try_push(size).map_err(|_| shape.too_many(RANK_MAX, "axes"))?;
    }
    let (all, known) = (product(&given), product(&made));
    if let (Some(place), Some(all), Some(known)) = (open, all, known)
        && all.is_multiple_of(known)
    {
        made[place] = all / known;
    }
    if all.is_none() || product(&made) != all {
        let (made, given) = (List(&made), List(&given));
        return Err(fail!(shape, Decode, "{made} elements where chunks have {given}"));
    }
    for Joined { place, first, last } in joined {
        let is_before = product(&made[..place]) == product(&given[..first]);
        if !is_before || product(&made[place + 1..]) != product(&given[last + 1..]) {
            let reason = "is not an axis of the places along its axes";
            return Err(fail!(shape, Decode, "extent {place} of {} {reason}", List(&made)));
        }
    }
    Ok(made)
}

/// The extent that a list of axes makes, and the first and the last of them. `next` is the least
/// that the next axis may be.
fn read_axes(
    list: Node<'_, '_>,
    given: &[u64],
    next: &mut usize,
) -> Result<(u64, Option<(usize, usize)>), Status> {
    let (mut size, mut ends) = (1u64, None);
    for axis in list.extents(0)? {
        let place = usize::try_from(axis).unwrap_or(usize::MAX);
        let Some(extent) = given.get(place).filter(|_| place >= *next) else {
            let reason = "axes in order, each below";
            return Err(fail!(list, Decode, "axis {axis} where {reason} {}", given.len()));
        };
        let Some(more) = size.checked_mul(*extent) else {
            return Err(list.too_many(usize::MAX, "elements"));
        };
        (size, *next) = (more, place + 1);
        ends = Some((ends.map_or(place, |(first, _)| first), place));
    }
    Ok((size, ends))
}
