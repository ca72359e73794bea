//! Metadata of arrays that are one file: the first bytes of a .npy file, or the uri alone.
//!
//! In: a uri. Out: a record, or the fact that it names no such file.

use crate::base::math::index;
use crate::base::status::{Status, Why};
use crate::fail;
use crate::os::store::{Fault, Path, Store};
use crate::os::{FileKind, FileStat};
use crate::read::shown;
use crate::records::{ArrayRecord, flat_path};
use crate::source::flat::{
    FlatKind, NpyHeader, flat_kind, npy_header, record_from_npy, record_from_raw,
};

/// The record of the array at `uri`, in chunks of at most `most` bytes; None where that is no flat
/// file, and Some(None) where `buffer` is too small for its header, unless it is large already.
pub fn read_flat(
    store: &Store,
    mut open: impl FnMut(&Path) -> Result<(i32, FileStat), Fault>,
    (uri, most): (&str, u64),
    buffer: &mut [u8],
    is_large: bool,
    why: &mut Why,
) -> Option<Option<Result<ArrayRecord, Status>>> {
    let kind = flat_kind(uri)?;
    let mut path = Path::new();
    path.push_str(flat_path(uri));
    let (fd, stat) = match open(&path) {
        Ok(opened) => opened,
        // What stands there else is looked for as of any other uri.
        Err(Fault::NotRegular(FileKind::FOLDER)) if kind == FlatKind::Npy => return None,
        // A hook knows no folders: there may be files below the name.
        Err(Fault::Absent) if kind == FlatKind::Npy && store.uses_hook() => return None,
        Err(fault) => {
            let status = if fault == Fault::Absent { Status::NotFound } else { Status::Io };
            return Some(Some(Err(why.fail(status, format_args!("{}: {fault}", shown(&path))))));
        }
    };
    let sizes = (stat.bytes, most);
    if kind == FlatKind::Raw {
        store.close(fd);
        return Some(Some(record_from_raw(uri, sizes, why)));
    }
    let front = &mut buffer[..];
    let bytes = front.len().min(usize::try_from(stat.bytes).unwrap_or(usize::MAX));
    let front = &mut front[..bytes];
    let read = store.read_again((fd, stat), &path, front, 0);
    store.close(fd);
    if let Err(fault) = read {
        return Some(Some(Err(fail!(why, Io, "{}: {fault}", shown(&path)))));
    }
    let found = match npy_header(front, uri, why) {
        Ok(NpyHeader::Found(header, offset)) => record_from_npy((header, offset), uri, sizes, why)
            .map(|mut record| {
                record.flat_state = Some((stat.bytes, stat.modified_ns));
                record
            }),

        Ok(NpyHeader::Longer(limit)) if limit > stat.bytes => {
            Err(fail!(why, Decode, "{}: ends inside of the .npy header", shown(&path)))
        }
        Ok(NpyHeader::Longer(_)) if !is_large => return Some(None),
        Ok(NpyHeader::Longer(limit)) => {
            let most = index(bytes as u64);
            Err(fail!(
                why,
                Unsupported,
                "{}: a .npy header of {limit} bytes, at most {most} are read",
                shown(&path)
            ))
        }
        Err(status) => Err(status),
    };
    Some(Some(found))
}
