//! Tables of boxes: columns of numbers, a row of which is a sample.
//!
//! In: slices of the caller's. Out: the boxes of one row at a time, as requests, which push takes
//! as it takes all others. Invariant: a uri is read and checked where a row has another one than
//! the row before it, and never copied for a row.

use crate::base::limits::RANK_MAX;
use crate::base::status::{Failure, Status, Why};
use crate::engine::Engine;
use crate::engine::requests::Request;
use crate::fail;
use crate::records::{Dtype, FedData};
use crate::source::zarr::normalize_uri;
use crate::surface::affine::AffineMap;
use crate::surface::augment::Augmentation;
use crate::surface::feed::value;

/// Numbers of a column of a table, packed, so many for each sample.
#[derive(Clone, Copy, Debug, Default)]
pub enum Rows<'a, T> {
    /// None: what stands for them is said where they are.
    #[default]
    None,
    /// The same for all samples.
    One(&'a [T]),
    /// Those of each sample, one after the other.
    Each(&'a [T]),
}

impl<'a, T> Rows<'a, T> {
    /// The `width` numbers of a row.
    fn row(
        &self,
        (number, width): (usize, usize),
        name: &str,
        why: &mut Why,
    ) -> Result<Option<&'a [T]>, Status> {
        let (items, first) = match self {
            Rows::None => return Ok(None),
            Rows::One(items) => (items, 0),
            Rows::Each(items) => (items, number.saturating_mul(width)),
        };
        let row = items.get(first..).and_then(|rest| rest.get(..width));
        let count = items.len();
        row.map(Some).ok_or_else(|| {
            fail!(why, Invalid, "{name} has {count} numbers: there must be {width} for each row")
        })
    }

    /// The same of numbers that must be there, if there are to be any.
    fn needed(&self, row: (usize, usize), name: &str, why: &mut Why) -> Result<&'a [T], Status> {
        match self.row(row, name, why)? {
            None if row.1 > 0 => Err(fail!(why, Invalid, "{name} is missing")),
            numbers => Ok(numbers.unwrap_or(&[])),
        }
    }
}

/// What the boxes of a column read.
#[derive(Clone, Copy, Debug)]
pub enum Source<'a> {
    /// Arrays: their uris, and the number of that of each sample (none: 0).
    Uris(&'a [&'a str], Rows<'a, u32>),
    /// Values of at most 64 bytes that push copies, such as labels: their type, the bytes of each
    /// value, and the bytes. They have the extents that `shape` says and are taken whole.
    Values(Dtype, usize, Rows<'a, u8>),
}

/// A column of a table: a box of each sample.
#[derive(Clone, Copy, Debug)]
pub struct Column<'a> {
    /// Field that the elements go to.
    pub field: u32,
    /// Axes of the boxes.
    pub rank: usize,
    /// What they read.
    pub source: Source<'a>,
    /// By axis of the box: the first element, from which a step below 0 reads backwards to.
    pub begin: Rows<'a, i64>,
    /// By axis of the box: places in the batch.
    pub shape: Rows<'a, u64>,
    /// By axis of the box: elements from one place to the next, as of [`super::loader::Part`]. None
    /// are 1.
    pub step: Rows<'a, i64>,
    /// By axis of the field: where the first place goes. None are 0.
    pub at: Rows<'a, u64>,
    /// What is done to the elements, one of each sample; None: they are cast alone.
    pub augment: Rows<'a, Augmentation<'a>>,
    /// The map from places to voxels, one of each sample; None: begin, shape and step are it.
    pub affine: Rows<'a, AffineMap<'a>>,
}

