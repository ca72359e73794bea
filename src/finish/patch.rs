//! Failed samples of a batch are filled with pad_value.

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
    let failed = state.slots.failed_samples(slot);
    (u64::from(failed > 0), shared.settings.fields.len() as u32 * failed)
}

fn run<'l>(lock: &'l Lock, piece: &Piece, mut slab: Option<&mut SlabWriter>) -> Locked<'l> {
    let (shared, slot) = (lock.shared, piece.slot);
    let range = shared.profiler.range(profiler::ASSEMBLE);
    let statuses = shared.views.rows.statuses(slot);
    let is_failed = |sample: &u32| statuses.read(*sample as usize) != 0;
    for sample in (0..piece.samples).filter(is_failed) {
        for (field, of) in (0..).zip(&shared.settings.fields) {
            let to = Destination { slot, field, sample };
            let (element, element_bytes) = (&shared.padding(field).empty_element, of.dtype_bytes);
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
        shared.stats.samples_failed.fetch_add(1, Relaxed);
    }
    drop(range);
    lock.lock()
}
