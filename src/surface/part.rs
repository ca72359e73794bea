//! A box of a sample, as Rust gives it.
//!
//! In: a box of the caller's. Out: a request. Whether it fits the field is for push.

use crate::base::limits::RANK_MAX;
use crate::base::status::{Status, Why};
use crate::engine::requests::Request;
use crate::fail;
use crate::records::FedData;
use crate::source::zarr::normalize_uri;
use crate::surface::affine::AffineMap;
use crate::surface::augment::Augmentation;
use crate::surface::feed::Feed;

/// One box of a sample of several.
#[derive(Clone, Copy, Debug, Default)]
pub struct Part<'a> {
    /// A path or file:// uri; not looked at if the box is a tensor.
    pub uri: &'a str,
    /// A tensor in the place of an array of a store.
    pub feed: Feed<'a>,
    /// First element along each axis.
    pub begin: &'a [i64],
    /// One past the last element along each axis.
    pub end: &'a [i64],
    /// Field that the elements go to.
    pub field: u32,
    /// The place of the first of them, by axis of the field; axes that are left out: 0.
    pub at: &'a [u64],
    /// Elements from one place to the next, by axis of the box, and less than 0 backwards; axes
    /// that are left out: 1.
    pub step: &'a [i64],
    /// Axes of which the box has a list of indices, in the order of its places, repeats kept: the
    /// axis, whose begin is 0 and end is their number, and the elements. `max_indices_per_sample`
    /// is room for them.
    pub lists: &'a [(usize, &'a [i64])],
    /// The axis of the field that each axis of the box becomes; None for one of extent 1 that is
    /// dropped. Empty: the axes of the field in order.
    pub axes: &'a [Option<usize>],
    /// The arithmetic on the elements; None: they are cast alone.
    pub augment: Option<Augmentation<'a>>,
    /// The map from places to voxels; None: begin, end and step are it.
    pub affine: Option<AffineMap<'a>>,
}

/// Checks a request that came over a surface and copies it.
pub(super) fn fill_request<'a>(
    target: &mut Request<'a>,
    source: &Part<'a>,
    why: &mut Why,
) -> Result<(), Status> {
    let rank = source.begin.len();
    if rank > RANK_MAX || source.end.len() != rank {
        return Err(fail!(
            why,
            Rank,
            "a box of {rank} begins and {} ends: 0 to {RANK_MAX} of each are needed",
            source.end.len()
        ));
    }
    let lengths = (source.at.len(), source.step.len(), source.axes.len());
    if lengths.0 > RANK_MAX || lengths.1 > rank || lengths.2 != 0 && lengths.2 != rank {
        return Err(fail!(
            why,
            Rank,
            "a box of rank {rank} with {} places at, {} steps and {} axes: at most {RANK_MAX}, at \
             most {rank}, and {rank} or none are needed",
            lengths.0,
            lengths.1,
            lengths.2
        ));
    }
    match &source.feed {
        Feed::Nothing => {
            target.fed.data = FedData::Nothing;
            let uri = target.uri_place(0);
            uri.map_or(Ok(()), |place| normalize_uri(source.uri, place, why))?;
        }
        feed => target.fed = feed.fed(rank, why)?,
    }
    Augmentation::fill(source.augment.as_ref(), &mut target.augment, why)?;
    source.affine.as_ref().map_or(Ok(()), |affine| affine.add(&mut target.augment, why))?;
    target.lists.clear();
    for list in source.lists {
        if target.lists.try_push(*list).is_err() {
            let given = source.lists.len();
            return Err(fail!(why, Invalid, "{given} index lists: one for each axis at most"));
        }
    }
    target.rank = rank;
    target.begin[..rank].copy_from_slice(source.begin);
    target.end[..rank].copy_from_slice(source.end);
    target.field = source.field;
    (target.at, target.step, target.axes) = ([0; RANK_MAX], [0; RANK_MAX], [0; RANK_MAX]);
    target.at[..lengths.0].copy_from_slice(source.at);
    target.step[..lengths.1].copy_from_slice(source.step);
    for (place, axis) in target.axes.iter_mut().zip(source.axes) {
        // Push says of one past the last field's what is wrong with it.
        *place = axis.map_or(0, |axis| u8::try_from(axis + 1).unwrap_or(u8::MAX));
    }
    Ok(())
}
