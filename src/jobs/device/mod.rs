//! The jobs of a device: submit slabs that are full, look what is done, and free what was waited
//! for.
//!
//! In: slabs whose writers are done, boxes whose memory may be complete (`lend`), batches that were
//! given back. Out: chunks that are in their batches, slabs and batch slots that are free. No
//! driver call waits for the device: completion is polled, by a thread of ours that naps in
//! between, or by the host's threads as they come by.
//!
//! One thread at a time has this job (`is_taken`), so submissions keep their order.

mod crop;
mod encoded;
mod lend;
pub mod packed;
pub mod sink;

use crate::base::indexes::BatchSlot;
use crate::base::math::index;
use crate::base::stats::Stage;
use crate::batch::slots::SlotState;
use crate::cuda::{DeviceEngine, Fault, RESIDENT_WAVES, Submit};
use crate::device::{Passes, Stream, StreamKind, StreamStatus, Submission};
use crate::finish::kernels;
use crate::jobs::device::lend::send_boxes;
use crate::jobs::failures::fail_device;
use crate::jobs::release::fence_captured;
use crate::os::profiler::At;
use crate::state::device::{NAP_MAX_NS, NAP_MIN_NS, WavePhase, bits};
use crate::state::job::{Job, Role};
use crate::state::lock::{Condition, Lock, Locked};
use crate::state::shared::Shared;
use crate::state::slab_writer::write_first_tiles;
use crate::state::{Life, State};
use crate::wave::Way;
use core::ops::Range;

impl State {
    /// The chunks that a resident wave brought are in their batches, but for those that the device
    /// refused.
    fn land(&mut self, shared: &Shared, engine: &DeviceEngine, resident: u32) {
        self.device.slabs.done(resident);
        self.device.go(resident, WavePhase::Idle);
        while let Some(row) = self.device.slabs.take_late(resident) {
            let task = shared.tables.chunks.read(row as usize);
            let Way::Late { first, count } = task.way else { unreachable!("it is in the list") };
            let mut streams = first..first + count;
            let is_decoded = streams
                .all(|stream| engine.verdict(resident, stream) == StreamStatus::Decoded as u32);
            self.land_late(shared, row, is_decoded);
        }
        for slot in self.slots.each() {
            let chunks = self.device.slabs.take_chunks(resident, slot);
            if chunks == 0 {
                continue;
            }
            if self.slots.state(slot) == SlotState::Finishing {
                self.end_piece(shared, slot);
            } else if self.slots.sub_remaining(slot, chunks) {
                self.complete_slot(shared, slot);
            }
        }
        self.want_plan(true);
    }
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
    progress |= kernels::queue(lock, engine)?;
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
    let mut progress = false;
    for resident in 0..RESIDENT_WAVES {
        let (phase, submit) = lock.lock().device.waves[resident];
        progress |= match phase {
            WavePhase::Idle => false,
            WavePhase::Copying => poll_copy(lock, engine, &submit)?,
            WavePhase::Decoding => poll_decode(lock, engine, &submit)?,
            WavePhase::Assembling => poll_assemble(lock, engine, &submit)?,
        };
    }
    progress |= kernels::poll(lock, engine)?;
    progress |= poll_loans(lock, engine)?;
    Ok(progress | poll_slots(lock, engine)?)
}

/// The slab is free when it was copied, and the kernels follow.
fn poll_copy(lock: &Lock, engine: &DeviceEngine, submit: &Submit) -> Result<bool, Fault> {
    if !engine.is_copied(submit.slab)? {
        return Ok(false);
    }
    let bytes = submit.limit - submit.first;
    let (ns, at) = (engine.copy_ns(submit.slab), At::NOWHERE.of_wave(submit.resident));
    lock.shared.observe_device(Stage::InputTransfer, ns, (bytes, bytes), at);
    let number = lock.lock().device.decodings + 1;
    // The slab is another wave's once it is free.
    let has_gap = submit.streams > 0 && number > 1;
    let unstaged_ns = if has_gap { engine.unstaged_ns(number - 1, submit.slab) } else { 0 };
    {
        let device = &mut lock.lock().device;
        device.slabs.copied(submit.slab);
        device.lacks_room = false;
        if submit.streams > 0 {
            device.decodings = number;
            let decoding = &mut device.decoding[submit.resident as usize];
            (decoding.number, decoding.unstaged_ns) = (number, unstaged_ns);
        }
    }
    match submit.streams {
        0 => launch(lock, engine, submit),
        _ => {
            engine.decode(submit, number)?;
            set_phase(lock, submit, WavePhase::Decoding);
            Ok(true)
        }
    }
}

