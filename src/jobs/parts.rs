//! Metadata of arrays that lie in numbered .npy files: once the folder was listed, the headers are
//! read by as many workers as are free.
//!
//! In: slices of files, and the record of the first file. Out: one record for all of them; or the
//! file that is missing, or that is another array's.

use crate::base::indexes::ArraySlot;
use crate::base::stats::Stage;
use crate::base::status::{Status, Why};
use crate::intake::arrays::ArrayState;
use crate::intake::parts::Slice;
use crate::jobs::lease::Opening;
use crate::os::profiler;
use crate::records::grid::EdgeRun;
use crate::source::parts::check_part;
use crate::state::State;
use crate::state::job::Job;
use crate::state::lock::{Lock, Locked};
use crate::state::shared::Shared;
use crate::state::worker::Worker;
use core::sync::atomic::Ordering::Relaxed;

/// Reads the headers of a slice of files.
pub fn run<'l>(lock: &'l Lock, worker: &mut Worker, slice: &Slice) -> Locked<'l> {
    let shared = lock.shared;
    let _range = shared.profiler.range(profiler::META);
    let start = (shared.os.now_ns)();
    let (first, uri) = (shared.array_record(slice.array), shared.array_uri(slice.array));
    let (access, mut why, mut failed) = (Opening::new(lock), Why::new(), None);
    let (parts, runs) = shared.claim_parts(slice.row as usize, slice.count as usize);
    for (number, (part, run)) in (slice.first..).zip(parts.iter_mut().zip(runs)) {
        let place = (uri, first, number);
        match check_part(&access, place, worker.buffer(), &mut why) {
            Ok((found, rows)) => {
                *part = found;
                *run = EdgeRun { limit: rows, cell_limit: 0 };
            }
            Err(status) => {
                failed = Some((number, status, why));
                break;
            }
        }
    }
    shared.stats.files_opened.fetch_add(u64::from(slice.count), Relaxed);
    shared.observe(Stage::Meta, start, (0, 0), shared.profiler.here());
    let mut state = lock.lock();
    settle(shared, &mut state, failed);
    state
}

fn settle(shared: &Shared, state: &mut State, failed: Option<(u32, Status, Why)>) {
    let Some((array, loaded)) = state.parts.finish(failed) else { return };
    shared.stats.array_meta_misses.fetch_add(1, Relaxed);
    match loaded {
        Ok((first, count)) => {
            let mut record = state.arrays.records.read(array.at());
            let (parts, runs) = shared.claim_parts(first, count);
            record.join_parts(parts, runs, shared.settings.file_chunk_bytes);
            shared.views.records.write(array.at(), record);
            state.arrays.finish(array, ArrayState::Ready, &Why::new());
        }
        Err((status, why)) => state.arrays.finish(array, ArrayState::Failed(status), &why),
    }
    state.want_plan(true);
}

/// The files of an array are known: their headers are read, once rows are free for them.
pub fn begin(state: &mut State, array: ArraySlot, count: u32, was_large: bool) {
    let id = state.arrays.id(array);
    let (arrays, parts) = (&mut state.arrays, &mut state.parts);
    let needs_rows = &mut |slot, id, must_go| arrays.needs_rows(slot, id, must_go);
    if !parts.begin((array, id), count, needs_rows) {
        parts.rows.waits_since = Some(arrays.uses_ended());
        arrays.requeue(array, was_large);
    }
}

/// The next files whose headers nobody reads.
pub fn take(state: &mut State) -> Option<Job> {
    state.parts.take().map(Job::LoadParts)
}
