//! Threads of ours where batches are made on a device: who goes first, and on what the one that
//! calls the driver stands.
//!
//! Stacks and calls are seen through the table of system calls, the guard where the kernel says
//! how memory may be used.

use crate::common::cuda_sim::Simulator;
use crate::common::gpu::device_config;
use std::ffi::{CStr, c_char, c_void};
use std::ptr::NonNull;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use wavetrain::abi::{LogHook, MemoryHook};
use wavetrain::config::{BACKEND_HOST, Config, THREADS_PUMP};
use wavetrain::cuda::DriverPath;
use wavetrain::loader::{Loader, memory_need};
use wavetrain::os::{Errno, Os, SYSTEM};
use wavetrain::status::Status;

const PAGE: usize = 4096;

/// First address and bytes of every stack, in the order of the starts: that of a device last.
static STACKS: Mutex<Vec<(usize, usize)>> = Mutex::new(Vec::new());
static BATCH_THREADS: AtomicUsize = AtomicUsize::new(0);

/// Of a system that says no to whatever may be done without.
static STERN: Os = Os {
    guard: |_, _, _| Err(Errno(libc::EINVAL)),
    be_batch: || {
        BATCH_THREADS.fetch_add(1, SeqCst);
        Err(Errno(libc::EPERM))
    },
    ..SEEN
};

static SEEN: Os = Os {
    thread_start: |main, argument, stack, bytes| {
        STACKS.lock().unwrap().push((stack as usize, bytes as usize));
        (SYSTEM.thread_start)(main, argument, stack, bytes)
    },
    ..SYSTEM
};

/// A loader, and the stacks of its threads. The simulators keep other tests away.
fn open(os: &'static Os, config: &Config) -> (Loader, Vec<(usize, usize)>) {
    STACKS.lock().unwrap().clear();
    let loader = Loader::open_on(os, config).unwrap_or_else(|failure| panic!("{failure}"));
    (loader, STACKS.lock().unwrap().clone())
}

fn on_host(config: &Config) -> Config {
    Config { backend: BACKEND_HOST, device: -1, cuda_driver: DriverPath::NULL, ..*config }
}

/// Bytes of the line of a config's bill.
fn line(config: &Config, name: &str) -> usize {
    let need = memory_need(config).unwrap_or_else(|failure| panic!("{failure}"));
    let is_named = |text: &[c_char]| {
        let text = text.iter().take_while(|byte| **byte != 0);
        text.map(|byte| *byte as u8).eq(name.bytes())
    };
    let lines = need.lines[..need.line_count as usize].iter();
    lines.filter(|line| is_named(&line.name)).map(|line| line.bytes as usize).sum()
}

/// Memory of the host's that a config fits in.
fn block_of(config: &Config) -> (NonNull<u8>, MemoryHook) {
    let bytes = memory_need(config).unwrap_or_else(|failure| panic!("{failure}")).host_bytes;
    let block = (SYSTEM.map)(bytes).unwrap();
    let host_block = block.as_ptr().cast();
    (block, MemoryHook { host_block, host_block_bytes: bytes, ..MemoryHook::NONE })
}

/// Writes to all of it.
fn take_back(block: NonNull<u8>, memory: &MemoryHook) {
    // SAFETY: the loader is gone, and the block is this test's again.
    unsafe { block.as_ptr().write_bytes(7, memory.host_block_bytes as usize) };
    (SYSTEM.unmap)(block, memory.host_block_bytes);
}

/// How the byte at an address may be used, as "rw-p".
fn access(address: usize) -> String {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let holds = |line: &&str| {
        let (range, _) = line.split_once(' ').unwrap();
        let (first, limit) = range.split_once('-').unwrap();
        let number = |text| usize::from_str_radix(text, 16).unwrap();
        (number(first)..number(limit)).contains(&address)
    };
    let line = maps.lines().find(holds).unwrap_or_else(|| panic!("{address:#x} is not mapped"));
    line.split(' ').nth(1).unwrap().to_owned()
}

