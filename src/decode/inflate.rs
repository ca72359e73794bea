//! DEFLATE data (RFC 1951) and its zlib wrapper (RFC 1950) through miniz_oxide, in a state that
//! lives in our arena.
//!
//! In: deflate data at the front of a slice, or exactly one zlib stream. Out: its bytes in the
//! target, or a status with the reason. Invariant: the target is the window, so nothing refers to
//! bytes before it, and nothing is written behind it. A checksum that is there is verified.

use crate::fail;
use crate::status::{Status, Why};
use miniz_oxide::inflate::TINFLStatus;
use miniz_oxide::inflate::core::inflate_flags::{
    TINFL_FLAG_COMPUTE_ADLER32, TINFL_FLAG_PARSE_ZLIB_HEADER,
    TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF,
};
use miniz_oxide::inflate::core::{DecompressorOxide, decompress};

/// Bytes of a zlib header and its checksum.
const ZLIB_WRAPPER_BYTES: usize = 6;

/// Number of the only compression method of zlib and gzip.
pub(super) const METHOD_DEFLATE: u8 = 8;

/// Largest window of zlib, as its header says it: 32 KiB.
const WINDOW_CODE_MAX: u8 = 7;

const FLAG_DICTIONARY: u8 = 0x20;

/// The tables of one stream, about 11 KB. One thread uses them at a time.
#[derive(Default)]
pub struct Inflater {
    state: DecompressorOxide,
}

/// How far one stream went.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Inflated {
    /// Bytes of the source that it took.
    pub source_bytes: usize,
    /// Bytes of the target that it filled.
    pub target_bytes: usize,
}

impl Inflater {
    /// Without a stream. It goes into the arena: threads that decode have small stacks.
    pub fn new() -> Inflater {
        Inflater { state: DecompressorOxide::new() }
    }

    /// Decodes the deflate data at the front of `source` into the front of `target`. DECODE where
    /// it is broken, cut, or holds more than the target, which then holds anything.
    pub fn deflate(
        &mut self,
        source: &[u8],
        target: &mut [u8],
        why: &mut Why,
    ) -> Result<Inflated, Status> {
        self.run(source, target, 0, "deflate", why)
    }

    /// Decodes the zlib stream `source` and returns how many bytes of `target` it filled. DECODE as
    /// for [`Inflater::deflate`], and where the checksum is wrong or bytes follow it; UNSUPPORTED
    /// where a dictionary is needed.
    pub fn zlib(
        &mut self,
        source: &[u8],
        target: &mut [u8],
        why: &mut Why,
    ) -> Result<usize, Status> {
        check_zlib_header(source, why)?;
        let flags = TINFL_FLAG_PARSE_ZLIB_HEADER | TINFL_FLAG_COMPUTE_ADLER32;
        let inflated = self.run(source, target, flags, "zlib", why)?;
        let behind = source.len() - inflated.source_bytes;
        if behind > 0 {
            return Err(fail!(why, Decode, "{behind} bytes behind the end of the zlib data"));
        }
        Ok(inflated.target_bytes)
    }

    fn run(
        &mut self,
        source: &[u8],
        target: &mut [u8],
        flags: u32,
        format: &str,
        why: &mut Why,
    ) -> Result<Inflated, Status> {
        self.state.init();
        let flags = flags | TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF;
        let (status, source_bytes, target_bytes) =
            decompress(&mut self.state, source, target, 0, flags);
        assert!(source_bytes <= source.len() && target_bytes <= target.len());
        let (here, wanted) = (source.len(), target.len());
        Err(match status {
            TINFLStatus::Done => return Ok(Inflated { source_bytes, target_bytes }),
            TINFLStatus::HasMoreOutput => {
                fail!(why, Decode, "{format} data holds more than the {wanted} bytes expected")
            }
            TINFLStatus::FailedCannotMakeProgress => fail!(
                why,
                Decode,
                "{format} data of {here} bytes is cut: {target_bytes} are there where it ends"
            ),
            TINFLStatus::Adler32Mismatch => {
                let stored = self.state.adler32_header().unwrap_or(0);
                let computed = self.state.adler32().unwrap_or(0);
                fail!(
                    why,
                    Decode,
                    "zlib adler32 mismatch: stored {stored:#010x}, computed {computed:#010x}"
                )
            }
            _ => fail!(
                why,
                Decode,
                "{format} data of {here} bytes is broken near byte {source_bytes}"
            ),
        })
    }
}

fn check_zlib_header(source: &[u8], why: &mut Why) -> Result<(), Status> {
    let [method, flags, ..] = *source else {
        return Err(fail!(why, Decode, "zlib data of {} bytes is no header", source.len()));
    };
    let number = method & 0x0F;
    if number != METHOD_DEFLATE {
        return Err(fail!(why, Decode, "zlib compression method is {number}, not 8 (deflate)"));
    }
    if method >> 4 > WINDOW_CODE_MAX || !u16::from_be_bytes([method, flags]).is_multiple_of(31) {
        return Err(fail!(why, Decode, "{method:#04x} {flags:#04x} is no zlib header"));
    }
    if flags & FLAG_DICTIONARY != 0 {
        return Err(fail!(why, Unsupported, "zlib data with a preset dictionary"));
    }
    if source.len() < ZLIB_WRAPPER_BYTES {
        return Err(fail!(why, Decode, "zlib data of {} bytes is cut", source.len()));
    }
    Ok(())
}
