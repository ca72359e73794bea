//! The jobs that look files up: metadata documents and shard indexes.
//!
//! In: a claim and, for data files, a lease. Out: records and lookup answers. No lock is held while
//! a file is opened or read.

use crate::base::indexes::FileSlot;
use crate::base::limits::{INDEX_ENTRY_BYTES, METADATA_BYTES_MAX, METADATA_SMALL_BYTES};
use crate::base::math::index;
use crate::base::stats::Stage;
use crate::base::status::{Status, Why};
use crate::jobs::absence::{beside_others, look_above_one, note_folders};
use crate::jobs::lease::{is_short_of_descriptors, is_stale, open_counted, open_failure};
use crate::os::store::{Fault, NO_FD, Opened, Path};
use crate::os::{FileStat, profiler};
use crate::read::shard_index::{IndexPlace, Shard};
use crate::read::{
    IndexPage, Lease, LeaseOutcome, Located, OpenFault, Outcome, PAGE_BYTES, Question, SUM_BYTES,
    locate,
};
use crate::records::ArrayRecord;
use crate::source::parts::check_part;
use crate::state::claims::claim_hold;
use crate::state::job::Job;
use crate::state::lock::{Lock, Locked};
use crate::state::scratch::Hold;
use crate::state::shared::Shared;
use crate::state::worker::Worker;
use crate::state::{PLAN_EVERY, State};
use core::sync::atomic::Ordering::Relaxed;

/// The part of the cached pages, one in so many, that an index that is read whole may take.
const PAGES_SHARE: usize = 4;

/// Bytes of a worker's buffer that an index is read through; the rest holds its checksums.
const PIECE_BYTES: usize = METADATA_SMALL_BYTES / 2;

/// Looks a file up, and an entry of its index if it has one.
pub fn run<'l>(
    lock: &'l Lock,
    worker: &mut Worker,
    (request, question): (u32, &Question),
    lease: &Lease,
    mut large: Option<Hold>,
) -> Locked<'l> {
    let shared = lock.shared;
    let range = shared.profiler.range(profiler::META);
    let (start, wall_ns) = ((shared.os.now_ns)(), (shared.os.wall_tick_ns)());
    let mut own = None;
    let record = shared.array_record(question.array).of_file(question.file, &mut own);
    let mut path = Path::new();
    shared.write_file_path(question.array, record, question.file, &mut path);
    let mut why = Why::new();
    let (buffer, sums) = worker.buffer().split_at_mut(PIECE_BYTES);
    let buffer = large.as_mut().map_or(buffer, |hold| hold.claim.bytes());
    let (opened, fetched) = match bytes_at_end(shared, question, lease) {
        Some(bytes) if bytes <= buffer.len() => {
            fetch_index(shared, &path, lease, &mut buffer[..bytes])
        }
        _ => (open_as_asked(shared, &path, question, lease), 0),
    };
    if opened.is_err_and(|fault| leave_for_later(lock, (request, question), lease, fault)) {
        drop(range);
        let mut state = lock.lock();
        large.into_iter().for_each(|hold| state.pool.give_back(hold));
        return state;
    }
    let is_settled = opened.is_ok_and(|(_, stat)| stat.version().is_settled(wall_ns));
    let sums_bytes = sums.len().min(index(lease.sums_max) * SUM_BYTES);
    let sums = &mut sums[..sums_bytes];
    let room = (&mut *buffer, fetched, &mut *sums);
    let looked = look_into(lock, (question, record, lease), (&path, opened), room, &mut why);
    let (outcome, located) = looked.unwrap_or_else(|status| (Outcome::Failed(status), None));
    shared.observe(Stage::Meta, start, (0, 0), shared.profiler.here());
    let misses = if record.shard_levels > 0 {
        &shared.stats.shard_index_misses
    } else {
        &shared.stats.chunk_layout_misses
    };
    misses.fetch_add(1, Relaxed);
    let checked = located.as_ref().and_then(|located| located.checked);
    let checked = checked.map(|(pages, groups)| (pages, &sums[..groups * SUM_BYTES]));
    drop(range);
    let mut state = lock.lock();
    let look = (lease.slot, question);
    let outcome = beside_others(&mut state, look, opened.is_ok(), (&path, outcome), &mut why);
    if is_settled && let Outcome::Found(stat) = outcome {
        keep_pages(&mut state, lease.slot, stat, &buffer[..fetched]);
    }
    let page = located.as_ref().map(|located| &located.page);
    let result = (outcome, page, checked, &why);
    settle(shared, &mut state, (request, question, lease), opened, (result, is_settled));
    large.into_iter().for_each(|hold| state.pool.give_back(hold));
    state
}

