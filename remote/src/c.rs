//! The functions of wavetrain_remote.h. Over 500 lines, because all pointers of C end here.
//!
//! Pointers from C are checked here once and become slices, texts and targets; nothing else in the
//! crate sees them. No panic leaves a function. The header has the duties of callers; a function is
//! sound if they are kept.

use crate::abi::{FILE_FAILED, FilesHook, Found, ReadAsync, ReadDone, ReadVersionAsync, StoreHook};
use crate::client::{Callbacks, Client, OnError, code_of, expect_from};
use crate::config::{Config, statuses_from_text};
use crate::core::Expect;
use crate::error::{Error, Result};
use crate::stats::StatsView;
use crate::target::Target;
use crate::version::VERSION_BYTES;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

const OK: c_int = 0;
const INVALID: c_int = 1;
const FAILED: c_int = 2;

/// Most options of a config.
const OPTIONS_MAX: u32 = 256;

type ErrorFunction = unsafe extern "C" fn(user: *mut c_void, text: *const c_char);

/// `wavetrain_remote_config`.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(missing_docs)]
pub struct RemoteConfig {
    pub struct_size: usize,
    pub read_done: Option<ReadDone>,
    pub on_error: Option<ErrorFunction>,
    pub on_error_user: *mut c_void,
    pub n_threads: u32,
    pub reads_max: u32,
    pub cache_bytes: u64,
    pub max_entry_bytes: u64,
    pub n_objects: u32,
    pub n_stores: u32,
    pub retries_max: u32,
    pub whole_files: u32,
    pub backoff_min_ns: u64,
    pub backoff_max_ns: u64,
    pub connect_timeout_ns: u64,
    pub idle_timeout_ns: u64,
    pub total_timeout_ns: u64,
    pub max_age_ns: u64,
    pub archive_max_age_ns: u64,
    pub merge_gap_bytes: u64,
    pub merge_bytes_max: u64,
    pub anonymous: u32,
    pub allow_http: u32,
    pub path_style: u32,
    pub n_options: u32,
    pub options: *const *const c_char,
    pub endpoint: *const c_char,
    pub region: *const c_char,
    pub ca_file: *const c_char,
    pub proxy_url: *const c_char,
    pub absent: *const c_char,
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl Default for RemoteConfig {
    fn default() -> Self {
        let config = Config::default();
        Self {
            struct_size: size_of::<Self>(),
            read_done: None,
            on_error: None,
            on_error_user: std::ptr::null_mut(),
            n_threads: config.n_threads,
            reads_max: config.reads_max,
            cache_bytes: config.cache_bytes,
            max_entry_bytes: config.max_entry_bytes,
            n_objects: config.n_objects,
            n_stores: config.n_stores,
            retries_max: config.retries_max,
            whole_files: config.whole_files.into(),
            backoff_min_ns: nanoseconds(config.backoff_min),
            backoff_max_ns: nanoseconds(config.backoff_max),
            connect_timeout_ns: nanoseconds(config.connect_timeout),
            idle_timeout_ns: nanoseconds(config.idle_timeout),
            total_timeout_ns: nanoseconds(config.total_timeout),
            max_age_ns: nanoseconds(config.max_age),
            archive_max_age_ns: nanoseconds(config.archive_max_age),
            merge_gap_bytes: config.merge_gap_bytes,
            merge_bytes_max: config.merge_bytes_max,
            anonymous: 0,
            allow_http: 0,
            path_style: 0,
            n_options: 0,
            options: std::ptr::null(),
            endpoint: std::ptr::null(),
            region: std::ptr::null(),
            ca_file: std::ptr::null(),
            proxy_url: std::ptr::null(),
            absent: std::ptr::null(),
        }
    }
}

/// A text of the caller; nothing where the pointer is NULL.
///
/// # Safety
/// NULL, or a text that ends with a NUL and lives for `'a`.
unsafe fn text<'a>(pointer: *const c_char, what: &str) -> Result<Option<&'a str>> {
    if pointer.is_null() {
        return Ok(None);
    }
    // SAFETY: as this function asks.
    let text = unsafe { CStr::from_ptr(pointer) };
    match text.to_str() {
        Ok(text) => Ok(Some(text)),
        Err(_) => Err(Error::failed(format!("{what} is no UTF-8"))),
    }
}

/// # Safety
/// As `text`.
unsafe fn name<'a>(pointer: *const c_char) -> Result<&'a str> {
    // SAFETY: as `text` asks.
    let name = unsafe { text(pointer, "the name") }?;
    name.ok_or_else(|| Error::failed("the name is NULL"))
}

fn is_set(value: u32, what: &str) -> Result<bool> {
    match value {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(Error::failed(format!("{what} = {value}: take 0 or 1"))),
    }
}

/// # Safety
/// The pointers of the config are as the header asks.
unsafe fn config_from(from: &RemoteConfig) -> Result<Config> {
    let owned = |pointer, what| {
        // SAFETY: as this function asks.
        unsafe { text(pointer, what) }.map(|text| text.map(str::to_owned))
    };
    let absent = match owned(from.absent, "absent")? {
        None => Config::default().absent,
        Some(text) => statuses_from_text(&text)?,
    };
    let path_style = match from.path_style {
        0 => None,
        1 => Some(true),
        2 => Some(false),
        other => return Err(Error::failed(format!("path_style = {other}: take 0, 1 or 2"))),
    };
    // SAFETY: as this function asks.
    let options = unsafe { options_from(from) }?;
    Ok(Config {
        n_threads: from.n_threads,
        reads_max: from.reads_max,
        cache_bytes: from.cache_bytes,
        max_entry_bytes: from.max_entry_bytes,
        n_objects: from.n_objects,
        n_stores: from.n_stores,
        retries_max: from.retries_max,
        backoff_min: Duration::from_nanos(from.backoff_min_ns),
        backoff_max: Duration::from_nanos(from.backoff_max_ns),
        connect_timeout: Duration::from_nanos(from.connect_timeout_ns),
        idle_timeout: Duration::from_nanos(from.idle_timeout_ns),
        total_timeout: Duration::from_nanos(from.total_timeout_ns),
        max_age: Duration::from_nanos(from.max_age_ns),
        archive_max_age: Duration::from_nanos(from.archive_max_age_ns),
        merge_gap_bytes: from.merge_gap_bytes,
        merge_bytes_max: from.merge_bytes_max,
        whole_files: is_set(from.whole_files, "whole_files")?,
        anonymous: is_set(from.anonymous, "anonymous")?,
        allow_http: is_set(from.allow_http, "allow_http")?,
        path_style,
        endpoint: owned(from.endpoint, "endpoint")?,
        region: owned(from.region, "region")?,
        ca_file: owned(from.ca_file, "ca_file")?,
        proxy_url: owned(from.proxy_url, "proxy_url")?,
        absent,
        options,
    })
}

/// # Safety
/// `options` has `n_options` texts.
unsafe fn options_from(from: &RemoteConfig) -> Result<Vec<(String, String)>> {
    let count = from.n_options;
    if count > OPTIONS_MAX {
        return Err(Error::failed(format!("n_options = {count}: {OPTIONS_MAX} at most")));
    }
    if count > 0 && from.options.is_null() {
        return Err(Error::failed(format!("n_options = {count}, but options is NULL")));
    }
    let mut options = Vec::new();
    for index in 0..count as usize {
        // SAFETY: the array has `count` pointers to texts, as this function asks.
        let option = unsafe { text(*from.options.add(index), "an option") }?;
        // The text is not repeated: its value may be a secret.
        let broken = || Error::failed(format!("options[{index}]: take a text such as key=value"));
        let (key, value) = option.and_then(|text| text.split_once('=')).ok_or_else(broken)?;
        options.push((key.to_owned(), value.to_owned()));
    }
    Ok(options)
}

/// The function that failures are reported to, and its user.
struct Reporter {
    function: ErrorFunction,
    user: *mut c_void,
}

// SAFETY: the header asks for a function that may be called on any thread with that pointer.
unsafe impl Send for Reporter {}
// SAFETY: as above.
unsafe impl Sync for Reporter {}

impl Reporter {
    fn report(&self, text: &str) {
        let text = c_text(text);
        // SAFETY: the header asks for a function that takes these; the text is borrowed.
        unsafe { (self.function)(self.user, text.as_ptr()) };
    }
}

/// A text for C; a NUL in it, which no name can have, ends it.
fn c_text(text: &str) -> CString {
    let text = text.split('\0').next().unwrap_or_default();
    CString::new(text).unwrap_or_default()
}

/// Copies a text with its NUL as far as it fits; returns its bytes without the NUL.
///
/// # Safety
/// `buffer` has `bytes` bytes, or is NULL.
unsafe fn copy_text(text: &str, buffer: *mut c_char, bytes: usize) -> usize {
    if !buffer.is_null() && bytes > 0 {
        let mut count = text.len().min(bytes - 1);
        while !text.is_char_boundary(count) {
            count -= 1;
        }
        // SAFETY: `count` + 1 bytes fit, as this function asks, and the text is not the caller's.
        unsafe {
            std::ptr::copy_nonoverlapping(text.as_ptr(), buffer.cast(), count);
            *buffer.add(count) = 0;
        }
    }
    text.len()
}

/// Runs the body of a function; a panic, which is a defect, becomes `failed`.
fn guard<T>(failed: T, body: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or(failed)
}

/// # Safety
/// As the header asks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wavetrain_remote_config_default(
    config: *mut RemoteConfig,
    struct_size: usize,
) -> c_int {
    if config.is_null() || struct_size < size_of::<usize>() {
        return INVALID;
    }
    let default = RemoteConfig { struct_size, ..RemoteConfig::default() };
    let known = struct_size.min(size_of::<RemoteConfig>());
    // SAFETY: the caller's struct has `struct_size` bytes; what is known is copied, the rest is 0.
    unsafe {
        std::ptr::write_bytes(config.cast::<u8>(), 0, struct_size);
        std::ptr::copy_nonoverlapping((&raw const default).cast::<u8>(), config.cast(), known);
    }
    OK
}

