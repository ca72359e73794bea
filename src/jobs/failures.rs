//! Failures of chunks and samples, and of the device.

use crate::base::indexes::{ArraySlot, BatchSlot, WaveIndex};
use crate::base::limits::FILE_KEY_BYTES;
use crate::base::status::{Failure, Status, Why};
use crate::base::text::{List, Tail, Text};
use crate::cuda::Fault;
use crate::fail;
use crate::os::sink::Level;
use crate::os::store::Path;
use crate::read::SHOWN_BYTES;
use crate::records::{ArrayRecord, Destination};
use crate::source::zarr::write_file_key;
use crate::state::State;
use crate::state::lock::{Condition, Lock};
use crate::state::shared::Shared;
use crate::wave::{ChunkKind, ChunkTask};
use core::sync::atomic::Ordering::Relaxed;

/// Notes that a sample failed. If the stream goes on after errors, the text is logged.
pub fn fail_sample(lock: &Lock, to: Destination, failure: &Failure) {
    note_failure(lock, to, 0, (failure, false));
}

/// Notes that a sample failed at chunk number `chunk`, which is NaN there if `is_nan`.
fn note_failure(lock: &Lock, to: Destination, chunk: u64, (failure, is_nan): (&Failure, bool)) {
    let shared = lock.shared;
    if shared.reader(to.slot).is_some() {
        // Its caller is told, and nobody else.
        lock.lock().slots.fail(to, chunk, (failure, false));
        return;
    }
    let (is_lowest, tag) = {
        let state = &mut *lock.lock();
        let is_lowest = state.slots.fail(to, chunk, (failure, is_nan));
        let tag = state.slots.rows.tags(to.slot).read(to.sample as usize);
        state.is_halted |= !shared.skips_errors() || !failure.status.is_skippable();
        (is_lowest, tag)
    };
    if is_lowest && shared.skips_errors() {
        shared.sink.log(Level::Warn, tag, format_args!("{failure}"));
    }
}

/// Bytes of a file's key that an error text shows: whole up to eight axes of seven digits.
pub const SHOWN_KEY_BYTES: usize = 64;

/// Fails the samples of chunk number `chunk` of a wave, and those of chunks that wait for what it
/// would have decoded. It is of no use from then on.
pub fn fail_task(
    lock: &Lock,
    wave: WaveIndex,
    chunk: u32,
    record: &ArrayRecord,
    refusal: &(Status, Why),
) {
    fail_task_at(lock, (wave, chunk), record, refusal, false);
}

/// The same. If the task `is_placed`, its samples have bytes of it, and are given up.
pub fn fail_task_at(
    lock: &Lock,
    (wave, chunk): (WaveIndex, u32),
    record: &ArrayRecord,
    (status, why): &(Status, Why),
    is_placed: bool,
) {
    let (shared, status) = (lock.shared, *status);
    let row = shared.wave_row(wave, chunk);
    let task = shared.tables.chunks.read(row);
    let failure = chunk_failure(shared, task.array, record, (task.file, task.chunk), status, why);
    fail_samples(lock, wave, &task, (&failure, is_placed));
    if task.kind == ChunkKind::Broken {
        return;
    }
    shared.tables.chunks.write(row, ChunkTask { kind: ChunkKind::Broken, ..task });
    if status == Status::Decode {
        let state = &mut *lock.lock();
        let file = (state.arrays.id(task.array), task.file);
        forget_bad_file(shared, state, file, record);
    }
    let Some(kept) = task.kept.filter(|_| task.kind == ChunkKind::Data) else { return };
    loop {
        let waiter = {
            let state = &mut *lock.lock();
            let waiter = state.chunks.take_waiter(kept.slot);
            if waiter.is_none() {
                state.abandon_kept(kept.slot, status, why);
            }
            waiter
        };
        let Some(waiter) = waiter else { return };
        let (wave, op) = shared.wave_and_position(waiter);
        fail_waiter(lock, wave, op, status, why);
    }
}

/// A file is not the one chunk that it is to be: what it looked like is forgotten, so that the next
/// sample that needs it finds it as it is then, perhaps written to its end. Nothing of it was ever
/// decoded. Other chunks of a shard may be cached, so its version must stay the same.
pub fn forget_bad_file(
    shared: &Shared,
    state: &mut State,
    (array_id, file): (u64, u64),
    record: &ArrayRecord,
) {
    if record.shard_levels == 0
        && let Some(slot) = state.files.find(array_id, file)
    {
        shared.close_forgotten(state.files.forget(slot));
    }
}

/// Fails the one chunk of a read of no bytes that was to wait for a cached chunk.
pub fn fail_waiter(lock: &Lock, wave: WaveIndex, op: u32, status: Status, why: &Why) {
    let shared = lock.shared;
    let chunk = shared.tables.ops.read(shared.wave_row(wave, op)).chunk_first;
    let row = shared.wave_row(wave, chunk);
    let task = shared.tables.chunks.read(row);
    assert!(task.kind == ChunkKind::Kept);
    let record = shared.array_record(task.array);
    let failure = chunk_failure(shared, task.array, record, (task.file, task.chunk), status, why);
    fail_samples(lock, wave, &task, (&failure, false));
    shared.tables.chunks.write(row, ChunkTask { kind: ChunkKind::Broken, ..task });
    lock.lock().set_ready(shared, wave, op);
}

