//! Loads of metadata: the document of an array becomes its record.

use crate::base::abi::PACKING_UNKNOWN;
use crate::base::cache::hash_bytes;
use crate::base::indexes::ArraySlot;
use crate::base::limits::{EDGE_RUNS_MAX, METADATA_BYTES_MAX};
use crate::base::status::{Status, Why};
use crate::base::text::Tail;
use crate::base::version::Version;
use crate::intake::arrays::ArrayState;
use crate::jobs::lease::Opening;
use crate::jobs::parts;
use crate::os::profiler;
use crate::os::sink::Level;
use crate::read::SHOWN_BYTES;
use crate::records::{ArrayRecord, HOOK_PREFIX, Packing};
use crate::source::find::find;
use crate::source::look::{Look, Seen};
use crate::state::State;
use crate::state::claims::claim_hold;
use crate::state::job::Job;
use crate::state::lock::{Lock, Locked};
use crate::state::scratch::Hold;
use crate::state::worker::Worker;
use core::sync::atomic::Ordering::Relaxed;

/// Reads the metadata of an array, or says why it is none.
pub fn run<'l>(
    lock: &'l Lock,
    worker: &mut Worker,
    array: ArraySlot,
    mut large: Option<Hold>,
) -> Locked<'l> {
    let mut why = Why::new();
    let loaded = load(lock, worker, array, large.as_mut(), &mut why);
    let mut state = lock.lock();
    settle(&mut state, array, large.is_some(), loaded, &why);
    large.into_iter().for_each(|hold| state.pool.give_back(hold));
    state
}

/// The finding, and its version; None if no descriptor was to be had.
fn load(
    lock: &Lock,
    worker: &mut Worker,
    array: ArraySlot,
    large: Option<&mut Hold>,
    why: &mut Why,
) -> Option<(Result<Seen, Status>, Option<Version>)> {
    let shared = lock.shared;
    let _range = shared.profiler.range(profiler::META);
    let start = (shared.os.now_ns)();
    let is_large = large.is_some();
    let buffer = match large {
        Some(hold) => hold.claim.bytes(),
        None => worker.buffer(),
    };
    let (access, mut record) = (Opening::new(lock), ArrayRecord::EMPTY);
    let (config, uri) = (&shared.settings.config, shared.array_uri(array));
    let mut look = Look {
        access: &access,
        asked: &shared.asked,
        uri,
        files_max: config.max_npy_files,
        chunk_bytes_max: shared.settings.file_chunk_bytes,
        buffer,
        is_large,
        record: &mut record,
        edges: shared.claim_edges(array),
        alias: shared.claim_alias(array),
        takes_groups: false,
        document_bytes: 0,
        version: None,
    };
    let seen = find(&mut look, why);
    let (bytes, version) = (look.document_bytes as u64, look.version);
    shared.stats.files_opened.fetch_add(u64::from(!uri.starts_with(HOOK_PREFIX)), Relaxed);
    if access.is_later.get() {
        return None;
    }
    if let Ok(Seen::Array) | Err(_) = seen {
        shared.stats.meta.observe((shared.os.now_ns)() - start, bytes, bytes);
        shared.stats.array_meta_misses.fetch_add(1, Relaxed);
    }
    match seen {
        Ok(Seen::Array) => keep_record(lock, array, record, why),
        Ok(Seen::Parts(_)) => shared.views.records.write(array.at(), record),
        _ => {}
    }
    Some((seen, version))
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

fn settle(
    state: &mut State,
    array: ArraySlot,
    was_large: bool,
    loaded: Option<(Result<Seen, Status>, Option<Version>)>,
    why: &Why,
) {
    let Some((seen, version)) = loaded else {
        state.arrays.requeue(array, was_large);
        state.loads_wait_since = Some(state.files.give_backs());
        return;
    };
    state.arrays.set_version(array, version);
    let end = match seen {
        Ok(Seen::Array) => ArrayState::Ready,
        Ok(Seen::Alias) => ArrayState::Alias,
        Ok(Seen::Parts(count)) => return parts::begin(state, array, count, was_large),
        Ok(Seen::TooLarge | Seen::Group(_)) => return state.arrays.requeue(array, true),
        Err(status) => ArrayState::Failed(status),
    };
    state.arrays.finish(array, end, why);
    state.plan_wanted = true;
}

/// Logs, once for each array, that its elements come out packed; `why` says why that is not known.
fn tell_packing(lock: &Lock, uri: &str, record: &ArrayRecord, why: &Why) {
    let changes = record.packing.changes;
    if changes == 0 || lock.lock().arrays.is_told(hash_bytes(uri.as_bytes())) {
        return;
    }
    let sink = &lock.shared.sink;
    if changes & PACKING_UNKNOWN != 0 {
        let text = "so whether the elements of the array are packed is not known";
        return sink.log(Level::Warn, 0, format_args!("{why}: {text}"));
    }
    let names = Names(changes);
    let text = "elements come out packed, as they are stored, so apply this to what comes out";
    let uri = Tail(uri, SHOWN_BYTES);
    sink.log(Level::Warn, 0, format_args!("{uri}: its attributes have {names}: {text}"));
}

/// The names of attributes, as a text lists them.
struct Names(u32);

impl core::fmt::Display for Names {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let mut separator = "";
        for name in Packing::names(self.0) {
            write!(f, "{separator}{name}")?;
            separator = ", ";
        }
        Ok(())
    }
}

/// The next array whose metadata can be loaded now.
pub fn take(state: &mut State) -> Option<Job> {
    let has_large = state.pool.has_room(METADATA_BYTES_MAX as u64);
    let (array, is_large) = state.arrays.next_queued(has_large)?;
    let bytes = METADATA_BYTES_MAX as u64;
    let large = if is_large { claim_hold(&mut state.pool, bytes) } else { None };
    Some(Job::LoadArray { array, large })
}
