//! Any bytes as the attributes of a group: refused with a text, or a group whose entries keep their
//! promises and are what serde_json sees in the same document.
//!
//! Input: one byte of form (0: attributes of a zarr v3 group, 1: `.zattrs`, 2: a whole `zarr.json`,
//! 3: `.zmetadata`), then the document.

use serde_json::Value;
use std::path::{Component, Path};
use wavetrain::base::limits::{ENTRY_PATH_BYTES, GROUP_LEVELS_MAX, RANK_MAX};
use wavetrain::records::DocumentKind;
use wavetrain::source::zarr::{
    Detail, Entry, Group, GroupDocuments, NodeKind, group_from_documents,
};
use wavetrain::status::{Status, Why};

/// An entry as the oracle compares it.
struct Seen {
    path: String,
    kind: NodeKind,
    level: Option<(u32, u32, Vec<String>, Vec<f64>, Vec<f64>)>,
    is_refused: bool,
    place: Option<[u32; 2]>,
}

/// Checks one input.
pub fn run(data: &[u8]) {
    let Some((form, document)) = data.split_first() else { return };
    let form = form % 4;
    let wrapped =
        [br#"{"zarr_format":3,"node_type":"group","attributes":"#, document, b"}"].concat();
    let (zarr3, zarr2) = (DocumentKind::Zarr3, DocumentKind::Zarr2Group);
    let empty: &[u8] = b"{}";
    let zgroup: &[u8] = br#"{"zarr_format": 2}"#;
    let (kind, group, attributes, consolidated) = match form {
        0 => (zarr3, &wrapped[..], empty, empty),
        1 => (zarr2, zgroup, document, empty),
        2 => (zarr3, document, empty, empty),
        _ => (zarr2, zgroup, empty, document),
    };
    let mut why = Why::new();
    let mut seen = Vec::new();
    let documents = GroupDocuments { kind, group, attributes, consolidated };
    let visit = &mut |entry: &Entry<'_>| seen.push(checked(entry));
    match group_from_documents(&documents, "/g", &mut why, visit) {
        Ok(group) => check(form, document, &wrapped, &group, &seen),
        Err(status) => {
            assert!(matches!(status, Status::Decode | Status::Unsupported), "{status}: {why}");
            assert!(why.as_str().starts_with("/g/"), "{why}");
        }
    }
}

/// An entry whose own promises hold.
fn checked(entry: &Entry<'_>) -> Seen {
    let path = entry.path;
    assert!(!path.is_empty() && path.len() < ENTRY_PATH_BYTES);
    assert!(!path.contains(char::is_control) && !path.ends_with('/') && !path.contains("//"));
    assert!(path.split('/').all(|part| part != "."));
    assert!(Path::new(path).components().all(|part| matches!(part, Component::Normal(_))));
    let mut seen = Seen {
        path: path.to_owned(),
        kind: entry.kind,
        level: None,
        is_refused: false,
        place: None,
    };
    match &entry.detail {
        Detail::Level(level) => {
            let rank = level.axes.len();
            assert!(entry.kind == NodeKind::Array && (1..=RANK_MAX).contains(&rank));
            let transform = &level.transform;
            assert!(transform.scale.iter().all(|number| number.is_finite()));
            assert!(transform.translation.iter().all(|number| number.is_finite()));
            assert!(transform.scale[rank..].iter().all(|number| *number == 1.0));
            seen.is_refused = !transform.refused.is_empty();
            assert!(!seen.is_refused || !transform.is_given);
            if !transform.is_given {
                assert_eq!(transform.scale, [1.0; RANK_MAX]);
                assert_eq!(transform.translation, [0.0; RANK_MAX]);
            }
            let text = |text: wavetrain::source::json::Str<'_>| text.chars().collect::<String>();
            let mut names: Vec<String> = level.axes.iter().map(|axis| text(axis.name)).collect();
            let axes = names.clone();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), rank);
            let (scale, translation) = (&transform.scale[..rank], &transform.translation[..rank]);
            let numbers = (scale.to_vec(), translation.to_vec());
            seen.level = Some((level.image, level.level, axes, numbers.0, numbers.1));
        }
        Detail::Well(place) => seen.place = *place,
        Detail::Field(_) | Detail::None => {}
    }
    seen
}

