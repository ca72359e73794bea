//! Chunks of gzip, zlib and LZ4, and the chunks of tests/data/make_codecs.py, whole and broken.
//! Their writers are zlib and lz4 in C, and c-blosc through numcodecs.

use super::blosc::{Compressor, header};
use super::decoder::test_support::decoder;
use super::*;
use crate::records::Lzma;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::format;
use std::io::{Read, Write};
use std::string::{String, ToString};
use std::sync::OnceLock;
use std::thread_local;
use std::vec;
use std::vec::Vec;

const POISON: u8 = 0xA5;

thread_local! {
    /// Its workspace is never given back, so each test has one.
    static DECODER: RefCell<Decoder> = RefCell::new(decoder());
}

fn painted(count: usize) -> Vec<u8> {
    (0..count).map(|at| (at * at / 90 + at / 7 + 1) as u8).collect()
}

pub(super) fn noise(count: usize) -> Vec<u8> {
    let mut state = 0x9E37_79B9_7F4A_7C15u64;
    let step = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    std::iter::repeat_with(step).take(count).collect()
}

/// The chunk decoded twice, each time into poison: the same bytes or the same refusal.
fn run(codec: Codec, encoded: &[u8], bytes: usize) -> Result<Vec<u8>, (Status, String)> {
    let mut record = ArrayRecord::EMPTY.clone();
    record.chunk_bytes = bytes as u64;
    record.codecs.push(codec);
    let decoded = || {
        let room = index(target_bytes(record.chunk_bytes));
        let block_room = room.max(index(block_need(&record, encoded)));
        let (mut target, mut block) = (vec![POISON; room], vec![POISON; block_room]);
        let scratch = Scratch { target: &mut target, block: &mut block };
        let need = Span { first: 0, limit: bytes as u64 };
        let mut why = Why::new();
        let decoded = DECODER.with_borrow_mut(|decoder| {
            decode_chunk(decoder, &record, 0, encoded, need, scratch, &mut why)
        });
        decoded
            .map(|chunk| chunk.bytes.to_vec())
            .map_err(|status| (status, why.as_str().to_string()))
    };
    let first = decoded();
    assert_eq!(first, decoded());
    if let Ok(bytes) = &first {
        assert_eq!(bytes.len() as u64, record.chunk_bytes);
    }
    first
}

fn refused(codec: Codec, encoded: &[u8], bytes: usize, text: &str) {
    let (status, why) = run(codec, encoded, bytes).unwrap_err();
    assert_eq!(status, Status::Decode, "{why}");
    assert!(why.contains(text), "{why}");
}

fn zlib(bytes: &[u8], level: u32) -> Vec<u8> {
    let mut writer = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::new(level));
    writer.write_all(bytes).unwrap();
    writer.finish().unwrap()
}

fn gzip(bytes: &[u8], level: u32) -> Vec<u8> {
    let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::new(level));
    writer.write_all(bytes).unwrap();
    writer.finish().unwrap()
}

/// A member whose header has the parts that `flags` say.
fn gzip_with(bytes: &[u8], flags: u8, parts: &[u8]) -> Vec<u8> {
    let plain = gzip(bytes, 6);
    let mut member = plain[..10].to_vec();
    member[3] = flags;
    member.extend(parts);
    if flags & 2 != 0 {
        let crc = crc32fast::hash(&member) as u16;
        member.extend(crc.to_le_bytes());
    }
    member.extend(&plain[10..]);
    member
}

fn lz4(bytes: &[u8]) -> Vec<u8> {
    // SAFETY: a pure function of its argument.
    let bound = unsafe { lz4_sys::LZ4_compressBound(bytes.len() as i32) };
    let mut block = vec![0; bound as usize];
    // SAFETY: both buffers are live and as long as the call is told.
    let count = unsafe {
        lz4_sys::LZ4_compress_default(
            bytes.as_ptr().cast(),
            block.as_mut_ptr().cast(),
            bytes.len() as i32,
            bound,
        )
    };
    block.truncate(count as usize);
    let mut chunk = (bytes.len() as u32).to_le_bytes().to_vec();
    chunk.extend(block);
    chunk
}

