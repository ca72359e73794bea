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
use super::node::Reader;
use super::zarr3::{is_ignored, refuse_member};
use crate::base::limits::{ENTRY_PATH_BYTES, GROUP_LEVELS_MAX, RANK_MAX};
use crate::base::status::{Status, Why};
use crate::records::DocumentKind;
use crate::source::json::{self, Kind, Str, Value};
use arrayvec::ArrayVec;

/// What lies at a path.
#[repr(u32)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NodeKind {
    /// A node whose document could not be looked at.
    Unknown = 0,
    /// An array.
    Array = 1,
    /// A group, of any kind.
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
#[derive(Clone, Copy, Debug)]
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

/// The visitor, and which levels it has seen: consolidated metadata names them again.
pub(super) struct Visitor<'v, 'a> {
    pub visit: &'v mut Visit<'v>,
    pub levels: ArrayVec<Str<'a>, GROUP_LEVELS_MAX>,
}

/// A place for the path of an entry.
pub(super) type PathBuffer = [u8; ENTRY_PATH_BYTES - 1];

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
    let mut group = Group {
        kind: NodeKind::Group,
        version: Str::plain(""),
        name: Str::plain(""),
        image_count: 0,
        row_count: 0,
        column_count: 0,
        field_count: 0,
        has_ome: false,
        has_consolidated: false,
    };
    let visitor = &mut Visitor { visit: &mut |entry| visit(entry), levels: ArrayVec::new() };
    let name = documents.kind.file_name();
    let (mut reader, root) = Reader::open(uri, name, documents.group, why)?;
    if documents.kind == DocumentKind::Zarr3 {
        read_zarr3(&mut reader, root, visitor, &mut group)?;
        return Ok(group);
    }
    let [format, ..] = reader.pick(root, "zarr_format", 0)?;
    reader.check_format(root, format, 2)?;
    let (mut reader, attributes) = Reader::open(uri, ".zattrs", documents.attributes, why)?;
    read_ome(&mut reader, attributes, documents.kind, visitor, &mut group)?;
    let (mut reader, root) = Reader::open(uri, ".zmetadata", documents.consolidated, why)?;
    read_zmetadata(&mut reader, root, visitor, &mut group)?;
    Ok(group)
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

fn read_zarr3<'a>(
    reader: &mut Reader<'_>,
    root: Value<'a>,
    visitor: &mut Visitor<'_, 'a>,
    group: &mut Group<'a>,
) -> Result<(), Status> {
    let names = "zarr_format node_type attributes consolidated_metadata";
    let walked = reader.walk(root, names, is_ignored)?;
    let [format, node_type, attributes, consolidated, ..] = walked.members;
    reader.check_format(root, format, 3)?;
    let node_type = reader.required(root, "node_type", node_type)?;
    let name = reader.string(node_type)?;
    if name != *"group" {
        return Err(reader.decode(node_type, format_args!("{name} is not \"group\"")));
    }
    refuse_member(reader, root, walked.other)?;
    if let Some(attributes) = attributes.found() {
        read_ome(reader, attributes, DocumentKind::Zarr3, visitor, group)?;
    }
    match present(consolidated) {
        Some(consolidated) => read_consolidated(reader, consolidated, visitor, group),
        None => Ok(()),
    }
}

/// A member that is there and is not null.
pub(super) fn present(value: Value<'_>) -> Option<Value<'_>> {
    Some(value).filter(|value| value.kind() != Kind::Null)
}

/// The nodes that a zarr v3 group lists: `{"kind": "inline", "metadata": {PATH: DOCUMENT, ..}}`.
fn read_consolidated<'a>(
    reader: &mut Reader<'_>,
    value: Value<'a>,
    visitor: &mut Visitor<'_, 'a>,
    group: &mut Group<'a>,
) -> Result<(), Status> {
    let [metadata, kind, ..] = reader.pick(value, "metadata kind", 1)?;
    if let Some(kind) = kind.found() {
        let name = reader.string(kind)?;
        if name != *"inline" {
            return Err(reader.unknown(kind, "metadata", name, "\"inline\""));
        }
    }
    group.has_consolidated = true;
    let mut buffer: PathBuffer = [0; _];
    for (name, document) in reader.members(metadata)? {
        let path = entry_path(reader, metadata, name, &mut buffer)?;
        match kind_from_document(document) {
            NodeKind::Unknown => {
                let reason = format_args!("the document of {name} is no array and no group");
                return Err(reader.decode(metadata, reason));
            }
            kind => visitor.found(group, path, kind),
        }
    }
    Ok(())
}

