//! Fed boxes: parts of the caller's memory, and values, on their way to a field.
//!
//! In: tasks of one box each. Out: the memory as chunks of an array.

use crate::base::limits::RANK_MAX;
use crate::records::{ArrayRecord, ChunkBytes, chunk_origin};
use crate::state::shared::Shared;
use crate::wave::{ChunkKind, ChunkTask};

/// The part of what is fed that a task has, as a chunk of an array.
pub struct FedChunk {
    pub record: ArrayRecord,
    /// Its first element.
    pub origin: [u64; RANK_MAX],
    /// Its bytes; none if the task fills places outside of the array.
    pub chunk: ChunkBytes<'static>,
}

impl FedChunk {
    /// The part of box `number` that a task has.
    pub fn of(shared: &Shared, task: &ChunkTask, number: u32) -> FedChunk {
        let fed = shared.fed(task.slot, number);
        let record = shared.fed_record(fed);
        let (mut origin, mut chunk) = ([0; RANK_MAX], ChunkBytes { bytes: &[], first: 0 });
        if task.kind != ChunkKind::Pad {
            origin = chunk_origin(&record, task.file, task.chunk);
            let distances = fed.strides.iter().zip(&origin[..record.axes()]);
            let first = distances.map(|(stride, at)| stride * at).sum::<u64>();
            let span = task.need.span;
            chunk.bytes = shared.fed_bytes(fed, first + span.first, span.bytes());
            chunk.first = span.first;
        }
        FedChunk { record, origin, chunk }
    }
}
