//! Reads that the host answers: elements of arrays of its own (`config.source`).
//!
//! In: a read of one chunk of a wave. Out: its elements in the slab, or the samples that fail. No
//! lock is held while the host is asked, and it may wait.

use crate::base::arena::Claim;
use crate::base::indexes::WaveIndex;
use crate::base::stats::Stage;
use crate::base::status::{Status, Why};
use crate::fail;
use crate::jobs::failures::fail_task;
use crate::jobs::read::unseen;
use crate::os::profiler;
use crate::os::store::{Fault, Path};
use crate::records::{ArrayRecord, HOOK_PREFIX, chunk_origin};
use crate::setup::config::MISSING_ERROR;
use crate::state::lock::{Lock, Locked};
use crate::state::shared::Shared;
use crate::wave::ReadOp;
use core::sync::atomic::Ordering::Relaxed;

/// Reads a chunk into the slab.
pub fn run<'l>(
    lock: &'l Lock,
    (wave, op): (WaveIndex, u32),
    read: &ReadOp,
    mut target: Claim<'static>,
) -> Locked<'l> {
    let shared = lock.shared;
    let record = shared.array_record(read.array);
    if record.origin.has_files {
        return unseen::run(lock, (wave, op), read, target);
    }
    let range = shared.profiler.range(profiler::IO);
    let start = (shared.os.now_ns)();
    // All tasks of the read are of the same chunk.
    let task = shared.tables.chunks.read(shared.wave_row(wave, read.chunk_first));
    let mut name = Path::new();
    let uri = shared.array_uri(read.array);
    name.push_str(uri.strip_prefix(HOOK_PREFIX).unwrap_or(uri));
    let mut own = None;
    let chunk = record.of_chunk((task.file, task.chunk), &mut own);
    let begin = chunk_origin(record, task.file, task.chunk);
    let mut end = begin;
    end.iter_mut().zip(&chunk.chunk_shape).for_each(|(end, extent)| *end += extent);
    let axes = if record.is_scalar { 0 } else { record.axes() };
    let place = target.part(0, read.bytes);
    let box_of = (&begin[..axes], &end[..axes]);
    let answer = shared.asked.read(&name, box_of, place);
    if let Err(failure) = answer.or_else(|fault| fill_absent(shared, record, fault, place)) {
        for chunk in read.chunk_first..read.chunk_first + read.chunk_count {
            fail_task(lock, wave, chunk, record, &failure);
        }
    }
    shared.stats.reads_issued.fetch_add(1, Relaxed);
    let at = shared.profiler.here().of_wave(wave.0);
    shared.observe(Stage::Io, start, (read.bytes, read.bytes), at);
    drop(range);
    let mut state = lock.lock();
    state.set_ready(shared, wave, op);
    state
}

/// What is absent reads as the array's fill value, if that is what the config asks for.
fn fill_absent(
    shared: &Shared,
    record: &ArrayRecord,
    fault: Fault,
    place: &mut [u8],
) -> Result<(), (Status, Why)> {
    let mut why = Why::new();
    let status = match fault {
        Fault::Absent if shared.settings.config.missing_chunks == MISSING_ERROR => {
            fail!(&mut why, NotFound, "the chunk does not exist (missing_chunks = error)")
        }
        Fault::Absent => {
            let bytes = record.dtype_bytes as usize;
            let elements = place.chunks_exact_mut(bytes);
            elements.for_each(|element| element.copy_from_slice(&record.fill[..bytes]));
            shared.stats.chunks_missing.fetch_add(1, Relaxed);
            return Ok(());
        }
        _ => fail!(&mut why, Io, "source.read reports a failure"),
    };
    Err((status, why))
}
