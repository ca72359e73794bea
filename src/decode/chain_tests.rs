//! Whole codec chains: checksums on either side of a compressor, and sizes at every step.

use super::zstd::test_support::{compress, decoder};
use super::*;
use std::string::String;
use std::vec;
use std::vec::Vec;

const CHUNK_BYTES: usize = 1000;

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
    let mut scratch = vec![0xA5; index(scratch_bytes(CHUNK_BYTES as u64))];
    let mut why = Why::new();
    decode_chunk(&mut decoder(), &record, 0, encoded, &mut scratch, &mut why)
        .map(<[u8]>::to_vec)
        .map_err(|status| (status, why.as_str().into()))
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
    let mut scratch = vec![0xA5; index(scratch_bytes(CHUNK_BYTES as u64))];
    let mut why = Why::new();
    let chunk = decode_chunk(&mut decoder(), &record, 0, &encoded, &mut scratch, &mut why);
    assert_eq!(chunk.map(<[u8]>::as_ptr), Ok(encoded.as_ptr()));
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

#[test]
fn blosc_uses_the_other_half_of_the_scratch() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/blosc");
    let encoded = std::fs::read(std::format!("{folder}/ramp_2466_t2_c5_s2.blosc")).unwrap();
    let mut record = ArrayRecord::EMPTY.clone();
    record.chunk_bytes = 2466;
    record.codecs.push(Codec::Blosc);
    let mut scratch = vec![0xA5; index(scratch_bytes(2466))];
    let mut why = Why::new();
    let chunk = decode_chunk(&mut decoder(), &record, 0, &encoded, &mut scratch, &mut why);
    assert_eq!(chunk.map(<[u8]>::len), Ok(2466));
}
