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
use crate::pipeline::file_jobs::look_anew;
use crate::pipeline::planner::{Place, Planned, Planner, RUN_CHUNKS};
use crate::pipeline::state::State;
use crate::read::{Outcome, Question};
use crate::records::{ArrayRecord, Need, Span};
use crate::shard_index::{Entry, EntryBytes, IndexPlace, parse_entry};
use crate::status::{Status, Why};
use crate::wave::Kept;
use core::sync::atomic::Ordering::Relaxed;

impl Planner {
    /// Looks up where the chunks of the window lie: those that nobody looked at, and, when a lookup
    /// ended since the last time, those that wait for one.
    pub(super) fn settle(&mut self, instance: &Instance) -> bool {
        let ended = instance.lock.lock().requests.ended();
        let mut at = if ended == self.ended { self.looked.max(self.first) } else { self.first };
        self.ended = ended;
        let mut progress = false;
        while at < self.limit {
            let step = self.settle_some(instance, at);
            progress |= step.progress;
            self.looked = self.looked.max(step.limit);
            at = step.limit;
            if let Some((entry, status, why)) = step.failed {
                self.fail_planned(instance, &entry, status, &why);
            }
            if step.is_full {
                break;
            }
        }
        progress
    }

    /// Looks at window entries from `first` on, a bounded number of them or up to one that fails.
    fn settle_some(&mut self, instance: &Instance, first: u64) -> Step {
        let limit = self.limit.min(first + RUN_CHUNKS);
        let mut step = Step { limit: first, progress: false, is_full: false, failed: None };
        let state = &mut *instance.lock.lock();
        while step.limit < limit && step.failed.is_none() {
            let at = step.limit;
            let entry = &mut self.window[index(at % self.window.len() as u64)];
            step.limit += 1;
            let is_new = matches!(entry.place, Place::New);
            if !is_new && !matches!(entry.place, Place::Waiting(_)) {
                continue;
            }
            let mut own = None;
            let record = instance.array_record(entry.array).of_file(entry.file, &mut own);
            let mut why = Why::new();
            if is_new && find_kept(instance, state, (entry, at), record, self.owners) {
                step.progress = true;
                continue;
            }
            match look_up(instance, state, entry, record, &mut why) {
                Ok(LookUp::Settled) => {
                    keep(instance, state, (entry, at), record, self.owners);
                    step.progress = true;
                }
                Ok(LookUp::Asked) => step.progress |= is_new,
                Ok(LookUp::Full) => {
                    step.limit = at;
                    step.is_full = true;
                    break;
                }
                Err(status) => {
                    look_anew(instance, state, (entry.array_id, entry.file), record);
                    step.failed = Some((*entry, status, why));
                    entry.place = Place::Gone;
                    step.progress = true;
                }
            }
        }
        if state.requests.has_queued() {
            instance.wake(state);
        }
        step
    }

    /// Reports a chunk that cannot be read and takes it out of its batch.
    fn fail_planned(&self, instance: &Instance, entry: &Planned, status: Status, why: &Why) {
        let record = instance.array_record(entry.array);
        let failure =
            chunk_failure(instance, entry.array, record, (entry.file, entry.chunk), status, why);
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

/// What a look at some of the window gave.
struct Step {
    /// Behind the last entry that was looked at.
    limit: u64,
    progress: bool,
    /// No further lookup can be begun now.
    is_full: bool,
    failed: Option<(Planned, Status, Why)>,
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

/// Settles window entry number `at` if its chunk is kept, or is being decoded to be kept by an
/// entry before it. What an entry waits for must always be before it in the plan, or waves that are
/// full of waiting chunks could keep out the one that they wait for; so in the rare case that an
/// entry found its place in the file later than another behind it, the chunk is decoded twice.
fn find_kept(
    instance: &Instance,
    state: &mut State,
    (entry, at): (&mut Planned, u64),
    record: &ArrayRecord,
    owners: &[u64],
) -> bool {
    if !is_keeping(instance, record) {
        return false;
    }
    let key = chunk_key(entry);
    let Some((slot, is_ready)) = state.chunks.find(key) else { return false };
    if !is_ready && owners[slot as usize] > at {
        return false;
    }
    state.chunks.pin(slot);
    state.chunks.pass_chunk(key, entry.sample_limit);
    entry.kept = Some(Kept { slot, offset: state.chunks.place(slot).0 });
    entry.place = Place::Kept;
    instance.stats.chunk_cache_hits.fetch_add(1, Relaxed);
    instance.stats.chunk_cache_bytes_saved.fetch_add(record.chunk_bytes, Relaxed);
    true
}

/// Window entry number `at` has found its chunk's place in the file: takes a place in the cache for
/// it, unless it is there by now. Where chunks are kept they are decoded whole, those that get no
/// place too, so that what is refused does not depend on what is kept.
fn keep(
    instance: &Instance,
    state: &mut State,
    (entry, at): (&mut Planned, u64),
    record: &ArrayRecord,
    owners: &mut [u64],
) {
    let is_data = matches!(entry.place, Place::Data { .. });
    if !is_data || !is_keeping(instance, record) {
        return;
    }
    if find_kept(instance, state, (entry, at), record, owners) {
        return;
    }
    entry.need = Need::of(Span { first: 0, limit: record.chunk_bytes });
    instance.stats.chunk_cache_misses.fetch_add(1, Relaxed);
    let key = chunk_key(entry);
    state.chunks.pass_chunk(key, entry.sample_limit);
    if state.chunks.find(key).is_some() {
        return;
    }
    let evictions = state.chunks.evictions();
    let inserted = state.chunks.insert(key, kept_bytes(record));
    let evicted = state.chunks.evictions() - evictions;
    instance.stats.chunk_cache_evictions.fetch_add(evicted, Relaxed);
    let Some(slot) = inserted else { return };
    state.chunks.pin(slot);
    owners[slot as usize] = at;
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
        entry.place = data_place(record, entry.need.span, (0, bytes), stat);
        return Ok(LookUp::Settled);
    }
    let place = IndexPlace::find(record, 0, stat.bytes, why)?;
    let rule = EntryBytes::find(record, 0);
    match parse_entry(&raw, &record.index[0], &place, stat.bytes, rule, why)? {
        Entry::Missing => return set_missing(instance, entry, why),
        Entry::Range { offset, bytes } => {
            entry.place = data_place(record, entry.need.span, (offset, bytes), stat);
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
