//! The driver's table: our declarations against the crate cuda-sys, an oracle that others wrote,
//! and the texts of everything that keeps a driver or a device from being used, against the
//! simulated driver of tests/cuda_sim.
//!
//! cuda-sys binds CUDA 8, so entries and codes that came later have no oracle here; each is listed,
//! so that none is left out by mistake.

use crate::common::alone::alone;
use crate::common::cc;
use crate::common::cuda_sim::{Simulator, library};
use crate::common::platform::Platform;
use cuda_sys::cuda as theirs;
use std::any::type_name;
use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_void};
use std::mem::{align_of, size_of};
use std::path::Path;
use std::process::Command;
use wavetrain::base::limits::URI_BYTES_MAX;
use wavetrain::cuda::context::Entered;
use wavetrain::cuda::entries::{Entries, EntryName, names};
use wavetrain::cuda::handles::*;
use wavetrain::cuda::result::{CuResult, RESULTS};
use wavetrain::cuda::{DeviceContext, Driver, DriverPath, Fault, module};
use wavetrain::status::{Status, Why};

/// Result and arguments of a function, by the names of their types.
trait Signature {
    fn types() -> Vec<&'static str>;
}

macro_rules! signatures {
    ($($first:ident $($argument:ident)*;)*) => {$(
        impl<R, $first, $($argument),*> Signature
            for unsafe extern "C" fn($first, $($argument),*) -> R
        {
            fn types() -> Vec<&'static str> {
                vec![type_name::<R>(), type_name::<$first>(), $(type_name::<$argument>()),*]
            }
        }
    )*};
}

signatures! {
    A;
    A B;
    A B C;
    A B C D;
    A B C D E;
    A B C D E F G H I J K;
}

/// What cuda.h calls a type, from the name that either side has for it.
fn plain(name: &str) -> String {
    let renamed = [
        ("wavetrain::rooms::cuda::handles::DevicePointer", "u64"),
        ("wavetrain::rooms::cuda::handles::DeviceAttribute", "CUdevice_attribute"),
        ("wavetrain::rooms::cuda::handles::JitOption", "CUjit_option"),
        ("wavetrain::rooms::cuda::handles::PointerAttribute", "CUpointer_attribute"),
        ("wavetrain::rooms::cuda::handles::Device", "i32"),
        ("wavetrain::rooms::cuda::handles::Context", "CUcontext"),
        ("wavetrain::rooms::cuda::handles::Stream", "CUstream"),
        ("wavetrain::rooms::cuda::handles::Event", "CUevent"),
        ("wavetrain::rooms::cuda::handles::Module", "CUmodule"),
        ("wavetrain::rooms::cuda::handles::Function", "CUfunction"),
        ("wavetrain::rooms::cuda::result::CuResult", "CUresult"),
        ("*mut cuda_sys::cuda::CUctx_st", "CUcontext"),
        ("*mut cuda_sys::cuda::CUstream_st", "CUstream"),
        ("*mut cuda_sys::cuda::CUevent_st", "CUevent"),
        ("*mut cuda_sys::cuda::CUmod_st", "CUmodule"),
        ("*mut cuda_sys::cuda::CUfunc_st", "CUfunction"),
        ("cuda_sys::cuda::cudaError_t", "CUresult"),
        ("cuda_sys::cuda::CUdevice_attribute_enum", "CUdevice_attribute"),
        ("cuda_sys::cuda::CUjit_option_enum", "CUjit_option"),
        ("cuda_sys::cuda::CUpointer_attribute_enum", "CUpointer_attribute"),
    ];
    renamed.iter().fold(name.to_owned(), |name, (from, to)| name.replace(from, to))
}

fn types_of<F: Signature>() -> Vec<String> {
    F::types().into_iter().map(plain).collect()
}

/// Of a field of the table.
fn ours<F: Signature>(_: fn(&Entries) -> F) -> Vec<String> {
    types_of::<F>()
}

/// Of a function of cuda-sys. It is never called, and so never linked.
fn oracle<F: Signature>(_: impl FnOnce() -> F) -> Vec<String> {
    types_of::<F>()
}

macro_rules! compared {
    ($($field:ident $name:ident ($($any:tt)*) $(or $other:ident)?;)*) => {
        vec![$((
            stringify!($name),
            ours(|entries: &Entries| entries.$field),
            oracle(|| compared!(@pick $name $($other)?) as unsafe extern "C" fn($($any)*) -> _),
        )),*]
    };
    (@pick $name:ident) => { theirs::$name };
    (@pick $name:ident $other:ident) => { theirs::$other };
}

