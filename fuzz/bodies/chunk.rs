//! Whole chunks through a codec chain: what the input chooses is encoded by other people's
//! software, damaged or replaced by bytes of the input, and decoded between guard pages.
//!
//! Facts: an undamaged chunk decodes to the data, whatever is needed of it; a part is that part of
//! the whole; the outcome is the same twice and nothing behind the chunk is written; with the
//! filter left in, it is the same but for the filter, block by block; flipped bits under a CRC-32C
//! are refused, and any damage under a strong checksum is refused or harmless; where a library
//! judges as strictly as we do, its outcome is ours; what a broken chunk leaves in the decoder does
//! not show in the next one.

use super::choices::Choices;
use super::guard::{POISON, with_bench};
use super::whole_shards;
use flate2::{Compression, Decompress, FlushDecompress, write::GzEncoder, write::ZlibEncoder};
use liblzma::stream::{Action, Check, Filters, LzmaOptions, Stream};
use std::ffi::{c_char, c_int, c_void};
use std::io::Write;
use std::iter;
use std::ops::Range;
use wavetrain::base::limits::CODECS_MAX;
use wavetrain::decode::unshuffle::unshuffle;
use wavetrain::decode::{
    BlockFilter, Scratch, Want, block_need, blosc, decode_chunk, decode_filtered, kept_bytes,
    leaves_filter, target_need,
};
use wavetrain::records::{ArrayRecord, CODECS, Codec, CodecName, Lzma, Span};
use wavetrain::status::{Status, Why};

/// A chunk of more than three zstd blocks, so that a frame can stop before its end.
const LONG_BYTES: usize = 3 << 17;

/// A level whose workspace fits the room of a bench.
const BZ2_LEVEL: u8 = 2;

/// The first bytes of inputs whose chunks are shards.
const SHARDS: &[u8] = b"shards";

/// What happens to a chunk on its way.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Damage {
    None,
    /// One to three bits are flipped, which every CRC-32C of up to 2^31 bits finds.
    Flips,
    /// It ends too early.
    Cut,
    /// Bytes follow it.
    Longer,
    /// It is something else.
    Replaced,
}

/// A chunk of a chain: checksums, a compressor or none, checksums.
struct Chunk {
    record: ArrayRecord,
    compressor: Option<Codec>,
    before: usize,
    after: usize,
    plain: Vec<u8>,
}

/// Checks one input.
pub fn run(data: &[u8]) {
    if let Some(data) = data.strip_prefix(SHARDS) {
        return whole_shards::run(&mut Choices::of(data), encoded);
    }
    let choices = &mut Choices::of(data);
    let chunk = chosen(choices);
    let bytes = chunk.plain.len();
    let scale = choices.one_of(&[1, 1, 40]);
    let first = choices.below(bytes as u64) as usize / scale;
    let limit = first + 1 + choices.below((bytes - first) as u64) as usize / scale;
    let max_substreams = choices.one_of(&[0, 0, 0, 1, 7, 64]);
    let payload = match chunk.compressor {
        Some(codec) => encoded(codec, &sealed(chunk.plain.clone(), chunk.before), choices),
        None => sealed(chunk.plain.clone(), chunk.before),
    };
    if chunk.record.is_read_partly() {
        return check_raw(&chunk, first..limit, choices);
    }
    let sound = sealed(payload.clone(), chunk.after);
    let damages =
        [Damage::None, Damage::Flips, Damage::Flips, Damage::Cut, Damage::Longer, Damage::Replaced];
    let damage = choices.one_of(&damages);
    // Damage that the checksums outside of it were made over.
    let is_sealed = choices.rarely(2);
    let broken = if is_sealed {
        sealed(damaged(payload, damage, choices), chunk.after)
    } else {
        damaged(sound.clone(), damage, choices)
    };
    let is_refused = chunk.record.codecs.iter().filter(|codec| codec.is_compressor()).count() > 1;
    let whole = decoded(&chunk.record, max_substreams, &broken, 0..bytes);
    let part = decoded(&chunk.record, max_substreams, &broken, first..limit);
    match &whole {
        Ok(whole) => assert_eq!(part.as_deref().ok(), Some(&whole[first..limit])),
        // Of a chunk without a checksum a part may be sound although the whole is not.
        Err(_) => assert!(part == whole || !chunk.record.has_checksum()),
    }
    if is_refused {
        return assert_eq!(whole.unwrap_err().0, Status::Unsupported);
    }
    if damage == Damage::None {
        let refusal = over_limit(&chunk, &broken, max_substreams);
        assert_eq!(whole.as_ref().err().map(|(status, _)| *status), refusal);
        assert!(whole.is_err() || whole.as_ref() == Ok(&chunk.plain));
    }
    if damage == Damage::Flips && chunk.after > 0 && !is_sealed {
        assert!(whole.is_err());
    }
    let is_strong = chunk.before > 0
        || chunk.after > 0 && !is_sealed
        || matches!(chunk.compressor, Some(Codec::Gzip | Codec::Bz2(_) | Codec::Lzma(_)));
    if is_strong && damage != Damage::Replaced {
        assert!(whole.is_err() || whole.as_ref() == Ok(&chunk.plain));
    }
    if let Some(expected) = by_libraries(&chunk, &broken) {
        assert_eq!(whole.ok(), expected);
    }
    let again = decoded(&chunk.record, 0, &sound, first..limit);
    assert_eq!(again.as_deref(), Ok(&chunk.plain[first..limit]));
}

