//! LZMA and LZMA2 data, as liblzma 5.8 decodes them.
//!
//! In: the encoded bytes, memory for the probabilities. Out: the decoded bytes, or what is wrong
//! with them. Invariant: liblzma takes the same data, with the same bytes, and refuses the same.
//!
//! A range coder gives one bit at a time, each by a probability of its own, which adapts. The bits
//! make literals, and matches: a length, and a distance to bytes that are there already. The last
//! four distances have short codes. LZMA2 cuts the data into pieces of up to 2 MiB, each LZMA or
//! copied.
//!
//! The target is the window: no distance may reach before its start, nor further than the size of
//! the dictionary. So memory is [`WORKSPACE_BYTES`], whatever dictionary the data declares.
//!
//! Bits that are hard to predict choose by masks, not by branches. Bytes after the source are zeros
//! until the end, where their number is looked at: every turn fills a part of the target.
//!
//! Over 500 lines: the coder, the steps and LZMA2 are inlined into one loop, and share its state.
//!
//! Sources: the specification of LZMA by Igor Pavlov, and liblzma, which is what Python's lzma and
//! numcodecs call.

use super::repeat::repeat;
use crate::records::{LZMA_CONTEXT_BITS_MAX, LzmaProperties};

/// Bytes of memory to decode in.
pub const WORKSPACE_BYTES: usize = 2 * PROBABILITIES;

/// A power of two, so that a mask replaces the check of each index.
const PROBABILITIES: usize = 1 << 14;

// Places of the probabilities. Rows of 16 are for the lowest bits of the position.
const STATES: usize = 12;
const IS_MATCH: usize = 0;
const IS_REP0_LONG: usize = IS_MATCH + 16 * STATES;
const IS_REP: usize = IS_REP0_LONG + 16 * STATES;
const IS_REP0: usize = IS_REP + STATES;
const IS_REP1: usize = IS_REP0 + STATES;
const IS_REP2: usize = IS_REP1 + STATES;
const SLOTS: usize = IS_REP2 + STATES;
const SPECIAL: usize = SLOTS + 4 * 64;
const ALIGN: usize = SPECIAL + 128;
const MATCH_LENGTHS: usize = ALIGN + 16;
const REP_LENGTHS: usize = MATCH_LENGTHS + LENGTHS;
const LITERALS: usize = REP_LENGTHS + LENGTHS;

// Places of the probabilities of lengths.
const LOW: usize = 2;
const MID: usize = LOW + 8 * 16;
const HIGH: usize = MID + 8 * 16;
const LENGTHS: usize = HIGH + 256;

/// Probabilities of the literals after one context.
const LITERAL: usize = 0x300;

const _: () = assert!(LITERALS + (LITERAL << LZMA_CONTEXT_BITS_MAX) <= PROBABILITIES);

/// Bits of a probability, and how fast it adapts.
const MODEL_BITS: u32 = 11;
const MOVE_BITS: u32 = 5;

/// A range below it takes a byte of the source.
const RANGE_MIN: u32 = 1 << 24;

/// Bytes before the bits of a range coder.
const INIT_BYTES: usize = 5;

/// The state after a literal.
const AFTER_LITERAL: [u8; 16] = [0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 4, 5, 0, 0, 0, 0];

/// States below it follow a literal.
const LITERAL_STATES: usize = 7;

/// Any smaller dictionary is as large.
const DICTIONARY_BYTES_MIN: u64 = 1 << 12;

/// The reasons for which data is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Broken {
    /// It has what no data has.
    Wrong,
    /// It ends before its end.
    Cut,
    /// It decodes to more than the target.
    Full,
}

/// The place at which LZMA data ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// At so many bytes of the target, without a mark.
    At(usize),
    /// There, with a mark or without.
    Near(usize),
    /// At a mark.
    Mark,
}

/// The decoded bytes.
pub struct Window<'t> {
    /// All of them, and the free ones after them.
    pub target: &'t mut [u8],
    /// The first byte that a distance may reach.
    pub start: usize,
    /// Bytes that are decoded.
    pub done: usize,
    /// The largest distance.
    pub reach: usize,
}