/// The member that holds what OME-NGFF says, as serde_json sees the document.
fn ome(form: u8, root: &Value) -> Option<&Value> {
    let attributes = match form {
        0 | 2 => root.get("attributes")?,
        1 => root,
        _ => return None,
    };
    Some(attributes.get("ome").unwrap_or(attributes))
}

fn check(form: u8, document: &[u8], wrapped: &[u8], group: &Group<'_>, seen: &[Seen]) {
    let whole = if form == 0 { wrapped } else { document };
    // Numbers that serde_json does not hold are none of those that we read.
    let Ok(root) = serde_json::from_slice::<Value>(whole) else { return };
    let levels: Vec<&Seen> = seen.iter().filter(|entry| entry.level.is_some()).collect();
    assert!(levels.len() <= GROUP_LEVELS_MAX);
    let Some(ome) = ome(form, &root) else {
        assert!(!group.has_ome && levels.is_empty());
        return;
    };
    if group.is_version_unread {
        assert!(levels.is_empty() && group.image_count == 0);
        return;
    }
    match group.kind {
        NodeKind::Image => check_levels(ome, group, &levels),
        NodeKind::Plate => {
            let plate = &ome["plate"];
            let count = |name: &str| plate[name].as_array().map_or(0, Vec::len) as u32;
            assert_eq!((group.row_count, group.column_count), (count("rows"), count("columns")));
            let wells = plate["wells"].as_array().expect("wells");
            let ours: Vec<&Seen> =
                seen.iter().filter(|entry| entry.kind == NodeKind::Well).collect();
            assert_eq!(ours.len(), wells.len());
            for (entry, well) in ours.iter().zip(wells) {
                assert_eq!(well["path"], entry.path);
                if let Some([row, column]) = entry.place {
                    assert!(row < group.row_count && column < group.column_count);
                    // As numbers: -0 is row 0.
                    assert_eq!(well["rowIndex"].as_f64(), Some(f64::from(row)));
                    assert_eq!(well["columnIndex"].as_f64(), Some(f64::from(column)));
                }
            }
        }
        NodeKind::Well => {
            let images = ome["well"]["images"].as_array().expect("images");
            let paths = images.iter().map(|image| image["path"].as_str().expect("a path"));
            assert!(seen.len() >= images.len());
            assert!(seen.iter().zip(paths).all(|(entry, path)| entry.path == path));
        }
        NodeKind::Group => {
            let names = ["multiscales", "plate", "well"];
            assert!(levels.is_empty() && names.iter().all(|name| ome.get(name).is_none()));
        }
        NodeKind::Array | NodeKind::Unknown => panic!("a group is no array"),
    }
}

/// All transformations of lists, those inside of sequences one by one.
fn flat(lists: [&Value; 2]) -> Vec<&Value> {
    let mut found = Vec::new();
    for item in lists.into_iter().filter_map(Value::as_array).flatten() {
        match item["type"].as_str() {
            Some("sequence") => found.extend(flat([&item["transformations"], &Value::Null])),
            _ => found.push(item),
        }
    }
    found
}

/// Composes the transformations of a level as the specification words it: one point at a time.
fn mapped(lists: [&Value; 2], rank: usize, point: f64) -> Vec<f64> {
    let mut place = vec![point; rank];
    for item in flat(lists) {
        let kind = item["type"].as_str().expect("a kind");
        for (axis, value) in place.iter_mut().enumerate() {
            let number = |value: &Value| value.as_f64().expect("a number");
            match kind {
                "scale" => *value *= number(&item[kind][axis]),
                "translation" => *value += number(&item[kind][axis]),
                "affine" | "rotation" => {
                    let row = item[kind][axis].as_array().expect("a row");
                    *value = *value * number(&row[axis]) + row.get(rank).map_or(0.0, number);
                }
                other => assert_eq!(other, "identity"),
            }
        }
    }
    place
}