/// The chunks of tests/data/make_codecs.py and their plain bytes, by name.
fn pack() -> &'static BTreeMap<String, Vec<u8>> {
    static PACK: OnceLock<BTreeMap<String, Vec<u8>>> = OnceLock::new();
    PACK.get_or_init(|| {
        let packed = include_bytes!("../../tests/data/codec_chunks.tar.zst");
        let data = ::zstd::decode_all(&packed[..]).unwrap();
        let mut files = BTreeMap::new();
        for entry in tar::Archive::new(&data[..]).entries().unwrap() {
            let mut entry = entry.unwrap();
            let name = entry.path().unwrap().to_str().unwrap().to_string();
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes).unwrap();
            files.insert(name, bytes);
        }
        files
    })
}

/// Every chunk of the pack: name, chunk, plain bytes.
fn blosc_chunks() -> impl Iterator<Item = (&'static str, &'static [u8], &'static [u8])> {
    pack().iter().filter_map(|(name, chunk)| {
        let mut words = name.split('_');
        let plain = format!("{}_{}", words.next()?, words.next()?);
        words.next()?;
        Some((name.as_str(), &chunk[..], &pack()[&plain][..]))
    })
}

fn blosc_chunk(name: &str) -> (&'static [u8], usize) {
    let found = blosc_chunks().find(|(other, ..)| *other == name);
    found.map(|(_, chunk, plain)| (chunk, plain.len())).unwrap_or_else(|| panic!("no {name}"))
}

#[test]
fn every_chunk_of_every_blosc_compressor_decodes_to_its_bytes() {
    let mut counts = BTreeMap::new();
    for (name, chunk, plain) in blosc_chunks() {
        let header = header(chunk, &mut Why::new()).unwrap();
        let kind = (format!("{:?}", header.compressor), header.split_count > 1, header.memcpyed);
        *counts.entry(kind).or_insert(0) += 1;
        assert!(run(Codec::Blosc, chunk, plain.len()).as_deref() == Ok(plain), "{name}");
    }
    for compressor in [Compressor::Blosclz, Compressor::Lz4, Compressor::Zlib, Compressor::Zstd] {
        let name = format!("{compressor:?}");
        assert!(counts[&(name.clone(), false, false)] > 5, "{counts:?}");
        assert!(counts[&(name.clone(), false, true)] > 1, "{counts:?}");
        // c-blosc splits for every codec except zstd.
        let is_split = counts.contains_key(&(name, true, false));
        assert_eq!(is_split, compressor != Compressor::Zstd, "{counts:?}");
    }
}

#[test]
fn the_pack_has_split_blocks_out_of_order() {
    for (name, chunk, plain) in blosc_chunks().filter(|(name, ..)| name.contains("_400000_")) {
        let header = header(chunk, &mut Why::new()).unwrap();
        let word = |at: usize| u32::from_le_bytes(chunk[at..at + 4].try_into().unwrap());
        let starts: Vec<u32> =
            (0..header.block_count as usize).map(|at| word(16 + 4 * at)).collect();
        assert!(!starts.is_sorted() && header.split_count > 1, "{name}: {starts:?}");
        assert!(run(Codec::Blosc, chunk, plain.len()).as_deref() == Ok(plain), "{name}");
    }
}

#[test]
fn a_part_of_a_blosc_chunk_is_that_part_of_the_whole() {
    let decode = |chunk: &[u8], bytes: usize, span: Span| {
        let (mut target, mut block) = (vec![POISON; bytes], vec![POISON; bytes]);
        let mut why = Why::new();
        DECODER.with_borrow_mut(|decoder| {
            let decoded =
                blosc::decode(decoder, chunk, 0, span, &mut target, &mut block, &mut why).unwrap();
            assert_eq!((decoded.first, decoded.bytes.len() as u64), (span.first, span.bytes()));
            decoded.bytes.to_vec()
        })
    };
    for (name, chunk, plain) in blosc_chunks() {
        let bytes = plain.len() as u64;
        for (first, limit) in [(0, 1), (bytes / 3, bytes / 2), (bytes - 1, bytes)] {
            if first < limit {
                let part = decode(chunk, plain.len(), Span { first, limit });
                assert!(part == plain[index(first)..index(limit)], "{name}");
            }
        }
    }
}

#[test]
fn blosc_of_snappy_is_unsupported_by_name() {
    let (chunk, bytes) = blosc_chunk("slope_5100_t2_c5_s1_lz4");
    let mut chunk = chunk.to_vec();
    chunk[2] = chunk[2] & 0x1F | 2 << 5;
    let (status, why) = run(Codec::Blosc, &chunk, bytes).unwrap_err();
    assert_eq!(status, Status::Unsupported);
    assert!(why.contains("snappy"), "{why}");
}

