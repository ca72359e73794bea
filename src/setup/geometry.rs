//! Sizes of scratch and staging, solved in closed form from the memory cap.
//!
//! In: settings, and what everything else takes. Out: [`Geometry`]. Invariant: its bill is within
//! the cap, and every chunk up to the settings' cap can be staged and decoded in it.

use crate::assemble::blanks::BLANKS_MAX;
use crate::assemble::changes::change_records;
use crate::assemble::units::{chunk_records_max, outside_records_max};
use crate::base::limits::{
    BUFFER_ALIGN, MEMORY_PAGE_BYTES, METADATA_BYTES_MAX, RANK_MAX, SAMPLES_MAX,
    compressed_bytes_max, streams_max,
};
use crate::base::math::align_up;
use crate::base::status::{Status, Why};
use crate::base::text::Size;
use crate::cuda::digests::parts;
use crate::cuda::engine::DEVICE_PAGE_BYTES;
use crate::cuda::{RESIDENT_WAVES, Sizes};
use crate::device::{Layout, SlabNeed, Stream, TILES_BYTES, UNIT_BYTES};
use crate::fail;
use crate::records::arithmetic_words;
use crate::setup::config::{DECODE_AUTO, DECODE_ON};
use crate::setup::fields::Field;
use crate::setup::settings::Settings;

/// Chunks up to this size are read and decoded in a worker's own scratch, which stays in its cache;
/// larger ones are staged in the slab and borrow from the common scratch.
pub const SMALL_CHUNK_BYTES: u64 = 1 << 20;
/// Staging memory that the geometry asks for if the cap allows it.
const SLAB_WISH_BYTES: u64 = 16 << 20;
/// The same for each decoder: a wave is staged until its last chunk is decoded, and the others have
/// chunks of other waves meanwhile.
const DECODER_WISH_BYTES: u64 = 4 << 20;
/// The same for a device that decodes all that it can: it is slow with few streams at a time.
const DEVICE_WISH_BYTES: u64 = 64 << 20;
/// Bytes of a resident wave that the geometry asks for if the caps allow it: a millisecond of a
/// fast link, so that a launch and a look are nothing beside it.
const WAVE_WISH_BYTES: u64 = 64 << 20;
/// The bytes that it decodes to, likewise: twice as much as comes over the bus.
const DECODED_WISH_BYTES: u64 = 2 * WAVE_WISH_BYTES;
/// The same if the caller gave device memory for it: a warp decodes a stream by itself, and what a
/// large device has at a time are four thousand warps; a stream of blosc's may be 128 KiB.
const DECODED_GIVEN_BYTES: u64 = 4096 * (128 << 10);
/// The most decoders beside which a device decodes unless the config insists: two or three had the
/// rate of an H200 (benches/log/2026-11-26-h200.md).
const DEVICE_DECODERS_MAX: u32 = 2;
/// The bytes that a stream decodes to on the average, or more: blosc's blocks are larger, but for
/// the least.
const STREAM_DATA_BYTES: u64 = 4 << 10;
/// Host bytes of a stream for each slab: in the slab, in the table that is packed into it, and, of
/// fewer resident waves than slabs, its word.
const STREAM_HOST_BYTES: u64 = 2 * Stream::BYTES + 8;
/// Data that comes with one unit on the average: small chunks have less, and fill the units first.
const UNIT_DATA_BYTES: u64 = 16 << 10;
/// Sizes that follow from the memory cap.
#[derive(Clone, Copy, Debug, Default)]
pub struct Geometry {
    /// Bytes of each worker's place for an encoded chunk.
    pub staging_bytes: u64,
    /// Bytes of each worker's place for a decoded chunk.
    pub target_bytes: u64,
    /// Bytes of each worker's place for a block before its filter is undone.
    pub block_bytes: u64,
    /// Bytes of the common scratch: large chunks, and metadata documents that are too large for a
    /// worker's buffer.
    pub pool_bytes: u64,
    /// Bytes of the ring that waves are staged in.
    pub slab_bytes: u64,
    /// Slabs and resident waves; empty on the host.
    pub device: Layout,
}

/// How many times smaller than its bytes a chunk is taken to be staged, where it is asked how many
/// are at a time: of chunks that are smaller still, and as large as the cap, not every decoder gets
/// one at once.
const PACKED_TIMES: u64 = 4;

/// Bytes in whole pages.
fn pages(bytes: u64) -> u64 {
    align_up(bytes, MEMORY_PAGE_BYTES)
}

