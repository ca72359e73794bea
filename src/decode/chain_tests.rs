//! Whole codec chains: checksums on either side of a compressor, and sizes at every step.

use super::decoder::test_support::decoder;
use super::zstd::test_support::compress;
use super::*;
use crate::records::{Filter, Sum, SumKind};
use std::cell::RefCell;
use std::string::String;
use std::thread_local;
use std::vec;
use std::vec::Vec;

const CHUNK_BYTES: usize = 1000;

thread_local! {
    /// Its workspace is never given back, so each test has one.
    static DECODER: RefCell<Decoder> = RefCell::new(decoder());
}

fn painted() -> Vec<u8> {
    (0..CHUNK_BYTES).map(|at| (at * at / 90 + 1) as u8).collect()
}

fn with_crc(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes.extend(::crc32c::crc32c(&bytes).to_le_bytes());
    bytes
}

fn run(codecs: &[Codec], encoded: &[u8]) -> Result<Vec<u8>, (Status, String)> {
    let mut record = ArrayRecord::EMPTY.clone();
    record.chunk_bytes = CHUNK_BYTES as u64;
    record.codecs = codecs.iter().copied().collect();
    decode_span(&record, encoded, Span { first: 0, limit: CHUNK_BYTES as u64 })
}

/// The bytes that were asked for, cut out of what came.
fn decode_span(
    record: &ArrayRecord,
    encoded: &[u8],
    need: Span,
) -> Result<Vec<u8>, (Status, String)> {
    let bytes = index(target_bytes(record.chunk_bytes));
    let (mut target, mut block) = (vec![0xA5; bytes], vec![0xA5; bytes]);
    let scratch = Scratch { target: &mut target, block: &mut block };
    let mut why = Why::new();
    let decoded = DECODER.with_borrow_mut(|decoder| {
        decode_chunk(decoder, record, 0, encoded, need, scratch, &mut why)
    });
    match decoded {
        Ok(decoded) => {
            let first = index(need.first - decoded.first);
            Ok(decoded.bytes[first..][..index(need.bytes())].to_vec())
        }
        Err(status) => Err((status, why.as_str().into())),
    }
}

fn refused(codecs: &[Codec], encoded: &[u8], text: &str) {
    let (status, why) = run(codecs, encoded).unwrap_err();
    assert_eq!(status, Status::Decode);
    assert!(why.contains(text), "{why}");
}

#[test]
fn checksums_before_and_behind_a_compressor_are_verified_and_stripped() {
    use Codec::{Crc32c, Zstd};
    let plain = painted();
    assert_eq!(run(&[Crc32c], &with_crc(&plain)), Ok(plain.clone()));
    assert_eq!(run(&[Zstd, Crc32c], &with_crc(&compress(&plain, false))), Ok(plain.clone()));
    assert_eq!(run(&[Crc32c, Zstd], &compress(&with_crc(&plain), false)), Ok(plain.clone()));
    let both = with_crc(&compress(&with_crc(&plain), false));
    assert_eq!(run(&[Crc32c, Zstd, Crc32c], &both), Ok(plain.clone()));
    assert_eq!(run(&[Crc32c, Crc32c], &with_crc(&with_crc(&plain))), Ok(plain));
}

#[test]
fn a_flipped_bit_anywhere_fails_the_checksum() {
    use Codec::{Crc32c, Zstd};
    let encoded = with_crc(&compress(&painted(), false));
    for bit in 0..encoded.len() * 8 {
        let mut broken = encoded.clone();
        broken[bit / 8] ^= 1 << (bit % 8);
        refused(&[Zstd, Crc32c], &broken, "crc32c mismatch");
    }
    let mut inner = with_crc(&painted());
    inner[500] ^= 1;
    refused(&[Crc32c, Zstd], &compress(&inner, false), "crc32c mismatch");
}

