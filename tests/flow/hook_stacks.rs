//! The share of hooks in the stacks of own threads, and the guards below every stack.
//!
//! Stacks are seen through the table of system calls, guards where the kernel says how memory may
//! be used. A test whose process may end runs in a child.

use crate::common::alone::{alone, alone_ends_by};
use crate::common::drive::{PATIENCE_NS, config};
use crate::common::hook::{self, SCHEME};
use crate::common::store::{self, Spec};
use std::ffi::{CStr, c_char, c_void};
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use wavetrain::abi::{
    FILE_FAILED, FatalHook, FilesHook, LogHook, MemoryHook, ProfilerHook, SourceHook, SourceInfo,
};
use wavetrain::config::{Config, LOG_TRACE, THREADS_PUMP};
use wavetrain::loader::{Loader, Pop, Request, memory_need};
use wavetrain::os::{Errno, Os, SYSTEM};
use wavetrain::records::Dtype;
use wavetrain::surface::c::wavetrain_read_done;

const PAGE: usize = 4096;
const HUGE_PAGE: usize = 2 << 20;
const HOOK_STACK: usize = 256 << 10;
const HOOK_GUARD: usize = 128 << 10;
/// Bytes that each hook takes of the stack, as one that decompresses or writes a text would.
const BUFFER: usize = 200 << 10;

/// First address and bytes of every stack, in the order of the starts.
static STACKS: Mutex<Vec<(usize, usize)>> = Mutex::new(Vec::new());

static SEEN: Os = Os {
    thread_start: |main, argument, stack, bytes| {
        STACKS.lock().unwrap().push((stack as usize, bytes as usize));
        (SYSTEM.thread_start)(main, argument, stack, bytes)
    },
    ..SYSTEM
};

static STERN: Os = Os { guard: |_, _, _| Err(Errno(libc::EINVAL)), ..SEEN };

const NAMES: [&str; 8] = [
    "files.size",
    "files.read",
    "files.read_async",
    "source.describe",
    "source.read",
    "log",
    "profiler.begin",
    "profiler.end",
];

/// Calls of each hook on own threads.
static CALLS: [AtomicUsize; 8] = [const { AtomicUsize::new(0) }; 8];
/// The least that one found of its stack.
static LEFT_MIN: AtomicU64 = AtomicU64::new(u64::MAX);
/// Hooks call themselves until the stack is over.
static IS_ENDLESS: AtomicBool = AtomicBool::new(false);

/// Writes at the far end of a buffer, and notes what there was of an own thread's stack.
fn on_stack(hook: usize) {
    let mark = 0u8;
    let address = std::hint::black_box(&raw const mark) as usize;
    let stacks = STACKS.lock().unwrap();
    let own = stacks.iter().find(|(start, bytes)| (*start..start + bytes).contains(&address));
    let left = own.map(|(start, _)| address - start);
    drop(stacks);
    // On a thread of the test there is as much as the test has.
    let Some(left) = left else { return };
    CALLS[hook].fetch_add(1, SeqCst);
    LEFT_MIN.fetch_min(left as u64, SeqCst);
    if IS_ENDLESS.load(SeqCst) {
        endless(0);
    }
    far_end();
}

#[inline(never)]
fn far_end() {
    let mut buffer = MaybeUninit::<[u8; BUFFER]>::uninit();
    let start = std::hint::black_box(buffer.as_mut_ptr().cast::<u8>());
    // SAFETY: the first byte of the buffer, its end that is farthest from the caller.
    unsafe { start.write_volatile(7) };
    std::hint::black_box(&mut buffer);
}

#[inline(never)]
#[allow(unconditional_recursion, clippy::only_used_in_recursion)] // which is its purpose
fn endless(depth: u64) -> u64 {
    let mut frame = [0u8; 512];
    std::hint::black_box(&mut frame);
    endless(depth + 1) + u64::from(frame[0])
}

unsafe extern "C" fn size(user: *mut c_void, name: *const c_char) -> i64 {
    on_stack(0);
    // SAFETY: as the caller's.
    unsafe { hook::size(user, name) }
}

