//! Groups and OME-NGFF: what other people's writers say of their groups is what we say, over the C
//! face and the Rust face; a group in place of an array is refused with the names in it.

use crate::common::damage::u16_config;
use crate::common::drive::{Job, first_failure, open};
use crate::common::fixtures::{self, Scratch};
use crate::common::hook::with_hook;
use serde_json::{Value, json};
use std::ffi::{CStr, CString, c_char};
use std::fs;
use wavetrain::abi::{
    ArrayInfo, Error, FilesHook, NO_INDEX, SOURCE_CONSOLIDATED, SOURCE_FOLDER, SOURCE_NGFF,
};
use wavetrain::base::limits::REFUSAL_NAMES_MAX;
use wavetrain::config::Config;
use wavetrain::loader::{self, EntryView, GroupView, Loader, Node};
use wavetrain::os::{Errno, Os, SYSTEM};
use wavetrain::source::zarr::NodeKind;
use wavetrain::status::Status;
use wavetrain::surface::c::wavetrain_array_info;

fn scratch() -> Vec<u8> {
    vec![0xA5; loader::SCRATCH_BYTES]
}

/// The group at a uri.
fn group<'s>(uri: &str, scratch: &'s mut [u8]) -> GroupView<'s> {
    match loader::node_info(uri, scratch) {
        Ok(Node::Group(group)) => group,
        Ok(Node::Array(_)) => panic!("{uri} is an array"),
        Err(failure) => panic!("{uri}: {failure}"),
    }
}

fn name_of(kind: NodeKind) -> &'static str {
    match kind {
        NodeKind::Unknown => "unknown",
        NodeKind::Array => "array",
        NodeKind::Group => "group",
        NodeKind::Image => "image",
        NodeKind::Plate => "plate",
        NodeKind::Well => "well",
    }
}

fn text(chars: &[c_char]) -> String {
    let bytes: Vec<u8> = chars.iter().map(|c| *c as u8).take_while(|c| *c != 0).collect();
    String::from_utf8(bytes).unwrap()
}

/// The groups of the manifest of this kind, with their uris.
fn expected(kind: &str) -> Vec<(String, Value)> {
    let found: Vec<(String, Value)> =
        fixtures::groups().into_iter().filter(|(_, group)| group["kind"] == kind).collect();
    assert!(found.len() >= 2, "{} groups of kind {kind}", found.len());
    found
}

fn close(left: &Value, right: &[f64]) -> bool {
    let left: Vec<f64> = left.as_array().unwrap().iter().map(|n| n.as_f64().unwrap()).collect();
    left.len() == right.len() && left.iter().zip(right).all(|(l, r)| (l - r).abs() <= 1e-12)
}

fn levels<'s>(group: &GroupView<'s>) -> Vec<EntryView<'s>> {
    group.entries().filter(|entry| entry.raw().level != NO_INDEX).collect()
}

#[test]
fn levels_axes_and_scales_are_what_ngff_zarr_reads() {
    for (uri, expected) in expected("image") {
        let mut scratch = scratch();
        let group = group(&uri, &mut scratch);
        assert_eq!(group.kind(), NodeKind::Image, "{uri}");
        let levels = levels(&group);
        let wanted = expected["levels"].as_array().unwrap();
        assert_eq!(levels.len(), wanted.len(), "{uri}");
        for (number, (level, wanted)) in levels.iter().zip(wanted).enumerate() {
            let axes: Vec<[&str; 3]> = level.axes().collect();
            let names: Vec<&str> = axes.iter().map(|axis| axis[0]).collect();
            let units: Vec<&str> = axes.iter().map(|axis| axis[2]).collect();
            assert_eq!(json!(level.path()), wanted["path"], "{uri}");
            assert_eq!((level.kind(), level.raw().level), (NodeKind::Array, number as u32));
            assert_eq!(json!(names), wanted["axes"], "{uri}");
            assert_eq!(json!(units), wanted["units"], "{uri}");
            assert!(close(&wanted["scale"], level.scale()), "{uri} {:?}", level.scale());
            assert!(close(&wanted["translation"], level.translation()), "{uri}");
            let kinds = axes.iter().map(|axis| match axis[0] {
                "t" => "time",
                "c" => "channel",
                _ => "space",
            });
            assert!(axes.iter().map(|axis| axis[1]).eq(kinds), "{uri}: {axes:?}");
        }
        if let Some(version) = expected["version"].as_str() {
            assert_eq!(text(&group.info().ngff_version), version);
            assert_eq!(levels[0].raw().has_transform, u32::from(version >= "0.4"));
        }
    }
}

