//! A random geometry and random boxes in it: what `plan` says to read and what `assemble` makes of
//! it, against an oracle that asks every voxel. Boxes are read forwards, backwards and in steps,
//! with their axes in any order or dropped, and go to a part of a field that may be larger.
//!
//! Checked: every distinct chunk comes once, in file order, with just the samples that touch it, or
//! several times with some of them where it is large; the bytes that it needs are the hull of what
//! the samples read, and strips leave out none of them; and with nothing but the voxels that are
//! read in otherwise poisoned chunks, the batch holds what numpy.pad, numpy's slices and the cast
//! give, and nothing beside the box is written.

use super::choices::Choices;
use super::oracle::{Image, Pad, cast, has_cast};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ptr::NonNull;
use std::sync::Arc;
use wavetrain::assemble::axis::{AxisFault, PadMode, runs, source_range};
use wavetrain::assemble::cast::Cast;
use wavetrain::assemble::walk::walk_range;
use wavetrain::assemble::{SampleBox, Target, fill_outside, scatter};
use wavetrain::base::arena::{Carver, Claim};
use wavetrain::base::limits::RANK_MAX;
use wavetrain::plan::{Cursor, Merge, Reach};
use wavetrain::records::{ArrayRecord, AxisWalk, BoxShape, ByteOrder, ChunkBytes, Dtype, Need};
use wavetrain::simd::FloatEnvironment;

/// Samples of one merge.
const SAMPLES_MAX: u64 = 6;

/// Voxels of one box: the oracle asks each.
const VOXELS_MAX: u64 = 600;

/// Elements of a field up to which it is more than the box.
const FIELD_MAX: u64 = 1 << 12;

/// Elements of an array: its image is in memory.
const ELEMENTS_MAX: u64 = 1 << 14;

/// Bytes of a decoded chunk, spread strides included.
const CHUNK_BYTES_MAX: u64 = 1 << 17;

/// As `plan` documents: strips are made where at least this much lies between them.
const GAP_BYTES_MIN: u64 = 4096;

/// As `plan` documents: no less is read twice.
const APART_BYTES_MIN: u64 = 64 << 10;

const POISON: u8 = 0xA5;

const MODES: [(PadMode, Pad); 4] = [
    (PadMode::None, Pad::None),
    (PadMode::Constant, Pad::Constant),
    (PadMode::Edge, Pad::Edge),
    (PadMode::Reflect, Pad::Reflect),
];

/// An array as this oracle keeps it: regular grids, nothing derived by the library.
struct Geometry {
    rank: usize,
    shape: Vec<u64>,
    file: Vec<u64>,
    chunk: Vec<u64>,
    strides: Vec<u64>,
    element: u64,
    chunk_bytes: u64,
}

/// A box in array coordinates, padding included, and where it goes.
struct Sample {
    begin: Vec<i64>,
    end: Vec<i64>,
    /// Elements from one place to the next, not 0.
    step: Vec<i64>,
    /// The axis of the field; None: dropped.
    to: Vec<Option<usize>>,
    /// Extents of the field.
    field: Vec<u64>,
    /// By axis of the field: where the first place goes.
    at: Vec<u64>,
}

impl Sample {
    /// The coordinate that each place along an axis reads.
    fn coordinates(&self, axis: usize) -> Vec<i64> {
        let (begin, end, step) = (self.begin[axis], self.end[axis], self.step[axis]);
        let first = if step < 0 { end - 1 } else { begin };
        let mut all: Vec<i64> = Vec::new();
        let mut at = first;
        while (begin..end).contains(&at) {
            all.push(at);
            at += step;
        }
        all
    }

    fn walk(&self, axis: usize) -> AxisWalk {
        AxisWalk::of(self.begin[axis], self.end[axis], self.step[axis]).expect("a short walk")
    }

    /// The same as the library has it.
    fn shape(&self) -> BoxShape {
        let mut shape = BoxShape::EMPTY;
        for axis in 0..self.begin.len() {
            shape.axes[axis] = self.walk(axis).to_axis(self.to[axis]);
        }
        shape.at = number(&self.at, self.field.iter().copied());
        shape
    }

