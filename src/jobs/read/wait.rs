//! The jobs that read chunk data: into the slab, or into a worker's own scratch, where each chunk
//! is decoded as soon as it is here.
//!
//! In: reads of a wave and a lease on their file. Out: bytes in the slab, or rows of batches; or
//! the samples that fail. No lock is held while a file is opened or read.

use crate::jobs::read::hook::Begun;
use crate::jobs::read::lease::LeasedFile;
use crate::os::store::{Fault, Path};
use crate::read::{Lease, OpenFault};
use crate::state::shared::Instance;
use crate::wave::{ChunkKind, ReadOp};
use core::sync::atomic::Ordering::Relaxed;

/// Reads into the slab; with a ticket the host is to, and completes it later.
pub fn run_read(
    instance: &Instance,
    (wave, op): (u32, u32),
    read: &ReadOp,
    lease: &Lease,
    (cached_only, ticket): (bool, Option<u64>),
) {
    let start = (instance.os.now_ns)();
    let mut path = Path::new();
    let mut file = LeasedFile::open(instance, lease, read, &mut path);
    match (ticket, file.opened) {
        (Some(ticket), Ok(opened)) => {
            let begun = Begun { wave, op, ticket, lease, opened, path: file.path };
            return instance.begin_read(read, &begun);
        }
        (Some(ticket), Err(_)) => instance.give_up_read(ticket),
        (None, _) => {}
    }
    let target = instance.tables.slab.rows(read.slab_offset, read.bytes);
    // A thread that may wait tries what need not: that it need not is worth knowing, and time tells
    // it only where nobody else is at work.
    let mut result = file.read(target, read.offset, !instance.store.uses_hook());
    let is_cached = result != Err(OpenFault::Store(Fault::WouldBlock));
    if !is_cached && !cached_only {
        result = file.read(target, read.offset, false);
    }
    let result = result.and_then(|()| file.check_unchanged());
    let again = result.err().filter(|fault| file.is_for_later(*fault));
    if again.is_none() {
        let needed = read_pieces(&mut file, wave, result);
        instance.stats.reads_issued.fetch_add(1, Relaxed);
        instance.stats.io.observe((instance.os.now_ns)() - start, read.bytes, needed);
    }
    let state = &mut *instance.lock.lock();
    file.give_back(state, again);
    let entry = &mut state.waves.waves[wave as usize];
    if again.is_some() {
        entry.blocking.push(op);
    } else {
        entry.ready.push(op);
    }
    state.note_cached(is_cached && !instance.store.uses_hook());
}

/// Decides chunk by chunk after a read that failed as a whole, so that which chunks fail does not
/// depend on how reads were merged. Returns the bytes that chunks needed.
fn read_pieces(file: &mut LeasedFile<'_>, wave: u32, result: Result<(), OpenFault>) -> u64 {
    let (instance, read) = (file.instance, file.read);
    let (mut needed, mut has_pieces) = (0, false);
    for chunk in read.chunk_first..read.chunk_first + read.chunk_count {
        let row = instance.wave_row(wave, chunk);
        let task = instance.tables.chunks.read(row);
        needed += task.bytes;
        let fault = match (result, file.opened) {
            (Ok(()), _) => continue,
            (Err(fault), Err(_)) => fault,
            (Err(_), Ok(_)) => {
                let target = instance.tables.slab.rows(task.slab_offset, task.bytes);
                match file.read(target, task.offset, false) {
                    Ok(()) => {
                        has_pieces = true;
                        continue;
                    }
                    Err(fault) => fault,
                }
            }
        };
        file.fail(wave, chunk, fault);
    }
    if has_pieces && let Err(fault) = file.check_unchanged() {
        let is_whole = |chunk: &u32| {
            let row = instance.wave_row(wave, *chunk);
            instance.tables.chunks.read(row).kind != ChunkKind::Broken
        };
        let chunks = read.chunk_first..read.chunk_first + read.chunk_count;
        chunks.filter(is_whole).for_each(|chunk| file.fail(wave, chunk, fault));
    }
    needed
}
