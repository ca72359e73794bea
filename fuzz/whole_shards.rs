//! Shards that are decoded whole: cells of what the input chooses, encoded one by one, an index and
//! codecs around them; then damage, or an index that the input writes.
//!
//! Facts: a sound shard decodes to its cells, each in its place, and to the fill value where one is
//! missing; whatever the bytes are, the outcome is the same in memory that is kept, and a refusal
//! has a text.

use super::choices::Choices;
use super::guard::with_bench;
use std::iter;
use wavetrain::base::limits::RANK_MAX;
use wavetrain::decode::{Scratch, block_need, decode_chunk, kept_bytes, target_need};
use wavetrain::records::{
    ArrayRecord, ByteOrder, Codec, Dtype, Filter, IN_ORDER, IndexLayout, Lzma, MISSING, Span,
};
use wavetrain::status::{Status, Why};

/// The encoder of a compressor.
type Compress = fn(Codec, &[u8], &mut Choices<'_>) -> Vec<u8>;

/// Elements of a chunk at most: each may take an index entry and the bounds of a compressor at
/// every level, and all of that fits the room of a bench.
const ELEMENTS_MAX: u64 = 4096;

/// Checks one input.
pub fn run(choices: &mut Choices<'_>, compress: Compress) {
    let record = chosen_record(choices);
    let plain: Vec<u8> = {
        let (seed, step) = (choices.byte(), choices.byte() | 1);
        (0..record.chunk_bytes).map(|at| seed.wrapping_add((at as u8).wrapping_mul(step))).collect()
    };
    let mut want = plain;
    let mut maker = Maker { record: &record, compress, is_hostile: false };
    let sound = maker.encoded(record.codecs.len(), &[0; RANK_MAX], &mut want, choices);
    assert_eq!(decoded(&record, &sound, false).as_ref(), Ok(&want), "{:?}", record.codecs);
    assert_eq!(decoded(&record, &sound, true).as_ref(), Ok(&want));
    maker.is_hostile = choices.rarely(2);
    let mut broken = match maker.is_hostile {
        true => maker.encoded(record.codecs.len(), &[0; RANK_MAX], &mut want, choices),
        false => sound,
    };
    for _ in 0..choices.below(4) {
        let at = choices.below(broken.len() as u64) as usize;
        broken[at] ^= choices.byte();
    }
    broken.truncate(broken.len() - (choices.below(8) as usize).min(broken.len() - 1));
    assert_eq!(decoded(&record, &broken, false), decoded(&record, &broken, true));
}

/// Chunks of one to three shards in each other.
fn chosen_record(choices: &mut Choices<'_>) -> ArrayRecord {
    let mut record = ArrayRecord::EMPTY;
    record.rank = 1 + choices.below(3) as u32;
    (record.dtype, record.dtype_bytes) =
        choices.one_of(&[(Dtype::U8, 1), (Dtype::U16, 2), (Dtype::C64, 8)]);
    let is_big = choices.rarely(2) && record.dtype_bytes > 1;
    record.byte_order = if is_big { ByteOrder::Big } else { ByteOrder::Little };
    record.fill[..record.dtype_bytes as usize].fill_with(|| choices.byte());
    let shards = 1 + choices.below(3) as usize;
    let mut extents = [1; RANK_MAX];
    let axes = record.axes();
    extents[..axes].fill_with(|| 1 + choices.below(4));
    for number in (0..shards).rev() {
        record.shard_shape[number] = extents;
        for axis in 0..axes {
            let count = 1 + choices.below(3);
            let elements: u64 = extents.iter().product();
            extents[axis] *= if elements * count <= ELEMENTS_MAX { count } else { 1 };
        }
        let byte_order = choices.one_of(&[ByteOrder::Little, ByteOrder::Big]);
        let (at_start, has_crc) = (choices.rarely(2), choices.rarely(2));
        record.index[number] = IndexLayout { at_start, has_crc, byte_order };
        record.axis_order[number + 1] = order(axes, choices);
    }
    record.axis_order[0] = order(axes, choices);
    record.chunk_shape = extents;
    record.pack_chunk();
    let compressors = [Codec::Zstd, Codec::Gzip, Codec::Blosc, Codec::Lz4, Codec::Bz2(1)];
    let lzma = [Codec::Lzma(Lzma::Xz), Codec::Lzma(Lzma::Alone)];
    let outer: Vec<Option<Codec>> =
        iter::once(None).chain(compressors.into_iter().chain(lzma).map(Some)).collect();
    for place in 0..=shards {
        // A chain has six codecs at most.
        if record.codecs.len() + (shards - place) < 5 {
            record.codecs.extend(choices.one_of(&outer));
        }
        if choices.rarely(4) && record.codecs.len() + (shards - place) < 6 {
            record.codecs.push(Codec::Crc32c);
        }
        if place < shards {
            record.codecs.push(Codec::Filter(Filter::Shard((shards - place - 1) as u8)));
        }
    }
    record
}

fn order(axes: usize, choices: &mut Choices<'_>) -> [u8; RANK_MAX] {
    let mut order = IN_ORDER;
    order[..axes].rotate_left(choices.below(axes as u64) as usize);
    order
}

struct Maker<'r> {
    record: &'r ArrayRecord,
    compress: Compress,
    is_hostile: bool,
}

