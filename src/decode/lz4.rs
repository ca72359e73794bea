//! LZ4 blocks, bare and with numcodecs' size before them.
//!
//! In: a block (lz4_Block_format.md), or a little-endian u32 and a block. Out: its bytes, or a
//! status with the reason. Invariant: each length and offset is checked before it is used; an
//! offset of 0 or past the first byte of the target is refused.
//!
//! A block is sequences: a token, literals, two bytes of an offset, a match. The token's upper four
//! bits are the number of literals, the lower four that of the match less 4; for 15, bytes follow
//! that are added, up to the first that is not 255. The last sequence ends behind its literals.

use super::repeat::{literals, repeat};
use crate::fail;
use crate::status::{Status, Why};

/// Bytes of the size that numcodecs writes before a block.
const SIZE_BYTES: usize = 4;

/// Length code that says more bytes follow.
const LENGTH_MORE: usize = 15;

/// The shortest match.
const MATCH_MIN: usize = 4;

/// Decodes the block `source` and returns how many bytes of `target` it filled. DECODE where it is
/// broken, cut, or holds more than the target, which then holds anything.
pub fn block(source: &[u8], target: &mut [u8], why: &mut Why) -> Result<usize, Status> {
    run(source, target).map_err(|broken| {
        let (here, wanted) = (source.len(), target.len());
        fail!(why, Decode, "lz4 block of {here} bytes does not decode to {wanted} bytes: {broken}")
    })
}

const TOO_LONG: &str = "it holds more";
const CUT: &str = "it is cut";

fn run(source: &[u8], target: &mut [u8]) -> Result<usize, &'static str> {
    let (mut rest, mut done) = (source, 0);
    // Ends: every turn takes a byte of the source, or returns.
    loop {
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

/// Decodes a chunk of numcodecs' lz4 into `target`, which is as long as the chunk must be.
pub fn decode(source: &[u8], target: &mut [u8], why: &mut Why) -> Result<usize, Status> {
    let Some((size, source)) = source.split_first_chunk::<SIZE_BYTES>() else {
        return Err(fail!(why, Decode, "lz4 chunk of {} bytes has no size", source.len()));
    };
    let size = u32::from_le_bytes(*size);
    if u64::from(size) != target.len() as u64 {
        let wanted = target.len();
        return Err(fail!(why, Decode, "lz4 chunk says {size} bytes where {wanted} are expected"));
    }
    block(source, target, why)
}
