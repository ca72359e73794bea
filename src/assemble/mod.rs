//! From decoded chunks to the bytes of a sample in its batch: place, pad, cast.
//!
//! In: a decoded chunk (or the fact that it is missing) and a [`Target`]. Out: those elements of
//! the sample's box whose source lies in that chunk. Invariant: nothing else is written. Other
//! threads fill the rest of the box from other chunks at the same time, so the claim is taken as
//! the rows of a plane, with nothing of the gaps between them, and never as a whole; two chunks of
//! an array share no element, so their rows share no byte.
//!
//! If a box is to be augmented, its elements go through [`augment::Change`].
//!
//! All calls expect the thread to hold a [`crate::simd::FloatEnvironment`].

pub mod augment;
pub mod axis;
pub mod blanks;
pub mod block;
pub mod cast;
pub mod changes;
mod erase;
mod folded;
pub mod pieces;
pub mod sample_box;
pub mod units;
mod value;
pub mod vectors;
pub mod walk;
pub mod wire;

pub use sample_box::SampleBox;
pub use value::value_element;

use crate::base::arena::{Claim, RowsMut};
use crate::base::limits::ELEMENT_BYTES_MAX;
use crate::base::math::index;
use crate::records::{ArrayRecord, ByteOrder, ChunkBytes};
use augment::{Change, Scratch, Strip};
use block::{Block, BlockPlane};
use cast::{Cast, Plane};

/// Where one sample goes.
pub struct Target<'a> {
    /// Its box, and what its elements become.
    pub sample: SampleBox<'a>,
    /// The field's bytes in the sample: row-major, in elements of the field.
    pub claim: Claim<'a>,
    /// The change of its elements, and memory for that; None if they are cast alone.
    pub change: Option<(&'a Change<'a>, &'a mut Scratch)>,
}

impl<'a> Target<'a> {
    fn target_bytes(&self) -> u64 {
        self.sample.target_bytes()
    }

    fn check(&self) {
        assert!(self.sample.target_span().1 <= self.claim.region().bytes());
    }

    /// Whether rows with padding are changed in one pass.
    fn folds(&self) -> bool {
        let (sample, change) = (&self.sample, &self.change);
        change.as_ref().is_some_and(|(change, _)| {
            let is_alike = change.pad_goes_through() || !sample.has_outside();
            is_alike && change.folds(sample.record.byte_order)
        })
    }

