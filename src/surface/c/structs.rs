//! Structs across the C surface: copied in and out by the smaller of both sizes.
//!
//! In: pointers, checked here once. Out: our own copies. Invariant: nothing is read or written past
//! the size that the caller states.

use super::affine::read_affine;
use super::augment::read_augment;
use super::feed::read_fed;
use crate::base::abi::{
    BOX_URI, BOX_VALUE, Blank, Error, Grows, IndexList, Sample, SampleBox, write_text,
};
use crate::base::limits::{INDICES_MAX, RANK_MAX, URI_BYTES_MAX};
use crate::base::status::{Failure, Status, Why, with_why};
use crate::engine::requests::Request;
use crate::fail;
use crate::records::FedData;
use crate::setup::config::Config;
use crate::source::zarr::normalize_uri;
use core::ffi::{CStr, c_char, c_void};
use core::mem::offset_of;
use core::{fmt, ptr, slice, str};

/// Bytes of a sample and of a box in the header of 0.1, the first: no caller has smaller ones.
const SAMPLE_BYTES_MIN: usize = offset_of!(Sample, tag) + size_of::<u64>();
const BOX_BYTES_MIN: usize = offset_of!(SampleBox, end) + size_of::<[i64; RANK_MAX]>();

/// The size of a struct, which comes beside it, is a multiple of this: a part of a pointer at its
/// end would be taken for a whole one.
const WORD_BYTES: usize = size_of::<*const u8>();

/// Bytes of struct_size itself.
const HEAD_BYTES: usize = size_of::<usize>();

/// A struct that claims to be larger is not from any header, so its bytes are not looked at.
const STRUCT_BYTES_MAX: usize = 1 << 16;

/// The size that the caller states of a struct; 0 where there is none.
///
/// # Safety
/// `source` is NULL or points to a readable `struct_size`.
pub unsafe fn struct_size<T: Grows>(source: *const T) -> usize {
    // SAFETY: a struct that is there starts with its size; it may be unaligned for all we know.
    if source.is_null() { 0 } else { unsafe { source.cast::<usize>().read_unaligned() } }
}

/// Copies as many bytes of a struct over `known` as a caller and we both know. Bytes past what we
/// know must be 0.
///
/// # Safety
/// `source` has `bytes` readable bytes. Of `T` any bytes are a value.
unsafe fn copy_known<T: Copy>(
    (source, bytes): (*const T, usize),
    mut known: T,
    name: fmt::Arguments<'_>,
    why: &mut Why,
) -> Result<T, Status> {
    let (source, common) = (source.cast::<u8>(), bytes.min(size_of::<T>()));
    // SAFETY: the offset is below `bytes`.
    let is_set = |offset: &usize| unsafe { source.add(*offset).read() != 0 };
    if let Some(offset) = (common..bytes).find(is_set) {
        return Err(fail!(
            why,
            Invalid,
            "{name} = {bytes}: this version knows {common} bytes, and byte {offset} asks for \
             something newer"
        ));
    }
    // SAFETY: `common` bytes are readable at the source and writable in `known`, which is a value
    // whatever they are.
    unsafe { ptr::copy_nonoverlapping(source, (&raw mut known).cast(), common) };
    Ok(known)
}

/// Copies the bytes that a caller and we both know of a struct that starts with its size.
///
/// # Safety
/// `source` is NULL, or points to a readable `struct_size` and that many bytes.
pub unsafe fn read_struct<T: Grows>(
    source: *const T,
    known: T,
    name: &str,
    why: &mut Why,
) -> Result<T, Status> {
    if source.is_null() {
        return Err(fail!(why, Invalid, "{name} is NULL"));
    }
    // SAFETY: the struct is there.
    let size = unsafe { struct_size(source) };
    if !(HEAD_BYTES..=STRUCT_BYTES_MAX).contains(&size) {
        return Err(fail!(why, Invalid, "{name}.struct_size = {size}: not filled in"));
    }
    // SAFETY: the caller states that many bytes. Structs that grow are plain old data.
    unsafe { copy_known((source, size), known, format_args!("{name}.struct_size"), why) }
}

