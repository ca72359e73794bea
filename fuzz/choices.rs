//! Bytes of a fuzzer as choices: small numbers, one of a list, anything.

/// Takes choices off the front of an input; an input that is used up chooses 0 for ever.
pub struct Choices<'a> {
    rest: &'a [u8],
}

#[allow(dead_code)] // each target uses another part of it
impl<'a> Choices<'a> {
    pub fn of(data: &'a [u8]) -> Self {
        Choices { rest: data }
    }

    /// Whether the input is used up.
    pub fn is_over(&self) -> bool {
        self.rest.is_empty()
    }

    /// What no choice has taken.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    pub fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.rest.split_first() else { return 0 };
        self.rest = rest;
        *first
    }

    pub fn word(&mut self) -> u16 {
        u16::from_le_bytes([self.byte(), self.byte()])
    }

    pub fn long(&mut self) -> u64 {
        u64::from_le_bytes(std::array::from_fn(|_| self.byte()))
    }

    /// A number in `0..limit`; of small limits one byte decides.
    pub fn below(&mut self, limit: u64) -> u64 {
        match limit {
            0..=1 => 0,
            2..=256 => u64::from(self.byte()) % limit,
            257..=65536 => u64::from(self.word()) % limit,
            _ => self.long() % limit,
        }
    }

    /// True once in `times`, and never where the input is used up.
    pub fn rarely(&mut self, times: u8) -> bool {
        self.byte() % times == times - 1
    }

    pub fn one_of<T: Copy>(&mut self, menu: &[T]) -> T {
        menu[self.below(menu.len() as u64) as usize]
    }
}
