//! Failed samples of a batch are filled.

use crate::assemble::fill_all;
use crate::assemble::units::failed_unit;
use crate::cuda::HAS_DEVICES;
use crate::device::{Part, SlabNeed};
use crate::os::profiler;
use crate::state::State;
use crate::state::job::Job;
use crate::state::lock::{Lock, Locked};
use crate::state::shared::Shared;
use core::sync::atomic::Ordering::Relaxed;

/// Fills the failed samples of a batch.
pub fn run<'l>(lock: &'l Lock, slot: u32, part: Option<&Part>) -> Locked<'l> {
    let shared = lock.shared;
    let range = shared.profiler.range(profiler::ASSEMBLE);
    let count = lock.lock().slots.sample_count(slot);
    let element_bytes = shared.settings.dtype_bytes;
    let element = &shared.failed_element[..element_bytes as usize];
    let mut lift = if HAS_DEVICES { shared.lift(part) } else { None };
    for sample in 0..count {
        if shared.statuses.read(shared.sample_row(slot, sample)) == 0 {
            continue;
        }
        let region = shared.sample_region(slot, sample);
        match &mut lift {
            Some(lift) => {
                let (address, bytes) = (region.as_ptr() as u64, region.bytes());
                lift.push(&failed_unit(address, bytes, &shared.failed_element, element_bytes));
            }
            None => fill_all(&region, element),
        }
        shared.stats.samples_failed.fetch_add(1, Relaxed);
    }
    if HAS_DEVICES && let Some(lift) = lift {
        lift.finish();
    }
    drop(range);
    let mut state = lock.lock();
    match part.filter(|_| HAS_DEVICES) {
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
    let need = SlabNeed::of(0, state.slots.failed_samples(slot));
    let part = state.reserve(shared, need).ok()?;
    state.patching |= 1 << slot;
    Some(Job::Patch { slot, part })
}