/// Copies a caller's config. A hook that states a smaller size than ours gets its defaults behind
/// it; one that states no size or a larger one is left to `settings`, which refuses it.
///
/// # Safety
/// `source` is NULL, or points to a readable `struct_size` and that many bytes.
#[inline(never)] // its copies are not to stand on the stack of all that follows
pub unsafe fn read_config(source: *const Config, why: &mut Why) -> Result<Config, Status> {
    let default = Config::DEFAULT;
    // SAFETY: the config has the bytes that it states.
    let given = unsafe { read_struct(source, default, "config", why)? };
    let mut config = given;
    given.each_hook(|hook| {
        if (HEAD_BYTES..hook.known).contains(&hook.given) {
            let (first, rest) = (hook.offset + hook.given, hook.known - hook.given);
            // SAFETY: of both configs a hook of `known` bytes lies at the offset, its size first.
            unsafe {
                let source = (&raw const default).cast::<u8>().add(first);
                ptr::copy_nonoverlapping(source, (&raw mut config).cast::<u8>().add(first), rest);
                (&raw mut config).byte_add(hook.offset).cast::<usize>().write(hook.known);
            }
        }
        Ok(())
    })?;
    Ok(config)
}

/// Whether structs of a type, or of a later version of it, may lie so many bytes apart.
pub(super) fn is_size_of<T>(bytes: usize) -> bool {
    (size_of::<T>()..=STRUCT_BYTES_MAX).contains(&bytes) && bytes.is_multiple_of(WORD_BYTES)
}

/// Copies a struct whose size comes beside it, `least` bytes or more. What a smaller one lacks is
/// zeros.
///
/// # Safety
/// `source` has `bytes` readable bytes. Of `T` any bytes are a value.
pub(super) unsafe fn read_sized<T: Blank>(
    source: *const T,
    (bytes, least): (usize, usize),
    name: &str,
    why: &mut Why,
) -> Result<T, Status> {
    let known = size_of::<T>();
    if bytes < least || bytes > STRUCT_BYTES_MAX || !bytes.is_multiple_of(WORD_BYTES) {
        return Err(fail!(
            why,
            Invalid,
            "{name} = {bytes}: must be sizeof the struct, a multiple of {WORD_BYTES}: {known} in \
             this version, {least} in the first"
        ));
    }
    // SAFETY: the caller gives that many bytes, which are a value whatever they are.
    unsafe { copy_known((source, bytes), T::BLANK, format_args!("{name}"), why) }
}

/// Writes the bytes that the caller knows of `value`, keeping its struct_size.
///
/// # Safety
/// `target` is NULL, or points to a readable `struct_size` and that many writable bytes.
pub unsafe fn write_struct<T: Grows>(
    target: *mut T,
    value: &T,
    name: &str,
    why: &mut Why,
) -> Result<(), Status> {
    // SAFETY: a struct that is there states its size.
    let size = unsafe { struct_size(target) };
    if size < HEAD_BYTES {
        return Err(fail!(why, Invalid, "{name} is NULL, or its struct_size is not set"));
    }
    let (source, rest) = (ptr::from_ref(value).cast::<u8>(), size.min(size_of::<T>()) - HEAD_BYTES);
    // SAFETY: both structs have `rest` bytes behind their size.
    unsafe {
        let target = target.cast::<u8>().add(HEAD_BYTES);
        ptr::copy_nonoverlapping(source.add(HEAD_BYTES), target, rest);
    }
    Ok(())
}

/// Fills the caller's error; whether there is one, with its size set.
///
/// # Safety
/// `target` is NULL, or points to a readable `struct_size` and that many writable bytes.
pub unsafe fn write_error(target: *mut Error, failure: &Failure) -> bool {
    let mut error = Error {
        status: failure.status as i32,
        chunk_rank: failure.chunk.len() as u32,
        tag: failure.tag,
        batch_id: failure.batch_id,
        sample: failure.sample,
        ..Error::EMPTY
    };
    error.chunk[..failure.chunk.len()].copy_from_slice(&failure.chunk);
    write_text(&mut error.text, failure.text.as_str());
    // SAFETY: an error that is there has the bytes that it states.
    unsafe { write_struct(target, &error, "error", &mut Why::new()).is_ok() }
}

/// The code of a failure, of which the caller's error tells the rest.
///
/// # Safety
/// `error` is NULL, or points to a readable `struct_size` and that many writable bytes.
pub unsafe fn told(error: *mut Error, failure: &Failure) -> i32 {
    // SAFETY: an error that is there has the bytes that it states.
    unsafe { write_error(error, failure) };
    failure.status as i32
}

/// The code of a call that takes no loader.
///
/// # Safety
/// `error` is NULL, or points to a readable `struct_size` and that many writable bytes.
pub unsafe fn answer(error: *mut Error, call: impl FnOnce(&mut Why) -> Result<(), Status>) -> i32 {
    match with_why(call) {
        Ok(()) => Status::Ok as i32,
        // SAFETY: an error that is there has the bytes that it states.
        Err(failure) => unsafe { told(error, &failure) },
    }
}

