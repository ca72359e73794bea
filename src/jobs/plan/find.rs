//! The planner's lookups: the place of each chunk of the window.
//!
//! In: window entries that are New or Waiting. Out: entries that are placed, missing or gone. Facts
//! that the caches of files and index pages do not have are asked for; equal questions share a
//! lookup.
//!
//! Files that are chunks are looked up early only as far as they stay open until they are read:
//! else each is opened twice.
//!
//! The first touch of a file in each batch looks at its path, and what is cached of another version
//! is forgotten. Chunks of a batch that lie in one file are of one version: an entry is compared
//! with those before and after it, which are of the same file wherever that has several chunks.
//!
//! A chunk in a shard of a shard takes two lookups. Between them its entry may be New again, with
//! Waiting ones after it, because no lookup can be begun. Their answers are read all the same, or
//! no lookup would ever be free; and the last to read one begins the next, so that something moves.

use crate::base::limits::{INDEX_ENTRY_BYTES, SHARD_LEVELS_MAX};
use crate::base::math::index;
use crate::base::status::{Status, Why};
use crate::base::version::Version;
use crate::fail;
use crate::jobs::failures::forget_bad_file;
use crate::jobs::failures::{chunk_failure, fail_boxes};
use crate::jobs::plan::ask::{LookUp, ask, ask_look, files_ahead, is_chunk_file};
use crate::jobs::plan::keep::{find_kept, keep};
use crate::jobs::plan::planned::{Place, Planned, Settled};
use crate::jobs::plan::whole::{is_read_unseen, unseen_place};
use crate::jobs::plan::window::{Planner, RUN_CHUNKS};
use crate::os::FileStat;
use crate::read::shard_index::{
    Entry, IndexPlace, Shard, entry_numbers, page_of_entry, parse_entry,
};
use crate::read::{IndexPage, Outcome, whole_file_bytes};
use crate::records::ArrayRecord;
use crate::setup::config::MISSING_ERROR;
use crate::state::State;
use crate::state::lock::Lock;
use crate::state::shared::Shared;
use crate::wave::ReadOp;
use core::sync::atomic::Ordering::Relaxed;

impl Planner {
    /// Looks up the places of the chunks of the window: those that nobody looked at, and, when a
    /// lookup ended since the last time, those that wait for one.
    pub fn settle(&mut self, lock: &Lock) -> bool {
        let ended = lock.lock().requests.ended();
        let mut at = if ended == self.ended { self.looked.max(self.first) } else { self.first };
        self.ended = ended;
        let mut progress = false;
        // The first entry that no lookup could be begun for.
        let mut full = None;
        while at < self.limit && (full.is_none() || at < self.asked) {
            let limit = match full {
                None => self.look_along(lock, at),
                Some(_) => self.limit.min(at + RUN_CHUNKS),
            };
            let step = self.settle_some(lock, (at, limit), &mut full);
            progress |= step.progress;
            at = step.limit;
            if let Some((entry, status, why)) = step.failed {
                self.fail_planned(lock, &entry, status, &why);
            }
        }
        self.looked = full.unwrap_or(self.looked.max(at));
        progress
    }

