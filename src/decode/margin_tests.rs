//! Where the fast loops of the dictionary coders begin and end: every length near both ends, every
//! short distance. Oracles: what was written is known; liblz4, c-blosc and zlib take it or not.

use super::inflate::Inflater;
use super::{blosclz, lz4};
use crate::base::status::Why;
use blosc_src as _;
use flate2::{Decompress, FlushDecompress};
use std::ffi::c_void;
use std::io::Write;
use std::vec;
use std::vec::Vec;

const POISON: u8 = 0xA5;

/// Literals before the first match.
const SEED_BYTES: usize = 64;

unsafe extern "C" {
    fn blosclz_decompress(input: *const c_void, length: i32, output: *mut c_void, max: i32) -> i32;
}

fn painted(count: usize) -> Vec<u8> {
    (0..count).map(|at| (at * 7 + at / 3 + 1) as u8).collect()
}

/// What `decode` makes of a target of `room` bytes; what lies around it stays.
fn within(room: usize, decode: impl FnOnce(&mut [u8]) -> Option<usize>) -> Option<Vec<u8>> {
    const AROUND: usize = 64;
    let mut bytes = vec![POISON; room + 2 * AROUND];
    let count = decode(&mut bytes[AROUND..AROUND + room]);
    let is_poison = |part: &[u8]| part.iter().all(|byte| *byte == POISON);
    assert!(is_poison(&bytes[..AROUND]) && is_poison(&bytes[AROUND + room..]));
    count.map(|count| bytes[AROUND..AROUND + count].to_vec())
}

fn by_lz4(source: &[u8], target: &mut [u8]) -> Option<usize> {
    // SAFETY: both buffers are live and as long as the call is told.
    let count = unsafe {
        lz4_sys::LZ4_decompress_safe(
            source.as_ptr().cast(),
            target.as_mut_ptr().cast(),
            source.len() as i32,
            target.len() as i32,
        )
    };
    usize::try_from(count).ok()
}

fn by_blosclz(source: &[u8], target: &mut [u8]) -> Option<usize> {
    // SAFETY: both buffers are live and as long as the call is told.
    let count = unsafe {
        blosclz_decompress(
            source.as_ptr().cast(),
            source.len() as i32,
            target.as_mut_ptr().cast(),
            target.len() as i32,
        )
    };
    usize::try_from(count).ok().filter(|count| *count > 0)
}

/// A length as LZ4 has it: the code, and the bytes behind it.
fn lz4_length(length: usize) -> (u8, Vec<u8>) {
    let Some(more) = length.checked_sub(15) else { return (length as u8, Vec::new()) };
    let mut bytes = vec![255; more / 255];
    bytes.push((more % 255) as u8);
    (15, bytes)
}

/// Literals, then, unless the length is 0, a match.
fn lz4_sequence(block: &mut Vec<u8>, literals: &[u8], distance: usize, length: usize) {
    let (count, count_behind) = lz4_length(literals.len());
    let (code, code_behind) = lz4_length(length.saturating_sub(4));
    block.push(count << 4 | code);
    block.extend(count_behind);
    block.extend(literals);
    if length > 0 {
        block.extend((distance as u16).to_le_bytes());
        block.extend(code_behind);
    }
}

fn blosclz_literals(stream: &mut Vec<u8>, literals: &[u8]) {
    for part in literals.chunks(32) {
        stream.push(part.len() as u8 - 1);
        stream.extend(part);
    }
}

fn blosclz_match(stream: &mut Vec<u8>, distance: usize, length: usize) {
    let (high, low) = ((distance - 1) >> 8, (distance - 1) as u8);
    if length < 9 {
        stream.push((length as u8 - 2) << 5 | high as u8);
    } else {
        stream.push(7 << 5 | high as u8);
        stream.extend(vec![255; (length - 9) / 255]);
        stream.push(((length - 9) % 255) as u8);
    }
    stream.push(low);
}

fn repeated(bytes: &mut Vec<u8>, distance: usize, length: usize) {
    for _ in 0..length {
        bytes.push(bytes[bytes.len() - distance]);
    }
}

