//! The structs of wavetrain.h that this crate fills, declared here because it does not depend on
//! wavetrain. `tests/abi.rs` compares sizes and offsets with the header by a C compiler.

use std::ffi::{c_char, c_int, c_void};

/// WAVETRAIN_FILE_ABSENT.
pub const FILE_ABSENT: i64 = -1;
/// WAVETRAIN_FILE_FAILED.
pub const FILE_FAILED: i64 = -2;
/// WAVETRAIN_FILE_CHANGED: the file is not the version that was asked for.
pub const FILE_CHANGED: i64 = -3;
/// WAVETRAIN_FILE_UNLISTED: nothing is listed there.
pub const FILE_UNLISTED: i64 = -4;

/// `wavetrain_read_done`, whose address a config has.
pub type ReadDone = unsafe extern "C" fn(loader: u64, ticket: u64, result: i64) -> i32;

/// The function that `list` calls for each child.
pub type Found = unsafe extern "C" fn(context: *mut c_void, child: *const c_char, is_folder: c_int);

/// `read_async` of the files hook.
pub type ReadAsync = unsafe extern "C" fn(
    user: *mut c_void,
    loader: u64,
    ticket: u64,
    name: *const c_char,
    offset: u64,
    target: *mut c_void,
    bytes: u64,
) -> i64;

/// `read_version_async` of the store hook.
pub type ReadVersionAsync = unsafe extern "C" fn(
    user: *mut c_void,
    loader: u64,
    ticket: u64,
    name: *const c_char,
    version: *mut u8,
    offset: u64,
    target: *mut c_void,
    bytes: u64,
) -> i64;

/// `wavetrain_files_hook`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct FilesHook {
    /// Bytes of the struct.
    pub struct_size: usize,
    /// Handed to the functions of both hooks.
    pub user: *mut c_void,
    /// Bytes of a file.
    pub size: Option<unsafe extern "C" fn(user: *mut c_void, name: *const c_char) -> i64>,
    /// Exactly `bytes` bytes from `offset` on.
    pub read: Option<
        unsafe extern "C" fn(
            user: *mut c_void,
            name: *const c_char,
            offset: u64,
            target: *mut c_void,
            bytes: u64,
        ) -> i64,
    >,
    /// Begins the same read.
    pub read_async: Option<ReadAsync>,
}

/// `wavetrain_store_hook`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct StoreHook {
    /// Bytes of the struct.
    pub struct_size: usize,
    /// The last bytes of a file, its size and its version.
    pub read_tail: Option<
        unsafe extern "C" fn(
            user: *mut c_void,
            name: *const c_char,
            target: *mut c_void,
            bytes: u64,
            got: *mut u64,
            size: *mut u64,
            version: *mut u8,
        ) -> i64,
    >,
    /// As `read`, of one version.
    pub read_version: Option<
        unsafe extern "C" fn(
            user: *mut c_void,
            name: *const c_char,
            version: *mut u8,
            offset: u64,
            target: *mut c_void,
            bytes: u64,
        ) -> i64,
    >,
    /// As `read_async`, of one version.
    pub read_version_async: Option<ReadVersionAsync>,
    /// The children of a folder.
    pub list: Option<
        unsafe extern "C" fn(
            user: *mut c_void,
            name: *const c_char,
            found: Option<Found>,
            context: *mut c_void,
        ) -> i64,
    >,
    /// Bytes between two reads up to which they are made one.
    pub merge_gap_bytes: u64,
    /// Largest read that merging makes.
    pub merge_bytes_max: u64,
    /// Most reads in flight of a loader.
    pub reads_max: u32,
    /// 1: wavetrain does not try again what failed.
    pub retries_itself: u32,
}
