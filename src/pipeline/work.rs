//! What a worker does with a job. No lock is held while files are read, chunks decoded or rows
//! written; results are handed in under the lock, briefly.

use crate::assemble::cast::Cast;
use crate::assemble::{Target, fill_all, fill_outside, scatter, scatter_fill};
use crate::base::arena::Region;
use crate::base::math::{coordinates_from_linear, index};
use crate::base::text::List;
use crate::decode::decode_chunk;
use crate::decode::zstd::Decoder;
use crate::fail;
use crate::limits::{METADATA_BYTES_MAX, RANK_MAX};
use crate::meta::{array_from_zarr3, write_file_key};
use crate::os::store::{Fault, HOOK_FD, Path};
use crate::os::{Errno, FileStat};
use crate::pipeline::state::Job;
use crate::pipeline::{Instance, chunk_failure};
use crate::read::{Lease, OpenFault, Outcome, PAGE_BYTES, Question, Tail, locate, open_leased};
use crate::records::ArrayRecord;
use crate::status::{Failure, Status, Why};
use crate::wave::{ChunkKind, ChunkTask, ReadOp};
use core::sync::atomic::Ordering::Relaxed;

/// What a worker works with; one thread at a time has it.
pub struct Worker {
    /// None for workers that only read.
    pub decoder: Option<Decoder>,
    /// Scratch for chunks of ordinary size.
    pub scratch: Region,
    /// Buffer for metadata and index pieces.
    pub buffer: Region,
}

/// Does the job and hands the result in.
pub fn run(instance: &Instance, worker: &mut Worker, job: Job) {
    instance.stats.worker_steps.fetch_add(1, Relaxed);
    match job {
        Job::Plan => run_plan(instance),
        Job::LoadArray { array, large } => run_load(instance, worker, array, large),
        Job::Locate { request, question, lease } => {
            run_locate(instance, worker, request, &question, &lease);
        }
        Job::Read { wave, op, read, lease, cached_only } => {
            run_read(instance, (wave, op), &read, &lease, cached_only);
        }
        Job::Assemble { wave, first, count, large } => {
            run_assemble(instance, worker, wave, first, count, large);
        }
        Job::Patch { slot } => run_patch(instance, slot),
    }
}

fn run_plan(instance: &Instance) {
    let start = (instance.os.now_ns)();
    let progress = instance.planner.lock().run(instance);
    instance.stats.plan.observe((instance.os.now_ns)() - start, 0, 0);
    let state = &mut *instance.lock.lock();
    state.planning = false;
    state.plan_wanted |= progress;
}

/// Path of the metadata document of an array.
pub fn metadata_path(uri: &str) -> Path {
    let mut path = Path::new();
    path.push_str(uri);
    path.push_str(if uri.ends_with('/') { "zarr.json" } else { "/zarr.json" });
    path
}

fn file_path(instance: &Instance, array: u32, record: &ArrayRecord, file: u64) -> Path {
    let mut coordinates = [0; RANK_MAX];
    let axes = record.axes();
    coordinates_from_linear(file, &record.file_counts()[..axes], &mut coordinates[..axes]);
    let mut path = Path::new();
    let uri = instance.uris.read(array as usize);
    path.push_str(uri.as_str());
    if !uri.as_str().ends_with('/') {
        path.push_str("/");
    }
    write_file_key(record, &coordinates[..axes], &mut path);
    path
}

