//! The jobs that make batches: decode a chunk, scatter it into every sample that touches it, fill
//! what is missing, outside or failed.
//!
//! In: chunk tasks of one batch and one array, their bytes staged. Out: rows of a batch slot. Rows
//! of different chunks never overlap, so workers fill one slot together.

use crate::assemble::cast::Cast;
use crate::assemble::units::failed_unit;
use crate::assemble::{
    SampleBox, Target, fill_all, fill_element, fill_outside, scatter, scatter_fill,
};
use crate::base::abi::CODEC_NONE;
use crate::base::arena::Region;
use crate::base::limits::{ELEMENT_BYTES_MAX, FILE_KEY_BYTES, RANK_MAX};
use crate::base::math::coordinates_from_linear;
use crate::base::stats::Tally;
use crate::base::status::{Failure, Status, Why};
use crate::base::text::{List, Tail, Text};
use crate::cuda::HAS_DEVICES;
use crate::decode::{Decoder, Scratch, decode_chunk, kept_bytes};
use crate::device::Part;
use crate::jobs::look_up::look_anew;
use crate::os::profiler;
use crate::read::SHOWN_BYTES;
use crate::records::{ArrayRecord, ChunkBytes, Codec, Need};
use crate::source::zarr::write_file_key;
use crate::state::lift::Lift;
use crate::state::scratch::{Hold, scratch_need};
use crate::state::shared::Instance;
use crate::state::worker::Worker;
use crate::wave::{ChunkKind, ChunkTask};
use core::ops::Range;
use core::sync::atomic::Ordering::Relaxed;

/// Batch slots that together have this many bytes are not in any cache when they are read: rows of
/// whole lines are then stored past the caches. Scans of aligned boxes gain 10 to 20 %.
const STREAMED_SLOTS_BYTES: u64 = 48 << 20;

/// Bytes of a file's key that an error text shows: whole up to eight axes of seven digits.
const SHOWN_KEY_BYTES: usize = 64;

/// Fails the samples of chunk number `chunk` of a wave, and those of chunks that wait for what it
/// would have decoded. It is of no use from then on.
pub fn fail_task(
    instance: &Instance,
    wave: u32,
    chunk: u32,
    record: &ArrayRecord,
    status: Status,
    why: &Why,
) {
    let row = instance.wave_row(wave, chunk);
    let task = instance.tables.chunks.read(row);
    let failure = chunk_failure(instance, task.array, record, (task.file, task.chunk), status, why);
    fail_samples(instance, wave, &task, &failure);
    if task.kind == ChunkKind::Broken {
        return;
    }
    instance.tables.chunks.write(row, ChunkTask { kind: ChunkKind::Broken, ..task });
    if status == Status::Decode {
        let state = &mut *instance.lock.lock();
        let file = (state.arrays.id(task.array), task.file);
        look_anew(instance, state, file, record);
    }
    let Some(kept) = task.kept.filter(|_| task.kind == ChunkKind::Data) else { return };
    loop {
        let waiter = {
            let state = &mut *instance.lock.lock();
            let waiter = state.chunks.take_waiter(kept.slot);
            if waiter.is_none() {
                state.abandon_kept(kept.slot, status, why);
            }
            waiter
        };
        let Some(waiter) = waiter else { return };
        let (wave, op) = instance.wave_and_position(waiter);
        fail_waiter(instance, wave, op, status, why);
    }
}

/// Fails the one chunk of a read of nothing that was to wait for a kept chunk.
pub fn fail_waiter(instance: &Instance, wave: u32, op: u32, status: Status, why: &Why) {
    let chunk = instance.tables.ops.read(instance.wave_row(wave, op)).chunk_first;
    let row = instance.wave_row(wave, chunk);
    let task = instance.tables.chunks.read(row);
    assert!(task.kind == ChunkKind::Kept);
    let record = instance.array_record(task.array);
    let failure = chunk_failure(instance, task.array, record, (task.file, task.chunk), status, why);
    fail_samples(instance, wave, &task, &failure);
    instance.tables.chunks.write(row, ChunkTask { kind: ChunkKind::Broken, ..task });
    instance.lock.lock().waves.set_ready(wave, op);
}

