//! Failed samples of a batch are filled.

use crate::assemble::fill_all;
use crate::assemble::units::failed_unit;
use crate::cuda::HAS_DEVICES;
use crate::device::Part;
use crate::state::shared::Instance;
use core::sync::atomic::Ordering::Relaxed;

pub fn run_patch(instance: &Instance, slot: u32, part: Option<&Part>) {
    let count = instance.lock.lock().slots.sample_count(slot);
    let element_bytes = instance.settings.dtype_bytes;
    let element = &instance.failed_element[..element_bytes as usize];
    let mut lift = if HAS_DEVICES { instance.lift(part) } else { None };
    for sample in 0..count {
        if instance.statuses.read(instance.sample_row(slot, sample)) == 0 {
            continue;
        }
        let region = instance.sample_region(slot, sample);
        match &mut lift {
            Some(lift) => {
                let (address, bytes) = (region.as_ptr() as u64, region.bytes());
                lift.push(&failed_unit(address, bytes, &instance.failed_element, element_bytes));
            }
            None => fill_all(&region, element),
        }
        instance.stats.samples_failed.fetch_add(1, Relaxed);
    }
    if HAS_DEVICES && let Some(lift) = lift {
        lift.finish();
    }
    let state = &mut *instance.lock.lock();
    match part.filter(|_| HAS_DEVICES) {
        // It ends when the slab has arrived.
        Some(part) => {
            state.device.slabs.add_chunks(part.slab, slot, 1);
            state.end_part(Some(part));
        }
        None => state.end_patch(instance, slot),
    }
}