fn run_load(instance: &Instance, worker: &mut Worker, array: u32, large: bool) {
    let start = (instance.os.now_ns)();
    let uri = instance.uris.read(array as usize);
    let mut why = Why::new();
    let buffer = if large { instance.metadata_buffer } else { worker.buffer };
    let buffer = buffer.rows(0, buffer.bytes());
    let result = load_document(instance, uri.as_str(), buffer, &mut why);
    let mut bytes = 0;
    let loaded = match result {
        Ok(Some(document)) => {
            bytes = document.len() as u64;
            array_from_zarr3(document, uri.as_str(), &mut why)
        }
        Ok(None) => {
            instance.lock.lock().arrays.requeue_large(array);
            return;
        }
        Err(status) => Err(status),
    };
    instance.stats.meta.observe((instance.os.now_ns)() - start, bytes, bytes);
    let result = loaded.map(|record| instance.records.write(array as usize, record));
    let state = &mut *instance.lock.lock();
    state.arrays.finish(array, large, result, &why);
    state.plan_wanted = true;
}

/// Reads the metadata document of an array; None where it needs a larger buffer.
fn load_document<'a>(
    instance: &Instance,
    uri: &str,
    buffer: &'a mut [u8],
    why: &mut Why,
) -> Result<Option<&'a [u8]>, Status> {
    let path = metadata_path(uri);
    let (fd, stat) = instance.store.open(&path).map_err(|fault| match fault {
        Fault::Absent => {
            fail!(why, NotFound, "{}: no such file: is it a zarr v3 array?", Tail(path.as_str()))
        }
        fault => fail!(why, Io, "{}: {fault}", Tail(path.as_str())),
    })?;
    instance.stats.files_opened.fetch_add(1, Relaxed);
    let result = if stat.bytes > METADATA_BYTES_MAX as u64 {
        Err(fail!(
            why,
            Unsupported,
            "{}: {} bytes of metadata, at most {METADATA_BYTES_MAX} are read",
            Tail(path.as_str()),
            stat.bytes
        ))
    } else if stat.bytes > buffer.len() as u64 {
        Ok(None)
    } else {
        let document = &mut buffer[..index(stat.bytes)];
        match instance.store.read_exact(fd, &path, document, 0, false) {
            Ok(()) => Ok(Some(&*document)),
            Err(fault) => Err(fail!(why, Io, "{}: {fault}", Tail(path.as_str()))),
        }
    };
    instance.store.close(fd);
    result
}

fn run_locate(
    instance: &Instance,
    worker: &mut Worker,
    request: u32,
    question: &Question,
    lease: &Lease,
) {
    let start = (instance.os.now_ns)();
    let record = instance.records.read(question.array as usize);
    let path = file_path(instance, question.array, &record, question.file);
    let mut why = Why::new();
    let opened = open_counted(instance, &path, lease);
    if is_short_of_descriptors(&opened) {
        let state = &mut *instance.lock.lock();
        if state.files.lower_open_max() {
            state.files.give_back(lease, None, None);
            state.requests.requeue(request);
            return;
        }
    }
    let mut page = [0; PAGE_BYTES];
    let mut checks = None;
    let outcome = match opened {
        Ok((fd, stat)) if record.shard_levels > 0 => {
            let buffer = worker.buffer.rows(0, worker.buffer.bytes());
            let file = (fd, &path, stat);
            match locate(
                &instance.store,
                &record,
                file,
                lease.checks,
                question.page,
                buffer,
                &mut why,
            ) {
                Ok(located) => {
                    page = located.page;
                    checks = located.checks;
                    Outcome::Found(stat)
                }
                Err(status) => Outcome::Failed(status),
            }
        }
        Ok((_, stat)) => Outcome::Found(stat),
        Err(OpenFault::Store(Fault::Absent)) => check_array(instance, question, &mut why),
        Err(fault) => Outcome::Failed(open_failure(&path, fault, &mut why)),
    };
    instance.stats.meta.observe((instance.os.now_ns)() - start, 0, 0);
    let misses = if record.shard_levels > 0 {
        &instance.stats.shard_index_misses
    } else {
        &instance.stats.chunk_layout_misses
    };
    misses.fetch_add(1, Relaxed);
    finish_locate(instance, (request, question, lease), opened, (outcome, &page, checks, &why));
}

type LocateResult<'a> = (Outcome, &'a [u8; PAGE_BYTES], Option<crate::read::IndexChecks>, &'a Why);

