//! Loads of metadata: the document of an array becomes its record.

use crate::base::abi::PACKING_UNKNOWN;
use crate::base::cache::hash_bytes;
use crate::base::indexes::ArraySlot;
use crate::base::limits::{ENTRY_PATH_BYTES, METADATA_BYTES_MAX};
use crate::base::stats::Stage;
use crate::base::status::{Status, Why};
use crate::base::text::{Tail, Uri};
use crate::base::version::Version;
use crate::fail;
use crate::intake::arrays::ArrayState;
use crate::intake::target::Target;
use crate::jobs::lease::Opening;
use crate::jobs::parts;
use crate::os::profiler;
use crate::os::sink::Level;
use crate::read::SHOWN_BYTES;
use crate::records::grid::EdgeRun;
use crate::records::{ArrayRecord, HOOK_PREFIX, Packing, Placement, split_level_name};
use crate::source::find::find;
use crate::source::look::{Look, Seen, split_block};
use crate::state::State;
use crate::state::claims::claim_hold;
use crate::state::job::Job;
use crate::state::lock::{Lock, Locked};
use crate::state::scratch::Hold;
use crate::state::shared::Shared;
use crate::state::worker::Worker;
use core::sync::atomic::Ordering::Relaxed;

/// A finding at a uri.
struct Found<'w> {
    seen: Result<Seen, Status>,
    record: ArrayRecord,
    /// The runs of its rectilinear grid, those that `record` counts from first.
    edges: &'w [EdgeRun],
    /// The uri that it stands for.
    alias: &'w Uri,
    /// The place of the level that it is.
    placement: Placement,
    version: Option<Version>,
}

/// Reads the metadata of an array, or says why it is none.
pub fn run<'l>(
    lock: &'l Lock,
    worker: &mut Worker,
    array: ArraySlot,
    mut large: Option<Hold>,
) -> Locked<'l> {
    let (mut why, was_large) = (Why::new(), large.is_some());
    let found = load(lock, worker, array, large.as_mut(), &mut why);
    let mut state = lock.lock();
    settle(lock.shared, &mut state, (array, was_large), found, &mut why);
    large.into_iter().for_each(|hold| state.pool.give_back(hold));
    state
}

/// Looks for the array; None if no descriptor was to be had.
fn load<'w>(
    lock: &Lock,
    worker: &'w mut Worker,
    array: ArraySlot,
    large: Option<&'w mut Hold>,
    why: &mut Why,
) -> Option<Found<'w>> {
    let shared = lock.shared;
    let _range = shared.profiler.range(profiler::META);
    let start = (shared.os.now_ns)();
    let is_large = large.is_some();
    let (buffer, edges, alias) = split_block(worker.buffer())?;
    let buffer = match large {
        Some(hold) => hold.claim.bytes(),
        None => buffer,
    };
    let (access, mut record) = (Opening::new(lock), ArrayRecord::EMPTY);
    let (config, uri) = (&shared.settings.config, shared.array_uri(array));
    let mut look = Look {
        access: &access,
        asked: &shared.asked,
        uri,
        field: None,
        is_cf: false,
        casts_cf: !shared.settings.is_cuda() && config.augment == 0,
        files_max: config.max_npy_files,
        chunk_bytes_max: shared.settings.file_chunk_bytes,
        buffer,
        is_large,
        record: &mut record,
        edges,
        alias,
        takes_groups: false,
        document_bytes: 0,
        version: None,
        placement: Placement::NONE,
    };
    let seen = find(&mut look, why);
    let (bytes, version) = (look.document_bytes as u64, look.version);
    let placement = look.placement;
    shared.stats.files_opened.fetch_add(u64::from(!uri.starts_with(HOOK_PREFIX)), Relaxed);
    if access.is_later.get() {
        return None;
    }
    if let Ok(Seen::Array) | Err(_) = seen {
        shared.observe(Stage::Meta, start, (bytes, bytes), shared.profiler.here());
    }
    if let Ok(Seen::Array) = seen {
        record.cut_chunks(config.max_chunk_uncompressed_bytes, shared.settings.file_chunk_bytes);
        tell_packing(lock, uri, &record, why);
    }
    Some(Found { seen, record, edges, alias, placement, version })
}

fn settle(
    shared: &Shared,
    state: &mut State,
    (array, was_large): (ArraySlot, bool),
    found: Option<Found<'_>>,
    why: &mut Why,
) {
    let Some(mut found) = found else {
        state.arrays.requeue(array, was_large);
        state.loads_wait_since = Some(state.files.give_backs());
        return;
    };
    state.arrays.set_version(array, found.version);
    let end = match found.seen {
        Ok(Seen::Array) => match take_runs(shared, state, array, &mut found) {
            true => {
                keep_record(shared, array, found.record);
                ArrayState::Ready
            }
            false => return state.arrays.requeue(array, was_large),
        },
        Ok(Seen::Alias) => match target(shared.array_uri(array), found.alias, why) {
            Ok(target) => {
                state.arrays.set_target(array, &target, &found.placement);
                ArrayState::Alias
            }
            Err(status) => ArrayState::Failed(status),
        },
        Ok(Seen::Parts(count)) => {
            shared.views.records.write(array.at(), found.record);
            return parts::begin(state, array, count, was_large);
        }
        Ok(Seen::TooLarge | Seen::Group(_)) => return state.arrays.requeue(array, true),
        Err(status) => ArrayState::Failed(status),
    };
    let is_lookup = end != ArrayState::Alias;
    shared.stats.array_meta_misses.fetch_add(u64::from(is_lookup), Relaxed);
    state.arrays.finish(array, end, why);
    state.want_plan(true);
}

/// Gives an array a place for the runs of its grid, if it has any; false while none is free.
fn take_runs(shared: &Shared, state: &mut State, array: ArraySlot, found: &mut Found<'_>) -> bool {
    let count = found.record.rows_used();
    if count == 0 {
        return true;
    }
    let State { arrays, edges, .. } = state;
    let owner = (array, arrays.id(array));
    let needs_rows = &mut |slot, id, must_go| arrays.needs_rows(slot, id, must_go);
    let Some(first) = edges.rows.take(owner, count, needs_rows) else {
        edges.rows.waits_since = Some(arrays.uses_ended());
        return false;
    };
    let rows = shared.claim_edges(first as usize, count as usize);
    rows.copy_from_slice(&found.edges[..count as usize]);
    found.record.bind_rows(rows);
    true
}

fn target(uri: &str, alias: &Uri, why: &mut Why) -> Result<Target, Status> {
    Target::of(uri, alias.as_str()).ok_or_else(|| {
        let text = "the rest of the name that it stands for has more bytes than";
        let uri = Tail(split_level_name(uri).map_or(uri, |(uri, _)| uri), SHOWN_BYTES);
        fail!(why, Unsupported, "{uri}: {text} {ENTRY_PATH_BYTES}: name an array")
    })
}

fn keep_record(shared: &Shared, array: ArraySlot, mut record: ArrayRecord) {
    record.give_axis();
    shared.views.records.write(array.at(), record);
    if let Some(refusals) = shared.views.refusals.get(array.at()) {
        refusals.store(0, Relaxed);
    }
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
    let text = "elements are delivered packed, as they are stored: apply this, or read URI#cf=1";
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
