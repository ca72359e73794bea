//! A call that waits names the file, or the array of the host, that has been read for the longest.
//! A reset does not wait for it for good.
//!
//! Hooks wait at a gate that the test opens.

use crate::common::drive::{Job, PATIENCE_NS, config};
use crate::common::fixtures::Scratch;
use crate::common::hook::{self, SCHEME};
use crate::common::synth::Meta;
use std::ffi::{CStr, c_char, c_void};
use std::sync::{Condvar, Mutex};
use wavetrain::abi::{FilesHook, SourceHook, SourceInfo};
use wavetrain::config::Config;
use wavetrain::loader::{Loader, Pop, Request};
use wavetrain::os::{Os, SYSTEM};
use wavetrain::records::Dtype;
use wavetrain::status::Status;
use wavetrain::surface::c::wavetrain_read_done;

const MOMENT_NS: u64 = 20_000_000;

/// A gate that is shut at first, and how many wait at it.
#[derive(Default)]
struct Gate {
    inside: Mutex<(bool, u32)>,
    changed: Condvar,
    /// Only names with this in them wait.
    part: &'static str,
    /// A read that is with the host: its loader and ticket, its name, its target.
    read: Mutex<Option<(u64, u64, String, u64, usize, u64)>>,
}

impl Gate {
    fn of(part: &'static str) -> Gate {
        Gate { part, ..Gate::default() }
    }

    fn wait(&self, name: &str) {
        if !name.contains(self.part) {
            return;
        }
        let mut inside = self.inside.lock().unwrap();
        inside.1 += 1;
        self.changed.notify_all();
        while !inside.0 {
            inside = self.changed.wait(inside).unwrap();
        }
    }

    /// Until somebody waits at it.
    fn is_reached(&self) {
        let mut inside = self.inside.lock().unwrap();
        while inside.1 == 0 {
            inside = self.changed.wait(inside).unwrap();
        }
    }

    fn open(&self) {
        self.inside.lock().unwrap().0 = true;
        self.changed.notify_all();
    }
}

unsafe fn gate<'a>(user: *mut c_void) -> &'a Gate {
    // SAFETY: the gate outlives the loader.
    unsafe { &*user.cast::<Gate>() }
}

unsafe fn text<'a>(name: *const c_char) -> &'a str {
    // SAFETY: a name has a NUL.
    unsafe { CStr::from_ptr(name) }.to_str().unwrap()
}

unsafe extern "C" fn size(user: *mut c_void, name: *const c_char) -> i64 {
    // SAFETY: as the caller's.
    unsafe {
        gate(user).wait(&format!("size of {}", text(name)));
        hook::size(user, name)
    }
}

unsafe extern "C" fn read(
    user: *mut c_void,
    name: *const c_char,
    offset: u64,
    target: *mut c_void,
    bytes: u64,
) -> i64 {
    // SAFETY: as the caller's.
    unsafe {
        gate(user).wait(&format!("read of {}", text(name)));
        hook::read(user, name, offset, target, bytes)
    }
}

/// Keeps the read until the test completes it.
unsafe extern "C" fn read_async(
    user: *mut c_void,
    loader: u64,
    ticket: u64,
    name: *const c_char,
    offset: u64,
    target: *mut c_void,
    bytes: u64,
) -> i64 {
    // SAFETY: as the caller's.
    let (gate, name) = unsafe { (gate(user), text(name).to_owned()) };
    *gate.read.lock().unwrap() = Some((loader, ticket, name, offset, target as usize, bytes));
    gate.inside.lock().unwrap().1 += 1;
    gate.changed.notify_all();
    0
}

unsafe extern "C" fn describe(
    user: *mut c_void,
    name: *const c_char,
    info: *mut SourceInfo,
) -> i64 {
    // SAFETY: as the caller's.
    let info = unsafe {
        gate(user).wait(&format!("describe {}", text(name)));
        &mut *info
    };
    (info.rank, info.dtype) = (2, Dtype::U16 as u32);
    info.shape[..2].fill(8);
    0
}

