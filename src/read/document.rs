//! Reads the metadata document of an array.
//!
//! In: a uri and a buffer. Out: the document's bytes, or the fact that the buffer is too small.

use crate::base::math::index;
use crate::fail;
use crate::limits::METADATA_BYTES_MAX;
use crate::os::FileStat;
use crate::os::store::{Fault, Path, Store};
use crate::read::shown;
use crate::status::{Status, Why};

/// Path of the metadata document of an array.
pub fn metadata_path(uri: &str) -> Path {
    let mut path = Path::new();
    path.push_str(uri);
    path.push_str(if uri.ends_with('/') { "zarr.json" } else { "/zarr.json" });
    path
}

/// Reads the metadata document of the array at `uri`, which `open` opens; None where `buffer` is
/// too small for it.
pub fn read_document<'a>(
    store: &Store,
    open: impl FnOnce(&Path) -> Result<(i32, FileStat), Fault>,
    uri: &str,
    buffer: &'a mut [u8],
    why: &mut Why,
) -> Result<Option<&'a [u8]>, Status> {
    let path = metadata_path(uri);
    let shown = shown(&path);
    let (fd, stat) = open(&path).map_err(|fault| match fault {
        Fault::Absent => fail!(why, NotFound, "{shown}: no such file: is it a zarr v3 array?"),
        fault => fail!(why, Io, "{shown}: {fault}"),
    })?;
    let result = if stat.bytes > METADATA_BYTES_MAX as u64 {
        Err(fail!(
            why,
            Unsupported,
            "{shown}: {} bytes of metadata, at most {METADATA_BYTES_MAX} are read",
            stat.bytes
        ))
    } else if stat.bytes > buffer.len() as u64 {
        Ok(None)
    } else {
        let document = &mut buffer[..index(stat.bytes)];
        match store.read_exact(fd, &path, document, 0, false) {
            Ok(()) => Ok(Some(&*document)),
            Err(fault) => Err(fail!(why, Io, "{shown}: {fault}")),
        }
    };
    store.close(fd);
    result
}