#[test]
fn images_carry_their_names() {
    for (name, image) in [("ome_zarr_0.5", "cells"), ("ngff_zarr_0.4", "fibres")] {
        let mut scratch = scratch();
        let group = group(&fixtures::group_uri(name), &mut scratch);
        assert_eq!(text(&group.info().name), image);
        assert!(levels(&group).iter().all(|level| level.image_name() == image));
        assert_eq!(group.info().image_count, 1);
    }
}

#[test]
fn every_level_that_is_named_is_an_array_of_as_many_axes() {
    for (uri, _) in expected("image") {
        let mut scratch = scratch();
        for level in levels(&group(&uri, &mut scratch)) {
            let mut second = self::scratch();
            let array = format!("{uri}/{}", level.path());
            match loader::array_info(&array, &mut second) {
                Ok(info) => assert_eq!(info.rank, level.raw().rank, "{array}"),
                Err(failure) => {
                    assert_eq!(failure.status, Status::Unsupported, "{failure}");
                    assert!(failure.text.as_str().contains(".zarray"), "{failure}");
                }
            }
        }
    }
}

#[test]
fn plates_tell_rows_columns_and_wells() {
    for (uri, expected) in expected("plate") {
        let mut scratch = scratch();
        let group = group(&uri, &mut scratch);
        let info = group.info();
        assert_eq!(group.kind(), NodeKind::Plate);
        assert_eq!(
            json!([info.row_count, info.column_count, info.field_count]),
            json!([expected["rows"], expected["columns"], expected["fields"]])
        );
        assert_eq!(text(&info.name), "screen");
        let wells: Vec<Value> = group
            .entries()
            .inspect(|entry| assert_eq!(entry.kind(), NodeKind::Well))
            .map(|entry| json!([entry.path(), entry.raw().row, entry.raw().column]))
            .collect();
        assert_eq!(json!(wells), expected["wells"]);
    }
}

#[test]
fn wells_tell_their_fields() {
    for (uri, expected) in expected("well") {
        let mut scratch = scratch();
        let group = group(&uri, &mut scratch);
        assert_eq!(group.kind(), NodeKind::Well);
        let fields: Vec<&str> = group.entries().map(|entry| entry.path()).collect();
        assert_eq!(json!(fields), expected["fields"]);
        for entry in group.entries() {
            assert_eq!(entry.kind(), NodeKind::Image);
            assert_eq!(json!(entry.raw().acquisition), expected["acquisition"]);
        }
    }
}

#[test]
fn plain_groups_list_their_folder_or_their_consolidated_metadata() {
    for (uri, expected) in expected("group") {
        let mut scratch = scratch();
        let group = group(&uri, &mut scratch);
        let mut nodes: Vec<Value> =
            group.entries().map(|entry| json!([entry.path(), name_of(entry.kind())])).collect();
        nodes.sort_by_key(Value::to_string);
        assert_eq!(json!(nodes), expected["nodes"], "{uri}");
        let source = match () {
            () if uri.ends_with("labels") => SOURCE_NGFF,
            () if uri.ends_with("consolidated") => SOURCE_CONSOLIDATED,
            () => SOURCE_FOLDER,
        };
        assert_eq!((group.info().entry_sources, group.info().entries_are_cut), (source, 0));
        assert_eq!(group.info().entry_total, nodes.len() as u64);
    }
}

