//! Failed samples of a batch that are given up are filled with pad_value, or with NaN.

use crate::assemble::fill_row;
use crate::assemble::units::failed_unit;
use crate::base::indexes::BatchSlot;
use crate::batch::pieces::Piece;
use crate::os::profiler;
use crate::records::Destination;
use crate::state::lock::{Lock, Locked};
use crate::state::shared::Shared;
use crate::state::slab_writer::SlabWriter;
use crate::state::{Pass, State};
use core::sync::atomic::Ordering::Relaxed;

pub const PASS: Pass = Pass { begin, run, kernels: None };

fn begin(state: &State, shared: &Shared, slot: BatchSlot) -> (u64, u32) {
    shared.stats.samples_failed.fetch_add(state.slots.failed_samples(slot).into(), Relaxed);
    let failed = state.slots.given_up(slot).count() as u32;
    (u64::from(failed > 0), shared.settings.fields.len() as u32 * failed)
}

fn run<'l>(lock: &'l Lock, piece: &Piece, mut slab: Option<&mut SlabWriter>) -> Locked<'l> {
    let (shared, slot) = (lock.shared, piece.slot);
    let range = shared.profiler.range(profiler::ASSEMBLE);
    let mut next = 0;
    // A search with the lock held, and the work on what it finds without.
    while let Some(sample) = {
        let state = &*lock.lock();
        state.slots.given_up(slot).find(|sample| *sample >= next)
    } {
        next = sample + 1;
        for (field, of) in (0..).zip(&shared.settings.fields) {
            let to = Destination { slot, field, sample };
            let (element, element_bytes) = (&shared.failed_element(field), of.dtype_bytes);
            match &mut slab {
                Some(slab) => {
                    let region = shared.sample_region(to);
                    let (address, bytes) = (region.as_ptr() as u64, region.bytes());
                    slab.push(&failed_unit(address, bytes, element, element_bytes));
                }
                None => {
                    let element = &element[..element_bytes as usize];
                    shared.claim_sample(to).into_iter().for_each(|mut claim| {
                        fill_row(claim.bytes(), element);
                    });
                }
            }
        }
    }
    drop(range);
    lock.lock()
}