unsafe extern "C" fn give(
    user: *mut c_void,
    name: *const c_char,
    _: *const u64,
    _: *const u64,
    target: *mut c_void,
    bytes: u64,
) -> i64 {
    // SAFETY: the target is the library's, of so many bytes.
    unsafe {
        gate(user).wait(&format!("give {}", text(name)));
        target.cast::<u8>().write_bytes(7, bytes as usize);
    }
    0
}

fn gated(gate: &Gate) -> Config {
    let user = std::ptr::from_ref(gate).cast_mut().cast();
    let config = config(Dtype::U16, &[8, 8], 1);
    Config {
        files: FilesHook { user, size: Some(size), read: Some(read), ..FilesHook::NONE },
        source: SourceHook { user, describe: Some(describe), read: Some(give), ..SourceHook::NONE },
        max_host_memory_bytes: 0,
        reset_timeout_ns: MOMENT_NS,
        ..config
    }
}

/// u16, 8 x 8, one chunk of bytes that are 7.
fn array(scratch: &Scratch) -> Job {
    let uri = Meta::u16(&[8, 8], &[8, 8], None).write(scratch, "array", Some(&[7; 128]));
    Job::new(&uri, (vec![0, 0], vec![8, 8]), vec![7; 128])
}

fn push(loader: &Loader, uri: &str) {
    let request = Request { uri, begin: &[0, 0], end: &[8, 8], tag: 3 };
    assert_eq!(loader.push(&[request], PATIENCE_NS).ok(), Some(1));
}

fn pop_good(loader: &Loader) {
    match loader.pop(PATIENCE_NS) {
        Ok(Pop::Batch(batch)) => assert_eq!(batch.data(), [7; 128]),
        Ok(_) => panic!("no batch"),
        Err(failure) => panic!("{failure}"),
    }
}

fn starved(loader: &Loader) -> String {
    match loader.pop(MOMENT_NS) {
        Ok(Pop::Starved(why)) => why.as_str().to_owned(),
        Ok(_) => panic!("it was to wait"),
        Err(failure) => panic!("{failure}"),
    }
}

/// The text names what is waited for, and for how long.
fn check(text: &str, name: &str) {
    let (_, waited) = text.split_once("; the longest wait is ").unwrap_or_else(|| panic!("{text}"));
    let (seconds, of) = waited.split_once(" s, for ").unwrap_or_else(|| panic!("{text}"));
    assert!(seconds.parse::<f64>().is_ok() && of == name, "{text}: not {name}");
}

#[test]
fn starved_names_what_is_waited_for_longest_whatever_hook_it_is() {
    let scratch = Scratch::new();
    let path = array(&scratch).uri;
    let hooked = format!("{SCHEME}{path}");
    let chunk = format!("{hooked}/c/0/0");
    for (part, uri, name) in [
        ("size of", hooked.as_str(), hooked.as_str()),
        ("zarr.json", &hooked, &hooked),
        ("read of hooked", &hooked, &hooked),
        ("size of", &hooked, &hooked),
        ("c/0/0", &hooked, &chunk),
        ("describe", "hook:made", "hook:made"),
        ("give", "hook:made", "hook:made"),
    ] {
        let gate = Gate::of(part);
        let loader =
            Loader::open_on(&SYSTEM, &gated(&gate)).unwrap_or_else(|failure| panic!("{failure}"));
        push(&loader, uri);
        gate.is_reached();
        check(&starved(&loader), name);
        gate.open();
        pop_good(&loader);
    }
}

#[test]
fn starved_names_a_read_that_the_host_has_not_completed() {
    let scratch = Scratch::new();
    let hooked = format!("{SCHEME}{}", array(&scratch).uri);
    let gate = Gate::of("nothing waits");
    let mut config = gated(&gate);
    config.files.read_async = Some(read_async);
    let loader = Loader::open_on(&SYSTEM, &config).unwrap_or_else(|failure| panic!("{failure}"));
    push(&loader, &hooked);
    gate.is_reached();
    check(&starved(&loader), &format!("{hooked}/c/0/0"));
    let (owner, ticket, _, _, target, bytes) = gate.read.lock().unwrap().take().unwrap();
    // SAFETY: the target is ours until the completion.
    unsafe { (target as *mut u8).write_bytes(7, bytes as usize) };
    assert_eq!(wavetrain_read_done(owner, ticket, 0), 0);
    pop_good(&loader);
}

