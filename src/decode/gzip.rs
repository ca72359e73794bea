//! gzip members (RFC 1952), one behind the other.
//!
//! In: a whole chunk. Out: the bytes of its members, or a status with the reason. Invariant: each
//! member's CRC-32 and length are verified, and every byte of the source is accounted for: behind a
//! member comes another one or zeroes, as Python's gzip module has it, and nothing else.
//!
//! Layout: 10 bytes of header, then as its flags say an extra field, a name, a comment and 16 bits
//! of the header's CRC-32; deflate data; the CRC-32 and the length modulo 2^32 of what it holds.

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

/// Bytes behind the deflate data of a member.
const TRAILER_BYTES: usize = 8;

/// Decodes all members of `source` one behind the other into `target` and returns how many bytes
/// they gave. DECODE where one is broken, cut, followed by something else, or where they hold more
/// than the target, which then holds anything.
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
            return Err(fail!(why, Decode, "gzip data is cut in the checksum of a member"));
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
    let computed = crc32(0, member);
    if stored != computed {
        return Err(fail!(
            why,
            Decode,
            "gzip crc32 mismatch: stored {stored:#010x}, computed {computed:#010x}"
        ));
    }
    // The length is stored modulo 2^32.
    if bytes != member.len() as u32 {
        let len = member.len();
        return Err(fail!(why, Decode, "gzip member says {bytes} bytes and holds {len}"));
    }
    Ok(())
}

/// Bytes of the header at the front of `source`, optional parts included.
fn header_bytes(source: &[u8], why: &mut Why) -> Result<usize, Status> {
    if source.len() >= MAGIC.len() && !source.starts_with(&MAGIC) {
        let (first, second) = (source[0], source[1]);
        return Err(fail!(
            why,
            Decode,
            "{first:#04x} {second:#04x} where a gzip member begins, not 0x1f 0x8b"
        ));
    }
    let Some(&[_, _, method, flags, ..]) = source.first_chunk::<HEADER_BYTES>() else {
        return Err(cut(source, why));
    };
    if method != METHOD_DEFLATE {
        return Err(fail!(why, Decode, "gzip compression method is {method}, not 8 (deflate)"));
    }
    if flags & FLAGS_RESERVED != 0 {
        return Err(fail!(why, Decode, "gzip flags {flags:#04x} have reserved bits set"));
    }
    let mut header = HEADER_BYTES;
    if flags & FLAG_EXTRA != 0 {
        let Some(&[low, high]) = source[header..].first_chunk::<2>() else {
            return Err(cut(source, why));
        };
        header += 2 + usize::from(u16::from_le_bytes([low, high]));
    }
    for flag in [FLAG_NAME, FLAG_COMMENT] {
        if flags & flag != 0 {
            let text = source.get(header..).unwrap_or(&[]);
            let Some(length) = text.iter().position(|byte| *byte == 0) else {
                return Err(cut(source, why));
            };
            header += length + 1;
        }
    }
    if flags & FLAG_HEADER_CRC != 0 {
        let Some((covered, stored)) = source.split_at_checked(header) else {
            return Err(cut(source, why));
        };
        let Some(stored) = stored.first_chunk::<2>() else {
            return Err(cut(source, why));
        };
        let (stored, computed) = (u16::from_le_bytes(*stored), crc32(0, covered) as u16);
        if stored != computed {
            return Err(fail!(
                why,
                Decode,
                "gzip header crc16 mismatch: stored {stored:#06x}, computed {computed:#06x}"
            ));
        }
        header += 2;
    }
    if header > source.len() { Err(cut(source, why)) } else { Ok(header) }
}

#[cold]
fn cut(source: &[u8], why: &mut Why) -> Status {
    fail!(why, Decode, "gzip data ends in the header of a member: {} bytes of it", source.len())
}