/// The least max_chunk_uncompressed_bytes whose common scratch has so many bytes; 0: any has.
pub fn chunk_cap_of_scratch(bytes: u64) -> u64 {
    // As `floor_geometry` makes it: two large chunks, or more.
    if bytes <= METADATA_BYTES_MAX as u64 {
        0
    } else {
        bytes.div_ceil(2).max(SMALL_CHUNK_BYTES + 1)
    }
}

impl Settings {
    /// The least geometry that streams every chunk up to the cap: common scratch for one large
    /// chunk of one block, staging for one chunk. `target_bytes(chunk)` is the room for a decoded
    /// chunk.
    pub fn floor_geometry(&self, target_bytes: impl Fn(u64) -> u64) -> Geometry {
        let chunk_bytes = self.config.max_chunk_uncompressed_bytes;
        let small_bytes = chunk_bytes.min(SMALL_CHUNK_BYTES);
        let large_count = if chunk_bytes > SMALL_CHUNK_BYTES { 2 } else { 0 };
        let large_bytes = large_count * pages(target_bytes(chunk_bytes));
        Geometry {
            staging_bytes: pages(compressed_bytes_max(small_bytes)),
            target_bytes: pages(target_bytes(small_bytes)),
            block_bytes: pages(target_bytes(small_bytes)),
            pool_bytes: large_bytes.max(METADATA_BYTES_MAX as u64),
            slab_bytes: pages(compressed_bytes_max(chunk_bytes) + BUFFER_ALIGN),
            device: self.floor_layout(),
        }
    }

    /// The least slab that takes every chunk up to the cap: its bytes, and units for all boxes of a
    /// batch that touch it, for what lies around one or none covers, or for samples that failed.
    fn floor_layout(&self) -> Layout {
        if !self.is_cuda() {
            return Layout::default();
        }
        let need = SlabNeed::of(self.config.max_chunk_uncompressed_bytes, 0);
        let changes = self.change_records();
        let boxes = self.boxes_per_batch().0 * chunk_records_max(changes);
        let failed = u64::from(self.config.samples_per_batch) * self.fields.len() as u64;
        // A box of memory of a device takes its unit with what lies around it.
        let around = outside_records_max(RANK_MAX as u64, changes);
        let around = if self.takes_parts { around + 1 + u64::from(changes) } else { around };
        let around = around.max(BLANKS_MAX);
        let units = boxes.max(failed).max(around) as u32;
        let layout = Layout { data_bytes: need.data_bytes, units, ..Layout::default() };
        match self.config.device_decode {
            DECODE_ON => self.decoding_layout(layout),
            _ => layout,
        }
    }

    /// Most records of what is done to the elements of a box that a unit of a device has; 0 if
    /// boxes are cast alone.
    pub fn change_records(&self) -> u32 {
        if !self.is_cuda() || self.per_sample.augment_words == 0 {
            return 0;
        }
        // Arithmetic is for floats.
        let ranks = self.fields.iter().filter(|field| field.has_floats());
        let ranks = ranks.map(|field| field.extents().len());
        ranks.max().map_or(0, |rank| change_records(arithmetic_words(rank), rank))
    }

    /// The layout if the device decodes the largest chunk, with as many streams as it may have.
    fn decoding_layout(&self, layout: Layout) -> Layout {
        let chunk_bytes = self.config.max_chunk_uncompressed_bytes;
        let streams = streams_max(chunk_bytes) as u32;
        // Workers were faster with frames: a device decodes them if the config insists.
        let is_forced = self.config.device_decode == DECODE_ON;
        let scratch_bytes = if is_forced { 2 * pages(chunk_bytes) } else { 0 };
        Layout { streams, decoded_bytes: pages(chunk_bytes), scratch_bytes, ..layout }
    }

    /// Lets the device decode, if decoders are few, the caps have room for it and the config allows
    /// it.
    fn add_decoding(&self, geometry: &mut Geometry, bill: &impl Fn(&Geometry) -> u64) {
        let mut with = *geometry;
        with.device = self.decoding_layout(with.device);
        let device_bytes = self.device_sizes(&with.device, 0).device_bytes();
        let is_left = self.is_cuda() && self.config.device_decode == DECODE_AUTO;
        if is_left
            && self.decode_threads <= DEVICE_DECODERS_MAX
            && device_bytes <= self.device_bytes_max()
            && bill(&with) <= self.host_bytes_max()
        {
            *geometry = with;
        }
    }