    /// The elements that are read along each axis; None where nothing is.
    fn read(&self, geometry: &Geometry, mode: PadMode) -> Option<Vec<BTreeSet<u64>>> {
        let of_axis = |axis: usize| -> BTreeSet<u64> {
            let extent = geometry.shape[axis] as i64;
            let walked = |at: i64| walked(at, extent, mode).map(|at| at as u64);
            self.coordinates(axis).into_iter().filter_map(walked).collect()
        };
        let read: Vec<_> = (0..geometry.rank).map(of_axis).collect();
        read.iter().all(|elements| !elements.is_empty()).then_some(read)
    }

    /// What plan is told that it reads.
    fn reach(&self, geometry: &Geometry, mode: PadMode) -> Reach {
        let mut reach = Reach::of([0; RANK_MAX], [0; RANK_MAX]);
        for axis in 0..geometry.rank {
            let walk = self.walk(axis);
            let range = walk_range(&walk, geometry.shape[axis], mode).expect("it was chosen so");
            (reach.lo[axis], reach.hi[axis]) = range;
            reach.step[axis] = walk.step().0 as u32;
        }
        reach
    }
}

/// Which elements of a chunk each sample reads, counted from the chunk's first along each axis.
type Asked = BTreeMap<u32, BTreeSet<Vec<u64>>>;

thread_local! {
    static MERGE: RefCell<Merge> = RefCell::new(merge());
}

fn merge() -> Merge {
    const BYTES: usize = 1 << 16;
    let block: &'static mut [u8] = vec![0; BYTES + 4096].leak();
    let skip = block.as_ptr().align_offset(4096);
    let start = NonNull::from(&mut block[skip..]).cast();
    // SAFETY: the block is leaked, aligned to 4096 and used for this alone.
    let mut carver = unsafe { Carver::over(start, BYTES as u64) };
    Merge::carve(&mut carver, (SAMPLES_MAX, 0))
}

/// Checks one input.
pub fn run(data: &[u8]) {
    let mut choices = Choices::of(data);
    check_axis(&mut choices);
    let Some(geometry) = geometry(&mut choices) else { return };
    let (mode, pad) = choices.one_of(&MODES);
    let pairs = [
        (Dtype::U8, Dtype::U8),
        (Dtype::U16, Dtype::F32),
        (Dtype::U16, Dtype::U16),
        (Dtype::I32, Dtype::I64),
        (Dtype::F32, Dtype::Bf16),
        (Dtype::F64, Dtype::F64),
    ];
    let order = choices.one_of(&[ByteOrder::Little, ByteOrder::Big]);
    let sized: Vec<_> =
        pairs.into_iter().filter(|(from, _)| u64::from(from.bytes()) == geometry.element).collect();
    let (from, to) = choices.one_of(&sized);
    assert!(has_cast(from, to));
    let record = record(&geometry, from, order);
    let mut samples = samples(&mut choices, &geometry, mode);
    samples.iter_mut().for_each(|sample| turn(&mut choices, &geometry, sample));
    let asked = asked(&geometry, &samples, mode);
    let image = image(&geometry, from);
    let steps = planned((&geometry, &record), &samples, mode);
    check_plan(&geometry, &asked, &steps);
    for sample in &samples {
        check_files_touched((&geometry, &record), sample, mode);
    }
    let _environment = FloatEnvironment::enter();
    for (number, sample) in samples.iter().enumerate() {
        let parts = (&geometry, &record, &image);
        let filled = filled(parts, sample, number as u32, (mode, to), &asked, &steps);
        let expected = expected(&image, sample, (from, to), pad);
        let Sample { begin, end, step, to, field, at } = sample;
        let text = || format!("{begin:?} {end:?} {step:?} {to:?} {field:?} {at:?} {mode:?}");
        assert!(filled == expected, "{}", text());
    }
}