/// Entries that came after CUDA 8.
const NEWER: [&str; 3] =
    ["cuStreamGetCtx", "cuStreamIsCapturing", "cuThreadExchangeStreamCaptureMode"];

#[rustfmt::skip] // one entry, one line
fn signatures() -> Vec<(&'static str, Vec<String>, Vec<String>)> {
    compared![
        init cuInit(_);
        driver_get_version cuDriverGetVersion(_);
        get_error_name cuGetErrorName(_, _);
        device_get_count cuDeviceGetCount(_);
        device_get cuDeviceGet(_, _);
        device_get_name cuDeviceGetName(_, _, _);
        device_get_attribute cuDeviceGetAttribute(_, _, _);
        device_primary_ctx_retain cuDevicePrimaryCtxRetain(_, _);
        device_primary_ctx_release cuDevicePrimaryCtxRelease_v2(_) or cuDevicePrimaryCtxRelease;
        ctx_get_current cuCtxGetCurrent(_);
        ctx_push_current cuCtxPushCurrent_v2(_);
        ctx_pop_current cuCtxPopCurrent_v2(_);
        ctx_get_device cuCtxGetDevice(_);
        ctx_get_stream_priority_range cuCtxGetStreamPriorityRange(_, _);
        mem_alloc cuMemAlloc_v2(_, _);
        mem_free cuMemFree_v2(_);
        mem_get_info cuMemGetInfo_v2(_, _);
        mem_host_alloc cuMemHostAlloc(_, _, _);
        mem_free_host cuMemFreeHost(_);
        mem_host_register cuMemHostRegister_v2(_, _, _);
        mem_host_unregister cuMemHostUnregister(_);
        memcpy_htod_async cuMemcpyHtoDAsync_v2(_, _, _, _);
        memcpy_dtoh_async cuMemcpyDtoHAsync_v2(_, _, _, _);
        memcpy_dtod_async cuMemcpyDtoDAsync_v2(_, _, _, _);
        memcpy_dtoh cuMemcpyDtoH_v2(_, _, _);
        memset_d8_async cuMemsetD8Async(_, _, _, _);
        pointer_get_attribute cuPointerGetAttribute(_, _, _);
        stream_create cuStreamCreateWithPriority(_, _, _);
        stream_destroy cuStreamDestroy_v2(_);
        stream_query cuStreamQuery(_);
        stream_synchronize cuStreamSynchronize(_);
        stream_wait_event cuStreamWaitEvent(_, _, _);
        event_create cuEventCreate(_, _);
        event_destroy cuEventDestroy_v2(_);
        event_record cuEventRecord(_, _);
        event_query cuEventQuery(_);
        event_synchronize cuEventSynchronize(_);
        event_elapsed_time cuEventElapsedTime(_, _, _);
        module_load_data_ex cuModuleLoadDataEx(_, _, _, _, _);
        module_unload cuModuleUnload(_);
        module_get_function cuModuleGetFunction(_, _, _);
        launch_kernel cuLaunchKernel(_, _, _, _, _, _, _, _, _, _, _);
    ]
}

#[test]
fn every_entry_has_the_types_that_cuda_sys_declares() {
    let signatures = signatures();
    for (name, ours, theirs) in &signatures {
        assert_eq!(ours, theirs, "{name}");
        assert!(ours.iter().all(|name| !name.contains("::cuda")), "{name}: {ours:?}");
    }
    let compared = signatures.iter().map(|(name, ..)| *name);
    let mut known: Vec<&str> = compared.chain(NEWER).collect();
    let mut entries: Vec<&str> = names().map(|entry| entry.name.to_str().unwrap()).collect();
    known.sort_unstable();
    entries.sort_unstable();
    assert_eq!(entries, known);
}

#[test]
fn handles_have_the_sizes_that_cuda_sys_declares() {
    macro_rules! same {
        ($($ours:ty = $theirs:ty),*) => {$(
            assert_eq!(size_of::<$ours>(), size_of::<$theirs>());
            assert_eq!(align_of::<$ours>(), align_of::<$theirs>());
        )*};
    }
    same!(
        CuResult = theirs::CUresult,
        Device = theirs::CUdevice,
        DevicePointer = theirs::CUdeviceptr,
        Context = theirs::CUcontext,
        Stream = theirs::CUstream,
        Event = theirs::CUevent,
        Module = theirs::CUmodule,
        Function = theirs::CUfunction,
        DeviceAttribute = theirs::CUdevice_attribute,
        PointerAttribute = theirs::CUpointer_attribute,
        JitOption = theirs::CUjit_option
    );
}

