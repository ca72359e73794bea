//! Metadata of arrays that lie in numbered .npy files: the folder is listed once, and the headers
//! are read by as many workers as there are.
//!
//! In: a uri; slices of files. Out: the record of the first file, then one for all of them; or the
//! file that is missing, or that is another array's.

use crate::base::indexes::ArraySlot;
use crate::base::limits::{RANK_MAX, URI_BYTES_MAX};
use crate::base::status::{Status, Why};
use crate::base::text::{List, Tail};
use crate::base::version::Version;
use crate::fail;
use crate::intake::arrays::{ArrayState, Uri};
use crate::intake::parts::Slice;
use crate::jobs::flat::read_npy;
use crate::jobs::groups::Open;
use crate::jobs::lease::making_room;
use crate::os::directory::Entry;
use crate::os::store::{Fault, Path, STALE, Store};
use crate::os::{Errno, profiler};
use crate::read::{Listing, SHOWN_BYTES, list_names, shown};
use crate::records::grid::{AxisGrid, EdgeRun};
use crate::records::{ArrayRecord, Part};
use crate::source::flat::{Numbered, PrefixFinder, Sequence, split_numbered, write_numbered};
use crate::state::State;
use crate::state::job::Job;
use crate::state::lock::{Lock, Locked};
use crate::state::shared::Shared;
use crate::state::worker::Worker;
use core::sync::atomic::Ordering::Relaxed;

/// What opens files, and folders.
pub struct Access<'a, 'o> {
    pub store: &'a Store,
    pub open: &'a mut Open<'o>,
    pub open_folder: &'a mut OpenFolder<'o>,
}

/// What opens folders.
type OpenFolder<'o> = dyn FnMut(&str) -> Result<i32, Fault> + 'o;

/// The uri of the one sequence of numbered files in the folder `uri`, which goes to `alias`; None
/// where there is no such folder, or none in it, and `why` stays.
pub fn find_numbered(
    access: &mut Access<'_, '_>,
    uri: &str,
    alias: &mut Uri,
    why: &mut Why,
) -> Option<Result<(), Status>> {
    if access.store.uses_hook() {
        return None;
    }
    let mut finder = PrefixFinder::new();
    let listed = (access.open_folder)(uri)
        .and_then(|fd| list_names(access.store, fd, u32::MAX, &mut |entry| finder.add(entry.name)));
    match listed {
        Ok(Listing::Whole) => {}
        Err(Fault::Absent | Fault::NotRegular(_)) => return None,
        listed => return Some(Err(folder_failure(uri, listed, why))),
    }
    Some(match finder.finish(uri, why) {
        Ok(None) => return None,
        Ok(Some(prefix)) => {
            alias.clear();
            write!(alias, "{uri}/{prefix}*.npy");
            match alias.is_cut() {
                false => Ok(()),
                true => Err(fail!(
                    why,
                    Unsupported,
                    "{}: the paths of its files have more than {URI_BYTES_MAX} bytes: move the \
                     folder to a shorter path",
                    Tail(uri, SHOWN_BYTES)
                )),
            }
        }
        Err(status) => Err(status),
    })
}

/// Why the folder of `uri` could not be listed to its end.
fn folder_failure(uri: &str, listed: Result<Listing, Fault>, why: &mut Why) -> Status {
    let (shown, absent) = (Tail(uri, SHOWN_BYTES), listed == Err(Fault::Absent));
    let status = if absent { Status::NotFound } else { Status::Io };
    match listed {
        Err(fault) => why.fail(status, format_args!("{shown}: its folder: {fault}")),
        Ok(_) => why.fail(status, format_args!("{shown}: its folder has too many names")),
    }
}

/// A sequence of files, and the record of the first of them.
pub struct Begun {
    /// The version of the folder that was listed.
    pub folder: Version,
    /// Which files there are.
    pub sequence: Sequence,
    /// As if there were no others.
    pub record: ArrayRecord,
}

