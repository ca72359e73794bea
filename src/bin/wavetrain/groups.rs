//! What `inspect` says of a group: images with axes and levels, plates with wells and fields, or
//! the nodes in it.
//!
//! In: what the library found in a group. Out: text or one JSON object. Levels and wells are looked
//! at one by one; what cannot be read is named with its reason.

use crate::fault::failure_text;
use crate::report;
use crate::store;
use serde_json::{Map, Value, json};
use std::fmt::Write as _;
use wavetrain::abi::{ArrayInfo, NO_INDEX};
use wavetrain::loader::{EntryView, GroupView, Node};
use wavetrain::source::zarr::NodeKind;

/// Wells and nodes that the text lists; JSON has all of them.
const SHOWN_MAX: usize = 24;

/// The word for a kind of node.
pub fn kind_name(kind: NodeKind) -> &'static str {
    match kind {
        NodeKind::Unknown => "unknown",
        NodeKind::Array => "array",
        NodeKind::Group => "group",
        NodeKind::Image => "image",
        NodeKind::Plate => "plate",
        NodeKind::Well => "well",
    }
}

fn levels<'s>(group: &GroupView<'s>) -> Vec<EntryView<'s>> {
    group.entries().filter(|entry| entry.raw().level != NO_INDEX).collect()
}

/// The uri of a node in a group.
pub fn child(uri: &str, entry: &EntryView<'_>) -> String {
    format!("{}/{}", uri.trim_end_matches('/'), entry.path())
}

/// The array of a level, or why there is none.
fn level_array(uri: &str, level: &EntryView<'_>, scratch: &mut [u8]) -> Result<ArrayInfo, String> {
    store::array_info(&child(uri, level), scratch).map_err(|failure| failure_text(&failure))
}

/// The fields of a well, or why it is none.
fn well_fields(uri: &str, well: &EntryView<'_>, scratch: &mut [u8]) -> Result<Vec<String>, String> {
    match store::node_info(&child(uri, well), scratch) {
        Ok(Node::Group(group)) => {
            let fields = group.entries().filter(|entry| entry.kind() == NodeKind::Image);
            Ok(fields.map(|entry| entry.path().to_owned()).collect())
        }
        Ok(Node::Array(_)) => Err("is an array".to_owned()),
        Err(failure) => Err(failure_text(&failure)),
    }
}

/// A group as one JSON object. `scratch` is for the nodes in it.
pub fn group_json(uri: &str, group: &GroupView<'_>, scratch: &mut [u8]) -> Value {
    let info = group.info();
    let mut map = Map::new();
    let mut put = |name: &str, value: Value| map.insert(name.to_owned(), value);
    put("uri", json!(uri));
    put("accepted", json!(true));
    put("kind", json!(kind_name(group.kind())));
    put("name", json!(report::name_text(&info.name)));
    put("ngff_version", json!(report::name_text(&info.ngff_version)));
    match group.kind() {
        NodeKind::Image => {
            put("images", json!(info.image_count));
            let levels = levels(group);
            let levels = levels.iter().map(|level| level_json(uri, level, scratch));
            put("levels", levels.collect());
        }
        NodeKind::Plate => {
            put("rows", json!(info.row_count));
            put("columns", json!(info.column_count));
            put("field_count", json!(info.field_count));
            let wells = group.entries().filter(|entry| entry.kind() == NodeKind::Well);
            put("wells", wells.map(|well| well_json(uri, &well, scratch)).collect());
        }
        _ => {}
    }
    let nodes = group.entries();
    put("nodes", nodes.map(|node| json!([node.path(), kind_name(node.kind())])).collect());
    put("node_count", json!(info.entry_total));
    let is_whole = info.entry_total == u64::from(info.entry_count) && info.entries_are_cut == 0;
    put("nodes_are_all", json!(is_whole));
    Value::Object(map)
}

fn level_json(uri: &str, level: &EntryView<'_>, scratch: &mut [u8]) -> Value {
    let raw = level.raw();
    let axes: Vec<Value> = level
        .axes()
        .map(|[name, kind, unit]| json!({"name": name, "type": kind, "unit": unit}))
        .collect();
    let mut value = json!({
        "path": level.path(), "image": raw.image, "name": level.image_name(), "level": raw.level,
        "axes": axes, "has_transform": raw.has_transform == 1,
        "scale": level.scale(), "translation": level.translation(),
    });
    match level_array(uri, level, scratch) {
        Ok(info) => {
            let rank = info.rank as usize;
            value["shape"] = json!(info.shape[..rank]);
            value["chunk_shape"] = json!(info.chunk_shape[..rank]);
            value["dtype_name"] = json!(report::name_text(&info.dtype_name));
        }
        Err(text) => value["error"] = json!(text),
    }
    value
}

fn well_json(uri: &str, well: &EntryView<'_>, scratch: &mut [u8]) -> Value {
    let index = |number: u32| if number == NO_INDEX { Value::Null } else { json!(number) };
    let raw = well.raw();
    let mut value =
        json!({"path": well.path(), "row": index(raw.row), "column": index(raw.column)});
    match well_fields(uri, well, scratch) {
        Ok(fields) => value["fields"] = json!(fields),
        Err(text) => value["error"] = json!(text),
    }
    value
}

