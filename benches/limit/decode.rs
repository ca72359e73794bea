//! From the bytes of a chunk to rows of f32.

use crate::plan::{Piece, SOURCE_BYTES, Triple, linear};
use std::ops::Range;
use wavetrain::decode::unshuffle::{Shuffle, unshuffle};
use zstd_safe::zstd_sys;

fn check(result: usize) -> usize {
    // SAFETY: a pure function of its argument.
    assert!(unsafe { zstd_sys::ZSTD_isError(result) } == 0, "zstd refuses a chunk");
    result
}

/// Decodes a frame at least up to byte `need`, at most to the end of the target.
pub fn zstd(context: *mut zstd_sys::ZSTD_DCtx, source: &[u8], target: &mut [u8], need: usize) {
    if need == target.len() {
        let (to, from) = (target.as_mut_ptr().cast(), source.as_ptr().cast());
        // SAFETY: both ranges are live slices with their lengths, and the context is the caller's.
        check(unsafe {
            zstd_sys::ZSTD_decompressDCtx(context, to, target.len(), from, source.len())
        });
        return;
    }
    // SAFETY: the context is the caller's.
    check(unsafe { zstd_sys::ZSTD_decompressBegin(context) });
    let (mut rest, mut done) = (source, 0);
    while done < need {
        // SAFETY: the context is the caller's.
        let step = unsafe { zstd_sys::ZSTD_nextSrcSizeToDecompress(context) };
        assert!(step > 0, "the frame ends before the last needed byte");
        let (now, behind) = rest.split_at(step);
        let to = &mut target[done..];
        // SAFETY: both ranges are live slices with their lengths; what was decoded before lies
        // right before the target, as zstd asks.
        done += check(unsafe {
            let (to, bytes) = (to.as_mut_ptr().cast(), to.len());
            zstd_sys::ZSTD_decompressContinue(context, to, bytes, now.as_ptr().cast(), step)
        });
        rest = behind;
    }
}

/// Decodes the blocks of a blosc1 chunk that hold bytes of `need`.
pub fn blosc(
    context: *mut zstd_sys::ZSTD_DCtx,
    source: &[u8],
    target: &mut [u8],
    filtered: &mut [u8],
    need: &Range<usize>,
) {
    let word = |at: usize| u32::from_le_bytes(std::array::from_fn(|byte| source[at + byte]));
    let (flags, typesize) = (source[2], source[3] as usize);
    let (bytes, block_bytes) = (word(4) as usize, word(8) as usize);
    let target = &mut target[..bytes];
    if flags & 2 != 0 {
        return target.copy_from_slice(&source[16..][..bytes]);
    }
    let shuffle = match flags & 5 {
        1 => Shuffle::Bytes,
        4 => Shuffle::Bits,
        _ => Shuffle::None,
    };
    let last = (need.end - 1) / block_bytes;
    for (number, target) in target.chunks_mut(block_bytes).enumerate().take(last + 1) {
        if number < need.start / block_bytes {
            continue;
        }
        let is_split = flags & 16 == 0 && target.len() == block_bytes;
        let stream_bytes = if is_split { target.len() / typesize } else { target.len() };
        let mut rest = &source[word(16 + 4 * number) as usize..];
        let filtered = &mut filtered[..target.len()];
        for stream_target in filtered.chunks_mut(stream_bytes) {
            let size = u32::from_le_bytes(std::array::from_fn(|byte| rest[byte])) as usize;
            let (stream, behind) = rest[4..].split_at(size);
            if size == stream_target.len() {
                stream_target.copy_from_slice(stream);
            } else {
                zstd(context, stream, stream_target, stream_bytes);
            }
            rest = behind;
        }
        unshuffle(shuffle, typesize, filtered, 0, target);
    }
}

/// Writes the rows of a piece as f32. `source` starts at element `first` of the chunk.
///
/// # Safety
/// As for [`scatter_rows`].
pub unsafe fn scatter(
    piece: &Piece,
    chunk: Triple,
    source: &[u8],
    first: usize,
    sample: *mut f32,
    shape: Triple,
) {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2; the rest is the caller's promise, handed on.
        return unsafe { scatter_avx2(piece, chunk, source, first, sample, shape) };
    }
    // SAFETY: the caller's promise, handed on.
    unsafe { scatter_rows(piece, chunk, source, first, sample, shape) }
}

/// [`scatter_rows`], compiled for wide vectors.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn scatter_avx2(
    piece: &Piece,
    chunk: Triple,
    source: &[u8],
    first: usize,
    sample: *mut f32,
    shape: Triple,
) {
    // SAFETY: the caller's promise, handed on.
    unsafe { scatter_rows(piece, chunk, source, first, sample, shape) }
}

/// # Safety
/// `sample` points to a sample of `shape`, the piece lies in it, and nobody else writes its rows.
#[inline(always)]
unsafe fn scatter_rows(
    piece: &Piece,
    chunk: Triple,
    source: &[u8],
    first: usize,
    sample: *mut f32,
    shape: Triple,
) {
    let count = piece.limit[2] - piece.first[2];
    for z in 0..piece.limit[0] - piece.first[0] {
        for y in 0..piece.limit[1] - piece.first[1] {
            let at = linear([piece.first[0] + z, piece.first[1] + y, piece.first[2]], chunk);
            let row = &source[(at - first) * SOURCE_BYTES..][..count * SOURCE_BYTES];
            let to = [piece.target[0] + z, piece.target[1] + y, piece.target[2]];
            // SAFETY: the caller's promise: these elements are in the sample and ours.
            let target =
                unsafe { std::slice::from_raw_parts_mut(sample.add(linear(to, shape)), count) };
            for (target, element) in target.iter_mut().zip(row.as_chunks::<2>().0) {
                *target = f32::from(u16::from_le_bytes(*element));
            }
        }
    }
}