    /// The resources that a loader takes for a device: slabs and resident waves of a layout, batch
    /// slots, and so many bytes of staging.
    pub fn device_sizes(&self, layout: &Layout, staging_bytes: u64) -> Sizes {
        Sizes {
            slots_bytes: self.slots_bytes(),
            slots: self.config.n_batch_slots,
            wave_bytes: layout.bytes(),
            decoded_bytes: layout.decoded_bytes,
            scratch_bytes: layout.scratch_bytes,
            streams: layout.streams,
            slabs: self.config.host_buffer_waves,
            staging_bytes,
            slot_shares: self.first_share(self.per_sample.digests as usize),
        }
    }

    /// Place of the first share of a field's digests among those of a slot on a device.
    pub fn first_share(&self, field: usize) -> u64 {
        let samples = u64::from(self.config.samples_per_batch);
        self.fields[..field].iter().map(|field| samples * parts(field.sample_bytes)).sum()
    }

    /// Bytes of staging that are plain host memory: none with a device.
    pub fn plain_staging_bytes(&self, geometry: &Geometry) -> u64 {
        if self.is_cuda() { 0 } else { geometry.slab_bytes }
    }

    /// Lets the least layout grow to its wish, as far as the device's cap and `spare` host bytes
    /// allow.
    fn grow_layout(&self, layout: &mut Layout, spare: u64, why: &mut Why) -> Result<(), Status> {
        if !self.is_cuda() {
            return Ok(());
        }
        let (floor, cap) = (self.device_sizes(layout, 0), self.device_bytes_max());
        if floor.device_bytes() > cap {
            return Err(fail!(
                why,
                Budget,
                "max_gpu_memory_bytes = {cap}: this config needs at least {}. Batch slots take {}, \
                 each of {RESIDENT_WAVES} resident waves {} and {} for its chunks, decoding {}, \
                 rounding {}. Raise the cap, or lower samples_per_batch, n_batch_slots or \
                 max_chunk_uncompressed_bytes{}",
                Size(floor.device_bytes()),
                floor.slots_bytes,
                floor.wave_bytes,
                floor.decoded_bytes,
                floor.scratch_bytes,
                floor.rest_bytes(),
                if floor.streams > 0 { ", or leave device_decode = on" } else { "" }
            ));
        }
        // Device memory comes in whole pages: a part of one at the end of the cap is not to be had,
        // and what the last page of the floor has left over is.
        let pages = cap & !(DEVICE_PAGE_BYTES - 1);
        let device_more = (pages - floor.used_bytes()) / RESIDENT_WAVES as u64;
        let mut device_more = device_more & !(MEMORY_PAGE_BYTES - 1);
        // Each slab is rounded to pages, and so is the table beside them.
        let slabs = u64::from(floor.slabs);
        let mut host_more = spare.saturating_sub((slabs + 4) * MEMORY_PAGE_BYTES) / slabs;
        if layout.streams > 0 {
            let is_given = self.config.max_gpu_memory_bytes > 0;
            let wish = if is_given { DECODED_GIVEN_BYTES } else { DECODED_WISH_BYTES };
            grow_decoding(layout, wish, &mut device_more, &mut host_more);
        }
        let wish = WAVE_WISH_BYTES.saturating_sub(layout.data_bytes);
        // A unit for every so many bytes comes with the data, beside those of the least layout.
        let unit_bytes = UNIT_DATA_BYTES + UNIT_BYTES + size_of::<u32>() as u64;
        let units =
            (device_more.min(wish) / unit_bytes).min(host_more / (unit_bytes + TILES_BYTES));
        layout.units = layout.units.saturating_add(units as u32);
        layout.data_bytes += units * UNIT_DATA_BYTES;
        assert!(self.device_sizes(layout, 0).device_bytes() <= cap);
        Ok(())
    }

    /// How many large chunks the samples of all batch slots lie in on the average, wherever they
    /// lie and where chunks are cubes along the axes of a sample that are longer than 1.
    ///
    /// Worked example: 8 samples of 32^3 in 3 slots, f32. The least large chunk is 64^3; a sample
    /// meets (64 + 31) / 64 of them along an axis, so 24 samples meet 79.
    fn large_chunks_in_work(&self) -> u64 {
        self.fields.iter().map(|field| self.large_chunks_of(field)).sum()
    }

