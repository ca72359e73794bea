//! Reads the metadata document of an array or group.
//!
//! In: a uri and a buffer. Out: the kind of the document and its bytes, or the fact that the buffer
//! is too small. Invariant: only "does not exist" makes the next name be tried, so a document that
//! cannot be read now is never taken for one of another format.

use crate::base::limits::METADATA_BYTES_MAX;
use crate::base::math::index;
use crate::base::status::{Status, Why};
use crate::base::text::Tail;
use crate::base::version::Version;
use crate::fail;
use crate::os::store::{Fault, Path, Store};
use crate::os::{FileKind, FileStat};
use crate::read::foreign::foreign;
use crate::read::{Access, SHOWN_BYTES, shown};
use crate::records::{DOCUMENT_KINDS, DocumentKind};

/// The file of the attributes of a zarr v2 array or group, beside its document.
pub const ATTRIBUTES_FILE_NAME: &str = ".zattrs";

/// The file in which a zarr v2 group lists its nodes, if somebody consolidated its metadata.
pub const CONSOLIDATED_FILE_NAME: &str = ".zmetadata";

/// Stands for a document beside another one that does not exist.
const EMPTY_DOCUMENT: &[u8] = b"{}";

/// A metadata document.
#[derive(Clone, Copy, Debug)]
pub struct Document<'a> {
    /// Its kind, by its name.
    pub kind: DocumentKind,
    /// All of it.
    pub bytes: &'a [u8],
    /// The version of its file.
    pub version: Version,
}

/// Path of the document of this kind of an array or group.
pub fn document_path(uri: &str, kind: DocumentKind) -> Path {
    path_of(uri, kind.file_name())
}

fn path_of(uri: &str, file_name: &str) -> Path {
    let mut path = Path::new();
    path.push_str(uri);
    path.push_str(if uri.ends_with('/') { "" } else { "/" });
    path.push_str(file_name);
    path
}

/// Reads the metadata document at `uri`: the first of [`DOCUMENT_KINDS`] that exists, into the
/// start of `buffer`. None if `buffer` is too small for it. If none exists, the text names the
/// thing at the path.
pub fn read_document<'a>(
    access: &dyn Access,
    uri: &str,
    buffer: &'a mut [u8],
    why: &mut Why,
) -> Result<Option<Document<'a>>, Status> {
    for kind in DOCUMENT_KINDS {
        let path = document_path(uri, kind);
        if let Some((stat, bytes)) = read_at(access, &path, buffer, why)? {
            let (version, bytes) = (stat.version(), bytes.map(|bytes| &buffer[..bytes]));
            return Ok(bytes.map(|bytes| Document { kind, bytes, version }));
        }
    }
    Err(no_document(access, uri, why))
}

/// The refusal of a uri without a document. Apart, because its path is on the stack.
#[cold]
#[inline(never)]
fn no_document(access: &dyn Access, uri: &str, why: &mut Why) -> Status {
    if let Some(what) = foreign(access, uri) {
        return fail!(why, NotFound, "{}: {what}", Tail(uri, SHOWN_BYTES));
    }
    let store = access.store();
    let mut folder = Path::new();
    folder.push_str(uri);
    if store.row.has_folders && store.stat_path(&folder) == Err(Fault::Absent) {
        let shown = Tail(uri, SHOWN_BYTES);
        return fail!(why, NotFound, "{shown}: no such file or folder: check the path");
    }
    let [first, second, third] = DOCUMENT_KINDS;
    fail!(
        why,
        NotFound,
        "{}: no such file, nor {} or {} next to it: it is not a zarr array, name the folder or the \
         .npy file of one",
        shown(&document_path(uri, first)),
        second.file_name(),
        third.file_name()
    )
}

/// Reads what lies beside the document of a zarr v2 array or group, [`ATTRIBUTES_FILE_NAME`] or
/// [`CONSOLIDATED_FILE_NAME`], into the start of `buffer`; an empty object if it does not exist.
/// How many bytes it takes, or None if `buffer` is too small.
pub fn read_beside(
    access: &dyn Access,
    uri: &str,
    file_name: &str,
    buffer: &mut [u8],
    why: &mut Why,
) -> Result<Option<usize>, Status> {
    let path = path_of(uri, file_name);
    Ok(match read_at(access, &path, buffer, why)? {
        Some((_, bytes)) => bytes,
        None => buffer.get_mut(..EMPTY_DOCUMENT.len()).map(|target| {
            target.copy_from_slice(EMPTY_DOCUMENT);
            target.len()
        }),
    })
}

/// Reads the document at a path into the start of `buffer`: what it looks like, and how many bytes
/// it has if `buffer` holds them. None: it is absent.
fn read_at(
    access: &dyn Access,
    path: &Path,
    buffer: &mut [u8],
    why: &mut Why,
) -> Result<Option<(FileStat, Option<usize>)>, Status> {
    let store = access.store();
    // Its size, its version and its bytes are one request, as long as there is room for any.
    let read = if store.row.has_tails && !buffer.is_empty() {
        access.read_tail(path, buffer).map(|(stat, got)| (stat, got as u64 == stat.bytes, None))
    } else {
        access.open(path).map(|(fd, stat)| (stat, stat.bytes <= buffer.len() as u64, Some(fd)))
    };
    let (stat, fits, fd) = match read {
        Ok(read) => read,
        Err(Fault::Absent) => return check_absent(store, path, why).map(|()| None),
        Err(fault) => return Err(fail!(why, Io, "{}: {fault}", shown(path))),
    };
    let mut result = check_bytes(path, stat.bytes, why);
    if let (Ok(()), true, Some(fd)) = (result, fits, fd) {
        let document = &mut buffer[..index(stat.bytes)];
        result = access
            .read((fd, stat), path, document, 0)
            .map_err(|fault| fail!(why, Io, "{}: {fault}", shown(path)));
    }
    fd.into_iter().for_each(|fd| store.close(fd));
    result.map(|()| Some((stat, fits.then_some(index(stat.bytes)))))
}

/// Refuses a document that is too large for every buffer.
fn check_bytes(path: &Path, bytes: u64, why: &mut Why) -> Result<(), Status> {
    if bytes <= METADATA_BYTES_MAX as u64 {
        return Ok(());
    }
    let text = format_args!("{bytes} bytes of metadata, at most {METADATA_BYTES_MAX} are read");
    Err(fail!(why, Unsupported, "{}: {text}", shown(path)))
}

/// A document that could not be found is absent, and no link to nothing.
fn check_absent(store: &Store, path: &Path, why: &mut Why) -> Result<(), Status> {
    let text = match store.stat_link(path) {
        Err(_) => return Ok(()),
        Ok(FileStat { kind: FileKind::LINK, .. }) => {
            "is a link to nothing: fetch what it leads to (git annex get, datalad get)"
        }
        Ok(_) => "was absent, and is there now: try again",
    };
    Err(fail!(why, Io, "{}: {text}", shown(path)))
}
