//! Random streams under random configs from several threads, checked sample by sample.
//!
//! In: a seed (WAVETRAIN_STRESS_SEED) and a number of cases (WAVETRAIN_STRESS_CASES). Each case
//! opens a loader with every knob drawn, extremes included, and lives through a few epochs: a
//! stream that is drained to its end or its error, one that is reset again and again while all
//! threads work, and at last one that is closed at a random moment. Threads push, flush, pop, hold,
//! release, pump and look at the figures in an order that chance decides.
//!
//! Invariant: a sample is what its tag says, in its turn, or marked or reported with the status
//! that its box must give; the same bad box gives the same text under every config. Nothing
//! happening for three minutes is a failure that names the seed. Where a driver is named, batches
//! lie on its device.

mod world;

use crate::common::alone::alone;
use crate::common::digest::digest;
use crate::common::drive::{Dice, on_named_device, samples};
use crate::common::fixtures::Scratch;
use crate::common::hook::with_hook;
use crate::common::mapped::push_mapped;
use std::collections::{HashMap, VecDeque};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;
use wavetrain::abi::Memory;
use wavetrain::config::{
    BACKEND_CUDA, Config, MISSING_ERROR, ON_ERROR_SKIP, PAD_NONE, THREADS_PUMP,
};
use wavetrain::loader::{Batch, Failure, Loader, Pop, Request};
use wavetrain::os::{Errno, Os, SYSTEM};
use wavetrain::records::Dtype;
use wavetrain::status::Status;
use world::{CHUNK_CAP, Job, World};

const FOREVER: u64 = u64::MAX;
const MILLISECOND: u64 = 1_000_000;

/// Grows with everything that comes out of a loader.
static PROGRESS: AtomicU64 = AtomicU64::new(0);
static READS: AtomicU64 = AtomicU64::new(0);
static FILES: AtomicI64 = AtomicI64::new(0);

/// Few descriptors, and reads that would block, are short, or are interrupted.
static OS: Os = Os {
    open: |path| {
        let opened = (SYSTEM.open)(path);
        FILES.fetch_add(opened.is_ok() as i64, SeqCst);
        opened
    },
    open_directory: |path| {
        let opened = (SYSTEM.open_directory)(path);
        FILES.fetch_add(opened.is_ok() as i64, SeqCst);
        opened
    },
    close: |fd| {
        FILES.fetch_sub(1, SeqCst);
        (SYSTEM.close)(fd);
    },
    read: |fd, target, offset, cached_only| match READS.fetch_add(1, SeqCst) % 8 {
        0 | 3 if cached_only => Err(Errno(libc::EAGAIN)),
        1 => Err(Errno(libc::EINTR)),
        5 => {
            let most = target.len().min(100);
            (SYSTEM.read)(fd, &mut target[..most], offset, cached_only)
        }
        _ => (SYSTEM.read)(fd, target, offset, cached_only),
    },
    open_files_max: || 40,
    ..SYSTEM
};

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

/// Ends the process where nothing happens for three minutes, or where a thread panics and others
/// would wait for it; both say which seed it was.
fn watch(seed: &'static AtomicU64) {
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        print(info);
        eprintln!("WAVETRAIN_STRESS_SEED={}", seed.load(SeqCst));
        std::process::abort();
    }));
    std::thread::spawn(move || {
        let (mut before, mut idle) = (0, 0);
        loop {
            std::thread::sleep(Duration::from_secs(1));
            let now = PROGRESS.load(SeqCst);
            idle = if now == before { idle + 1 } else { 0 };
            before = now;
            if idle >= 180 {
                let seed = seed.load(SeqCst);
                eprintln!("no progress for 180 s: WAVETRAIN_STRESS_SEED={seed}");
                std::process::abort();
            }
        }
    });
}

/// In a process of its own, which a hang or a panic ends.
#[test]
fn random_streams_give_what_their_tags_say() {
    alone(|| {
        static SEED: AtomicU64 = AtomicU64::new(0);
        let first = setting("WAVETRAIN_STRESS_SEED", 1);
        let count = setting("WAVETRAIN_STRESS_CASES", 150);
        let scratch = Scratch::new();
        let world = World::build(&scratch);
        watch(&SEED);
        for seed in first..first + count {
            SEED.store(seed, SeqCst);
            println!("WAVETRAIN_STRESS_SEED={seed}");
            run_case(&world, &mut Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1));
            assert_eq!(FILES.load(SeqCst), 0, "every descriptor is closed");
        }
    });
}

