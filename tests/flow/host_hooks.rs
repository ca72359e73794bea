//! The host's threads, files and profiler: jobs of ours on whatever threads the host gives, reads
//! that end when the host says so, ranges around all of it.
//!
//! Every stream is compared with the oracle, element by element, whoever does the work.

mod files;

use crate::common::drive::{
    self, Dice, Job, PATIENCE_NS, check_batch, config, mixed_jobs, open, stream,
    stream_as_configured, stream_through,
};
use crate::common::hook::with_hook;
use crate::common::workers::{JobSystem, Run};
use files::{AsyncFiles, Order};
use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_void};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::thread::ThreadId;
use std::time::{Duration, Instant};
use wavetrain::abi::{FILE_ABSENT, FILE_FAILED, ProfilerHook};
use wavetrain::config::{Config, ON_ERROR_SKIP, THREADS_HOOK, THREADS_OWN, THREADS_PUMP};
use wavetrain::loader::{Loader, Pop, Request};
use wavetrain::records::Dtype;
use wavetrain::status::Status;
use wavetrain::surface::c::wavetrain_read_done;
use wavetrain::surface::handles::host_job;

const SAMPLES: usize = 3;

/// Crops of ten arrays that agree in nothing, in small waves, with little memory.
fn base() -> Config {
    Config {
        max_chunks_per_wave: 16,
        max_read_op_bytes: 2048,
        lookahead_samples: 12,
        max_host_memory_bytes: 0,
        ..config(Dtype::F32, &[16, 16], SAMPLES)
    }
}

fn jobs() -> Vec<Job> {
    mixed_jobs(60)
}

/// Streams without ever waiting: between two looks the host does `work`, and that must be enough.
fn poll(loader: &Loader, config: &Config, jobs: &[Job], work: &mut dyn FnMut()) {
    let requests: Vec<Request<'_>> = jobs.iter().enumerate().map(|(n, j)| j.request(n)).collect();
    let (mut pushed, mut seen) = (0, 0);
    let deadline = Instant::now() + Duration::from_nanos(PATIENCE_NS);
    while seen < jobs.len() {
        assert!(Instant::now() < deadline, "{seen} of {} samples came", jobs.len());
        if pushed < jobs.len() {
            pushed += loader.push(&requests[pushed..], 0).unwrap_or_else(|f| panic!("push: {f}"));
            if pushed == jobs.len() {
                loader.flush().unwrap_or_else(|failure| panic!("flush: {failure}"));
            }
        }
        work();
        match loader.pop(0) {
            Ok(Pop::Batch(batch)) => {
                let count = batch.tags().len();
                check_batch(config, &batch, &jobs[seen..seen + count], seen);
                seen += count;
            }
            Ok(Pop::Again(_)) => {}
            Ok(_) => panic!("neither a batch nor again"),
            Err(failure) => panic!("pop: {failure}"),
        }
    }
}

fn close(loader: Loader) {
    loader.close(PATIENCE_NS).unwrap_or_else(|failure| panic!("close: {failure}"));
}

#[test]
fn jobs_give_the_same_bytes_however_the_host_runs_them() {
    let jobs = jobs();
    let runs = [
        Run::Inline,
        Run::Threads(1),
        Run::Threads(4),
        Run::Twice(3),
        Run::OnAnother,
        Run::Reverse,
    ];
    for run in runs {
        for cache in [0, 1 << 20] {
            let system = JobSystem::new(run);
            let base = Config { chunk_cache_bytes: cache, ..base() };
            let config = system.config(&base);
            stream(&config, &jobs);
            // Those that wait in pop work too, so ask again where nobody waits.
            let loader = open(&config);
            poll(&loader, &config, &jobs, &mut || system.run_queued());
            close(loader);
            assert!(system.handed_in() > 0, "{run:?}");
        }
    }
}

#[test]
fn as_many_jobs_are_with_the_host_as_can_run() {
    let jobs = jobs();
    for contexts in [1, 2, 5] {
        let system = JobSystem::new(Run::Later);
        let config = Config { n_decode_threads: contexts, ..system.config(&base()) };
        let loader = open(&config);
        poll(&loader, &config, &jobs, &mut || {
            assert!(system.waiting() <= contexts as usize);
            system.run_oldest();
        });
        assert!(system.most_waiting() <= contexts as usize);
        assert!(contexts == 1 || system.most_waiting() > 1, "jobs bring others in");
        close(loader);
    }
}

