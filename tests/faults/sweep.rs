//! A sweep over the calls that the library makes of the system: the n-th call of each kind goes
//! wrong in each way that it can, and what comes of it is compared with what may.
//!
//! A reference run of a [`Scene`] counts the calls of each kind. Then, for call n and each fault of
//! its kind, a run where that call goes wrong: it alone, all calls of the kind for the same file,
//! or all from there on. Invariant of every run, however it ends:
//!
//! - a status, never a wait without end (a watchdog ends the process and says what it was);
//! - batches come in order and hold the bytes of the reference, a file that was said to be absent
//!   reads as the fill value, and what fails is a sample that needs a file that was hit, with a
//!   text that names the file;
//! - an error stays until reset, and after reset the same loader streams everything;
//! - descriptors, blocks and threads are given back, each once, when close has returned.
//!
//! Where a driver is named, batches lie on its device, and all of that holds there too.
//! `WAVETRAIN_FAULTS_WIDE=1` tries every n in every scene instead of a sample of them.

mod host_reads;
mod judge;
mod seam;
mod world;

use crate::common::alone::alone;
use crate::common::drive::{Dice, Job, PATIENCE_NS, config, on_named_device, samples};
use crate::common::mapped::push_mapped;
use judge::{from_floats, judge};
use seam::{CALLS, Call, Extent, Fault, OS, Plan, Record};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use wavetrain::abi::{FilesHook, MemoryHook};
use wavetrain::config::{
    BACKEND_CUDA, Config, MISSING_ERROR, ON_ERROR_NAN, ON_ERROR_SKIP, THREADS_PUMP,
};
use wavetrain::loader::{Failure, Loader, Pop, Request, memory_need};
use wavetrain::records::Dtype;
use wavetrain::status::Status;
use wavetrain::surface::c::wavetrain_close;
use world::{PARTS, SHAPE, World};

const SAMPLES_PER_BATCH: usize = 4;

/// A config, and where its files are.
#[derive(Clone)]
struct Scene {
    name: &'static str,
    config: Config,
    /// No byte is in the page cache.
    is_cold: bool,
    /// Numbers tried for each kind of call and fault unless the sweep is wide: all below the first,
    /// and so many above. Of faults that last half as many.
    few: (u64, u64),
}

/// How a run ended.
pub enum End {
    /// Open refused.
    Refused(Failure),
    /// So many batches, then this error.
    Failed(usize, Failure),
    /// Everything came; some samples may be marked.
    Streamed,
    /// The host keeps a read to itself that the next batch needs.
    Held,
}

/// What came out of a run before anything was put right again.
pub struct Outcome {
    /// How it ended.
    pub end: End,
    /// Status and bytes of each sample that came, in push order.
    pub samples: Vec<(Status, Vec<u8>)>,
    /// Which calls were made and which went wrong.
    pub record: Record,
}

/// Plain threads, little memory, batches of all arrays.
fn base_config() -> Config {
    Config {
        max_host_memory_bytes: 0,
        max_chunk_uncompressed_bytes: 4096,
        max_chunks_per_wave: 16,
        max_npy_files: PARTS,
        max_read_op_bytes: 256,
        n_shard_index_cache: 4,
        lookahead_samples: 16,
        ..config(Dtype::U16, &SHAPE, SAMPLES_PER_BATCH)
    }
}

/// The least memory that the config takes, so that a run is short.
fn fitted(mut config: Config) -> Config {
    config.max_host_memory_bytes = 1;
    let failure = memory_need(&config).err().expect("a byte is too little");
    let words = failure.text.as_str().split("at least ").nth(1).expect("the floor");
    config.max_host_memory_bytes = words.split(' ').next().unwrap().parse().expect("a number");
    config
}

fn scene(name: &'static str, is_cold: bool, few: (u64, u64), config: Config) -> Scene {
    Scene { name, config: fitted(on_named_device(config)), is_cold, few }
}

