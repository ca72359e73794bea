//! Random arrays, boxes and filters, as units and as the host path writes them.

use crate::sim::{Aligned, ORDERS, Sim, Wave};
use wavetrain::assemble::augment::{Change, Scratch};
use wavetrain::assemble::axis::{PadMode, source_range};
use wavetrain::assemble::cast::Cast;
use wavetrain::assemble::changes::UnitChange;
use wavetrain::assemble::units::{
    ChunkData, DeviceSample, Filter, Piece, Unit, chunk_piece, failed_unit, for_each_outside,
    missing_piece,
};
use wavetrain::assemble::{SampleBox, Target, fill_outside, fill_row, scatter, scatter_fill};
use wavetrain::base::arena::Claim;
use wavetrain::base::math::coordinates_from_linear;
use wavetrain::records::{
    ArrayRecord, AugmentWords, BoxShape, ByteOrder, ChunkBytes, DTYPES, Dtype,
};
use wavetrain::simd::FloatEnvironment;

pub const POISON: u8 = 0xA5;

/// Bytes around the samples that must stay as they are.
const GUARD: usize = 256;

/// Marsaglia's xorshift64: the same cases on every run.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A number in `[first, limit)`.
    pub fn within(&mut self, first: i64, limit: i64) -> i64 {
        first + (self.next() % (limit - first) as u64) as i64
    }

    pub fn choice<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.within(0, items.len() as i64) as usize]
    }

    pub fn one_in(&mut self, count: i64) -> bool {
        self.within(0, count) == 0
    }

    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| (self.next() >> 24) as u8).collect()
    }
}

/// An array, boxes of one shape in it, and what they are cast to.
pub struct Case {
    pub record: ArrayRecord,
    pub dtype: Dtype,
    pub cast: Cast,
    pub begins: Vec<Vec<i64>>,
    pub shape: Vec<i64>,
    pub pad: PadMode,
    pub filter: Filter,
    pub typesize: usize,
    pub block_bytes: usize,
    /// The arithmetic on the elements.
    pub words: AugmentWords,
}

/// A unit that nothing belongs to.
pub fn alone(unit: Unit) -> Piece<'static> {
    Piece { unit, folds: None, change: None }
}

/// A wave and what it makes of poisoned memory.
pub struct Told {
    pub wave: Wave,
    pub expected: Vec<u8>,
}

impl Told {
    /// Runs the wave in all orders on poisoned memory, and compares.
    pub fn check(&self, sim: &Sim, what: &dyn Fn() -> String) {
        let mut target = Aligned::new(self.expected.len(), POISON);
        for order in ORDERS {
            target.fill(POISON);
            let wave = self.wave.bytes(target.as_ptr() as u64);
            assert_eq!(sim.assemble(&wave, order), 0, "order {order}: {}", what());
            if let Some(at) = (0..target.len()).find(|at| target[*at] != self.expected[*at]) {
                let (found, expected) = (target[at], self.expected[at]);
                panic!("order {order}, byte {at}: {found:#x}, not {expected:#x}: {}", what());
            }
        }
    }
}

/// A record of a chunked array whose chunks are transposed by `order`.
pub fn record(
    shape: &[u64],
    chunk_shape: &[u64],
    (dtype, bytes): (Dtype, u32),
    order: &[usize],
) -> ArrayRecord {
    let mut record = ArrayRecord::EMPTY.clone();
    record.rank = shape.len() as u32;
    (record.dtype, record.dtype_bytes) = (dtype, bytes);
    record.shape[..shape.len()].copy_from_slice(shape);
    record.chunk_shape[..shape.len()].copy_from_slice(chunk_shape);
    let mut stride = i64::from(bytes);
    for axis in order.iter().rev() {
        record.chunk_strides[*axis] = stride;
        stride *= chunk_shape[*axis] as i64;
    }
    record.chunk_bytes = stride as u64;
    record.fill = [0x2A, 0x3C, 0x41, 7, 9, 8, 11, 13, 1, 2, 3, 4, 5, 6, 7, 8];
    record
}

