//! The cache of array metadata: one entry per uri, loaded once however many samples wait for it.
//!
//! States of an entry:
//!
//! ```text
//!  Empty ─▶ Queued ─▶ Loading ─▶ Ready, Alias or Failed ─▶ Empty
//!              ▲        │ ▲
//!              └────────┤ │     again, or in a large buffer
//!                       └─▶ QueuedLarge
//! ```
//!
//! Entries are pinned while queued or loading, and by every planned chunk
//! of theirs; the lookahead loads ahead into entries that no waiting sample needs.
//!
//! A Ready entry has the version of what it was loaded from, at which the first use in each batch
//! looks. If it is another one now, the entry is found no more and its uri is loaded again; pins
//! keep the entry.
//!
//! In: uris. Out: slot numbers of [`ArrayRecord`]s, which do not change while pinned.

use crate::base::arena::{Carver, Table};
use crate::base::bill::Item;
use crate::base::cache::{Cache, Fifo, hash_bytes};
use crate::base::indexes::ArraySlot;
use crate::base::math::index;
use crate::base::status::{Failure, Status, Why};
use crate::base::text::Uri;
use crate::base::version::Version;
use crate::intake::spelled::ASKS_MAX;
pub use crate::intake::spelled::Spelled;
use crate::intake::target::Target;
use crate::records::{ArrayRecord, Placement};

/// How the metadata of an array stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ArrayState {
    /// The slot holds nothing.
    Empty,
    /// Waits for a worker.
    Queued,
    /// Waits for a worker and a large buffer.
    QueuedLarge,
    /// A worker loads it.
    Loading,
    /// The record may be used.
    Ready,
    /// The uri is another spelling of one.
    Alias,
    /// It could not be loaded.
    Failed(Status),
}