fn errnos(list: &[i32]) -> Vec<Fault> {
    list.iter().map(|errno| Fault::Fails(*errno)).collect()
}

/// The ways in which a call can go wrong.
fn faults(call: Call) -> Vec<Fault> {
    use libc::*;
    let mut faults = match call {
        Call::Map | Call::Reserve => errnos(&[ENOMEM]),
        Call::MapFile => errnos(&[ENOMEM, ENODEV, EACCES]),
        Call::Thread => errnos(&[EAGAIN, ENOMEM, EPERM]),
        Call::Open => {
            errnos(&[EIO, ENOENT, ENOTDIR, EACCES, EMFILE, ENFILE, ESTALE, ENOMEM, ELOOP])
        }
        Call::OpenDirectory => errnos(&[EIO, ENOENT, ENOTDIR, EACCES, EMFILE, ENFILE, ESTALE]),
        Call::ReadDirectory => errnos(&[EIO, ENOMEM]),
        Call::Stat => {
            let mut faults = errnos(&[EIO, ESTALE, ENOMEM]);
            faults.extend([Fault::Longer, Fault::Shorter, Fault::Later]);
            faults
        }
        Call::StatPath => errnos(&[EIO, ENOENT, EACCES, ESTALE]),
        Call::StatLink => errnos(&[EIO, ENOENT, ENOTDIR, EACCES, ESTALE]),
        Call::Probe => {
            let mut faults = errnos(&[EIO, EAGAIN, EOPNOTSUPP, ESTALE, ENOMEM]);
            faults.extend([Fault::OneByte, Fault::Half, Fault::Ends, Fault::Interrupted(5)]);
            faults
        }
        Call::Read => {
            let mut faults = errnos(&[EIO, ESTALE, ENOMEM]);
            faults.extend([Fault::OneByte, Fault::Half, Fault::Ends, Fault::Interrupted(5)]);
            faults
        }
        Call::Alloc => vec![Fault::Fails(ENOMEM), Fault::Misaligned],
        Call::HookSize => {
            vec![Fault::Fails(EIO), Fault::Absent, Fault::Longer, Fault::Shorter]
        }
        Call::HookRead => vec![Fault::Fails(EIO), Fault::Absent],
        Call::HookReadAsync => vec![
            Fault::Fails(EIO),
            Fault::Absent,
            Fault::EndsFailed,
            Fault::EndsAbsent,
            Fault::Half,
            Fault::AtOnce,
            Fault::Twice,
            Fault::Held,
        ],
    };
    let waits = [Call::Open, Call::Stat, Call::StatPath, Call::StatLink, Call::Probe, Call::Read];
    let hooks = [Call::HookSize, Call::HookRead, Call::HookReadAsync];
    if waits.contains(&call) || hooks.contains(&call) {
        faults.push(Fault::Slow);
    }
    faults
}

/// Which calls may go on going wrong: not reads that never bring more than a byte of a file, which
/// only take long, and not reads that a host keeps, which take their places for good.
fn extents(call: Call, fault: Fault) -> &'static [Extent] {
    match (call, fault) {
        (_, Fault::Interrupted(_) | Fault::Slow) | (Call::Map | Call::Reserve | Call::Alloc, _) => {
            &[Extent::Once]
        }
        (_, Fault::Held) => &[Extent::Once],
        (Call::Stat | Call::Probe | Call::Read, Fault::Fails(libc::ESTALE)) => {
            &[Extent::Once, Extent::Descriptor, Extent::File, Extent::Onward]
        }
        (Call::Thread, _) => &[Extent::Once, Extent::Onward],
        _ => &[Extent::Once, Extent::File, Extent::Onward],
    }
}