fn poll_decode(lock: &Lock, engine: &DeviceEngine, submit: &Submit) -> Result<bool, Fault> {
    let decoding = lock.lock().device.decoding[submit.resident as usize];
    if !engine.is_decoded(decoding.number)? {
        return Ok(false);
    }
    let (ns, at) = (engine.decode_ns(decoding.number), At::NOWHERE.of_wave(submit.resident));
    lock.shared.observe_device(Stage::DeviceDecode, ns, decoding.bytes, at);
    if decoding.number > 1 {
        let whole_ns = engine.decode_gap_ns(decoding.number);
        lock.shared.observe_decode_gap(whole_ns.saturating_sub(decoding.unstaged_ns), ns, at);
    }
    launch(lock, engine, submit)
}

/// Hands the units of a resident wave to the device; without any it is done.
fn launch(lock: &Lock, engine: &DeviceEngine, submit: &Submit) -> Result<bool, Fault> {
    if submit.tiles > 0 {
        engine.assemble(submit)?;
        set_phase(lock, submit, WavePhase::Assembling);
    } else {
        lock.lock().land(lock.shared, engine, submit.resident);
    }
    Ok(true)
}

fn set_phase(lock: &Lock, submit: &Submit, phase: WavePhase) {
    let device = &mut lock.lock().device;
    device.go(submit.resident, phase);
    device.waves[submit.resident as usize].1 = *submit;
}

fn poll_assemble(lock: &Lock, engine: &DeviceEngine, submit: &Submit) -> Result<bool, Fault> {
    if !engine.is_assembled(submit.resident)? {
        return Ok(false);
    }
    let ns = engine.assemble_ns(submit.resident);
    let state = &mut *lock.lock();
    let (input, output) = state.device.wave_bytes[submit.resident as usize];
    let at = At::NOWHERE.of_wave(submit.resident);
    lock.shared.observe_device(Stage::Assemble, ns, (input, output), at);
    state.land(lock.shared, engine, submit.resident);
    Ok(true)
}

/// Looks at the slots that wait for a consumer.
fn poll_slots(lock: &Lock, engine: &DeviceEngine) -> Result<bool, Fault> {
    let fenced = lock.lock().device.fenced;
    let mut slots = 0;
    for bit in bits(fenced) {
        slots |= u64::from(engine.is_unfenced(bit)?) << bit;
    }
    if slots == 0 {
        return Ok(false);
    }
    let state = &mut *lock.lock();
    state.device.fenced &= !slots;
    bits(slots).map(BatchSlot).for_each(|slot| {
        state.slots.unfence(slot);
        state.slot_freed(lock.shared);
    });
    Ok(true)
}

/// Looks at the loans whose memory is not there yet.
fn poll_loans(lock: &Lock, engine: &DeviceEngine) -> Result<bool, Fault> {
    let fenced = lock.lock().device.loans;
    let mut loans = 0;
    for bit in bits(fenced) {
        loans |= u64::from(engine.is_loan_over(bit)?) << bit;
    }
    let state = &mut *lock.lock();
    state.device.loans &= !loans;
    bits(loans).for_each(|loan| state.slots.open_loan(loan));
    if loans != 0 {
        state.place_came(lock.shared);
    }
    Ok(loans != 0)
}

/// Hands a slab to the device; if nothing in it is to be done, it is done.
fn submit(lock: &Lock, engine: &DeviceEngine, submission: &Submission) -> Result<(), Fault> {
    let Submission { slab, resident, first, units } = *submission;
    let layout = &lock.shared.geometry.device;
    let (tiles, output_bytes) = write_tiles(lock.shared, slab, units)?;
    let found = write_streams(lock, slab, resident, units);
    let (streams, sizes) = (found.count, found.sizes);
    if tiles == 0 && streams == 0 {
        let state = &mut *lock.lock();
        state.device.slabs.copied(slab);
        state.device.lacks_room = false;
        state.land(lock.shared, engine, resident);
        return Ok(());
    }
    let (tiles_at, streams_at) = (layout.tiles_at(units), layout.streams_at(units));
    let limit = streams_at + u64::from(found.records) * Stream::BYTES;
    let units_at = layout.data_bytes;
    let submit = Submit {
        slab,
        resident,
        first,
        limit,
        units_at,
        tiles_at,
        units,
        tiles,
        streams_at,
        streams,
        passes: found.passes.all,
    };
    engine.copy(&submit)?;
    set_phase(lock, &submit, WavePhase::Copying);
    let device = &mut lock.lock().device;
    let lent_bytes = core::mem::take(&mut device.lent_bytes[index(u64::from(slab))]);
    let bytes = layout.data_bytes - first - sizes.0 + sizes.1 + lent_bytes;
    device.wave_bytes[index(u64::from(resident))] = (bytes, output_bytes);
    device.decoding[index(u64::from(resident))].bytes = sizes;
    Ok(())
}