fn check_levels(ome: &Value, group: &Group<'_>, levels: &[&Seen]) {
    let multiscales = ome["multiscales"].as_array().expect("multiscales");
    assert_eq!(group.image_count as usize, multiscales.len());
    let mut rest = levels.iter();
    for (image, multiscale) in multiscales.iter().enumerate() {
        let axes: Vec<&str> = match multiscale.get("axes").and_then(Value::as_array) {
            Some(axes) => {
                let name = |axis: &'_ Value| axis.as_str().is_some();
                axes.iter()
                    .map(|axis| if name(axis) { axis } else { &axis["name"] })
                    .map(|name| name.as_str().expect("a name"))
                    .collect()
            }
            None => match systems_axes(multiscale) {
                Some(names) => names,
                None => vec!["t", "c", "z", "y", "x"],
            },
        };
        let datasets = multiscale["datasets"].as_array().expect("datasets");
        for (number, dataset) in datasets.iter().enumerate() {
            let entry = rest.next().expect("an entry per dataset");
            let Some((our_image, level, names, scale, translation)) = &entry.level else {
                panic!("a level without numbers")
            };
            assert_eq!((*our_image, *level), (image as u32, number as u32));
            assert_eq!(dataset["path"], entry.path);
            assert_eq!(names, &axes);
            if entry.is_refused {
                continue;
            }
            let name = "coordinateTransformations";
            let has_systems = multiscale.get("coordinateSystems").is_some();
            let common = if has_systems { &Value::Null } else { &multiscale[name] };
            let lists = [&dataset[name], common];
            assert_eq!(&mapped(lists, axes.len(), 0.0), translation);
            let at_one = mapped(lists, axes.len(), 1.0);
            for axis in 0..axes.len() {
                let ours = scale[axis] + translation[axis];
                let size = scale[axis].abs() + translation[axis].abs();
                // Sums of the same terms in another order differ by roundings of them, which can
                // be larger than the sum itself where terms cancel.
                let slack = 1e-9 * (size + at_one[axis].abs()) + slack_of(lists, axis);
                assert!((ours - at_one[axis]).abs() <= slack || !slack.is_finite());
            }
        }
    }
    assert!(rest.next().is_none());
}

/// Names of the axes of the coordinate system that the first level leads to.
fn systems_axes(multiscale: &Value) -> Option<Vec<&str>> {
    let systems = multiscale.get("coordinateSystems")?.as_array()?;
    let output = &multiscale["datasets"][0]["coordinateTransformations"][0]["output"];
    let name = output.as_str().or(output["name"].as_str());
    let is_meant = |system: &&Value| name.is_none_or(|name| system["name"] == name);
    let axes = systems.iter().find(is_meant)?["axes"].as_array()?;
    Some(axes.iter().filter_map(|axis| axis.as_str().or(axis["name"].as_str())).collect())
}

/// Room for roundings: as large as the numbers that were summed on the way.
fn slack_of(lists: [&Value; 2], axis: usize) -> f64 {
    let mut largest = 1.0f64;
    for item in flat(lists) {
        let number = |value: &Value| value.as_f64().unwrap_or(0.0).abs();
        let (scale, offset) = match item["type"].as_str() {
            Some("scale") => (number(&item["scale"][axis]), 0.0),
            Some("translation") => (1.0, number(&item["translation"][axis])),
            Some(kind @ ("affine" | "rotation")) => {
                let row = item[kind][axis].as_array().expect("a row");
                (number(&row[axis]), row.last().map_or(0.0, number))
            }
            _ => (1.0, 0.0),
        };
        largest = largest * scale.max(1.0) + offset;
    }
    1e-9 * largest
}