/// Numbers of calls to try: all of them where they are few or the sweep is wide.
fn numbers(count: u64, (first, more): (u64, u64), dice: &mut Dice) -> Vec<u64> {
    let is_wide = std::env::var_os("WAVETRAIN_FAULTS_WIDE").is_some();
    if is_wide || count <= first + more {
        return (0..count).collect();
    }
    let mut numbers: Vec<u64> = (0..first).collect();
    numbers.extend((0..more).map(|_| dice.range(first as i64, count as i64) as u64));
    numbers.sort();
    numbers.dedup();
    numbers
}

/// From here on a run that hangs ends this process, which is a test's own: the seam is its statics.
fn watch() {
    std::thread::spawn(watch_runs);
}

/// The run that goes on, and since when.
static RUN: Mutex<Option<(Instant, String)>> = Mutex::new(None);

fn watch_runs() {
    loop {
        std::thread::sleep(Duration::from_secs(1));
        let run = RUN.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((since, what)) = run.as_ref() else { continue };
        if since.elapsed() > Duration::from_secs(300) {
            eprintln!("a run hangs: {what}\n{}", seam::dump());
            for task in std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten() {
                let read = |name| std::fs::read_to_string(task.path().join(name));
                let (wait, call) = (read("wchan"), read("syscall"));
                eprintln!("{:?} {wait:?} {call:?}", task.file_name());
            }
            std::process::abort();
        }
    }
}

/// How long a stream may take beside a read that the host keeps, before the host ends it.
const HELD_NS: u64 = 3_000_000_000;

/// Streams all jobs; stops at the first error.
fn stream(loader: &Loader, world: &World, outcome: &mut Outcome) {
    stream_until(loader, world, outcome, PATIENCE_NS, || unreachable!("pop waits"));
}

/// The same, with pops that wait `timeout_ns`. Where none is ready, `is_over` says whether to stop.
fn stream_until(
    loader: &Loader,
    world: &World,
    outcome: &mut Outcome,
    timeout_ns: u64,
    mut is_over: impl FnMut() -> bool,
) {
    let number = |n: usize| 100 + n as u64;
    let requests: Vec<Request<'_>> = (world.jobs.iter().enumerate())
        .map(|(n, job)| Request { tag: number(n), ..job.request(n) })
        .collect();
    let (mut pushed, mut is_flushed, mut batches) = (0, false, 0);
    outcome.end = loop {
        if pushed < requests.len() {
            let is_mapped = world.is_mapped;
            let taken = match is_mapped {
                true => push_mapped(loader, &requests[pushed..], 0),
                false => loader.push(&requests[pushed..], 0),
            };
            match taken {
                Ok(taken) => pushed += taken,
                Err(failure) => break End::Failed(batches, failure),
            }
        }
        if pushed == requests.len() && !is_flushed {
            // The error may be sticky by now, which pop then says.
            is_flushed = loader.flush().is_ok();
        }
        // A read that the host keeps, of the stream before a reset, keeps its place in the staging
        // ring, and the places behind it are not used again before it: a long stream waits for it.
        let patience_ns = if host_reads::is_holding() { HELD_NS } else { PATIENCE_NS };
        match loader.pop(timeout_ns.min(patience_ns)) {
            Ok(Pop::Batch(batch)) => {
                assert_eq!(batch.batch_id(), batches as u64);
                batches += 1;
                let first = outcome.samples.len();
                let data = samples(&batch);
                let rows = data.chunks_exact(data.len() / batch.tags().len());
                for (n, row) in rows.enumerate() {
                    assert_eq!(batch.tags()[n], number(first + n), "in push order");
                    let status = Status::from_code(batch.statuses()[n]).expect("a status");
                    outcome.samples.push((status, row.to_vec()));
                }
            }
            Ok(Pop::End | Pop::Reset) => break End::Streamed,
            Ok(Pop::Again(_)) if timeout_ns == 0 => {
                if is_over() {
                    break End::Held;
                }
            }
            Ok(Pop::Starved(_)) if host_reads::is_holding() => host_reads::complete_held(),
            Ok(Pop::Again(why) | Pop::Starved(why)) => panic!("not now: {}", why.as_str()),
            Err(failure) => break End::Failed(batches, failure),
        }
    };
}

