//! Floating-point environments of hosts that changed theirs: the MXCSR register of this thread.

use std::arch::asm;

/// FTZ and DAZ, each rounding mode, and all of them.
pub const CONTROLS: [u32; 7] = [0x9F80, 0x1FC0, 0x9FC0, 0x3F80, 0x5F80, 0x7F80, 0xFFC0];

/// The settings, without the sticky flags of exceptions.
pub fn control() -> u32 {
    let mut value = 0u32;
    // SAFETY: stmxcsr stores four bytes at the address.
    unsafe { asm!("stmxcsr [{}]", in(reg) &raw mut value, options(nostack)) };
    value & !0x3F
}

/// Sets them.
pub fn set_control(value: u32) {
    // SAFETY: ldmxcsr loads four bytes; no reserved bit is set and every exception is masked.
    unsafe { asm!("ldmxcsr [{}]", in(reg) &raw const value, options(nostack)) };
}
