//! Groups: what the documents of a group say of the nodes in it.
//!
//! Comes in: `zarr.json` of a group, or `.zgroup`, `.zattrs` and `.zmetadata`. Goes out: a
//! [`Group`], and one [`Entry`] per node that the documents name: levels of a multiscale image,
//! wells of a plate, fields of a well (`ngff`), and what consolidated metadata lists. Sources: zarr
//! v3 core specification, section Group metadata; zarr-python's consolidated metadata.
//!
//! Invariant: the path of an entry lies inside the group, and no entry is left out: entries are
//! handed to a visitor one by one, so that how many there are costs no memory.

use super::ngff::read_ome;
use super::node::{Document, Node};
use super::zarr3::{check_version, is_ignored};
use crate::base::limits::{ENTRY_PATH_BYTES, GROUP_LEVELS_MAX, RANK_MAX};
use crate::base::status::{Status, Why};
use crate::fail;
use crate::records::DocumentKind;
use crate::source::json::{self, Str, Value};
use arrayvec::ArrayVec;

/// What lies at a path.
#[repr(u32)]
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum NodeKind {
    /// A node whose document could not be looked at.
    Unknown = 0,
    /// An array.
    Array = 1,
    /// A group, of any kind.
    #[default]
    Group = 2,
    /// A group that is a multiscale image.
    Image = 3,
    /// A group that is a plate of wells.
    Plate = 4,
    /// A group that is a well of fields.
    Well = 5,
}

impl NodeKind {
    /// The kind with this ABI number.
    pub fn from_code(code: u32) -> NodeKind {
        let kinds =
            [NodeKind::Array, NodeKind::Group, NodeKind::Image, NodeKind::Plate, NodeKind::Well];
        kinds.into_iter().find(|kind| *kind as u32 == code).unwrap_or(NodeKind::Unknown)
    }
}

/// The documents of a group.
#[derive(Clone, Copy)]
pub struct GroupDocuments<'a> {
    /// Which of them there are.
    pub kind: DocumentKind,
    /// `zarr.json` or `.zgroup`.
    pub group: &'a [u8],
    /// `.zattrs`; an empty object where there is none, and for zarr v3.
    pub attributes: &'a [u8],
    /// `.zmetadata`; an empty object where there is none, and for zarr v3.
    pub consolidated: &'a [u8],
}

/// One axis of an image; what the document does not say is empty.
#[derive(Clone, Copy, Debug)]
pub struct Axis<'a> {
    /// "z".
    pub name: Str<'a>,
    /// "space", "time" or "channel".
    pub kind: Str<'a>,
    /// "micrometer".
    pub unit: Str<'a>,
}

/// One axis after the other, in the order of the array's.
pub type Axes<'a> = ArrayVec<Axis<'a>, RANK_MAX>;

/// From indices of a level to physical units: index * scale + translation.
#[derive(Clone, Copy, Debug)]
pub struct Transform {
    /// Whether the document says any of it; else scale is 1 and translation 0.
    pub is_given: bool,
    /// Finite.
    pub scale: [f64; RANK_MAX],
    /// Finite.
    pub translation: [f64; RANK_MAX],
}

/// A level of a multiscale image.
#[derive(Clone, Debug)]
pub struct Level<'a> {
    /// Which of the group's multiscales.
    pub image: u32,
    /// Its place in that, the finest first.
    pub level: u32,
    /// The name of the multiscale; empty where it has none.
    pub name: Str<'a>,
    /// Its axes.
    pub axes: &'a Axes<'a>,
    /// The level's own transformations, then those of the multiscale.
    pub transform: Transform,
}

/// What is known of an entry beside its kind.
#[derive(Clone, Debug)]
pub enum Detail<'a> {
    /// Nothing.
    None,
    /// An array that is a level of an image.
    Level(Level<'a>),
    /// A well: its row and its column, where the document says them.
    Well(Option<[u32; 2]>),
    /// A field of a well, and the acquisition that it is of, where the document says that.
    Field(Option<u32>),
}

/// A node inside a group.
#[derive(Clone, Debug)]
pub struct Entry<'a> {
    /// Its path below the group: no empty, "." or ".." part, no control character.
    pub path: &'a str,
    /// What it is.
    pub kind: NodeKind,
    /// What else is known.
    pub detail: Detail<'a>,
}

