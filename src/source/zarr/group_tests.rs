//! Unit tests of groups and OME-NGFF attributes: one sound document, and the effect of each change.
//! Over 500 lines, because each version of OME-NGFF has its own form of most members.

use super::*;
use crate::base::limits::GROUP_LEVELS_MAX;
use crate::source::zarr::entry::Detail;
use crate::source::zarr::transforms::Transform;
use serde_json::{Value, json};
use std::string::{String, ToString};
use std::{format, vec::Vec};

fn image() -> Value {
    json!({"ome": {"version": "0.5", "omero": {"channels": [1]}, "multiscales": [{
        "name": "cells",
        "axes": [
            {"name": "t", "type": "time", "unit": "second"},
            {"name": "y", "type": "space", "unit": "micrometer"},
            {"name": "angle"}
        ],
        "datasets": [
            {"path": "0", "coordinateTransformations": [
                {"type": "scale", "scale": [1, 0.5, 2.5e-1]},
                {"type": "translation", "translation": [0, -1.5, 8]}
            ]},
            {"path": "low/1", "coordinateTransformations": [
                {"type": "scale", "scale": [1, 1, 1]}
            ]}
        ],
        "coordinateTransformations": [
            {"type": "scale", "scale": [10, 2, 1]}, {"type": "identity"},
            {"type": "translation", "translation": [0, 100, 0]}
        ],
        "type": "gaussian", "metadata": {"method": "a"}
    }]}})
}

fn plate() -> Value {
    json!({"ome": {"version": "0.5", "plate": {
        "name": "screen", "field_count": 4, "rows": [{"name": "A"}, {"name": "B"}],
        "columns": [{"name": "1"}],
        "wells": [{"path": "A/1", "rowIndex": 0, "columnIndex": 0},
                  {"path": "B/1", "rowIndex": 1, "columnIndex": 0}]
    }}})
}

fn well() -> Value {
    json!({"ome": {"version": "0.5", "well": {"images": [
        {"path": "0", "acquisition": 3}, {"path": "1"}]}}})
}

/// An entry in words: path, kind, and what else is known.
fn words(entry: &Entry<'_>) -> String {
    let detail = match &entry.detail {
        Detail::Level(level) => {
            let rank = level.axes.len();
            let axes = level.axes.iter().map(|axis| [axis.name, axis.kind, axis.unit]);
            let axes: Vec<String> = axes
                .map(|axis| axis.map(|text| text.to_text::<64>().to_string()).join(":"))
                .collect();
            let Transform { scale, translation, .. } = &level.transform;
            let (scale, translation) = (&scale[..rank], &translation[..rank]);
            let name = level.name;
            let numbers = match level.transform.refused {
                "" => format!("{scale:?} {translation:?}"),
                part => format!("refused: {part}"),
            };
            format!(" {}.{} {name} {axes:?} {numbers}", level.image, level.level)
        }
        Detail::Well(Some(place)) => format!(" {place:?}"),
        Detail::Field(Some(acquisition)) => format!(" acquisition {acquisition}"),
        _ => String::new(),
    };
    format!("{} {:?}{detail}", entry.path, entry.kind)
}

/// What a reader of all documents finds: the group's own figures and its entries.
fn found(documents: &GroupDocuments<'_>) -> Result<(String, Vec<String>), (Status, String)> {
    let mut why = Why::new();
    let mut entries = Vec::new();
    let group =
        group_from_documents(documents, "/data/g", &mut why, &mut |e| entries.push(words(e)));
    match group {
        Ok(group) => {
            let Group { kind, version, name, image_count: images, .. } = group;
            let grid = [group.row_count, group.column_count, group.field_count];
            Ok((format!("{kind:?} {version} {name} {images} {grid:?}"), entries))
        }
        Err(status) => {
            assert!(why.as_str().starts_with("/data/g/") && !why.is_cut(), "{why}");
            Err((status, why.to_string()))
        }
    }
}

