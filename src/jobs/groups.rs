//! Groups where an array is expected: what is in them, and the refusal that says so.
//!
//! In: a store and the document of a group. Out: its other documents, its nodes, or NOT_FOUND with
//! their names. Runs in load jobs and in calls without a loader; nothing is kept.

use crate::base::limits::{LISTED_NAMES_MAX, REFUSAL_NAMES_MAX, URI_BYTES_MAX};
use crate::base::status::{Status, Why};
use crate::base::text::Tail;
use crate::fail;
use crate::intake::arrays::Uri;
use crate::os::FileStat;
use crate::os::store::{Fault, Path, Store};
use crate::read::{
    ATTRIBUTES_FILE_NAME, CONSOLIDATED_FILE_NAME, Document, Listing, SHOWN_BYTES, list_folders,
    read_beside, read_document,
};
use crate::records::DocumentKind;
use crate::source::zarr::{
    Detail, Entry, GroupDocuments, GroupRefusal, LevelFinder, NodeKind, Selection, Visit,
    group_from_documents, node_kind, split_selection,
};

/// What opens documents.
pub type Open<'o> = dyn FnMut(&Path) -> Result<(i32, FileStat), Fault> + 'o;

/// A group: where it is and which document says so.
#[derive(Clone, Copy)]
pub struct GroupPlace<'a> {
    /// Its files.
    pub store: &'a Store,
    /// Its uri.
    pub uri: &'a str,
    /// Its document ..
    pub kind: DocumentKind,
    /// .. which is the first bytes of the buffer that goes with this.
    pub document_bytes: usize,
}

/// Reads what lies beside the document of a group; all documents, and the rest of `buffer`. None
/// where `buffer` is too small.
pub fn read_group<'b>(
    place: &GroupPlace<'_>,
    open: &mut Open<'_>,
    buffer: &'b mut [u8],
    why: &mut Why,
) -> Result<Option<(GroupDocuments<'b>, &'b mut [u8])>, Status> {
    let GroupPlace { store, uri, kind, document_bytes } = *place;
    let (group, mut rest) = buffer.split_at_mut(document_bytes);
    let mut documents = GroupDocuments { kind, group, attributes: b"{}", consolidated: b"{}" };
    if kind == DocumentKind::Zarr3 {
        return Ok(Some((documents, rest)));
    }
    for file_name in [ATTRIBUTES_FILE_NAME, CONSOLIDATED_FILE_NAME] {
        let Some(bytes) = read_beside(store, &mut *open, uri, file_name, rest, why)? else {
            return Ok(None);
        };
        let (document, behind) = rest.split_at_mut(bytes);
        rest = behind;
        match file_name {
            ATTRIBUTES_FILE_NAME => documents.attributes = document,
            _ => documents.consolidated = document,
        }
    }
    Ok(Some((documents, rest)))
}

/// Most bytes of a name that the system takes, and of a path.
const NAME_BYTES_MAX: usize = 255;
const SYSTEM_PATH_BYTES_MAX: usize = 4095;

/// Whether a uri that may select a level names no file for sure: what selects it makes the path, or
/// its last name, longer than the system takes.
pub fn is_no_path(store: &Store, uri: &str) -> bool {
    let has_long_name = || uri.split('/').any(|name| name.len() > NAME_BYTES_MAX);
    let is_long = uri.len() + 1 + DocumentKind::Zarr3.file_name().len() > SYSTEM_PATH_BYTES_MAX;
    split_selection(uri).is_some() && !store.uses_hook() && (is_long || has_long_name())
}

/// The uri of the array that a level of an image is, for a uri that names no node itself: it goes
/// to `alias`. None where the uri selects no level, and Ok(None) where `buffer` is too small for
/// the documents of the group, unless it is `largest`.
#[inline(never)] // as look_for
pub fn select_level(
    store: &Store,
    open: &mut Open<'_>,
    uri: &str,
    (buffer, largest): (&mut [u8], bool),
    alias: &mut Uri,
    why: &mut Why,
) -> Option<Result<Option<()>, Status>> {
    let (group, text) = split_selection(uri)?;
    why.clear();
    let selected = Selection::read(text, uri, why).and_then(|selection| {
        let Some(Document { kind, bytes, .. }) =
            read_document(store, &mut *open, group, buffer, why)?
        else {
            return Ok(None);
        };
        if node_kind(kind, bytes) == NodeKind::Array {
            let way = "is an array: leave out what begins with #";
            return Err(fail!(why, Invalid, "{}: {way}", Tail(group, SHOWN_BYTES)));
        }
        let place = GroupPlace { store, uri: group, kind, document_bytes: bytes.len() };
        let Some((documents, _)) = read_group(&place, open, buffer, why)? else { return Ok(None) };
        let mut finder = LevelFinder::new(selection);
        group_from_documents(&documents, group, why, &mut |entry| finder.add(entry))?;
        let path = finder.finish(group, why)?;
        alias.clear();
        write!(alias, "{group}/{path}");
        if alias.is_cut() {
            return Err(fail!(
                why,
                Unsupported,
                "{}: the path of its level has more than {URI_BYTES_MAX} bytes: move the group to \
                 a shorter path",
                Tail(uri, SHOWN_BYTES)
            ));
        }
        Ok(Some(()))
    });
    Some(match selected {
        Ok(None) if largest => {
            let text = "its documents are too large to be looked at: name an array";
            Err(fail!(why, Unsupported, "{}: {text}", Tail(group, SHOWN_BYTES)))
        }
        selected => selected,
    })
}