unsafe extern "C" fn read(
    user: *mut c_void,
    name: *const c_char,
    offset: u64,
    target: *mut c_void,
    bytes: u64,
) -> i64 {
    on_stack(1);
    // SAFETY: as the caller's.
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
    on_stack(2);
    // SAFETY: as the caller's.
    let result = unsafe { hook::read(user, name, offset, target, bytes) };
    assert_eq!(wavetrain_read_done(loader, ticket, result), 0);
    0
}

unsafe extern "C" fn describe(_: *mut c_void, _: *const c_char, info: *mut SourceInfo) -> i64 {
    on_stack(3);
    // SAFETY: the library's.
    let info = unsafe { &mut *info };
    (info.rank, info.dtype) = (3, Dtype::U16 as u32);
    info.shape[..3].fill(16);
    0
}

unsafe extern "C" fn give(
    _: *mut c_void,
    _: *const c_char,
    _: *const u64,
    _: *const u64,
    target: *mut c_void,
    bytes: u64,
) -> i64 {
    on_stack(4);
    // SAFETY: the target is the library's, of so many bytes.
    unsafe { target.cast::<u8>().write_bytes(0, bytes as usize) };
    0
}

unsafe extern "C" fn log(_: *mut c_void, _: u32, _: u64, text: *const c_char, _: u64) {
    on_stack(5);
    // SAFETY: a line of the log has a NUL.
    let text = unsafe { CStr::from_ptr(text) };
    LINES.lock().unwrap().push(text.to_string_lossy().into_owned());
}

static LINES: Mutex<Vec<String>> = Mutex::new(Vec::new());

unsafe extern "C" fn begin(_: *mut c_void, _: *const c_char) {
    on_stack(6);
}

unsafe extern "C" fn end(_: *mut c_void) {
    on_stack(7);
}

unsafe extern "C" fn last_words(_: *mut c_void, _: *const c_char, _: u32, _: *const c_char) {}

fn files(is_async: bool) -> FilesHook {
    FilesHook {
        size: Some(size),
        read: Some(read),
        read_async: if is_async { Some(read_async) } else { None },
        ..FilesHook::NONE
    }
}

fn plain() -> Config {
    Config {
        on_error: 1,
        max_host_memory_bytes: 0,
        max_chunk_uncompressed_bytes: 4096,
        ..config(Dtype::F32, &[5, 5, 5], 2)
    }
}

fn hooked(is_async: bool) -> Config {
    Config {
        files: files(is_async),
        source: SourceHook { describe: Some(describe), read: Some(give), ..SourceHook::NONE },
        log: LogHook { log: Some(log), ..LogHook::NONE },
        profiler: ProfilerHook { begin: Some(begin), end: Some(end), ..ProfilerHook::NONE },
        log_level: LOG_TRACE,
        ..plain()
    }
}

/// Streams an array of files, one of the source and one that fails, by turns.
fn stream(test: &str, config: &Config) {
    let spec = Spec { seed: 1, edge: 16, shard: 8, chunk: 4, zstd: true, sparse: true };
    let array = store::of_test("hook_stacks", test, &spec);
    let uris = [
        format!("{SCHEME}{}", array.display()),
        "hook:made".to_string(),
        format!("{SCHEME}/nowhere/at/all"),
    ];
    STACKS.lock().unwrap().clear();
    let loader = Loader::open_on(&SEEN, config).unwrap_or_else(|failure| panic!("{failure}"));
    for round in 0..20u64 {
        for uri in &uris {
            let begin = [round as i64 % 8; 3];
            let end = begin.map(|at| at + 5);
            let request = Request { uri, begin: &begin, end: &end, tag: round };
            for _ in 0..2 {
                assert_eq!(loader.push(&[request], PATIENCE_NS).ok(), Some(1));
            }
            match loader.pop(PATIENCE_NS) {
                Ok(Pop::Batch(batch)) => {
                    assert_eq!(batch.statuses()[0] == 0, !uri.contains("nowhere"), "{uri}");
                }
                Ok(_) => panic!("no batch"),
                Err(failure) => panic!("{failure}"),
            }
        }
    }
}