/// Looks into a file that was opened, for the page that was asked for. The buffer starts with its
/// index if some bytes of that were fetched before. If it was not opened, says what that means.
fn look_into(
    lock: &Lock,
    (question, record, lease): (&Question, &ArrayRecord, &Lease),
    (path, opened): (&Path, Result<Opened, OpenFault>),
    (buffer, fetched, sums): (&mut [u8], usize, &mut [u8]),
    why: &mut Why,
) -> Result<(Outcome, Option<Located>), Status> {
    let shared = lock.shared;
    match opened {
        Ok((open, stat)) if record.shard_levels > 0 => {
            let shard = question.inner.map_or(Shard::file(stat.bytes), |(shard, _)| shard);
            let (file, page) = ((open, path, stat), (shard, question.page, lease.check));
            let room = (buffer, fetched);
            let located = locate(shared.metadata, record, file, page, room, sums, why)?;
            Ok((Outcome::Found(stat), Some(located)))
        }
        Ok((_, stat)) => check_header(shared, question, (buffer, stat), why)
            .map(|()| (Outcome::Found(stat), None)),
        Err(OpenFault::Store(Fault::Absent)) => {
            Ok((look_above_one(lock, question, path, why), None))
        }
        Err(fault) => Err(open_failure(path, fault, why)),
    }
}

/// Bytes of the index of a file that nobody opened before, if one request has it and the size and
/// the version of the file.
fn bytes_at_end(shared: &Shared, question: &Question, lease: &Lease) -> Option<usize> {
    let is_first = question.inner.is_none() && lease.stat.is_none() && lease.open.is_none();
    if !shared.metadata.row.has_tails || !is_first {
        return None;
    }
    let mut own = None;
    let record = shared.array_record(question.array).of_file(question.file, &mut own);
    usize::try_from(IndexPlace::bytes_at_end(record)?).ok()
}

/// Room for an index that is read whole and that a worker has no place for. None: it has one, or is
/// read in pieces.
fn hold_for(
    state: &mut State,
    shared: &Shared,
    question: &Question,
    lease: &Lease,
) -> Option<Hold> {
    let bytes = bytes_at_end(shared, question, lease)? as u64;
    let is_large = (PIECE_BYTES as u64 + 1..=METADATA_BYTES_MAX as u64).contains(&bytes);
    if is_large && state.pool.has_room(bytes) { claim_hold(&mut state.pool, bytes) } else { None }
}

/// Reads the index at the end of a file: what the file looks like, and how many bytes it has of it.
fn fetch_index(
    shared: &Shared,
    path: &Path,
    lease: &Lease,
    target: &mut [u8],
) -> (Result<Opened, OpenFault>, usize) {
    lease.evicted.into_iter().for_each(|evicted| shared.metadata.close(evicted));
    shared.stats.files_opened.fetch_add(1, Relaxed);
    match shared.metadata.read_tail(path, target) {
        Ok((stat, got)) => (Ok((NO_FD, stat)), got),
        Err(fault) => (Err(OpenFault::Store(fault)), 0),
    }
}

