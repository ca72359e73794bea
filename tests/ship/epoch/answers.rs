//! What the library's functions answer to the questions that tests/c/epoch.c documents.
//!
//! They are called as C calls them, and most of them for one sample at a time and for all at once,
//! which must be the same.

#![expect(
    clippy::undocumented_unsafe_blocks,
    reason = "each call passes references, and lists with their own lengths"
)]

use crate::questions::words;
use std::fmt::Write as _;
use std::ptr::{null, null_mut};
use wavetrain::sampler::{Cost, End, Place, Share, key, mix, purpose};
use wavetrain::surface::c::draws::*;
use wavetrain::surface::c::epoch::*;

const NO_SAMPLE: u64 = u64::MAX;

const GRID: u32 = 0;
const ANYWHERE: u32 = 1;
const AROUND: u32 = 2;

/// The answer to a question.
pub fn answer(question: &str) -> String {
    let (word, rest) = question.split_once(' ').unwrap();
    let n: Vec<u64> = rest.split(' ').map(|number| number.parse().unwrap()).collect();
    match word {
        "mix" => words([mix(n[0], n[1])]),
        "key" => words([key(n[0], n[1], n[2])]),
        "high" => words([((u128::from(n[0]) * u128::from(n[1])) >> 64) as u64]),
        "philox" => philox(&n),
        "below" => numbers(n[2], n[4], |at, count, out| unsafe {
            wavetrain_below_many(n[0], n[1], n[3] as u32, at, count, out)
        }),
        "permute" => numbers(n[2], n[3], |at, count, out| unsafe {
            wavetrain_permute_many(n[0], n[1], at, count, out)
        }),
        "deal" => deal(&n, None, &n[3..6], &n[6..]),
        "free" => {
            let shuffle = ShuffleRecord { run: n[5], window: n[6] };
            deal(&n, Some(shuffle), &[n[3], n[4], 1], &n[7..])
        }
        "at" => at(&n),
        "depends" => {
            let mut epoch = begun(&n, None).1;
            let count = (n.len() - 3) as u64;
            assert_eq!(unsafe { wavetrain_epoch_depends_on(&mut epoch, &n[3], count) }, 1);
            words([epoch.state.order_hash])
        }
        "resume" => {
            let (mut epoch, mut other) = (begun(&n, None).1, begun(&n[3..], None).1);
            other.state.position = n[6];
            words([unsafe { wavetrain_epoch_resume(&mut epoch, null(), &other.state) } as u64])
        }
        "parts" => {
            let weights = narrow(&n[2..]);
            let begin = |part| unsafe {
                wavetrain_part_begin(n[0], weights.as_ptr(), n[1] as u32, part as u32)
            };
            words((0..=n[1]).map(begin))
        }
        "group" => match grouped(&n) {
            Some((ends, table)) => words([1].into_iter().chain(ends).chain(table)),
            None => " 0".to_owned(),
        },
        "stratify" => stratified(&n),
        "weighted" => weighted(&n),
        "mixed" => mixed(&n),
        "boxes" => boxes(GRID, &n),
        "anywhere" => boxes(ANYWHERE, &n),
        "around" => boxes(AROUND, &n),
        "arrays" => arrays(&n),
        "cost" => cost_of(&n),
        _ => panic!("{question}"),
    }
}

fn narrow(numbers: &[u64]) -> Vec<u32> {
    numbers.iter().map(|number| *number as u32).collect()
}

fn philox(n: &[u64]) -> String {
    let mut words_of = narrow(&n[1..5]);
    let all = words_of.as_mut_ptr();
    assert_eq!(unsafe { wavetrain_philox(n[0], all, all) }, 1);
    words(words_of.into_iter().map(u64::from))
}

/// The numbers of positions, in place and elsewhere.
fn numbers(first: u64, count: u64, call: impl Fn(*const u64, u64, *mut u64) -> i32) -> String {
    let mut positions: Vec<u64> = (0..count).map(|k| first.wrapping_add(k)).collect();
    let mut out = vec![7; count as usize];
    assert_eq!(call(positions.as_ptr(), count, out.as_mut_ptr()), 1);
    let place = positions.as_mut_ptr();
    assert_eq!((call(place, count, place), &positions), (1, &out));
    words(out)
}

