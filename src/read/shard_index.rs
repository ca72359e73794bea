//! Where a shard keeps its index, what its entries mean, and which of them is a chunk's.
//!
//! In: the array, a shard and raw index bytes. Out: places and checked entries, counted from the
//! start of the file whatever the level. Invariant: a [`Entry::Range`] lies inside its shard,
//! outside the index, is not empty and is no longer than what it stands for can be, so a read of it
//! is bounded whatever the file says. A range inside an inner shard lies inside the outer one too.

use crate::base::limits::{
    INDEX_ENTRY_BYTES, INDEX_PAGE_ENTRIES, RANK_MAX, SHARD_CHUNKS_MAX, SHARD_LEVELS_MAX,
};
use crate::base::math::{coordinates_from_linear, linear_from_coordinates, product};
use crate::base::status::{Status, Why};
use crate::fail;
use crate::records::{ArrayRecord, IN_ORDER, Span, cell_place};
use core::fmt;

/// Bytes of a whole page of entries.
#[cfg(feature = "internals")]
const PAGE_BYTES: u64 = (INDEX_PAGE_ENTRIES * INDEX_ENTRY_BYTES) as u64;

/// A file that is a shard, or a shard in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shard {
    /// Its entry in the index of the file; None: it is the file.
    pub inner: Option<u64>,
    /// First byte in the file.
    pub offset: u64,
    /// Number of bytes.
    pub bytes: u64,
}

impl Shard {
    /// The file as a shard.
    pub const fn file(bytes: u64) -> Shard {
        Shard { inner: None, offset: 0, bytes }
    }

    /// Its level: 0 is the file.
    pub const fn level(&self) -> u32 {
        self.inner.is_some() as u32
    }

    /// What texts call its index: "shard index", or "index of inner shard 5 (300 bytes at 4000)".
    pub fn index_name(&self) -> IndexName<'_> {
        IndexName(self)
    }
}

/// See [`Shard::index_name`].
pub struct IndexName<'a>(&'a Shard);

impl fmt::Display for IndexName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self.0 {
            Shard { inner: None, .. } => f.write_str("shard index"),
            Shard { inner: Some(number), offset, bytes } => {
                write!(f, "index of inner shard {number} ({bytes} bytes at {offset})")
            }
        }
    }
}

/// One entry of an index.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Entry {
    /// The chunk, or every chunk of the inner shard, was never written: it reads as the fill value.
    Missing,
    /// The bytes of the chunk or the inner shard in the file.
    Range {
        /// First byte, from the start of the file.
        offset: u64,
        /// Number of bytes, at least 1.
        bytes: u64,
    },
}

/// Where the index of a shard lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IndexPlace {
    /// First byte, from the start of the file.
    pub offset: u64,
    /// Bytes of the entries.
    pub entry_bytes: u64,
    /// Bytes of the entries and the checksum behind them.
    pub total_bytes: u64,
}

impl IndexPlace {
    /// The place of the index of a shard. DECODE where the shard is too short for its index.
    pub fn find(record: &ArrayRecord, shard: &Shard, why: &mut Why) -> Result<IndexPlace, Status> {
        let level = shard.level();
        assert!(level < record.shard_levels);
        let layout = &record.index[level as usize];
        // Meta refuses such arrays; a record that was made otherwise must not overflow below.
        let Some(count) = entry_count(record, level).filter(|count| *count <= SHARD_CHUNKS_MAX)
        else {
            return Err(fail!(why, Unsupported, "a shard of more than {SHARD_CHUNKS_MAX} chunks"));
        };
        let entry_bytes = count * INDEX_ENTRY_BYTES as u64;
        let total_bytes = layout.bytes(count);
        let Some(behind) = shard.bytes.checked_sub(total_bytes) else {
            let Shard { inner, offset, bytes } = *shard;
            return Err(match inner {
                None => fail!(
                    why,
                    Decode,
                    "shard of {bytes} bytes is shorter than its index of {total_bytes} bytes"
                ),
                Some(number) => fail!(
                    why,
                    Decode,
                    "inner shard {number} of {bytes} bytes at {offset} is shorter than its index \
                     of {total_bytes} bytes"
                ),
            });
        };
        let offset = shard.offset + if layout.at_start { 0 } else { behind };
        Ok(IndexPlace { offset, entry_bytes, total_bytes })
    }

    /// Bytes of the index of a file that is a shard, if it is the end of the file.
    pub fn bytes_at_end(record: &ArrayRecord) -> Option<u64> {
        let layout = &record.index[0];
        let is_there = record.shard_levels > 0 && !layout.at_start;
        let count = if is_there { entry_count(record, 0)? } else { return None };
        Some(layout.bytes(count))
    }

    /// Number of entries.
    #[cfg(feature = "internals")]
    pub fn entry_count(&self) -> u64 {
        self.entry_bytes / INDEX_ENTRY_BYTES as u64
    }

    /// Number of pages of [`INDEX_PAGE_ENTRIES`] entries; the last may be short.
    #[cfg(feature = "internals")]
    pub fn page_count(&self) -> u64 {
        self.entry_bytes.div_ceil(PAGE_BYTES)
    }

    /// Page `page`: its first byte from the start of the file, and its bytes. Never empty.
    #[cfg(feature = "internals")]
    pub fn page(&self, page: u64) -> (u64, u64) {
        assert!(page < self.page_count());
        let first = page * PAGE_BYTES;
        (self.offset + first, PAGE_BYTES.min(self.entry_bytes - first))
    }
}

/// The page that holds entry `entry`, and the entry's place in it.
pub fn page_of_entry(entry: u64) -> (u64, usize) {
    let per_page = INDEX_PAGE_ENTRIES as u64;
    (entry / per_page, (entry % per_page) as usize)
}

