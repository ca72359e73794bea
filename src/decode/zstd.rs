//! zstd frames (RFC 8878) through the bundled zstd, in a context that lives in our arena.
//!
//! In: a whole chunk of one or more frames. Out: its bytes, or the first of them as far as they are
//! needed, or a status with zstd's own reason.
//! Invariant: nothing is allocated. One-pass decoding writes straight into the target and uses it
//! as the window, so a frame that declares a window of gigabytes needs no memory for it.

use super::chunk::{Compressed, Filtered, expect_bytes};
use super::stream_place::{Sink, Unfit, Walkable, Walked, encoded_frame};
use crate::base::math::index;
use crate::base::status::{Status, Why};
use crate::fail;
use crate::records::ChunkBytes;
use core::ffi::CStr;
use core::mem::MaybeUninit;
use core::ptr::NonNull;
use zstd_safe::zstd_sys;

/// Largest decoded size of a block (RFC 8878, 3.1.1.2.4).
const BLOCK_BYTES_MAX: usize = 128 << 10;

/// Alignment of the workspace.
const WORKSPACE_ALIGN: usize = 8;

/// A zstd decoding context. One thread uses it at a time.
pub struct Context {
    context: NonNull<zstd_sys::ZSTD_DCtx>,
}

// SAFETY: the context is plain memory that only its owner touches; zstd ties it to no thread.
unsafe impl Send for Context {}

impl Context {
    /// Bytes of workspace that [`Context::new`] takes.
    pub fn workspace_bytes() -> u64 {
        // SAFETY: a pure function of the zstd build.
        unsafe { zstd_sys::ZSTD_estimateDCtxSize() as u64 }
    }

    /// A context in `workspace`: at least [`Context::workspace_bytes`] bytes, aligned to 8.
    /// INTERNAL otherwise, because the layout of the arena is ours.
    pub fn new(workspace: &'static mut [u8]) -> Result<Context, Status> {
        if !(workspace.as_ptr() as usize).is_multiple_of(WORKSPACE_ALIGN)
            || workspace.len() < index(Context::workspace_bytes())
        {
            return Err(Status::Internal);
        }
        // SAFETY: the workspace is ours alone for good, aligned, and as large as zstd asks for.
        let context = unsafe {
            zstd_sys::ZSTD_initStaticDCtx(workspace.as_mut_ptr().cast(), workspace.len())
        };
        NonNull::new(context).map(|context| Context { context }).ok_or(Status::Internal)
    }

    /// Decodes all frames of `source`, skippable ones skipped, one after the other into `target`
    /// and returns how many bytes they gave, at most `target.len()`. DECODE if the frames are
    /// broken, cut, hold more than the target, or need a dictionary; the target then holds
    /// anything.
    pub fn decompress(
        &mut self,
        source: &[u8],
        target: &mut [u8],
        why: &mut Why,
    ) -> Result<usize, Status> {
        // SAFETY: both ranges are live slices with their own lengths, and the context is ours.
        let result = unsafe {
            zstd_sys::ZSTD_decompressDCtx(
                self.context.as_ptr(),
                target.as_mut_ptr().cast(),
                target.len(),
                source.as_ptr().cast(),
                source.len(),
            )
        };
        let count = done(result, target.len());
        count.ok_or_else(|| explain(source, target.len(), result, why))
    }

    /// Decodes the first `limit` bytes at least of the chunk `source` into `target`, which is as
    /// long as the whole chunk, and returns how many bytes it holds then.
    ///
    /// A single frame that declares exactly the target's size and has no checksum stops after the
    /// block (128 KiB at most) that holds the last needed byte; what follows is not looked at.
    /// Every other chunk is decoded whole, and must give exactly the target; so is one that the
    /// decoder of single blocks refuses, because libzstd's takes more as a whole (raw and repeated
    /// blocks over 128 KiB), and what is refused must not depend on the part that is asked for.
    pub fn decompress_prefix(
        &mut self,
        source: &[u8],
        target: &mut [u8],
        limit: usize,
        why: &mut Why,
    ) -> Result<usize, Status> {
        assert!(limit <= target.len());
        let can_stop = target.len() - limit >= BLOCK_BYTES_MAX && is_plain(source, target.len());
        if can_stop && let Some(count) = self.blocks(source, target, limit) {
            return Ok(count);
        }
        let count = self.decompress(source, target, why)?;
        expect_bytes(format_args!("zstd data"), count, target.len(), why)?;
        Ok(count)
    }

