//! Arrays in numbered .npy files: their folder is listed once, and then each has a header.
//!
//! In: a uri. Out: the record of the first file, then the facts of each; or the file that is
//! missing, or that is another array's.

use crate::base::limits::RANK_MAX;
use crate::base::status::{Status, Why};
use crate::base::text::{List, Tail};
use crate::base::version::Version;
use crate::fail;
use crate::os::store::{Fault, Listing, Path};
use crate::read::{Access, SHOWN_BYTES, shown};
use crate::records::grid::AxisGrid;
use crate::records::{ArrayRecord, ByteOrder, PART_DIGITS_MAX, Part};
use crate::source::files::read_npy;
use crate::source::flat::{Numbered, Pattern, PrefixFinder, Sequence, write_numbered};
use crate::source::look::{Look, Seen};

/// Files that are compared if there is no room for all.
const FEW_FILES: u32 = 16;

/// The one sequence of numbered files in a folder: the uri means their name.
pub fn folder(look: &mut Look<'_>, why: &mut Why) -> Option<Result<Seen, Status>> {
    let (mut finder, uri) = (PrefixFinder::new(), look.uri);
    match look.access.list(uri, &mut |entry| finder.add(entry.name)) {
        Ok((Listing::Whole, _)) => {}
        Err(Fault::Absent | Fault::NotRegular(_) | Fault::Unlisted) => return None,
        listed => return Some(Err(folder_failure(uri, listed.err(), why))),
    }
    let what = ("the paths of its files have", "folder");
    let prefix = finder.finish(uri, why).transpose()?;
    Some(prefix.and_then(|prefix| look.alias(format_args!("{uri}/{prefix}*.npy"), what, why)))
}

/// Refuses a folder of `uri` that was not listed to its end. None: it has too many names.
fn folder_failure(uri: &str, fault: Option<Fault>, why: &mut Why) -> Status {
    let (shown, is_absent) = (Tail(uri, SHOWN_BYTES), fault == Some(Fault::Absent));
    let status = if is_absent { Status::NotFound } else { Status::Io };
    match fault {
        Some(fault) => why.fail(status, format_args!("{shown}: its folder: {fault}")),
        None => why.fail(status, format_args!("{shown}: its folder has too many names")),
    }
}

/// The files that a uri with a star names: lists them, or asks for them by name if the store lists
/// nothing, and reads the header of the first.
pub fn files(look: &mut Look<'_>, why: &mut Why) -> Option<Result<Seen, Status>> {
    let pattern = Pattern::of(look.uri)?;
    // A host without a function for listings has no numbered files.
    look.access.store().has_listings().then(|| begin(look, pattern, why))
}

fn begin(look: &mut Look<'_>, pattern: Pattern<'_>, why: &mut Why) -> Result<Seen, Status> {
    let (access, uri) = (look.access, look.uri);
    let mut numbered = Numbered::new(pattern, look.buffer);
    let version = match access.list(pattern.folder, &mut |entry| numbered.add(entry.name)) {
        Ok((Listing::Whole, version)) => version,
        Err(Fault::Unlisted) => {
            ask_names(access, pattern, (uri, look.files_max), &mut numbered, why)?;
            Version::NONE
        }
        listed => return Err(folder_failure(uri, listed.err(), why)),
    };
    if numbered.is_short_of_bits() && !look.is_large && u64::from(look.files_max) > numbered.room()
    {
        return Ok(Seen::TooLarge);
    }
    let found = numbered.finish(uri, look.files_max, why);
    let Sequence { count, digits } = match found {
        Err(Status::Budget) => {
            let digits = numbered.digits();
            return Err(check_few(look, digits, why).err().unwrap_or(Status::Budget));
        }
        found => found?,
    };
    match read_part(access, (uri, digits, 0), look.chunk_bytes_max, look.buffer, why)? {
        None if !look.is_large => Ok(Seen::TooLarge),
        Some(record) if record.rank > 0 => {
            look.version = Some(version);
            *look.record = ArrayRecord { part_digits: digits, ..record };
            Ok(Seen::Parts(count))
        }
        _ => {
            let text =
                "its first file has no rows: an array of rank 0, or a header that is too long";
            Err(fail!(why, Unsupported, "{}: {text}", Tail(uri, SHOWN_BYTES)))
        }
    }
}

/// Names that are asked for after the last file: one of them is there if a file is missing.
const ASKED_AFTER_END: u32 = 8;

/// Adds the names of files that are there, from the first on, each asked for after the one before.
#[inline(never)] // its paths are not to stand on the stack of all that follows
fn ask_names(
    access: &dyn Access,
    pattern: Pattern<'_>,
    (uri, files_max): (&str, u32),
    numbered: &mut Numbered<'_>,
    why: &mut Why,
) -> Result<(), Status> {
    let mut is_there = |number: u32, digits: u32| {
        let mut path = Path::new();
        write_numbered(uri, number, digits, &mut path);
        match access.store().stat_path(&path) {
            Ok(_) => {
                let name = path.as_str().rsplit('/').next().unwrap_or("");
                numbered.add(name.as_bytes());
                Ok(true)
            }
            Err(Fault::Absent) => Ok(false),
            Err(fault) => Err(fail!(why, Io, "{}: {fault}", shown(&path))),
        }
    };
    // Widths below that of the first number spell it alike.
    let own = pattern.first.checked_ilog10().unwrap_or(0) + 1;
    let mut digits = own;
    while !is_there(0, digits)? {
        digits += 1;
        if digits > PART_DIGITS_MAX {
            return Ok(());
        }
    }
    // As many as there may be, and one that is too many.
    let mut end = 1;
    while end <= files_max && is_there(end, digits)? {
        end += 1;
    }
    for number in end..end.saturating_add(ASKED_AFTER_END) {
        if is_there(number, digits)? {
            break;
        }
    }
    Ok(())
}

