//! The C surface: every `wavetrain_*` function of include/wavetrain.h, where its contract is, and
//! those of include/wavetrain_epoch.h and include/wavetrain_recipes.h.
//!
//! In: pointers. Out: statuses. Every pointer is checked here once and becomes a reference or a
//! slice; nothing below this module sees one. Structs are copied by the smaller of both sizes, so
//! callers of older and newer headers work; results are written only on success.

mod affine;
mod augment;
pub mod draws;
pub mod epoch;
mod facts;
mod feed;
pub mod lend;
pub mod node;
pub mod read;
pub mod recipes;
mod structs;
pub mod table;
pub mod tensors;
pub mod trace;

use crate::base::abi::{BatchInfo, Blank, Error, Memory, Sample, Stats};
use crate::base::limits::RANK_MAX;
use crate::base::status::{Failure, Status, Why, with_why};
use crate::cuda::{Event, Stream};
use crate::engine::calls::Popped;
use crate::engine::requests::Request;
use crate::fail;
use crate::jobs::read::hook::read_done;
use crate::os::SYSTEM;
use crate::setup::config::{BACKEND_CUDA, BACKEND_HOST, Config};
use crate::surface::handles::{Entered, close_token, enter, enter_taker, open_token};
use crate::surface::info::{fill_memory, fit};
use crate::surface::loader::forget_at;
use core::ffi::{c_char, c_void};
use core::{fmt, ptr};
use structs::{
    answer, read_config, read_sample, read_struct, scratch_from_c, told, uri_from_c, write_error,
    write_struct,
};

// With the functions below: all that the header declares.
#[cfg(feature = "internals")]
pub use facts::{wavetrain_array_info, wavetrain_metadata, wavetrain_node_info};
#[cfg(feature = "internals")]
pub use lend::wavetrain_lend;
#[cfg(feature = "internals")]
pub use read::wavetrain_read_into;
#[cfg(feature = "internals")]
pub use table::wavetrain_push_table;
#[cfg(feature = "internals")]
pub use tensors::{wavetrain_dlpack, wavetrain_dlpack_legacy};

/// Version of the library: major << 16 | minor << 8 | patch.
pub const VERSION: u32 = 1 << 8;

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
        ptr::copy_nonoverlapping((&raw const default).cast::<u8>(), target, common);
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
    // SAFETY: as the header says of each pointer.
    unsafe {
        answer(error, |why| {
            // Borrowed from the result: a second copy would stand below all that fits it.
            let mut read = read_config(config, why);
            let fitted = read.as_mut().map_err(|status| *status)?;
            let scratch = scratch_from_c(scratch, scratch_bytes, why)?;
            if uris.is_null() && uri_count > 0 {
                return Err(fail!(why, Invalid, "uris is NULL"));
            }
            let uri = |at: usize, why: &mut Why| uri_from_c(uris.add(at).read(), why);
            fit(fitted, (uri_count as usize, uri), scratch, why)?;
            write_fitted(config, fitted, why)
        })
    }
}

/// Writes the caps of a config. The rest stays as the caller wrote it, hooks of a smaller size
/// included.
///
/// # Safety
/// `config` has the writable bytes that it states.
#[inline(never)] // its copies of the config are not to stand on the stack of all that fits it
unsafe fn write_fitted(config: *mut Config, fitted: &Config, why: &mut Why) -> Result<(), Status> {
    // SAFETY: as said above.
    unsafe {
        let raised = Config {
            max_chunk_uncompressed_bytes: fitted.max_chunk_uncompressed_bytes,
            max_npy_files: fitted.max_npy_files,
            max_host_memory_bytes: fitted.max_host_memory_bytes,
            max_gpu_memory_bytes: fitted.max_gpu_memory_bytes,
            ..read_struct(config, Config::DEFAULT, "config", why)?
        };
        write_struct(config, &raised, "config", why)
    }
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
    let mut memory = Memory::EMPTY;
    // SAFETY: as the header says of each pointer.
    unsafe {
        answer(error, |why| {
            let config = read_config(config, why)?;
            let filled = fill_memory(&config, &mut memory, why);
            // The bill is a diagnostic: it is written on BUDGET as well, with the floor in it.
            if filled == Err(Status::Budget) {
                let _ = write_struct(need, &memory, "need", &mut Why::new());
            }
            filled?;
            write_struct(need, &memory, "need", why)
        })
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
    // SAFETY: as the header says of each pointer.
    unsafe {
        answer(error, |why| {
            if loader.is_null() {
                return Err(fail!(why, Invalid, "loader is NULL"));
            }
            let config = read_config(config, why)?;
            loader.write(open_token(&SYSTEM, &config, why)?);
            Ok(())
        })
    }
}

/// See the header.
///
/// # Safety
/// `held` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wavetrain_close(loader: u64, timeout_ns: u64, held: *mut u32) -> i32 {
    let (status, count) = close_token(loader, timeout_ns).err().unwrap_or((Status::Ok, 0));
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
    in_instance(loader, |instance| {
        let fill = |number: usize, at: u32, target: &mut Request<'_>| {
            // SAFETY: `count` samples of `sample_bytes` bytes each are readable, and
            // `check_samples` says that their bytes fit the address space.
            let read = |why: &mut Why| unsafe {
                read_sample(target, samples, (number, sample_bytes), at, why)
            };
            with_why(read).map_err(|failure| Failure { tag: target.tag, ..failure })
        };
        if taken.is_null() {
            return Err(invalid(format_args!("taken is NULL")));
        }
        let (number, result) = match check_samples(samples, count, sample_bytes) {
            Ok(()) => instance.push(count, fill, timeout_ns),
            Err(failure) => (0, Err(failure)),
        };
        // SAFETY: writable as the header says.
        unsafe { taken.write(number) };
        result.map(|()| if number < count { Status::Again } else { Status::Ok })
    })
}