/// A chain that metadata may hold, seldom one that it may not, and data for it.
fn chosen(choices: &mut Choices<'_>) -> Chunk {
    let rows = CODECS.iter().filter(|row| row.number > 0).map(|row| row.codec);
    let menu: Vec<Option<Codec>> = iter::once(None).chain(rows.map(compressor)).collect();
    let compressor = choices.one_of(&menu);
    let before = choices.below(3) as usize;
    let after = choices.below(3).min((CODECS_MAX - 1 - before) as u64) as usize;
    let mut record = ArrayRecord::EMPTY.clone();
    (0..before).for_each(|_| record.codecs.push(Codec::Crc32c));
    record.codecs.extend(compressor);
    (0..after).for_each(|_| record.codecs.push(Codec::Crc32c));
    if choices.rarely(16) && compressor.is_some() && !record.codecs.is_full() {
        record.codecs.insert(0, Codec::Zstd);
    }
    let is_long = choices.rarely(8);
    let bytes = 1 + choices.below(5000) as usize + if is_long { LONG_BYTES } else { 0 };
    record.chunk_bytes = bytes as u64;
    let plain = painted(choices.byte() % 4, choices.byte(), bytes);
    Chunk { record, compressor, before, after, plain }
}

/// The codec of a row that compresses.
fn compressor(name: CodecName) -> Option<Codec> {
    Some(match name {
        CodecName::Zstd => Codec::Zstd,
        CodecName::Blosc => Codec::Blosc,
        CodecName::Gzip => Codec::Gzip,
        CodecName::Zlib => Codec::Zlib,
        CodecName::Lz4 => Codec::Lz4,
        CodecName::Bz2 => Codec::Bz2(BZ2_LEVEL),
        CodecName::Lzma => Codec::Lzma(Lzma::Xz),
        other => unreachable!("no chunks of {other:?} are made here"),
    })
}

/// Slopes, noise, runs or text, never zeroes alone.
fn painted(kind: u8, seed: u8, bytes: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15 ^ u64::from(seed);
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 24) as usize
    };
    let byte = |at: usize| match kind {
        0 => at * at / 90 + at / 7 + usize::from(seed) + 1,
        1 => next(),
        2 => at / (1 + usize::from(seed)) + 1,
        _ => next() % 5 + 97,
    };
    (0..bytes).map(byte).map(|byte| byte as u8).collect()
}

/// `bytes` and `count` checksums, each over what is before it.
fn sealed(mut bytes: Vec<u8>, count: usize) -> Vec<u8> {
    for _ in 0..count {
        let sum = crc32c::crc32c(&bytes);
        bytes.extend(sum.to_le_bytes());
    }
    bytes
}

