//! A worker's part of a slab, filled chunk by chunk on the way to a device.
//!
//! In: decoded bytes and units. Out: both in the slab, in the room that `device` left for them, or
//! room in it to decode into; and the number of tiles of each unit. Once it is finished, every
//! record of the part is written, those that nothing was to be done for as records of no work, and
//! no unit reads of a chunk's room what was not decoded, so that what the device works on is never
//! left over from a wave before.

use crate::assemble::units::{ChunkData, Filter, Piece, Unit};
use crate::assemble::wire::{NOTHING, Record};
use crate::base::arena::Claim;
use crate::base::math::{align_up, index};
use crate::decode::{BlockFilter, Filtered};
use crate::device::{DATA_ALIGN, SlabPart, TILES_BYTES, UNIT_BYTES};
use static_assertions::const_assert;

/// See the module.
#[derive(Debug)]
pub struct SlabWriter {
    part: SlabPart,
    /// The room for data that was not handed out.
    data: Claim<'static>,
    records: Claim<'static>,
    /// First byte that the device decodes to which was not handed out.
    decoded: u64,
    /// Tiles of each record of the part, and bytes that it writes.
    tiles: &'static mut [Tiles],
    used_bytes: u64,
    used_units: u32,
}

/// A stream of a slab, before it is laid into it.
pub use crate::device::Stream as StreamRow;

/// The work of a record.
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

/// Writes the first tile of each record, and the one after the last. Returns the number of tiles,
/// and the bytes that they write; None if they are more than a launch takes.
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
pub struct SlabChunk {
    /// Its memory.
    pub claim: Claim<'static>,
    /// The same as a place in the wave.
    pub data: u64,
}

/// What of a chunk was decoded to `data` in the wave, each byte at its place.
pub fn chunk_data(data: u64, decoded: &Filtered<'_>) -> ChunkData {
    let Filtered { chunk, filter } = *decoded;
    let BlockFilter { shuffle: filter, block_bytes, typesize } = filter;
    let (first, bytes) = (chunk.first, chunk.bytes.len() as u64);
    ChunkData { data: data + first, first, bytes, filter, block_bytes, typesize }
}

impl SlabWriter {
    /// An empty part of a slab: its data, its records, and the tiles of these.
    pub fn new(
        part: SlabPart,
        data: Claim<'static>,
        records: Claim<'static>,
        tiles: &'static mut [Tiles],
    ) -> SlabWriter {
        let decoded = part.decoded;
        SlabWriter { part, data, records, decoded, tiles, used_bytes: 0, used_units: 0 }
    }

    /// Copies decoded bytes of a chunk, the first of which is byte `first` of it, to a place at
    /// which elements are aligned as in the chunk.
    pub fn put(&mut self, bytes: &[u8], first: u64) -> ChunkData {
        let phase = if bytes.is_empty() { 0 } else { first % DATA_ALIGN };
        let length = bytes.len() as u64;
        let SlabChunk { mut claim, data } = self.room(phase + length);
        claim.part(phase, length).copy_from_slice(bytes);
        let data = data + phase;
        ChunkData { data, first, bytes: length, filter: Filter::None, block_bytes: 0, typesize: 0 }
    }

    /// Takes room for a chunk of `bytes` bytes, to be decoded into it: elements are then aligned as
    /// in the chunk.
    pub fn room(&mut self, bytes: u64) -> SlabChunk {
        let data = self.part.data + self.used_bytes;
        self.used_bytes = align_up(self.used_bytes + bytes, DATA_ALIGN);
        assert!(self.used_bytes <= self.part.need.data_bytes);
        let claim = self.data.take_front(bytes);
        self.data.take_front(self.part.data + self.used_bytes - data - bytes);
        SlabChunk { claim, data }
    }

    /// The slab.
    pub fn slab(&self) -> u32 {
        self.part.slab
    }

    /// Room for encoded bytes, which `room` then gives.
    pub fn front(&mut self, bytes: u64) -> &mut [u8] {
        self.data.part(0, bytes)
    }

    /// Takes room for a chunk of `bytes` bytes that the device decodes: its place in the wave.
    pub fn decoded_room(&mut self, bytes: u64) -> u64 {
        let place = self.decoded;
        self.decoded = align_up(self.decoded + bytes, DATA_ALIGN);
        assert!(self.decoded <= self.part.decoded + self.part.need.decoded_bytes);
        place
    }

    /// Adds a unit and what follows it; the bytes that it writes.
    pub fn push_piece(&mut self, piece: &Piece<'_>) -> u64 {
        let bytes = self.push(&piece.unit);
        piece.records().for_each(|record| self.write(&record, Tiles::default()));
        bytes
    }

    /// Adds a unit that nothing follows; the bytes that it writes.
    pub fn push(&mut self, unit: &Unit) -> u64 {
        let count = unit.tile_count();
        // A batch slot has 2^44 bytes at most, of which no device has memory, and a tile, but for
        // the last, has TILE_VECTORS vectors of at least a byte.
        assert!(count <= u64::from(u32::MAX));
        let tiles = Tiles { count: count as u32, bytes: unit.target_span() };
        self.write(&unit.to_bytes(), tiles);
        tiles.bytes
    }

    /// Writes what is left of the part, which it gives back.
    pub fn finish(mut self) -> SlabPart {
        while self.used_units < self.part.need.units {
            self.write(&NOTHING, Tiles::default());
        }
        self.part
    }

    fn write(&mut self, record: &Record, tiles: Tiles) {
        assert!(self.used_units < self.part.need.units);
        let at = u64::from(self.used_units) * UNIT_BYTES;
        self.records.part(at, UNIT_BYTES).copy_from_slice(record);
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