    /// Looks at window entries from `first` on before `limit`, or up to one that fails. Once `full`
    /// has one, at those alone that wait.
    fn settle_some(
        &mut self,
        lock: &Lock,
        (first, limit): (u64, u64),
        full: &mut Option<u64>,
    ) -> Step {
        let mut step = Step { limit: first, progress: false, failed: None };
        let state = &mut *lock.lock();
        let (files_left, mut why) = (files_ahead(state), Why::new());
        while step.limit < limit && step.failed.is_none() {
            let at = step.limit;
            let place = self.place(at);
            let entry = &mut self.window[place];
            step.limit += 1;
            let is_new = matches!(entry.place, Place::New);
            let is_waiting = matches!(entry.place, Place::Waiting(_));
            if !is_waiting && (!is_new || full.is_some()) {
                continue;
            }
            let mut own = None;
            let record = lock.shared.array_record(entry.array);
            let record = record.of_chunk((entry.file, entry.chunk), &mut own);
            if is_new && is_chunk_file(record) && at - self.first >= files_left {
                full.get_or_insert(at);
                continue;
            }
            let looked = settle_one(lock.shared, state, (entry, at), record, &mut why);
            step.progress |= !matches!(looked, Ok(LookUp::Pending | LookUp::Full));
            let looked = looked.and_then(|found| self.check_version(at, found, &mut why));
            let entry = &mut self.window[place];
            match looked {
                Ok(LookUp::Settled) => keep(lock.shared, state, (entry, at), record),
                Ok(LookUp::Asked) => {
                    self.asked = self.asked.max(at + 1);
                    // It may have joined a lookup that ended before this look at the window began,
                    // of which nobody would tell it again. Ends: the answer leads a level inwards.
                    if has_answer(state, entry) {
                        step.limit = at;
                    }
                }
                Ok(LookUp::Pending) => {}
                Ok(LookUp::Full) => {
                    // One that waited has read its lookup, which others can use now.
                    step.progress |= is_waiting;
                    entry.place = Place::New;
                    full.get_or_insert(at);
                }
                Err(status) => {
                    give_up(lock.shared, state, entry, record, status);
                    step.failed = Some((*entry, status, why));
                }
            }
        }
        if state.requests.has_queued() || state.requests.has_looks() {
            state.wakes.work();
        }
        step
    }

    /// Compares the version of an entry that is settled with that of the nearest other chunk of the
    /// same file and batch whose version is known. One is enough, because all that were settled
    /// before are of one version. Chunks of a file are next to each other in the window; those that
    /// wait or failed have no version, and are passed over.
    fn check_version(&self, at: u64, found: LookUp, why: &mut Why) -> Result<LookUp, Status> {
        if !matches!(found, LookUp::Settled) {
            return Ok(found);
        }
        let own = self.entry(at);
        let file = own.file_and_batch();
        let of = |at| {
            let other = self.entry(at);
            (other.file_and_batch() == file).then_some(other.version)
        };
        let left = (self.left.of == file).then_some(self.left.version);
        let mut before = (self.first..at).rev().map(of).chain([left]).map_while(|of| of).fuse();
        let mut after = (at + 1..self.limit).map(of).map_while(|of| of).fuse();
        let other = loop {
            let pair = [before.next(), after.next()];
            match pair.iter().copied().flatten().find(Option::is_some) {
                None if pair.iter().any(Option::is_some) => {}
                version => break version.flatten(),
            }
        };
        if other.is_some_and(|other| own.version != Some(other)) {
            let text = "the file changed while a batch read it, whose chunks are of two versions";
            return Err(fail!(why, Io, "{text}"));
        }
        Ok(found)
    }

    /// The number of a box of an entry.
    pub(super) fn pair(&self, entry: &Planned, pair: u32) -> u32 {
        self.pairs[index((entry.pair_first + u64::from(pair)) % self.pairs.len() as u64)]
    }

    /// Reports a chunk that cannot be read, and takes it out of its batch if it is given up.
    fn fail_planned(&self, lock: &Lock, entry: &Planned, status: Status, why: &Why) {
        let record = lock.shared.array_record(entry.array);
        let failure =
            chunk_failure(lock.shared, entry.array, record, (entry.file, entry.chunk), status, why);
        let boxes = (0..entry.pair_count).map(|pair| self.pair(entry, pair));
        let of = (entry.slot, entry.array, entry.number);
        fail_boxes(lock, of, boxes, (&failure, false));
        if !matches!(entry.place, Place::Gone) {
            return;
        }
        let state = &mut *lock.lock();
        self.each_resampled(lock.shared, entry, |row| state.end_share(row));
        state.unpin_array(entry.array, 1);
        if state.slots.sub_remaining(entry.slot, 1) {
            state.complete_slot(lock.shared, entry.slot);
        }
    }
}

/// Takes an entry that cannot be read out of the window, unless a wave is to make NaN of it, and
/// gives back the place in the cache that it pins. Nobody compares its version any more.
fn give_up(
    shared: &Shared,
    state: &mut State,
    entry: &mut Planned,
    record: &ArrayRecord,
    status: Status,
) {
    forget_bad_file(shared, state, (entry.array_id, entry.file), record);
    entry.version = None;
    let kept = entry.kept.take();
    kept.into_iter().for_each(|kept| state.chunks.unpin(kept.slot));
    let is_nan = shared.fills_nan() && status.is_skippable();
    entry.place = if is_nan { Place::Known(Settled::Broken) } else { Place::Gone };
}

