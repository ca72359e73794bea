//! Kernels for rows of elements, and which of them a level has.

use super::Level;
use super::level::Tier;
use crate::loops::augment::Steps;

/// Does all rows: source and the distance of its rows, target and the distance of its rows, number
/// of rows, elements of a row.
///
/// # Safety
/// The CPU has the kernel's instructions. There are that many rows of at least so many elements as
/// the kernel takes, valid for reads and for writes.
pub type Kernel = unsafe fn(*const u8, isize, *mut u8, usize, usize, usize);

/// Takes rows through steps: whether they run backwards, source and the distance of its rows,
/// target and the distance of its rows, number of rows, elements of a row. A row begins with its
/// lowest byte in either direction.
///
/// # Safety
/// As for a [`Kernel`]; a row has one element at least.
pub type StepsKernel = unsafe fn(&Steps, bool, (*const u8, isize), (*mut u8, usize), usize, usize);

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