fn fail_samples(instance: &Instance, wave: u32, task: &ChunkTask, failure: &Failure) {
    for pair in 0..task.pair_count {
        let row = instance.tables.pair_row(wave, task.pair_first + pair);
        let sample = instance.tables.pairs.read(row);
        instance.fail_sample(task.slot, sample, task.number, failure);
    }
}

pub fn run_assemble(
    instance: &Instance,
    worker: &mut Worker,
    (wave, first, count): (u32, u32, u32),
    (large, part): (Option<Hold>, Option<Part>),
) {
    let head = instance.tables.chunks.read(instance.wave_row(wave, first));
    let mut hands = Hands::new(instance, worker, head.array, part.as_ref());
    hands.large = large.map(|hold| instance.common_scratch.part(hold.offset, hold.bytes));
    let (mut chunk, limit) = (first, first + count);
    while chunk < limit {
        let task = instance.tables.chunks.read(instance.wave_row(wave, chunk));
        // Chunks of one read may overlap, so other workers may read the same bytes.
        let encoded = instance.tables.slab.view(task.slab_offset, task.bytes);
        let mates = chunk..limit.min(chunk + 1 + task.mates);
        let shared = hands.shared(wave, mates.clone(), encoded);
        for mate in mates {
            let task = instance.tables.chunks.read(instance.wave_row(wave, mate));
            if let Err((status, why)) = hands.assemble(wave, &task, encoded, shared) {
                fail_task(instance, wave, mate, hands.record, status, &why);
            }
            chunk = mate + 1;
        }
    }
    hands.end();
    let state = &mut *instance.lock.lock();
    large.into_iter().for_each(|hold| state.pool.give_back(hold));
    state.finish_chunks(instance, wave, (first, count), part.as_ref());
    state.end_part(part.as_ref());
}

/// What assembling the chunks of one array takes.
pub struct Hands<'a> {
    pub instance: &'a Instance,
    pub record: &'static ArrayRecord,
    cast: Cast,
    pub decoder: Option<&'a mut Decoder>,
    target: Region,
    pub block: Region,
    /// Common scratch, for a large chunk.
    pub large: Option<Region>,
    /// Where chunks go on their way to a device.
    pub lift: Option<Lift>,
    decode: Tally,
    scatter: Tally,
    /// Chunks that were decoded into the slab, and those of them that kept their filter.
    pub in_slab: u64,
    pub filtered: u64,
}

