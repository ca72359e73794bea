//! Room on the way to a device: what jobs need of a slab, and whether there is as much.
//!
//! In: chunk tasks. Out: parts of slabs, taken before a job is handed out, because a job never
//! waits. On the host nothing is needed, and everything is there.

use crate::assemble::units::{chunk_records_max, outside_records_max};
use crate::device::{Need, Part};
use crate::pipeline::Instance;
use crate::pipeline::state::State;
use crate::wave::{ChunkKind, ChunkTask, ReadOp};

impl State {
    /// Takes room on the way to a device; None on the host. Err until there is room.
    pub fn reserve(&mut self, instance: &Instance, need: Need) -> Result<Option<Part>, ()> {
        if instance.engine.is_none() {
            return Ok(None);
        }
        if !self.has_room(instance, need) {
            return Err(());
        }
        self.device.slabs.reserve(need).map(Some).ok_or(())
    }

    /// Whether there is room for it on the way to a device; if not, it is told when there is.
    pub fn has_room(&mut self, instance: &Instance, need: Need) -> bool {
        let has_room = instance.engine.is_none() || self.device.slabs.has_room(need);
        self.device.lacks_room |= !has_room;
        has_room
    }

    /// What a task needs of a slab.
    pub fn task_need(&self, instance: &Instance, task: &ChunkTask) -> Need {
        if instance.engine.is_none() {
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
        if instance.engine.is_none() {
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
    instance.engine.is_none() || need.fits(&instance.geometry.device)
}