/// The caller's config; what it is too old to know has its default.
///
/// # Safety
/// As the header asks.
unsafe fn read_config(config: *const RemoteConfig) -> Result<RemoteConfig> {
    let mut read = RemoteConfig::default();
    // SAFETY: the first member is there in each version of the struct.
    let size = unsafe { (&raw const (*config).struct_size).read() };
    let known = size_of::<RemoteConfig>();
    if size < size_of::<usize>() || size > 1 << 16 {
        let text = "set it by wavetrain_remote_config_default";
        return Err(Error::failed(format!("struct_size = {size}: {text}")));
    }
    // SAFETY: the struct has `size` bytes, and `read` at least as many as are copied. All bytes of
    // it are numbers and pointers, for which any value is one.
    unsafe {
        let bytes = config.cast::<u8>();
        std::ptr::copy_nonoverlapping(bytes, (&raw mut read).cast::<u8>(), size.min(known));
        for at in known..size {
            if *bytes.add(at) != 0 {
                return Err(Error::failed(
                    "the config has a member that is set and that this library is too old for",
                ));
            }
        }
    }
    Ok(read)
}

/// # Safety
/// As the header asks.
unsafe fn open(config: *const RemoteConfig) -> Result<Client> {
    if config.is_null() {
        return Err(Error::failed("config is NULL"));
    }
    // SAFETY: as the header asks.
    let (read, config) = unsafe {
        let read = read_config(config)?;
        (read, config_from(&read)?)
    };
    let user = read.on_error_user;
    let reporter = read.on_error.map(|function| Reporter { function, user });
    let on_error =
        reporter.map(|reporter| -> OnError { Box::new(move |text| reporter.report(text)) });
    Client::open(config, Callbacks { read_done: read.read_done, on_error })
}