#[test]
fn waiting_calls_do_the_work_of_jobs_that_nobody_runs() {
    let system = JobSystem::new(Run::Later);
    let config = system.config(&base());
    stream_as_configured(&config, &jobs());
    assert!(system.waiting() > 0 && system.waiting() <= config.n_decode_threads as usize);
}

#[test]
fn pump_lends_a_thread_in_hook_mode() {
    let system = JobSystem::new(Run::Later);
    let config = system.config(&base());
    let loader = open(&config);
    poll(&loader, &config, &jobs(), &mut || {
        loader.pump(0).unwrap();
    });
    close(loader);
}

#[test]
fn run_is_called_with_no_lock_held_and_by_one_thread_at_a_time() {
    let system = JobSystem::new(Run::Probing);
    let config = system.config(&base());
    stream(&config, &jobs());
    assert!(system.handed_in() > 0);
}

#[test]
fn jobs_that_were_never_run_hold_up_neither_reset_nor_close() {
    let jobs = jobs();
    let system = JobSystem::new(Run::Later);
    let config = system.config(&base());
    let loader = open(&config);
    let requests: Vec<Request<'_>> = jobs.iter().enumerate().map(|(n, j)| j.request(n)).collect();
    assert!(loader.push(&requests[..9], 0).unwrap() == 9);
    assert!(system.waiting() > 0);
    loader.reset().unwrap();
    poll(&loader, &config, &jobs, &mut || system.run_oldest());
    assert!(loader.push(&requests[..9], 0).unwrap() == 9);
    assert!(system.waiting() > 0);
    let handed_in = system.handed_in();
    close(loader);
    assert_eq!(system.handed_in(), handed_in, "no job is handed in by close");
    // Late, and again when another loader has its place.
    let late = system.take_all();
    late.iter().for_each(|job| job.run());
    let other = open(&config);
    late.iter().for_each(|job| job.run());
    assert_eq!(other.stats().unwrap().worker_steps, 0);
    assert_eq!(system.handed_in(), handed_in);
    close(other);
}

#[test]
fn a_job_without_a_loader_touches_nothing() {
    for number in [0usize, 1, 64, 65, usize::MAX, 1 << 32 | 1] {
        host_job(std::ptr::without_provenance_mut(number));
    }
}

/// A host whose threads look for other jobs while they wait for a file.
#[test]
fn a_job_inside_of_a_read_returns_at_once() {
    for run in [Run::Later, Run::Inline, Run::Threads(2)] {
        let system = JobSystem::new(run);
        let hooked = system.config(&with_hook(base()));
        let config = system.with_jobs_in_reads(&hooked);
        let loader = open(&config);
        poll(&loader, &config, &jobs(), &mut || system.run_queued());
        close(loader);
        // Where other threads take jobs too, there may be none left to be found in a read.
        assert!(system.nested() > 0 || !matches!(run, Run::Later));
    }
}

#[test]
fn only_as_many_threads_work_as_there_are_contexts() {
    let system = JobSystem::new(Run::Threads(6));
    let config = Config { n_decode_threads: 2, ..system.config(&with_hook(base())) };
    let config = system.with_jobs_in_reads(&config);
    stream(&config, &jobs());
    assert!(system.most_reading() <= 2);
}

/// Every thread mode, the host's own with jobs at once and on threads.
fn modes() -> Vec<(u32, Run)> {
    vec![
        (THREADS_OWN, Run::Later),
        (THREADS_PUMP, Run::Later),
        (THREADS_HOOK, Run::Inline),
        (THREADS_HOOK, Run::Threads(3)),
        (THREADS_HOOK, Run::Later),
    ]
}

fn in_mode(system: &JobSystem, mode: u32, config: &Config) -> Config {
    match mode {
        THREADS_HOOK => system.config(config),
        thread_mode => Config { thread_mode, ..*config },
    }
}

