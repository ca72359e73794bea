//! LZMA data in its containers: .xz streams, .lzma, and none.
//!
//! In: a whole chunk, and memory for the probabilities. Out: the bytes of its streams, or a status
//! with the reason. Invariant: every checksum and every size of a container is verified, and every
//! byte of the source is accounted for: a stream is followed by another one, or by zeros that the
//! format allows, and by nothing else.
//!
//! An .xz stream is a header of 12 bytes, blocks, an index with the sizes of each block, and a
//! footer. A block is a header with its filters, LZMA2 data, zeros to a multiple of 4 bytes, and a
//! checksum of what it decodes to. A .lzma stream is 13 bytes and LZMA data.
//!
//! The filter `delta` is undone in place, after all of a block is decoded, because LZMA2 looks back
//! at bytes that are still filtered.
//!
//! Sources: the .xz file format 1.2.1, the manual of LZMA, and liblzma, which is what Python's lzma
//! and numcodecs call.

use super::chunk::expect_sum;
use crate::base::status::{Status, Why};
use crate::fail;
use crate::loops::crc32::crc32;
use crate::loops::crc64::crc64;
use crate::loops::lzma::{Broken, End, Window, lzma1, lzma2, undelta};
use crate::loops::sha256::sha256;
use crate::records::{Lzma, LzmaChain, LzmaProperties};

pub use crate::loops::lzma::WORKSPACE_BYTES;

const MAGIC: [u8; 6] = [0xFD, b'7', b'z', b'X', b'Z', 0];
const FOOTER_MAGIC: [u8; 2] = *b"YZ";

/// Sizes in .xz streams are multiples of it.
const UNIT_BYTES: usize = 4;

/// Numbers of checksums.
const CHECK_NONE: u8 = 0;
const CHECK_CRC32: u8 = 1;
const CHECK_CRC64: u8 = 4;
const CHECK_SHA256: u8 = 10;

/// Numbers of filters.
const DELTA: u64 = 3;
const LZMA2: u64 = 0x21;

/// Bits of the flags of a block.
const FILTERS_LESS_1: u8 = 0x03;
const RESERVED: u8 = 0x3C;
const HAS_ENCODED_SIZE: u8 = 0x40;
const HAS_DECODED_SIZE: u8 = 0x80;

/// The largest number for the size of a dictionary, and that size.
const DICTIONARY_MAX: u8 = 40;

/// Bytes of the header of a .lzma stream.
const ALONE_BYTES: usize = 13;

/// Decodes all streams of `source` one after the other into `target` and returns how many bytes
/// they gave. `workspace` has [`WORKSPACE_BYTES`]. DECODE if a stream is broken, cut, followed by
/// something else, has a filter or a checksum that is not read, or if all hold more than the
/// target, which then holds anything.
pub fn decode(
    lzma: Lzma,
    workspace: &mut [u8],
    source: &[u8],
    target: &mut [u8],
    why: &mut Why,
) -> Result<usize, Status> {
    assert!(workspace.len() >= WORKSPACE_BYTES);
    let mut streams = Streams { source, at: 0, target, done: 0, workspace, why };
    // Ends: every turn takes a byte of the source at least, or returns.
    loop {
        match lzma {
            Lzma::Xz => streams.xz()?,
            Lzma::Alone => streams.alone()?,
            Lzma::Raw(chain) => streams.raw(chain)?,
        }
        if streams.rest().is_empty() {
            return Ok(streams.done);
        }
    }
}

/// The streams of a chunk, some of them decoded.
struct Streams<'a> {
    source: &'a [u8],
    /// The next byte of the source.
    at: usize,
    target: &'a mut [u8],
    /// Bytes of the target that are there.
    done: usize,
    workspace: &'a mut [u8],
    why: &'a mut Why,
}

/// The blocks of a stream: what its index must repeat.
#[derive(Default, PartialEq, Eq)]
struct Sizes {
    blocks: u64,
    /// A checksum of the sizes of each.
    sum: u64,
}

impl Sizes {
    fn add(&mut self, encoded: u64, decoded: u64) {
        self.blocks += 1;
        self.sum = crc64(crc64(self.sum, &encoded.to_le_bytes()), &decoded.to_le_bytes());
    }
}

