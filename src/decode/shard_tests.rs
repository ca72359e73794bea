//! Whole shards: hostile indexes, damage at every byte, and cells that are missing.

use super::decoder::test_support::decoder;
use super::zstd::test_support::compress;
use super::*;
use crate::records::{ByteOrder, Dtype, Filter, IndexLayout, MISSING};
use std::string::String;
use std::vec;
use std::vec::Vec;

/// Chunks of 4 x 6 elements of two bytes, in shards of four cells, and what is left of their cells.
const CELLS: usize = 4;
const CELL_BYTES: usize = 12;
const CHUNK_BYTES: usize = CELLS * CELL_BYTES;

fn record(codecs: &[Codec], has_crc: bool) -> ArrayRecord {
    let mut record = ArrayRecord::EMPTY.clone();
    (record.rank, record.dtype, record.dtype_bytes) = (2, Dtype::U16, 2);
    record.byte_order = ByteOrder::Big;
    record.chunk_shape[..2].copy_from_slice(&[4, 6]);
    record.shard_shape[0][..2].copy_from_slice(&[2, 3]);
    record.index[0] = IndexLayout { at_start: false, has_crc, byte_order: ByteOrder::Little };
    record.fill[..2].copy_from_slice(&0x0102u16.to_ne_bytes());
    record.codecs = codecs.iter().copied().collect();
    record.pack_chunk();
    record
}

const SHARD: Codec = Codec::Filter(Filter::Shard(0));

/// The bytes of a cell by its number in the index: none is 0.
fn cell(number: usize) -> Vec<u8> {
    (0..CELL_BYTES).map(|at| (1 + number * CELL_BYTES + at) as u8).collect()
}

/// Cells, and entries of the places that they are said to be at.
fn shard(cells: &[Vec<u8>], entries: &[(u64, u64)], has_crc: bool) -> Vec<u8> {
    let words = entries.iter().flat_map(|(offset, bytes)| [*offset, *bytes]);
    let index: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
    let sum = ::crc32c::crc32c(&index).to_le_bytes();
    [&cells.concat()[..], &index[..], if has_crc { &sum[..] } else { &[] }].concat()
}

/// Places of cells one after the other.
fn places(cells: &[Vec<u8>]) -> Vec<(u64, u64)> {
    let mut first = 0;
    let place = |cell: &Vec<u8>| {
        first += cell.len() as u64;
        (first - cell.len() as u64, cell.len() as u64)
    };
    cells.iter().map(place).collect()
}

fn run(record: &ArrayRecord, encoded: &[u8]) -> Result<Vec<u8>, (Status, String)> {
    let (target, block) = (target_need(record), block_need(record, encoded));
    let mut target = vec![0xA5; index(target) + 64];
    let mut block = vec![0xA5; index(block)];
    let room = target.len() - 64;
    let scratch = Scratch { target: &mut target[..room], block: &mut block };
    let mut why = Why::new();
    let need = Span { first: 0, limit: record.chunk_bytes };
    let mut decoder = decoder();
    let decoded = decode_chunk(&mut decoder, record, 0, encoded, need, scratch, &mut why);
    let bytes = decoded.map(|decoded| decoded.bytes.to_vec());
    assert!(target[CHUNK_BYTES..].iter().all(|byte| *byte == 0xA5), "after the chunk");
    bytes.map_err(|status| (status, why.as_str().into()))
}

/// The chunk of cells, those without bytes missing.
fn chunk(cells: &[Option<Vec<u8>>]) -> Vec<u8> {
    let fill = [1, 2].repeat(CELL_BYTES / 2);
    let rows = (0..4).flat_map(|row| [0, 1].map(|column| (row, column)));
    rows.flat_map(|(row, column)| {
        let cell = cells[row / 2 * 2 + column].as_ref().unwrap_or(&fill);
        cell[row % 2 * 6..][..6].to_vec()
    })
    .collect()
}

#[test]
fn cells_have_their_places_and_missing_ones_are_the_fill_value_in_the_order_of_the_bytes() {
    let record = record(&[SHARD, Codec::Zstd], true);
    let cells: Vec<Vec<u8>> = (0..CELLS).map(cell).collect();
    let encoded = compress(&shard(&cells, &places(&cells), true), false);
    assert_eq!(run(&record, &encoded), Ok(chunk(&[0, 1, 2, 3].map(|number| Some(cell(number))))));
    let mut entries = places(&cells);
    (entries[1], entries[2]) = ((MISSING, MISSING), (MISSING, MISSING));
    let encoded = compress(&shard(&cells, &entries, true), false);
    let want = chunk(&[Some(cell(0)), None, None, Some(cell(3))]);
    assert_eq!(run(&record, &encoded), Ok(want));
}

#[test]
fn cells_may_share_bytes() {
    let record = record(&[SHARD], false);
    let encoded = shard(&[cell(2)], &[(0, 12); CELLS], false);
    assert_eq!(run(&record, &encoded), Ok(chunk(&[(); CELLS].map(|()| Some(cell(2))))));
}

