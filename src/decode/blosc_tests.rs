//! Blosc chunks of c-blosc (tests/data/make_blosc.py) and of a small writer of our own, which makes
//! what c-blosc's zstd never does: split blocks and broken chunks.

use super::blosc::*;
use super::decoder::test_support::decoder;
use super::unshuffle::Shuffle;
use super::zstd::test_support::compress;
use crate::base::status::{Status, Why};
use crate::records::Span;
use std::format;
use std::string::String;
use std::vec;
use std::vec::Vec;

const POISON: u8 = 0xA5;

fn fixture(name: &str) -> Vec<u8> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/blosc");
    std::fs::read(format!("{folder}/{name}.blosc")).unwrap()
}

fn ramp(count: usize) -> Vec<u8> {
    let words = (0..count.div_ceil(2) as u64).map(|k| (k * k / 65536 + k / 8) as u16);
    words.flat_map(u16::to_le_bytes).take(count).collect()
}

fn noise(count: usize) -> Vec<u8> {
    let mut state = 2_463_534_242u32;
    let step = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state as u8
    };
    std::iter::repeat_with(step).take(count).collect()
}

/// The bytes that a fixture of this name holds.
fn painted(name: &str) -> Vec<u8> {
    let mut words = name.split('_');
    let pattern = words.next().unwrap();
    let count = words.next().unwrap().parse().unwrap();
    let (mut bytes, random) = (ramp(count), noise(count));
    match pattern {
        "noise" => return random,
        "tail" => bytes[98304..].copy_from_slice(&random[98304..]),
        "middle" => bytes[32768..65536].copy_from_slice(&random[32768..65536]),
        _ => {}
    }
    bytes
}

fn run(chunk: &[u8], nbytes: usize, max_substreams: u32) -> Result<Vec<u8>, (Status, String)> {
    let mut why = Why::new();
    let (mut target, mut scratch) = (vec![POISON; nbytes], vec![POISON; nbytes]);
    let span = Span { first: 0, limit: nbytes as u64 };
    decode(&mut decoder(), chunk, max_substreams, span, &mut target, &mut scratch, &mut why)
        .map(|decoded| decoded.bytes.to_vec())
        .map_err(|status| (status, why.as_str().into()))
}

/// The refusal of a chunk that should hold `nbytes`.
fn refused(chunk: &[u8], nbytes: usize, status: Status, text: &str) {
    let (found, why) = run(chunk, nbytes, 0).unwrap_err();
    assert_eq!(found, status, "{why}");
    assert!(why.contains(text), "{why}");
}

fn header_of(name: &str) -> Header {
    header(&fixture(name), &mut Why::new()).unwrap()
}

fn patched(name: &str, offset: usize, bytes: &[u8]) -> Vec<u8> {
    let mut chunk = fixture(name);
    chunk[offset..][..bytes.len()].copy_from_slice(bytes);
    chunk
}

/// One block of `bytes`, split into streams of `stream_bytes`, every other one stored raw.
fn streams(bytes: &[u8], stream_bytes: usize) -> Vec<u8> {
    let mut out = Vec::new();
    for (number, stream) in bytes.chunks(stream_bytes).enumerate() {
        let frame = compress(stream, false);
        let coded = if number % 2 == 1 || frame.len() >= stream.len() { stream } else { &frame };
        out.extend((coded.len() as i32).to_le_bytes());
        out.extend(coded);
    }
    out
}

