//! Where a shard keeps its index, and what its entries mean.
//!
//! In: the array, the size of a shard and raw index bytes. Out: places and checked entries.
//! Invariant: a [`Entry::Range`] lies inside its shard, outside the index, is not empty and is no
//! longer than a chunk of the array can be, so a read of it is bounded whatever the file says.

use crate::base::math::product;
use crate::fail;
use crate::limits::{
    INDEX_ENTRY_BYTES, INDEX_PAGE_ENTRIES, RANK_MAX, SHARD_CHUNKS_MAX, compressed_bytes_max,
};
use crate::records::{ArrayRecord, ByteOrder, IndexLayout};
use crate::status::{Status, Why};

/// Bytes of the CRC-32C behind the entries.
pub const CRC_BYTES: u64 = 4;

/// Bytes of a whole page of entries.
const PAGE_BYTES: u64 = (INDEX_PAGE_ENTRIES * INDEX_ENTRY_BYTES) as u64;

/// Both words of an entry whose chunk was never written.
const MISSING: u64 = u64::MAX;

/// One entry of an index.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Entry {
    /// The chunk was never written; it reads as the fill value.
    Missing,
    /// The chunk's bytes in its shard.
    Range {
        /// First byte, from the start of the shard.
        offset: u64,
        /// Number of bytes, at least 1.
        bytes: u64,
    },
}

/// Where the index of a shard lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IndexPlace {
    /// First byte, from the start of the shard.
    pub offset: u64,
    /// Bytes of the entries.
    pub entry_bytes: u64,
    /// Bytes of the entries and the checksum behind them.
    pub total_bytes: u64,
}

impl IndexPlace {
    /// The place of the index of a shard of level `level` (0: the file) that has `shard_bytes`
    /// bytes. DECODE where the shard is too short for its index.
    pub fn find(
        record: &ArrayRecord,
        level: u32,
        shard_bytes: u64,
        why: &mut Why,
    ) -> Result<IndexPlace, Status> {
        assert!(level < record.shard_levels);
        let layout = &record.index[level as usize];
        let Some(count) = entry_count(record, level).filter(|count| *count <= SHARD_CHUNKS_MAX)
        else {
            return Err(fail!(why, Unsupported, "a shard of more than {SHARD_CHUNKS_MAX} chunks"));
        };
        let entry_bytes = count * INDEX_ENTRY_BYTES as u64;
        let total_bytes = entry_bytes + if layout.has_crc { CRC_BYTES } else { 0 };
        let Some(behind) = shard_bytes.checked_sub(total_bytes) else {
            return Err(fail!(
                why,
                Decode,
                "shard of {shard_bytes} bytes is shorter than its index of {total_bytes} bytes"
            ));
        };
        let offset = if layout.at_start { 0 } else { behind };
        Ok(IndexPlace { offset, entry_bytes, total_bytes })
    }

    /// Number of entries.
    pub fn entry_count(&self) -> u64 {
        self.entry_bytes / INDEX_ENTRY_BYTES as u64
    }

    /// Number of pages of [`INDEX_PAGE_ENTRIES`] entries; the last may be short.
    pub fn page_count(&self) -> u64 {
        self.entry_bytes.div_ceil(PAGE_BYTES)
    }

    /// Page `page`: its first byte from the start of the shard, and its bytes. Never empty.
    pub fn page(&self, page: u64) -> (u64, u64) {
        assert!(page < self.page_count());
        let first = page * PAGE_BYTES;
        (self.offset + first, PAGE_BYTES.min(self.entry_bytes - first))
    }
}

