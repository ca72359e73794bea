//! A files hook over std::fs, so that reads take the way of files that may block.

use std::ffi::{CStr, c_char, c_void};
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use wavetrain::abi::{FILE_ABSENT, FILE_FAILED, FilesHook};
use wavetrain::config::Config;

/// The config with files read through the hook.
pub fn with_hook(config: Config) -> Config {
    let files = FilesHook { size: Some(size), read: Some(read), ..config.files };
    Config { files, ..config }
}

/// What stands before a path in a uri that only the hook reads.
pub const SCHEME: &str = "hooked://";

unsafe fn path<'a>(name: *const c_char) -> &'a str {
    // SAFETY: the library hands over a NUL-terminated name that lives during the call.
    let name = unsafe { CStr::from_ptr(name) }.to_str().expect("UTF-8");
    name.strip_prefix(SCHEME).unwrap_or(name)
}

fn answer(error: &std::io::Error) -> i64 {
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => FILE_ABSENT,
        _ => FILE_FAILED,
    }
}

/// `FilesHook::size` of the hook, for hooks of tests that do something before it.
pub unsafe extern "C" fn size(_user: *mut c_void, name: *const c_char) -> i64 {
    // SAFETY: as `path` says.
    match fs::metadata(unsafe { path(name) }) {
        Ok(metadata) if metadata.is_file() => metadata.len() as i64,
        Ok(_) => FILE_FAILED,
        Err(error) => answer(&error),
    }
}

/// `FilesHook::read` of the hook.
pub unsafe extern "C" fn read(
    _user: *mut c_void,
    name: *const c_char,
    offset: u64,
    target: *mut c_void,
    bytes: u64,
) -> i64 {
    // SAFETY: the target is the library's, `bytes` long, and nobody else's during the call.
    let target = unsafe { std::slice::from_raw_parts_mut(target.cast::<u8>(), bytes as usize) };
    // SAFETY: as `path` says.
    match File::open(unsafe { path(name) }).and_then(|file| file.read_exact_at(target, offset)) {
        Ok(()) => 0,
        Err(error) => answer(&error),
    }
}
