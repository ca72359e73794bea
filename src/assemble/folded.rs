//! Rows with padding that are changed in one pass: elements of a row of the field that lie in
//! another order in the source.
//!
//! In: planes of the first elements of rows, and a fold of these. Out: the field's elements.
//! Invariant: the bits of [`Change::plane`] on the runs of the rows, one after another.

use super::augment::Change;
use super::block::BlockPlane;
use super::cast::Plane;
use crate::base::arena::{Claim, Rows};
use crate::records::ByteOrder;
use crate::simd::{RowFold, SteppedRows};

impl Change<'_> {
    /// Whether rows whose words have that order may be folded, if all of their places are changed.
    pub fn folds(&self, order: ByteOrder) -> bool {
        let augment = self.augment();
        let has_rows = augment.channels() <= 1 || self.layout.strides[augment.channel_axis()] > 1;
        let is_plain = augment.noise().is_none() && augment.erased().next().is_none();
        let is_read = |pass: SteppedRows| order == ByteOrder::Little || pass.source_bytes() == 1;
        has_rows && is_plain && self.whole.is_some_and(is_read)
    }

    /// Changes rows on their way into the field. `plane` has the first place of each, `source` the
    /// lowest element that each reads.
    pub fn folded(
        &self,
        fold: &RowFold,
        source: &Plane<'_>,
        plane: &BlockPlane,
        claim: &mut Claim<'_>,
    ) {
        let Some(pass) = &self.whole else { return };
        let (bytes, length) = (self.layout.bytes, fold.length() as u64);
        let source_bytes = fold.source_length() as u64 * pass.source_bytes();
        let mut row = 0;
        while row < plane.count {
            let (target, left) = (plane.target + row * plane.target_pitch, plane.count - row);
            let place = target / bytes;
            // All of a row is of one channel.
            let spare = (self.channel_limit(place) - place - length).saturating_mul(bytes);
            let count = if left > 1 { left.min(spare / plane.target_pitch + 1) } else { left };
            let first = source.first.wrapping_add_signed(row as i64 * source.pitch);
            let rows = Rows::new(source.bytes, first, source_bytes, count, source.pitch);
            let steps = self.steps(self.channel_of(place, place).unwrap_or(0));
            let mut places = claim.row_grid(target, length * bytes, count, plane.target_pitch);
            pass.run_folded(&steps, fold, &rows, &mut places);
            row += count;
        }
    }
}