#[test]
fn each_hook_has_200_kib_of_stack_on_own_threads() {
    alone(|| {
        for is_async in [false, true] {
            stream("hook-stacks", &hooked(is_async));
        }
        for (name, calls) in NAMES.iter().zip(&CALLS) {
            println!("{name}: {} calls", calls.load(SeqCst));
            assert!(calls.load(SeqCst) > 0, "{name}");
        }
        let left = LEFT_MIN.load(SeqCst);
        println!("a hook has {left} bytes or more");
        assert!(left >= HOOK_STACK as u64, "{left}");
    });
}

#[test]
fn hooks_have_the_stack_that_the_config_says() {
    alone(|| {
        let config = Config { hook_stack_bytes: 700_000, ..hooked(false) };
        stream("hook-stacks-given", &config);
        let left = LEFT_MIN.load(SeqCst);
        // Under a sanitizer each stack has as much more as the instrumented frames may take.
        let instrumented = if cfg!(wavetrain_sanitizer) { 512 << 10 } else { 0 };
        assert!((700_000..(1 << 20) + instrumented).contains(&left), "{left}");
    });
}

#[test]
fn a_hook_that_overflows_its_stack_ends_the_process_by_sigsegv() {
    alone_ends_by(libc::SIGSEGV, || {
        IS_ENDLESS.store(true, SeqCst);
        stream("hook-stacks-endless", &hooked(false));
    });
}

#[test]
fn a_hook_that_steps_over_its_stack_by_a_buffer_meets_the_guard() {
    alone_ends_by(libc::SIGSEGV, || {
        unsafe extern "C" fn step(_: *mut c_void, _: *const c_char) -> i64 {
            let mark = 0u8;
            let address = std::hint::black_box(&raw const mark) as usize;
            let stacks = STACKS.lock().unwrap().clone();
            let holds =
                |(start, bytes): &&(usize, usize)| (*start..start + bytes).contains(&address);
            let Some((start, _)) = stacks.iter().find(holds) else { return FILE_FAILED };
            let below = (start - HOOK_GUARD) as *mut u8;
            // SAFETY: there is none: it ends the process, which is what is tested.
            unsafe { below.write_volatile(7) };
            FILE_FAILED
        }
        let files = FilesHook { size: Some(step), ..files(false) };
        stream("hook-stacks-step", &Config { files, ..plain() });
    });
}

/// How the byte at an address may be used, as "rw-p", and the resident KiB of its mapping.
fn access(address: usize) -> (String, u64) {
    let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let mut found = None;
    for line in maps.lines() {
        let mut words = line.split_whitespace();
        let (first, second) = (words.next().unwrap(), words.next().unwrap_or(""));
        if let Some((low, high)) = first.split_once('-').filter(|_| !first.ends_with(':')) {
            let number = |text| usize::from_str_radix(text, 16).unwrap();
            found = (number(low)..number(high)).contains(&address).then(|| second.to_owned());
        } else if first == "Rss:"
            && let Some(found) = found.take()
        {
            return (found, second.parse().unwrap());
        }
    }
    panic!("{address:#x} is not mapped");
}

/// Bytes of the line of a config's bill.
fn stacks_billed(config: &Config) -> usize {
    let need = memory_need(config).unwrap_or_else(|failure| panic!("{failure}"));
    let is_named = |text: &[c_char]| {
        let text = text.iter().take_while(|byte| **byte != 0);
        text.map(|byte| *byte as u8).eq("thread stacks".bytes())
    };
    let lines = need.lines[..need.line_count as usize].iter();
    lines.filter(|line| is_named(&line.name)).map(|line| line.bytes as usize).sum()
}