/// A uri, NUL-terminated.
///
/// # Safety
/// `text` is NULL or NUL-terminated.
pub unsafe fn uri_from_c<'a>(text: *const c_char, why: &mut Why) -> Result<&'a str, Status> {
    // SAFETY: as above.
    unsafe { string_from_c("a uri", text, why) }
}

/// A NUL-terminated string, with what it is.
///
/// # Safety
/// `text` is NULL or NUL-terminated.
pub unsafe fn string_from_c<'a>(
    what: &str,
    text: *const c_char,
    why: &mut Why,
) -> Result<&'a str, Status> {
    if text.is_null() {
        return Err(fail!(why, Invalid, "{what} is NULL"));
    }
    // SAFETY: a text that is there ends with a NUL.
    let bytes = unsafe { CStr::from_ptr(text) };
    bytes.to_str().map_err(|_| fail!(why, Invalid, "{what} is not UTF-8"))
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
    Ok(unsafe { slice::from_raw_parts_mut(scratch.cast(), bytes) })
}

/// Checks box `at` of sample `number` of an array of such, each of `bytes` bytes, and copies it.
/// The tag is copied whatever is wrong with it; it is 0 where its size is that of none.
///
/// # Safety
/// The array has that sample, and at most isize::MAX bytes. Its `boxes` and their `uri` are NULL or
/// readable as the header says.
pub unsafe fn read_sample(
    target: &mut Request<'_>,
    samples: *const Sample,
    (number, bytes): (usize, usize),
    at: u32,
    why: &mut Why,
) -> Result<(), Status> {
    let sizes = (bytes, SAMPLE_BYTES_MIN);
    // SAFETY: samples lie as far apart as the caller's are large.
    let source = unsafe { samples.byte_add(number * bytes) };
    target.tag = 0;
    if (SAMPLE_BYTES_MIN..=STRUCT_BYTES_MAX).contains(&bytes) {
        // SAFETY: the tag lies within those bytes; a caller's samples may be unaligned.
        target.tag = unsafe { (&raw const (*source).tag).read_unaligned() };
    }
    // SAFETY: the sample has as many bytes.
    let sample = unsafe { read_sized(source, sizes, "sample_bytes", why)? };
    target.boxes = sample.n_boxes;
    if target.boxes == 0 {
        // Push refuses it.
        return Ok(());
    }
    if sample.boxes.is_null() || at >= sample.n_boxes {
        return Err(fail!(why, Invalid, "boxes is NULL, or was changed during the call"));
    }
    let bytes = sample.box_bytes as usize;
    let source = sample.boxes.wrapping_byte_add((at as usize).wrapping_mul(bytes));
    // SAFETY: the sample has `n_boxes` boxes of this size, one behind the other.
    unsafe { read_box(target, (source, bytes), why) }
}

/// Checks a box of so many bytes, and copies it.
///
/// # Safety
/// Those bytes can be read; the box's uri and tensor are NULL or as the header says.
pub unsafe fn read_box(
    target: &mut Request<'_>,
    (source, bytes): (*const SampleBox, usize),
    why: &mut Why,
) -> Result<(), Status> {
    // SAFETY: the box has as many bytes.
    let source = unsafe { read_sized(source, (bytes, BOX_BYTES_MIN), "box_bytes", why)? };
    let rank = source.rank as usize;
    if rank > RANK_MAX {
        return Err(fail!(why, Rank, "a box of rank {rank}: must be 0 to {RANK_MAX}"));
    }
    if source.kind > BOX_VALUE || source.reserved != 0 {
        let (kind, reserved) = (source.kind, source.reserved);
        return Err(fail!(why, Invalid, "kind = {kind}, reserved = {reserved}: no such box"));
    }
    // SAFETY: each is NULL or as the header says.
    unsafe {
        read_augment(&mut target.augment, source.augment, why)?;
        read_affine(&mut target.augment, source.affine, why)?;
    }
    // SAFETY: each list is as the header says.
    unsafe { read_lists(target, &source, why)? };
    (target.rank, target.begin, target.end) = (rank, source.begin, source.end);
    (target.field, target.at) = (source.field, source.at);
    (target.step, target.axes) = (source.step, source.axes);
    target.fed.data = FedData::Nothing;
    if source.kind != BOX_URI {
        // SAFETY: the caller's tensor is as the header says.
        return unsafe { read_fed(target, &source, why) };
    }
    // SAFETY: the caller's uri is as the header says.
    unsafe { read_uri(target, &source, why) }
}