/// # Safety
/// As the header asks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wavetrain_remote_open(
    config: *const RemoteConfig,
    client: *mut *mut Client,
    error: *mut c_char,
    error_bytes: usize,
) -> c_int {
    guard(FAILED, || {
        let opened = if client.is_null() {
            Err(Error::failed("client is NULL"))
        } else {
            // SAFETY: as the header asks.
            unsafe { open(config) }
        };
        match opened {
            Ok(opened) => {
                // SAFETY: the caller's variable.
                unsafe { *client = Box::into_raw(Box::new(opened)) };
                OK
            }
            Err(failure) => {
                // SAFETY: as the header asks.
                unsafe { copy_text(&failure.to_string(), error, error_bytes) };
                INVALID
            }
        }
    })
}

/// # Safety
/// As the header asks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wavetrain_remote_close(client: *mut Client) -> c_int {
    if client.is_null() {
        return OK;
    }
    guard(FAILED, || {
        // SAFETY: open made it, and the caller hands it in once.
        drop(unsafe { Box::from_raw(client) });
        OK
    })
}

/// # Safety
/// As the header asks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wavetrain_remote_cancel(client: *mut Client) -> c_int {
    // SAFETY: NULL, or a client that is open.
    let Some(client) = (unsafe { client.as_ref() }) else { return INVALID };
    guard(FAILED, || {
        client.cancel();
        OK
    })
}

