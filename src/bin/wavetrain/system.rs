//! The tool's calls to the system, the thread that waits for signals, and the hooks that the
//! library calls, log and files: all the unsafe code of the tool is here.
//!
//! The library hands the text of a skipped sample to its log with the sample's tag. The sink keeps
//! the first text of each tag until the command asks for it.

use crate::fault::{Outcome, failed};
use crate::store;
use core::ffi::{CStr, c_char, c_void};
use std::collections::HashMap;
use std::ffi::{CString, OsStr};
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use wavetrain::abi::{FILE_ABSENT, FILE_FAILED, FilesHook, LogHook};

/// Texts by tag, of samples that failed and were not asked for yet.
static TEXTS: Mutex<Option<HashMap<u64, String>>> = Mutex::new(None);

/// The hook that keeps the texts of failing samples.
pub fn log_hook() -> LogHook {
    LogHook { struct_size: size_of::<LogHook>(), user: core::ptr::null_mut(), log: Some(keep_text) }
}

/// The text that the log gave for the sample with this tag, taken out of the sink.
pub fn take_text(tag: u64) -> Option<String> {
    let mut texts = TEXTS.lock().unwrap_or_else(PoisonError::into_inner);
    let text = texts.as_mut().and_then(|texts| texts.remove(&tag))?;
    Some(store::explained(&text))
}

/// Forgets the texts of an earlier stream, which had the same tags.
pub fn forget_texts() {
    *TEXTS.lock().unwrap_or_else(PoisonError::into_inner) = None;
}

unsafe extern "C" fn keep_text(
    _user: *mut c_void,
    _level: u32,
    tag: u64,
    text: *const c_char,
    text_bytes: u64,
) {
    // Tags of the tool start at 1: 0 marks lines that are about no sample.
    if tag == 0 || text.is_null() {
        return;
    }
    // SAFETY: the hook's contract gives text_bytes readable bytes for the time of this call.
    let bytes = unsafe { core::slice::from_raw_parts(text.cast::<u8>(), text_bytes as usize) };
    let line = String::from_utf8_lossy(bytes).into_owned();
    let mut texts = TEXTS.lock().unwrap_or_else(PoisonError::into_inner);
    texts.get_or_insert_with(HashMap::new).entry(tag).or_insert(line);
}

/// Files that the hook has opened, by name: it closes none.
static FILES: Mutex<Option<HashMap<CString, Arc<File>>>> = Mutex::new(None);

/// The hook that serves files of the system, one pread for each read.
pub fn files_hook() -> FilesHook {
    FilesHook { size: Some(file_size), read: Some(read_file), ..FilesHook::NONE }
}

fn opened(name: &CStr) -> io::Result<Arc<File>> {
    let mut files = FILES.lock().unwrap_or_else(PoisonError::into_inner);
    let files = files.get_or_insert_with(HashMap::new);
    if let Some(file) = files.get(name) {
        return Ok(Arc::clone(file));
    }
    let file = Arc::new(File::open(OsStr::from_bytes(name.to_bytes()))?);
    files.insert(name.to_owned(), Arc::clone(&file));
    Ok(file)
}

fn file_code(error: &io::Error) -> i64 {
    if error.kind() == io::ErrorKind::NotFound { FILE_ABSENT } else { FILE_FAILED }
}

unsafe extern "C" fn file_size(_user: *mut c_void, name: *const c_char) -> i64 {
    // SAFETY: the hook's contract gives a name that ends with NUL.
    let name = unsafe { CStr::from_ptr(name) };
    let bytes = opened(name).and_then(|file| file.metadata()).map(|found| found.len());
    bytes
        .map_or_else(|error| file_code(&error), |bytes| i64::try_from(bytes).unwrap_or(FILE_FAILED))
}

