//! Loads of metadata: the document of an array becomes its record.

use crate::base::indexes::ArraySlot;
use crate::base::limits::{EDGE_RUNS_MAX, METADATA_BYTES_MAX};
use crate::base::math::index;
use crate::base::status::{Status, Why};
use crate::base::version::Version;
use crate::intake::arrays::{ArrayState, Uri};
use crate::jobs::asked::ask_for;
use crate::jobs::flat::read_flat;
use crate::jobs::groups::{GroupPlace, is_no_path, refuse_group, select_level};
use crate::jobs::lease::making_room;
use crate::jobs::packing::{read_packing, tell_packing};
use crate::jobs::parts::{self, Access, Begun, begin_parts, find_numbered};
use crate::os::asked::Asked;
use crate::os::profiler;
use crate::os::store::{Fault, Path};
use crate::read::{Document, open_folder, read_document};
use crate::records::grid::EdgeRun;
use crate::records::{ArrayRecord, DocumentKind, HOOK_PREFIX};
use crate::source::zarr::array_from_document;
use crate::state::State;
use crate::state::job::Job;
use crate::state::lock::{Lock, Locked};
use crate::state::scratch::Hold;
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
    let is_large = large.is_some();
    let buffer = match large {
        Some(hold) => hold.claim.bytes(),
        None => worker.buffer(),
    };
    let is_later = Cell::new(false);
    let mut open = |path: &Path| {
        let opened = making_room(lock, |store| store.open(path));
        is_later.set(is_later.get() || opened.is_none());
        opened.unwrap_or(Err(Fault::WouldBlock))
    };
    let mut open_folder = |uri: &str| {
        let opened = making_room(lock, |store| open_folder(store, uri));
        is_later.set(is_later.get() || opened.is_none());
        opened.unwrap_or(Err(Fault::WouldBlock))
    };
    let mut access =
        Access { store: &shared.store, open: &mut open, open_folder: &mut open_folder };
    let (config, uri) = (&shared.settings.config, shared.array_uri(array));
    let place = (uri, (config.max_npy_files, config.max_chunk_uncompressed_bytes));
    let (edges, alias) = (shared.claim_edges(array), shared.claim_alias(array));
    let mut found = Found { edges, alias, document_bytes: 0, version: None };
    let target = (&mut *buffer, is_large);
    let look = look_for(&mut access, &shared.asked, place, target, &mut found, why);
    let (bytes, version) = (found.document_bytes, found.version);
    shared.stats.files_opened.fetch_add(u64::from(!uri.starts_with(HOOK_PREFIX)), Relaxed);
    let loaded = match look {
        _ if is_later.get() => return Outcome::Later,
        Ok(Some(Seen::Record(record))) => Ok(record),
        Ok(Some(Seen::Alias)) => return Outcome::Alias,
        Ok(Some(Seen::Parts(Begun { sequence, record, .. }))) => {
            shared.views.records.write(array.at(), record);
            return Outcome::Parts(sequence.count, version);
        }
        Ok(Some(Seen::Group(kind))) => {
            let document_bytes = index(bytes);
            let place = GroupPlace { store: &shared.store, uri, kind, document_bytes };
            match refuse_group(&place, access.open, buffer, is_large, why) {
                _ if is_later.get() => return Outcome::Later,
                Some(status) => Err(status),
                None => return Outcome::TooLarge,
            }
        }
        Ok(None) => return Outcome::TooLarge,
        Err(status) => Err(status),
    };
    shared.stats.meta.observe((shared.os.now_ns)() - start, bytes, bytes);
    shared.stats.array_meta_misses.fetch_add(1, Relaxed);
    Outcome::Loaded(loaded.map(|record| keep_record(lock, array, record, why)), version)
}

fn keep_record(lock: &Lock, array: ArraySlot, mut record: ArrayRecord, why: &Why) {
    let shared = lock.shared;
    tell_packing(lock, shared.array_uri(array), &record, why);
    // The runs of this entry's grid: ours until the load ends.
    let edges = shared.views.edges.rows(array.at() * EDGE_RUNS_MAX, EDGE_RUNS_MAX);
    record.bind_edges(edges);
    record.give_axis();
    shared.views.records.write(array.at(), record);
    if let Some(refusals) = shared.views.refusals.get(array.at()) {
        refusals.store(0, Relaxed);
    }
}

/// What lies at a uri.
pub enum Seen {
    /// An array, in one file or as its document says.
    Record(ArrayRecord),
    /// Another uri, which is at `Found::alias`.
    Alias,
    /// An array in numbered files.
    Parts(Begun),
    /// A group, by a document of that kind, whose bytes lie at the start of the buffer.
    Group(DocumentKind),
}

