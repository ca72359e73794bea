//! LZ4 blocks (lz4_Block_format.md).
//!
//! In: a block. Out: its bytes, or what is wrong with it. Invariant: each length and offset is
//! checked before it is used; an offset of 0 or past the first byte of the target is refused.
//!
//! A block is sequences: a token, literals, two bytes of an offset, a match. The token's upper four
//! bits are the number of literals, the lower four that of the match less 4; for 15, bytes follow
//! that are added, up to the first that is not 255. The last sequence ends behind its literals.

use crate::loops::repeat::{literals, repeat};
use crate::loops::simd::lz4_sequences;

/// Length code that says more bytes follow.
const LENGTH_MORE: usize = 15;

/// The shortest match.
const MATCH_MIN: usize = 4;

const TOO_LONG: &str = "it holds more";
const CUT: &str = "it is cut";

/// Decodes the block `source` and returns how many bytes of `target` it filled, or what is wrong:
/// it is broken, cut, or holds more than the target, which then holds anything.
#[inline(never)]
pub fn block(source: &[u8], target: &mut [u8]) -> Result<usize, &'static str> {
    let (mut rest, mut done) = (source, 0);
    // Ends: every turn takes a byte of the source, or returns.
    loop {
        let (taken, filled) = lz4_sequences(rest, target, done);
        (rest, done) = (&rest[taken..], filled);
        let (token, behind) = rest.split_first().ok_or(CUT)?;
        rest = behind;
        let count = length(usize::from(token >> 4), &mut rest)?;
        if count > target.len() - done {
            return Err(TOO_LONG);
        }
        if count > rest.len() {
            return Err(CUT);
        }
        literals(target, done, rest, count);
        rest = &rest[count..];
        done += count;
        if rest.is_empty() {
            return Ok(done);
        }
        let (offset, behind) = rest.split_first_chunk::<2>().ok_or(CUT)?;
        rest = behind;
        let offset = usize::from(u16::from_le_bytes(*offset));
        let count = MATCH_MIN + length(usize::from(token & 15), &mut rest)?;
        if offset == 0 || offset > done {
            return Err("a match before the first byte, or at its own place");
        }
        if count > target.len() - done {
            return Err(TOO_LONG);
        }
        repeat(target, done, offset, count);
        done += count;
    }
}

/// A length of this code and the bytes that follow it: at most 255 times their number and 15.
fn length(code: usize, rest: &mut &[u8]) -> Result<usize, &'static str> {
    let mut length = code;
    if code == LENGTH_MORE {
        // Eight at a time: what does not become smaller has one for each 255 literals.
        while let Some((bytes, behind)) = rest.split_first_chunk::<8>()
            && *bytes == [255; 8]
        {
            length += 8 * 255;
            *rest = behind;
        }
        // Ends: every turn takes a byte of the source.
        loop {
            let (byte, behind) = rest.split_first().ok_or(CUT)?;
            *rest = behind;
            length += usize::from(*byte);
            if *byte != 255 {
                break;
            }
        }
    }
    Ok(length)
}
