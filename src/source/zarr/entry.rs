//! The nodes of a group: what is known of each, and the way from a document to who looks at them.
//!
//! Invariant: the path of an entry lies inside the group.

use super::node::Node;
use super::transforms::Transform;
use crate::base::limits::{ENTRY_PATH_BYTES, GROUP_LEVELS_MAX, RANK_MAX};
use crate::base::status::Status;
use crate::fail;
use crate::source::json::Str;
use arrayvec::ArrayVec;

/// The kind of node at a path.
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

/// A level of a multiscale image.
#[derive(Clone, Debug)]
pub struct Level<'a> {
    /// Which of the group's multiscales.
    pub image: u32,
    /// Its place in that, the finest first.
    pub level: u32,
    /// The name of the multiscale; empty if it has none.
    pub name: Str<'a>,
    /// Its axes.
    pub axes: &'a Axes<'a>,
    /// The level's own transformations, then those of the multiscale.
    pub transform: Transform,
}

/// The facts of an entry besides its kind.
#[derive(Clone, Debug)]
pub enum Detail<'a> {
    /// Nothing.
    None,
    /// An array that is a level of an image.
    Level(Level<'a>),
    /// A well: its row and its column, if the document gives them.
    Well(Option<[u32; 2]>),
    /// A field of a well, and the acquisition that it is of, if the document gives it.
    Field(Option<u32>),
}

/// A node inside a group.
#[derive(Clone, Debug)]
pub struct Entry<'a> {
    /// Its path below the group: no empty, "." or ".." part, no control character.
    pub path: &'a str,
    /// Its kind.
    pub kind: NodeKind,
    /// Its other facts.
    pub detail: Detail<'a>,
}

/// The function that gets the entries.
pub type Visit<'v> = dyn FnMut(&Entry<'_>) + 'v;

/// The facts of a group in its documents.
#[derive(Clone, Copy, Default, Debug)]
pub struct Group<'a> {
    /// Group, Image, Plate or Well.
    pub kind: NodeKind,
    /// Version of OME-NGFF; empty if the group has none or does not give it.
    pub version: Str<'a>,
    /// Whether that version is not read: its arrays are listed, and nothing else.
    pub is_version_unread: bool,
    /// Name of the plate, or of the first multiscale that has one; else empty.
    pub name: Str<'a>,
    /// Multiscales.
    pub image_count: u32,
    /// Rows of a plate.
    pub row_count: u32,
    /// Columns of a plate.
    pub column_count: u32,
    /// Most fields in a well, as the plate says; 0 if it does not.
    pub field_count: u32,
    /// Whether OME-NGFF attributes name nodes.
    pub has_ome: bool,
    /// Whether consolidated metadata lists the nodes.
    pub has_consolidated: bool,
}

/// The entries that were found so far.
pub(super) struct Found<'v, 'a> {
    pub visit: &'v mut Visit<'v>,
    pub group: Group<'a>,
    /// Levels of images: consolidated metadata names them again.
    pub levels: ArrayVec<Str<'a>, GROUP_LEVELS_MAX>,
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

    /// A node of consolidated metadata. If OME-NGFF attributes name nodes, groups come from them
    /// alone; their levels were seen.
    pub fn add_listed(&mut self, path: &str, kind: NodeKind) {
        let is_seen = || self.levels.iter().any(|level| *level == *path);
        if kind == NodeKind::Group && self.group.has_ome || kind == NodeKind::Array && is_seen() {
            return;
        }
        (self.visit)(&Entry { path, kind, detail: Detail::None });
    }
}

/// The path that `text` spells, unless it is too long for a buffer, if it is one of an entry;
/// `node` is its place.
pub(super) fn checked_path<'b>(
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

/// The fault of a path that must lie inside a group.
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
