//! The blocks of a zstd frame (RFC 8878), found and measured but not decoded: for a decoder
//! elsewhere.
//!
//! In: a chunk that is to be one frame. Out: where the content of each block lies, and what scratch
//! memory the kernels of kernels/zstd.cu need for it. Invariant: what is found lies inside of the
//! frame; frames that libzstd takes may be refused, those that need more than blocks: a checksum of
//! the content, a dictionary, more frames behind the first.

use crate::base::limits::SCRATCH_UNIT;
use core::ops::Range;

/// The largest block, decoded and encoded.
pub const BLOCK_BYTES_MAX: u32 = 128 << 10;

/// Bytes of the scratch of a block before its literals: two words of status, and two unused ones.
const SCRATCH_HEAD: u64 = 16;

const MAGIC: [u8; 4] = 0xFD2F_B528_u32.to_le_bytes();

/// The largest exponent of a window that libzstd takes.
const WINDOW_EXPONENT_MAX: u8 = 21;

/// A block of a frame.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BlockPlace {
    /// Its content in the frame.
    pub source: Range<usize>,
    /// What that is.
    pub kind: BlockKind,
    /// Bytes that a raw block or a run becomes; bytes of scratch that a compressed one needs.
    pub bytes: u64,
    /// How many blocks before it those lie that describe its tree, and its tables of literal
    /// lengths, offsets and match lengths.
    pub back: [u16; 4],
}

/// What the content of a block is.
#[repr(u32)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BlockKind {
    /// Its bytes.
    Raw = 0,
    /// One byte, which is repeated.
    Run = 1,
    /// Literals and sequences.
    Compressed = 2,
}

/// The frame is none, or one that only libzstd decodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refused;

/// Takes `count` bytes of the front.
fn take<'a>(rest: &mut &'a [u8], count: usize) -> Result<&'a [u8], Refused> {
    let (taken, behind) = rest.split_at_checked(count).ok_or(Refused)?;
    *rest = behind;
    Ok(taken)
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte))
}

/// The head of a frame that becomes `target_bytes`: the largest block that it may have.
fn head(rest: &mut &[u8], target_bytes: u64) -> Result<u32, Refused> {
    if take(rest, 4)? != MAGIC {
        return Err(Refused);
    }
    let flags = take(rest, 1)?[0];
    let is_single = flags & 0x20 != 0;
    // A reserved bit, or a checksum of the content.
    if flags & 0x0C != 0 {
        return Err(Refused);
    }
    let mut window = 0;
    if !is_single {
        let byte = take(rest, 1)?[0];
        if byte >> 3 > WINDOW_EXPONENT_MAX {
            return Err(Refused);
        }
        window = 1_u64 << (10 + (byte >> 3));
        window += window / 8 * u64::from(byte & 7);
    }
    if number(take(rest, [0, 1, 2, 4][usize::from(flags & 3)])?) != 0 {
        return Err(Refused);
    }
    let size_bytes = [usize::from(is_single), 2, 4, 8][usize::from(flags >> 6)];
    let size = number(take(rest, size_bytes)?) + if size_bytes == 2 { 256 } else { 0 };
    if size_bytes > 0 && size != target_bytes {
        return Err(Refused);
    }
    let window = if is_single { size } else { window };
    Ok(window.min(u64::from(BLOCK_BYTES_MAX)) as u32)
}

/// What the sections of a compressed block say of it.
struct Sections {
    scratch_bytes: u64,
    /// Its literals have a tree of their own, or need one that was described before.
    literals_kind: u8,
    sequences: u64,
    modes: u8,
}

