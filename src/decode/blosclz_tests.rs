//! blosclz streams byte by byte: what c-blosc's decoder takes and what it refuses. That decoder is
//! the oracle; it is linked from c-blosc 1.21.

use super::blosclz::decompress;
use crate::base::status::{Status, Why};
use blosc_src as _;
use std::ffi::c_void;
use std::string::String;
use std::vec;
use std::vec::Vec;

const POISON: u8 = 0xA5;

unsafe extern "C" {
    fn blosclz_decompress(input: *const c_void, length: i32, output: *mut c_void, max: i32) -> i32;
}

/// What c-blosc makes of a stream; None where it refuses.
fn by_c_blosc(stream: &[u8], bytes: usize) -> Option<Vec<u8>> {
    let mut target = vec![POISON; bytes];
    // SAFETY: both buffers are live and as long as the call is told.
    let count = unsafe {
        blosclz_decompress(
            stream.as_ptr().cast(),
            stream.len() as i32,
            target.as_mut_ptr().cast(),
            bytes as i32,
        )
    };
    (count > 0).then(|| target[..count as usize].to_vec())
}

/// The outcome, which is c-blosc's.
fn run(stream: &[u8], bytes: usize) -> Result<Vec<u8>, String> {
    let mut why = Why::new();
    let mut target = vec![POISON; bytes];
    let outcome = decompress(stream, &mut target, &mut why);
    let outcome = match outcome {
        Ok(count) => Ok(target[..count].to_vec()),
        Err(status) => {
            assert_eq!(status, Status::Decode);
            Err(why.as_str().into())
        }
    };
    let taken = outcome.as_ref().ok().filter(|bytes| !bytes.is_empty());
    assert_eq!(taken, by_c_blosc(stream, bytes).as_ref(), "{stream:02x?}");
    outcome
}

fn refused(stream: &[u8], bytes: usize, text: &str) {
    let why = run(stream, bytes).unwrap_err();
    assert!(why.contains(text), "{why}");
}

#[test]
fn the_worked_example_decodes() {
    assert_eq!(run(b"\x02abc\x20\x02\x00d", 7), Ok(b"abcabcd".to_vec()));
}

#[test]
fn the_first_instruction_is_of_literals_whatever_its_upper_bits() {
    for version in 0..8 {
        assert_eq!(run(&[version << 5 | 1, b'a', b'b'], 2), Ok(b"ab".to_vec()));
    }
}

#[test]
fn matches_of_every_length_at_every_distance_repeat_what_is_there() {
    let seed: Vec<u8> = (0..32).map(|at| at * 7 + 1).collect();
    for distance in 1..=32usize {
        for length in 3..80usize {
            let mut stream = vec![31];
            stream.extend(&seed);
            if length < 9 {
                stream.push(((length - 2) as u8) << 5);
            } else {
                stream.extend([7 << 5, (length - 9) as u8]);
            }
            stream.extend([(distance - 1) as u8, 0, b'.']);
            let mut expected = seed.clone();
            for _ in 0..length {
                expected.push(expected[expected.len() - distance]);
            }
            expected.push(b'.');
            assert_eq!(run(&stream, expected.len()), Ok(expected.clone()));
            // Room that is left over changes nothing.
            assert_eq!(run(&stream, expected.len() + 40), Ok(expected));
        }
    }
}

/// `count` literals, in instructions of 32.
fn literals(count: usize) -> Vec<u8> {
    let bytes: Vec<u8> = (0..count).map(|at| (at * at / 90 + at) as u8).collect();
    bytes.chunks(32).flat_map(|part| [&[part.len() as u8 - 1], part].concat()).collect()
}

#[test]
fn a_distance_of_8192_and_more_is_told_in_two_more_bytes() {
    let bytes = 75_000;
    let plain = run(&literals(bytes), bytes).unwrap();
    for distance in [8191usize, 8192, 8193, 70_000, 8192 + 65_535] {
        let mut stream = literals(bytes);
        if distance < 8192 {
            stream.extend([(1 << 5) | 31, 254]);
        } else {
            stream.extend([(1 << 5) | 31, 255]);
            stream.extend(((distance - 8192) as u16).to_be_bytes());
        }
        stream.extend([0, b'.']);
        let mut expected = plain.clone();
        expected.extend_from_within(bytes - distance..bytes - distance + 3);
        expected.push(b'.');
        assert_eq!(run(&stream, bytes + 4), Ok(expected), "{distance}");
    }
}

#[test]
fn a_match_before_the_first_byte_is_refused() {
    refused(b"\x02abc\x20\x03\x00d", 7, "before the first byte");
    refused(b"\x02abc\x3f\xff\x00\x00\x00d", 7, "before the first byte");
    assert!(run(b"\x02abc\x20\x02\x00d", 7).is_ok());
}

#[test]
fn a_length_that_overflows_a_word_is_refused() {
    // 2^31 / 255 bytes of length; as an i32 the sum is negative, and c-blosc is not asked.
    let mut stream = vec![0, b'a', 7 << 5];
    stream.resize(stream.len() + 8_421_505, 255);
    stream.extend([1, 0, 0, b'b']);
    let mut why = Why::new();
    let mut target = [POISON; 64];
    assert_eq!(decompress(&stream, &mut target, &mut why), Err(Status::Decode));
    assert!(why.as_str().contains("holds more"), "{why}");
    assert_eq!(target[1..], [POISON; 63]);
}

#[test]
fn more_than_the_target_holds_is_refused() {
    refused(b"\x02abc", 2, "holds more");
    refused(b"\x02abc\x20\x02\x00d", 5, "holds more");
    refused(b"\x02abc\x20\x02\x00d", 6, "holds more");
}

#[test]
fn a_stream_cut_anywhere_is_refused_or_shorter() {
    let stream = b"\x02abc\xe0\xff\x03\x02\x01de\x21\x00\x00f";
    let whole = run(stream, 300).unwrap();
    for cut in 0..stream.len() {
        if let Ok(bytes) = run(&stream[..cut], 300) {
            assert!(bytes.len() < whole.len() && whole.starts_with(&bytes), "cut at {cut}");
        }
    }
}

#[test]
fn a_match_that_nothing_follows_is_left_out_as_by_c_blosc() {
    // After a long length the byte of the distance may be the last one of the stream.
    assert_eq!(run(b"\x02abc\xe0\x00\x02", 300), Ok(b"abc".to_vec()));
    refused(b"\x02abc\x20\x02", 300, "cut");
}

#[test]
fn random_streams_have_the_outcome_of_c_blosc() {
    let mut state = 0x2545_F491_4F6C_DD1Du64;
    let mut next = |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    let mut taken = 0;
    for _ in 0..40_000 {
        let mut stream = Vec::new();
        for _ in 0..next(12) {
            match next(3) {
                0 => {
                    let count = next(8) as usize;
                    stream.push(count as u8);
                    stream.extend((0..=count).map(|at| at as u8));
                }
                1 => stream.extend([(1 + next(6) as u8) << 5, next(12) as u8]),
                _ => stream.extend([7 << 5, next(30) as u8, next(12) as u8]),
            }
            if next(12) == 0 {
                stream.push(next(256) as u8);
            }
        }
        taken += run(&stream, next(200) as usize).is_ok() as usize;
    }
    assert!(taken > 4_000, "{taken}");
}
