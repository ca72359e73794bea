//! Structs across the C surface: copied in and out by the smaller of both sizes.
//!
//! In: pointers, checked here once. Out: our own copies. Invariant: nothing is read or written past
//! the size that the caller states.

use crate::base::abi::{
    ArrayInfo, BatchInfo, Error, FatalHook, FilesHook, LogHook, Memory, MemoryHook, ProfilerHook,
    Sample, SampleBox, Stats, WorkersHook,
};
use crate::base::limits::{RANK_MAX, URI_BYTES_MAX};
use crate::base::status::{Failure, Status, Why};
use crate::engine::calls::Request;
use crate::fail;
use crate::setup::config::Config;
use crate::source::zarr::normalize_uri;
use core::ffi::{CStr, c_char, c_void};
use core::mem::{MaybeUninit, offset_of};

/// Bytes of a sample and of a box in the header of 0.1, the first: no caller has smaller ones.
const SAMPLE_BYTES_MIN: usize = offset_of!(Sample, tag) + size_of::<u64>();
const BOX_BYTES_MIN: usize = offset_of!(SampleBox, end) + size_of::<[i64; RANK_MAX]>();

/// A struct that claims to be larger is not from any header, so its bytes are not looked at.
const STRUCT_BYTES_MAX: usize = 1 << 16;

/// Copies the bytes that a caller and we both know of a struct that starts with its size.
///
/// # Safety
/// `source` points to a readable `struct_size` and that many bytes.
pub unsafe fn read_struct<T: Copy>(
    source: *const T,
    mut known: T,
    name: &str,
    why: &mut Why,
) -> Result<T, Status> {
    if source.is_null() {
        return Err(fail!(why, Invalid, "{name} is NULL"));
    }
    // SAFETY: the caller's struct starts with its size; it may be unaligned for all we know.
    let size = unsafe { source.cast::<usize>().read_unaligned() };
    if size < size_of::<usize>() || size > STRUCT_BYTES_MAX {
        return Err(fail!(why, Invalid, "{name}.struct_size = {size}: not filled in"));
    }
    let common = size.min(size_of::<T>());
    // SAFETY: `common` bytes are readable at the source by its size, and writable in `known`.
    // Every struct that is read this way is plain old data of which any byte pattern is a value.
    unsafe {
        let target = (&raw mut known).cast::<u8>();
        core::ptr::copy_nonoverlapping(source.cast::<u8>(), target, common);
        for offset in common..size {
            if source.cast::<u8>().add(offset).read() != 0 {
                return Err(fail!(
                    why,
                    Invalid,
                    "{name}.struct_size = {size}: this version knows {common} bytes, and byte \
                     {offset} asks for something newer"
                ));
            }
        }
    }
    Ok(known)
}

/// Copies a caller's config, what its hooks lack filled in.
///
/// # Safety
/// As for `read_struct`.
pub unsafe fn read_config(source: *const Config, why: &mut Why) -> Result<Config, Status> {
    let default = Config::default();
    // SAFETY: as the function asks.
    let mut config = unsafe { read_struct(source, default, "config", why)? };
    complete(&mut config.memory, &default.memory, why)?;
    complete(&mut config.files, &default.files, why)?;
    complete(&mut config.log, &default.log, why)?;
    complete(&mut config.fatal, &default.fatal, why)?;
    complete(&mut config.workers, &default.workers, why)?;
    complete(&mut config.profiler, &default.profiler, why)?;
    Ok(config)
}

/// A struct inside a config that states a smaller size than ours: what lies past it takes its
/// default. One that states no size or a larger one is left to `settings`, which refuses it.
fn complete<T: Copy>(part: &mut T, default: &T, why: &mut Why) -> Result<(), Status> {
    // SAFETY: these structs start with their size, and one that is at most its type's is readable;
    // the size is then written where it was read.
    unsafe {
        let size = struct_size(part);
        if (size_of::<usize>()..size_of::<T>()).contains(&size) {
            *part = read_struct(part, *default, "hook", why)?;
            (&raw mut *part).cast::<usize>().write(size_of::<T>());
        }
    }
    Ok(())
}

/// Copies a struct whose size comes beside it, `least` bytes or more. What a smaller one lacks is
/// zeros; bytes past what we know must be 0.
///
/// # Safety
/// `source` has `bytes` readable bytes. Of `T` any bytes are a value, zeros among them.
unsafe fn read_sized<T: Copy>(
    source: *const T,
    (bytes, least): (usize, usize),
    name: &str,
    why: &mut Why,
) -> Result<T, Status> {
    let known = size_of::<T>();
    if bytes < least || bytes > STRUCT_BYTES_MAX {
        return Err(fail!(
            why,
            Invalid,
            "{name} = {bytes}: must be sizeof the struct, {known} in this version and {least} in \
             the first"
        ));
    }
    for offset in known..bytes {
        // SAFETY: `bytes` bytes are readable.
        if unsafe { source.cast::<u8>().add(offset).read() } != 0 {
            return Err(fail!(
                why,
                Invalid,
                "{name} = {bytes}: this version knows {known} bytes, and byte {offset} asks for \
                 something newer"
            ));
        }
    }
    let mut value = MaybeUninit::<T>::zeroed();
    // SAFETY: the smaller of both sizes is readable there and writable here, and zeros and bytes of
    // the caller's make a value, as the function asks.
    unsafe {
        let common = bytes.min(known);
        core::ptr::copy_nonoverlapping(source.cast::<u8>(), value.as_mut_ptr().cast(), common);
        Ok(value.assume_init())
    }
}