fn fail_samples(
    lock: &Lock,
    wave: WaveIndex,
    task: &ChunkTask,
    (failure, is_placed): (&Failure, bool),
) {
    let tables = &lock.shared.tables;
    let pairs = task.pair_first..task.pair_first + task.pair_count;
    let boxes = pairs.map(|pair| tables.pairs.read(tables.pair_row(wave, pair)));
    fail_boxes(lock, (task.slot, task.array, task.number), boxes, (failure, is_placed));
}

/// Fails the samples of boxes that read chunk number `chunk` of the plan of a batch.
pub fn fail_boxes(
    lock: &Lock,
    (slot, array, chunk): (BatchSlot, ArraySlot, u64),
    boxes: impl Iterator<Item = u32>,
    (failure, is_placed): (&Failure, bool),
) {
    let shared = lock.shared;
    let record = shared.array_record(array);
    let mut first = None;
    for number in boxes {
        let source = shared.box_record(slot, number);
        let can_be = !is_placed && failure.status.is_skippable();
        let is_nan = can_be && shared.nan_of(record, slot, source).is_some();
        note_failure(lock, source.to(slot), chunk, (failure, is_nan));
        first = first.or(Some(source.sample));
    }
    if shared.reader(slot).is_none() {
        shared.stats.bad_chunks.fetch_add(1, Relaxed);
        first.into_iter().for_each(|sample| lock.lock().note_bad_chunk((slot, sample), failure));
    }
}

/// Name of a file in its array: "c/0/3".
pub fn file_key(record: &ArrayRecord, file: u64) -> Text<FILE_KEY_BYTES> {
    let mut key = Text::new();
    write_file_key(record, &record.file_coordinates(file)[..record.axes()], &mut key);
    key
}

/// A failure of one chunk: its text names array, chunk, the chunk's file and the reason.
pub fn chunk_failure(
    shared: &Shared,
    array: ArraySlot,
    record: &ArrayRecord,
    (file, chunk): (u64, u64),
    status: Status,
    why: &Why,
) -> Failure {
    if record.flat.is_some() {
        return flat_failure(&shared.file_path(array, record, file), status, why);
    }
    if record.origin.numbers_elements {
        let (low, last) = (record.element_at(file), record.element_at(chunk));
        let (low, last) = (List(&low[..record.axes()]), List(&last[..record.axes()]));
        let mut text = Why::new();
        text.fail(status, format_args!("elements {low} to {last}: {why}"));
        return sample_failure(shared, array, status, &text);
    }
    let coordinates = record.stored_coordinates(file, chunk);
    let coordinates = &coordinates[..record.axes()];
    let uri = shared.array_uri(array);
    let mut failure = Failure::new(status);
    failure.chunk.extend(coordinates.iter().copied());
    let list = List(coordinates);
    let (shown, key) = (Tail(uri, SHOWN_BYTES), file_key(record, file));
    let key = Tail(key.as_str(), SHOWN_KEY_BYTES);
    failure.text.fail(status, format_args!("{shown}: chunk {list} in {key}: {why}"));
    failure
}

/// A failure of a flat file, which has no chunks of its own. Errors of opening a file name it
/// already.
fn flat_failure(path: &Path, status: Status, why: &Why) -> Failure {
    let (mut failure, path) = (Failure::new(status), Tail(path.as_str(), SHOWN_BYTES));
    let mut shown = Why::new();
    shown.write_line(format_args!("{}", path.0));
    match why.as_str().starts_with(shown.as_str()) {
        true => failure.text.fail(status, format_args!("{why}")),
        false => failure.text.fail(status, format_args!("{path}: {why}")),
    };
    failure
}

/// A failure of a sample that no chunk is to blame for. Memory that is fed has no name.
pub fn sample_failure(shared: &Shared, array: ArraySlot, status: Status, why: &Why) -> Failure {
    if array == ArraySlot::NONE {
        return Failure::because(status, why);
    }
    let uri = shared.array_uri(array);
    let mut failure = Failure::new(status);
    let shown = Tail(uri, SHOWN_BYTES);
    failure.text.fail(status, format_args!("{shown}: {why}"));
    failure
}

/// The device failed: the stream ends. With no lock held, because it is logged.
pub fn fail_device(lock: &Lock, fault: &Fault) {
    let mut why = Why::new();
    let status = match fault {
        Fault::Call(..) | Fault::Silent => {
            fail!(why, Cuda, "{fault}: the stream ends; close the loader")
        }
        Fault::Kernel(_) => fail!(why, Internal, "{fault}: the stream ends; close the loader"),
        Fault::Tiles => fail!(why, Unsupported, "{fault}; close the loader"),
    };
    let failure = Failure::because(status, &why);
    let is_first = {
        let state = &mut *lock.lock();
        let is_first = !state.device.is_dead();
        state.is_halted = true;
        state.device.failure.get_or_insert_with(|| failure.clone());
        state.sticky.get_or_insert_with(|| failure.clone());
        state.wakes.all(Condition::Batch);
        state.wakes.all(Condition::Space);
        state.wakes.all(Condition::Idle);
        is_first
    };
    // A process that ends with a loader open ended it on purpose, and its log may be gone.
    if is_first && !fault.is_of_exit() {
        lock.shared.sink.log(Level::Error, 0, format_args!("{failure}"));
    }
}