#[test]
fn options_have_the_values_that_cuda_sys_declares() {
    macro_rules! device {
        ($($name:ident = $theirs:ident),*) => {
            $(assert_eq!(DeviceAttribute::$name.0, theirs::CUdevice_attribute::$theirs as u32);)*
        };
    }
    device!(
        CAN_MAP_HOST_MEMORY = CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY,
        UNIFIED_ADDRESSING = CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING,
        COMPUTE_CAPABILITY_MAJOR = CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
        COMPUTE_CAPABILITY_MINOR = CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR
    );
    macro_rules! jit {
        ($($name:ident = $theirs:ident),*) => {
            $(assert_eq!(JitOption::$name.0, theirs::CUjit_option::$theirs as u32);)*
        };
    }
    jit!(
        ERROR_LOG_BUFFER = CU_JIT_ERROR_LOG_BUFFER,
        ERROR_LOG_BUFFER_SIZE_BYTES = CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES
    );
    use theirs::{CUevent_flags, CUmemorytype, CUpointer_attribute, CUstream_flags};
    let same = [
        (
            PointerAttribute::MEMORY_TYPE.0,
            CUpointer_attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE as u32,
        ),
        // After CUDA 8, as are some entries.
        (PointerAttribute::DEVICE_ORDINAL.0, 9),
        (MEMORY_OF_DEVICE, CUmemorytype::CU_MEMORYTYPE_DEVICE as u32),
        (STREAM_NON_BLOCKING, CUstream_flags::CU_STREAM_NON_BLOCKING as u32),
        (EVENT_DEFAULT, CUevent_flags::CU_EVENT_DEFAULT as u32),
        (EVENT_DISABLE_TIMING, CUevent_flags::CU_EVENT_DISABLE_TIMING as u32),
        (MEM_HOST_PORTABLE, theirs::CU_MEMHOSTALLOC_PORTABLE),
        (MEM_HOST_DEVICE_MAP, theirs::CU_MEMHOSTALLOC_DEVICEMAP),
    ];
    for (ours, theirs) in same {
        assert_eq!(ours, theirs);
    }
}

#[test]
fn codes_have_the_names_that_cuda_sys_declares() {
    // Its enumeration is closed: only the codes that it has may become one.
    use theirs::cudaError_t::*;
    let known = [
        CUDA_SUCCESS,
        CUDA_ERROR_INVALID_VALUE,
        CUDA_ERROR_OUT_OF_MEMORY,
        CUDA_ERROR_NOT_INITIALIZED,
        CUDA_ERROR_DEINITIALIZED,
        CUDA_ERROR_NO_DEVICE,
        CUDA_ERROR_INVALID_IMAGE,
        CUDA_ERROR_INVALID_CONTEXT,
        CUDA_ERROR_NO_BINARY_FOR_GPU,
        CUDA_ERROR_INVALID_PTX,
        CUDA_ERROR_OPERATING_SYSTEM,
        CUDA_ERROR_INVALID_HANDLE,
        CUDA_ERROR_NOT_READY,
        CUDA_ERROR_ILLEGAL_ADDRESS,
        CUDA_ERROR_LAUNCH_FAILED,
    ];
    let known: BTreeMap<u32, String> =
        known.iter().map(|code| (*code as u32, format!("{code:?}"))).collect();
    // Codes that came after CUDA 8.
    let newer =
        [34, 221, 222, 223, 401, 802, 803, 804, 900, 901, 902, 903, 904, 905, 906, 907, 908];
    for (code, name) in RESULTS {
        match known.get(&code.0) {
            Some(theirs) => assert!(theirs.ends_with(&format!("_{name}")), "{name} is {theirs}"),
            None => assert!(newer.contains(&code.0), "{name} has no oracle"),
        }
    }
    assert_eq!(RESULTS.len(), known.len() + newer.len());
}

// ---- What keeps a driver or a device from being used ------------------------------------------

/// The driver at a path.
fn load(path: &CStr, why: &mut Why) -> Result<&'static Driver, Status> {
    // SAFETY: the path is there during the call.
    Driver::load(unsafe { DriverPath::from_raw(path.as_ptr()) }, why)
}

/// The refusal of a path.
fn refused(path: &CStr) -> (Status, String) {
    let mut why = Why::new();
    match load(path, &mut why) {
        Ok(_) => panic!("{path:?} is accepted"),
        Err(status) => (status, why.as_str().to_owned()),
    }
}