/// What the library of a codec makes of `bytes`.
fn encoded(codec: Codec, bytes: &[u8], choices: &mut Choices<'_>) -> Vec<u8> {
    let how = choices.byte();
    let level = Compression::new(u32::from(how % 10));
    match codec {
        Codec::Crc32c | Codec::Sum(_) | Codec::Filter(_) => unreachable!("no compressor"),
        Codec::Zstd => {
            let mut encoder = zstd::Encoder::new(Vec::new(), i32::from(how % 4)).unwrap();
            encoder.include_checksum(how & 4 != 0).unwrap();
            let declared = (how & 8 == 0).then_some(bytes.len() as u64);
            encoder.set_pledged_src_size(declared).unwrap();
            encoder.include_contentsize(declared.is_some()).unwrap();
            encoder.write_all(bytes).unwrap();
            encoder.finish().unwrap()
        }
        Codec::Gzip => {
            let (front, back) = bytes.split_at(bytes.len() * usize::from(how / 10) / 26);
            let mut members = Vec::new();
            for member in [front, back] {
                let mut encoder = GzEncoder::new(members, level);
                encoder.write_all(member).unwrap();
                members = encoder.finish().unwrap();
            }
            members
        }
        Codec::Zlib => {
            let mut encoder = ZlibEncoder::new(Vec::new(), level);
            encoder.write_all(bytes).unwrap();
            encoder.finish().unwrap()
        }
        Codec::Lz4 => by_lz4(bytes),
        Codec::Bz2(most) => {
            let level = bzip2::Compression::new(1 + u32::from(how) % u32::from(most));
            let mut encoder = bzip2::write::BzEncoder::new(Vec::new(), level);
            encoder.write_all(bytes).unwrap();
            encoder.finish().unwrap()
        }
        Codec::Lzma(lzma) => by_liblzma(lzma, bytes, how),
        Codec::Blosc | Codec::BloscLz4 | Codec::BloscZstd => {
            by_blosc(bytes, how, choices.byte(), choices.one_of(&[0, 0, 256, 1000]))
        }
    }
}

/// Streams of two blocks, or .lzma. Small dictionaries and short searches are fast.
fn by_liblzma(lzma: Lzma, bytes: &[u8], how: u8) -> Vec<u8> {
    let mut options = LzmaOptions::new_preset(0).unwrap();
    options.dict_size(4096 << (how % 4)).position_bits(u32::from(how % 5));
    let check = [Check::Crc32, Check::Crc64, Check::Sha256][usize::from(how / 4) % 3];
    let mut filters = Filters::new();
    if how >= 0x80 {
        filters.delta_properties(&[how]).unwrap();
    }
    let mut stream = match lzma {
        Lzma::Xz => Stream::new_stream_encoder(filters.lzma2(&options), check).unwrap(),
        _ => Stream::new_lzma_encoder(&options).unwrap(),
    };
    let mut target = Vec::with_capacity(2 * bytes.len() + 1000);
    let (front, back) = bytes.split_at(bytes.len() * usize::from(how / 10) / 26);
    if lzma == Lzma::Xz {
        stream.process_vec(front, &mut target, Action::FullFlush).unwrap();
    } else {
        stream.process_vec(front, &mut target, Action::Run).unwrap();
    }
    stream.process_vec(back, &mut target, Action::Finish).unwrap();
    target
}

fn by_lz4(bytes: &[u8]) -> Vec<u8> {
    let mut block = vec![0; bytes.len() + bytes.len() / 200 + 64];
    // SAFETY: both buffers are live and as long as the call is told.
    let count = unsafe {
        lz4_sys::LZ4_compress_default(
            bytes.as_ptr().cast(),
            block.as_mut_ptr().cast(),
            bytes.len() as c_int,
            block.len() as c_int,
        )
    };
    assert!(count > 0);
    block.truncate(count as usize);
    [&(bytes.len() as u32).to_le_bytes(), &block[..]].concat()
}

