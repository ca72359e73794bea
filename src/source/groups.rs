//! Groups in place of an array: their contents, and their refusal.
//!
//! In: the document of a group. Out: its other documents, its nodes, or NOT_FOUND with their names.

use crate::base::limits::{LISTED_NAMES_MAX, REFUSAL_NAMES_MAX};
use crate::base::status::{Status, Why};
use crate::base::text::{Tail, Uri};
use crate::fail;
use crate::os::store::{Fault, Listing};
use crate::read::{
    ATTRIBUTES_FILE_NAME, Access, CONSOLIDATED_FILE_NAME, SHOWN_BYTES, list_folders, read_beside,
    read_document,
};
use crate::records::DocumentKind;
use crate::source::look::{Look, Seen};
use crate::source::zarr::{
    Detail, Entry, GroupDocuments, GroupRefusal, NodeKind, Visit, group_from_documents, node_kind,
};

/// A group: its uri and its document.
#[derive(Clone, Copy)]
pub struct GroupPlace<'a> {
    /// Opens its files.
    pub access: &'a dyn Access,
    /// Its uri.
    pub uri: &'a str,
    /// Its document ..
    pub kind: DocumentKind,
    /// .. which is the first bytes of the buffer that goes with this.
    pub document_bytes: usize,
}

impl<'a> Look<'a> {
    /// The group that was found.
    pub fn group(&self, kind: DocumentKind) -> GroupPlace<'a> {
        let Look { access, uri, document_bytes, .. } = *self;
        GroupPlace { access, uri, kind, document_bytes }
    }
}

/// Reads what lies beside the document of a group; all documents, and the rest of `buffer`. None if
/// `buffer` is too small.
pub fn read_group<'b>(
    place: &GroupPlace<'_>,
    buffer: &'b mut [u8],
    why: &mut Why,
) -> Result<Option<(GroupDocuments<'b>, &'b mut [u8])>, Status> {
    let GroupPlace { access, uri, kind, document_bytes } = *place;
    let (group, mut rest) = buffer.split_at_mut(document_bytes);
    let mut documents = GroupDocuments { kind, group, attributes: b"{}", consolidated: b"{}" };
    if kind == DocumentKind::Zarr3 {
        return Ok(Some((documents, rest)));
    }
    for file_name in [ATTRIBUTES_FILE_NAME, CONSOLIDATED_FILE_NAME] {
        let Some(bytes) = read_beside(access, uri, file_name, rest, why)? else {
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

/// Refuses a group in place of an array: NOT_FOUND, with the names of arrays in it.
pub fn refuse_group(
    look: &mut Look<'_>,
    kind: DocumentKind,
    why: &mut Why,
) -> Result<Seen, Status> {
    let place = &look.group(kind);
    let mut refusal = GroupRefusal::new(kind);
    match read_group(place, look.buffer, why) {
        Ok(None) if !look.is_large => return Ok(Seen::TooLarge),
        Ok(None) => refusal.note = " (its metadata is too large to be looked at)",
        Err(_) => refusal.note = " (its attributes could not be read)",
        Ok(Some((documents, rest))) => {
            let add = &mut |entry: &Entry<'_>| refusal.add(entry);
            match group_from_documents(&documents, place.uri, why, add) {
                Ok(group) => {
                    refusal.kind = group.kind;
                    if !group.has_ome && !group.has_consolidated {
                        add_folders(place, rest, &mut refusal, why)?;
                    }
                }
                Err(_) => {
                    refusal = GroupRefusal::new(kind);
                    refusal.note = " (its attributes about them are not understood)";
                }
            }
        }
    }
    Err(refusal.refuse(place.uri, why))
}

/// Adds the nodes among the first folders of a group in the order of their names.
fn add_folders(
    place: &GroupPlace<'_>,
    buffer: &mut [u8],
    refusal: &mut GroupRefusal,
    why: &mut Why,
) -> Result<(), Status> {
    let (names, documents) = buffer.split_at_mut(buffer.len() / 2);
    let (mut used, mut count, mut is_cut) = (0, 0, false);
    let listed = list_folders(place.access.store(), place.uri, REFUSAL_NAMES_MAX, &mut |name| {
        // Names are separated by the slash after each, which none can hold.
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
        Err(Fault::Unlisted) => refusal.note = " (a files hook lists no folders)",
        Err(fault @ Fault::BadChild(_)) => {
            return Err(fail!(why, Io, "{}: its folder: {fault}", Tail(place.uri, SHOWN_BYTES)));
        }
        Err(_) => refusal.note = " (its folder could not be listed)",
    }
    let names = core::str::from_utf8(&names[..used]).unwrap_or("");
    let mut last = "";
    for _ in 0..count {
        let later = names.split_terminator('/').filter(|name| *name > last);
        let Some(name) = later.min() else { break };
        if let Some(kind) = child_kind(place, name, documents) {
            refusal.add(&Entry { path: name, kind, detail: Detail::None });
        }
        last = name;
    }
    if is_cut {
        refusal.note = "; more were not looked at";
    }
    Ok(())
}

/// Hands every node among the folders of a group to `visit`, in the order of the file system.
pub fn list_nodes(
    place: &GroupPlace<'_>,
    buffer: &mut [u8],
    visit: &mut Visit<'_>,
) -> Result<Listing, Fault> {
    list_folders(place.access.store(), place.uri, LISTED_NAMES_MAX, &mut |name| {
        if let Some(kind) = child_kind(place, name, buffer) {
            visit(&Entry { path: name, kind, detail: Detail::None });
        }
    })
}

/// The kind of node that the folder `name` of a group is; None if it is no node.
fn child_kind(place: &GroupPlace<'_>, name: &str, buffer: &mut [u8]) -> Option<NodeKind> {
    let mut uri = Uri::new();
    uri.push_str(place.uri);
    uri.push_str(if place.uri.ends_with('/') { "" } else { "/" });
    uri.push_str(name);
    if uri.is_cut() {
        return Some(NodeKind::Unknown);
    }
    match read_document(place.access, uri.as_str(), buffer, &mut Why::new()) {
        Ok(Some(document)) => Some(node_kind(document.kind, document.bytes)),
        Err(Status::NotFound) => None,
        Ok(None) | Err(_) => Some(NodeKind::Unknown),
    }
}