#[test]
fn reads_that_end_in_any_order_give_the_same_bytes_in_every_thread_mode() {
    let jobs = jobs();
    for (mode, run) in modes() {
        for order in [Order::AtOnce, Order::ByThread, Order::Shuffled] {
            let (system, files) = (JobSystem::new(run), AsyncFiles::new(order));
            let config = files.config(&in_mode(&system, mode, &base()));
            stream(&config, &jobs);
            assert!(files.begun() > 20, "{mode} {order:?}");
            assert_eq!(files.in_flight(), 0);
        }
    }
}

#[test]
fn reads_that_the_host_completes_on_the_thread_that_polls_give_the_same_bytes() {
    let jobs = jobs();
    for (mode, run) in modes() {
        let (system, files) = (JobSystem::new(run), AsyncFiles::new(Order::Held));
        let config = files.config(&in_mode(&system, mode, &base()));
        let loader = open(&config);
        let mut dice = Dice(0x1234_5678_9ABC_DEF1);
        poll(&loader, &config, &jobs, &mut || {
            system.run_queued();
            if mode == THREADS_PUMP {
                loader.pump(0).unwrap();
            }
            // Some looks bring nothing, so that many are in flight.
            if dice.range(0, 3) == 0 {
                files.complete_any(&mut dice);
            }
        });
        close(loader);
        assert!(files.most_in_flight() <= 2 * config.n_io_threads as usize);
        assert!(files.most_in_flight() > 1, "{mode}");
    }
}

#[test]
fn no_more_reads_are_in_flight_than_twice_the_io_threads() {
    let files = AsyncFiles::new(Order::Held);
    let config = files.config(&Config {
        n_io_threads: 3,
        max_read_op_bytes: 1,
        thread_mode: THREADS_PUMP,
        ..base()
    });
    let loader = open(&config);
    let jobs = jobs();
    let requests: Vec<Request<'_>> = jobs.iter().enumerate().map(|(n, j)| j.request(n)).collect();
    loader.push(&requests[..12], 0).unwrap();
    while loader.pump(0).unwrap() {}
    assert_eq!(files.in_flight(), 6);
    // Nothing is there to do until one of them ends.
    assert!(!loader.pump(0).unwrap());
    files.complete_any(&mut Dice(7));
    assert!(loader.pump(0).unwrap());
    files.complete_all();
    close(loader);
}

#[test]
fn a_read_that_fails_is_tried_again_by_the_read_that_waits() {
    let jobs = jobs();
    for n in [1, 2, 3, 7] {
        for (result, is_refused) in
            [(FILE_FAILED, false), (FILE_ABSENT, false), (5, false), (FILE_FAILED, true), (9, true)]
        {
            let files = AsyncFiles::new(Order::ByThread);
            files.fail_every(n, result, is_refused);
            let config = files.config(&Config { thread_mode: THREADS_PUMP, ..base() });
            // What becomes of the bytes on a device has nothing to do with how they were read.
            if n == 3 {
                stream(&config, &jobs)
            } else {
                stream_as_configured(&config, &jobs)
            };
            assert_eq!(files.failed(), files.begun() / n);
            assert!(files.failed() > 0);
        }
    }
}

#[test]
fn a_file_that_no_read_brings_fails_its_samples_by_name() {
    for mode in [THREADS_OWN, THREADS_PUMP] {
        let files = AsyncFiles::new(Order::ByThread);
        files.fail_every(1, FILE_FAILED, false);
        files.break_chunks();
        let base = Config { on_error: ON_ERROR_SKIP, pad_value: -7.0, ..base() };
        let config = files.config(&Config { thread_mode: mode, ..base });
        let jobs: Vec<Job> =
            jobs().into_iter().map(|job| Job { want: Err(Status::Io), ..job }).collect();
        stream(&config, &jobs);
        let failing = Config { on_error: 0, pad_value: 0.0, ..config };
        let loader = open(&failing);
        let (_, failure) = drive::first_failure(&loader, &jobs[..6]);
        assert_eq!(failure.status, Status::Io);
        assert!(failure.text.as_str().contains(&jobs[0].uri), "{failure}");
        assert!(failure.text.as_str().contains("files hook"), "{failure}");
        close(loader);
    }
}