impl Column<'_> {
    /// Writes the box of a row. There are `uri_count` uris, which `uri` gives where the request
    /// does not have them yet.
    pub(super) fn fill<'u>(
        &self,
        engine: &Engine,
        (row, number): (usize, u32),
        target: &mut Request<'_>,
        (uri_count, uri): (usize, impl FnOnce(usize, &mut Why) -> Result<&'u str, Status>),
        why: &mut Why,
    ) -> Result<(), Status> {
        let rank = self.rank;
        if rank > RANK_MAX {
            return Err(fail!(why, Rank, "a box of rank {rank}: must be 0 to {RANK_MAX}"));
        }
        let shape = self.shape.needed((row, rank), "shape", why)?;
        // A field that there is not is refused by push.
        let field = engine.shared.settings.fields.get(self.field as usize);
        let axes = field.map_or(0, |field| field.extents().len());
        let at = self.at.row((row, axes), "at", why)?.unwrap_or(&[]);
        let step = self.step.row((row, rank), "step", why)?;
        (target.rank, target.field) = (rank, self.field);
        (target.at, target.axes) = ([0; RANK_MAX], [0; RANK_MAX]);
        target.at[..at.len()].copy_from_slice(at);
        self.fill_augment(row, target, why)?;
        let begin = match self.source {
            Source::Uris(_, which) => {
                let which = which.row((row, 1), "which", why)?.map_or(0, |which| which[0]);
                if which as usize >= uri_count {
                    let text = "counted from 0";
                    return Err(fail!(why, Invalid, "which = {which}: {uri_count} uris, {text}"));
                }
                let key = u64::from(which) << 8 | u64::from(number + 1); // of at most 255 columns
                if let Some(place) = target.uri_place(key) {
                    normalize_uri(uri(which as usize, why)?, place, why)?;
                }
                target.fed.data = FedData::Nothing;
                self.begin.needed((row, rank), "begin", why)?
            }
            Source::Values(dtype, bytes, values) => {
                if step.is_some() || !matches!(self.begin, Rows::None) {
                    return Err(fail!(why, Invalid, "a value has no begin and step: it is whole"));
                }
                let bytes = values.needed((row, bytes), "values", why)?;
                target.fed = value(dtype, shape, bytes, why)?;
                &[0; RANK_MAX][..rank]
            }
        };
        for axis in 0..rank {
            let step = step.map_or(1, |step| step[axis]);
            let range = (begin[axis], shape[axis], step);
            let Some(end) = end_of(range) else {
                let (begin, places, step) = range;
                return Err(fail!(
                    why,
                    Invalid,
                    "axis {axis}: {places} places from {begin} on in steps of {step}: no such box"
                ));
            };
            (target.begin[axis], target.end[axis], target.step[axis]) = (begin[axis], end, step);
        }
        Ok(())
    }

    /// Writes what is done to the elements of the box of a row, and their map.
    fn fill_augment(
        &self,
        row: usize,
        target: &mut Request<'_>,
        why: &mut Why,
    ) -> Result<(), Status> {
        let augment = self.augment.row((row, 1), "augment", why)?;
        Augmentation::fill(augment.and_then(<[_]>::first), &mut target.augment, why)?;
        target.lists.clear();
        let affine = self.affine.row((row, 1), "affine", why)?.and_then(<[_]>::first);
        affine.map_or(Ok(()), |affine| affine.add(&mut target.augment, why))
    }
}

/// Pushes the rows of a table: row n is a sample of `columns` boxes, whose number m `fill_box`
/// writes, and has tag n.
pub(super) fn push_rows(
    engine: &Engine,
    (columns, count): (u32, usize),
    tags: Rows<'_, u64>,
    timeout_ns: u64,
    fill_box: impl Fn((usize, u32), &mut Request<'_>, &mut Why) -> Result<(), Status>,
) -> (usize, Result<(), Failure>) {
    let fill = |row: usize, number: u32, target: &mut Request<'_>| {
        (target.row, target.boxes, target.tag) = (Some(row), columns, 0);
        let mut why = Why::new();
        let filled = tags.row((row, 1), "tags", &mut why).and_then(|tag| {
            target.tag = tag.map_or(0, |tag| tag[0]);
            // A sample without boxes is refused by push.
            if columns == 0 { Ok(()) } else { fill_box((row, number), target, &mut why) }
        });
        filled.map_err(|status| target.box_failure(number, status, &mut why))
    };
    engine.push(count, fill, timeout_ns)
}

/// One past the last element of a box of so many places.
///
/// Worked example: 3 places from 10 on in steps of -4 are the elements 18, 14 and 10: [10, 19).
fn end_of((begin, places, step): (i64, u64, i64)) -> Option<i64> {
    let step = step.unsigned_abs().max(1);
    // Less than 2^127.
    let last = |before: u64| i128::from(before) * i128::from(step) + 1;
    i64::try_from(i128::from(begin) + places.checked_sub(1).map_or(0, last)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_box_ends_behind_its_last_place_or_there_is_none() {
        for (range, end) in [
            ((10, 3, 1), Some(13)),
            ((10, 3, 0), Some(13)),
            ((10, 3, -4), Some(19)),
            ((-7, 0, 5), Some(-7)),
            ((i64::MAX - 3, 3, 1), Some(i64::MAX)),
            ((i64::MAX - 2, 3, 1), None),
            ((i64::MIN, u64::MAX, i64::MIN), None),
            ((0, 2, i64::MIN), None),
        ] {
            assert_eq!(end_of(range), end, "{range:?}");
        }
    }
}
