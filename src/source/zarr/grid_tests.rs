//! Rectilinear grids: what the lists of edges become, and what is refused by name.

use super::*;
use crate::base::limits::{CHUNK_BYTES_MAX, EDGE_RUNS_MAX, RANK_MAX};
use crate::base::status::{Status, Why};
use crate::records::grid::{AxisGrid, EdgeRun};
use serde_json::{Value, json};
use std::string::{String, ToString};
use std::vec::Vec;

fn grid(shapes: Value) -> Value {
    json!({"name": "rectilinear", "configuration": {"kind": "inline", "chunk_shapes": shapes}})
}

/// An array of uint16 with these edges; with `inner`, each file is a shard of such chunks.
fn document(shape: Value, grid: Value, inner: Option<Value>) -> Value {
    let bytes = json!({"name": "bytes", "configuration": {"endian": "little"}});
    let mut codecs = json!([bytes]);
    if let Some(inner) = inner {
        codecs = json!([{"name": "sharding_indexed", "configuration": {
            "chunk_shape": inner, "codecs": [bytes], "index_codecs": [bytes]
        }}]);
    }
    json!({
        "zarr_format": 3, "node_type": "array", "shape": shape, "data_type": "uint16",
        "chunk_grid": grid, "chunk_key_encoding": "default", "fill_value": 0, "codecs": codecs
    })
}

fn read(document: &Value) -> Result<ArrayRecord, (Status, String)> {
    let mut why = Why::new();
    let table = std::vec![EdgeRun::EMPTY; EDGE_RUNS_MAX].leak();
    let read = array_from_zarr3(document.to_string().as_bytes(), ("/a", None), table, &mut why);
    let mut record = read.map_err(|status| (status, why.to_string()))?;
    record.bind_rows(table);
    Ok(record)
}

fn rectilinear(shape: Value, shapes: Value) -> Result<ArrayRecord, (Status, String)> {
    read(&document(shape, grid(shapes), None))
}

fn refused(shape: Value, shapes: Value, status: Status, parts: &[&str]) {
    let (found, text) = rectilinear(shape, shapes).expect_err(parts[0]);
    assert_eq!(found, status, "{text}");
    parts.iter().for_each(|part| assert!(text.contains(part), "{text:?} lacks {part:?}"));
}

/// First element and length of every cell of an axis.
fn cells(record: &ArrayRecord, axis: usize) -> Vec<(u64, u64)> {
    let cell = |number| record.file_cell(axis, number);
    (0..record.file_counts()[axis]).map(|n| (cell(n).first, cell(n).edge)).collect()
}

#[test]
fn the_five_spellings_of_the_specification_are_read() {
    let shapes = json!([4, [1, 2, 3], [[4, 2]], [[1, 3], 3], [4, 4, 4]]);
    let record = rectilinear(json!([6, 6, 6, 6, 6]), shapes).unwrap();
    let halves = [(0, 4), (4, 4)];
    assert_eq!(cells(&record, 0), halves);
    assert_eq!(cells(&record, 1), [(0, 1), (1, 2), (3, 3)]);
    assert_eq!(cells(&record, 2), halves);
    assert_eq!(cells(&record, 3), [(0, 1), (1, 1), (2, 1), (3, 3)]);
    assert_eq!(cells(&record, 4), halves);
    assert_eq!(record.chunk_shape[..5], [4, 3, 4, 3, 4]);
    assert_eq!(record.chunk_bytes, 4 * 3 * 4 * 3 * 4 * 2);
}

#[test]
fn axes_whose_cells_are_all_equal_are_regular() {
    let record = rectilinear(json!([12, 12, 0]), json!([[[4, 3]], 5, [3, 4]])).unwrap();
    assert_eq!(record.file_grid[..3], [AxisGrid::Regular; 3]);
    assert_eq!((&record.chunk_shape[..3], record.edges.len()), (&[4, 5, 3][..], 0));
    assert_eq!(record.file_counts()[..3], [3, 3, 0]);
}

#[test]
fn edges_in_a_rectilinear_grid_of_the_same_length_make_the_record_of_the_regular_grid() {
    let regular = json!({"name": "regular", "configuration": {"chunk_shape": [4, 5]}});
    let regular = read(&document(json!([12, 12]), regular, None)).unwrap();
    let listed = rectilinear(json!([12, 12]), json!([[4, 4, 4], 5])).unwrap();
    assert_eq!(std::format!("{regular:?}"), std::format!("{listed:?}"));
}

