//! The simulated CUDA driver: built once by tools/cuda_sim.sh, loaded, and set up by its control
//! functions.
//!
//! A process loads it twice, from two files, so that two tests run side by side. Its state is the
//! process's, so a test holds one of the two while its [`Simulator`] lives; what it found wrong and
//! what was not given back fails the test at the end.

use super::cc;
use super::drive::named_driver;
use super::platform::{Platform, symbol};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Condvar, Mutex, OnceLock};

/// When queued work runs, as tests/cuda_sim/state.hpp says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// At once, on a thread per stream.
    Eager = 0,
    /// The same, with threads that dawdle at random.
    Jitter = 1,
    /// When it is asked for, and only then.
    Lazy = 2,
    /// As Jitter, by a driver whose calls take long.
    Slow = 3,
}

macro_rules! controls {
    ($($name:ident: fn($($type:ty),*) $(-> $result:ty)?;)*) => {
        /// The control functions, without their prefix.
        pub struct Controls {
            $($name: unsafe extern "C" fn($($type),*) $(-> $result)?,)*
        }

        impl Controls {
            /// SAFETY: the library is the simulator, whose functions have these types.
            unsafe fn of(library: *mut c_void) -> Controls {
                Controls {$(
                    $name: {
                        let name = concat!("simcuda_", stringify!($name), "\0");
                        // SAFETY: the name has a NUL.
                        let found = unsafe { libc::dlsym(library, name.as_ptr().cast()) };
                        assert!(!found.is_null(), "{name}");
                        // SAFETY: as the function says.
                        unsafe {
                            std::mem::transmute::<
                                *mut c_void,
                                unsafe extern "C" fn($($type),*) $(-> $result)?,
                            >(found)
                        }
                    },
                )*}
            }
        }
    };
}

controls! {
    reset: fn() -> u64;
    uninitialize: fn();
    calls: fn(*const c_char) -> u64;
    allocations: fn() -> u64;
    fail: fn(*const c_char, u64, u32, u64);
    fault_seen: fn() -> u64;
    stall: fn(*const c_char, u64);
    is_stalled: fn() -> c_int;
    drop_wait: fn(i64);
    waits: fn() -> u64;
    launches: fn() -> u64;
    pageable_copies: fn() -> u64;
    bus_bytes: fn() -> u64;
    refuse_streams: fn(u32);
    set_devices: fn(c_int);
    set_version: fn(c_int);
    set_capability: fn(c_int, c_int);
    set_attribute: fn(u32, c_int);
    set_init_result: fn(u32);
    set_memory: fn(u64);
    set_pinned_max: fn(u64);
    set_mode: fn(u32, u64);
    set_order: fn(*const c_char, u64);
    hold: fn(c_int);
    hold_stream: fn(*mut c_void, c_int);
    share_connection: fn(c_int);
    used_bytes: fn(c_int) -> u64;
    peak_bytes: fn(c_int) -> u64;
    pinned_bytes: fn() -> u64;
    live: fn(*mut c_char, usize) -> u64;
    findings: fn(*mut c_char, usize) -> u64;
    thread: fn(*mut *mut c_void, u32, *mut u32) -> u32;
}

struct Library {
    path: CString,
    handle: usize,
    controls: Controls,
}

/// One of the two simulators, for one test.
pub struct Simulator {
    library: &'static Library,
    live_before: u64,
    fault_first: AtomicU64,
    /// None once it is given back.
    held: Option<Held>,
}

/// How many tests have a simulator at a time.
const SIMULATORS: usize = 2;

static FREE: Mutex<[bool; SIMULATORS]> = Mutex::new([true; SIMULATORS]);
static GIVEN_BACK: Condvar = Condvar::new();

/// The simulators of a test: one, or all.
struct Held(Range<usize>);

impl Held {
    /// Waits until one is free.
    fn one() -> Held {
        let free = FREE.lock().unwrap();
        let mut free = GIVEN_BACK.wait_while(free, |free| !free.contains(&true)).unwrap();
        let first = free.iter().position(|is_free| *is_free).unwrap();
        free[first] = false;
        Held(first..first + 1)
    }

    /// Waits until all are free.
    fn all() -> Held {
        let free = FREE.lock().unwrap();
        *GIVEN_BACK.wait_while(free, |free| free.contains(&false)).unwrap() = [false; SIMULATORS];
        Held(0..SIMULATORS)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        FREE.lock().unwrap()[self.0.clone()].fill(true);
        GIVEN_BACK.notify_all();
    }
}

/// The simulator, or None, with a printed reason, where there is no g++.
pub fn library() -> Option<PathBuf> {
    cc::kernels("libcuda.so.1", &[])
}