fn pick<T: Copy>(dice: &mut Dice, from: &[T]) -> T {
    from[dice.range(0, from.len() as i64) as usize]
}

fn number(dice: &mut Dice, first: u32, limit: u32) -> u32 {
    dice.range(first.into(), limit.into()) as u32
}

/// A config with every knob drawn.
fn draw_config(dice: &mut Dice, shape: &[u64; 3]) -> Config {
    let samples = number(dice, 1, 7);
    let lookaheads = [0, samples, samples + 1, 4 * samples];
    let mut config = Config {
        samples_per_batch: samples,
        sample_rank: 3,
        dtype: pick(dice, &[Dtype::U16, Dtype::F32]) as u32,
        lookahead_samples: pick(dice, &lookaheads),
        n_batch_slots: pick(dice, &[1, 1, 2, 3, 4, 64]),
        host_buffer_waves: number(dice, 2, 9),
        max_chunks_per_wave: pick(dice, &[1, 2, 3, 7, 64]),
        max_read_op_bytes: pick(dice, &[1, 100, 5000, 1 << 20, u32::MAX.into()]),
        max_chunk_uncompressed_bytes: CHUNK_CAP,
        n_io_threads: number(dice, 1, 9),
        n_decode_threads: number(dice, 1, 9),
        metadata_io_concurrency: pick(dice, &[1, 2, 16]),
        n_array_meta_cache: pick(dice, &[1, 2, 16]),
        n_shard_index_cache: pick(dice, &[1, 2, 64]),
        n_chunk_layout_cache: pick(dice, &[1, 2, 64]),
        chunk_cache_bytes: pick(dice, &[0, 0, 64 << 10, 256 << 10, 4 << 20]),
        thread_mode: pick(dice, &[0, 0, THREADS_PUMP]),
        on_error: pick(dice, &[0, ON_ERROR_SKIP]),
        missing_chunks: pick(dice, &[0, 0, MISSING_ERROR]),
        pad_mode: number(dice, PAD_NONE, 4),
        pad_value: 9.0,
        drop_last: pick(dice, &[0, 0, 0, 1]),
        digest: pick(dice, &[0, 0, 1]),
        map_uncompressed: pick(dice, &[0, 0, 1]),
        map_bytes_max: 1 << 30,
        ..Config::default()
    };
    config.sample_shape[..3].copy_from_slice(shape);
    let has_hook = dice.range(0, 4) == 0;
    config = on_named_device(config);
    let spare = pick(dice, &[0, 0, 4096, 40 << 20]);
    // Threads that call a hook have larger stacks.
    let mut config = if has_hook { with_hook(config) } else { config };
    if config.backend != BACKEND_CUDA {
        config.augment = pick(dice, &[0, 1]);
        // The largest box fits the least.
        let staging = [0, 9 * 9 * 9 * 8, 40_000];
        config.max_resample_bytes = u64::from(config.augment) * pick(dice, &staging);
    }
    Config { max_host_memory_bytes: floor_bytes(&config) + spare, ..config }
}

/// The least memory that the config can be opened with.
fn floor_bytes(config: &Config) -> u64 {
    let config = Config { max_host_memory_bytes: 1, ..*config };
    let mut need = Memory::EMPTY;
    // SAFETY: both structs live during the call; the error is optional.
    let code = unsafe {
        wavetrain::surface::c::wavetrain_memory_need(&config, &mut need, std::ptr::null_mut())
    };
    assert_eq!(Status::from_code(code), Some(Status::Budget));
    need.host_bytes + need.pinned_bytes
}

/// How an epoch ends.
#[derive(Clone, Copy, PartialEq)]
enum Ending {
    /// Every sample is popped, or the error of the stream.
    Drained,
    /// Resets at random moments while everybody works.
    Resets,
    /// Close at a random moment.
    Closed,
}

struct Case<'a> {
    config: Config,
    jobs: Vec<Job>,
    world: &'a World,
}