#[test]
fn a_completion_that_nobody_waits_for_is_invalid() {
    let files = AsyncFiles::new(Order::Held);
    let config = files.config(&Config { thread_mode: THREADS_PUMP, ..base() });
    let loader = open(&config);
    let jobs = jobs();
    loader.push(&[jobs[0].request(0), jobs[1].request(1)], 0).unwrap();
    loader.flush().unwrap();
    while files.in_flight() == 0 {
        assert!(loader.pump(0).unwrap());
    }
    let invalid = Status::Invalid as i32;
    let (token, ticket) = files.tickets()[0];
    assert_eq!(token, loader.token());
    for wrong in [0, 1, ticket - 1, ticket + 1, ticket + 4, u64::MAX] {
        assert_eq!(wavetrain_read_done(token, wrong, 0), invalid, "{wrong}");
    }
    assert_eq!(wavetrain_read_done(token ^ 1, ticket, 0), Status::Shutdown as i32);
    files.complete_all();
    assert_eq!(wavetrain_read_done(token, ticket, 0), invalid, "twice");
    poll_rest(&loader, &files);
    // Without asynchronous files there is no ticket at all.
    let other = open(&Config { thread_mode: THREADS_PUMP, ..base() });
    assert_eq!(wavetrain_read_done(other.token(), ticket, 0), invalid);
    close(other);
    close(loader);
    assert_eq!(wavetrain_read_done(token, ticket, 0), Status::Shutdown as i32, "after close");
}

/// Pumps and completes until the one flushed batch has come.
fn poll_rest(loader: &Loader, files: &AsyncFiles) {
    let deadline = Instant::now() + Duration::from_nanos(PATIENCE_NS);
    loop {
        assert!(Instant::now() < deadline);
        loader.pump(0).unwrap();
        files.complete_all();
        if let Ok(Pop::Batch(_)) = loader.pop(0) {
            return;
        }
    }
}

#[test]
fn reset_leaves_the_reads_in_flight_their_memory_and_goes_on_without_them() {
    let jobs = jobs();
    for (mode, run) in modes() {
        let (system, files) = (JobSystem::new(run), AsyncFiles::new(Order::Held));
        let config = files.config(&in_mode(&system, mode, &base()));
        let loader = open(&config);
        let mut dice = Dice(0x9E37_79B9_7F4A_7C15);
        for turn in 0..4 {
            let requests: Vec<Request<'_>> =
                jobs.iter().enumerate().map(|(n, j)| j.request(n)).collect();
            loader.push(&requests[..12], 0).unwrap();
            let deadline = Instant::now() + Duration::from_nanos(PATIENCE_NS);
            while files.in_flight() < 2 {
                assert!(Instant::now() < deadline);
                system.run_queued();
                if mode == THREADS_PUMP {
                    loader.pump(0).unwrap();
                }
            }
            loader.reset().unwrap();
            // The reads that were dropped end late, some of them behind the next reset; meanwhile
            // their targets are written to all the time.
            let mut looks = 0;
            let dropped = files.set_aside();
            assert!(dropped > 0);
            poll(&loader, &config, &jobs, &mut || {
                system.run_queued();
                if mode == THREADS_PUMP {
                    loader.pump(0).unwrap();
                }
                files.complete_any(&mut dice);
                files.paint_set_aside();
                looks += 1;
                if looks % (20 + 40 * turn) == 0 && files.count_set_aside() > 0 {
                    files.complete_set_aside();
                }
            });
            loader.reset().unwrap();
        }
        while files.count_set_aside() > 0 {
            files.complete_set_aside();
        }
        files.complete_all();
        close(loader);
    }
}

#[test]
fn close_waits_for_reads_in_flight_and_says_again() {
    for (mode, run) in modes() {
        let (system, files) = (JobSystem::new(run), AsyncFiles::new(Order::Held));
        let config = files.config(&in_mode(&system, mode, &base()));
        let loader = open(&config);
        let jobs = jobs();
        loader.push(&[jobs[0].request(0), jobs[1].request(1), jobs[2].request(2)], 0).unwrap();
        let deadline = Instant::now() + Duration::from_nanos(PATIENCE_NS);
        while files.in_flight() == 0 {
            assert!(Instant::now() < deadline);
            system.run_queued();
            if mode == THREADS_PUMP {
                loader.pump(0).unwrap();
            }
        }
        let token = loader.token();
        // The handle stays ours: it is closed by its number.
        let loader = std::mem::ManuallyDrop::new(loader);
        let close = |timeout_ns: u64| {
            // SAFETY: no pointer is handed in.
            unsafe {
                wavetrain::surface::c::wavetrain_close(token, timeout_ns, std::ptr::null_mut())
            }
        };
        for timeout_ns in [0, 1_000_000] {
            assert_eq!(close(timeout_ns), Status::Again as i32);
        }
        assert!(loader.flush().is_err() && loader.stats().is_ok());
        // One that was in flight ends while close waits for it.
        let last = files.tickets().len() - 1;
        (0..last).for_each(|_| files.complete_any(&mut Dice(3)));
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| close(PATIENCE_NS));
            // A thread that took a read before the first close may hand it in only now.
            while !waits.is_finished() {
                files.complete_all();
                std::thread::yield_now();
            }
            assert_eq!(waits.join().unwrap(), 0);
        });
        assert_eq!(close(0), Status::Shutdown as i32);
    }
}