/// Streams until the host has kept a read and nothing else is to be done without it.
fn stream_until_held(loader: &Loader, world: &World, is_pump: bool, outcome: &mut Outcome) {
    stream_until(loader, world, outcome, 0, || {
        let did_work = is_pump && loader.pump(0).expect("it is pumped");
        if !did_work {
            std::thread::yield_now();
        }
        host_reads::is_holding() && !did_work
    });
}

/// Closes a loader of which the host may have a read, which ends while close waits for it.
fn close(loader: Loader) {
    if !host_reads::is_holding() {
        return loader.close(PATIENCE_NS).unwrap_or_else(|failure| panic!("close: {failure}"));
    }
    let loader = std::mem::ManuallyDrop::new(loader);
    let close = |timeout_ns| {
        // SAFETY: NULL is allowed.
        unsafe { wavetrain_close(loader.token(), timeout_ns, std::ptr::null_mut()) }
    };
    assert_eq!(close(0), Status::Again as i32, "a read is in flight");
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| close(PATIENCE_NS));
        host_reads::complete_held();
        assert_eq!(waits.join().unwrap(), 0);
    });
}

/// The error of a failed stream stays, the same for every call.
fn check_sticky(loader: &Loader, job: &Job, first: &Failure) {
    let same = |failure: Failure| {
        assert_eq!(failure.status, first.status);
        assert_eq!(failure.text.as_str(), first.text.as_str(), "the error is sticky");
    };
    same(loader.pop(PATIENCE_NS).err().expect("pop says it again"));
    same(loader.push(&[job.request(0)], PATIENCE_NS).expect_err("push says it"));
    same(loader.flush().expect_err("flush says it"));
}

fn check_clean(world: &World, outcome: &Outcome) {
    match &outcome.end {
        End::Streamed => {}
        End::Held => panic!("a read is missing"),
        End::Failed(_, failure) | End::Refused(failure) => panic!("{failure}"),
    }
    assert_eq!(outcome.samples.len(), world.jobs.len());
    for (job, (status, bytes)) in world.jobs.iter().zip(&outcome.samples) {
        assert_eq!(*status, Status::Ok, "{}", job.uri);
        let want = job.want.as_ref().unwrap();
        let is_float = bytes.len() == 2 * want.len();
        let floats = || from_floats(bytes).into_iter().flatten().flatten().collect();
        let stored: Vec<u8> = if is_float { floats() } else { bytes.clone() };
        assert!(*want == stored, "{} {:?}", job.uri, job.begin);
    }
}

fn blank() -> Outcome {
    Outcome { end: End::Streamed, samples: Vec::new(), record: Record::default() }
}

/// After reset everything comes, at once; but files that looked otherwise than they are and were
/// not read meanwhile have changed since, which is an error of its own, once for each.
fn check_recovery(loader: &Loader, world: &World, plan: Plan) {
    let has_changed = match plan.fault {
        Fault::Later => true,
        Fault::Longer | Fault::Shorter => plan.extent != Extent::Once,
        _ => false,
    };
    for round in 0.. {
        let mut again = blank();
        loader.reset().unwrap_or_else(|failure| panic!("reset: {failure}"));
        stream(loader, world, &mut again);
        let is_marked = again.samples.iter().any(|(status, _)| *status != Status::Ok);
        let is_clean = matches!(again.end, End::Streamed) && !is_marked;
        if is_clean || !has_changed || round == 60 {
            return check_clean(world, &again);
        }
    }
}

