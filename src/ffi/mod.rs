//! The C surface: every `wavetrain_*` function of include/wavetrain.h, where its contract is.
//!
//! In: pointers. Out: statuses. Every pointer is checked here once and becomes a reference or a
//! slice; nothing below this module sees one. Structs are copied by the smaller of both sizes, so
//! callers of older and newer headers work; results are written only on success.

pub mod handles;

use crate::abi::{ArrayInfo, BatchInfo, Error, FilesHook, Memory, Sample, SampleBox, Stats};
use crate::config::{BACKEND_HOST, Config};
use crate::fail;
use crate::limits::RANK_MAX;
use crate::loader::{close_token, fill_info, fill_memory, open_token};
use crate::meta::normalize_uri;
use crate::os::SYSTEM;
use crate::pipeline::{Popped, Request};
use crate::status::{Failure, Status, Why};
use core::ffi::{CStr, c_char, c_void};
use core::mem::offset_of;
use handles::enter;

// SAFETY: the pointers in a config are the caller's. We hand them back to its hooks, whose contract
// is that they may be called from any thread, and never follow them ourselves.
unsafe impl Send for Config {}
// SAFETY: as for Send.
unsafe impl Sync for Config {}

/// Version of the library: major << 16 | minor << 8 | patch.
pub const VERSION: u32 = 1 << 8;

/// Longest C string that is looked at for its NUL.
const STRING_BYTES_MAX: usize = 1 << 16;

/// Copies the bytes that a caller and we both know of a struct that starts with its size.
///
/// # Safety
/// `source` points to a readable `struct_size` and that many bytes.
unsafe fn read_struct<T: Copy>(source: *const T, mut known: T, why: &mut Why) -> Result<T, Status> {
    if source.is_null() {
        return Err(fail!(why, Invalid, "a struct pointer is NULL"));
    }
    // SAFETY: the caller's struct starts with its size; it may be unaligned for all we know.
    let size = unsafe { source.cast::<usize>().read_unaligned() };
    if size < size_of::<usize>() {
        return Err(fail!(why, Invalid, "struct_size = {size}: not filled in"));
    }
    let common = size.min(size_of::<T>());
    // SAFETY: `common` bytes are readable at the source by its size, and writable in `known`.
    // Every struct that is read this way is plain old data of which any byte pattern is a value.
    unsafe {
        let target = (&raw mut known).cast::<u8>();
        core::ptr::copy_nonoverlapping(source.cast::<u8>(), target, common);
        for offset in common..size.min(common + STRING_BYTES_MAX) {
            if source.cast::<u8>().add(offset).read() != 0 {
                return Err(fail!(
                    why,
                    Invalid,
                    "struct_size = {size}: this version knows {common} bytes, and byte {offset} \
                     asks for something newer"
                ));
            }
        }
    }
    Ok(known)
}