/// The field, place by place: poison where the box has none, 7 where a place has no source.
fn expected(image: &Image, sample: &Sample, (from, to): (Dtype, Dtype), pad: Pad) -> Vec<u8> {
    let bytes = to.bytes() as usize;
    let elements: u64 = sample.field.iter().product();
    let mut field = vec![POISON; elements as usize * bytes];
    let coordinates: Vec<Vec<i64>> =
        (0..sample.begin.len()).map(|axis| sample.coordinates(axis)).collect();
    let counts: Vec<u64> = coordinates.iter().map(|all| all.len() as u64).collect();
    for_each_voxel(&vec![0; counts.len()], &counts, |place| {
        let mut target = sample.at.clone();
        for (axis, place) in place.iter().enumerate() {
            if let Some(to) = sample.to[axis] {
                target[to] += place;
            }
        }
        let at: Vec<i64> =
            place.iter().zip(&coordinates).map(|(place, all)| all[*place as usize]).collect();
        let is_inside = |(at, extent): (&i64, &u64)| (0..*extent as i64).contains(at);
        let has_source = pad != Pad::Constant || at.iter().zip(&image.shape).all(is_inside);
        let element = match has_source {
            true => {
                let end: Vec<i64> = at.iter().map(|at| at + 1).collect();
                cast(from, to, &image.crop(&at, &end, pad, &[]))
            }
            false => vec![7; bytes],
        };
        let place = number(&target, sample.field.iter().copied()) as usize * bytes;
        field[place..place + bytes].copy_from_slice(&element);
    });
    field
}

fn geometry(choices: &mut Choices<'_>) -> Option<Geometry> {
    let rank = 1 + choices.below(4) as usize + if choices.rarely(8) { 2 } else { 0 };
    let (mut shape, mut file, mut chunk) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rank {
        let edge = 1 + choices.below(if rank > 3 { 3 } else { 9 });
        let per_file = 1 + choices.below(3);
        chunk.push(edge);
        file.push(edge * per_file);
        shape.push(1 + choices.below(2 * edge * per_file + 2));
    }
    let element = choices.one_of(&[1, 2, 4, 8]);
    let (strides, chunk_bytes) = strides(choices, &chunk, element);
    let elements: u64 = shape.iter().product();
    let fits = elements <= ELEMENTS_MAX && chunk_bytes <= CHUNK_BYTES_MAX;
    fits.then_some(Geometry { rank, shape, file, chunk, strides, element, chunk_bytes })
}

/// Distances of the elements of a chunk: axes in any order, sometimes spread apart.
fn strides(choices: &mut Choices<'_>, chunk: &[u64], element: u64) -> (Vec<u64>, u64) {
    let mut left: Vec<usize> = (0..chunk.len()).collect();
    let mut strides = vec![0; chunk.len()];
    let mut step = element;
    while !left.is_empty() {
        // Innermost first; choosing 0 is the last axis: row-major.
        let place = left.len() - 1 - choices.below(left.len() as u64) as usize;
        let axis = left.remove(place);
        strides[axis] = step;
        step *= chunk[axis];
        if choices.rarely(6) {
            step += element * choices.one_of(&[1, 7, 1024, 4096, 5000]);
        }
    }
    let last: u64 = chunk.iter().zip(&strides).map(|(edge, stride)| (edge - 1) * stride).sum();
    (strides, last + element)
}

fn record(geometry: &Geometry, dtype: Dtype, order: ByteOrder) -> ArrayRecord {
    let mut record = ArrayRecord::EMPTY;
    record.rank = geometry.rank as u32;
    record.dtype = dtype;
    record.dtype_bytes = dtype.bytes();
    record.byte_order = order;
    record.shard_levels = 1;
    for axis in 0..geometry.rank {
        record.shape[axis] = geometry.shape[axis];
        record.shard_shape[0][axis] = geometry.file[axis];
        record.chunk_shape[axis] = geometry.chunk[axis];
        record.chunk_strides[axis] = geometry.strides[axis] as i64;
    }
    record.chunk_bytes = geometry.chunk_bytes;
    record
}

fn samples(choices: &mut Choices<'_>, geometry: &Geometry, mode: PadMode) -> Vec<Sample> {
    let count = 1 + choices.below(SAMPLES_MAX);
    (0..count).filter_map(|_| sample(choices, geometry, mode)).collect()
}

fn sample(choices: &mut Choices<'_>, geometry: &Geometry, mode: PadMode) -> Option<Sample> {
    let (mut begin, mut end) = (Vec::new(), Vec::new());
    for extent in &geometry.shape {
        let margin = if mode == PadMode::None { 0 } else { 4 + *extent as i64 / 2 };
        let first = choices.below(extent + 2 * margin as u64) as i64 - margin;
        let room = *extent as i64 + margin - first;
        let limit = first + 1 + choices.below(room as u64) as i64;
        source_range(first, limit, *extent, mode).ok()?;
        begin.push(first);
        end.push(limit);
    }
    let extents = begin.iter().zip(&end).map(|(first, limit)| (limit - first) as u64);
    let (rank, field): (_, Vec<u64>) = (begin.len(), extents.collect());
    let voxels: u64 = field.iter().product();
    let (step, to, at) = (vec![1; rank], (0..rank).map(Some).collect(), vec![0; rank]);
    (voxels <= VOXELS_MAX).then_some(Sample { begin, end, step, to, field, at })
}