// ---- Epochs -------------------------------------------------------------------------------------

fn pointer(shuffle: &Option<ShuffleRecord>) -> *const ShuffleRecord {
    shuffle.as_ref().map_or(null(), std::ptr::from_ref)
}

/// N SEED FLAGS
fn begun(n: &[u64], shuffle: Option<ShuffleRecord>) -> (i32, EpochRecord) {
    let mut epoch = EpochRecord { n: 5, ..EpochRecord::default() };
    let shuffle = pointer(&shuffle);
    let answer = unsafe { wavetrain_epoch_begin(&mut epoch, shuffle, n[0], n[1], n[2] as u32) };
    (answer, epoch)
}

fn look(epoch: &EpochRecord, shuffle: *const ShuffleRecord) -> EpochView {
    let mut view = EpochView::default();
    let is_right = unsafe { wavetrain_epoch_look(epoch, shuffle, &mut view) };
    assert_eq!(is_right as u32 + view.is_wrong, 1);
    view
}

/// N SEED FLAGS; RANK WORLD BATCH; EPOCH POSITION COUNT
fn deal(n: &[u64], of: Option<ShuffleRecord>, ranks: &[u64], from: &[u64]) -> String {
    let (answer, mut epoch) = begun(n, of);
    if answer == 0 {
        assert_eq!(look(&epoch, pointer(&of)).is_wrong, 1);
        return " 0".to_owned();
    }
    [epoch.rank, epoch.world, epoch.batch] = [0, 1, 2].map(|k| ranks[k] as u32);
    let (shuffle, mut text) = (pointer(&of), words([1]));
    // Inside of a round of shuffle windows a state is of its world.
    if let Some(ShuffleRecord { run, window }) = of {
        let samples = if window > n[0] / run { n[0].max(1) } else { run * window };
        if from[1] != n[0] && !from[1].is_multiple_of(samples) {
            epoch.state.order_hash ^= mix(epoch.world.into(), purpose::WINDOW);
        }
    }
    (epoch.state.epoch, epoch.state.position) = (from[0], from[1]);
    let told = |epoch: &EpochRecord| {
        let view = look(epoch, shuffle);
        let is_portable = of.is_some().then_some(view.is_portable.into());
        words([epoch.state.order_hash, view.left].into_iter().chain(is_portable))
    };
    text += &told(&epoch);
    let mut at_once = epoch;
    let (mut places, mut indices) = (Vec::new(), Vec::new());
    for _ in 0..from[2] {
        let (mut place, mut index, mut padding) = (Place::default(), NO_SAMPLE, 0);
        let taken = unsafe {
            wavetrain_epoch_take_many(&mut epoch, shuffle, 1, &mut place, &mut index, &mut padding)
        };
        write!(text, " {}", taken + i64::from(padding)).unwrap();
        if taken > 0 {
            text += &words([place.epoch, place.position, index]);
            places.push(place);
            indices.push(index);
        }
        text += &words([epoch.state.epoch, epoch.state.position]);
        text += &told(&epoch);
    }
    all_at_once(&mut at_once, shuffle, from[2], &places, &indices);
    if !places.is_empty() {
        assert_eq!((at_once.state, at_once.reserved), (epoch.state, epoch.reserved));
    }
    text
}

/// What one call takes is what many calls took.
fn all_at_once(
    epoch: &mut EpochRecord,
    shuffle: *const ShuffleRecord,
    count: u64,
    places: &[Place],
    indices: &[u64],
) {
    let mut skipped = *epoch;
    let (mut all, mut found) = (vec![Place::default(); count as usize], vec![0; count as usize]);
    let out = (all.as_mut_ptr(), found.as_mut_ptr());
    let (taken, also) = unsafe {
        (
            wavetrain_epoch_take_many(epoch, shuffle, count, out.0, out.1, null_mut()),
            wavetrain_epoch_take_many(
                &mut skipped,
                shuffle,
                count,
                null_mut(),
                null_mut(),
                null_mut(),
            ),
        )
    };
    assert_eq!((taken.max(0) as usize, taken), (places.len(), also));
    assert_eq!((&all[..places.len()], &found[..places.len()]), (places, indices));
    assert_eq!(skipped.state, epoch.state);
    let at = unsafe {
        wavetrain_epoch_at_many(epoch, shuffle, places.as_ptr(), places.len() as u64, out.1)
    };
    assert!(taken < 0 || (at == 1 && found[..places.len()] == *indices));
}