impl<'a> Hands<'a> {
    /// For chunks of the array in slot `array`, which a task pins; and `part` of a slab, where they
    /// go to a device.
    pub fn new(
        instance: &'a Instance,
        worker: &'a mut Worker,
        array: u32,
        part: Option<&Part>,
    ) -> Hands<'a> {
        let record = instance.array_record(array);
        let settings = &instance.settings;
        let (dtype, dtype_bytes) = (settings.dtype, settings.dtype_bytes);
        let Some(cast) = Cast::find(record.dtype, record.dtype_bytes, dtype, dtype_bytes) else {
            unreachable!("the planner refuses arrays without a cast");
        };
        Hands {
            instance,
            record,
            cast: cast.streamed(settings.slots_bytes() >= STREAMED_SLOTS_BYTES),
            decoder: worker.decoder.as_mut(),
            target: worker.target,
            block: worker.block,
            large: None,
            lift: if HAS_DEVICES { instance.lift(part) } else { None },
            decode: Tally::default(),
            scatter: Tally::default(),
            in_slab: 0,
            filtered: 0,
        }
    }

    /// Decodes once what the tasks `mates`, which are one chunk, need of it together. None where
    /// each is to be decoded for itself: what is refused must not depend on what others need.
    pub fn shared<'b>(
        &mut self,
        wave: u32,
        mates: Range<u32>,
        encoded: &'b [u8],
    ) -> Option<ChunkBytes<'b>> {
        let instance = self.instance;
        let task = |mate: u32| instance.tables.chunks.read(instance.wave_row(wave, mate));
        let mut tasks = mates.map(task).filter(|task| task.kind == ChunkKind::Data);
        let (head, next) = (tasks.next()?, tasks.next()?);
        let both = head.need.span.hull(next.need.span);
        let span = tasks.fold(both, |span, task| span.hull(task.need.span));
        let _range = instance.profiler.range(profiler::DECODE);
        let start = (instance.os.now_ns)();
        let mut own = None;
        let record = self.record.of_file(head.file, &mut own);
        let whole = ChunkTask { need: Need::of(span), ..head };
        let chunk = self.decoded(record, &whole, encoded).ok()?;
        let ns = (instance.os.now_ns)() - start;
        self.decode.observe(ns, head.bytes, chunk.bytes.len() as u64);
        Some(chunk)
    }

    /// Decodes a chunk from `encoded`, unless it is there as `shared`, and scatters it; or fills
    /// what needs no bytes.
    pub fn assemble(
        &mut self,
        wave: u32,
        task: &ChunkTask,
        encoded: &[u8],
        shared: Option<ChunkBytes<'_>>,
    ) -> Result<(), (Status, Why)> {
        let instance = self.instance;
        if task.kind == ChunkKind::Broken {
            return Ok(());
        }
        let start = (instance.os.now_ns)();
        let mut own = None;
        let record = match task.kind {
            // Padding belongs to no file, and an array without elements has none.
            ChunkKind::Pad => self.record,
            _ => self.record.of_file(task.file, &mut own),
        };
        let (mut chunk, mut lifted) = (ChunkBytes { bytes: &[], first: 0 }, None);
        let mut decoded = start;
        if let (ChunkKind::Kept, Some(kept)) = (task.kind, task.kept) {
            chunk.bytes = instance.chunk_memory.view(kept.offset, record.chunk_bytes);
        }
        if let (ChunkKind::Data, Some(shared)) = (task.kind, shared) {
            chunk = shared;
        } else if task.kind == ChunkKind::Data {
            let _range = instance.profiler.range(profiler::DECODE);
            if HAS_DEVICES && let Some(room) = self.room(record, task) {
                let found = self.decoded_into(&room, record, task, encoded)?;
                (chunk, lifted) = (found.chunk, Some(room.holds(&found)));
            } else {
                chunk = self.decoded(record, task, encoded)?;
            }
            decoded = (instance.os.now_ns)();
            self.decode.observe(decoded - start, task.bytes, chunk.bytes.len() as u64);
        }
        let origin = match task.kind {
            ChunkKind::Pad => [0; RANK_MAX],
            _ => chunk_origin(record, task.file, task.chunk),
        };
        let _range = instance.profiler.range(profiler::ASSEMBLE);
        if HAS_DEVICES {
            lifted = lifted.or_else(|| self.lift_bytes(task, &chunk));
        }
        let mut written = 0;
        for pair in 0..task.pair_count {
            let row = instance.tables.pair_row(wave, task.pair_first + pair);
            let sample = instance.tables.pairs.read(row);
            let geometry = instance.geometry_table.read(instance.sample_row(task.slot, sample));
            let axes = record.axes();
            let sample_box = SampleBox {
                record,
                cast: self.cast,
                begin: &geometry.begin[..axes],
                end: &geometry.end[..axes],
                pad: instance.pad_mode,
            };
            let place = instance.sample_region(task.slot, sample);
            let origin = &origin[..axes];
            written += match &lifted {
                Some(data) => self.lift_sample(task.kind, &sample_box, place, origin, data),
                None => self.write_sample(task.kind, &sample_box, place, origin, &chunk),
            };
        }
        let ns = (instance.os.now_ns)() - decoded;
        self.scatter.observe(ns, task.need_bytes(), written);
        Ok(())
    }

    fn decoded<'b>(
        &mut self,
        record: &ArrayRecord,
        task: &ChunkTask,
        encoded: &'b [u8],
    ) -> Result<ChunkBytes<'b>, (Status, Why)> {
        let mut why = Why::new();
        let most = self.instance.settings.config.max_substreams_per_chunk;
        // Workers that take this job have a decoder.
        let Some(decoder) = self.decoder.as_deref_mut() else {
            return Err((Status::Internal, why));
        };
        let (mut target, mut block) = (self.target, self.block);
        if let Some(large) = self.large {
            let (target_bytes, block_bytes) = scratch_need(self.instance, task, encoded);
            if target_bytes > 0 {
                target = large.part(0, target_bytes);
            }
            if block_bytes > 0 {
                block = large.part(target_bytes, block_bytes);
            }
        }
        if let Some(kept) = task.kept {
            target = self.instance.chunk_memory.part(kept.offset, kept_bytes(record));
        }
        let scratch =
            Scratch { target: target.rows(0, target.bytes()), block: block.rows(0, block.bytes()) };
        let decoded =
            decode_chunk(decoder, record, most, encoded, task.need.span, scratch, &mut why)
                .map_err(|status| (status, why))?;
        if task.kept.is_none() || decoded.bytes.as_ptr() == target.as_ptr() {
            return Ok(decoded);
        }
        // What nothing compressed lies in the encoded bytes, which are gone when it is used again.
        let bytes = target.rows(0, decoded.bytes.len() as u64);
        bytes.copy_from_slice(decoded.bytes);
        Ok(ChunkBytes { bytes, first: decoded.first })
    }

    /// Adds what was gathered to the instance's figures, and leaves the part of the slab whole.
    pub fn end(&mut self) {
        if HAS_DEVICES && let Some(lift) = self.lift.take() {
            lift.finish();
        }
        let stats = &self.instance.stats;
        stats.decode.add(&self.decode);
        // All of them are chunks of one array.
        let codec = self.record.compressor().map_or(CODEC_NONE, Codec::number);
        stats.chunks_decoded[codec].fetch_add(self.decode.count(), Relaxed);
        if HAS_DEVICES {
            stats.chunks_decoded_in_slab.fetch_add(self.in_slab, Relaxed);
            stats.chunks_left_filtered.fetch_add(self.filtered, Relaxed);
        }
        // What a device assembles it takes the time of itself.
        let scatter = match self.instance.engine() {
            None => &stats.assemble,
            Some(_) => &stats.post_decode,
        };
        scatter.add(&self.scatter);
    }

    fn write_sample(
        &self,
        kind: ChunkKind,
        sample: &SampleBox<'_>,
        place: Region,
        origin: &[u64],
        chunk: &ChunkBytes<'_>,
    ) -> u64 {
        let target = Target { sample: *sample, region: place };
        match kind {
            ChunkKind::Data | ChunkKind::Kept => scatter(&target, origin, chunk),
            ChunkKind::Missing => scatter_fill(&target, origin),
            ChunkKind::Pad => {
                let element = self.outside_element(sample);
                fill_outside(&target, &element[..self.instance.settings.dtype_bytes as usize])
            }
            ChunkKind::Broken => 0,
        }
    }

    /// What constant padding puts where there is no source.
    pub fn outside_element(&self, sample: &SampleBox<'_>) -> [u8; ELEMENT_BYTES_MAX] {
        self.instance.pad_element.unwrap_or_else(|| fill_element(sample.record, &self.cast))
    }
}

