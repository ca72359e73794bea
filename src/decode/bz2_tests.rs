//! Chunks of bz2, whole and broken. They are written by the crate `bzip2`, which also says what a
//! damaged one decodes to.

use super::codec_tests::noise;
use super::decoder::test_support::decoder;
use super::*;
use std::format;
use std::io::Write;
use std::string::{String, ToString};
use std::vec;
use std::vec::Vec;

const POISON: u8 = 0xA5;

/// Bytes that compress, with runs of every length up to 300.
fn painted(count: usize) -> Vec<u8> {
    let runs = (0..).flat_map(|run: usize| vec![(run * run / 3) as u8; 1 + run % 300]);
    let slope = (0..).map(|at: usize| (at * at / 90 + at / 7 + 1) as u8);
    let half = count / 2;
    slope.take(half).chain(runs.take(count - half)).collect()
}

fn bz2(bytes: &[u8], level: u32) -> Vec<u8> {
    let level = bzip2::Compression::new(level);
    let mut writer = bzip2::write::BzEncoder::new(Vec::new(), level);
    writer.write_all(bytes).unwrap();
    writer.finish().unwrap()
}

/// The bytes of one stream and nothing after it by the crate; None if it refuses them.
fn by_crate(source: &[u8], bytes: usize) -> Option<Vec<u8>> {
    let mut reader = bzip2::Decompress::new(false);
    let mut target = Vec::with_capacity(bytes + 1);
    let status = reader.decompress_vec(source, &mut target).ok()?;
    let is_whole = status == bzip2::Status::StreamEnd && reader.total_in() == source.len() as u64;
    is_whole.then_some(target)
}

/// The chunk decoded twice, each time into poison: the same bytes or the same refusal.
fn run(level: u8, encoded: &[u8], bytes: usize) -> Result<Vec<u8>, (Status, String)> {
    let mut record = ArrayRecord::EMPTY.clone();
    record.chunk_bytes = bytes as u64;
    record.codecs.push(Codec::Bz2(level));
    let mut decoder = decoder();
    let mut decoded = || {
        let mut target = vec![POISON; index(target_need(&record))];
        let mut block = vec![POISON; index(block_need(&record, encoded))];
        let scratch = Scratch { target: &mut target, block: &mut block };
        let need = Span { first: 0, limit: bytes as u64 };
        let mut why = Why::new();
        let decoded = decode_chunk(&mut decoder, &record, 0, encoded, need, scratch, &mut why);
        decoded
            .map(|chunk| chunk.bytes.to_vec())
            .map_err(|status| (status, why.as_str().to_string()))
    };
    let first = decoded();
    assert_eq!(first, decoded());
    first
}

fn refused(level: u8, encoded: &[u8], bytes: usize, text: &str) {
    let (status, why) = run(level, encoded, bytes).unwrap_err();
    assert_eq!(status, Status::Decode, "{why}");
    assert!(why.contains(text), "{why}");
}

#[test]
fn chunks_of_every_level_and_size_decode() {
    for count in [1, 2, 3, 4, 5, 100, 259, 260, 5_000, 99_999, 250_000] {
        for (level, bytes) in [(1, painted(count)), (2, noise(count)), (9, vec![7; count])] {
            let encoded = bz2(&bytes, u32::from(level));
            assert!(run(level, &encoded, count).as_ref() == Ok(&bytes), "{count} level {level}");
            assert!(run(9, &encoded, count) == Ok(bytes), "{count} level {level} as 9");
        }
    }
    // Blocks of level 9 that are full.
    let bytes = [noise(1_000_000), painted(1_000_000)].concat();
    assert!(run(9, &bz2(&bytes, 9), bytes.len()) == Ok(bytes));
}

#[test]
fn a_block_has_at_most_a_quarter_more_bytes_than_it_decodes_to() {
    // Each run of four becomes five bytes.
    for count in [4, 400, 40_000, 396_000] {
        let bytes: Vec<u8> = (0..count).map(|at| (at / 4 % 251) as u8).collect();
        assert!(run(9, &bz2(&bytes, 9), count) == Ok(bytes), "{count}");
    }
}

#[test]
fn streams_decode_one_after_the_other_and_nothing_may_follow_them() {
    let bytes = painted(1000);
    let parts = [&bytes[..0], &bytes[..1], &bytes[1..700], &bytes[700..], &[]];
    let source = parts.map(|part| bz2(part, 1 + part.len() as u32 % 9)).concat();
    assert_eq!(run(9, &source, 1000), Ok(bytes));
    refused(9, &[&source[..], b"\0"].concat(), 1000, "header of a stream: 1 bytes of it");
    refused(9, &[&source[..], b"\0\0\0\0"].concat(), 1000, "where a bz2 stream begins");
    refused(9, &source, 1001, "bz2 data decodes to 1000 bytes where 1001 are expected");
    refused(9, &source, 999, "more than the 999 bytes expected");
}

