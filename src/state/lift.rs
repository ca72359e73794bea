//! A worker's part of a slab, filled chunk by chunk on the way to a device.
//!
//! In: decoded bytes and units. Out: both in the slab, where `device` left room for them, or room
//! there to decode into; and the number of tiles of each unit. Once it is finished, every record of
//! the part is written, those that nothing was to be done for as records of no work, and no unit
//! reads of a chunk's room what was not decoded, so that what the device works on is never left
//! over from a wave before.

use crate::assemble::units::{ChunkData, Filter, Piece, Unit};
use crate::assemble::wire::{NOTHING, Record, folds_to_bytes};
use crate::base::arena::{Region, Table};
use crate::base::math::{align_up, index};
use crate::decode::Filtered;
use crate::device::{DATA_ALIGN, Layout, Part, TILES_BYTES, UNIT_BYTES};
use static_assertions::const_assert;

/// See the module.
pub struct Lift {
    slab: Region,
    /// Tiles of each record of the slab, and bytes that it writes.
    tiles: &'static mut [Tiles],
    /// First byte of the first record of the part.
    records_at: u64,
    part: Part,
    used_bytes: u64,
    used_units: u32,
}

/// What a record comes to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tiles {
    /// Blocks of the launch.
    pub count: u32,
    /// Bytes that they write.
    pub bytes: u64,
}

const_assert!(size_of::<Tiles>() as u64 == TILES_BYTES);

/// Most blocks of a launch.
const BLOCKS_MAX: u32 = i32::MAX as u32;

/// Writes the first tile of each record, and that behind the last. How many tiles there are, and
/// the bytes that they write; None where they are more than a launch takes.
pub fn write_first_tiles(records: &[Tiles], places: &mut [[u8; 4]]) -> Option<(u32, u64)> {
    assert!(places.len() == records.len() + 1);
    let (mut tiles, mut bytes) = (0u32, 0);
    for (place, record) in places.iter_mut().zip(records) {
        *place = tiles.to_ne_bytes();
        tiles = tiles.checked_add(record.count).filter(|tiles| *tiles <= BLOCKS_MAX)?;
        bytes += record.bytes;
    }
    places[records.len()] = tiles.to_ne_bytes();
    Some((tiles, bytes))
}

/// A place in the slab that a whole chunk is decoded into.
#[derive(Clone, Copy)]
pub struct Room {
    /// Its memory.
    pub region: Region,
    /// The same as a place in the wave.
    data: u64,
}

impl Room {
    /// What of the chunk was decoded, each byte at its place.
    pub fn holds(&self, decoded: &Filtered<'_>) -> ChunkData {
        let Filtered { chunk, shuffle: filter, block_bytes, typesize } = *decoded;
        let (data, bytes) = (self.data + chunk.first, chunk.bytes.len() as u64);
        assert!(chunk.first + bytes <= self.region.bytes());
        ChunkData { data, first: chunk.first, bytes, filter, block_bytes, typesize }
    }
}

impl Lift {
    /// An empty part of a slab. `tiles` has a row for each unit of every slab.
    pub fn new(slab: Region, tiles: &Table<Tiles>, layout: &Layout, part: Part) -> Lift {
        let row = u64::from(part.slab) * u64::from(layout.units) + u64::from(part.unit);
        Lift {
            slab,
            tiles: tiles.rows_mut(index(row), index(u64::from(part.need.units))),
            records_at: layout.data_bytes + u64::from(part.unit) * UNIT_BYTES,
            part,
            used_bytes: 0,
            used_units: 0,
        }
    }

    /// Copies decoded bytes of a chunk, the first of which is byte `first` of it, to where elements
    /// are aligned as in the chunk.
    pub fn put(&mut self, bytes: &[u8], first: u64) -> ChunkData {
        let phase = if bytes.is_empty() { 0 } else { first % DATA_ALIGN };
        let length = bytes.len() as u64;
        let data = self.take(phase + length) + phase;
        self.slab.rows(data, length).copy_from_slice(bytes);
        ChunkData { data, first, bytes: length, filter: Filter::None, block_bytes: 0, typesize: 0 }
    }

    /// Takes room for a chunk of `bytes` bytes, to be decoded into it: elements are then aligned as
    /// in the chunk.
    pub fn room(&mut self, bytes: u64) -> Room {
        let data = self.take(bytes);
        Room { region: self.slab.part(data, bytes), data }
    }

    /// Takes bytes of the part; their place in the wave.
    fn take(&mut self, bytes: u64) -> u64 {
        let data = self.part.data + self.used_bytes;
        self.used_bytes = align_up(self.used_bytes + bytes, DATA_ALIGN);
        assert!(self.used_bytes <= self.part.need.data_bytes);
        data
    }

    /// Adds a unit and its folds; the bytes that it writes.
    pub fn push_piece(&mut self, piece: &Piece) -> u64 {
        let bytes = self.push(&piece.unit);
        if let Some(folds) = &piece.folds {
            self.write(&folds_to_bytes(folds), Tiles::default());
        }
        bytes
    }

    /// Adds a unit without folds; the bytes that it writes.
    pub fn push(&mut self, unit: &Unit) -> u64 {
        let count = unit.tile_count();
        // A batch slot has 2^44 bytes at most, of which no device has memory, and a tile, but for
        // the last, has TILE_VECTORS vectors of at least a byte.
        assert!(count <= u64::from(u32::MAX));
        let tiles = Tiles { count: count as u32, bytes: unit.target_span() };
        self.write(&unit.to_bytes(), tiles);
        tiles.bytes
    }

    /// Writes what is left of the part.
    pub fn finish(mut self) {
        while self.used_units < self.part.need.units {
            self.write(&NOTHING, Tiles::default());
        }
    }

    fn write(&mut self, record: &Record, tiles: Tiles) {
        assert!(self.used_units < self.part.need.units);
        let at = self.records_at + u64::from(self.used_units) * UNIT_BYTES;
        self.slab.rows(at, UNIT_BYTES).copy_from_slice(record);
        self.tiles[index(u64::from(self.used_units))] = tiles;
        self.used_units += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_of_a_wave_are_counted_up_to_what_a_launch_takes() {
        let of = |count| Tiles { count, bytes: 10 };
        let mut places = [[0xA5; 4]; 4];
        let records = [of(7), of(0), of(BLOCKS_MAX - 7)];
        assert_eq!(write_first_tiles(&records, &mut places), Some((BLOCKS_MAX, 30)));
        assert_eq!(places.map(u32::from_ne_bytes), [0, 7, 7, BLOCKS_MAX]);
        for last in [BLOCKS_MAX - 6, u32::MAX - 6, u32::MAX] {
            assert_eq!(write_first_tiles(&[of(7), of(0), of(last)], &mut places), None);
        }
    }
}
