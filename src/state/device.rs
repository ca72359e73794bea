//! What the lock guards of a device.
//!
//! In: what was submitted, what the driver says is done. Out: which slabs, waves and slots wait for
//! it, and when to look again. Nothing here calls the driver.

use crate::base::arena::Carver;
use crate::base::bill::Item;
use crate::base::indexes::BatchSlot;
use crate::base::status::Failure;
use crate::cuda::{HAS_DEVICES, RESIDENT_WAVES, SLABS_MAX};
use crate::device::{Layout, Slabs};
use crate::setup::settings::Settings;
use crate::state::uses::{Use, Uses};
use arrayvec::ArrayVec;

/// Least time between two looks at a device that is at work: short beside a wave, long beside a
/// look.
pub const NAP_MIN_NS: u64 = 20_000;

/// Most time: each look that finds nothing doubles it, because what took long so far takes longer
/// still, and a slot may wait for a consumer's whole step. Short beside any wait that it ends.
pub const NAP_MAX_NS: u64 = 320_000;

/// Boxes of a batch that read memory of the device, and are not on their way yet.
#[derive(Clone, Copy)]
pub struct Lent {
    /// Box of the batch that is looked at next, as `order` of the planner counts them.
    pub next: u32,
    /// How many there are from there on.
    pub left: u64,
}

/// What the lock guards of the device.
pub struct DeviceState {
    /// Slabs and resident waves.
    pub slabs: Slabs,
    /// Slabs whose copy is under way, as bits.
    pub copying: u64,
    /// Bytes of each of these copies.
    pub copy_bytes: [u64; SLABS_MAX],
    /// Bytes of data of each resident wave, and bytes that it becomes.
    pub wave_bytes: [(u64, u64); RESIDENT_WAVES],
    /// Bytes that the units of each slab read of the caller's memory.
    pub lent_bytes: &'static mut [u64],
    /// By batch slot.
    pub lent: &'static mut [Lent],
    /// Slots that have such, as bits.
    pub lending: u64,
    /// Slots that wait for the device, as bits.
    pub fenced: u64,
    /// Slots that wait for the end of a capture first, likewise.
    pub captured: u64,
    /// Slots whose samples a kernel reads for their digests, as bits.
    pub digesting: u64,
    /// Streams that a consumer uses each slot on.
    pub uses: &'static mut [Uses],
    /// A thread has the job.
    pub is_taken: bool,
    /// When the device was looked at last.
    pub polled_ns: u64,
    /// Time until the next look.
    pub nap_ns: u64,
    /// A worker found no room for what it was to do.
    pub lacks_room: bool,
    /// Why a call failed: nothing more is done.
    pub failure: Option<Failure>,
    /// Our thread sleeps.
    pub is_idle: bool,
    /// Calls of the host's that wait, and look at the device as they do.
    pub watchers: u32,
}

impl DeviceState {
    /// A device at rest; without slabs on the host.
    pub fn carve(carver: &mut Carver, settings: &Settings, layout: Layout) -> DeviceState {
        let mut state = DeviceState {
            slabs: Slabs::none(),
            copying: 0,
            copy_bytes: [0; SLABS_MAX],
            wave_bytes: [(0, 0); RESIDENT_WAVES],
            lent_bytes: &mut [],
            lent: &mut [],
            lending: 0,
            fenced: 0,
            captured: 0,
            digesting: 0,
            uses: &mut [],
            is_taken: false,
            polled_ns: 0,
            nap_ns: NAP_MIN_NS,
            lacks_room: false,
            failure: None,
            is_idle: false,
            watchers: 0,
        };
        if settings.is_cuda() {
            let (waves, slots) = (settings.config.host_buffer_waves, settings.config.n_batch_slots);
            state.slabs = Slabs::carve(carver, layout, waves, slots);
            state.lent_bytes = carver.slice(Item::DeviceWaves, SLABS_MAX as u64, &0);
            let nothing = Lent { next: 0, left: 0 };
            state.lent = carver.slice(Item::DeviceWaves, u64::from(slots), &nothing);
            state.uses =
                carver.slice_from(Item::DeviceWaves, u64::from(slots), |_| ArrayVec::new());
        }
        state
    }

    /// Whether a call to it failed.
    pub fn is_dead(&self) -> bool {
        HAS_DEVICES && self.failure.is_some()
    }

    /// A consumer uses the slot on a stream, which is waited for when the slot is given back. False
    /// where no further stream can be remembered.
    pub fn remember(&mut self, slot: BatchSlot, stream: Use) -> bool {
        let uses = &mut self.uses[slot.at()];
        uses.contains(&stream) || uses.try_push(stream).is_ok()
    }

    /// A slot waits for its fence, or first for the end of a capture.
    pub fn hold_back(&mut self, slot: BatchSlot, is_fenced: bool) {
        let bit = 1 << slot.0;
        self.captured &= !bit;
        if is_fenced {
            self.uses[slot.at()].clear();
            self.fenced |= bit;
        } else {
            self.captured |= bit;
        }
    }

    /// Boxes of the batch that a slot was just given read memory of the device.
    pub fn lend(&mut self, slot: BatchSlot, boxes: u64) {
        self.lent[slot.at()] = Lent { next: 0, left: boxes };
        self.lending |= 1 << slot.0;
    }

    /// One of them is on its way, or failed; `next` is the box behind it.
    pub fn lent_one(&mut self, slot: BatchSlot, next: u32) {
        let lent = &mut self.lent[slot.at()];
        assert!(lent.left > 0 && next > lent.next);
        *lent = Lent { next, left: lent.left - 1 };
        self.lending &= !(u64::from(lent.left == 0) << slot.0);
    }

    /// Whether there is something to look at.
    pub fn is_at_work(&self) -> bool {
        let waits = self.copying | self.fenced | self.captured | self.lending | self.digesting;
        HAS_DEVICES && !self.is_dead() && (self.slabs.busy_count() > 0 || waits != 0)
    }

    /// Forgets what is under way; the device is at rest.
    pub fn clear(&mut self) {
        self.slabs.clear();
        self.copying = 0;
        self.lent_bytes.fill(0);
        self.lending = 0;
        self.digesting = 0;
        self.lacks_room = false;
    }
}

/// The numbers of the bits that are set.
pub fn bits(set: u64) -> impl Iterator<Item = u32> {
    (0..u64::BITS).filter(move |bit| set & (1 << bit) != 0)
}