/// The result of a look at some of the window.
struct Step {
    /// The limit of the entries that were looked at.
    limit: u64,
    progress: bool,
    failed: Option<(Planned, Status, Why)>,
}

/// The entry of a chunk in the index of a shard; of a file that is a chunk, `stat` alone counts.
#[derive(Clone, Copy)]
struct Found {
    /// The state of the file.
    stat: FileStat,
    shard: Shard,
    raw: [u8; INDEX_ENTRY_BYTES],
}

/// Entries of a chunk by level, as `entry_numbers` gives them.
type Entries = [u64; SHARD_LEVELS_MAX];

/// Takes an entry as far as what is known, and the lookup that it waits for, allow.
fn settle_one(
    shared: &Shared,
    state: &mut State,
    (entry, at): (&mut Planned, u64),
    record: &ArrayRecord,
    why: &mut Why,
) -> Result<LookUp, Status> {
    let mut seen = None;
    if let Place::Waiting(request) = entry.place
        && state.requests.question(request).is_look
        && has_answer(state, entry)
    {
        let outcome = state.requests.outcome(request);
        if let Outcome::Failed(_) = outcome {
            *why = *state.requests.why(request);
        }
        state.requests.done(request);
        match outcome {
            Outcome::Found(stat) => seen = Some(stat),
            Outcome::Failed(status) => return Err(status),
            Outcome::Absent | Outcome::Pending => return set_missing(shared, entry, None, why),
        }
        entry.place = Place::New;
    }
    if matches!(entry.place, Place::New)
        && let Some(looked) = find_kept(shared, state, (entry, at), record, seen)
    {
        return Ok(looked);
    }
    look_up(shared, state, (entry, seen), record, why)
}

/// Finds the place of a planned chunk, in the caches or from a lookup that ended. `seen`: the
/// version that a look for it found just now.
fn look_up(
    shared: &Shared,
    state: &mut State,
    (entry, seen): (&mut Planned, Option<FileStat>),
    record: &ArrayRecord,
    why: &mut Why,
) -> Result<LookUp, Status> {
    if !record.origin.has_versions {
        let (bytes, stat) = (record.chunk_bytes, ReadOp::EMPTY.stat);
        entry.place = Place::Known(Settled::Data { offset: 0, bytes, stat });
        return Ok(LookUp::Settled);
    }
    if matches!(entry.place, Place::Waiting(_)) && !has_answer(state, entry) {
        return Ok(LookUp::Pending);
    }
    if matches!(entry.place, Place::New) && is_read_unseen(shared, record) {
        entry.place = unseen_place(record, entry);
        return Ok(LookUp::Settled);
    }
    let is_sharded = record.shard_levels > 0;
    let (array, mut own) = (shared.array_record(entry.array), None);
    // The record of a part of a chunk has not the extents that entries are counted by.
    let in_file = if array.is_cut { array.of_file(entry.file, &mut own) } else { record };
    let entries = if is_sharded { entry_numbers(in_file, entry.chunk) } else { Entries::default() };
    let found = match entry.place {
        Place::Waiting(request) => answer(state, request, &entries, why)?,
        _ => match known_file(shared, state, (entry, seen), &entries, is_sharded) {
            Known::File(found) => found,
            Known::Nothing => return Ok(ask(state, entry, None, page_of_entry(entries[0]).0)),
            Known::NotLookedAt => return Ok(ask_look(state, entry)),
        },
    };
    entry.version = found.map(|found| found.stat.version());
    match found {
        None => set_missing(shared, entry, None, why),
        Some(found) if is_sharded => follow(shared, state, entry, record, (&entries, found), why),
        Some(Found { stat, .. }) if record.flat.is_some() => {
            if record.flat_version.is_some_and(|version| version != stat.version()) {
                state.arrays.forget(entry.array);
                let text = "changed while a batch read it: the next batch reads its header anew";
                return Err(fail!(why, Io, "the file {text}"));
            }
            let offset = chunk_in_file((array, record), entry, stat.bytes, why)?;
            entry.place = data_place((array, record), entry, (offset, 0), stat);
            Ok(LookUp::Settled)
        }
        Some(Found { stat, .. }) => {
            let bytes = whole_file_bytes(record, stat.bytes, why)?;
            entry.place = data_place((array, record), entry, (0, bytes), stat);
            Ok(LookUp::Settled)
        }
    }
}