/// Sometimes: a step, another order of the axes, fewer of them, a larger field.
fn turn(choices: &mut Choices<'_>, geometry: &Geometry, sample: &mut Sample) {
    if !choices.rarely(2) {
        return;
    }
    let mut left = Vec::new();
    for axis in 0..geometry.rank {
        let step = choices.one_of(&[1, -1, 2, -2, 3, -3, 1, -1, 5, -7, 11, -20, i64::MIN]);
        let extent = geometry.shape[axis] as i64;
        let (begin, end) = (sample.begin[axis].max(0), sample.end[axis].min(extent));
        // Longer steps stay inside.
        if step.unsigned_abs() == 1 {
            sample.step[axis] = step;
        } else if begin < end {
            (sample.begin[axis], sample.end[axis], sample.step[axis]) = (begin, end, step);
        }
        let is_one = sample.coordinates(axis).len() == 1;
        if !(is_one && choices.rarely(2)) {
            left.push(axis);
        }
    }
    sample.to.fill(None);
    (sample.field, sample.at) = (Vec::new(), Vec::new());
    // Ends: every turn adds an axis to the field.
    let mut elements = 1;
    while !left.is_empty() || choices.rarely(4) {
        let (before, behind) = (choices.below(3), choices.below(3));
        let mut places = 1;
        if !left.is_empty() && (sample.field.len() >= 4 || !choices.rarely(6)) {
            let axis = left.remove(choices.below(left.len() as u64) as usize);
            sample.to[axis] = Some(sample.field.len());
            places = sample.coordinates(axis).len() as u64;
        }
        elements *= before + places + behind;
        let (before, behind) = if elements > FIELD_MAX { (0, 0) } else { (before, behind) };
        sample.field.push(before + places + behind);
        sample.at.push(before);
        if sample.field.len() >= RANK_MAX {
            break;
        }
    }
}

/// Calls `each` with every voxel of a box.
fn for_each_voxel(lo: &[u64], hi: &[u64], mut each: impl FnMut(&[u64])) {
    let mut at = lo.to_vec();
    loop {
        each(&at);
        let mut axis = at.len();
        loop {
            if axis == 0 {
                return;
            }
            axis -= 1;
            at[axis] += 1;
            if at[axis] < hi[axis] {
                break;
            }
            at[axis] = lo[axis];
        }
    }
}

/// Row-major number of a place in a grid.
fn number(place: &[u64], counts: impl Iterator<Item = u64>) -> u64 {
    place.iter().zip(counts).fold(0, |number, (place, count)| number * count + place)
}

/// What every voxel that is read says.
fn asked(geometry: &Geometry, samples: &[Sample], mode: PadMode) -> BTreeMap<(u64, u64), Asked> {
    let Geometry { rank, shape, file, chunk, .. } = geometry;
    let mut asked: BTreeMap<(u64, u64), Asked> = BTreeMap::new();
    for (sample, read) in samples.iter().map(|sample| sample.read(geometry, mode)).enumerate() {
        let Some(read) = read else { continue };
        for_each_read(&read, |at| {
            let files: Vec<u64> = (0..*rank).map(|a| at[a] / file[a]).collect();
            let chunks: Vec<u64> = (0..*rank).map(|a| at[a] % file[a] / chunk[a]).collect();
            let position = (
                number(&files, (0..*rank).map(|a| shape[a].div_ceil(file[a]))),
                number(&chunks, (0..*rank).map(|a| file[a] / chunk[a])),
            );
            let entry = asked.entry(position).or_default();
            // Chunks divide files, so the place in the chunk does not depend on the file.
            let voxel = (0..*rank).map(|a| at[a] % chunk[a]).collect();
            entry.entry(sample as u32).or_default().insert(voxel);
        });
    }
    asked
}

/// Calls `each` with every voxel of the elements that are read along each axis.
fn for_each_read(read: &[BTreeSet<u64>], mut each: impl FnMut(&[u64])) {
    let read: Vec<Vec<u64>> = read.iter().map(|set| set.iter().copied().collect()).collect();
    let counts: Vec<u64> = read.iter().map(|all| all.len() as u64).collect();
    for_each_voxel(&vec![0; counts.len()], &counts, |place| {
        let at = place.iter().zip(&read).map(|(place, all)| all[*place as usize]);
        each(&at.collect::<Vec<_>>());
    });
}

