//! Which vector instructions this machine has.
//!
//! In: nothing but the machine. Out: a [`Level`], which only this file makes, so that whoever holds
//! one may use its instructions. Invariant: every level gives the same bytes; the lowest is plain
//! Rust and is the oracle of the others.

use core::sync::atomic::{AtomicU8, Ordering};

/// A set of instructions that this machine has. Each includes the ones before it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Level(Tier);

/// What a level is called inside.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Tier {
    /// What every CPU of the target has: SSE2, NEON.
    Baseline,
    /// AVX2, F16C, BMI1, BMI2 and PCLMULQDQ, which came together (Haswell, Excavator, Zen).
    Avx2,
    /// AVX-512 F, BW, DQ and VL (Skylake-X, Zen 4).
    Avx512,
    /// Also GFNI (Ice Lake, Zen 4).
    Avx512Gfni,
}

const TIERS: [Tier; 4] = [Tier::Baseline, Tier::Avx2, Tier::Avx512, Tier::Avx512Gfni];

/// What was found: 1 + the place in TIERS, and [`SSE42`]; 0 before the first look. Written by any
/// thread that finds 0, always with the same value, so relaxed order is enough; kept because cpuid
/// costs a trap in a virtual machine.
static FOUND: AtomicU8 = AtomicU8::new(0);

/// Bit of [`FOUND`] for SSE4.2 with its CRC-32C. Only levels above the lowest imply it.
const SSE42: u8 = 0x80;

impl Level {
    /// The highest level of this machine.
    pub fn here() -> Level {
        Level(TIERS[usize::from(found() & !SSE42) - 1])
    }

    /// The level that every machine has.
    #[cfg(feature = "internals")]
    pub fn baseline() -> Level {
        Level(Tier::Baseline)
    }

    /// All levels of this machine, lowest first.
    #[cfg(feature = "internals")]
    pub fn each() -> impl Iterator<Item = Level> {
        TIERS.into_iter().map(Level).filter(|level| *level <= Level::here())
    }

    /// A short name.
    pub fn name(self) -> &'static str {
        match self.0 {
            Tier::Baseline => "baseline",
            Tier::Avx2 => "avx2",
            Tier::Avx512 => "avx512",
            Tier::Avx512Gfni => "avx512gfni",
        }
    }

    pub(super) fn tier(self) -> Tier {
        self.0
    }
}

impl core::fmt::Debug for Level {
    fn fmt(&self, out: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        out.write_str(self.name())
    }
}

/// Whether CRC-32C is an instruction here.
#[cfg(target_arch = "x86_64")]
pub(super) fn has_sse42() -> bool {
    found() & SSE42 != 0
}

fn found() -> u8 {
    match FOUND.load(Ordering::Relaxed) {
        0 => {
            let found = look();
            FOUND.store(found, Ordering::Relaxed);
            found
        }
        known => known,
    }
}

#[cfg(target_arch = "x86_64")]
fn look() -> u8 {
    use core::arch::x86_64::{__cpuid, __cpuid_count};
    /// Bits of cpuid(1).ecx.
    const SSE42_BIT: u32 = 1 << 20;
    const AVX_F16C_OSXSAVE_PCLMUL: u32 = 1 << 28 | 1 << 29 | 1 << 27 | 1 << 1;
    /// Bits of cpuid(7, 0).ebx and .ecx.
    const AVX2_BMI: u32 = 1 << 5 | 1 << 3 | 1 << 8;
    const AVX512: u32 = 1 << 16 | 1 << 17 | 1 << 30 | 1 << 31;
    const GFNI: u32 = 1 << 8;
    /// The system saves the upper halves of ymm; also opmasks, zmm, and zmm16 to 31.
    const YMM_SAVED: u64 = 0x06;
    const ZMM_SAVED: u64 = 0xE6;

    let has = |word: u32, bits: u32| word & bits == bits;
    let basic = __cpuid(1).ecx;
    let sse42 = if has(basic, SSE42_BIT) { SSE42 } else { 0 };
    let mut tier = Tier::Baseline;
    if has(basic, AVX_F16C_OSXSAVE_PCLMUL) && __cpuid(0).eax >= 7 {
        // SAFETY: OSXSAVE says that the system has switched xgetbv on.
        let saved = unsafe { saved_registers() };
        let extended = __cpuid_count(7, 0);
        if saved & YMM_SAVED == YMM_SAVED && has(extended.ebx, AVX2_BMI) {
            tier = Tier::Avx2;
            if saved & ZMM_SAVED == ZMM_SAVED && has(extended.ebx, AVX512) {
                let has_gfni = has(extended.ecx, GFNI);
                tier = if has_gfni { Tier::Avx512Gfni } else { Tier::Avx512 };
            }
        }
    }
    (1 + tier as u8) | sse42
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "xsave")]
fn saved_registers() -> u64 {
    // SAFETY: register 0 exists wherever xgetbv does.
    unsafe { core::arch::x86_64::_xgetbv(0) }
}

#[cfg(not(target_arch = "x86_64"))]
fn look() -> u8 {
    1 + Tier::Baseline as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn the_level_is_what_the_standard_library_detects() {
        let avx2 = std::is_x86_feature_detected!("avx2")
            && std::is_x86_feature_detected!("f16c")
            && std::is_x86_feature_detected!("bmi1")
            && std::is_x86_feature_detected!("bmi2")
            && std::is_x86_feature_detected!("pclmulqdq");
        let avx512 = avx2
            && std::is_x86_feature_detected!("avx512f")
            && std::is_x86_feature_detected!("avx512bw")
            && std::is_x86_feature_detected!("avx512dq")
            && std::is_x86_feature_detected!("avx512vl");
        let expected = match (avx2, avx512, std::is_x86_feature_detected!("gfni")) {
            (false, ..) => Tier::Baseline,
            (true, false, _) => Tier::Avx2,
            (true, true, false) => Tier::Avx512,
            (true, true, true) => Tier::Avx512Gfni,
        };
        assert_eq!(Level::here(), Level(expected));
        assert_eq!(has_sse42(), std::is_x86_feature_detected!("sse4.2"));
    }

    #[test]
    fn the_levels_rise_from_the_lowest_to_the_one_found() {
        let levels: std::vec::Vec<Level> = Level::each().collect();
        assert_eq!(levels.first(), Some(&Level::baseline()));
        assert_eq!(levels.last(), Some(&Level::here()));
        assert!(levels.is_sorted());
    }
}