#[test]
fn below_every_stack_lies_a_guard_that_is_lifted_by_close() {
    alone(|| {
        for (config, guard) in [(plain(), PAGE), (hooked(false), HOOK_GUARD)] {
            let bytes = memory_need(&config).unwrap().host_bytes;
            let block = (SYSTEM.map)(bytes).unwrap();
            let host_block = block.as_ptr().cast();
            let memory = MemoryHook { host_block, host_block_bytes: bytes, ..MemoryHook::NONE };
            STACKS.lock().unwrap().clear();
            let loader = Loader::open_on(&SEEN, &Config { memory, ..config }).unwrap();
            let stacks = STACKS.lock().unwrap().clone();
            assert_eq!(stacks.len(), 4);
            let limit = block.addr().get() + bytes as usize;
            let is_in_huge = |address: usize| {
                let page = address & !(HUGE_PAGE - 1);
                block.addr().get() <= page && page + HUGE_PAGE <= limit
            };
            for (start, bytes) in &stacks {
                for address in [start - guard, start - 1] {
                    let (access, resident_kib) = access(address);
                    assert_eq!(access, "---p", "{address:#x}");
                    // A huge page of stacks has guards inside; others are not touched.
                    let may_be_huge = is_in_huge(start - guard) || is_in_huge(start - 1);
                    assert!(resident_kib == 0 || may_be_huge, "{address:#x}: {resident_kib} KiB");
                }
                for address in [*start, start + bytes - 1] {
                    assert_eq!(access(address).0, "rw-p", "{address:#x}");
                }
            }
            let taken: usize = stacks.iter().map(|(_, bytes)| bytes + guard).sum();
            let billed = stacks_billed(&config);
            assert!((0..PAGE).contains(&(billed - taken)), "{billed} for {taken}");
            drop(loader);
            // SAFETY: the loader is gone, and the block is this test's again.
            unsafe { block.as_ptr().write_bytes(7, bytes as usize) };
            (SYSTEM.unmap)(block, bytes);
        }
    });
}

#[test]
fn an_open_that_fails_behind_the_guards_lifts_them() {
    static NO_THREAD: Os = Os { thread_start: |_, _, _, _| Err(Errno(libc::EAGAIN)), ..SYSTEM };
    let config = Config { files: files(false), ..plain() };
    let bytes = memory_need(&config).unwrap().host_bytes;
    let block: NonNull<u8> = (SYSTEM.map)(bytes).unwrap();
    let host_block = block.as_ptr().cast();
    let memory = MemoryHook { host_block, host_block_bytes: bytes, ..MemoryHook::NONE };
    assert!(Loader::open_on(&NO_THREAD, &Config { memory, ..config }).is_err());
    // SAFETY: there is no loader, and the block is this test's again.
    unsafe { block.as_ptr().write_bytes(7, bytes as usize) };
    (SYSTEM.unmap)(block, bytes);
}

#[test]
fn every_hook_that_own_threads_call_gives_them_stacks_and_without_own_threads_there_are_none() {
    let fatal = FatalHook { fatal: Some(last_words), ..FatalHook::NONE };
    let all = hooked(false);
    let without = stacks_billed(&plain());
    let with = stacks_billed(&all);
    assert!(with >= without + 4 * (HOOK_GUARD - PAGE), "{with} {without}");
    for config in [
        Config { files: all.files, ..plain() },
        Config { source: all.source, ..plain() },
        Config { log: all.log, ..plain() },
        Config { profiler: all.profiler, ..plain() },
        Config { fatal, ..plain() },
    ] {
        assert_eq!(stacks_billed(&config), with);
        assert_eq!(stacks_billed(&Config { thread_mode: THREADS_PUMP, ..config }), 0);
    }
    assert_eq!(stacks_billed(&Config { hook_stack_bytes: 1 << 20, ..plain() }), without);
    let small = stacks_billed(&Config { hook_stack_bytes: 1, ..all });
    assert!((without..with).contains(&small), "a hook's share never shrinks a stack: {small}");
}

#[test]
fn memory_without_guards_is_streamed_on_and_the_log_says_so_once() {
    alone(|| {
        let loader = Loader::open_on(&STERN, &hooked(false)).unwrap();
        let stacks = STACKS.lock().unwrap().clone();
        assert_eq!(access(stacks[0].0 - 1).0, "rw-p");
        drop(loader);
        let lines = LINES.lock().unwrap();
        let lacks = |line: &&String| line.contains("have no guard: invalid argument (errno 22)");
        assert_eq!(lines.iter().filter(lacks).count(), 1, "{lines:?}");
    });
}