/// Whether the entry waits for a lookup that ended.
fn has_answer(state: &State, entry: &Planned) -> bool {
    matches!(entry.place, Place::Waiting(request)
        if state.requests.outcome(request) != Outcome::Pending)
}

/// The result of a lookup that ended for an entry that waits for it; None if the file is absent.
fn answer(
    state: &mut State,
    request: u32,
    entries: &Entries,
    why: &mut Why,
) -> Result<Option<Found>, Status> {
    let inner = state.requests.question(request).inner;
    let within = page_of_entry(entries[inner.is_some() as usize]).1;
    let (outcome, raw) = (state.requests.outcome(request), state.requests.entry(request, within));
    if let Outcome::Failed(_) = outcome {
        *why = *state.requests.why(request);
    }
    state.requests.done(request);
    match outcome {
        Outcome::Failed(status) => Err(status),
        Outcome::Found(stat) => {
            let shard = inner.map_or(Shard::file(stat.bytes), |(shard, _)| shard);
            Ok(Some(Found { stat, shard, raw }))
        }
        Outcome::Absent | Outcome::Pending => Ok(None),
    }
}

/// The knowledge of a chunk's file without a lookup.
enum Known {
    /// Too little: the file is to be opened, or its index to be read.
    Nothing,
    /// Enough, if its path still leads to the same version; or nothing, and it is likely absent.
    NotLookedAt,
    /// Its part of the chunk; None: it is absent.
    File(Option<Found>),
}

fn known_file(
    shared: &Shared,
    state: &mut State,
    (entry, seen): (&Planned, Option<FileStat>),
    entries: &Entries,
    is_sharded: bool,
) -> Known {
    let slot = state.files.find(entry.array_id, entry.file);
    if slot.is_some_and(|slot| state.files.is_absent(slot, entry.turn)) {
        shared.stats.chunk_layout_hits.fetch_add(1, Relaxed);
        return Known::File(None);
    }
    let known = slot.and_then(|slot| Some((slot, state.files.known(slot)?)));
    let Some((slot, (stat, epoch))) = known else {
        // A look costs less than an attempt to open, and a worker takes several.
        let is_for_look = seen.is_none() && shared.store.row.has_descriptors;
        let is_likely_absent = is_for_look && state.files.is_likely_absent();
        return if is_likely_absent { Known::NotLookedAt } else { Known::Nothing };
    };
    let shard = Shard::file(stat.bytes);
    // A read that asks for the version needs no look before it.
    let is_looked_at = state.files.is_looked_at(slot, entry.turn)
        || seen == Some(stat)
        || shared.store.asks_for(stat);
    // A file that is opened for its chunk, or for a page of its index, is looked at by that.
    let (is_enough, raw) = if is_sharded {
        let raw = cached_entry(state, epoch, &shard, entries);
        (raw.is_some(), raw.unwrap_or_default())
    } else {
        (is_looked_at || state.files.is_open(slot), [0; INDEX_ENTRY_BYTES])
    };
    if !is_enough {
        return Known::Nothing;
    }
    if !is_looked_at {
        // A look that saw another version is not made again, for others may still wait for the
        // same one: the file is opened in its place. Each entry looks once.
        return if seen.is_some() { Known::Nothing } else { Known::NotLookedAt };
    }
    state.files.note_look(slot, entry.turn, true);
    shared.stats.chunk_layout_hits.fetch_add(1, Relaxed);
    shared.stats.shard_index_hits.fetch_add(u64::from(is_sharded), Relaxed);
    state.files.touch(slot);
    Known::File(Some(Found { stat, shard, raw }))
}

