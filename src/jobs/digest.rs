//! The samples of full batches are read for their digests.
//!
//! In: pieces of slots that are Digesting. Out: digests, and with the last piece of a batch its
//! slot is Ready. On the host workers read them. On a device, whose job this is a part of, a kernel
//! does, behind the waves on their stream: it leaves shares in pinned memory, which are added up
//! when it has run.

use crate::base::indexes::BatchSlot;
use crate::base::math::index;
use crate::batch::digests::Piece;
use crate::cuda::digests::{DigestRead, parts};
use crate::cuda::{DeviceEngine, Fault};
use crate::os::profiler;
use crate::state::State;
use crate::state::job::Job;
use crate::state::lock::{Lock, Locked};

/// Reads a piece.
pub fn run<'l>(lock: &'l Lock, piece: &Piece) -> Locked<'l> {
    let shared = lock.shared;
    let sum = {
        let _range = shared.profiler.range(profiler::DIGEST);
        let (start, bytes) = ((shared.os.now_ns)(), shared.digested_bytes(piece));
        let sum = piece.read(bytes, &shared.views.digests);
        let ns = (shared.os.now_ns)() - start;
        shared.stats.digest.observe(ns, bytes.len() as u64, piece.output_bytes());
        sum
    };
    let mut state = lock.lock();
    if state.digests.end(piece, sum) {
        state.end_digests(piece.slot);
    }
    state
}

/// The next piece of a batch that is to be read.
pub fn take(state: &mut State) -> Option<Job> {
    state.digests.take().map(Job::Digest)
}

/// Lets the kernel read the batches that wait for it; whether there was one. In an entered context,
/// by one thread at a time.
pub fn read_batches(lock: &Lock, engine: &DeviceEngine) -> Result<bool, Fault> {
    let (shared, mut progress) = (lock.shared, false);
    let fields = shared.settings.fields.len();
    // Ends: a field of a slot is a piece, and a slot has one batch until this thread has seen that
    // it was read.
    loop {
        let Some(piece) = lock.lock().digests.take() else { return Ok(progress) };
        let Piece { slot, field, samples, sample_bytes, .. } = piece;
        let read = DigestRead {
            samples: shared.field_region(slot, field, samples),
            sample_bytes,
            first_share: shared.settings.first_share(field as usize),
        };
        if field == 0 {
            engine.begin_digests(slot.0)?;
        }
        engine.read_for_digests(slot.0, &read)?;
        if field as usize + 1 == fields {
            engine.end_digests(slot.0)?;
            lock.lock().device.digesting |= 1 << slot.0;
        }
        progress = true;
    }
}

/// Makes digests of the shares of a batch, whose kernels have run in so many nanoseconds.
pub fn close_digests(lock: &Lock, slot: BatchSlot, ns: u64) {
    let shared = lock.shared;
    let (mut input, mut output) = (0, 0);
    for field in 0..shared.settings.fields.len() as u32 {
        let piece = lock.lock().digests.piece(slot, field, 0);
        let shares =
            &shared.digest_shares(slot)[index(shared.settings.first_share(field as usize))..];
        let of_sample = |shares: &[[u8; 8]]| {
            shares.iter().map(|share| u64::from_ne_bytes(*share)).fold(0, u64::wrapping_add)
        };
        let sums = shares.chunks_exact(index(parts(piece.sample_bytes))).map(of_sample);
        let sum = piece.close(sums, &shared.views.digests);
        input += u64::from(piece.samples) * piece.sample_bytes;
        output += piece.output_bytes();
        let state = &mut *lock.lock();
        if state.digests.end(&piece, sum) {
            shared.stats.digest.observe(ns, input, output);
            state.device.digesting &= !(1 << slot.0);
            state.end_digests(slot);
        }
    }
}