static STUCK: Mutex<bool> = Mutex::new(true);
static MOVED: Condvar = Condvar::new();

/// A disk that answers when the test says so.
static SLOW: Os = Os {
    read: |fd, target, offset, cached_only| {
        if target.len() == 128 {
            let mut stuck = STUCK.lock().unwrap();
            while *stuck {
                stuck = MOVED.wait(stuck).unwrap();
            }
        }
        (SYSTEM.read)(fd, target, offset, cached_only)
    },
    ..SYSTEM
};

#[test]
fn starved_names_a_file_of_a_slow_disk() {
    let scratch = Scratch::new();
    let uri = array(&scratch).uri;
    let config = config(Dtype::U16, &[8, 8], 1);
    let loader = Loader::open_on(&SLOW, &config).unwrap_or_else(|failure| panic!("{failure}"));
    push(&loader, &uri);
    // The read may not have begun: then its index is looked up, or the next batch planned.
    let mut text = starved(&loader);
    while !text.contains("/c/0/0") {
        text = starved(&loader);
    }
    check(&text, &format!("{uri}/c/0/0"));
    *STUCK.lock().unwrap() = false;
    MOVED.notify_all();
    pop_good(&loader);
}

#[test]
fn a_reset_that_does_not_end_in_time_is_again_and_so_is_all_else_until_one_has_returned() {
    let scratch = Scratch::new();
    let hooked = format!("{SCHEME}{}", array(&scratch).uri);
    let gate = Gate::of("c/0/0");
    let loader =
        Loader::open_on(&SYSTEM, &gated(&gate)).unwrap_or_else(|failure| panic!("{failure}"));
    push(&loader, &hooked);
    gate.is_reached();
    for _ in 0..2 {
        let failure = loader.reset().expect_err("a hook runs");
        assert_eq!(failure.status, Status::Again, "{failure}");
        let text = failure.text.as_str();
        assert!(text.starts_with("reset waits for "), "{text}");
        check(text, &format!("{hooked}/c/0/0"));
        let request = Request { uri: &hooked, begin: &[0, 0], end: &[8, 8], tag: 3 };
        let (taken, pushed) = loader.push_counted(&[request], u64::MAX);
        assert_eq!((taken, pushed.err().map(|failure| failure.status)), (0, Some(Status::Again)));
        assert_eq!(loader.flush().err().map(|failure| failure.status), Some(Status::Again));
        for timeout_ns in [0, u64::MAX] {
            match loader.pop(timeout_ns) {
                Ok(Pop::Again(why)) => check(why.as_str(), &format!("{hooked}/c/0/0")),
                _ => panic!("nothing is popped before a reset is over"),
            }
        }
    }
    gate.open();
    // The hook returns, but whether the thread is through before the deadline is the system's.
    while let Err(failure) = loader.reset() {
        assert_eq!(failure.status, Status::Again, "{failure}");
    }
    push(&loader, &hooked);
    pop_good(&loader);
}

#[test]
fn who_waits_in_pop_is_woken_by_a_reset_that_does_not_end_in_time_and_close_ends_it() {
    let scratch = Scratch::new();
    let hooked = format!("{SCHEME}{}", array(&scratch).uri);
    let gate = Gate::of("c/0/0");
    let loader =
        Loader::open_on(&SYSTEM, &gated(&gate)).unwrap_or_else(|failure| panic!("{failure}"));
    push(&loader, &hooked);
    gate.is_reached();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| matches!(loader.pop(u64::MAX), Ok(Pop::Again(_))));
        assert_eq!(loader.reset().err().map(|failure| failure.status), Some(Status::Again));
        assert!(waiting.join().unwrap());
    });
    gate.open();
    loader.close(PATIENCE_NS).unwrap_or_else(|failure| panic!("{failure}"));
}
