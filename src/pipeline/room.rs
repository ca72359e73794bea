//! Room on the way to a device: what jobs need of a slab, and whether there is as much.
//!
//! In: chunk tasks. Out: parts of slabs, taken before a job is handed out, because a job never
//! waits. On the host nothing is needed, and everything is there.

use crate::assemble::units::{chunk_records_max, outside_records_max};
use crate::cuda::HAS_DEVICES;
use crate::device::{Need, Part};
use crate::pipeline::Instance;
use crate::pipeline::jobs::RUN_BYTES;
use crate::pipeline::scratch::pool_need;
use crate::pipeline::state::State;
use crate::wave::{ChunkKind, ChunkTask, ReadOp};

impl State {
    /// Takes room on the way to a device; None on the host. Err until there is room.
    pub fn reserve(&mut self, instance: &Instance, need: Need) -> Result<Option<Part>, ()> {
        if instance.engine().is_none() {
            return Ok(None);
        }
        if !self.has_room(instance, need) {
            return Err(());
        }
        self.device.slabs.reserve(need).map(Some).ok_or(())
    }

    /// A job is done with its part of a slab.
    pub fn end_part(&mut self, part: Option<&Part>) {
        if let Some(part) = part.filter(|_| HAS_DEVICES) {
            self.device.slabs.finish(part);
        }
    }

    /// Whether there is room for it on the way to a device; if not, it is told when there is.
    pub fn has_room(&mut self, instance: &Instance, need: Need) -> bool {
        let has_room = instance.engine().is_none() || self.device.slabs.has_room(need);
        self.device.lacks_room |= !has_room;
        has_room
    }

    /// Chunks from `first`, which is `task` and needs `need` of a slab, that one worker takes:
    /// those of the same batch and array, up to RUN_BYTES. How many, and what they need of a slab.
    pub fn run_length(
        &mut self,
        instance: &Instance,
        wave: u32,
        (task, mut need): (&ChunkTask, Need),
        first: u32,
        most: u32,
    ) -> (u32, Need) {
        let mut count = 1;
        let mut bytes = task.cost();
        while count < most {
            let next = instance.tables.chunks.read(instance.wave_row(wave, first + count));
            bytes += next.cost();
            let is_same = (next.slot, next.array, next.kind) == (task.slot, task.array, task.kind);
            let more = need.and(self.task_need(instance, &next));
            let is_large = bytes > RUN_BYTES || pool_need(instance, &next) > 0;
            let is_large = is_large || !fits_slab(instance, more);
            if !is_same || is_large || !self.has_room(instance, more) {
                break;
            }
            need = more;
            count += 1;
        }
        (count, need)
    }

    /// What a task needs of a slab.
    pub fn task_need(&self, instance: &Instance, task: &ChunkTask) -> Need {
        if instance.engine().is_none() {
            return Need::default();
        }
        let bytes = match task.kind {
            ChunkKind::Data | ChunkKind::Kept => task.need.span.bytes(),
            _ => 0,
        };
        let units = match task.kind {
            ChunkKind::Pad => outside_records_max(instance.array_record(task.array).axes() as u64),
            ChunkKind::Broken => 0,
            _ => chunk_records_max(),
        };
        Need::of(bytes, (u64::from(task.pair_count) * units) as u32)
    }

    /// What the chunks of a read need of a slab.
    pub fn read_need(&self, instance: &Instance, wave: u32, read: &ReadOp) -> Need {
        let chunks = read.chunk_first..read.chunk_first + read.chunk_count;
        if instance.engine().is_none() {
            return Need::default();
        }
        chunks.fold(Need::default(), |need, chunk| {
            let task = instance.tables.chunks.read(instance.wave_row(wave, chunk));
            need.and(self.task_need(instance, &task))
        })
    }
}

/// Whether an empty slab has room for it.
pub fn fits_slab(instance: &Instance, need: Need) -> bool {
    instance.engine().is_none() || need.fits(&instance.geometry.device)
}