/// A chunk of byte-shuffled `bytes` whose whole blocks are split; blocks lie in reverse order.
fn split_chunk(bytes: &[u8], typesize: usize, blocksize: usize) -> Vec<u8> {
    let mut starts = Vec::new();
    let mut body = Vec::new();
    let first = HEADER_BYTES + 4 * bytes.len().div_ceil(blocksize);
    for block in bytes.chunks(blocksize).rev() {
        let count = block.len() / typesize;
        let plane = |byte: usize| (0..count).map(move |at| block[at * typesize + byte]);
        let mut filtered: Vec<u8> = (0..typesize).flat_map(plane).collect();
        filtered.extend(&block[count * typesize..]);
        let split = if block.len() == blocksize { typesize } else { 1 };
        starts.push((first + body.len()) as u32);
        body.extend(streams(&filtered, block.len() / split));
    }
    let mut chunk = vec![2, 1, 0x81, typesize as u8];
    let cbytes = first + body.len();
    for word in [bytes.len(), blocksize, cbytes] {
        chunk.extend((word as u32).to_le_bytes());
    }
    chunk.extend(starts.iter().rev().flat_map(|start| start.to_le_bytes()));
    chunk.extend(body);
    chunk
}

#[test]
fn every_chunk_of_c_blosc_decodes_to_its_bytes() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/blosc");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let name = name.strip_suffix(".blosc").unwrap();
        if name.rsplit('_').next().is_some_and(|word| word.starts_with('s')) {
            let expected = painted(name);
            assert!(run(&fixture(name), expected.len(), 0) == Ok(expected), "{name}");
            count += 1;
        }
    }
    assert!(count >= 30);
}

#[test]
fn other_codecs_of_blosc_decode_too() {
    for codec in ["lz4", "blosclz", "zlib"] {
        let chunk = fixture(&format!("ramp_4000_t2_c5_s1_{codec}"));
        assert!(run(&chunk, 4000, 0) == Ok(ramp(4000)), "{codec}");
    }
}

#[test]
fn a_copied_chunk_keeps_its_shuffle_flag_and_is_not_shuffled() {
    let header = header_of("noise_5000_t2_c5_s1");
    assert!(header.memcpyed);
    assert_eq!(header.shuffle, Shuffle::Bytes);
}

#[test]
fn fixtures_have_a_raw_last_block_and_blocks_out_of_order() {
    let word = |chunk: &[u8], at: usize| u32::from_le_bytes(chunk[at..at + 4].try_into().unwrap());
    let tail = fixture("tail_100000_t2_c1_s1");
    assert_eq!(word(&tail, word(&tail, 16 + 12) as usize), 1696);
    let chunk = fixture("ramp_300000_t4_c1_s1");
    let starts: Vec<u32> = (0..10).map(|block| word(&chunk, 16 + 4 * block)).collect();
    assert!(!starts.is_sorted(), "{starts:?}");
}

#[test]
fn split_blocks_decode_and_a_short_last_block_is_not_split() {
    for typesize in [2, 3, 4, 8, 16] {
        let blocksize = typesize * 160;
        let bytes = ramp(blocksize * 3 + 77);
        let chunk = split_chunk(&bytes, typesize, blocksize);
        let header = header(&chunk, &mut Why::new()).unwrap();
        assert_eq!(header.split_count as usize, typesize);
        assert_eq!(header.stream_count() as usize, 3 * typesize + 1);
        assert!(run(&chunk, bytes.len(), 0) == Ok(bytes), "typesize {typesize}");
    }
}

#[test]
fn blocks_of_fewer_than_128_elements_are_not_split() {
    let chunk = |blocksize: u32| {
        let mut chunk = vec![2, 1, 0x81, 4];
        for word in [512u32, blocksize, 100] {
            chunk.extend(word.to_le_bytes());
        }
        chunk.resize(100, 0);
        header(&chunk, &mut Why::new()).unwrap().split_count
    };
    assert_eq!(chunk(512), 4);
    assert_eq!(chunk(508), 1);
}

#[test]
fn more_streams_than_the_limit_are_refused_by_the_name_of_the_field() {
    let chunk = fixture("tail_100000_t2_c1_s1");
    assert!(run(&chunk, 100_000, 4).is_ok());
    let (status, why) = run(&chunk, 100_000, 3).unwrap_err();
    assert_eq!(status, Status::Decode);
    assert!(why.contains("max_substreams_per_chunk = 3"), "{why}");
}

