//! Places, entries and entry numbers, each rule at its edge and one past it.

use super::*;
use crate::base::limits::compressed_bytes_max;
use crate::records::{ByteOrder, Codec, IndexLayout, MISSING};
use std::vec::Vec;

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
    IndexPlace::find(record, &Shard::file(shard_bytes), &mut Why::new())
}

fn parse(record: &ArrayRecord, offset: u64, bytes: u64, why: &mut Why) -> Result<Entry, Status> {
    let place = place(record, 1000).unwrap();
    let mut raw = [0; 16];
    raw[..8].copy_from_slice(&offset.to_le_bytes());
    raw[8..].copy_from_slice(&bytes.to_le_bytes());
    parse_entry(&raw, record, &Shard::file(1000), &place, why)
}

fn refused(record: &ArrayRecord, offset: u64, bytes: u64, text: &str) {
    let mut why = Why::new();
    assert_eq!(parse(record, offset, bytes, &mut why), Err(Status::Decode));
    assert!(why.as_str().contains(text), "{why}");
}

#[test]
fn the_index_lies_at_either_end_with_or_without_its_checksum() {
    let found = |at_start, has_crc| place(&record(at_start, has_crc), 1000);
    let expected = |offset, total_bytes| Ok(IndexPlace { offset, entry_bytes: 96, total_bytes });
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
    let (most, shard) = (compressed_bytes_max(100), Shard::file(1000));
    assert_eq!(EntryBytes::find(&record, 0), EntryBytes::AtMost(most));
    let mut why = Why::new();
    assert_eq!(check_bytes(most, &record, &shard, &mut why), Ok(()));
    assert_eq!(check_bytes(most + 1, &record, &shard, &mut why), Err(Status::Decode));
    assert!(why.as_str().contains("where a chunk of this array takes at most"), "{why}");
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
    let mut record = record(true, true);
    record.index[0].byte_order = ByteOrder::Big;
    let place = place(&record, 1000).unwrap();
    let mut raw = [0; 16];
    raw[..8].copy_from_slice(&177u64.to_be_bytes());
    raw[8..].copy_from_slice(&5u64.to_be_bytes());
    let entry = parse_entry(&raw, &record, &Shard::file(1000), &place, &mut Why::new());
    assert_eq!(entry, Ok(Entry::Range { offset: 177, bytes: 5 }));
}

