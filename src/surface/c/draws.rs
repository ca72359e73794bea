//! Draws, tables, boxes and costs of include/wavetrain_epoch.h, where the contract is.
//!
//! In: pointers and structs of the caller. Out: numbers, written where all fits together.
//! Invariant: pointers are used as `epoch` says.

use super::epoch::{
    EpochRecord, NO_INDEX, ShuffleRecord, Walk, copy_of, if_wanted, is_usable, shuffle_of, values,
    values_mut,
};
use crate::sampler::{
    self, Begin, Boxes, Cost, End, Grid, Misfit, Mixture, Place, SAMPLES_MAX, Share,
};

const JITTER: u32 = 1;

const GRID: u32 = 0;
const ANYWHERE: u32 = 1;
const AROUND: u32 = 2;

/// Axes of a box.
const AXES: usize = 16;

/// Puts `number` of each position into `out`, which may be the same memory.
///
/// # Safety
/// Pointers are NULL or as the header says.
unsafe fn each_number(
    positions: *const u64,
    count: u64,
    out: *mut u64,
    number: impl Fn(u64) -> u64,
) -> i32 {
    if !is_usable(positions, count) || !is_usable(out, count) {
        return 0;
    }
    for at in 0..count as usize {
        // SAFETY: both are usable; a position is read before the number takes its place.
        unsafe { out.add(at).write(number(positions.add(at).read())) };
    }
    1
}

// ---- Randomness ---------------------------------------------------------------------------------

/// See the header.
///
/// # Safety
/// Pointers are NULL or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wavetrain_philox(key: u64, counter: *const u32, out: *mut u32) -> i32 {
    if !is_usable(counter, 4) || !is_usable(out, 4) {
        return 0;
    }
    // SAFETY: four words are readable and four writable; they are copied, so both may be the same.
    unsafe {
        let counter = counter.cast::<[u32; 4]>().read();
        out.cast::<[u32; 4]>().write(sampler::philox(key, counter));
    }
    1
}

/// See the header.
///
/// # Safety
/// Pointers are NULL or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wavetrain_below_many(
    n: u64,
    key: u64,
    lane: u32,
    positions: *const u64,
    count: u64,
    out: *mut u64,
) -> i32 {
    // SAFETY: as the header says of both pointers.
    unsafe { each_number(positions, count, out, |at| sampler::below(n, key, at, lane)) }
}

/// See the header.
///
/// # Safety
/// Pointers are NULL or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wavetrain_permute_many(
    n: u64,
    key: u64,
    positions: *const u64,
    count: u64,
    out: *mut u64,
) -> i32 {
    let number = |at| sampler::permute(n, key, at).unwrap_or(NO_INDEX);
    // SAFETY: as the header says of both pointers.
    unsafe { each_number(positions, count, out, number) }
}

// ---- Splits, weights, mixtures ------------------------------------------------------------------

/// See the header.
///
/// # Safety
/// Pointers are NULL or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wavetrain_part_begin(
    n: u64,
    weights: *const u32,
    parts: u32,
    part: u32,
) -> u64 {
    // SAFETY: as the header says of the pointer.
    let weights = unsafe { values(weights, parts.into()) };
    weights.map_or(0, |weights| sampler::part(n, weights, part as usize).start)
}

/// See the header.
///
/// # Safety
/// Pointers are NULL or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wavetrain_group(
    label_of: *const u32,
    n: u64,
    labels: u32,
    ends: *mut u64,
    table: *mut u64,
) -> i32 {
    // SAFETY: as the header says of all pointers.
    let grouped = unsafe {
        (|| {
            let (label_of, ends) = (values(label_of, n)?, values_mut(ends, labels.into())?);
            sampler::group(label_of, ends, values_mut(table, n)?).ok()
        })()
    };
    grouped.is_some().into()
}

/// See the header.
///
/// # Safety
/// Pointers are NULL or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wavetrain_stratify(
    ends: *const u64,
    labels: u32,
    table: *const u64,
    weights: *const u32,
    parts: u32,
    part: u32,
    seed: u64,
    subset: *mut u64,
) -> u64 {
    // SAFETY: as the header says of all pointers: the table has as many samples as the last end.
    let count = unsafe {
        (|| {
            let ends = values(ends, labels.into())?;
            let n = ends.last().copied().unwrap_or(0);
            let (table, weights) = (values(table, n)?, values(weights, parts.into())?);
            let subset = values_mut(subset, n)?;
            sampler::stratify(ends, table, weights, part as usize, seed, subset).ok()
        })()
    };
    count.unwrap_or(0) as u64
}

/// See the header.
///
/// # Safety
/// Pointers are NULL or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wavetrain_accumulate(weights: *mut u64, n: u64) -> i32 {
    // SAFETY: as the header says of the pointer.
    let weights = unsafe { values_mut(weights, n) };
    weights.is_some_and(|weights| sampler::accumulate(weights).is_ok()).into()
}

/// See the header.
///
/// # Safety
/// Pointers are NULL or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wavetrain_weighted_many(
    sums: *const u64,
    n: u64,
    seed: u64,
    places: *const Place,
    count: u64,
    indices: *mut u64,
) -> i32 {
    // SAFETY: as the header says of all pointers.
    let drawn = unsafe {
        (|| {
            let (sums, places) = (values(sums, n)?, values(places, count)?);
            for (place, index) in places.iter().zip(values_mut(indices, count)?) {
                *index = sampler::weighted(sums, seed, *place).unwrap_or(NO_INDEX);
            }
            Some(())
        })()
    };
    drawn.is_some().into()
}

