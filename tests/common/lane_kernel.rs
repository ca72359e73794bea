//! What fuzz/lane_kernel.rs is to the fuzz targets, for the replay: the same kernels as libraries.

use crate::cc;
use std::ffi::{CStr, CString, c_void};
use std::sync::OnceLock;

/// A launch, as tests/cuda_sim/lz4_sim.cpp declares it.
pub type Launch = unsafe extern "C" fn(*const u8, u64, u64, u32, *mut u8, u64, *mut u32, u32);

/// The launches of a frame, as tests/cuda_sim/zstd_sim.cpp declares them.
pub type FrameLaunch = unsafe extern "C" fn(
    *const u8,
    u64,
    u64,
    u32,
    *mut u8,
    u64,
    u64,
    u32,
    *mut u8,
    u64,
    *mut u32,
    u32,
);

fn loaded(source: &str, name: &str, entry: &CStr) -> Option<usize> {
    let flags = [source, name, "-O1", "-shared", "-fPIC", "-DWAVETRAIN_LANES=1"];
    let path = CString::new(cc::kernels(name, &flags)?.to_str().unwrap()).unwrap();
    // SAFETY: a library of ours, which does nothing when it is loaded and stays for good.
    let found = unsafe {
        let library = libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL);
        assert!(!library.is_null());
        libc::dlsym(library, entry.as_ptr())
    };
    assert!(!found.is_null());
    Some(found as usize)
}

/// None, with a reason, where there is no compiler.
pub fn launch() -> Option<Launch> {
    static LAUNCH: OnceLock<Option<usize>> = OnceLock::new();
    let found = *LAUNCH.get_or_init(|| loaded("lz4_sim.cpp", "lz4_lane.so", c"sim_lz4"));
    // SAFETY: the function has this type.
    found.map(|found| unsafe { std::mem::transmute::<*mut c_void, Launch>(found as *mut c_void) })
}

/// Likewise.
pub fn launch_frames() -> Option<FrameLaunch> {
    static LAUNCH: OnceLock<Option<usize>> = OnceLock::new();
    let found = *LAUNCH.get_or_init(|| loaded("zstd_sim.cpp", "zstd_lane.so", c"sim_zstd"));
    // SAFETY: the function has this type.
    found.map(|found| unsafe {
        std::mem::transmute::<*mut c_void, FrameLaunch>(found as *mut c_void)
    })
}