impl<'a> Streams<'a> {
    fn rest(&self) -> &'a [u8] {
        self.source.get(self.at..).unwrap_or_default()
    }

    fn cut(&mut self) -> Status {
        self.refusal(Broken::Cut)
    }

    /// The status of data that is wrong at the next byte.
    fn wrong(&mut self) -> Status {
        self.refusal(Broken::Wrong)
    }

    #[cold]
    fn refusal(&mut self, broken: Broken) -> Status {
        let (here, at, wanted) = (self.source.len(), self.at, self.target.len());
        let (done, why) = (self.done, &mut *self.why);
        match broken {
            Broken::Cut => fail!(
                why,
                Decode,
                "lzma data of {here} bytes is cut: {done} are there where it ends"
            ),
            Broken::Full => {
                fail!(why, Decode, "lzma data holds more than the {wanted} bytes expected")
            }
            Broken::Wrong => {
                fail!(why, Decode, "lzma data of {here} bytes is broken near byte {at}")
            }
        }
    }

    /// The next `count` bytes of the source.
    fn take(&mut self, count: usize) -> Result<&'a [u8], Status> {
        let Some(bytes) = self.rest().get(..count) else { return Err(self.cut()) };
        self.at += count;
        Ok(bytes)
    }

    fn word(&mut self) -> Result<u32, Status> {
        match self.take(4)? {
            &[a, b, c, d] => Ok(u32::from_le_bytes([a, b, c, d])),
            _ => Err(self.cut()),
        }
    }

    /// An integer of up to nine bytes, the lowest 7 bits first.
    fn number(&mut self) -> Result<u64, Status> {
        let mut number = 0;
        for shift in (0..63).step_by(7) {
            let &[byte] = self.take(1)? else { return Err(self.cut()) };
            number |= u64::from(byte & 0x7F) << shift;
            if byte < 0x80 {
                return if byte == 0 && shift > 0 { Err(self.wrong()) } else { Ok(number) };
            }
        }
        Err(self.wrong())
    }

    /// Zeros up to a whole number of units since byte `start`.
    fn padding(&mut self, start: usize) -> Result<(), Status> {
        let used = self.at - start;
        match self.take(used.next_multiple_of(UNIT_BYTES) - used)?.iter().all(|byte| *byte == 0) {
            true => Ok(()),
            false => Err(self.wrong()),
        }
    }

    /// Whether the next word is the checksum of the bytes since `start`.
    fn crc32(&mut self, what: &str, start: usize) -> Result<(), Status> {
        let computed = crc32(0, self.source.get(start..self.at).unwrap_or_default());
        let stored = self.word()?;
        expect_sum(format_args!("lzma {what} crc32"), stored, computed, self.why)
    }

    /// An .xz stream, and the zeros that may follow it.
    fn xz(&mut self) -> Result<(), Status> {
        let start = self.at;
        let magic = self.take(MAGIC.len())?;
        if magic != MAGIC {
            let (first, second) = magic.split_first().unwrap_or((&0, &[]));
            let second = second.first().unwrap_or(&0);
            broken!(
                self.why,
                "{first:#04x} {second:#04x} where an .xz stream begins, not 0xfd 0x37"
            );
        }
        let flags = self.take(2)?;
        self.crc32("stream header", start + MAGIC.len())?;
        let &[0, check @ 0..16] = flags else { return Err(self.wrong()) };
        if !matches!(check, CHECK_NONE | CHECK_CRC32 | CHECK_CRC64 | CHECK_SHA256) {
            broken!(self.why, "lzma checksum {check} is not read: write the array with check 4");
        }
        let mut sizes = Sizes::default();
        // Ends: every turn takes a header of a block.
        while let Some(size @ 1..) = self.rest().first() {
            self.block(UNIT_BYTES * (usize::from(*size) + 1), check, &mut sizes)?;
        }
        let index = self.at;
        self.index(&sizes)?;
        let index_bytes = self.at - index;
        self.footer(index_bytes, flags)?;
        let zeros = self.rest().iter().take_while(|byte| **byte == 0).count();
        self.at += zeros;
        if zeros.is_multiple_of(UNIT_BYTES) { Ok(()) } else { Err(self.wrong()) }
    }

    /// A block whose header has so many bytes.
    fn block(&mut self, header_bytes: usize, check: u8, sizes: &mut Sizes) -> Result<(), Status> {
        let (start, first) = (self.at, self.done);
        let header = self.block_header(header_bytes)?;
        let encoded_start = self.at;
        self.chain(&header.chain, header.encoded)?;
        let encoded = (self.at - encoded_start) as u64;
        let decoded = (self.done - first) as u64;
        let differs = |declared: Option<u64>, found| declared.is_some_and(|size| size != found);
        if differs(header.encoded, encoded) || differs(header.decoded, decoded) {
            return Err(self.wrong());
        }
        let unpadded = self.at - start;
        self.padding(encoded_start)?;
        let check_start = self.at;
        self.check(check, first)?;
        sizes.add((unpadded + self.at - check_start) as u64, decoded);
        Ok(())
    }

    fn block_header(&mut self, header_bytes: usize) -> Result<BlockHeader, Status> {
        let start = self.at;
        let header = self.take(header_bytes - UNIT_BYTES)?;
        self.crc32("block header", start)?;
        // The fields end before the checksum, and zeros follow them.
        let limit = self.at - UNIT_BYTES;
        let flags = header.get(1).copied().unwrap_or(RESERVED);
        if flags & RESERVED != 0 {
            return Err(self.wrong());
        }
        let fields = self.source.get(..limit).unwrap_or_default();
        let whole = core::mem::replace(&mut self.source, fields);
        self.at = start + 2;
        let found = self.fields(flags);
        self.source = whole;
        let header = found?;
        self.at = limit + UNIT_BYTES;
        Ok(header)
    }

    /// The fields of a block's header, with which the source ends for now.
    fn fields(&mut self, flags: u8) -> Result<BlockHeader, Status> {
        let encoded = if flags & HAS_ENCODED_SIZE != 0 { Some(self.number()?) } else { None };
        let decoded = if flags & HAS_DECODED_SIZE != 0 { Some(self.number()?) } else { None };
        let mut chain = LzmaChain { deltas: [0; 3], dictionary_bytes: 0, properties: None };
        let deltas = usize::from(flags & FILTERS_LESS_1);
        for place in 0..=deltas {
            let (filter, bytes) = (self.number()?, self.number()?);
            match (filter, bytes, chain.deltas.get_mut(..deltas).and_then(|all| all.get_mut(place)))
            {
                (DELTA, 1, Some(distance)) => {
                    let Some(less_1) = self.rest().first() else { return Err(self.cut()) };
                    *distance = u16::from(*less_1) + 1;
                }
                (LZMA2, 1, None) => {
                    let Some(size) = self.rest().first() else { return Err(self.cut()) };
                    let Some(size) = dictionary_bytes(*size) else { return Err(self.wrong()) };
                    chain.dictionary_bytes = size;
                }
                (DELTA | LZMA2, ..) => return Err(self.wrong()),
                _ => broken!(
                    self.why,
                    "lzma filter {filter:#x} is not read, only delta and LZMA2: write the array \
                     again without it"
                ),
            }
            self.at += 1;
        }
        if self.rest().iter().any(|byte| *byte != 0) {
            return Err(self.wrong());
        }
        Ok(BlockHeader { encoded, decoded, chain })
    }

    /// Whether the bytes of a block, from `first` on, have the checksum that follows.
    fn check(&mut self, check: u8, first: usize) -> Result<(), Status> {
        let done = self.done;
        match check {
            CHECK_CRC32 => {
                let stored = self.word()?;
                let computed = crc32(0, self.decoded(first));
                expect_sum(format_args!("lzma block crc32"), stored, computed, self.why)
            }
            CHECK_CRC64 => {
                let (low, high) = (u64::from(self.word()?), u64::from(self.word()?));
                let (stored, computed) = (high << 32 | low, crc64(0, self.decoded(first)));
                if stored != computed {
                    let sums = format_args!("stored {stored:#018x}, computed {computed:#018x}");
                    broken!(self.why, "lzma block crc64 mismatch: {sums}");
                }
                Ok(())
            }
            CHECK_SHA256 => {
                let stored = self.take(32)?;
                if sha256(self.decoded(first)) != *stored {
                    broken!(self.why, "lzma block sha256 mismatch: {} bytes", done - first);
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn decoded(&self, first: usize) -> &[u8] {
        self.target.get(first..self.done).unwrap_or_default()
    }

    /// The index after the last block, which has a zero where a block has its size.
    fn index(&mut self, sizes: &Sizes) -> Result<(), Status> {
        let start = self.at;
        self.take(1)?;
        let (count, mut found) = (self.number()?, Sizes::default());
        if count != sizes.blocks {
            return Err(self.wrong());
        }
        for _ in 0..count {
            found.add(self.number()?, self.number()?);
        }
        if found != *sizes {
            return Err(self.wrong());
        }
        self.padding(start)?;
        self.crc32("index", start)
    }

    fn footer(&mut self, index_bytes: usize, flags: &[u8]) -> Result<(), Status> {
        let stored = self.word()?;
        let start = self.at;
        let units = self.word()?;
        let its_flags = self.take(2)?;
        let covered = self.source.get(start..self.at).unwrap_or_default();
        expect_sum(format_args!("lzma stream footer crc32"), stored, crc32(0, covered), self.why)?;
        let declared = (u64::from(units) + 1) * UNIT_BYTES as u64;
        let is_whole = self.take(FOOTER_MAGIC.len())? == FOOTER_MAGIC;
        if declared != index_bytes as u64 || its_flags != flags || !is_whole {
            return Err(self.wrong());
        }
        Ok(())
    }

    /// A .lzma stream.
    fn alone(&mut self) -> Result<(), Status> {
        let Some((&[byte, ref sizes @ ..], _)) = self.rest().split_first_chunk::<ALONE_BYTES>()
        else {
            return Err(self.cut());
        };
        let Some(properties) = LzmaProperties::of_byte(byte) else {
            broken!(
                self.why,
                "lzma properties are {byte:#04x}: lc and lp must be 4 at most in all"
            );
        };
        let [a, b, c, d, size @ ..] = *sizes;
        let dictionary = u32::from_le_bytes([a, b, c, d]);
        let end = match u64::from_le_bytes(size) {
            u64::MAX => End::Mark,
            size => match usize::try_from(size).ok().and_then(|size| size.checked_add(self.done)) {
                Some(limit) if limit <= self.target.len() => End::Near(limit),
                _ => return Err(self.refusal(Broken::Full)),
            },
        };
        self.at += ALONE_BYTES;
        self.lzma(properties, dictionary, end)
    }

    /// Data without a container.
    fn raw(&mut self, chain: LzmaChain) -> Result<(), Status> {
        self.chain(&chain, None)
    }

    /// Data of filters, of so many bytes if that is known.
    fn chain(&mut self, chain: &LzmaChain, encoded: Option<u64>) -> Result<(), Status> {
        let first = self.done;
        match chain.properties {
            Some(properties) => self.lzma(properties, chain.dictionary_bytes, End::Mark)?,
            None => {
                let rest = self.rest();
                let most = encoded.and_then(|bytes| usize::try_from(bytes).ok());
                let source = rest.get(..most.unwrap_or(rest.len())).unwrap_or(rest);
                let mut window = Window::new(self.target, first, chain.dictionary_bytes);
                let outcome = lzma2(self.workspace, source, &mut window);
                self.done = window.done;
                self.at += outcome.map_err(|broken| self.refusal(broken))?;
            }
        }
        let bytes = self.target.get_mut(first..self.done).unwrap_or_default();
        let distances = chain.deltas.iter().rev().filter(|distance| **distance > 0);
        distances.for_each(|distance| undelta(bytes, usize::from(*distance)));
        Ok(())
    }

    fn lzma(
        &mut self,
        properties: LzmaProperties,
        dictionary_bytes: u32,
        end: End,
    ) -> Result<(), Status> {
        let rest = self.rest();
        let mut window = Window::new(self.target, self.done, dictionary_bytes);
        let outcome = lzma1(self.workspace, properties, rest, &mut window, end);
        self.done = window.done;
        self.at += outcome.map_err(|broken| self.refusal(broken))?;
        Ok(())
    }
}

/// The header of a block.
struct BlockHeader {
    encoded: Option<u64>,
    decoded: Option<u64>,
    chain: LzmaChain,
}

/// The size of a dictionary: 2 or 3 times a power of two.
fn dictionary_bytes(number: u8) -> Option<u32> {
    match number {
        0..DICTIONARY_MAX => Some((2 | u32::from(number) & 1) << (number / 2 + 11)),
        DICTIONARY_MAX => Some(u32::MAX),
        _ => None,
    }
}