fn finish_locate(
    instance: &Instance,
    (request, question, lease): (u32, &Question, &Lease),
    opened: Result<(i32, FileStat), OpenFault>,
    (outcome, page, checks, why): LocateResult<'_>,
) {
    let state = &mut *instance.lock.lock();
    let slot = lease.slot;
    if let Some(checks) = checks {
        state.files.set_checks(slot, checks);
    }
    if outcome == Outcome::Absent {
        state.files.set_absent(slot, question.batch_id);
        state.arrays.set_checked(question.array, question.batch_id);
    }
    let fd = opened.ok().map(|(fd, _)| fd);
    state.files.give_back(lease, fd, opened.ok().map(|(_, stat)| stat));
    if opened == Err(OpenFault::Changed) {
        close_forgotten(instance, state.files.forget(slot));
    }
    if let (Outcome::Found(_), Some((_, epoch))) = (outcome, state.files.known(slot)) {
        state.pages.insert(epoch, question.page, page);
    }
    state.requests.finish(request, outcome, page, why);
    state.plan_wanted = true;
}

fn close_forgotten(instance: &Instance, fd: Option<i32>) {
    if let Some(fd) = fd {
        instance.store.close(fd);
    }
}

/// Uses a lease, counts opens, and tries once more where a network file system lost the file.
fn open_counted(
    instance: &Instance,
    path: &Path,
    lease: &Lease,
) -> Result<(i32, FileStat), OpenFault> {
    instance.stats.files_opened.fetch_add(lease.fd.is_none() as u64, Relaxed);
    let opened = open_leased(&instance.store, path, lease);
    let stale = Err(OpenFault::Store(Fault::Failed(Errno(libc::ESTALE))));
    if opened == stale && lease.fd.is_none() {
        let mut again = *lease;
        again.evicted = None;
        return open_leased(&instance.store, path, &again);
    }
    opened
}

fn open_failure(path: &Path, fault: OpenFault, why: &mut Why) -> Status {
    match fault {
        OpenFault::Changed => {
            fail!(why, Io, "{}: its size or time of change is not what it was", Tail(path.as_str()))
        }
        OpenFault::Store(fault) => fail!(why, Io, "{}: {fault}", Tail(path.as_str())),
    }
}

/// A file is absent: it is a missing chunk only if its array is still there.
fn check_array(instance: &Instance, question: &Question, why: &mut Why) -> Outcome {
    if instance.lock.lock().arrays.is_checked(question.array, question.batch_id) {
        return Outcome::Absent;
    }
    let uri = instance.uris.read(question.array as usize);
    let path = metadata_path(uri.as_str());
    match instance.store.stat_path(&path) {
        Ok(_) => Outcome::Absent,
        Err(fault) => Outcome::Failed(fail!(
            why,
            Io,
            "{}: {fault}: the array was there and is gone, so its chunks are not missing data",
            Tail(path.as_str())
        )),
    }
}

