//! Frames that the zstd project keeps because decoders got them wrong (its decompressor errata and
//! golden files), and frames of every kind that a chunk may be. Hand-made ones say what they are.

use super::zstd::test_support::{compress, context};
use crate::base::status::{Status, Why};
use std::vec;
use std::vec::Vec;

const POISON: u8 = 0xA5;

/// The frame decoded twice into `bytes` bytes of poison.
fn run(frame: &[u8], bytes: usize) -> Result<Vec<u8>, Status> {
    let mut context = context();
    let mut decoded = || {
        let (mut target, mut why) = (vec![POISON; bytes], Why::new());
        let outcome = context.decompress(frame, &mut target, &mut why);
        assert_eq!(outcome.is_err(), !why.is_empty());
        outcome.map(|count| target[..count].to_vec())
    };
    let first = decoded();
    assert_eq!(first, decoded());
    first
}

fn refused(frame: &[u8]) {
    let head = &frame[..frame.len().min(40)];
    assert_eq!(run(frame, 300_000), Err(Status::Decode), "{head:02x?}");
}

const MAGIC: [u8; 4] = [0x28, 0xB5, 0x2F, 0xFD];

/// A frame with a window of 2 MiB, no content size, and one last block.
fn frame(kind: u32, size: u32, block: &[u8]) -> Vec<u8> {
    let header = (size << 3 | kind << 1 | 1).to_le_bytes();
    [&MAGIC[..], &[0, 11 << 3], &header[..3], block].concat()
}

/// A frame of a single segment of `bytes`, the three bytes "abc" inside.
fn segment(bytes: u8) -> Vec<u8> {
    [&MAGIC[..], &[0x20, bytes, 0x19, 0, 0], b"abc"].concat()
}

const RAW: u32 = 0;
const RLE: u32 = 1;
const COMPRESSED: u32 = 2;
const RESERVED: u32 = 3;

#[test]
fn a_compressed_block_without_literals_and_sequences_is_empty() {
    assert_eq!(run(&frame(COMPRESSED, 2, &[0, 0]), 10), Ok(vec![]));
    // In a segment of no bytes, which no chunk is, zstd 1.5.7 finds that block too long.
    refused(&[0x28, 0xB5, 0x2F, 0xFD, 0x20, 0, 0x15, 0, 0, 0, 0]);
}

#[test]
fn a_first_block_of_one_repeated_byte_is_taken() {
    let frame = [0x28, 0xB5, 0x2F, 0xFD, 0xA0, 0x01, 0, 0x02, 0, 0x02, 0, 0x10, 0, 0x0B, 0, 0, 0];
    assert_eq!(run(&frame, 131_073), Ok(vec![0; 131_073]));
}

#[test]
fn a_table_near_the_end_of_its_block_is_taken() {
    let frame = [
        0x28, 0xB5, 0x2F, 0xFD, 0x20, 0x27, 0xC5, 0, 0, 0x80, 0xF3, 0xF1, 0xF0, 0xEC, 0xEB, 0xC6,
        0xC5, 0xC7, 0xF0, 0x9D, 0x43, 0, 0, 0, 0xE0, 0xE0, 0x06, 0x58, 0x01, 0, 0x60, 0x3E, 0x52,
    ];
    assert_eq!(run(&frame, 0x27).map(|bytes| bytes.len()), Ok(0x27));
}

#[test]
fn a_sequence_count_of_zero_in_two_bytes_is_taken_and_bytes_behind_it_are_not() {
    let literals = [5 << 3, 1, 2, 3, 4, 5];
    let taken = frame(COMPRESSED, 8, &[&literals[..], &[0x80, 0]].concat());
    assert_eq!(run(&taken, 5), Ok(vec![1, 2, 3, 4, 5]));
    refused(&frame(COMPRESSED, 9, &[&literals[..], &[0x80, 0, 0x55]].concat()));
    refused(&frame(COMPRESSED, 8, &[&literals[..], &[0, 0x55]].concat()));
}

#[test]
fn an_offset_of_zero_is_refused() {
    refused(&[0x28, 0xB5, 0x2F, 0xFD, 0, 0, 0x45, 0, 0x08, 0, 0x02, 0, 0x2F, 0x43, 0x0B, 0xAE]);
}

