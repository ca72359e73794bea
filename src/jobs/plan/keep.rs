//! The planner and the cache of decoded chunks: which chunks are found in it, and which get a
//! place.
//!
//! In: window entries. Out: cached entries, each of the version of its file that the batch sees.

use crate::chunk_cache::ChunkKey;
use crate::decode::kept_bytes;
use crate::jobs::plan::ask::{LookUp, ask_look};
use crate::jobs::plan::planned::{Place, Planned, Settled};
use crate::os::FileStat;
use crate::records::{ArrayRecord, Need, Span};
use crate::setup::geometry::SMALL_CHUNK_BYTES;
use crate::state::State;
use crate::state::shared::Shared;
use crate::wave::{Kept, ReadOp};
use core::sync::atomic::Ordering::Relaxed;

/// Parts of an uncompressed chunk, as large as what boxes need of it, that are read with it.
const PARTS_MAX: u64 = 4;

fn chunk_key(entry: &Planned) -> ChunkKey {
    ChunkKey { array_id: entry.array_id, file: entry.file, chunk: entry.chunk }
}

/// Whether chunks of the array are cached.
pub fn is_keeping(shared: &Shared, record: &ArrayRecord) -> bool {
    shared.settings.cache_memory_bytes > 0 && record.is_cacheable()
}

/// Whether an uncompressed chunk, of which boxes need so many bytes, is read whole: if that costs
/// little beside the part, or beside the wait for storage.
fn is_read_whole(shared: &Shared, state: &State, record: &ArrayRecord, need_bytes: u64) -> bool {
    need_bytes >= record.chunk_bytes / PARTS_MAX
        || state.must_wait(shared) && record.chunk_bytes <= SMALL_CHUNK_BYTES
}

/// Whether the chunk of an entry is in the cache, of whatever version of its file.
pub fn has_kept(shared: &Shared, state: &State, entry: &Planned, record: &ArrayRecord) -> bool {
    is_keeping(shared, record) && state.chunks.find(chunk_key(entry)).is_some()
}

/// Settles window entry number `at` if its chunk is cached, or is being decoded for the cache by an
/// entry before it, of the version of the file that the batch sees: `seen`, or what is known of the
/// file once the batch looked. None: it is not cached, or not of that version.
///
/// An entry waits only for entries before it in the plan. Else waves full of waiting chunks could
/// keep out the one that they wait for. A chunk is decoded twice in the rare case that its entry
/// found its place in the file later than another entry after it, or that it is for a caller while
/// a batch decodes it, or the other way.
pub fn find_kept(
    shared: &Shared,
    state: &mut State,
    (entry, at): (&mut Planned, u64),
    record: &ArrayRecord,
    seen: Option<FileStat>,
) -> Option<LookUp> {
    if !is_keeping(shared, record) {
        return None;
    }
    let key = chunk_key(entry);
    let (slot, is_ready) = state.chunks.find(key)?;
    let stat = match seen {
        Some(stat) => stat,
        None if !record.origin.has_versions => ReadOp::EMPTY.stat,
        None => match state.files.find(entry.array_id, entry.file) {
            Some(file) if state.files.is_absent(file, entry.turn) => return None,
            Some(file) if state.files.is_looked_at(file, entry.turn) => {
                state.files.touch(file);
                state.files.known(file)?.0
            }
            _ => return Some(ask_look(state, entry)),
        },
    };
    if state.chunks.version(slot) != stat.version() {
        state.chunks.forget(slot);
        return None;
    }
    let is_reader = shared.reader(entry.slot).is_some();
    if !is_ready && (is_reader || state.owners[slot as usize] > at) {
        return None;
    }
    entry.version = Some(stat.version());
    state.chunks.pin(slot);
    if !is_reader {
        state.chunks.pass_chunk(key, entry.sample_limit);
    }
    entry.kept = Some(Kept { slot, offset: state.chunks.place(slot).0 });
    entry.place = Place::Known(Settled::Kept);
    shared.stats.chunk_cache_hits.fetch_add(1, Relaxed);
    shared.stats.chunk_cache_bytes_saved.fetch_add(record.chunk_bytes, Relaxed);
    Some(LookUp::Settled)
}

/// Window entry number `at` has found its chunk's place in the file: takes a place in the cache for
/// it, unless it has one by now. All chunks are decoded whole with a chunk cache, also those
/// without a place: the cache does not decide which chunks are refused. If a change of the file may
/// still leave the same version, chunks get no place. An uncompressed chunk is read whole only if
/// it gets one.
pub fn keep(
    shared: &Shared,
    state: &mut State,
    (entry, at): (&mut Planned, u64),
    record: &ArrayRecord,
) {
    let Place::Known(Settled::Data { offset, stat, .. }) = entry.place else { return };
    if !is_keeping(shared, record) {
        return;
    }
    if find_kept(shared, state, (entry, at), record, Some(stat)).is_some() {
        return;
    }
    let whole = Need::of(Span { first: 0, limit: record.chunk_bytes });
    let (whole, part) = (Need { box_bytes: entry.need.box_bytes, ..whole }, entry.need.span);
    let is_partly = record.is_read_partly();
    if !is_partly {
        entry.need = whole;
    }
    let (key, is_reader) = (chunk_key(entry), shared.reader(entry.slot).is_some());
    if !is_reader {
        state.chunks.pass_chunk(key, entry.sample_limit);
    }
    if is_partly && !is_read_whole(shared, state, record, part.bytes()) {
        return;
    }
    let is_settled = || stat.version().is_settled((shared.os.wall_tick_ns)());
    if state.chunks.find(key).is_some() || !is_settled() {
        return;
    }
    let evictions = state.chunks.evictions();
    let inserted = state.chunks.insert(key, kept_bytes(record));
    let evicted = state.chunks.evictions() - evictions;
    shared.stats.chunk_cache_evictions.fetch_add(evicted, Relaxed);
    let Some(slot) = inserted else { return };
    state.chunks.pin(slot);
    state.chunks.set_version(slot, stat.version());
    // Nobody waits for a chunk that another lane decodes.
    state.owners[slot as usize] = if is_reader { u64::MAX } else { at };
    if is_partly {
        let (offset, bytes) = (offset - part.first, record.chunk_bytes);
        entry.place = Place::Known(Settled::Data { offset, bytes, stat });
        entry.need = whole;
    }
    entry.kept = Some(Kept { slot, offset: state.chunks.place(slot).0 });
}