/// The size that the caller states of a struct; 0 where there is none.
///
/// # Safety
/// `target` is NULL or points to a readable `struct_size`.
pub unsafe fn struct_size<T>(target: *const T) -> usize {
    // SAFETY: as the function asks.
    if target.is_null() { 0 } else { unsafe { target.cast::<usize>().read_unaligned() } }
}

/// Writes the bytes that the caller knows of `value`, keeping its struct_size.
///
/// # Safety
/// `target` points to a readable `struct_size` and that many writable bytes.
pub unsafe fn write_struct<T>(target: *mut T, value: &T) -> bool {
    if target.is_null() {
        return false;
    }
    let header = size_of::<usize>();
    // SAFETY: as the function asks.
    unsafe {
        let size = target.cast::<usize>().read_unaligned();
        if size < header {
            return false;
        }
        let common = size.min(size_of::<T>());
        let source = core::ptr::from_ref(value).cast::<u8>();
        core::ptr::copy_nonoverlapping(
            source.add(header),
            target.cast::<u8>().add(header),
            common - header,
        );
    }
    true
}

/// Fills the caller's error, where there is one; whether there is.
///
/// # Safety
/// As for `write_struct`, or NULL.
pub unsafe fn write_error(target: *mut Error, failure: &Failure) -> bool {
    let mut error = Error { status: failure.status as i32, ..Error::EMPTY };
    error.tag = failure.tag;
    error.batch_id = failure.batch_id;
    error.sample = failure.sample;
    error.chunk_rank = failure.chunk.len() as u32;
    error.chunk[..failure.chunk.len()].copy_from_slice(&failure.chunk);
    for (byte, source) in error.text.iter_mut().zip(failure.text.as_bytes()) {
        *byte = *source as c_char;
    }
    // SAFETY: as the function asks.
    unsafe { write_struct(target, &error) }
}

/// Ends a call: fills the error of a failure, and gives the code.
///
/// # Safety
/// As for `write_error`.
pub unsafe fn finish(result: Result<(), Status>, why: &Why, error: *mut Error) -> i32 {
    match result {
        Ok(()) => Status::Ok as i32,
        Err(status) => {
            // SAFETY: as the function asks.
            unsafe { write_error(error, &Failure::because(status, why)) };
            status as i32
        }
    }
}

/// A NUL-terminated string.
///
/// # Safety
/// `text` is NULL or NUL-terminated.
pub unsafe fn string_from_c<'a>(text: *const c_char, why: &mut Why) -> Result<&'a str, Status> {
    if text.is_null() {
        return Err(fail!(why, Invalid, "a uri is NULL"));
    }
    // SAFETY: as the function asks.
    let bytes = unsafe { CStr::from_ptr(text) };
    bytes.to_str().map_err(|_| fail!(why, Invalid, "a uri is not UTF-8"))
}

/// The caller's scratch block.
///
/// # Safety
/// `scratch` is NULL or has `bytes` writable bytes that nothing else uses during the call.
pub unsafe fn scratch_from_c<'a>(
    scratch: *mut c_void,
    bytes: usize,
    why: &mut Why,
) -> Result<&'a mut [u8], Status> {
    if scratch.is_null() {
        return Err(fail!(why, Invalid, "scratch is NULL"));
    }
    // SAFETY: the caller gives that many bytes, for this call alone.
    Ok(unsafe { core::slice::from_raw_parts_mut(scratch.cast(), bytes) })
}

/// Sample `number` of an array of `count` such, each of `bytes` bytes, copied into `target`; its
/// tag, whatever is wrong with it: 0 where its size is that of none.
///
/// # Safety
/// As for `fill_request`, of that sample; the array has at most isize::MAX bytes.
pub unsafe fn read_sample(
    target: &mut Request,
    samples: *const Sample,
    (number, bytes): (usize, usize),
    why: &mut Why,
) -> (u64, Result<(), Status>) {
    // SAFETY: as the function asks; samples lie as far apart as the caller's are large.
    unsafe {
        let sample = samples.cast::<u8>().add(number * bytes).cast::<Sample>();
        let filled = read_sized(sample, (bytes, SAMPLE_BYTES_MIN), "sample_bytes", why)
            .and_then(|sample| fill_request(target, &sample, why));
        (sample_tag(sample, bytes), filled)
    }
}