/// One run: streams with the plan, resets, streams without it, closes, and looks what is left.
fn run(scene: &Scene, world: &World, plan: Option<Plan>) -> Outcome {
    *RUN.lock().unwrap() = Some((Instant::now(), format!("{}: {plan:?}", scene.name)));
    seam::begin(plan, scene.is_cold);
    let mut outcome = blank();
    match Loader::open_on(&OS, &scene.config) {
        Err(failure) => {
            outcome.end = End::Refused(failure);
            outcome.record = seam::disarm();
        }
        Ok(loader) => {
            if plan.is_some_and(|plan| plan.fault == Fault::Held) {
                let is_pump = scene.config.thread_mode == THREADS_PUMP;
                stream_until_held(&loader, world, is_pump, &mut outcome);
            } else {
                stream(&loader, world, &mut outcome);
            }
            if let End::Failed(_, failure) = &outcome.end {
                check_sticky(&loader, &world.jobs[0], failure);
            }
            outcome.record = seam::disarm();
            if let Some(plan) = plan {
                check_recovery(&loader, world, plan);
            }
            close(loader);
        }
    }
    let left = seam::leftovers();
    assert!(left.is_empty(), "left behind: {left:?}");
    *RUN.lock().unwrap() = None;
    outcome
}

/// Calls of each kind in a run without fault: the most of three runs, because threads race.
fn counts(scene: &Scene, world: &World) -> BTreeMap<Call, u64> {
    let mut counts = BTreeMap::new();
    for _ in 0..3 {
        let outcome = run(scene, world, None);
        check_clean(world, &outcome);
        for (call, count) in outcome.record.counts {
            let most = counts.entry(call).or_insert(0);
            *most = count.max(*most);
        }
    }
    counts
}

/// What a run without a fault would say of itself, for the table.
fn verdict(outcome: &Outcome) -> String {
    match &outcome.end {
        End::Refused(failure) => format!("refused {:?}", failure.status),
        End::Failed(_, failure) => format!("{:?}", failure.status),
        End::Held => "held".to_string(),
        End::Streamed => {
            let marked = outcome.samples.iter().find(|(status, _)| *status != Status::Ok);
            marked.map_or("Ok".to_string(), |(status, _)| format!("marked {status:?}"))
        }
    }
}

/// Tries everything in a scene and prints the table of what came of it.
fn sweep(scene: &Scene, world: &World) {
    let counts = counts(scene, world);
    println!("{} ({} bytes): {counts:?}", scene.name, scene.config.max_host_memory_bytes);
    let mut dice = Dice(0x9E37_79B9_7F4A_7C15);
    let mut wrongs: Vec<String> = Vec::new();
    for call in CALLS {
        let count = counts.get(&call).copied().unwrap_or(0);
        let mut table: BTreeMap<String, u64> = BTreeMap::new();
        let (mut tried, mut met) = (0, 0);
        for fault in faults(call).into_iter().filter(|_| count > 0) {
            for extent in extents(call, fault) {
                let (first, more) = scene.few;
                let few = match extent {
                    Extent::Once => (first, more),
                    _ => (first.min(12) / 2, more / 2 + first / 50),
                };
                for number in numbers(count, few, &mut dice) {
                    let plan = Plan { call, number, fault, extent: *extent };
                    tried += 1;
                    let outcome = match run_judged(scene, world, plan) {
                        Ok(outcome) => outcome,
                        Err(wrong) => {
                            eprintln!("{wrong}");
                            wrongs.push(wrong);
                            assert!(wrongs.len() < 20, "{}: too much is wrong", scene.name);
                            continue;
                        }
                    };
                    met += u64::from(outcome.record.hits > 0);
                    *table.entry(verdict(&outcome)).or_default() += 1;
                }
            }
        }
        if tried > 0 {
            // Of calls that are few the next run may make fewer.
            let is_most = met * 2 >= tried || count < 20 && met > 0;
            assert!(is_most, "{call:?}: {met} of {tried} faults were met");
            println!("  {call:?}: {count} calls, {tried} faults, {met} met: {table:?}");
        }
    }
    assert!(wrongs.is_empty(), "{}: {} runs went wrong", scene.name, wrongs.len());
}

