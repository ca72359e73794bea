//! A closed loader keeps a slot and its records while a batch or a tensor of it lives. It keeps no
//! thread, descriptor, hook or page besides.

use crate::common::alone::alone;
use crate::common::drive::PATIENCE_NS;
use crate::common::fixtures::Scratch;
use crate::common::hook::with_hook;
use crate::common::store::{self, Spec, value};
use crate::common::surface::{Lines, Open};
use crate::common::synth::{Meta, chunk_bytes};
use crate::common::workers::{JobSystem, Run};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::{c_char, c_void};
use std::path::{Path, PathBuf};
use std::ptr::{NonNull, null_mut};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};
use wavetrain::abi::{Error, LogHook, MemoryHook, Stats};
use wavetrain::base::limits::RANK_MAX;
use wavetrain::batch::exports::DlManagedTensorVersioned;
use wavetrain::config::{Config, THREADS_OWN, THREADS_PUMP, UNTIL_RELEASED};
use wavetrain::loader::{Loader, memory_need};
use wavetrain::os::{Errno, Os, SYSTEM};
use wavetrain::records::Dtype;
use wavetrain::status::Status;
use wavetrain::surface::c::*;

const OK: i32 = Status::Ok as i32;
const AGAIN: i32 = Status::Again as i32;
const SHUTDOWN: i32 = Status::Shutdown as i32;
const INVALID: i32 = Status::Invalid as i32;

const SPEC: Spec = Spec { seed: 5, edge: 64, shard: 8, chunk: 4, zstd: false, sparse: false };
/// A sample: 16 KiB of u16.
const SHAPE: [u64; 3] = [2, 64, 64];
const SLOT_BYTES: u64 = 16 << 10;
/// Bytes that may stay next to slots: records, and the rest of pages that they begin and end in.
const RECORDS_BYTES: u64 = 64 << 10;

fn array(test: &str) -> PathBuf {
    store::of_test("kept", test, &SPEC)
}

/// Over 100 MiB of memory, and batches of one sample of 16 KiB.
fn config() -> Config {
    let mut config = Config {
        samples_per_batch: 1,
        sample_rank: 3,
        n_decode_threads: 2,
        n_io_threads: 3,
        dtype: Dtype::U16 as u32,
        chunk_cache_bytes: 64 << 20,
        ..Config::default()
    };
    config.sample_shape[..3].copy_from_slice(&SHAPE);
    config
}

/// Pages of each block that is mapped: how many there are, and whether each was given back.
static BLOCKS: Mutex<BTreeMap<usize, Vec<bool>>> = Mutex::new(BTreeMap::new());
const PAGE: usize = 4096;

thread_local! {
    /// The block that this thread mapped last.
    static BLOCK: Cell<usize> = const { Cell::new(0) };
    /// Runs once, after the next pages that this thread gives back are gone.
    static ON_VACATE: Cell<Option<Box<dyn FnOnce()>>> = const { Cell::new(None) };
}

fn note_vacated(pages: NonNull<u8>, bytes: u64) {
    let (at, count) = (pages.as_ptr() as usize, (bytes as usize).div_ceil(PAGE));
    let mut blocks = BLOCKS.lock().unwrap();
    let (start, block) = blocks.range_mut(..=at).next_back().expect("a block");
    assert_eq!(at % PAGE, 0);
    block[(at - start) / PAGE..][..count].fill(true);
}

/// Notes what is given back.
static SEEN: Os = Os {
    map: |bytes| {
        (SYSTEM.map)(bytes).inspect(|block| {
            let start = block.as_ptr() as usize;
            let pages = (bytes as usize).div_ceil(PAGE);
            BLOCKS.lock().unwrap().insert(start, vec![false; pages]);
            BLOCK.set(start);
        })
    },
    unmap: |block, bytes| {
        let pages = BLOCKS.lock().unwrap().remove(&(block.as_ptr() as usize));
        assert_eq!(pages.map(|pages| pages.len()), Some((bytes as usize).div_ceil(PAGE)));
        (SYSTEM.unmap)(block, bytes);
    },
    vacate: |pages, bytes| {
        note_vacated(pages, bytes);
        (SYSTEM.vacate)(pages, bytes);
        if let Some(act) = ON_VACATE.take() {
            act();
        }
    },
    ..SYSTEM
};