fn run_read(
    instance: &Instance,
    (wave, op): (u32, u32),
    read: &ReadOp,
    lease: &Lease,
    cached_only: bool,
) {
    let start = (instance.os.now_ns)();
    let record = instance.records.read(read.array as usize);
    let path = file_path(instance, read.array, &record, read.file);
    let opened = if lease.fd.is_some() && lease.evicted.is_none() {
        // Open since it was located: its size was checked then.
        Ok((lease.fd.unwrap_or(HOOK_FD), lease.stat.unwrap_or(read.stat)))
    } else {
        open_counted(instance, &path, lease)
    };
    let opened = match opened {
        Ok((fd, stat)) if stat != read.stat => {
            if lease.fd.is_none() {
                instance.store.close(fd);
            }
            Err(OpenFault::Changed)
        }
        opened => opened,
    };
    let target = instance.tables.slab.rows(read.slab_offset, read.bytes);
    let result = match opened {
        Ok((fd, _)) => instance
            .store
            .read_exact(fd, &path, target, read.offset, cached_only)
            .map_err(OpenFault::Store),
        Err(fault) => Err(fault),
    };
    let again = again_later(instance, &result, lease, opened.is_err());
    if !again {
        let needed = read_pieces(instance, (wave, op), read, (&record, &path), opened, result);
        instance.stats.reads_issued.fetch_add(1, Relaxed);
        instance.stats.io.observe((instance.os.now_ns)() - start, read.bytes, needed);
    }
    let state = &mut *instance.lock.lock();
    state.files.give_back(lease, opened.ok().map(|o| o.0), opened.ok().map(|o| o.1));
    if opened == Err(OpenFault::Changed) {
        close_forgotten(instance, state.files.forget(lease.slot));
    }
    let entry = &mut state.waves.waves[wave as usize];
    if again {
        entry.blocking.push(op);
    } else {
        entry.ready.push(op);
    }
    match (cached_only, again) {
        (true, true) => state.is_cold = !instance.settings.is_pump(),
        (true, false) => {}
        (false, _) => note_warmth(instance, state, (instance.os.now_ns)() - start, read.bytes),
    }
}

/// A blocking read that took about as long as a copy found its bytes cached; after a few of those
/// the decoding threads try again themselves.
fn note_warmth(
    instance: &Instance,
    state: &mut crate::pipeline::state::State,
    ns: u64,
    bytes: u64,
) {
    const WARM_READS: u32 = 16;
    let copy_ns = 20_000 + bytes / 2;
    state.warm_reads = if ns < copy_ns { state.warm_reads + 1 } else { 0 };
    if state.warm_reads >= WARM_READS && !instance.store.uses_hook() {
        state.is_cold = false;
        state.warm_reads = 0;
    }
}

/// Whether the read has to be done again: by a thread that may wait, or once descriptors are free.
fn again_later(
    instance: &Instance,
    result: &Result<(), OpenFault>,
    lease: &Lease,
    open_failed: bool,
) -> bool {
    match result {
        Err(OpenFault::Store(Fault::WouldBlock)) => true,
        Err(fault) if open_failed && is_short_of_descriptors(&Err(*fault)) => {
            lease.fd.is_none() && instance.lock.lock().files.lower_open_max()
        }
        _ => false,
    }
}

/// Whether opening failed because this process or the system has no descriptor left.
fn is_short_of_descriptors(opened: &Result<(i32, FileStat), OpenFault>) -> bool {
    matches!(opened, Err(OpenFault::Store(Fault::Failed(Errno(libc::EMFILE | libc::ENFILE)))))
}

/// Decides chunk by chunk after a read that failed as a whole, so that which chunks fail does not
/// depend on how reads were merged. Returns the bytes that chunks needed.
fn read_pieces(
    instance: &Instance,
    (wave, _): (u32, u32),
    read: &ReadOp,
    (record, path): (&ArrayRecord, &Path),
    opened: Result<(i32, FileStat), OpenFault>,
    result: Result<(), OpenFault>,
) -> u64 {
    let mut needed = 0;
    for chunk in read.chunk_first..read.chunk_first + read.chunk_count {
        let row = instance.wave_row(wave, chunk);
        let mut task = instance.tables.chunks.read(row);
        needed += task.bytes;
        let fault = match (result, opened) {
            (Ok(()), _) => continue,
            (Err(fault), Err(_)) => fault,
            (Err(_), Ok((fd, _))) => {
                let target = instance.tables.slab.rows(task.slab_offset, task.bytes);
                match instance.store.read_exact(fd, path, target, task.offset, false) {
                    Ok(()) => continue,
                    Err(fault) => OpenFault::Store(fault),
                }
            }
        };
        let mut why = Why::new();
        let status = open_failure(path, fault, &mut why);
        fail_task(instance, wave, &task, record, status, &why);
        task.kind = ChunkKind::Broken;
        instance.tables.chunks.write(row, task);
    }
    needed
}

