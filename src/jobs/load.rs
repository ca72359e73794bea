//! Loads of metadata: the document of an array becomes its record.

use crate::base::indexes::ArraySlot;
use crate::base::limits::{EDGE_RUNS_MAX, METADATA_BYTES_MAX};
use crate::base::status::{Status, Why};
use crate::intake::arrays::ArrayState;
use crate::jobs::asked::ask_for;
use crate::jobs::flat::read_flat;
use crate::jobs::groups::{GroupPlace, refuse_group, select_level};
use crate::jobs::lease::is_short_of_descriptors;
use crate::os::store::{Fault, Path};
use crate::os::{FileStat, profiler};
use crate::read::{Document, OpenFault, read_document};
use crate::records::ArrayRecord;
use crate::source::zarr::array_from_document;
use crate::state::State;
use crate::state::job::Job;
use crate::state::lock::{Lock, Locked};
use crate::state::scratch::Hold;
use crate::state::shared::Shared;
use crate::state::worker::Worker;
use core::cell::Cell;
use core::sync::atomic::Ordering::Relaxed;

/// Reads the metadata of an array, or says why it is none.
pub fn run<'l>(
    lock: &'l Lock,
    worker: &mut Worker,
    array: ArraySlot,
    mut large: Option<Hold>,
) -> Locked<'l> {
    let mut why = Why::new();
    let outcome = load(lock, worker, array, large.as_mut(), &mut why);
    let mut state = lock.lock();
    settle(&mut state, array, large.is_some(), outcome, &why);
    large.into_iter().for_each(|hold| state.pool.give_back(hold));
    state
}

fn load(
    lock: &Lock,
    worker: &mut Worker,
    array: ArraySlot,
    large: Option<&mut Hold>,
    why: &mut Why,
) -> Outcome {
    let shared = lock.shared;
    let _range = shared.profiler.range(profiler::META);
    let start = (shared.os.now_ns)();
    let uri = shared.array_uri(array);
    let is_large = large.is_some();
    let buffer = match large {
        Some(hold) => hold.claim.bytes(),
        None => worker.buffer(),
    };
    let is_later = Cell::new(false);
    let mut open = |path: &Path| {
        let opened = open_making_room(lock, path);
        is_later.set(opened.is_none());
        opened.unwrap_or(Err(Fault::WouldBlock))
    };
    if let Some(asked) = ask_for(&shared.asked, uri, why) {
        return loaded_as(shared, array, (start, 0), asked);
    }
    let mut bytes = 0;
    let most = shared.settings.config.max_chunk_uncompressed_bytes;
    let flat = read_flat(&shared.store, &mut open, (uri, most), buffer, is_large, why);
    shared.stats.files_opened.fetch_add(1, Relaxed);
    if let Some(flat) = flat {
        if is_later.get() {
            return Outcome::Later;
        }
        let Some(loaded) = flat else { return Outcome::TooLarge };
        return loaded_as(shared, array, (start, 0), loaded);
    }
    let read = read_document(&shared.store, &mut open, uri, buffer, why);
    let loaded = match read {
        Ok(Some(Document { kind, bytes: document })) => {
            bytes = document.len() as u64;
            let document_bytes = document.len();
            let table = shared.claim_edges(array);
            match array_from_document(kind, document, uri, table, why) {
                Err(Status::NotFound) => {
                    let place = GroupPlace { store: &shared.store, uri, kind, document_bytes };
                    let refused = refuse_group(&place, &mut open, buffer, is_large, why);
                    refused.map(Err)
                }
                loaded => Some(loaded),
            }
        }
        Ok(None) => None,
        Err(_) if is_later.get() => return Outcome::Later,
        // A mark in the name of something that is there is a part of the name.
        Err(Status::NotFound) => {
            let buffer = (buffer, is_large);
            match select_level(&shared.store, &mut open, uri, buffer, why) {
                _ if is_later.get() => return Outcome::Later,
                Some(Some(Ok(()))) => return Outcome::Alias,
                Some(Some(Err(status))) => Some(Err(status)),
                Some(None) => Some(Err(Status::NotFound)),
                None => None,
            }
        }
        Err(status) => Some(Err(status)),
    };
    let Some(loaded) = loaded else { return Outcome::TooLarge };
    loaded_as(shared, array, (start, bytes), loaded)
}

/// A load of so many bytes has ended.
fn loaded_as(
    shared: &Shared,
    array: ArraySlot,
    (start, bytes): (u64, u64),
    loaded: Result<ArrayRecord, Status>,
) -> Outcome {
    shared.stats.meta.observe((shared.os.now_ns)() - start, bytes, bytes);
    shared.stats.array_meta_misses.fetch_add(1, Relaxed);
    let result = loaded.map(|mut record| {
        // The runs of this entry's grid: ours until the load ends.
        let edges = shared.views.edges.rows(array.at() * EDGE_RUNS_MAX, EDGE_RUNS_MAX);
        record.bind_edges(edges);
        record.give_axis();
        shared.views.records.write(array.at(), record);
    });
    Outcome::Loaded(result)
}

/// How a load ended.
enum Outcome {
    /// The record is there; or why there is none.
    Loaded(Result<(), Status>),
    /// The uri stands for another one, which the text is.
    Alias,
    /// The documents want the large buffer.
    TooLarge,
    /// No descriptor was to be had.
    Later,
}

fn settle(state: &mut State, array: ArraySlot, was_large: bool, outcome: Outcome, why: &Why) {
    match outcome {
        Outcome::Loaded(result) => {
            let end = result.map_or_else(ArrayState::Failed, |()| ArrayState::Ready);
            state.arrays.finish(array, end, why);
            state.plan_wanted = true;
        }
        Outcome::Alias => {
            state.arrays.finish(array, ArrayState::Alias, why);
            state.plan_wanted = true;
        }
        Outcome::TooLarge => state.arrays.requeue(array, true),
        Outcome::Later => {
            state.arrays.requeue(array, was_large);
            state.loads_wait_since = Some(state.files.give_backs());
        }
    }
}

/// Opens a file that the table of files does not know; idle descriptors of the table make room
/// where the process has none left. None where only descriptors in use are in the way.
pub fn open_making_room(lock: &Lock, path: &Path) -> Option<Result<(i32, FileStat), Fault>> {
    let shared = lock.shared;
    // Ends: every turn closes a descriptor of ours, or returns.
    loop {
        let opened = shared.store.open(path);
        if !opened.is_err_and(|fault| is_short_of_descriptors(OpenFault::Store(fault))) {
            return Some(opened);
        }
        let files = &mut lock.lock().files;
        match files.drain() {
            Some(idle) => shared.store.close_data(idle),
            None if files.leases() > 0 => return None,
            None => return Some(opened),
        }
    }
}

/// The next array whose metadata can be loaded now.
pub fn take(state: &mut State) -> Option<Job> {
    let has_large = state.pool.has_room(METADATA_BYTES_MAX as u64);
    let (array, is_large) = state.arrays.next_queued(has_large)?;
    let large = if is_large { state.pool.take(METADATA_BYTES_MAX as u64) } else { None };
    Some(Job::LoadArray { array, large })
}
