//! The device's kernels as PTX, which the driver compiles for its GPU when it loads them.
//!
//! In: kernels/*.ptx.z, made from kernels/*.cu by tools/ptx.sh: texts in zlib's format, a fifth of
//! their bytes. Out: those, and the names of their entries; whoever opens a device unpacks them.
//! Invariant: the texts are those of the committed sources (tests/house/ptx.rs). How a launch is
//! cut into blocks is said where its records are made: `assemble::units`.

use core::ffi::CStr;

/// One module of the driver.
#[derive(Clone, Copy, Debug)]
pub struct Kernel {
    /// PTX, ISA 8.0 for compute_80: any driver from R525, any GPU from Ampere on. A zlib stream.
    pub packed: &'static [u8],
    /// Its one entry.
    pub entry: &'static CStr,
}

/// `(wave: *const u8, units_at: u64, tiles_at: u64, unit_count: u32, decoded_at: u64,
/// decoded_limit: u64, status: *mut u32)`, one block of 256 threads for each tile.
pub const ASSEMBLE: Kernel =
    Kernel { packed: include_bytes!("../../kernels/assemble.ptx.z"), entry: c"wavetrain_assemble" };

/// `(data: *const u8, sample_bytes: u64, parts: u64, count: u64, shares: *mut u64)`, a warp of
/// blocks of 256 threads for each part of a sample. Loaded where digests are asked for.
pub const DIGEST: Kernel =
    Kernel { packed: include_bytes!("../../kernels/digest.ptx.z"), entry: c"wavetrain_digest" };

/// `(wave: *const u8, wave_bytes: u64, streams_at: u64, stream_count: u32, decoded: *mut u8,
/// decoded_bytes: u64, status: *mut u32)`, blocks of 256 threads, a warp for each stream
/// (`device::Stream`). Sources lie in the first `wave_bytes` bytes of the wave, the records from
/// `streams_at` on, a multiple of 16; each stream has a word of status, which the host clears.
pub const LZ4: Kernel =
    Kernel { packed: include_bytes!("../../kernels/lz4.ptx.z"), entry: c"wavetrain_lz4" };

/// `(wave: *const u8, wave_bytes: u64, blocks_at: u64, block_count: u32, scratch: *mut u8,
/// scratch_bytes: u64)`, warps that take eight blocks of frames each, and the same for sequences.
pub const ZSTD: Kernel = Kernel {
    packed: include_bytes!("../../kernels/zstd.ptx.z"),
    entry: c"wavetrain_zstd_literals",
};

/// The other entries of [`ZSTD`]. That of frames takes besides `(streams_at: u64, stream_count:
/// u32, decoded: *mut u8, decoded_bytes: u64, status: *mut u32)`, and has a warp for each stream,
/// of which it leaves alone what is no frame.
pub const ZSTD_MORE: [&CStr; 2] = [c"wavetrain_zstd_sequences", c"wavetrain_zstd_frames"];

/// `(spans: *const {source: u64, target: u64, bytes: u64})`, blocks of 256 threads along x for each
/// span along y. What benches/gpu measures the other by; no loader launches it, and no archive has
/// it.
#[cfg(feature = "internals")]
pub const COPY: Kernel =
    Kernel { packed: include_bytes!("../../kernels/copy.ptx.z"), entry: c"wavetrain_copy" };
