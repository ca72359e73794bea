//! A group where an array must be: what its documents name is what serde_json sees in them, and the
//! refusal shows as many of these names as it holds and counts the others.
//!
//! Input: a byte of form, one of the uri's length, one of the note, then, by form:
//! 0: a `zarr.json`; 1: `.zgroup`, `.zattrs` and `.zmetadata` with a NUL between two; 2: names as a
//! folder lists them, a slash between two, each behind a byte that says what it is.

use serde_json::Value;
use std::path::{Component, Path};
use wavetrain::base::limits::{EDGE_RUNS_MAX, ENTRY_PATH_BYTES};
use wavetrain::base::text::Text;
use wavetrain::records::DocumentKind;
use wavetrain::records::grid::EdgeRun;
use wavetrain::source::json;
use wavetrain::source::zarr::{
    Detail, Entry, GroupDocuments, GroupRefusal, NodeKind, array_from_document,
    group_from_documents, node_kind,
};
use wavetrain::status::{Status, Why};

const KINDS: [NodeKind; 6] = [
    NodeKind::Unknown,
    NodeKind::Array,
    NodeKind::Group,
    NodeKind::Image,
    NodeKind::Plate,
    NodeKind::Well,
];

/// Reasons why names are missing; the longest is as long as any that is used.
const NOTES: [&str; 3] =
    ["", "; more were not looked at", " (its attributes about them are not understood)"];

/// Paths of nodes, in the order in which they were seen.
#[derive(Default)]
struct Nodes {
    arrays: Vec<String>,
    groups: Vec<String>,
}

impl Nodes {
    fn add(&mut self, path: &str, kind: NodeKind) {
        match kind {
            NodeKind::Array => self.arrays.push(path.to_owned()),
            NodeKind::Unknown => {}
            _ => self.groups.push(path.to_owned()),
        }
    }
}

/// Checks one input.
pub fn run(data: &[u8]) {
    let Some(([form, uri, note], rest)) = data.split_first_chunk::<3>() else { return };
    let uri = format!("/{}", "u".repeat(usize::from(*uri) * 16));
    let document = [DocumentKind::Zarr3, DocumentKind::Zarr2Group][usize::from(form % 3).min(1)];
    let mut refusal = GroupRefusal::new(document);
    refusal.note = NOTES[usize::from(*note) % NOTES.len()];
    let mut nodes = Nodes::default();
    let mut add = |entry: &Entry<'_>| {
        nodes.add(entry.path, entry.kind);
        refusal.add(entry);
    };
    if form % 3 == 2 {
        for name in String::from_utf8_lossy(rest).split('/') {
            let Some((place, path)) = name.split_at_checked(1) else { continue };
            let kind = KINDS[usize::from(place.as_bytes()[0]) % KINDS.len()];
            assert_eq!(NodeKind::from_code(kind as u32), kind);
            add(&Entry { path, kind, detail: Detail::None });
        }
        refusal.kind = KINDS[usize::from(*note) % KINDS.len()];
        return check_text(&refusal, &nodes, &uri);
    }
    let mut parts = rest.splitn(if form % 3 == 0 { 1 } else { 3 }, |byte| *byte == 0);
    let mut part = || parts.next().unwrap_or(b"{}");
    let (group, attributes, consolidated) = (part(), part(), part());
    let documents = GroupDocuments { kind: document, group, attributes, consolidated };
    let mut why = Why::new();
    match group_from_documents(&documents, &uri, &mut why, &mut add) {
        Ok(group) => {
            assert!(why.is_empty(), "{why}");
            assert_eq!(NodeKind::from_code(group.kind as u32), group.kind);
            assert_eq!(node_kind(document, documents.group), NodeKind::Group);
            check_no_array(&documents, &uri);
            check_nodes(&documents, group.has_consolidated, &nodes);
            refusal.kind = group.kind;
            check_text(&refusal, &nodes, &uri);
        }
        Err(status) => {
            assert!(matches!(status, Status::Decode | Status::Unsupported), "{status}: {why}");
            assert!(!why.as_str().contains(char::is_control), "{why}");
            // Names of a group that is not understood are not shown.
            let refusal = GroupRefusal::new(document);
            check_text(&refusal, &Nodes::default(), &uri);
        }
    }
    check_kind(&documents);
}