fn fail_task(
    instance: &Instance,
    wave: u32,
    task: &ChunkTask,
    record: &ArrayRecord,
    status: Status,
    why: &Why,
) {
    let failure = chunk_failure(instance, task.array, record, (task.file, task.chunk), status, why);
    for pair in 0..task.pair_count {
        let row = instance.tables.pair_row(wave, task.pair_first + pair);
        let sample = instance.tables.pairs.read(row);
        instance.fail_sample(task.slot, sample, task.number, &failure);
    }
}

fn run_assemble(
    instance: &Instance,
    worker: &mut Worker,
    wave: u32,
    first: u32,
    count: u32,
    large: Option<u32>,
) {
    let head = instance.tables.chunks.read(instance.wave_row(wave, first));
    let record = instance.records.read(head.array as usize);
    let settings = &instance.settings;
    let cast = Cast::find(record.dtype, record.dtype_bytes, settings.dtype, settings.dtype_bytes);
    // The planner refused arrays without a cast.
    assert!(cast.is_some());
    if let Some(cast) = cast {
        let scratch = match large {
            Some(number) => {
                let bytes = instance.geometry.large_scratch_bytes;
                instance.large_scratch.part(number as u64 * bytes, bytes)
            }
            None => worker.scratch,
        };
        let decoder = worker.decoder.as_mut();
        let mut hands = Hands { instance, record: &record, cast, decoder, scratch };
        for chunk in first..first + count {
            let task = instance.tables.chunks.read(instance.wave_row(wave, chunk));
            hands.assemble(wave, &task);
        }
    }
    let state = &mut *instance.lock.lock();
    if let Some(number) = large {
        state.large_free |= 1 << number;
    }
    instance.stats.chunks_dispatched.fetch_add(count as u64, Relaxed);
    state.arrays.unpin(head.array, count);
    if state.waves.sub_remaining(wave, count) {
        instance.stats.waves_emitted.fetch_add(1, Relaxed);
    }
    state.plan_wanted = true;
    if state.slots.sub_remaining(head.slot, count as u64) {
        state.complete_slot(instance, head.slot);
    }
}

/// What assembling the chunks of one array takes.
struct Hands<'a> {
    instance: &'a Instance,
    record: &'a ArrayRecord,
    cast: Cast,
    decoder: Option<&'a mut Decoder>,
    scratch: Region,
}

impl Hands<'_> {
    fn assemble(&mut self, wave: u32, task: &ChunkTask) {
        let instance = self.instance;
        let start = (instance.os.now_ns)();
        let mut why = Why::new();
        let mut decoded: &[u8] = &[];
        if task.kind == ChunkKind::Data {
            let encoded: &[u8] = instance.tables.slab.rows(task.slab_offset, task.bytes);
            let scratch = self.scratch.rows(0, self.scratch.bytes());
            let most = instance.settings.config.max_substreams_per_chunk;
            // Workers that take this job have a decoder.
            let Some(decoder) = self.decoder.as_deref_mut() else { return };
            match decode_chunk(decoder, self.record, most, encoded, scratch, &mut why) {
                Ok(bytes) => decoded = bytes,
                Err(status) => {
                    return fail_task(instance, wave, task, self.record, status, &why);
                }
            }
            let ns = (instance.os.now_ns)() - start;
            instance.stats.decode.observe(ns, task.bytes, decoded.len() as u64);
        }
        if task.kind == ChunkKind::Broken {
            return;
        }
        let start = (instance.os.now_ns)();
        let origin = chunk_origin(self.record, task.file, task.chunk);
        let mut written = 0;
        for pair in 0..task.pair_count {
            let row = instance.tables.pair_row(wave, task.pair_first + pair);
            let sample = instance.tables.pairs.read(row);
            written += self.write_sample(task, sample, &origin, decoded);
        }
        let ns = (instance.os.now_ns)() - start;
        instance.stats.assemble.observe(ns, decoded.len() as u64, written);
    }

    fn write_sample(
        &self,
        task: &ChunkTask,
        sample: u32,
        origin: &[u64; RANK_MAX],
        decoded: &[u8],
    ) -> u64 {
        let instance = self.instance;
        let axes = self.record.axes();
        let geometry = instance.geometry_table.read(instance.sample_row(task.slot, sample));
        let target = Target {
            record: self.record,
            cast: self.cast,
            begin: &geometry.begin[..axes],
            end: &geometry.end[..axes],
            pad: instance.pad_mode,
            region: instance.sample_region(task.slot, sample),
        };
        match task.kind {
            ChunkKind::Data => scatter(&target, &origin[..axes], decoded),
            ChunkKind::Missing => scatter_fill(&target, &origin[..axes]),
            ChunkKind::Pad => match &instance.pad_element {
                Some(element) => {
                    fill_outside(&target, &element[..instance.settings.dtype_bytes as usize])
                }
                None => {
                    let element = crate::assemble::fill_element(self.record, &self.cast);
                    fill_outside(&target, &element[..instance.settings.dtype_bytes as usize])
                }
            },
            ChunkKind::Broken => 0,
        }
    }
}