/// A group as text. `scratch` is for the nodes in it.
pub fn group_text(uri: &str, group: &GroupView<'_>, scratch: &mut [u8]) -> String {
    let info = group.info();
    let mut text = format!("{}\n", report::line(uri));
    let kind = kind_name(group.kind());
    let name = report::line(&report::name_text(&info.name));
    let version = report::name_text(&info.ngff_version);
    let format = if version.is_empty() { String::new() } else { format!("OME-NGFF {version}") };
    let what = [name, format].into_iter().filter(|part| !part.is_empty());
    let what = what.collect::<Vec<_>>().join(", ");
    // Writing into a String cannot fail.
    let _ =
        writeln!(text, "  {kind:<12} {}", if what.is_empty() { "without a name" } else { &what });
    match group.kind() {
        NodeKind::Image => {
            for image in 0..info.image_count {
                let levels = levels(group).into_iter().filter(|level| level.raw().image == image);
                image_text(uri, &levels.collect::<Vec<_>>(), scratch, &mut text);
            }
        }
        NodeKind::Plate => plate_text(uri, group, scratch, &mut text),
        _ => {}
    }
    let others: Vec<String> = group
        .entries()
        .filter(|entry| entry.raw().level == NO_INDEX && entry.kind() != NodeKind::Well)
        .map(|entry| format!("{} ({})", report::line(entry.path()), kind_name(entry.kind())))
        .collect();
    list_text("nodes", &others, &mut text);
    let hidden = info.entry_total - u64::from(info.entry_count);
    if hidden > 0 || info.entries_are_cut != 0 {
        let _ = writeln!(text, "  {:<12} {hidden} nodes or more are not listed", "");
    }
    text
}

/// A row of names, cut where there are many.
fn list_text(name: &str, items: &[String], text: &mut String) {
    if items.is_empty() {
        return;
    }
    let listed = items[..items.len().min(SHOWN_MAX)].join(", ");
    let hidden = items.len().saturating_sub(SHOWN_MAX);
    let more = if hidden > 0 { format!(" (and {hidden} more)") } else { String::new() };
    let _ = writeln!(text, "  {name:<12} {listed}{more}");
}

fn image_text(uri: &str, levels: &[EntryView<'_>], scratch: &mut [u8], text: &mut String) {
    let Some(first) = levels.first() else { return };
    let axes: Vec<String> = first
        .axes()
        .map(|[name, kind, unit]| {
            let said = [kind, unit].into_iter().filter(|part| !part.is_empty()).map(report::line);
            let said = said.collect::<Vec<_>>().join(", ");
            let name = report::line(name);
            if said.is_empty() { name } else { format!("{name} ({said})") }
        })
        .collect();
    if first.raw().image > 0 {
        let _ = writeln!(text, "  {:<12} {}", "image", report::line(first.image_name()));
    }
    let _ = writeln!(text, "  {:<12} {}", "axes", axes.join(", "));
    let head = ["level", "shape", "type", "chunks", "scale", "origin"].map(str::to_owned);
    let rows: Vec<[String; 6]> = std::iter::once(head)
        .chain(levels.iter().map(|level| level_row(uri, level, scratch)))
        .collect();
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let widths: [usize; 6] = std::array::from_fn(width);
    for (number, row) in rows.iter().enumerate() {
        let cells: Vec<String> =
            row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        let name = if number == 0 { "levels" } else { "" };
        let _ = writeln!(text, "  {name:<12} {}", cells.join("  ").trim_end());
    }
}

fn list(numbers: &[f64]) -> String {
    let numbers = numbers.iter().map(|number| match number.abs() {
        0.0 | 1e-5..1e16 => number.to_string(),
        _ => format!("{number:e}"),
    });
    numbers.collect::<Vec<_>>().join(", ")
}

fn level_row(uri: &str, level: &EntryView<'_>, scratch: &mut [u8]) -> [String; 6] {
    let has_origin = level.translation().iter().any(|offset| offset.abs() > 0.0);
    let origin = if has_origin { list(level.translation()) } else { String::new() };
    let scale = match level.raw().has_transform {
        0 => "unknown".to_owned(),
        1 => list(level.scale()),
        _ => "not read".to_owned(),
    };
    let path = report::line(level.path());
    match level_array(uri, level, scratch) {
        Ok(info) => {
            let rank = info.rank as usize;
            let shape = report::crosses(&info.shape[..rank]);
            let chunks = report::crosses(&info.chunk_shape[..rank]);
            [path, shape, report::name_text(&info.dtype_name), chunks, scale, origin]
        }
        Err(_) => [path, "rejected".to_owned(), "-".to_owned(), "-".to_owned(), scale, origin],
    }
}

fn plate_text(uri: &str, group: &GroupView<'_>, scratch: &mut [u8], text: &mut String) {
    let info = group.info();
    let wells: Vec<EntryView<'_>> =
        group.entries().filter(|entry| entry.kind() == NodeKind::Well).collect();
    let fields = match info.field_count {
        0 => String::new(),
        1 => ", one field each".to_owned(),
        count => format!(", up to {count} fields each"),
    };
    let (rows, columns) = (info.row_count, info.column_count);
    let grid = format!("{rows} rows x {columns} columns, {} wells{fields}", wells.len());
    let _ = writeln!(text, "  {:<12} {grid}", "grid");
    let mut items: Vec<String> = Vec::new();
    for (number, well) in wells.iter().enumerate() {
        // Wells that are not shown are not looked at.
        items.push(match number < SHOWN_MAX {
            false => String::new(),
            true => match well_fields(uri, well, scratch) {
                Ok(fields) => {
                    format!("{} ({})", report::line(well.path()), report::line(&fields.join(" ")))
                }
                Err(_) => format!("{} (cannot be read)", report::line(well.path())),
            },
        });
    }
    list_text("wells", &items, text);
}