/// Open ranges of each thread, and how many of each name ended.
#[derive(Default)]
struct Ranges {
    open: HashMap<ThreadId, Vec<String>>,
    ended: HashMap<String, u64>,
}
static RANGES: Mutex<Option<Ranges>> = Mutex::new(None);
static PROBED: AtomicU64 = AtomicU64::new(0);

unsafe extern "C" fn begin(user: *mut c_void, name: *const c_char) {
    // SAFETY: the name is a text with a NUL that lives as long as the program.
    let name: &'static str = unsafe { CStr::from_ptr(name) }.to_str().unwrap();
    {
        let ranges = &mut *RANGES.lock().unwrap();
        let ranges = ranges.as_mut().unwrap();
        let open = ranges.open.entry(std::thread::current().id()).or_default();
        assert!(open.is_empty() || open == &["io"], "{name} in {open:?}");
        open.push(name.to_string());
    }
    // A lock that were held here would be waited for by another thread.
    if PROBED.fetch_add(1, SeqCst).is_multiple_of(8) {
        // SAFETY: `user` is the token's cell, which outlives the loader.
        let token = unsafe { &*user.cast::<AtomicU64>() }.load(SeqCst);
        let look = move || {
            let mut error = wavetrain::abi::Error::EMPTY;
            // SAFETY: the error is whole.
            unsafe { wavetrain::surface::c::wavetrain_last_error(token, &mut error) }
        };
        std::thread::spawn(look).join().unwrap();
    }
}

unsafe extern "C" fn end(_user: *mut c_void) {
    let ranges = &mut *RANGES.lock().unwrap();
    let ranges = ranges.as_mut().unwrap();
    let open = ranges.open.get_mut(&std::thread::current().id()).expect("a thread with ranges");
    let name = open.pop().expect("an open range");
    *ranges.ended.entry(name).or_default() += 1;
}

#[test]
fn ranges_are_nested_and_there_is_one_for_each_chunk_that_is_counted() {
    static TOKEN: AtomicU64 = AtomicU64::new(0);
    let jobs = jobs();
    for (mode, run) in modes() {
        for is_hooked in [false, true] {
            *RANGES.lock().unwrap() = Some(Ranges::default());
            let system = JobSystem::new(run);
            let mut config = in_mode(&system, mode, &base());
            if is_hooked {
                config = with_hook(config);
            }
            config.profiler = ProfilerHook {
                user: std::ptr::from_ref(&TOKEN).cast_mut().cast(),
                begin: Some(begin),
                end: Some(end),
                ..config.profiler
            };
            let loader = open(&config);
            TOKEN.store(loader.token(), SeqCst);
            stream_through(&loader, &config, &jobs, 0);
            let stats = loader.stats().unwrap();
            close(loader);
            let ranges = RANGES.lock().unwrap().take().unwrap();
            assert!(ranges.open.values().all(Vec::is_empty));
            let ended = |name: &str| ranges.ended.get(name).copied().unwrap_or(0);
            assert_eq!(ended("decode"), stats.decode.count);
            assert_eq!(ended("assemble"), stats.assemble.count);
            // The planner may run once more behind the last batch.
            assert!(ended("plan") >= stats.plan.count && stats.plan.count > 0);
            assert!(ended("meta") >= stats.meta.count && stats.meta.count > 0);
            assert!(ended("io") >= stats.io.count && stats.io.count > 0);
            assert_eq!(ranges.ended.len(), 5, "{:?}", ranges.ended.keys());
        }
    }
}