#[test]
fn every_compressor_of_blosc_has_format_version_1() {
    for cname in ["blosclz", "lz4", "zlib", "zstd"] {
        let (chunk, bytes) = blosc_chunk(&format!("slope_127_t2_c5_s1_{cname}"));
        for version in [0, 2, 255] {
            let mut chunk = chunk.to_vec();
            chunk[1] = version;
            let text = format!("blosc {cname} format version is {version}");
            refused(Codec::Blosc, &chunk, bytes, &text);
        }
    }
}

#[test]
fn a_flipped_bit_of_a_blosc_header_is_refused_or_decodes_to_the_same_size() {
    for cname in ["blosclz", "lz4", "zlib", "zstd"] {
        let name = blosc_chunks()
            .find(|(name, chunk, _)| name.ends_with(cname) && chunk[2] & 2 == 0)
            .unwrap()
            .0;
        let (chunk, bytes) = blosc_chunk(name);
        for bit in 0..(16 + 8) * 8 {
            let mut chunk = chunk.to_vec();
            chunk[bit / 8] ^= 1 << (bit % 8);
            // Both decodings and the size are compared in there.
            let outcome = run(Codec::Blosc, &chunk, bytes);
            // nbytes, blocksize and cbytes.
            if (4 * 8..8 * 8).contains(&bit) || (12 * 8..16 * 8).contains(&bit) {
                assert_eq!(outcome.unwrap_err().0, Status::Decode, "{name} bit {bit}");
            }
        }
    }
}

#[test]
fn a_blosc_chunk_of_any_compressor_cut_anywhere_is_refused() {
    for cname in ["blosclz", "lz4", "zlib", "zstd"] {
        let (name, chunk, plain) = blosc_chunks()
            .filter(|(name, chunk, _)| name.ends_with(cname) && chunk[2] & 2 == 0)
            .min_by_key(|(_, chunk, _)| chunk.len())
            .unwrap();
        for cut in 0..chunk.len() {
            let mut cut_chunk = chunk[..cut].to_vec();
            let (status, why) = run(Codec::Blosc, &cut_chunk, plain.len()).unwrap_err();
            assert_eq!(status, Status::Decode, "{name} cut at {cut}: {why}");
            // With a length that says so, the streams are what is cut.
            if cut >= 16 {
                cut_chunk[12..16].copy_from_slice(&(cut as u32).to_le_bytes());
                let (status, why) = run(Codec::Blosc, &cut_chunk, plain.len()).unwrap_err();
                assert_eq!(status, Status::Decode, "{name} cut at {cut}: {why}");
            }
        }
    }
}

#[test]
fn gzip_and_zlib_of_every_level_decode() {
    for bytes in [painted(1), painted(1000), painted(100_000), noise(70_000), vec![7; 90_000]] {
        for level in 0..=9 {
            let count = bytes.len();
            assert!(run(Codec::Gzip, &gzip(&bytes, level), count).as_ref() == Ok(&bytes));
            assert!(run(Codec::Zlib, &zlib(&bytes, level), count).as_ref() == Ok(&bytes));
        }
        assert!(run(Codec::Lz4, &lz4(&bytes), bytes.len()) == Ok(bytes));
    }
}

#[test]
fn gzip_members_with_every_optional_part_decode_one_behind_the_other() {
    let bytes = painted(1000);
    let extra = [3, 0, b'w', b't', 9];
    let all = [&extra[..], b"name\0comment\0"].concat();
    let source = [
        gzip_with(&bytes[..0], 0, b""),
        gzip_with(&bytes[..1], 1, b""),
        gzip_with(&bytes[1..10], 2, b""),
        gzip_with(&bytes[10..200], 4, &extra),
        gzip_with(&bytes[200..300], 8, b"\0"),
        gzip_with(&bytes[300..500], 16, b"why\0"),
        vec![0; 3],
        gzip_with(&bytes[500..], 31, &all),
        vec![0; 1000],
    ]
    .concat();
    assert!(run(Codec::Gzip, &source, 1000) == Ok(bytes));
}

