//! Chunks that a device refused are read again, for workers: before the planner forms another wave.
//!
//! In: a wave of which nothing is left but such chunks, whose tables nobody else looks at. Out: the
//! same wave with those chunks at its front, their reads, and a new interval of staging. Their pins
//! and their batches are as they were; so what a worker says of them is what it would have said in
//! the first place.

use crate::base::indexes::WaveIndex;
use crate::read::staged_bytes;
use crate::state::lock::Lock;
use crate::state::shared::Shared;
use crate::wave::{ChunkTask, ReadOp, Way};
use core::ops::Range;

/// Begins the reads of the oldest such wave; false if it has none, or no room to stage it.
pub fn redo(lock: &Lock) -> bool {
    let shared = lock.shared;
    if shared.engine().is_none() {
        return false;
    }
    let wave = lock.lock().waves.for_redo();
    let Some(wave) = wave else { return false };
    // Counted first: while no room is free the wave stays as it is.
    let bytes = each_refused(shared, lock, wave, |_, _, _| {});
    let taken = lock.lock().waves.ring.take(bytes);
    let Some((interval, start)) = taken else { return false };
    let (mut ops, mut chunks) = (0, 0);
    each_refused(shared, lock, wave, |read, rows, at| {
        let slab_offset = start + at;
        let chunk_first = chunks;
        for row in rows {
            let task = shared.tables.chunks.read(shared.wave_row(wave, row));
            if task.way != Way::Refused {
                continue;
            }
            let place = slab_offset + (task.offset - read.offset);
            let task = ChunkTask { mates: 0, slab_offset: place, ..task.gone_to(Way::Worker) };
            shared.tables.chunks.write(shared.wave_row(wave, chunks), task);
            chunks += 1;
        }
        let read = ReadOp { slab_offset, chunk_first, chunk_count: chunks - chunk_first, ..read };
        shared.tables.ops.write(shared.wave_row(wave, ops), read);
        shared.tables.order.write(shared.wave_row(wave, ops), ops);
        ops += 1;
    });
    assert!(0 < ops && ops <= chunks);
    lock.lock().waves.read_again(wave, ops, interval);
    true
}

/// Calls `each` for the reads that bring the refused chunks of a wave: the read, the rows among
/// which its chunks are, and its offset in the staging from the first byte of all. Bytes of all.
fn each_refused(
    shared: &Shared,
    lock: &Lock,
    wave: WaveIndex,
    mut each: impl FnMut(ReadOp, Range<u32>, u64),
) -> u64 {
    let ops = lock.lock().waves.waves[wave.at()].op_count;
    let (task, mut staged) = (|row| shared.tables.chunks.read(shared.wave_row(wave, row)), 0);
    for op in 0..ops {
        let read = shared.tables.ops.read(shared.wave_row(wave, op));
        let rows = read.chunk_first..read.chunk_first + read.chunk_count;
        let refused = rows.clone().map(task).filter(|task: &ChunkTask| task.way == Way::Refused);
        let (mut first, mut limit, mut decoded_bytes) = (u64::MAX, 0, 0);
        for task in refused {
            first = first.min(task.offset);
            limit = limit.max(task.offset + task.bytes);
            decoded_bytes += task.cost();
        }
        if first < limit {
            let (offset, bytes) = (first, limit - first);
            each(ReadOp { offset, bytes, decoded_bytes, ..read }, rows, staged);
            staged += staged_bytes(bytes);
        }
    }
    staged
}