/// Coordinates of a chunk in the chunk grid of the whole array.
fn chunk_coordinates(record: &ArrayRecord, file: u64, chunk: u64) -> [u64; RANK_MAX] {
    let axes = record.axes();
    let (files, mut chunks) = file_and_chunk(record, file, chunk);
    for axis in 0..axes {
        // Chunks of shards divide the array evenly, whatever the shards are.
        chunks[axis] += match record.shard_levels {
            0 => files[axis],
            _ => record.file_cell(axis, files[axis]).first / record.chunk_shape[axis],
        };
    }
    chunks
}

/// Coordinates of a file in the file grid, and of a chunk in that file.
fn file_and_chunk(
    record: &ArrayRecord,
    file: u64,
    chunk: u64,
) -> ([u64; RANK_MAX], [u64; RANK_MAX]) {
    let axes = record.axes();
    let (mut files, mut chunks) = ([0; RANK_MAX], [0; RANK_MAX]);
    coordinates_from_linear(file, &record.file_counts()[..axes], &mut files[..axes]);
    let counts = record.chunk_counts_at(&files);
    coordinates_from_linear(chunk, &counts[..axes], &mut chunks[..axes]);
    (files, chunks)
}

/// Name of a file in its array: "c/0/3".
fn file_key(record: &ArrayRecord, file: u64) -> Text<FILE_KEY_BYTES> {
    let axes = record.axes();
    let mut files = [0; RANK_MAX];
    coordinates_from_linear(file, &record.file_counts()[..axes], &mut files[..axes]);
    let mut key = Text::new();
    write_file_key(record, &files[..axes], &mut key);
    key
}

