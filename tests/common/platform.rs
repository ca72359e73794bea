//! The device of tests that can run on a real one: the simulated one, or, where
//! `WAVETRAIN_TEST_DRIVER` names a driver, device 0 of that.
//!
//! Out: a [`Platform`], for one test alone. Invariant: of a named driver nothing is called but
//! entries of CUDA, whatever it is. Calls that fail, faults that are found and work in an order of
//! the test's choice are the [`Simulator`]'s alone.

use super::cuda_sim::{Mode, Simulator};
use super::drive::named_driver;
use std::collections::BTreeMap;
use std::ffi::{CStr, c_int, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use wavetrain::cuda::context::Entered;
use wavetrain::cuda::handles::*;
use wavetrain::cuda::result::CuResult;
use wavetrain::cuda::{Driver, DriverPath};
use wavetrain::status::Why;

type Begin = unsafe extern "C" fn(Stream, u32) -> CuResult;
type End = unsafe extern "C" fn(Stream, *mut *mut c_void) -> CuResult;
type GetNodes = unsafe extern "C" fn(*mut c_void, *mut *mut c_void, *mut usize) -> CuResult;
type Destroy = unsafe extern "C" fn(*mut c_void) -> CuResult;
type WaitValue = unsafe extern "C" fn(Stream, DevicePointer, u32, u32) -> CuResult;
type PointerGet = unsafe extern "C" fn(*mut Context, u32, DevicePointer) -> CuResult;

/// CU_POINTER_ATTRIBUTE_CONTEXT.
const CONTEXT_OF_POINTER: u32 = 1;

/// How many queues to a device keep a stream that is held from holding others: the most there are.
const QUEUES: u32 = 32;

/// What a consumer's tests ask of a driver.
pub trait Platform: Sync {
    /// The path of its library.
    fn path(&self) -> &'static CStr;

    /// An entry that the table of the library does not have: what programs around it call.
    fn entry(&self, name: &CStr) -> *mut c_void;

    /// 1: what is queued in a stream of the current context from here on does not run, until 0.
    fn hold_stream(&self, stream: *mut c_void, is_held: c_int);

    /// When queued work runs, where that can be chosen.
    fn set_mode(&self, _: Mode, _: u64) {}

    /// The calling thread's current context, if it has one, and its capture mode.
    fn thread(&self) -> (Vec<*mut c_void>, u32) {
        let driver = self.driver();
        let current = driver.ctx_get_current().unwrap().as_raw();
        let mode = driver.thread_exchange_stream_capture_mode(CaptureMode::GLOBAL).unwrap();
        driver.thread_exchange_stream_capture_mode(mode).unwrap();
        (if current.is_null() { Vec::new() } else { vec![current] }, mode.0)
    }

    /// What `cuda_driver` of a config is, for an instance on it.
    fn driver_path(&self) -> DriverPath {
        DriverPath::from_static(self.path())
    }

    /// The driver, as the library loads it.
    fn driver(&self) -> &'static Driver {
        loaded(self.path())
    }

    /// Begins to capture what is queued in a stream of the current context.
    fn begin_capture(&self, stream: Stream, mode: CaptureMode) -> Result<(), CuResult> {
        // SAFETY: the entry has this type.
        unsafe {
            let begin: Begin = std::mem::transmute(self.entry(c"cuStreamBeginCapture_v2"));
            begin(stream, mode.0).ok()
        }
    }

    /// Ends it and drops the graph; how many nodes that had.
    fn end_capture(&self, stream: Stream) -> Result<usize, CuResult> {
        let (mut graph, mut nodes) = (null_mut(), usize::MAX);
        // SAFETY: the entries have these types; the graph lives until it is destroyed.
        unsafe {
            let end: End = std::mem::transmute(self.entry(c"cuStreamEndCapture"));
            let count: GetNodes = std::mem::transmute(self.entry(c"cuGraphGetNodes"));
            let destroy: Destroy = std::mem::transmute(self.entry(c"cuGraphDestroy"));
            end(stream, &mut graph).ok()?;
            assert_eq!(count(graph, null_mut(), &mut nodes), CuResult::SUCCESS);
            assert_eq!(destroy(graph), CuResult::SUCCESS);
        }
        Ok(nodes)
    }
}

/// The device of this run, for one test alone. None, with a printed reason, where there is none.
pub fn take() -> Option<Box<dyn Platform>> {
    match named_driver() {
        Some(path) => Some(Box::new(Named::take(path))),
        None => Some(Box::new(Simulator::take()?)),
    }
}

/// The same for a test that holds a stream and expects others to go on, which on a real device they
/// do where each has a queue of its own.
pub fn take_to_hold() -> Option<Box<dyn Platform>> {
    let queues = std::env::var("CUDA_DEVICE_MAX_CONNECTIONS").ok();
    let has_queues = queues.and_then(|text| text.parse().ok()) == Some(QUEUES);
    if named_driver().is_some() && !has_queues {
        println!("skipped: it holds a stream, which needs CUDA_DEVICE_MAX_CONNECTIONS={QUEUES}");
        return None;
    }
    take()
}

