//! The device's kernels as PTX, which the driver compiles for its GPU when it loads them.
//!
//! In: kernels/*.ptx, made from kernels/*.cu by tools/ptx.sh. Out: their texts and the names of
//! their entries. Invariant: the texts are those of the committed sources (tests/ptx.rs). How a
//! launch is cut into blocks is said where its records are made: `assemble::units`.

use core::ffi::CStr;

/// One module of the driver.
#[derive(Clone, Copy, Debug)]
pub struct Kernel {
    /// PTX, ISA 8.0 for compute_80: any driver from R525, any GPU from Ampere on.
    pub ptx: &'static CStr,
    /// Its one entry.
    pub entry: &'static CStr,
}

/// `(wave: *const u8, units_at: u64, tiles_at: u64, unit_count: u32, status: *mut u32)`, one block
/// of 256 threads for each tile.
pub const ASSEMBLE: Kernel = Kernel {
    ptx: text(concat!(include_str!("../../kernels/assemble.ptx"), "\0")),
    entry: c"wavetrain_assemble",
};

/// `(spans: *const {source: u64, target: u64, bytes: u64})`, blocks of 256 threads along x for each
/// span along y. What benches/gpu measures the other by; no loader launches it, and no archive has
/// it.
pub const COPY: Kernel = Kernel {
    ptx: text(concat!(include_str!("../../kernels/copy.ptx"), "\0")),
    entry: c"wavetrain_copy",
};

const fn text(text: &'static str) -> &'static CStr {
    match CStr::from_bytes_with_nul(text.as_bytes()) {
        Ok(text) => text,
        Err(_) => panic!("PTX has no NUL"),
    }
}
