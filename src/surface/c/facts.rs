//! Descriptions of arrays and groups, for callers without a loader.
//!
//! In: a uri, hooks and scratch, checked here once. Out: a struct of the header, filled.

use super::structs::{
    answer, read_config, read_struct, scratch_from_c, struct_size, uri_from_c, write_struct,
};
use crate::base::abi::{ArrayInfo, Error, FilesHook, MetadataPart, SourceHook, StoreHook};
use crate::fail;
use crate::setup::config::{Config, MetadataTable};
use crate::setup::settings::check_files;
use crate::surface::info::fill_node;
use crate::surface::metadata::look_up;
use core::ffi::{c_char, c_void};
use core::slice;

/// Size of an ArrayInfo that has a place for the entries of a group.
const GROUP_INFO_BYTES: usize = core::mem::offset_of!(ArrayInfo, entries) + size_of::<usize>();

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
    // SAFETY: as the header says of each pointer.
    unsafe {
        answer(error, |why| {
            let uri = uri_from_c(uri, why)?;
            let files = match files.is_null() {
                true => FilesHook::NONE,
                false => read_struct(files, FilesHook::NONE, "files", why)?,
            };
            check_files(&files, why)?;
            let scratch = scratch_from_c(scratch, scratch_bytes, why)?;
            let mut value = ArrayInfo::EMPTY;
            // Who does not know of entries would take a group for an array of rank 0.
            let knows_groups = struct_size(info) >= GROUP_INFO_BYTES;
            let hooks = (&files, &StoreHook::NONE, SourceHook::NONE, MetadataTable::NONE);
            fill_node(uri, hooks, (scratch, knows_groups), &mut value, why)?;
            write_struct(info, &value, "info", why)
        })
    }
}

/// See the header.
///
/// # Safety
/// Pointers are NULL or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wavetrain_node_info(
    uri: *const c_char,
    config: *const Config,
    scratch: *mut c_void,
    scratch_bytes: usize,
    info: *mut ArrayInfo,
    error: *mut Error,
) -> i32 {
    // SAFETY: as the header says of each pointer.
    unsafe {
        answer(error, |why| {
            let uri = uri_from_c(uri, why)?;
            let read = read_config(config, why);
            let config = read.as_ref().map_err(|status| *status)?;
            check_files(&config.files, why)?;
            let scratch = scratch_from_c(scratch, scratch_bytes, why)?;
            let mut value = ArrayInfo::EMPTY;
            let hooks = (&config.files, &config.store, config.source, config.metadata);
            let knows_groups = struct_size(info) >= GROUP_INFO_BYTES;
            fill_node(uri, hooks, (scratch, knows_groups), &mut value, why)?;
            write_struct(info, &value, "info", why)
        })
    }
}

/// See the header.
///
/// # Safety
/// Pointers are NULL or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wavetrain_metadata(
    uri: *const c_char,
    config: *const Config,
    scratch: *mut c_void,
    scratch_bytes: usize,
    part: *mut MetadataPart,
    error: *mut Error,
) -> i32 {
    // SAFETY: as the header says of each pointer.
    unsafe {
        answer(error, |why| {
            let uri = uri_from_c(uri, why)?;
            let read = read_config(config, why);
            let config = read.as_ref().map_err(|status| *status)?;
            check_files(&config.files, why)?;
            let scratch = scratch_from_c(scratch, scratch_bytes, why)?;
            let mut value = read_struct(part, MetadataPart::EMPTY, "part", why)?;
            if value.out.is_null() {
                return Err(fail!(why, Invalid, "part.out is NULL"));
            }
            let target = slice::from_raw_parts_mut(value.out.cast(), value.out_bytes);
            look_up(config, uri, (scratch, target), &mut value, why)?;
            write_struct(part, &value, "part", why)
        })
    }
}
