//! Kernels for rows of elements, and who may run them.
//!
//! In: tables of kernels, made where the instructions are. Out: a [`RowsPath`] that this machine
//! can take. Invariant: a path is only made of a kernel whose instructions the level has, and its
//! kernel only gets rows that are in bounds.

use super::Level;
use super::level::Tier;
use crate::base::arena::{Rows, RowsMut};

/// All rows of a plane: source and the distance of its rows, target and the distance of its rows,
/// number of rows, elements of a row.
///
/// # Safety
/// The CPU has the kernel's instructions. There are that many rows of at least so many elements as
/// the kernel takes, valid for reads and for writes.
pub(super) type Kernel = unsafe fn(*const u8, isize, *mut u8, usize, usize, usize);

/// The vector kernels of one kind of work.
#[derive(Debug)]
pub struct RowsKernels {
    pub(super) source_bytes: usize,
    pub(super) target_bytes: usize,
    /// With AVX-512; takes rows of one element or more.
    pub(super) wide: Option<Kernel>,
    /// With AVX-512 and stores past the caches; takes rows that are whole lines at lines.
    pub(super) streamed: Option<Kernel>,
    /// With AVX2; takes rows of `narrow_length_min` elements or more.
    pub(super) narrow: Option<Kernel>,
    pub(super) narrow_length_min: usize,
}

impl RowsKernels {
    /// No kernel at any level.
    pub const NONE: RowsKernels = RowsKernels {
        source_bytes: 1,
        target_bytes: 1,
        wide: None,
        streamed: None,
        narrow: None,
        narrow_length_min: 0,
    };

    /// The best kernel of a level, if there is one.
    pub fn at(&self, level: Level) -> Option<RowsPath> {
        let narrow = || Some((self.narrow?, self.narrow_length_min));
        let is_wide = matches!(level.tier(), Tier::Avx512 | Tier::Avx512Gfni);
        let (kernel, length_min) = match level.tier() {
            Tier::Avx512 | Tier::Avx512Gfni => self.wide.map(|wide| (wide, 1)).or_else(narrow),
            Tier::Avx2 => narrow(),
            Tier::Baseline => None,
        }?;
        let streamed = self.streamed.filter(|_| is_wide);
        let RowsKernels { source_bytes, target_bytes, .. } = *self;
        Some(RowsPath { kernel, streamed, source_bytes, target_bytes, length_min })
    }
}

/// A kernel that runs on this machine.
#[derive(Clone, Copy, Debug)]
pub struct RowsPath {
    kernel: Kernel,
    streamed: Option<Kernel>,
    source_bytes: usize,
    target_bytes: usize,
    length_min: usize,
}

/// Bytes of a cache line.
const LINE_BYTES: usize = 64;

impl RowsPath {
    /// Whether source rows of `row_bytes` bytes are long enough.
    pub fn takes(&self, row_bytes: usize) -> bool {
        row_bytes >= self.length_min * self.source_bytes
    }

    /// Does all rows of `source` into those of `target`, which has as many of as many elements.
    ///
    /// `is_streamed`: the target is not read soon, so it need not be in the caches. Where the rows
    /// are whole cache lines they are then stored past the caches, which saves reading them first;
    /// of any other rows that would write parts of lines, and takes up to twice as long.
    pub fn run(&self, source: &Rows<'_>, target: &mut RowsMut<'_>, is_streamed: bool) {
        let length = source.row_bytes() / self.source_bytes;
        assert!(length >= self.length_min);
        assert!(source.count() == target.count());
        assert!(source.row_bytes() == length * self.source_bytes);
        assert!(target.row_bytes() == length * self.target_bytes);
        let (from, to) = (source.as_ptr(), target.as_mut_ptr());
        let is_whole_lines = [to as usize, target.pitch(), target.row_bytes()]
            .iter()
            .all(|bytes| bytes.is_multiple_of(LINE_BYTES));
        let streamed = self.streamed.filter(|_| is_streamed && is_whole_lines);
        // SAFETY: `at` gave the kernel to a level that has its instructions. Both views have
        // `count` rows of `length` elements, in bounds by their own invariants. A streamed kernel
        // gets rows that are whole lines.
        unsafe {
            let kernel = streamed.unwrap_or(self.kernel);
            kernel(from, source.pitch(), to, target.pitch(), source.count(), length);
        }
    }
}