/// The refusal of a device.
fn device_refused(driver: &'static Driver, device: i32) -> (Status, String) {
    let mut why = Why::new();
    match DeviceContext::open(driver, device, &mut why) {
        Ok(_) => panic!("device {device} is accepted"),
        Err(status) => (status, why.as_str().to_owned()),
    }
}

fn opened(driver: &'static Driver, device: i32) -> DeviceContext {
    let mut why = Why::new();
    let result = DeviceContext::open(driver, device, &mut why);
    result.unwrap_or_else(|status| panic!("{status}: {why}"))
}

/// Every word stands in the text, and the text was not cut.
fn says(text: &str, words: &[&str]) {
    for word in words {
        assert!(text.contains(word), "{word:?} is not in {text:?}");
    }
    assert!(text.len() < 500, "{text}");
}

fn close(context: DeviceContext) {
    // SAFETY: the tests have given back what they made.
    unsafe { context.close() }.unwrap();
}

#[test]
fn a_driver_that_is_not_there_is_refused_with_what_to_install() {
    let (status, text) = refused(c"/nowhere/libcuda.so.1");
    assert_eq!(status, Status::Cuda);
    says(&text, &["/nowhere/libcuda.so.1", "No such file", "install", "R525", "backend = host"]);
}

#[test]
fn a_library_that_is_no_driver_is_refused_by_what_it_lacks() {
    let name = c"libc.so.6";
    let (status, text) = refused(name);
    assert_eq!(status, Status::Unsupported);
    says(&text, &["libc.so.6", "cuInit", "update"]);
}

#[test]
fn a_path_that_is_too_long_or_empty_is_invalid_by_its_field() {
    let long = CString::new("x".repeat(URI_BYTES_MAX + 1)).unwrap();
    for path in [long.as_c_str(), c"", c"\xff"] {
        let (status, text) = refused(path);
        assert_eq!(status, Status::Invalid);
        says(&text, &["cuda_driver", "4095", "libcuda.so.1"]);
    }
    let longest = CString::new("x".repeat(URI_BYTES_MAX)).unwrap();
    assert_eq!(refused(&longest).0, Status::Cuda);
}

#[test]
fn null_is_the_system_s_driver() {
    let mut why = Why::new();
    if let Err(status) = Driver::load(DriverPath::NULL, &mut why) {
        assert!(matches!(status, Status::Cuda | Status::Unsupported), "{status}: {why}");
        says(why.as_str(), &["libcuda.so.1"]);
    }
}

/// A copy of the simulator at a place of its own: a driver that was never loaded before.
fn fresh_copy(name: &str) -> Option<CString> {
    let made = library()?;
    let path = cc::folder(name).join("libcuda.so.1");
    std::fs::copy(made, &path).unwrap();
    Some(CString::new(path.to_str().unwrap()).unwrap())
}

/// Tells a copy of the simulator something before it is loaded as a driver.
fn set_up(path: &CStr, control: &CStr, value: i32) {
    // SAFETY: the simulator's control functions of this form take a number of 32 bits.
    unsafe {
        let handle = libc::dlopen(path.as_ptr(), libc::RTLD_NOW);
        let found = libc::dlsym(handle, control.as_ptr());
        assert!(!found.is_null());
        std::mem::transmute::<*mut c_void, extern "C" fn(i32)>(found)(value);
    }
}

#[test]
fn an_old_driver_is_refused_with_its_version() {
    let Some(path) = fresh_copy("cuda-old") else { return };
    set_up(&path, c"simcuda_set_version", 11080);
    let (status, text) = refused(&path);
    assert_eq!(status, Status::Unsupported);
    says(&text, &["CUDA 11.8", "12.0", "R525", "backend = host"]);
    set_up(&path, c"simcuda_set_version", 12000);
    let mut why = Why::new();
    let driver = load(&path, &mut why);
    assert_eq!(driver.map(|driver| driver.version), Ok(12000), "{why}");
}