#[test]
fn each_broken_part_of_a_gzip_member_is_refused_with_its_reason() {
    let bytes = painted(300);
    let whole = gzip(&bytes, 6);
    let patched = |at: usize, value: u8| {
        let mut source = whole.clone();
        source[at] = value;
        source
    };
    let length = whole.len();
    refused(Codec::Gzip, &patched(0, 0x1E), 300, "0x1e 0x8b where a gzip member begins");
    refused(Codec::Gzip, &patched(1, 0x8C), 300, "0x1f 0x8c where a gzip member begins");
    refused(Codec::Gzip, &patched(2, 7), 300, "compression method is 7");
    refused(Codec::Gzip, &patched(3, 0x20), 300, "reserved bits");
    refused(Codec::Gzip, &patched(3, 0x80), 300, "reserved bits");
    refused(Codec::Gzip, &patched(length - 5, whole[length - 5] ^ 1), 300, "crc32 mismatch");
    refused(Codec::Gzip, &patched(length - 4, 43), 300, "declares 299 bytes and holds 300");
    let mut with_crc = gzip_with(&bytes, 2, b"");
    with_crc[10] ^= 1;
    refused(Codec::Gzip, &with_crc, 300, "header crc16 mismatch");
    refused(Codec::Gzip, &gzip_with(&bytes, 4, &[255, 255]), 300, "header of a member");
    refused(Codec::Gzip, &[&whole[..], b"x"].concat(), 300, "header of a member");
    refused(Codec::Gzip, &[&whole[..], b"\0\0junk"].concat(), 300, "where a gzip member begins");
    refused(Codec::Gzip, &whole, 301, "gzip data decodes to 300 bytes where 301 are expected");
    refused(Codec::Gzip, &whole, 299, "more than the 299 bytes");
    refused(Codec::Gzip, &[&whole[..], &whole[..]].concat(), 300, "more than the 0 bytes");
}

#[test]
fn each_broken_part_of_a_zlib_stream_is_refused_with_its_reason() {
    let bytes = painted(300);
    let whole = zlib(&bytes, 6);
    let with = |at: usize, value: u8| {
        let mut source = whole.clone();
        source[at] = value;
        source
    };
    refused(Codec::Zlib, &with(0, 0x77), 300, "compression method is 7");
    refused(Codec::Zlib, &with(0, 0x88), 300, "not a zlib header");
    refused(Codec::Zlib, &with(1, whole[1] ^ 1), 300, "not a zlib header");
    refused(Codec::Zlib, &with(whole.len() - 1, whole[whole.len() - 1] ^ 1), 300, "adler32");
    refused(Codec::Zlib, &[&whole[..], b"\0"].concat(), 300, "1 bytes after the end");
    refused(Codec::Zlib, &whole, 301, "zlib data decodes to 300 bytes where 301 are expected");
    refused(Codec::Zlib, &whole, 299, "more than the 299 bytes");
    // FDICT, and the check bits that go with it.
    let (status, why) = run(Codec::Zlib, &[&[0x78, 0x20], &whole[2..]].concat(), 300).unwrap_err();
    assert_eq!(status, Status::Unsupported, "{why}");
    assert!(why.contains("preset dictionary"), "{why}");
}

#[test]
fn each_broken_part_of_an_lz4_chunk_is_refused_with_its_reason() {
    let bytes = painted(300);
    let whole = lz4(&bytes);
    refused(Codec::Lz4, &whole, 301, "declares 300 bytes where 301 are expected");
    refused(Codec::Lz4, &whole[..3], 300, "3 bytes has no size");
    refused(Codec::Lz4, &whole[..4], 300, "does not decode to 300 bytes");
    let sized = |block: &[u8], bytes: u32| [&bytes.to_le_bytes()[..], block].concat();
    // Two literals, then a match at offset 0, at offset 3, and with a length that never ends.
    refused(Codec::Lz4, &sized(&[0x20, 1, 2, 0, 0, 0], 20), 20, "does not decode");
    refused(Codec::Lz4, &sized(&[0x20, 1, 2, 3, 0, 0], 20), 20, "does not decode");
    refused(Codec::Lz4, &sized(&[0x2F, 1, 2, 1, 0, 255, 255], 20), 20, "does not decode");
    refused(Codec::Lz4, &sized(&[0x2F, 1, 2, 1, 0, 255, 255, 0, 0], 20), 20, "does not decode");
    // A size of 2^31 and more is a size, not a negative number.
    refused(Codec::Lz4, &sized(&[0], u32::MAX), 300, "declares 4294967295 bytes");
}

