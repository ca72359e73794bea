//! Kernels for rows of elements behind bounds.
//!
//! In: the kernels of a kind of work and the loop beside them (`loops`), a level. Out: the
//! [`DenseRows`] of this machine. Invariant: a kernel is only called whose instructions the level
//! has, and only gets rows that are in bounds.

use super::Level;
use crate::base::arena::{Rows, RowsMut};
use crate::loops::augment::{Hole, Steps};
use crate::loops::casts::{RowLoop, STRIP_BYTES};
use crate::loops::simd::{
    LevelKernel, RowFold, RowsKernels, StepsKernels, rows_streamed, steps_kernels,
};
use crate::records::Dtype;

/// A kernel that runs on this machine.
#[derive(Clone, Copy, Debug)]
struct RowsPath(LevelKernel);

/// Bytes of a cache line.
const LINE_BYTES: usize = 64;

fn is_whole_lines(rows: &mut RowsMut<'_>) -> bool {
    let places = [rows.as_mut_ptr() as usize, rows.pitch(), rows.row_bytes()];
    places.iter().all(|bytes| bytes.is_multiple_of(LINE_BYTES))
}

impl RowsPath {
    /// The best of these kernels at a level, if there is one.
    fn at(kernels: &RowsKernels, level: Level) -> Option<RowsPath> {
        kernels.at(level).map(RowsPath)
    }

    /// Whether source rows of `row_bytes` bytes are long enough.
    fn takes(&self, row_bytes: usize) -> bool {
        row_bytes >= self.0.length_min * self.0.source_bytes
    }

    /// Does all rows, as [`DenseRows::run`] says.
    fn run(&self, source: &Rows<'_>, target: &mut RowsMut<'_>, is_streamed: bool) {
        let LevelKernel { kernel, source_bytes, target_bytes, .. } = self.0;
        let length = source.row_bytes() / source_bytes;
        assert!(length >= self.0.length_min);
        assert!(source.count() == target.count());
        assert!(source.row_bytes() == length * source_bytes);
        assert!(target.row_bytes() == length * target_bytes);
        let (from, to) = (source.as_ptr(), target.as_mut_ptr());
        let is_whole_lines = is_whole_lines(target);
        let (source_pitch, target_pitch) = (source.pitch(), target.pitch());
        let count = source.count();
        // SAFETY: the level has the kernel's instructions. Both views have `count` rows of `length`
        // elements, in bounds by their own invariants. Streams get rows that are whole lines.
        unsafe {
            if self.0.can_stream && is_streamed && is_whole_lines {
                let element_bytes = (source_bytes, target_bytes);
                let (from, to) = ((from, source_pitch), (to, target_pitch));
                rows_streamed(kernel, element_bytes, from, to, count, length);
            } else {
                kernel(from, source_pitch, to, target_pitch, count, length);
            }
        }
    }
}

/// Rows of elements side by side: a kernel, if there is one, and the loop that also does rows too
/// short for it.
#[derive(Clone, Copy, Debug)]
pub struct DenseRows {
    path: Option<RowsPath>,
    portable: RowLoop,
}

impl DenseRows {
    /// The best of these kernels at a level, and the loop that gives the same bits.
    pub fn at(kernels: &RowsKernels, portable: RowLoop, level: Level) -> DenseRows {
        DenseRows { path: RowsPath::at(kernels, level), portable }
    }

    /// Does all rows of `source` into those of `target`, which has as many of as many elements.
    ///
    /// `is_streamed`: the target is not read soon, so it need not be in the caches. If the rows are
    /// whole cache lines and a kernel does them they are then stored past the caches, which saves
    /// reading them first; of any other rows that would write parts of lines, and takes up to twice
    /// as long. [`stream_fence`] has to be called before others learn of them.
    pub fn run(&self, source: &Rows<'_>, target: &mut RowsMut<'_>, is_streamed: bool) {
        match self.path {
            Some(path) if path.takes(source.row_bytes()) => path.run(source, target, is_streamed),
            _ => self.run_portable(source, target),
        }
    }

    fn run_portable(&self, source: &Rows<'_>, target: &mut RowsMut<'_>) {
        match self.portable {
            RowLoop::Single(portable) => {
                (0..target.count()).for_each(|row| portable(source.row(row), target.row(row)));
            }
            RowLoop::Double(loops) => {
                let mut strip = [0; STRIP_BYTES];
                for row in 0..target.count() {
                    loops.row(source.row(row), target.row(row), &mut strip);
                }
            }
        }
    }
}

/// Rows of elements that become floats, go through steps and become elements of a field, in one
/// pass: the bits of a cast to floats, [`crate::loops::augment::run`] and a cast of what it gives.
#[derive(Clone, Copy, Debug)]
pub struct SteppedRows {
    kernels: StepsKernels,
    source_bytes: usize,
    target_bytes: usize,
}

impl SteppedRows {
    /// From one type to another, if the level has such a kernel.
    pub fn at(level: Level, source: Dtype, target: Dtype) -> Option<SteppedRows> {
        let [source_bytes, target_bytes] = [source, target].map(|dtype| dtype.bytes() as usize);
        let kernels = steps_kernels(level, source, target)?;
        Some(SteppedRows { kernels, source_bytes, target_bytes })
    }

    /// Bytes of a source element.
    pub fn source_bytes(&self) -> u64 {
        self.source_bytes as u64
    }

    /// Does all rows of `source` into those of `target`, which has as many, all of `length`
    /// elements: from the last element of each on if they run backwards. The hole is one of the
    /// target. `is_streamed`: see [`DenseRows::run`].
    pub fn run(
        &self,
        (steps, hole): (&Steps, &Hole),
        length: usize,
        (source, is_backwards): (&Rows<'_>, bool),
        target: &mut RowsMut<'_>,
        is_streamed: bool,
    ) {
        assert!(length > 0);
        assert!(source.count() == target.count());
        assert!(source.row_bytes() == length * self.source_bytes);
        assert!(target.row_bytes() == length * self.target_bytes);
        let kernel = self.kernels.rows[usize::from(is_streamed && is_whole_lines(target))];
        let (from, to) = (source.as_ptr(), target.as_mut_ptr());
        let (from, to) = ((from, source.pitch()), (to, target.pitch()));
        // SAFETY: the level has the kernel's instructions. Both views have `count` rows of `length`
        // elements, in bounds by their own invariants. Streams get rows that are whole lines.
        unsafe { kernel((steps, hole), is_backwards, from, to, source.count(), length) }
    }

    /// Does all rows of `source` into those of `target`, which has as many, of the lengths that the
    /// fold says.
    pub fn run_folded(
        &self,
        steps: &Steps,
        fold: &RowFold,
        source: &Rows<'_>,
        target: &mut RowsMut<'_>,
    ) {
        assert!(source.count() == target.count());
        assert!(source.row_bytes() == fold.source_length() * self.source_bytes);
        assert!(target.row_bytes() == fold.length() * self.target_bytes);
        let (from, to) = (source.as_ptr(), target.as_mut_ptr());
        let (from, to) = ((from, source.pitch()), (to, target.pitch()));
        // SAFETY: the level has the kernel's instructions. Both views have `count` rows of as many
        // elements as the fold has, in bounds by their own invariants.
        unsafe { (self.kernels.folded)(steps, fold, from, to, source.count()) }
    }
}