fn zarr3(group: &Value) -> Result<(String, Vec<String>), (Status, String)> {
    let text = group.to_string();
    found(&GroupDocuments {
        kind: DocumentKind::Zarr3,
        group: text.as_bytes(),
        attributes: b"{}",
        consolidated: b"{}",
    })
}

fn with_attributes(attributes: &Value) -> Value {
    json!({"zarr_format": 3, "node_type": "group", "attributes": attributes})
}

fn read(attributes: &Value) -> Result<(String, Vec<String>), (Status, String)> {
    zarr3(&with_attributes(attributes))
}

fn zarr2(attributes: &str, consolidated: &str) -> Result<(String, Vec<String>), (Status, String)> {
    found(&GroupDocuments {
        kind: DocumentKind::Zarr2Group,
        group: b"{\"zarr_format\": 2}",
        attributes: attributes.as_bytes(),
        consolidated: consolidated.as_bytes(),
    })
}

#[test]
fn transformations_of_a_level_come_before_those_of_its_image() {
    let (group, entries) = read(&image()).unwrap();
    assert_eq!(group, r#"Image "0.5" "cells" 1 [0, 0, 0]"#);
    let axes = r#"["t:time:second", "y:space:micrometer", "angle::"]"#;
    assert_eq!(
        entries,
        [
            format!("0 Array 0.0 \"cells\" {axes} [10.0, 1.0, 0.25] [0.0, 97.0, 8.0]"),
            format!("low/1 Array 0.1 \"cells\" {axes} [10.0, 2.0, 1.0] [0.0, 100.0, 0.0]"),
        ]
    );
}

#[test]
fn plates_and_wells_name_their_nodes() {
    let (group, entries) = read(&plate()).unwrap();
    assert_eq!(group, r#"Plate "0.5" "screen" 0 [2, 1, 4]"#);
    assert_eq!(entries, ["A/1 Well [0, 0]", "B/1 Well [1, 0]"]);
    let (group, entries) = read(&well()).unwrap();
    assert_eq!(group, r#"Well "0.5" "" 0 [0, 0, 0]"#);
    assert_eq!(entries, ["0 Image acquisition 3", "1 Image"]);
}

#[test]
fn attributes_of_zarr_v2_say_the_same_at_their_top_level() {
    for mut attributes in [image(), plate(), well()] {
        let wrapped = read(&attributes).unwrap();
        let mut inner = attributes["ome"].take();
        inner.as_object_mut().unwrap().remove("version");
        for member in ["plate", "well"] {
            if inner.get(member).is_some() {
                inner[member]["version"] = json!("0.5");
            }
        }
        if let Some(multiscales) = inner.get_mut("multiscales") {
            multiscales[0]["version"] = json!("0.5");
        }
        assert_eq!(zarr2(&inner.to_string(), "{}").unwrap(), wrapped);
    }
}

#[test]
fn every_version_is_read_and_of_others_the_arrays_are_listed() {
    for version in ["0.1", "0.2", "0.3", "0.4", "0.5", "0.5.2", "0.6", "0.6rc0", "0.6.dev12"] {
        let mut attributes = image();
        attributes["ome"]["version"] = json!(version);
        let (group, entries) = read(&attributes).unwrap();
        assert!(group.contains(version) && entries[1].contains("low/1 Array 0.1 "), "{entries:?}");
    }
    for version in ["0.7", "0.50", "1", "0.6.1", "0.6rc", "0.6.dev", "0.6.devil", "0.9.dev1", ""] {
        let mut attributes = image();
        attributes["ome"]["version"] = json!(version);
        // Whatever else that version has there.
        attributes["ome"]["multiscales"][0]["axes"] = json!(7);
        attributes["ome"]["multiscales"][0]["datasets"][0]["coordinateTransformations"] = json!({});
        let paths = json!([{"path": "../out"}, {"path": 3}, 4, {"path": "0"}]);
        let images = attributes["ome"]["multiscales"].as_array_mut().unwrap();
        images.extend([json!({"datasets": paths}), Value::Null]);
        let (group, entries) = read(&attributes).unwrap();
        assert_eq!(group, format!("Image {version:?} \"\" 0 [0, 0, 0]"));
        assert_eq!(entries, ["0 Array", "low/1 Array"]);
        let mut plate = plate();
        plate["ome"]["version"] = json!(version);
        assert_eq!(read(&plate).unwrap().1, [""; 0]);
        let inner = json!({"multiscales": [{"version": version, "datasets": [{"path": "0"}]}]});
        assert_eq!(zarr2(&inner.to_string(), "{}").unwrap().1, ["0 Array"]);
    }
}

/// An image of 0.6 with one level, which leads to the system "world" by this transformation.
fn image_of_systems(transformation: Value) -> Value {
    let mut first = transformation;
    first["input"] = json!({"path": "0"});
    first["output"] = json!({"name": "world"});
    let axes = |unit: &str| json!([{"name": "y", "type": "space", "unit": unit}, {"name": "x"}]);
    json!({"ome": {"version": "0.6", "multiscales": [{
        "coordinateSystems": [
            {"name": "other", "axes": axes("meter")}, {"name": "world", "axes": axes("micrometer")}
        ],
        "datasets": [{"path": "0", "coordinateTransformations": [first]}],
        "coordinateTransformations": [{
            "type": "scale", "scale": [1000, 1000],
            "input": {"name": "world"}, "output": {"name": "other"}
        }]
    }]}})
}

#[test]
fn levels_lead_to_the_axes_of_their_coordinate_system() {
    let affine = json!([[2, 0, 5], [0, 0.5, -1]]);
    let nested = json!([
        {"type": "sequence", "transformations": [{"type": "scale", "scale": [2, 3]}]},
        {"type": "translation", "translation": [1, 2]}, {"type": "rotation", "rotation": [[-1, 0],
        [0, 1]]}
    ]);
    for (transformation, numbers) in [
        (json!({"type": "identity"}), "[1.0, 1.0] [0.0, 0.0]"),
        (json!({"type": "scale", "scale": [4, 0.25], "name": "a"}), "[4.0, 0.25] [0.0, 0.0]"),
        (json!({"type": "affine", "affine": affine}), "[2.0, 0.5] [5.0, -1.0]"),
        (json!({"type": "sequence", "transformations": nested}), "[-2.0, 3.0] [-1.0, 2.0]"),
    ] {
        let (group, entries) = read(&image_of_systems(transformation)).unwrap();
        assert_eq!(group, r#"Image "0.6" "" 1 [0, 0, 0]"#);
        let axes = r#"["y:space:micrometer", "x::"]"#;
        assert_eq!(entries, [format!("0 Array 0.0 \"\" {axes} {numbers}")]);
    }
    // Drafts name systems by strings.
    let mut draft = image_of_systems(json!({"type": "identity"}));
    draft["ome"]["multiscales"][0]["datasets"][0]["coordinateTransformations"][0]["output"] =
        json!("other");
    assert!(read(&draft).unwrap().1[0].contains("y:space:meter"));
    let list = "datasets/0/coordinateTransformations";
    let mut sound = image_of_systems(json!({"type": "identity"}));
    let place = format!("/ome/multiscales/0/{list}/0/output");
    for (output, status, says) in [
        (json!({"name": "nowhere"}), Status::Decode, "no coordinate system is named \"nowhere\""),
        (json!({"path": "0"}), Status::Decode, "member \"name\" is missing"),
        (json!(7), Status::Decode, "not an object"),
    ] {
        *sound.pointer_mut(&place).unwrap() = output;
        refused(&sound, status, says);
    }
    sound["ome"]["multiscales"][0]["coordinateSystems"] = json!([]);
    *sound.pointer_mut(&place).unwrap() = Value::Null;
    refused(&sound, Status::Decode, "an image without coordinate systems");
}

#[test]
fn what_no_scale_along_the_axes_expresses_is_refused_for_that_level_alone() {
    let identity = || json!({"type": "identity"});
    let mut deep = identity();
    for _ in 0..5 {
        deep = json!({"type": "sequence", "transformations": [deep]});
    }
    let turned = json!([[0, 1], [-1, 0]]);
    for (transformation, part) in [
        (json!({"type": "mapAxis", "mapAxis": [1, 0]}), "mapAxis"),
        (json!({"type": "byDimension", "transformations": []}), "byDimension"),
        (json!({"type": "bijection", "forward": identity()}), "bijection"),
        (json!({"type": "inverseOf", "transformation": identity()}), "inverseOf"),
        (json!({"type": "projectAxis", "droppedInputs": [0]}), "projectAxis"),
        (json!({"type": "displacements", "path": "d"}), "displacements"),
        (json!({"type": "nonsense"}), "a kind that is not known"),
        (json!({"type": "affine", "path": "m"}), "numbers in an array of their own"),
        (json!({"type": "rotation", "rotation": turned}), "a rotation that leads across axes"),
        (
            json!({"type": "affine", "affine": [[1, 0, 0], [1e-9, 1, 0]]}),
            "an affine map that leads across axes",
        ),
        (
            json!({"type": "affine", "affine": [[0, 0, 0], [0, 1, 0]]}),
            "an affine map that leads across axes",
        ),
        (deep, "sequences inside of sequences"),
    ] {
        let mut image = image_of_systems(transformation);
        let datasets = &mut image["ome"]["multiscales"][0]["datasets"];
        for (path, factor, output) in [("1", 2, "world"), ("2", 4, "other")] {
            let scale = json!({"type": "scale", "scale": [factor, factor],
                "output": {"name": output}});
            let dataset = json!({"path": path, "coordinateTransformations": [scale]});
            datasets.as_array_mut().unwrap().push(dataset);
        }
        let (_, entries) = read(&image).unwrap();
        assert!(entries[0].ends_with(&format!("refused: {part}")), "{entries:?}");
        assert!(entries[1].ends_with("[2.0, 2.0] [0.0, 0.0]"), "{entries:?}");
        let other = "refused: a coordinate system that is not that of level 0";
        assert!(entries[2].ends_with(other), "{entries:?}");
    }
    for (transformation, says) in [
        (json!({"type": "sequence"}), "member \"transformations\" is missing"),
        (json!({"type": "affine", "affine": [[1, 0, 0]]}), "1 rows for 2 axes"),
        (json!({"type": "rotation", "rotation": [[1, 0], [0, 1, 0]]}), "3 numbers, not 2, in a"),
        (json!({"type": "affine", "affine": [1, 0, 0, 0, 1, 0]}), "6 rows for 2 axes"),
        (json!({"type": "affine", "affine": [[1, 0, "a"], [0, 1, 0]]}), "not a number"),
    ] {
        refused(&image_of_systems(transformation), Status::Decode, says);
    }
}

#[test]
fn images_before_0_3_have_five_implied_axes() {
    for version in [json!("0.1"), json!("0.2"), Value::Null] {
        let attributes =
            json!({"multiscales": [{"version": version, "datasets": [{"path": "0"}]}]});
        let (_, entries) = zarr2(&attributes.to_string(), "{}").unwrap();
        assert!(
            entries[0].contains(r#"["t:time:", "c:channel:", "z:space:", "y:space:", "x:space:"]"#)
        );
    }
    let names = json!({"multiscales": [
        {"version": "0.3", "axes": ["c", "x", "λ"], "datasets": [{"path": "0"}]}]});
    let (_, entries) = zarr2(&names.to_string(), "{}").unwrap();
    assert!(entries[0].contains(r#"["c:channel:", "x:space:", "λ::"]"#), "{entries:?}");
    let none = json!({"multiscales": [{"version": "0.4", "datasets": []}]});
    let (status, text) = zarr2(&none.to_string(), "{}").unwrap_err();
    assert_eq!(status, Status::Decode);
    assert!(text.contains(".zattrs: multiscales[0] at byte"), "{text}");
    assert!(text.contains("member \"axes\" is missing"), "{text}");
}

/// The sound image with the value at `pointer` of its multiscale replaced.
fn image_with(pointer: &str, value: Value) -> Value {
    let mut attributes = image();
    let multiscale = &mut attributes["ome"]["multiscales"][0];
    match multiscale.pointer_mut(pointer) {
        Some(place) => *place = value,
        None => panic!("{pointer} is not there"),
    }
    attributes
}

/// What is read is refused with `status` and a text that has `part`.
fn refused(attributes: &Value, status: Status, part: &str) {
    let (found, text) = read(attributes).expect_err(part);
    assert_eq!(found, status, "{text}");
    assert!(text.contains(part), "{text:?} lacks {part:?}");
}

#[test]
fn paths_that_leave_the_group_are_refused_by_name() {
    for (path, says) in [
        ("../0", "path \"../0\" leaves the group"),
        ("a/../../b", "leaves the group"),
        ("..", "leaves the group"),
        ("/etc", "path \"/etc\" is absolute"),
        ("", "path \"\" is empty"),
        ("a//b", "has an empty part"),
        ("a/", "has an empty part"),
        ("./a", "has an empty part"),
        ("a\u{0}b", "has a control character"),
        ("a\nb", "has a control character"),
        ("s3://bucket/x", "has an empty part"),
    ] {
        refused(&image_with("/datasets/0/path", json!(path)), Status::Decode, says);
        let mut plate = plate();
        plate["ome"]["plate"]["wells"][1]["path"] = json!(path);
        refused(&plate, Status::Decode, says);
        let mut well = well();
        well["ome"]["well"]["images"][1]["path"] = json!(path);
        refused(&well, Status::Decode, says);
        refused(&json!({"ome": {"labels": [path]}}), Status::Decode, says);
        let group = json!({"zarr_format": 3, "node_type": "group", "consolidated_metadata":
            {"kind": "inline", "metadata": {path: {"node_type": "array"}}}});
        let (status, text) = zarr3(&group).unwrap_err();
        assert!(status == Status::Decode && text.contains(says), "{text}");
        let metadata = json!({"metadata": {format!("{path}/.zarray"): {}}}).to_string();
        let (status, text) = zarr2("{}", &metadata).unwrap_err();
        assert!(status == Status::Decode, "{text}");
    }
    let longest = "a".repeat(ENTRY_PATH_BYTES - 1);
    assert!(read(&image_with("/datasets/0/path", json!(longest))).is_ok());
    let longer = json!(format!("{longest}a"));
    refused(&image_with("/datasets/0/path", longer), Status::Unsupported, "more than 1023 bytes");
}

#[test]
fn dots_inside_of_names_are_no_way_out() {
    for path in ["..a", "a..", "a..b/c", "...", ".a"] {
        let (_, entries) = read(&image_with("/datasets/0/path", json!(path))).unwrap();
        assert!(entries[0].starts_with(&format!("{path} Array")), "{entries:?}");
    }
}

#[test]
fn transformations_of_another_form_are_refused() {
    let list = "/datasets/0/coordinateTransformations";
    for (transformation, status, says) in [
        (json!({"type": "affine"}), Status::Decode, "member \"affine\" is missing"),
        (json!({"type": "scale"}), Status::Decode, "member \"scale\" is missing"),
        (json!({"type": "translation"}), Status::Decode, "member \"translation\" is missing"),
        (json!({"scale": [1, 1, 1]}), Status::Decode, "member \"type\" is missing"),
        (json!({"type": "scale", "scale": [1, 1]}), Status::Decode, "2 numbers for 3 axes"),
        (json!({"type": "scale", "scale": [1, 1, 1, 1]}), Status::Decode, "4 numbers for 3 axes"),
        (json!({"type": "scale", "scale": [1, "1", 1]}), Status::Decode, "not a number"),
        (json!({"type": "scale", "scale": [1, null, 1]}), Status::Decode, "not a number"),
        (json!("scale"), Status::Decode, "not an object"),
    ] {
        refused(&image_with(list, json!([transformation])), status, says);
    }
    let huge = json!({"type": "scale", "scale": [1e300, 1, 1]});
    let huge = json!([huge, huge]);
    refused(&image_with(list, huge), Status::Decode, "what it leads to is beyond f64");
    let text = with_attributes(&image()).to_string().replace("0.25", "1e999");
    let documents = GroupDocuments {
        kind: DocumentKind::Zarr3,
        group: text.as_bytes(),
        attributes: b"{}",
        consolidated: b"{}",
    };
    let (status, text) = found(&documents).unwrap_err();
    assert!(status == Status::Decode && text.contains("1e999 is not finite in f64"), "{text}");
}

#[test]
fn axes_are_named_once_and_few() {
    let repeated = json!([{"name": "x"}, {"name": "y"}, {"name": "\u{78}"}]);
    refused(&image_with("/axes", repeated), Status::Decode, "axes[2] at byte");
    refused(&image_with("/axes", json!([])), Status::Decode, "an image without axes");
    refused(
        &image_with("/axes", json!([{"type": "space"}])),
        Status::Decode,
        "\"name\" is missing",
    );
    refused(&image_with("/axes/0/name", json!("a\u{0}")), Status::Decode, "has a NUL character");
    let many: Vec<Value> = (0..17).map(|axis| json!({"name": axis.to_string()})).collect();
    refused(&image_with("/axes", json!(many)), Status::Unsupported, "more than 16 axes");
}

#[test]
fn as_many_levels_as_the_cap_are_read_and_one_more_is_refused() {
    let levels = |count: usize| -> Value {
        (0..count).map(|level| json!({"path": level.to_string()})).collect()
    };
    let (_, entries) = read(&image_with("/datasets", levels(GROUP_LEVELS_MAX))).unwrap();
    assert_eq!(entries.len(), GROUP_LEVELS_MAX);
    let more = image_with("/datasets", levels(GROUP_LEVELS_MAX + 1));
    refused(&more, Status::Unsupported, "more than 64 levels");
}

#[test]
fn a_group_that_is_two_things_is_refused() {
    let mut attributes = image();
    attributes["ome"]["well"] = well()["ome"]["well"].clone();
    refused(&attributes, Status::Unsupported, "more than one of multiscales, plate and well");
}

#[test]
fn wells_outside_of_their_plate_are_refused() {
    let mut attributes = plate();
    attributes["ome"]["plate"]["wells"][0]["rowIndex"] = json!(2);
    refused(&attributes, Status::Decode, "2 is outside of 0 to 1");
    let mut attributes = plate();
    attributes["ome"]["plate"]["columns"] = json!([]);
    refused(&attributes, Status::Decode, "outside of 0 to -1");
}

#[test]
fn the_word_labels_alone_is_somebody_elses() {
    assert_eq!(read(&json!({"labels": ["cat", "dog"]})).unwrap().1.len(), 0);
    assert_eq!(read(&json!({"ome": {"labels": ["cat"]}})).unwrap().1, ["cat Image"]);
    for labels in [json!({"0": "cat"}), json!("cat"), json!(["a", 5]), json!(["a", "../b"])] {
        let (_, entries) = zarr2(&json!({"labels": labels}).to_string(), "{}").unwrap();
        assert_eq!(entries.len(), 0);
    }
    let (_, entries) = zarr2(r#"{"labels": ["cat", "dog/1"]}"#, "{}").unwrap();
    assert_eq!(entries, ["cat Image", "dog/1 Image"]);
}

#[test]
fn consolidated_metadata_lists_what_the_attributes_do_not() {
    let metadata = json!({
        "0": {"node_type": "array"}, "labels": {"node_type": "group"},
        "labels/cells/0": {"node_type": "array"}
    });
    let mut group = with_attributes(&image());
    group["consolidated_metadata"] = json!({"kind": "inline", "metadata": metadata});
    let (_, entries) = zarr3(&group).unwrap();
    assert_eq!(entries[2..], ["labels/cells/0 Array"]);
    group["attributes"] = json!({});
    let (_, entries) = zarr3(&group).unwrap();
    assert_eq!(entries, ["0 Array", "labels Group", "labels/cells/0 Array"]);
    let metadata = json!({"zarr_consolidated_format": 1, "metadata": {
        ".zgroup": {}, ".zattrs": {}, "0/.zarray": {}, "0/.zattrs": {}, "labels/.zgroup": {}}});
    let (_, entries) = zarr2("{}", &metadata.to_string()).unwrap();
    assert_eq!(entries, ["0 Array", "labels Group"]);
}

#[test]
fn consolidated_metadata_of_another_form_is_refused() {
    for (consolidated, status, says) in [
        (
            json!({"kind": "linked", "metadata": {}}),
            Status::Unsupported,
            "metadata \"linked\" is not read",
        ),
        (json!({"kind": "inline"}), Status::Decode, "member \"metadata\" is missing"),
        (json!({"metadata": {"a": {}}}), Status::Decode, "the document of \"a\" is neither an"),
        (json!({"metadata": {"a": 5}}), Status::Decode, "the document of \"a\" is neither an"),
        (json!({"metadata": []}), Status::Decode, "an array, not an object"),
    ] {
        let mut group = with_attributes(&json!({}));
        group["consolidated_metadata"] = consolidated;
        let (found, text) = zarr3(&group).expect_err(says);
        assert!(found == status && text.contains(says), "{text}");
    }
    let (status, text) = zarr2("{}", r#"{"metadata": {"/.zgroup": {}}}"#).unwrap_err();
    assert!(status == Status::Decode && text.contains("/.zgroup"), "{text}");
    let (status, text) = zarr2("{}", r#"{"metadata": {"a/c.0": {}}}"#).unwrap_err();
    assert!(status == Status::Decode && text.contains(".zmetadata: metadata at byte"), "{text}");
}

#[test]
fn what_is_no_group_is_refused() {
    for (group, status, says) in [
        (json!({"zarr_format": 3, "node_type": "array"}), Status::Decode, "is not \"group\""),
        (json!({"zarr_format": 2, "node_type": "group"}), Status::Unsupported, "only 3"),
        (json!({"node_type": "group"}), Status::Decode, "\"zarr_format\" is missing"),
        (json!([]), Status::Decode, "not an object"),
        (
            json!({"zarr_format": 3, "node_type": "group", "cipher": {"must_understand": true}}),
            Status::Unsupported,
            "member \"cipher\"",
        ),
        (with_attributes(&json!([])), Status::Decode, "attributes at byte"),
        (with_attributes(&json!({"ome": 5})), Status::Decode, "attributes.ome at byte"),
    ] {
        let (found, text) = zarr3(&group).expect_err(says);
        assert!(found == status && text.contains(says), "{text}");
    }
    let documents = GroupDocuments {
        kind: DocumentKind::Zarr2Group,
        group: b"{\"zarr_format\": 3}",
        attributes: b"{}",
        consolidated: b"{}",
    };
    assert_eq!(found(&documents).unwrap_err().0, Status::Unsupported);
}
