//! DEFLATE data (RFC 1951).
//!
//! In: deflate data at the front of a slice, tables to work in. Out: its bytes, or what is wrong
//! with it. Invariant: the target is the window, so nothing refers to bytes before it, and nothing
//! is written behind it; what zlib's inflate takes is taken, with the same bytes, and what it
//! refuses is refused.
//!
//! A code is decoded by a table, as libdeflate has it: the next ROOT bits are an index, and the
//! entry says how many bits its symbol takes and what it means. Codes of more bits have a table of
//! their own behind the first one, for the bits that follow. The loop of this file takes a symbol
//! at a time and judges; that of `simd` is as fast as may be, wherever both sides have room. Whole
//! gzip members decode at 0.87 to 0.92 of libdeflate's rate if they are 1.2 to 4 times smaller than
//! their data, and at 0.71 to 0.76 for labels, where most of the rest is the CRC-32; beside zlib-rs
//! at 1.01 and more (`cargo bench --bench codecs -- gzip`).
//!
//! Over 500 lines because what makes the tables and what reads them agree on the parts of an entry.

use crate::loops::repeat::repeat;
use crate::loops::simd::inflate_symbols;

/// Bits of the first index for literals and lengths, for distances, and for code lengths.
pub(crate) const LITERAL_ROOT: u32 = 11;
pub(crate) const DISTANCE_ROOT: u32 = 8;
const LENGTH_ROOT: u32 = 7;

/// Entries that the worst code of 288 symbols takes, and that of 32, with all tables behind the
/// first (zlib's examples/enough.c: `enough 288 11 15`, `enough 32 8 15`).
const LITERAL_ENTRIES: usize = 2342;
const DISTANCE_ENTRIES: usize = 402;

/// Bits of the longest code.
const CODE_BITS_MAX: usize = 15;

const LITERAL_SYMBOLS: usize = 288;
const DISTANCE_SYMBOLS: usize = 32;

/// The symbol that ends a block.
const END_SYMBOL: usize = 256;

/// Parts of an entry. Bits 0 to 7 are how many bits the symbol takes, those of a length or distance
/// included that are added to it; bits 8 to 11 how many of them are its code; bits 16 to 30 a
/// literal, or the least length or distance, or the place of another table, whose index has as many
/// bits as bits 8 to 11 say.
pub(crate) const IS_LITERAL: u32 = 1 << 31;
/// No literal, length or distance: one of the next two, or a code that means nothing.
pub(crate) const IS_SPECIAL: u32 = 1 << 15;
pub(crate) const IS_TABLE: u32 = 1 << 14;
pub(crate) const IS_END: u32 = 1 << 13;
pub(crate) const VALUE_SHIFT: u32 = 16;
pub(crate) const CODE_SHIFT: u32 = 8;

/// For each symbol from 256 on what its entry says beside its code: the end, 29 lengths, none.
const LENGTHS: [u32; 32] = {
    let mut entries = [IS_SPECIAL; 32];
    entries[0] = IS_SPECIAL | IS_END;
    let (mut at, mut length) = (1, 3);
    while at < 29 {
        let extra = if at < 9 { 0 } else { (at as u32 - 5) / 4 };
        entries[at] = length << VALUE_SHIFT | extra;
        length += 1 << extra;
        at += 1;
    }
    entries[29] = 258 << VALUE_SHIFT;
    entries
};

/// The same for distances: 30, and two that mean nothing.
const DISTANCES: [u32; 32] = {
    let mut entries = [IS_SPECIAL; 32];
    let (mut at, mut distance) = (0, 1);
    while at < 30 {
        let extra = if at < 4 { 0 } else { at as u32 / 2 - 1 };
        entries[at] = distance << VALUE_SHIFT | extra;
        distance += 1 << extra;
        at += 1;
    }
    entries
};

/// The order in which the lengths of the codes of code lengths are told.
const LENGTH_ORDER: [u8; 19] = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];

