//! A machine with two NUMA nodes: its sysfs, and a record of all that is placed.
//!
//! Its state is the process's, so a test holds it for itself while its [`TwoNodes`] lives. Threads
//! run where they run: only the calls are seen.

use crate::common::machine::read_of;
use std::ffi::{CStr, c_char, c_void};
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard};
use wavetrain::abi::LogHook;
use wavetrain::base::cpus::CpuSet;
use wavetrain::os::numa::Policy;
use wavetrain::os::{Errno, Os, SYSTEM};

/// CPUs of node 1, of which there is one, so that derived threads are few.
pub const CPUS: &str = "5";

/// What the machine is asked, and how it answers.
pub struct State {
    /// The node of the thread that opens.
    pub node: u32,
    /// The errno of calls that place memory; 0: they are made.
    pub refuses_memory: i32,
    /// The errno of calls that place a thread.
    pub refuses_threads: i32,
    /// The path of one file more, and its bytes.
    pub more: (&'static str, &'static str),
    /// Calls in their order, those of threads apart.
    pub calls: Vec<String>,
    /// CPUs that threads were kept to.
    pub threads: Vec<String>,
    /// Lines of the log that have "NUMA" in them, with their level.
    pub lines: Vec<(u32, String)>,
}

const FRESH: State = State {
    node: 1,
    refuses_memory: 0,
    refuses_threads: 0,
    more: ("", ""),
    calls: Vec::new(),
    threads: Vec::new(),
    lines: Vec::new(),
};

static STATE: Mutex<State> = Mutex::new(FRESH);

const FILES: [(&str, &str); 4] = [
    ("/sys/devices/system/node/online", "0-1\n"),
    ("/sys/devices/system/node/has_memory", "0-1\n"),
    ("/sys/devices/system/node/node0/cpulist", "0-4\n"),
    ("/sys/devices/system/node/node1/cpulist", "5\n"),
];

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn checked(errno: i32) -> Result<(), Errno> {
    if errno == 0 { Ok(()) } else { Err(Errno(errno)) }
}

/// Pages of a range that have memory.
fn pages_touched(start: NonNull<u8>, bytes: u64) -> usize {
    let mut pages = vec![0u8; bytes.div_ceil(4096) as usize];
    // SAFETY: the range is mapped, and there is a byte for each of its pages.
    let failed =
        unsafe { libc::mincore(start.as_ptr().cast(), bytes as usize, pages.as_mut_ptr()) };
    assert_eq!(failed, 0);
    pages.iter().filter(|page| **page & 1 == 1).count()
}

/// The system calls of the machine.
pub static OS: Os = Os {
    read_system: |path, target, offset| {
        let name = std::str::from_utf8(path).unwrap().trim_end_matches('\0');
        let more = state().more;
        let file = FILES.iter().chain([&more]).find(|(one, _)| *one == name);
        file.map(|(_, text)| read_of(text.as_bytes(), target, offset)).ok_or(Errno(libc::ENOENT))
    },
    current_node: || Ok(state().node),
    cpus: || CpuSet::from_list("0-7").unwrap(),
    keep_to_cpus: |cpus| {
        let state = &mut *state();
        state.threads.push(cpus.to_string());
        checked(state.refuses_threads)
    },
    bind_memory: |pages, bytes, policy| {
        let touched = pages_touched(pages, bytes);
        let state = &mut *state();
        state.calls.push(format!("bind {}, {touched} pages touched", policy.nodes()));
        checked(state.refuses_memory)
    },
    memory_policy: || checked(state().refuses_memory).map(|()| Policy::preferred(77)),
    set_memory_policy: |policy| {
        state().calls.push(format!("prefer {}", policy.nodes()));
        Ok(())
    },
    ..SYSTEM
};

/// The machine, for one test alone.
pub struct TwoNodes {
    _alone: MutexGuard<'static, ()>,
}

impl TwoNodes {
    /// The machine as it is at first.
    pub fn take() -> TwoNodes {
        static ALONE: Mutex<()> = Mutex::new(());
        let alone = ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        *state() = FRESH;
        TwoNodes { _alone: alone }
    }

    /// What is seen and set of it.
    pub fn state(&self) -> MutexGuard<'static, State> {
        state()
    }

    /// A hook that keeps lines about nodes.
    pub fn log(&self) -> LogHook {
        unsafe extern "C" fn log(_: *mut c_void, level: u32, _: u64, text: *const c_char, _: u64) {
            // SAFETY: the library hands over a NUL-terminated text.
            let text = unsafe { CStr::from_ptr(text) }.to_str().unwrap();
            if text.contains("NUMA") {
                state().lines.push((level, text.to_owned()));
            }
        }
        LogHook { log: Some(log), ..LogHook::NONE }
    }
}