    fn large_chunks_of(&self, field: &Field) -> u64 {
        let extents = field.extents();
        let axes = extents.iter().filter(|extent| **extent > 1).count() as u32;
        let elements = SMALL_CHUNK_BYTES / u64::from(field.dtype_bytes);
        let fits = |edge: &u64| edge.checked_pow(axes).is_some_and(|volume| volume <= elements);
        // Ends: an edge is a power of two, so there are twenty at most.
        let edges = core::iter::successors(Some(2u64), |edge| edge.checked_mul(2));
        let edge = edges.take_while(|edge| *edge <= elements && fits(edge)).last().unwrap_or(1);
        let samples = u64::from(self.config.samples_per_batch * self.config.n_batch_slots);
        let meet = |chunks: u64, extent: &u64| {
            let touched = chunks.saturating_mul(edge.saturating_add(extent - 1));
            touched.div_ceil(edge).min(SAMPLES_MAX as u64)
        };
        extents.iter().fold(samples, meet)
    }

    /// Solves the geometry. `bill(g)` is the whole bill under geometry `g`.
    ///
    /// Everything but common scratch and staging is fixed; of what the cap leaves, staging gets its
    /// wish, then the common scratch room for as many large chunks as there are decoders, if the
    /// samples can give them as many, and staging too. With less room decoders wait for each other.
    pub fn solve(
        &self,
        target_bytes: impl Fn(u64) -> u64,
        bill: impl Fn(&Geometry) -> u64,
        why: &mut Why,
    ) -> Result<Geometry, Status> {
        let mut geometry = self.floor_geometry(&target_bytes);
        self.add_decoding(&mut geometry, &bill);
        let (floor, cap) = (bill(&geometry), self.host_bytes_max());
        if floor > cap {
            return Err(fail!(
                why,
                Budget,
                "max_host_memory_bytes = {cap}: this config needs at least {}: raise the cap",
                Size(floor)
            ));
        }
        let staged = self.more_staging(&geometry, cap - floor);
        self.grow_layout(&mut geometry.device, cap - floor - staged, why)?;
        let grown = bill(&geometry);
        assert!(grown <= cap);
        let mut spare = (cap - grown) & !(MEMORY_PAGE_BYTES - 1);
        let slab_more =
            self.slab_wish(&geometry, staged, &target_bytes, spare) - geometry.slab_bytes;
        geometry.slab_bytes += slab_more;
        spare -= slab_more;
        let chunk_bytes = self.config.max_chunk_uncompressed_bytes;
        if chunk_bytes > SMALL_CHUNK_BYTES {
            let each = pages(target_bytes(chunk_bytes));
            let staged = PACKED_TIMES * geometry.slab_bytes / chunk_bytes;
            let decoders = staged.clamp(1, u64::from(self.decode_threads));
            let wish = each * self.large_chunks_in_work().min(decoders);
            geometry.pool_bytes += wish.saturating_sub(geometry.pool_bytes).min(spare);
        }
        Ok(geometry)
    }

    /// Bytes of staging that small chunks are asked for beside the usual wish: of `spare` bytes a
    /// quarter at most.
    fn more_staging(&self, floor: &Geometry, spare: u64) -> u64 {
        if self.config.max_chunk_uncompressed_bytes > SLAB_WISH_BYTES {
            return 0;
        }
        let decodes = self.is_cuda() && self.config.device_decode == DECODE_ON;
        let device_bytes = if decodes { DEVICE_WISH_BYTES } else { 0 };
        let wish = device_bytes.max(u64::from(self.decode_threads) * DECODER_WISH_BYTES);
        let more = wish.saturating_sub(floor.slab_bytes.max(SLAB_WISH_BYTES));
        more.min(spare / 4) & !(MEMORY_PAGE_BYTES - 1)
    }