/// What is wrong with deflate data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Broken {
    /// It says what deflate data never says.
    Wrong,
    /// It ends before its end.
    Cut,
    /// It holds more than the target.
    Full,
}

/// The codes of a block, about 11 KB. Their content between two calls does not matter.
pub struct Tables {
    pub(crate) literals: [u32; LITERAL_ENTRIES],
    pub(crate) distances: [u32; DISTANCE_ENTRIES],
    /// The code of blocks that bring none is what is there.
    is_fixed: bool,
}

impl Tables {
    /// Of no code.
    #[allow(clippy::new_without_default)]
    pub const fn new() -> Tables {
        Tables { literals: [0; LITERAL_ENTRIES], distances: [0; DISTANCE_ENTRIES], is_fixed: false }
    }
}

/// Why a loop over symbols stopped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stop {
    /// There is no room for another turn, or the CPU has no such loop.
    Room,
    /// The block is at its end.
    End,
    /// A code that means nothing, or a distance before the first byte.
    Wrong,
}

/// How far the data went, right or wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress {
    /// Bytes of the source that were taken, the last one perhaps in part.
    pub source_bytes: usize,
    /// Bytes of the target that are there.
    pub target_bytes: usize,
}

/// Bits of the source, the next one lowest.
pub(crate) struct Bits<'a> {
    pub(crate) source: &'a [u8],
    /// Bytes of the source that were put into the buffer.
    pub(crate) taken: usize,
    pub(crate) buffer: u64,
    /// Bits in the buffer; above them it is 0.
    pub(crate) count: u32,
}

impl Bits<'_> {
    /// At least 56 bits are there, or all that are left.
    fn fill(&mut self) {
        // Ends: the count rises.
        while self.count < 56
            && let Some(byte) = self.source.get(self.taken)
        {
            self.buffer |= u64::from(*byte) << self.count;
            self.count += 8;
            self.taken += 1;
        }
    }

    /// The next `count` bits, up to 16.
    fn take(&mut self, count: u32) -> Result<u32, Broken> {
        self.fill();
        let bits = self.buffer as u32 & ((1 << count) - 1);
        self.skip(count)?;
        Ok(bits)
    }

    fn skip(&mut self, count: u32) -> Result<(), Broken> {
        if count > self.count {
            return Err(Broken::Cut);
        }
        self.buffer >>= count;
        self.count -= count;
        Ok(())
    }

    /// Drops what is left of a byte and gives whole bytes back.
    fn drop_to_byte(&mut self) {
        self.taken -= (self.count / 8) as usize;
        (self.buffer, self.count) = (0, 0);
    }

    /// The entry of the next symbol, and its value with the bits that are added to it.
    fn symbol(&mut self, table: &[u32], root: u32) -> Result<(u32, usize), Broken> {
        self.fill();
        let mut entry = table[self.buffer as usize & ((1 << root) - 1)];
        if entry & IS_TABLE != 0 {
            self.skip(root)?;
            let index = self.buffer as usize & ((1 << (entry >> CODE_SHIFT & 15)) - 1);
            entry = table[(entry >> VALUE_SHIFT) as usize + index];
        }
        let (all, code) = (entry & 0xFF, entry >> CODE_SHIFT & 15);
        let added = (self.buffer & ((1 << all) - 1)) >> code;
        self.skip(all)?;
        if entry & (IS_SPECIAL | IS_END) == IS_SPECIAL {
            return Err(Broken::Wrong);
        }
        Ok((entry, (entry >> VALUE_SHIFT & 0x7FFF) as usize + added as usize))
    }
}

/// Decodes the deflate data at the front of `source` into the front of `target`. Says how far it
/// went, and what was wrong there; the target then holds anything.
#[inline(never)]
pub fn inflate(
    tables: &mut Tables,
    source: &[u8],
    target: &mut [u8],
) -> (Progress, Result<(), Broken>) {
    let mut bits = Bits { source, taken: 0, buffer: 0, count: 0 };
    let mut done = 0;
    let outcome = blocks(tables, &mut bits, target, &mut done);
    bits.drop_to_byte();
    (Progress { source_bytes: bits.taken, target_bytes: done }, outcome)
}