/// # Safety
/// As the header asks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wavetrain_remote_last_error(
    client: *mut Client,
    buffer: *mut c_char,
    buffer_bytes: usize,
) -> usize {
    // SAFETY: NULL, or a client that is open.
    let client = unsafe { client.as_ref() };
    guard(0, || {
        let text = client.map_or_else(|| "client is NULL".to_owned(), Client::last_error);
        // SAFETY: as the header asks.
        unsafe { copy_text(&text, buffer, buffer_bytes) }
    })
}

/// # Safety
/// As the header asks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wavetrain_remote_stats(
    client: *mut Client,
    stats: *mut StatsView,
) -> c_int {
    // SAFETY: NULL, or a client that is open.
    let Some(client) = (unsafe { client.as_ref() }) else { return INVALID };
    if stats.is_null() {
        return INVALID;
    }
    guard(FAILED, || {
        // SAFETY: the first member says how many bytes the caller's struct has.
        let size = unsafe { (&raw const (*stats).struct_size).read() };
        if !(size_of::<usize>()..=1 << 16).contains(&size) {
            return INVALID;
        }
        let view = StatsView { struct_size: size, ..client.view() };
        let known = size.min(size_of::<StatsView>());
        // SAFETY: the caller's struct has `size` bytes.
        unsafe {
            std::ptr::write_bytes(stats.cast::<u8>(), 0, size);
            std::ptr::copy_nonoverlapping((&raw const view).cast::<u8>(), stats.cast(), known);
        }
        OK
    })
}

/// # Safety
/// As the header asks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wavetrain_remote_files_hook(
    client: *mut Client,
    hook: *mut FilesHook,
) -> c_int {
    // SAFETY: NULL, or a client that is open.
    let Some(opened) = (unsafe { client.as_ref() }) else { return INVALID };
    if hook.is_null() {
        return INVALID;
    }
    // SAFETY: the caller's struct.
    unsafe { hook.write(opened.files_hook()) };
    OK
}

/// # Safety
/// As the header asks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wavetrain_remote_store_hook(
    client: *mut Client,
    hook: *mut StoreHook,
) -> c_int {
    // SAFETY: NULL, or a client that is open.
    let Some(opened) = (unsafe { client.as_ref() }) else { return INVALID };
    if hook.is_null() {
        return INVALID;
    }
    // SAFETY: the caller's struct.
    unsafe { hook.write(opened.store_hook()) };
    OK
}

