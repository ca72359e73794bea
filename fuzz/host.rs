//! A host of loaders: its job system, its files whose reads end later, its profiler, its last words.
//!
//! In: hooks that the library calls, and when the target says that the host does something. Out:
//! jobs run, on this thread or another one, once or twice, in time or too late; reads completed in
//! any order, some as failed although the file is sound. Checked on the way: one thread at a time
//! is in `run`, ranges are nested and have the names of the header, and nothing is fatal.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::ffi::{CStr, CString, c_char, c_void};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use wavetrain::abi::{
    FILE_ABSENT, FILE_FAILED, FatalHook, FilesHook, HostJob, ProfilerHook, WorkersHook,
};
use wavetrain::surface::c::wavetrain_read_done;

/// A job and its argument.
#[derive(Clone, Copy)]
struct Job {
    run: HostJob,
    argument: usize,
}

/// A read that the host has begun.
struct HostRead {
    loader: u64,
    ticket: u64,
    name: CString,
    offset: u64,
    target: usize,
    bytes: u64,
}

impl HostRead {
    /// Writes over all that the read is to bring.
    fn paint(&self) {
        let target = std::ptr::with_exposed_provenance_mut::<u8>(self.target);
        // SAFETY: the target is the host's, this long, until the completion.
        unsafe { target.write_bytes(0xEE, self.bytes as usize) };
    }
}

/// See the module.
pub struct Host {
    /// Jobs run and reads end before run and read_async return; else when the target says so.
    is_inline: bool,
    /// The files that reads are of.
    below: FilesHook,
    jobs: Mutex<VecDeque<Job>>,
    reads: Mutex<Vec<HostRead>>,
    is_submitting: AtomicBool,
    dice: AtomicU64,
}

// SAFETY: what the hook below points to is only read.
unsafe impl Sync for Host {}

impl Host {
    pub fn new(below: FilesHook, is_inline: bool) -> Host {
        Host {
            is_inline,
            below,
            jobs: Mutex::default(),
            reads: Mutex::default(),
            is_submitting: AtomicBool::new(false),
            dice: AtomicU64::new(0),
        }
    }

    fn user(&self) -> *mut c_void {
        std::ptr::from_ref(self).cast_mut().cast()
    }

    pub fn workers(&self) -> WorkersHook {
        WorkersHook { user: self.user(), run: Some(run), ..WorkersHook::NONE }
    }

    pub fn files(&self) -> FilesHook {
        FilesHook {
            user: self.user(),
            size: Some(size),
            read: Some(read),
            read_async: Some(read_async),
            ..FilesHook::NONE
        }
    }

    /// True once in `times`; other threads may ask between.
    fn rarely(&self, times: u64) -> bool {
        let mixed = self.dice.fetch_add(1, SeqCst).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (mixed >> 40).is_multiple_of(times)
    }

    /// Runs a job that waits, on another thread or twice if so chosen; whether there was one.
    pub fn run_job(&self, is_last: bool, is_elsewhere: bool, is_twice: bool) -> bool {
        let job = {
            let jobs = &mut *self.jobs.lock().unwrap();
            if is_last { jobs.pop_back() } else { jobs.pop_front() }
        };
        let Some(Job { run, argument }) = job else { return false };
        // SAFETY: it is the argument that came with the job.
        let run = || unsafe { run(std::ptr::without_provenance_mut(argument)) };
        if is_elsewhere {
            std::thread::scope(|scope| drop(scope.spawn(run)));
        } else {
            run();
        }
        if is_twice {
            run();
        }
        true
    }

    /// Reads of a loader that are in flight.
    pub fn in_flight(&self, loader: u64) -> usize {
        self.reads.lock().unwrap().iter().filter(|read| read.loader == loader).count()
    }

    pub fn is_in_flight(&self, loader: u64, ticket: u64) -> bool {
        let reads = self.reads.lock().unwrap();
        reads.iter().any(|read| (read.loader, read.ticket) == (loader, ticket))
    }

    /// Completes a read of the loader; its ticket.
    pub fn complete(&self, loader: u64, place: usize) -> Option<u64> {
        let read = {
            let reads = &mut *self.reads.lock().unwrap();
            let mut of_it = (0..reads.len()).filter(|at| reads[*at].loader == loader);
            let at = of_it.clone().nth(place).or_else(|| of_it.next())?;
            reads.remove(at)
        };
        let ticket = read.ticket;
        self.end(read);
        Some(ticket)
    }

    pub fn complete_all(&self, loader: u64) {
        while self.complete(loader, 0).is_some() {}
    }

