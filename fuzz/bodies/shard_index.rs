//! Any bytes as the indexes of a shard and of the shards in it: every entry is missing, refused
//! with a text, or a range that a reader may follow; and every chunk has the entries that counting
//! through the shards gives it.
//!
//! Input: one byte of flags (bit 0: indexes at the start, bit 1: no checksum, bit 2: big endian,
//! bit 3: nothing compresses, bit 4: a shard in a shard, bit 5: a transpose in front of the shard,
//! bit 6: one behind it), one byte of cells per axis, eight bytes of shard size (little endian),
//! then entries: of the shard, and where there is one, of the last inner shard that they gave.

use wavetrain::base::limits::{INDEX_ENTRY_BYTES, SHARDS_MAX};
use wavetrain::read::shard_index::{
    Entry, EntryBytes, IndexPlace, Shard, entry_count, entry_numbers, page_of_entry, parse_entry,
};
use wavetrain::records::{ArrayRecord, ByteOrder, Codec, IndexLayout};
use wavetrain::status::{Status, Why};

/// Bytes before the entries.
const HEAD_BYTES: usize = 10;

/// Most cells per axis of a shard whose chunks are all counted.
const COUNTED_MAX: u64 = 5;

/// Checks one input.
pub fn run(data: &[u8]) {
    let Some((head, entries)) = data.split_first_chunk::<HEAD_BYTES>() else { return };
    let [flags, edge, size @ ..] = *head;
    check_numbers(&record(flags, u64::from(edge) % COUNTED_MAX + 1));
    let record = record(flags, u64::from(edge).max(1));
    let mut shard = Shard::file(u64::from_le_bytes(size));
    let mut found = place_of(&record, &shard);
    for raw in entries.as_chunks::<INDEX_ENTRY_BYTES>().0 {
        let Some((place, rule)) = found else { return };
        let mut why = Why::new();
        match parse_entry(raw, &record, &shard, &place, &mut why) {
            Ok(Entry::Missing) => assert_eq!(*raw, [0xFF; INDEX_ENTRY_BYTES]),
            Ok(Entry::Range { offset, bytes }) => {
                check_range(offset, bytes, &place, &shard);
                match rule {
                    EntryBytes::Exactly(exact) => assert_eq!(bytes, exact),
                    EntryBytes::AtMost(most) => assert!(bytes <= most),
                }
                if shard.level() + 1 < record.shard_levels {
                    shard = Shard { inner: Some(1), offset, bytes };
                    found = place_of(&record, &shard);
                }
            }
            Err(status) => assert_refusal(status, &shard, &why),
        }
    }
}

/// Where the index of a shard lies, and how long what its entries stand for may be.
fn place_of(record: &ArrayRecord, shard: &Shard) -> Option<(IndexPlace, EntryBytes)> {
    let mut why = Why::new();
    match IndexPlace::find(record, shard, &mut why) {
        Ok(place) => {
            check_place(record, &place, shard);
            Some((place, EntryBytes::find(record, shard.level())))
        }
        Err(status) => {
            assert_refusal(status, shard, &why);
            None
        }
    }
}

fn record(flags: u8, edge: u64) -> ArrayRecord {
    let mut record = ArrayRecord::EMPTY;
    record.rank = 2;
    record.chunk_shape[..2].copy_from_slice(&[16, 16]);
    record.chunk_bytes = 256;
    record.shard_levels = if flags & 16 == 0 { 1 } else { 2 };
    record.shard_shape[0][..2].copy_from_slice(&[32 * edge, 48 * edge]);
    record.shard_shape[1][..2].copy_from_slice(&[32, 48]);
    record.index = [IndexLayout {
        at_start: flags & 1 != 0,
        has_crc: flags & 2 == 0,
        byte_order: if flags & 4 == 0 { ByteOrder::Little } else { ByteOrder::Big },
    }; SHARDS_MAX];
    let mut is_turned = flags & 32 != 0;
    for order in &mut record.axis_order {
        order[..2].copy_from_slice(if is_turned { &[1, 0] } else { &[0, 1] });
        is_turned ^= flags & 64 != 0;
    }
    record.codecs.push(if flags & 8 == 0 { Codec::Zstd } else { Codec::Crc32c });
    record
}

fn assert_refusal(status: Status, shard: &Shard, why: &Why) {
    assert_eq!(status, Status::Decode);
    assert_eq!(why.as_str().contains("inner shard 1 "), shard.level() == 1, "{why}");
    assert!(!why.is_empty());
}

fn check_place(record: &ArrayRecord, place: &IndexPlace, shard: &Shard) {
    let count = entry_count(record, shard.level()).unwrap();
    assert_eq!(place.entry_count(), count);
    assert!(place.total_bytes >= place.entry_bytes);
    assert!(place.offset >= shard.offset);
    let limit = place.offset.checked_add(place.total_bytes).unwrap();
    assert!(limit <= shard.offset + shard.bytes);
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
    assert_eq!(((at + 1) * INDEX_ENTRY_BYTES) as u64, place.page(page).1);
}

fn check_range(offset: u64, bytes: u64, place: &IndexPlace, shard: &Shard) {
    let limit = offset.checked_add(bytes).unwrap();
    assert!(bytes > 0);
    assert!(offset >= shard.offset && limit <= shard.offset + shard.bytes);
    assert!(limit <= place.offset || offset >= place.offset + place.total_bytes);
}

/// Counts through all entries of all levels and finds each chunk where `entry_numbers` says.
fn check_numbers(record: &ArrayRecord) {
    let file = record.shard_shape[0];
    let whole = [file[0] / 16, file[1] / 16];
    let mut seen = 0;
    for (outer, outer_at) in cells(record, 0) {
        if record.shard_levels == 1 {
            let number = outer_at[0] * whole[1] + outer_at[1];
            assert_eq!(entry_numbers(record, number), [outer, 0]);
            seen += 1;
            continue;
        }
        for (inner, inner_at) in cells(record, 1) {
            let at = [outer_at[0] * 2 + inner_at[0], outer_at[1] * 3 + inner_at[1]];
            assert_eq!(entry_numbers(record, at[0] * whole[1] + at[1]), [outer, inner]);
            seen += 1;
        }
    }
    assert_eq!(seen, record.chunks_per_file());
}

/// The entries of a level in the order of its index, with their cells in array order.
fn cells(record: &ArrayRecord, level: usize) -> Vec<(u64, [u64; 2])> {
    let cell = match record.shard_levels as usize - level {
        1 => record.chunk_shape,
        _ => record.shard_shape[level + 1],
    };
    let shard = record.shard_shape[level];
    let counts = [shard[0] / cell[0], shard[1] / cell[1]];
    let [slow, fast] = [0, 1].map(|place| usize::from(record.axis_order[level][place]));
    let mut found = Vec::new();
    for a in 0..counts[slow] {
        for b in 0..counts[fast] {
            let mut at = [0; 2];
            (at[slow], at[fast]) = (a, b);
            found.push((found.len() as u64, at));
        }
    }
    found
}
