//! The jobs of a device: submit slabs that are full, look what is done, and free what was waited
//! for.
//!
//! In: slabs whose writers are done, boxes whose memory may be there (`lend`), batches that were
//! given back. Out: chunks that are in their batches, slabs and batch slots that are free. No
//! driver call waits for the device: completion is polled, by a thread of ours that naps in
//! between, or by the host's threads as they come by.
//!
//! One thread at a time has this job (`is_taken`), so submissions keep their order.

use crate::base::indexes::BatchSlot;
use crate::base::math::index;
use crate::base::status::{Failure, Why};
use crate::batch::slots::SlotState;
use crate::cuda::{DeviceEngine, Fault, Submit};
use crate::device::{Layout, Submission, UNIT_BYTES};
use crate::fail;
use crate::jobs::digest::{close_digests, read_batches};
use crate::jobs::lend::send_boxes;
use crate::jobs::release::fence_captured;
use crate::os::sink::Level;
use crate::state::device::{NAP_MAX_NS, NAP_MIN_NS, bits};
use crate::state::job::{Job, Role};
use crate::state::lock::{Condition, Lock, Locked};
use crate::state::shared::Shared;
use crate::state::slab_writer::write_first_tiles;
use crate::state::{Life, State};

impl State {
    /// The chunks that a resident wave brought are in their batches.
    fn land(&mut self, shared: &Shared, resident: u32) {
        self.device.slabs.done(resident);
        for slot in self.slots.each() {
            let chunks = self.device.slabs.take_chunks(resident, slot);
            if chunks == 0 {
                continue;
            }
            if self.slots.state(slot) == SlotState::Patching {
                self.end_patch(slot);
            } else if self.slots.sub_remaining(slot, chunks) {
                self.complete_slot(shared, slot);
            }
        }
        self.plan_wanted = true;
    }
}

/// What is done of what a device was given.
#[derive(Clone, Copy, Default)]
struct Done {
    copied: u64,
    waves: u64,
    slots: u64,
    digests: u64,
}

/// Looks what is done and submits what can be. Whether anything was.
pub fn run(lock: &Lock) -> (bool, Locked<'_>) {
    let shared = lock.shared;
    let result = match shared.engine() {
        Some(engine) => step(lock, engine),
        // Only a loader with a device has slabs, and so this job.
        None => Ok(false),
    };
    if let Err(fault) = &result {
        fail_device(lock, fault);
    }
    let mut state = lock.lock();
    let device = &mut state.device;
    device.is_taken = false;
    device.polled_ns = (shared.os.now_ns)();
    let is_fruitless = matches!(result, Ok(false));
    device.nap_ns = if is_fruitless { NAP_MAX_NS.min(2 * device.nap_ns) } else { NAP_MIN_NS };
    (result.unwrap_or(true), state)
}

fn step(lock: &Lock, engine: &DeviceEngine) -> Result<bool, Fault> {
    let _context = engine.enter()?;
    let mut progress = fence_captured(lock, engine)?;
    progress |= poll(lock, engine)?;
    progress |= read_batches(lock, engine)?;
    progress |= send_boxes(lock, engine)?;
    // Ends: each turn takes a resident wave.
    loop {
        let submission = lock.lock().device.slabs.submit();
        let Some(submission) = submission else { return Ok(progress) };
        submit(lock, engine, &submission)?;
        progress = true;
    }
}

fn poll(lock: &Lock, engine: &DeviceEngine) -> Result<bool, Fault> {
    let shared = lock.shared;
    let (copying, busy, fenced, digesting, copies, waves) = {
        let device = &lock.lock().device;
        let (copying, busy) = (device.copying, device.slabs.busy_bits());
        let (fenced, digesting) = (device.fenced, device.digesting);
        (copying, busy, fenced, digesting, device.copy_bytes, device.wave_bytes)
    };
    let mut done = Done::default();
    for bit in bits(copying) {
        done.copied |= u64::from(engine.is_copied(bit)?) << bit;
    }
    for bit in bits(busy) {
        done.waves |= u64::from(engine.is_assembled(bit)?) << bit;
    }
    for bit in bits(fenced) {
        done.slots |= u64::from(engine.is_unfenced(bit)?) << bit;
    }
    for bit in bits(digesting) {
        done.digests |= u64::from(engine.is_digested(bit)?) << bit;
    }
    if done.copied | done.waves | done.slots | done.digests == 0 {
        return Ok(false);
    }
    for slot in bits(done.digests) {
        close_digests(lock, BatchSlot(slot), engine.digest_ns(slot));
    }
    bits(done.copied).for_each(|slab| {
        let bytes = copies[index(u64::from(slab))];
        shared.stats.input_transfer.observe(engine.copy_ns(slab), bytes, bytes);
    });
    bits(done.waves).for_each(|wave| {
        let (input, output) = waves[index(u64::from(wave))];
        shared.stats.assemble.observe(engine.assemble_ns(wave), input, output);
    });
    let state = &mut *lock.lock();
    state.device.copying &= !done.copied;
    state.device.fenced &= !done.slots;
    state.device.lacks_room = false;
    bits(done.copied).for_each(|slab| state.device.slabs.copied(slab));
    bits(done.waves).for_each(|wave| state.land(shared, wave));
    bits(done.slots).map(BatchSlot).for_each(|slot| {
        state.slots.unfence(slot);
        state.slot_freed();
    });
    Ok(true)
}

