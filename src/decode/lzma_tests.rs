//! Chunks of LZMA data, whole and broken. They are written by the crate `liblzma`, which also says
//! what a damaged one decodes to.

use super::codec_tests::noise;
use super::decoder::test_support::decoder;
use super::*;
use crate::records::{Lzma, LzmaChain, LzmaProperties};
use liblzma::stream::{Action, CONCATENATED, Check, Filters, LzmaOptions, Stream};
use std::format;
use std::string::{String, ToString};
use std::vec;
use std::vec::Vec;

const POISON: u8 = 0xA5;

/// LZMA2 alone, with the dictionary of preset 6.
const LZMA2: LzmaChain = LzmaChain { deltas: [0; 3], dictionary_bytes: 1 << 23, properties: None };

/// Bytes that compress: slopes, runs, and earlier bytes again.
fn painted(count: usize) -> Vec<u8> {
    let slope = (0..).map(|at: usize| (at * at / 90 + at / 7 + 1) as u8);
    let runs = (0..).flat_map(|run: usize| vec![(run * run / 3) as u8; 1 + run % 300]);
    let half: Vec<u8> = slope.take(count / 4).chain(runs.take(count / 2 - count / 4)).collect();
    let more = half.iter().enumerate().map(|(at, byte)| byte.wrapping_add((at % 97 == 0) as u8));
    let mut all: Vec<u8> = half.iter().copied().chain(more).collect();
    all.resize(count, 9);
    all
}

fn options(preset: u32) -> LzmaOptions {
    LzmaOptions::new_preset(preset).unwrap()
}

/// What an encoder makes of pieces: each of them is a block of an .xz stream.
fn encoded(mut stream: Stream, pieces: &[&[u8]]) -> Vec<u8> {
    let whole = pieces.concat().len();
    let mut bytes = Vec::with_capacity(2 * whole + 1000);
    for (place, piece) in pieces.iter().enumerate() {
        let is_last = place + 1 == pieces.len();
        let action = if is_last { Action::Finish } else { Action::FullFlush };
        stream.process_vec(piece, &mut bytes, action).unwrap();
    }
    assert_eq!(stream.total_in(), whole as u64);
    bytes
}

fn xz(bytes: &[u8], preset: u32, check: Check) -> Vec<u8> {
    encoded(Stream::new_easy_encoder(preset, check).unwrap(), &[bytes])
}

fn alone(bytes: &[u8], preset: u32) -> Vec<u8> {
    encoded(Stream::new_lzma_encoder(&options(preset)).unwrap(), &[bytes])
}

/// The filters of the crate, and whether they are of LZMA.
fn filters(chain: LzmaChain) -> Filters {
    let mut filters = Filters::new();
    for distance in chain.deltas.iter().filter(|distance| **distance > 0) {
        filters.delta_properties(&[(distance - 1) as u8]).unwrap();
    }
    let mut options = options(6);
    options.dict_size(chain.dictionary_bytes);
    match chain.properties {
        None => filters.lzma2(&options),
        Some(LzmaProperties { lc, lp, pb }) => {
            options.literal_context_bits(lc.into()).literal_position_bits(lp.into());
            filters.lzma1(options.position_bits(pb.into()))
        }
    };
    filters
}

fn raw(bytes: &[u8], chain: LzmaChain) -> Vec<u8> {
    encoded(Stream::new_raw_encoder(&filters(chain)).unwrap(), &[bytes])
}

/// The bytes of all streams by the crate; None if it refuses them.
fn by_crate(lzma: Lzma, source: &[u8], bytes: usize) -> Option<Vec<u8>> {
    let (mut rest, mut target) = (source, Vec::with_capacity(bytes + 1));
    loop {
        let mut stream = match lzma {
            Lzma::Xz => Stream::new_stream_decoder(u64::MAX, CONCATENATED),
            Lzma::Alone => Stream::new_lzma_decoder(u64::MAX),
            Lzma::Raw(chain) => Stream::new_raw_decoder(&filters(chain)),
        }
        .unwrap();
        let status = stream.process_vec(rest, &mut target, Action::Finish).ok()?;
        if status != liblzma::stream::Status::StreamEnd || target.len() > bytes {
            return None;
        }
        rest = &rest[stream.total_in() as usize..];
        if rest.is_empty() {
            return Some(target).filter(|target| target.len() == bytes);
        }
    }
}

