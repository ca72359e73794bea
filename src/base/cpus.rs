//! Sets of CPUs, by their numbers.
//!
//! In: words of bits, or a list as the kernel writes it. Out: counts, and the first that another
//! set lacks.

use crate::base::limits::CPU_WORDS_MAX;

/// See the module. CPU n is bit n modulo 64 of word n / 64.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CpuSet {
    /// The bits.
    pub words: [u64; CPU_WORDS_MAX],
}

impl CpuSet {
    /// No CPU.
    pub const EMPTY: CpuSet = CpuSet { words: [0; CPU_WORDS_MAX] };

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

#[cfg(test)]
mod tests {
    use super::*;

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