    /// Calls `each` with a block, or with the parts of it that are changed and that are not, and
    /// what is done to each. A part may be written twice: the last time counts.
    fn for_each_part(
        &mut self,
        block: &Block,
        each: &mut dyn FnMut(&Block, Option<Changing<'_, 'a>>, &mut Claim<'_>),
    ) {
        let Some((change, scratch)) = &mut self.change else {
            return each(block, None, &mut self.claim);
        };
        let mut changed = Some(block);
        let inside;
        if !change.pad_goes_through() && self.sample.has_outside() {
            let ranges = self.sample.inside_ranges();
            inside = ranges.and_then(|ranges| change.cut(block, |axis| ranges[axis]));
            changed = inside.as_ref();
            each(block, None, &mut self.claim);
        }
        if let Some(changed) = changed {
            let mut strip = change.strip(changed, scratch);
            each(changed, Some((change, &mut strip)), &mut self.claim);
        }
    }

    fn fill_block(&mut self, block: &Block, element: &[u8]) -> u64 {
        fill_block(&mut self.claim, block, element)
    }

    /// Fills a block with an element of another type, which goes through the change, if there is
    /// one. `plain`: the element of the field that it is without.
    fn fill_changed(&mut self, block: &Block, element: &[u8], plain: &[u8], of_field: bool) -> u64 {
        let mut block = block.clone();
        // Where the value comes from does not matter, so all axes may become one row.
        block.axes.iter_mut().for_each(|axis| axis.source_step = 0);
        block.source = 0;
        let bytes = self.target_bytes();
        self.for_each_part(&block, &mut |block, change, claim| {
            let Some((change, strip)) = change else {
                fill_block(claim, block, plain);
                return;
            };
            let change = if of_field { change.of_field() } else { *change };
            let order = ByteOrder::Little;
            let source = Plane { bytes: element, first: 0, step: 0, pitch: 0, order };
            block.for_each_plane(bytes, &mut |plane| change.plane(&source, plane, claim, strip));
        });
        block.element_count() * bytes
    }
}

/// What is done to elements, and the memory that it takes.
type Changing<'c, 'a> = (&'c Change<'a>, &'c mut Strip<'c, 'a>);

/// The rows of a plane.
fn rows_of<'c>(claim: &'c mut Claim<'_>, plane: &BlockPlane, target_bytes: u64) -> RowsMut<'c> {
    claim.row_grid(plane.target, plane.length * target_bytes, plane.count, plane.target_pitch)
}

/// Writes `element` at every place of a block; how many bytes.
pub fn fill_block(claim: &mut Claim<'_>, block: &Block, element: &[u8]) -> u64 {
    let bytes = element.len() as u64;
    block.for_each_plane(bytes, &mut |plane| {
        let row_bytes = plane.length * bytes;
        let mut rows = claim.row_grid(plane.target, row_bytes, plane.count, plane.target_pitch);
        (0..rows.count()).for_each(|row| fill_row(rows.row(row), element));
    });
    block.element_count() * bytes
}

/// Writes the part of the sample that the decoded chunk at `chunk_origin` (in elements) holds, and
/// returns the number of bytes written. `chunk` has at least the bytes that the box reads.
pub fn scatter(target: &mut Target<'_>, chunk_origin: &[u64], chunk: &ChunkBytes<'_>) -> u64 {
    let sample = target.sample;
    let SampleBox { record, cast, .. } = sample;
    assert!(cast.source_bytes() == record.dtype_bytes);
    target.check();
    let order = record.byte_order;
    let target_bytes = target.target_bytes();
    let mut written = 0;
    let folds = target.folds();
    let source_of = |plane: &BlockPlane| {
        let BlockPlane { source, source_step: step, source_pitch: pitch, .. } = *plane;
        Plane { bytes: chunk.bytes, first: source - chunk.first, step, pitch, order }
    };
    sample.for_each_row_block(chunk_origin, folds, &mut |block, fold| {
        if let (Some(fold), Some((change, _))) = (fold, &target.change) {
            block.for_each_plane(target_bytes, &mut |plane| {
                change.folded(fold, &source_of(plane), plane, &mut target.claim);
            });
            written += block.element_count() * fold.length() as u64 * target_bytes;
            return;
        }
        target.for_each_part(block, &mut |block, mut change, claim| {
            block.for_each_plane(target_bytes, &mut |plane| match &mut change {
                None => cast.plane(&source_of(plane), &mut rows_of(claim, plane, target_bytes)),
                Some((change, strip)) => change.plane(&source_of(plane), plane, claim, strip),
            });
        });
        written += block.element_count() * target_bytes;
    });
    written
}

/// Writes the array's fill value where the missing chunk at `chunk_origin` would have been, and
/// returns the number of bytes written.
pub fn scatter_fill(target: &mut Target<'_>, chunk_origin: &[u64]) -> u64 {
    target.check();
    let element = fill_element(target.sample.record, target.sample.cast);
    let element = &element[..index(target.target_bytes())];
    let (mut written, sample) = (0, target.sample);
    let fill = &sample.record.fill;
    sample.for_each_block(chunk_origin, &mut |block| {
        written += target.fill_changed(block, fill, element, false);
    });
    written
}

/// The array's fill value as an element of the batch.
pub fn fill_element(record: &ArrayRecord, cast: &Cast) -> [u8; ELEMENT_BYTES_MAX] {
    let mut element = [0; ELEMENT_BYTES_MAX];
    let fill = Plane { bytes: &record.fill, first: 0, step: 0, pitch: 0, order: ByteOrder::Little };
    let target_bytes = index(u64::from(cast.target_bytes()));
    cast.plane(&fill, &mut RowsMut::packed(&mut element[..target_bytes], target_bytes));
    element
}

/// What constant padding puts where there is no source: `given`, else the array's fill value.
pub fn outside_element(
    sample: &SampleBox<'_>,
    given: Option<[u8; ELEMENT_BYTES_MAX]>,
) -> [u8; ELEMENT_BYTES_MAX] {
    given.unwrap_or_else(|| fill_element(sample.record, sample.cast))
}

/// Writes `given` (of the batch's type), or else the array's fill value, at every place of the box
/// that has no source, and returns the number of bytes written. Constant padding is this and the
/// chunks; the other modes have no such places.
pub fn fill_outside(target: &mut Target<'_>, given: Option<[u8; ELEMENT_BYTES_MAX]>) -> u64 {
    target.check();
    let (mut written, sample) = (0, target.sample);
    let element = outside_element(&sample, given);
    let element = &element[..index(target.target_bytes())];
    let changes = target.change.as_ref().is_some_and(|(change, _)| change.pad_goes_through());
    let source = if given.is_some() { element } else { &sample.record.fill };
    sample.for_each_outside_block(&mut |block| {
        written += match changes {
            true => target.fill_changed(block, source, element, given.is_some()),
            false => target.fill_block(block, element),
        };
    });
    written
}

/// Writes `element` again and again over a row, whose length is a multiple of the element's.
pub fn fill_row(row: &mut [u8], element: &[u8]) {
    assert!(!element.is_empty());
    assert!(row.len().is_multiple_of(element.len()));
    match *element {
        [byte] => row.fill(byte),
        _ if element.iter().all(|byte| *byte == element[0]) => row.fill(element[0]),
        [a, b] => row.as_chunks_mut().0.fill([a, b]),
        [a, b, c, d] => row.as_chunks_mut().0.fill([a, b, c, d]),
        [a, b, c, d, e, f, g, h] => row.as_chunks_mut().0.fill([a, b, c, d, e, f, g, h]),
        _ => row.chunks_exact_mut(element.len()).for_each(|place| place.copy_from_slice(element)),
    }
}

#[cfg(test)]
mod augment_tests;
#[cfg(test)]
pub(crate) mod cast_tests;
#[cfg(test)]
mod cf_tests;
#[cfg(test)]
mod fold_tests;
#[cfg(test)]
mod scatter_tests;
