//! The data that every job works with and no lock guards: settings, memory, the system.

use crate::assemble::axis::PadMode;
use crate::assemble::changes::change_records;
use crate::assemble::value_element;
use crate::base::arena::{Region, Table};
use crate::base::cpus::CpuSet;
use crate::base::indexes::{ArraySlot, BatchSlot, WaveIndex};
use crate::base::limits::{ELEMENT_BYTES_MAX, FIELDS_MAX, RANK_MAX};
use crate::base::stats::{Stage, StatsCells};
use crate::base::text::Uri;
use crate::batch::exports::Exports;
use crate::batch::record::SlotRows;
use crate::cuda::{DeviceEngine, HAS_DEVICES};
use crate::device::{ByWorker, Stream};
use crate::os::Os;
use crate::os::asked::Asked;
use crate::os::folder::Folder;
use crate::os::profiler::{At, Profiler};
use crate::os::sink::Sink;
use crate::os::store::{Path, Store};
use crate::read::Folder as FileFolder;
use crate::records::CallerPlaces;
use crate::records::grid::EdgeRun;
use crate::records::{ArrayRecord, Augment, BoxRecord, Destination, Fed, Part, array_path};
use crate::setup::config::{ON_ERROR_FAIL, ON_ERROR_NAN};
use crate::setup::fields::Field;
use crate::setup::geometry::Geometry;
use crate::setup::settings::Settings;
use crate::source::paths::{folder_path, write_file_path};
use crate::state::Pass;
use crate::state::owned::Sharing;
use crate::state::resampling::Resampled;
use crate::state::slab_writer::Tiles;
use crate::wave::{ChunkTask, WaveTables, Way};
use arrayvec::ArrayVec;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicU32, AtomicUsize};

/// Gaps between reads that fit the staging of a wave, at least: each is counted as if it were
/// there.
const GAPS_MIN: u64 = 8;

/// See the module. Nothing in it changes after open but by atomics, and nothing in it is locked.
pub struct Shared {
    /// The system.
    pub os: &'static Os,
    /// The checked config.
    pub settings: &'static Settings,
    /// Sizes of scratch and staging.
    pub geometry: Geometry,
    /// Process that opened the loader.
    pub process_id: i32,
    /// The number by which the surfaces know the loader.
    pub token: u64,
    /// Files, for reads of chunks.
    pub store: Store,
    /// The same files, for all other requests, which are counted, and may be late.
    pub metadata: &'static Store,
    /// The folder that relative uris begin at.
    pub folder: &'static Folder,
    /// Arrays that the host has.
    pub asked: Asked,
    /// Log.
    pub sink: Sink,
    /// Ranges of the host's profiler.
    pub profiler: Profiler,
    /// Figures.
    pub stats: &'static StatsCells,
    /// Bytes taken at open.
    pub host_bytes: u64,
    pub tables: WaveTables,
    /// Batch slots: memory of the host, or addresses of the device, which nobody looks into.
    pub batches: Region,
    /// The device; None on the host.
    pub engine: Option<&'static DeviceEngine>,
    /// The passes over full batches.
    pub passes: &'static [Pass],
    /// Tiles of the units of each slab.
    pub device_tiles: Table<Tiles>,
    /// Streams of each slab, as writers found them.
    pub device_streams: Table<Stream>,
    pub exports: Exports,
    /// Memory of the cache of decoded chunks.
    pub chunk_memory: Region,
    /// Staging of boxes with a map.
    pub resample_memory: Region,
    /// The part that it has in common with other processes.
    pub sharing: Sharing,
    /// The CPUs that own threads keep to, if the config names them.
    pub cpus: Option<&'static CpuSet>,
    pub views: Views,
    /// The elements for places without a source, by field.
    pub paddings: Paddings,
}

/// The padding of each field.
pub type Paddings = ArrayVec<Padding, { FIELDS_MAX as usize }>;

