//! Files of a host whose reads end later than they begin.
//!
//! In: when and in which order they end, and which fail. Out: a config that reads through them.

use crate::common::drive::Dice;
use crate::common::hook;
use crate::common::mailbox::Mailbox;
use std::ffi::{CStr, CString, c_char, c_void};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use wavetrain::abi::{FILE_FAILED, FilesHook};
use wavetrain::config::Config;
use wavetrain::surface::c::wavetrain_read_done;

/// When reads end.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Order {
    /// Before read_async returns.
    AtOnce,
    /// On another thread, in order.
    ByThread,
    /// On another thread, in any order.
    Shuffled,
    /// When the test says so.
    Held,
}

struct Read {
    loader: u64,
    ticket: u64,
    name: CString,
    offset: u64,
    target: usize,
    bytes: u64,
    result: i64,
}

struct Inner {
    order: Order,
    reads: Mailbox<Read>,
    aside: Mutex<Vec<Read>>,
    chunks_are_broken: AtomicBool,
    begun: AtomicU64,
    failed: AtomicU64,
    most: AtomicUsize,
    fail_every: AtomicU64,
    fail_result: AtomicI64,
    is_refused: AtomicBool,
}

impl Inner {
    fn complete(&self, read: Read) {
        let mut result = read.result;
        if result == 0 {
            let target = std::ptr::with_exposed_provenance_mut(read.target);
            let (user, name) = (std::ptr::null_mut(), read.name.as_ptr());
            // SAFETY: the target is ours until the completion.
            result = unsafe {
                assert!(hook::size(user, name) >= 0);
                hook::read(user, name, read.offset, target, read.bytes)
            };
            assert_eq!(result, 0, "{:?}", read.name);
        }
        assert_eq!(wavetrain_read_done(read.loader, read.ticket, result), 0, "{:?}", read.name);
    }
}

/// See the module.
pub struct AsyncFiles {
    inner: Arc<Inner>,
    thread: Option<JoinHandle<()>>,
}

impl AsyncFiles {
    pub fn new(order: Order) -> AsyncFiles {
        let inner = Arc::new(Inner {
            order,
            reads: Mailbox::default(),
            aside: Mutex::default(),
            chunks_are_broken: AtomicBool::new(false),
            begun: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            most: AtomicUsize::new(0),
            fail_every: AtomicU64::new(u64::MAX),
            fail_result: AtomicI64::new(0),
            is_refused: AtomicBool::new(false),
        });
        let has_thread = matches!(order, Order::ByThread | Order::Shuffled);
        let copy = Arc::clone(&inner);
        let thread = has_thread.then(|| std::thread::spawn(move || thread_main(&copy)));
        AsyncFiles { inner, thread }
    }

    /// The config with files read through these.
    pub fn config(&self, config: &Config) -> Config {
        let files = FilesHook {
            user: Arc::as_ptr(&self.inner).cast_mut().cast(),
            size: Some(hook::size),
            read: Some(read),
            read_async: Some(read_async),
            ..config.files
        };
        Config { files, ..*config }
    }

    /// Every n-th asynchronous read gives `result`: at its end, or at once (`is_refused`).
    pub fn fail_every(&self, n: u64, result: i64, is_refused: bool) {
        self.inner.fail_every.store(n, SeqCst);
        self.inner.fail_result.store(result, SeqCst);
        self.inner.is_refused.store(is_refused, SeqCst);
    }

    /// Reads that wait fail too, but for metadata and indexes.
    pub fn break_chunks(&self) {
        self.inner.chunks_are_broken.store(true, SeqCst);
    }

    pub fn begun(&self) -> u64 {
        self.inner.begun.load(SeqCst)
    }

    pub fn failed(&self) -> u64 {
        self.inner.failed.load(SeqCst)
    }

    pub fn most_in_flight(&self) -> usize {
        self.inner.most.load(SeqCst)
    }

    pub fn in_flight(&self) -> usize {
        self.inner.reads.with(|reads| reads.len())
    }