/// Bytes of this thread's block that were not given back; None where all of it was.
fn left_bytes() -> Option<u64> {
    let blocks = BLOCKS.lock().unwrap();
    let pages = blocks.get(&BLOCK.get())?;
    Some((pages.iter().filter(|is_vacated| !**is_vacated).count() * PAGE) as u64)
}

fn open(os: &'static Os, config: &Config) -> Open {
    let loader = Loader::open_on(os, config).unwrap_or_else(|failure| panic!("{failure}"));
    let token = loader.token();
    std::mem::forget(loader);
    Open(token)
}

/// The first plane of sample number `tag`.
fn plane(tag: u64) -> u64 {
    tag * 2 % (SPEC.edge - 1)
}

fn push(loader: &Open, array: &Path, tag: u64) {
    let begin = [plane(tag) as i64, 0, 0];
    let end = [begin[0] + SHAPE[0] as i64, SHAPE[1] as i64, SHAPE[2] as i64];
    loader.push_box(array.to_str().unwrap(), &begin, &end, tag);
}

fn batch(loader: &Open, array: &Path, tag: u64) -> u64 {
    push(loader, array, tag);
    loader.pop()
}

fn is_right(data: &[u16], tag: u64) -> bool {
    let places = (0..data.len() as u64).map(|at| [at / 4096, at / 64 % 64, at % 64]);
    data.len() as u64 * 2 == SLOT_BYTES
        && data
            .iter()
            .zip(places)
            .all(|(found, [z, y, x])| *found == value(SPEC.seed, [plane(tag) + z, y, x]))
}

fn check_batch(loader: &Open, batch: u64, tag: u64) {
    let info = loader.info(batch).unwrap();
    // SAFETY: the batch is held, in host memory.
    let data = unsafe { std::slice::from_raw_parts(info.data.cast::<u16>(), 8192) };
    // SAFETY: likewise.
    let (tags, status) = unsafe { (*info.tags, *info.statuses) };
    assert!(is_right(data, tag));
    assert_eq!((tags, status), (tag, 0));
    // SAFETY: likewise: three extents.
    let filled_shape = unsafe { std::slice::from_raw_parts(info.filled_shape, 3) };
    assert_eq!(filled_shape, SHAPE);
}

#[derive(Clone, Copy)]
struct Tensor(NonNull<DlManagedTensorVersioned>);

// SAFETY: a tensor may be used and deleted on any thread.
unsafe impl Send for Tensor {}

impl Tensor {
    fn of(loader: &Open, batch: u64) -> Tensor {
        let mut tensor = null_mut();
        // SAFETY: writable.
        let code = unsafe { wavetrain_dlpack(loader.0, batch, 0, null_mut(), &mut tensor) };
        assert_eq!(code, OK);
        Tensor(NonNull::new(tensor).unwrap())
    }

    fn check(&self, tag: u64) {
        // SAFETY: it lives.
        let tensor = unsafe { &self.0.as_ref().dl_tensor };
        // SAFETY: it has four axes.
        let shape = unsafe { std::slice::from_raw_parts(tensor.shape, 4) };
        assert_eq!(shape, [1, 2, 64, 64]);
        // SAFETY: it lives, in host memory.
        let data = unsafe { std::slice::from_raw_parts(tensor.data.cast::<u16>(), 8192) };
        assert!(is_right(data, tag));
    }

    fn delete(self) {
        // SAFETY: it lives, and is not used any more.
        unsafe { (self.0.as_ref().deleter.unwrap())(self.0.as_ptr()) };
    }
}