/// One step of the merge.
struct Step {
    position: (u64, u64),
    samples: Vec<u32>,
    need: Need,
}

impl Step {
    /// What its samples read of the chunk.
    fn voxels(&self, asked: &Asked) -> BTreeSet<Vec<u64>> {
        let of_step = |(sample, _): &(&u32, _)| self.samples.contains(sample);
        asked.iter().filter(of_step).flat_map(|(_, voxels)| voxels.iter().cloned()).collect()
    }
}

fn planned(
    (geometry, record): (&Geometry, &ArrayRecord),
    samples: &[Sample],
    mode: PadMode,
) -> Vec<Step> {
    MERGE.with_borrow_mut(|merge| {
        merge.clear();
        for (number, sample) in samples.iter().enumerate() {
            let reach = sample.reach(geometry, mode);
            assert_eq!(reach.is_empty(geometry.rank), sample.read(geometry, mode).is_none());
            if !reach.is_empty(geometry.rank) {
                merge.add(number as u32, Cursor::start(record, &reach));
            }
        }
        let mut steps = Vec::new();
        loop {
            let mut samples = Vec::new();
            let next = merge.next(record, |sample| samples.push(sample));
            let Some((position, need)) = next else { break };
            steps.push(Step { position, samples, need });
        }
        assert!(merge.is_empty());
        steps
    })
}

fn check_plan(geometry: &Geometry, asked: &BTreeMap<(u64, u64), Asked>, steps: &[Step]) {
    let mut left = steps;
    for (position, asked) in asked {
        let count = left.iter().take_while(|step| step.position == *position).count();
        let (of_chunk, rest) = left.split_at(count);
        left = rest;
        // Of what no codec wrote, parts that are far from each other come one by one.
        assert!(count == 1 || count > 1 && geometry.chunk_bytes > APART_BYTES_MIN);
        let mut samples = BTreeSet::new();
        for step in of_chunk {
            assert!(step.samples.is_sorted(), "{:?}", step.samples);
            assert!(step.samples.iter().all(|sample| samples.insert(*sample)));
            check_need(geometry, &step.voxels(asked), &step.need);
        }
        assert!(samples.iter().eq(asked.keys()), "{samples:?}");
    }
    assert!(left.is_empty(), "chunks that nobody reads");
}

/// The span is that of the box around what is read, and every element lies in a strip.
fn check_need(geometry: &Geometry, read: &BTreeSet<Vec<u64>>, need: &Need) {
    let offset = |voxel: &[u64]| -> u64 {
        voxel.iter().zip(&geometry.strides).map(|(at, stride)| at * stride).sum()
    };
    let edge = |pick: fn(u64, u64) -> u64| -> Vec<u64> {
        let voxels = read.iter().cloned();
        let both = |a: Vec<u64>, b: Vec<u64>| a.iter().zip(&b).map(|(a, b)| pick(*a, *b)).collect();
        voxels.reduce(both).unwrap()
    };
    let (low, high) = (edge(u64::min), edge(u64::max));
    assert_eq!(need.span.first, offset(&low));
    assert_eq!(need.span.limit, offset(&high) + geometry.element);
    assert!(need.span.limit <= geometry.chunk_bytes);
    let (count, pitch) = (u64::from(need.strip_count), u64::from(need.strip_pitch));
    assert!(count >= 1);
    let strip_bytes = need.strip_bytes();
    assert!(count == 1 || strip_bytes + GAP_BYTES_MIN <= pitch, "{need:?}");
    for voxel in read {
        assert!(is_in_strip(need, offset(voxel), geometry.element), "{need:?} {voxel:?}");
    }
}

fn is_in_strip(need: &Need, at: u64, bytes: u64) -> bool {
    let from = at - need.span.first;
    let strip = from.checked_div(u64::from(need.strip_pitch)).unwrap_or(0);
    let start = strip * u64::from(need.strip_pitch);
    strip < u64::from(need.strip_count) && from + bytes <= start + need.strip_bytes()
}

