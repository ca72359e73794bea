//! Kernels for rows of elements, and which of them a level has.

use super::Level;
use super::level::Tier;
use crate::loops::augment::{Hole, Steps};
use arrayvec::ArrayVec;

/// Does all rows: source and the distance of its rows, target and the distance of its rows, number
/// of rows, elements of a row.
///
/// # Safety
/// The CPU has the kernel's instructions. There are that many rows of at least so many elements as
/// the kernel takes, valid for reads and for writes.
pub type Kernel = unsafe fn(*const u8, isize, *mut u8, usize, usize, usize);

/// Takes rows through steps, but for the places of a hole: whether they run backwards, source and
/// the distance of its rows, target and the distance of its rows, number of rows, elements of a
/// row. A row begins with its lowest byte in either direction.
///
/// # Safety
/// As for a [`Kernel`]; a row has one element at least.
pub type StepsKernel =
    unsafe fn((&Steps, &Hole), bool, (*const u8, isize), (*mut u8, usize), usize, usize);

/// The same for rows that are folded: source and the distance of its rows, target and the distance
/// of its rows, number of rows.
///
/// # Safety
/// As for a [`Kernel`]: rows have as many elements as the fold says on each side.
pub type FoldKernel = unsafe fn(&Steps, &RowFold, (*const u8, isize), (*mut u8, usize), usize);

/// The kernels that take rows through steps: one that stores, one that stores past the caches, and
/// one for rows that are folded.
#[derive(Clone, Copy, Debug)]
pub struct StepsKernels {
    /// By whether they store past the caches.
    pub rows: [StepsKernel; 2],
    /// It stores.
    pub folded: FoldKernel,
}

/// Elements of a vector of a fold.
pub(super) const FOLD_WIDE: usize = 16;

/// Most vectors of a fold.
const FOLD_VECTORS_MAX: usize = 16;

/// Elements of a row that lie in another order in the source, or several times: a mirrored edge.
/// Those of a vector lie among as many.
#[derive(Clone, Debug)]
pub struct RowFold {
    vectors: ArrayVec<FoldedVector, FOLD_VECTORS_MAX>,
    source_length: usize,
    length: usize,
}

/// A vector of the target.
#[derive(Clone, Copy, Debug)]
pub(super) struct FoldedVector {
    /// The lane of the source that each lane takes.
    pub order: [u32; FOLD_WIDE],
    /// First element of the source.
    pub first: usize,
    /// Lanes of the source.
    pub source: u16,
    /// Lanes of the target.
    pub target: u16,
}

impl RowFold {
    /// A row whose places take `runs` of the source, one after another: the first element of each
    /// run, the step to the next one and their number. The lowest of all elements is `first`. None
    /// if the row is too long, or elements of a vector are too far apart.
    pub fn new(runs: &[(u64, i64, u64)], first: u64) -> Option<RowFold> {
        let mut fold = RowFold { vectors: ArrayVec::new(), source_length: 0, length: 0 };
        let mut lanes = ArrayVec::<usize, FOLD_WIDE>::new();
        for (source, step, length) in runs {
            let mut element = (*source - first) as usize;
            for _ in 0..*length {
                if lanes.is_full() {
                    fold.add(&lanes)?;
                    lanes.clear();
                }
                lanes.push(element);
                element = element.wrapping_add_signed(*step as isize);
            }
        }
        fold.add(&lanes)?;
        Some(fold)
    }

    fn add(&mut self, lanes: &[usize]) -> Option<()> {
        let low = lanes.iter().fold(usize::MAX, |low, element| low.min(*element));
        let high = lanes.iter().fold(0, |high, element| high.max(*element));
        if lanes.is_empty() || high - low >= FOLD_WIDE {
            return None;
        }
        let mask = |lanes: usize| u16::MAX >> (FOLD_WIDE - lanes);
        let mut order = [0; FOLD_WIDE];
        let each = order.iter_mut().zip(lanes);
        each.for_each(|(lane, element)| *lane = (element - low) as u32);
        let (source, target) = (mask(high - low + 1), mask(lanes.len()));
        self.vectors.try_push(FoldedVector { order, first: low, source, target }).ok()?;
        self.source_length = self.source_length.max(high + 1);
        self.length += lanes.len();
        Some(())
    }

    /// Its vectors, in order.
    pub(super) fn vectors(&self) -> &[FoldedVector] {
        &self.vectors
    }

    /// Elements of a row of the source, from the first to the last that is read.
    pub fn source_length(&self) -> usize {
        self.source_length
    }

    /// Elements of a row of the target.
    pub fn length(&self) -> usize {
        self.length
    }
}

/// The vector kernels of one kind of work.
#[derive(Clone, Copy, Debug)]
pub struct RowsKernels {
    /// Bytes of a source element.
    pub(super) source_bytes: usize,
    /// Bytes of a target element.
    pub(super) target_bytes: usize,
    /// With AVX-512; takes rows of one element or more.
    pub(super) wide: Option<Kernel>,
    /// Whether it is worth to store what the wide kernel gives past the caches.
    pub(super) can_stream: bool,
    /// With AVX2; takes rows of `narrow_length_min` elements or more.
    pub(super) narrow: Option<Kernel>,
    pub(super) narrow_length_min: usize,
}

/// The best kernel of a level.
#[derive(Clone, Copy, Debug)]
pub struct LevelKernel {
    /// The kernel.
    pub kernel: Kernel,
    /// Bytes of a source element.
    pub source_bytes: usize,
    /// Bytes of a target element.
    pub target_bytes: usize,
    /// The elements that a row must have.
    pub length_min: usize,
    /// Whether [`super::rows_streamed`] takes it.
    pub can_stream: bool,
}

impl RowsKernels {
    /// No kernel at any level.
    pub const NONE: RowsKernels = RowsKernels {
        source_bytes: 1,
        target_bytes: 1,
        wide: None,
        can_stream: false,
        narrow: None,
        narrow_length_min: 0,
    };

    /// The best kernel of a level, if there is one: the CPU has its instructions.
    pub fn at(&self, level: Level) -> Option<LevelKernel> {
        let RowsKernels { source_bytes, target_bytes, .. } = *self;
        let wide = self.wide.filter(|_| level.tier() >= Tier::Avx512);
        let narrow = self.narrow.filter(|_| level.tier() >= Tier::Avx2);
        let length_min = if wide.is_some() { 1 } else { self.narrow_length_min };
        let can_stream = wide.is_some() && self.can_stream;
        let kernel = wide.or(narrow)?;
        Some(LevelKernel { kernel, source_bytes, target_bytes, length_min, can_stream })
    }
}