/// The entries of chunk number `chunk` of a file, whose record this is, outermost level first; 0
/// past the levels.
///
/// `chunk` counts the chunks of the file row-major in array order, whatever shards they are in. The
/// index of a level counts its cells row-major in the level's axis order.
///
/// Worked example: files of [4, 6] chunks, inner shards of [2, 3]. Chunk 16 is [2, 4]: in inner
/// shard [1, 1], number 3 of 2 x 2, there [0, 1], number 1 of 2 x 3. Behind a transpose in front of
/// the outer shard the inner one is still number 3, and its chunk is [1, 0] of 3 x 2, number 2.
pub fn entry_numbers(record: &ArrayRecord, chunk: u64) -> [u64; SHARD_LEVELS_MAX] {
    let levels = record.shard_levels as usize;
    assert!(0 < levels && levels <= SHARD_LEVELS_MAX);
    let mut entries = [0; SHARD_LEVELS_MAX];
    if levels == 1 && record.axis_order[0] == IN_ORDER && !record.is_cut {
        entries[0] = chunk;
        return entries;
    }
    let axes = record.axes();
    let mut at = [0; RANK_MAX];
    coordinates_from_linear(chunk, &record.chunk_counts()[..axes], &mut at[..axes]);
    for axis in 0..axes {
        at[axis] = record.chunk_first(axis, at[axis]);
    }
    for (level, entry) in entries[..levels].iter_mut().enumerate() {
        let (shard, cell) = (&record.shard_shape[level], cell_shape(record, level as u32));
        let (mut cells, mut counts) = ([0; RANK_MAX], [1; RANK_MAX]);
        for (place, axis) in record.axis_order[level][..axes].iter().enumerate() {
            let axis = usize::from(*axis);
            cells[place] = at[axis] / cell[axis];
            at[axis] %= cell[axis];
            counts[place] = shard[axis] / cell[axis];
        }
        *entry = linear_from_coordinates(&cells[..axes], &counts[..axes]);
    }
    entries
}

/// Number of entries in the index of a shard of level `level`; None where it overflows.
pub fn entry_count(record: &ArrayRecord, level: u32) -> Option<u64> {
    assert!(level < record.shard_levels);
    let shard = &record.shard_shape[level as usize];
    let cell = cell_shape(record, level);
    let mut counts = [1; RANK_MAX];
    for axis in 0..record.axes() {
        counts[axis] = shard[axis] / cell[axis];
    }
    product(&counts[..record.axes()])
}

/// Extents of the thing that one entry of level `level` is of: a shard of the next level, or a
/// chunk as it is stored.
fn cell_shape(record: &ArrayRecord, level: u32) -> &[u64; RANK_MAX] {
    if level + 1 < record.shard_levels {
        &record.shard_shape[level as usize + 1]
    } else {
        record.stored_shape()
    }
}

/// How long the bytes behind an entry may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EntryBytes {
    /// Exactly this: nothing in the chain compresses.
    Exactly(u64),
    /// This at most.
    AtMost(u64),
}

impl EntryBytes {
    /// The rule for entries of level `level`.
    pub fn find(record: &ArrayRecord, level: u32) -> EntryBytes {
        assert!(level < record.shard_levels);
        let exact = record.stored_bytes();
        if level + 1 == record.shard_levels {
            return match exact {
                Some(bytes) => EntryBytes::Exactly(bytes),
                None => EntryBytes::AtMost(record.encoded_bytes_max()),
            };
        }
        // A shard in a shard: all its chunks at their longest, and its index. Shards may also have
        // gaps, which nobody writes into inner shards, so twice that.
        let chunk = exact.unwrap_or(record.encoded_bytes_max());
        let count = entry_count(record, level + 1).unwrap_or(u64::MAX);
        let index = record.index[level as usize + 1].bytes(count);
        EntryBytes::AtMost(count.saturating_mul(chunk).saturating_mul(2).saturating_add(index))
    }
}

/// Reads one entry of the index at `place` in `shard`. DECODE, with the numbers, for an entry that
/// no writer makes.
pub fn parse_entry(
    raw: &[u8; INDEX_ENTRY_BYTES],
    record: &ArrayRecord,
    shard: &Shard,
    place: &IndexPlace,
    why: &mut Why,
) -> Result<Entry, Status> {
    let byte_order = record.index[shard.level() as usize].byte_order;
    // The words count from the start of the shard, the place of the index from that of the file.
    let first = place.offset - shard.offset;
    let index = Span { first, limit: first + place.total_bytes };
    let found = cell_place(raw, byte_order, shard.bytes, index);
    let found = found.map_err(|bad| fail!(why, Decode, "{} entry {bad}", shard.index_name()))?;
    let Some(span) = found else { return Ok(Entry::Missing) };
    check_bytes(span.bytes(), record, shard, why)?;
    Ok(Entry::Range { offset: shard.offset + span.first, bytes: span.bytes() })
}

fn check_bytes(
    bytes: u64,
    record: &ArrayRecord,
    shard: &Shard,
    why: &mut Why,
) -> Result<(), Status> {
    let name = shard.index_name();
    let cell = if shard.level() + 1 < record.shard_levels { "an inner shard" } else { "a chunk" };
    match EntryBytes::find(record, shard.level()) {
        EntryBytes::Exactly(exact) if bytes != exact => Err(fail!(
            why,
            Decode,
            "{name} entry has {bytes} bytes where an uncompressed chunk has {exact}"
        )),
        EntryBytes::AtMost(most) if bytes > most => Err(fail!(
            why,
            Decode,
            "{name} entry has {bytes} bytes where {cell} of this array takes at most {most}"
        )),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