/// The seed, a match, and `tail` literals, through both coders, into `spare` bytes more than they
/// take.
fn a_match_decodes(distance: usize, length: usize, tail: usize, spare: usize) {
    let mut expected = painted(SEED_BYTES);
    repeated(&mut expected, distance, length);
    let end = painted(tail);
    expected.extend(&end);
    let (mut block, mut stream) = (Vec::new(), Vec::new());
    lz4_sequence(&mut block, &expected[..SEED_BYTES], distance, length);
    lz4_sequence(&mut block, &end, 0, 0);
    blosclz_literals(&mut stream, &expected[..SEED_BYTES]);
    blosclz_match(&mut stream, distance, length);
    blosclz_literals(&mut stream, &end);
    let room = expected.len() + spare;
    let name = || std::format!("{distance} {length} {tail} {spare}");
    let ours = within(room, |target| lz4::block(&block, target, &mut Why::new()).ok());
    assert!(ours.as_ref() == Some(&expected), "lz4 {}", name());
    // liblz4 wants five literals at the end, and the last match twelve bytes before it.
    let theirs = within(room, |target| by_lz4(&block, target));
    assert!(theirs.is_none_or(|bytes| bytes == expected), "liblz4 {}", name());
    let ours = within(room, |target| blosclz::decompress(&stream, target, &mut Why::new()).ok());
    assert!(ours == within(room, |target| by_blosclz(&stream, target)), "blosclz {}", name());
    assert!(tail == 0 || ours == Some(expected), "blosclz {}", name());
    // A byte less is too little.
    let less = room - spare - 1;
    let ours = within(less, |target| lz4::block(&block, target, &mut Why::new()).ok());
    assert!(ours.is_none(), "lz4 {}", name());
    let ours = within(less, |target| blosclz::decompress(&stream, target, &mut Why::new()).ok());
    assert!(ours == within(less, |target| by_blosclz(&stream, target)), "blosclz {}", name());
}

#[test]
fn matches_of_every_length_at_every_short_distance_repeat_what_is_there() {
    for distance in 1..=SEED_BYTES {
        for length in 4..=300 {
            a_match_decodes(distance, length, 12, 0);
            a_match_decodes(distance, length, 100, 0);
        }
    }
}

#[test]
fn matches_decode_however_many_bytes_follow_them_or_are_free() {
    for distance in [1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 64] {
        for length in [4, 5, 15, 16, 17, 18, 19, 20, 31, 32, 33, 64, 65, 270] {
            for tail in 0..=80 {
                a_match_decodes(distance, length, tail, 0);
                a_match_decodes(distance, length, 80 - tail, tail);
                a_match_decodes(distance, length, 1, tail);
            }
        }
    }
}

#[test]
fn literals_of_every_count_decode_between_matches() {
    for count in (0..=300).chain([511, 512, 513, 1000]) {
        for tail in [0, 5, 12, 40, 100] {
            let literals = painted(count);
            let mut expected = painted(SEED_BYTES);
            let (mut block, mut stream) = (Vec::new(), Vec::new());
            lz4_sequence(&mut block, &expected, 9, 6);
            blosclz_literals(&mut stream, &expected);
            blosclz_match(&mut stream, 9, 6);
            repeated(&mut expected, 9, 6);
            expected.extend(&literals);
            lz4_sequence(&mut block, &literals, 33, 21);
            blosclz_literals(&mut stream, &literals);
            blosclz_match(&mut stream, 33, 21);
            repeated(&mut expected, 33, 21);
            let end = painted(tail);
            expected.extend(&end);
            lz4_sequence(&mut block, &end, 0, 0);
            blosclz_literals(&mut stream, &end);
            let room = expected.len();
            let ours = within(room, |target| lz4::block(&block, target, &mut Why::new()).ok());
            assert!(ours.as_ref() == Some(&expected), "lz4 {count} {tail}");
            let ours = |target: &mut [u8]| blosclz::decompress(&stream, target, &mut Why::new());
            let ours = within(room, |target| ours(target).ok());
            assert!(ours == within(room, |target| by_blosclz(&stream, target)), "{count} {tail}");
            assert!(tail == 0 || ours == Some(expected), "blosclz {count} {tail}");
        }
    }
}

#[test]
fn a_sequence_that_is_wrong_is_refused_however_much_room_is_left() {
    for tail in [0, 12, 100, 200] {
        for distance in [0, SEED_BYTES + 1, SEED_BYTES + 2, 40_000] {
            for length in [4, 18, 19, 40, 300] {
                let mut block = Vec::new();
                lz4_sequence(&mut block, &painted(SEED_BYTES), distance, length);
                lz4_sequence(&mut block, &painted(tail), 0, 0);
                let room = SEED_BYTES + length + tail;
                let outcome =
                    within(room, |target| lz4::block(&block, target, &mut Why::new()).ok());
                assert!(outcome.is_none(), "{tail} {distance} {length}");
            }
        }
    }
}

/// Bits, the first one lowest.
#[derive(Default)]
struct Bits {
    bytes: Vec<u8>,
    count: usize,
}

impl Bits {
    fn put(&mut self, value: usize, count: usize) {
        for bit in 0..count {
            if self.count.is_multiple_of(8) {
                self.bytes.push(0);
            }
            self.bytes[self.count / 8] |= ((value >> bit & 1) as u8) << (self.count % 8);
            self.count += 1;
        }
    }

    /// A code of the fixed block, which begins with its highest bit.
    fn fixed(&mut self, symbol: usize) {
        let (code, count) = match symbol {
            0..144 => (0x30 + symbol, 8),
            144..256 => (0x190 + symbol - 144, 9),
            256..280 => (symbol - 256, 7),
            _ => (0xC0 + symbol - 280, 8),
        };
        (0..count).rev().for_each(|bit| self.put(code >> bit & 1, 1));
    }