/// Whether push may look at its samples at all.
fn check_samples(samples: *const Sample, count: usize, bytes: usize) -> Result<(), Failure> {
    if samples.is_null() && count > 0 {
        return Err(invalid(format_args!("samples is NULL")));
    }
    if count.checked_mul(bytes).is_none_or(|bytes| bytes > isize::MAX as usize) {
        return Err(invalid(format_args!("{count} samples of {bytes} bytes: no such array")));
    }
    Ok(())
}

/// The status of a call that only a loader answers. Why it failed is kept for last_error.
fn in_instance(loader: u64, call: impl FnOnce(&Entered) -> Result<Status, Failure>) -> i32 {
    in_entered(enter(loader), call)
}

/// The same of a call about batches.
fn in_taker(loader: u64, call: impl FnOnce(&Entered) -> Result<Status, Failure>) -> i32 {
    in_entered(enter_taker(loader), call)
}

fn in_entered(
    instance: Option<Entered>,
    call: impl FnOnce(&Entered) -> Result<Status, Failure>,
) -> i32 {
    let Some(instance) = instance else { return Status::Shutdown as i32 };
    let code = call(&instance).unwrap_or_else(|failure| {
        instance.set_call_error(&failure);
        failure.status
    });
    code as i32
}

/// An argument of a call that will not do.
fn invalid(text: fmt::Arguments<'_>) -> Failure {
    Failure::of(Status::Invalid, text)
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
    let instance = enter_taker(loader);
    let popped = match &instance {
        None => Err(Failure::shutdown()),
        Some(_) if batch.is_null() => Err(invalid(format_args!("batch is NULL"))),
        Some(instance) => instance.pop(timeout_ns),
    };
    let failure = match popped {
        Ok(Popped::Batch(token)) => {
            // SAFETY: writable as the header says.
            unsafe { batch.write(token) };
            return Status::Ok as i32;
        }
        Ok(Popped::End) => return Status::End as i32,
        Ok(Popped::Reset) => return Status::Reset as i32,
        Ok(Popped::Again(why)) => Failure::because(Status::Again, &why),
        Ok(Popped::Starved(why)) => Failure::because(Status::Starved, &why),
        Err(failure) => {
            if let Some(instance) = &instance {
                instance.set_call_error(&failure);
            }
            failure
        }
    };
    // SAFETY: the error is NULL or as the header says.
    unsafe { told(error, &failure) }
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
    in_taker(loader, |instance| {
        let view = instance.view(batch, field)?;
        let of = instance.shared.field(field);
        let mut shape = [0; RANK_MAX + 1];
        shape[0] = view.sample_count as u64;
        shape[1..=of.extents().len()].copy_from_slice(of.extents());
        let value = BatchInfo {
            data: view.data.as_ptr().cast(),
            bytes: view.data.bytes(),
            rank: of.rank + 1,
            dtype: of.dtype as u32,
            dtype_bytes: of.dtype_bytes,
            backend: if instance.device().is_some() { BACKEND_CUDA } else { BACKEND_HOST },
            device: instance.device().unwrap_or(-1),
            sample_count: view.sample_count,
            shape,
            ready_stream: view.ready_stream.map_or(ptr::null_mut(), Stream::as_raw),
            batch_id: view.batch_id,
            tags: view.tags.as_ptr(),
            statuses: view.statuses.as_ptr(),
            failed_samples: view.failed_samples,
            filled_shape: view.filled_shape.as_ptr(),
            digests: view.digests.map_or(ptr::null(), |(digests, _)| digests.as_ptr()),
            digest: view.digests.map_or(0, |(_, sum)| sum),
            name: of.name_nul().as_ptr().cast(),
            lend_tag: view.lend_tag.unwrap_or(0),
            is_lent: u32::from(view.lend_tag.is_some()),
            ..BatchInfo::EMPTY
        };
        // SAFETY: `info` is NULL or as the header says.
        with_why(|why| unsafe { write_struct(info, &value, "info", why) }).map(|()| Status::Ok)
    })
}