/// The simulator with this number, loaded at its first use.
fn loaded(number: usize) -> Option<&'static Library> {
    static LIBRARIES: [OnceLock<Option<Library>>; SIMULATORS] = [const { OnceLock::new() }; _];
    let load = || {
        let made = library()?;
        let path = made.with_file_name(format!("simulator-{number}.so"));
        if !path.exists() {
            // It appears whole or not at all.
            let unfinished = path.with_extension(format!("{}", std::process::id()));
            std::fs::copy(made, &unfinished).unwrap();
            std::fs::rename(&unfinished, &path).unwrap();
        }
        let path = CString::new(path.to_str().unwrap()).unwrap();
        // SAFETY: the name has a NUL; the library is ours.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        assert!(!handle.is_null(), "{path:?} cannot be loaded");
        // SAFETY: it is the simulator.
        let controls = unsafe { Controls::of(handle) };
        Some(Library { path, handle: handle as usize, controls })
    };
    LIBRARIES[number].get_or_init(load).as_ref()
}

impl Simulator {
    /// A simulator as it is at the start of a process, for this test. None, with a printed reason,
    /// where there is no g++, or where the tests are to run on another driver.
    pub fn take() -> Option<Simulator> {
        Simulator::take_by(Held::one)
    }

    /// The same, while no other test has one: for what looks at all drivers of the process, and for
    /// tests with statics of their own.
    pub fn take_alone() -> Option<Simulator> {
        Simulator::take_by(Held::all)
    }

    fn take_by(hold: fn() -> Held) -> Option<Simulator> {
        if named_driver().is_some() {
            println!("skipped: it needs what only the simulated driver can do");
            return None;
        }
        let held = hold();
        let library = loaded(held.0.start)?;
        // A test that failed leaves nothing that reset does not put right.
        // SAFETY: no arguments.
        let live_before = unsafe { (library.controls.reset)() };
        let fault_first = AtomicU64::new(u64::MAX);
        Some(Simulator { library, live_before, fault_first, held: Some(held) })
    }

    /// What was found wrong so far, and forgotten with that.
    pub fn take_findings(&self) -> String {
        let findings = self.findings().1;
        // SAFETY: no arguments. Settings go too, which a test that looks at findings does not need.
        unsafe { (self.library.controls.reset)() };
        findings
    }

    fn text(function: unsafe extern "C" fn(*mut c_char, usize) -> u64) -> (u64, String) {
        let mut bytes = vec![0u8; 8192];
        // SAFETY: as many bytes are writable.
        let count = unsafe { function(bytes.as_mut_ptr().cast(), bytes.len()) };
        let text = CStr::from_bytes_until_nul(&bytes).unwrap();
        (count, text.to_string_lossy().into_owned())
    }

    /// How many things were found wrong, and which.
    pub fn findings(&self) -> (u64, String) {
        Simulator::text(self.library.controls.findings)
    }

    /// How many objects live, and of which kinds.
    pub fn live(&self) -> (u64, String) {
        Simulator::text(self.library.controls.live)
    }

    /// Calls of an entry so far; of all for None.
    pub fn calls(&self, name: Option<&CStr>) -> u64 {
        let name = name.map_or(std::ptr::null(), CStr::as_ptr);
        // SAFETY: NULL, or a string with a NUL.
        let calls = unsafe { (self.library.controls.calls)(name) };
        assert!(calls != u64::MAX, "the simulator has no such entry");
        calls
    }

    /// The n-th call from now on of an entry (None: of all), and `times - 1` after it, fail.
    pub fn fail(&self, name: Option<&CStr>, first: u64, code: u32, times: u64) {
        self.fault_first.store(first, SeqCst);
        let name = name.map_or(std::ptr::null(), CStr::as_ptr);
        // SAFETY: NULL, or a string with a NUL.
        unsafe { (self.library.controls.fail)(name, first, code, times) }
    }

    /// Calls `call` on a thread of its own, and does `work` while its call of `entry` with this
    /// number, counted from 0, has stopped before it does anything.
    pub fn amid<T: Send>(
        &self,
        (entry, number): (&CStr, u64),
        call: impl FnOnce() -> T + Send,
        work: impl FnOnce(),
    ) -> T {
        let Controls { stall, is_stalled, .. } = self.library.controls;
        /// Lets the call go on, also where `work` fails.
        struct GoOn(unsafe extern "C" fn(*const c_char, u64));
        impl Drop for GoOn {
            fn drop(&mut self) {
                // SAFETY: NULL is for that.
                unsafe { (self.0)(std::ptr::null(), 0) };
            }
        }
        // SAFETY: the name has a NUL.
        unsafe { stall(entry.as_ptr(), number) };
        std::thread::scope(|scope| {
            let go_on = GoOn(stall);
            let caller = scope.spawn(call);
            // SAFETY: no arguments.
            while unsafe { is_stalled() } == 0 {
                assert!(!caller.is_finished(), "{entry:?} was not called");
                std::thread::yield_now();
            }
            work();
            drop(go_on);
            caller.join().unwrap()
        })
    }

