//! Shards that are decoded whole: chunks whose codecs put cells together, which are chunks of the
//! shard, or shards in it.
//!
//! In: a record with [`Filter::Shard`] among its codecs, and entries of an index. Out: the sizes on
//! both sides of each codec, and the place of each cell. Invariant: codecs before a `Shard` work on
//! one of its cells, those after it on the shard; sizes follow from the record alone.
//!
//! Worked example: the chain `zstd`, `Shard(0)`, `gzip` of chunks of 40 and cells of 8. Each cell
//! of 8 is a zstd frame, five of them and their index are a shard, and gzip compresses that.

use super::{ArrayRecord, AxisOrder, ByteOrder, Codec, Filter, IndexLayout, Span};
use crate::base::limits::{INDEX_ENTRY_BYTES, RANK_MAX, target_bytes};
use core::fmt;

/// Bytes of the CRC-32C after the entries of an index.
pub const INDEX_CRC_BYTES: u64 = 4;

/// Both words of an entry whose cell was never written.
pub const MISSING: u64 = u64::MAX;

/// Bytes that a compressor adds to a cell at most, and one part of so many: what is written, with
/// room for headers and checksums of other writers.
const CELL_GROWTH: (u64, u64) = (256, 64);

/// The same of bzip2, whose manual has 600 bytes and one part of a hundred.
const BZ2_GROWTH: (u64, u64) = (640, 64);

/// Above all sizes that are taken, and below those that overflow.
const BEYOND_ALL: u64 = 1 << 48;

/// Sizes of a thing that some codecs were applied to.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// Bytes that they make of it at most.
    pub encoded_max: u64,
    /// Bytes of the thing at its largest, and of all that undoing the codecs takes at once.
    pub working: u64,
}

impl Codec {
    /// The number of a shard among those of its array, outermost first.
    pub const fn shard(self) -> Option<usize> {
        match self {
            Codec::Filter(Filter::Shard(number)) => Some(number as usize),
            _ => None,
        }
    }
}

impl IndexLayout {
    /// Bytes of an index of so many entries.
    pub fn bytes(&self, entries: u64) -> u64 {
        let crc = if self.has_crc { INDEX_CRC_BYTES } else { 0 };
        entries.saturating_mul(INDEX_ENTRY_BYTES as u64).saturating_add(crc)
    }
}

impl ArrayRecord {
    /// The place of the last shard among the first `count` codecs.
    pub fn shard_before(&self, count: usize) -> Option<usize> {
        self.codecs[..count].iter().rposition(|codec| codec.shard().is_some())
    }

    /// Whether a chunk is a shard that is decoded whole.
    pub fn is_whole_shard(&self) -> bool {
        self.shard_before(self.codecs.len()).is_some()
    }

    /// Number of shards inside each other, those that are decoded whole included.
    pub fn shard_count(&self) -> usize {
        let whole = self.codecs.iter().filter(|codec| codec.shard().is_some()).count();
        self.shard_levels as usize + whole
    }

    /// The axes as the index of each shard counts its entries, outermost first, and after those as
    /// the elements of the innermost chunk lie in it.
    pub fn order_at(&self, shard: usize) -> &AxisOrder {
        let (levels, count) = (self.shard_levels as usize, self.shard_count());
        &self.axis_order[match shard {
            _ if shard < levels => shard,
            _ if shard < count => shard + 1,
            _ => levels,
        }]
    }

    /// Extents of the thing that the codecs before place `count` are of: a cell of the shard there
    /// or after it, or the chunk.
    pub fn unit_shape(&self, count: usize) -> &[u64; RANK_MAX] {
        let shard = self.codecs[count..].iter().find_map(|codec| codec.shard());
        shard.map_or(&self.chunk_shape, |number| &self.shard_shape[number])
    }

    /// Bytes of its elements.
    pub fn unit_bytes(&self, count: usize) -> u64 {
        let Some(number) = self.codecs[count..].iter().find_map(|codec| codec.shard()) else {
            return self.chunk_bytes;
        };
        let (shape, bytes) = (&self.shard_shape[number][..self.axes()], self.dtype_bytes);
        shape.iter().fold(bytes.into(), |bytes: u64, extent| bytes.saturating_mul(*extent))
    }

    /// Number of cells along each axis of the shard at a place of the chain.
    pub fn cell_counts(&self, place: usize) -> [u64; RANK_MAX] {
        let (whole, cell) = (self.unit_shape(place + 1), self.unit_shape(place));
        self.by_axis(&[1; RANK_MAX], |axis| whole[axis] / cell[axis])
    }