fn blocks(
    tables: &mut Tables,
    bits: &mut Bits<'_>,
    target: &mut [u8],
    done: &mut usize,
) -> Result<(), Broken> {
    // Ends: every turn takes three bits at least.
    loop {
        let header = bits.take(3)?;
        match header >> 1 {
            0 => stored(bits, target, done)?,
            1 => {
                fixed_codes(tables);
                symbols(tables, bits, target, done)?;
            }
            2 => {
                read_codes(tables, bits)?;
                symbols(tables, bits, target, done)?;
            }
            _ => return Err(Broken::Wrong),
        }
        if header & 1 == 1 {
            return Ok(());
        }
    }
}

/// A block of bytes as they are.
fn stored(bits: &mut Bits<'_>, target: &mut [u8], done: &mut usize) -> Result<(), Broken> {
    bits.drop_to_byte();
    let Some(([a, b, c, d], rest)) = bits.source[bits.taken..].split_first_chunk::<4>() else {
        return Err(Broken::Cut);
    };
    if [*a, *b] != [!*c, !*d] {
        return Err(Broken::Wrong);
    }
    let count = usize::from(u16::from_le_bytes([*a, *b]));
    bits.taken += 4;
    let room = &mut target[*done..];
    let there = count.min(rest.len()).min(room.len());
    room[..there].copy_from_slice(&rest[..there]);
    bits.taken += there;
    *done += there;
    match there == count {
        true => Ok(()),
        false if there == rest.len() => Err(Broken::Cut),
        false => Err(Broken::Full),
    }
}

/// The symbols of a block, up to its end.
fn symbols(
    tables: &Tables,
    bits: &mut Bits<'_>,
    target: &mut [u8],
    done: &mut usize,
) -> Result<(), Broken> {
    // Ends: every turn takes a bit at least.
    loop {
        match inflate_symbols(tables, bits, target, done) {
            Stop::Room => {}
            Stop::End => return Ok(()),
            Stop::Wrong => return Err(Broken::Wrong),
        }
        let (entry, value) = bits.symbol(&tables.literals, LITERAL_ROOT)?;
        if entry & IS_END != 0 {
            return Ok(());
        }
        if entry & IS_LITERAL != 0 {
            *target.get_mut(*done).ok_or(Broken::Full)? = value as u8;
            *done += 1;
            continue;
        }
        let (_, distance) = bits.symbol(&tables.distances, DISTANCE_ROOT)?;
        if distance > *done {
            return Err(Broken::Wrong);
        }
        if value > target.len() - *done {
            return Err(Broken::Full);
        }
        repeat(target, *done, distance, value);
        *done += value;
    }
}

/// The codes of blocks that bring none.
fn fixed_codes(tables: &mut Tables) {
    if tables.is_fixed {
        return;
    }
    let mut lengths = [8; LITERAL_SYMBOLS];
    lengths[144..256].fill(9);
    lengths[256..280].fill(7);
    let literals = make(&mut tables.literals, LITERAL_ROOT, &lengths, Symbols::Literals);
    let lengths = [5; DISTANCE_SYMBOLS];
    let distances = make(&mut tables.distances, DISTANCE_ROOT, &lengths, Symbols::Distances);
    assert!(literals == Code::Whole && distances == Code::Whole);
    tables.is_fixed = true;
}