/// Copies of the addresses of tables of the state, which are read without the lock.
pub struct Views {
    pub records: Table<ArrayRecord>,
    /// Runs of rectilinear grids.
    pub edges: Table<EdgeRun>,
    /// Files of arrays that lie in many, and their rows.
    pub parts: Table<Part>,
    pub runs: Table<EdgeRun>,
    pub uris: Table<Uri>,
    pub boxes: Table<BoxRecord>,
    pub fed: Table<Fed>,
    pub augment: Table<u32>,
    /// Boxes with a map.
    pub resampled: Table<Resampled>,
    /// Rows of batch slots.
    pub rows: SlotRows,
    /// Targets of the boxes of readers.
    pub targets: Table<CallerPlaces>,
    pub addresses: &'static [AtomicUsize],
    /// Streams of each slab that were found.
    pub stream_counts: &'static [AtomicU32],
    /// Chunks of each array that a device refused, or was not given for a like reason.
    pub refusals: &'static [AtomicU32],
}

/// The elements for places without a source.
#[derive(Clone, Copy)]
pub struct Padding {
    pub mode: PadMode,
    /// pad_value, if constant padding takes it instead of the array's fill value.
    pub element: Option<[u8; ELEMENT_BYTES_MAX]>,
    /// pad_value: the element of failed samples, and of places that no box fills.
    pub empty_element: [u8; ELEMENT_BYTES_MAX],
}

