//! The kernels for LZ4 blocks and zstd frames with warps of one lane, as build.rs compiled them into
//! the targets.
#![allow(dead_code)] // a target uses one of them

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

#[cfg(wavetrain_kernel)]
unsafe extern "C" {
    fn sim_zstd(
        wave: *const u8,
        wave_bytes: u64,
        blocks_at: u64,
        block_count: u32,
        arena: *mut u8,
        arena_bytes: u64,
        streams_at: u64,
        stream_count: u32,
        decoded: *mut u8,
        decoded_bytes: u64,
        status: *mut u32,
        order: u32,
    );
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

/// Likewise.
pub fn launch_frames() -> Option<FrameLaunch> {
    #[cfg(wavetrain_kernel)]
    return Some(sim_zstd);
    #[cfg(not(wavetrain_kernel))]
    None
}
