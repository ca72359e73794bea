//! Chunk grids: how the metadata divides the array into files.
//!
//! Comes in: the members that say shape and grid. Goes out: grid and cell of a record, and the runs
//! of axes that list the length of each cell. Sources: zarr v3 core, section Regular grids;
//! `rectilinear` of zarr-extensions, read as its two writers do: the cell of an element is the
//! first one that ends behind it.
//!
//! Invariant: cells have at least one element, cover the array, and end at 2^63 - 1 at most.

use super::node::{Extents, Node};
use crate::base::limits::{CHUNK_BYTES_MAX, EDGE_RUNS_MAX};
use crate::base::math::product;
use crate::base::status::Status;
use crate::base::text::List;
use crate::fail;
use crate::records::grid::{AxisGrid, EdgeFault, EdgeList, EdgeRun, edges};
use crate::records::{ArrayRecord, Codec};
use crate::source::json::Kind;

/// Reads the extents of the array.
pub(super) fn read_shape(shape: Node<'_, '_>, record: &mut ArrayRecord) -> Result<(), Status> {
    let extents = shape.extents(0)?;
    record.rank = extents.len() as u32;
    record.shape[..extents.len()].copy_from_slice(&extents);
    Ok(())
}

/// Reads the grid into `record`, whose shape is set: its cell becomes the chunk shape, until a
/// shard divides it. Runs go to `table`, which has room for EDGE_RUNS_MAX.
pub(super) fn read_chunk_grid(
    node: Node<'_, '_>,
    record: &mut ArrayRecord,
    table: &mut [EdgeRun],
) -> Result<(), Status> {
    let extension = node.extension()?;
    match extension.name.place_in("regular rectilinear") {
        Some(0) => read_regular(extension.pick("chunk_shape", 1)?[0], record),
        Some(_) => {
            let [kind, shapes, ..] = extension.pick("kind chunk_shapes", 2)?;
            let text = kind.string()?;
            if text != *"inline" {
                return Err(kind.unknown("a list of edges", text, "\"inline\""));
            }
            read_rectilinear(shapes, record, table)
        }
        None => Err(node.unknown("chunk grid", extension.name, "\"regular\" and \"rectilinear\"")),
    }
}

/// One edge per axis.
pub(super) fn read_regular(node: Node<'_, '_>, record: &mut ArrayRecord) -> Result<(), Status> {
    let edges = read_edges_of(node, record)?;
    let axes = record.axes();
    if edges.len() != axes {
        let (chunk, shape) = (List(&edges), List(&record.shape[..axes]));
        return Err(fail!(node, Decode, "chunks of {chunk} do not fit an array of {shape}"));
    }
    record.chunk_shape[..axes].copy_from_slice(&edges);
    Ok(())
}

/// One edge per axis of chunks: at least one element, but of an array without elements, whose
/// writers may have taken its extents for them. It has no chunk, so any edge will do.
pub(super) fn read_edges_of(node: Node<'_, '_>, record: &ArrayRecord) -> Result<Extents, Status> {
    let is_empty = record.shape[..record.axes()].contains(&0);
    let mut edges = node.extents(i64::from(!is_empty))?;
    edges.iter_mut().for_each(|edge| *edge = (*edge).max(1));
    Ok(edges)
}

/// One edge, or a list of them, per axis.
fn read_rectilinear(
    node: Node<'_, '_>,
    record: &mut ArrayRecord,
    table: &mut [EdgeRun],
) -> Result<(), Status> {
    let axes = record.axes();
    let listed = node.items()?.count();
    if listed != axes {
        let shape = List(&record.shape[..axes]);
        let reason = format_args!("edges of {listed} axes do not fit an array of {shape}");
        return Err(node.fail(Status::Decode, reason));
    }
    let mut used = 0;
    for (axis, item) in node.items()?.enumerate() {
        if item.kind() != Kind::Array {
            record.chunk_shape[axis] = item.extent(1)?;
            continue;
        }
        match read_edges(item, record.shape[axis], &mut table[used..])? {
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
    Ok(())
}

/// The runs of an axis that lists its edges; or the one edge, where all are equal.
fn read_edges<'t>(
    node: Node<'_, '_>,
    extent: u64,
    room: &'t mut [EdgeRun],
) -> Result<Result<&'t [EdgeRun], u64>, Status> {
    let mut list = EdgeList::new(room, extent);
    for item in node.items()? {
        let (edge, count) = read_run(item)?;
        list.push(edge, count).map_err(|fault| match fault {
            EdgeFault::Overflow => fail!(item, Unsupported, "the chunk ends beyond 2^63 - 1"),
            EdgeFault::Full => fail!(
                item,
                Unsupported,
                "more than {EDGE_RUNS_MAX} changes of the edge length are not read: use fewer, \
                 larger or more equal chunks"
            ),
        })?;
    }
    match list.limit() {
        0 => Err(fail!(node, Decode, "the list of edges is empty")),
        limit if limit < extent => {
            Err(fail!(node, Decode, "the edges end at {limit}, before the array's end at {extent}"))
        }
        _ => Ok(list.finish()),
    }
}

