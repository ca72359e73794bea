//! Chunk grids: how the metadata divides the array into files.
//!
//! Comes in: the member `chunk_grid`. Goes out: grid and cell of a record, and the runs of axes
//! that list the length of each cell. Sources: zarr v3 core, section Regular grids; `rectilinear`
//! of zarr-extensions, read as its two writers do: the cell of an element is the first one that
//! ends behind it.
//!
//! Invariant: cells have at least one element, cover the array, and end at 2^63 - 1 at most.

use super::node::Reader;
use crate::base::limits::EDGE_RUNS_MAX;
use crate::base::status::Status;
use crate::base::text::List;
use crate::records::ArrayRecord;
use crate::records::grid::{AxisGrid, EdgeFault, EdgeList, EdgeRun, edges};
use crate::source::json::Value;

/// Reads the grid into `record`, whose shape is set: its cell becomes the chunk shape, until a
/// shard divides it. Runs go to `table`, which has room for EDGE_RUNS_MAX.
pub(super) fn read_chunk_grid(
    reader: &mut Reader<'_>,
    value: Value<'_>,
    record: &mut ArrayRecord,
    table: &mut [EdgeRun],
) -> Result<(), Status> {
    let extension = reader.extension(value)?;
    match extension.name.place_in("regular rectilinear") {
        Some(0) => {
            let [chunk_shape, ..] = reader.configuration(&extension, "chunk_shape", 1)?;
            read_regular(reader, chunk_shape, record)
        }
        Some(_) => {
            let [kind, shapes, ..] = reader.configuration(&extension, "kind chunk_shapes", 2)?;
            let text = reader.string(kind)?;
            if text != *"inline" {
                return Err(reader.unknown(kind, "a list of edges", text, "\"inline\""));
            }
            read_rectilinear(reader, shapes, record, table)
        }
        None => {
            let known = "\"regular\" and \"rectilinear\"";
            Err(reader.unknown(value, "chunk grid", extension.name, known))
        }
    }
}

/// One edge per axis.
fn read_regular(
    reader: &mut Reader<'_>,
    value: Value<'_>,
    record: &mut ArrayRecord,
) -> Result<(), Status> {
    let edges = reader.extents(value, 1)?;
    let axes = record.axes();
    if edges.len() != axes {
        let (chunk, shape) = (List(&edges), List(&record.shape[..axes]));
        let reason = format_args!("chunks of {chunk} do not fit an array of {shape}");
        return Err(reader.decode(value, reason));
    }
    record.chunk_shape[..axes].copy_from_slice(&edges);
    Ok(())
}

/// One edge, or a list of them, per axis.
fn read_rectilinear(
    reader: &mut Reader<'_>,
    value: Value<'_>,
    record: &mut ArrayRecord,
    table: &mut [EdgeRun],
) -> Result<(), Status> {
    let axes = record.axes();
    let (mut listed, mut used) = (0, 0);
    for (axis, item) in reader.items(value)?.enumerate() {
        listed += 1;
        // The rest is counted for the text.
        if axis >= axes {
            continue;
        }
        if item.items().is_none() {
            record.chunk_shape[axis] = reader.extent(item, 1)?;
            continue;
        }
        match read_edges(reader, item, record.shape[axis], &mut table[used..])? {
            Ok(runs) => {
                let (first, count) = (used as u32, runs.len() as u32);
                let cells = runs.last().map_or(0, |run| run.cell_limit);
                let edge_min = edges(runs).min().unwrap_or(0);
                record.chunk_shape[axis] = edges(runs).max().unwrap_or(0);
                record.file_grid[axis] = AxisGrid::Edges { first, count, cells, edge_min };
                used += runs.len();
            }
            Err(edge) => record.chunk_shape[axis] = edge,
        }
    }
    if listed != axes {
        let shape = List(&record.shape[..axes]);
        let reason = format_args!("edges of {listed} axes do not fit an array of {shape}");
        return Err(reader.decode(value, reason));
    }
    Ok(())
}

/// The runs of an axis that lists its edges; or the one edge, where all are equal.
fn read_edges<'t>(
    reader: &mut Reader<'_>,
    value: Value<'_>,
    extent: u64,
    room: &'t mut [EdgeRun],
) -> Result<Result<&'t [EdgeRun], u64>, Status> {
    let mut list = EdgeList::new(room, extent);
    for item in reader.items(value)? {
        let (edge, count) = read_run(reader, item)?;
        match list.push(edge, count) {
            Ok(()) => {}
            Err(EdgeFault::Overflow) => {
                let reason = format_args!("the chunk ends beyond 2^63 - 1");
                return Err(reader.unsupported(item, reason));
            }
            Err(EdgeFault::Full) => {
                let reason = format_args!(
                    "more than {EDGE_RUNS_MAX} changes of the edge length are not read: use \
                     fewer, larger or more equal chunks"
                );
                return Err(reader.unsupported(item, reason));
            }
        }
    }
    let limit = list.limit();
    if limit == 0 {
        return Err(reader.decode(value, format_args!("the list of edges is empty")));
    }
    if limit < extent {
        let reason = format_args!("the edges end at {limit}, before the array's end at {extent}");
        return Err(reader.decode(value, reason));
    }
    Ok(list.finish())
}

/// An edge, or an edge and how often it is repeated.
fn read_run(reader: &mut Reader<'_>, value: Value<'_>) -> Result<(u64, u64), Status> {
    if value.items().is_none() {
        return Ok((reader.extent(value, 1)?, 1));
    }
    let (mut pair, mut count) = ([0; 2], 0);
    for item in reader.items(value)? {
        if let Some(place) = pair.get_mut(count) {
            *place = reader.extent(item, 1)?;
        }
        count += 1;
    }
    if count != 2 {
        let reason = format_args!("{count} numbers, but an edge and its count are needed");
        return Err(reader.decode(value, reason));
    }
    Ok((pair[0], pair[1]))
}

/// Whether every file of a sharded rectilinear grid is divided by chunks of `record.chunk_shape`;
/// `table` holds the runs. The largest was looked at when the shard was read.
pub(super) fn check_shard_edges(
    reader: &mut Reader<'_>,
    value: Value<'_>,
    record: &ArrayRecord,
    table: &[EdgeRun],
) -> Result<(), Status> {
    let cell = if record.shard_levels > 1 { &record.shard_shape[1] } else { &record.chunk_shape };
    for axis in 0..record.axes() {
        let AxisGrid::Edges { first, count, .. } = record.file_grid[axis] else { continue };
        let runs = &table[first as usize..][..count as usize];
        let chunk = cell[axis];
        if record.shard_levels > 0
            && let Some(edge) = edges(runs).find(|edge| edge % chunk != 0)
        {
            let reason =
                format_args!("axis {axis}: chunks of {chunk} do not divide shards of {edge}");
            return Err(reader.decode(value, reason));
        }
    }
    Ok(())
}
