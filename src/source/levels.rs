//! Levels of an image by number or by size, `GROUP#level=2`, or for a box with a map: the uri of a
//! level's array.

use crate::base::status::{Status, Why};
use crate::base::text::Tail;
use crate::fail;
use crate::os::store::Store;
use crate::read::{Document, SHOWN_BYTES, read_document};
use crate::records::{DocumentKind, split_cf, split_level_name};
use crate::source::groups::{GroupPlace, read_group};
use crate::source::look::{Look, Seen};
use crate::source::zarr::{
    LevelFinder, NodeKind, Selection, VERSIONS_READ, group_from_documents, node_kind,
    split_selection,
};

/// Most bytes of a name that the system takes, and of a path.
const NAME_BYTES_MAX: usize = 255;
const SYSTEM_PATH_BYTES_MAX: usize = 4095;

/// Whether a uri that may select a level names no file for sure: what selects it makes the path, or
/// its last name, longer than the system takes.
pub fn is_no_path(store: &Store, uri: &str) -> bool {
    let has_long_name = || uri.split('/').any(|name| name.len() > NAME_BYTES_MAX);
    let is_long = uri.len() + 1 + DocumentKind::Zarr3.file_name().len() > SYSTEM_PATH_BYTES_MAX;
    split_selection(uri).is_some() && store.row.has_paths && (is_long || has_long_name())
}

/// The array that a level of an image is, for a uri that names no node itself.
pub fn level(look: &mut Look<'_>, why: &mut Why) -> Option<Result<Seen, Status>> {
    let (group, text) = split_selection(look.uri)?;
    why.clear();
    if split_cf(group).is_some() {
        let (shown, way) = (Tail(look.uri, SHOWN_BYTES), "write it after #");
        return Some(Err(fail!(why, Invalid, "{shown}: #cf=1 stands last: {way}{text}")));
    }
    let selection = Selection::read(text, look.uri, why);
    Some(selection.and_then(|selection| select_in_room(look, group, selection, why)))
}

/// The array and the place of a level, by the name that it has for boxes with a map.
pub fn mapped(look: &mut Look<'_>, why: &mut Why) -> Option<Result<Seen, Status>> {
    let (group, level) = split_level_name(look.uri)?;
    Some(level_of(look, group, level, why))
}

/// The same of a group and a number.
pub fn level_of<'a>(
    look: &mut Look<'a>,
    group: &'a str,
    level: u32,
    why: &mut Why,
) -> Result<Seen, Status> {
    // Texts name the group.
    look.uri = group;
    select_in_room(look, group, Selection::Level(level), why)
}

fn select_in_room(
    look: &mut Look<'_>,
    group: &str,
    selection: Selection<'_>,
    why: &mut Why,
) -> Result<Seen, Status> {
    match select(look, group, selection, why) {
        Ok(Seen::TooLarge) if look.is_large => {
            let text = "its documents are too large to be looked at: name an array";
            Err(fail!(why, Unsupported, "{}: {text}", Tail(group, SHOWN_BYTES)))
        }
        selected => selected,
    }
}

fn select(
    look: &mut Look<'_>,
    group: &str,
    selection: Selection<'_>,
    why: &mut Why,
) -> Result<Seen, Status> {
    let access = look.access;
    let Some(Document { kind, bytes, .. }) = read_document(access, group, look.buffer, why)? else {
        return Ok(Seen::TooLarge);
    };
    if node_kind(kind, bytes) == NodeKind::Array {
        let way = "is an array: leave out what begins with #";
        return Err(fail!(why, Invalid, "{}: {way}", Tail(group, SHOWN_BYTES)));
    }
    let place = GroupPlace { access, uri: group, kind, document_bytes: bytes.len() };
    let Some((documents, _)) = read_group(&place, look.buffer, why)? else {
        return Ok(Seen::TooLarge);
    };
    let mut finder = LevelFinder::new(selection);
    let found = group_from_documents(&documents, group, why, &mut |entry| finder.add(entry))?;
    if found.is_version_unread {
        let (shown, version) = (Tail(group, SHOWN_BYTES), found.version);
        let way = format_args!("only {VERSIONS_READ}: name one of the arrays in it");
        return Err(fail!(why, Unsupported, "{shown}: OME-NGFF {version} is not read, {way}"));
    }
    let path = finder.finish(group, why)?;
    look.placement = finder.placement();
    let what = ("the path of its level has", "group");
    look.alias(format_args!("{group}/{path}"), what, why)
}
