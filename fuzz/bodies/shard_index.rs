//! Any bytes as the index of a shard: every entry is missing, refused with a text, or a range that
//! a reader may follow.
//!
//! Input: one byte of flags (bit 0: index at the start, bit 1: no checksum, bit 2: big endian, bit
//! 3: nothing compresses, bit 4: a shard in a shard), one byte of chunks per axis, eight bytes of
//! shard size (little endian), then entries.

use wavetrain::limits::INDEX_ENTRY_BYTES;
use wavetrain::records::{ArrayRecord, ByteOrder, Codec, IndexLayout};
use wavetrain::shard_index::{
    Entry, EntryBytes, IndexPlace, entry_count, page_of_entry, parse_entry,
};
use wavetrain::status::{Status, Why};

/// Bytes before the entries.
const HEAD_BYTES: usize = 10;

/// Checks one input.
pub fn run(data: &[u8]) {
    let Some((head, entries)) = data.split_first_chunk::<HEAD_BYTES>() else { return };
    let [flags, edge, size @ ..] = *head;
    let record = record(flags, u64::from(edge).max(1));
    let shard_bytes = u64::from_le_bytes(size);
    let mut why = Why::new();
    let place = match IndexPlace::find(&record, 0, shard_bytes, &mut why) {
        Ok(place) => place,
        Err(status) => return assert_refusal(status, &why),
    };
    check_place(&record, &place, shard_bytes);
    let rule = EntryBytes::find(&record, 0);
    for raw in entries.as_chunks::<INDEX_ENTRY_BYTES>().0 {
        match parse_entry(raw, &record.index[0], &place, shard_bytes, rule, &mut why) {
            Ok(Entry::Missing) => assert_eq!(*raw, [0xFF; INDEX_ENTRY_BYTES]),
            Ok(Entry::Range { offset, bytes }) => {
                check_range(offset, bytes, &place, shard_bytes);
                match rule {
                    EntryBytes::Exactly(exact) => assert_eq!(bytes, exact),
                    EntryBytes::AtMost(most) => assert!(bytes <= most),
                }
            }
            Err(status) => assert_refusal(status, &why),
        }
    }
}

fn record(flags: u8, edge: u64) -> ArrayRecord {
    let mut record = ArrayRecord::EMPTY;
    record.rank = 2;
    record.chunk_shape[..2].fill(16);
    record.chunk_bytes = 256;
    record.shard_levels = if flags & 16 == 0 { 1 } else { 2 };
    record.shard_shape[0][..2].fill(32 * edge);
    record.shard_shape[1][..2].fill(32);
    record.index[0] = IndexLayout {
        at_start: flags & 1 != 0,
        has_crc: flags & 2 == 0,
        byte_order: if flags & 4 == 0 { ByteOrder::Little } else { ByteOrder::Big },
    };
    record.codecs.push(if flags & 8 == 0 { Codec::Zstd } else { Codec::Crc32c });
    record
}

fn assert_refusal(status: Status, why: &Why) {
    assert_eq!(status, Status::Decode);
    assert!(!why.is_empty());
}

fn check_place(record: &ArrayRecord, place: &IndexPlace, shard_bytes: u64) {
    let count = entry_count(record, 0).unwrap();
    assert_eq!(place.entry_count(), count);
    assert!(place.total_bytes >= place.entry_bytes);
    assert!(place.offset.checked_add(place.total_bytes).unwrap() <= shard_bytes);
    let mut next = place.offset;
    for page in 0..place.page_count() {
        let (first, bytes) = place.page(page);
        assert_eq!(first, next);
        assert!(bytes > 0);
        next += bytes;
    }
    assert_eq!(next, place.offset + place.entry_bytes);
    let (page, at) = page_of_entry(count - 1);
    assert_eq!(page, place.page_count() - 1);
    assert_eq!((at + INDEX_ENTRY_BYTES) as u64, place.page(page).1);
}

fn check_range(offset: u64, bytes: u64, place: &IndexPlace, shard_bytes: u64) {
    let limit = offset.checked_add(bytes).unwrap();
    assert!(bytes > 0);
    assert!(limit <= shard_bytes);
    assert!(limit <= place.offset || offset >= place.offset + place.total_bytes);
}
