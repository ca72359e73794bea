//! What needs the processor by name: the floating-point environment and instructions that only
//! some CPUs have.
//!
//! In: a [`Level`], found once. Out: [`FloatEnvironment`], a guard for the stages, and
//! [`DenseRows`] and [`SteppedRows`], kernels and loops for rows of elements, whose bounds are
//! checked before. Kernels and loops themselves are `loops`'.

mod path;

pub use crate::loops::simd::{Level, RowFold, prefetch, stream_fence};
pub use path::{DenseRows, SteppedRows};

/// The default floating-point environment for as long as the guard lives: round to nearest even,
/// subnormals kept, no traps. The host's own settings come back when it is dropped.
///
/// A host may call with flush-to-zero or another rounding mode set; casts give the same bits all
/// the same, because every stage holds one of these. It belongs to the thread that
/// made it (the raw pointer marker keeps it there).
pub struct FloatEnvironment {
    saved: machine::Control,
    thread: core::marker::PhantomData<*const ()>,
}

impl FloatEnvironment {
    /// Saves the thread's settings and sets the defaults.
    pub fn enter() -> FloatEnvironment {
        let saved = machine::control();
        machine::set_control(machine::DEFAULT);
        FloatEnvironment { saved, thread: core::marker::PhantomData }
    }
}

impl Drop for FloatEnvironment {
    fn drop(&mut self) {
        machine::set_control(self.saved);
    }
}

#[cfg(target_arch = "x86_64")]
mod machine {
    use core::arch::asm;

    /// The MXCSR register.
    pub type Control = u32;

    /// All exceptions masked, round to nearest, no FTZ, no DAZ: the state after reset.
    pub const DEFAULT: Control = 0x1F80;

    pub fn control() -> Control {
        let mut value: u32 = 0;
        // SAFETY: stmxcsr stores four bytes at the address, which is a live u32.
        unsafe {
            asm!("stmxcsr [{}]", in(reg) &raw mut value, options(nostack, preserves_flags));
        }
        value
    }

    pub fn set_control(value: Control) {
        // SAFETY: ldmxcsr loads four bytes from a live u32. Reserved bits stay clear, because the
        // value is the default or was stored by stmxcsr.
        unsafe {
            asm!("ldmxcsr [{}]", in(reg) &raw const value, options(nostack, preserves_flags));
        }
    }
}

#[cfg(target_arch = "aarch64")]
mod machine {
    use core::arch::asm;

    /// The FPCR register.
    pub type Control = u64;

    /// Round to nearest, subnormals kept, no traps, NaNs propagated.
    pub const DEFAULT: Control = 0;

    pub fn control() -> Control {
        let value: u64;
        // SAFETY: reading FPCR has no effect.
        unsafe { asm!("mrs {}, fpcr", out(reg) value, options(nomem, nostack)) };
        value
    }

    pub fn set_control(value: Control) {
        // SAFETY: the value is the default or was read from FPCR.
        unsafe { asm!("msr fpcr, {}", in(reg) value, options(nostack)) };
    }
}

/// Flush-to-zero, denormals-are-zero and each rounding mode: what tests set before they cast.
#[cfg(all(test, target_arch = "x86_64"))]
pub mod hostile {
    use super::machine;

    /// MXCSR values of hosts that changed their environment: FTZ and DAZ, alone and together, and
    /// each of the four rounding modes with and without them.
    pub const CONTROLS: [u32; 8] = [0x9F80, 0x1FC0, 0x9FC0, 0x3F80, 0x5F80, 0x7F80, 0xBFC0, 0xFFC0];

    /// Runs `work` under `control` and gives the thread its settings back.
    pub fn with_control<T>(control: u32, work: impl FnOnce() -> T) -> T {
        let saved = machine::control();
        machine::set_control(control);
        let result = work();
        machine::set_control(saved);
        result
    }

    /// The settings of this thread, without the sticky exception flags.
    pub fn current() -> u32 {
        machine::control() & !0x3F
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    #[test]
    fn the_guard_sets_the_default_environment_and_gives_the_hosts_back() {
        for control in hostile::CONTROLS {
            let (inside, after) = hostile::with_control(control, || {
                let guard = FloatEnvironment::enter();
                let inside = hostile::current();
                drop(guard);
                (inside, hostile::current())
            });
            assert_eq!(inside, 0x1F80);
            assert_eq!(after, control);
        }
    }
}