/// N SEED FLAGS VISIT WINDOW EPOCH POSITION COUNT
fn at(n: &[u64]) -> String {
    let of = (n[3] > 0).then(|| ShuffleRecord { run: n[3], window: n[4] });
    let flags = if of.is_some() { 0 } else { n[2] };
    let epoch = begun(&[n[0], n[1], flags], of).1;
    let places: Vec<_> = (0..n[7]).map(|k| Place { epoch: n[5], position: n[6] + k }).collect();
    let mut found = vec![NO_SAMPLE; places.len()];
    let (count, out) = (n[7], found.as_mut_ptr());
    // Where the epoch is wrong, nothing is written.
    unsafe { wavetrain_epoch_at_many(&epoch, pointer(&of), places.as_ptr(), count, out) };
    words(found)
}

// ---- Splits, weights, mixtures ------------------------------------------------------------------

/// Ends and table of LABELS LABEL..
fn grouped(n: &[u64]) -> Option<(Vec<u64>, Vec<u64>)> {
    let (mut ends, mut table) = (vec![0; n[0] as usize], vec![0; n.len() - 1]);
    let (labels, count) = (narrow(&n[1..]), n.len() as u64 - 1);
    let (ends_at, table_at) = (ends.as_mut_ptr(), table.as_mut_ptr());
    let answer = unsafe { wavetrain_group(labels.as_ptr(), count, n[0] as u32, ends_at, table_at) };
    (answer == 1).then_some((ends, table))
}

/// SEED PART PARTS WEIGHT.. LABELS LABEL..
fn stratified(n: &[u64]) -> String {
    let (weights, labels) = n[3..].split_at(n[2] as usize);
    let Some((ends, table)) = grouped(labels) else { return String::new() };
    let (mut subset, weights) = (vec![0; table.len()], narrow(weights));
    let count = unsafe {
        wavetrain_stratify(
            ends.as_ptr(),
            ends.len() as u32,
            table.as_ptr(),
            weights.as_ptr(),
            weights.len() as u32,
            n[1] as u32,
            n[0],
            subset.as_mut_ptr(),
        )
    };
    words(subset[..count as usize].iter().copied())
}

/// Places of questions that begin with SEED EPOCH POSITION COUNT.
fn places(n: &[u64]) -> Vec<Place> {
    (0..n[3]).map(|k| Place { epoch: n[1], position: n[2] + k }).collect()
}

/// SEED EPOCH POSITION COUNT WEIGHT..
fn weighted(n: &[u64]) -> String {
    let (mut sums, places) = (n[4..].to_vec(), places(n));
    let count = sums.len() as u64;
    if unsafe { wavetrain_accumulate(sums.as_mut_ptr(), count) } == 0 {
        return " 0".to_owned();
    }
    let mut drawn = vec![0; places.len()];
    let out = drawn.as_mut_ptr();
    let answer =
        unsafe { wavetrain_weighted_many(sums.as_ptr(), count, n[0], places.as_ptr(), n[3], out) };
    words([answer as u64].into_iter().chain(drawn))
}

/// SEED EPOCH POSITION COUNT N WEIGHT N WEIGHT ..
fn mixed(n: &[u64]) -> String {
    let share = |pair: &[u64]| Share { samples: pair[0], weight: pair[1] as u32 };
    let (shares, places): (Vec<_>, _) = (n[4..].chunks_exact(2).map(share).collect(), places(n));
    let (mut sources, mut samples) = (vec![0; places.len()], vec![0; places.len()]);
    let answer = unsafe {
        wavetrain_mixed_many(
            shares.as_ptr(),
            shares.len() as u32,
            n[0],
            places.as_ptr(),
            n[3],
            sources.as_mut_ptr(),
            samples.as_mut_ptr(),
        )
    };
    if answer == 0 {
        return " 0".repeat(places.len());
    }
    let each = sources.into_iter().zip(samples);
    each.map(|(source, sample)| words([1, source.into(), sample])).collect()
}

// ---- Boxes --------------------------------------------------------------------------------------

