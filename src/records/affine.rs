//! The map from places of a box to voxels, as push copies it: [`crate::base::abi::Affine`].
//!
//! In: numbers of the caller. Out: words, and the same numbers again. Invariant: what was written
//! is read, bit for bit; whether it makes a map is for others.

use crate::base::abi::MAP_AXES;

/// Words of a map.
pub const AFFINE_WORDS: usize = 4 + MAP_AXES + 2 * MAP_AXES * (MAP_AXES + 1);

/// An affine map from the places of a box to the voxels of an array.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Affine {
    /// Axes that are mapped, 1 to 3.
    pub rank: u32,
    /// Which axes of the array.
    pub axes: [u32; MAP_AXES],
    /// Place to voxel of level 0, or to physical units: `rank` rows, and as many columns and the
    /// last one.
    pub matrix: [[f64; MAP_AXES + 1]; MAP_AXES],
    /// ABI number of the filter.
    pub filter: u32,
    /// Level of the image; less than 0: the coarsest that is fine enough.
    pub level: i32,
    /// The matrix gives physical units.
    pub has_units: bool,
}

impl Affine {
    /// The words of the map.
    pub fn words(&self) -> impl Iterator<Item = u32> {
        let head = [self.rank, self.filter, self.level as u32, u32::from(self.has_units)];
        let entries = self.matrix.into_iter().flatten().map(f64::to_bits);
        let entries = entries.flat_map(|bits| [bits as u32, (bits >> 32) as u32]);
        head.into_iter().chain(self.axes).chain(entries)
    }

    /// The map that words were made of.
    pub fn of(words: &[u32]) -> Affine {
        assert!(words.len() == AFFINE_WORDS);
        let (head, rest) = words.split_at(4);
        let (axes, entries) = rest.split_at(MAP_AXES);
        let entry = |row: usize, column: usize| {
            let at = 2 * (row * (MAP_AXES + 1) + column);
            f64::from_bits(u64::from(entries[at]) | u64::from(entries[at + 1]) << 32)
        };
        Affine {
            rank: head[0],
            axes: [axes[0], axes[1], axes[2]],
            matrix: core::array::from_fn(|row| core::array::from_fn(|column| entry(row, column))),
            filter: head[1],
            level: head[2] as i32,
            has_units: head[3] != 0,
        }
    }

    /// The axes of the array that are mapped.
    pub fn axes(&self) -> impl Iterator<Item = usize> {
        self.axes.into_iter().take(self.rank as usize).map(|axis| axis as usize)
    }

    /// The axis of the map that an axis of the array is.
    pub fn position(&self, axis: usize) -> Option<usize> {
        self.axes().position(|mapped| mapped == axis)
    }
}
