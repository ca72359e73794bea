//! The nodes of a store as the tool finds them itself: metadata documents, and the tree below a
//! group.
//!
//! In: a uri or a folder. Out: documents as JSON, and the paths of arrays and groups. A document
//! that cannot be read makes a node that the library then rejects with the reason.

use crate::fault::{Outcome, failed};
use crate::progress::Progress;
use crate::report;
use crate::store;
use serde_json::Value;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use wavetrain::base::limits::METADATA_BYTES_MAX;
use wavetrain::base::text::Text;
use wavetrain::loader::Node;
use wavetrain::source::zarr::normalize_uri;

/// Folders of a group that are looked into, and how deep: a bound for a tree that has none.
const FOLDERS_MAX: usize = 100_000;
const DEPTH_MAX: usize = 32;

/// Scratch for the names in a group.
const NAMES_SCRATCH_BYTES: usize = 64 << 20;

/// The folder of a uri, as far as the tool looks into it itself.
pub fn folder(uri: &str) -> PathBuf {
    let mut path = Text::new();
    let is_path = normalize_uri(uri, &mut path, &mut Text::new()).is_ok();
    PathBuf::from(if is_path { path.as_str() } else { uri })
}

/// The zarr v3 metadata document in a folder; None if there is none.
pub fn document(folder: &Path) -> Result<Option<Value>, String> {
    document_at(&folder.join("zarr.json"))
}

/// A metadata document of a size that the library reads; None if there is none.
pub fn document_at(path: &Path) -> Result<Option<Value>, String> {
    if let Some(name) = far(path) {
        let Some(bytes) = store::read(name, METADATA_BYTES_MAX)? else { return Ok(None) };
        return json_of(bytes).map(Some);
    }
    let found = match fs::metadata(path) {
        Err(error) if is_absence(&error) => return Ok(None),
        found => found.map_err(|error| error.to_string())?,
    };
    // A FIFO would be waited for.
    if !found.is_file() {
        return Err("not a regular file".to_owned());
    }
    let size = found.len();
    if size > METADATA_BYTES_MAX as u64 {
        return Err(format!("{size} bytes are more than {METADATA_BYTES_MAX}"));
    }
    json_of(fs::read(path).map_err(|error| error.to_string())?).map(Some)
}

fn json_of(bytes: Vec<u8>) -> Result<Value, String> {
    serde_json::from_slice(&without_constants(bytes)).map_err(|error| error.to_string())
}

/// The uri of a folder or a document that lies in a store far away.
fn far(path: &Path) -> Option<&str> {
    path.to_str().filter(|name| store::is_far(name))
}

fn is_absence(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// A document with zeros in place of NaN and Infinity, which Python writes and JSON lacks.
fn without_constants(mut bytes: Vec<u8>) -> Vec<u8> {
    let (mut at, mut is_text) = (0, false);
    while at < bytes.len() {
        match bytes[at] {
            b'"' => is_text = !is_text,
            b'\\' if is_text => at += 1,
            b'N' | b'I' if !is_text => {
                let word = [&b"NaN"[..], b"Infinity"].into_iter();
                if let Some(word) = word.into_iter().find(|word| bytes[at..].starts_with(word)) {
                    bytes[at..at + word.len()].fill(b' ');
                    bytes[at] = b'0';
                }
            }
            _ => {}
        }
        at += 1;
    }
    bytes
}

/// Whether a uri is that of a group.
pub fn is_group(uri: &str) -> bool {
    is_group_folder(&folder(uri))
}

/// Whether a folder has a document of this name; one that may not be looked at is one.
pub fn has(folder: &Path, name: &str) -> bool {
    if far(folder).is_some() {
        return document_at(&folder.join(name)).map_or(true, |found| found.is_some());
    }
    match fs::metadata(folder.join(name)) {
        Ok(found) => !found.is_dir(),
        Err(error) => !is_absence(&error),
    }
}

/// Whether a folder holds a group: of zarr v3, or of v2 where there is no other document. One whose
/// document cannot be read is none: the library says why.
fn is_group_folder(folder: &Path) -> bool {
    match has(folder, "zarr.json") {
        true => {
            document(folder).is_ok_and(|node| node.is_some_and(|node| node["node_type"] == "group"))
        }
        false => has(folder, ".zgroup") && !has(folder, ".zarray"),
    }
}

/// Whether a folder holds an array or a group.
fn is_node(folder: &Path) -> bool {
    ["zarr.json", ".zarray", ".zgroup"].iter().any(|name| has(folder, name))
}

/// The paths in a folder, in any order. The nodes that a group names stand for those of a folder
/// far away that cannot be listed.
fn paths_in(place: &Path) -> Result<Vec<PathBuf>, String> {
    let Some(uri) = far(place) else {
        let entries = fs::read_dir(place).map_err(|error| error.to_string())?;
        let paths = entries.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<PathBuf>>>();
        return paths.map_err(|error| error.to_string());
    };
    let names = store::children(uri).or_else(|reason| named_nodes(uri).ok_or(reason))?;
    Ok(names.iter().map(|name| place.join(name)).collect())
}

/// The nodes that a group's own metadata names; None: it names none.
fn named_nodes(uri: &str) -> Option<Vec<String>> {
    let mut scratch = vec![0; NAMES_SCRATCH_BYTES];
    let Ok(Node::Group(group)) = store::node_info(uri, &mut scratch) else { return None };
    let names = || group.entries().map(|entry| entry.path().to_owned());
    (group.info().entry_sources != 0).then(|| names().collect())
}

/// The nodes below a group, in the order of their paths.
pub struct Below {
    pub arrays: Vec<String>,
    pub groups: Vec<String>,
    /// Folders that could not be looked into: each was told.
    pub refused: usize,
}

impl Below {
    /// All of them.
    pub fn nodes(&self) -> impl Iterator<Item = &str> {
        self.groups.iter().chain(&self.arrays).map(String::as_str)
    }

    /// Looks into the folders below a group.
    pub fn look(uri: &str) -> Outcome<Below> {
        let progress = Progress::begin(None, "looking for arrays");
        let mut below = Below { arrays: Vec::new(), groups: Vec::new(), refused: 0 };
        let mut waiting = vec![(folder(uri), 0)];
        let mut looked = 0;
        while let Some((place, depth)) = waiting.pop() {
            looked += 1;
            progress.step(1);
            if looked > FOLDERS_MAX {
                return failed(format!("{uri}: more than {FOLDERS_MAX} folders; name the arrays"));
            }
            let paths = paths_in(&place).unwrap_or_else(|reason| {
                report::warn(&format!("{}: {reason}", place.display()));
                below.refused += 1;
                Vec::new()
            });
            for path in paths.into_iter().filter(|path| is_node(path)) {
                let name = path.to_string_lossy().into_owned();
                // Any other node is an array, or the library rejects it.
                if !is_group_folder(&path) {
                    below.arrays.push(name);
                } else if depth < DEPTH_MAX {
                    below.groups.push(name);
                    waiting.push((path, depth + 1));
                }
            }
        }
        // A group may name a node of a group in it, too.
        for list in [&mut below.arrays, &mut below.groups] {
            list.sort();
            list.dedup();
        }
        Ok(below)
    }
}