/// Bytes of device memory that nothing writes. Those of the simulated device are just there, so no
/// call of its driver stands between a test and a byte.
pub fn read(first: *const c_void, count: usize) -> Vec<u8> {
    let Some(path) = named_driver() else {
        // SAFETY: as many bytes of simulated memory are there.
        return unsafe { std::slice::from_raw_parts(first.cast::<u8>(), count) }.to_vec();
    };
    let (driver, pointer) = (loaded(path), DevicePointer(first as u64));
    let (mut context, mut bytes) = (Context::NULL, vec![0xA5; count]);
    // SAFETY: the entry has this type for this attribute.
    let code = unsafe {
        let get: PointerGet = std::mem::transmute(named_entry(path, c"cuPointerGetAttribute"));
        get(&mut context, CONTEXT_OF_POINTER, pointer)
    };
    assert_eq!(code, CuResult::SUCCESS);
    let _entered = Entered::new(driver, context).unwrap();
    // No other stream is waited for, and none waits.
    let stream = driver.stream_create(STREAM_NON_BLOCKING, 0).unwrap();
    // SAFETY: there are as many bytes, and the copy is over before they are looked at.
    unsafe {
        driver.memcpy_dtoh_async(bytes.as_mut_ptr(), pointer, count as u64, stream).unwrap();
        driver.stream_synchronize(stream).unwrap();
        driver.stream_destroy(stream).unwrap();
    }
    bytes
}

fn loaded(path: &'static CStr) -> &'static Driver {
    let mut why = Why::new();
    Driver::load(DriverPath::from_static(path), &mut why)
        .unwrap_or_else(|status| panic!("{status}: {why}"))
}

/// The symbol of that name of a library that stays loaded.
pub fn symbol(library: *mut c_void, name: &CStr) -> *mut c_void {
    // SAFETY: the library is loaded for good.
    let found = unsafe { libc::dlsym(library, name.as_ptr()) };
    assert!(!found.is_null(), "{name:?}");
    found
}

fn named_entry(path: &CStr, name: &CStr) -> *mut c_void {
    // SAFETY: the driver is loaded already, and stays so.
    symbol(unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) }, name)
}

/// The driver that the environment names.
struct Named {
    path: &'static CStr,
    /// Which word each stream that is held waits for.
    held: Mutex<BTreeMap<usize, &'static AtomicU32>>,
    _alone: MutexGuard<'static, ()>,
}

impl Named {
    fn take(path: &'static CStr) -> Named {
        static ALONE: Mutex<()> = Mutex::new(());
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        Named { path, held: Mutex::default(), _alone: alone }
    }

    /// A word in pinned memory that all contexts see, and that no stream waits for.
    fn word(&self) -> &'static AtomicU32 {
        const WORDS: u32 = 1024;
        static BLOCK: OnceLock<usize> = OnceLock::new();
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let block = *BLOCK.get_or_init(|| {
            let driver = self.driver();
            let device = driver.device_get(0).unwrap();
            // Retained for good, because a context takes with it what was made there.
            let context = driver.device_primary_ctx_retain(device).unwrap();
            let _entered = Entered::new(driver, context).unwrap();
            let flags = MEM_HOST_PORTABLE | MEM_HOST_DEVICE_MAP;
            driver.mem_host_alloc(4 * u64::from(WORDS), flags).unwrap().as_ptr() as usize
        });
        let place = block + 4 * (NEXT.fetch_add(1, SeqCst) % WORDS) as usize;
        // SAFETY: the block has as many words and is never given back; fewer streams are held at a
        // time than it has.
        unsafe { &*(place as *const AtomicU32) }
    }
}

impl Platform for Named {
    fn path(&self) -> &'static CStr {
        self.path
    }

    fn entry(&self, name: &CStr) -> *mut c_void {
        named_entry(self.path, name)
    }

    fn hold_stream(&self, stream: *mut c_void, is_held: c_int) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if is_held == 0 {
            held.remove(&(stream as usize)).into_iter().for_each(|word| word.store(1, SeqCst));
            return;
        }
        let word = self.word();
        word.store(0, SeqCst);
        assert!(held.insert(stream as usize, word).is_none(), "it is held already");
        let driver = self.driver();
        let _entered = Entered::new(driver, driver.ctx_get_current().unwrap()).unwrap();
        // SAFETY: the entry has this type; the word is there for good.
        let code = unsafe {
            let wait: WaitValue = std::mem::transmute(self.entry(c"cuStreamWaitValue32_v2"));
            wait(Stream::from_raw(stream), DevicePointer(word.as_ptr() as u64), 1, 0)
        };
        assert_eq!(code, CuResult::SUCCESS);
    }
}

impl Drop for Named {
    /// A test that failed leaves no stream held, which others might wait for.
    fn drop(&mut self) {
        let held = self.held.get_mut().unwrap_or_else(PoisonError::into_inner);
        held.values().for_each(|word| word.store(1, SeqCst));
    }
}