/// Every pair of types that has a cast.
pub fn pairs() -> Vec<(Dtype, u32, Dtype)> {
    let mut pairs = Vec::new();
    for source in DTYPES {
        let sizes = if source == Dtype::Raw { 1..17 } else { source.bytes()..source.bytes() + 1 };
        for bytes in sizes {
            for target in DTYPES {
                let target_bytes = if target == Dtype::Raw { bytes } else { target.bytes() };
                if Cast::find_clamped(source, bytes, target, target_bytes).is_some() {
                    pairs.push((source, bytes, target));
                }
            }
        }
    }
    pairs
}

/// The pairs that have loops of their own, which come more often.
const HOT: [(Dtype, u32, Dtype); 12] = [
    (Dtype::U16, 2, Dtype::F32),
    (Dtype::U8, 1, Dtype::F32),
    (Dtype::I16, 2, Dtype::F32),
    (Dtype::U16, 2, Dtype::Bf16),
    (Dtype::U8, 1, Dtype::F16),
    (Dtype::F32, 4, Dtype::Bf16),
    (Dtype::F16, 2, Dtype::F32),
    (Dtype::U16, 2, Dtype::U16),
    (Dtype::U8, 1, Dtype::U8),
    (Dtype::F32, 4, Dtype::F32),
    (Dtype::F64, 8, Dtype::F64),
    (Dtype::C64, 8, Dtype::C64),
];

/// The filters as src/decode/unshuffle.rs tells them, bit by bit, block by block.
fn filtered(case: &Case, chunk: &[u8]) -> Vec<u8> {
    let mut filtered = chunk.to_vec();
    let typesize = case.typesize;
    for (block, out) in chunk.chunks(case.block_bytes).zip(filtered.chunks_mut(case.block_bytes)) {
        let count = block.len() / typesize;
        let stays = match case.filter {
            Filter::None => true,
            Filter::Bytes => typesize == 1,
            Filter::Bits => !count.is_multiple_of(8) || count == 0,
        };
        if stays {
            continue;
        }
        out[..count * typesize].fill(0);
        for element in 0..count {
            for byte in 0..typesize {
                let value = block[element * typesize + byte];
                if case.filter == Filter::Bytes {
                    out[byte * count + element] = value;
                    continue;
                }
                for bit in 0..8 {
                    let row = (byte * 8 + bit) * (count / 8);
                    out[row + element / 8] |= (value >> bit & 1) << (element % 8);
                }
            }
        }
    }
    filtered
}

/// The decoded bytes that a unit reads: first and limit.
pub fn reads(piece: &Piece) -> (u64, u64) {
    let unit = &piece.unit;
    let (mut low, mut high) = (unit.source as i64, unit.source as i64);
    for (axis, along) in unit.axes[..usize::from(unit.axis_count)].iter().enumerate() {
        let count = match &piece.folds {
            Some(folds) if unit.folded >> axis & 1 != 0 => folds[axis].limit - folds[axis].first,
            _ => along.length,
        };
        let span = (count as i64 - 1) * along.source_step;
        (low, high) = (low + span.min(0), high + span.max(0));
    }
    let (mut low, mut high) = (low as u64, high as u64 + u64::from(unit.source_bytes));
    if unit.filter != 0 {
        let block = u64::from(unit.filter_block_bytes);
        low -= low % block;
        high = (high.div_ceil(block) * block).min(unit.chunk_bytes);
    }
    (low, high)
}

impl Case {
    pub fn new(
        record: ArrayRecord,
        dtype: Dtype,
        begins: Vec<Vec<i64>>,
        shape: Vec<i64>,
        pad: PadMode,
    ) -> Case {
        let bytes = record.dtype_bytes;
        let target_bytes = if dtype == Dtype::Raw { bytes } else { dtype.bytes() };
        let cast = Cast::find_clamped(record.dtype, bytes, dtype, target_bytes).unwrap();
        let block_bytes = record.chunk_bytes.max(1) as usize;
        let (filter, typesize) = (Filter::None, 1);
        let words = AugmentWords::default();
        Case { record, dtype, cast, begins, shape, pad, filter, typesize, block_bytes, words }
    }

