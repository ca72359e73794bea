//! Loads of metadata: the document of an array becomes its record.

use crate::base::limits::EDGE_RUNS_MAX;
use crate::base::status::{Status, Why};
use crate::jobs::groups::{GroupPlace, refuse_group};
use crate::jobs::read::lease::is_short_of_descriptors;
use crate::os::FileStat;
use crate::os::store::{Fault, Path};
use crate::read::{Document, OpenFault, read_document};
use crate::source::zarr::array_from_document;
use crate::state::scratch::Hold;
use crate::state::shared::Instance;
use crate::state::worker::Worker;
use core::cell::Cell;
use core::sync::atomic::Ordering::Relaxed;

pub fn run_load(instance: &Instance, worker: &mut Worker, array: u32, large: Option<Hold>) {
    let start = (instance.os.now_ns)();
    let uri = instance.array_uri(array);
    let mut why = Why::new();
    let buffer = match large {
        Some(hold) => instance.common_scratch.part(hold.offset, hold.bytes),
        None => worker.buffer,
    };
    let buffer = buffer.rows(0, buffer.bytes());
    let is_later = Cell::new(false);
    let mut open = |path: &Path| {
        let opened = open_making_room(instance, path);
        is_later.set(opened.is_none());
        opened.unwrap_or(Err(Fault::WouldBlock))
    };
    let mut bytes = 0;
    // The runs of this entry's grid: ours until the load ends.
    let edge_first = array as usize * EDGE_RUNS_MAX;
    let read = read_document(&instance.store, &mut open, uri, buffer, &mut why);
    instance.stats.files_opened.fetch_add(1, Relaxed);
    let loaded = match read {
        Ok(Some(Document { kind, bytes: document })) => {
            bytes = document.len() as u64;
            let document_bytes = document.len();
            let table = instance.edges.rows_mut(edge_first, EDGE_RUNS_MAX);
            match array_from_document(kind, document, uri, table, &mut why) {
                Err(Status::NotFound) => {
                    let place = GroupPlace { store: &instance.store, uri, kind, document_bytes };
                    let refused =
                        refuse_group(&place, &mut open, buffer, large.is_some(), &mut why);
                    refused.map(Err)
                }
                loaded => Some(loaded),
            }
        }
        Ok(None) => None,
        Err(_) if is_later.get() => {
            let state = &mut *instance.lock.lock();
            large.into_iter().for_each(|hold| state.pool.give_back(hold));
            state.arrays.requeue(array, large.is_some());
            state.loads_wait_since = Some(state.files.give_backs());
            return;
        }
        Err(status) => Some(Err(status)),
    };
    let Some(loaded) = loaded else {
        let state = &mut *instance.lock.lock();
        large.into_iter().for_each(|hold| state.pool.give_back(hold));
        state.arrays.requeue_large(array);
        return;
    };
    instance.stats.meta.observe((instance.os.now_ns)() - start, bytes, bytes);
    instance.stats.array_meta_misses.fetch_add(1, Relaxed);
    let result = loaded.map(|mut record| {
        record.bind_edges(instance.edges.rows(edge_first, EDGE_RUNS_MAX));
        record.give_axis();
        instance.records.write(array as usize, record);
    });
    let state = &mut *instance.lock.lock();
    large.into_iter().for_each(|hold| state.pool.give_back(hold));
    state.arrays.finish(array, result, &why);
    state.plan_wanted = true;
}

/// Opens a file that the table of files does not know; idle descriptors of the table make room
/// where the process has none left. None where only descriptors in use are in the way.
pub fn open_making_room(
    instance: &Instance,
    path: &Path,
) -> Option<Result<(i32, FileStat), Fault>> {
    // Ends: every turn closes a descriptor of ours, or returns.
    loop {
        let opened = instance.store.open(path);
        if !opened.is_err_and(|fault| is_short_of_descriptors(OpenFault::Store(fault))) {
            return Some(opened);
        }
        let files = &mut instance.lock.lock().files;
        match files.drain() {
            Some(idle) => instance.store.close_data(idle),
            None if files.leases() > 0 => return None,
            None => return Some(opened),
        }
    }
}
