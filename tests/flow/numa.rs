//! `numa_strategy` and `numa_node`, on a machine with two nodes and on the one that runs the tests.

use crate::common::two_nodes::{CPUS, OS, TwoNodes};
use std::alloc::{Layout, alloc, dealloc};
use std::ffi::CStr;
use wavetrain::abi::MemoryHook;
use wavetrain::config::*;
use wavetrain::loader::{Feed, Loader, Part, Pop, Sample, memory_need};
use wavetrain::os::SYSTEM;
use wavetrain::records::Dtype;
use wavetrain::status::Status;

const FOREVER: u64 = u64::MAX;

fn config(numa_strategy: u32, numa_node: i32) -> Config {
    let mut config = Config {
        sample_rank: 1,
        dtype: Dtype::U8 as u32,
        max_boxes_per_sample: 1,
        n_decode_threads: 2,
        n_io_threads: 3,
        numa_strategy,
        numa_node,
        log_level: LOG_INFO,
        ..Config::default()
    };
    config.sample_shape[0] = 8;
    config
}

/// Gives a batch, so that threads have worked, and ends.
fn stream(loader: Loader) {
    let feed = Feed::Value(Dtype::U8, &[8], &[9; 8]);
    let part = Part { feed, begin: &[0], end: &[8], ..Part::default() };
    loader.push_samples(&[Sample { parts: &[part], tag: 0 }], FOREVER).1.unwrap();
    let Pop::Batch(batch) = loader.pop(FOREVER).unwrap() else { panic!("no batch") };
    assert_eq!(batch.data(), [9; 8]);
    drop(batch);
    loader.close(FOREVER).unwrap();
}

/// Fails unless there is one line, of this level, that ends so.
fn assert_line(lines: &[(u32, String)], level: u32, end: &str) {
    let [(found, line)] = lines else { panic!("{lines:?}") };
    assert!(*found == level && line.ends_with(end), "{lines:?}");
}

const BOUND: &str = "bind 1, 0 pages touched";
const PINNED: &str = "NUMA node 1 of 2 by numa_node";

#[test]
fn memory_is_bound_before_a_page_is_touched_and_threads_keep_to_the_node() {
    let machine = TwoNodes::take();
    for (config, words) in [
        (config(NUMA_PIN, 1), PINNED),
        (config(AUTO, -1), "NUMA node 1 of 2 by the opening thread"),
    ] {
        stream(Loader::open_on(&OS, &Config { log: machine.log(), ..config }).unwrap());
        let state = &mut *machine.state();
        assert_eq!(std::mem::take(&mut state.calls), [BOUND]);
        assert_eq!(std::mem::take(&mut state.threads), [CPUS; 5]);
        assert_line(&std::mem::take(&mut state.lines), LOG_INFO, words);
    }
}

#[test]
fn off_places_nothing_and_is_the_default() {
    assert_eq!(Config::default().numa_strategy, NUMA_OFF);
    let machine = TwoNodes::take();
    let config = Config { log: machine.log(), ..config(NUMA_OFF, -1) };
    stream(Loader::open_on(&OS, &config).unwrap());
    let state = machine.state();
    assert!(state.calls.is_empty() && state.threads.is_empty() && state.lines.is_empty());
}

#[test]
fn a_system_that_refuses_warns_if_the_node_was_named() {
    let machine = TwoNodes::take();
    for (memory, threads, text) in [
        (libc::EPERM, 0, "; memory is not bound: errno 1"),
        (libc::ENOSYS, 0, "; memory is not bound: errno 38"),
        (0, libc::EINVAL, "; threads are not kept: errno 22"),
    ] {
        for (config, level) in [(config(NUMA_PIN, 1), LOG_WARN), (config(AUTO, -1), LOG_INFO)] {
            (machine.state().refuses_memory, machine.state().refuses_threads) = (memory, threads);
            stream(Loader::open_on(&OS, &Config { log: machine.log(), ..config }).unwrap());
            assert_line(&std::mem::take(&mut machine.state().lines), level, text);
        }
    }
}

#[test]
fn a_node_that_is_not_there_is_refused_and_nothing_is_kept() {
    let _machine = TwoNodes::take();
    let failure = Loader::open_on(&OS, &config(NUMA_PIN, 7)).err().unwrap();
    assert_eq!(failure.status, Status::Invalid);
    let text = "numa_node = 7 is not there or has no memory: choose one of 0-1";
    assert_eq!(failure.text.as_str(), text);
    stream(Loader::open_on(&OS, &config(NUMA_PIN, 0)).unwrap());
}