/// An entry of the index of a shard, if its page is cached. `epoch`: that of its file.
fn cached_entry(
    state: &mut State,
    epoch: u64,
    shard: &Shard,
    entries: &Entries,
) -> Option<[u8; INDEX_ENTRY_BYTES]> {
    let (page, within) = page_of_entry(entries[shard.level() as usize]);
    let cached = state.pages.find(epoch, IndexPage { inner: shard.inner, page })?;
    Some(state.pages.entry(cached, within))
}

/// Goes from what the index of a shard says to the chunk, through the shards in it, as far as their
/// indexes are cached.
fn follow(
    shared: &Shared,
    state: &mut State,
    entry: &mut Planned,
    record: &ArrayRecord,
    (entries, mut found): (&Entries, Found),
    why: &mut Why,
) -> Result<LookUp, Status> {
    // Ends: every turn goes a level inwards.
    loop {
        let place = IndexPlace::find(record, &found.shard, why)?;
        let (offset, bytes) = match parse_entry(&found.raw, record, &found.shard, &place, why)? {
            Entry::Missing => return set_missing(shared, entry, entry.version, why),
            Entry::Range { offset, bytes } => (offset, bytes),
        };
        if found.shard.level() + 1 == record.shard_levels {
            let array = shared.array_record(entry.array);
            entry.place = data_place((array, record), entry, (offset, bytes), found.stat);
            return Ok(LookUp::Settled);
        }
        let shard = Shard { inner: Some(entries[0]), offset, bytes };
        // Pages of the file in another state say nothing of this one.
        let file = state.files.find(entry.array_id, entry.file).and_then(|slot| {
            let (stat, epoch) = state.files.known(slot)?;
            (stat == found.stat).then_some((slot, epoch))
        });
        let cached = file
            .and_then(|(slot, epoch)| Some((slot, cached_entry(state, epoch, &shard, entries)?)));
        let Some((slot, raw)) = cached else {
            let page = page_of_entry(entries[shard.level() as usize]).0;
            return Ok(ask(state, entry, Some((shard, found.stat)), page));
        };
        shared.stats.shard_index_hits.fetch_add(1, Relaxed);
        state.files.touch(slot);
        found = Found { shard, raw, ..found };
    }
}

/// A chunk that a file of that version lacks, or whose file is absent.
fn set_missing(
    shared: &Shared,
    entry: &mut Planned,
    version: Option<Version>,
    why: &mut Why,
) -> Result<LookUp, Status> {
    entry.version = Some(version.unwrap_or(Version::NONE));
    if shared.settings.config.missing_chunks == MISSING_ERROR {
        return Err(fail!(why, NotFound, "the chunk does not exist (missing_chunks = error)"));
    }
    shared.stats.chunks_missing.fetch_add(1, Relaxed);
    entry.place = Place::Known(Settled::Missing);
    Ok(LookUp::Settled)
}

/// The bytes that are read of the encoded chunk at `offset`: all of it, or the needed bytes alone.
/// They are of a part of it if `array` cuts what is stored.
fn data_place(
    (array, record): (&ArrayRecord, &ArrayRecord),
    entry: &Planned,
    (offset, bytes): (u64, u64),
    stat: FileStat,
) -> Place {
    let need = entry.need.span;
    Place::Known(match record.is_read_partly() {
        true => {
            let part = array.offset_in_stored(record, entry.file, entry.chunk);
            Settled::Data { offset: offset + part + need.first, bytes: need.bytes(), stat }
        }
        false => Settled::Data { offset, bytes, stat },
    })
}

/// The offset of a chunk of a flat array in its file of `bytes` bytes.
fn chunk_in_file(
    (array, record): (&ArrayRecord, &ArrayRecord),
    entry: &Planned,
    bytes: u64,
    why: &mut Why,
) -> Result<u64, Status> {
    let needed = record.flat_bytes();
    let place = record.offset_of(&array.place_in_file(entry.file, entry.chunk));
    if record.is_in_parts() {
        return Ok(record.parts[index(entry.file)].offset + place);
    }
    if bytes < needed {
        return Err(fail!(why, Decode, "the file has {bytes} bytes, its shape needs {needed}"));
    }
    Ok(record.flat.unwrap_or(0) + place)
}
