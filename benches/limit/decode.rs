//! From the bytes of a chunk to rows of a sample.

use crate::plan::{Piece, Place, RANK, linear, places};
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

/// Decodes a whole LZ4 block.
fn lz4(source: &[u8], target: &mut [u8]) {
    let (from, to) = (source.as_ptr().cast(), target.as_mut_ptr().cast());
    // SAFETY: both ranges are live slices with their lengths.
    let bytes =
        unsafe { lz4_sys::LZ4_decompress_safe(from, to, source.len() as i32, target.len() as i32) };
    assert!(bytes as usize == target.len(), "lz4 refuses a block");
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
                match flags >> 5 {
                    1 => lz4(stream, stream_target),
                    4 => zstd(context, stream, stream_target, stream_bytes),
                    other => panic!("blosc's compressor {other} is not known here"),
                }
            }
            rest = behind;
        }
        unshuffle(shuffle, typesize, filtered, 0, target);
    }
}

/// From the type of an array to that of samples.
pub trait Cast<T>: Copy {
    fn cast(self) -> T;
}

macro_rules! casts {
    ($($from:ty => $to:ty),*) => {
        $(impl Cast<$to> for $from {
            #[inline(always)]
            fn cast(self) -> $to {
                self as $to
            }
        })*
    };
}

casts!(u8 => f32, u16 => f32, i16 => f32, u32 => f32, u64 => f32, f32 => f32, u32 => i64, u64 => u64);

/// Writes the rows of a piece. `source` starts at element `first` of the chunk.
///
/// # Safety
/// As for [`scatter_rows`].
pub unsafe fn scatter<S: Cast<T>, T>(
    piece: &Piece,
    chunk: Place,
    source: &[u8],
    first: usize,
    sample: *mut T,
    shape: Place,
) {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2; the rest is the caller's promise, handed on.
        return unsafe { scatter_avx2::<S, T>(piece, chunk, source, first, sample, shape) };
    }
    // SAFETY: the caller's promise, handed on.
    unsafe { scatter_rows::<S, T>(piece, chunk, source, first, sample, shape) }
}

/// [`scatter_rows`], compiled for wide vectors.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn scatter_avx2<S: Cast<T>, T>(
    piece: &Piece,
    chunk: Place,
    source: &[u8],
    first: usize,
    sample: *mut T,
    shape: Place,
) {
    // SAFETY: the caller's promise, handed on.
    unsafe { scatter_rows::<S, T>(piece, chunk, source, first, sample, shape) }
}

/// # Safety
/// `sample` points to a sample of `shape`, the piece lies in it, and nobody else writes its rows;
/// `S` is a number, for which all bytes are valid.
#[inline(always)]
unsafe fn scatter_rows<S: Cast<T>, T>(
    piece: &Piece,
    chunk: Place,
    source: &[u8],
    first: usize,
    sample: *mut T,
    shape: Place,
) {
    let mut extent: Place = std::array::from_fn(|axis| piece.limit[axis] - piece.first[axis]);
    let mut count = 1;
    // Axes that are whole in both make one row with the axis before them.
    for axis in (0..RANK).rev() {
        count *= extent[axis];
        let is_whole = extent[axis] == chunk[axis] && extent[axis] == shape[axis];
        extent[axis] = 1;
        if !is_whole {
            break;
        }
    }
    let inner = (0..RANK).rev().find(|axis| extent[*axis] > 1).unwrap_or(0);
    let rows = std::mem::replace(&mut extent[inner], 1);
    let pitch = |extents: Place| extents[inner + 1..].iter().product::<usize>();
    let (from_pitch, to_pitch) = (pitch(chunk), pitch(shape));
    for step in places([0; RANK], extent) {
        let at = linear(std::array::from_fn(|axis| piece.first[axis] + step[axis]), chunk);
        let to = linear(std::array::from_fn(|axis| piece.target[axis] + step[axis]), shape);
        for row in 0..rows {
            let start = (at - first + row * from_pitch) * size_of::<S>();
            let from = source[start..][..count * size_of::<S>()].as_ptr().cast::<S>();
            for element in 0..count {
                // SAFETY: the caller's promise: these elements are in the sample and ours; the row
                // holds as many.
                unsafe {
                    let to = sample.add(to + row * to_pitch + element);
                    to.write(from.add(element).read_unaligned().cast());
                }
            }
        }
    }
}