/// Room for the findings of a look that are too large for its result.
pub struct Found<'a> {
    /// Runs of a rectilinear grid.
    pub edges: &'a mut [EdgeRun],
    /// The uri that the one that is looked for stands for.
    pub alias: &'a mut Uri,
    /// Bytes of its document.
    pub document_bytes: u64,
    /// The version of its document, of its .npy file, or of the folder of its numbered files; None
    /// where nothing of an array is read there.
    pub version: Option<Version>,
}

/// Looks for an array in what the host has, among flat files, then among documents. Files of
/// numbers are `most.0` at most, and chunks of flat files have `most.1` bytes. None where `buffer`
/// is too small, unless it is large already. `why` says why the packing of a record is not known,
/// if it is not.
#[inline(never)] // what is left of a look is not to stand on the stack of all that follows
pub fn look_for(
    access: &mut Access<'_, '_>,
    asked: &Asked,
    (uri, most): (&str, (u32, u64)),
    (buffer, is_large): (&mut [u8], bool),
    found: &mut Found<'_>,
    why: &mut Why,
) -> Result<Option<Seen>, Status> {
    if let Some(asked) = ask_for(asked, uri, why) {
        return asked.map(|record| Some(Seen::Record(record)));
    }
    let (store, flat) = (access.store, (uri, most.1));
    if let Some(flat) = read_flat(store, &mut access.open, flat, buffer, is_large, why) {
        let flat = flat?;
        found.version = flat.as_ref().and_then(|record| record.flat_version);
        return Ok(flat.map(Seen::Record));
    }
    if let Some(begun) = begin_parts(access, (uri, most), (&mut *buffer, is_large), why) {
        let begun = begun?;
        found.version = begun.as_ref().map(|begun| begun.folder);
        return Ok(begun.map(Seen::Parts));
    }
    let found_document = match is_no_path(store, uri) {
        true => Err(Status::NotFound),
        false => read_document(store, &mut access.open, uri, buffer, why),
    };
    let (kind, document) = match found_document {
        Ok(Some(Document { kind, bytes, version })) => {
            found.version = Some(version);
            (kind, bytes)
        }
        Ok(None) => return Ok(None),
        // A mark in the name of something that is there is a part of the name.
        Err(Status::NotFound) => {
            let alias = &mut *found.alias;
            let selected = select_level(store, access.open, uri, (buffer, is_large), alias, why);
            return match selected
                .or_else(|| find_numbered(access, uri, alias, why).map(|found| found.map(Some)))
            {
                Some(selected) => Ok(selected?.map(|()| Seen::Alias)),
                None => Err(Status::NotFound),
            };
        }
        Err(status) => return Err(status),
    };
    found.document_bytes = document.len() as u64;
    match array_from_document(kind, document, uri, found.edges, why) {
        Err(Status::NotFound) => Ok(Some(Seen::Group(kind))),
        Ok(mut record) => {
            let target = (buffer, is_large);
            let is_read = read_packing(access, uri, target, &mut record, why);
            Ok(is_read.then_some(Seen::Record(record)))
        }
        Err(status) => Err(status),
    }
}

/// How a load ended.
enum Outcome {
    /// The record is there; or why there is none.
    Loaded(Result<(), Status>, Option<Version>),
    /// The uri stands for another one, which is in the entry.
    Alias,
    /// It lies in so many files, of which the first was read, of a folder of that version.
    Parts(u32, Option<Version>),
    /// The documents want the large buffer.
    TooLarge,
    /// No descriptor was to be had.
    Later,
}

fn settle(state: &mut State, array: ArraySlot, was_large: bool, outcome: Outcome, why: &Why) {
    match outcome {
        Outcome::Loaded(result, version) => {
            state.arrays.set_version(array, version);
            let end = result.map_or_else(ArrayState::Failed, |()| ArrayState::Ready);
            state.arrays.finish(array, end, why);
            state.plan_wanted = true;
        }
        Outcome::Alias => {
            state.arrays.finish(array, ArrayState::Alias, why);
            state.plan_wanted = true;
        }
        Outcome::Parts(count, version) => {
            state.arrays.set_version(array, version);
            parts::begin(state, array, count, was_large);
        }
        Outcome::TooLarge => state.arrays.requeue(array, true),
        Outcome::Later => {
            state.arrays.requeue(array, was_large);
            state.loads_wait_since = Some(state.files.give_backs());
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