/// Hands a slab to the device; where nothing in it is to be done, it is done.
fn submit(lock: &Lock, engine: &DeviceEngine, submission: &Submission) -> Result<(), Fault> {
    let Submission { slab, resident, units, .. } = *submission;
    let layout = &lock.shared.geometry.device;
    let (tiles, output_bytes) = write_tiles(lock.shared, slab, units)?;
    if tiles > 0 {
        let submit = submit_of(submission, layout, tiles);
        engine.submit(&submit)?;
        let device = &mut lock.lock().device;
        device.copying |= 1 << slab;
        device.copy_bytes[index(u64::from(slab))] = submit.limit - submit.first;
        let lent_bytes = core::mem::take(&mut device.lent_bytes[index(u64::from(slab))]);
        device.wave_bytes[index(u64::from(resident))] =
            (layout.data_bytes - submit.first + lent_bytes, output_bytes);
        return Ok(());
    }
    let state = &mut *lock.lock();
    state.device.slabs.copied(slab);
    state.device.lacks_room = false;
    state.land(lock.shared, resident);
    Ok(())
}

/// What of a slab is copied, and where its tables are.
fn submit_of(submission: &Submission, layout: &Layout, tiles: u32) -> Submit {
    let Submission { slab, resident, first, units } = *submission;
    let units_at = layout.data_bytes;
    let tiles_at = units_at + u64::from(units) * UNIT_BYTES;
    let limit = tiles_at + (u64::from(units) + 1) * size_of::<u32>() as u64;
    Submit { slab, resident, first, limit, units_at, tiles_at, units, tiles }
}

/// Writes the first tile of each unit of a slab, and that behind the last. How many tiles there
/// are, and the bytes that they write.
fn write_tiles(shared: &Shared, slab: u32, units: u32) -> Result<(u32, u64), Fault> {
    // Only a loader with a device has slabs.
    let Some((tiles, mut first)) = shared.claim_tiles(slab, units) else { return Ok((0, 0)) };
    let (places, _) = first.bytes().as_chunks_mut();
    write_first_tiles(tiles, places).ok_or(Fault::Tiles)
}

/// The device failed: the stream ends. With no lock held, because it is logged.
pub fn fail_device(lock: &Lock, fault: &Fault) {
    let mut why = Why::new();
    let status = match fault {
        Fault::Call(..) | Fault::Silent => {
            fail!(why, Cuda, "{fault}: the stream ends; close the loader")
        }
        Fault::Kernel(_) => fail!(why, Internal, "{fault}: the stream ends; close the loader"),
        Fault::Tiles => fail!(why, Unsupported, "{fault}; close the loader"),
    };
    let failure = Failure::because(status, &why);
    let is_first = {
        let state = &mut *lock.lock();
        let is_first = !state.device.is_dead();
        state.is_halted = true;
        state.device.failure.get_or_insert_with(|| failure.clone());
        state.sticky.get_or_insert_with(|| failure.clone());
        state.wakes.all(Condition::Batch);
        state.wakes.all(Condition::Space);
        state.wakes.all(Condition::Idle);
        is_first
    };
    // A process that ends with a loader open ended it on purpose, and its log may be gone.
    if is_first && !fault.is_of_exit() {
        lock.shared.sink.log(Level::Error, 0, format_args!("{failure}"));
    }
}

/// What the device's thread does until close.
pub fn device_main(lock: &Lock) {
    let mut state = lock.lock();
    loop {
        let mut progress = false;
        if !state.work_for(lock.shared, Role::Device).is_empty() {
            take(&mut state);
            state.begin_job();
            drop(state);
            (progress, state) = run(lock);
            // A worker that ended its part of a slab meanwhile found this thread awake, and did
            // not wake it.
            progress |= state.has_for_device();
            state.end_job();
            state.wakes.work();
        }
        if progress {
            continue;
        }
        // The lock was not given up since nothing was found to do.
        if state.life == Life::Closing {
            return state.end_thread();
        }
        if state.device.is_at_work() && state.life == Life::Running {
            let nap = lock.shared.deadline(state.device.nap_ns);
            state.wait_until(Condition::Device, nap);
        } else {
            state.device.is_idle = true;
            state.wait(Condition::Device);
            state.device.is_idle = false;
        }
    }
}

/// Waits until the device has done what is on its way to batches. No job runs, and none is
/// handed out.
pub fn drain_device(lock: &Lock) {
    let Some(engine) = lock.shared.engine() else { return };
    if let Err(fault) = engine.drain(false) {
        fail_device(lock, &fault);
    }
}

/// When to look again whether it is at rest.
pub fn next_look(shared: &Shared) -> u64 {
    shared.deadline(NAP_MAX_NS)
}

/// The device's job.
pub fn take(state: &mut State) -> Job {
    state.device.is_taken = true;
    Job::Device
}