fn sections(content: &[u8]) -> Result<Sections, Refused> {
    let low = number(content.get(..content.len().min(5)).ok_or(Refused)?);
    let (literals_kind, format) = ((low & 3) as u8, low >> 2 & 3);
    let (head, literals, source_bytes) = match (literals_kind, format) {
        (0 | 1, 1) => (2, low >> 4 & 0xFFF, low >> 4 & 0xFFF),
        (0 | 1, 3) => (3, low >> 4 & 0xF_FFFF, low >> 4 & 0xF_FFFF),
        (0 | 1, _) => (1, low >> 3 & 31, low >> 3 & 31),
        (_, 3) => (5, low >> 4 & 0x3_FFFF, low >> 22 & 0x3_FFFF),
        (_, 2) => (4, low >> 4 & 0x3FFF, low >> 18 & 0x3FFF),
        _ => (3, low >> 4 & 0x3FF, low >> 14 & 0x3FF),
    };
    let source_bytes = if literals_kind == 1 { 1 } else { source_bytes };
    if literals > u64::from(BLOCK_BYTES_MAX) {
        return Err(Refused);
    }
    let mut rest = content.get(head + source_bytes as usize..).ok_or(Refused)?;
    let first = take(&mut rest, 1)?[0];
    let sequences = match first {
        0..128 => u64::from(first),
        128..255 => u64::from(first - 128) << 8 | u64::from(take(&mut rest, 1)?[0]),
        255 => number(take(&mut rest, 2)?) + 0x7F00,
    };
    let mut modes = 0;
    if sequences > 0 {
        modes = take(&mut rest, 1)?[0];
    } else if !rest.is_empty() {
        return Err(Refused);
    }
    let coded = if literals_kind >= 2 { literals.next_multiple_of(8) } else { 0 };
    let scratch_bytes = SCRATCH_HEAD + coded + 8 * sequences;
    Ok(Sections { scratch_bytes, literals_kind, sequences, modes })
}

/// How far back each description lies that a block may repeat.
#[derive(Default)]
struct Described([Option<usize>; 4]);

impl Described {
    /// The distances for the block of this number, which has these sections.
    fn back(&mut self, number: usize, found: &Sections) -> Result<[u16; 4], Refused> {
        let mut back = [0; 4];
        for (what, distance) in back.iter_mut().enumerate() {
            let (is_used, is_own) = match what {
                0 => (found.literals_kind >= 2, found.literals_kind == 2),
                table => (found.sequences > 0, found.modes >> (8 - 2 * table) & 3 != 3),
            };
            if is_used && is_own {
                self.0[what] = Some(number);
            }
            if is_used {
                let owner = self.0[what].ok_or(Refused)?;
                *distance = u16::try_from(number - owner).map_err(|_| Refused)?;
            }
        }
        Ok(back)
    }
}

/// Finds the blocks of a frame that becomes `target_bytes` bytes, and tells `push` of each.
pub fn blocks(
    frame: &[u8],
    target_bytes: u64,
    mut push: impl FnMut(BlockPlace),
) -> Result<(), Refused> {
    let mut rest = frame;
    let most = head(&mut rest, target_bytes)?;
    let (mut described, mut count, mut is_last) = (Described::default(), 0, false);
    // Ends: every turn takes three bytes of the frame at least.
    while !is_last {
        let head = number(take(&mut rest, 3)?) as u32;
        is_last = head & 1 == 1;
        let (kind, size) = (head >> 1 & 3, head >> 3);
        if size > most || kind == 3 {
            return Err(Refused);
        }
        let first = frame.len() - rest.len();
        let content = take(&mut rest, if kind == 1 { 1 } else { size as usize })?;
        let (kind, bytes, back) = match kind {
            0 => (BlockKind::Raw, u64::from(size), [0; 4]),
            1 => (BlockKind::Run, u64::from(size), [0; 4]),
            _ => {
                let found = sections(content)?;
                let back = described.back(count, &found)?;
                (BlockKind::Compressed, found.scratch_bytes, back)
            }
        };
        push(BlockPlace { source: first..first + content.len(), kind, bytes, back });
        count += 1;
    }
    if rest.is_empty() { Ok(()) } else { Err(Refused) }
}

/// What the blocks of a frame are together.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Measured {
    /// How many there are.
    pub blocks: u32,
    /// Units of scratch that they need, each block's whole ones.
    pub scratch_units: u64,
    /// Bytes that a block becomes at most.
    pub block_bytes: u32,
}

/// Measures the blocks of a frame that becomes `target_bytes` bytes.
pub fn measure(frame: &[u8], target_bytes: u64) -> Result<Measured, Refused> {
    let block_bytes = head(&mut &frame[..], target_bytes)?;
    let mut found = Measured { block_bytes, ..Measured::default() };
    blocks(frame, target_bytes, |block| {
        found.blocks += 1;
        found.scratch_units += block.scratch_units();
    })?;
    Ok(found)
}

impl BlockPlace {
    /// Units of scratch that it needs.
    pub fn scratch_units(&self) -> u64 {
        match self.kind {
            BlockKind::Compressed => self.bytes.div_ceil(SCRATCH_UNIT),
            BlockKind::Raw | BlockKind::Run => 0,
        }
    }
}