/// The one tensor of a released batch of a loader that has read all files.
fn one_tensor(loader: &Open, array: &Path) -> Tensor {
    for tag in 0..32 {
        let popped = batch(loader, array, tag);
        check_batch(loader, popped, tag);
        loader.release(popped);
    }
    let popped = batch(loader, array, 7);
    let tensor = Tensor::of(loader, popped);
    loader.release(popped);
    tensor
}

fn entries(folder: &str) -> usize {
    std::fs::read_dir(folder).unwrap().count()
}

/// Bytes of anonymous memory that this process has.
fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("RssAnon:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}

#[test]
fn one_tensor_of_a_closed_loader_keeps_its_16_kib_and_no_thread_and_no_descriptor() {
    alone(|| {
        let array = array("one");
        let before = (entries("/proc/self/task"), entries("/proc/self/fd"));
        let resident = resident_bytes();
        let loader = open(&SYSTEM, &config());
        let tensor = one_tensor(&loader, &array);
        assert!(entries("/proc/self/fd") > before.1 + 200, "the files are open");
        assert!(resident_bytes() > resident + (100 << 20), "the memory is there");
        assert_eq!(loader.close(PATIENCE_NS), (AGAIN, 1));
        assert_eq!((entries("/proc/self/task"), entries("/proc/self/fd")), before);
        let kept = resident_bytes().saturating_sub(resident);
        if cfg!(wavetrain_sanitizer) {
            println!("skipped: {kept} bytes are kept, the sanitizer's shadow memory included");
        } else {
            assert!(kept < SLOT_BYTES + RECORDS_BYTES + (1 << 20), "{kept} bytes are kept");
        }
        tensor.check(7);
        tensor.delete();
        assert_eq!(loader.close(0), (OK, 0));
    });
}

#[test]
fn pages_go_slot_by_slot_and_all_of_them_with_the_last() {
    let array = array("slots");
    for thread_mode in [THREADS_OWN, THREADS_PUMP] {
        let loader = open(&SEEN, &Config { thread_mode, n_batch_slots: 4, ..config() });
        let whole = left_bytes().unwrap();
        let held: Vec<u64> = (0..3).map(|tag| batch(&loader, &array, tag)).collect();
        let tensor = Tensor::of(&loader, held[1]);
        loader.release(held[1]);
        assert_eq!(left_bytes(), Some(whole), "nothing before close");
        assert_eq!(loader.close(PATIENCE_NS), (AGAIN, 3));
        let three = left_bytes().unwrap();
        assert!(three < 3 * SLOT_BYTES + RECORDS_BYTES, "{three} of {whole} bytes are kept");
        check_batch(&loader, held[0], 0);
        tensor.check(1);
        check_batch(&loader, held[2], 2);
        loader.release(held[0]);
        assert_eq!(left_bytes(), Some(three), "release gives nothing back");
        assert_eq!(loader.close(0), (AGAIN, 2));
        let two = left_bytes().unwrap();
        assert!(two <= three - SLOT_BYTES, "{two} of {three} bytes");
        tensor.check(1);
        tensor.delete();
        assert_eq!(loader.close(0), (AGAIN, 1));
        assert!(left_bytes().unwrap() <= two - SLOT_BYTES);
        check_batch(&loader, held[2], 2);
        loader.release(held[2]);
        assert_eq!(loader.close(0), (OK, 0));
        assert_eq!(left_bytes(), None);
    }
}

/// Every call on a loader that was closed while this batch is held, a batch of the tag.
fn check_late_calls(loader: &Open, held: u64, tag: u64) {
    let mut stats = Stats::EMPTY;
    let (mut token, mut taken, mut error, mut tensor) = (99, 99, Error::EMPTY, null_mut());
    // SAFETY: all of it is whole, or NULL where that is allowed.
    unsafe {
        assert_eq!(wavetrain_push(loader.0, std::ptr::null(), 0, 32, 0, &mut taken), SHUTDOWN);
        assert_eq!(wavetrain_pop(loader.0, PATIENCE_NS, &mut token, &mut error), SHUTDOWN);
        assert_eq!(wavetrain_dlpack(loader.0, held, 0, null_mut(), &mut tensor), SHUTDOWN);
        assert_eq!(wavetrain_stats(loader.0, &mut stats), OK);
    }
    assert_eq!(stats.batches_held, 1);
    assert_eq!(wavetrain_stats_reset(loader.0), OK);
    assert_eq!(wavetrain_flush(loader.0), SHUTDOWN);
    assert_eq!(wavetrain_reset(loader.0), SHUTDOWN);
    let pumped = wavetrain_pump(loader.0, 0);
    assert!(pumped == SHUTDOWN || pumped == INVALID, "{pumped}");
    assert_eq!(wavetrain_read_done(loader.0, 33, 0), INVALID);
    // SAFETY: there is no event.
    assert_eq!(unsafe { wavetrain_release(loader.0, held ^ 1 << 40, null_mut()) }, INVALID);
    // SAFETY: a loader without a device refuses an event and does not look into it.
    let refused = unsafe { wavetrain_release(loader.0, held, std::ptr::dangling_mut()) };
    assert_eq!(refused, -7);
    assert_eq!(loader.last_error().status, -7);
    assert_eq!(loader.info(held + 1).err(), Some(INVALID));
    check_batch(loader, held, tag);
    assert_eq!(loader.close(0), (AGAIN, 1));
}

#[test]
fn late_calls_work_as_before_in_every_mode() {
    let array = array("late");
    for thread_mode in [THREADS_OWN, THREADS_PUMP] {
        for (digest, max_boxes_per_sample) in [(0, 0), (1, 2)] {
            let config = Config { thread_mode, digest, max_boxes_per_sample, ..config() };
            let loader = open(&SEEN, &config);
            let held = batch(&loader, &array, 3);
            (4..8).for_each(|tag| push(&loader, &array, tag));
            assert_eq!(loader.close(PATIENCE_NS), (AGAIN, 1));
            assert!(left_bytes().unwrap() < SLOT_BYTES + RECORDS_BYTES);
            check_late_calls(&loader, held, 3);
            loader.release(held);
            assert_eq!(loader.close(0), (OK, 0));
            assert_eq!(left_bytes(), None);
        }
    }
}

#[test]
fn jobs_that_the_host_kept_do_nothing_in_a_closed_loader() {
    let array = array("jobs");
    let system = JobSystem::new(Run::Later);
    let loader = open(&SEEN, &system.config(&config()));
    let held = batch(&loader, &array, 3);
    (4..8).for_each(|tag| push(&loader, &array, tag));
    let jobs = system.take_all();
    assert!(!jobs.is_empty());
    assert_eq!(loader.close(PATIENCE_NS), (AGAIN, 1));
    assert!(left_bytes().unwrap() < SLOT_BYTES + RECORDS_BYTES);
    let handed_in = system.handed_in();
    jobs.iter().for_each(|job| job.run());
    check_late_calls(&loader, held, 3);
    assert_eq!(system.handed_in(), handed_in);
    loader.release(held);
    assert_eq!(loader.close(0), (OK, 0));
    jobs.iter().for_each(|job| job.run());
}

#[test]
fn no_line_is_logged_after_a_close_that_slots_alone_hold_up() {
    let array = array("log");
    let lines = Lines::default();
    let loader = open(&SEEN, &Config { log: lines.hook(), log_level: 0, ..config() });
    let held = batch(&loader, &array, 3);
    // SAFETY: there is no event.
    assert_eq!(unsafe { wavetrain_release(loader.0, held ^ 1 << 40, null_mut()) }, INVALID);
    let logged = lines.take();
    assert!(logged.iter().any(|(_, _, text)| text.contains("is not held")), "{logged:?}");
    assert_eq!(loader.close(PATIENCE_NS), (AGAIN, 1));
    let logged = lines.take();
    assert!(logged.iter().any(|(_, _, text)| text.starts_with("close: batches")), "{logged:?}");
    check_late_calls(&loader, held, 3);
    loader.release(held);
    assert_eq!(loader.close(PATIENCE_NS), (OK, 0));
    assert_eq!(lines.take(), []);
}

/// A log hook that stays in its first call until it is let go.
#[derive(Default)]
struct Gate {
    is_inside: AtomicBool,
    is_open: AtomicBool,
}

fn wait_for(is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_nanos(PATIENCE_NS);
    while !is_so() {
        assert!(Instant::now() < deadline);
        std::thread::yield_now();
    }
}

unsafe extern "C" fn stay(user: *mut c_void, _: u32, _: u64, _: *const c_char, _: u64) {
    // SAFETY: it is the gate of the hook, which outlives its loader.
    let gate = unsafe { &*user.cast::<Gate>() };
    if !gate.is_inside.swap(true, SeqCst) {
        wait_for(|| gate.is_open.load(SeqCst));
    }
}

#[test]
fn a_call_that_began_before_close_is_waited_for_before_anything_goes() {
    let array = array("call");
    let gate = Gate::default();
    let user = std::ptr::from_ref(&gate).cast_mut().cast();
    let log = LogHook { user, log: Some(stay), ..LogHook::NONE };
    let loader = open(&SEEN, &Config { log, ..config() });
    let whole = left_bytes();
    let held = batch(&loader, &array, 3);
    std::thread::scope(|scope| {
        // SAFETY: there is no event.
        scope.spawn(|| unsafe { wavetrain_release(loader.0, held ^ 1 << 40, null_mut()) });
        wait_for(|| gate.is_inside.load(SeqCst));
        assert_eq!(loader.close(20_000_000), (AGAIN, 1));
        assert_eq!(loader.close(0), (AGAIN, 1));
        assert_eq!(left_bytes(), whole, "not for the batch alone");
        check_batch(&loader, held, 3);
        gate.is_open.store(true, SeqCst);
    });
    assert_eq!(loader.close(PATIENCE_NS), (AGAIN, 1));
    assert!(left_bytes().unwrap() < SLOT_BYTES + RECORDS_BYTES);
    check_late_calls(&loader, held, 3);
    loader.release(held);
    assert_eq!(loader.close(0), (OK, 0));
}

/// Bytes that `alloc` gave and `free` did not get.
static ALLOCATED: AtomicU64 = AtomicU64::new(0);

unsafe extern "C" fn alloc(_: *mut c_void, bytes: u64, _: u64) -> *mut c_void {
    ALLOCATED.fetch_add(bytes, SeqCst);
    (SYSTEM.map)(bytes).unwrap().as_ptr().cast()
}

unsafe extern "C" fn free(_: *mut c_void, block: *mut c_void, bytes: u64, _: u64) {
    ALLOCATED.fetch_sub(bytes, SeqCst);
    (SYSTEM.unmap)(NonNull::new(block.cast()).unwrap(), bytes);
}

/// Nothing of a caller's memory may be given back.
static WHOLE: Os = Os { vacate: |_, _| panic!("a caller's page"), ..SYSTEM };

/// Guards of stacks would be pages that nobody may read.
static UNGUARDED: Os = Os { guard: |_, _, _| Err(Errno(libc::EINVAL)), ..WHOLE };

#[test]
fn memory_of_the_caller_stays_whole_until_close_is_ok() {
    let array = array("caller");
    let bytes = memory_need(&config()).unwrap_or_else(|failure| panic!("{failure}")).host_bytes;
    let block = (SYSTEM.map)(bytes).unwrap();
    let host_block = block.as_ptr().cast();
    let given = MemoryHook { host_block, host_block_bytes: bytes, ..MemoryHook::NONE };
    let hook = MemoryHook { alloc: Some(alloc), free: Some(free), ..MemoryHook::NONE };
    for memory in [given, hook] {
        let loader = open(&UNGUARDED, &Config { memory, ..config() });
        let tensor = one_tensor(&loader, &array);
        assert_eq!(loader.close(PATIENCE_NS), (AGAIN, 1));
        let allocated = if memory.alloc.is_some() { bytes } else { 0 };
        assert_eq!(ALLOCATED.load(SeqCst), allocated, "free is for the close that is OK");
        if memory.alloc.is_none() {
            for at in (0..bytes).step_by(PAGE) {
                // SAFETY: the block is this test's, and nobody writes what is read.
                unsafe { block.as_ptr().add(at as usize).read_volatile() };
            }
        }
        tensor.check(7);
        tensor.delete();
        assert_eq!(loader.close(0), (OK, 0));
        assert_eq!(ALLOCATED.load(SeqCst), 0);
    }
    (SYSTEM.unmap)(block, bytes);
}

/// A system that takes no page back before the rest.
static REFUSING: Os = Os { vacate: |_, _| {}, ..SEEN };

#[test]
fn a_system_that_takes_nothing_back_early_gets_all_of_it_in_the_end() {
    let array = array("refusing");
    let loader = open(&REFUSING, &config());
    let whole = left_bytes();
    let tensor = one_tensor(&loader, &array);
    assert_eq!(loader.close(PATIENCE_NS), (AGAIN, 1));
    assert_eq!(left_bytes(), whole);
    tensor.check(7);
    tensor.delete();
    assert_eq!(loader.close(0), (OK, 0));
    assert_eq!(left_bytes(), None);
}

#[test]
fn a_close_that_waits_for_what_is_held_ends_with_the_last_of_it() {
    let array = array("waits");
    let loader = open(&SEEN, &config());
    let held = batch(&loader, &array, 2);
    let tensor = one_tensor(&loader, &array);
    let has_closed = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let closer = scope.spawn(|| {
            let closed = loader.close(UNTIL_RELEASED);
            has_closed.store(true, SeqCst);
            closed
        });
        // It gives back what it can before it waits.
        wait_for(|| left_bytes().unwrap() < 2 * SLOT_BYTES + RECORDS_BYTES);
        assert_eq!(loader.close(PATIENCE_NS), (AGAIN, 2));
        loader.release(held);
        assert_eq!(loader.close(0), (AGAIN, 1));
        tensor.check(7);
        assert!(!has_closed.load(SeqCst));
        scope.spawn(move || tensor.delete());
        assert_eq!(closer.join().unwrap(), (OK, 0));
    });
    assert_eq!(left_bytes(), None);
    assert_eq!(loader.close(UNTIL_RELEASED).0, SHUTDOWN);
}