    /// Loader and ticket of every read in flight.
    pub fn tickets(&self) -> Vec<(u64, u64)> {
        let ticket = |read: &Read| (read.loader, read.ticket);
        self.inner.reads.with(|reads| reads.iter().map(ticket).collect())
    }

    pub fn complete_any(&self, dice: &mut Dice) {
        let read = self.inner.reads.with(|reads| {
            let count = reads.len() as i64;
            (count > 0).then(|| reads.swap_remove(dice.range(0, count) as usize))
        });
        read.into_iter().for_each(|read| self.inner.complete(read));
    }

    pub fn complete_all(&self) {
        while let Some(read) = self.inner.reads.with(Vec::pop) {
            self.inner.complete(read);
        }
    }

    /// Puts what is in flight aside; how many reads.
    pub fn set_aside(&self) -> usize {
        let reads = self.inner.reads.with(std::mem::take);
        let count = reads.len();
        self.inner.aside.lock().unwrap().extend(reads);
        count
    }

    pub fn count_set_aside(&self) -> usize {
        self.inner.aside.lock().unwrap().len()
    }

    /// Writes over the targets of the reads that were put aside.
    pub fn paint_set_aside(&self) {
        for read in &*self.inner.aside.lock().unwrap() {
            let target = std::ptr::with_exposed_provenance_mut::<u8>(read.target);
            // SAFETY: the target is ours until the completion.
            unsafe { target.write_bytes(0xEE, read.bytes as usize) };
        }
    }

    /// Completes the oldest read that was put aside.
    pub fn complete_set_aside(&self) {
        let read = self.inner.aside.lock().unwrap().remove(0);
        self.inner.complete(read);
    }
}

impl Drop for AsyncFiles {
    fn drop(&mut self) {
        self.inner.reads.end();
        self.thread.take().into_iter().for_each(|thread| thread.join().unwrap());
    }
}

fn thread_main(inner: &Inner) {
    let mut dice = Dice(0xD1CE_D1CE_D1CE_D1CE);
    let mut which = |count| match inner.order {
        Order::Shuffled => dice.range(0, count as i64) as usize,
        _ => 0,
    };
    while let Some(read) = inner.reads.wait(&mut which) {
        inner.complete(read);
    }
}

fn host<'a>(user: *mut c_void) -> &'a Inner {
    // SAFETY: `user` is the inner part of files that outlive their loaders.
    unsafe { &*user.cast::<Inner>() }
}

unsafe extern "C" fn read(
    user: *mut c_void,
    name: *const c_char,
    offset: u64,
    target: *mut c_void,
    bytes: u64,
) -> i64 {
    let inner = host(user);
    // SAFETY: the name is a text with a NUL.
    let text = unsafe { CStr::from_ptr(name) }.to_str().unwrap();
    // Chunks lie in files without an ending; so do shards, whose indexes are read before.
    let is_data = !text.ends_with(".json") && !text.ends_with(".zarray");
    if is_data && inner.chunks_are_broken.load(SeqCst) && inner.begun.load(SeqCst) > 0 {
        return FILE_FAILED;
    }
    // SAFETY: as we were called.
    unsafe { hook::read(user, name, offset, target, bytes) }
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
    let inner = host(user);
    let number = inner.begun.fetch_add(1, SeqCst) + 1;
    let fails = number % inner.fail_every.load(SeqCst) == 0;
    let result = if fails { inner.fail_result.load(SeqCst) } else { 0 };
    inner.failed.fetch_add(u64::from(fails), SeqCst);
    if fails && inner.is_refused.load(SeqCst) {
        return result;
    }
    // SAFETY: the name is a text with a NUL; it is borrowed, so it is copied.
    let name = unsafe { CStr::from_ptr(name) }.to_owned();
    let target = target.expose_provenance();
    let read = Read { loader, ticket, name, offset, target, bytes, result };
    if inner.order == Order::AtOnce {
        inner.complete(read);
        return 0;
    }
    inner.most.fetch_max(inner.reads.put(read), SeqCst);
    0
}