/// What the threads of an epoch share.
struct Epoch<'a> {
    case: &'a Case<'a>,
    loader: &'a Loader,
    ending: Ending,
    pushers: usize,
    pushers_done: AtomicUsize,
    poppers_done: AtomicUsize,
    is_over: AtomicBool,
    /// Number and tags of every batch.
    seen: Mutex<Vec<(u64, Vec<u64>)>>,
    failures: Mutex<Vec<Failure>>,
}

fn run_case(world: &World, dice: &mut Dice) {
    let shape = [0; 3].map(|_| dice.range(1, 9) as u64);
    let config = draw_config(dice, &shape);
    let is_clean = dice.range(0, 3) == 0;
    let count = dice.range(1, 60);
    let jobs = (0..count).map(|_| world.draw_job(dice, &config, is_clean)).collect();
    let case = Case { config, jobs, world };
    let loader = match Loader::open_on(&OS, &config) {
        Ok(loader) => loader,
        Err(failure) => panic!("open: {failure}"),
    };
    for _ in 0..dice.range(0, 3) {
        let ending = pick(dice, &[Ending::Drained, Ending::Drained, Ending::Resets]);
        run_epoch(&case, &loader, ending, dice);
        loader.reset().unwrap();
    }
    run_epoch(&case, &loader, Ending::Closed, dice);
    assert_eq!(loader.pop(0).err().map(|failure| failure.status), Some(Status::Shutdown));
}

fn run_epoch(case: &Case<'_>, loader: &Loader, ending: Ending, dice: &mut Dice) {
    let is_pump = case.config.thread_mode == THREADS_PUMP;
    let epoch = Epoch {
        case,
        loader,
        ending,
        pushers: pick(dice, &[1, 1, 2]),
        pushers_done: AtomicUsize::new(0),
        poppers_done: AtomicUsize::new(0),
        is_over: AtomicBool::new(false),
        seen: Mutex::new(Vec::new()),
        failures: Mutex::new(Vec::new()),
    };
    let poppers = dice.range(1, 4) as usize;
    let pumpers = if is_pump { dice.range(0, 4) } else { 0 };
    std::thread::scope(|scope| {
        let epoch = &epoch;
        let mut fork = || Dice(dice.range(1, 1 << 30) as u64 * 2 + 1);
        for pusher in 0..epoch.pushers {
            let dice = fork();
            scope.spawn(move || push_all(epoch, pusher, dice));
        }
        for _ in 0..poppers {
            let dice = fork();
            scope.spawn(move || {
                pop_all(epoch, dice);
                epoch.poppers_done.fetch_add(1, SeqCst);
            });
        }
        for _ in 0..pumpers {
            let dice = fork();
            scope.spawn(move || pump(epoch, dice));
        }
        disturb(epoch, poppers, fork());
        epoch.is_over.store(true, SeqCst);
    });
    if ending == Ending::Drained {
        check_order(&epoch);
    }
    check_failures(&epoch);
}

/// Waits until `count` batches came out, or for a while, whichever is first.
fn let_run(epoch: &Epoch<'_>, count: usize) {
    for _ in 0..2000 {
        if epoch.seen.lock().unwrap().len() >= count {
            return;
        }
        std::thread::yield_now();
    }
}

/// The main thread's part of an epoch.
fn disturb(epoch: &Epoch<'_>, poppers: usize, mut dice: Dice) {
    match epoch.ending {
        Ending::Drained => {
            while epoch.poppers_done.load(SeqCst) < poppers {
                epoch.loader.stats().unwrap();
                if dice.range(0, 50) == 0 {
                    epoch.loader.stats_reset().unwrap();
                }
                std::thread::sleep(Duration::from_micros(200));
            }
        }
        Ending::Resets => {
            for _ in 0..dice.range(1, 6) {
                let count = epoch.seen.lock().unwrap().len();
                let_run(epoch, count + dice.range(0, 5) as usize);
                epoch.loader.reset().unwrap();
                PROGRESS.fetch_add(1, SeqCst);
            }
        }
        Ending::Closed => {
            let_run(epoch, dice.range(0, 12) as usize);
            let token = epoch.loader.token();
            loop {
                let timeout = pick(&mut dice, &[0, MILLISECOND, 1000 * MILLISECOND]);
                // SAFETY: the held count is optional.
                let code = unsafe {
                    wavetrain::surface::c::wavetrain_close(token, timeout, std::ptr::null_mut())
                };
                match Status::from_code(code) {
                    Some(Status::Ok) => break,
                    Some(Status::Again) => std::thread::yield_now(),
                    status => panic!("close: {status:?}"),
                }
            }
            PROGRESS.fetch_add(1, SeqCst);
        }
    }
}

