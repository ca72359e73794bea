//! Metadata of arrays that are one file: the first bytes of a .npy file, or the uri alone.
//!
//! In: a uri. Out: a record, or the fact that it names no such file.

use crate::base::status::{Status, Why};
use crate::fail;
use crate::os::store::{Fault, Path, Store};
use crate::os::{FileKind, FileStat};
use crate::read::shown;
use crate::records::{ArrayRecord, flat_path};
use crate::source::flat::{
    FlatKind, NpyHeader, flat_kind, npy_header, record_from_npy, record_from_raw, split_numbered,
};

/// Bytes that the header of nearly every .npy file has, or less.
const FRONT_BYTES: usize = 1 << 10;

/// The record of the array at `uri`, in chunks of at most `most` bytes; None where that is no flat
/// file, and Ok(None) where `buffer` is too small for its header, unless it is large already.
pub fn read_flat(
    store: &Store,
    mut open: impl FnMut(&Path) -> Result<(i32, FileStat), Fault>,
    (uri, most): (&str, u64),
    buffer: &mut [u8],
    is_large: bool,
    why: &mut Why,
) -> Option<Result<Option<ArrayRecord>, Status>> {
    let kind = flat_kind(uri)?;
    let mut path = Path::new();
    path.push_str(flat_path(uri));
    let (fd, stat) = match open(&path) {
        Ok(opened) => opened,
        // What stands there else is looked for as of any other uri.
        Err(Fault::NotRegular(FileKind::FOLDER)) if kind == FlatKind::Npy => return None,
        // A hook knows no folders: there may be files below the name.
        Err(Fault::Absent) if kind == FlatKind::Npy && store.uses_hook() => return None,
        // The files of this name have numbers.
        Err(Fault::Absent) if split_numbered(uri).is_some() => return None,
        Err(fault) => {
            let status = if fault == Fault::Absent { Status::NotFound } else { Status::Io };
            return Some(Err(why.fail(status, format_args!("{}: {fault}", shown(&path)))));
        }
    };
    let sizes = (stat.bytes, most);
    if kind == FlatKind::Raw {
        store.close(fd);
        return Some(record_from_raw(uri, sizes, why).map(Some));
    }
    let found = read_npy((store, (fd, stat)), (&path, uri), most, buffer, is_large, why);
    store.close(fd);
    Some(found)
}

/// The record of an open .npy file, which `uri` names in texts; None where `buffer` is too small
/// for its header, unless it is large already.
pub fn read_npy(
    (store, (fd, stat)): (&Store, (i32, FileStat)),
    (path, uri): (&Path, &str),
    most: u64,
    buffer: &mut [u8],
    is_large: bool,
    why: &mut Why,
) -> Result<Option<ArrayRecord>, Status> {
    let bytes = buffer.len().min(usize::try_from(stat.bytes).unwrap_or(usize::MAX));
    // Headers are short: what lies behind most of them is not looked at.
    for limit in [FRONT_BYTES.min(bytes), bytes] {
        let front = &mut buffer[..limit];
        store
            .read_again((fd, stat), path, front, 0)
            .map_err(|fault| fail!(why, Io, "{}: {fault}", shown(path)))?;
        match npy_header(front, uri, why)? {
            NpyHeader::Found(header, offset) => {
                let sizes = (stat.bytes, most);
                let mut record = record_from_npy((header, offset), uri, sizes, why)?;
                record.flat_version = Some(stat.version());
                return Ok(Some(record));
            }
            NpyHeader::Longer(needed) if needed > stat.bytes => {
                let text = "ends inside of the .npy header";
                return Err(fail!(why, Decode, "{}: {text}", shown(path)));
            }
            NpyHeader::Longer(needed) if needed > bytes as u64 && is_large => {
                return Err(fail!(
                    why,
                    Unsupported,
                    "{}: a .npy header of {needed} bytes, at most {bytes} are read",
                    shown(path)
                ));
            }
            NpyHeader::Longer(_) => {}
        }
    }
    Ok(None)
}