    /// Writes over the targets of all reads in flight, as their host may.
    pub fn paint(&self) {
        self.reads.lock().unwrap().iter().for_each(HostRead::paint);
    }

    fn end(&self, read: HostRead) {
        let HostRead { loader, ticket, name, offset, target, bytes } = &read;
        read.paint();
        let wrong = [FILE_FAILED, FILE_ABSENT, 5, i64::MIN, i64::MAX];
        let result = match self.rarely(4) {
            true => wrong[*ticket as usize % wrong.len()],
            false => {
                let target = std::ptr::with_exposed_provenance_mut(*target);
                let below = self.below.read.expect("a function");
                // SAFETY: the target is the host's until the completion.
                unsafe { below(self.below.user, name.as_ptr(), *offset, target, *bytes) }
            }
        };
        assert_eq!(wavetrain_read_done(*loader, *ticket, result), 0);
    }
}

fn host<'a>(user: *mut c_void) -> &'a Host {
    // SAFETY: the host outlives its loaders.
    unsafe { &*user.cast::<Host>() }
}

unsafe extern "C" fn run(user: *mut c_void, job: HostJob, argument: *mut c_void) {
    let host = host(user);
    assert!(!host.is_submitting.swap(true, SeqCst), "two threads are in run");
    if host.is_inline {
        // SAFETY: it is the argument that came with the job.
        unsafe { job(argument) };
    } else {
        host.jobs.lock().unwrap().push_back(Job { run: job, argument: argument.addr() });
    }
    host.is_submitting.store(false, SeqCst);
}

unsafe extern "C" fn size(user: *mut c_void, name: *const c_char) -> i64 {
    let below = host(user).below;
    // SAFETY: as we were called.
    unsafe { below.size.expect("a function")(below.user, name) }
}

unsafe extern "C" fn read(
    user: *mut c_void,
    name: *const c_char,
    offset: u64,
    target: *mut c_void,
    bytes: u64,
) -> i64 {
    let below = host(user).below;
    // SAFETY: as we were called.
    unsafe { below.read.expect("a function")(below.user, name, offset, target, bytes) }
}

unsafe extern "C" fn read_async(
    user: *mut c_void,
    loader: u64,
    ticket: u64,
    name: *const c_char,
    offset: u64,
    target: *mut c_void,
    bytes: u64,
) -> i64 {
    let host = host(user);
    assert!(loader != 0 && bytes > 0 && !host.is_in_flight(loader, ticket));
    if host.rarely(8) {
        return if host.rarely(2) { FILE_FAILED } else { 9 };
    }
    // SAFETY: the name has a NUL; it is borrowed, so it is copied.
    let name = unsafe { CStr::from_ptr(name) }.to_owned();
    let target = target.expose_provenance();
    let read = HostRead { loader, ticket, name, offset, target, bytes };
    read.paint();
    match host.is_inline {
        true => host.end(read),
        false => host.reads.lock().unwrap().push(read),
    }
    0
}

thread_local! {
    /// Ranges that are open on this thread.
    static RANGES: RefCell<Vec<&'static str>> = const { RefCell::new(Vec::new()) };
}

/// Ranges that are open here.
pub fn open_ranges() -> usize {
    RANGES.with_borrow(Vec::len)
}

pub fn profiler() -> ProfilerHook {
    ProfilerHook { begin: Some(begin), end: Some(end), ..ProfilerHook::NONE }
}

unsafe extern "C" fn begin(_: *mut c_void, name: *const c_char) {
    // SAFETY: the name has a NUL and lives as long as the program.
    let name = unsafe { CStr::from_ptr(name) }.to_str().expect("UTF-8");
    assert!(["plan", "meta", "io", "decode", "assemble", "digest"].contains(&name), "{name}");
    RANGES.with_borrow_mut(|ranges| ranges.push(name));
}

unsafe extern "C" fn end(_: *mut c_void) {
    assert!(RANGES.with_borrow_mut(Vec::pop).is_some(), "a range that was not open");
}

pub fn fatal() -> FatalHook {
    FatalHook { fatal: Some(last_words), ..FatalHook::NONE }
}

unsafe extern "C" fn last_words(
    _: *mut c_void,
    file: *const c_char,
    line: u32,
    text: *const c_char,
) {
    // SAFETY: both have a NUL and live during the call.
    let (file, text) = unsafe { (CStr::from_ptr(file), CStr::from_ptr(text)) };
    panic!("fatal: {file:?}:{line}: {text:?}");
}