/// The nodes that a zarr v2 group lists: `{"metadata": {PATH/.zarray: DOCUMENT, ..}}`.
fn read_zmetadata<'a>(
    reader: &mut Reader<'_>,
    root: Value<'a>,
    visitor: &mut Visitor<'_, 'a>,
    group: &mut Group<'a>,
) -> Result<(), Status> {
    let [metadata, ..] = reader.pick(root, "metadata", 0)?;
    let Some(metadata) = metadata.found() else { return Ok(()) };
    group.has_consolidated = true;
    let mut buffer = [0; ENTRY_PATH_BYTES + 8];
    for (key, _) in reader.members(metadata)? {
        if key.place_in(".zgroup .zattrs").is_some() {
            continue;
        }
        let Some(text) = key.decode_into(&mut buffer) else {
            return Err(too_long(reader, metadata, key));
        };
        let (path, kind) = match text.rsplit_once('/') {
            Some((path, ".zarray")) => (path, NodeKind::Array),
            Some((path, ".zgroup")) => (path, NodeKind::Group),
            Some((_, ".zattrs")) => continue,
            _ => {
                let reason = format_args!("{key} is none of .zarray, .zgroup and .zattrs");
                return Err(reader.decode(metadata, reason));
            }
        };
        check_path(reader, metadata, key, path)?;
        visitor.found(group, path, kind);
    }
    Ok(())
}

impl Visitor<'_, '_> {
    /// A node of consolidated metadata. Where OME-NGFF attributes name nodes, groups come from
    /// them alone; their levels were seen.
    fn found(&mut self, group: &Group<'_>, path: &str, kind: NodeKind) {
        let is_seen = || self.levels.iter().any(|level| *level == *path);
        if kind == NodeKind::Group && group.has_ome || kind == NodeKind::Array && is_seen() {
            return;
        }
        (self.visit)(&Entry { path, kind, detail: Detail::None });
    }
}

fn too_long(reader: &mut Reader<'_>, value: Value<'_>, path: Str<'_>) -> Status {
    let most = ENTRY_PATH_BYTES - 1;
    reader.unsupported(value, format_args!("path {path}: more than {most} bytes are not read"))
}

/// The path that a document names, checked, in `buffer`; `value` is where it stands.
pub(super) fn entry_path<'b>(
    reader: &mut Reader<'_>,
    value: Value<'_>,
    text: Str<'_>,
    buffer: &'b mut PathBuffer,
) -> Result<&'b str, Status> {
    let Some(path) = text.decode_into(buffer) else { return Err(too_long(reader, value, text)) };
    check_path(reader, value, text, path)?;
    Ok(path)
}

fn check_path(
    reader: &mut Reader<'_>,
    value: Value<'_>,
    text: Str<'_>,
    path: &str,
) -> Result<(), Status> {
    match path_fault(path) {
        Some(fault) => Err(reader.decode(value, format_args!("path {text} {fault}"))),
        None if path.len() >= ENTRY_PATH_BYTES => Err(too_long(reader, value, text)),
        None => Ok(()),
    }
}

/// What is wrong with a path that must lie inside a group.
pub(super) fn path_fault(path: &str) -> Option<&'static str> {
    if path.is_empty() {
        Some("is empty: it must name a node in the group")
    } else if path.starts_with('/') {
        Some("is absolute: it must be relative to the group")
    } else if path.split('/').any(|part| part == "..") {
        Some("leaves the group")
    } else if path.split('/').any(|part| part.is_empty() || part == ".") {
        Some("has an empty part")
    } else if path.contains(|character: char| character.is_control()) {
        Some("has a control character")
    } else {
        None
    }
}

#[cfg(test)]
#[path = "group_tests.rs"]
mod tests;