#[test]
fn each_broken_part_of_a_stream_is_refused_with_its_reason() {
    let bytes = painted(300);
    let whole = bz2(&bytes, 5);
    let length = whole.len();
    let patched = |at: usize, value: u8| {
        let mut copy = whole.clone();
        copy[at] = value;
        copy
    };
    refused(5, &patched(0, b'A'), 300, "0x41 0x5a 0x68 where a bz2 stream begins, not \"BZh\"");
    refused(5, &patched(2, b'0'), 300, "0x42 0x5a 0x30 where");
    for level in [b'0', b':', 0] {
        refused(5, &patched(3, level), 300, "not a digit from 1 to 9");
    }
    refused(5, &patched(4, 0x32), 300, "broken near byte 10");
    refused(5, &patched(10, !whole[10]), 300, "bz2 block crc mismatch: stored");
    // Bit 7 of byte 14 is the flag of randomised blocks; the place of the first byte follows it.
    refused(5, &patched(14, whole[14] | 0x7F), 300, "broken near byte");
    refused(5, &patched(length - 3, !whole[length - 3]), 300, "bz2 stream crc mismatch");
    refused(
        5,
        &[&whole[..4], &[0x17, 0x72, 0x45, 0x38, 0x50, 0x90, 0, 0, 0, 1]].concat(),
        300,
        "crc",
    );
    refused(5, &[&whole[..10], &[0; 20]].concat(), 300, "broken near byte");
    refused(5, b"BZh", 300, "3 bytes of it");
}

#[test]
fn a_block_that_is_larger_than_the_level_of_the_metadata_is_refused() {
    // 100,000 bytes of noise fit level 1, whatever level the stream declares.
    let bytes = noise(100_000);
    assert!(run(1, &bz2(&bytes, 9), 100_000) == Ok(bytes));
    let bytes = noise(100_001);
    let source = bz2(&bytes, 9);
    let says = "level 9 has a block of more than 100000 bytes, but the metadata say level 1";
    refused(1, &source, 100_001, says);
    assert!(run(2, &source, 100_001) == Ok(bytes));
    // The stream declares less than it has.
    let mut source = source;
    source[3] = b'1';
    refused(9, &source, 100_001, "a block that is too long for its level 1");
    // A chunk of fewer bytes has no room for the block, either.
    refused(9, &bz2(&noise(5000), 9), 1000, "more than the 1000 bytes expected");
}

#[test]
fn a_chunk_cut_anywhere_is_refused() {
    let bytes = painted(700);
    let whole = bz2(&bytes, 9);
    for cut in 0..whole.len() {
        let (status, why) = run(9, &whole[..cut], 700).unwrap_err();
        assert_eq!(status, Status::Decode, "cut at {cut}: {why}");
    }
}

#[test]
fn a_flipped_bit_has_the_outcome_that_it_has_for_libbz2() {
    let bytes = painted(500);
    for level in [1, 9] {
        let whole = bz2(&bytes, level);
        let mut harmless = 0;
        for bit in 0..whole.len() * 8 {
            let mut chunk = whole.clone();
            chunk[bit / 8] ^= 0x80 >> (bit % 8);
            let decoded = run(9, &chunk, 500).ok();
            assert!(decoded.as_ref().is_none_or(|decoded| *decoded == bytes), "bit {bit}");
            assert_eq!(decoded, by_crate(&chunk, 500), "bit {bit}");
            harmless += usize::from(decoded.is_some());
        }
        // The level, the code of a symbol that does not occur, and the bits after the end.
        assert!(harmless < whole.len(), "{harmless}");
    }
}

#[test]
fn randomised_blocks_are_those_of_libbz2() {
    let bytes = noise(3000);
    let mut source = bz2(&bytes, 1);
    source[14] |= 0x80;
    // Both checksums are those of other bytes now: each try says which.
    for _ in 0..2 {
        let (_, why) = run(1, &source, 3000).unwrap_err();
        let computed = why.rsplit("computed 0x").next().unwrap();
        let computed = u32::from_str_radix(computed, 16).unwrap();
        let of_block = u32::from_be_bytes(source[10..14].try_into().unwrap());
        source = with_sum(&source, of_block, computed, why.contains("stream"));
    }
    let decoded = run(1, &source, 3000).unwrap();
    assert!(decoded != bytes);
    assert_eq!(Some(decoded), by_crate(&source, 3000));
}

/// A stream with another checksum of its block, or of itself, which lies at any bit near its end.
fn with_sum(source: &[u8], old: u32, new: u32, is_stream: bool) -> Vec<u8> {
    let mut source = source.to_vec();
    if !is_stream {
        source[10..14].copy_from_slice(&new.to_be_bytes());
        return source;
    }
    assert_eq!(old, new, "one block has the sum of the stream");
    let bits: String = source.iter().map(|byte| format!("{byte:08b}")).collect();
    let magic = format!("{:048b}", 0x177245385090u64);
    let at = bits.rfind(&magic).unwrap() + 48;
    let bits = [&bits[..at], &format!("{new:032b}"), &bits[at + 32..]].concat();
    let byte = |at: usize| u8::from_str_radix(&bits[at..at + 8], 2).unwrap();
    (0..bits.len()).step_by(8).map(byte).collect()
}
