//! The samples of full batches are read for their digests, where the config asks for them.
//!
//! On a device a kernel reads them, after the waves on their stream: it leaves shares in pinned
//! memory, which are added up when it has run.

use crate::base::indexes::BatchSlot;
use crate::base::math::index;
use crate::batch::digests::Part;
use crate::batch::pieces::{Piece, Pieces};
use crate::cuda::digests::{DigestRead, parts};
use crate::cuda::{DeviceEngine, Fault, HAS_DEVICES};
use crate::os::profiler;
use crate::state::State;
use crate::state::lock::{Lock, Locked};
use crate::state::shared::Shared;
use crate::state::slab_writer::SlabWriter;
use crate::state::whole::{Kernels, Pass};

pub const PASS: Pass =
    Pass { begin, run, kernels: if HAS_DEVICES { Some(Kernels { queue, close }) } else { None } };

fn begin(state: &mut State, _: &Shared, slot: BatchSlot) -> Pieces {
    let count = state.digests.begin(slot, state.slots.sample_count(slot));
    Pieces { count, units: 0 }
}

fn run<'l>(lock: &'l Lock, piece: &Piece, _: Option<&mut SlabWriter>) -> Locked<'l> {
    let shared = lock.shared;
    let part = lock.lock().digests.part(piece);
    let sum = {
        let _range = shared.profiler.range(profiler::DIGEST);
        let (start, bytes) = ((shared.os.now_ns)(), shared.digested_bytes(&part));
        let sum = part.read(bytes, &shared.views.digests);
        let ns = (shared.os.now_ns)() - start;
        shared.stats.digest.observe(ns, bytes.len() as u64, part.output_bytes());
        sum
    };
    let mut state = lock.lock();
    state.digests.end(&part, sum);
    if state.slots.pieces_left(piece.slot) == 1 {
        state.digests.close(piece);
    }
    state
}

/// A field is a piece.
fn queue(lock: &Lock, engine: &DeviceEngine, piece: &Piece) -> Result<(), Fault> {
    let shared = lock.shared;
    let Part { slot, field, samples, sample_bytes, .. } = lock.lock().digests.part(piece);
    let read = DigestRead {
        samples: shared.field_region(slot, field, samples),
        sample_bytes,
        first_share: shared.settings.first_share(field as usize),
    };
    engine.read_for_digests(slot.0, &read)
}

/// Makes digests of the shares of a batch.
fn close(lock: &Lock, first: &Piece, ns: u64) {
    let shared = lock.shared;
    let (mut input, mut output) = (0, 0);
    for field in 0..shared.settings.fields.len() {
        let part = lock.lock().digests.part(&Piece { number: field as u64, ..*first });
        let shares = &shared.digest_shares(first.slot)[index(shared.settings.first_share(field))..];
        let of_sample = |shares: &[[u8; 8]]| {
            shares.iter().map(|share| u64::from_ne_bytes(*share)).fold(0, u64::wrapping_add)
        };
        let sums = shares.chunks_exact(index(parts(part.sample_bytes))).map(of_sample);
        let sum = part.close(sums, &shared.views.digests);
        input += u64::from(part.samples) * part.sample_bytes;
        output += part.output_bytes();
        lock.lock().digests.end(&part, sum);
    }
    shared.stats.digest.observe(ns, input, output);
}