#[test]
fn the_thread_that_calls_the_driver_has_8_mib_of_stack_above_a_guard_page_until_close() {
    let Some(simulator) = Simulator::take_alone() else { return };
    let config = device_config(&simulator, 2);
    let (block, memory) = block_of(&config);
    let (loader, stacks) = open(&SEEN, &Config { memory, ..config });
    let ((stack, bytes_of_it), others) = stacks.split_last().unwrap();
    let guard = stack - PAGE;
    assert!(*bytes_of_it >= 8 << 20, "{bytes_of_it}");
    assert_eq!([guard, stack - 1].map(access), ["---p"; 2]);
    assert_eq!([guard - 1, *stack, stack + bytes_of_it - 1].map(access), ["rw-p"; 3]);
    for (other, bytes) in others {
        assert!(*bytes < 1 << 20 && other + bytes <= guard, "{bytes}");
        assert_eq!([other - 1, *other].map(access), ["---p", "rw-p"]);
    }
    drop(loader);
    take_back(block, &memory);
}

static NO_THREAD: Os = Os { thread_start: |_, _, _, _| Err(Errno(libc::EAGAIN)), ..SYSTEM };

#[test]
fn an_open_that_fails_behind_the_guard_takes_it_off_again() {
    let Some(simulator) = Simulator::take_alone() else { return };
    let config = device_config(&simulator, 2);
    let (block, memory) = block_of(&config);
    let failure = Loader::open_on(&NO_THREAD, &Config { memory, ..config }).err().unwrap();
    assert_eq!(failure.status, Status::OutOfMemory, "{failure}");
    take_back(block, &memory);
}

#[test]
fn stacks_and_their_guards_are_billed_with_the_rest_of_the_page_before_them() {
    let Some(simulator) = Simulator::take_alone() else { return };
    let device = device_config(&simulator, 2);
    let pump = Config { thread_mode: THREADS_PUMP, ..device };
    for config in [device, on_host(&device), pump] {
        let (loader, stacks) = open(&SEEN, &config);
        let taken: usize = stacks.iter().map(|(_, bytes)| bytes + PAGE).sum();
        let billed = line(&config, "thread stacks");
        assert!((0..PAGE).contains(&(billed - taken)), "{billed} for {taken}");
        drop(loader);
    }
}

static LINES: Mutex<Vec<String>> = Mutex::new(Vec::new());

unsafe extern "C" fn keep(_: *mut c_void, _: u32, _: u64, text: *const c_char, _: u64) {
    // SAFETY: a line of the log has a NUL.
    let text = unsafe { CStr::from_ptr(text) };
    LINES.lock().unwrap().push(text.to_string_lossy().into_owned());
}

#[test]
fn a_system_without_guards_and_priorities_is_streamed_on_and_the_log_says_what_lacks() {
    let Some(simulator) = Simulator::take_alone() else { return };
    let log = LogHook { log: Some(keep), ..LogHook::NONE };
    let config = Config { log, ..device_config(&simulator, 2) };
    let (loader, stacks) = open(&STERN, &config);
    let (stack, _) = stacks.last().unwrap();
    assert_eq!(access(stack - PAGE), "rw-p");
    drop(loader);
    let lines = std::mem::take(&mut *LINES.lock().unwrap());
    let lacks = |line: &&String| line.contains("have no guard: invalid argument (errno 22)");
    assert_eq!(lines.iter().filter(lacks).count(), 1, "{lines:?}");
}

#[test]
fn threads_that_decode_for_a_device_let_others_go_first_and_those_for_the_host_do_not() {
    let Some(simulator) = Simulator::take_alone() else { return };
    let device = Config { n_decode_threads: 3, ..device_config(&simulator, 2) };
    let pump = Config { thread_mode: THREADS_PUMP, ..device };
    for (config, threads) in [(device, 3), (on_host(&device), 0), (pump, 0)] {
        BATCH_THREADS.store(0, SeqCst);
        drop(open(&STERN, &config));
        assert_eq!(BATCH_THREADS.load(SeqCst), threads);
    }
}