/// See the header.
///
/// # Safety
/// Pointers are NULL or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wavetrain_mixed_many(
    shares: *const Share,
    share_count: u32,
    seed: u64,
    places: *const Place,
    count: u64,
    sources: *mut u32,
    indices: *mut u64,
) -> i32 {
    // SAFETY: as the header says of all pointers.
    let drawn = unsafe {
        (|| {
            let mixture = Mixture::new(values(shares, share_count.into())?).ok()?;
            let (places, sources) = (values(places, count)?, values_mut(sources, count)?);
            let each = sources.iter_mut().zip(values_mut(indices, count)?);
            for (place, (source, index)) in places.iter().zip(each) {
                let (of, sample) = mixture.at(seed, *place)?;
                (*source, *index) = (of as u32, sample);
            }
            Some(())
        })()
    };
    drawn.is_some().into()
}

// ---- Boxes --------------------------------------------------------------------------------------

/// wavetrain_boxes
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct BoxesRecord {
    pub rank: u32,
    pub flags: u32,
    pub shape: [u64; AXES],
    pub extents: [u64; AXES],
    pub step: [u64; AXES],
    pub margin: [u64; AXES],
    pub chunk: [u64; AXES],
}

impl BoxesRecord {
    fn boxes(&self) -> Result<Boxes, Misfit> {
        let rank = self.rank as usize;
        if rank > AXES {
            return Err(Misfit::Grid);
        }
        Boxes::new(Grid {
            shape: &self.shape[..rank],
            extents: &self.extents[..rank],
            step: &self.step[..rank],
            margin: &self.margin[..rank],
            chunk: &self.chunk[..rank],
            jitters: self.flags & JITTER != 0,
        })
    }
}

/// See the header.
///
/// # Safety
/// Pointers are NULL or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wavetrain_boxes_count(
    boxes: *const BoxesRecord,
    arrays: u64,
    ends: *mut End,
) -> u64 {
    // SAFETY: as the header says of both pointers.
    let count = unsafe {
        (|| {
            let (grids, ends) = (values(boxes, arrays)?, if_wanted(ends, arrays)?);
            let (mut sum, mut count) = (End::default(), 0u64);
            for (array, record) in grids.iter().enumerate() {
                let grid = record.boxes().ok()?;
                count = count.checked_add(grid.count()).filter(|count| *count <= SAMPLES_MAX)?;
                if let Some(end) = ends.get_mut(array) {
                    sum = sum.with(&grid).ok()?;
                    *end = sum;
                }
            }
            Some(count)
        })()
    };
    count.unwrap_or(0)
}

/// See the header.
///
/// # Safety
/// Pointers are NULL or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wavetrain_boxes_find(
    ends: *const End,
    arrays: u64,
    index: u64,
    number: *mut u64,
) -> u64 {
    if !is_usable(number, 1) {
        return arrays;
    }
    // SAFETY: as the header says of both pointers, of which `number` is usable.
    unsafe {
        let found = values(ends, arrays).and_then(|ends| End::find(ends, index));
        let Some((array, at)) = found else { return arrays };
        number.write(at);
        array as u64
    }
}

/// See the header.
///
/// # Safety
/// Pointers are NULL or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wavetrain_boxes_many(
    boxes: *const BoxesRecord,
    from: u32,
    seed: u64,
    places: *const Place,
    points: *const u64,
    count: u64,
    begins: *mut i64,
) -> u64 {
    // SAFETY: as the header says of all pointers; there are `rank` numbers for each place.
    let written = unsafe {
        (|| {
            let boxes = copy_of(boxes)?.boxes().ok()?;
            let numbers = count.checked_mul(boxes.rank() as u64)?;
            let (places, begins) = (values(places, count)?, values_mut(begins, numbers)?);
            let points = if from == AROUND { values(points, numbers)? } else { &[] };
            Some(write_begins(&boxes, from, seed, places, points, begins))
        })()
    };
    written.unwrap_or(0)
}

/// Writes where boxes begin; how many, up to the first place without one.
fn write_begins(
    boxes: &Boxes,
    from: u32,
    seed: u64,
    places: &[Place],
    points: &[u64],
    begins: &mut [i64],
) -> u64 {
    let rank = boxes.rank();
    for (at, place) in places.iter().enumerate() {
        let numbers = at * rank..(at + 1) * rank;
        let begin: Option<Begin> = match from {
            GRID => boxes.at(place.position, seed, place.epoch),
            ANYWHERE => Some(boxes.anywhere(seed, *place)),
            AROUND => boxes.around(&points[numbers.clone()], seed, *place),
            _ => None,
        };
        let Some(begin) = begin else { return at as u64 };
        begins[numbers].copy_from_slice(&begin);
    }
    places.len() as u64
}

/// See the header.
///
/// # Safety
/// Pointers are NULL or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wavetrain_epoch_cost(
    epoch: *const EpochRecord,
    shuffle: *const ShuffleRecord,
    boxes: *const BoxesRecord,
    ends: *const End,
    arrays: u64,
    words: *mut u64,
    word_count: u64,
    cost: *mut Cost,
) -> i32 {
    // SAFETY: as the header says of all pointers.
    let answer = unsafe {
        (|| {
            let Walk::Chunks(chunks) = Walk::kept(&copy_of(epoch)?, shuffle_of(shuffle)?).ok()?
            else {
                return None;
            };
            let (grids, ends) = (values(boxes, arrays)?, values(ends, arrays)?);
            let words = values_mut(words, word_count)?;
            if !is_usable(cost, 1) {
                return None;
            }
            let grid = |array: usize| grids[array].boxes();
            let found = sampler::cost_of(&chunks, ends, grid, words);
            found
                .map(|found| cost.write(found))
                .map_or_else(|why| (why == Misfit::Memory).then_some(0), |()| Some(1))
        })()
    };
    answer.unwrap_or(-1)
}