/// Whoever reads the document as an array's is told that it is a group's.
fn check_no_array(documents: &GroupDocuments<'_>, uri: &str) {
    let (mut why, mut table) = (Why::new(), [EdgeRun::EMPTY; EDGE_RUNS_MAX]);
    let array =
        array_from_document(documents.kind, documents.group, (uri, None), &mut table, &mut why);
    assert_eq!(array.map(|_| ()), Err(Status::NotFound));
    assert!(why.as_str().contains(": is a group: name one of the arrays in it"), "{why}");
}

/// What a document is, is what its `node_type` says.
fn check_kind(documents: &GroupDocuments<'_>) {
    let kind = node_kind(documents.kind, documents.group);
    assert_eq!(node_kind(DocumentKind::Zarr2Array, documents.group), NodeKind::Array);
    if documents.kind == DocumentKind::Zarr2Group {
        return assert_eq!(kind, NodeKind::Group);
    }
    let root = serde_json::from_slice::<Value>(documents.group);
    let node_type = root.as_ref().ok().and_then(|root| root["node_type"].as_str());
    match kind {
        NodeKind::Array => assert!(root.is_err() || node_type == Some("array")),
        NodeKind::Group => assert!(root.is_err() || node_type == Some("group")),
        // A name that comes twice says nothing.
        _ => assert!(!names_once(documents.group, &[]) || node_type.is_none_or(is_other)),
    }
}

fn is_other(node_type: &str) -> bool {
    node_type != "array" && node_type != "group"
}

/// Whether no name comes twice in the object at `way`. serde_json shows only the last of them.
fn names_once(document: &[u8], way: &[&str]) -> bool {
    let mut value = json::parse(document).ok();
    for name in way {
        value = value.and_then(|value| value.members()).and_then(|members| members.get(name));
    }
    let members = value.and_then(|value| value.members()).into_iter().flatten();
    let mut names: Vec<String> = members.map(|(name, _)| name.chars().collect()).collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    names.len() == count
}

/// Names are those of the documents: levels, wells, fields, label images, and what consolidated
/// metadata lists, as far as no attribute named it.
fn check_nodes(documents: &GroupDocuments<'_>, has_consolidated: bool, nodes: &Nodes) {
    let parse = |document: &[u8]| serde_json::from_slice::<Value>(document).ok();
    let is_zarr3 = documents.kind == DocumentKind::Zarr3;
    // Numbers that serde_json does not hold are none of those that we read.
    let Some(root) = parse(documents.group) else { return };
    let (attributes, listed) = match is_zarr3 {
        true => (Some(root["attributes"].clone()), root["consolidated_metadata"].get("metadata")),
        false => (parse(documents.attributes), None),
    };
    let zmetadata = parse(documents.consolidated);
    let (Some(attributes), Some(zmetadata)) = (attributes, zmetadata) else { return };
    let listed = if is_zarr3 { listed } else { zmetadata.get("metadata") };
    assert_eq!(listed.is_some(), has_consolidated);
    let is_once = match is_zarr3 {
        true => names_once(documents.group, &["consolidated_metadata", "metadata"]),
        false => names_once(documents.consolidated, &["metadata"]),
    };
    if !is_once {
        return;
    }
    let mut expected = Nodes::default();
    let has_ome = add_ome(&attributes, is_zarr3, &mut expected);
    let levels = expected.arrays.clone();
    for (name, document) in listed.and_then(Value::as_object).into_iter().flatten() {
        let (path, kind) = if is_zarr3 {
            (name.as_str(), document["node_type"].as_str().expect("a type"))
        } else {
            match name.rsplit_once('/') {
                Some((path, ".zarray")) => (path, "array"),
                Some((path, ".zgroup")) => (path, "group"),
                _ => continue,
            }
        };
        assert!(is_inside(path), "{path}");
        match kind {
            "array" if levels.iter().all(|level| level != path) => {
                expected.arrays.push(path.to_owned());
            }
            "group" if !has_ome => expected.groups.push(path.to_owned()),
            _ => {}
        }
    }
    assert_eq!(sorted(&nodes.arrays), sorted(&expected.arrays));
    assert_eq!(sorted(&nodes.groups), sorted(&expected.groups));
}

/// serde_json gives members in the order of their names.
fn sorted(paths: &[String]) -> Vec<&String> {
    let mut paths: Vec<&String> = paths.iter().collect();
    paths.sort_unstable();
    paths
}