/// What takes the entries.
pub type Visit<'v> = dyn FnMut(&Entry<'_>) + 'v;

/// What a group says of itself.
#[derive(Clone, Copy, Default, Debug)]
pub struct Group<'a> {
    /// Group, Image, Plate or Well.
    pub kind: NodeKind,
    /// Version of OME-NGFF; empty where the group is none of it or does not say.
    pub version: Str<'a>,
    /// Name of the plate, or of the first multiscale that has one; else empty.
    pub name: Str<'a>,
    /// Multiscales.
    pub image_count: u32,
    /// Rows of a plate.
    pub row_count: u32,
    /// Columns of a plate.
    pub column_count: u32,
    /// Most fields in a well, as the plate says; 0 where it does not.
    pub field_count: u32,
    /// Whether OME-NGFF attributes name nodes.
    pub has_ome: bool,
    /// Whether consolidated metadata lists the nodes.
    pub has_consolidated: bool,
}

/// What was found so far.
pub(super) struct Found<'v, 'a> {
    pub visit: &'v mut Visit<'v>,
    pub group: Group<'a>,
    /// Levels of images: consolidated metadata names them again.
    pub levels: ArrayVec<Str<'a>, GROUP_LEVELS_MAX>,
}

/// Reads a group; `visit` sees every node that its documents name. What it has seen counts only if
/// the whole is understood. `uri` names the group in texts.
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

/// What a document is, as far as it says: Array, Group, or Unknown.
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
                let reason = "is no array and no group";
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
        let (path, kind) = match text.map(|text| text.rsplit_once('/').unwrap_or(("", text))) {
            Some(("", ".zgroup" | ".zattrs")) | Some((_, ".zattrs")) => continue,
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

impl<'a> Found<'_, 'a> {
    /// Hands out the entry whose path `node` spells, and gives the spelling.
    pub fn add(
        &mut self,
        node: Node<'_, 'a>,
        kind: NodeKind,
        detail: Detail<'_>,
    ) -> Result<Str<'a>, Status> {
        let text = node.string()?;
        let mut buffer = [0; ENTRY_PATH_BYTES];
        let path = checked_path(node, text, text.decode_into(&mut buffer))?;
        (self.visit)(&Entry { path, kind, detail });
        Ok(text)
    }

    /// A node of consolidated metadata. Where OME-NGFF attributes name nodes, groups come from
    /// them alone; their levels were seen.
    fn add_listed(&mut self, path: &str, kind: NodeKind) {
        let is_seen = || self.levels.iter().any(|level| *level == *path);
        if kind == NodeKind::Group && self.group.has_ome || kind == NodeKind::Array && is_seen() {
            return;
        }
        (self.visit)(&Entry { path, kind, detail: Detail::None });
    }
}

/// The path that `text` spells, unless it is too long for a buffer, if it is one of an entry;
/// `node` is where it stands.
fn checked_path<'b>(
    node: Node<'_, '_>,
    text: Str<'_>,
    path: Option<&'b str>,
) -> Result<&'b str, Status> {
    let most = ENTRY_PATH_BYTES - 1;
    match path.map(|path| (path, path_fault(path))) {
        Some((_, Some(fault))) => Err(fail!(node, Decode, "path {text} {fault}")),
        Some((path, None)) if path.len() <= most => Ok(path),
        _ => Err(fail!(node, Unsupported, "path {text}: more than {most} bytes are not read")),
    }
}

/// What is wrong with a path that must lie inside a group.
pub(super) fn path_fault(path: &str) -> Option<&'static str> {
    let has_part = |is_bad: fn(&str) -> bool| path.split('/').any(is_bad);
    Some(match path {
        "" => "is empty: it must name a node in the group",
        _ if path.starts_with('/') => "is absolute: it must be relative to the group",
        _ if has_part(|part| part == "..") => "leaves the group",
        _ if has_part(|part| part.is_empty() || part == ".") => "has an empty part",
        _ if path.contains(char::is_control) => "has a control character",
        _ => return None,
    })
}

#[cfg(test)]
#[path = "group_tests.rs"]
mod tests;
