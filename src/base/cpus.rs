//! Sets of CPUs, or of NUMA nodes, by their numbers.
//!
//! In: words of bits, or a list as the kernel writes it. Out: counts, what two sets have in common,
//! the first that another set lacks, and such a list.

use crate::base::limits::CPU_WORDS_MAX;
use core::fmt;

/// See the module. CPU n is bit n modulo 64 of word n / 64.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CpuSet {
    /// The bits.
    pub words: [u64; CPU_WORDS_MAX],
}

impl CpuSet {
    /// No CPU.
    pub const EMPTY: CpuSet = CpuSet { words: [0; CPU_WORDS_MAX] };

    /// That number alone; none if a set cannot hold it.
    pub fn of(number: u32) -> CpuSet {
        let mut set = CpuSet::EMPTY;
        let word = set.words.get_mut(number as usize / 64);
        word.into_iter().for_each(|word| *word |= 1 << (number % 64));
        set
    }

    /// Whether it has a number.
    pub fn has(&self, number: u32) -> bool {
        self.words.get(number as usize / 64).is_some_and(|word| word >> (number % 64) & 1 == 1)
    }

    /// Takes out what another set lacks.
    pub fn intersect(&mut self, other: &CpuSet) {
        self.words.iter_mut().zip(&other.words).for_each(|(word, there)| *word &= there);
    }

    /// How many there are.
    pub fn count(&self) -> u32 {
        self.words.iter().map(|word| word.count_ones()).sum()
    }

    /// The lowest number that `other` lacks.
    pub fn first_beyond(&self, other: &CpuSet) -> Option<u32> {
        let words = self.words.iter().zip(&other.words).map(|(word, there)| word & !there);
        let (number, word) = words.enumerate().find(|(_, word)| *word != 0)?;
        Some(64 * number as u32 + word.trailing_zeros())
    }

    /// The CPUs of a list such as "0-3,8"; None: it is not a list of CPUs that a set can hold.
    pub fn from_list(text: &str) -> Option<CpuSet> {
        let mut set = CpuSet::EMPTY;
        for range in text.split(',') {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let (first, last) = (first.parse::<usize>().ok()?, last.parse::<usize>().ok()?);
            if last >= 64 * CPU_WORDS_MAX {
                return None;
            }
            for cpu in first..=last {
                *set.words.get_mut(cpu / 64)? |= 1 << (cpu % 64);
            }
        }
        Some(set)
    }
}

/// As the kernel writes it: "0-3,8".
impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mut at, mut before) = (0, "");
        // Ends: each turn goes on by a number at least.
        while at < 64 * CPU_WORDS_MAX as u32 {
            let first = at;
            while self.has(at) {
                at += 1;
            }
            match at - first {
                0 => {}
                1 => write!(f, "{before}{first}")?,
                _ => write!(f, "{before}{first}-{}", at - 1)?,
            }
            before = if at > first { "," } else { before };
            at += 1;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_is_written_as_the_kernel_writes_it() {
        for text in ["0", "0-1", "0,2-5,7", "63-64", "8191", "0-8191", "5,7,9"] {
            assert_eq!(std::format!("{}", CpuSet::from_list(text).unwrap()), text);
        }
        assert_eq!(std::format!("{}", CpuSet::EMPTY), "");
        let mut set = CpuSet::from_list("0-70").unwrap();
        set.intersect(&CpuSet::from_list("3,64,71").unwrap());
        assert!(set == CpuSet::from_list("3,64").unwrap() && set.has(64) && !set.has(71));
        assert!(CpuSet::of(64) == CpuSet::from_list("64").unwrap());
        assert!(CpuSet::of(8192) == CpuSet::EMPTY && !set.has(8192));
    }

    #[test]
    fn a_list_of_the_kernel_becomes_a_set_and_other_texts_do_not() {
        let set = CpuSet::from_list("0-3,8,100-101").unwrap();
        assert_eq!((set.words[0], set.words[1], set.count()), (0x10F, 3 << 36, 7));
        assert_eq!(set.first_beyond(&CpuSet::from_list("0-63,100").unwrap()), Some(101));
        assert_eq!(set.first_beyond(&set), None);
        assert_eq!(CpuSet::from_list("8191").map(|set| set.count()), Some(1));
        assert_eq!(CpuSet::from_list("3-1").map(|set| set.count()), Some(0));
        for wrong in ["", "x", "1-", "-", "8192", "0-8192", "0-18446744073709551615", "1;2", "1,"] {
            assert_eq!(CpuSet::from_list(wrong), None, "{wrong}");
        }
    }
}
