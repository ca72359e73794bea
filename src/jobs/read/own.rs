//! Which reads a thread takes that decodes what it reads.
//!
//! In: the reads of the active waves that nobody began. Out: a job for `cached`, of neighbours in
//! one file, or a read that a thread waits for.

use crate::base::indexes::{Lane, WaveIndex};
use crate::base::limits::WINDOW_BYTES;
use crate::device::SlabNeed;
use crate::jobs::lease::lease_read;
use crate::read::LeaseOutcome;
use crate::records::ArrayRecord;
use crate::setup::geometry::SMALL_CHUNK_BYTES;
use crate::state::State;
use crate::state::job::{Job, RUN_BYTES, Role};
use crate::state::needs::{NoRoom, fits_slab, has_own_workspace};
use crate::state::shared::Shared;
use crate::wave::ReadOp;

/// Reads that a worker takes at a time though others would then have none.
const SHARE_MIN: u32 = 32;

/// The next reads that nobody began, for a thread that decodes what it reads: neighbours in one
/// file, because what is in the page cache needs no order.
pub fn take(state: &mut State, shared: &Shared, role: Role) -> Option<Job> {
    let mut at = state.waves.first_active();
    let mut lacks_room = false;
    while let Some(wave) = at {
        at = state.waves.next_active(wave);
        let lane = state.waves.lane(wave);
        if !role.takes(lane) || lacks_room && lane == Lane::Samples {
            continue;
        }
        match take_of(state, shared, role, wave) {
            Ok(None) => {}
            Ok(job) => return job,
            Err(NoRoom) => lacks_room = true,
        }
    }
    None
}

/// The same of one wave. Err: there is no room on the way to a device.
fn take_of(
    state: &mut State,
    shared: &Shared,
    role: Role,
    wave: WaveIndex,
) -> Result<Option<Job>, NoRoom> {
    while let Some(first) = state.waves.next_for_own(wave) {
        state.waves.issue(wave, first);
        let read = shared.tables.ops.read(shared.wave_row(wave, first));
        let mut own = None;
        let record = shared.array_record(read.array).of_file(read.file, &mut own);
        if !record.origin.has_files {
            // Whoever asks the host for it has to wait.
            if role == Role::Both {
                return Ok(lease_read(state, shared, (wave, first), false, false));
            }
            state.waves.block(wave, first, 0);
            state.wakes.work();
            continue;
        }
        let need = state.read_need(shared, wave, &read);
        // A chunk of an early batch has no place to go to yet.
        let is_early = state.is_early_read(shared, wave, &read);
        let is_small = is_small(shared, wave, (&read, record));
        if is_early || !is_small || !fits_slab(shared, need) {
            if let Some(job) = lease_read(state, shared, (wave, first), true, false) {
                return Ok(Some(job));
            }
            continue;
        }
        if !state.ask_for_room(shared, need) {
            state.waves.unissue(wave, first);
            return Err(NoRoom);
        }
        let wanted = Some(read.stat);
        let lease = match state.files.lease(read.array_id, read.file, None, wanted) {
            LeaseOutcome::Leased(lease) => lease,
            LeaseOutcome::Busy if read.is_mapped => {
                // Whoever opens the file looks again.
                state.waves.unissue(wave, first);
                return Ok(None);
            }
            LeaseOutcome::Busy => {
                state.waves.block(wave, first, 0);
                continue;
            }
        };
        let epoch = state.files.epoch(lease.slot);
        let window = read.is_mapped.then(|| state.windows.lease(epoch, read.offset)).flatten();
        let (count, need) = join_reads(state, shared, wave, first, (&read, need));
        let slab = state.reserve_for_chunks(shared, state.waves.lane(wave), need);
        let staged_ns = state.note_bound(shared, wave);
        return Ok(Some(Job::Stream { wave, first, count, staged_ns, lease, window, slab }));
    }
    Ok(None)
}

/// Whether a worker's place holds the chunks of a read: the pieces of a chunk that is read partly,
/// or, on the way to a device, all that is read of it.
fn is_small(shared: &Shared, wave: WaveIndex, (read, record): (&ReadOp, &ArrayRecord)) -> bool {
    let head = shared.tables.chunks.read(shared.wave_row(wave, read.chunk_first));
    let in_pieces = read.bytes <= SMALL_CHUNK_BYTES || !shared.is_sent(&head);
    read.is_mapped
        || record.working_bytes() <= SMALL_CHUNK_BYTES && has_own_workspace(shared, record)
        || record.is_read_partly() && in_pieces && !is_for_cache(shared, wave, read)
        || is_for_device(shared, wave, read)
}

/// Whether a chunk of a read goes to the chunk cache, whole.
fn is_for_cache(shared: &Shared, wave: WaveIndex, read: &ReadOp) -> bool {
    let mut chunks = read.chunk_first..read.chunk_first + read.chunk_count;
    chunks.any(|chunk| shared.tables.chunks.read(shared.wave_row(wave, chunk)).kept.is_some())
}

/// Whether a device decodes all chunks of a read, which then takes no place of a worker's.
fn is_for_device(shared: &Shared, wave: WaveIndex, read: &ReadOp) -> bool {
    let mut chunks = read.chunk_first..read.chunk_first + read.chunk_count;
    chunks.all(|chunk| shared.tables.chunks.read(shared.wave_row(wave, chunk)).is_for_device())
}

/// Issues the reads after `first` that the same worker takes with it: at most half of its share of
/// those that nobody began, so that all workers end together. How many they are together, and what
/// they need of a slab.
fn join_reads(
    state: &mut State,
    shared: &Shared,
    wave: WaveIndex,
    first: u32,
    (read, mut need): (&ReadOp, SlabNeed),
) -> (u32, SlabNeed) {
    let (mut count, mut bytes) = (1, read.decoded_bytes);
    let unissued: u32 = state.waves.each_active().map(|wave| wave.unissued).sum();
    let most = (unissued / (2 * shared.settings.decode_threads.max(1))).max(SHARE_MIN);
    while count < most && state.waves.is_unissued(wave, first + count) {
        let next = shared.tables.ops.read(shared.wave_row(wave, first + count));
        bytes += next.decoded_bytes;
        let is_same = !state.is_early_read(shared, wave, &next)
            && (next.array_id, next.file, next.stat) == (read.array_id, read.file, read.stat)
            && next.offset / WINDOW_BYTES == read.offset / WINDOW_BYTES;
        let more = need.and(state.read_need(shared, wave, &next));
        let is_enough = bytes > RUN_BYTES || !fits_slab(shared, more);
        if !is_same || is_enough || !state.ask_for_room(shared, more) {
            break;
        }
        need = more;
        state.waves.issue(wave, first + count);
        count += 1;
    }
    (count, need)
}
