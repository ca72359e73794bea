//! Groups: what the documents of a group say of the nodes in it.
//!
//! Comes in: `zarr.json` of a group, or `.zgroup`, `.zattrs` and `.zmetadata`. Goes out: a
//! [`Group`], and one [`Entry`] per node that the documents name: levels of a multiscale image,
//! wells of a plate, fields of a well (`ngff`), and what consolidated metadata lists. Sources: zarr
//! v3 core specification, section Group metadata; zarr-python's consolidated metadata.
//!
//! Invariant: the path of an entry lies inside the group, and no entry is left out: entries are
//! handed to a visitor one by one, so that their number costs no memory.

use super::entry::{Entry, Found, Group, NodeKind, Visit, checked_path};
use super::ngff::read_ome;
use super::node::{Document, Node};
use super::zarr3::{check_version, is_ignored};
use crate::base::limits::ENTRY_PATH_BYTES;
use crate::base::status::{Status, Why};
use crate::fail;
use crate::records::DocumentKind;
use crate::source::json::{self, Value};
use arrayvec::ArrayVec;

/// The documents of a group.
#[derive(Clone, Copy)]
pub struct GroupDocuments<'a> {
    /// The kind of the documents.
    pub kind: DocumentKind,
    /// `zarr.json` or `.zgroup`.
    pub group: &'a [u8],
    /// `.zattrs`; an empty object if it has none, and for zarr v3.
    pub attributes: &'a [u8],
    /// `.zmetadata`; an empty object if it has none, and for zarr v3.
    pub consolidated: &'a [u8],
}

/// Reads a group; `visit` sees every node that its documents name. Entries that it has seen count
/// only if the whole is understood. `uri` names the group in texts.
///
/// Errors: DECODE (not what the formats say, or no group), UNSUPPORTED (well-formed, not read).
pub fn group_from_documents<'a>(
    documents: &GroupDocuments<'a>,
    uri: &str,
    why: &mut Why,
    visit: &mut Visit<'_>,
) -> Result<Group<'a>, Status> {
    let (visit, levels) = (&mut |entry: &Entry<'_>| visit(entry), ArrayVec::new());
    let found = &mut Found { visit, group: Group::default(), levels };
    let name = documents.kind.file_name();
    let document = Document::new(uri, name, documents.group, why);
    let root = document.root()?;
    if documents.kind == DocumentKind::Zarr3 {
        read_zarr3(root, found)?;
        return Ok(found.group);
    }
    root.pick("zarr_format", 1)?[0].check_format(2)?;
    let document = Document::new(uri, ".zattrs", documents.attributes, why);
    read_ome(document.root()?, documents.kind, found)?;
    let document = Document::new(uri, ".zmetadata", documents.consolidated, why);
    read_zmetadata(document.root()?, found)?;
    Ok(found.group)
}

/// The kind of a document, as far as it gives one: Array, Group, or Unknown.
pub fn node_kind(kind: DocumentKind, document: &[u8]) -> NodeKind {
    match kind {
        DocumentKind::Zarr2Array => NodeKind::Array,
        DocumentKind::Zarr2Group => NodeKind::Group,
        DocumentKind::Zarr3 => json::parse(document).map_or(NodeKind::Unknown, kind_from_document),
    }
}

fn kind_from_document(document: Value<'_>) -> NodeKind {
    let node_type = document.members().and_then(|members| members.get("node_type"));
    match node_type.and_then(Value::as_str).and_then(|name| name.place_in("array group")) {
        Some(0) => NodeKind::Array,
        Some(_) => NodeKind::Group,
        None => NodeKind::Unknown,
    }
}

fn read_zarr3<'a>(root: Node<'_, 'a>, found: &mut Found<'_, 'a>) -> Result<(), Status> {
    let names = "zarr_format node_type attributes consolidated_metadata";
    let ([format, node_type, attributes, consolidated, ..], other) =
        root.walk(names, is_ignored)?;
    check_version(root, format, node_type)?;
    let name = node_type.string()?;
    if name != *"group" {
        return Err(fail!(node_type, Decode, "{name} is not \"group\""));
    }
    root.check_known(other)?;
    if let Some(attributes) = attributes.found() {
        read_ome(attributes, DocumentKind::Zarr3, found)?;
    }
    consolidated.present().map_or(Ok(()), |consolidated| read_consolidated(consolidated, found))
}

/// The nodes that a zarr v3 group lists: `{"kind": "inline", "metadata": {PATH: DOCUMENT, ..}}`.
fn read_consolidated(node: Node<'_, '_>, found: &mut Found<'_, '_>) -> Result<(), Status> {
    let [metadata, kind, ..] = node.pick("metadata kind", 1)?;
    if let Some(kind) = kind.found() {
        let name = kind.string()?;
        if name != *"inline" {
            return Err(kind.unknown("metadata", name, "\"inline\""));
        }
    }
    found.group.has_consolidated = true;
    let mut buffer = [0; ENTRY_PATH_BYTES];
    for (name, document) in metadata.members()? {
        let path = checked_path(metadata, name, name.decode_into(&mut buffer))?;
        match kind_from_document(*document) {
            NodeKind::Unknown => {
                let reason = "is neither an array nor a group";
                return Err(fail!(metadata, Decode, "the document of {name} {reason}"));
            }
            kind => found.add_listed(path, kind),
        }
    }
    Ok(())
}

/// The nodes that a zarr v2 group lists: `{"metadata": {PATH/.zarray: DOCUMENT, ..}}`.
fn read_zmetadata(root: Node<'_, '_>, found: &mut Found<'_, '_>) -> Result<(), Status> {
    let [metadata, ..] = root.pick("metadata", 0)?;
    let Some(metadata) = metadata.found() else { return Ok(()) };
    found.group.has_consolidated = true;
    let mut buffer = [0; ENTRY_PATH_BYTES + 8];
    for (key, _) in metadata.members()? {
        let text = key.decode_into(&mut buffer);
        // Those of the group itself have no slash.
        if matches!(text, Some(".zgroup" | ".zattrs")) {
            continue;
        }
        let (path, kind) = match text.map(|text| text.rsplit_once('/').unwrap_or(("", text))) {
            Some((_, ".zattrs")) => continue,
            Some((path, ".zarray")) => (Some(path), NodeKind::Array),
            Some((path, ".zgroup")) => (Some(path), NodeKind::Group),
            None => (None, NodeKind::Unknown),
            _ => {
                let reason = "is none of .zarray, .zgroup and .zattrs";
                return Err(fail!(metadata, Decode, "{key} {reason}"));
            }
        };
        found.add_listed(checked_path(metadata, key, path)?, kind);
    }
    Ok(())
}

#[cfg(test)]
#[path = "group_tests.rs"]
mod tests;
