//! Scatter and fill against an implementation that looks at one voxel after the other.

use super::axis::{PadMode, source_range};
use super::block::BlockAxis;
use super::*;
use crate::base::math::coordinates_from_linear;
use crate::records::{BoxShape, ByteOrder, Dtype};
use std::vec;
use std::vec::Vec;

const POISON: u8 = 0xA5;

/// Bytes around the sample that must stay as they are.
const GUARD: usize = 64;

/// Marsaglia's xorshift64: the same cases on every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A number in `[first, limit)`.
    fn within(&mut self, first: i64, limit: i64) -> i64 {
        first + (self.next() % (limit - first) as u64) as i64
    }

    fn choice<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.within(0, items.len() as i64) as usize]
    }
}

/// An array, a box in it and the memory of one sample.
struct Case {
    record: ArrayRecord,
    cast: Cast,
    begin: Vec<i64>,
    end: Vec<i64>,
    pad: PadMode,
    memory: Vec<u8>,
}

impl Case {
    fn new(
        record: ArrayRecord,
        target: Dtype,
        begin: Vec<i64>,
        end: Vec<i64>,
        pad: PadMode,
    ) -> Case {
        let target_bytes = if target == Dtype::Raw { record.dtype_bytes } else { target.bytes() };
        let cast = Cast::find(record.dtype, record.dtype_bytes, target, target_bytes).unwrap();
        let count: i64 = begin.iter().zip(&end).map(|(begin, end)| end - begin).product();
        let bytes = count as usize * target_bytes as usize;
        let memory = vec![POISON; bytes + 2 * GUARD];
        Case { record, cast, begin, end, pad, memory }
    }

    fn sample(&self) -> &[u8] {
        &self.memory[GUARD..self.memory.len() - GUARD]
    }