#[test]
fn huffman_states_that_are_cut_are_refused() {
    refused(&[
        0x28, 0xB5, 0x2F, 0xFD, 0, 0, 0x55, 0, 0, 0x72, 0x80, 0x01, 0x04, 0x20, 0x7E, 0x1F, 0x02,
        0xAA, 0,
    ]);
}

#[test]
fn raw_and_repeated_blocks_are_taken_and_the_reserved_kind_is_refused() {
    assert_eq!(run(&frame(RAW, 3, b"abc"), 3), Ok(b"abc".to_vec()));
    assert_eq!(run(&frame(RLE, 3, b"a"), 3), Ok(b"aaa".to_vec()));
    refused(&frame(RESERVED, 3, b"abc"));
}

#[test]
fn reserved_bits_are_refused() {
    let mut reserved = segment(3);
    reserved[4] |= 8;
    refused(&reserved);
    // One sequence, then its modes, whose lowest two bits are reserved.
    for modes in 0..4 {
        let block = [2 << 3, 1, 2, 1, modes, 0x01];
        if modes != 0 {
            refused(&frame(COMPRESSED, 6, &block));
        }
    }
}

#[test]
fn a_frame_that_needs_a_dictionary_is_refused() {
    // Single segment with a dictionary of 1, 2 or 4 bytes of name.
    for (flag, id) in [(1, &[7][..]), (2, &[7, 0]), (3, &[7, 0, 0, 0])] {
        let frame = [&MAGIC[..], &[0x20 | flag], id, &[3, 0x19, 0, 0], b"abc"].concat();
        refused(&frame);
    }
    // The name 0 means none.
    let frame = [&MAGIC[..], &[0x21, 0, 3, 0x19, 0, 0], b"abc"].concat();
    assert_eq!(run(&frame, 3), Ok(b"abc".to_vec()));
}

#[test]
fn frames_without_a_magic_number_and_of_old_versions_are_refused() {
    let whole = compress(&[7; 900], false);
    refused(&whole[4..]);
    for version in [0x1E, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27] {
        let mut old = whole.clone();
        old[0] = version;
        refused(&old);
    }
}

#[test]
fn sizes_that_are_too_large_are_refused() {
    // Literals of more than a block, and segments of more and fewer bytes than they say.
    refused(&frame(COMPRESSED, 5, &[0x0D, 0xFF, 0xFF, 7, 0]));
    assert_eq!(run(&segment(3), 3), Ok(b"abc".to_vec()));
    refused(&segment(4));
    refused(&segment(2));
}

#[test]
fn a_window_larger_than_the_chunk_needs_no_memory() {
    // No size, window exponent 31: the target is the window.
    let frame = [&MAGIC[..], &[0x00, 21 << 3, 0x19, 0, 0], b"abc"].concat();
    assert_eq!(run(&frame, 3), Ok(b"abc".to_vec()));
}

#[test]
fn every_level_and_flag_of_the_compressor_decodes() {
    let bytes: Vec<u8> = (0..9000usize).map(|at| (at * at / 700 + at % 7) as u8).collect();
    for level in [-100, -5, 1, 3, 7, 12, 16, 19, 22] {
        for flags in 0..4 {
            let mut writer = zstd_safe::CCtx::create();
            for parameter in [
                zstd_safe::CParameter::CompressionLevel(level),
                zstd_safe::CParameter::ChecksumFlag(flags & 1 != 0),
                zstd_safe::CParameter::ContentSizeFlag(flags & 2 != 0),
            ] {
                writer.set_parameter(parameter).unwrap();
            }
            let mut frame = vec![0; 12_000];
            let count = writer.compress2(&mut frame[..], &bytes).unwrap();
            assert!(run(&frame[..count], 9000).as_ref() == Ok(&bytes), "{level} {flags}");
        }
    }
}

#[test]
fn a_flipped_bit_of_a_frame_header_is_refused_or_gives_no_more_than_the_target() {
    let whole = compress(&[1, 2, 3, 4, 5, 6, 7, 8, 9].repeat(70), false);
    for bit in 0..whole.len().min(12) * 8 {
        let mut frame = whole.clone();
        frame[bit / 8] ^= 1 << (bit % 8);
        match run(&frame, 630) {
            Ok(bytes) => assert!(bytes.len() <= 630, "bit {bit}"),
            Err(status) => assert_eq!(status, Status::Decode, "bit {bit}"),
        }
    }
}