/// The grid that stands at the front, and what follows it.
fn grid(n: &[u64]) -> (BoxesRecord, &[u64]) {
    let axes = n[0] as usize;
    let list = |number: usize| {
        let mut list = [0; 16];
        let numbers = &n[2 + number * axes..2 + (number + 1) * axes];
        list.iter_mut().zip(numbers).for_each(|(place, number)| *place = *number);
        list
    };
    let boxes = BoxesRecord {
        rank: n[0] as u32,
        flags: n[1] as u32,
        shape: list(0),
        extents: list(1),
        step: list(2),
        margin: list(3),
        chunk: list(4),
    };
    (boxes, &n[2 + 5 * axes..])
}

/// SEED EPOCH NUMBER COUNT GRID [POINT..]
fn boxes(from: u32, n: &[u64]) -> String {
    let (boxes, point) = grid(&n[4..]);
    let (rank, mut text) = (n[4] as usize, String::new());
    let begins = |places: &[Place]| {
        let (mut begins, count) = (vec![0; places.len() * rank], places.len() as u64);
        let points = point.repeat(places.len());
        let points = if from == AROUND { points.as_ptr() } else { null() };
        let (first, out) = (places.as_ptr(), begins.as_mut_ptr());
        let written =
            unsafe { wavetrain_boxes_many(&boxes, from, n[0], first, points, count, out) };
        (written as usize, begins)
    };
    if from == GRID {
        text += &words([unsafe { wavetrain_boxes_count(&boxes, 1, null_mut()) }]);
    }
    let (written, all) = begins(&places(n));
    for (number, place) in places(n).into_iter().enumerate() {
        let (one, begin) = begins(&[place]);
        // Once there is no box, the call for all of them ends.
        assert!(number >= written || (one == 1 && begin[..] == all[number * rank..][..rank]));
        assert!(number != written || one == 0);
        write!(text, " {one}").unwrap();
        begin.iter().filter(|_| one == 1).for_each(|at| write!(text, " {at}").unwrap());
    }
    text
}

/// As many grids as the first number says, and their ends; None where they have no sum.
fn grids(n: &[u64]) -> (Vec<BoxesRecord>, Option<Vec<End>>) {
    let (mut found, mut rest) = (Vec::new(), &n[1..]);
    for _ in 0..n[0] {
        let (boxes, others) = grid(rest);
        found.push(boxes);
        rest = others;
    }
    let mut ends = vec![End::default(); found.len()];
    let count = unsafe { wavetrain_boxes_count(found.as_ptr(), n[0], ends.as_mut_ptr()) };
    let is_right = n[0] == 0 || count > 0;
    assert!(!is_right || ends.last().is_none_or(|end| end.boxes == count));
    (found, is_right.then_some(ends))
}

/// INDEX ARRAYS GRID ..
fn arrays(n: &[u64]) -> String {
    let (boxes, Some(ends)) = grids(&n[1..]) else { return " 0".to_owned() };
    let (mut number, count) = (0, boxes.len() as u64);
    let array = unsafe { wavetrain_boxes_find(ends.as_ptr(), count, n[0], &mut number) };
    let sums = ends.iter().flat_map(|end| [end.boxes, end.chunks]);
    words([1].into_iter().chain(sums).chain([array, number]))
}

/// SEED EPOCH VISIT WINDOW WORDS ARRAYS GRID ..
fn cost_of(n: &[u64]) -> String {
    let (boxes, Some(ends)) = grids(&n[5..]) else { return String::new() };
    let of = Some(ShuffleRecord { run: n[2], window: n[3] });
    let samples = ends.last().map_or(0, |end| end.boxes);
    let mut epoch = begun(&[samples, n[0], 0], of).1;
    epoch.state.epoch = n[1];
    let mut words_of = vec![7; n[4].min(65536) as usize];
    let mut cost = Cost::default();
    let answer = unsafe {
        wavetrain_epoch_cost(
            &epoch,
            pointer(&of),
            boxes.as_ptr(),
            ends.as_ptr(),
            boxes.len() as u64,
            words_of.as_mut_ptr(),
            words_of.len() as u64,
            &mut cost,
        )
    };
    match answer {
        1 => words([1, cost.distinct, cost.windows, cost.largest]),
        other => format!(" {other}"),
    }
}
