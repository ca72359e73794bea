//! gzip members (RFC 1952), one after the other.
//!
//! In: a whole chunk. Out: the bytes of its members, or a status with the reason. Invariant: each
//! member's CRC-32 and length are verified, and every byte of the source is accounted for: a member
//! is followed by another one or by zeroes, as in Python's gzip module, and by nothing else.
//!
//! Layout: 10 bytes of header, then as its flags say an extra field, a name, a comment and 16 bits
//! of the header's CRC-32; deflate data; the CRC-32 and the length modulo 2^32 of what it holds.

use super::chunk::expect_sum;
use super::inflate::{Inflater, METHOD_DEFLATE};
use crate::base::status::{Status, Why};
use crate::fail;
use crate::loops::crc32::crc32;

const MAGIC: [u8; 2] = [0x1F, 0x8B];

const FLAG_HEADER_CRC: u8 = 0x02;
const FLAG_EXTRA: u8 = 0x04;
const FLAG_NAME: u8 = 0x08;
const FLAG_COMMENT: u8 = 0x10;
const FLAGS_RESERVED: u8 = 0xE0;

/// Bytes of a header without optional parts.
const HEADER_BYTES: usize = 10;

/// Bytes after the deflate data of a member.
const TRAILER_BYTES: usize = 8;

/// Decodes all members of `source` one after the other into `target` and returns how many bytes
/// they gave. DECODE if one is broken, cut, followed by something else, or if they hold more than
/// the target, which then holds anything.
pub fn decode(
    inflater: &mut Inflater,
    source: &[u8],
    target: &mut [u8],
    why: &mut Why,
) -> Result<usize, Status> {
    let (mut rest, mut done) = (source, 0);
    // Ends: every turn takes the header of a member at least, or returns.
    loop {
        let header = header_bytes(rest, why)?;
        let free = &mut target[done..];
        let inflated = inflater.deflate(&rest[header..], free, why)?;
        let member = &free[..inflated.target_bytes];
        let behind = &rest[header + inflated.source_bytes..];
        let Some((trailer, behind)) = behind.split_first_chunk::<TRAILER_BYTES>() else {
            broken!(why, "gzip data is cut in the checksum of a member");
        };
        verify(trailer, member, why)?;
        done += member.len();
        let zeroes = behind.iter().take_while(|byte| **byte == 0).count();
        rest = &behind[zeroes..];
        if rest.is_empty() {
            return Ok(done);
        }
    }
}

fn verify(trailer: &[u8; TRAILER_BYTES], member: &[u8], why: &mut Why) -> Result<(), Status> {
    let [a, b, c, d, bytes @ ..] = *trailer;
    let (stored, bytes) = (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes(bytes));
    expect_sum(format_args!("gzip crc32"), stored, crc32(0, member), why)?;
    // The length is stored modulo 2^32.
    if bytes != member.len() as u32 {
        let len = member.len();
        broken!(why, "gzip member declares {bytes} bytes and holds {len}");
    }
    Ok(())
}

/// Bytes of the header at the front of `source`, optional parts included.
fn header_bytes(source: &[u8], why: &mut Why) -> Result<usize, Status> {
    if source.len() >= MAGIC.len() && !source.starts_with(&MAGIC) {
        let (first, second) = (source[0], source[1]);
        broken!(why, "{first:#04x} {second:#04x} where a gzip member begins, not 0x1f 0x8b");
    }
    let Some(&[_, _, method, flags, ..]) = source.first_chunk::<HEADER_BYTES>() else {
        return Err(cut(source, why));
    };
    if method != METHOD_DEFLATE {
        broken!(why, "gzip compression method is {method}, not 8 (deflate)");
    }
    if flags & FLAGS_RESERVED != 0 {
        broken!(why, "gzip flags {flags:#04x} have reserved bits set");
    }
    let Some(mut header) = optional_limit(source, flags) else {
        return Err(cut(source, why));
    };
    if flags & FLAG_HEADER_CRC != 0 {
        let (covered, stored) = source.split_at(header);
        let Some(stored) = stored.first_chunk::<2>() else {
            return Err(cut(source, why));
        };
        let (stored, computed) = (u16::from_le_bytes(*stored), crc32(0, covered) as u16);
        if stored != computed {
            let computed = format_args!("computed {computed:#06x}");
            broken!(why, "gzip header crc16 mismatch: stored {stored:#06x}, {computed}");
        }
        header += 2;
    }
    Ok(header)
}

/// Bytes of a header up to its checksum, with the parts that `flags` says; None if it is cut.
fn optional_limit(source: &[u8], flags: u8) -> Option<usize> {
    let mut limit = HEADER_BYTES;
    if flags & FLAG_EXTRA != 0 {
        let bytes = source[limit..].first_chunk::<2>()?;
        limit += 2 + usize::from(u16::from_le_bytes(*bytes));
    }
    for flag in [FLAG_NAME, FLAG_COMMENT] {
        if flags & flag != 0 {
            limit += source.get(limit..)?.iter().position(|byte| *byte == 0)? + 1;
        }
    }
    (limit <= source.len()).then_some(limit)
}

#[cold]
fn cut(source: &[u8], why: &mut Why) -> Status {
    fail!(why, Decode, "gzip data ends in the header of a member: {} bytes of it", source.len())
}
