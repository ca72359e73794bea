//! Reads boxes into memory of the test, between guards, and compares every byte.
//!
//! In: a loader and jobs, each with the bytes it must give. Invariant: a box has every place of its
//! target, whatever its strides, and no byte beside them.

use crate::common::drive::{Dice, Job, PATIENCE_NS};
use wavetrain::loader::{Failure, Loader, Part};
use wavetrain::status::Status;

/// A byte that no place has before a read.
const GUARD: u8 = 0xA7;
const GUARD_BYTES: usize = 64;

/// Places of a box in a block of memory.
pub struct Layout {
    pub extents: Vec<usize>,
    /// Bytes from one place to the next along each axis; None: row-major.
    pub strides: Option<Vec<i64>>,
    pub element_bytes: usize,
    /// Offset of the first place in the block.
    first: usize,
    /// Bytes from the lowest place to behind the highest.
    span: usize,
}

impl Layout {
    /// Row by row.
    pub fn row_major(extents: &[u64], element_bytes: usize) -> Layout {
        let extents: Vec<usize> = extents.iter().map(|extent| *extent as usize).collect();
        let span = extents.iter().product::<usize>() * element_bytes;
        Layout { extents, strides: None, element_bytes, first: GUARD_BYTES, span }
    }

    /// Axes in any order, with gaps, some of them backwards.
    pub fn strided(extents: &[u64], element_bytes: usize, dice: &mut Dice) -> Layout {
        let mut layout = Layout::row_major(extents, element_bytes);
        let mut order: Vec<usize> = (0..extents.len()).collect();
        for at in (1..order.len()).rev() {
            order.swap(at, dice.range(0, at as i64 + 1) as usize);
        }
        let mut strides = vec![0; extents.len()];
        let (mut span, mut first) = (element_bytes, 0);
        for axis in order {
            let stride = span + dice.range(0, 3) as usize * dice.range(0, 9) as usize;
            let reach = (layout.extents[axis] - 1) * stride;
            let is_back = dice.range(0, 3) == 0;
            strides[axis] = if is_back { -(stride as i64) } else { stride as i64 };
            first += if is_back { reach } else { 0 };
            span += reach;
        }
        (layout.strides, layout.span) = (Some(strides), span);
        layout.first = GUARD_BYTES + first;
        layout
    }

    /// Takes a byte off what may be written.
    pub fn shorten(&mut self, bytes: usize) {
        self.span -= bytes;
    }

    /// Calls `each` with the offset of every place in the block, row by row.
    fn places(&self, mut each: impl FnMut(usize)) {
        let mut row_major = vec![0i64; self.extents.len()];
        let mut stride = self.element_bytes as i64;
        for axis in (0..self.extents.len()).rev() {
            row_major[axis] = stride;
            stride *= self.extents[axis] as i64;
        }
        let strides = self.strides.as_ref().unwrap_or(&row_major);
        for number in 0..self.extents.iter().product::<usize>() {
            let (mut rest, mut offset) = (number, self.first as i64);
            for axis in (0..self.extents.len()).rev() {
                offset += (rest % self.extents[axis]) as i64 * strides[axis];
                rest /= self.extents[axis];
            }
            each(offset as usize);
        }
    }
}

/// Reads a box to such places: its bytes, row by row. Panics if another byte has changed.
pub fn read(
    loader: &Loader,
    part: &Part<'_>,
    layout: &Layout,
    timeout_ns: u64,
) -> Result<Vec<u8>, Failure> {
    let mut block = vec![GUARD; layout.span + 2 * GUARD_BYTES];
    let target = (block[layout.first..].as_mut_ptr(), layout.span as u64);
    // SAFETY: the places of the layout lie in the block, which nobody else has.
    let result = unsafe { loader.read_into(part, target, layout.strides.as_deref(), timeout_ns) };
    let mut packed = Vec::new();
    let mut is_place = vec![false; block.len()];
    layout.places(|offset| {
        packed.extend_from_slice(&block[offset..offset + layout.element_bytes]);
        is_place[offset..offset + layout.element_bytes].fill(true);
    });
    let mut beside = block.iter().zip(&is_place).filter(|(_, is_place)| !**is_place);
    assert!(beside.all(|(byte, _)| *byte == GUARD), "a byte beside the places has changed");
    result.map(|()| packed)
}

/// The box of a job.
pub fn part(job: &Job) -> Part<'_> {
    Part { uri: &job.uri, begin: &job.begin, end: &job.end, ..Part::default() }
}

/// Reads each box twice, row by row and in other places, and checks it.
pub fn check_each(loader: &Loader, element_bytes: usize, jobs: &[Job]) {
    let mut dice = Dice(0x1234_5678_9ABC_DEF1);
    for (number, job) in jobs.iter().enumerate() {
        for is_strided in [false, true] {
            let layout = match is_strided {
                false => Layout::row_major(&job.extents(), element_bytes),
                true => Layout::strided(&job.extents(), element_bytes, &mut dice),
            };
            let read = read(loader, &part(job), &layout, PATIENCE_NS);
            // A caller is told of a chunk that is NaN in a batch.
            let want = if job.mark == Status::Ok { job.want.as_ref() } else { Err(&job.mark) };
            match (want, read) {
                (Ok(want), Ok(read)) => {
                    assert!(*want == read, "box {number} of {} has other bytes", job.uri);
                }
                (Err(status), Err(failure)) => assert_eq!(failure.status, *status, "{failure}"),
                (Ok(_), Err(failure)) => panic!("box {number} of {}: {failure}", job.uri),
                (Err(status), Ok(_)) => panic!("box {number} of {}: no {status:?}", job.uri),
            }
        }
    }
}