#[test]
fn pages_cover_the_entries_and_nothing_else() {
    let place = IndexPlace { offset: 1000, entry_bytes: 600 * 16, total_bytes: 600 * 16 + 4 };
    assert_eq!(place.page_count(), 3);
    assert_eq!(place.page(0), (1000, 4096));
    assert_eq!(place.page(2), (1000 + 8192, 600 * 16 - 8192));
    assert_eq!(page_of_entry(0), (0, 0));
    assert_eq!(page_of_entry(511), (1, 255));
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

/// 4 inner shards of 6 chunks each.
fn nested(at_start: bool) -> ArrayRecord {
    let mut record = record(at_start, true);
    record.shard_levels = 2;
    record.shard_shape[0][..2].copy_from_slice(&[40, 60]);
    record.shard_shape[1][..2].copy_from_slice(&[20, 30]);
    record.index[1] = record.index[0];
    record
}

#[test]
fn the_index_of_an_inner_shard_lies_at_either_end_of_its_range() {
    let shard = Shard { inner: Some(3), offset: 5000, bytes: 700 };
    let find = |at_start| IndexPlace::find(&nested(at_start), &shard, &mut Why::new());
    let expected = |offset| Ok(IndexPlace { offset, entry_bytes: 96, total_bytes: 100 });
    assert_eq!((find(true), find(false)), (expected(5000), expected(5600)));
    let mut why = Why::new();
    let short = Shard { bytes: 99, ..shard };
    assert_eq!(IndexPlace::find(&nested(true), &short, &mut why), Err(Status::Decode));
    let says = "inner shard 3 of 99 bytes at 5000 is shorter than its index of 100 bytes";
    assert_eq!(why.as_str(), says);
}

#[test]
fn entries_of_an_inner_shard_count_from_its_start_and_end_with_it() {
    let (record, shard) = (nested(false), Shard { inner: Some(3), offset: 5000, bytes: 700 });
    let place = IndexPlace::find(&record, &shard, &mut Why::new()).unwrap();
    let parse = |offset: u64, bytes: u64| {
        let mut raw = [0; 16];
        raw[..8].copy_from_slice(&offset.to_le_bytes());
        raw[8..].copy_from_slice(&bytes.to_le_bytes());
        let mut why = Why::new();
        let entry = parse_entry(&raw, &record, &shard, &place, &mut why);
        assert!(entry.is_ok() || why.as_str().starts_with("index of inner shard 3 (700 "));
        entry
    };
    assert_eq!(parse(0, 600), Ok(Entry::Range { offset: 5000, bytes: 600 }));
    assert_eq!(parse(599, 1), Ok(Entry::Range { offset: 5599, bytes: 1 }));
    assert_eq!(parse(MISSING, MISSING), Ok(Entry::Missing));
    for (offset, bytes) in [(0, 601), (650, 10), (600, 101), (0, 0), (5, MISSING), (5000, 10)] {
        assert_eq!(parse(offset, bytes), Err(Status::Decode), "{offset} {bytes}");
    }
}

#[test]
fn entry_numbers_are_those_of_the_worked_example() {
    let mut record = nested(false);
    assert_eq!(record.chunk_counts()[..2], [4, 6]);
    assert_eq!(entry_numbers(&record, 16), [3, 1]);
    for level in 0..3 {
        record.axis_order[level][..2].copy_from_slice(&[1, 0]);
    }
    assert_eq!(entry_numbers(&record, 16), [3, 2]);
}

#[test]
fn parts_of_a_stored_chunk_have_one_entry_which_has_its_bytes() {
    let mut record = record(false, true);
    record.codecs.clear();
    // Parts of 4, 4 and 2 rows.
    (record.is_cut, record.shard_shape[1]) = (true, record.chunk_shape);
    record.chunk_shape[0] = 4;
    record.chunk_bytes = 40;
    assert_eq!(record.chunk_counts()[..2], [6, 3]);
    let entries: Vec<u64> = (0..18).map(|chunk| entry_numbers(&record, chunk)[0]).collect();
    assert_eq!(entries, [[0, 1, 2].repeat(3), [3, 4, 5].repeat(3)].concat());
    assert_eq!(entry_count(&record, 0), Some(6));
    assert_eq!(EntryBytes::find(&record, 0), EntryBytes::Exactly(100));
}

#[test]
fn entry_numbers_of_one_level_in_order_are_the_chunk_numbers() {
    let record = record(false, true);
    assert!((0..6).all(|chunk| entry_numbers(&record, chunk) == [chunk, 0]));
}

#[test]
fn every_pair_of_entries_is_one_chunk() {
    let mut record = nested(false);
    record.axis_order[0][..2].copy_from_slice(&[1, 0]);
    let pairs: std::collections::BTreeSet<[u64; 2]> =
        (0..24).map(|chunk| entry_numbers(&record, chunk)).collect();
    let all = (0..4).flat_map(|inner| (0..6).map(move |chunk| [inner, chunk]));
    assert!(pairs.into_iter().eq(all));
}

#[test]
fn more_chunks_than_a_shard_may_have_are_unsupported() {
    let mut record = record(false, true);
    record.shard_shape[0][..2].copy_from_slice(&[10 << 15, 10 << 15]);
    assert_eq!(place(&record, u64::MAX).map(|place| place.entry_count()), Ok(1 << 30));
    record.shard_shape[0][..2].copy_from_slice(&[u64::MAX, u64::MAX]);
    assert_eq!(place(&record, u64::MAX), Err(Status::Unsupported));
}

#[test]
fn the_bytes_of_an_index_at_the_end_are_known_before_the_size_of_its_file() {
    let bytes = |at_start, has_crc| IndexPlace::bytes_at_end(&record(at_start, has_crc));
    assert_eq!([bytes(false, true), bytes(false, false)], [Some(6 * 16 + 4), Some(6 * 16)]);
    assert_eq!([bytes(true, true), bytes(true, false)], [None, None]);
    assert_eq!(IndexPlace::bytes_at_end(&ArrayRecord::EMPTY), None);
}
