//! Checksums of 32 bits by table, eight bytes per step ("slicing by 8", Kounavis and Berry 2005),
//! for any polynomial whose bits are reversed.
//!
//! In: tables made at compile time, a state, bytes. Out: the state behind them. Invariant: pieces
//! do not matter.

/// `tables[k][b]` is the effect of byte `b` followed by `k` zero bytes.
pub(super) type Tables = [[u32; 256]; 8];

/// The state behind `bytes`.
pub(super) fn sliced(tables: &Tables, state: u32, bytes: &[u8]) -> u32 {
    let (words, tail) = bytes.as_chunks::<8>();
    let state = words.iter().fold(state, |state, word| {
        let mixed = (u64::from_le_bytes(*word) ^ u64::from(state)).to_le_bytes();
        (0..8).fold(0, |next, at| next ^ tables[7 - at][mixed[at] as usize])
    });
    tail.iter().fold(state, |state, byte| (state >> 8) ^ tables[0][(state as u8 ^ byte) as usize])
}

/// The tables of a polynomial.
pub(super) const fn tables(polynomial: u32) -> Tables {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut state = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            state = (state >> 1) ^ if state & 1 == 1 { polynomial } else { 0 };
            bit += 1;
        }
        tables[0][byte] = state;
        byte += 1;
    }
    let mut level = 1;
    while level < 8 {
        let mut byte = 0;
        while byte < 256 {
            let before = tables[level - 1][byte];
            tables[level][byte] = (before >> 8) ^ tables[0][(before & 0xFF) as usize];
            byte += 1;
        }
        level += 1;
    }
    tables
}
