//! The folders in a folder, for groups that keep no list of their nodes.
//!
//! In: a uri. Out: names, in the order of the store. Invariant: a name that is left out is
//! reported.

use crate::os::store::{Fault, Listing, Store};

/// Hands the names of folders in the folder `uri` to `visit`, those that start with a dot left
/// out: no node has such a name. At most `names_max` names of any kind are looked at.
pub fn list_folders(
    store: &Store,
    uri: &str,
    names_max: u32,
    visit: &mut dyn FnMut(&str),
) -> Result<Listing, Fault> {
    let mut listing = Listing::Whole;
    let (listed, _) = store.list(uri, names_max, &mut |entry| {
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