/// Coordinates of a chunk in the chunk grid of the whole array.
pub fn chunk_coordinates(record: &ArrayRecord, file: u64, chunk: u64) -> [u64; RANK_MAX] {
    let axes = record.axes();
    let (mut files, mut chunks) = ([0; RANK_MAX], [0; RANK_MAX]);
    coordinates_from_linear(file, &record.file_counts()[..axes], &mut files[..axes]);
    let counts = record.chunk_counts();
    coordinates_from_linear(chunk, &counts[..axes], &mut chunks[..axes]);
    for axis in 0..axes {
        chunks[axis] += files[axis] * counts[axis];
    }
    chunks
}

/// First element of a chunk along each axis of the array.
fn chunk_origin(record: &ArrayRecord, file: u64, chunk: u64) -> [u64; RANK_MAX] {
    let mut origin = chunk_coordinates(record, file, chunk);
    for axis in 0..record.axes() {
        origin[axis] *= record.chunk_shape[axis];
    }
    origin
}

fn run_patch(instance: &Instance, slot: u32) {
    let count = instance.lock.lock().slots.sample_count(slot);
    let element = &instance.failed_element[..instance.settings.dtype_bytes as usize];
    for sample in 0..count {
        if instance.statuses.read(instance.sample_row(slot, sample)) != 0 {
            fill_all(&instance.sample_region(slot, sample), element);
            instance.stats.samples_failed.fetch_add(1, Relaxed);
        }
    }
    let state = &mut *instance.lock.lock();
    state.patching &= !(1 << slot);
    state.slots.patched(slot);
    instance.batch_ready.broadcast();
}

/// Text of a failing chunk: array, chunk, reason.
pub fn describe_chunk(instance: &Instance, array: u32, chunk: &[u64], why: &Why, text: &mut Why) {
    let uri = instance.uris.read(array as usize);
    text.clear();
    // A text that is cut at its capacity is still the best text there is.
    let _ = core::fmt::Write::write_fmt(
        text,
        format_args!("{}: chunk {}: {why}", Tail(uri.as_str()), List(chunk)),
    );
}

/// A failure of a sample that no chunk is to blame for.
pub fn describe_sample(instance: &Instance, array: u32, status: Status, why: &Why) -> Failure {
    let uri = instance.uris.read(array as usize);
    let mut failure = Failure::new(status);
    // A text that is cut at its capacity is still the best text there is.
    let _ = core::fmt::Write::write_fmt(
        &mut failure.text,
        format_args!("{}: {why}", Tail(uri.as_str())),
    );
    failure
}