/// Samples of a batch whose records are longer than a page: their boxes have the most axes.
const MANY: u64 = 64;

/// An array with the most axes, and a chunk in a file for each sample of a batch.
fn deep_array(scratch: &Scratch) -> String {
    let (mut shape, mut chunk) = ([1; RANK_MAX], [1; RANK_MAX]);
    (shape[0], shape[1], chunk[0], chunk[1]) = (MANY * 4, 4, 4, 4);
    let uri = Meta::u16(&shape, &chunk, None).write(scratch, "deep", None);
    for number in 0..MANY {
        let folder = scratch.path("deep").join("c").join(number.to_string());
        let folder = folder.join(["0"; RANK_MAX - 2].join("/"));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("0"), chunk_bytes(number as u16)).unwrap();
    }
    uri
}

/// One batch is planned before there is memory for it.
fn deep_config() -> Config {
    let mut config = Config {
        samples_per_batch: MANY as u32,
        sample_rank: RANK_MAX as u32,
        n_io_threads: 32,
        n_batch_slots: 2,
        dtype: Dtype::U16 as u32,
        ..Config::default()
    };
    config.sample_shape = [1; RANK_MAX];
    (config.sample_shape[0], config.sample_shape[1]) = (4, 4);
    config
}

fn push_deep(loader: &Open, uri: &str) {
    for number in 0..MANY as i64 {
        let (mut begin, mut end) = ([0; RANK_MAX], [1; RANK_MAX]);
        (begin[0], end[0], end[1]) = (number * 4, number * 4 + 4, 4);
        loader.push_box(uri, &begin, &end, number as u64);
    }
}