#[test]
fn hostile_entries_are_refused_with_their_numbers() {
    let cells: Vec<Vec<u8>> = (0..CELLS).map(cell).collect();
    for (entry, says) in [
        ((MISSING, 12), "is half empty"),
        ((12, MISSING), "is half empty"),
        ((0, 0), "at offset 0 has 0 bytes"),
        ((101, 12), "lies beyond its shard of 112 bytes"),
        ((u64::MAX - 5, 12), "lies beyond its shard of 112 bytes"),
        ((12, u64::MAX - 5), "lies beyond its shard of 112 bytes"),
        ((37, 12), "lies in the index itself, 64 bytes at 48"),
        ((48, 12), "lies in the index itself, 64 bytes at 48"),
        ((12, 11), "chunk 1 of a shard has 11 bytes where 12 are expected"),
        ((12, 13), "chunk 1 of a shard has 13 bytes where 12 are expected"),
    ] {
        let mut entries = places(&cells);
        entries[1] = entry;
        for codecs in [&[SHARD][..], &[SHARD, Codec::Crc32c], &[SHARD, Codec::Zstd]] {
            let mut encoded = shard(&cells, &entries, false);
            match codecs.last() {
                Some(Codec::Zstd) => encoded = compress(&encoded, false),
                Some(Codec::Crc32c) => {
                    let sum = ::crc32c::crc32c(&encoded).to_le_bytes();
                    encoded.extend(sum);
                }
                _ => {}
            }
            let (status, why) = run(&record(codecs, false), &encoded).unwrap_err();
            assert_eq!(status, Status::Decode);
            assert!(why.contains(says), "{why}, not {says}");
        }
    }
}

#[test]
fn damage_anywhere_is_found_or_stays_in_its_cells() {
    let cells: Vec<Vec<u8>> = (0..CELLS).map(|number| compress(&cell(number), true)).collect();
    let sound = shard(&cells, &places(&cells), true);
    let record = record(&[Codec::Zstd, SHARD], true);
    let want = run(&record, &sound);
    assert_eq!(want, Ok(chunk(&[0, 1, 2, 3].map(|number| Some(cell(number))))));
    for cut in 0..sound.len() {
        assert!(run(&record, &sound[..cut]).is_err(), "cut at {cut}");
    }
    for bit in 0..8 * sound.len() {
        let mut broken = sound.clone();
        broken[bit / 8] ^= 1 << (bit % 8);
        // Some bits of a frame's header change nothing.
        let found = run(&record, &broken);
        assert!(found == want || found.is_err_and(|(status, _)| status == Status::Decode), "{bit}");
    }
    let loose = self::record(&[Codec::Zstd, SHARD], false);
    let bare = shard(&cells, &places(&cells), false);
    assert_eq!(run(&loose, &bare), want);
    // Without a checksum an entry may be that of another cell.
    for bit in 0..8 * bare.len() {
        let mut broken = bare.clone();
        broken[bit / 8] ^= 1 << (bit % 8);
        let _ = run(&loose, &broken);
    }
}

#[test]
fn a_shard_that_is_shorter_than_its_index_or_longer_than_a_shard_can_be_is_refused() {
    let cells: Vec<Vec<u8>> = (0..CELLS).map(cell).collect();
    let record = record(&[SHARD, Codec::Zstd], true);
    let refused = |bytes: &[u8], says: &str| {
        let (status, why) = run(&record, &compress(bytes, false)).unwrap_err();
        assert!(status == Status::Decode && why.contains(says), "{why}, not {says}");
    };
    let sound = shard(&cells, &places(&cells), true);
    refused(&[], "shard of 0 bytes is shorter than its index of 68 bytes");
    refused(&sound[..67], "shard of 67 bytes is shorter than its index of 68 bytes");
    let most = index(record.sizes(1).encoded_max);
    assert_eq!(most, sound.len());
    let longer = [&vec![7; 12][..], &sound].concat();
    refused(&longer, "zstd frame declares 128 bytes where 116 are expected");
}

#[test]
fn a_shard_in_a_shard_is_decoded_in_what_the_outer_one_leaves() {
    let mut record =
        record(&[Codec::Zstd, Codec::Filter(Filter::Shard(1)), Codec::Crc32c, SHARD], true);
    record.shard_shape[1][..2].copy_from_slice(&[1, 3]);
    record.index[1] = IndexLayout { at_start: false, has_crc: true, byte_order: ByteOrder::Little };
    let inner: Vec<Vec<u8>> = (0..CELLS)
        .map(|number| {
            let rows: Vec<Vec<u8>> =
                cell(number).chunks(6).map(|row| compress(row, false)).collect();
            let mut bytes = shard(&rows, &places(&rows), true);
            let sum = ::crc32c::crc32c(&bytes).to_le_bytes();
            bytes.extend(sum);
            bytes
        })
        .collect();
    let sound = shard(&inner, &places(&inner), true);
    let want = chunk(&[0, 1, 2, 3].map(|number| Some(cell(number))));
    assert_eq!(run(&record, &sound), Ok(want));
    for bit in 0..8 * sound.len() {
        let mut broken = sound.clone();
        broken[bit / 8] ^= 1 << (bit % 8);
        assert!(run(&record, &broken).is_err(), "{bit}");
    }
}
