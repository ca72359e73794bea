//! The planner's lookups: where each chunk of the window lies.
//!
//! In: window entries that are New or Waiting. Out: entries that are placed, missing or gone. What
//! the caches of files and index pages do not know is asked for; equal questions share a lookup.

use crate::base::math::index;
use crate::chunk_cache::ChunkKey;
use crate::config::MISSING_ERROR;
use crate::decode::kept_bytes;
use crate::fail;
use crate::limits::{INDEX_PAGE_ENTRIES, compressed_bytes_max};
use crate::os::FileStat;
use crate::pipeline::Instance;
use crate::pipeline::assemble_jobs::chunk_failure;
use crate::pipeline::planner::{Place, Planned, Planner, RUN_CHUNKS};
use crate::pipeline::state::State;
use crate::read::{Outcome, Question};
use crate::records::{ArrayRecord, Span};
use crate::shard_index::{Entry, EntryBytes, IndexPlace, parse_entry};
use crate::status::{Status, Why};
use crate::wave::Kept;
use core::sync::atomic::Ordering::Relaxed;

impl Planner {
    /// Looks up where the chunks of the window lie.
    pub(super) fn settle(&mut self, instance: &Instance) -> bool {
        let mut progress = false;
        let mut at = self.first;
        let mut record: Option<(u32, ArrayRecord)> = None;
        let mut asked_all = true;
        while at < self.limit && asked_all {
            let mut guard = instance.lock.lock();
            let mut failed = None;
            for _ in 0..RUN_CHUNKS {
                if at == self.limit || failed.is_some() {
                    break;
                }
                let place = index(at % self.window.len() as u64);
                let mut entry = self.window[place];
                at += 1;
                if !matches!(entry.place, Place::New | Place::Waiting(_)) {
                    continue;
                }
                if record.as_ref().is_none_or(|(array, _)| *array != entry.array) {
                    let read = guard.arrays.records.read(entry.array as usize);
                    record = Some((entry.array, read));
                }
                let Some((_, found)) = record.as_ref() else { break };
                let mut why = Why::new();
                let was_new = matches!(entry.place, Place::New);
                match look_up(instance, &mut guard, &mut entry, found, &mut why) {
                    Ok(LookUp::Settled) => {
                        keep(instance, &mut guard, &mut entry, found, was_new);
                        progress = true;
                    }
                    Ok(LookUp::Asked) => progress |= matches!(self.window[place].place, Place::New),
                    Ok(LookUp::Full) => {
                        asked_all = false;
                        break;
                    }
                    Err(status) => {
                        failed = Some((place, entry, status, why));
                        entry.place = Place::Gone;
                        progress = true;
                    }
                }
                self.window[place] = entry;
            }
            if guard.requests.has_queued() {
                instance.wake(&guard);
            }
            drop(guard);
            if let Some((_, entry, status, why)) = failed {
                self.fail_planned(instance, &entry, status, &why);
            }
        }
        progress
    }

    /// Reports a chunk that cannot be read and takes it out of its batch.
    fn fail_planned(&self, instance: &Instance, entry: &Planned, status: Status, why: &Why) {
        let record = instance.records.read(entry.array as usize);
        let failure =
            chunk_failure(instance, entry.array, &record, (entry.file, entry.chunk), status, why);
        for pair in 0..entry.pair_count as u64 {
            let at = index((entry.pair_first + pair) % self.pairs.len() as u64);
            instance.fail_sample(entry.slot, self.pairs[at], entry.number, &failure);
        }
        let state = &mut *instance.lock.lock();
        state.arrays.unpin(entry.array, 1);
        if state.slots.sub_remaining(entry.slot, 1) {
            state.complete_slot(instance, entry.slot);
        }
    }
}

enum LookUp {
    /// The entry's place is known.
    Settled,
    /// The entry waits for a lookup.
    Asked,
    /// No lookup can be begun now.
    Full,
}

/// Finds where a planned chunk lies, from what is cached or from a lookup that ended.
fn look_up(
    instance: &Instance,
    state: &mut State,
    entry: &mut Planned,
    record: &ArrayRecord,
    why: &mut Why,
) -> Result<LookUp, Status> {
    let page = entry.chunk / INDEX_PAGE_ENTRIES as u64;
    let within = (entry.chunk % INDEX_PAGE_ENTRIES as u64) as usize;
    if let Place::Waiting(request) = entry.place {
        let outcome = state.requests.outcome(request);
        let raw = state.requests.entry(request, within);
        match outcome {
            Outcome::Pending => return Ok(LookUp::Asked),
            Outcome::Failed(_) => *why = *state.requests.why(request),
            Outcome::Absent | Outcome::Found(_) => {}
        }
        state.requests.done(request);
        return match outcome {
            Outcome::Failed(status) => Err(status),
            Outcome::Found(stat) => place_entry(instance, entry, record, raw, stat, why),
            Outcome::Absent | Outcome::Pending => set_missing(instance, entry, why),
        };
    }
    let stats = &instance.stats;
    if find_kept(instance, state, entry, record) {
        return Ok(LookUp::Settled);
    }
    if let Some(slot) = state.files.find(entry.array_id, entry.file) {
        if state.files.is_absent(slot, entry.batch_id) {
            stats.chunk_layout_hits.fetch_add(1, Relaxed);
            return set_missing(instance, entry, why);
        }
        if let Some((stat, epoch)) = state.files.known(slot) {
            stats.chunk_layout_hits.fetch_add(1, Relaxed);
            if record.shard_levels == 0 {
                state.files.touch(slot);
                return place_entry(instance, entry, record, [0; 16], stat, why);
            }
            if let Some(cached) = state.pages.find(epoch, page) {
                stats.shard_index_hits.fetch_add(1, Relaxed);
                state.files.touch(slot);
                let raw = state.pages.entry(cached, within);
                return place_entry(instance, entry, record, raw, stat, why);
            }
        }
    }
    let question = Question {
        array: entry.array,
        array_id: entry.array_id,
        file: entry.file,
        page: if record.shard_levels == 0 { 0 } else { page },
        batch_id: entry.batch_id,
    };
    let Some(request) = state.requests.ask(question) else { return Ok(LookUp::Full) };
    entry.place = Place::Waiting(request);
    Ok(LookUp::Asked)
}