/// Reads the codes that a block brings.
fn read_codes(tables: &mut Tables, bits: &mut Bits<'_>) -> Result<(), Broken> {
    tables.is_fixed = false;
    let counts = bits.take(14)?;
    let literals = (counts & 31) as usize + 257;
    let distances = (counts >> 5 & 31) as usize + 1;
    if literals > 286 || distances > 30 {
        return Err(Broken::Wrong);
    }
    let mut own = [0; LENGTH_ORDER.len()];
    for symbol in &LENGTH_ORDER[..(counts >> 10) as usize + 4] {
        own[usize::from(*symbol)] = bits.take(3)? as u8;
    }
    // Their table is needed before that of the literals is made, in whose place it lies.
    if make(&mut tables.literals, LENGTH_ROOT, &own, Symbols::Lengths) != Code::Whole {
        return Err(Broken::Wrong);
    }
    let mut lengths = [0u8; LITERAL_SYMBOLS + DISTANCE_SYMBOLS];
    let lengths = &mut lengths[..literals + distances];
    read_lengths(&tables.literals, bits, lengths)?;
    let (literals, distances) = lengths.split_at(literals);
    if literals[END_SYMBOL] == 0 {
        return Err(Broken::Wrong);
    }
    let literals = make(&mut tables.literals, LITERAL_ROOT, literals, Symbols::Literals);
    let distances = make(&mut tables.distances, DISTANCE_ROOT, distances, Symbols::Distances);
    if literals == Code::Wrong || distances == Code::Wrong { Err(Broken::Wrong) } else { Ok(()) }
}

/// Reads as many lengths of codes as `lengths` holds: each by its number, or as a repetition of the
/// one before (16) or of 0 (17, 18).
fn read_lengths(table: &[u32], bits: &mut Bits<'_>, lengths: &mut [u8]) -> Result<(), Broken> {
    let mut at = 0;
    while at < lengths.len() {
        let (_, symbol) = bits.symbol(table, LENGTH_ROOT)?;
        let (length, count) = match symbol {
            16 if at == 0 => return Err(Broken::Wrong),
            16 => (lengths[at - 1], 3 + bits.take(2)?),
            17 => (0, 3 + bits.take(3)?),
            18 => (0, 11 + bits.take(7)?),
            length => (length as u8, 1),
        };
        let repeated = lengths[at..].get_mut(..count as usize).ok_or(Broken::Wrong)?;
        repeated.fill(length);
        at += count as usize;
    }
    Ok(())
}

/// What the symbols of a code mean.
#[derive(Clone, Copy)]
enum Symbols {
    /// Literals, lengths, and the end.
    Literals,
    Distances,
    /// Lengths of codes: numbers.
    Lengths,
}

impl Symbols {
    /// What the entry of a symbol says beside its code.
    #[inline(always)]
    fn entry(self, symbol: usize) -> u32 {
        let number = (symbol as u32) << VALUE_SHIFT;
        match self {
            Symbols::Literals if symbol < END_SYMBOL => IS_LITERAL | number,
            Symbols::Literals => LENGTHS[symbol - END_SYMBOL],
            Symbols::Distances => DISTANCES[symbol],
            Symbols::Lengths => number,
        }
    }
}

/// What a list of lengths is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Code {
    /// Every sequence of bits is a symbol's.
    Whole,
    /// Of no symbol, or of one that takes a bit, as zlib allows: the rest means nothing.
    Part,
    /// Some sequence of bits is of two symbols, or of none.
    Wrong,
}

/// How many codes have each number of bits, where the symbols of each begin among all that have a
/// code, and what the code is.
fn counted(lengths: &[u8]) -> ([u16; CODE_BITS_MAX + 1], [u16; CODE_BITS_MAX + 2], Code) {
    let mut counts = [0u16; CODE_BITS_MAX + 1];
    for length in lengths {
        counts[usize::from(*length)] += 1;
    }
    let (mut firsts, mut free) = ([0u16; CODE_BITS_MAX + 2], 1i32);
    for bits in 1..=CODE_BITS_MAX {
        firsts[bits + 1] = firsts[bits] + counts[bits];
        free = 2 * free - i32::from(counts[bits]);
        if free < 0 {
            return (counts, firsts, Code::Wrong);
        }
    }
    let code = match (free, firsts[CODE_BITS_MAX + 1]) {
        (0, _) => Code::Whole,
        (_, 0) => Code::Part,
        (_, 1) if counts[1] == 1 => Code::Part,
        _ => Code::Wrong,
    };
    (counts, firsts, code)
}