    /// Any geometry, cast, filter and padding.
    pub fn random(random: &mut Random) -> Case {
        let rank = match random.within(0, 8) {
            0 => random.within(5, 17),
            1 | 2 => 1,
            _ => random.within(2, 5),
        } as usize;
        let size = [0, 30_000, 150, 30, 12].get(rank).copied().unwrap_or(4);
        // Of many axes most have one element.
        let extent = |random: &mut Random| match rank {
            0..5 => random.within(1, size + 1) as u64,
            _ if random.one_in(2) => random.within(1, 4) as u64,
            _ => 1,
        };
        let shape: Vec<u64> = (0..rank).map(|_| extent(random)).collect();
        let whole = random.one_in(3);
        let chunk_shape: Vec<u64> = shape
            .iter()
            .map(|extent| if whole { *extent } else { random.within(1, *extent as i64 + 1) as u64 })
            .collect();
        let mut order: Vec<usize> = (0..rank).collect();
        if random.one_in(4) {
            for axis in 1..rank {
                order.swap(axis, random.within(0, axis as i64 + 1) as usize);
            }
        }
        let (source, bytes, target) =
            if random.one_in(2) { random.choice(&HOT) } else { random.choice(&pairs()) };
        let mut record = record(&shape, &chunk_shape, (source, bytes), &order);
        if random.one_in(3) {
            record.byte_order = ByteOrder::Big;
        }
        let pad = match random.within(0, 6) {
            0 => PadMode::Constant,
            1 => PadMode::Edge,
            2 => PadMode::Reflect,
            _ => PadMode::None,
        };
        let (mut shape, mut begins) = (Vec::new(), vec![Vec::new(); 2]);
        for extent in &record.shape[..rank] {
            let extent = *extent as i64;
            let reach = if pad == PadMode::None { 0 } else { extent.min(9) + 1 };
            loop {
                // Padding of many axes multiplies.
                let room = (60_000 / shape.iter().product::<i64>()).max(1);
                let length = random.within(1, (extent + 2 * reach).min(room) + 1);
                let places = extent + 2 * reach - length + 1;
                let at = [random.within(0, places) - reach, random.within(0, places) - reach];
                let is_legal =
                    |begin: &i64| source_range(*begin, begin + length, extent as u64, pad).is_ok();
                if at.iter().all(is_legal) {
                    shape.push(length);
                    begins.iter_mut().zip(at).for_each(|(begin, at)| begin.push(at));
                    break;
                }
            }
        }
        let mut case = Case::new(record, target, begins, shape, pad);
        if random.one_in(2) {
            case.filter = random.choice(&[Filter::Bytes, Filter::Bits]);
            case.typesize =
                if random.one_in(4) { random.within(1, 20) } else { bytes as i64 } as usize;
            let elements = random.choice(&[8, 24, 64, 100, 1024, 1 << 20]);
            let ragged = if random.one_in(6) { 1 } else { 0 };
            case.block_bytes = elements * case.typesize + ragged;
        }
        case
    }

    /// Extents of the chunk grid, whole chunks of which cover the array.
    fn origins(&self) -> Vec<Vec<u64>> {
        let record = &self.record;
        let axes = record.axes();
        let counts: Vec<u64> =
            (0..axes).map(|axis| record.shape[axis].div_ceil(record.chunk_shape[axis])).collect();
        let origin = |linear: u64| {
            let mut at = vec![0; axes];
            coordinates_from_linear(linear, &counts, &mut at);
            at.iter().zip(record.chunk_shape).map(|(at, edge)| at * edge).collect()
        };
        (0..counts.iter().product()).map(origin).collect()
    }

    fn target_bytes(&self) -> usize {
        self.cast.target_bytes() as usize
    }

    fn sample_bytes(&self) -> usize {
        self.shape.iter().product::<i64>() as usize * self.target_bytes()
    }

    /// Units of all chunks and of what lies outside, for all boxes and for one more sample, which
    /// failed; and what the host makes of the same.
    pub fn told(&self, random: &mut Random) -> Told {
        self.told_with(random, None)
    }

    /// The same where every chunk has these bytes.
    pub fn told_of(&self, chunk: &[u8]) -> Told {
        self.told_with(&mut Random(1), Some(chunk))
    }