fn chunk_key(entry: &Planned) -> ChunkKey {
    ChunkKey { array_id: entry.array_id, file: entry.file, chunk: entry.chunk }
}

/// Whether chunks of the array are kept: not those whose bytes need no decoding, which the page
/// cache keeps as well.
fn is_keeping(instance: &Instance, record: &ArrayRecord) -> bool {
    instance.settings.cache_memory_bytes > 0 && !record.is_read_partly()
}

/// Settles a chunk that is kept, or is being decoded to be kept.
fn find_kept(
    instance: &Instance,
    state: &mut State,
    entry: &mut Planned,
    record: &ArrayRecord,
) -> bool {
    if !is_keeping(instance, record) {
        return false;
    }
    let key = chunk_key(entry);
    let Some((slot, _)) = state.chunks.find(key) else { return false };
    state.chunks.pin(slot);
    state.chunks.pass_chunk(key, entry.sample_limit);
    entry.kept = Some(Kept { slot, offset: state.chunks.place(slot).0 });
    entry.place = Place::Kept;
    instance.stats.chunk_cache_hits.fetch_add(1, Relaxed);
    instance.stats.chunk_cache_bytes_saved.fetch_add(record.chunk_bytes, Relaxed);
    true
}

/// A chunk that will be read: takes a place in the cache for it. It is decoded whole, whether it
/// got one or not, so that what is refused does not depend on what is kept.
///
/// A chunk that had to wait for its place in the file (not `was_new`) may find that one behind it in
/// the plan is decoding the same already. It does not wait for that, because what it waits for must
/// always be before it: it is decoded twice.
fn keep(
    instance: &Instance,
    state: &mut State,
    entry: &mut Planned,
    record: &ArrayRecord,
    was_new: bool,
) {
    if !matches!(entry.place, Place::Data { .. }) || !is_keeping(instance, record) {
        return;
    }
    entry.need = Span { first: 0, limit: record.chunk_bytes };
    instance.stats.chunk_cache_misses.fetch_add(1, Relaxed);
    let key = chunk_key(entry);
    state.chunks.pass_chunk(key, entry.sample_limit);
    if state.chunks.find(key).is_some() {
        assert!(!was_new);
        return;
    }
    let evictions = state.chunks.evictions();
    let inserted = state.chunks.insert(key, kept_bytes(record));
    let evicted = state.chunks.evictions() - evictions;
    instance.stats.chunk_cache_evictions.fetch_add(evicted, Relaxed);
    let Some(slot) = inserted else { return };
    state.chunks.pin(slot);
    entry.kept = Some(Kept { slot, offset: state.chunks.place(slot).0 });
}

fn set_missing(instance: &Instance, entry: &mut Planned, why: &mut Why) -> Result<LookUp, Status> {
    if instance.settings.config.missing_chunks == MISSING_ERROR {
        return Err(fail!(why, NotFound, "the chunk does not exist (missing_chunks = error)"));
    }
    instance.stats.chunks_missing.fetch_add(1, Relaxed);
    entry.place = Place::Missing;
    Ok(LookUp::Settled)
}

/// `raw` is the chunk's index entry where files are shards.
fn place_entry(
    instance: &Instance,
    entry: &mut Planned,
    record: &ArrayRecord,
    raw: [u8; 16],
    stat: FileStat,
    why: &mut Why,
) -> Result<LookUp, Status> {
    if record.shard_levels == 0 {
        let bytes = whole_file_bytes(record, stat.bytes, why)?;
        entry.place = data_place(record, entry.need, (0, bytes), stat);
        return Ok(LookUp::Settled);
    }
    let place = IndexPlace::find(record, 0, stat.bytes, why)?;
    let rule = EntryBytes::find(record, 0);
    match parse_entry(&raw, &record.index[0], &place, stat.bytes, rule, why)? {
        Entry::Missing => return set_missing(instance, entry, why),
        Entry::Range { offset, bytes } => {
            entry.place = data_place(record, entry.need, (offset, bytes), stat);
        }
    }
    Ok(LookUp::Settled)
}

/// What is read of the encoded chunk at `offset`: all of it, or the needed bytes alone.
fn data_place(
    record: &ArrayRecord,
    need: Span,
    (offset, bytes): (u64, u64),
    stat: FileStat,
) -> Place {
    if record.is_read_partly() {
        return Place::Data { offset: offset + need.first, bytes: need.bytes(), stat };
    }
    Place::Data { offset, bytes, stat }
}

/// A file that is one chunk: its size must be one that the chunk can have.
fn whole_file_bytes(record: &ArrayRecord, bytes: u64, why: &mut Why) -> Result<u64, Status> {
    if let Some(exact) = record.encoded_bytes(record.codecs.len())
        && bytes != exact
    {
        return Err(fail!(why, Decode, "the file has {bytes} bytes, the chunk needs {exact}"));
    }
    let most = compressed_bytes_max(record.chunk_bytes);
    if bytes == 0 || bytes > most {
        return Err(fail!(
            why,
            Decode,
            "the file has {bytes} bytes; a chunk of {} bytes takes 1 to {most}",
            record.chunk_bytes
        ));
    }
    Ok(bytes)
}
