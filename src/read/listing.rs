//! What is in a folder: the folders, for groups that keep no list of their nodes, or all of it.
//!
//! In: a uri. Out: names, in the order of the file system. Invariant: what is left out is told.

use crate::base::limits::DIRECTORY_READ_BYTES;
use crate::os::directory::{Entries, Entry};
use crate::os::store::{Fault, Path, Store};

/// How a listing ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Listing {
    /// Every folder was seen.
    Whole,
    /// There are more names, or names that no text can show: not UTF-8, or control characters.
    Cut,
}

/// Hands the names of folders in the folder `uri` to `visit`, those that start with a dot left
/// out: no node has such a name. At most `names_max` names of any kind are looked at.
pub fn list_folders(
    store: &Store,
    uri: &str,
    names_max: u32,
    visit: &mut dyn FnMut(&str),
) -> Result<Listing, Fault> {
    let mut listing = Listing::Whole;
    let fd = open_folder(store, uri)?;
    let listed = list_names(store, fd, names_max, &mut |entry| {
        if !entry.may_be_folder || entry.name.first().is_none_or(|first| *first == b'.') {
            return;
        }
        match core::str::from_utf8(entry.name) {
            Ok(name) if !name.contains(char::is_control) => visit(name),
            _ => listing = Listing::Cut,
        }
    })?;
    Ok(if listed == Listing::Cut { listed } else { listing })
}

/// Opens the folder `uri`.
#[inline(never)] // a path is not to stand on the stack while the names are visited
pub fn open_folder(store: &Store, uri: &str) -> Result<i32, Fault> {
    let mut path = Path::new();
    path.push_str(uri);
    store.open_directory(&path)
}

/// Hands what is in a folder to `visit`, and closes it. At most `names_max` names are looked at.
pub fn list_names(
    store: &Store,
    fd: i32,
    names_max: u32,
    visit: &mut dyn FnMut(&Entry<'_>),
) -> Result<Listing, Fault> {
    let (mut buffer, mut looked_at) = ([0; DIRECTORY_READ_BYTES], 0);
    // Ends: every turn looks at a name or breaks, and names are counted.
    let listed = 'names: loop {
        let got = match store.read_directory(fd, &mut buffer) {
            Ok(0) => break Ok(Listing::Whole),
            Ok(got) => got,
            Err(fault) => break Err(fault),
        };
        let before = looked_at;
        for entry in Entries(buffer.get(..got).unwrap_or(&[])) {
            if looked_at == names_max {
                break 'names Ok(Listing::Cut);
            }
            looked_at += 1;
            visit(&entry);
        }
        if looked_at == before {
            break Ok(Listing::Cut);
        }
    };
    store.close(fd);
    listed
}
