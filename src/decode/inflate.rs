//! DEFLATE data (RFC 1951) and its zlib wrapper (RFC 1950), by tables that live in our arena. The
//! loops are `loops`'.
//!
//! In: deflate data at the front of a slice, or exactly one zlib stream. Out: its bytes in the
//! target, or a status with the reason. Invariant: the target is the window, so nothing refers to
//! bytes before it, and nothing is written after it. A checksum is verified if the stream has one.

use super::chunk::expect_sum;
use crate::base::status::{Status, Why};
use crate::fail;
use crate::loops::inflate::{Broken, Progress, Tables, inflate};
use crate::loops::sums::adler32;

/// Bytes of a zlib header, and of the checksum at the end.
const HEADER_BYTES: usize = 2;
const CHECKSUM_BYTES: usize = 4;

/// Number of the only compression method of zlib and gzip.
pub(super) const METHOD_DEFLATE: u8 = 8;

/// Largest window of zlib, as its header says it: 32 KiB.
const WINDOW_CODE_MAX: u8 = 7;

const FLAG_DICTIONARY: u8 = 0x20;

/// The tables of one stream, about 11 KB. One thread uses them at a time.
pub struct Inflater {
    tables: Tables,
}

impl Inflater {
    /// Without a stream. It goes into the arena: threads that decode have small stacks.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Inflater {
        Inflater { tables: Tables::new() }
    }

    /// Decodes the deflate data at the front of `source` into the front of `target`. DECODE if it
    /// is broken, cut, or holds more than the target, which then holds anything.
    pub fn deflate(
        &mut self,
        source: &[u8],
        target: &mut [u8],
        why: &mut Why,
    ) -> Result<Progress, Status> {
        self.run(source, target, "deflate", why)
    }

    /// Decodes the zlib stream `source` and returns how many bytes of `target` it filled. DECODE as
    /// for [`Inflater::deflate`], and if the checksum is wrong or bytes follow it; UNSUPPORTED if a
    /// dictionary is needed.
    pub fn zlib(
        &mut self,
        source: &[u8],
        target: &mut [u8],
        why: &mut Why,
    ) -> Result<usize, Status> {
        check_zlib_header(source, why)?;
        let data = &source[HEADER_BYTES..];
        let Progress { source_bytes, target_bytes } = self.run(data, target, "zlib", why)?;
        let Some((stored, behind)) = data[source_bytes..].split_first_chunk::<CHECKSUM_BYTES>()
        else {
            let here = source.len();
            broken!(why, "zlib data of {here} bytes is cut in its checksum");
        };
        let computed = adler32(&target[..target_bytes]);
        expect_sum(format_args!("zlib adler32"), u32::from_be_bytes(*stored), computed, why)?;
        if !behind.is_empty() {
            let behind = behind.len();
            broken!(why, "{behind} bytes after the end of the zlib data");
        }
        Ok(target_bytes)
    }

    fn run(
        &mut self,
        source: &[u8],
        target: &mut [u8],
        format: &str,
        why: &mut Why,
    ) -> Result<Progress, Status> {
        let (progress, outcome) = inflate(&mut self.tables, source, target);
        let Progress { source_bytes, target_bytes } = progress;
        assert!(source_bytes <= source.len() && target_bytes <= target.len());
        let (here, wanted) = (source.len(), target.len());
        Err(match outcome {
            Ok(()) => return Ok(progress),
            Err(Broken::Full) => {
                fail!(why, Decode, "{format} data holds more than the {wanted} bytes expected")
            }
            Err(Broken::Cut) => fail!(
                why,
                Decode,
                "{format} data of {here} bytes is cut: {target_bytes} are there where it ends"
            ),
            Err(Broken::Wrong) => fail!(
                why,
                Decode,
                "{format} data of {here} bytes is broken near byte {source_bytes}"
            ),
        })
    }
}

fn check_zlib_header(source: &[u8], why: &mut Why) -> Result<(), Status> {
    let [method, flags, ..] = *source else {
        broken!(why, "zlib data of {} bytes is too short for a header", source.len());
    };
    let number = method & 0x0F;
    if number != METHOD_DEFLATE {
        broken!(why, "zlib compression method is {number}, not 8 (deflate)");
    }
    if method >> 4 > WINDOW_CODE_MAX || !u16::from_be_bytes([method, flags]).is_multiple_of(31) {
        broken!(why, "{method:#04x} {flags:#04x} is not a zlib header");
    }
    if flags & FLAG_DICTIONARY != 0 {
        return Err(fail!(why, Unsupported, "zlib data with a preset dictionary"));
    }
    if source.len() < HEADER_BYTES + CHECKSUM_BYTES {
        broken!(why, "zlib data of {} bytes is cut", source.len());
    }
    Ok(())
}
