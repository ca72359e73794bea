//! The paths of an array's files, by its uri and its record.

use crate::base::limits::RANK_MAX;
use crate::base::math::{coordinates_from_linear, index};
use crate::os::store::Path;
use crate::read::{Folder, document_path};
use crate::records::{ArrayRecord, array_path, flat_path};
use crate::source::flat::{Pattern, write_numbered};
use crate::source::zarr::{write_file_key, write_folder_key};

/// Writes the path of a file after the end of `path`. It has thousands of bytes and is not copied.
pub fn write_file_path(uri: &str, record: &ArrayRecord, file: u64, path: &mut Path) {
    if record.is_in_parts() {
        let number = record.parts[index(file)].number;
        return write_numbered(uri, number, record.part_digits, path);
    }
    if record.flat.is_some() {
        return path.push_str(flat_path(uri));
    }
    write_array_path(array_path(uri), path);
    write_file_key(record, &record.file_coordinates(file)[..record.axes()], path);
}

/// The path of a folder of files.
pub fn folder_path(uri: &str, record: &ArrayRecord, folder: Folder) -> Path {
    let (mut coordinates, axes) = ([0; RANK_MAX], ..folder.axes);
    coordinates_from_linear(folder.number, &record.file_counts()[axes], &mut coordinates[axes]);
    let mut path = Path::new();
    write_array_path(array_path(uri), &mut path);
    write_folder_key(record, &coordinates[axes], &mut path);
    path
}

/// Writes the path of an array, with a slash at its end.
pub fn write_array_path(uri: &str, path: &mut Path) {
    path.push_str(uri);
    path.push_str(if uri.ends_with('/') { "" } else { "/" });
}

/// The path of what the array at `uri` was loaded from.
pub fn root_path(uri: &str, record: &ArrayRecord) -> Path {
    let mut path = Path::new();
    match Pattern::of(uri) {
        Some(pattern) if record.is_in_parts() => path.push_str(pattern.folder),
        _ if record.flat.is_some() => path.push_str(flat_path(uri)),
        _ => path = document_path(array_path(uri), record.document),
    }
    path
}