    fn told_with(&self, random: &mut Random, given: Option<&[u8]>) -> Told {
        let _floats = FloatEnvironment::enter();
        let sample_bytes = self.sample_bytes();
        let mut expected = Aligned::new(2 * GUARD + sample_bytes * (self.begins.len() + 1), POISON);
        let mut wave = Wave::default();
        let ends: Vec<Vec<i64>> = self
            .begins
            .iter()
            .map(|begin| begin.iter().zip(&self.shape).map(|(at, length)| at + length).collect())
            .collect();
        let address = |number: usize| (GUARD + number * sample_bytes) as u64;
        let shapes: Vec<BoxShape> =
            self.begins.iter().zip(&ends).map(|(b, e)| BoxShape::forward(b, e)).collect();
        let strides = shapes[0].strides(self.shape.len(), self.cast.target_bytes());
        let extents: Vec<u64> = self.shape.iter().map(|extent| *extent as u64).collect();
        let source = (self.record.dtype, self.record.dtype_bytes);
        let change = self.words.view().map(|augment| {
            Change::new(augment, source, (&extents, self.dtype), false).expect("floats")
        });
        let sample = |number: usize| SampleBox {
            record: &self.record,
            cast: &self.cast,
            shape: &shapes[number],
            first: 0,
            strides: &strides,
            pad: self.pad,
        };
        let device = |number: usize| {
            let (sample, address) = (sample(number), address(number));
            let change = change.and_then(|change| UnitChange::new(&change, &sample));
            DeviceSample { sample, dtype: self.dtype, address, change }
        };
        let mut scratch = Scratch::NEW;
        for origin in self.origins() {
            let drawn = || random.bytes(self.record.chunk_bytes as usize);
            let chunk = given.map_or_else(drawn, <[u8]>::to_vec);
            let is_missing = given.is_none() && random.one_in(6);
            let filtered = filtered(self, &chunk);
            for number in 0..self.begins.len() {
                let place = &mut expected[GUARD + number * sample_bytes..][..sample_bytes];
                let mut host = Target {
                    sample: sample(number),
                    claim: Claim::on(place),
                    change: change.as_ref().map(|change| (change, &mut scratch)),
                };
                let device = device(number);
                if is_missing {
                    scatter_fill(&mut host, &origin);
                    missing_piece(&device, &origin).iter().for_each(|piece| {
                        wave.add(piece);
                    });
                    continue;
                }
                scatter(&mut host, &origin, &ChunkBytes { bytes: &chunk, first: 0 });
                self.add_chunk(&mut wave, &device, &origin, &filtered, random);
            }
        }
        let mut element = [random.next() as u8; 16];
        if !random.one_in(3) {
            element.copy_from_slice(&random.bytes(16));
        }
        for number in 0..self.begins.len() {
            let place = &mut expected[GUARD + number * sample_bytes..][..sample_bytes];
            let mut host = Target {
                sample: sample(number),
                claim: Claim::on(place),
                change: change.as_ref().map(|change| (change, &mut scratch)),
            };
            let given = (change.is_none() || random.one_in(2)).then_some(element);
            fill_outside(&mut host, given);
            for_each_outside(&device(number), given, |piece| {
                wave.add(piece);
            });
        }
        let last = self.begins.len();
        let place = &mut expected[GUARD + last * sample_bytes..][..sample_bytes];
        fill_row(place, &element[..self.target_bytes()]);
        let bytes = self.target_bytes() as u32;
        let unit = failed_unit(address(last), sample_bytes as u64, &element, bytes);
        wave.add(&alone(unit));
        Told { wave, expected: expected.to_vec() }
    }

    /// Only the bytes that are read, and sometimes a few more, at any place.
    fn add_chunk(
        &self,
        wave: &mut Wave,
        device: &DeviceSample<'_>,
        origin: &[u64],
        filtered: &[u8],
        random: &mut Random,
    ) {
        let whole = ChunkData {
            data: 0,
            first: 0,
            bytes: filtered.len() as u64,
            filter: self.filter,
            block_bytes: self.block_bytes as u32,
            typesize: self.typesize as u32,
        };
        let Some(piece) = chunk_piece(device, origin, &whole) else { return };
        let (first, limit) = reads(&piece);
        let spare = random.within(0, 3) as u64;
        let (first, limit) =
            (first.saturating_sub(spare), (limit + spare).min(filtered.len() as u64));
        let skip = if random.one_in(2) { random.within(0, 16) } else { 0 } as usize;
        let data = wave.place(&filtered[first as usize..limit as usize], skip);
        let part = ChunkData { data, first, bytes: limit - first, ..whole };
        wave.add(&chunk_piece(device, origin, &part).unwrap());
    }
}