/// Writes the bytes that the caller knows of `value`, keeping its struct_size.
///
/// # Safety
/// `target` points to a readable `struct_size` and that many writable bytes.
unsafe fn write_struct<T>(target: *mut T, value: &T) -> bool {
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

/// Fills the caller's error, where there is one.
///
/// # Safety
/// As for `write_struct`, or NULL.
unsafe fn write_error(target: *mut Error, failure: &Failure) {
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
    unsafe { write_struct(target, &error) };
}

/// Ends a call: fills the error of a failure, and gives the code.
///
/// # Safety
/// As for `write_error`.
unsafe fn finish(result: Result<(), Status>, why: &Why, error: *mut Error) -> i32 {
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
/// `text` is NULL or points to a NUL within STRING_BYTES_MAX bytes.
unsafe fn string_from_c<'a>(text: *const c_char, why: &mut Why) -> Result<&'a str, Status> {
    if text.is_null() {
        return Err(fail!(why, Invalid, "a uri is NULL"));
    }
    // SAFETY: as the function asks.
    let bytes = unsafe { CStr::from_ptr(text) };
    bytes.to_str().map_err(|_| fail!(why, Invalid, "a uri is not UTF-8"))
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn wavetrain_version() -> u32 {
    VERSION
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn wavetrain_status_str(status: i32) -> *const c_char {
    let name = Status::from_code(status).map_or("UNKNOWN\0", Status::name_nul);
    name.as_ptr().cast()
}

/// See the header.
///
/// # Safety
/// `config` is NULL or has `struct_size` writable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wavetrain_config_default(config: *mut Config, struct_size: usize) -> i32 {
    if config.is_null() || struct_size < size_of::<usize>() {
        return Status::Invalid as i32;
    }
    let default = Config { struct_size, ..Config::default() };
    let common = struct_size.min(size_of::<Config>());
    // SAFETY: `struct_size` bytes are writable; those past what we know are zeroed.
    unsafe {
        let target = config.cast::<u8>();
        core::ptr::copy_nonoverlapping((&raw const default).cast::<u8>(), target, common);
        target.add(common).write_bytes(0, struct_size - common);
    }
    Status::Ok as i32
}

/// See the header.
///
/// # Safety
/// Pointers are NULL or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wavetrain_config_fit(
    config: *mut Config,
    uris: *const *const c_char,
    uri_count: u32,
    scratch: *mut c_void,
    scratch_bytes: usize,
    error: *mut Error,
) -> i32 {
    let mut why = Why::new();
    // SAFETY: as the header says of each pointer.
    unsafe {
        let result = (|| {
            let mut fitted = read_struct(config, Config::default(), &mut why)?;
            let scratch = scratch_from_c(scratch, scratch_bytes, &mut why)?;
            if uris.is_null() && uri_count > 0 {
                return Err(fail!(why, Invalid, "uris is NULL"));
            }
            let mut uri_why = Why::new();
            let names =
                (0..uri_count as usize).map(|at| string_from_c(uris.add(at).read(), &mut uri_why));
            crate::info::fit(&mut fitted, names, scratch, &mut why).inspect_err(|_| {
                if why.is_empty() {
                    why = uri_why;
                }
            })?;
            write_struct(config, &fitted);
            Ok(())
        })();
        finish(result, &why, error)
    }
}

unsafe fn scratch_from_c<'a>(
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

/// See the header.
///
/// # Safety
/// Pointers are NULL or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wavetrain_memory_need(
    config: *const Config,
    need: *mut Memory,
    error: *mut Error,
) -> i32 {
    let mut why = Why::new();
    let mut memory = Memory::EMPTY;
    // SAFETY: as the header says of each pointer.
    unsafe {
        let result = read_struct(config, Config::default(), &mut why)
            .and_then(|config| fill_memory(&config, &mut memory, &mut why));
        // The bill is a diagnostic: it is written on BUDGET as well, with the floor in it.
        let is_wanted = matches!(result, Ok(()) | Err(Status::Budget));
        if is_wanted && !write_struct(need, &memory) && result.is_ok() {
            let status = fail!(why, Invalid, "need is NULL, or its struct_size is not set");
            return finish(Err(status), &why, error);
        }
        finish(result, &why, error)
    }
}

/// See the header.
///
/// # Safety
/// Pointers are NULL or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wavetrain_open(
    config: *const Config,
    loader: *mut u64,
    error: *mut Error,
) -> i32 {
    let mut why = Why::new();
    // SAFETY: as the header says of each pointer.
    unsafe {
        let result = if loader.is_null() {
            Err(fail!(why, Invalid, "loader is NULL"))
        } else {
            read_struct(config, Config::default(), &mut why)
                .and_then(|config| open_token(&SYSTEM, &config, &mut why))
                .map(|token| loader.write(token))
        };
        finish(result, &why, error)
    }
}

/// See the header.
///
/// # Safety
/// `held` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wavetrain_close(loader: u64, timeout_ns: u64, held: *mut u32) -> i32 {
    let (status, count) = match close_token(loader, timeout_ns) {
        Ok(()) => (Status::Ok, 0),
        Err(failure) => failure,
    };
    if !held.is_null() {
        // SAFETY: writable as the header says.
        unsafe { held.write(count) };
    }
    status as i32
}