/// Lists the files of a uri, at most `most.0` of them, and reads the header of the first. None
/// where the uri names no such files, and Ok(None) where `buffer` is too small, unless it is large
/// already.
pub fn begin_parts(
    access: &mut Access<'_, '_>,
    (uri, most): (&str, (u32, u64)),
    (buffer, is_large): (&mut [u8], bool),
    why: &mut Why,
) -> Option<Result<Option<Begun>, Status>> {
    let (folder, prefix) = split_numbered(uri)?;
    let Access { store, open, open_folder } = access;
    if store.uses_hook() {
        return None;
    }
    let mut numbered = Numbered::new(prefix, buffer);
    let opened = match open_with_version(store, open_folder, folder) {
        Err(STALE) => open_with_version(store, open_folder, folder),
        opened => opened,
    };
    let version = opened.map_or(Version::NONE, |(_, version)| version);
    let listed = opened.and_then(|(fd, _)| {
        list_names(store, fd, u32::MAX, &mut |entry: &Entry<'_>| numbered.add(entry.name))
    });
    if listed != Ok(Listing::Whole) {
        return Some(Err(folder_failure(uri, listed, why)));
    }
    if numbered.is_short_of_bits() && !is_large && u64::from(most.0) > numbered.room() {
        return Some(Ok(None));
    }
    let sequence = match numbered.finish(uri, most.0, why) {
        Ok(sequence) => sequence,
        Err(status) => return Some(Err(status)),
    };
    let first = read_part(store, open, (uri, sequence.digits, 0), most.1, buffer, why);
    Some(match first {
        Ok(None) if !is_large => Ok(None),
        Ok(Some(mut record)) if record.rank > 0 => {
            record.part_digits = sequence.digits;
            Ok(Some(Begun { folder: version, sequence, record }))
        }
        Ok(_) => {
            let text =
                "its first file has no rows: an array of rank 0, or a header that is too long";
            Err(fail!(why, Unsupported, "{}: {text}", Tail(uri, SHOWN_BYTES)))
        }
        Err(status) => Err(status),
    })
}

/// Opens a folder and looks at it before it is listed, because what comes meanwhile makes another
/// version of it.
fn open_with_version(
    store: &Store,
    open_folder: &mut OpenFolder<'_>,
    folder: &str,
) -> Result<(i32, Version), Fault> {
    let fd = open_folder(folder)?;
    match store.stat_open(fd) {
        Ok(stat) => Ok((fd, stat.version())),
        Err(fault) => {
            store.close(fd);
            Err(fault)
        }
    }
}

/// The record of file `number`; None where `buffer` is too small for its header.
fn read_part(
    store: &Store,
    open: &mut Open<'_>,
    (uri, digits, number): (&str, u32, u32),
    most: u64,
    buffer: &mut [u8],
    why: &mut Why,
) -> Result<Option<ArrayRecord>, Status> {
    let mut path = Path::new();
    write_numbered(uri, number, digits, &mut path);
    let (fd, stat) = open(&path).map_err(|fault| {
        let status = if fault == Fault::Absent { Status::NotFound } else { Status::Io };
        why.fail(status, format_args!("{}: {fault}", shown(&path)))
    })?;
    let found = read_npy((store, (fd, stat)), (&path, path.as_str()), most, buffer, false, why);
    store.close(fd);
    found
}

/// What is to be known of file `number`, and its number of rows, where `first` is the record of the
/// first file.
pub fn check_part(
    store: &Store,
    open: &mut Open<'_>,
    (uri, first, number): (&str, &ArrayRecord, u32),
    buffer: &mut [u8],
    why: &mut Why,
) -> Result<(Part, u64), Status> {
    let place = (uri, first.part_digits, number);
    let Some(record) = read_part(store, open, place, u64::MAX, buffer, why)? else {
        return Err(part_failure(place, "has a long header", why));
    };
    let kind =
        |record: &ArrayRecord| (record.dtype, record.dtype_bytes, record.byte_order, record.time);
    if kind(&record) != kind(first) {
        let text = format_args!(
            "has elements of {}{}, and the first file has {}{}",
            record.dtype.name(),
            other_order(&record, first),
            first.dtype.name(),
            other_order(first, &record)
        );
        return Err(part_failure(place, text, why));
    }
    let rows = |record: &ArrayRecord| {
        let mut extents = [0; RANK_MAX];
        extents[..record.axes()].copy_from_slice(&record.shape[..record.axes()]);
        extents[0] = 0;
        extents
    };
    if record.rank != first.rank || rows(&record) != rows(first) {
        let (other, first) =
            (List(&record.shape[..record.axes()]), List(&first.shape[..first.axes()]));
        let text =
            format_args!("has shape {other}, and the first file {first}: rows must be alike");
        return Err(part_failure(place, text, why));
    }
    if record.axis_order[0] != first.axis_order[0] {
        let text = "is in another order (fortran_order) than the first file";
        return Err(part_failure(place, text, why));
    }
    let offset = record.flat.unwrap_or(0);
    let version = record.flat_version.unwrap_or(Version::NONE);
    Ok((Part { number, offset, version }, record.shape[0]))
}

/// What tells two types of one name apart.
fn other_order(record: &ArrayRecord, other: &ArrayRecord) -> &'static str {
    if record.dtype != other.dtype || record.byte_order == other.byte_order {
        return "";
    }
    match record.byte_order {
        crate::records::ByteOrder::Little => " (little-endian)",
        crate::records::ByteOrder::Big => " (big-endian)",
    }
}