    /// Bytes of staging that are asked for, of which the least that the floor has and `spare` bytes
    /// are there; small chunks get `more` beside the usual wish. Chunks that fill the usual wish
    /// alone would be staged, and so decoded, one after the other: of those there is one for each
    /// decoder, as far as the common scratch can give that many decoders theirs, and one that is
    /// read meanwhile.
    fn slab_wish(
        &self,
        floor: &Geometry,
        more: u64,
        target_bytes: impl Fn(u64) -> u64,
        spare: u64,
    ) -> u64 {
        let chunk_bytes = self.config.max_chunk_uncompressed_bytes;
        if chunk_bytes <= SLAB_WISH_BYTES {
            let more = SLAB_WISH_BYTES.saturating_sub(floor.slab_bytes) + more;
            return floor.slab_bytes + more.min(spare);
        }
        let (each, staged) = (pages(target_bytes(chunk_bytes)), floor.slab_bytes);
        let more = |decoders: u64| {
            let scratch = (each * decoders).saturating_sub(floor.pool_bytes);
            (decoders - 1) * staged + scratch
        };
        let most = self.large_chunks_in_work().clamp(1, u64::from(self.decode_threads));
        let decoders = (1..=most).rev().find(|count| more(*count) <= spare);
        let decoders = decoders.unwrap_or(1);
        let is_read_ahead = more(decoders) + staged <= spare;
        (decoders + u64::from(is_read_ahead)) * staged
    }
}