#[test]
fn a_file_has_its_own_chunk_shape_strides_and_bytes() {
    let record = rectilinear(json!([7, 9]), json!([[2, 5], [3, [2, 3]]])).unwrap();
    let own = |file| {
        let mut own = None;
        let record = record.of_file(file, &mut own);
        (record.chunk_shape[..2].to_vec(), record.chunk_strides[..2].to_vec(), record.chunk_bytes)
    };
    assert_eq!(record.file_counts()[..2], [2, 4]);
    assert_eq!(own(0), ([2, 3].to_vec(), [6, 2].to_vec(), 12));
    assert_eq!(own(1), ([2, 2].to_vec(), [4, 2].to_vec(), 8));
    assert_eq!(own(7), ([5, 2].to_vec(), [4, 2].to_vec(), 20));
    assert_eq!((record.chunk_bytes, record.chunks_per_file()), (30, 1));
}

#[test]
fn a_files_strides_keep_the_order_of_the_axes() {
    let mut record = rectilinear(json!([7, 9, 1]), json!([[2, 5], [3, [2, 3]], 1])).unwrap();
    // Transposed: axis 0 fastest, and an axis of one element anywhere.
    for (order, expected) in [([2, 1, 0], [2, 4, 8]), ([1, 2, 0], [2, 4, 4])] {
        record.axis_order[0][..3].copy_from_slice(&order);
        record.pack_chunk();
        let mut own = None;
        let file = record.of_file(1, &mut own);
        assert_eq!(file.chunk_shape[..3], [2, 2, 1]);
        assert_eq!(file.chunk_strides[..3], expected);
    }
}

#[test]
fn shards_of_any_whole_number_of_chunks_are_read() {
    let shapes = grid(json!([[4, 8], 6]));
    let record = read(&document(json!([11, 12]), shapes, Some(json!([2, 3])))).unwrap();
    assert_eq!((record.shard_shape[0][..2].to_vec(), record.chunk_bytes), ([8, 6].to_vec(), 12));
    let counts = |file| {
        let mut own = None;
        let record = record.of_file(file, &mut own);
        assert_eq!((&record.chunk_shape[..2], record.chunk_bytes), (&[2, 3][..], 12));
        record.chunk_counts()[..2].to_vec()
    };
    assert_eq!((counts(0), counts(3)), ([2, 2].to_vec(), [4, 2].to_vec()));
}

#[test]
fn shards_that_chunks_do_not_divide_are_refused_wherever_they_are() {
    for shapes in [json!([[4, 8, 5], 6]), json!([[5, [8, 2]], 6]), json!([[8, 12, [4, 2]], 6])] {
        let inner = if shapes[0][0] == 8 { json!([8, 3]) } else { json!([4, 3]) };
        let (status, text) =
            read(&document(json!([17, 12]), grid(shapes), Some(inner))).unwrap_err();
        assert_eq!(status, Status::Decode);
        assert!(text.contains("do not divide shards of"), "{text}");
    }
}

#[test]
fn edges_up_to_the_end_are_taken_and_one_element_less_refused() {
    assert!(rectilinear(json!([6]), json!([[1, 2, 3]])).is_ok());
    let parts = ["chunk_shapes[0]", "end at 6", "array's end at 7"];
    refused(json!([7]), json!([[1, 2, 3]]), Status::Decode, &parts);
}

#[test]
fn what_is_no_list_of_edges_is_refused_by_name() {
    let shapes = |list: Value| json!([4, list]);
    let bad = |list: Value, parts: &[&str]| {
        refused(json!([8, 8]), shapes(list), Status::Decode, parts);
    };
    bad(json!(0), &["chunk_shapes[1]", "at least 1"]);
    bad(json!([4, 0, 4]), &["chunk_shapes[1][1]", "at least 1"]);
    bad(json!([4, [0, 2]]), &["chunk_shapes[1][1][0]", "at least 1"]);
    bad(json!([4, [4, 0]]), &["chunk_shapes[1][1][1]", "at least 1"]);
    bad(json!([4, -4]), &["chunk_shapes[1][1]", "at least 1"]);
    bad(json!([4.5, 4]), &["chunk_shapes[1][0]", "whole number"]);
    bad(json!("4"), &["chunk_shapes[1]", "whole number"]);
    bad(json!([]), &["chunk_shapes[1]", "empty"]);
    bad(json!([[4]]), &["chunk_shapes[1][0]", "1 numbers", "count"]);
    bad(json!([[4, 1, 1]]), &["chunk_shapes[1][0]", "3 numbers"]);
    bad(json!([[[4, 2], 1]]), &["chunk_shapes[1][0][0]", "whole number"]);
}