/// What is wrong with a run, or what came of it.
fn run_judged(scene: &Scene, world: &World, plan: Plan) -> Result<Outcome, String> {
    let result = std::panic::catch_unwind(|| {
        let outcome = run(scene, world, Some(plan));
        judge(world, &scene.config, plan, scene.is_cold, &outcome);
        outcome
    });
    result.map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| text.to_string()));
        format!("{plan:?}: {}\n{}", text.unwrap_or_default(), seam::dump())
    })
}

fn sweep_one(scene: Scene) {
    watch();
    let start = Instant::now();
    let mut world = World::build(scene.config.files.read.is_some());
    world.is_mapped = scene.config.augment == 1;
    sweep(&scene, &world);
    println!("  {:.1} s", start.elapsed().as_secs_f64());
}

#[test]
fn pumped_streams_bear_every_fault() {
    alone(|| {
        let config = Config { thread_mode: THREADS_PUMP, ..base_config() };
        sweep_one(scene("pump", false, (500, 0), config));
    });
}

#[test]
fn pumped_streams_that_skip_mark_exactly_the_samples_concerned() {
    alone(|| {
        let config = Config { thread_mode: THREADS_PUMP, on_error: ON_ERROR_SKIP, ..base_config() };
        sweep_one(scene("pump, skip, cold", true, (12, 12), config));
    });
}

#[test]
fn threads_bear_every_fault() {
    alone(|| {
        sweep_one(scene("threads", false, (6, 6), base_config()));
    });
}

#[test]
fn threads_that_wait_for_storage_bear_every_fault() {
    alone(|| {
        sweep_one(scene("threads, cold", true, (6, 8), base_config()));
    });
}

#[test]
fn threads_that_skip_mark_exactly_the_samples_concerned() {
    alone(|| {
        let config = Config { on_error: ON_ERROR_SKIP, ..base_config() };
        sweep_one(scene("threads, skip, cold", true, (6, 6), config));
        let config = Config { on_error: ON_ERROR_NAN, dtype: Dtype::F32 as u32, ..base_config() };
        sweep_one(scene("threads, nan, cold", true, (6, 6), config));
    });
}

#[test]
fn streams_of_boxes_with_a_map_bear_every_fault() {
    alone(|| {
        if on_named_device(base_config()).backend == BACKEND_CUDA {
            println!("skipped: no box has a map on a device");
            return;
        }
        // There is staging for two boxes of the four of a batch.
        let max_resample_bytes = 1024;
        let (augment, chunk_cache_bytes) = (1, 1 << 16);
        let config = Config { augment, max_resample_bytes, ..base_config() };
        sweep_one(scene("maps", false, (4, 6), config));
        let (on_error, config) = (ON_ERROR_SKIP, Config { chunk_cache_bytes, ..config });
        sweep_one(scene("maps, skip, cold", true, (4, 4), Config { on_error, ..config }));
    });
}

#[test]
fn streams_with_a_chunk_cache_bear_every_fault() {
    alone(|| {
        let config = Config { chunk_cache_bytes: 1 << 16, ..base_config() };
        sweep_one(scene("chunk cache", false, (4, 6), config));
    });
}

#[test]
fn streams_that_open_their_files_again_and_again_bear_every_fault() {
    alone(|| {
        let config = Config {
            n_chunk_layout_cache: 2,
            n_shard_index_cache: 1,
            n_array_meta_cache: 2,
            missing_chunks: wavetrain::config::MISSING_FILL,
            ..base_config()
        };
        sweep_one(scene("small caches", true, (4, 6), config));
    });
}

#[test]
fn files_of_a_hook_bear_every_fault() {
    alone(|| {
        let files = FilesHook {
            size: Some(seam::hook_size),
            read: Some(seam::hook_read),
            ..FilesHook::NONE
        };
        sweep_one(scene("files hook", false, (6, 6), Config { files, ..base_config() }));
    });
}

