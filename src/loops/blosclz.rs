//! blosclz, the codec that blosc brings along (stream version 1), a descendant of FastLZ.
//!
//! In: one stream. Out: its bytes. Invariant: each length and distance is checked before it is
//! used; what c-blosc's decoder takes gives the same bytes here, and what it refuses is refused.
//!
//! A stream is instructions of one byte and what belongs to them. Below 32: that many literals and
//! one. Else bits 5 to 7 are a length L and bits 0 to 4 the high bits H of a distance: for L = 7,
//! bytes follow that are added to it, up to the first that is not 255; then a byte D. The match
//! is L + 2 bytes long and starts 256 H + D + 1 before the end of what is there. H = 31 and D = 255
//! mean that two more bytes follow, the distance less 8192, most significant first. The first
//! instruction is one of literals: its upper bits hold a version. Worked example: 02 "abc" 20 02 is
//! "abc", and a match of length 1 + 2 at distance 3: "abcabc"; but a stream never ends with a
//! match, so a literal follows: 00 "d".

use crate::loops::repeat::repeat;
use crate::loops::simd::blosclz_instructions;

/// Instructions below are literals.
const MATCH_FIRST: u8 = 32;

/// Length code that says more bytes follow.
const LENGTH_MORE: usize = 7;

/// What a match is longer than its code, 0 to 7.
const LENGTH_BASE: usize = 2;

/// Distance code that says that the distance follows.
const DISTANCE_MORE: usize = (31 << 8) + 255;

/// The least distance that takes two more bytes.
const DISTANCE_FAR: usize = 8192;

/// Decodes `source` and returns how many bytes of `target` it filled, or what is wrong: the stream
/// is broken, cut, or holds more than the target, which then holds anything.
#[inline(never)]
pub fn decompress(source: &[u8], target: &mut [u8]) -> Result<usize, &'static str> {
    let Some((first, mut rest)) = source.split_first() else { return Ok(0) };
    let mut instruction = first & (MATCH_FIRST - 1);
    let mut done = 0;
    // Ends: every turn takes a byte of the source, or returns.
    loop {
        if instruction < MATCH_FIRST {
            let count = usize::from(instruction) + 1;
            let free = target.get_mut(done..done + count).ok_or(TOO_LONG)?;
            let (literals, behind) = rest.split_at_checked(count).ok_or(CUT)?;
            free.copy_from_slice(literals);
            rest = behind;
            done += count;
        } else {
            let found = read_match(instruction, rest)?;
            if found.length > target.len() - done {
                return Err(TOO_LONG);
            }
            if found.distance > done {
                return Err("a match before the first byte");
            }
            // c-blosc leaves a match that nothing follows uncopied: the stream is then too short.
            if found.behind.is_empty() {
                return Ok(done);
            }
            rest = found.behind;
            repeat(target, done, found.distance, found.length);
            done += found.length;
        }
        let (taken, filled) = blosclz_instructions(rest, target, done);
        (rest, done) = (&rest[taken..], filled);
        let Some((next, behind)) = rest.split_first() else { return Ok(done) };
        instruction = *next;
        rest = behind;
    }
}

const TOO_LONG: &str = "it holds more";
const CUT: &str = "it is cut";

struct Match<'a> {
    length: usize,
    distance: usize,
    behind: &'a [u8],
}

/// The match that `instruction` and the bytes behind it say. Behind each byte of it, except for a
/// far distance, c-blosc wants another one.
fn read_match(instruction: u8, source: &[u8]) -> Result<Match<'_>, &'static str> {
    let mut rest = source;
    let mut length = usize::from(instruction >> 5);
    if length == LENGTH_MORE {
        // Ends: every turn takes a byte of the source. The sum is at most 255 times their number.
        loop {
            let byte = next_of_two(&mut rest)?;
            length += usize::from(byte);
            if byte != 255 {
                break;
            }
        }
    }
    let high = usize::from(instruction & 31) << 8;
    // After a long length c-blosc does not look whether the last byte of its stream is read here,
    // and reads no further than that.
    let (low, behind) = rest.split_first().ok_or(CUT)?;
    if usize::from(instruction >> 5) != LENGTH_MORE && behind.is_empty() {
        return Err(CUT);
    }
    rest = behind;
    let mut distance = high + usize::from(*low) + 1;
    if distance == DISTANCE_MORE + 1 {
        let [high, low, ..] = *rest else { return Err(CUT) };
        rest = &rest[2..];
        distance = usize::from(u16::from_be_bytes([high, low])) + DISTANCE_FAR;
    }
    Ok(Match { length: length + LENGTH_BASE, distance, behind: rest })
}

/// The next byte, if it is not the last.
fn next_of_two(rest: &mut &[u8]) -> Result<u8, &'static str> {
    let [byte, behind @ ..] = *rest else { return Err(CUT) };
    if behind.is_empty() {
        return Err(CUT);
    }
    *rest = behind;
    Ok(*byte)
}
