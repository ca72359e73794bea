//! Reads of files that are one chunk each, and that nobody looked at before.
//!
//! In: a read of such a file. Out: its bytes in the slab and how many they are, or the fill value
//! in its place if there is no such file, or the samples that fail. One request of the store tells
//! all of it; it may wait, and no lock is held meanwhile.

use crate::base::arena::Claim;
use crate::base::indexes::WaveIndex;
use crate::base::stats::Stage;
use crate::base::status::{Status, Why};
use crate::fail;
use crate::jobs::absence::look_above_one;
use crate::jobs::failures::fail_task;
use crate::os::store::{Fault, NO_FD, Path};
use crate::os::{FileStat, profiler};
use crate::read::{Outcome, Question, shown, whole_file_bytes, whole_file_bytes_max};
use crate::records::ArrayRecord;
use crate::setup::config::MISSING_ERROR;
use crate::state::lock::{Lock, Locked};
use crate::state::shared::Shared;
use crate::wave::{ChunkKind, ChunkTask, ReadOp};
use core::sync::atomic::Ordering::Relaxed;

/// Reads a file into the slab.
pub fn run<'l>(
    lock: &'l Lock,
    (wave, op): (WaveIndex, u32),
    read: &ReadOp,
    mut target: Claim<'static>,
) -> Locked<'l> {
    let shared = lock.shared;
    let range = shared.profiler.range(profiler::IO);
    let start = (shared.os.now_ns)();
    // All tasks of the read are of the same chunk.
    let first = shared.tables.chunks.read(shared.wave_row(wave, read.chunk_first));
    let (record, mut own, mut why) = (shared.array_record(read.array), None, Why::new());
    let of_chunk = record.of_chunk((read.file, first.chunk), &mut own);
    let mut path = Path::new();
    shared.write_file_path(read.array, record, read.file, &mut path);
    let got = match fetch(shared, of_chunk, read, &path, target.part(0, read.bytes), &mut why) {
        Err((Fault::Absent, _)) => absent(lock, read, &first, &path, &mut why).map(|()| 0),
        got => got.map_err(|(_, status)| status),
    };
    for chunk in read.chunk_first..read.chunk_first + read.chunk_count {
        let row = shared.wave_row(wave, chunk);
        let task = shared.tables.chunks.read(row);
        match got {
            Ok(0) => {
                let task = ChunkTask { kind: ChunkKind::Missing, bytes: 0, ..task };
                shared.tables.chunks.write(row, task);
            }
            Ok(got) => {
                let bytes = task.bytes.min(got);
                shared.tables.chunks.write(row, ChunkTask { bytes, ..task });
            }
            Err(status) => fail_task(lock, wave, chunk, record, &(status, why)),
        }
    }
    shared.stats.reads_issued.fetch_add(1, Relaxed);
    let (got, at) = (got.unwrap_or(0), shared.profiler.here().of_wave(wave.0));
    shared.observe(Stage::Io, start, (got, got), at);
    drop(range);
    let mut state = lock.lock();
    state.set_ready(shared, wave, op);
    state
}

/// Reads the bytes of a read: how many there are, at least 1.
fn fetch(
    shared: &Shared,
    record: &ArrayRecord,
    read: &ReadOp,
    path: &Path,
    target: &mut [u8],
    why: &mut Why,
) -> Result<u64, (Fault, Status)> {
    let is_whole = read.offset == 0 && read.bytes == whole_file_bytes_max(record);
    let result = if is_whole {
        shared.store.read_tail(path, target).map(|(stat, _)| stat.bytes)
    } else {
        // Any version will do: no other read is of this file.
        let opened = (NO_FD, FileStat::of_bytes(0));
        shared.store.read_again(opened, path, target, read.offset).map(|()| read.bytes)
    };
    match result {
        Ok(bytes) if is_whole => {
            whole_file_bytes(record, bytes, why).map_err(|status| (Fault::HookFailed, status))
        }
        Ok(bytes) => Ok(bytes),
        Err(fault) => Err((fault, fail!(why, Io, "{}: {fault}", shown(path)))),
    }
}

/// Whether a file that is absent is a missing chunk, or why not.
fn absent(
    lock: &Lock,
    read: &ReadOp,
    task: &ChunkTask,
    path: &Path,
    why: &mut Why,
) -> Result<(), Status> {
    let (shared, turn) = (lock.shared, lock.lock().slots.turn(task.slot));
    let ReadOp { array, array_id, file, .. } = *read;
    let question = Question { array, array_id, file, inner: None, page: 0, is_look: false, turn };
    why.clear();
    if let Outcome::Failed(status) = look_above_one(lock, &question, path, why) {
        return Err(status);
    }
    lock.lock().arrays.set_checked(array, turn);
    if shared.settings.config.missing_chunks == MISSING_ERROR {
        return Err(fail!(why, NotFound, "the chunk does not exist (missing_chunks = error)"));
    }
    shared.stats.chunks_missing.fetch_add(u64::from(read.chunk_count), Relaxed);
    Ok(())
}