impl Maker<'_> {
    /// The thing that begins at an element, of the first `count` codecs; elements of cells that are
    /// left out become the fill value.
    fn encoded(
        &self,
        count: usize,
        first: &[u64; RANK_MAX],
        elements: &mut [u8],
        choices: &mut Choices<'_>,
    ) -> Vec<u8> {
        let record = self.record;
        let Some((codec, place)) = record.codecs[..count].last().zip(count.checked_sub(1)) else {
            return self.gathered(first, count, elements);
        };
        match codec {
            Codec::Filter(Filter::Shard(_)) => self.shard(place, first, elements, choices),
            Codec::Crc32c => {
                let mut bytes = self.encoded(place, first, elements, choices);
                bytes.extend(crc32c::crc32c(&bytes).to_le_bytes());
                bytes
            }
            codec => {
                let bytes = self.encoded(place, first, elements, choices);
                (self.compress)(*codec, &bytes, choices)
            }
        }
    }

    /// Places of elements in the chunk, row-major in its axis order, of a thing of these codecs.
    fn places(&self, first: &[u64; RANK_MAX], count: usize) -> Vec<usize> {
        let (record, axes) = (self.record, self.record.axes());
        let mut places = vec![0];
        for axis in record.axis_order[0][..axes].iter().map(|axis| usize::from(*axis)) {
            let along = first[axis]..first[axis] + record.unit_shape(count)[axis];
            let stride = record.chunk_strides[axis] as usize;
            places = places
                .iter()
                .flat_map(|place| along.clone().map(move |at| place + at as usize * stride))
                .collect();
        }
        places
    }

    fn gathered(&self, first: &[u64; RANK_MAX], count: usize, elements: &[u8]) -> Vec<u8> {
        let bytes = self.record.dtype_bytes as usize;
        let places = self.places(first, count);
        places.iter().flat_map(|place| elements[*place..place + bytes].to_vec()).collect()
    }

    fn shard(
        &self,
        place: usize,
        first: &[u64; RANK_MAX],
        elements: &mut [u8],
        choices: &mut Choices<'_>,
    ) -> Vec<u8> {
        let (record, axes) = (self.record, self.record.axes());
        let number = record.codecs[place].shard().expect("a shard");
        let layout = record.index[number];
        let (counts, cell) = (record.cell_counts(place), *record.unit_shape(place));
        let mut firsts = vec![*first];
        for axis in record.axis_order[number + 1][..axes].iter().map(|axis| usize::from(*axis)) {
            let step = |first: &[u64; RANK_MAX], at: u64| {
                let mut first = *first;
                first[axis] += at * cell[axis];
                first
            };
            firsts = firsts
                .iter()
                .flat_map(|first| (0..counts[axis]).map(move |at| step(first, at)))
                .collect();
        }
        let index_bytes = layout.bytes(firsts.len() as u64) as usize;
        let base = if layout.at_start { index_bytes } else { 0 };
        let (mut body, mut words) = (Vec::new(), Vec::new());
        for first in &firsts {
            if choices.rarely(4) {
                self.fill(first, place, elements);
                words.extend([MISSING; 2]);
                continue;
            }
            let bytes = self.encoded(place, first, elements, choices);
            words.extend([(base + body.len()) as u64, bytes.len() as u64]);
            body.extend(bytes);
        }
        if self.is_hostile && choices.rarely(2) {
            let at = choices.below(words.len() as u64) as usize;
            words[at] = match choices.below(3) {
                0 => choices.long(),
                1 => words[at].wrapping_add(choices.below(9)).wrapping_sub(4),
                _ => words[choices.below(words.len() as u64) as usize],
            };
        }
        let bytes_of = |word: &u64| match layout.byte_order {
            ByteOrder::Little => word.to_le_bytes(),
            ByteOrder::Big => word.to_be_bytes(),
        };
        let mut index: Vec<u8> = words.iter().flat_map(bytes_of).collect();
        if layout.has_crc {
            index.extend(crc32c::crc32c(&index).to_le_bytes());
        }
        if layout.at_start { [index, body].concat() } else { [body, index].concat() }
    }

    /// Gives a cell the fill value.
    fn fill(&self, first: &[u64; RANK_MAX], place: usize, elements: &mut [u8]) {
        let record = self.record;
        let mut fill = record.fill[..record.dtype_bytes as usize].to_vec();
        if record.byte_order == ByteOrder::Big {
            let word = if record.dtype == Dtype::C64 { 4 } else { fill.len() };
            fill.chunks_mut(word).for_each(<[u8]>::reverse);
        }
        for at in self.places(first, place) {
            elements[at..][..fill.len()].copy_from_slice(&fill);
        }
    }
}

/// Our decoder, between pages that nobody may touch.
fn decoded(record: &ArrayRecord, encoded: &[u8], is_kept: bool) -> Result<Vec<u8>, String> {
    with_bench(|bench| {
        let source = bench.source.copy_of(encoded);
        let target_bytes = if is_kept { kept_bytes(record) } else { target_need(record) };
        let target = bench.target.poisoned(target_bytes as usize, true);
        let block = bench.scratch.poisoned(block_need(record, source) as usize, true);
        let (scratch, mut why) = (Scratch { target, block }, Why::new());
        let need = Span { first: 0, limit: record.chunk_bytes };
        let outcome = decode_chunk(&mut bench.decoder, record, 0, source, need, scratch, &mut why);
        outcome.map(|chunk| chunk.bytes.to_vec()).map_err(|status| {
            assert!(matches!(status, Status::Decode | Status::Unsupported), "{why}");
            assert!(!why.is_empty());
            why.to_string()
        })
    })
}