fn deep_batch(loader: &Open, uri: &str) -> u64 {
    push_deep(loader, uri);
    loader.pop()
}

fn check_deep(loader: &Open, batch: u64) {
    let info = loader.info(batch).unwrap();
    // SAFETY: the batch is held, in host memory.
    let data = unsafe { std::slice::from_raw_parts(info.data.cast::<u8>(), MANY as usize * 32) };
    let expected: Vec<u8> = (0..MANY).flat_map(|number| chunk_bytes(number as u16)).collect();
    assert!(data == expected);
}

#[test]
fn a_close_that_gives_pages_back_is_met_by_a_release_and_another_close() {
    let scratch = Scratch::new();
    let uri = deep_array(&scratch);
    let loader = open(&SEEN, &deep_config());
    let held = [deep_batch(&loader, &uri), deep_batch(&loader, &uri)];
    let other = Open(loader.0);
    ON_VACATE.set(Some(Box::new(move || {
        // The second: the page that its records end in has none of the first.
        other.release(held[1]);
        assert_eq!(other.close(0), (AGAIN, 1));
        std::mem::forget(other);
    })));
    // It began while both were held.
    let (code, _) = loader.close(PATIENCE_NS);
    assert_eq!((code, loader.kept()), (AGAIN, 1));
    assert!(ON_VACATE.take().is_none(), "pages were given back");
    check_deep(&loader, held[0]);
    loader.release(held[0]);
    assert_eq!(loader.close(0), (OK, 0));
    assert_eq!(left_bytes(), None);
}

