//! A job system of a host, as good or as odd as hosts are.
//!
//! In: how it runs jobs. Out: a config that hands jobs to it, and what became of them.

use crate::common::mailbox::Mailbox;
use std::cell::Cell;
use std::ffi::{c_char, c_void};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use wavetrain::abi::{Error, FilesHook, HostJob, WorkersHook};
use wavetrain::config::{Config, THREADS_HOOK};

/// How jobs are run.
#[derive(Clone, Copy, Default, Debug)]
pub enum Run {
    /// Inside of run.
    #[default]
    Inline,
    /// On so many threads, in order.
    Threads(usize),
    /// On so many threads, each job on two of them at once.
    Twice(usize),
    /// On another thread, while run waits for it.
    OnAnother,
    /// When the test says so, the youngest first.
    Reverse,
    /// When the test says so.
    Later,
    /// As Inline, and another thread calls into the loader meanwhile.
    Probing,
}

/// A job that was handed in.
#[derive(Clone, Copy)]
pub struct Handed {
    job: HostJob,
    argument: usize,
}

impl Handed {
    pub fn run(&self) {
        DEPTH.set(DEPTH.get() + 1);
        assert!(DEPTH.get() <= 2, "jobs stand on one another");
        // SAFETY: it is the argument that came with the job.
        unsafe { (self.job)(std::ptr::without_provenance_mut(self.argument)) };
        DEPTH.set(DEPTH.get() - 1);
    }
}

thread_local! {
    /// Jobs that this thread is in.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
    /// Whether this thread is in a read.
    static IS_READING: Cell<bool> = const { Cell::new(false) };
}

#[derive(Default)]
struct Inner {
    run: Run,
    queue: Mailbox<Handed>,
    is_submitting: AtomicBool,
    handed_in: AtomicUsize,
    most_waiting: AtomicUsize,
    nested: AtomicUsize,
    reading: AtomicUsize,
    most_reading: AtomicUsize,
    files: Mutex<Option<FilesHook>>,
}

// SAFETY: the hook below has no user.
unsafe impl Send for Inner {}
// SAFETY: as for Send.
unsafe impl Sync for Inner {}

impl Inner {
    fn take(&self, is_reverse: bool) -> Option<Handed> {
        self.queue.with(|queue| {
            let at = if is_reverse { queue.len().saturating_sub(1) } else { 0 };
            (!queue.is_empty()).then(|| queue.remove(at))
        })
    }
}

/// See the module.
pub struct JobSystem {
    inner: Arc<Inner>,
    threads: Vec<JoinHandle<()>>,
}

impl JobSystem {
    pub fn new(run: Run) -> JobSystem {
        let inner = Arc::new(Inner { run, ..Inner::default() });
        let count = match run {
            Run::Threads(count) | Run::Twice(count) => count,
            _ => 0,
        };
        let threads = (0..count).map(|_| {
            let inner = Arc::clone(&inner);
            std::thread::spawn(move || thread_main(&inner))
        });
        let threads = threads.collect();
        JobSystem { inner, threads }
    }

    fn user(&self) -> *mut c_void {
        Arc::as_ptr(&self.inner).cast_mut().cast()
    }

    /// The config with jobs handed to this system.
    pub fn config(&self, config: &Config) -> Config {
        let workers = WorkersHook { user: self.user(), run: Some(run), ..config.workers };
        Config { thread_mode: THREADS_HOOK, workers, ..*config }
    }

    /// The config, whose files come through a hook, with jobs run inside of every read.
    pub fn with_jobs_in_reads(&self, config: &Config) -> Config {
        *self.inner.files.lock().unwrap() = Some(config.files);
        let user = self.user();
        let files = FilesHook { user, size: Some(size), read: Some(read), ..config.files };
        Config { files, ..*config }
    }