/// Makes the table of the code that gives each symbol as many bits as `lengths` says: codes of as
/// many bits follow each other by their symbols, and longer ones follow shorter ones. Bits are read
/// from the lowest on, so that a code is an index back to front.
fn make(table: &mut [u32], root: u32, lengths: &[u8], symbols: Symbols) -> Code {
    let (counts, mut firsts, code) = counted(lengths);
    let entry =
        |symbol: u16, bits: u32| symbols.entry(usize::from(symbol)) + (bits << CODE_SHIFT | bits);
    if code == Code::Part {
        table[..1 << root].fill(IS_SPECIAL + (1 << CODE_SHIFT | 1));
        if let Some(symbol) = lengths.iter().position(|bits| *bits == 1) {
            table[..1 << root].iter_mut().step_by(2).for_each(|it| *it = entry(symbol as u16, 1));
        }
    }
    if code != Code::Whole {
        return code;
    }
    let mut sorted = [0u16; LITERAL_SYMBOLS];
    for (symbol, bits) in lengths.iter().enumerate().filter(|(_, bits)| **bits > 0) {
        let place = &mut firsts[usize::from(*bits)];
        sorted[usize::from(*place)] = symbol as u16;
        *place += 1;
    }
    let sorted = &sorted[..usize::from(firsts[CODE_BITS_MAX + 1])];
    let mut longer = Longer { prefix: usize::MAX, first: 0, limit: 1 << root };
    // `there` entries are made; with every bit more they are there twice.
    let (mut code, mut bits, mut there) = (0usize, 0, 1usize);
    let mut left = 0;
    for symbol in sorted {
        while left == 0 {
            bits += 1;
            left = counts[bits as usize];
            if bits <= root {
                table.copy_within(..there, there);
                there *= 2;
            }
        }
        if bits <= root {
            table[code] = entry(*symbol, bits);
        } else {
            let places =
                longer.places(table, root, code, bits, || index_bits(&counts, root, bits, left));
            places.for_each(|place| *place = entry(*symbol, bits - root));
        }
        left -= 1;
        code = next_code(code, bits);
    }
    // A code without longer ones may end before the root.
    while there < 1 << root {
        table.copy_within(..there, there);
        there *= 2;
    }
    Code::Whole
}

/// The next code of `bits` bits: one more, with the digits in reverse; the last is its own.
fn next_code(code: usize, bits: u32) -> usize {
    let ones = ((1 << bits) - 1) ^ code;
    match ones {
        0 => code,
        _ => code & ((1 << ones.ilog2()) - 1) | 1 << ones.ilog2(),
    }
}

/// Bits of the index of the table for codes of `bits` bits, of which `left` follow, and the longer
/// ones that fill it with them.
fn index_bits(counts: &[u16], root: u32, bits: u32, left: u16) -> u32 {
    let (mut index_bits, mut filled) = (bits - root, usize::from(left));
    // Ends: the code is whole.
    while filled < 1 << index_bits {
        index_bits += 1;
        filled = 2 * filled + usize::from(counts[(root + index_bits) as usize]);
    }
    index_bits
}

/// The table behind the first one for the codes that begin with the bits `prefix`.
struct Longer {
    prefix: usize,
    first: usize,
    limit: usize,
}

impl Longer {
    /// The places of `code`, which has `bits` bits. The first code of a prefix begins a table.
    fn places<'a>(
        &mut self,
        table: &'a mut [u32],
        root: u32,
        code: usize,
        bits: u32,
        index_bits: impl Fn() -> u32,
    ) -> impl Iterator<Item = &'a mut u32> {
        let prefix = code & ((1 << root) - 1);
        if prefix != self.prefix {
            let index_bits = index_bits();
            (self.prefix, self.first) = (prefix, self.limit);
            self.limit += 1 << index_bits;
            let place = (self.first as u32) << VALUE_SHIFT;
            table[prefix] = IS_SPECIAL | IS_TABLE | place | index_bits << CODE_SHIFT | root;
        }
        table[self.first + (code >> root)..self.limit].iter_mut().step_by(1 << (bits - root))
    }
}