/// # Safety
/// `sample` has `bytes` readable bytes.
unsafe fn sample_tag(sample: *const Sample, bytes: usize) -> u64 {
    if !(SAMPLE_BYTES_MIN..=STRUCT_BYTES_MAX).contains(&bytes) {
        return 0;
    }
    // SAFETY: the tag lies within those bytes; a caller's samples may be unaligned.
    unsafe { (&raw const (*sample).tag).read_unaligned() }
}

/// Checks a caller's sample and copies it.
///
/// # Safety
/// `boxes` and `uri` are NULL or readable as the header says.
unsafe fn fill_request(target: &mut Request, sample: &Sample, why: &mut Why) -> Result<(), Status> {
    if sample.boxes.is_null() || sample.n_fields != 1 {
        return Err(fail!(why, Invalid, "a sample has exactly one box, not {}", sample.n_fields));
    }
    let sizes = (sample.box_bytes as usize, BOX_BYTES_MIN);
    // SAFETY: one box of this size is readable.
    let source = unsafe { read_sized(sample.boxes, sizes, "box_bytes", why)? };
    let rank = source.rank as usize;
    if rank > RANK_MAX {
        return Err(fail!(why, Rank, "a box of rank {rank}: must be 0 to {RANK_MAX}"));
    }
    if source.uri.is_null() || source.uri_bytes > URI_BYTES_MAX as u64 {
        let bytes = source.uri_bytes;
        return Err(fail!(
            why,
            Invalid,
            "a uri is NULL, or its {bytes} bytes are not 1 to {URI_BYTES_MAX}"
        ));
    }
    if source.reserved != 0 {
        return Err(fail!(why, Invalid, "reserved = {}: must be 0", source.reserved));
    }
    // SAFETY: `uri_bytes` bytes are readable.
    let uri =
        unsafe { core::slice::from_raw_parts(source.uri.cast::<u8>(), source.uri_bytes as usize) };
    let uri = core::str::from_utf8(uri).map_err(|_| fail!(why, Invalid, "a uri is not UTF-8"))?;
    normalize_uri(uri, &mut target.uri, why)?;
    target.rank = rank;
    target.begin = source.begin;
    target.end = source.end;
    target.tag = sample.tag;
    Ok(())
}

// Every struct that the helpers above copy starts with its size.
const _: () = assert!(
    offset_of!(Config, struct_size) == 0
        && offset_of!(Error, struct_size) == 0
        && offset_of!(Memory, struct_size) == 0
        && offset_of!(BatchInfo, struct_size) == 0
        && offset_of!(Stats, struct_size) == 0
        && offset_of!(ArrayInfo, struct_size) == 0
        && offset_of!(MemoryHook, struct_size) == 0
        && offset_of!(FilesHook, struct_size) == 0
        && offset_of!(LogHook, struct_size) == 0
        && offset_of!(FatalHook, struct_size) == 0
        && offset_of!(WorkersHook, struct_size) == 0
        && offset_of!(ProfilerHook, struct_size) == 0
);

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;
    use std::vec::Vec;

    /// A struct that has grown by two members since its first version.
    #[repr(C)]
    #[derive(Clone, Copy, Debug, PartialEq)]
    struct Grown {
        first: u64,
        second: u32,
        third: u32,
        fourth: u64,
    }

    const FIRST_BYTES: usize = offset_of!(Grown, third);

    fn read(bytes: &[u8]) -> Result<Grown, std::string::String> {
        // A copy of its own size: what is read past it is past a heap block.
        let block: Vec<u8> = bytes.to_vec();
        let mut why = Why::new();
        // SAFETY: the block has the bytes that it states.
        let read = unsafe {
            read_sized(block.as_ptr().cast(), (block.len(), FIRST_BYTES), "grown_bytes", &mut why)
        };
        read.map_err(|_| why.to_string())
    }

    #[test]
    fn what_a_struct_of_an_older_header_lacks_is_zeros() {
        let whole = [0x11; size_of::<Grown>() + 8];
        for bytes in 0..=size_of::<Grown>() {
            let result = read(&whole[..bytes]);
            if bytes < FIRST_BYTES {
                let text = result.unwrap_err();
                assert!(
                    text.starts_with(&std::format!("grown_bytes = {bytes}: must be")),
                    "{text}"
                );
                assert!(text.contains("24 in this version and 12 in the first"), "{text}");
                continue;
            }
            let grown = result.unwrap();
            assert_eq!((grown.first, grown.second), (0x1111_1111_1111_1111, 0x1111_1111));
            if bytes == FIRST_BYTES {
                assert_eq!((grown.third, grown.fourth), (0, 0));
            }
            if bytes == offset_of!(Grown, fourth) {
                assert_eq!((grown.third, grown.fourth), (0x1111_1111, 0));
            }
        }
        let mut newer = [0; size_of::<Grown>() + 8];
        assert_eq!(read(&newer), Ok(Grown { first: 0, second: 0, third: 0, fourth: 0 }));
        newer[size_of::<Grown>()] = 1;
        assert!(read(&newer).unwrap_err().contains("byte 24 asks for something newer"));
    }
}