fn by_blosc(bytes: &[u8], how: u8, typesize: u8, blocksize: usize) -> Vec<u8> {
    let mut chunk = vec![0; bytes.len() + 64];
    let names: [&[u8]; 4] = [b"blosclz\0", b"lz4\0", b"lz4hc\0", b"zlib\0"];
    let name = names[usize::from(how % 4)];
    // SAFETY: both buffers are live and as long as the call is told; the name ends with a NUL.
    let count = unsafe {
        blosc_src::blosc_compress_ctx(
            c_int::from(how / 4 % 10),
            c_int::from(how / 40 % 3),
            usize::from(typesize % 17) + 1,
            bytes.len(),
            bytes.as_ptr().cast::<c_void>(),
            chunk.as_mut_ptr().cast::<c_void>(),
            chunk.len(),
            name.as_ptr().cast::<c_char>(),
            blocksize,
            1,
        )
    };
    assert!(count > 0);
    chunk.truncate(count as usize);
    chunk
}

fn damaged(mut bytes: Vec<u8>, damage: Damage, choices: &mut Choices<'_>) -> Vec<u8> {
    let len = bytes.len() as u64;
    match damage {
        Damage::None => {}
        Damage::Flips => {
            let count = 1 + choices.below(3);
            let mut bits: Vec<u64> = (0..count).map(|_| choices.below(len * 8)).collect();
            bits.sort_unstable();
            bits.dedup();
            bits.iter().for_each(|bit| bytes[(bit / 8) as usize] ^= 1 << (bit % 8));
        }
        Damage::Cut => bytes.truncate(choices.below(len) as usize),
        Damage::Longer => {
            let more = 1 + choices.below(8) as usize;
            bytes.resize(bytes.len() + more, choices.one_of(&[0, POISON]));
        }
        Damage::Replaced => bytes = choices.rest().to_vec(),
    }
    bytes
}

/// The refusal of a sound chunk that has more streams than it may have.
fn over_limit(chunk: &Chunk, encoded: &[u8], max_substreams: u32) -> Option<Status> {
    if chunk.compressor != Some(Codec::Blosc) || max_substreams == 0 {
        return None;
    }
    let payload = &encoded[..encoded.len() - 4 * chunk.after];
    let header = blosc::header(payload, &mut Why::new()).expect("a header of c-blosc");
    let is_over = !header.memcpyed && header.stream_count() > u64::from(max_substreams);
    is_over.then_some(Status::Decode)
}

/// The bytes before a CRC-32C that is right.
fn unsealed(bytes: &[u8], count: usize) -> Option<&[u8]> {
    (0..count).try_fold(bytes, |bytes, _| {
        let (body, sum) = bytes.split_last_chunk::<4>()?;
        (crc32c::crc32c(body) == u32::from_le_bytes(*sum)).then_some(body)
    })
}

/// What libraries decode, None inside where they refuse; None where they judge otherwise than we
/// do (trailing zeroes of gzip, ends of LZ4 blocks, what blosc's header promises).
fn by_libraries(chunk: &Chunk, encoded: &[u8]) -> Option<Option<Vec<u8>>> {
    let expected = chunk.plain.len() + 4 * chunk.before;
    let Some(payload) = unsealed(encoded, chunk.after) else { return Some(None) };
    let bytes = match chunk.compressor {
        None => Some(payload.to_vec()),
        Some(Codec::Zstd) => {
            zstd::bulk::Decompressor::new().unwrap().decompress(payload, expected).ok()
        }
        Some(Codec::Zlib) => by_zlib(payload, expected),
        _ => return None,
    };
    let bytes = bytes.filter(|bytes| bytes.len() == expected);
    Some(bytes.as_deref().and_then(|bytes| unsealed(bytes, chunk.before)).map(<[u8]>::to_vec))
}

fn by_zlib(payload: &[u8], expected: usize) -> Option<Vec<u8>> {
    let mut target = vec![0; expected];
    let mut zlib = Decompress::new(true);
    let outcome = zlib.decompress(payload, &mut target, FlushDecompress::Finish);
    let is_whole = matches!(outcome, Ok(flate2::Status::StreamEnd))
        && zlib.total_in() == payload.len() as u64
        && zlib.total_out() == expected as u64;
    is_whole.then_some(target)
}

