//! Reads that are waited for: chunk data goes into the staging slab.
//!
//! In: a read of a wave and a lease on its file. Out: its bytes in the slab, or the samples that
//! fail. No lock is held while a file is opened or read.

use crate::base::arena::Claim;
use crate::base::indexes::WaveIndex;
use crate::base::math::index;
use crate::base::stats::Stage;
use crate::jobs::lease::{LeasedFile, lease_read};
use crate::jobs::read::hook::{begin_read, give_up_read};
use crate::os::profiler;
use crate::os::store::{Fault, Path};
use crate::read::{Lease, OpenFault};
use crate::state::State;
use crate::state::flights::Flight;
use crate::state::job::Job;
use crate::state::lock::{Lock, Locked};
use crate::state::shared::Shared;
use crate::wave::{ChunkKind, ReadOp};
use core::sync::atomic::Ordering::Relaxed;

/// Reads into the slab; with a ticket the host is to, and completes it later.
pub fn run<'l>(
    lock: &'l Lock,
    (wave, op): (WaveIndex, u32),
    (read, mut target): (&ReadOp, Claim<'static>),
    lease: &Lease,
    (cached_only, ticket): (bool, Option<u64>),
) -> Locked<'l> {
    let shared = lock.shared;
    let range = shared.profiler.range(profiler::IO);
    let start = (shared.os.now_ns)();
    let mut path = Path::new();
    let mut file = LeasedFile::open(lock, lease, read, &mut path);
    match (ticket, file.opened) {
        (Some(ticket), Ok((open, stat))) => {
            let (read, lease, stat, start_ns) = (*read, *lease, Some(stat), start);
            let flight = Flight { wave, op, read, target, lease, open, stat, start_ns };
            begin_read(lock, ticket, flight, file.path);
            drop(range);
            return lock.lock();
        }
        (Some(ticket), Err(_)) => give_up_read(lock, ticket),
        (None, _) => {}
    }
    let target = target.part(0, read.bytes);
    // A thread that may wait tries what need not: that it need not is worth knowing, and time shows
    // it only if no other thread is at work.
    let mut result = file.read(target, read.offset, !shared.store.row.waits);
    let is_cached = result != Err(OpenFault::Store(Fault::WouldBlock));
    if !is_cached && !cached_only {
        result = file.read(target, read.offset, false);
    }
    let result = result.and_then(|()| file.check_unchanged());
    let again = result.err().filter(|fault| file.give_up_a_descriptor(*fault));
    if again.is_none() {
        let needed = read_pieces(&mut file, wave, target, result);
        shared.stats.reads_issued.fetch_add(1, Relaxed);
        let at = shared.profiler.here().of_wave(wave.0);
        shared.observe(Stage::Io, start, (read.bytes, needed), at);
    }
    drop(range);
    let mut state = lock.lock();
    file.give_back(&mut state, again);
    if again.is_some() {
        let next = state.waves.next_chunk(wave, op);
        state.waves.block(wave, op, next);
    } else {
        state.set_ready(shared, wave, op);
    }
    state.note_cached(is_cached && !shared.store.row.waits);
    state
}

/// Decides chunk by chunk after a read that failed as a whole, so that which chunks fail does not
/// depend on how reads were merged. Returns the bytes that chunks needed.
fn read_pieces(
    file: &mut LeasedFile<'_>,
    wave: WaveIndex,
    target: &mut [u8],
    result: Result<(), OpenFault>,
) -> u64 {
    let (shared, read) = (file.lock.shared, file.read);
    let task_of = |chunk: u32| shared.tables.chunks.read(shared.wave_row(wave, chunk));
    let is_whole = |chunk: &u32| task_of(*chunk).kind != ChunkKind::Broken;
    let (mut needed, mut last) = (0, None);
    for chunk in read.chunk_first..read.chunk_first + read.chunk_count {
        let task = task_of(chunk);
        needed += task.bytes;
        let fault = match (result, file.opened) {
            (Ok(()), _) => continue,
            (Err(fault), Err(_)) => fault,
            (Err(fault @ OpenFault::Changed), Ok(_)) => fault,
            (Err(fault), Ok(_)) if read.chunk_count == 1 && shared.store.retries_itself => fault,
            (Err(_), Ok(_)) => {
                let at = (task.offset, task.bytes);
                let place = &mut target[index(task.offset - read.offset)..][..index(task.bytes)];
                // Tasks of one chunk end alike: another read could spoil the bytes of the first.
                let again = match last {
                    Some((last, again)) if last == at => again,
                    _ => file.read(place, task.offset, false),
                };
                last = Some((at, again));
                match again {
                    Ok(()) => continue,
                    Err(fault) => fault,
                }
            }
        };
        file.fail(wave, chunk, fault);
        // A read that failed may have left anything in its place, of which a damaged index may give
        // a part to another chunk.
        let shares = |other: &u32| task_of(*other).offset + task_of(*other).bytes > task.offset;
        let spoiled = (read.chunk_first..chunk).filter(shares).filter(is_whole);
        spoiled.for_each(|other| file.fail(wave, other, fault));
    }
    if last.is_some()
        && let Err(fault) = file.check_unchanged()
    {
        let chunks = read.chunk_first..read.chunk_first + read.chunk_count;
        chunks.filter(is_whole).for_each(|chunk| file.fail(wave, chunk, fault));
    }
    needed
}

/// The next read that has to be waited for.
pub fn take(state: &mut State, shared: &Shared) -> Option<Job> {
    let job = next_blocking(state, shared);
    if job.is_none() && state.must_wait(shared) {
        return next_alternating(state, shared);
    }
    job
}

/// The next read, of the oldest wave that has one, that the host did not bring.
pub fn take_for_io(state: &mut State, shared: &Shared) -> Option<Job> {
    let mut at = state.waves.first_active();
    while let Some(wave) = at {
        at = state.waves.next_active(wave);
        for _ in 0..state.waves.waves[wave.at()].for_io.len() {
            let Some(op) = state.waves.take_for_io(wave) else { break };
            let job = lease_read(state, shared, (wave, op), false, true);
            if job.is_some() {
                return job;
            }
        }
    }
    None
}

/// The next read, of the oldest wave that has one, that was found to block.
fn next_blocking(state: &mut State, shared: &Shared) -> Option<Job> {
    let mut at = state.waves.first_active();
    while let Some(wave) = at {
        at = state.waves.next_active(wave);
        for _ in 0..state.waves.waves[wave.at()].blocking.len() {
            let Some(op) = state.waves.take_blocking(wave) else { break };
            if let Some(job) = lease_read(state, shared, (wave, op), false, false) {
                return Some(job);
            }
        }
    }
    None
}

/// The next read that nobody began, for a thread that may wait: alternating across files.
fn next_alternating(state: &mut State, shared: &Shared) -> Option<Job> {
    let mut at = state.waves.first_active();
    while let Some(wave) = at {
        at = state.waves.next_active(wave);
        while let Some(op) = state.waves.next_by_order(wave, &shared.tables.order) {
            state.waves.issue(wave, op);
            if let Some(job) = lease_read(state, shared, (wave, op), false, false) {
                return Some(job);
            }
        }
    }
    None
}