impl Shared {
    /// The record of the array in a slot that the caller, or a task of the caller's, pins; an empty
    /// one of what is no array's.
    pub fn array_record(&self, array: ArraySlot) -> &'static ArrayRecord {
        if array == ArraySlot::NONE {
            return const { &ArrayRecord::EMPTY };
        }
        &self.views.records.rows(array.at(), 1)[0]
    }

    /// The wave and the position in it of a row of the wave tables.
    pub fn wave_and_position(&self, row: u32) -> (WaveIndex, u32) {
        self.tables.counts.wave_and_position(row)
    }

    /// The uri of the array in a slot, likewise.
    pub fn array_uri(&self, array: ArraySlot) -> &'static str {
        self.views.uris.rows(array.at(), 1)[0].as_str()
    }

    /// The path of the array in a slot, if it is one of zarr.
    pub fn array_path(&self, array: ArraySlot) -> &'static str {
        array_path(self.array_uri(array))
    }

    /// Writes the path of a file of an array after the end of `path`.
    pub fn write_file_path(
        &self,
        array: ArraySlot,
        record: &ArrayRecord,
        file: u64,
        path: &mut Path,
    ) {
        write_file_path(self.array_uri(array), record, file, path);
    }

    pub fn file_path(&self, array: ArraySlot, record: &ArrayRecord, file: u64) -> Path {
        let mut path = Path::new();
        self.write_file_path(array, record, file, &mut path);
        path
    }

    pub fn folder_path(&self, array: ArraySlot, record: &ArrayRecord, folder: FileFolder) -> Path {
        folder_path(self.array_uri(array), record, folder)
    }

    pub fn close_forgotten(&self, open: Option<i32>) {
        if let Some(open) = open {
            self.store.close(open);
        }
    }

    pub fn wave_row(&self, wave: WaveIndex, position: u32) -> usize {
        self.tables.counts.row(wave, position)
    }

    /// Row of box `number` of the batch in a slot.
    pub fn box_row(&self, slot: BatchSlot, number: u32) -> usize {
        self.settings.slot_counts().row((slot, number), self.settings.per_sample.box_rows())
    }

    /// Box `number` of the batch in a slot.
    pub fn box_record(&self, slot: BatchSlot, number: u32) -> &'static BoxRecord {
        &self.views.boxes.rows(self.box_row(slot, number), 1)[0]
    }

    /// The tensor of box `number` of the batch in a slot, which has one.
    pub fn fed(&self, slot: BatchSlot, number: u32) -> &'static Fed {
        &self.views.fed.rows(self.box_row(slot, number), 1)[0]
    }

    /// What is done to the elements of box `number` of the batch in a slot, which has that.
    pub fn augment(&self, slot: BatchSlot, number: u32) -> Augment<'static> {
        let words = self.settings.per_sample.augment_words as usize;
        Augment::of(self.views.augment.rows(self.box_row(slot, number) * words, words))
    }

    /// Box `number` of the batch in a slot, which has a map and was planned.
    pub fn resampled(&self, slot: BatchSlot, number: u32) -> &'static Resampled {
        &self.views.resampled.rows(self.box_row(slot, number), 1)[0]
    }

    /// Records of that which each unit of the box on a device has; 0 if it is cast alone.
    pub fn change_records(&self, slot: BatchSlot, number: u32) -> u32 {
        let source = self.box_record(slot, number);
        match source.is_augmented {
            false => 0,
            true => {
                let words = self.augment(slot, number).words().len();
                change_records(words, self.field(source.field).extents().len())
            }
        }
    }

    /// Its record.
    pub fn fed_record(&self, fed: &Fed) -> ArrayRecord {
        match fed.on_device() {
            Some(_) => fed.whole_record(),
            None => fed.record(self.settings.config.max_chunk_uncompressed_bytes),
        }
    }

    /// A field of batches.
    pub fn field(&self, field: u32) -> &Field {
        &self.settings.fields[field as usize]
    }

    /// The extents that boxes fill of the first samples of a field of the batch in a slot.
    pub fn filled_shape(&self, slot: BatchSlot, field: u32, samples: u32) -> &'static [u64] {
        let extents = samples as usize * self.field(field).filled_extents();
        self.views.rows.filled_shape(slot).rows(self.filled_shape_row(field), extents)
    }

    /// Row of the first extent that boxes fill of a field, among those of a slot.
    pub fn filled_shape_row(&self, field: u32) -> usize {
        let before = &self.settings.fields[..field as usize];
        let samples = self.settings.config.samples_per_batch as usize;
        samples * before.iter().map(Field::filled_extents).sum::<usize>()
    }

    /// The elements for places of a field without a source.
    pub fn padding(&self, field: u32) -> &Padding {
        &self.paddings[field as usize]
    }

    /// The samples of the batch in a slot; None if they lie in memory of the caller's.
    pub fn own_samples(&self, slot: BatchSlot) -> Option<Region> {
        let (place, bytes) = (self.views.rows.place(slot), self.settings.slot_bytes);
        let is_own = place < u64::from(self.settings.config.n_batch_slots);
        is_own.then(|| self.batches.part(place * bytes, bytes))
    }

    /// The first samples of a field of the batch in a slot.
    pub fn field_region(&self, slot: BatchSlot, field: u32, samples: u32) -> Region {
        let bytes = u64::from(samples) * self.field(field).sample_bytes;
        match self.own_samples(slot) {
            Some(all) => all.part(self.field(field).offset, bytes),
            None => self.lent_region(slot, field, bytes),
        }
    }

    /// The memory of a field of a sample.
    pub fn sample_region(&self, to: Destination) -> Region {
        let bytes = self.field(to.field).sample_bytes;
        self.field_region(to.slot, to.field, to.sample + 1)
            .part(u64::from(to.sample) * bytes, bytes)
    }

    /// Most bytes between two reads of a file that become one, and most bytes of that one.
    pub fn merges(&self) -> (u64, u64) {
        let (gap_bytes, read_bytes_max) = self.store.row.merges;
        let wave_bytes =
            self.tables.slab.bytes() / u64::from(self.settings.config.host_buffer_waves);
        let read_bytes_max = match read_bytes_max {
            0 => self.settings.config.max_read_op_bytes,
            given => given,
        };
        (gap_bytes.min(wave_bytes / GAPS_MIN), read_bytes_max)
    }

    /// Row of a stream of a slab.
    pub fn stream_row(&self, slab: u32, number: u32) -> usize {
        slab as usize * self.geometry.device.streams as usize + number as usize
    }

    /// A device does not decode the chunk of a task, which lies in a row of the tables of waves: a
    /// worker is to.
    pub fn refuse_chunk(&self, row: usize, reason: ByWorker) {
        let task = self.tables.chunks.read(row);
        self.tables.chunks.write(row, task.gone_to(Way::Refused));
        let codec = self.array_record(task.array).codec_place();
        self.stats.chunks_redone[codec].fetch_add(1, Relaxed);
        self.stats.chunks_not_on_device[reason as usize].fetch_add(1, Relaxed);
        // That a slab was full says nothing of the array.
        if reason != ByWorker::Room {
            self.views.refusals[task.array.at()].fetch_add(1, Relaxed);
        }
    }

    /// The device; None on the host.
    pub fn engine(&self) -> Option<&DeviceEngine> {
        // A reference to what nobody has is no type that nobody has.
        self.engine.filter(|_| HAS_DEVICES)
    }

    /// Bytes from one place to the next along each axis of where a box goes.
    pub fn strides(&self, to: Destination) -> &[u64; RANK_MAX] {
        match self.reader(to.slot) {
            None => &self.field(to.field).strides,
            Some(reader) => &self.views.targets.rows(reader as usize, 1)[0].strides,
        }
    }

    /// Whether what goes to a slot is made on the device.
    pub fn is_for_device(&self, slot: BatchSlot) -> bool {
        self.engine().is_some() && self.reader(slot).is_none()
    }

    /// Whether a task goes on to the device: not one of voxels, which are resampled on the host.
    pub fn is_sent(&self, task: &ChunkTask) -> bool {
        self.is_for_device(task.slot) && !task.is_resampled
    }

    /// The number of the reader that a slot is, if it is one.
    pub fn reader(&self, slot: BatchSlot) -> Option<u32> {
        self.settings.slot_counts().reader(slot)
    }

    /// Whether samples get a digest.
    pub fn takes_digests(&self) -> bool {
        self.settings.per_sample.digests > 0
    }

    /// Whether the stream goes on after a sample that fails.
    pub fn skips_errors(&self) -> bool {
        self.settings.config.on_error != ON_ERROR_FAIL
    }

    /// Whether chunks that fail are NaN where that can be.
    pub fn fills_nan(&self) -> bool {
        self.settings.config.on_error == ON_ERROR_NAN
    }

    /// The element of a field that samples hold which are given up.
    pub fn failed_element(&self, field: u32) -> [u8; ELEMENT_BYTES_MAX] {
        let of = self.field(field);
        let nan = value_element(f64::NAN, of.dtype, of.dtype_bytes).filter(|_| self.fills_nan());
        nan.unwrap_or(self.padding(field).empty_element)
    }

    /// The array of a box as one whose elements are all NaN, in the type that the box is read to:
    /// its field's, or with a map the array's own. None if chunks are not NaN there.
    pub fn nan_of(
        &self,
        record: &ArrayRecord,
        slot: BatchSlot,
        source: &BoxRecord,
    ) -> Option<ArrayRecord> {
        let field = self.field(source.field);
        let (dtype, dtype_bytes) = match source.is_resampled {
            true => (record.dtype, record.dtype_bytes),
            false => (field.dtype, field.dtype_bytes),
        };
        if !self.fills_nan() || self.reader(slot).is_some() {
            return None;
        }
        let fill = value_element(f64::NAN, dtype, dtype_bytes)?;
        Some(ArrayRecord { dtype, dtype_bytes, fill, cf: None, ..record.clone() })
    }

    /// Counts an observation of a stage that began at `start_ns` and ends now, with its bytes
    /// of input and output, and keeps an event of it.
    pub fn observe(&self, stage: Stage, start_ns: u64, (input, output): (u64, u64), at: At) {
        let ns = (self.os.now_ns)() - start_ns;
        self.stats.stage(stage).observe(ns, input, output);
        self.profiler.keep(stage, (start_ns, ns), output, at);
    }

    /// The same of one that took `ns` on a device, which is known to be over now.
    pub fn observe_device(&self, stage: Stage, ns: u64, (input, output): (u64, u64), at: At) {
        self.stats.stage(stage).observe(ns, input, output);
        self.keep_device(stage, (0, ns), output, at);
    }

    /// Counts the gap before a decoding by the device, which took so long and has just ended.
    pub fn observe_decode_gap(&self, ns: u64, decode_ns: u64, at: At) {
        self.stats.decode_gap.observe(ns, 0, 0);
        self.keep_device(Stage::DecodeGap, (decode_ns, ns), 0, at);
    }

    /// Keeps an event of the device that ended so long ago.
    fn keep_device(&self, stage: Stage, (ago_ns, ns): (u64, u64), output: u64, at: At) {
        let begin_ns = (self.os.now_ns)().saturating_sub(ago_ns.saturating_add(ns));
        self.profiler.keep(stage, (begin_ns, ns), output, at);
    }

    /// The time `timeout_ns` from now.
    pub fn deadline(&self, timeout_ns: u64) -> u64 {
        (self.os.now_ns)().saturating_add(timeout_ns)
    }
}