#[test]
fn a_driver_that_does_not_start_is_refused_with_the_way_out() {
    let Some(path) = fresh_copy("cuda-init") else { return };
    let cases = [
        (100, "CUDA_ERROR_NO_DEVICE (100)", "there is no CUDA device"),
        (34, "CUDA_ERROR_STUB_LIBRARY (34)", "LD_LIBRARY_PATH"),
        (803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803)", "restart"),
        (802, "CUDA_ERROR_SYSTEM_NOT_READY (802)", "fabric manager"),
        (804, "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE (804)", "LD_LIBRARY_PATH"),
        (304, "CUDA_ERROR_OPERATING_SYSTEM (304)", "kernel module"),
        (999, "CUDA_ERROR_UNKNOWN (999)", "nvidia-smi"),
        (4242, "CUDA_ERROR_OF_A_NEWER_DRIVER (4242)", "nvidia-smi"),
        (4343, "CUDA error 4343", "nvidia-smi"),
    ];
    for (code, name, advice) in cases {
        set_up(&path, c"simcuda_set_init_result", code);
        let (status, text) = refused(&path);
        assert_eq!(status, Status::Cuda);
        says(&text, &["cuInit", name, advice, "backend = host"]);
    }
    set_up(&path, c"simcuda_set_init_result", 0);
    assert!(load(&path, &mut Why::new()).is_ok());
}

/// A library that has the entries that `has` says, all of which succeed and do nothing.
fn hollow(folder: &Path, name: &str, has: impl Fn(&EntryName) -> bool) -> Option<CString> {
    let compiler = cc::find("g++", &["g++"])?;
    let mut text = String::new();
    for entry in names().filter(|entry| has(entry)) {
        let name = entry.name.to_str().unwrap();
        text += &if name == "cuDriverGetVersion" {
            format!("unsigned {name}(int *version) {{ *version = 12040; return 0; }}\n")
        } else {
            format!("unsigned {name}(void) {{ return 0; }}\n")
        };
    }
    let source = folder.join(format!("{name}.c"));
    std::fs::write(&source, text).unwrap();
    let path = folder.join(name);
    let mut command = Command::new(&compiler);
    cc::run(command.args(["-x", "c", "-shared", "-fPIC"]).arg(&source).arg("-o").arg(&path));
    Some(CString::new(path.to_str().unwrap()).unwrap())
}

#[test]
fn a_driver_without_a_newer_entry_loads() {
    let folder = cc::folder("cuda-plain");
    let Some(path) = hollow(&folder, "plain.so", |entry| entry.is_required) else { return };
    let mut why = Why::new();
    let driver = load(&path, &mut why).unwrap_or_else(|_| panic!("{why}"));
    assert_eq!(driver.version, 12040);
    assert_eq!(driver.stream_get_ctx(Stream::NULL), Ok(None));
}

#[test]
fn a_driver_without_a_required_entry_is_refused_by_its_name() {
    let folder = cc::folder("cuda-cut");
    // One in the middle of the table stands for all.
    let has = |entry: &EntryName| entry.name != c"cuMemcpyDtoDAsync_v2";
    let Some(path) = hollow(&folder, "cut.so", has) else { return };
    let (status, text) = refused(&path);
    assert_eq!(status, Status::Unsupported);
    says(&text, &["cut.so", "has no cuMemcpyDtoDAsync_v2"]);
}

/// In a process of its own, because it fills the process's table of drivers.
#[test]
fn a_ninth_driver_in_one_process_is_invalid() {
    alone(|| {
        let folder = cc::folder("cuda-nine");
        let Some(path) = hollow(&folder, "one.so", |_| true) else { return };
        for number in 0..9 {
            let copy = folder.join(format!("{number}.so"));
            std::fs::copy(Path::new(path.to_str().unwrap()), &copy).unwrap();
            let copy = CString::new(copy.to_str().unwrap()).unwrap();
            if number < 8 {
                assert!(load(&copy, &mut Why::new()).is_ok());
            } else {
                let (status, text) = refused(&copy);
                assert_eq!(status, Status::Invalid);
                says(&text, &["cuda_driver = ", "8.so", "8 different drivers"]);
            }
        }
    });
}

#[test]
fn a_driver_is_loaded_once_for_all_its_paths() {
    let Some(simulator) = Simulator::take() else { return };
    let driver = simulator.driver();
    assert!(std::ptr::eq(driver, simulator.driver()));
    let path = Path::new(simulator.path().to_str().unwrap());
    let link = cc::folder("cuda-link").join("other-name.so");
    std::os::unix::fs::symlink(path, &link).unwrap();
    let link = CString::new(link.to_str().unwrap()).unwrap();
    let again = load(&link, &mut Why::new()).unwrap();
    assert!(std::ptr::eq(driver, again));
}

#[test]
fn without_a_device_the_text_says_where_to_look() {
    let Some(simulator) = Simulator::take() else { return };
    let driver = simulator.driver();
    simulator.set_devices(0);
    for device in [-1, 0] {
        let (status, text) = device_refused(driver, device);
        assert_eq!(status, Status::Cuda);
        says(&text, &["no CUDA device", "CUDA_VISIBLE_DEVICES", "backend = host"]);
    }
}