    /// A match: the last symbol whose least length (distance) is not larger, and what is added.
    fn fixed_match(&mut self, distance: usize, length: usize) {
        let lengths = (0..28).scan(3, |least, at| {
            let extra = if at < 8 { 0 } else { at / 4 - 1 };
            *least += 1 << extra;
            Some((*least - (1 << extra), extra))
        });
        let found = lengths.enumerate().take_while(|(_, (least, _))| *least <= length).last();
        let (at, (least, extra)) = if length == 258 { (28, (258, 0)) } else { found.unwrap() };
        self.fixed(257 + at);
        self.put(length - least, extra);
        let distances = (0..30).scan(1, |least, at| {
            let extra = if at < 2 { 0 } else { at / 2 - 1 };
            *least += 1 << extra;
            Some((*least - (1 << extra), extra))
        });
        let found = distances.enumerate().take_while(|(_, (least, _))| *least <= distance).last();
        let (at, (least, extra)) = found.unwrap();
        (0..5).rev().for_each(|bit| self.put(at >> bit & 1, 1));
        self.put(distance - least, extra);
    }
}

/// What zlib makes of deflate data in a target of `room` bytes.
fn by_zlib(source: &[u8], room: usize) -> Option<Vec<u8>> {
    let mut target = vec![0; room];
    let mut oracle = Decompress::new(false);
    let status = oracle.decompress(source, &mut target, FlushDecompress::Finish);
    target.truncate(oracle.total_out() as usize);
    matches!(status, Ok(flate2::Status::StreamEnd)).then_some(target)
}

fn inflated(inflater: &mut Inflater, source: &[u8], room: usize) -> Option<Vec<u8>> {
    within(room, |target| {
        let progress = inflater.deflate(source, target, &mut Why::new()).ok();
        progress.map(|progress| progress.target_bytes)
    })
}

#[test]
fn deflated_matches_of_every_length_repeat_what_is_there() {
    let mut inflater = Inflater::new();
    for distance in 1..=SEED_BYTES {
        for length in 3..=258 {
            // Far from the ends, and at them.
            for tail in [0, 400] {
                let mut expected = painted(SEED_BYTES);
                let mut bits = Bits::default();
                bits.put(0b011, 3);
                expected.iter().for_each(|byte| bits.fixed(usize::from(*byte)));
                bits.fixed_match(distance, length);
                repeated(&mut expected, distance, length);
                for byte in painted(tail) {
                    bits.fixed(usize::from(byte));
                    expected.push(byte);
                }
                bits.fixed(256);
                let outcome = inflated(&mut inflater, &bits.bytes, expected.len());
                assert!(outcome.as_ref() == Some(&expected), "{distance} {length} {tail}");
                assert_eq!(inflated(&mut inflater, &bits.bytes, expected.len() - 1), None);
                if length % 16 == distance % 16 {
                    assert!(outcome == by_zlib(&bits.bytes, expected.len()));
                }
            }
        }
    }
}

#[test]
fn deflate_data_of_every_length_has_the_outcome_of_zlib() {
    let mut inflater = Inflater::new();
    let all: Vec<u8> = (0..900u32).map(|at| (at * at / 90 + at / 7) as u8 % 61).collect();
    for count in 0..all.len() {
        for level in [1, 6] {
            let mut writer =
                flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::new(level));
            writer.write_all(&all[..count]).unwrap();
            let data = writer.finish().unwrap();
            let room = count + count % 80;
            assert_eq!(inflated(&mut inflater, &data, room).as_deref(), Some(&all[..count]));
            if count > 0 {
                assert_eq!(inflated(&mut inflater, &data, count - 1), None);
            }
            let cut = data.len() - 1 - count % data.len();
            assert_eq!(inflated(&mut inflater, &data[..cut], room), None, "{count} {cut}");
        }
    }
}

#[test]
fn flipped_bits_of_deflate_data_have_the_outcome_of_zlib() {
    let mut inflater = Inflater::new();
    let plain: Vec<u8> = (0..3000u32).map(|at| (at * at / 90 + at / 7) as u8).collect();
    let mut taken = 0;
    for level in [1, 6, 9] {
        let mut writer =
            flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::new(level));
        writer.write_all(&plain).unwrap();
        let data = writer.finish().unwrap();
        for bit in 0..data.len() * 8 {
            let mut data = data.clone();
            data[bit / 8] ^= 1 << (bit % 8);
            let outcome = inflated(&mut inflater, &data, 4000);
            taken += outcome.is_some() as usize;
            assert!(outcome == by_zlib(&data, 4000), "bit {bit} of level {level}");
        }
    }
    assert!(taken > 100, "{taken}");
}