    /// No call fails any more.
    pub fn fail_none(&self) {
        self.fail(None, u64::MAX, 0, 0);
    }

    /// Whether the call that `fail` names has come, where one call is to fail.
    pub fn is_fault_over(&self) -> bool {
        self.fault_seen() > self.fault_first.load(SeqCst)
    }

    /// The order of blocks and threads of a kernel: "forward", "reverse" or "shuffled".
    pub fn set_order(&self, order: &str, seed: u64) {
        let order = CString::new(order).unwrap();
        // SAFETY: the order has a NUL.
        unsafe { (self.library.controls.set_order)(order.as_ptr(), seed) }
    }
}

macro_rules! plain_controls {
    ($($(#[$doc:meta])* $name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)?;)*) => {
        impl Simulator {$(
            $(#[$doc])*
            pub fn $name(&self, $($argument: $type),*) $(-> $result)? {
                // SAFETY: plain numbers.
                unsafe { (self.library.controls.$name)($($argument),*) }
            }
        )*}
    };
}

plain_controls! {
    /// As a process that did not call cuInit.
    uninitialize();
    /// Blocks, streams, events and modules that were asked for so far, and first works of a kind in
    /// a stream.
    allocations() -> u64;
    /// Calls that the fault of `fail` has looked at.
    fault_seen() -> u64;
    /// The n-th cuStreamWaitEvent from now on is forgotten; -1: none.
    drop_wait(number: i64);
    /// Calls of cuStreamWaitEvent since `drop_wait` or `take`.
    waits() -> u64;
    /// Kernels launched so far.
    launches() -> u64;
    /// Asynchronous copies from or to host memory that is not pinned.
    pageable_copies() -> u64;
    /// Bytes of copies to devices since `take`.
    bus_bytes() -> u64;
    /// One stream in so many is refused by the kernel that decodes it; 0: as it says itself.
    refuse_streams(one_in: u32);
    /// How many devices there are, at most 4.
    set_devices(count: c_int);
    /// What CUDA the driver is for: 12000 is 12.0.
    set_version(version: c_int);
    /// The compute capability of all devices.
    set_capability(major: c_int, minor: c_int);
    /// What one attribute of all devices is, whatever else would be said; 0: none.
    set_attribute(attribute: u32, value: c_int);
    /// What cuInit returns.
    set_init_result(code: u32);
    /// Bytes of a device.
    set_memory(bytes: u64);
    /// Bytes that can be pinned.
    set_pinned_max(bytes: u64);
    /// 1: nothing that is queued runs, until 0.
    hold(is_held: c_int);
    /// 1: all streams share one connection, as with CUDA_DEVICE_MAX_CONNECTIONS=1, until 0. Before
    /// anything is queued, and not in mode lazy.
    share_connection(is_shared: c_int);
    /// Bytes of blocks of a device.
    used_bytes(device: c_int) -> u64;
    /// Most of them since `take`.
    peak_bytes(device: c_int) -> u64;
    /// Bytes of pinned blocks.
    pinned_bytes() -> u64;
}

impl Platform for Simulator {
    fn path(&self) -> &'static CStr {
        &self.library.path
    }

    fn entry(&self, name: &CStr) -> *mut c_void {
        symbol(self.library.handle as *mut c_void, name)
    }

    fn set_mode(&self, mode: Mode, seed: u64) {
        // SAFETY: plain numbers.
        unsafe { (self.library.controls.set_mode)(mode as u32, seed) }
    }

    /// What was queued before waits too.
    fn hold_stream(&self, stream: *mut c_void, is_held: c_int) {
        // SAFETY: plain values; a stream that is none is looked for and not found.
        unsafe { (self.library.controls.hold_stream)(stream, is_held) }
    }

    /// All of the contexts, from the oldest on.
    fn thread(&self) -> (Vec<*mut c_void>, u32) {
        let mut contexts = [std::ptr::null_mut(); 16];
        let mut mode = 77;
        // SAFETY: both are writable.
        let depth = unsafe { (self.library.controls.thread)(contexts.as_mut_ptr(), 16, &mut mode) };
        (contexts[..depth as usize].to_vec(), mode)
    }
}

impl Drop for Simulator {
    fn drop(&mut self) {
        let (findings, live) = (self.findings(), self.live());
        // SAFETY: no arguments.
        unsafe { (self.library.controls.reset)() };
        self.held = None;
        if !std::thread::panicking() {
            assert_eq!(findings.0, 0, "the simulated driver found: {}", findings.1);
            assert_eq!(live.0, self.live_before, "not given back: {}", live.1);
        }
    }
}
