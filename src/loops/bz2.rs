//! Blocks of bzip2 streams, as libbz2 1.0.8 decodes them.
//!
//! In: the bits of a block, memory to work in. Out: its bytes, or what is wrong with it. Invariant:
//! what libbz2 takes is taken, with the same bytes, and what it refuses is refused. Codes that are
//! not complete, or have too many symbols, are read as libbz2 reads them.
//!
//! A block was encoded in five steps, undone here from the last to the first. Runs of 4 to 259
//! equal bytes became four of them and a count. The Burrows-Wheeler transform sorted all rotations.
//! Each byte became its place in a list of the latest bytes (move to front). Runs of the first
//! place became a number of base 2 with the digits 1 and 2. Up to six Huffman codes took turns,
//! each for 50 symbols.
//!
//! Worked example of the digits: the symbols 1, 0 are 2 + 1 * 2 = 4 places.
//!
//! The transform is undone in one word for each byte of the block: the byte in bits 0 to 7, and in
//! the upper ones the place of the byte that follows it. A block has at most 5/4 of the bytes that
//! it decodes to, because only a count is more than they are, and it follows four of them. So the
//! memory is [`workspace_bytes`] of what the chunk has, not of what the stream declares.

use super::bz2_mask::Mask;

/// The largest level: its blocks have up to nine times [`LEVEL_BYTES`].
pub const LEVEL_MAX: u8 = 9;

/// Bytes of a block of level 1.
pub const LEVEL_BYTES: usize = 100_000;

/// Symbols that one entry of the list of selectors is for.
const GROUP_SYMBOLS: usize = 50;
/// Selectors that a block of level 9 has use for. libbz2 passes over the others, too.
const SELECTORS_MAX: usize = 2 + 900_000 / GROUP_SYMBOLS;

const CODES_MAX: usize = 6;
const CODE_BITS_MAX: usize = 20;
/// The two digits of runs, 255 places of the list, and the end of the block.
const SYMBOLS_MAX: usize = 258;

/// Digits of a run: libbz2 takes as many.
const RUN_DIGITS_MAX: u32 = 21;

/// Bits of the first look at a code. Its entry is the symbol from bit 4 on and its bits below them;
/// 0: a code of more bits, or of none.
const ROOT_BITS: usize = 10;
const ROOT_ENTRIES: usize = 1 << ROOT_BITS;

/// Bytes of the tables of all codes: the entries of the first look, and all symbols in the order of
/// their codes.
const TABLES_BYTES: usize = 2 * CODES_MAX * (ROOT_ENTRIES + SYMBOLS_MAX);

/// Bytes that the places of a block follow.
const FIXED_BYTES: usize = (TABLES_BYTES + SELECTORS_MAX).next_multiple_of(64);

/// Equal bytes that a count follows.
const RUN_COUNTED: u32 = 4;

/// The reasons for which a block is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Broken {
    /// It has what no block has.
    Wrong,
    /// It ends before its end.
    Cut,
    /// It has more bytes than the workspace has places for.
    Room,
    /// It decodes to more than the target.
    Full,
}

/// Bits of a source, the highest of each byte first.
pub struct Bits<'a> {
    source: &'a [u8],
    /// Number of the next bit. It may lie after the end: bits there are 0 until somebody asks.
    at: u64,
}

/// A block, as its header describes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Block {
    /// The CRC of its bytes.
    pub crc: u32,
    /// Bytes of the target that it fills.
    pub target_bytes: usize,
}

/// Places for the bytes of a block: those of the largest one of its level, or of one that decodes
/// to `target_bytes`.
pub const fn places(level: u8, target_bytes: u64) -> u64 {
    let (level, target) = (level as u64 * LEVEL_BYTES as u64, target_bytes + target_bytes / 4);
    if level < target { level } else { target }
}

/// Bytes of memory to decode blocks of up to a level in, of a chunk of so many bytes.
pub const fn workspace_bytes(level: u8, target_bytes: u64) -> u64 {
    FIXED_BYTES as u64 + 4 * places(level, target_bytes)
}

