//! Failed samples of a batch are filled.

use crate::assemble::fill_row;
use crate::assemble::units::failed_unit;
use crate::base::indexes::BatchSlot;
use crate::device::SlabNeed;
use crate::os::profiler;
use crate::records::Destination;
use crate::state::State;
use crate::state::job::Job;
use crate::state::lock::{Lock, Locked};
use crate::state::shared::Shared;
use crate::state::slab_writer::SlabWriter;
use core::sync::atomic::Ordering::Relaxed;

/// Fills the failed samples of a batch.
pub fn run(lock: &Lock, slot: BatchSlot, mut slab: Option<SlabWriter>) -> Locked<'_> {
    let shared = lock.shared;
    let range = shared.profiler.range(profiler::ASSEMBLE);
    let count = lock.lock().slots.sample_count(slot);
    let is_failed =
        |sample: &u32| shared.views.statuses.read(shared.sample_row(slot, *sample)) != 0;
    for sample in (0..count).filter(is_failed) {
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
                    fill_row(shared.claim_sample(to).bytes(), element);
                }
            }
        }
        shared.stats.samples_failed.fetch_add(1, Relaxed);
    }
    let part = slab.map(SlabWriter::finish);
    drop(range);
    let mut state = lock.lock();
    match part {
        // It ends when the slab has arrived.
        Some(part) => {
            state.device.slabs.add_chunks(part.slab, slot, 1);
            state.end_part(Some(part));
        }
        None => state.end_patch(slot),
    }
    state
}

/// A batch whose failed samples nobody fills yet, if there is room for them.
pub fn take(state: &mut State, shared: &Shared) -> Option<Job> {
    let slot = state.patch_slot()?;
    let fields = shared.settings.fields.len() as u32;
    let need = SlabNeed::of(0, fields * state.slots.failed_samples(slot));
    let slab = state.reserve(shared, need).ok()?;
    state.patching |= 1 << slot.0;
    Some(Job::Patch { slot, slab })
}