/// Lets what a device decodes to grow to its wish, within two thirds of what a resident wave may
/// have more; with it streams, which take of a slab and of the wave, and the scratch that all waves
/// share. What is left is left there.
fn grow_decoding(layout: &mut Layout, wish: u64, device_more: &mut u64, host_more: &mut u64) {
    let wish = wish.saturating_sub(layout.decoded_bytes);
    let has_scratch = layout.scratch_bytes > 0;
    // Literals and sequences take half as much again as what they become: two passes.
    let most = if has_scratch { *device_more / 9 * 4 } else { *device_more / 3 * 2 };
    let bytes = most.min(wish) & !(MEMORY_PAGE_BYTES - 1);
    let shared_bytes = if has_scratch { pages(bytes / RESIDENT_WAVES as u64) } else { 0 };
    // Memory beyond the usual wish is for large streams, of which there are few.
    let streams = bytes.min(DECODED_WISH_BYTES) / STREAM_DATA_BYTES;
    let streams = streams.min(*host_more / 2 / STREAM_HOST_BYTES);
    layout.decoded_bytes += bytes;
    layout.streams += streams as u32;
    layout.scratch_bytes += if has_scratch { bytes } else { 0 };
    *device_more =
        device_more.saturating_sub(bytes + shared_bytes + pages(streams * Stream::BYTES));
    *host_more -= streams * STREAM_HOST_BYTES;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setup::allotted::Allotted;
    use crate::setup::config::{BACKEND_CUDA, Config};
    use crate::setup::settings::settings_from_config;

    #[test]
    fn the_geometry_never_exceeds_the_cap_and_names_the_floor() {
        let mut config = Config { sample_rank: 2, ..Config::default() };
        config.sample_shape[..2].copy_from_slice(&[8, 16]);
        let bill = |g: &Geometry| (1 << 20) + g.slab_bytes + g.pool_bytes;
        let mut why = Why::new();
        let mut accepted = 0;
        for cap in (1..200).map(|mib| mib << 20) {
            config.max_host_memory_bytes = cap;
            let settings = settings_from_config(&config, &Allotted::of(8), &mut why).unwrap();
            match settings.solve(|chunk| chunk, bill, &mut why) {
                Ok(geometry) => {
                    assert!(bill(&geometry) <= cap);
                    assert!(geometry.slab_bytes >= compressed_bytes_max(16 << 20));
                    accepted += 1;
                }
                Err(status) => {
                    assert_eq!(status, Status::Budget);
                    assert!(why.as_str().contains("needs at least"), "{why}");
                }
            }
        }
        assert!(accepted > 100);
    }

    #[test]
    fn chunks_that_fill_the_slab_are_staged_for_each_decoder_as_far_as_there_is_room() {
        let mut config = Config { n_decode_threads: 2, sample_rank: 3, ..Config::default() };
        config.sample_shape[..3].copy_from_slice(&[32, 64, 64]);
        let bill = |g: &Geometry| g.slab_bytes + g.pool_bytes;
        let mut staged = |chunk_mib: u64, mib: u64| {
            let chunk_bytes = chunk_mib << 20;
            config.max_chunk_uncompressed_bytes = chunk_bytes;
            config.max_host_memory_bytes = mib << 20;
            let mut why = Why::new();
            let settings = settings_from_config(&config, &Allotted::of(8), &mut why).unwrap();
            settings.solve(|chunk| chunk, bill, &mut why).unwrap().slab_bytes / chunk_bytes
        };
        assert_eq!([100, 135, 200, 1000].map(|mib| staged(32, mib)), [1, 2, 3, 3]);
        // Where the cap is derived there is room for both decoders, whatever the size of a chunk.
        assert_eq!([17, 64, 200, 2048].map(|chunk_mib| staged(chunk_mib, 0)), [3; 4]);
    }

    /// Bytes of a wave's data, and of what it decodes to beside so many decoders, under a cap of
    /// the device's.
    fn wave_mib(n_decode_threads: u32, max_gpu_memory_bytes: u64) -> (u64, u64) {
        let mut config = Config { n_decode_threads, max_gpu_memory_bytes, ..Config::default() };
        (config.backend, config.sample_rank) = (BACKEND_CUDA, 2);
        config.sample_shape[..2].copy_from_slice(&[8, 16]);
        let mut why = Why::new();
        let settings = settings_from_config(&config, &Allotted::of(8), &mut why).unwrap();
        let bill = |g: &Geometry| {
            let sizes = settings.device_sizes(&g.device, g.slab_bytes);
            sizes.pinned_bytes() + g.pool_bytes
        };
        let layout = settings.solve(|chunk| chunk, bill, &mut why).unwrap().device;
        (layout.data_bytes >> 20, layout.decoded_bytes >> 20)
    }

    #[test]
    fn device_memory_that_the_caller_gives_is_decoded_to() {
        // Derived: a gigabyte, of which more is left alone.
        let wave_mib_of = |cap: u64| wave_mib(2, cap);
        assert_eq!([0, 1 << 30, 8 << 30].map(wave_mib_of), [(62, 128), (62, 335), (62, 512)]);
        assert_eq!(wave_mib(3, 0), (62, 0));
    }

    /// Common scratch of a config with eight decoders and chunks of 16 MiB, in such chunks.
    fn large_chunks(samples_per_batch: u32, sample_shape: &[u64]) -> u64 {
        let mut config = Config { samples_per_batch, n_decode_threads: 8, ..Config::default() };
        config.sample_rank = sample_shape.len() as u32;
        config.sample_shape[..sample_shape.len()].copy_from_slice(sample_shape);
        let mut why = Why::new();
        let settings = settings_from_config(&config, &Allotted::of(8), &mut why).unwrap();
        let bill = |g: &Geometry| settings.slots_bytes() + g.slab_bytes + g.pool_bytes;
        settings.solve(|chunk| chunk, bill, &mut why).unwrap().pool_bytes >> 24
    }

    #[test]
    fn small_chunks_are_staged_for_each_decoder_and_leave_three_quarters_of_the_room() {
        let staged = |threads: u32, cap_mib: u64, device_decode: Option<u32>| {
            let mut config =
                Config { n_decode_threads: threads, sample_rank: 1, ..Config::default() };
            (config.sample_shape[0], config.max_host_memory_bytes) = (16, cap_mib << 20);
            config.max_chunk_uncompressed_bytes = 1 << 20;
            if let Some(way) = device_decode {
                (config.backend, config.device_decode) = (BACKEND_CUDA, way);
            }
            let mut why = Why::new();
            let settings = settings_from_config(&config, &Allotted::of(8), &mut why).unwrap();
            let bill = |g: &Geometry| {
                settings.device_sizes(&g.device, 0).pinned_bytes() + g.slab_bytes + g.pool_bytes
            };
            settings.solve(|chunk| chunk, bill, &mut why).unwrap().slab_bytes >> 20
        };
        assert_eq!(
            [1, 4, 5, 16, 64].map(|threads| staged(threads, 2048, None)),
            [16, 16, 20, 64, 256]
        );
        assert_eq!([64, 129].map(|mib| staged(64, mib, None)), [30, 46]);
        let on_device = [DECODE_AUTO, DECODE_ON].map(|way| staged(2, 2048, Some(way)));
        assert_eq!(on_device, [16, 64]);
        assert_eq!(staged(16, 0, Some(DECODE_AUTO)), 64);
    }

    #[test]
    fn scratch_is_for_as_many_large_chunks_as_the_samples_in_work_lie_in() {
        assert_eq!(large_chunks(1, &[16]), 4);
        assert_eq!(large_chunks(1, &[1]), 3);
        assert_eq!(large_chunks(8, &[16]), 8);
        assert_eq!(large_chunks(8, &[32, 32, 32]), 8);
        assert_eq!(large_chunks(1, &[128, 128, 128]), 8);
        assert_eq!(large_chunks(1, &[1 << 40]), 8);
    }
}