impl<'t> Window<'t> {
    /// A window that begins at `done`, of a dictionary of so many bytes.
    pub fn new(target: &'t mut [u8], done: usize, dictionary_bytes: u32) -> Window<'t> {
        // liblzma rounds it likewise.
        let bytes = u64::from(dictionary_bytes).max(DICTIONARY_BYTES_MIN).next_multiple_of(16);
        Window { target, start: done, done, reach: usize::try_from(bytes).unwrap_or(usize::MAX) }
    }

    /// The byte so far before the free ones; 0 if there is none.
    #[inline(always)]
    fn before(&self, distance: usize) -> u8 {
        if distance > self.done - self.start {
            return 0;
        }
        self.target.get(self.done.wrapping_sub(distance)).copied().unwrap_or(0)
    }

    /// Copies bytes that are not encoded.
    fn copy(&mut self, bytes: &[u8]) -> Result<(), Broken> {
        let end = self.done.checked_add(bytes.len()).ok_or(Broken::Full)?;
        self.target.get_mut(self.done..end).ok_or(Broken::Full)?.copy_from_slice(bytes);
        self.done = end;
        Ok(())
    }
}

type Probabilities = [[u8; 2]; PROBABILITIES];

/// A range coder.
struct Coder<'s> {
    source: &'s [u8],
    /// Place of the next byte. It may lie after the end.
    at: usize,
    range: u32,
    code: u32,
}

impl<'s> Coder<'s> {
    fn new(source: &'s [u8]) -> Result<Coder<'s>, Broken> {
        match source.first_chunk::<INIT_BYTES>() {
            Some([0, code @ ..]) => {
                let code = u32::from_be_bytes(*code);
                Ok(Coder { source, at: INIT_BYTES, range: u32::MAX, code })
            }
            None if source.first().is_none_or(|first| *first == 0) => Err(Broken::Cut),
            _ => Err(Broken::Wrong),
        }
    }

    #[inline(always)]
    fn normalize(&mut self) {
        if self.range < RANGE_MIN {
            let byte = self.source.get(self.at).copied().unwrap_or(0);
            self.at += 1;
            self.range <<= 8;
            self.code = self.code << 8 | u32::from(byte);
        }
    }

    /// A bit that is easy to predict.
    #[inline(always)]
    fn bit(&mut self, all: &mut Probabilities, place: usize) -> bool {
        self.normalize();
        let probability = &mut all[place % PROBABILITIES];
        let value = u16::from_le_bytes(*probability);
        let bound = (self.range >> MODEL_BITS).wrapping_mul(u32::from(value));
        if self.code < bound {
            self.range = bound;
            let more = (1u16 << MODEL_BITS).wrapping_sub(value) >> MOVE_BITS;
            *probability = value.wrapping_add(more).to_le_bytes();
            false
        } else {
            self.range -= bound;
            self.code -= bound;
            *probability = (value - (value >> MOVE_BITS)).to_le_bytes();
            true
        }
    }

    /// A bit that is not.
    #[inline(always)]
    fn hard_bit(&mut self, all: &mut Probabilities, place: usize) -> usize {
        self.normalize();
        let probability = &mut all[place % PROBABILITIES];
        let value = i32::from(u16::from_le_bytes(*probability));
        let bound = (self.range >> MODEL_BITS).wrapping_mul(value as u32);
        let (less, is_zero) = self.code.overflowing_sub(bound);
        let mask = 0u32.wrapping_sub(u32::from(is_zero));
        self.code = less.wrapping_add(bound & mask);
        self.range = self.range.wrapping_sub(bound);
        self.range = self.range.wrapping_add(bound.wrapping_sub(self.range) & mask);
        // A zero moves it up to the top, rounded down.
        let short = (1 << MOVE_BITS) - 1 - (1 << MODEL_BITS);
        let step = value.wrapping_add(mask as i32 & short) >> MOVE_BITS;
        *probability = (value.wrapping_sub(step) as u16).to_le_bytes();
        usize::from(!is_zero)
    }

    /// A number of so many bits, the highest first, with a 1 above them.
    #[inline(always)]
    fn tree(&mut self, all: &mut Probabilities, place: usize, bits: u32) -> usize {
        (0..bits).fold(1, |symbol, _| symbol << 1 | self.hard_bit(all, place + symbol))
    }

    /// A number of so many bits, the lowest first.
    #[inline(always)]
    fn reverse_tree(&mut self, all: &mut Probabilities, place: usize, bits: u32) -> u32 {
        let (mut symbol, mut number) = (1, 0);
        for shift in 0..bits {
            let bit = self.hard_bit(all, place + symbol);
            symbol = symbol << 1 | bit;
            number |= (bit as u32) << shift;
        }
        number
    }

    /// A bit that has no probability.
    #[inline(always)]
    fn direct_bit(&mut self) -> u32 {
        self.normalize();
        self.range >>= 1;
        self.code = self.code.wrapping_sub(self.range);
        let mask = 0u32.wrapping_sub(self.code >> 31);
        self.code = self.code.wrapping_add(self.range & mask);
        mask.wrapping_add(1)
    }

    /// Whether the data ends here.
    fn is_at_end(&mut self) -> bool {
        self.normalize();
        self.code == 0
    }
}

/// A step of LZMA.
enum Step {
    /// So many bytes, so far back.
    Repeat(usize, usize),
    /// The mark at the end.
    Mark,
}

/// The state of LZMA between two pieces of data.
pub struct Lzma<'w> {
    all: &'w mut Probabilities,
    properties: LzmaProperties,
    state: usize,
    /// The last four distances, less 1.
    recent: [u32; 4],
}