/// Caches all pages of an index that was read whole, so that it is not read again for the others,
/// unless they would take the places of too many others.
fn keep_pages(state: &mut State, slot: FileSlot, stat: FileStat, index: &[u8]) {
    // Its lease is not given back: the record is that of this file.
    let epoch = state.files.epoch(slot);
    let is_too_much = index.len().div_ceil(PAGE_BYTES) > state.pages.count() / PAGES_SHARE;
    if is_too_much || state.files.known(slot).is_some_and(|(known, _)| known != stat) {
        return;
    }
    let entries = &index[..index.len() - index.len() % INDEX_ENTRY_BYTES];
    for (page, bytes) in (0..).zip(entries.chunks(PAGE_BYTES)) {
        state.pages.insert(epoch, IndexPage { inner: None, page }, bytes);
    }
}

/// Ends a lookup if another one found its answer meanwhile, and reads ask for that version.
fn is_answered(shared: &Shared, state: &mut State, request: u32, question: &Question) -> bool {
    let Some(slot) = state.files.find(question.array_id, question.file) else { return false };
    let Some((stat, epoch)) = state.files.known(slot) else { return false };
    let is_other = question.inner.is_some_and(|(_, asked)| asked != stat);
    let is_sharded = shared.array_record(question.array).shard_levels > 0;
    if is_other || !is_sharded || !shared.store.asks_for(stat) {
        return false;
    }
    let Some(page) = state.pages.find(epoch, question.index_page()) else { return false };
    if !state.files.note_look(slot, question.turn, true) {
        return false;
    }
    let (found, page) = (Outcome::Found(stat), Some(state.pages.page(page)));
    state.requests.finish(request, found, page, &Why::new());
    shared.stats.shard_index_hits.fetch_add(1, Relaxed);
    state.want_plan(true);
    true
}

/// Whether a lookup has to be done again: once descriptors are free, or on a new one because the
/// old went stale, or because the path leads to another version now, which is the one to look up.
fn leave_for_later(
    lock: &Lock,
    (request, question): (u32, &Question),
    lease: &Lease,
    fault: OpenFault,
) -> bool {
    let state = &mut *lock.lock();
    let is_stale = is_stale(fault) && lease.open.is_some();
    if fault == OpenFault::Replaced {
        state.files.retire(lease.slot, question.turn);
        lock.shared.stats.files_changed.fetch_add(1, Relaxed);
    } else if is_stale {
        state.files.set_stale(lease.slot);
    } else if !is_short_of_descriptors(fault) || !state.files.lower_open_max() {
        return false;
    }
    lock.shared.close_forgotten(state.files.give_back(lease, None, None));
    state.requests.requeue(request);
    true
}

/// The result of a lookup: of an index the page that was asked for, of a file that is a chunk none.
type LocateResult<'a> = (Outcome, Option<&'a [u8; PAGE_BYTES]>, Option<(u64, &'a [u8])>, &'a Why);

