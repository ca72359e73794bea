//! The LZ4 kernel with warps of one lane, as build.rs compiled it into the target.

/// A launch, as tests/cuda_sim/lz4_sim.cpp declares it.
pub type Launch = unsafe extern "C" fn(*const u8, u64, u64, u32, *mut u8, u64, *mut u32, u32);

#[cfg(wavetrain_kernel)]
unsafe extern "C" {
    fn sim_lz4(
        wave: *const u8,
        wave_bytes: u64,
        streams_at: u64,
        stream_count: u32,
        decoded: *mut u8,
        decoded_bytes: u64,
        status: *mut u32,
        order: u32,
    );
}

/// None where there was no compiler for it.
pub fn launch() -> Option<Launch> {
    #[cfg(wavetrain_kernel)]
    return Some(sim_lz4);
    #[cfg(not(wavetrain_kernel))]
    None
}