#[test]
fn without_a_compressor_the_chunk_is_the_encoded_bytes_themselves() {
    let encoded = with_crc(&painted());
    let mut record = ArrayRecord::EMPTY.clone();
    record.chunk_bytes = CHUNK_BYTES as u64;
    record.codecs.push(Codec::Crc32c);
    let need = Span { first: 7, limit: CHUNK_BYTES as u64 };
    let scratch = Scratch { target: &mut [], block: &mut [] };
    let mut why = Why::new();
    let chunk = decode_chunk(&mut decoder(), &record, 0, &encoded, need, scratch, &mut why);
    assert_eq!(chunk.map(|chunk| chunk.bytes.as_ptr()), Ok(encoded.as_ptr()));
}

#[test]
fn raw_chunks_of_the_wrong_size_are_refused_with_both_sizes() {
    let mut plain = painted();
    plain.push(0);
    refused(&[], &plain, "1001 bytes where 1000 are expected");
    refused(&[], &plain[..999], "999 bytes where 1000 are expected");
    refused(&[], &[], "0 bytes where 1000 are expected");
    refused(&[Codec::Crc32c], &with_crc(&plain), "1001 bytes before its crc32c where 1000");
    refused(&[Codec::Crc32c], &[1, 2, 3], "3 bytes has no room");
}

#[test]
fn zstd_that_gives_too_little_or_too_much_is_refused_with_both_sizes() {
    let mut longer = painted();
    longer.push(0);
    let zstd = [Codec::Zstd];
    refused(&zstd, &compress(&longer, false), "1001 bytes where 1000 are expected");
    refused(&zstd, &compress(&longer[..999], false), "999 bytes where 1000 are expected");
    refused(&zstd, &[], "0 bytes where 1000 are expected");
}

/// Chunks of 400,000 bytes, four zstd blocks or more.
fn long() -> Vec<u8> {
    (0..400_000usize).map(|at| (at * at / 90 + at / 1000) as u8).collect()
}

fn long_record(codecs: &[Codec]) -> ArrayRecord {
    let mut record = ArrayRecord::EMPTY.clone();
    record.chunk_bytes = 400_000;
    record.codecs = codecs.iter().copied().collect();
    record
}

#[test]
fn every_span_of_a_zstd_chunk_is_what_the_whole_holds() {
    let (plain, record) = (long(), long_record(&[Codec::Zstd]));
    let encoded = compress(&plain, false);
    for first in [0, 1, 131_071, 131_072, 131_073, 262_144, 399_999] {
        for limit in [first + 1, first + 1000, 131_072, 262_145, 399_999, 400_000] {
            if limit <= first || limit > 400_000 {
                continue;
            }
            let need = Span { first, limit };
            let expected = plain[index(first)..index(limit)].to_vec();
            assert_eq!(decode_span(&record, &encoded, need), Ok(expected), "{need:?}");
        }
    }
}

#[test]
fn a_flip_behind_the_last_needed_byte_is_not_looked_at_unless_a_checksum_covers_it() {
    use Codec::{Crc32c, Zstd};
    let plain = long();
    let need = Span { first: 10, limit: 1000 };
    let flipped = |mut encoded: Vec<u8>| {
        let at = encoded.len() - 9;
        encoded[at] ^= 0x10;
        encoded
    };
    let plain_frame = decode_span(&long_record(&[Zstd]), &flipped(compress(&plain, false)), need);
    assert_eq!(plain_frame, Ok(plain[10..1000].to_vec()));
    let checked = decode_span(&long_record(&[Zstd]), &flipped(compress(&plain, true)), need);
    assert_eq!(checked.unwrap_err().0, Status::Decode);
    let with_suffix = flipped(with_crc(&compress(&plain, false)));
    let suffixed = decode_span(&long_record(&[Zstd, Crc32c]), &with_suffix, need);
    assert!(suffixed.unwrap_err().1.contains("crc32c mismatch"));
    let with_inner = flipped(compress(&with_crc(&plain), false));
    let inner = decode_span(&long_record(&[Crc32c, Zstd]), &with_inner, need);
    assert_eq!(inner.unwrap_err().0, Status::Decode);
}