/// See the header.
///
/// # Safety
/// Pointers are NULL or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wavetrain_push(
    loader: u64,
    samples: *const Sample,
    count: usize,
    sample_bytes: usize,
    timeout_ns: u64,
    taken: *mut usize,
) -> i32 {
    let mut done = 0;
    let status = match enter(loader) {
        None => Status::Shutdown,
        _ if count > 0 && samples.is_null() => Status::Invalid,
        _ if sample_bytes < size_of::<Sample>() => Status::Invalid,
        Some(instance) => {
            let fill = |number: usize, target: &mut Request| {
                let mut why = Why::new();
                // SAFETY: `count` samples of `sample_bytes` bytes each are readable.
                let filled = unsafe {
                    let sample = samples.cast::<u8>().add(number * sample_bytes).cast::<Sample>();
                    fill_request(target, &sample.read_unaligned(), &mut why)
                };
                filled.map_err(|status| Failure::because(status, &why))
            };
            let (number, result) = instance.push(count, fill, timeout_ns);
            done = number;
            match result {
                Ok(()) if number < count => Status::Again,
                Ok(()) => Status::Ok,
                Err(failure) => {
                    instance.set_push_error(&failure);
                    failure.status
                }
            }
        }
    };
    if !taken.is_null() {
        // SAFETY: writable as the header says.
        unsafe { taken.write(done) };
    }
    status as i32
}

