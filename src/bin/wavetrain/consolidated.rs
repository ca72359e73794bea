//! Whether the consolidated metadata of a group still agrees with the documents of its nodes.
//!
//! In: the folder of a group, and the nodes below it. Out: a line for each node that differs, is
//! listed and absent, or is not listed. Members that are empty or null differ from none that are
//! left out: zarr-python spells out what other writers leave away. The library reads the documents
//! of the nodes themselves, so that stale metadata misleads other readers alone.

use crate::nodes::{document, document_at, has};
use serde_json::{Map, Value};
use std::path::{Component, Path};
use wavetrain::read::{ATTRIBUTES_FILE_NAME, CONSOLIDATED_FILE_NAME};

/// The member of a group of zarr v3 that holds the documents of its nodes.
const MEMBER: &str = "consolidated_metadata";

/// The stale nodes of a group that has consolidated metadata, a line for each.
pub fn stale<'a>(folder: &Path, nodes: impl Iterator<Item = &'a str>) -> Vec<String> {
    let is_v3 = has(folder, "zarr.json");
    let found =
        if is_v3 { document(folder) } else { document_at(&folder.join(CONSOLIDATED_FILE_NAME)) };
    let mut whole = match found {
        Ok(whole) => whole.unwrap_or_default(),
        Err(reason) => return vec![format!("it cannot be read: {reason}")],
    };
    let place = if is_v3 { &mut whole[MEMBER] } else { &mut whole };
    let Value::Object(listed) = place["metadata"].take() else { return Vec::new() };
    let mut lines: Vec<String> =
        listed.iter().filter_map(|(key, value)| difference(folder, key, value, is_v3)).collect();
    let nodes = nodes.filter_map(|node| Path::new(node).strip_prefix(folder).ok()?.to_str());
    let unlisted = nodes.filter(|node| !node.is_empty() && !is_listed(&listed, node, is_v3));
    lines.extend(unlisted.map(|node| format!("{node} is not listed")));
    lines
}

fn is_listed(listed: &Map<String, Value>, node: &str, is_v3: bool) -> bool {
    match is_v3 {
        true => listed.contains_key(node),
        false => {
            [".zarray", ".zgroup"].iter().any(|name| listed.contains_key(&format!("{node}/{name}")))
        }
    }
}

/// How the document of a node differs from what is listed of it.
fn difference(folder: &Path, key: &str, listed: &Value, is_v3: bool) -> Option<String> {
    let is_inside = |part| matches!(part, Component::Normal(_));
    if !Path::new(key).components().all(is_inside) {
        return Some(format!("{key:?} is listed and leaves the group"));
    }
    let path = folder.join(key);
    match if is_v3 { document(&path) } else { document_at(&path) } {
        Ok(Some(own)) => {
            first_difference(listed, &own).map(|member| format!("{key} differs in {member}"))
        }
        // A node without attributes may have no file of them.
        Ok(None) if key.ends_with(ATTRIBUTES_FILE_NAME) && is_empty(listed) => None,
        Ok(None) => Some(format!("{key} is listed and absent")),
        Err(reason) => Some(format!("{key} cannot be compared: {reason}")),
    }
}

/// The first member in which two documents differ.
fn first_difference(listed: &Value, own: &Value) -> Option<String> {
    let (Value::Object(a), Value::Object(b)) = (listed, own) else {
        return (listed != own).then(|| "a value that is not an object".to_owned());
    };
    let members = a.keys().chain(b.keys()).filter(|name| *name != MEMBER);
    let differing = |name: &&String| !is_same(a.get(*name), b.get(*name));
    members.filter(differing).min().cloned()
}

/// Whether two members are alike. The parser bounds how deep they are.
fn is_same(a: Option<&Value>, b: Option<&Value>) -> bool {
    let (a, b) = (a.unwrap_or(&Value::Null), b.unwrap_or(&Value::Null));
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => {
            a.keys().chain(b.keys()).all(|name| is_same(a.get(name), b.get(name)))
        }
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_same(Some(a), Some(b)))
        }
        (Value::Number(one), Value::Number(other)) if one.is_f64() || other.is_f64() => {
            one.as_f64() == other.as_f64()
        }
        _ => a == b || is_empty(a) && is_empty(b),
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    }
}