impl Client {
    /// The files hook of this client, which must stay where it is while the hook is in use.
    pub fn files_hook(&self) -> FilesHook {
        FilesHook {
            struct_size: size_of::<FilesHook>(),
            user: std::ptr::from_ref(self).cast_mut().cast(),
            size: Some(hook_size),
            read: Some(hook_read),
            read_async: self.has_read_done().then_some(hook_read_async as ReadAsync),
        }
    }

    /// The store hook of this client, as `files_hook`.
    pub fn store_hook(&self) -> StoreHook {
        let is_async = self.has_read_done();
        StoreHook {
            struct_size: size_of::<StoreHook>(),
            read_tail: Some(hook_read_tail),
            read_version: Some(hook_read_version),
            read_version_async: is_async.then_some(hook_read_version_async as ReadVersionAsync),
            list: Some(hook_list),
            merge_gap_bytes: self.config().merge_gap_bytes,
            merge_bytes_max: self.config().merge_bytes_max,
            reads_max: self.config().reads_max,
            retries_itself: 1,
        }
    }
}

/// The client of a hook's `user`.
///
/// # Safety
/// `user` is of a client that is open.
unsafe fn client_of<'a>(user: *mut c_void) -> Result<&'a Client> {
    // SAFETY: as this function asks.
    let client = unsafe { user.cast::<Client>().as_ref() };
    client.ok_or_else(|| Error::failed("user is NULL"))
}

/// The memory that a hook is to fill.
///
/// # Safety
/// `target` has `bytes` bytes, which nobody else uses until the read is over.
unsafe fn target_of(target: *mut c_void, bytes: u64) -> Result<Target> {
    if target.is_null() && bytes > 0 {
        return Err(Error::failed("the target of a read is NULL"));
    }
    let bytes = usize::try_from(bytes).map_err(|_| Error::failed("a read has too many bytes"))?;
    if bytes > isize::MAX as usize {
        return Err(Error::failed("a read has too many bytes"));
    }
    let first = if bytes == 0 { std::ptr::dangling_mut() } else { target.cast() };
    // SAFETY: as this function asks.
    Ok(unsafe { Target::new(first, bytes) })
}

fn code(result: Result<i64>) -> i64 {
    result.unwrap_or_else(|error| code_of(&error))
}

unsafe extern "C" fn hook_size(user: *mut c_void, file: *const c_char) -> i64 {
    guard(FILE_FAILED, || {
        // SAFETY: wavetrain calls with the hook's user and a name.
        let size =
            unsafe { client_of(user).and_then(|client| client.size(client.checked(name(file))?)) };
        code(size.map(|size| i64::try_from(size).unwrap_or(FILE_FAILED)))
    })
}

unsafe extern "C" fn hook_read(
    user: *mut c_void,
    file: *const c_char,
    offset: u64,
    target: *mut c_void,
    bytes: u64,
) -> i64 {
    guard(FILE_FAILED, || {
        // SAFETY: wavetrain calls with the hook's user, a name, and memory that it lends.
        let read = unsafe {
            client_of(user).and_then(|client| {
                let target = client.checked(target_of(target, bytes))?;
                client.read_into(client.checked(name(file))?, offset, target, Expect::Known)
            })
        };
        code(read.map(|_| 0))
    })
}

unsafe extern "C" fn hook_read_async(
    user: *mut c_void,
    loader: u64,
    ticket: u64,
    file: *const c_char,
    offset: u64,
    target: *mut c_void,
    bytes: u64,
) -> i64 {
    guard(FILE_FAILED, || {
        // SAFETY: wavetrain calls with the hook's user, a name, and memory that it lends until the
        // completion.
        let begun = unsafe {
            client_of(user).and_then(|client| {
                let target = client.checked(target_of(target, bytes))?;
                client.read_async(
                    loader,
                    ticket,
                    client.checked(name(file))?,
                    offset,
                    target,
                    Expect::Known,
                )
            })
        };
        code(begun.map(|()| 0))
    })
}