/// Checks a caller's sample and copies it.
///
/// # Safety
/// `boxes` and `uri` are NULL or readable as the header says.
unsafe fn fill_request(target: &mut Request, sample: &Sample, why: &mut Why) -> Result<(), Status> {
    if sample.boxes.is_null() || sample.n_fields != 1 {
        return Err(fail!(why, Invalid, "a sample has exactly one box, not {}", sample.n_fields));
    }
    if (sample.box_bytes as usize) < size_of::<SampleBox>() {
        return Err(fail!(why, Invalid, "box_bytes = {}: not filled in", sample.box_bytes));
    }
    // SAFETY: one box of at least this size is readable.
    let source = unsafe { sample.boxes.read_unaligned() };
    let rank = source.rank as usize;
    if rank == 0 || rank > RANK_MAX {
        return Err(fail!(why, Rank, "a box of rank {rank}: must be 1 to {RANK_MAX}"));
    }
    if source.uri.is_null() || source.uri_bytes > STRING_BYTES_MAX as u64 {
        return Err(fail!(why, Invalid, "a uri is NULL, or its length is not filled in"));
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

/// The status of a call that only an instance answers.
fn in_instance(
    loader: u64,
    call: impl FnOnce(&handles::Entered) -> Result<Status, Failure>,
) -> i32 {
    let Some(instance) = enter(loader) else { return Status::Shutdown as i32 };
    call(&instance).unwrap_or_else(|failure| failure.status) as i32
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn wavetrain_flush(loader: u64) -> i32 {
    in_instance(loader, |instance| instance.flush().map(|()| Status::Ok))
}

/// See the header.
///
/// # Safety
/// Pointers are NULL or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wavetrain_pop(
    loader: u64,
    timeout_ns: u64,
    batch: *mut u64,
    error: *mut Error,
) -> i32 {
    let Some(instance) = enter(loader) else {
        // SAFETY: as the header says.
        unsafe { write_error(error, &Failure::new(Status::Shutdown)) };
        return Status::Shutdown as i32;
    };
    if batch.is_null() {
        let mut why = Why::new();
        let status = fail!(why, Invalid, "batch is NULL");
        // SAFETY: as the header says.
        return unsafe { finish(Err(status), &why, error) };
    }
    let failure = match instance.pop(timeout_ns) {
        Ok(Popped::Batch(token)) => {
            // SAFETY: writable as the header says.
            unsafe { batch.write(token) };
            return Status::Ok as i32;
        }
        Ok(Popped::End) => return Status::End as i32,
        Ok(Popped::Again(why)) => Failure::because(Status::Again, &why),
        Ok(Popped::Starved(why)) => Failure::because(Status::Starved, &why),
        Err(failure) => failure,
    };
    // SAFETY: as the header says.
    unsafe { write_error(error, &failure) };
    failure.status as i32
}

/// See the header.
///
/// # Safety
/// Pointers are NULL or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wavetrain_batch_info(
    loader: u64,
    batch: u64,
    field: u32,
    info: *mut BatchInfo,
) -> i32 {
    in_instance(loader, |instance| {
        if field != 0 {
            return Ok(Status::Invalid);
        }
        let view = instance.view(batch)?;
        let config = &instance.settings.config;
        let mut shape = [0; RANK_MAX + 1];
        shape[0] = view.sample_count as u64;
        let rank = config.sample_rank as usize;
        shape[1..=rank].copy_from_slice(&config.sample_shape[..rank]);
        let value = BatchInfo {
            struct_size: size_of::<BatchInfo>(),
            data: view.data.as_ptr().cast(),
            bytes: view.data.bytes(),
            rank: config.sample_rank + 1,
            dtype: instance.settings.dtype as u32,
            dtype_bytes: instance.settings.dtype_bytes,
            backend: BACKEND_HOST,
            device: -1,
            sample_count: view.sample_count,
            shape,
            ready_stream: core::ptr::null_mut(),
            batch_id: view.batch_id,
            tags: view.tags.as_ptr(),
            statuses: view.statuses.as_ptr(),
            failed_samples: view.failed_samples,
            reserved: 0,
        };
        // SAFETY: as the header says.
        let written = unsafe { write_struct(info, &value) };
        Ok(if written { Status::Ok } else { Status::Invalid })
    })
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn wavetrain_release(loader: u64, batch: u64, event: *mut c_void) -> i32 {
    in_instance(loader, |instance| {
        if !event.is_null() {
            return Ok(Status::Unsupported);
        }
        instance.release(batch).map(|()| Status::Ok)
    })
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn wavetrain_reset(loader: u64) -> i32 {
    in_instance(loader, |instance| instance.reset().map(|()| Status::Ok))
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn wavetrain_pump(loader: u64, budget_ns: u64) -> i32 {
    in_instance(loader, |instance| {
        let did_work = instance.pump(budget_ns)?;
        Ok(if did_work { Status::Ok } else { Status::Again })
    })
}

/// See the header.
///
/// # Safety
/// `stats` is NULL or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wavetrain_stats(loader: u64, stats: *mut Stats) -> i32 {
    in_instance(loader, |instance| {
        let mut value = Stats::EMPTY;
        instance.read_stats(&mut value);
        // SAFETY: as the header says.
        let written = unsafe { write_struct(stats, &value) };
        Ok(if written { Status::Ok } else { Status::Invalid })
    })
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn wavetrain_stats_reset(loader: u64) -> i32 {
    in_instance(loader, |instance| {
        instance.stats.reset();
        Ok(Status::Ok)
    })
}

/// See the header.
///
/// # Safety
/// `error` is NULL or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wavetrain_last_error(loader: u64, error: *mut Error) -> i32 {
    in_instance(loader, |instance| {
        let failure = instance.last_error().unwrap_or_else(|| Failure::new(Status::Ok));
        // SAFETY: as the header says.
        unsafe { write_error(error, &failure) };
        Ok(if error.is_null() { Status::Invalid } else { Status::Ok })
    })
}

/// See the header.
///
/// # Safety
/// Pointers are NULL or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wavetrain_array_info(
    uri: *const c_char,
    files: *const FilesHook,
    scratch: *mut c_void,
    scratch_bytes: usize,
    info: *mut ArrayInfo,
    error: *mut Error,
) -> i32 {
    let mut why = Why::new();
    // SAFETY: as the header says of each pointer.
    unsafe {
        let result = (|| {
            let uri = string_from_c(uri, &mut why)?;
            let default = Config::default().files;
            let files =
                if files.is_null() { default } else { read_struct(files, default, &mut why)? };
            let scratch = scratch_from_c(scratch, scratch_bytes, &mut why)?;
            let mut value = ArrayInfo::EMPTY;
            fill_info(uri, &files, scratch, &mut value, &mut why)?;
            if !write_struct(info, &value) {
                return Err(fail!(why, Invalid, "info is NULL, or its struct_size is not set"));
            }
            Ok(())
        })();
        finish(result, &why, error)
    }
}

// Every struct that the helpers above copy starts with its size.
const _: () = assert!(
    offset_of!(Config, struct_size) == 0
        && offset_of!(Error, struct_size) == 0
        && offset_of!(Memory, struct_size) == 0
        && offset_of!(BatchInfo, struct_size) == 0
        && offset_of!(Stats, struct_size) == 0
        && offset_of!(ArrayInfo, struct_size) == 0
        && offset_of!(FilesHook, struct_size) == 0
);