/// Whether the first files are of one array: if they are not, more room would not help. `why`
/// stays as it is if they are, or if a header cannot be read.
fn check_few(look: &mut Look<'_>, digits: u32, why: &mut Why) -> Result<(), Status> {
    let (access, uri, mut other) = (look.access, look.uri, Why::new());
    let first = read_part(access, (uri, digits, 0), u64::MAX, look.buffer, &mut other);
    let Ok(Some(first)) = first else { return Ok(()) };
    let first = ArrayRecord { part_digits: digits, ..first };
    for number in 1..FEW_FILES {
        match check_part(access, (uri, &first, number), look.buffer, &mut other) {
            Ok(_) => {}
            Err(Status::Decode) => {
                *why = other;
                return Err(Status::Decode);
            }
            Err(_) => return Ok(()),
        }
    }
    Ok(())
}

/// The record of file `number`; None if `buffer` is too small for its header.
fn read_part(
    access: &dyn Access,
    (uri, digits, number): (&str, u32, u32),
    most: u64,
    buffer: &mut [u8],
    why: &mut Why,
) -> Result<Option<ArrayRecord>, Status> {
    let mut path = Path::new();
    write_numbered(uri, number, digits, &mut path);
    let (fd, stat) = access.open(&path).map_err(|fault| {
        let status = if fault == Fault::Absent { Status::NotFound } else { Status::Io };
        why.fail(status, format_args!("{}: {fault}", shown(&path)))
    })?;
    let names = (&path, path.as_str(), None);
    let found = read_npy((access, (fd, stat)), names, most, buffer, false, why);
    access.store().close(fd);
    let found = found?;
    if found.as_ref().is_some_and(|record| record.pitch > 0) {
        let text = "numbered files have no structured elements: name one file of them alone";
        return Err(fail!(why, Unsupported, "{}: {text}", shown(&path)));
    }
    Ok(found)
}

/// The facts to be known of file `number`, and its number of rows, if `first` is the record of the
/// first file.
pub fn check_part(
    access: &dyn Access,
    (uri, first, number): (&str, &ArrayRecord, u32),
    buffer: &mut [u8],
    why: &mut Why,
) -> Result<(Part, u64), Status> {
    let place = (uri, first.part_digits, number);
    let Some(record) = read_part(access, place, u64::MAX, buffer, why)? else {
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

/// The difference between two types of one name.
fn other_order(record: &ArrayRecord, other: &ArrayRecord) -> &'static str {
    if record.dtype != other.dtype || record.byte_order == other.byte_order {
        return "";
    }
    match record.byte_order {
        ByteOrder::Little => " (little-endian)",
        ByteOrder::Big => " (big-endian)",
    }
}

/// Makes the record of the first of `count` files that of all, whose headers are read one after the
/// other. It says what holds for the whole: the number of files, and the extents of the smallest
/// and of the largest. The ends of the files, each a word, are left in the buffer from the byte on
/// that is returned; None: it has too little room.
pub fn join_headers(
    look: &mut Look<'_>,
    count: u32,
    why: &mut Why,
) -> Result<Option<usize>, Status> {
    let (mut rows, mut least, mut most) = (0u64, u64::MAX, 0);
    let ends_at = room_for_ends(look.buffer, count);
    let (buffer, ends) = look.buffer.split_at_mut(ends_at.unwrap_or(look.buffer.len()));
    let ends = ends.as_chunks_mut::<{ size_of::<u64>() }>().0;
    for number in 0..count {
        let place = (look.uri, &*look.record, number);
        let (_, more) = check_part(look.access, place, buffer, why)?;
        rows = rows.saturating_add(more);
        (least, most) = (least.min(more), most.max(more));
        let end = ends.get_mut(number as usize);
        end.into_iter().for_each(|end| *end = rows.to_ne_bytes());
    }
    let record = &mut *look.record;
    record.shape[0] = rows;
    record.cut_file(most, look.chunk_bytes_max);
    record.shard_shape[0][0] = most;
    let cells = u64::from(count);
    if least < most || most == 0 {
        record.file_grid[0] = AxisGrid::Edges { first: 0, count: 0, cells, edge_min: least };
    }
    Ok(ends_at)
}

/// The place for a word for each file, in the second half of a buffer.
fn room_for_ends(buffer: &[u8], count: u32) -> Option<usize> {
    let bytes = count as usize * size_of::<u64>();
    let at = buffer.len().checked_sub(bytes)?;
    // Words lie where words may.
    let at = at.checked_sub(buffer.as_ptr().wrapping_add(at).addr() % align_of::<u64>())?;
    (at >= buffer.len() / 2).then_some(at)
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