/// Pushes the jobs, in order where there is one pusher; every other one where there are two.
fn push_all(epoch: &Epoch<'_>, pusher: usize, mut dice: Dice) {
    let jobs = &epoch.case.jobs;
    let requests: Vec<Request<'_>> =
        (pusher..jobs.len()).step_by(epoch.pushers).map(|n| jobs[n].request(n as u64)).collect();
    let waits: &[u64] = match epoch.ending {
        Ending::Resets => &[0, MILLISECOND],
        _ => &[0, MILLISECOND, FOREVER],
    };
    let mut pushed = 0;
    while pushed < requests.len() && !epoch.is_over.load(SeqCst) {
        let limit = requests.len().min(pushed + dice.range(1, 9) as usize);
        let (few, wait) = (&requests[pushed..limit], pick(&mut dice, waits));
        // Boxes alike have one text, so all of an epoch are pushed alike.
        let is_mapped = epoch.case.config.augment == 1;
        let taken = match is_mapped {
            true => push_mapped(epoch.loader, few, wait),
            false => epoch.loader.push(few, wait),
        };
        match taken {
            Ok(taken) => pushed += taken,
            Err(failure) => return note_failure(epoch, failure),
        }
        if dice.range(0, 8) == 0
            && let Err(failure) = epoch.loader.flush()
        {
            return note_failure(epoch, failure);
        }
    }
    if let Err(failure) = epoch.loader.flush() {
        return note_failure(epoch, failure);
    }
    epoch.pushers_done.fetch_add(1, SeqCst);
}

fn pump(epoch: &Epoch<'_>, mut dice: Dice) {
    while !epoch.is_over.load(SeqCst) {
        match epoch.loader.pump(pick(&mut dice, &[0, MILLISECOND / 10, MILLISECOND])) {
            Ok(true) => {}
            Ok(false) => std::thread::sleep(Duration::from_micros(50)),
            Err(failure) => return note_failure(epoch, failure),
        }
    }
}

fn pop_all(epoch: &Epoch<'_>, mut dice: Dice) {
    let held_max = dice.range(0, 4) as usize;
    let mut held: VecDeque<Batch<'_>> = VecDeque::new();
    while !epoch.is_over.load(SeqCst) {
        let is_last = epoch.pushers_done.load(SeqCst) == epoch.pushers;
        let may_wait = held.is_empty() && epoch.ending != Ending::Resets;
        let timeout = pick(&mut dice, &[0, MILLISECOND, 20 * MILLISECOND, FOREVER]);
        let timeout = if may_wait { timeout } else { timeout.min(20 * MILLISECOND) };
        match epoch.loader.pop(timeout) {
            Ok(Pop::Batch(batch)) => {
                PROGRESS.fetch_add(1, SeqCst);
                let seen = (batch.batch_id(), batch.tags().to_vec());
                epoch.seen.lock().unwrap().push(seen);
                held.push_back(batch);
            }
            Ok(Pop::Again(_) | Pop::Starved(_)) => drop(held.pop_front()),
            Ok(Pop::End | Pop::Reset) if is_last => break,
            Ok(Pop::End | Pop::Reset) => std::thread::yield_now(),
            Err(failure) => {
                note_failure(epoch, failure);
                if epoch.ending != Ending::Resets {
                    break;
                }
                std::thread::yield_now();
            }
        }
        while held.len() > held_max {
            let at = dice.range(0, held.len() as i64) as usize;
            check_batch(epoch.case, &held.remove(at).unwrap());
        }
    }
    held.iter().for_each(|batch| check_batch(epoch.case, batch));
}

