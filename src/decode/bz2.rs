//! bzip2 streams, one after the other.
//!
//! In: a whole chunk, and memory for a block. Out: the bytes of its streams, or a status with the
//! reason. Invariant: the CRC of each block and of each stream is verified, and every byte of the
//! source is accounted for: a stream is followed by another one, and by nothing else.
//!
//! Layout: "BZh" and the level as a digit; blocks, each after 48 bits of a magic number; another
//! magic number, the CRC of the stream, and zeros to the end of a byte. Blocks begin at any bit.
//!
//! Sources: the manual of bzip2 1.0.8, and libbz2, which is what Python's bz2 and numcodecs call.

use super::chunk::expect_sum;
use crate::base::status::{Status, Why};
use crate::fail;
use crate::loops::bz2::{Bits, Block, Broken, LEVEL_BYTES, LEVEL_MAX, block, places};
use crate::loops::crc32::crc32;

pub use crate::loops::bz2::workspace_bytes;

const MAGIC: [u8; 3] = *b"BZh";

/// Bytes of the header of a stream.
const HEADER_BYTES: usize = 4;

/// The halves of the 48 bits before a block, and of those before the end of a stream.
const BLOCK_MAGIC: [u32; 2] = [0x314159, 0x265359];
const END_MAGIC: [u32; 2] = [0x177245, 0x385090];

/// Bytes whose bits are turned at a time.
const TURNED_BYTES: usize = 256;

/// Decodes all streams of `source` one after the other into `target` and returns how many bytes
/// they gave. `level` is what metadata says of the level, and `workspace` has [`workspace_bytes`]
/// of it and of the target. DECODE if a stream is broken, cut, followed by something else, if it
/// has a larger block than that level, or if all hold more than the target, which then holds
/// anything.
pub fn decode(
    level: u8,
    workspace: &mut [u8],
    source: &[u8],
    target: &mut [u8],
    why: &mut Why,
) -> Result<usize, Status> {
    assert!(workspace.len() as u64 >= workspace_bytes(level, target.len() as u64));
    let (mut rest, mut done) = (source, 0);
    // Ends: every turn takes the header of a stream at least, or returns.
    loop {
        let of_header = declared_level(rest, why)?;
        let stream = Stream { level, declared: of_header, source };
        let (taken, filled) = stream.decode(workspace, rest, (target, done), why)?;
        (rest, done) = (&rest[taken..], filled);
        if rest.is_empty() {
            return Ok(done);
        }
    }
}

/// The level in the header at the front of `source`.
fn declared_level(source: &[u8], why: &mut Why) -> Result<u8, Status> {
    let Some(&[a, b, c, digit]) = source.first_chunk::<HEADER_BYTES>() else {
        let here = source.len();
        broken!(why, "bz2 data ends in the header of a stream: {here} bytes of it");
    };
    if [a, b, c] != MAGIC {
        broken!(why, "{a:#04x} {b:#04x} {c:#04x} where a bz2 stream begins, not \"BZh\"");
    }
    match digit.wrapping_sub(b'0') {
        level @ 1..=LEVEL_MAX => Ok(level),
        _ => broken!(why, "bz2 level is the byte {digit:#04x}, not a digit from 1 to 9"),
    }
}

/// A stream of a chunk, for its errors.
struct Stream<'a> {
    /// The level of the metadata, and that of the stream.
    level: u8,
    declared: u8,
    /// All streams of the chunk.
    source: &'a [u8],
}

impl Stream<'_> {
    /// Decodes the stream at the front of `source` to the target from byte `done` on. Bytes that it
    /// took of the source, and those of the target that are there then.
    fn decode(
        &self,
        workspace: &mut [u8],
        source: &[u8],
        (target, mut done): (&mut [u8], usize),
        why: &mut Why,
    ) -> Result<(usize, usize), Status> {
        let (body, wanted) = (&source[HEADER_BYTES..], target.len());
        let (mut bits, mut sum) = (Bits::new(body), 0u32);
        let room = places(self.level, wanted as u64).min(self.declared_bytes());
        // Ends: every turn takes the bits of a magic number, or returns.
        loop {
            let refused = |broken, bits: &Bits<'_>, done: usize, why: &mut Why| {
                let at = self.source.len() - body.len() + bits.bytes();
                self.refusal(broken, (at, done, wanted), why)
            };
            let magic = [bits.take(24), bits.take(24)];
            let [Ok(first), Ok(second)] = magic else {
                return Err(refused(Broken::Cut, &bits, done, why));
            };
            if [first, second] == END_MAGIC {
                let stored = bits.take(32).map_err(|broken| refused(broken, &bits, done, why))?;
                expect_sum(format_args!("bz2 stream crc"), stored, sum, why)?;
                return Ok((HEADER_BYTES + bits.bytes(), done));
            }
            if [first, second] != BLOCK_MAGIC {
                return Err(refused(Broken::Wrong, &bits, done, why));
            }
            let found = block(&mut bits, workspace, room as usize, &mut target[done..]);
            let Block { crc, target_bytes } =
                found.map_err(|broken| refused(broken, &bits, done, why))?;
            let computed = crc_of(&target[done..done + target_bytes]);
            expect_sum(format_args!("bz2 block crc"), crc, computed, why)?;
            sum = sum.rotate_left(1) ^ crc;
            done += target_bytes;
        }
    }

    /// Bytes of a block of the level that the stream has.
    fn declared_bytes(&self) -> u64 {
        u64::from(self.declared) * LEVEL_BYTES as u64
    }

    /// The text of what is wrong near byte `at` of the chunk, of whose `wanted` bytes `done` are
    /// there.
    #[cold]
    fn refusal(
        &self,
        broken: Broken,
        (at, done, wanted): (usize, usize, usize),
        why: &mut Why,
    ) -> Status {
        let (level, declared, here) = (self.level, self.declared, self.source.len());
        let of_level = u64::from(level) * LEVEL_BYTES as u64;
        match broken {
            Broken::Cut => fail!(
                why,
                Decode,
                "bz2 data of {here} bytes is cut: {done} are there where it ends"
            ),
            Broken::Room if places(level, wanted as u64) >= self.declared_bytes() => {
                fail!(why, Decode, "bz2 data has a block that is too long for its level {declared}")
            }
            Broken::Room if places(level, wanted as u64) == of_level => fail!(
                why,
                Decode,
                "bz2 data of level {declared} has a block of more than {of_level} bytes, but the \
                 metadata say level {level}"
            ),
            Broken::Room | Broken::Full => {
                fail!(why, Decode, "bz2 data holds more than the {wanted} bytes expected")
            }
            Broken::Wrong => {
                fail!(why, Decode, "bz2 data of {here} bytes is broken near byte {at}")
            }
        }
    }
}

/// The CRC of bzip2: the polynomial of [`crc32`], with the highest bit of each byte first.
fn crc_of(bytes: &[u8]) -> u32 {
    let mut turned = [0; TURNED_BYTES];
    let sum = bytes.chunks(TURNED_BYTES).fold(0, |sum, bytes| {
        let turned = &mut turned[..bytes.len()];
        turned.iter_mut().zip(bytes).for_each(|(to, from)| *to = from.reverse_bits());
        crc32(sum, turned)
    });
    sum.reverse_bits()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_check_value_of_the_catalogue_comes_out() {
        assert_eq!(crc_of(b"123456789"), 0xFC89_1918);
    }
}