/// Notes the index lists of a box.
///
/// # Safety
/// `source.lists` is NULL, or leads to what the header says, which stays during the call.
unsafe fn read_lists(
    target: &mut Request<'_>,
    source: &SampleBox,
    why: &mut Why,
) -> Result<(), Status> {
    target.lists.clear();
    let (count, bytes) = (source.n_lists as usize, source.list_bytes as usize);
    if count == 0 && source.lists.is_null() && bytes == 0 {
        return Ok(());
    }
    if count == 0 || count > RANK_MAX || source.lists.is_null() {
        let text = "1 to 16, or lists NULL and list_bytes 0 with it";
        return Err(fail!(why, Invalid, "n_lists = {count}: must be {text}"));
    }
    for number in 0..count {
        let place = source.lists.wrapping_byte_add(number.wrapping_mul(bytes));
        let sizes = (bytes, size_of::<IndexList>());
        // SAFETY: there are `n_lists` of this size.
        let list = unsafe { read_sized(place, sizes, "list_bytes", why)? };
        let (axis, given, reserved) = (list.axis as usize, list.n_indices, list.reserved);
        let is_array = !list.indices.is_null() && list.indices.is_aligned() || given == 0;
        if given > u64::from(INDICES_MAX) || !is_array || reserved != 0 {
            return Err(fail!(
                why,
                Invalid,
                "lists[{number}]: {given} indices of at most {INDICES_MAX}; indices must not be \
                 NULL, must lie at a multiple of 8, and reserved = {reserved} must be 0"
            ));
        }
        let indices: &[i64] = match given {
            0 => &[],
            // SAFETY: there are as many, aligned, which nobody writes during the call.
            _ => unsafe { slice::from_raw_parts(list.indices, given as usize) },
        };
        target.lists.push((axis, indices));
    }
    Ok(())
}

/// Checks and copies the uri of a box.
///
/// # Safety
/// `source.uri` is NULL or has `uri_bytes` readable bytes.
unsafe fn read_uri(
    target: &mut Request<'_>,
    source: &SampleBox,
    why: &mut Why,
) -> Result<(), Status> {
    if !source.tensor.is_null() {
        return Err(fail!(why, Invalid, "the box has a tensor, but its kind is that of a uri"));
    }
    let bytes = source.uri_bytes;
    if source.uri.is_null() || bytes > URI_BYTES_MAX as u64 {
        let most = URI_BYTES_MAX;
        return Err(fail!(why, Invalid, "a uri is NULL, or its {bytes} bytes are not 1 to {most}"));
    }
    // SAFETY: `uri_bytes` bytes are readable.
    let uri = unsafe { slice::from_raw_parts(source.uri.cast::<u8>(), bytes as usize) };
    let uri = str::from_utf8(uri).map_err(|_| fail!(why, Invalid, "a uri is not UTF-8"))?;
    target.uri_place(0).map_or(Ok(()), |place| normalize_uri(uri, place, why))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;
    use std::vec::Vec;

    /// A struct that has grown by two words since its first version.
    #[repr(C)]
    #[derive(Clone, Copy, Debug, PartialEq)]
    struct Grown {
        first: u64,
        second: u32,
        third: u32,
        fourth: u64,
    }

    impl Blank for Grown {
        const BLANK: Grown = Grown { first: 0, second: 0, third: 0, fourth: 0 };
    }

    const FIRST_BYTES: usize = offset_of!(Grown, second);

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
    fn what_a_struct_of_an_older_header_lacks_is_zeros_and_no_word_is_cut() {
        let whole = [0x11; size_of::<Grown>() + 8];
        for bytes in 0..=size_of::<Grown>() {
            let result = read(&whole[..bytes]);
            if bytes < FIRST_BYTES || bytes % 8 != 0 {
                let text = result.unwrap_err();
                assert!(
                    text.starts_with(&std::format!("grown_bytes = {bytes}: must be")),
                    "{text}"
                );
                assert!(text.contains("of 8: 24 in this version, 8 in the first"), "{text}");
                continue;
            }
            let grown = result.unwrap();
            assert_eq!(grown.first, 0x1111_1111_1111_1111);
            let second = if bytes > FIRST_BYTES { 0x1111_1111 } else { 0 };
            assert_eq!((grown.second, grown.third), (second, second));
            assert_eq!(grown.fourth == 0, bytes < size_of::<Grown>());
        }
        let mut newer = [0; size_of::<Grown>() + 8];
        assert_eq!(read(&newer), Ok(Grown::BLANK));
        newer[size_of::<Grown>()] = 1;
        assert!(read(&newer).unwrap_err().contains("byte 24 asks for something newer"));
    }
}
