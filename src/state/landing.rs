//! Chunks that are done with: by workers, then, of those that a device decodes, by that.
//!
//! In: tasks of a wave whose job ended, verdicts of a device. Out: batches that miss fewer chunks,
//! arrays that fewer tasks pin, waves that are free, or that are left with what is read again.
//!
//! ```text
//!  a worker's job ends ─▶ Worker, Device ─▶ done, or with its slab
//!                     ├─▶ Late ─ its resident wave is done ─┬▶ done
//!                     └─▶ Refused ◀─────────────────────────┘ refused
//!                             └─ nothing else of the wave is left ─▶ jobs::plan::redo
//! ```

use crate::base::indexes::{ArraySlot, WaveIndex};
use crate::cuda::HAS_DEVICES;
use crate::device::{ByWorker, SlabPart};
use crate::state::shared::Shared;
use crate::state::{KeptFailure, PLAN_EVERY, State};
use crate::wave::{ChunkKind, ChunkTask, Way};
use core::sync::atomic::Ordering::Relaxed;

impl State {
    /// `count` chunks of a wave from `first` on are done with; they are of one array. On the way to
    /// a device, their batches have them once the slab has arrived that they are a part of.
    pub fn finish_chunks(
        &mut self,
        shared: &Shared,
        wave: WaveIndex,
        (first, count): (u32, u32),
        part: Option<SlabPart>,
    ) {
        let tables = &shared.tables;
        let task = |chunk: u32| tables.chunks.read(shared.wave_row(wave, chunk));
        shared.stats.chunks_dispatched.fetch_add(count as u64, Relaxed);
        for chunk in first..first + count {
            self.release_kept(shared, &task(chunk));
        }
        if self.resampling.has_boxes() {
            (first..first + count).for_each(|chunk| self.end_shares(shared, wave, &task(chunk)));
        }
        self.waves.sub_unworked(wave, count);
        let (mut at, mut done) = (first, 0);
        while at < first + count {
            let head = task(at);
            match (head.way, part) {
                (Way::Late { .. }, Some(part)) => {
                    self.device.slabs.add_late(part.slab, shared.wave_row(wave, at) as u32);
                    at += 1;
                    continue;
                }
                (Way::Refused, _) if HAS_DEVICES => {
                    let is_for_redo = self.waves.refuse(wave);
                    self.want_plan(is_for_redo);
                    at += 1;
                    continue;
                }
                _ => {}
            }
            let begin = at;
            while at < first + count && (task(at).slot, task(at).way) == (head.slot, head.way) {
                at += 1;
            }
            done += at - begin;
            if head.array != ArraySlot::NONE {
                self.unpin_array(head.array, at - begin);
            }
            if let Some(part) = part {
                self.device.slabs.add_chunks(part.slab, head.slot, (at - begin) as u64);
            } else if self.slots.sub_remaining(head.slot, (at - begin) as u64) {
                self.complete_slot(shared, head.slot);
            }
        }
        self.sub_remaining(shared, wave, done);
    }

    /// Chunks of a wave are done with.
    fn sub_remaining(&mut self, shared: &Shared, wave: WaveIndex, count: u32) {
        let left = self.waves.waves[wave.at()].remaining - count;
        let is_due = left == 0 || left / PLAN_EVERY < (left + count) / PLAN_EVERY;
        self.want_plan_after(self.waves.lane(wave), is_due);
        if self.waves.sub_remaining(wave, count) {
            shared.stats.waves_emitted.fetch_add(1, Relaxed);
        } else if self.waves.waves[wave.at()].is_for_redo() {
            self.want_plan(true);
        }
    }

    /// A late chunk, which lies in a row of the tables of waves, was brought by a device, or was
    /// not and is read again.
    pub fn land_late(&mut self, shared: &Shared, row: u32, is_decoded: bool) {
        let task = shared.tables.chunks.read(row as usize);
        debug_assert!(matches!(task.way, Way::Late { .. }));
        let (wave, _) = shared.wave_and_position(row);
        // One that failed meanwhile was told of: what the device says of it does not matter.
        if !is_decoded && task.kind == ChunkKind::Data {
            shared.refuse_chunk(row as usize, ByWorker::Refused);
            let is_for_redo = self.waves.refuse(wave);
            self.want_plan(is_for_redo);
            return;
        }
        let codec = shared.array_record(task.array).codec_place();
        shared.stats.chunks_decoded_on_device[codec].fetch_add(1, Relaxed);
        self.unpin_array(task.array, 1);
        if self.slots.sub_remaining(task.slot, 1) {
            self.complete_slot(shared, task.slot);
        }
        self.sub_remaining(shared, wave, 1);
    }

    /// A task is done with its place in the cache. Chunks that waited for what it decoded are
    /// ready.
    fn release_kept(&mut self, shared: &Shared, task: &ChunkTask) {
        let Some(kept) = task.kept else { return };
        if task.kind == ChunkKind::Data {
            self.chunks.set_ready(kept.slot);
            while let Some(row) = self.chunks.take_waiter(kept.slot) {
                let (wave, op) = shared.wave_and_position(row);
                self.set_ready(shared, wave, op);
            }
        }
        self.chunks.unpin(kept.slot);
        if self.chunks.is_free(kept.slot) {
            let is_told = |failure: &KeptFailure| failure.slot == kept.slot;
            while let Some(position) = self.kept_failures.iter().position(is_told) {
                self.kept_failures.remove(position);
            }
        }
    }
}