/// The streams of a slab that the device decodes.
#[derive(Default)]
struct Streams {
    count: u32,
    passes: Passes,
    /// Their records, with those of blocks.
    records: u32,
    /// Bytes, encoded and decoded.
    sizes: (u64, u64),
}

/// The rows of streams and blocks of each late chunk that a resident wave was given, with its row
/// in the tables of waves.
fn each_late(lock: &Lock, resident: u32, mut each: impl FnMut(u32, Range<u32>)) {
    let mut at = lock.lock().device.slabs.first_late(resident);
    while let Some(row) = at {
        if let Way::Late { first, count } = lock.shared.tables.chunks.read(row as usize).way {
            each(row, first..first + count);
        }
        at = lock.lock().device.slabs.next_late(row);
    }
}

/// Writes the streams of the late chunks of a slab, which was given to a resident wave, side by
/// side after its units, and the blocks of their frames after them. A frame that no pass fits is
/// told to be of no kind, and so refused.
fn write_streams(lock: &Lock, slab: u32, resident: u32, units: u32) -> Streams {
    let (shared, mut found) = (lock.shared, Streams::default());
    let Some(mut place) = shared.claim_streams(slab, units) else { return found };
    let read = |number: u32| shared.device_streams.read(shared.stream_row(slab, number));
    let blocks_of = |stream: &Stream| match stream.kind == StreamKind::Zstd as u32 {
        true => stream.source_bytes,
        false => 0,
    };
    let mut streams = 0;
    each_late(lock, resident, |_, mut rows| {
        // Ends: each turn takes a row.
        while let Some(number) = rows.next() {
            streams += 1;
            rows.start += blocks_of(&read(number));
        }
    });
    let mut write = |number: u32, stream: &Stream| {
        let bytes = place.part(u64::from(number) * Stream::BYTES, Stream::BYTES);
        bytes.copy_from_slice(&stream.to_bytes());
    };
    let arena = shared.geometry.device.scratch_bytes / Stream::SCRATCH_UNIT;
    found.records = streams;
    each_late(lock, resident, |row, mut rows| {
        let first = found.count;
        // Ends: likewise.
        while let Some(number) = rows.next() {
            let mut stream = read(number);
            let (blocks, bytes) = (blocks_of(&stream), u64::from(stream.source_bytes));
            found.sizes.1 += u64::from(stream.target_bytes);
            let blocks = rows.start..rows.start + blocks;
            rows.start = blocks.end;
            if blocks.is_empty() {
                found.sizes.0 += bytes;
            } else if let Some((at, mut scratch)) =
                found.passes.take(found.count, &mut stream, arena)
            {
                for (number, at) in blocks.zip(streams + at..) {
                    let mut block = read(number);
                    let units = core::mem::replace(&mut block.scratch, scratch);
                    scratch += units;
                    found.sizes.0 += u64::from(block.source_bytes);
                    found.records = at + 1;
                    write(at, &block);
                }
            } else {
                stream.kind = StreamKind::NONE;
            }
            write(found.count, &stream);
            found.count += 1;
        }
        let task = shared.tables.chunks.read(row as usize);
        let way = Way::Late { first, count: found.count - first };
        shared.tables.chunks.write(row as usize, task.gone_to(way));
    });
    found
}

/// Writes the first tile of each unit of a slab, and the one after the last. Returns the number of
/// tiles, and the bytes that they write.
fn write_tiles(shared: &Shared, slab: u32, units: u32) -> Result<(u32, u64), Fault> {
    // Only a loader with a device has slabs.
    let Some((tiles, mut first)) = shared.claim_tiles(slab, units) else { return Ok((0, 0)) };
    let (places, _) = first.bytes().as_chunks_mut();
    write_first_tiles(tiles, places).ok_or(Fault::Tiles)
}

/// The loop of the device's thread until close.
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

/// Whether that has run. Nothing is waited for on a device that fails.
pub fn has_drained(lock: &Lock) -> bool {
    lock.shared.engine().is_none_or(|engine| engine.has_drained().unwrap_or(true))
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