fn check_batch(case: &Case<'_>, batch: &Batch<'_>) {
    let dtype = Dtype::from_code(case.config.dtype).unwrap();
    let element = dtype.bytes() as usize;
    let bytes = case.config.sample_shape[..3].iter().product::<u64>() as usize * element;
    assert_eq!(batch.shape()[0], batch.tags().len() as u64);
    let data = samples(batch);
    assert_eq!(data.len(), batch.tags().len() * bytes);
    assert_eq!(batch.digests().is_some(), case.config.digest == 1);
    for (n, row) in data.chunks_exact(bytes).enumerate() {
        assert!(batch.digests().is_none_or(|digests| digests[n] == digest(row)));
        let job = &case.jobs[batch.tags()[n] as usize];
        let status = Status::from_code(batch.statuses()[n]).unwrap();
        match &job.want {
            Ok(want) => assert!(status == Status::Ok && want == row, "{job:?}: {status}"),
            Err(want) => {
                assert_eq!(status, *want, "{job:?}");
                let pad = world::element(dtype, 9);
                assert!(row.chunks_exact(element).all(|value| value == pad), "{job:?}");
            }
        }
    }
}

/// Notes what a call failed with. A loader that is open says SHUTDOWN to nobody.
fn note_failure(epoch: &Epoch<'_>, failure: Failure) {
    if failure.status == Status::Shutdown {
        assert!(epoch.ending == Ending::Closed);
        return;
    }
    epoch.failures.lock().unwrap().push(failure);
}

/// All batches came in push order, and all of them, up to the error if there was one.
fn check_order(epoch: &Epoch<'_>) {
    let Case { config, jobs, .. } = epoch.case;
    let mut seen = epoch.seen.lock().unwrap();
    seen.sort();
    assert!(seen.iter().enumerate().all(|(n, (id, _))| *id == n as u64), "every batch once");
    let tags: Vec<u64> = seen.iter().flat_map(|(_, tags)| tags.clone()).collect();
    let failing = jobs.iter().position(|job| job.want.is_err());
    let fails = config.on_error != ON_ERROR_SKIP && failing.is_some();
    let failures = epoch.failures.lock().unwrap();
    if config.drop_last == 0 {
        assert_eq!(!failures.is_empty(), fails);
    }
    if epoch.pushers > 1 {
        let mut sorted = tags.clone();
        sorted.sort();
        sorted.dedup();
        assert_eq!(sorted.len(), tags.len());
        assert!(fails || config.drop_last == 1 || tags.len() == jobs.len());
        return;
    }
    assert!(tags.is_sorted_by(|a, b| a < b), "push order");
    if config.drop_last == 1 {
        return;
    }
    match failures.first() {
        // The error of the lowest sample of the first failing batch: the first failing job.
        Some(failure) => {
            assert_eq!(failure.tag as usize, failing.unwrap(), "{failure}");
            assert_eq!(tags.len(), failing.unwrap() - failure.sample as usize);
            assert_eq!(failure.batch_id, seen.len() as u64);
        }
        None => assert_eq!(tags.len(), jobs.len()),
    }
}

/// Every failure is one that its box must give, in words that depend on the box alone.
fn check_failures(epoch: &Epoch<'_>) {
    static TEXTS: Mutex<Option<HashMap<String, String>>> = Mutex::new(None);
    let mut texts = TEXTS.lock().unwrap();
    let texts = texts.get_or_insert_with(HashMap::new);
    for failure in epoch.failures.lock().unwrap().iter() {
        let Case { config, jobs, world } = epoch.case;
        let job = &jobs[failure.tag as usize];
        assert_eq!(job.want.as_ref().err(), Some(&failure.status), "{job:?}: {failure}");
        assert!(config.on_error != ON_ERROR_SKIP);
        let uses_hook = config.files.size.is_some();
        let key = format!(
            "{} {:?} {:?} {} {} {uses_hook} {}",
            job.uri, job.begin, job.end, config.missing_chunks, config.dtype, config.augment
        );
        let text = failure.text.as_str();
        let before = texts.entry(key).or_insert_with(|| text.to_owned());
        assert_eq!(before, text);
        assert!(world.names(&job.uri, text), "{text}");
    }
}