impl<'a> Bits<'a> {
    /// All bits of a source.
    pub fn new(source: &'a [u8]) -> Bits<'a> {
        Bits { source, at: 0 }
    }

    /// Bytes that were taken, the last one perhaps in part.
    pub fn bytes(&self) -> usize {
        self.at.div_ceil(8) as usize
    }

    /// The next 57 bits or more, the first one highest.
    #[inline(always)]
    fn peek(&self) -> u64 {
        let rest = self.source.get((self.at / 8) as usize..).unwrap_or(&[]);
        let word = match rest.first_chunk::<8>() {
            Some(word) => u64::from_be_bytes(*word),
            None => at_end(rest),
        };
        word << (self.at % 8)
    }

    /// The next 1 to 32 bits.
    pub fn take(&mut self, count: u32) -> Result<u32, Broken> {
        let bits = (self.peek() >> (64 - count)) as u32;
        self.at += u64::from(count);
        self.check().map(|()| bits)
    }

    fn check(&self) -> Result<(), Broken> {
        if self.at > 8 * self.source.len() as u64 { Err(Broken::Cut) } else { Ok(()) }
    }
}

/// Fewer than eight bytes, and zeros after them.
#[cold]
fn at_end(rest: &[u8]) -> u64 {
    rest.iter()
        .zip((0..64).step_by(8).rev())
        .fold(0, |word, (byte, shift)| word | u64::from(*byte) << shift)
}

/// The memory of a block.
struct Workspace<'w> {
    /// The first look of each code, and the symbols of each in the order of their codes.
    roots: &'w mut [[u8; 2]],
    symbols: &'w mut [[u8; 2]],
    /// The code of each group of symbols.
    selectors: &'w mut [u8],
    /// A word for each byte of a block.
    words: &'w mut [[u8; 4]],
}

impl<'w> Workspace<'w> {
    /// None if it is shorter than the tables.
    fn of(bytes: &'w mut [u8], places: usize) -> Option<Workspace<'w>> {
        let (fixed, words) = bytes.split_at_mut_checked(FIXED_BYTES)?;
        let (tables, selectors) = fixed.split_at_mut_checked(TABLES_BYTES)?;
        let (tables, _) = tables.as_chunks_mut::<2>();
        let (roots, symbols) = tables.split_at_mut_checked(CODES_MAX * ROOT_ENTRIES)?;
        let words = words.as_chunks_mut::<4>().0.get_mut(..places)?;
        Some(Workspace { roots, symbols, selectors, words })
    }
}

/// Decodes the block after its magic number into the front of `target`. It may have as many bytes
/// as `places` before they are decoded, of which the workspace has at least as many.
pub fn block(
    bits: &mut Bits<'_>,
    workspace: &mut [u8],
    places: usize,
    target: &mut [u8],
) -> Result<Block, Broken> {
    let mut work = Workspace::of(workspace, places).ok_or(Broken::Room)?;
    let crc = bits.take(32)?;
    let is_randomised = bits.take(1)? == 1;
    let origin = bits.take(24)? as usize;
    let mut list = [0; 256];
    let used = read_list(bits, &mut list)?;
    let (codes, selectors) = read_codes(bits, &mut work, used + 2)?;
    let mut counts = [0; 256];
    let found = Symbols { list, end: used + 1, codes: &codes, selectors };
    let count = found.read(bits, &mut work, &mut counts)?;
    let words = &mut work.words[..count];
    if origin >= count {
        return Err(Broken::Wrong);
    }
    link(words, &mut counts);
    let mut mask = is_randomised.then(Mask::new);
    let target_bytes = walk(words, origin, &mut mask, target)?;
    Ok(Block { crc, target_bytes })
}

/// The bytes that occur in a block, ascending; how many.
fn read_list(bits: &mut Bits<'_>, list: &mut [u8; 256]) -> Result<usize, Broken> {
    let (rows, mut used) = (bits.take(16)?, 0);
    for row in (0..16).filter(|row| rows << row & 0x8000 != 0) {
        let columns = bits.take(16)?;
        for column in (0..16u8).filter(|column| columns << column & 0x8000 != 0) {
            list[used] = 16 * row + column;
            used += 1;
        }
    }
    if used == 0 { Err(Broken::Wrong) } else { Ok(used) }
}

/// A Huffman code: for each length the last code of it, and what its codes are more than their
/// places in the order of all.
#[derive(Clone, Copy)]
struct Code {
    last: [i32; CODE_BITS_MAX + 1],
    base: [i32; CODE_BITS_MAX + 1],
    shortest: usize,
    longest: usize,
}

impl Code {
    const NONE: Code = Code {
        last: [0; CODE_BITS_MAX + 1],
        base: [0; CODE_BITS_MAX + 1],
        shortest: 0,
        longest: 0,
    };

