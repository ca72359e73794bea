//! The things at a path without zarr metadata: other formats by their first bytes or their files,
//! and the fix.
//!
//! In: a uri at which no document was found. Out: a sentence, or nothing. Invariant: only names and
//! magic numbers are looked at; whatever cannot be looked at is no hint.

use crate::os::FileKind;
use crate::os::store::Path;
use crate::read::Access;

/// Formats of one file, by what it starts with.
const MAGICS: [(&[u8], &str); 9] = [
    (b"PK\x03\x04", "is a zip file: unpack it"),
    (b"PK\x05\x06", "is a zip file, with nothing in it"),
    (b"\x93NUMPY", "is a .npy file: give it a name that ends so"),
    (b"\x89HDF", "is an HDF5 file: convert it, as xarray's Dataset.to_zarr does"),
    (b"CDF", "is a netCDF file: convert it, as xarray's Dataset.to_zarr does"),
    (b"II*\0", TIFF),
    (b"II+\0", TIFF),
    (b"MM\0*", TIFF),
    (b"MM\0+", TIFF),
];
const TIFF: &str = "is a TIFF file: convert it, as bioformats2raw does";

/// Formats of a folder, by a file in it.
const FOLDERS: [(&str, &str); 4] = [
    ("attributes.json", "is an N5 folder: copy it with zarr-python 2, which has an N5Store"),
    ("info", "is a neuroglancer precomputed folder: copy it with tensorstore, which reads both"),
    ("repo", ICECHUNK),
    ("refs/branch.main/ref.json", ICECHUNK),
];
const ICECHUNK: &str =
    "is an icechunk repository: open it with icechunk and copy the array, as xarray.to_zarr does";

const FILE: &str = "is a file, not the folder of an array: single files are read as NAME.npy or \
                    raw:PATH?dtype=u16&shape=64,128";

/// Bytes of the longest magic number.
const MAGIC_BYTES: usize = 8;

/// The format at `uri`, if it is one that is known and not read.
pub(super) fn foreign(access: &dyn Access, uri: &str) -> Option<&'static str> {
    let (store, mut path) = (access.store(), Path::new());
    path.push_str(uri);
    if let Ok((fd, stat)) = access.open(&path) {
        let mut start = [0; MAGIC_BYTES];
        let known = MAGIC_BYTES.min(usize::try_from(stat.bytes).unwrap_or(MAGIC_BYTES));
        let read = (store.row.read)(store, (fd, stat), &path, &mut start[..known], 0, false);
        store.close(fd);
        let found = MAGICS.iter().find(|(magic, _)| start.starts_with(magic));
        // A store that sees no folders may open them, too: of a file bytes can be read.
        let is_file = store.row.has_folders || known > 0;
        return match (read, found) {
            (Ok(()), Some((_, what))) => Some(what),
            (Ok(()), None) if is_file => Some(FILE),
            _ => None,
        };
    }
    for (name, what) in FOLDERS {
        path.clear();
        path.push_str(uri);
        path.push_str("/");
        path.push_str(name);
        if store.stat_path(&path).is_ok_and(|stat| stat.kind == FileKind::REGULAR) {
            return Some(what);
        }
    }
    // A shell expands it, and only at the start of a word.
    uri.starts_with('~').then_some("~ is expanded by a shell, not here: write the whole path")
}