    /// Sizes of the thing that the codecs before place `count` are of.
    pub fn sizes(&self, count: usize) -> Sizes {
        let bytes = self.unit_bytes(0);
        let mut sizes = Sizes { encoded_max: bytes, working: bytes };
        for (place, codec) in self.codecs[..count].iter().enumerate() {
            let given = sizes.encoded_max;
            let made = if let Some(number) = codec.shard() {
                let cells = self.cell_counts(place)[..self.axes()].iter().product::<u64>();
                let index = self.index[number].bytes(cells);
                let made = cells.saturating_mul(given).saturating_add(index).min(BEYOND_ALL);
                let [shard, cell] = self.scratch_of(place, made, sizes.working);
                sizes.working = self.unit_bytes(place + 1).max(shard + 2 * cell);
                made
            } else {
                let is_bz2 = matches!(codec, Codec::Bz2(_));
                let (more, part) = if is_bz2 { BZ2_GROWTH } else { CELL_GROWTH };
                codec.encoded_bytes(given).unwrap_or((given + given / part + more).min(BEYOND_ALL))
            };
            if codec.is_filter() && codec.shard().is_none() {
                sizes.working = sizes.working.max(given).max(made);
            }
            sizes.encoded_max = made;
        }
        sizes
    }

    /// Scratch of the shard at a place of the chain: for its own bytes, and for each of the two
    /// halves that its cells are decoded in.
    pub fn shard_scratch(&self, place: usize) -> [u64; 2] {
        self.scratch_of(place, self.sizes(place + 1).encoded_max, self.sizes(place).working)
    }

    fn scratch_of(&self, place: usize, bytes: u64, cell_working: u64) -> [u64; 2] {
        let mut after = self.codecs[place + 1..].iter().take_while(|codec| codec.shard().is_none());
        let shards = match after.find(|codec| codec.is_compressor()) {
            // A block before its filter is undone may be as long.
            Some(codec) if codec.is_blosc() => 2,
            Some(_) => 1,
            None => 0,
        };
        let is_decoded = self.codecs[..place].iter().any(|codec| !codec.is_sum());
        [shards * target_bytes(bytes), u64::from(is_decoded) * target_bytes(cell_working)]
    }
}

/// An entry of an index that no writer makes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BadEntry {
    offset: u64,
    bytes: u64,
    fault: Fault,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fault {
    HalfEmpty,
    Beyond(u64),
    NoBytes,
    InIndex(Span),
}

impl fmt::Display for BadEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let BadEntry { offset, bytes, fault } = *self;
        let place = format_args!("(offset {offset}, {bytes} bytes)");
        match fault {
            Fault::HalfEmpty => write!(f, "is half empty: offset {offset}, {bytes} bytes"),
            Fault::Beyond(shard) => write!(f, "{place} lies beyond its shard of {shard} bytes"),
            Fault::NoBytes => write!(f, "at offset {offset} has 0 bytes"),
            Fault::InIndex(index) => {
                let (len, first) = (index.bytes(), index.first);
                write!(f, "{place} lies in the index itself, {len} bytes at {first}")
            }
        }
    }
}

/// The place of a cell in its shard of so many bytes, in which the index lies; None: the cell was
/// never written.
pub fn cell_place(
    raw: &[u8; INDEX_ENTRY_BYTES],
    byte_order: ByteOrder,
    shard_bytes: u64,
    index: Span,
) -> Result<Option<Span>, BadEntry> {
    let (halves, _) = raw.as_chunks::<8>();
    let word = |at: usize| match byte_order {
        ByteOrder::Little => u64::from_le_bytes(halves[at]),
        ByteOrder::Big => u64::from_be_bytes(halves[at]),
    };
    let (offset, bytes) = (word(0), word(1));
    let bad = |fault| Err(BadEntry { offset, bytes, fault });
    match (offset == MISSING, bytes == MISSING) {
        (true, true) => return Ok(None),
        (false, false) => {}
        _ => return bad(Fault::HalfEmpty),
    }
    let Some(limit) = offset.checked_add(bytes).filter(|limit| *limit <= shard_bytes) else {
        return bad(Fault::Beyond(shard_bytes));
    };
    if bytes == 0 {
        return bad(Fault::NoBytes);
    }
    if offset < index.limit && index.first < limit {
        return bad(Fault::InIndex(index));
    }
    Ok(Some(Span { first: offset, limit }))
}