impl<'w> Lzma<'w> {
    /// None if the workspace has less than [`WORKSPACE_BYTES`].
    pub fn new(workspace: &'w mut [u8], properties: LzmaProperties) -> Option<Lzma<'w>> {
        let (pairs, _) = workspace.as_chunks_mut::<2>();
        let all = pairs.first_chunk_mut::<PROBABILITIES>()?;
        let mut lzma = Lzma { all, properties, state: 0, recent: [0; 4] };
        lzma.reset(properties);
        Some(lzma)
    }

    fn reset(&mut self, properties: LzmaProperties) {
        let literals = LITERAL << (properties.lc + properties.lp);
        let used = self.all.iter_mut().take(LITERALS + literals);
        used.for_each(|probability| *probability = (1u16 << (MODEL_BITS - 1)).to_le_bytes());
        (self.properties, self.state, self.recent) = (properties, 0, [0; 4]);
    }

    /// Decodes LZMA data at the front of `source` into the window. Bytes that it took.
    pub fn decode(
        &mut self,
        source: &[u8],
        window: &mut Window<'_>,
        end: End,
    ) -> Result<usize, Broken> {
        let mut coder = Coder::new(source)?;
        let outcome = self.run(&mut coder, window, end);
        if coder.at > source.len() { Err(Broken::Cut) } else { outcome.map(|()| coder.at) }
    }

    fn run(
        &mut self,
        coder: &mut Coder<'_>,
        window: &mut Window<'_>,
        end: End,
    ) -> Result<(), Broken> {
        let limit = match end {
            End::At(limit) | End::Near(limit) => limit.min(window.target.len()),
            End::Mark => window.target.len(),
        };
        let LzmaProperties { lc, lp, pb } = self.properties;
        let (pb_mask, lp_mask) = ((1 << pb) - 1, (1 << lp) - 1);
        // Ends: every turn fills a part of the target, or returns.
        loop {
            let is_full = window.done >= limit;
            if is_full && end != End::Mark {
                if coder.is_at_end() {
                    return Ok(());
                } else if matches!(end, End::At(_)) {
                    return Err(Broken::Wrong);
                }
            }
            let position = window.done - window.start;
            let row = position & pb_mask;
            if !coder.bit(self.all, IS_MATCH + 16 * self.state + row) {
                let free = if is_full { None } else { window.target.get(window.done) };
                if free.is_none() {
                    return Err(Broken::Full);
                }
                let last = usize::from(window.before(1));
                let context = (position & lp_mask) << lc | last >> (8 - lc);
                let byte = self.literal(coder, window, LITERALS + LITERAL * context);
                if let Some(free) = window.target.get_mut(window.done) {
                    *free = byte;
                    window.done += 1;
                }
                continue;
            }
            match self.step(coder, row)? {
                Step::Mark if end == End::Mark || is_full => {
                    return if coder.is_at_end() { Ok(()) } else { Err(Broken::Wrong) };
                }
                Step::Mark => return Err(Broken::Wrong),
                Step::Repeat(distance, length) => {
                    if distance > position || distance > window.reach {
                        return Err(Broken::Wrong);
                    }
                    if length > limit - window.done.min(limit) {
                        return Err(Broken::Full);
                    }
                    repeat(window.target, window.done, distance, length);
                    window.done += length;
                }
            }
        }
    }

    #[inline(always)]
    fn literal(&mut self, coder: &mut Coder<'_>, window: &Window<'_>, place: usize) -> u8 {
        let (mut symbol, state) = (1, self.state);
        self.state = usize::from(AFTER_LITERAL[state % 16]);
        if state < LITERAL_STATES {
            return coder.tree(self.all, place, 8) as u8;
        }
        // After a match: the byte that would have continued it says which probabilities.
        let mut like = usize::from(window.before(self.recent[0] as usize + 1));
        let mut half = 0x100;
        for _ in 0..8 {
            like <<= 1;
            let same = like & half;
            let bit = coder.hard_bit(self.all, place + half + same + symbol);
            symbol = symbol << 1 | bit;
            // The half stays while the bits are those of the byte.
            half &= same ^ bit.wrapping_sub(1);
        }
        symbol as u8
    }

    /// A match, or the bytes at a distance that was used before.
    #[inline(always)]
    fn step(&mut self, coder: &mut Coder<'_>, row: usize) -> Result<Step, Broken> {
        let (state, all) = (self.state, &mut *self.all);
        let is_after_literal = state < LITERAL_STATES;
        if !coder.bit(all, IS_REP + state) {
            let [first, second, third, _] = self.recent;
            self.state = if is_after_literal { 7 } else { 10 };
            let length = length(coder, all, MATCH_LENGTHS, row);
            let distance = distance(coder, all, length);
            self.recent = [distance, first, second, third];
            return Ok(match distance {
                u32::MAX => Step::Mark,
                _ => Step::Repeat(distance as usize + 1, length),
            });
        }
        if !coder.bit(all, IS_REP0 + state) {
            if !coder.bit(all, IS_REP0_LONG + 16 * state + row) {
                self.state = if is_after_literal { 9 } else { 11 };
                return Ok(Step::Repeat(self.recent[0] as usize + 1, 1));
            }
        } else if !coder.bit(all, IS_REP1 + state) {
            let [first, second, third, fourth] = self.recent;
            self.recent = [second, first, third, fourth];
        } else {
            let [first, second, third, fourth] = self.recent;
            let is_fourth = coder.bit(all, IS_REP2 + state);
            self.recent = match is_fourth {
                false => [third, first, second, fourth],
                true => [fourth, first, second, third],
            };
        }
        self.state = if is_after_literal { 8 } else { 11 };
        let length = length(coder, all, REP_LENGTHS, row);
        Ok(Step::Repeat(self.recent[0] as usize + 1, length))
    }
}

/// The length of a match.
#[inline(always)]
fn length(coder: &mut Coder<'_>, all: &mut Probabilities, place: usize, row: usize) -> usize {
    if !coder.bit(all, place) {
        return coder.tree(all, place + LOW + 8 * row, 3) - 8 + 2;
    }
    if !coder.bit(all, place + 1) {
        return coder.tree(all, place + MID + 8 * row, 3) - 8 + 10;
    }
    coder.tree(all, place + HIGH, 8) - 256 + 18
}

/// The distance of a match of that length, less 1.
#[inline(always)]
fn distance(coder: &mut Coder<'_>, all: &mut Probabilities, length: usize) -> u32 {
    let slots = SLOTS + 64 * (length - 2).min(3);
    let slot = coder.tree(all, slots, 6) - 64;
    if slot < 4 {
        return slot as u32;
    }
    let bits = (slot as u32 >> 1) - 1;
    let top = 2 | slot as u32 & 1;
    if slot < 14 {
        let first = top << bits;
        let place = SPECIAL + first as usize - slot - 1;
        return first + coder.reverse_tree(all, place, bits);
    }
    let mut number = top;
    for _ in 4..bits {
        number = number << 1 | coder.direct_bit();
    }
    (number << 4).wrapping_add(coder.reverse_tree(all, ALIGN, 4))
}

/// Decodes LZMA data at the front of `source` into the window. Bytes that it took.
pub fn lzma1(
    workspace: &mut [u8],
    properties: LzmaProperties,
    source: &[u8],
    window: &mut Window<'_>,
    end: End,
) -> Result<usize, Broken> {
    Lzma::new(workspace, properties).ok_or(Broken::Wrong)?.decode(source, window, end)
}

/// Decodes LZMA2 data at the front of `source` into the window. Bytes that it took.
pub fn lzma2(
    workspace: &mut [u8],
    source: &[u8],
    window: &mut Window<'_>,
) -> Result<usize, Broken> {
    let mut lzma = Lzma::new(workspace, LzmaProperties::DEFAULT).ok_or(Broken::Wrong)?;
    let (mut rest, mut has_start, mut has_properties) = (source, false, false);
    // Ends: every turn takes a byte of the source, or returns.
    loop {
        let (control, after) = rest.split_first().ok_or(Broken::Cut)?;
        rest = after;
        match *control {
            0 => return Ok(source.len() - rest.len()),
            0x01 | 0xE0.. => {
                (window.start, has_start, has_properties) = (window.done, true, false);
            }
            0x03..0x80 => return Err(Broken::Wrong),
            _ if !has_start => return Err(Broken::Wrong),
            _ => {}
        }
        let (sizes, after) = rest.split_first_chunk::<2>().ok_or(Broken::Cut)?;
        let low = usize::from(u16::from_be_bytes(*sizes));
        if *control < 0x80 {
            let (bytes, after) = after.split_at_checked(low + 1).ok_or(Broken::Cut)?;
            window.copy(bytes)?;
            rest = after;
            continue;
        }
        let decoded = (usize::from(*control & 0x1F) << 16 | low) + 1;
        let (encoded, after) = after.split_first_chunk::<2>().ok_or(Broken::Cut)?;
        let encoded = usize::from(u16::from_be_bytes(*encoded)) + 1;
        rest = after;
        if *control >= 0xC0 {
            let (byte, after) = rest.split_first().ok_or(Broken::Cut)?;
            lzma.reset(LzmaProperties::of_byte(*byte).ok_or(Broken::Wrong)?);
            (rest, has_properties) = (after, true);
        } else if !has_properties {
            return Err(Broken::Wrong);
        } else if *control >= 0xA0 {
            lzma.reset(lzma.properties);
        }
        let end = window.done + decoded;
        if end > window.target.len() {
            return Err(Broken::Full);
        }
        let (piece, after) = rest.split_at_checked(encoded).ok_or(Broken::Cut)?;
        let wrong = |_| Broken::Wrong;
        if lzma.decode(piece, window, End::At(end)).map_err(wrong)? != encoded {
            return Err(Broken::Wrong);
        }
        rest = after;
    }
}

/// Undoes the filter `delta`: each byte is less the one at that distance before it.
pub fn undelta(bytes: &mut [u8], distance: usize) {
    let cells = core::cell::Cell::from_mut(bytes).as_slice_of_cells();
    for (cell, before) in cells.iter().skip(distance).zip(cells) {
        cell.set(cell.get().wrapping_add(before.get()));
    }
}