/// The chunk decoded twice, each time into poison: the same bytes or the same refusal.
fn run(lzma: Lzma, encoded: &[u8], bytes: usize) -> Result<Vec<u8>, (Status, String)> {
    let mut record = ArrayRecord::EMPTY.clone();
    record.chunk_bytes = bytes as u64;
    record.codecs.push(Codec::Lzma(lzma));
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

fn refused(lzma: Lzma, encoded: &[u8], bytes: usize, text: &str) {
    let (status, why) = run(lzma, encoded, bytes).unwrap_err();
    assert_eq!(status, Status::Decode, "{why}");
    assert!(why.contains(text), "{why}");
}

#[test]
fn chunks_of_presets_checks_and_sizes_decode() {
    let checks = [Check::None, Check::Crc32, Check::Crc64, Check::Sha256];
    for (place, count) in [1, 2, 3, 4, 5, 100, 273, 274, 5_000, 70_000, 300_000].iter().enumerate()
    {
        for (preset, bytes) in [(0, painted(*count)), (6, noise(*count)), (9, vec![7; *count])] {
            let whole = xz(&bytes, preset, checks[place % 4]);
            assert!(run(Lzma::Xz, &whole, *count).as_ref() == Ok(&bytes), "{count} by {preset}");
            let whole = alone(&bytes, preset);
            assert!(run(Lzma::Alone, &whole, *count) == Ok(bytes), "{count} by {preset}");
        }
    }
    // More than one piece of LZMA2 holds.
    let bytes = [painted(2_500_000), noise(300_000), painted(100_000)].concat();
    assert!(run(Lzma::Xz, &xz(&bytes, 1, Check::Crc64), bytes.len()) == Ok(bytes));
}

#[test]
fn data_without_a_container_decodes_by_its_filters() {
    let bytes = painted(9_000);
    for deltas in [[0; 3], [1, 0, 0], [256, 0, 0], [4, 1, 0], [2, 3, 255]] {
        let chain = LzmaChain { deltas, ..LZMA2 };
        assert!(run(Lzma::Raw(chain), &raw(&bytes, chain), 9_000).as_ref() == Ok(&bytes));
        for (lc, lp, pb) in [(3, 0, 2), (0, 4, 0), (4, 0, 4), (1, 3, 1), (0, 0, 0)] {
            let properties = LzmaProperties::new(lc, lp, pb);
            let chain = LzmaChain { properties, dictionary_bytes: 4096, ..chain };
            let whole = raw(&bytes, chain);
            assert!(run(Lzma::Raw(chain), &whole, 9_000).as_ref() == Ok(&bytes), "{chain:?}");
        }
    }
}

#[test]
fn filters_of_a_block_are_those_of_its_header() {
    let bytes = painted(7_000);
    for deltas in [[1, 0, 0], [8, 0, 0], [200, 7, 256]] {
        let chain = LzmaChain { deltas, ..LZMA2 };
        let stream = Stream::new_stream_encoder(&filters(chain), Check::Crc32).unwrap();
        assert!(run(Lzma::Xz, &encoded(stream, &[&bytes]), 7_000).as_ref() == Ok(&bytes));
    }
    let mut chain = Filters::new();
    chain.x86().lzma2(&options(6));
    let stream = Stream::new_stream_encoder(&chain, Check::Crc32).unwrap();
    let says = "lzma filter 0x4 is not read, only delta and LZMA2";
    refused(Lzma::Xz, &encoded(stream, &[&bytes]), 7_000, says);
}

#[test]
fn blocks_streams_and_zeros_between_them_decode_and_nothing_else_may_follow() {
    let bytes = painted(1000);
    let (front, back) = bytes.split_at(613);
    let blocks = |bytes: &[u8]| {
        let stream = Stream::new_easy_encoder(0, Check::Crc64).unwrap();
        encoded(stream, &[&bytes[..10], &bytes[10..200], &bytes[200..]])
    };
    let (first, second) = (blocks(front), blocks(back));
    let empty = xz(b"", 1, Check::Sha256);
    for zeros in [0, 4, 12] {
        let zeros = vec![0; zeros];
        let parts = [&first, &zeros, &empty, &second, &zeros];
        let source = parts.map(|part| &part[..]).concat();
        assert_eq!(run(Lzma::Xz, &source, 1000).as_ref(), Ok(&bytes));
        assert_eq!(by_crate(Lzma::Xz, &source, 1000).as_ref(), Some(&bytes));
        refused(Lzma::Xz, &source, 1001, "lzma data decodes to 1000 bytes where 1001 are");
        refused(Lzma::Xz, &source, 999, "more than the 999 bytes expected");
        for more in [&b"\0"[..], b"\0\0\0", b"\0\0\0\0\0"] {
            refused(Lzma::Xz, &[&source[..], more].concat(), 1000, "is broken near byte");
        }
        refused(Lzma::Xz, &[&source[..], b"BZh9BZ"].concat(), 1000, "where an .xz stream begins");
    }
    for (lzma, parts) in [
        (Lzma::Alone, [alone(front, 6), alone(back, 0)]),
        (Lzma::Raw(LZMA2), [raw(front, LZMA2), raw(back, LZMA2)]),
    ] {
        let source = parts.concat();
        assert_eq!(run(lzma, &source, 1000).as_ref(), Ok(&bytes));
        assert_eq!(by_crate(lzma, &source, 1000).as_ref(), Some(&bytes));
    }
}

#[test]
fn a_size_in_the_header_of_lzma_ends_the_data_with_a_mark_or_without() {
    let bytes = painted(300);
    let mut whole = alone(&bytes, 6);
    whole[5..13].copy_from_slice(&300u64.to_le_bytes());
    assert_eq!(run(Lzma::Alone, &whole, 300).as_ref(), Ok(&bytes));
    assert_eq!(by_crate(Lzma::Alone, &whole, 300).as_ref(), Some(&bytes));
    for (size, says) in
        [(299u64, "holds more than"), (301, "holds more than"), (u64::MAX - 1, "more than")]
    {
        whole[5..13].copy_from_slice(&size.to_le_bytes());
        refused(Lzma::Alone, &whole, 300, says);
        assert_eq!(by_crate(Lzma::Alone, &whole, 300), None);
    }
}

#[test]
fn each_broken_part_of_a_stream_is_refused_with_its_reason() {
    let bytes = painted(300);
    for (check, name) in
        [(Check::Crc32, "crc32"), (Check::Crc64, "crc64"), (Check::Sha256, "sha256")]
    {
        let whole = xz(&bytes, 6, check);
        let length = whole.len();
        let patched = |at: usize, value: u8| {
            let mut copy = whole.clone();
            copy[at] = value;
            copy
        };
        refused(Lzma::Xz, &patched(0, b'A'), 300, "0x41 0x37 where an .xz stream begins");
        refused(Lzma::Xz, &patched(6, 1), 300, "lzma stream header crc32 mismatch: stored");
        refused(Lzma::Xz, &patched(13, 9), 300, "lzma block header crc32 mismatch: stored");
        // The index has 12 bytes, and so has the footer.
        refused(Lzma::Xz, &patched(length - 25, 77), 300, &format!("lzma block {name} mismatch"));
        refused(Lzma::Xz, &patched(length - 15, 77), 300, "lzma index crc32 mismatch");
        refused(Lzma::Xz, &patched(length - 12, 77), 300, "lzma stream footer crc32 mismatch");
        refused(Lzma::Xz, &patched(length - 1, 77), 300, "is broken near byte");
        refused(Lzma::Xz, &whole[..length - 12], 300, "is cut: 300 are there where it ends");
    }
    // Another checksum, which the header is right about.
    let mut whole = xz(&bytes, 6, Check::Crc32);
    whole[7] = 2;
    let sum = crate::loops::crc32::crc32(0, &whole[6..8]);
    whole[8..12].copy_from_slice(&sum.to_le_bytes());
    refused(Lzma::Xz, &whole, 300, "lzma checksum 2 is not read");
    let mut whole = alone(&bytes, 6);
    whole[0] = 4 + 9;
    refused(Lzma::Alone, &whole, 300, "lzma properties are 0x0d");
}

#[test]
fn a_chunk_cut_anywhere_is_refused() {
    let bytes = painted(700);
    let chain = LzmaChain { properties: Some(LzmaProperties::DEFAULT), ..LZMA2 };
    for (lzma, whole) in [
        (Lzma::Xz, xz(&bytes, 6, Check::Crc64)),
        (Lzma::Alone, alone(&bytes, 6)),
        (Lzma::Raw(LZMA2), raw(&bytes, LZMA2)),
        (Lzma::Raw(chain), raw(&bytes, chain)),
    ] {
        for cut in 0..whole.len() {
            let (status, why) = run(lzma, &whole[..cut], 700).unwrap_err();
            assert_eq!(status, Status::Decode, "cut at {cut}: {why}");
        }
    }
}

#[test]
fn a_flipped_bit_has_the_outcome_that_it_has_for_liblzma() {
    let bytes = [painted(400), noise(100)].concat();
    let chain = LzmaChain {
        deltas: [2, 0, 0],
        dictionary_bytes: 4096,
        properties: Some(LzmaProperties::DEFAULT),
    };
    for (lzma, whole, is_safe) in [
        (Lzma::Xz, xz(&bytes, 6, Check::Crc64), true),
        (Lzma::Xz, xz(&bytes, 0, Check::Sha256), true),
        (Lzma::Xz, xz(&bytes, 0, Check::None), false),
        (Lzma::Alone, alone(&bytes, 6), false),
        (Lzma::Raw(LZMA2), raw(&bytes, LZMA2), false),
        (Lzma::Raw(chain), raw(&bytes, chain), false),
    ] {
        assert_eq!(run(lzma, &whole, 500).as_ref(), Ok(&bytes));
        for bit in 0..whole.len() * 8 {
            let mut chunk = whole.clone();
            chunk[bit / 8] ^= 0x80 >> (bit % 8);
            let decoded = run(lzma, &chunk, 500).ok();
            assert!(!is_safe || decoded.as_ref().is_none_or(|decoded| *decoded == bytes));
            assert_eq!(decoded, by_crate(lzma, &chunk, 500), "{lzma:?} bit {bit}");
        }
    }
}

#[test]
fn a_distance_beyond_the_dictionary_is_refused() {
    // Noise that comes again after 6,000 bytes, decoded with a dictionary of 4,096.
    let bytes = [noise(6_000), noise(6_000)].concat();
    let whole = raw(&bytes, LZMA2);
    assert!(whole.len() < 7_000);
    assert!(run(Lzma::Raw(LZMA2), &whole, 12_000) == Ok(bytes));
    let small = Lzma::Raw(LzmaChain { dictionary_bytes: 4096, ..LZMA2 });
    refused(small, &whole, 12_000, "is broken near byte");
    assert_eq!(by_crate(small, &whole, 12_000), None);
}