/// The page that holds entry `entry`, and the entry's first byte in it.
pub fn page_of_entry(entry: u64) -> (u64, usize) {
    let per_page = INDEX_PAGE_ENTRIES as u64;
    (entry / per_page, (entry % per_page) as usize * INDEX_ENTRY_BYTES)
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

/// Extents of what one entry of level `level` stands for: a shard of the next level or a chunk.
fn cell_shape(record: &ArrayRecord, level: u32) -> &[u64; RANK_MAX] {
    if level + 1 < record.shard_levels {
        &record.shard_shape[level as usize + 1]
    } else {
        &record.chunk_shape
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
        let exact = record.encoded_bytes(record.codecs.len());
        if level + 1 == record.shard_levels {
            return match exact {
                Some(bytes) => EntryBytes::Exactly(bytes),
                None => EntryBytes::AtMost(compressed_bytes_max(record.chunk_bytes)),
            };
        }
        // A shard in a shard: all its chunks at their longest, and its index. Shards may also have
        // gaps, which nobody writes into inner shards, so twice that.
        let chunk = exact.unwrap_or(compressed_bytes_max(record.chunk_bytes));
        let count = entry_count(record, level + 1).unwrap_or(u64::MAX);
        let index = count.saturating_mul(INDEX_ENTRY_BYTES as u64).saturating_add(CRC_BYTES);
        EntryBytes::AtMost(count.saturating_mul(chunk).saturating_mul(2).saturating_add(index))
    }
}

/// Reads one entry of the index at `place` in a shard of `shard_bytes` bytes. DECODE, with the
/// numbers, for an entry that no writer makes.
pub fn parse_entry(
    raw: &[u8; INDEX_ENTRY_BYTES],
    layout: &IndexLayout,
    place: &IndexPlace,
    shard_bytes: u64,
    rule: EntryBytes,
    why: &mut Why,
) -> Result<Entry, Status> {
    let (offset, bytes) = words(raw, layout.byte_order);
    match (offset == MISSING, bytes == MISSING) {
        (true, true) => return Ok(Entry::Missing),
        (false, false) => {}
        _ => {
            return Err(fail!(
                why,
                Decode,
                "shard index entry is half empty: offset {offset}, {bytes} bytes"
            ));
        }
    }
    let Some(limit) = offset.checked_add(bytes).filter(|limit| *limit <= shard_bytes) else {
        return Err(fail!(
            why,
            Decode,
            "shard index entry (offset {offset}, {bytes} bytes) lies beyond its shard of \
             {shard_bytes} bytes"
        ));
    };
    if bytes == 0 {
        return Err(fail!(why, Decode, "shard index entry at offset {offset} has 0 bytes"));
    }
    if offset < place.offset + place.total_bytes && place.offset < limit {
        return Err(fail!(
            why,
            Decode,
            "shard index entry (offset {offset}, {bytes} bytes) lies in the index itself, \
             {} bytes at {}",
            place.total_bytes,
            place.offset
        ));
    }
    check_bytes(bytes, rule, why)?;
    Ok(Entry::Range { offset, bytes })
}

fn check_bytes(bytes: u64, rule: EntryBytes, why: &mut Why) -> Result<(), Status> {
    match rule {
        EntryBytes::Exactly(exact) if bytes != exact => Err(fail!(
            why,
            Decode,
            "shard index entry has {bytes} bytes where an uncompressed chunk has {exact}"
        )),
        EntryBytes::AtMost(most) if bytes > most => Err(fail!(
            why,
            Decode,
            "shard index entry has {bytes} bytes where a chunk of this array takes at most {most}"
        )),
        _ => Ok(()),
    }
}

fn words(raw: &[u8; INDEX_ENTRY_BYTES], byte_order: ByteOrder) -> (u64, u64) {
    let mut halves = [[0u8; 8]; 2];
    halves[0].copy_from_slice(&raw[..8]);
    halves[1].copy_from_slice(&raw[8..]);
    let [offset, bytes] = halves.map(|half| match byte_order {
        ByteOrder::Little => u64::from_le_bytes(half),
        ByteOrder::Big => u64::from_be_bytes(half),
    });
    (offset, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::Codec;

    /// 6 chunks of 100 bytes in a shard, zstd.
    fn record(at_start: bool, has_crc: bool) -> ArrayRecord {
        let mut record = ArrayRecord::EMPTY.clone();
        record.rank = 2;
        record.chunk_shape[..2].copy_from_slice(&[10, 10]);
        record.chunk_bytes = 100;
        record.shard_levels = 1;
        record.shard_shape[0][..2].copy_from_slice(&[20, 30]);
        record.index[0] = IndexLayout { at_start, has_crc, byte_order: ByteOrder::Little };
        record.codecs.push(Codec::Zstd);
        record
    }

    fn place(record: &ArrayRecord, shard_bytes: u64) -> Result<IndexPlace, Status> {
        IndexPlace::find(record, 0, shard_bytes, &mut Why::new())
    }

    fn parse(
        record: &ArrayRecord,
        offset: u64,
        bytes: u64,
        why: &mut Why,
    ) -> Result<Entry, Status> {
        let place = place(record, 1000).unwrap();
        let mut raw = [0; 16];
        raw[..8].copy_from_slice(&offset.to_le_bytes());
        raw[8..].copy_from_slice(&bytes.to_le_bytes());
        let rule = EntryBytes::find(record, 0);
        parse_entry(&raw, &record.index[0], &place, 1000, rule, why)
    }

    fn refused(record: &ArrayRecord, offset: u64, bytes: u64, text: &str) {
        let mut why = Why::new();
        assert_eq!(parse(record, offset, bytes, &mut why), Err(Status::Decode));
        assert!(why.as_str().contains(text), "{why}");
    }

    #[test]
    fn the_index_lies_at_either_end_with_or_without_its_checksum() {
        let found = |at_start, has_crc| place(&record(at_start, has_crc), 1000);
        let expected =
            |offset, total_bytes| Ok(IndexPlace { offset, entry_bytes: 96, total_bytes });
        assert_eq!(found(false, true), expected(900, 100));
        assert_eq!(found(false, false), expected(904, 96));
        assert_eq!(found(true, true), expected(0, 100));
        assert_eq!(found(true, false), expected(0, 96));
    }

    #[test]
    fn a_shard_shorter_than_its_index_is_refused() {
        assert!(place(&record(false, true), 100).is_ok());
        assert_eq!(place(&record(false, true), 99), Err(Status::Decode));
        assert_eq!(place(&record(true, true), 0), Err(Status::Decode));
    }

    #[test]
    fn two_empty_words_are_a_missing_chunk_and_one_is_half_empty() {
        let record = record(false, true);
        assert_eq!(parse(&record, MISSING, MISSING, &mut Why::new()), Ok(Entry::Missing));
        refused(&record, MISSING, 5, "half empty");
        refused(&record, 5, MISSING, "half empty");
    }

    #[test]
    fn entries_up_to_the_index_are_taken_and_one_byte_further_refused() {
        let record = record(false, true);
        let entry = parse(&record, 800, 100, &mut Why::new());
        assert_eq!(entry, Ok(Entry::Range { offset: 800, bytes: 100 }));
        refused(&record, 800, 101, "in the index itself");
        refused(&record, 950, 10, "in the index itself");
    }

    #[test]
    fn an_index_at_the_start_belongs_to_no_chunk() {
        let record = record(true, true);
        let entry = parse(&record, 100, 900, &mut Why::new());
        assert_eq!(entry, Ok(Entry::Range { offset: 100, bytes: 900 }));
        refused(&record, 99, 900, "in the index itself");
        refused(&record, 0, 1, "in the index itself");
    }

    #[test]
    fn entries_that_are_empty_overflow_or_leave_the_shard_are_refused() {
        let record = record(true, true);
        refused(&record, 200, 0, "0 bytes");
        refused(&record, 200, 801, "beyond its shard of 1000 bytes");
        refused(&record, u64::MAX - 1, 5, "beyond its shard");
        refused(&record, 5, u64::MAX - 1, "beyond its shard");
    }

    #[test]
    fn an_entry_longer_than_a_chunk_can_be_is_refused() {
        let record = record(true, true);
        let most = compressed_bytes_max(100);
        let rule = EntryBytes::find(&record, 0);
        assert_eq!(rule, EntryBytes::AtMost(most));
        assert_eq!(check_bytes(most, rule, &mut Why::new()), Ok(()));
        assert_eq!(check_bytes(most + 1, rule, &mut Why::new()), Err(Status::Decode));
    }

    #[test]
    fn an_uncompressed_chunk_has_exactly_its_bytes() {
        let mut record = record(true, true);
        record.codecs.clear();
        record.codecs.push(Codec::Crc32c);
        assert!(parse(&record, 200, 104, &mut Why::new()).is_ok());
        refused(&record, 200, 103, "an uncompressed chunk has 104");
        refused(&record, 200, 105, "an uncompressed chunk has 104");
    }

    #[test]
    fn words_of_a_big_endian_index_are_swapped() {
        let mut raw = [0; 16];
        raw[..8].copy_from_slice(&77u64.to_be_bytes());
        raw[8..].copy_from_slice(&5u64.to_be_bytes());
        assert_eq!(words(&raw, ByteOrder::Big), (77, 5));
    }

    #[test]
    fn pages_cover_the_entries_and_nothing_else() {
        let place = IndexPlace { offset: 1000, entry_bytes: 600 * 16, total_bytes: 600 * 16 + 4 };
        assert_eq!(place.page_count(), 3);
        assert_eq!(place.page(0), (1000, 4096));
        assert_eq!(place.page(2), (1000 + 8192, 600 * 16 - 8192));
        assert_eq!(page_of_entry(0), (0, 0));
        assert_eq!(page_of_entry(511), (1, 255 * 16));
    }

    #[test]
    fn levels_have_their_own_counts_and_a_shard_in_a_shard_its_own_bound() {
        let mut record = record(false, true);
        record.shard_levels = 2;
        record.shard_shape[0][..2].copy_from_slice(&[40, 60]);
        record.shard_shape[1][..2].copy_from_slice(&[20, 30]);
        assert_eq!(entry_count(&record, 0), Some(4));
        assert_eq!(entry_count(&record, 1), Some(6));
        let most = 2 * 6 * compressed_bytes_max(100) + 6 * 16 + 4;
        assert_eq!(EntryBytes::find(&record, 0), EntryBytes::AtMost(most));
    }

    #[test]
    fn more_chunks_than_a_shard_may_have_are_unsupported() {
        let mut record = record(false, true);
        record.shard_shape[0][..2].copy_from_slice(&[10 << 15, 10 << 15]);
        assert_eq!(place(&record, u64::MAX).map(|place| place.entry_count()), Ok(1 << 30));
        record.shard_shape[0][..2].copy_from_slice(&[u64::MAX, u64::MAX]);
        assert_eq!(place(&record, u64::MAX), Err(Status::Unsupported));
    }
}