    /// Runs what waits here, where the test is to do so; jobs that these hand in are for later.
    pub fn run_queued(&self) {
        if matches!(self.inner.run, Run::Reverse | Run::Later) {
            for _ in 0..self.waiting() {
                let Some(job) = self.inner.take(matches!(self.inner.run, Run::Reverse)) else {
                    return;
                };
                job.run();
            }
        }
    }

    pub fn run_oldest(&self) {
        self.inner.take(false).into_iter().for_each(|job| job.run());
    }

    pub fn take_all(&self) -> Vec<Handed> {
        self.inner.queue.with(std::mem::take)
    }

    pub fn waiting(&self) -> usize {
        self.inner.queue.with(|queue| queue.len())
    }

    pub fn most_waiting(&self) -> usize {
        self.inner.most_waiting.load(SeqCst)
    }

    pub fn handed_in(&self) -> usize {
        self.inner.handed_in.load(SeqCst)
    }

    /// Jobs that were run inside of a read.
    pub fn nested(&self) -> usize {
        self.inner.nested.load(SeqCst)
    }

    pub fn most_reading(&self) -> usize {
        self.inner.most_reading.load(SeqCst)
    }
}

impl Drop for JobSystem {
    fn drop(&mut self) {
        self.inner.queue.end();
        self.threads.drain(..).for_each(|thread| thread.join().unwrap());
    }
}

fn thread_main(inner: &Inner) {
    while let Some(job) = inner.queue.wait(|_| 0) {
        job.run();
    }
}

fn host<'a>(user: *mut c_void) -> &'a Inner {
    // SAFETY: `user` is the inner part of a job system that outlives its loaders.
    unsafe { &*user.cast::<Inner>() }
}

unsafe extern "C" fn run(user: *mut c_void, job: HostJob, argument: *mut c_void) {
    let inner = host(user);
    let how = inner.run;
    let handed = Handed { job, argument: argument.addr() };
    inner.handed_in.fetch_add(1, SeqCst);
    assert!(!inner.is_submitting.swap(true, SeqCst), "two threads are in run");
    match how {
        Run::Inline => handed.run(),
        Run::OnAnother => std::thread::scope(|scope| {
            scope.spawn(|| handed.run());
        }),
        Run::Probing => {
            let token = handed.argument as u64;
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    let mut error = Error::EMPTY;
                    // SAFETY: the error is whole.
                    let code =
                        unsafe { wavetrain::surface::c::wavetrain_last_error(token, &mut error) };
                    assert_eq!(code, 0);
                });
            });
            handed.run();
        }
        Run::Threads(_) | Run::Twice(_) | Run::Reverse | Run::Later => {
            let copies = if matches!(how, Run::Twice(_)) { 2 } else { 1 };
            for _ in 0..copies {
                inner.most_waiting.fetch_max(inner.queue.put(handed), SeqCst);
            }
        }
    }
    inner.is_submitting.store(false, SeqCst);
}

unsafe extern "C" fn size(user: *mut c_void, name: *const c_char) -> i64 {
    let files = host(user).files.lock().unwrap().expect("the hook below");
    // SAFETY: as we were called.
    unsafe { files.size.expect("a function")(files.user, name) }
}

unsafe extern "C" fn read(
    user: *mut c_void,
    name: *const c_char,
    offset: u64,
    target: *mut c_void,
    bytes: u64,
) -> i64 {
    let inner = host(user);
    assert!(!IS_READING.replace(true), "a read in a read");
    let reading = inner.reading.fetch_add(1, SeqCst) + 1;
    inner.most_reading.fetch_max(reading, SeqCst);
    if let Some(job) = inner.take(false) {
        inner.nested.fetch_add(1, SeqCst);
        job.run();
    }
    let files = inner.files.lock().unwrap().expect("the hook below");
    // SAFETY: as we were called.
    let result =
        unsafe { files.read.expect("a function")(files.user, name, offset, target, bytes) };
    inner.reading.fetch_sub(1, SeqCst);
    IS_READING.set(false);
    result
}