/// First element of a chunk along each axis of the array.
fn chunk_origin(record: &ArrayRecord, file: u64, chunk: u64) -> [u64; RANK_MAX] {
    let (files, chunks) = file_and_chunk(record, file, chunk);
    let mut origin = [0; RANK_MAX];
    for axis in 0..record.axes() {
        let file = record.file_cell(axis, files[axis]);
        origin[axis] = file.first + chunks[axis] * record.chunk_shape[axis];
    }
    origin
}

pub fn run_patch(instance: &Instance, slot: u32, part: Option<&Part>) {
    let count = instance.lock.lock().slots.sample_count(slot);
    let element_bytes = instance.settings.dtype_bytes;
    let element = &instance.failed_element[..element_bytes as usize];
    let mut lift = if HAS_DEVICES { instance.lift(part) } else { None };
    for sample in 0..count {
        if instance.statuses.read(instance.sample_row(slot, sample)) == 0 {
            continue;
        }
        let region = instance.sample_region(slot, sample);
        match &mut lift {
            Some(lift) => {
                let (address, bytes) = (region.as_ptr() as u64, region.bytes());
                lift.push(&failed_unit(address, bytes, &instance.failed_element, element_bytes));
            }
            None => fill_all(&region, element),
        }
        instance.stats.samples_failed.fetch_add(1, Relaxed);
    }
    if HAS_DEVICES && let Some(lift) = lift {
        lift.finish();
    }
    let state = &mut *instance.lock.lock();
    match part.filter(|_| HAS_DEVICES) {
        // It ends when the slab has arrived.
        Some(part) => {
            state.device.slabs.add_chunks(part.slab, slot, 1);
            state.end_part(Some(part));
        }
        None => state.end_patch(instance, slot),
    }
}

/// A failure of one chunk: its text names array, chunk, the chunk's file and the reason.
pub fn chunk_failure(
    instance: &Instance,
    array: u32,
    record: &ArrayRecord,
    (file, chunk): (u64, u64),
    status: Status,
    why: &Why,
) -> Failure {
    let coordinates = chunk_coordinates(record, file, chunk);
    let coordinates = &coordinates[..record.axes()];
    let uri = instance.array_uri(array);
    let mut failure = Failure::new(status);
    failure.chunk.extend(coordinates.iter().copied());
    let list = List(coordinates);
    let (shown, key) = (Tail(uri, SHOWN_BYTES), file_key(record, file));
    let key = Tail(key.as_str(), SHOWN_KEY_BYTES);
    failure.text.fail(status, format_args!("{shown}: chunk {list} in {key}: {why}"));
    failure
}

/// A failure of a sample that no chunk is to blame for.
pub fn sample_failure(instance: &Instance, array: u32, status: Status, why: &Why) -> Failure {
    let uri = instance.array_uri(array);
    let mut failure = Failure::new(status);
    let shown = Tail(uri, SHOWN_BYTES);
    failure.text.fail(status, format_args!("{shown}: {why}"));
    failure
}