fn settle(
    shared: &Shared,
    state: &mut State,
    (request, question, lease): (u32, &Question, &Lease),
    opened: Result<Opened, OpenFault>,
    ((outcome, page, checked, why), is_settled): (LocateResult<'_>, bool),
) {
    let slot = lease.slot;
    if opened.is_ok() || outcome == Outcome::Absent {
        note_folders(shared, state, question, opened.is_ok());
    }
    if outcome == Outcome::Absent {
        state.files.set_absent(slot, question.turn);
        state.arrays.set_checked(question.array, question.turn);
    }
    let has_failed = matches!(outcome, Outcome::Failed(_));
    if has_failed && shared.array_record(question.array).flat.is_some() {
        state.arrays.forget(question.array);
    }
    let open = opened.ok().map(|(open, _)| open);
    let stat = opened.ok().map(|(_, stat)| stat);
    shared.close_forgotten(state.files.give_back(lease, open, stat));
    if opened == Err(OpenFault::Changed) {
        shared.close_forgotten(state.forget_file(slot));
    } else if has_failed {
        // A file that is still being written is opened anew by the next sample that needs it.
        shared.close_forgotten(state.files.forget(slot));
    } else if opened.is_ok() && question.inner.is_none() {
        state.files.set_looked(slot, question.turn);
    }
    // A page of a file that somebody saw changing meanwhile is nobody's to use again, nor one of a
    // file that may change without being seen.
    if is_settled
        && let (Outcome::Found(stat), Some(page), Some((known, epoch))) =
            (outcome, page, state.files.known(slot))
        && stat == known
    {
        let index_page = question.index_page();
        if let Some((group_pages, sums)) = checked {
            state.files.set_checks(slot, index_page.inner, group_pages, sums);
        }
        state.pages.insert(epoch, index_page, page);
    }
    state.requests.finish(request, outcome, page, why);
    let is_some = state.requests.ended().is_multiple_of(u64::from(PLAN_EVERY));
    state.want_plan(is_some || !state.requests.has_queued());
}

/// Opens the file of a question. One about a shard in it holds for one state of the file: another
/// state, or no file, is a change. The first question of a batch looks at the path.
fn open_as_asked(
    shared: &Shared,
    path: &Path,
    question: &Question,
    lease: &Lease,
) -> Result<Opened, OpenFault> {
    let is_looked_at = lease.looked_batch.is_some_and(|batch| batch >= question.turn);
    let is_first = question.inner.is_none() && lease.stat.is_some() && !is_looked_at;
    // A file without a descriptor is found by its path anyway.
    if is_first && lease.open.is_some() && shared.store.row.has_descriptors {
        let stat = shared.metadata.stat_path(path).map_err(OpenFault::Store)?;
        if Some(stat) != lease.stat {
            return Err(OpenFault::Replaced);
        }
    }
    let opened = match open_counted(shared, shared.metadata, path, lease) {
        Err(OpenFault::Changed) if is_first => Err(OpenFault::Replaced),
        opened => opened,
    };
    let Some((_, asked)) = question.inner else { return opened };
    match opened {
        Ok((open, stat)) if stat != asked => {
            if lease.open.is_none() {
                shared.store.close(open);
            }
            Err(OpenFault::Changed)
        }
        Err(OpenFault::Store(Fault::Absent)) => Err(OpenFault::Changed),
        opened => opened,
    }
}

/// A file of an array in numbered files, of which another version than the one whose header was
/// read is open: it will do if its header says the same.
fn check_header(
    shared: &Shared,
    question: &Question,
    (buffer, stat): (&mut [u8], FileStat),
    why: &mut Why,
) -> Result<(), Status> {
    let (record, uri) = (shared.array_record(question.array), shared.array_uri(question.array));
    let part = record.parts.get(index(question.file));
    let Some(known) = part.filter(|part| part.version != stat.version()) else { return Ok(()) };
    let rows = record.file_cell(0, question.file).edge;
    let place = (uri, record, known.number);
    let (found, found_rows) = check_part(shared.metadata, place, buffer, why)?;
    let is_same = (found.offset, found_rows) == (known.offset, rows);
    if is_same && found.version == stat.version() {
        return Ok(());
    }
    let text = "its header is not what it was: the next batch reads all headers anew";
    Err(why.fail(Status::Io, format_args!("{text}")))
}

/// The next lookup whose file is not busy.
pub fn take(state: &mut State, shared: &Shared) -> Option<Job> {
    for _ in 0..state.requests.queued() {
        let (request, question) = state.requests.next_queued()?;
        if is_answered(shared, state, request, &question) {
            continue;
        }
        let page = Some(question.index_page());
        let stat = question.inner.map(|(_, stat)| stat);
        match state.files.lease(question.array_id, question.file, page, stat) {
            LeaseOutcome::Leased(lease) => {
                let large = hold_for(state, shared, &question, &lease);
                return Some(Job::Locate { request, question, lease, large });
            }
            LeaseOutcome::Busy => state.requests.requeue(request),
        }
    }
    None
}