/// Adds what OME-NGFF attributes name and says whether they name anything.
fn add_ome(attributes: &Value, is_zarr3: bool, nodes: &mut Nodes) -> bool {
    let ome = attributes.get("ome");
    let source = ome.unwrap_or(attributes);
    let items = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let path = |item: &Value| item["path"].as_str().expect("a path").to_owned();
    for image in items(&source["multiscales"]) {
        nodes.arrays.extend(items(&image["datasets"]).iter().map(path));
    }
    nodes.groups.extend(items(&source["plate"]["wells"]).iter().map(path));
    nodes.groups.extend(items(&source["well"]["images"]).iter().map(path));
    let labels = &source["labels"];
    let paths: Vec<Value> = items(labels);
    let is_list =
        labels.is_array() && paths.iter().all(|path| path.as_str().is_some_and(is_inside));
    let has_labels = source.get("labels").is_some() && (ome.is_some() || !is_zarr3 && is_list);
    if has_labels {
        let text = |item: &Value| item.as_str().expect("a path").to_owned();
        nodes.groups.extend(paths.iter().map(text));
    }
    has_labels || ["multiscales", "plate", "well"].iter().any(|name| source.get(name).is_some())
}

/// Whether a path lies inside the group, as std reads paths, spelled in one way and not too long.
fn is_inside(path: &str) -> bool {
    let is_normal = |part| matches!(part, Component::Normal(_));
    let is_plain = path.split('/').all(|part| !part.is_empty() && part != ".");
    is_plain
        && path.len() < ENTRY_PATH_BYTES
        && !path.contains(char::is_control)
        && Path::new(path).components().all(is_normal)
}

/// The refusal is whole, and says where, what it is, which names there are, and the note.
fn check_text(refusal: &GroupRefusal, nodes: &Nodes, uri: &str) {
    let mut why = Why::new();
    assert_eq!(refusal.refuse(uri, &mut why), Status::NotFound);
    assert!(!why.is_cut(), "{why}");
    let (what, below) = match refusal.kind {
        NodeKind::Image => ("an image, which is a group", "groups"),
        NodeKind::Plate => ("a plate, which is a group", "wells"),
        NodeKind::Well => ("a well, which is a group", "fields"),
        _ => ("a group", "groups"),
    };
    let file_name = refusal.document.file_name();
    let (file, rest) =
        why.as_str().split_once(&format!("/{file_name}: is {what}")).expect("a file");
    let end = file.strip_prefix("...").unwrap_or(file);
    let uri = one_line(uri);
    assert!(uri.ends_with(end) && (file == uri || end.len() >= 100), "{why}");
    let (lead, names) = match (&nodes.arrays[..], &nodes.groups[..]) {
        ([], []) => {
            return assert_eq!(rest, format!(": name one of the arrays in it{}", refusal.note));
        }
        ([], groups) => (format!(", name an array in one of its {below}: "), groups),
        (arrays, _) => (", name one of its arrays: ".to_owned(), arrays),
    };
    let shown = rest.strip_prefix(&lead).and_then(|rest| rest.strip_suffix(refusal.note));
    let shown = shown.unwrap_or_else(|| panic!("{why}"));
    let count = (0..=names.len()).find(|count| shown == first_names(names, *count));
    let count = count.unwrap_or_else(|| panic!("{why} of {names:?}"));
    // A name is left out only where there is no room for it.
    if let Some(next) = names.get(count) {
        let shown = one_line(&names[..count].join(", "));
        assert!(shown.len() + one_line(next).len() > 200, "{why}");
    }
}

/// A text as lines of the log and error texts have it.
fn one_line(text: &str) -> String {
    // An escape has ten bytes at most.
    let piece = |piece: &[char]| {
        let mut line = Text::<8192>::new();
        line.write_line(format_args!("{}", piece.iter().collect::<String>()));
        assert!(!line.is_cut());
        line.as_str().to_owned()
    };
    text.chars().collect::<Vec<_>>().chunks(800).map(piece).collect()
}

/// The first `count` names, the rest counted.
fn first_names(names: &[String], count: usize) -> String {
    let hidden = names.len() - count;
    let shown = one_line(&names[..count].join(", "));
    match (count, hidden) {
        (_, 0) => shown,
        (0, _) => format!("{hidden} with long names"),
        _ => format!("{shown} (and {hidden} more)"),
    }
}