    /// The bits of the code that the highest bits of `window` begin with, and its place in the
    /// order of all codes: of lengths from `first` to `limit`.
    #[inline]
    fn find(&self, window: u64, first: usize, limit: usize) -> Option<(usize, usize)> {
        let lengths = first.max(self.shortest)..=limit.min(self.longest);
        for bits in lengths {
            let code = (window >> (64 - bits)) as i32;
            if code <= self.last[bits] {
                return Some((bits, (code - self.base[bits]) as usize));
            }
        }
        None
    }
}

/// The codes of a block, of so many symbols, in the workspace, and how many selectors it has.
fn read_codes(
    bits: &mut Bits<'_>,
    work: &mut Workspace<'_>,
    symbols: usize,
) -> Result<([Code; CODES_MAX], usize), Broken> {
    let count = bits.take(3)? as usize;
    let selectors = bits.take(15)? as usize;
    if !(2..=CODES_MAX).contains(&count) || selectors == 0 {
        return Err(Broken::Wrong);
    }
    let mut recent = [0, 1, 2, 3, 4, 5];
    for selector in 0..selectors {
        let place = bits.peek().leading_ones() as usize;
        if place >= count {
            return Err(Broken::Wrong);
        }
        bits.at += place as u64 + 1;
        recent[..=place].rotate_right(1);
        if let Some(kept) = work.selectors.get_mut(selector) {
            *kept = recent[0];
        }
    }
    bits.check()?;
    let mut codes = [Code::NONE; CODES_MAX];
    let roots = work.roots.chunks_exact_mut(ROOT_ENTRIES);
    let tables = roots.zip(work.symbols.chunks_exact_mut(SYMBOLS_MAX));
    for (code, (root, order)) in codes[..count].iter_mut().zip(tables) {
        let lengths = read_lengths(bits, symbols)?;
        *code = make_code(&lengths[..symbols], root, order);
    }
    Ok((codes, selectors.min(SELECTORS_MAX)))
}

/// The lengths of the codes of all symbols: each one more or one less than the one before it, any
/// number of times.
fn read_lengths(bits: &mut Bits<'_>, symbols: usize) -> Result<[u8; SYMBOLS_MAX], Broken> {
    let mut lengths = [0; SYMBOLS_MAX];
    let mut length = bits.take(5)? as usize;
    for symbol in &mut lengths[..symbols] {
        // Ends: every turn takes a bit of the source, or returns.
        loop {
            if !(1..=CODE_BITS_MAX).contains(&length) {
                return Err(Broken::Wrong);
            }
            if bits.take(1)? == 0 {
                break;
            }
            length = if bits.take(1)? == 0 { length + 1 } else { length - 1 };
        }
        *symbol = length as u8;
    }
    Ok(lengths)
}

/// The code of these lengths, with its tables.
fn make_code(lengths: &[u8], root: &mut [[u8; 2]], order: &mut [[u8; 2]]) -> Code {
    // Codes of each length; then those that are shorter.
    let mut counts = [0; CODE_BITS_MAX + 1];
    lengths.iter().for_each(|length| counts[usize::from(*length)] += 1);
    let occurs = |length: &usize| counts[*length] > 0;
    let mut code = Code {
        shortest: (1..=CODE_BITS_MAX).find(occurs).unwrap_or(1),
        longest: (1..=CODE_BITS_MAX).rfind(occurs).unwrap_or(0),
        ..Code::NONE
    };
    // The next code of each length, and the codes that are shorter.
    let (mut next, mut shorter) = (0, 0);
    let mut places = [0; CODE_BITS_MAX + 1];
    for length in code.shortest..=code.longest {
        code.base[length] = next - shorter;
        code.last[length] = next + counts[length] - 1;
        places[length] = shorter as usize;
        next = (next + counts[length]) << 1;
        shorter += counts[length];
    }
    for (symbol, length) in lengths.iter().enumerate() {
        let place = &mut places[usize::from(*length)];
        order[*place] = (symbol as u16).to_le_bytes();
        *place += 1;
    }
    for (prefix, entry) in root.iter_mut().enumerate() {
        let found = code.find((prefix as u64) << (64 - ROOT_BITS), 1, ROOT_BITS);
        let found = found.and_then(|(bits, place)| Some((bits, order.get(place)?)));
        let value =
            found.map_or(0, |(bits, symbol)| u16::from_le_bytes(*symbol) << 4 | bits as u16);
        *entry = value.to_le_bytes();
    }
    code
}

/// The symbols of a block, and how they are read.
struct Symbols<'c> {
    /// The bytes of the block, the one that came last first.
    list: [u8; 256],
    /// The symbol after the last one.
    end: usize,
    codes: &'c [Code; CODES_MAX],
    selectors: usize,
}