#[test]
fn levels_come_once_although_consolidated_metadata_names_them_again() {
    for name in ["ngff_zarr_0.4", "ngff_zarr_0.5"] {
        let mut scratch = scratch();
        let group = group(&fixtures::group_uri(name), &mut scratch);
        assert_eq!(group.info().entry_sources, SOURCE_NGFF | SOURCE_CONSOLIDATED, "{name}");
        let mut paths: Vec<&str> = group.entries().map(|entry| entry.path()).collect();
        let count = paths.len();
        paths.sort_unstable();
        paths.dedup();
        assert_eq!(paths.len(), count);
    }
}

/// What the C face says of a uri into a struct of `struct_size` bytes.
fn c_info(uri: &str, struct_size: usize, scratch: &mut [u8]) -> (i32, ArrayInfo, String) {
    let uri = CString::new(uri).unwrap();
    let mut info = ArrayInfo { struct_size, entry_total: 77, ..ArrayInfo::EMPTY };
    let mut error = Error::EMPTY;
    // SAFETY: pointers to live values, sizes as they are.
    let status = unsafe {
        let (block, bytes) = (scratch.as_mut_ptr().cast(), scratch.len());
        let no_files = std::ptr::null::<FilesHook>();
        wavetrain_array_info(uri.as_ptr(), no_files, block, bytes, &mut info, &mut error)
    };
    (status, info, text(&error.text))
}

#[test]
fn the_c_face_gives_the_entries_of_the_rust_face_inside_the_scratch() {
    let uri = fixtures::group_uri("ome_zarr_0.5");
    let mut first = scratch();
    let group = group(&uri, &mut first);
    // Off by one, because the block may have any alignment.
    let block = &mut vec![0xA5; loader::SCRATCH_BYTES + 1][1..];
    let (status, info, _) = c_info(&uri, size_of::<ArrayInfo>(), block);
    assert_eq!((status, info.kind), (0, NodeKind::Image as u32));
    assert_eq!(info.entry_count as usize, group.entries().len());
    let range = block.as_ptr_range();
    for (at, view) in group.entries().enumerate() {
        // SAFETY: as many entries as were counted, in a block that lives.
        let (entry, path) = unsafe {
            let entry = &*info.entries.add(at);
            (entry, CStr::from_ptr(entry.path))
        };
        assert!(range.contains(&entry.path.cast()) && range.contains(&entry.axes.cast()));
        assert_eq!(path.to_str().unwrap(), view.path());
        assert_eq!((entry.rank, entry.scale), (view.raw().rank, view.raw().scale));
    }
}

#[test]
fn a_caller_that_knows_no_entries_gets_not_found_with_the_names() {
    let uri = fixtures::group_uri("ome_zarr_0.5");
    let old = std::mem::offset_of!(ArrayInfo, kind);
    let (status, info, text) = c_info(&uri, old, &mut scratch());
    assert_eq!((status, info.entry_total), (Status::NotFound as i32, 77));
    assert!(text.contains("name one of its arrays: s0, s1"), "{text}");
    let array = format!("{uri}/s0");
    let (status, info, _) = c_info(&array, old, &mut scratch());
    assert_eq!((status, info.rank, info.kind, info.entry_total), (0, 5, 0, 77));
}

#[test]
fn an_array_says_that_it_is_one() {
    let uri = fixtures::group_uri("ome_zarr_0.5/s0");
    let (status, info, _) = c_info(&uri, size_of::<ArrayInfo>(), &mut scratch());
    assert_eq!((status, info.kind, info.entry_total), (0, NodeKind::Array as u32, 0));
    assert!(info.entries.is_null());
}