fn check_files_touched(
    (geometry, record): (&Geometry, &ArrayRecord),
    sample: &Sample,
    mode: PadMode,
) {
    let mut files = BTreeSet::new();
    if let Some(read) = sample.read(geometry, mode) {
        for_each_read(&read, |at| {
            files.insert((0..geometry.rank).map(|a| at[a] / geometry.file[a]).collect::<Vec<_>>());
        });
    }
    assert_eq!(sample.reach(geometry, mode).files_touched(record), files.len() as u64);
}

/// An array whose every element tells its place, as far as its type can.
fn image(geometry: &Geometry, dtype: Dtype) -> Image {
    let count: u64 = geometry.shape.iter().product();
    let bytes = dtype.bytes() as usize;
    let pixels = (0..count).flat_map(|at| {
        let mixed = (at + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 7;
        mixed.to_le_bytes().into_iter().take(bytes)
    });
    Image::new(dtype, geometry.shape.clone(), Arc::new(pixels.collect()), vec![0; bytes])
}

/// The chunk of a step as a reader would give it: poison, and the elements that are asked for.
fn chunk_bytes(parts: (&Geometry, &ArrayRecord, &Image), asked: &Asked, step: &Step) -> Vec<u8> {
    let (geometry, record, image) = parts;
    let origin = origin(geometry, step.position);
    let element = geometry.element as usize;
    let mut bytes = vec![POISON; step.need.span.bytes() as usize];
    for voxel in &step.voxels(asked) {
        let at = voxel.iter().zip(&origin).map(|(inside, origin)| inside + origin);
        let pixel = number(&at.collect::<Vec<_>>(), geometry.shape.iter().copied()) as usize;
        let mut value = image.pixels[pixel * element..][..element].to_vec();
        if record.byte_order == ByteOrder::Big {
            value.reverse();
        }
        let place: u64 = voxel.iter().zip(&geometry.strides).map(|(at, step)| at * step).sum();
        let place = (place - step.need.span.first) as usize;
        bytes[place..place + element].copy_from_slice(&value);
    }
    bytes
}

/// First element of a chunk along each axis.
fn origin(geometry: &Geometry, position: (u64, u64)) -> Vec<u64> {
    let (mut file, mut chunk) = position;
    let mut origin = vec![0; geometry.rank];
    for axis in (0..geometry.rank).rev() {
        let files = geometry.shape[axis].div_ceil(geometry.file[axis]);
        let chunks = geometry.file[axis] / geometry.chunk[axis];
        origin[axis] = file % files * geometry.file[axis] + chunk % chunks * geometry.chunk[axis];
        (file, chunk) = (file / files, chunk / chunks);
    }
    origin
}

/// The field as `assemble` fills it from the planned chunks, guards checked.
fn filled(
    parts: (&Geometry, &ArrayRecord, &Image),
    sample: &Sample,
    number: u32,
    (mode, to): (PadMode, Dtype),
    asked: &BTreeMap<(u64, u64), Asked>,
    steps: &[Step],
) -> Vec<u8> {
    const GUARD_BYTES: usize = 64;
    let record = parts.1;
    let places: usize = (0..parts.0.rank).map(|axis| sample.coordinates(axis).len()).product();
    let elements: u64 = sample.field.iter().product();
    let bytes = elements as usize * to.bytes() as usize;
    let mut buffer = vec![POISON; bytes + 2 * GUARD_BYTES];
    let cast =
        &Cast::find(record.dtype, record.dtype_bytes, to, to.bytes()).expect("a cast of the table");
    let (shape, mut strides) = (&sample.shape(), [0; RANK_MAX]);
    for (axis, stride) in strides[..sample.field.len()].iter_mut().enumerate() {
        *stride = sample.field[axis + 1..].iter().product::<u64>() * u64::from(to.bytes());
    }
    let strides = &strides;
    let claim = Claim::on(&mut buffer[GUARD_BYTES..][..bytes]);
    let sample = SampleBox {
        record,
        cast,
        shape,
        first: shape.at * u64::from(cast.target_bytes()),
        strides,
        pad: mode,
    };
    let mut target = Target { sample, claim, change: None };
    let mut written = 0;
    for step in steps.iter().filter(|step| step.samples.contains(&number)) {
        let chunk = chunk_bytes(parts, &asked[&step.position], step);
        let chunk = ChunkBytes { bytes: &chunk, first: step.need.span.first };
        written += scatter(&mut target, &origin(parts.0, step.position), &chunk);
    }
    written += fill_outside(&mut target, Some([7; 16]));
    assert_eq!(written, places as u64 * u64::from(to.bytes()));
    assert!(buffer[..GUARD_BYTES].iter().all(|byte| *byte == POISON));
    assert!(buffer[GUARD_BYTES + bytes..].iter().all(|byte| *byte == POISON));
    buffer[GUARD_BYTES..][..bytes].to_vec()
}

/// The source of coordinate `at`, found by walking there from 0 one element at a time.
fn walked(at: i64, extent: i64, mode: PadMode) -> Option<i64> {
    match mode {
        PadMode::None | PadMode::Constant => (0..extent).contains(&at).then_some(at),
        PadMode::Edge => Some(at.clamp(0, extent - 1)),
        PadMode::Reflect => {
            let (mut source, mut direction) = (0, 1);
            for _ in 0..at.abs() {
                if !(0..extent).contains(&(source + direction)) {
                    direction = -direction;
                }
                source += if extent > 1 { direction } else { 0 };
            }
            Some(source)
        }
    }
}

/// Intervals of one axis: near a small axis against the walk, and anything for its faults.
fn check_axis(choices: &mut Choices<'_>) {
    let (mode, _) = choices.one_of(&MODES);
    if choices.rarely(4) {
        return check_far(choices, mode);
    }
    let extent = choices.below(12) as i64;
    let begin = choices.below(64) as i64 - 32;
    let end = begin + choices.below(48) as i64 - 2;
    let edge = 1 + choices.below(6);
    let found = source_range(begin, end, extent as u64, mode);
    let is_apart = begin >= extent || end <= 0;
    let expected_fault = match mode {
        _ if begin >= end => Some(AxisFault::Empty),
        _ if begin >= 0 && end <= extent => None,
        PadMode::None => Some(AxisFault::Outside),
        PadMode::Edge | PadMode::Reflect if extent == 0 => Some(AxisFault::NoElement),
        PadMode::Reflect if is_apart => Some(AxisFault::Apart),
        _ => None,
    };
    assert_eq!(found.err(), expected_fault, "[{begin}, {end}) of {extent}, {mode:?}");
    let Ok((first, limit)) = found else { return };
    let sources: Vec<Option<i64>> = (begin..end).map(|at| walked(at, extent, mode)).collect();
    let known = sources.iter().flatten();
    let hull = known.clone().min().zip(known.max());
    let hull = hull.map_or((0, 0), |(low, high)| (*low as u64, *high as u64 + 1));
    assert_eq!((first, limit), hull, "[{begin}, {end}) of {extent}, {mode:?}");
    let mut places = vec![None; sources.len()];
    for chunk in (0..extent as u64).step_by(edge as usize) {
        let chunk_limit = (chunk + edge).min(extent as u64);
        for run in runs(begin, end, extent as u64, mode, chunk, chunk_limit) {
            assert!(run.length > 0);
            for at in 0..run.length {
                let source = run.source as i64 + run.step * at as i64 + chunk as i64;
                assert!((chunk as i64..chunk_limit as i64).contains(&source));
                assert_eq!(places[(run.target + at) as usize].replace(source), None);
            }
        }
    }
    assert_eq!(places, sources, "[{begin}, {end}) of {extent}, {mode:?}");
}

/// Coordinates anywhere: an answer without overflow, and a hull inside the array.
fn check_far(choices: &mut Choices<'_>, mode: PadMode) {
    let (begin, end) = (choices.long() as i64, choices.long() as i64);
    let extent = choices.long() >> choices.below(64);
    let Ok((first, limit)) = source_range(begin, end, extent, mode) else { return };
    assert!(first <= limit && limit <= extent);
    if first == limit {
        return assert!(mode == PadMode::Constant);
    }
    let inside = begin.max(0)..end.min(i64::try_from(extent).expect("a range was found"));
    if !inside.is_empty() {
        assert!(first <= inside.start as u64 && inside.end as u64 <= limit);
    }
    // The first runs alone: reflection across a small axis has as many as the box is long.
    for run in runs(begin, end, extent, mode, first, limit).take(64) {
        let last = run.source as i128 + i128::from(run.step) * i128::from(run.length - 1);
        assert!((0..i128::from(limit - first)).contains(&last));
        assert!(run.target.checked_add(run.length).unwrap() <= end.abs_diff(begin));
    }
}