/// See the header. The driver gets `event`; this library does not look into it.
///
/// # Safety
/// On a device `event` is NULL or an event that lives until the call returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wavetrain_release(loader: u64, batch: u64, event: *mut c_void) -> i32 {
    in_taker(loader, |instance| {
        // SAFETY: the event is NULL or lives until the call returns, as the caller promises.
        let event = unsafe { Event::from_raw(event) };
        let event = Some(event).filter(|event| !event.is_null());
        instance.release(batch, event).map(|()| Status::Ok)
    })
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn wavetrain_reset(loader: u64) -> i32 {
    in_instance(loader, |instance| instance.reset().map(|()| Status::Ok))
}

/// See the header.
///
/// # Safety
/// `uri` is NULL or NUL-terminated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wavetrain_forget(loader: u64, uri: *const c_char) -> i32 {
    in_instance(loader, |instance| {
        if uri.is_null() {
            return forget_at(instance, None).map(|()| Status::Ok);
        }
        // SAFETY: it is not NULL, so it is NUL-terminated.
        let uri = with_why(|why| unsafe { uri_from_c(uri, why) })?;
        forget_at(instance, Some(uri)).map(|()| Status::Ok)
    })
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn wavetrain_pump(loader: u64, budget_ns: u64) -> i32 {
    in_instance(loader, |instance| {
        let did_work = instance.pump(budget_ns)?;
        Ok(if did_work { Status::Ok } else { Status::Again })
    })
}

/// See the header. The token, which a read carries instead of an address, leads nowhere after
/// close.
#[unsafe(no_mangle)]
pub extern "C" fn wavetrain_read_done(loader: u64, ticket: u64, result: i64) -> i32 {
    in_instance(loader, |instance| read_done(&instance.lock, ticket, result).map(|()| Status::Ok))
}

/// See the header.
///
/// # Safety
/// `stats` is NULL or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wavetrain_stats(loader: u64, stats: *mut Stats) -> i32 {
    in_instance(loader, |instance| {
        // Zeros take no bytes of the archive.
        let mut value: Stats = Blank::BLANK;
        instance.read_stats(&mut value);
        // SAFETY: `stats` is NULL or as the header says.
        with_why(|why| unsafe { write_struct(stats, &value, "stats", why) }).map(|()| Status::Ok)
    })
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn wavetrain_stats_reset(loader: u64) -> i32 {
    in_instance(loader, |instance| {
        instance.reset_stats();
        Ok(Status::Ok)
    })
}

/// See the header.
///
/// # Safety
/// `error` is NULL or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wavetrain_bad_chunk(loader: u64, number: u32, error: *mut Error) -> i32 {
    in_instance(loader, |instance| {
        let Some(failure) = instance.bad_chunk(number) else { return Ok(Status::End) };
        // SAFETY: the error is NULL or as the header says.
        let is_written = unsafe { write_error(error, &failure) };
        let text = "bad_chunk: error is NULL, or its struct_size is wrong";
        let refused = || Failure::of(Status::Invalid, format_args!("{text}"));
        if is_written { Ok(Status::Ok) } else { Err(refused()) }
    })
}

/// See the header.
///
/// # Safety
/// `error` is NULL or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wavetrain_last_error(loader: u64, error: *mut Error) -> i32 {
    let Some(instance) = enter(loader) else {
        // SAFETY: the error is NULL or as the header says.
        return unsafe { told(error, &Failure::shutdown()) };
    };
    // An owner that takes batches itself may have failed as its consumer 0.
    let of_taker = || enter_taker(loader).and_then(|taker| taker.last_error());
    let failure = instance.last_error().or_else(of_taker);
    let failure = failure.unwrap_or_else(|| Failure::new(Status::Ok));
    // SAFETY: the error is NULL or as the header says.
    let is_written = unsafe { write_error(error, &failure) };
    // This call keeps no text of its own, so that asking changes nothing.
    if is_written { Status::Ok as i32 } else { Status::Invalid as i32 }
}
