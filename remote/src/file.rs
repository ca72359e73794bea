//! Files of this machine.
//!
//! A file is opened for each call and closed after it, so that none stays open. Its version is its
//! device, inode, size and time of change.

use crate::error::{Error, Result};
use crate::target::Target;
use crate::version::{Meta, Version};
use std::fs::{File, Metadata};
use std::io::ErrorKind;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

/// Size and version of a file. Folders are absent, as they are in object stores.
pub fn head(path: &Path) -> Result<Meta> {
    let data = std::fs::metadata(path).map_err(|error| failure(path, &error))?;
    meta_of(path, &data)
}

/// Fills `target` from `offset` on, if the file is the expected version.
pub fn read(
    path: &Path,
    offset: u64,
    target: &mut Target,
    expect: Option<&Version>,
) -> Result<Meta> {
    let (file, meta) = open(path)?;
    let shown = path.display();
    if expect.is_some_and(|expect| *expect != meta.version) {
        return Err(Error::changed(&shown.to_string()));
    }
    let bytes = target.bytes() as u64;
    if offset.checked_add(bytes).is_none_or(|end| end > meta.size) {
        let size = meta.size;
        return Err(Error::failed(format!(
            "{shown}: the file has {size} bytes; a read of {bytes} from {offset} ends after them"
        )));
    }
    copy(&file, path, offset, target)?;
    Ok(meta)
}

/// The last bytes of a file, as many as the target has at most.
pub fn end(path: &Path, target: &mut Target) -> Result<(Meta, u64)> {
    let (file, meta) = open(path)?;
    let bytes = (target.bytes() as u64).min(meta.size);
    let mut part = target.first(bytes as usize);
    copy(&file, path, meta.size - bytes, &mut part)?;
    Ok((meta, bytes))
}

/// The children of a folder, and whether each is a folder.
pub fn list(path: &Path) -> Result<Vec<(String, bool)>> {
    let entries = std::fs::read_dir(path).map_err(|error| failure(path, &error))?;
    let mut children = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|error| failure(path, &error))?;
        // A name that is no UTF-8 cannot be asked for by a hook, and is none of a store's.
        let Ok(name) = entry.file_name().into_string() else { continue };
        // A link counts as what it leads to; one that leads nowhere is no folder.
        let is_folder = std::fs::metadata(entry.path()).is_ok_and(|data| data.is_dir());
        children.push((name, is_folder));
    }
    Ok(children)
}

fn open(path: &Path) -> Result<(File, Meta)> {
    let file = File::open(path).map_err(|error| failure(path, &error))?;
    let data = file.metadata().map_err(|error| failure(path, &error))?;
    let meta = meta_of(path, &data)?;
    Ok((file, meta))
}

fn meta_of(path: &Path, data: &Metadata) -> Result<Meta> {
    if data.is_dir() {
        return Err(Error::absent(&path.display().to_string()));
    }
    let (device, inode, size) = (data.dev(), data.ino(), data.size());
    let (seconds, nanoseconds) = (data.mtime(), data.mtime_nsec());
    let text = format!("file {device} {inode} {size} {seconds} {nanoseconds}");
    Ok(Meta { size, version: Version::from_text(&text) })
}

fn copy(file: &File, path: &Path, offset: u64, target: &mut Target) -> Result<()> {
    match file.read_exact_at(target.slice(), offset) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
            Err(Error::changed(&path.display().to_string()))
        }
        Err(error) => Err(failure(path, &error)),
    }
}

fn failure(path: &Path, error: &std::io::Error) -> Error {
    let shown = path.display().to_string();
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => Error::absent(&shown),
        _ => Error::failed(format!("{shown}: {error}")),
    }
}
