//! Arrays that are one file: a .npy file, whose first bytes say what it is, or a raw file, whose
//! uri does.

use crate::base::status::{Status, Why};
use crate::fail;
use crate::os::FileKind;
use crate::os::store::{Fault, Opened, Path};
use crate::read::{Access, shown};
use crate::records::{ArrayRecord, flat_path};
use crate::source::flat::{
    FlatKind, NpyHeader, Pattern, flat_kind, npy_header, record_from_npy, record_from_raw,
};
use crate::source::look::{Look, Seen};

/// Bytes that the header of nearly every .npy file has, or less.
const FRONT_BYTES: usize = 1 << 10;

/// The array in the file of that name.
pub fn file(look: &mut Look<'_>, why: &mut Why) -> Option<Result<Seen, Status>> {
    let kind = flat_kind(look.uri)?;
    let mut path = Path::new();
    path.push_str(flat_path(look.uri));
    let (fd, stat) = match look.access.open(&path) {
        Ok(opened) => opened,
        // A folder of that name is looked for as any other uri is.
        Err(Fault::NotRegular(FileKind::FOLDER)) if kind == FlatKind::Npy => return None,
        // If the store has no folders, files may lie below the name.
        Err(Fault::Absent) if kind == FlatKind::Npy && !look.access.store().row.has_folders => {
            return None;
        }
        // The files of this name have numbers.
        Err(Fault::Absent) if Pattern::of(look.uri).is_some() => return None,
        Err(fault) => {
            let status = if fault == Fault::Absent { Status::NotFound } else { Status::Io };
            return Some(Err(why.fail(status, format_args!("{}: {fault}", shown(&path)))));
        }
    };
    let (access, most) = (look.access, look.chunk_bytes_max);
    let found = match kind {
        FlatKind::Raw => record_from_raw(look.uri, (stat.bytes, most), why).map(Some),
        FlatKind::Npy => {
            let (file, names) = ((access, (fd, stat)), (&path, look.uri, look.field));
            read_npy(file, names, most, look.buffer, look.is_large, why)
        }
    };
    access.store().close(fd);
    Some(found.map(|found| {
        let Some(record) = found else { return Seen::TooLarge };
        look.version = record.flat_version;
        *look.record = record;
        Seen::Array
    }))
}

/// The record of an open .npy file, which `uri` names in texts, or of a field of it; None if
/// `buffer` is too small for its header, unless it is large already.
pub fn read_npy(
    (access, (fd, stat)): (&dyn Access, Opened),
    (path, uri, field): (&Path, &str, Option<&str>),
    most: u64,
    buffer: &mut [u8],
    is_large: bool,
    why: &mut Why,
) -> Result<Option<ArrayRecord>, Status> {
    let bytes = buffer.len().min(usize::try_from(stat.bytes).unwrap_or(usize::MAX));
    // Headers are short: the bytes after most of them are not looked at.
    for limit in [FRONT_BYTES.min(bytes), bytes] {
        let front = &mut buffer[..limit];
        access
            .read((fd, stat), path, front, 0)
            .map_err(|fault| fail!(why, Io, "{}: {fault}", shown(path)))?;
        match npy_header(front, uri, why)? {
            NpyHeader::Found(header, offset) => {
                let sizes = (stat.bytes, most);
                let mut record = record_from_npy((header, offset), (uri, field), sizes, why)?;
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
