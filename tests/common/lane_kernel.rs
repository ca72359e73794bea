//! What fuzz/lane_kernel.rs is to the fuzz target, for the replay: the same kernel as a library.

use crate::cc;
use std::ffi::{CString, c_void};
use std::sync::OnceLock;

/// A launch, as tests/cuda_sim/lz4_sim.cpp declares it.
pub type Launch = unsafe extern "C" fn(*const u8, u64, u64, u32, *mut u8, u64, *mut u32, u32);

/// None, with a reason, where there is no compiler.
pub fn launch() -> Option<Launch> {
    static LAUNCH: OnceLock<Option<Launch>> = OnceLock::new();
    let load = || {
        let name = "lz4_lane.so";
        let flags = ["lz4_sim.cpp", name, "-O1", "-shared", "-fPIC", "-DWAVETRAIN_LANES=1"];
        let path = CString::new(cc::kernels(name, &flags)?.to_str().unwrap()).unwrap();
        // SAFETY: a library of ours, which does nothing when it is loaded and stays for good; the
        // function has this type.
        unsafe {
            let library = libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL);
            assert!(!library.is_null());
            let found = libc::dlsym(library, c"sim_lz4".as_ptr());
            assert!(!found.is_null());
            Some(std::mem::transmute::<*mut c_void, Launch>(found))
        }
    };
    *LAUNCH.get_or_init(load)
}