/// The refusal of a group in place of an array: NOT_FOUND, with the names of arrays in it. None
/// where `buffer` is too small for its documents, unless it is `largest`.
pub fn refuse_group(
    place: &GroupPlace<'_>,
    open: &mut Open<'_>,
    buffer: &mut [u8],
    largest: bool,
    why: &mut Why,
) -> Option<Status> {
    let mut refusal = GroupRefusal::new(place.kind);
    let found = read_group(place, open, buffer, why);
    match found {
        Ok(None) if !largest => return None,
        Ok(None) => refusal.note = " (its metadata is too large to be looked at)",
        Err(_) => refusal.note = " (its attributes could not be read)",
        Ok(Some((documents, rest))) => {
            let add = &mut |entry: &Entry<'_>| refusal.add(entry);
            match group_from_documents(&documents, place.uri, why, add) {
                Ok(group) => {
                    refusal.kind = group.kind;
                    if !group.has_ome && !group.has_consolidated {
                        add_folders(place, open, rest, &mut refusal);
                    }
                }
                Err(_) => {
                    refusal = GroupRefusal::new(place.kind);
                    refusal.note = " (what its attributes say of them is not understood)";
                }
            }
        }
    }
    Some(refusal.refuse(place.uri, why))
}

/// Adds the nodes among the first folders of a group in the order of their names.
fn add_folders(
    place: &GroupPlace<'_>,
    open: &mut Open<'_>,
    buffer: &mut [u8],
    refusal: &mut GroupRefusal,
) {
    if place.store.uses_hook() {
        refusal.note = " (a files hook lists no folders)";
        return;
    }
    let (names, documents) = buffer.split_at_mut(buffer.len() / 2);
    let (mut used, mut count, mut is_cut) = (0, 0, false);
    let listed = list_folders(place.store, place.uri, REFUSAL_NAMES_MAX, &mut |name| {
        // Names are told apart by the slash behind each, which none can hold.
        let limit = used + name.len() + 1;
        match names.get_mut(used..limit) {
            Some(target) => {
                target[..name.len()].copy_from_slice(name.as_bytes());
                target[name.len()] = b'/';
                (used, count) = (limit, count + 1);
            }
            None => is_cut = true,
        }
    });
    match listed {
        Ok(listing) => is_cut |= listing == Listing::Cut,
        Err(_) => refusal.note = " (its folder could not be listed)",
    }
    let names = core::str::from_utf8(&names[..used]).unwrap_or("");
    let mut last = "";
    for _ in 0..count {
        let later = names.split_terminator('/').filter(|name| *name > last);
        let Some(name) = later.min() else { break };
        if let Some(kind) = child_kind(place, open, name, documents) {
            refusal.add(&Entry { path: name, kind, detail: Detail::None });
        }
        last = name;
    }
    if is_cut {
        refusal.note = "; more were not looked at";
    }
}

/// Hands every node among the folders of a group to `visit`, in the order of the file system.
pub fn list_nodes(
    place: &GroupPlace<'_>,
    open: &mut Open<'_>,
    buffer: &mut [u8],
    visit: &mut Visit<'_>,
) -> Result<Listing, Fault> {
    list_folders(place.store, place.uri, LISTED_NAMES_MAX, &mut |name| {
        if let Some(kind) = child_kind(place, open, name, buffer) {
            visit(&Entry { path: name, kind, detail: Detail::None });
        }
    })
}

/// What the folder `name` of a group is; None where it is no node.
fn child_kind(
    place: &GroupPlace<'_>,
    open: &mut Open<'_>,
    name: &str,
    buffer: &mut [u8],
) -> Option<NodeKind> {
    let mut uri = Uri::new();
    uri.push_str(place.uri);
    uri.push_str(if place.uri.ends_with('/') { "" } else { "/" });
    uri.push_str(name);
    if uri.is_cut() {
        return Some(NodeKind::Unknown);
    }
    match read_document(place.store, open, uri.as_str(), buffer, &mut Why::new()) {
        Ok(Some(document)) => Some(node_kind(document.kind, document.bytes)),
        Err(Status::NotFound) => None,
        Ok(None) | Err(_) => Some(NodeKind::Unknown),
    }
}