/// A zarr v3 group with these attributes in the folder `name`.
fn write_group(scratch: &Scratch, name: &str, attributes: Value) -> String {
    let folder = scratch.path(name);
    fs::create_dir_all(&folder).unwrap();
    let group = json!({"zarr_format": 3, "node_type": "group", "attributes": attributes});
    fs::write(folder.join("zarr.json"), group.to_string()).unwrap();
    scratch.uri(name)
}

/// Every other path is long, so that behind one that finds no room a short one would.
fn well_path(number: usize) -> String {
    format!("A/{number}{}", if number % 2 == 1 { "x".repeat(900) } else { String::new() })
}

#[test]
fn entries_that_find_no_room_are_counted() {
    let folder = Scratch::new();
    let wells: Vec<Value> = (0..4_000)
        .map(|well| json!({"path": well_path(well), "rowIndex": 0, "columnIndex": well}))
        .collect();
    let columns: Vec<Value> = (0..4_000).map(|n| json!({"name": n.to_string()})).collect();
    let plate = json!({"rows": [{"name": "A"}], "columns": columns, "wells": wells});
    let uri = write_group(&folder, "plate", json!({"ome": {"version": "0.5", "plate": plate}}));
    // Blocks of many sizes, so that the last entry meets every kind of shortage.
    let small = (0..16).map(|step| (loader::SCRATCH_BYTES + step * 131, false));
    for (bytes, whole) in small.chain([(16 << 20, true)]) {
        let mut scratch = vec![0xA5; bytes];
        let group = group(&uri, &mut scratch);
        let info = group.info();
        assert_eq!((info.entry_total, info.entry_count == 4_000), (4_000, whole));
        assert!(info.entry_count > 1_000, "{}", info.entry_count);
        for (number, entry) in group.entries().enumerate() {
            assert_eq!(entry.path(), well_path(number));
            assert_eq!(entry.raw().column, number as u32);
        }
    }
}

/// Status and text of the first failure of a stream from `uri`, with GROUP for the uri.
fn refusal(config: &Config, uri: &str) -> String {
    let job = Job::failing(uri, (vec![0, 0], vec![4, 4]), Status::NotFound);
    let (_, failure) = first_failure(&open(config), &[job]);
    assert_eq!(failure.status, Status::NotFound, "{failure}");
    let pushed = failure.text.as_str().replace(uri, "GROUP");
    if config.files.size.is_none() {
        let fitted = loader::config_fit(&mut Config::default(), &[uri], &mut scratch());
        let fitted = fitted.expect_err("a group has no caps");
        assert_eq!(fitted.status, Status::NotFound);
        assert_eq!(fitted.text.as_str().replace(uri, "GROUP"), pushed);
    }
    pushed
}

#[test]
fn a_group_that_is_pushed_is_refused_with_the_names_in_it() {
    for (name, expected) in [
        (
            "ome_zarr_0.5",
            "zarr.json: is an image, which is a group, name one of its arrays: s0, s1",
        ),
        ("ome_zarr_0.4", ".zgroup: is an image, which is a group, name one of its arrays: s0, s1"),
        (
            "ome_zarr_0.5/labels",
            "zarr.json: is a group, name an array in one of its groups: nuclei",
        ),
        (
            "plate_0.4",
            ".zgroup: is a plate, which is a group, name an array in one of its wells: A/1, A/3, \
             B/2",
        ),
        (
            "plate_0.5/A/3",
            "zarr.json: is a well, which is a group, name an array in one of its fields: 0, 1",
        ),
        ("plain_2", ".zgroup: is a group, name one of its arrays: a, b"),
        ("plain_3", "zarr.json: is a group, name one of its arrays: a, b"),
        ("empty", "zarr.json: is a group: name one of the arrays in it"),
    ] {
        let text = refusal(&u16_config(&[4, 4], 1), &fixtures::group_uri(name));
        assert!(text.ends_with(&format!("GROUP/{expected}")), "{text}");
    }
    for name in ["plain_2_consolidated", "plain_3_consolidated"] {
        let text = refusal(&u16_config(&[4, 4], 1), &fixtures::group_uri(name));
        assert!(["a", "b", "deep/c", "deep/d"].iter().all(|path| text.contains(path)), "{text}");
    }
}