#[test]
fn a_frame_of_another_size_is_refused_although_the_needed_bytes_are_in_it() {
    let record = long_record(&[Codec::Zstd]);
    let need = Span { first: 10, limit: 1000 };
    for count in [131_072, 399_999, 400_001] {
        let mut other = long();
        other.resize(count, 7);
        let (status, why) = decode_span(&record, &compress(&other, false), need).unwrap_err();
        assert_eq!(status, Status::Decode);
        assert!(why.contains("400000 are expected"), "{why}");
    }
}

#[test]
fn a_frame_cut_before_the_last_needed_byte_is_refused_and_behind_it_is_not_looked_at() {
    let (plain, record) = (long(), long_record(&[Codec::Zstd]));
    let encoded = compress(&plain, false);
    let need = Span { first: 0, limit: 131_073 };
    let cut = |bytes: usize| decode_span(&record, &encoded[..bytes], need);
    // What is cut can only be missed by the second block, so one bisection finds its end.
    let (mut least, mut most) = (0, encoded.len());
    while least < most {
        let middle = (least + most) / 2;
        if cut(middle).is_ok() {
            most = middle;
        } else {
            least = middle + 1;
        }
    }
    assert!(least > 1000 && least < encoded.len() * 3 / 4, "{least} of {}", encoded.len());
    for bytes in (0..encoded.len()).step_by(4001).chain(least - 50..least + 50) {
        match cut(bytes) {
            Ok(decoded) => assert!(bytes >= least && decoded == plain[..131_073], "{bytes}"),
            Err((status, _)) => assert!(bytes < least && status == Status::Decode, "{bytes}"),
        }
    }
}

#[test]
fn blosc_decodes_whole_and_in_part() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/blosc");
    let encoded = std::fs::read(std::format!("{folder}/ramp_2466_t2_c5_s2.blosc")).unwrap();
    let mut record = ArrayRecord::EMPTY.clone();
    record.chunk_bytes = 2466;
    record.codecs.push(Codec::Blosc);
    let whole = decode_span(&record, &encoded, Span { first: 0, limit: 2466 }).unwrap();
    assert_eq!(whole.len(), 2466);
    for (first, limit) in [(0, 1), (3, 2000), (2465, 2466)] {
        let part = decode_span(&record, &encoded, Span { first, limit });
        assert_eq!(part, Ok(whole[index(first)..index(limit)].to_vec()));
    }
}

#[test]
fn of_an_uncompressed_chunk_exactly_the_needed_bytes_are_taken() {
    let record = long_record(&[]);
    let need = Span { first: 5, limit: 9 };
    assert_eq!(decode_span(&record, &[1, 2, 3, 4], need), Ok(vec![1, 2, 3, 4]));
    let (status, why) = decode_span(&record, &[1, 2, 3], need).unwrap_err();
    assert_eq!(status, Status::Decode);
    assert!(why.contains("3 bytes where 4 are expected"), "{why}");
}

#[test]
fn a_filter_is_left_where_no_checksum_covers_the_bytes_without_it() {
    let leaves = |codecs: &[Codec]| {
        let mut record = ArrayRecord::EMPTY.clone();
        record.codecs.extend(codecs.iter().copied());
        leaves_filter(&record)
    };
    let sum = Codec::Sum(Sum { kind: SumKind::Adler32, at_start: true });
    for blosc in [Codec::Blosc, Codec::BloscLz4, Codec::BloscZstd] {
        assert!(leaves(&[blosc]) && leaves(&[blosc, Codec::Crc32c]));
        assert!(!leaves(&[Codec::Crc32c, blosc]) && !leaves(&[blosc, sum]));
        assert!(!leaves(&[Codec::Filter(Filter::Shuffle(4)), blosc]));
    }
    assert!(!leaves(&[]) && !leaves(&[Codec::Crc32c]) && !leaves(&[Codec::Zstd]));
}