#[test]
fn a_device_that_is_not_there_is_invalid_by_its_number() {
    let Some(simulator) = Simulator::take() else { return };
    let driver = simulator.driver();
    simulator.set_devices(2);
    let (status, text) = device_refused(driver, 2);
    assert_eq!(status, Status::Invalid);
    says(&text, &["device = 2", "2 devices"]);
    let (status, text) = device_refused(driver, -2);
    assert_eq!(status, Status::Invalid);
    says(&text, &["device = -2"]);
    let last = opened(driver, 1);
    assert_eq!((last.device, last.is_retained), (Device(1), true));
    close(last);
}

#[test]
fn a_device_that_is_too_old_is_refused_with_its_capability() {
    let Some(simulator) = Simulator::take() else { return };
    let driver = simulator.driver();
    simulator.set_capability(7, 5);
    let (status, text) = device_refused(driver, 0);
    assert_eq!(status, Status::Unsupported);
    says(&text, &["Simulated GPU 0", "7.5", "8.0", "backend = host"]);
    simulator.set_capability(8, 0);
    let oldest = opened(driver, 0);
    assert_eq!(oldest.name().as_str(), "Simulated GPU 0");
    close(oldest);
    simulator.set_capability(12, 1);
    close(opened(driver, 0));
}

#[test]
fn a_device_that_cannot_write_the_host_s_memory_by_its_addresses_is_refused() {
    let Some(simulator) = Simulator::take() else { return };
    let driver = simulator.driver();
    let lacks = [
        (DeviceAttribute::UNIFIED_ADDRESSING, "does not share the host's addresses"),
        (DeviceAttribute::CAN_MAP_HOST_MEMORY, "cannot use memory of the host"),
    ];
    for (attribute, text) in lacks {
        simulator.set_attribute(attribute.0, 0);
        let (status, why) = device_refused(driver, 0);
        assert_eq!(status, Status::Unsupported);
        says(&why, &["device 0 (Simulated GPU 0)", text, "backend = host"]);
        let found = wavetrain::cuda::device::find(driver, 0, &mut Why::new());
        assert_eq!(found.err(), Some(Status::Unsupported), "auto takes the host");
    }
    simulator.set_attribute(0, 0);
    close(opened(driver, 0));
}

#[test]
fn each_driver_call_of_choosing_a_device_that_fails_is_a_status_and_leaves_nothing_behind() {
    let Some(simulator) = Simulator::take() else { return };
    let driver = simulator.driver();
    let mut refusals = 0;
    for step in 0..16 {
        for code in [2, 700, 999] {
            simulator.fail(None, step, code, 1);
            let mut why = Why::new();
            let result = DeviceContext::open(driver, 0, &mut why);
            simulator.fail_none();
            match result {
                Ok(context) => close(context),
                Err(status) => {
                    refusals += 1;
                    let is_memory = code == 2 && why.as_str().contains("no context");
                    let expected = if is_memory { Status::OutOfMemory } else { Status::Cuda };
                    assert_eq!(status, expected, "{why}");
                    assert!(why.as_str().contains(&format!("({code})")), "{why}");
                }
            }
            assert_eq!(simulator.live().0, 0, "{}", simulator.live().1);
        }
    }
    assert!(refusals >= 15, "{refusals} refusals");
}

// ---- Contexts and capture modes ---------------------------------------------------------------

type CtxCreate = unsafe extern "C" fn(*mut Context, u32, i32) -> CuResult;
type CtxDestroy = unsafe extern "C" fn(Context) -> CuResult;

/// A context of the caller's own, current on this thread.
struct Own {
    context: Context,
    destroy: CtxDestroy,
}

fn own_context(simulator: &Simulator, device: i32) -> Own {
    // SAFETY: the entries have these types.
    unsafe {
        let create: CtxCreate = std::mem::transmute(simulator.entry(c"cuCtxCreate_v2"));
        let destroy: CtxDestroy = std::mem::transmute(simulator.entry(c"cuCtxDestroy_v2"));
        let mut context = Context::NULL;
        assert_eq!(create(&mut context, 0, device), CuResult::SUCCESS);
        Own { context, destroy }
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        // SAFETY: it is current on this thread, and was made above.
        assert_eq!(unsafe { (self.destroy)(self.context) }, CuResult::SUCCESS);
    }
}