#[test]
fn a_hook_lists_no_folders_and_the_text_says_so() {
    let config = with_hook(u16_config(&[4, 4], 1));
    let text = refusal(&config, &fixtures::group_uri("plain_3"));
    assert!(
        text.ends_with("name one of the arrays in it (a files hook lists no folders)"),
        "{text}"
    );
    let text = refusal(&config, &fixtures::group_uri("ome_zarr_0.4"));
    assert!(text.ends_with("name one of its arrays: s0, s1"), "{text}");
}

#[test]
fn names_beyond_the_text_are_counted() {
    let folder = Scratch::new();
    let datasets: Vec<Value> =
        (0..60).map(|level| json!({"path": format!("resolution_{level:02}")})).collect();
    let image = json!([{"axes": [{"name": "y"}, {"name": "x"}], "datasets": datasets}]);
    let uri = write_group(&folder, "image", json!({"ome": {"multiscales": image}}));
    let text = refusal(&u16_config(&[4, 4], 1), &uri);
    assert!(text.contains("resolution_00, resolution_01, "), "{text}");
    let shown = text.matches("resolution_").count();
    assert!(shown > 8 && text.ends_with(&format!(" (and {} more)", 60 - shown)), "{text}");
}

#[test]
fn a_folder_of_many_names_is_looked_at_in_part_and_that_is_told() {
    let folder = Scratch::new();
    let uri = write_group(&folder, "wide", json!({}));
    for number in 0..REFUSAL_NAMES_MAX + 10 {
        write_group(&folder, &format!("wide/g{number:04}"), json!({}));
    }
    let text = refusal(&u16_config(&[4, 4], 1), &uri);
    assert!(text.contains("more were not looked at"), "{text}");
    let mut scratch = scratch();
    let group = group(&uri, &mut scratch);
    let paths: Vec<&str> = group.entries().map(|entry| entry.path()).collect();
    let all: Vec<String> =
        (0..REFUSAL_NAMES_MAX + 10).map(|number| format!("g{number:04}")).collect();
    assert_eq!(paths, all);
}

fn no_folder(_path: &[u8]) -> Result<i32, Errno> {
    Err(Errno(libc::EMFILE))
}

fn endless_folder(_fd: i32, target: &mut [u8]) -> Result<usize, Errno> {
    // Entries of 32 bytes: a folder whose name is "ghost", again and again.
    for entry in target.chunks_exact_mut(32) {
        entry.fill(0);
        entry[16..18].copy_from_slice(&32u16.to_ne_bytes());
        entry[18] = libc::DT_DIR;
        entry[19..24].copy_from_slice(b"ghost");
    }
    Ok(target.len() / 32 * 32)
}

fn stuck_folder(_fd: i32, target: &mut [u8]) -> Result<usize, Errno> {
    target.fill(0xFF);
    Ok(target.len())
}

fn failing_folder(_fd: i32, _target: &mut [u8]) -> Result<usize, Errno> {
    Err(Errno(libc::EIO))
}

#[test]
fn a_folder_that_cannot_be_listed_or_never_ends_is_told() {
    static NONE: Os = Os { open_directory: no_folder, ..SYSTEM };
    static ENDLESS: Os = Os { read_directory: endless_folder, ..SYSTEM };
    static STUCK: Os = Os { read_directory: stuck_folder, ..SYSTEM };
    static FAILING: Os = Os { read_directory: failing_folder, ..SYSTEM };
    let folder = Scratch::new();
    let uri = write_group(&folder, "wide", json!({}));
    for (os, says) in [
        (&NONE, "(its folder could not be listed)"),
        (&ENDLESS, "; more were not looked at"),
        (&STUCK, "; more were not looked at"),
        (&FAILING, "(its folder could not be listed)"),
    ] {
        let loader = Loader::open_on(os, &u16_config(&[4, 4], 1)).expect("a loader");
        let job = Job::failing(&uri, (vec![0, 0], vec![4, 4]), Status::NotFound);
        let (_, failure) = first_failure(&loader, &[job]);
        assert_eq!(failure.status, Status::NotFound);
        assert!(failure.text.as_str().ends_with(says), "{failure}");
    }
}