impl Symbols<'_> {
    /// Puts the bytes of the block into the words, each with zeros above it, and counts each. How
    /// many they are.
    fn read(
        mut self,
        bits: &mut Bits<'_>,
        work: &mut Workspace<'_>,
        counts: &mut [u32; 256],
    ) -> Result<usize, Broken> {
        let (words, mut done) = (&mut *work.words, 0);
        let (mut run, mut digits) = (0, 0);
        for selector in &work.selectors[..self.selectors] {
            let number = usize::from(*selector);
            let code = self.codes.get(number).ok_or(Broken::Wrong)?;
            let root = &work.roots[number * ROOT_ENTRIES..][..ROOT_ENTRIES];
            let order = &work.symbols[number * SYMBOLS_MAX..][..SYMBOLS_MAX];
            for _ in 0..GROUP_SYMBOLS {
                let window = bits.peek();
                let entry = u16::from_le_bytes(root[(window >> (64 - ROOT_BITS)) as usize]);
                let (symbol, length) = match entry {
                    0 => long_symbol(code, window, order)?,
                    _ => (usize::from(entry >> 4), usize::from(entry & 15)),
                };
                bits.at += length as u64;
                if symbol < 2 {
                    if digits == RUN_DIGITS_MAX {
                        return Err(Broken::Wrong);
                    }
                    run += (symbol + 1) << digits;
                    digits += 1;
                    continue;
                }
                if digits > 0 {
                    let byte = self.list[0];
                    let free = words.get_mut(done..done + run).ok_or(Broken::Room)?;
                    free.fill(u32::from(byte).to_le_bytes());
                    counts[usize::from(byte)] += run as u32;
                    done += run;
                    (run, digits) = (0, 0);
                }
                if symbol == self.end {
                    return bits.check().map(|()| done);
                }
                let byte = self.move_to_front(symbol - 1);
                *words.get_mut(done).ok_or(Broken::Room)? = u32::from(byte).to_le_bytes();
                counts[usize::from(byte)] += 1;
                done += 1;
            }
            bits.check()?;
        }
        Err(Broken::Wrong)
    }

    /// The byte at a place of the list, which is the first of it then.
    #[inline(always)]
    fn move_to_front(&mut self, place: usize) -> u8 {
        let place = place & 0xFF;
        let byte = self.list[place];
        if place < 16 {
            // A call for so few bytes takes longer than they do.
            for at in (0..place).rev() {
                self.list[at + 1] = self.list[at];
            }
        } else {
            self.list.copy_within(..place, 1);
        }
        self.list[0] = byte;
        byte
    }
}

/// The symbol of a code of more than [`ROOT_BITS`] bits, and its bits.
#[cold]
fn long_symbol(code: &Code, window: u64, order: &[[u8; 2]]) -> Result<(usize, usize), Broken> {
    let found = code.find(window, ROOT_BITS + 1, CODE_BITS_MAX);
    let (bits, place) = found.ok_or(Broken::Wrong)?;
    let symbol = order.get(place).ok_or(Broken::Wrong)?;
    Ok((usize::from(u16::from_le_bytes(*symbol)), bits))
}

/// Puts over each byte the place of the one that follows it. `counts` are those of each byte.
fn link(words: &mut [[u8; 4]], counts: &mut [u32; 256]) {
    let mut first = 0;
    for count in counts.iter_mut() {
        (*count, first) = (first, first + *count);
    }
    for at in 0..words.len() {
        let next = &mut counts[usize::from(words[at][0])];
        // The counts are those of the words, so each word is met once.
        if let Some(word) = words.get_mut(*next as usize) {
            *word = (u32::from(word[0]) | (at as u32) << 8).to_le_bytes();
        }
        *next += 1;
    }
}

/// Walks the words from the one that `origin` leads to, each once, and writes their bytes, and the
/// runs that they count, to the front of the target. How many.
fn walk(
    words: &[[u8; 4]],
    origin: usize,
    mask: &mut Option<Mask>,
    target: &mut [u8],
) -> Result<usize, Broken> {
    let mut next = u32::from_le_bytes(words[origin]) >> 8;
    let (mut done, mut equal, mut before) = (0, 0, 0);
    for _ in 0..words.len() {
        let word = words.get(next as usize).map_or(0, |word| u32::from_le_bytes(*word));
        next = word >> 8;
        let mut byte = word as u8;
        if let Some(mask) = mask {
            byte ^= mask.next();
        }
        if equal == RUN_COUNTED {
            let free = target.get_mut(done..done + usize::from(byte)).ok_or(Broken::Full)?;
            free.fill(before);
            (done, equal) = (done + usize::from(byte), 0);
            continue;
        }
        equal = if byte == before { equal + 1 } else { 1 };
        before = byte;
        *target.get_mut(done).ok_or(Broken::Full)? = byte;
        done += 1;
    }
    // The count is missing.
    if equal == RUN_COUNTED { Err(Broken::Wrong) } else { Ok(done) }
}