impl ArrayState {
    /// Whether an entry goes from this on to `to`, as the head of this file draws.
    fn leads_to(self, to: ArrayState) -> bool {
        use ArrayState::{Alias, Empty, Failed, Loading, Queued, QueuedLarge, Ready};
        match to {
            Queued => matches!(self, Empty | Loading),
            QueuedLarge | Alias | Failed(_) => self == Loading,
            Loading => matches!(self, Queued | QueuedLarge),
            Ready => self == Loading,
            Empty => matches!(self, Empty | Ready | Alias | Failed(_)),
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    id: u64,
    state: ArrayState,
    why: Why,
    /// Number of the youngest sample that waits for the entry.
    wanted_by: u64,
    /// The youngest batch that found the array's metadata in place although a file of it was
    /// missing.
    checked_batch: Option<u64>,
    /// First and last batch that found the array, or a folder of it, gone.
    gone_batches: Option<(u64, u64)>,
    spelled: Spelled,
    /// Whether a sample used it since it was loaded.
    is_used: bool,
    /// The version of its document or file, if that is looked at.
    version: Option<Version>,
    /// The last batch that looked, or for which it was loaded.
    looked_batch: Option<u64>,
    /// The batch for which somebody looks, or is to.
    looking: Option<u64>,
    /// Why nobody could look; the reason is in `why`.
    look_failed: Option<Status>,
}

impl Entry {
    const EMPTY: Entry = Entry {
        id: 0,
        state: ArrayState::Empty,
        why: Why::new(),
        wanted_by: 0,
        checked_batch: None,
        gone_batches: None,
        spelled: Spelled::Unknown { asks_left: ASKS_MAX },
        is_used: false,
        version: None,
        looked_batch: None,
        looking: None,
        look_failed: None,
    };
}

/// See the module.
pub struct Arrays {
    cache: Cache,
    entries: &'static mut [Entry],
    /// Uris of the entries; written while loading begins, read while pinned.
    pub uris: Table<Uri>,
    /// Targets of aliases.
    targets: &'static mut [Target],
    /// The place of each alias that is a level of an image; none if no box has a map.
    placements: &'static mut [Placement],
    /// Records of the entries; written while loading ends, read while pinned.
    pub records: Table<ArrayRecord>,
    queue: Fifo,
    large_queue: Fifo,
    looks: Fifo,
    next_id: u64,
    uses_ended: u64,
    /// Uris that something was told of, by their hashes: each at its place, until another takes it.
    told: &'static mut [u64],
}

/// Places in `told` for each entry: arrays that come back are not told again.
const TOLD_PER_ENTRY: u64 = 16;

impl Arrays {
    /// A cache of `count` arrays; `has_maps`: also of levels of images, for boxes with a map.
    #[inline(never)] // as Carver::place
    pub fn carve(carver: &mut Carver, count: u32, has_maps: bool) -> Arrays {
        let (name, entries) = (Item::ArrayMetadata, u64::from(count));
        let levels = if has_maps { entries } else { 0 };
        Arrays {
            cache: Cache::carve(carver, name, count),
            entries: carver.slice(name, entries, &Entry::EMPTY),
            uris: Table::of(carver.slice_from(name, entries, |_| Uri::new())),
            targets: carver.slice(name, entries, &Target::NONE),
            placements: carver.slice(name, levels, &Placement::NONE),
            records: Table::of(carver.slice_from(name, entries, |_| ArrayRecord::EMPTY)),
            queue: Fifo::carve(carver, name, count),
            large_queue: Fifo::carve(carver, name, count),
            looks: Fifo::carve(carver, name, count),
            next_id: 0,
            uses_ended: 0,
            told: carver.slice(name, entries * TOLD_PER_ENTRY, &0),
        }
    }

    /// The entry of a uri, made the youngest.
    pub fn find(&mut self, uri: &[u8], hash: u64) -> Option<ArraySlot> {
        let uris = &self.uris;
        let is_same = |slot: u32| uris.rows(slot as usize, 1)[0].as_bytes() == uri;
        let slot = self.cache.find(hash, is_same)?;
        self.cache.touch(slot);
        Some(ArraySlot(slot))
    }

    /// The entry of a uri, or of the one that it stands for, made the youngest.
    pub fn find_target(&mut self, uri: &[u8], hash: u64) -> Option<ArraySlot> {
        let slot = self.find(uri, hash)?;
        if self.state(slot) == ArrayState::Alias { self.find_behind(slot) } else { Some(slot) }
    }

    #[inline(never)] // a uri on the stack
    fn find_behind(&mut self, alias: ArraySlot) -> Option<ArraySlot> {
        let mut target = Uri::new();
        self.read_target(alias, &mut target);
        self.find(target.as_bytes(), hash_bytes(target.as_bytes()))
    }

    /// Begins to load a uri. `spare_from`: entries that a sample of at least this number waits for
    /// are not given up for it. None while no slot can be had.
    pub fn load(&mut self, uri: &[u8], hash: u64, spare_from: Option<u64>) -> Option<ArraySlot> {
        let oldest = self.cache.oldest()?;
        let entry = &self.entries[oldest as usize];
        let is_needed = |from| entry.state != ArrayState::Empty && entry.wanted_by >= from;
        if spare_from.is_some_and(is_needed) {
            return None;
        }
        let slot = self.cache.take(hash).map(ArraySlot)?;
        self.next_id += 1;
        let mut text = Uri::new();
        // Uris are checked to be UTF-8 when they are pushed.
        text.push_str(core::str::from_utf8(uri).unwrap_or(""));
        self.uris.write(slot.at(), text);
        self.go(slot, ArrayState::Empty); // the cache dropped the array that it had
        self.entries[slot.at()] = Entry { id: self.next_id, ..Entry::EMPTY };
        self.go(slot, ArrayState::Queued);
        self.cache.pin(slot.0, 1);
        self.queue.push(slot.0);
        Some(slot)
    }

    /// Notes that a sample waits for the entry.
    pub fn want(&mut self, slot: ArraySlot, sample_number: u64) {
        let entry = &mut self.entries[slot.at()];
        entry.wanted_by = entry.wanted_by.max(sample_number);
    }

    /// An entry goes on to another state.
    fn go(&mut self, slot: ArraySlot, to: ArrayState) {
        let state = &mut self.entries[slot.at()].state;
        assert!(state.leads_to(to));
        *state = to;
    }

    /// State of an entry.
    pub fn state(&self, slot: ArraySlot) -> ArrayState {
        self.entries[slot.at()].state
    }

    /// Identity of the array in an entry; another load gets another one.
    pub fn id(&self, slot: ArraySlot) -> u64 {
        self.entries[slot.at()].id
    }

    /// Marks an entry as used. Returns whether it was used before, since it was loaded.
    pub fn mark_used(&mut self, slot: ArraySlot) -> bool {
        core::mem::replace(&mut self.entries[slot.at()].is_used, true)
    }

    /// Gives the uri that an alias stands for.
    pub fn read_target(&self, slot: ArraySlot, target: &mut Uri) {
        assert!(self.state(slot) == ArrayState::Alias);
        self.targets[slot.at()].read(self.uris.rows(slot.at(), 1)[0].as_str(), target);
    }

    /// Notes what an entry stands for, which is being loaded, and the place of that level.
    pub fn set_target(&mut self, slot: ArraySlot, target: &Target, placement: &Placement) {
        assert!(self.state(slot) == ArrayState::Loading);
        self.targets[slot.at()] = *target;
        if let Some(place) = self.placements.get_mut(slot.at()) {
            *place = *placement;
        }
    }

    /// The place of the level that an alias is.
    pub fn placement(&self, slot: ArraySlot) -> &Placement {
        assert!(self.state(slot) == ArrayState::Alias);
        &self.placements[slot.at()]
    }

    /// Whether something was told of the uri with this hash; from now on it was.
    pub fn is_told(&mut self, hash: u64) -> bool {
        let place = index(hash % self.told.len() as u64);
        core::mem::replace(&mut self.told[place], hash) == hash
    }

    /// Why the entry could not be loaded.
    pub fn why(&self, slot: ArraySlot) -> &Why {
        &self.entries[slot.at()].why
    }

    /// Whether an entry waits for a worker.
    pub fn has_queued(&self) -> bool {
        !self.queue.is_empty() || !self.large_queue.is_empty()
    }

    /// The next entry to load, and whether it needs a large buffer; such an entry is given out only
    /// if one is free (`has_large`).
    pub fn next_queued(&mut self, has_large: bool) -> Option<(ArraySlot, bool)> {
        let large = if has_large { self.large_queue.pop().map(ArraySlot) } else { None };
        let slot = large.or_else(|| self.queue.pop().map(ArraySlot))?;
        self.go(slot, ArrayState::Loading);
        Some((slot, large.is_some()))
    }

    /// Queues a document that could not be looked at now, or only in a `large` buffer.
    pub fn requeue(&mut self, slot: ArraySlot, large: bool) {
        assert!(self.state(slot) == ArrayState::Loading);
        self.go(slot, if large { ArrayState::QueuedLarge } else { ArrayState::Queued });
        let queue = if large { &mut self.large_queue } else { &mut self.queue };
        queue.push(slot.0);
    }

    /// Ends a load: Ready, Alias, or Failed with a text.
    pub fn finish(&mut self, slot: ArraySlot, end: ArrayState, why: &Why) {
        assert!(matches!(end, ArrayState::Ready | ArrayState::Alias | ArrayState::Failed(_)));
        self.go(slot, end);
        if matches!(end, ArrayState::Failed(_)) {
            self.entries[slot.at()].why = *why;
        }
        self.unpin(slot, 1);
    }

    /// Forgets a failed entry, so that the next sample that names it tries again.
    pub fn forget_failed(&mut self, slot: ArraySlot) {
        assert!(matches!(self.entries[slot.at()].state, ArrayState::Failed(_)));
        self.cache.forget(slot.0);
        self.go(slot, ArrayState::Empty);
    }

    /// Keeps the entry, `count` times over.
    pub fn pin(&mut self, slot: ArraySlot, count: u32) {
        self.cache.pin(slot.0, count);
    }

    /// Takes `count` pins back; whether they were the last.
    pub fn unpin(&mut self, slot: ArraySlot, count: u32) -> bool {
        self.cache.unpin(slot.0, count);
        let is_last = self.cache.pins(slot.0) == 0;
        self.uses_ended += u64::from(is_last);
        is_last
    }

    /// Whether an entry that nobody pins is left over where another one is pinned: `slot`, or any.
    pub fn leaves_one(&self, slot: Option<ArraySlot>) -> bool {
        let is_pinned = slot.is_some_and(|slot| self.cache.pins(slot.0) > 0);
        self.cache.has_unpinned(if is_pinned { 1 } else { 2 })
    }

    /// How often the last use of an entry ended.
    pub fn uses_ended(&self) -> u64 {
        self.uses_ended
    }

    /// Whether the array of that identity is in the slot, and loaded.
    pub fn is_ready(&self, slot: ArraySlot, id: u64) -> bool {
        self.id(slot) == id && self.state(slot) == ArrayState::Ready
    }

    /// Whether the array of that identity needs its rows of a table: as long as it is loaded. One
    /// that nobody pins is forgotten if it must go.
    pub fn needs_rows(&mut self, slot: ArraySlot, id: u64, must_go: bool) -> bool {
        if must_go && self.is_ready(slot, id) && self.cache.pins(slot.0) == 0 {
            self.cache.forget(slot.0);
            self.go(slot, ArrayState::Empty);
        }
        self.is_ready(slot, id)
    }

    /// Whether this batch, or one after it, found that the array still exists.
    pub fn is_checked(&self, slot: ArraySlot, turn: u64) -> bool {
        self.entries[slot.at()].checked_batch.is_some_and(|checked| checked >= turn)
    }

    /// Notes that this batch looked.
    pub fn set_checked(&mut self, slot: ArraySlot, turn: u64) {
        let checked = &mut self.entries[slot.at()].checked_batch;
        *checked = (*checked).max(Some(turn));
    }

    /// Notes that this batch found the array, or a folder of it, gone.
    pub fn set_gone(&mut self, slot: ArraySlot, turn: u64) {
        let gone = &mut self.entries[slot.at()].gone_batches;
        let (first, last) = gone.unwrap_or((turn, turn));
        *gone = Some((first.min(turn), last.max(turn)));
    }

    /// Whether this batch found the array gone; so may batches between two that did.
    pub fn was_gone(&self, slot: ArraySlot, turn: u64) -> bool {
        let gone = self.entries[slot.at()].gone_batches;
        gone.is_some_and(|(first, last)| (first..=last).contains(&turn))
    }

    /// How the array's files are named, as far as is known.
    pub fn spelled(&self, slot: ArraySlot) -> Spelled {
        self.entries[slot.at()].spelled
    }

    /// Notes how they are named. After reset an array that is named otherwise is loaded anew.
    pub fn set_spelled(&mut self, slot: ArraySlot, spelled: Spelled) {
        self.entries[slot.at()].spelled = spelled;
    }

    /// Whether one more absent file may be asked for in another spelling.
    pub fn take_ask(&mut self, slot: ArraySlot) -> bool {
        match &mut self.entries[slot.at()].spelled {
            Spelled::Unknown { asks_left } if *asks_left > 0 => {
                *asks_left -= 1;
                true
            }
            _ => false,
        }
    }

    /// Notes the version of what an entry is loaded from; None: nobody looks at it.
    pub fn set_version(&mut self, slot: ArraySlot, version: Option<Version>) {
        self.entries[slot.at()].version = version;
    }

    /// Whether a batch must look before it uses a Ready entry: unless it, or one after it, has, or
    /// the entry was loaded for it. `is_each`: every batch must, and not the first one after a
    /// reset alone.
    pub fn needs_look(&self, slot: ArraySlot, turn: u64, is_each: bool) -> bool {
        let entry = &self.entries[slot.at()];
        entry.version.is_some()
            && match entry.looked_batch {
                Some(looked) => looked < turn && is_each,
                None => entry.is_used,
            }
    }

    /// Begins a look for a batch, unless one is under way. `is_own`: the caller does it, and gets
    /// the version of what the entry was loaded from; else a worker does.
    pub fn begin_look(&mut self, slot: ArraySlot, turn: u64, is_own: bool) -> Option<Version> {
        let entry = &mut self.entries[slot.at()];
        if entry.looking.is_some() {
            return None;
        }
        entry.looking = Some(turn);
        let version = entry.version.filter(|_| is_own);
        self.cache.pin(slot.0, 1);
        if version.is_none() {
            self.looks.push(slot.0);
        }
        version
    }

    /// Whether a batch may use a Ready entry now; if it must look before, that is begun. Err: why
    /// nobody could look; the entry is then forgotten.
    pub fn may_use(&mut self, slot: ArraySlot, turn: u64, is_each: bool) -> Result<bool, Failure> {
        let entry = &mut self.entries[slot.at()];
        assert!(entry.state == ArrayState::Ready);
        if let Some(status) = entry.look_failed.take() {
            let failure = Failure::because(status, &entry.why);
            self.forget(slot);
            return Err(failure);
        }
        if self.needs_look(slot, turn, is_each) {
            self.begin_look(slot, turn, false);
            return Ok(false);
        }
        let looked = &mut self.entries[slot.at()].looked_batch;
        *looked = (*looked).max(Some(turn));
        Ok(true)
    }

    /// Whether an entry waits for somebody to look.
    pub fn has_looks(&self) -> bool {
        !self.looks.is_empty()
    }

    /// The next entry to look at, and the version of what it was loaded from.
    pub fn next_look(&mut self) -> Option<(ArraySlot, Version)> {
        let slot = self.looks.pop().map(ArraySlot)?;
        Some((slot, self.entries[slot.at()].version.unwrap_or(Version::NONE)))
    }

    /// Ends a look: whether it found the same version, or why it could not look.
    pub fn end_look(&mut self, slot: ArraySlot, is_same: &Result<bool, (Status, Why)>) {
        let entry = &mut self.entries[slot.at()];
        assert!(entry.looking.is_some());
        let looked = entry.looking.take();
        match is_same {
            Ok(true) => entry.looked_batch = entry.looked_batch.max(looked),
            Ok(false) => self.forget(slot),
            Err((status, why)) => (entry.look_failed, entry.why) = (Some(*status), *why),
        }
        self.unpin(slot, 1);
    }

    /// The entry is found no more, and its uri is loaded again for the next sample that names it.
    /// Pins keep it as it is.
    pub fn forget(&mut self, slot: ArraySlot) {
        self.cache.forget(slot.0);
    }

    /// The same for all entries.
    pub fn forget_all(&mut self) {
        (0..self.entries.len() as u32).for_each(|slot| self.cache.forget(slot));
    }

    /// Ends every use and every load that has not begun. Loaded arrays stay, and are looked at
    /// before they are used again; aliases are forgotten.
    pub fn reset(&mut self) {
        self.queue.clear();
        self.large_queue.clear();
        self.looks.clear();
        self.cache.unpin_all();
        for slot in (0..self.entries.len() as u32).map(ArraySlot) {
            let entry = &mut self.entries[slot.at()];
            (entry.wanted_by, entry.checked_batch, entry.gone_batches) = (0, None, None);
            // An array that was loaded ahead and not used is looked at as well.
            (entry.looked_batch, entry.looking, entry.is_used) = (None, None, true);
            let is_misnamed = matches!(entry.spelled, Spelled::Otherwise(_));
            let is_failed = entry.state != ArrayState::Ready || entry.look_failed.is_some();
            if is_failed || is_misnamed {
                entry.state = ArrayState::Empty;
                self.cache.forget(slot.0);
            }
        }
    }
}

#[cfg(test)]
#[path = "arrays_tests.rs"]
mod tests;