/// An edge, or an edge and how often it is repeated.
fn read_run(node: Node<'_, '_>) -> Result<(u64, u64), Status> {
    if node.kind() != Kind::Array {
        return Ok((node.extent(1)?, 1));
    }
    let says = format_args!("numbers, but an edge and its count are needed");
    let mut pair = [0; 2];
    for (place, item) in node.items_of(2, says)?.enumerate() {
        pair[place] = item.extent(1)?;
    }
    Ok(pair.into())
}

/// Checks what only the whole record shows, and sets the size and strides of its chunks. `table`
/// holds the runs. Errors name the member that says the array's `shape`, its `grid`, or its
/// `chunk`s.
pub(super) fn finish(
    [shape, grid, chunk]: [Node<'_, '_>; 3],
    record: &mut ArrayRecord,
    table: &[EdgeRun],
) -> Result<(), Status> {
    check_shard_edges(grid, record, table)?;
    check_counts(shape, grid, record)?;
    let axes = record.axes();
    let edges = List(&record.chunk_shape[..axes]);
    let elements = product(edges.0);
    let bytes = elements.and_then(|count| count.checked_mul(u64::from(record.dtype_bytes)));
    if bytes.is_none_or(|bytes| bytes > CHUNK_BYTES_MAX) {
        let limit = format_args!("bytes, more than {CHUNK_BYTES_MAX}: use smaller ones");
        let size = record.dtype_bytes;
        return Err(fail!(chunk, Unsupported, "chunks of {edges} times {size} {limit}"));
    }
    record.pack_chunk();
    check_filters(chunk, record)
}

/// Whether every file of a sharded rectilinear grid is divided by its chunks. The largest was
/// looked at when the shard was read.
fn check_shard_edges(
    node: Node<'_, '_>,
    record: &ArrayRecord,
    table: &[EdgeRun],
) -> Result<(), Status> {
    let cell = match record.shard_levels {
        0 => &record.shard_shape[0],
        1 => &record.chunk_shape,
        _ => &record.shard_shape[1],
    };
    for axis in (0..record.axes()).filter(|_| record.shard_count() > 0) {
        let AxisGrid::Edges { first, count, .. } = record.file_grid[axis] else { continue };
        let runs = &table[first as usize..][..count as usize];
        let chunk = cell[axis];
        if let Some(edge) = edges(runs).find(|edge| edge % chunk != 0) {
            let reason = "do not divide shards of";
            return Err(fail!(node, Decode, "axis {axis}: chunks of {chunk} {reason} {edge}"));
        }
    }
    Ok(())
}

/// Whether files and chunks of the whole array can be counted, and its padded extents be reached.
fn check_counts(
    shape: Node<'_, '_>,
    grid: Node<'_, '_>,
    record: &ArrayRecord,
) -> Result<(), Status> {
    let axes = record.axes();
    let counts = &record.file_counts()[..axes];
    for (axis, (count, edge)) in counts.iter().zip(record.file_shape()).enumerate() {
        let padded = count.checked_mul(*edge).filter(|padded| *padded <= i64::MAX as u64);
        if record.file_grid[axis] == AxisGrid::Regular && padded.is_none() {
            let reason = "of its last chunk ends beyond 2^63 - 1";
            return Err(fail!(shape, Unsupported, "axis {axis} {reason}"));
        }
    }
    // An empty array has no files, whatever its other extents are.
    let files = if counts.contains(&0) { Some(0) } else { product(counts) };
    if files.and_then(|files| files.checked_mul(record.chunks_per_file())).is_none() {
        let (shape, chunk) = (List(&record.shape[..axes]), List(&record.chunk_shape[..axes]));
        let reason = "are more than 2^64 chunks: use larger ones";
        return Err(fail!(grid, Unsupported, "{shape} in chunks of {chunk} {reason}"));
    }
    Ok(())
}

/// Whether the chunks of a record fit its filters, and the filters the caps.
fn check_filters(node: Node<'_, '_>, record: &ArrayRecord) -> Result<(), Status> {
    let is_sized = |(_, codec): &(usize, &Codec)| codec.is_filter() && codec.shard().is_none();
    for (position, codec) in record.codecs.iter().enumerate().filter(is_sized) {
        let Some(bytes) = record.encoded_bytes(position) else { continue };
        if codec.encoded_bytes(bytes).is_none() {
            let name = codec.name();
            let reason = "bytes of a chunk are not whole elements of";
            return Err(fail!(node, Decode, "{bytes} {reason} {name}"));
        }
    }
    let most = record.working_bytes();
    if most > CHUNK_BYTES_MAX {
        let way = format_args!("more than {CHUNK_BYTES_MAX}: use smaller chunks");
        let makers = if record.is_whole_shard() { "shards" } else { "filters" };
        return Err(fail!(node, Unsupported, "{makers} make {most} bytes of a chunk, {way}"));
    }
    Ok(())
}