#[test]
fn without_a_current_context_minus_one_is_invalid_and_says_the_ways_out() {
    let Some(simulator) = Simulator::take() else { return };
    let driver = simulator.driver();
    simulator.set_devices(2);
    let (status, text) = device_refused(driver, -1);
    assert_eq!(status, Status::Invalid);
    says(&text, &["device = -1", "no current context", "make one current", "device = 0 (of 2)"]);
    assert_eq!(simulator.thread().0.len(), 0, "the thread got a context");
    close(opened(driver, 0));
}

#[test]
fn minus_one_captures_the_current_context_and_retains_nothing() {
    let Some(simulator) = Simulator::take() else { return };
    let driver = simulator.driver();
    simulator.set_devices(2);
    let own = own_context(&simulator, 1);
    let retains = simulator.calls(Some(c"cuDevicePrimaryCtxRetain"));
    let context = opened(driver, -1);
    assert_eq!(context.context, own.context);
    assert_eq!((context.device, context.is_retained), (Device(1), false));
    assert_eq!(simulator.calls(Some(c"cuDevicePrimaryCtxRetain")), retains);
    close(context);
    assert_eq!(driver.ctx_get_current(), Ok(own.context));
}

#[test]
fn a_current_context_of_another_device_is_invalid_by_both_numbers() {
    let Some(simulator) = Simulator::take() else { return };
    let driver = simulator.driver();
    simulator.set_devices(2);
    let own = own_context(&simulator, 1);
    let (status, text) = device_refused(driver, 0);
    assert_eq!(status, Status::Invalid);
    says(&text, &["device = 0", "device 1", "-1"]);
    drop(own);
}

#[test]
fn a_current_context_that_is_not_the_primary_one_is_invalid_for_a_numbered_device() {
    let Some(simulator) = Simulator::take() else { return };
    let driver = simulator.driver();
    let own = own_context(&simulator, 0);
    let (status, text) = device_refused(driver, 0);
    assert_eq!(status, Status::Invalid);
    says(&text, &["device = 0", "primary", "-1"]);
    drop(own);
    assert_eq!(simulator.live().0, 0);
}

#[test]
fn a_current_primary_context_is_that_of_its_device() {
    let Some(simulator) = Simulator::take() else { return };
    let driver = simulator.driver();
    let primary = driver.device_primary_ctx_retain(Device(0)).unwrap();
    driver.ctx_push_current(primary).unwrap();
    let context = opened(driver, 0);
    assert_eq!((context.context, context.is_retained), (primary, true));
    close(context);
    assert_eq!(driver.ctx_pop_current(), Ok(primary));
    // SAFETY: nothing was made in it.
    unsafe { driver.device_primary_ctx_release(Device(0)) }.unwrap();
}

/// The capture modes and the stacks of contexts that a thread may come with.
fn comings(simulator: &Simulator, mut check: impl FnMut(&DeviceContext)) {
    let driver = simulator.driver();
    let ours = opened(driver, 0);
    let own = own_context(simulator, 0);
    for mode in [CaptureMode::GLOBAL, CaptureMode::THREAD_LOCAL, CaptureMode::RELAXED] {
        driver.thread_exchange_stream_capture_mode(mode).unwrap();
        check(&ours);
        // Ours is current already, below nothing and above another one.
        driver.ctx_push_current(ours.context).unwrap();
        check(&ours);
        driver.ctx_pop_current().unwrap();
    }
    driver.ctx_pop_current().unwrap();
    check(&ours);
    driver.thread_exchange_stream_capture_mode(CaptureMode::GLOBAL).unwrap();
    driver.ctx_push_current(own.context).unwrap();
    drop(own);
    close(ours);
}

#[test]
fn a_thread_leaves_with_the_context_and_the_capture_mode_that_it_came_with() {
    let Some(simulator) = Simulator::take() else { return };
    let driver = simulator.driver();
    comings(&simulator, |ours| {
        let before = simulator.thread();
        {
            let entered = ours.enter().unwrap();
            assert_eq!(driver.ctx_get_current(), Ok(ours.context));
            assert_eq!(simulator.thread().1, CaptureMode::RELAXED.0);
            let inner = ours.enter().unwrap();
            assert_eq!(inner.driver.ctx_get_current(), Ok(ours.context));
            drop(inner);
            assert_eq!(simulator.thread().1, CaptureMode::RELAXED.0);
            drop(entered);
        }
        assert_eq!(simulator.thread(), before);
    });
}