/// A chunk without codecs, of which only the needed bytes were read.
fn check_raw(chunk: &Chunk, need: Range<usize>, choices: &mut Choices<'_>) {
    let damage = choices.one_of(&[Damage::None, Damage::Cut, Damage::Longer, Damage::Replaced]);
    let bytes = damaged(chunk.plain[need.clone()].to_vec(), damage, choices);
    let outcome = decoded(&chunk.record, 0, &bytes, need.clone());
    assert_eq!(outcome.is_ok(), bytes.len() == need.len());
    assert!(outcome.is_err() || outcome == Ok(bytes));
}

/// The needed bytes, decoded with both ends of the buffers guarded.
fn decoded(
    record: &ArrayRecord,
    max_substreams: u32,
    encoded: &[u8],
    need: Range<usize>,
) -> Result<Vec<u8>, (Status, String)> {
    let outcome = decoded_at(record, max_substreams, encoded, need.clone(), true);
    assert_eq!(outcome, decoded_at(record, max_substreams, encoded, need.clone(), false));
    assert_eq!(outcome, unfiltered(record, max_substreams, encoded, need));
    outcome
}

/// The needed bytes, decoded with their filter, which is undone behind it.
fn unfiltered(
    record: &ArrayRecord,
    max_substreams: u32,
    encoded: &[u8],
    need: Range<usize>,
) -> Result<Vec<u8>, (Status, String)> {
    with_bench(|bench| {
        let source = bench.source.copy_of(encoded);
        let target = bench.target.poisoned(target_need(record) as usize, true);
        let block_bytes =
            if leaves_filter(record) { 0 } else { block_need(record, source) as usize };
        let block = bench.scratch.poisoned(block_bytes, true);
        let scratch = Scratch { target, block };
        let span = Span { first: need.start as u64, limit: need.end as u64 };
        let want = Want { span, keeps_filter: true };
        let mut why = Why::new();
        let decoder = &mut bench.decoder;
        let outcome =
            decode_filtered(decoder, record, max_substreams, source, want, scratch, &mut why);
        let found = outcome.map_err(|status| (status, why.as_str().to_string()))?;
        let (first, mut bytes) = (found.chunk.first as usize, found.chunk.bytes.to_vec());
        if found.filter != BlockFilter::NONE {
            let BlockFilter { shuffle, block_bytes, typesize } = found.filter;
            let block_bytes = block_bytes as usize;
            let limit = first + bytes.len();
            let is_end = limit.is_multiple_of(block_bytes) || limit as u64 == record.chunk_bytes;
            assert!(first.is_multiple_of(block_bytes) && is_end);
            assert!(record.codecs[0] == Codec::Blosc);
            for block in bytes.chunks_mut(block_bytes) {
                let filtered = block.to_vec();
                let shuffle = shuffle.of_block(typesize, block.len());
                unshuffle(shuffle, typesize as usize, &filtered, 0, block);
            }
        }
        Ok(bytes[need.start - first..][..need.len()].to_vec())
    })
}

fn decoded_at(
    record: &ArrayRecord,
    max_substreams: u32,
    encoded: &[u8],
    need: Range<usize>,
    at_end: bool,
) -> Result<Vec<u8>, (Status, String)> {
    with_bench(|bench| {
        let source = bench.source.copy_of(encoded);
        let target = bench.target.poisoned(target_need(record) as usize, at_end);
        let block = bench.scratch.poisoned(block_need(record, source) as usize, at_end);
        let scratch = Scratch { target: &mut *target, block };
        let span = Span { first: need.start as u64, limit: need.end as u64 };
        let mut why = Why::new();
        let decoder = &mut bench.decoder;
        let outcome =
            decode_chunk(decoder, record, max_substreams, source, span, scratch, &mut why);
        assert_eq!(outcome.is_err(), !why.is_empty());
        let outcome = outcome
            .map(|decoded| {
                let skip = need.start - decoded.first as usize;
                decoded.bytes[skip..][..need.len()].to_vec()
            })
            .map_err(|status| (status, why.as_str().to_string()));
        if let Err((status, why)) = &outcome {
            assert!(matches!(status, Status::Decode | Status::Unsupported), "{status}: {why}");
        }
        let behind = target.get(kept_bytes(record) as usize..).unwrap_or_default();
        assert!(behind.iter().all(|byte| *byte == POISON));
        outcome
    })
}