/// The config that reads through a hook, and its hook.
fn hook_info(uri: &str, scratch: &mut [u8]) -> (i32, ArrayInfo) {
    let files = with_hook(Config::default()).files;
    let uri = CString::new(uri).unwrap();
    let mut info = ArrayInfo { struct_size: size_of::<ArrayInfo>(), ..ArrayInfo::EMPTY };
    // SAFETY: pointers to live values, sizes as they are.
    let status = unsafe {
        let (block, bytes) = (scratch.as_mut_ptr().cast(), scratch.len());
        let error = std::ptr::null_mut();
        wavetrain_array_info(uri.as_ptr(), &files, block, bytes, &mut info, error)
    };
    (status, info)
}

#[test]
fn through_a_hook_attributes_say_the_same_and_folders_say_nothing() {
    for name in ["ome_zarr_0.4", "ngff_zarr_0.5", "plate_0.5", "plain_2_consolidated"] {
        let uri = fixtures::group_uri(name);
        let (mut first, mut second) = (scratch(), scratch());
        let group = group(&uri, &mut first);
        let (status, info) = hook_info(&uri, &mut second);
        assert_eq!(status, 0, "{name}");
        let ours = group.info();
        assert_eq!((info.kind, info.entry_total), (ours.kind, ours.entry_total));
        assert_eq!(info.entry_sources, ours.entry_sources);
    }
    let (status, info) = hook_info(&fixtures::group_uri("plain_3"), &mut scratch());
    assert_eq!((status, info.entry_sources, info.entry_total), (0, 0, 0));
    assert!(info.entries.is_null() && info.kind == NodeKind::Group as u32);
}

#[test]
fn a_group_that_is_not_understood_is_still_called_a_group() {
    let folder = Scratch::new();
    let without_axes = json!([{"datasets": []}]);
    let ome = json!({"version": "0.5", "multiscales": without_axes});
    let uri = write_group(&folder, "other", json!({"ome": ome}));
    let text = refusal(&u16_config(&[4, 4], 1), &uri);
    assert!(text.contains("is a group: ") && text.contains("not understood"), "{text}");
    let failure = loader::node_info(&uri, &mut scratch()).err().expect("a refusal");
    assert_eq!(failure.status, Status::Decode);
    assert!(failure.text.as_str().contains("member \"axes\" is missing"), "{failure}");
}

#[test]
fn a_folder_with_other_things_in_it_lists_its_nodes_alone() {
    let folder = Scratch::new();
    let uri = write_group(&folder, "mixed", json!({}));
    write_group(&folder, "mixed/node", json!({}));
    fs::create_dir_all(folder.path("mixed/no_node/c")).unwrap();
    fs::create_dir_all(folder.path("mixed/.hidden")).unwrap();
    fs::write(folder.path("mixed/file"), "x").unwrap();
    fs::create_dir_all(folder.path("mixed/broken")).unwrap();
    fs::write(folder.path("mixed/broken/zarr.json"), "{").unwrap();
    let mut scratch = scratch();
    let group = group(&uri, &mut scratch);
    let nodes: Vec<(&str, NodeKind)> =
        group.entries().map(|entry| (entry.path(), entry.kind())).collect();
    assert_eq!(nodes, [("broken", NodeKind::Unknown), ("node", NodeKind::Group)]);
}