unsafe extern "C" fn read_file(
    _user: *mut c_void,
    name: *const c_char,
    offset: u64,
    target: *mut c_void,
    bytes: u64,
) -> i64 {
    // SAFETY: the hook's contract gives a name that ends with NUL.
    let name = unsafe { CStr::from_ptr(name) };
    // SAFETY: the hook's contract gives that many bytes of target for the time of this call.
    let target = unsafe { core::slice::from_raw_parts_mut(target.cast::<u8>(), bytes as usize) };
    let read = opened(name).and_then(|file| file.read_exact_at(target, offset));
    read.map_or_else(|error| file_code(&error), |()| 0)
}

/// Signals that end a program which does not ask for them.
const ENDING: [libc::c_int; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

/// Starts a thread that waits for a signal to end the program: it calls `clean`, and then lets the
/// signal do that. A signal that is ignored, as below nohup, stays so. Threads that start later
/// inherit the mask of this one, so this is the first that a program does.
pub fn clean_on_signal(clean: fn()) -> Outcome<()> {
    // SAFETY: a set of signals is plain integers, which sigemptyset fills.
    let mut ending: libc::sigset_t = unsafe { core::mem::zeroed() };
    // SAFETY: the pointer is to a live set of ours.
    unsafe { libc::sigemptyset(&raw mut ending) };
    for signal in ENDING {
        // SAFETY: all zero bytes are a value of the plain struct, which sigaction fills.
        let mut now: libc::sigaction = unsafe { core::mem::zeroed() };
        // SAFETY: the pointers are null, for no change, and to a live struct of ours.
        let asked = unsafe { libc::sigaction(signal, core::ptr::null(), &raw mut now) };
        if asked == 0 && now.sa_sigaction != libc::SIG_IGN {
            // SAFETY: the pointer is to a live set of ours.
            unsafe { libc::sigaddset(&raw mut ending, signal) };
        }
    }
    // SAFETY: the pointers are to a live set of ours, and null for the mask before.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const ending, core::ptr::null_mut()) };
    let wait = move || {
        let mut signal = 0;
        // SAFETY: the pointers are to live values of ours.
        if unsafe { libc::sigwait(&raw const ending, &raw mut signal) } != 0 {
            return;
        }
        clean();
        // SAFETY: the pointers are as above; the signal's action is still the system's, its end.
        unsafe {
            libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const ending, core::ptr::null_mut());
            libc::raise(signal);
        }
    };
    let started = std::thread::Builder::new().name("signals".to_owned()).spawn(wait);
    match started {
        Ok(_) => Ok(()),
        Err(error) => failed(format!("no thread can be started that waits for signals: {error}")),
    }
}

/// A process of this command ends if this one does, whatever ended it.
pub fn end_with_parent(command: &mut Command) {
    let parent = std::process::id();
    let ask = move || {
        // SAFETY: both calls may be made between fork and exec, and take no pointers.
        let (asked, now) = unsafe {
            let signal = libc::SIGKILL as libc::c_ulong;
            (libc::prctl(libc::PR_SET_PDEATHSIG, signal, 0, 0, 0), libc::getppid())
        };
        match asked == 0 && now as u32 == parent {
            true => Ok(()),
            false => Err(io::Error::from_raw_os_error(libc::ESRCH)),
        }
    };
    // SAFETY: the closure only makes system calls, which may be made between fork and exec.
    unsafe { command.pre_exec(ask) };
}

/// CPU seconds, user and system, that all threads of the process have used.
pub fn cpu_seconds() -> f64 {
    // SAFETY: rusage is plain integers, for which all zero bytes are a value.
    let mut usage: libc::rusage = unsafe { core::mem::zeroed() };
    // SAFETY: the pointer is to a live rusage of ours.
    if unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) } != 0 {
        return 0.0;
    }
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 * 1e-6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

/// Largest resident memory of the process since [`peak_rss_reset`], where the kernel allows that.
pub fn peak_rss_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

/// Forgets the peak so far. Where the kernel refuses, the peak of the whole life is reported.
pub fn peak_rss_reset() {
    let _ = fs::write("/proc/self/clear_refs", "5");
}