    /// Decodes the first bytes of a chunk at least, as many as are wanted.
    pub(super) fn decode<'a>(
        &mut self,
        chunk: Compressed<'a>,
        why: &mut Why,
    ) -> Result<Filtered<'a>, Status> {
        let (target, limit) = (chunk.scratch.target, index(chunk.want.span.limit));
        let count = self.decompress_prefix(chunk.bytes, target, limit, why)?;
        Ok(Filtered::plain(ChunkBytes { bytes: &target[..count], first: 0 }))
    }

    /// The first blocks of one frame, until `limit` bytes are decoded; None if one is refused.
    fn blocks(&mut self, source: &[u8], target: &mut [u8], limit: usize) -> Option<usize> {
        let context = self.context.as_ptr();
        // SAFETY: the context is ours; a step that was left unfinished is forgotten.
        let begun = unsafe { zstd_sys::ZSTD_decompressBegin(context) };
        // The zstd that is bundled begins always; a later one may have a reason not to.
        done(begun, usize::MAX)?;
        let (mut rest, mut there) = (source, 0);
        // Ends: every turn takes at least a byte of the source, or returns.
        while there < limit {
            // SAFETY: reads the context only.
            let bytes = unsafe { zstd_sys::ZSTD_nextSrcSizeToDecompress(context) };
            let (step, behind) = rest.split_at_checked(bytes).filter(|_| bytes > 0)?;
            let free = &mut target[there..];
            // SAFETY: both ranges are live slices with their own lengths; the bytes before `free`
            // are those of earlier steps and lie right before it, as the window must.
            let result = unsafe {
                zstd_sys::ZSTD_decompressContinue(
                    context,
                    free.as_mut_ptr().cast(),
                    free.len(),
                    step.as_ptr().cast(),
                    step.len(),
                )
            };
            there += done(result, free.len())?;
            rest = behind;
        }
        assert!(there >= limit);
        Some(there)
    }
}

/// Tells the sink of the one frame of a chunk, and of its blocks.
pub(super) fn walk(chunk: &Walkable<'_>, sink: &mut dyn Sink) -> Result<Walked, Unfit> {
    let kind = encoded_frame(chunk.bytes, index(chunk.chunk_bytes))?;
    chunk.walk_one(0..chunk.bytes.len(), kind, sink)
}

/// How many bytes zstd says that it wrote, of so many that it may; None if it failed.
fn done(result: usize, bytes_max: usize) -> Option<usize> {
    // SAFETY: a pure function of its argument.
    let is_error = unsafe { zstd_sys::ZSTD_isError(result) } != 0;
    assert!(is_error || result <= bytes_max);
    (!is_error).then_some(result)
}

/// Whether `source` begins with a frame of exactly `bytes` bytes that has no checksum.
fn is_plain(source: &[u8], bytes: usize) -> bool {
    let mut header = MaybeUninit::<zstd_sys::ZSTD_FrameHeader>::zeroed();
    // SAFETY: reads at most `source.len()` bytes of a live slice and writes the header; all of its
    // fields are integers, so zeroes are a valid value too.
    let (result, header) = unsafe {
        let result = zstd_sys::ZSTD_getFrameHeader(
            header.as_mut_ptr(),
            source.as_ptr().cast(),
            source.len(),
        );
        (result, header.assume_init())
    };
    let is_frame = header.frameType == zstd_sys::ZSTD_FrameType_e::ZSTD_frame;
    result == 0 && is_frame && header.frameContentSize == bytes as u64 && header.checksumFlag == 0
}

#[cold]
fn explain(source: &[u8], target_bytes: usize, result: usize, why: &mut Why) -> Status {
    // SAFETY: the name of any code is a static NUL-terminated string.
    let name = unsafe { CStr::from_ptr(zstd_sys::ZSTD_getErrorName(result)) };
    let name = name.to_str().unwrap_or("unknown error");
    match declared_bytes(source) {
        Some(declared) if declared > target_bytes as u64 => {
            let wanted = format_args!("where {target_bytes} are expected: {name}");
            fail!(why, Decode, "zstd frame declares {declared} bytes {wanted}")
        }
        _ => {
            let (len, wanted) = (source.len(), target_bytes);
            fail!(why, Decode, "zstd data of {len} bytes does not decode to {wanted} bytes: {name}")
        }
    }
}

/// The content size in the header of the first frame, if it has one.
fn declared_bytes(source: &[u8]) -> Option<u64> {
    // SAFETY: reads at most `source.len()` bytes of a live slice.
    let declared =
        unsafe { zstd_sys::ZSTD_getFrameContentSize(source.as_ptr().cast(), source.len()) };
    // The two largest values mean "not declared" and "not a header".
    (declared < u64::MAX - 1).then_some(declared)
}

#[cfg(test)]
/// Functions with which tests of other modules make and decode frames.
pub mod test_support {
    use super::*;
    use std::boxed::Box;
    use std::vec;
    use std::vec::Vec;

