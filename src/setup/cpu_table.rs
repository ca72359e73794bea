//! The set of CPUs that a config points to.
//!
//! In: an address, and what its maker says of it. Out: a copy of its words. Invariant: nothing is
//! read past the words that the table states.

use crate::base::abi::Blank;
use crate::base::cpus::CpuSet;
use crate::base::limits::CPU_WORDS_MAX;
use crate::base::status::{Status, Why};
use crate::fail;
use crate::setup::config::range;
use core::ptr;

/// A set of CPUs as a config has it: read while a call has the config, and not after. CPU n is bit
/// n modulo 64 of word n / 64.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CpuTable {
    cpus: *const u64,
    cpu_words: u32,
    reserved5: u32,
}

impl Blank for CpuTable {
    const BLANK: CpuTable = CpuTable::NONE;
}

impl CpuTable {
    /// No set: the CPUs of the thread that opens.
    pub const NONE: CpuTable = CpuTable { cpus: ptr::null(), cpu_words: 0, reserved5: 0 };

    /// Its parts as the header has them, and where each lies.
    #[doc(hidden)]
    pub const FIELDS: &'static [(&'static str, usize)] = &[
        ("cpus", core::mem::offset_of!(CpuTable, cpus)),
        ("cpu_words", core::mem::offset_of!(CpuTable, cpu_words)),
        ("reserved5", core::mem::offset_of!(CpuTable, reserved5)),
    ];

    /// A set that lives as long as the process.
    pub const fn from_static(words: &'static [u64]) -> CpuTable {
        CpuTable { cpus: words.as_ptr(), cpu_words: words.len() as u32, reserved5: 0 }
    }

    /// Whether there is no set.
    pub fn is_none(&self) -> bool {
        *self == CpuTable::NONE
    }

    /// The set; None: the config has no set.
    pub fn read(&self, why: &mut Why) -> Result<Option<CpuSet>, Status> {
        if self.is_none() {
            return Ok(None);
        }
        let count = self.cpu_words;
        range(why, "reserved5", self.reserved5.into(), (0, 0))?;
        range(why, "cpu_words (with cpus)", count.into(), (1, CPU_WORDS_MAX as u64))?;
        if self.cpus.is_null() {
            return Err(fail!(why, Invalid, "cpu_words = {count}, but cpus is NULL"));
        }
        let mut set = CpuSet::EMPTY;
        for (number, word) in set.words.iter_mut().take(count as usize).enumerate() {
            // SAFETY: the table has `count` words, as its makers say.
            *word = unsafe { self.cpus.add(number).read() };
        }
        if set == CpuSet::EMPTY {
            let text = "cpus: no bit is set: name a CPU, or leave it NULL";
            return Err(fail!(why, Invalid, "{text}"));
        }
        Ok(Some(set))
    }
}