unsafe extern "C" fn hook_read_tail(
    user: *mut c_void,
    file: *const c_char,
    target: *mut c_void,
    bytes: u64,
    got: *mut u64,
    size: *mut u64,
    version: *mut u8,
) -> i64 {
    guard(FILE_FAILED, || {
        // SAFETY: wavetrain calls with the hook's user, a name, lent memory, and variables.
        let tail = unsafe {
            client_of(user).and_then(|client| {
                let target = client.checked(target_of(target, bytes))?;
                client.read_tail_into(client.checked(name(file))?, target)
            })
        };
        code(tail.map(|tail| {
            // SAFETY: as above; a variable that is NULL is not wanted.
            unsafe {
                if !got.is_null() {
                    *got = tail.got;
                }
                if !size.is_null() {
                    *size = tail.size;
                }
                if !version.is_null() {
                    write_version(version, &tail.version);
                }
            }
            0
        }))
    })
}

/// # Safety
/// `version` has `VERSION_BYTES` bytes.
unsafe fn write_version(version: *mut u8, digest: &[u8; VERSION_BYTES]) {
    // SAFETY: as this function asks.
    unsafe { std::ptr::copy_nonoverlapping(digest.as_ptr(), version, VERSION_BYTES) };
}

/// The version that a hook is asked for; NULL: any.
///
/// # Safety
/// `version` is NULL or has `VERSION_BYTES` bytes.
unsafe fn read_digest(version: *const u8) -> [u8; VERSION_BYTES] {
    let mut digest = [0; VERSION_BYTES];
    if !version.is_null() {
        // SAFETY: as this function asks.
        unsafe { std::ptr::copy_nonoverlapping(version, digest.as_mut_ptr(), VERSION_BYTES) };
    }
    digest
}

unsafe extern "C" fn hook_read_version(
    user: *mut c_void,
    file: *const c_char,
    version: *mut u8,
    offset: u64,
    target: *mut c_void,
    bytes: u64,
) -> i64 {
    guard(FILE_FAILED, || {
        // SAFETY: as in `hook_read`, and the version has its bytes.
        let read = unsafe {
            client_of(user).and_then(|client| {
                let (expect, target) =
                    (expect_from(read_digest(version)), client.checked(target_of(target, bytes))?);
                client.read_into(client.checked(name(file))?, offset, target, expect)
            })
        };
        code(read.map(|digest| {
            if !version.is_null() {
                // SAFETY: as above.
                unsafe { write_version(version, &digest) };
            }
            0
        }))
    })
}

unsafe extern "C" fn hook_read_version_async(
    user: *mut c_void,
    loader: u64,
    ticket: u64,
    file: *const c_char,
    version: *mut u8,
    offset: u64,
    target: *mut c_void,
    bytes: u64,
) -> i64 {
    guard(FILE_FAILED, || {
        // SAFETY: as in `hook_read_async`; the version is borrowed until this returns.
        let begun = unsafe {
            client_of(user).and_then(|client| {
                let (expect, target) =
                    (expect_from(read_digest(version)), client.checked(target_of(target, bytes))?);
                client.read_async(
                    loader,
                    ticket,
                    client.checked(name(file))?,
                    offset,
                    target,
                    expect,
                )
            })
        };
        code(begun.map(|()| 0))
    })
}

unsafe extern "C" fn hook_list(
    user: *mut c_void,
    file: *const c_char,
    found: Option<Found>,
    context: *mut c_void,
) -> i64 {
    guard(FILE_FAILED, || {
        // SAFETY: wavetrain calls with the hook's user and a name.
        let list =
            unsafe { client_of(user).and_then(|client| client.list(client.checked(name(file))?)) };
        code(list.map(|children| {
            for (child, is_folder) in children {
                let child = c_text(&child);
                if let Some(found) = found {
                    // SAFETY: wavetrain's function, called on its thread with its context.
                    unsafe { found(context, child.as_ptr(), is_folder.into()) };
                }
            }
            0
        }))
    })
}