/// Makes the record of the first of `count` files that of all, whose headers are read one after the
/// other. It says what holds for the whole: how many files there are, and extents of the smallest
/// and of the largest.
pub fn join_headers(
    access: &mut Access<'_, '_>,
    (uri, count): (&str, u32),
    record: &mut ArrayRecord,
    buffer: &mut [u8],
    why: &mut Why,
) -> Result<(), Status> {
    let (mut rows, mut least, mut most) = (0u64, u64::MAX, 0);
    for number in 0..count {
        let place = (uri, &*record, number);
        let (_, more) = check_part(access.store, access.open, place, buffer, why)?;
        rows = rows.saturating_add(more);
        (least, most) = (least.min(more), most.max(more));
    }
    record.shape[0] = rows;
    record.cut_file(most, u64::MAX);
    record.shard_shape[0][0] = most;
    let cells = u64::from(count);
    if least < most || most == 0 {
        record.file_grid[0] = AxisGrid::Edges { first: 0, count: 0, cells, edge_min: least };
    }
    Ok(())
}

fn part_failure(
    (uri, digits, number): (&str, u32, u32),
    text: impl core::fmt::Display,
    why: &mut Why,
) -> Status {
    let mut path = Path::new();
    write_numbered(uri, number, digits, &mut path);
    fail!(why, Decode, "{}: {text}", shown(&path))
}

/// Reads the headers of a slice of files.
pub fn run<'l>(lock: &'l Lock, worker: &mut Worker, slice: &Slice) -> Locked<'l> {
    let shared = lock.shared;
    let _range = shared.profiler.range(profiler::META);
    let start = (shared.os.now_ns)();
    let (first, uri) = (shared.array_record(slice.array), shared.array_uri(slice.array));
    let mut open = |path: &Path| {
        let none = Err(Fault::Failed(Errno(libc::EMFILE)));
        making_room(lock, |store| store.open(path)).unwrap_or(none)
    };
    let (mut why, mut failed) = (Why::new(), None);
    let (parts, runs) = shared.claim_parts(slice.row as usize, slice.count as usize);
    for (number, (part, run)) in (slice.first..).zip(parts.iter_mut().zip(runs)) {
        let place = (uri, first, number);
        match check_part(&shared.store, &mut open, place, worker.buffer(), &mut why) {
            Ok((found, rows)) => {
                *part = found;
                *run = EdgeRun { limit: rows, cell_limit: 0 };
            }
            Err(status) => {
                failed = Some((number, status, why));
                break;
            }
        }
    }
    shared.stats.files_opened.fetch_add(u64::from(slice.count), Relaxed);
    shared.stats.meta.observe((shared.os.now_ns)() - start, 0, 0);
    let mut state = lock.lock();
    settle(shared, &mut state, failed);
    state
}

fn settle(shared: &Shared, state: &mut State, failed: Option<(u32, Status, Why)>) {
    let Some((array, loaded)) = state.parts.finish(failed) else { return };
    shared.stats.array_meta_misses.fetch_add(1, Relaxed);
    match loaded {
        Ok((first, count)) => {
            let mut record = state.arrays.records.read(array.at());
            let (parts, runs) = shared.claim_parts(first, count);
            record.join_parts(parts, runs, shared.settings.config.max_chunk_uncompressed_bytes);
            shared.views.records.write(array.at(), record);
            state.arrays.finish(array, ArrayState::Ready, &Why::new());
        }
        Err((status, why)) => state.arrays.finish(array, ArrayState::Failed(status), &why),
    }
    state.plan_wanted = true;
}

/// The files of an array are known: their headers are read, once there are rows for them.
pub fn begin(state: &mut State, array: ArraySlot, count: u32, was_large: bool) {
    let id = state.arrays.id(array);
    let (arrays, parts) = (&mut state.arrays, &mut state.parts);
    let has_begun = parts.begin((array, id), count, &mut |slot, id| arrays.is_ready(slot, id))
        || parts.begin((array, id), count, &mut |slot, id| arrays.forget_unpinned(slot, id));
    if has_begun {
        parts.waits_since = None;
        return;
    }
    parts.waits_since = Some(arrays.uses_ended());
    arrays.requeue(array, was_large);
}

/// The next files whose headers nobody reads.
pub fn take(state: &mut State) -> Option<Job> {
    state.parts.take().map(Job::LoadParts)
}
