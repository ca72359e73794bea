//! How the kernel takes the rows of a unit, and in how many tiles.
//!
//! In: a unit with its axes. Out: its path, vectors and tiles. Invariant: every element of a row
//! lies in exactly one of its vectors.
//!
//! A row is the places along axis 0. Where rows are dense in the sample, a vector is 16 bytes of it
//! that begin at a multiple of 16: one may begin before the row, one end behind it, and where rows
//! begin at different places of their vectors, one may lie outside. Elsewhere a vector is one
//! element. A tile is [`TILE_VECTORS`] vectors of one unit, in row-major order, and one thread
//! block.
//!
//! Worked example: 10 floats from an address 8 behind a multiple of 16. Four floats make a vector
//! and 2 places lie before the row, so it has ceil(12 / 4) = 3 vectors, the first half of it.

use super::units::{Filter, Unit};
use crate::records::Dtype;

/// Vectors of a tile: sixteen for each thread of a block, beside which it weighs little that the
/// block finds its unit.
pub const TILE_VECTORS: u64 = 4096;

/// Threads of a block.
#[cfg(feature = "internals")]
pub const TILE_THREADS: u32 = 256;

/// Bytes of the target that a vector has, where rows are dense.
const VECTOR_BYTES: u64 = 16;

/// How the kernel takes the rows of a unit. The numbers are those of kernels/common.cuh.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Path {
    /// Element by element, for whatever has no better path.
    Elements = 0,
    /// Dense rows of equal elements on both sides; words may be swapped.
    Copy = 1,
    /// Dense rows that get one element.
    Fill = 2,
    /// Dense rows to F32.
    F32 = 3,
    /// Dense rows to BF16.
    Bf16 = 4,
    /// Dense rows to F16.
    F16 = 5,
    /// Dense rows of equal elements of 1, 2 or 4 bytes, filtered.
    Unshuffle = 6,
}

impl Unit {
    /// How many tiles the kernel cuts the unit into: blocks of its launch. Record `i` of a wave
    /// owns those from `tile_first[i]` to `tile_first[i + 1]`; the record of folds owns none.
    pub fn tile_count(&self) -> u64 {
        let rows = self.elements / self.axes[0].length;
        rows.saturating_mul(self.row_vectors).div_ceil(TILE_VECTORS)
    }

    fn is_copy(&self) -> bool {
        let raw = Dtype::Raw as u8;
        self.source_dtype == self.target_dtype
            || [self.source_dtype, self.target_dtype].contains(&raw)
    }

    /// Whether elements of a row lie side by side in the sample, and whole in it.
    fn has_dense_target(&self) -> bool {
        let bytes = u64::from(self.target_bytes);
        let axis = &self.axes[0];
        let is_dense = axis.length == 1 || axis.target_step == bytes;
        is_dense && self.folded & 1 == 0 && self.target.is_multiple_of(bytes)
    }

    fn has_dense_rows(&self) -> bool {
        let axis = &self.axes[0];
        let is_dense = axis.length == 1 || axis.source_step == i64::from(self.source_bytes);
        is_dense && self.has_dense_target()
    }

    /// Chooses the way, and cuts rows into vectors.
    pub(super) fn with_path(mut self) -> Unit {
        self = self.as_bytes();
        let (path, vector_bytes) = self.fastest_path();
        let elements = vector_bytes / u64::from(self.target_bytes);
        // Rows shorter than a vector have no whole one.
        let (path, elements) = if elements > self.axes[0].length {
            (Path::Elements, 1)
        } else {
            (path, elements.max(1))
        };
        self.path = path as u8;
        self.vector_elements = elements as u8;
        let length = self.axes[0].length;
        let outer = &self.axes[1..usize::from(self.axis_count)];
        let before = if elements == 1 {
            0
        } else if outer.iter().all(|axis| axis.target_step.is_multiple_of(VECTOR_BYTES)) {
            // All rows begin at the same place in their first vector.
            self.target % VECTOR_BYTES / u64::from(self.target_bytes)
        } else {
            elements - 1
        };
        self.row_vectors = (before + length).div_ceil(elements);
        self
    }

    /// Rows of whole elements that are copied as they are, or filled with equal bytes, as rows of
    /// bytes: so that there are no odd sizes.
    fn as_bytes(mut self) -> Unit {
        let bytes = self.target_bytes;
        let is_even_fill = self.fill[..usize::from(bytes)].iter().all(|byte| *byte == self.fill[0]);
        let copies = self.is_copy() && self.word_bytes == 1 && self.filter == 0;
        let wants = match self.is_fill {
            0 => copies && self.axes[0].source_step == i64::from(self.source_bytes),
            _ => is_even_fill,
        };
        // Arithmetic takes whole elements.
        let wants = wants && self.change_records == 0;
        // Bytes are aligned wherever their elements lie.
        let is_dense = self.axes[0].target_step == u64::from(bytes) && self.folded & 1 == 0;
        let is_long = self.axes[0].length >= VECTOR_BYTES.div_ceil(u64::from(bytes));
        if bytes == 1 || !wants || !is_dense || !is_long {
            return self;
        }
        self.elements *= u64::from(bytes);
        self.axes[0].length *= u64::from(bytes);
        self.axes[0].target_step = 1;
        self.axes[0].source_step = i64::from(self.is_fill == 0);
        (self.source_bytes, self.target_bytes) = (1, 1);
        (self.source_dtype, self.target_dtype) = (Dtype::Raw as u8, Dtype::Raw as u8);
        self
    }

    /// The path, and the bytes of the target in a vector.
    fn fastest_path(&self) -> (Path, u64) {
        let source_bytes = u32::from(self.source_bytes);
        let has_planes = self.filter != Filter::None as u8
            && self.filter_typesize == source_bytes
            && self.filter_block_bytes.is_multiple_of(source_bytes)
            && source_bytes <= 4;
        let is_plain = self.filter == Filter::None as u8;
        let path = if self.change_records != 0 {
            None
        } else if self.is_fill != 0 {
            let fits = VECTOR_BYTES.is_multiple_of(u64::from(self.target_bytes));
            (self.has_dense_target() && fits).then_some(Path::Fill)
        } else if !self.has_dense_rows() {
            None
        } else if self.is_copy() {
            match source_bytes {
                1 | 2 | 4 | 8 | 16 if is_plain => Some(Path::Copy),
                1 | 2 | 4 if has_planes => Some(Path::Unshuffle),
                _ => None,
            }
        } else if is_plain || has_planes {
            self.float_path().filter(|_| source_bytes <= 4)
        } else {
            None
        };
        match path {
            Some(path) => (path, VECTOR_BYTES),
            None => (Path::Elements, u64::from(self.target_bytes)),
        }
    }

    fn float_path(&self) -> Option<Path> {
        match self.target_dtype {
            dtype if dtype == Dtype::F32 as u8 => Some(Path::F32),
            dtype if dtype == Dtype::Bf16 as u8 => Some(Path::Bf16),
            dtype if dtype == Dtype::F16 as u8 => Some(Path::F16),
            _ => None,
        }
    }
}