#[test]
fn a_batch_that_is_released_after_close_leaves_its_memory_to_no_other() {
    let scratch = Scratch::new();
    let uri = deep_array(&scratch);
    let loader = open(&SEEN, &with_hook(deep_config()));
    let held = [deep_batch(&loader, &uri), deep_batch(&loader, &uri)];
    // This batch has no memory.
    push_deep(&loader, &uri);
    wait_for(|| loader.stats().reads_issued > 2 * MANY);
    assert_eq!(loader.close(PATIENCE_NS), (AGAIN, 2));
    for batch in held {
        check_deep(&loader, batch);
        loader.release(batch);
    }
    assert_eq!(loader.close(0), (OK, 0));
    assert_eq!(left_bytes(), None);
}

#[test]
fn closes_deleters_and_calls_of_many_threads_meet() {
    let array = array("meet");
    for round in 0..30 {
        let loader = open(&SEEN, &Config { chunk_cache_bytes: 0, n_batch_slots: 4, ..config() });
        let held: Vec<u64> = (0..4).map(|tag| batch(&loader, &array, tag)).collect();
        let tensors: Vec<Tensor> = held.iter().map(|held| Tensor::of(&loader, *held)).collect();
        push(&loader, &array, 5);
        std::thread::scope(|scope| {
            let (loader, held) = (&loader, &held);
            for (tag, tensor) in (0..).zip(tensors) {
                scope.spawn(move || {
                    if round % 2 == 0 {
                        std::thread::yield_now();
                    }
                    loader.release(held[tag as usize]);
                    tensor.check(tag);
                    tensor.delete();
                });
            }
            scope.spawn(move || while wavetrain_reset(loader.0) == OK {});
            scope.spawn(move || {
                let mut stats = Stats::EMPTY;
                // SAFETY: the struct is whole.
                while unsafe { wavetrain_stats(loader.0, &mut stats) } == OK {}
            });
            let closes = [UNTIL_RELEASED, UNTIL_RELEASED, PATIENCE_NS].map(|timeout_ns| {
                scope.spawn(move || {
                    let mut closed = loader.close(timeout_ns);
                    while closed.0 == AGAIN {
                        closed = loader.close(0);
                    }
                    closed.0
                })
            });
            let closed = closes.map(|close| close.join().unwrap());
            assert_eq!(closed.iter().filter(|closed| **closed == OK).count(), 1, "{closed:?}");
            assert_eq!(closed.iter().filter(|closed| **closed == SHUTDOWN).count(), 2);
        });
        assert_eq!(left_bytes(), None);
    }
}