/// Files of a hook, whose chunks are read by reads that end later.
const ASYNC_FILES: FilesHook = FilesHook {
    size: Some(seam::hook_size),
    read: Some(seam::hook_read),
    read_async: Some(host_reads::read_async),
    ..FilesHook::NONE
};

#[test]
fn reads_that_the_host_ends_later_bear_every_fault() {
    alone(|| {
        let config = Config { files: ASYNC_FILES, ..base_config() };
        sweep_one(scene("async hook", false, (6, 6), config));
    });
}

#[test]
fn pumped_reads_that_the_host_ends_later_bear_every_fault() {
    alone(|| {
        let config = Config { files: ASYNC_FILES, thread_mode: THREADS_PUMP, ..base_config() };
        sweep_one(scene("async hook, pump", false, (8, 8), config));
    });
}

#[test]
fn files_whose_reads_all_end_in_a_failure_bear_every_fault_of_the_second_read() {
    alone(|| {
        let files = FilesHook { read_async: Some(host_reads::read_async_fails), ..ASYNC_FILES };
        let config = Config { files, ..base_config() };
        sweep_one(scene("failing async hook", false, (4, 4), config));
    });
}

#[test]
fn memory_of_a_hook_is_given_back_once_however_open_ends() {
    alone(|| {
        let memory =
            MemoryHook { alloc: Some(seam::alloc), free: Some(seam::free), ..MemoryHook::NONE };
        let config = Config { memory, ..base_config() };
        sweep_one(scene("memory hook", false, (2, 1), config));
    });
}

#[test]
fn a_host_block_that_is_too_small_or_not_aligned_is_refused_and_left_alone() {
    alone(|| {
        watch();
        let need = memory_need(&base_config()).unwrap_or_else(|failure| panic!("{failure}"));
        let painted = vec![0xA5u8; need.host_bytes as usize + 8192];
        let aligned = painted.as_ptr().align_offset(4096);
        let cases = [
            (0, need.host_bytes - 1, Status::Budget),
            (0, 0, Status::Invalid),
            (64, need.host_bytes, Status::Invalid),
        ];
        for (shift, bytes, status) in cases {
            seam::begin(None, false);
            let start = painted[aligned + shift..].as_ptr().cast_mut().cast();
            let memory =
                MemoryHook { host_block: start, host_block_bytes: bytes, ..MemoryHook::NONE };
            let failure = Loader::open_on(&OS, &Config { memory, ..base_config() }).err().unwrap();
            assert_eq!(failure.status, status, "{failure}");
            assert!(failure.text.as_str().contains("memory"), "{failure}");
            assert!(painted.iter().all(|byte| *byte == 0xA5), "the block is left alone");
            assert!(seam::leftovers().is_empty());
            assert_eq!(seam::disarm().counts.len(), 0, "nothing was asked of the system");
        }
    });
}

#[test]
fn absent_files_are_errors_where_missing_chunks_are() {
    alone(|| {
        watch();
        let world = World::build(false);
        let config = Config { missing_chunks: MISSING_ERROR, ..base_config() };
        seam::begin(None, false);
        let loader = Loader::open_on(&OS, &config).unwrap_or_else(|failure| panic!("{failure}"));
        let mut outcome = blank();
        stream(&loader, &world, &mut outcome);
        let End::Failed(batches, failure) = &outcome.end else { panic!("no failure") };
        assert_eq!((*batches, failure.status), (0, Status::NotFound));
    });
}

#[test]
fn streams_out_of_mapped_files_bear_every_fault() {
    alone(|| {
        let config = Config { map_uncompressed: 1, map_bytes_max: 2 << 30, ..base_config() };
        sweep_one(scene("mapped", false, (6, 6), config));
        let config = Config { on_error: ON_ERROR_SKIP, ..config };
        sweep_one(scene("mapped, skip", true, (4, 4), config));
    });
}