#[test]
fn a_node_is_for_pin_alone() {
    for (strategy, node) in [
        (NUMA_PIN, -1),
        (NUMA_PIN, i32::MIN),
        (NUMA_OFF, 0),
        (NUMA_OFF, -2),
        (AUTO, 0),
        (AUTO, i32::MAX),
    ] {
        let failure = Loader::open(&config(strategy, node)).err().unwrap();
        assert_eq!(failure.status, Status::Invalid);
        assert!(failure.text.as_str().starts_with(&format!("numa_node = {node}: ")));
    }
}

#[test]
fn derived_threads_are_those_of_the_cpus_of_the_node() {
    let machine = TwoNodes::take();
    let config = Config { n_decode_threads: 0, n_io_threads: 1, ..config(NUMA_PIN, 1) };
    let loader = Loader::open_on(&OS, &config).unwrap();
    // SAFETY: the text has a NUL.
    let text = unsafe { CStr::from_ptr(loader.stats().unwrap().placement_text.as_ptr()) };
    let expected = "io 1, decode 1 threads: 1 CPUs on NUMA node 1 (8 in the mask); ";
    assert_eq!(text.to_str().unwrap(), format!("{expected}{PINNED}"));
    stream(loader);
    assert_eq!(machine.state().threads, [CPUS; 2]);
}

#[test]
fn cpus_of_the_config_cut_the_node() {
    let machine = TwoNodes::take();
    let with = |words: &'static [u64], node: i32| {
        let cpus = CpuTable::from_static(words);
        Config { cpus, n_decode_threads: 0, n_io_threads: 1, ..config(NUMA_PIN, node) }
    };
    // Each thread is let onto the CPUs of the config first, and then kept to those of the node.
    stream(Loader::open_on(&OS, &with(&[0x2E], 0)).unwrap());
    let mut threads = std::mem::take(&mut machine.state().threads);
    threads.sort();
    assert_eq!(threads, [["1-3"; 4], ["1-3,5"; 4]].concat());
    // None of these is on the node.
    let apart = Config { log: machine.log(), ..with(&[3], 1) };
    stream(Loader::open_on(&OS, &apart).unwrap());
    assert_eq!(machine.state().threads, ["0-1"; 3]);
    assert_line(&machine.state().lines, LOG_WARN, "; no CPU of it is for threads");
}

#[test]
fn a_loader_without_threads_has_its_memory_bound() {
    let machine = TwoNodes::take();
    let config = Config { thread_mode: THREADS_PUMP, log: machine.log(), ..config(NUMA_PIN, 1) };
    stream(Loader::open_on(&OS, &config).unwrap());
    let state = machine.state();
    assert_eq!(state.calls, [BOUND]);
    assert!(state.threads.is_empty());
    assert_line(&state.lines, LOG_INFO, PINNED);
}

#[test]
fn memory_of_a_caller_stays_where_it_is() {
    let machine = TwoNodes::take();
    let config = config(NUMA_PIN, 1);
    let bytes = memory_need(&config).unwrap().host_bytes;
    let layout = Layout::from_size_align(bytes as usize, 4096).unwrap();
    // SAFETY: the layout has bytes, and the block is given back once the loader is closed.
    unsafe {
        let block = alloc(layout);
        let memory =
            MemoryHook { host_block: block.cast(), host_block_bytes: bytes, ..MemoryHook::NONE };
        stream(Loader::open_on(&OS, &Config { memory, ..config }).unwrap());
        dealloc(block, layout);
    }
    assert!(machine.state().calls.is_empty());
    assert_eq!(machine.state().threads, [CPUS; 5]);
}

#[test]
fn memory_that_processes_share_is_made_on_the_node() {
    let machine = TwoNodes::take();
    let name = format!("numa.{}", std::process::id());
    let owner = Loader::open_shared_on(&OS, &config(NUMA_PIN, 1), &name, 1).unwrap();
    assert_eq!(machine.state().calls, ["prefer 1", "prefer 77", BOUND]);
    owner.close(FOREVER).unwrap();
}

/// In a container too that forbids the calls, and on a machine without sysfs.
#[test]
fn auto_streams_on_any_machine() {
    stream(Loader::open_on(&SYSTEM, &config(AUTO, -1)).unwrap());
}