    /// A context in leaked memory.
    pub fn context() -> Context {
        let words = index(Context::workspace_bytes()).div_ceil(8);
        let workspace: &'static mut [u64] = Box::leak(vec![0u64; words].into_boxed_slice());
        // SAFETY: any bytes are a u64's bytes, and the leaked words are used nowhere else.
        Context::new(unsafe { workspace.align_to_mut::<u8>().1 }).unwrap()
    }

    /// One zstd frame of `bytes`.
    pub fn compress(bytes: &[u8], checksum: bool) -> Vec<u8> {
        let mut context = zstd_safe::CCtx::create();
        context.set_parameter(zstd_safe::CParameter::ChecksumFlag(checksum)).unwrap();
        let mut frame = vec![0; zstd_safe::compress_bound(bytes.len())];
        let count = context.compress2(&mut frame[..], bytes).unwrap();
        frame.truncate(count);
        frame
    }
}

#[cfg(test)]
mod tests {
    use super::test_support::{compress, context};
    use super::*;
    use std::vec;
    use std::vec::Vec;

    fn ramp(count: usize) -> Vec<u8> {
        (0..count).map(|at| (at / 7 + at * at / 1000) as u8).collect()
    }

    fn refusal(source: &[u8], target_bytes: usize) -> (Status, Why) {
        let mut why = Why::new();
        let mut target = vec![0xA5; target_bytes];
        let status = context().decompress(source, &mut target, &mut why).unwrap_err();
        (status, why)
    }

    #[test]
    fn frames_and_skippable_frames_decode_one_behind_the_other() {
        let bytes = ramp(5000);
        let mut source = compress(&bytes[..3000], false);
        source.extend([0x50, 0x2A, 0x4D, 0x18, 3, 0, 0, 0, 9, 9, 9]);
        source.extend(compress(&bytes[3000..], true));
        let mut target = vec![0xA5; 5000];
        let mut why = Why::new();
        assert_eq!(context().decompress(&source, &mut target, &mut why), Ok(5000));
        assert_eq!(target, bytes);
    }

    #[test]
    fn a_frame_that_declares_256_mib_is_refused_with_both_sizes() {
        // Magic, single segment with a 4-byte size, 2^28 bytes, one RLE block header.
        let source = [0x28, 0xB5, 0x2F, 0xFD, 0xA0, 0, 0, 0, 0x10, 0x03, 0, 0, 7];
        let (status, why) = refusal(&source, 1000);
        assert_eq!(status, Status::Decode);
        assert!(why.as_str().contains("268435456"), "{why}");
        assert!(why.as_str().contains("1000"), "{why}");
    }

    #[test]
    fn a_cut_frame_is_refused_at_every_length() {
        let source = compress(&ramp(600), true);
        for cut in 1..source.len() {
            assert_eq!(refusal(&source[..cut], 600).0, Status::Decode, "cut at {cut}");
        }
    }

    #[test]
    fn bytes_behind_the_last_frame_are_refused() {
        let mut source = compress(&ramp(600), false);
        source.push(0);
        assert_eq!(refusal(&source, 600).0, Status::Decode);
    }

    #[test]
    fn every_flipped_bit_of_a_frame_with_a_checksum_is_found_or_harmless() {
        let bytes = ramp(900);
        let source = compress(&bytes, true);
        let mut context = context();
        for bit in 0..source.len() * 8 {
            let mut broken = source.clone();
            broken[bit / 8] ^= 1 << (bit % 8);
            let mut target = vec![0xA5; 900];
            let mut why = Why::new();
            if context.decompress(&broken, &mut target, &mut why) == Ok(900) {
                assert_eq!(target, bytes, "bit {bit}");
            }
        }
    }

    #[test]
    fn a_repeated_block_over_128_kib_is_taken_in_part_as_it_is_as_a_whole() {
        // Single segment of 393,217 bytes; repeated blocks of 131,072 and of 262,145.
        let header = [0x28, 0xB5, 0x2F, 0xFD, 0xA0, 1, 0, 6, 0];
        let source = [&header[..], &[2, 0, 0x10, 7], &[0x0B, 0, 0x20, 9]].concat();
        let mut target = vec![0xA5; 393_217];
        let mut why = Why::new();
        assert_eq!(context().decompress(&source, &mut target, &mut why), Ok(393_217));
        let whole = target.clone();
        for limit in [1, 131_072, 131_073, 200_000, 393_217] {
            target.fill(0xA5);
            let done = context().decompress_prefix(&source, &mut target, limit, &mut why).unwrap();
            assert!(done >= limit && target[..done] == whole[..done], "{limit}");
        }
    }

    #[test]
    fn a_short_workspace_is_an_internal_error() {
        assert_eq!(Context::new(&mut []).err(), Some(Status::Internal));
    }
}