#[test]
fn each_broken_header_field_is_refused_with_its_reason() {
    const NAME: &str = "tail_100000_t2_c1_s1";
    let decode = |offset: usize, bytes: &[u8], text: &str| {
        refused(&patched(NAME, offset, bytes), 100_000, Status::Decode, text);
    };
    decode(0, &[1], "format version is 1");
    decode(1, &[2], "zstd format version is 2");
    decode(2, &[0x99], "reserved bit");
    decode(2, &[0x95], "both shuffles");
    decode(2, &[0xB1], "codec number 5");
    decode(2, &[0x93], "does not hold 100000 bytes");
    decode(3, &[0], "typesize is 0");
    decode(4, &99_999u32.to_le_bytes(), "99999 bytes where 100000 are expected");
    decode(8, &0u32.to_le_bytes(), "block of 0 bytes");
    decode(8, &100_001u32.to_le_bytes(), "block of 100001 bytes in chunk of 100000");
    decode(8, &1u32.to_le_bytes(), "too short for the offsets of 100000 blocks");
    decode(12, &7u32.to_le_bytes(), "declares 7 bytes");
    refused(&patched(NAME, 0, &[5]), 100_000, Status::Unsupported, "blosc2");
}

#[test]
fn block_offsets_outside_the_streams_are_refused() {
    const NAME: &str = "tail_100000_t2_c1_s1";
    let cbytes = fixture(NAME).len() as u32;
    for start in [0, 16, 31, cbytes, cbytes + 1, u32::MAX] {
        let chunk = patched(NAME, 20, &start.to_le_bytes());
        refused(&chunk, 100_000, Status::Decode, &format!("block 1 starts at {start}"));
    }
    let chunk = patched(NAME, 20, &(cbytes - 3).to_le_bytes());
    refused(&chunk, 100_000, Status::Decode, "at the end of its chunk");
}

#[test]
fn stream_sizes_that_do_not_fit_are_refused() {
    const NAME: &str = "tail_100000_t2_c1_s1";
    for size in [0, -1, i32::MIN, i32::MAX] {
        let chunk = patched(NAME, 32, &size.to_le_bytes());
        refused(&chunk, 100_000, Status::Decode, &format!("stream of {size} bytes"));
    }
}

#[test]
fn overlapping_blocks_are_refused() {
    let mut chunk = fixture("middle_100000_t2_c1_s1");
    let second = chunk[20..24].to_vec();
    chunk[16..20].copy_from_slice(&second);
    chunk[24..28].copy_from_slice(&second);
    refused(&chunk, 100_000, Status::Decode, "overlap");
}

#[test]
fn a_stream_that_decodes_to_too_little_is_refused_with_both_sizes() {
    let frame = compress(&ramp(900), false);
    let mut chunk = vec![2, 1, 0x90, 2];
    for word in [1000, 1000, 24 + frame.len() as u32, 20, frame.len() as u32] {
        chunk.extend(word.to_le_bytes());
    }
    chunk.extend(frame);
    refused(&chunk, 1000, Status::Decode, "900 bytes where 1000 are expected");
}

#[test]
fn a_chunk_cut_at_any_length_is_refused() {
    let chunk = fixture("ramp_2464_t2_c5_s2");
    for cut in 0..chunk.len() {
        assert_eq!(run(&chunk[..cut], 2464, 0).unwrap_err().0, Status::Decode, "cut at {cut}");
    }
}

#[test]
fn an_empty_chunk_has_a_header_and_no_block() {
    let header = header_of("ramp_0_t2_c5_s1");
    assert_eq!((header.nbytes, header.block_count, header.stream_count()), (0, 0, 0));
    refused(&fixture("ramp_0_t2_c5_s1"), 8, Status::Decode, "0 bytes where 8 are expected");
}