#[test]
fn lists_for_another_number_of_axes_are_refused() {
    refused(json!([8, 8]), json!([4]), Status::Decode, &["edges of 1 axes", "8"]);
    refused(json!([8, 8]), json!([4, [8], 2]), Status::Decode, &["edges of 3 axes"]);
    refused(json!([8, 8]), json!(4), Status::Decode, &["chunk_shapes", "an array"]);
}

#[test]
fn other_kinds_of_lists_are_unsupported_by_name() {
    let mut grid = grid(json!([8, 8]));
    grid["configuration"]["kind"] = json!("array");
    let (status, text) = read(&document(json!([8, 8]), grid.clone(), None)).unwrap_err();
    assert_eq!(status, Status::Unsupported);
    assert!(text.contains("\"array\"") && text.contains("\"inline\""), "{text}");
    grid["configuration"] = json!({"chunk_shapes": [8, 8]});
    let (status, text) = read(&document(json!([8, 8]), grid.clone(), None)).unwrap_err();
    assert_eq!(status, Status::Decode);
    assert!(text.contains("\"kind\" is missing"), "{text}");
    grid["configuration"] = json!({"kind": "inline"});
    let (status, text) = read(&document(json!([8, 8]), grid, None)).unwrap_err();
    assert_eq!(status, Status::Decode);
    assert!(text.contains("\"chunk_shapes\" is missing"), "{text}");
}

#[test]
fn the_last_run_that_there_is_room_for_is_taken_and_one_more_refused() {
    let edges: Vec<u64> = (0..EDGE_RUNS_MAX as u64).map(|n| 1 + n % 2).collect();
    let extent: u64 = edges.iter().sum();
    assert!(rectilinear(json!([extent]), json!([edges])).is_ok());
    let more = [&edges[..], &[1]].concat();
    let parts = ["chunk_shapes[0][1024]", "more than 1024"];
    refused(json!([extent + 1]), json!([more]), Status::Unsupported, &parts);
    // All axes share the room.
    let parts = ["chunk_shapes[1][0]", "more than 1024"];
    refused(json!([extent, 3]), json!([edges, [1, 2]]), Status::Unsupported, &parts);
    // Cells behind the array take none.
    assert!(rectilinear(json!([extent]), json!([more])).is_ok());
}

#[test]
fn numbers_that_do_not_fit_are_refused_where_they_stand() {
    let parts = ["chunk_shapes[0][1]", "2^63 - 1"];
    refused(json!([8]), json!([[8, i64::MAX]]), Status::Unsupported, &parts);
    refused(json!([8]), json!([[8, [1u64 << 40, 1u64 << 40]]]), Status::Unsupported, &parts);
    let parts = ["chunk_shapes[0][0]", "2^63 - 1"];
    refused(json!([8]), json!([[u64::MAX]]), Status::Unsupported, &parts);
}

#[test]
fn the_largest_chunk_decides_whether_chunks_are_too_large() {
    let edge = CHUNK_BYTES_MAX / 2;
    assert!(rectilinear(json!([edge + 1]), json!([[1, edge]])).is_ok());
    let parts = ["codecs", "use smaller ones"];
    refused(json!([edge + 2]), json!([[1, edge + 1]]), Status::Unsupported, &parts);
}

#[test]
fn more_chunks_than_can_be_counted_are_refused() {
    let axis = json!([[1, 1u64 << 62], 2]);
    let extent = (1u64 << 62) + 1;
    let shape = json!([extent, extent]);
    assert!(rectilinear(json!([extent]), json!([axis])).is_ok());
    refused(shape, json!([axis, axis]), Status::Unsupported, &["2^64 chunks"]);
}

#[test]
fn every_axis_of_the_largest_rank_may_list_edges() {
    let record = rectilinear(json!(std::vec![3; RANK_MAX]), json!(std::vec![[1, 2]; RANK_MAX]));
    let record = record.unwrap();
    assert_eq!(record.chunk_bytes, 2 << 16);
    let mut own = None;
    assert_eq!(record.of_file(0, &mut own).chunk_bytes, 2);
    let mut own = None;
    assert_eq!(record.of_file((1 << 16) - 1, &mut own).chunk_strides[0], 2 << 15);
}