#[test]
fn a_thread_leaves_as_it_came_where_any_one_call_failed() {
    let Some(simulator) = Simulator::take() else { return };
    let mut refused = 0;
    comings(&simulator, |ours| {
        let before = simulator.thread();
        for step in 0..8 {
            simulator.fail(None, step, 719, 1);
            match ours.enter() {
                Ok(entered) => drop(entered),
                Err(Fault::Call(entry, code, _)) => {
                    refused += 1;
                    assert!(entry.starts_with("cu"), "{entry}");
                    assert_eq!(code, CuResult::LAUNCH_FAILED);
                }
                Err(fault) => panic!("{fault}"),
            }
            simulator.fail_none();
            assert_eq!(simulator.thread(), before, "call {step}");
        }
    });
    assert!(refused >= 14, "{refused} entries were refused");
}

#[test]
fn other_threads_enter_the_same_context() {
    let Some(simulator) = Simulator::take() else { return };
    let ours = opened(simulator.driver(), 0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..100 {
                    let entered = ours.enter().unwrap();
                    assert_eq!(entered.driver.ctx_get_current(), Ok(ours.context));
                    drop(entered);
                    assert_eq!(simulator.driver().ctx_get_current(), Ok(Context::NULL));
                }
            });
        }
    });
    close(ours);
}

// ---- Kernels ----------------------------------------------------------------------------------

/// PTX as far as the simulator reads it.
fn ptx(version: &str, target: &str) -> CString {
    let text = format!(
        ".version {version}\n.target {target}\n.address_size 64\n\
         .visible .entry simcuda_probe_write(\n.param .u64 target,\n.param .u32 value\n)\n{{ }}\n"
    );
    CString::new(text).unwrap()
}

fn load_refused(entered: &Entered, ptx: &CStr) -> (Status, String) {
    let mut why = Why::new();
    match module::load(entered, ptx, &mut why) {
        Ok(_) => panic!("accepted"),
        Err(status) => (status, why.as_str().to_owned()),
    }
}

#[test]
fn ptx_that_is_refused_says_why_with_the_first_line_of_the_log() {
    let Some(simulator) = Simulator::take() else { return };
    let ours = opened(simulator.driver(), 0);
    let entered = ours.enter().unwrap();
    let cases = [
        (ptx("8.1", "sm_80"), "CUDA_ERROR_UNSUPPORTED_PTX_VERSION (222)", "Unsupported .version"),
        (ptx("8.0", "sm_90"), "CUDA_ERROR_NO_BINARY_FOR_GPU (209)", ".target is above the device"),
        (c"nonsense".to_owned(), "CUDA_ERROR_INVALID_PTX (218)", "no .version"),
    ];
    for (text, name, line) in cases {
        let (status, text) = load_refused(&entered, &text);
        assert_eq!(status, Status::Cuda);
        says(&text, &["CUDA 12.0", name, line, "R525", "backend = host"]);
        assert!(!text.contains("second line"), "{text}");
    }
    for (code, advice) in
        [(221, "libnvidia-ptxjitcompiler.so.1"), (223, "CUDA_DISABLE_PTX_JIT"), (999, "nvidia-smi")]
    {
        simulator.fail(Some(c"cuModuleLoadDataEx"), 0, code, 1);
        let (status, text) = load_refused(&entered, &ptx("8.0", "sm_80"));
        assert_eq!(status, Status::Cuda);
        says(&text, &[advice, "no log", "backend = host"]);
    }
    simulator.fail(Some(c"cuModuleLoadDataEx"), 0, 2, 1);
    assert_eq!(load_refused(&entered, &ptx("8.0", "sm_80")).0, Status::OutOfMemory);
    drop(entered);
    close(ours);
}

#[test]
fn a_kernel_is_found_by_its_name_or_refused_by_it() {
    let Some(simulator) = Simulator::take() else { return };
    let driver = simulator.driver();
    let ours = opened(driver, 0);
    let entered = ours.enter().unwrap();
    let mut why = Why::new();
    let loaded = module::load(&entered, &ptx("8.0", "sm_80"), &mut why).unwrap();
    module::function(&entered, loaded, c"simcuda_probe_write", &mut why).unwrap();
    let missing = module::function(&entered, loaded, c"simcuda_probe_add", &mut why);
    assert_eq!(missing, Err(Status::Cuda));
    says(why.as_str(), &["simcuda_probe_add", "CUDA_ERROR_NOT_FOUND (500)"]);
    // SAFETY: nothing was launched.
    unsafe { driver.module_unload(loaded) }.unwrap();
    drop(entered);
    close(ours);
}