    /// Runs `work` on the target; the guards around it must stay.
    fn with_target<T>(&mut self, work: impl FnOnce(&mut Target<'_>) -> T) -> T {
        let bytes = self.memory.len() - 2 * GUARD;
        let claim = Claim::on(&mut self.memory[GUARD..][..bytes]);
        let shape = &BoxShape::forward(&self.begin, &self.end);
        let strides = &shape.strides(self.begin.len(), self.cast.target_bytes());
        let (record, cast, pad) = (&self.record, &self.cast, self.pad);
        let sample = SampleBox {
            record,
            cast,
            shape,
            first: shape.at * u64::from(cast.target_bytes()),
            strides,
            pad,
        };
        let result = work(&mut Target { sample, claim, change: None });
        assert!(self.memory[..GUARD].iter().all(|byte| *byte == POISON));
        assert!(self.memory[GUARD + bytes..].iter().all(|byte| *byte == POISON));
        result
    }

    /// For each voxel of the box, its place in the sample and its source coordinates, if any.
    fn voxels(&self) -> Vec<(usize, Option<Vec<u64>>)> {
        let axes = self.record.axes();
        let extents: Vec<u64> =
            self.begin.iter().zip(&self.end).map(|(begin, end)| (end - begin) as u64).collect();
        let count: u64 = extents.iter().product();
        let voxel = |linear: u64| {
            let mut at = vec![0; axes];
            coordinates_from_linear(linear, &extents, &mut at);
            let source = (0..axes).map(|axis| {
                slow_source(self.begin[axis] + at[axis] as i64, self.record.shape[axis], self.pad)
            });
            (linear as usize * self.cast.target_bytes() as usize, source.collect())
        };
        (0..count).map(voxel).collect()
    }

    /// Does to `sample` what a chunk must do, voxel by voxel; returns the bytes written.
    fn slow_scatter(&self, sample: &mut [u8], origin: &[u64], chunk: Option<&[u8]>) -> u64 {
        let record = &self.record;
        let mut written = 0;
        for (place, source) in self.voxels() {
            let Some(source) = source else { continue };
            let inside = |axis: usize| {
                let first = origin[axis];
                (first..first + record.chunk_shape[axis]).contains(&source[axis])
            };
            if !(0..record.axes()).all(inside) {
                continue;
            }
            let target = &mut sample[place..][..self.cast.target_bytes() as usize];
            let fill = &record.fill;
            let order = ByteOrder::Little;
            let mut row = Plane { bytes: fill, first: 0, step: 0, pitch: 0, order };
            if let Some(chunk) = chunk {
                row.bytes = chunk;
                row.order = record.byte_order;
                let of_axis =
                    |axis: usize| (source[axis] - origin[axis]) * record.chunk_strides[axis] as u64;
                row.first = (0..record.axes()).map(of_axis).sum();
            }
            written += target.len() as u64;
            let bytes = target.len();
            self.cast.plane(&row, &mut RowsMut::packed(target, bytes));
        }
        written
    }
}

/// The coordinate that `at` reads, None where padding is a constant.
fn slow_source(mut at: i64, extent: u64, pad: PadMode) -> Option<u64> {
    let last = extent as i64 - 1;
    match pad {
        PadMode::None | PadMode::Constant => {}
        PadMode::Edge => at = at.clamp(0, last),
        PadMode::Reflect if last == 0 => at = 0,
        PadMode::Reflect => {
            while !(0..=last).contains(&at) {
                at = if at < 0 { -at } else { 2 * last - at };
            }
        }
    }
    (0..=last).contains(&at).then_some(at as u64)
}

/// A record of a chunked array whose chunks were transposed by `order` before encoding.
fn record(shape: &[u64], chunk_shape: &[u64], dtype: Dtype, order: &[usize]) -> ArrayRecord {
    let mut record = ArrayRecord::EMPTY.clone();
    record.rank = shape.len() as u32;
    record.dtype = dtype;
    record.dtype_bytes = if dtype == Dtype::Raw { 3 } else { dtype.bytes() };
    record.shape[..shape.len()].copy_from_slice(shape);
    record.chunk_shape[..shape.len()].copy_from_slice(chunk_shape);
    let mut stride = i64::from(record.dtype_bytes);
    for axis in order.iter().rev() {
        record.chunk_strides[*axis] = stride;
        stride *= chunk_shape[*axis] as i64;
    }
    record.chunk_bytes = stride as u64;
    record.fill[..16].copy_from_slice(&[0x2A, 0x3C, 0x41, 7, 9, 8, 11, 13, 1, 2, 3, 4, 5, 6, 7, 8]);
    record
}

fn random_case(random: &mut Random) -> Case {
    let rank = random.within(1, 7) as usize;
    let size = [0, 40, 14, 8, 6, 4, 4][rank];
    let shape: Vec<u64> = (0..rank).map(|_| random.within(1, size) as u64).collect();
    let chunks: Vec<u64> = (0..rank).map(|_| random.within(1, size) as u64).collect();
    let mut order: Vec<usize> = (0..rank).collect();
    if random.within(0, 2) == 0 {
        for axis in 1..rank {
            order.swap(axis, random.within(0, axis as i64 + 1) as usize);
        }
    }
    let pairs = [
        (Dtype::U16, Dtype::F32),
        (Dtype::U8, Dtype::U8),
        (Dtype::I16, Dtype::I64),
        (Dtype::F64, Dtype::Bf16),
        (Dtype::Raw, Dtype::Raw),
        (Dtype::C64, Dtype::C64),
        (Dtype::F32, Dtype::Raw),
    ];
    let (source, target) = random.choice(&pairs);
    let mut record = record(&shape, &chunks, source, &order);
    record.byte_order = random.choice(&[ByteOrder::Little, ByteOrder::Big]);
    let pad = random.choice(&[PadMode::None, PadMode::Constant, PadMode::Edge, PadMode::Reflect]);
    let interval = |random: &mut Random, extent: u64| loop {
        let reach = if pad == PadMode::None { 0 } else { extent as i64 + 2 };
        let begin = random.within(-reach, extent as i64 + reach);
        let end = random.within(begin + 1, extent as i64 + reach + 2);
        if source_range(begin, end, extent, pad).is_ok() {
            return (begin, end);
        }
    };
    let (begin, end) = shape.iter().map(|extent| interval(random, *extent)).unzip();
    Case::new(record, target, begin, end, pad)
}

fn chunk_origins(record: &ArrayRecord) -> Vec<Vec<u64>> {
    let axes = record.axes();
    let counts = &record.file_counts()[..axes];
    let origin = |linear: u64| {
        let mut at = vec![0; axes];
        coordinates_from_linear(linear, counts, &mut at);
        at.iter().zip(record.chunk_shape).map(|(at, edge)| at * edge).collect()
    };
    (0..counts.iter().product()).map(origin).collect()
}

#[test]
fn every_chunk_of_random_geometry_writes_exactly_its_voxels() {
    let mut random = Random(0x1234_5678_9ABC_DEF1);
    for number in 0..400 {
        let mut case = random_case(&mut random);
        let mut expected = case.sample().to_vec();
        for origin in chunk_origins(&case.record) {
            let bytes = case.record.chunk_bytes as usize;
            let chunk: Vec<u8> = (0..bytes).map(|_| random.next() as u8).collect();
            let chunk = (random.within(0, 4) > 0).then_some(&chunk[..]);
            let count = case.slow_scatter(&mut expected, &origin, chunk);
            let written = case.with_target(|target| match chunk {
                Some(chunk) => scatter(target, &origin, &ChunkBytes { bytes: chunk, first: 0 }),
                None => scatter_fill(target, &origin),
            });
            let Case { record, begin, end, pad, .. } = &case;
            assert_eq!(written, count, "case {number}: {record:?} {begin:?} {end:?} {pad:?}");
            assert!(
                case.sample() == expected,
                "case {number}: {record:?} {begin:?} {end:?} {pad:?}"
            );
        }
    }
}

#[test]
fn pieces_of_a_chunk_write_what_the_whole_chunk_does() {
    let mut random = Random(0x3141_5926_5358_9793);
    let (mut straight, mut cut, mut several) = (0, 0, 0);
    for number in 0..400 {
        let mut case = random_case(&mut random);
        // Gaps of any size, as in a file.
        let spread = random.choice(&[1, 1, 30, 3000, 20_000]);
        let element = i64::from(case.record.dtype_bytes);
        for stride in case.record.chunk_strides.iter_mut().filter(|stride| **stride > element) {
            *stride = (*stride / element * element).max(element) * spread;
        }
        let reach = |axis: usize| {
            (case.record.chunk_shape[axis] as i64 - 1) * case.record.chunk_strides[axis]
        };
        let bytes = (0..case.record.axes()).map(reach).sum::<i64>() + element;
        if bytes > 4 << 20 {
            continue;
        }
        let chunk: Vec<u8> = (0..bytes).map(|_| random.next() as u8).collect();
        let mut buffer = vec![0; random.choice(&[16, 100, 5000, 200_000])];
        let room = buffer.len();
        for origin in chunk_origins(&case.record) {
            let whole = ChunkBytes { bytes: &chunk, first: 0 };
            case.memory.fill(POISON);
            let count = case.with_target(|target| scatter(target, &origin, &whole));
            let expected = case.memory.clone();
            case.memory.fill(POISON);
            let mut reads = 0;
            let mut read = |first: u64, place: &mut [u8]| {
                place.copy_from_slice(&chunk[first as usize..][..place.len()]);
                straight += u32::from(place.len() > room);
                reads += 1;
                Ok::<(), ()>(())
            };
            let written = case
                .with_target(|target| pieces::read_pieces(target, &origin, &mut buffer, &mut read));
            let Case { record, begin, end, pad, memory, .. } = &case;
            assert_eq!(written, Ok(count), "case {number}: {record:?} {begin:?} {end:?} {pad:?}");
            assert!(*memory == expected, "case {number}: {record:?} {begin:?} {end:?} {pad:?}");
            several += u32::from(reads > 1);
            cut += u32::from(reads > 1 && spread == 1);
        }
    }
    assert!(straight > 5 && cut > 50 && several > 200, "{straight} {cut} {several}");
}

#[test]
fn rows_that_are_far_apart_are_read_to_their_places_and_near_ones_together() {
    for (pitch, target, reads) in [
        (4200, Dtype::U16, vec![(0, 100), (4200, 100), (8400, 100)]),
        (4000, Dtype::U16, vec![(0, 8100)]),
        (4200, Dtype::F32, vec![(0, 100), (4200, 100), (8400, 100)]),
    ] {
        let mut record = record(&[3, 50], &[3, 50], Dtype::U16, &[0, 1]);
        record.chunk_strides[0] = pitch;
        let mut case = Case::new(record, target, vec![0, 0], vec![3, 50], PadMode::None);
        let (mut buffer, mut seen) = (vec![0; 1 << 17], Vec::new());
        let within = buffer.as_ptr_range();
        let mut straight = 0;
        case.with_target(|target| {
            pieces::read_pieces(target, &[0, 0], &mut buffer, &mut |first, place: &mut [u8]| {
                seen.push((first, place.len()));
                straight += u32::from(!within.contains(&place.as_ptr()));
                Ok::<(), ()>(())
            })
        })
        .unwrap();
        assert_eq!(seen, reads);
        assert_eq!(straight, if target == Dtype::U16 && pitch == 4200 { 3 } else { 0 });
    }
}

#[test]
fn outside_and_all_chunks_make_up_the_whole_sample() {
    let mut random = Random(0x0FED_CBA9_8765_4321);
    for number in 0..300 {
        let mut case = random_case(&mut random);
        let mut whole = [0; ELEMENT_BYTES_MAX];
        whole[..8].copy_from_slice(&[0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88]);
        let element = &whole[..case.cast.target_bytes() as usize];
        let mut expected = case.sample().to_vec();
        let mut outside = 0;
        for (place, source) in case.voxels() {
            if source.is_none() {
                expected[place..][..element.len()].copy_from_slice(element);
                outside += element.len() as u64;
            }
        }
        let written = case.with_target(|target| fill_outside(target, Some(whole)));
        assert_eq!(written, outside, "case {number}");
        assert!(case.sample() == expected, "case {number}");
        let origins = chunk_origins(&case.record);
        let inside: u64 = case
            .with_target(|target| origins.iter().map(|origin| scatter_fill(target, origin)).sum());
        assert_eq!(outside + inside, case.sample().len() as u64, "case {number}");
    }
}

#[test]
fn a_chunk_past_the_edge_of_the_array_is_culled() {
    let record = record(&[5], &[4], Dtype::U8, &[0]);
    let mut case = Case::new(record, Dtype::U8, vec![3], vec![9], PadMode::Constant);
    let part = ChunkBytes { bytes: &[9, 8, 7, 6], first: 0 };
    assert_eq!(case.with_target(|target| scatter(target, &[4], &part)), 1);
    assert_eq!(case.sample(), [POISON, 9, POISON, POISON, POISON, POISON]);
}

#[test]
fn a_chunk_that_the_box_does_not_touch_writes_nothing() {
    let record = record(&[8], &[4], Dtype::U8, &[0]);
    let mut case = Case::new(record, Dtype::U8, vec![0], vec![4], PadMode::None);
    let part = ChunkBytes { bytes: &[9, 8, 7, 6], first: 0 };
    assert_eq!(case.with_target(|target| scatter(target, &[4], &part)), 0);
    assert_eq!(case.sample(), [POISON; 4]);
}

#[test]
fn rank_16_is_scattered_like_any_other() {
    let mut shape = [1; 16];
    shape[0] = 3;
    shape[7] = 2;
    shape[15] = 4;
    let order: Vec<usize> = (0..16).collect();
    let record = record(&shape, &shape, Dtype::U16, &order);
    let mut case = Case::new(
        record,
        Dtype::F32,
        vec![0; 16],
        shape.iter().map(|extent| *extent as i64).collect(),
        PadMode::None,
    );
    let chunk: Vec<u8> = (1000..1024u16).flat_map(u16::to_le_bytes).collect();
    let part = ChunkBytes { bytes: &chunk, first: 0 };
    assert_eq!(case.with_target(|target| scatter(target, &[0; 16], &part)), 96);
    let floats: Vec<u8> =
        (1000..1024u16).flat_map(|value| f32::from(value).to_le_bytes()).collect();
    assert_eq!(case.sample(), floats);
}

/// The planes of a block, as (source, target, length, source_step, rows).
fn planes(axes: &[BlockAxis]) -> Vec<(u64, u64, u64, i64, u64)> {
    let block = Block { axes: axes.iter().copied().collect(), source: 0, target: 0 };
    let mut planes = Vec::new();
    block.for_each_plane(4, &mut |plane| {
        let BlockPlane { source, target, length, source_step, count, .. } = *plane;
        planes.push((source, target, length, source_step, count));
    });
    planes
}

#[test]
fn planes_that_are_whole_in_both_layouts_become_one_row() {
    let axis = |length, source_step, target_step| BlockAxis { length, source_step, target_step };
    let dense = [axis(2, 24, 48), axis(3, 8, 16), axis(4, 2, 4)];
    assert_eq!(planes(&dense), [(0, 0, 24, 2, 1)]);
}

#[test]
fn the_innermost_axis_that_has_gaps_makes_the_rows_of_a_plane() {
    let axis = |length, source_step, target_step| BlockAxis { length, source_step, target_step };
    let cropped = [axis(2, 48, 48), axis(3, 8, 16), axis(4, 2, 4)];
    assert_eq!(planes(&cropped), [(0, 0, 12, 2, 2)]);
    let twice = [axis(2, 100, 200), axis(3, 8, 20), axis(4, 2, 4)];
    assert_eq!(planes(&twice), [(0, 0, 4, 2, 3), (100, 200, 4, 2, 3)]);
    let column = [axis(2, 32, 64), axis(2, 8, 16), axis(1, 2, 4)];
    assert_eq!(planes(&column), [(0, 0, 1, 0, 2), (32, 64, 1, 0, 2)]);
}

#[test]
fn rows_that_stride_through_the_source_go_with_the_axis_of_the_shortest_step() {
    let axis = |length, source_step, target_step| BlockAxis { length, source_step, target_step };
    // Column-major: the outermost axis of the target is side by side in the source.
    let turned = [axis(5, 2, 64), axis(3, 10, 16), axis(4, 30, 4)];
    assert_eq!(planes(&turned), [(0, 0, 4, 30, 5), (10, 16, 4, 30, 5), (20, 32, 4, 30, 5)]);
    // Repeated elements have no distance, and dense rows keep the next axis out.
    let repeated = [axis(5, 0, 64), axis(3, 10, 16), axis(4, 30, 4)];
    assert_eq!(planes(&repeated)[0], (0, 0, 4, 30, 3));
    let dense = [axis(5, 10, 64), axis(3, 50, 16), axis(4, 2, 4)];
    assert_eq!(planes(&dense)[0], (0, 0, 4, 2, 3));
}

#[test]
fn long_transposed_rows_keep_every_element() {
    for (source, target) in
        [(Dtype::U16, Dtype::U16), (Dtype::F64, Dtype::F64), (Dtype::U8, Dtype::F32)]
    {
        let record = record(&[3, 2, 301], &[3, 2, 301], source, &[2, 1, 0]);
        let bytes = record.chunk_bytes as usize;
        let (begin, end) = (vec![0, 0, 7], vec![3, 2, 300]);
        let mut case = Case::new(record, target, begin, end, PadMode::None);
        let mut random = Random(0x1357_9BDF_0246_8ACE);
        let chunk: Vec<u8> = (0..bytes).map(|_| random.next() as u8).collect();
        let mut expected = case.sample().to_vec();
        let written = case.slow_scatter(&mut expected, &[0; 3], Some(&chunk));
        let part = ChunkBytes { bytes: &chunk, first: 0 };
        assert_eq!(case.with_target(|target| scatter(target, &[0; 3], &part)), written);
        assert!(case.sample() == expected);
    }
}

#[test]
fn a_row_is_filled_with_elements_of_any_size() {
    for size in 1..=16usize {
        let element: Vec<u8> = (1..=size as u8).collect();
        let mut memory = vec![POISON; 5 * size];
        fill_row(&mut memory, &element);
        assert_eq!(memory, element.repeat(5));
    }
}