#[test]
fn deflate_data_that_refers_before_its_first_byte_is_refused() {
    // A block of fixed codes: a match of length 3 (code 257) at distance 1, first of all.
    // Bits: 1 (last), 01 (fixed), 0000001 (257), 00000 (distance 1), 0000000 (end).
    let bits = [1, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let data: Vec<u8> =
        bits.chunks(8).map(|bits| bits.iter().rev().fold(0, |byte, bit| byte << 1 | bit)).collect();
    let mut why = Why::new();
    let mut target = [POISON; 8];
    let mut inflater = super::inflate::Inflater::new();
    assert_eq!(inflater.deflate(&data, &mut target, &mut why), Err(Status::Decode));
    // The next member cannot see the one before.
    let mut source = gzip(b"abcdefgh", 6);
    source.extend(&gzip(b"", 6)[..10]);
    source.extend(&data);
    source.extend([0; 8]);
    refused(Codec::Gzip, &source, 11, "broken");
}

#[test]
fn every_codec_refuses_its_chunk_cut_anywhere() {
    let bytes = painted(700);
    let chunks = [
        (Codec::Gzip, gzip(&bytes, 6)),
        (Codec::Zlib, zlib(&bytes, 6)),
        (Codec::Lz4, lz4(&bytes)),
        (Codec::Zstd, super::zstd::test_support::compress(&bytes, false)),
    ];
    for (codec, chunk) in chunks {
        assert!(run(codec, &chunk, 700).is_ok());
        for cut in 0..chunk.len() {
            let (status, _) = run(codec, &chunk[..cut], 700).unwrap_err();
            assert_eq!(status, Status::Decode, "{} cut at {cut}", codec.name());
        }
    }
}

#[test]
fn a_flipped_bit_of_gzip_or_zlib_is_refused_or_harmless() {
    let bytes = painted(500);
    for (codec, chunk) in [(Codec::Gzip, gzip(&bytes, 6)), (Codec::Zlib, zlib(&bytes, 6))] {
        for bit in 0..chunk.len() * 8 {
            let mut chunk = chunk.clone();
            chunk[bit / 8] ^= 1 << (bit % 8);
            if let Ok(decoded) = run(codec, &chunk, 500) {
                // As the time in a gzip header, or the length of a code that does not occur.
                assert_eq!(decoded, bytes, "bit {bit}");
            }
        }
    }
}

#[test]
fn impostors_and_tiny_files_are_refused_in_place_of_every_codec() {
    let bytes = painted(300);
    let [gzip, zlib, lz4] = [gzip(&bytes, 6), zlib(&bytes, 6), lz4(&bytes)];
    let zstd = super::zstd::test_support::compress(&bytes, true);
    let blosc = blosc_chunk("slope_127_t2_c5_s1_zstd").0;
    let files: [(&str, &[u8]); 13] = [
        ("gzip", &gzip),
        ("zlib", &zlib),
        ("lz4", &lz4),
        ("zstd", &zstd),
        ("blosc", blosc),
        ("zip", b"PK\x03\x04\x14\0\0\0\x08\0\x21\0\x21\0\x9b\x43\x72\x61\x10\0\0\0\x20\0\0\0"),
        ("pdf", b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n1 0 obj<</Type/Catalog>>endobj\n"),
        ("png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x10\0\0\0\x10\x08\x02\0\0\0"),
        ("json", b"{\"zarr_format\": 3, \"node_type\": \"array\"}"),
        ("0 bytes", b""),
        ("1 byte", b"\x28"),
        ("4 bytes", b"\x28\xb5\x2f\xfd"),
        ("zeroes", &[0; 64]),
    ];
    for codec in [
        Codec::Gzip,
        Codec::Zlib,
        Codec::Lz4,
        Codec::Zstd,
        Codec::Blosc,
        Codec::Bz2(9),
        Codec::Lzma(Lzma::Xz),
        Codec::Lzma(Lzma::Alone),
    ] {
        for (name, file) in files {
            if name != codec.name() {
                let (status, why) = run(codec, file, 300).unwrap_err();
                assert_eq!(status, Status::Decode, "{name} as {}: {why}", codec.name());
                assert!(!why.is_empty());
            }
        }
    }
}
