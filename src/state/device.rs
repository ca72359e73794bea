//! The state of a device that the lock guards.
//!
//! In: what was submitted, what the driver says is done. Out: which slabs, waves and slots wait for
//! it, and when to look again. Nothing in this module calls the driver.

use crate::base::arena::Carver;
use crate::base::bill::Item;
use crate::base::indexes::BatchSlot;
use crate::base::status::Failure;
use crate::cuda::{HAS_DEVICES, RESIDENT_WAVES, SLABS_MAX, Submit};
use crate::device::{Layout, Slabs};
use crate::setup::settings::Settings;
use crate::state::uses::{Use, Uses};
use arrayvec::ArrayVec;
use core::sync::atomic::AtomicU32;

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
    /// The number of boxes from that one on.
    pub left: u64,
}

/// The work that is queued for a resident wave.
///
/// ```text
///  Idle ─▶ Copying ─▶ Decoding ─▶ Assembling ─▶ Idle
///            ├─ without streams ──▲
///            └──────────┴─ without units ─────▶ Idle, also from Idle: the slab has nothing to do
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WavePhase {
    /// Nothing.
    Idle,
    /// Its copy.
    Copying,
    /// Its streams.
    Decoding,
    /// Its units.
    Assembling,
}

impl WavePhase {
    /// Whether a wave goes from this on to `to`.
    fn leads_to(self, to: WavePhase) -> bool {
        use WavePhase::{Assembling, Copying, Decoding, Idle};
        match to {
            Idle => true,
            Copying => self == Idle,
            Decoding => self == Copying,
            Assembling => self == Copying || self == Decoding,
        }
    }
}

/// The decoding of a resident wave.
#[derive(Clone, Copy, Default)]
pub struct Decoding {
    /// Bytes of its streams, and bytes that they become.
    pub bytes: (u64, u64),
    /// Its number among all, from 1.
    pub number: u64,
    /// Time from the end of the one before to the copy of this wave.
    pub unstaged_ns: u64,
}

/// The state of the device that the lock guards.
pub struct DeviceState {
    /// Slabs and resident waves.
    pub slabs: Slabs,
    /// Bytes of data of each resident wave, and bytes that it becomes.
    pub wave_bytes: [(u64, u64); RESIDENT_WAVES],
    /// The decoding of each.
    pub decoding: [Decoding; RESIDENT_WAVES],
    /// Resident waves that were queued for decoding.
    pub decodings: u64,
    /// How far each of them is, and what was submitted.
    pub waves: [(WavePhase, Submit); RESIDENT_WAVES],
    /// Chunks that were refused, by slot of their array.
    pub refusals: &'static [AtomicU32],
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
    /// Loans whose memory is not there yet, likewise.
    pub loans: u64,
    /// Slots that the kernels of a pass were queued for, as bits.
    pub finishing: u64,
    /// Streams that a consumer uses each slot on.
    pub uses: &'static mut [Uses],
    /// A thread has the job, or looks at the device to close it.
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
            wave_bytes: [(0, 0); RESIDENT_WAVES],
            decoding: [Decoding::default(); RESIDENT_WAVES],
            decodings: 0,
            waves: [(WavePhase::Idle, Submit::NOTHING); RESIDENT_WAVES],
            refusals: &[],
            lent_bytes: &mut [],
            lent: &mut [],
            lending: 0,
            fenced: 0,
            captured: 0,
            loans: 0,
            finishing: 0,
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
            let config = &settings.config;
            let (waves, slots) = (config.host_buffer_waves, config.n_batch_slots);
            let rows = u64::from(waves) * u64::from(config.max_chunks_per_wave);
            state.slabs = Slabs::carve(carver, layout, waves, slots, rows);
            if layout.streams > 0 {
                let arrays = u64::from(config.n_array_meta_cache);
                state.refusals =
                    carver.slice_from(Item::DeviceWaves, arrays, |_| AtomicU32::new(0));
            }
            state.lent_bytes = carver.slice(Item::DeviceWaves, SLABS_MAX as u64, &0);
            let nothing = Lent { next: 0, left: 0 };
            state.lent = carver.slice(Item::DeviceWaves, u64::from(slots), &nothing);
            state.uses =
                carver.slice_from(Item::DeviceWaves, u64::from(slots), |_| ArrayVec::new());
        }
        state
    }

    /// A resident wave goes on to another phase.
    pub fn go(&mut self, resident: u32, to: WavePhase) {
        let phase = &mut self.waves[resident as usize].0;
        assert!(phase.leads_to(to));
        *phase = to;
    }

    /// Whether a call to it failed.
    pub fn is_dead(&self) -> bool {
        HAS_DEVICES && self.failure.is_some()
    }

    /// A consumer uses the slot on a stream, which is waited for when the slot is given back. False
    /// if no further stream can be remembered.
    pub fn remember(&mut self, slot: BatchSlot, stream: Use) -> bool {
        let uses = &mut self.uses[slot.at()];
        uses.contains(&stream) || uses.try_push(stream).is_ok()
    }

    /// A slot waits for its fences, or first for the end of a capture.
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

    /// One of them is on its way, or failed; `next` is the box after it.
    pub fn lent_one(&mut self, slot: BatchSlot, next: u32) {
        let lent = &mut self.lent[slot.at()];
        assert!(lent.left > 0 && next > lent.next);
        *lent = Lent { next, left: lent.left - 1 };
        self.lending &= !(u64::from(lent.left == 0) << slot.0);
    }

    /// Whether anything is to be looked at.
    pub fn is_at_work(&self) -> bool {
        let waits = self.fenced | self.captured | self.loans | self.lending | self.finishing;
        HAS_DEVICES && !self.is_dead() && (self.slabs.busy_count() > 0 || waits != 0)
    }

    /// Forgets what is under way; the device is at rest.
    pub fn clear(&mut self) {
        self.slabs.clear();
        self.waves = [(WavePhase::Idle, Submit::NOTHING); RESIDENT_WAVES];
        self.lent_bytes.fill(0);
        self.loans = 0;
        self.lending = 0;
        self.finishing = 0;
        self.lacks_room = false;
    }
}

/// The numbers of the bits that are set.
pub fn bits(set: u64) -> impl Iterator<Item = u32> {
    (0..u64::BITS).filter(move |bit| set & (1 << bit) != 0)
}

#[cfg(test)]
mod tests {
    use super::WavePhase::{Assembling, Copying, Decoding, Idle};

    #[test]
    fn a_resident_wave_goes_where_its_drawing_says_and_nowhere_else() {
        let phases = [Idle, Copying, Decoding, Assembling];
        let drawn = [
            (Idle, &[Idle, Copying][..]),
            (Copying, &[Decoding, Assembling, Idle]),
            (Decoding, &[Assembling, Idle]),
            (Assembling, &[Idle]),
        ];
        for (from, to) in drawn {
            for phase in phases {
                assert_eq!(from.leads_to(phase), to.contains(&phase), "{from:?} to {phase:?}");
            }
        }
    }
}
