//! Zarr v3 array metadata (`zarr.json`).
//!
//! Comes in: the document. Goes out: an [`ArrayRecord`] or a refusal. Source: zarr v3 core
//! specification, section Array metadata, and its extension points.
//!
//! Invariant: node type and format are looked at before anything else, so that a group, or a
//! document of another format, is called what it is and not a malformed array.

use super::ZARR_NAMES;
use super::codecs::read_codecs;
use super::fill::{fill_from_value, fill_of_time};
use super::filters::check_sizes;
use super::grid::{check_shard_edges, read_chunk_grid};
use super::node::{Member, Reader};
use crate::base::limits::{CHUNK_BYTES_MAX, EDGE_RUNS_MAX, ELEMENT_BYTES_MAX};
use crate::base::math::product;
use crate::base::status::{Status, Why};
use crate::base::text::List;
use crate::records::grid::{AxisGrid, EdgeRun};
use crate::records::{ArrayRecord, DTYPES, DocumentKind, Dtype, KeyEncoding, TIME_UNITS, Time};
use crate::source::json::{Str, Value};

/// The record of the array whose `zarr.json` is `json`; `uri` names it in texts. The runs of a
/// rectilinear grid go to `table`, which has room for EDGE_RUNS_MAX; to look up single files, the
/// record has to be bound to it ([`ArrayRecord::bind_edges`]).
///
/// Errors: DECODE (not JSON, a member missing, ill-typed or contradicting another), NOT_FOUND (a
/// group), UNSUPPORTED (well-formed, not read). A record of rank 0 is handed out like any other.
pub fn array_from_zarr3(
    json: &[u8],
    uri: &str,
    table: &mut [EdgeRun],
    why: &mut Why,
) -> Result<ArrayRecord, Status> {
    assert!(table.len() >= EDGE_RUNS_MAX);
    let name = DocumentKind::Zarr3.file_name();
    let (mut reader, root) = Reader::open(uri, name, json, why)?;
    let reader = &mut reader;
    let [shape, data_type, chunk_grid, encoding, fill, codecs] = read_members(reader, root)?;

    let mut record = ArrayRecord::EMPTY;
    let extents = reader.extents(shape, 0)?;
    record.rank = extents.len() as u32;
    record.shape[..extents.len()].copy_from_slice(&extents);

    record.time = read_time(reader, data_type)?;
    (record.dtype, record.dtype_bytes) = match record.time {
        Some(_) => (Dtype::I64, Dtype::I64.bytes()),
        None => read_dtype(reader, data_type)?,
    };
    read_chunk_grid(reader, chunk_grid, &mut record, table)?;
    (record.key_encoding, record.separator) = read_key_encoding(reader, encoding)?;
    read_codecs(reader, codecs, &mut record)?;
    record.fill = match record.time {
        Some(_) => fill_of_time(reader, fill)?,
        None => fill_from_value(reader, fill, record.dtype, record.dtype_bytes)?,
    };

    check_shard_edges(reader, chunk_grid, &record, table)?;
    check_grid(reader, shape, chunk_grid, &record)?;
    set_strides(reader, codecs, &mut record)?;
    check_sizes(reader, codecs, &record)?;
    Ok(record)
}

/// The members that every array document has and that say what the array is: shape, data type,
/// chunk grid, chunk key encoding, fill value, codecs. Whatever else the document is, is refused.
fn read_members<'a>(reader: &mut Reader<'_>, root: Value<'a>) -> Result<[Value<'a>; 6], Status> {
    let names = "shape data_type chunk_grid chunk_key_encoding fill_value codecs zarr_format \
                 node_type storage_transformers";
    let walked = reader.walk(root, names, is_ignored)?;
    let [members @ .., format, node_type, transformers] = walked.members;
    reader.check_format(root, format, 3)?;
    let node_type = reader.required(root, "node_type", node_type)?;
    if reader.choice(node_type, "array group", Status::Unsupported)? == 1 {
        return Err(reader.not_found(super::IS_GROUP));
    }
    refuse_member(reader, root, walked.other)?;
    if let Some(transformers) = transformers.found()
        && let Some(first) = reader.items(transformers)?.next()
    {
        let name = reader.extension(first)?.name;
        let reason = format_args!("storage transformer {name} is not read");
        return Err(reader.unsupported(first, reason));
    }
    reader.check_present(root, names, &members)?;
    Ok(members)
}

/// Refuses a member that is not known and does not say that it may be passed over.
pub(super) fn refuse_member(
    reader: &mut Reader<'_>,
    root: Value<'_>,
    refused: Option<Member<'_>>,
) -> Result<(), Status> {
    let Some((name, value)) = refused else { return Ok(()) };
    let reason = format_args!("member {name} = {value} is not known and must be understood");
    Err(reader.unsupported(root, reason))
}

/// Whether a member beside the known ones says nothing about the data.
pub(super) fn is_ignored(name: Str<'_>, value: Value<'_>) -> bool {
    if name.place_in("attributes dimension_names consolidated_metadata").is_some() {
        return true;
    }
    let must_understand = value.members().and_then(|members| members.get("must_understand"));
    must_understand.and_then(Value::as_bool) == Some(false)
}

/// The times that elements are, as zarr-python names numpy's.
fn read_time(reader: &mut Reader<'_>, value: Value<'_>) -> Result<Option<Time>, Status> {
    let extension = reader.extension(value)?;
    let Some(place) = extension.name.place_in("numpy.datetime64 numpy.timedelta64") else {
        return Ok(None);
    };
    let [unit, scale, ..] = reader.configuration(&extension, "unit scale_factor", 2)?;
    let unit = reader.choice(unit, TIME_UNITS, Status::Unsupported)? as u8;
    let scale = reader.integer(scale, 1, i64::from(i32::MAX))? as u32;
    Ok(Some(Time { is_delta: place == 1, unit, scale }))
}

/// The element type and its bytes.
fn read_dtype(reader: &mut Reader<'_>, value: Value<'_>) -> Result<(Dtype, u32), Status> {
    let extension = reader.extension(value)?;
    let name = extension.name;
    // zarr-python's and tensorstore's spelling of r*.
    if name == *"raw_bytes" {
        let [length, ..] = reader.configuration(&extension, "length_bytes", 1)?;
        let bytes = reader.integer(length, 1, i64::MAX)?;
        if bytes > ELEMENT_BYTES_MAX as i64 {
            let reason = format_args!("elements above {ELEMENT_BYTES_MAX} bytes are not read");
            return Err(reader.unsupported(length, reason));
        }
        return Ok((Dtype::Raw, bytes as u32));
    }
    let known = name.place_in(ZARR_NAMES).map(|place| DTYPES[place]);
    let known = known.filter(|dtype| *dtype != Dtype::Raw).map(|dtype| (dtype, dtype.bytes()));
    let Some(dtype) = known.or_else(|| raw_from_name(name)) else {
        let texts = "string fixed_length_utf32 variable_length_utf8 null_terminated_bytes \
                     variable_length_bytes bytes";
        if name.place_in(texts).is_some() {
            return Err(reader.no_numbers(value, name));
        }
        let known = "bool, int*, uint*, float*, bfloat16, complex*, r8 to r128, and numpy's \
                     datetime64 and timedelta64";
        return Err(reader.unknown(value, "data type", name, known));
    };
    reader.configuration(&extension, "", 0)?;
    Ok(dtype)
}

/// The type "r<bits>", for whole bytes up to ELEMENT_BYTES_MAX.
fn raw_from_name(name: Str<'_>) -> Option<(Dtype, u32)> {
    let mut buffer = [0; 4];
    let digits = name.decode_into(&mut buffer)?.strip_prefix('r')?;
    if !digits.starts_with(|first: char| first.is_ascii_digit() && first != '0') {
        return None;
    }
    let bits: u32 = digits.parse().ok()?;
    let is_whole = bits.is_multiple_of(8) && bits / 8 <= ELEMENT_BYTES_MAX as u32;
    is_whole.then_some((Dtype::Raw, bits / 8))
}

/// The key encoding and its separator.
fn read_key_encoding(
    reader: &mut Reader<'_>,
    value: Value<'_>,
) -> Result<(KeyEncoding, u8), Status> {
    let extension = reader.extension(value)?;
    let name = extension.name;
    let (encoding, default) = match name.place_in("default v2") {
        Some(0) => (KeyEncoding::Default, b'/'),
        Some(_) => (KeyEncoding::V2, b'.'),
        None => {
            let known = "\"default\" and \"v2\"";
            return Err(reader.unknown(value, "key encoding", name, known));
        }
    };
    let [separator, ..] = reader.configuration(&extension, "separator", 0)?;
    let separator = match separator.found() {
        None => default,
        Some(separator) => b"/."[reader.choice(separator, "/ .", Status::Unsupported)?],
    };
    Ok((encoding, separator))
}

/// Whether files and chunks of the whole array can be counted, and its padded extents be reached.
pub(super) fn check_grid(
    reader: &mut Reader<'_>,
    shape: Value<'_>,
    chunk_grid: Value<'_>,
    record: &ArrayRecord,
) -> Result<(), Status> {
    let axes = record.axes();
    let counts = record.file_counts();
    for (axis, (count, edge)) in counts[..axes].iter().zip(record.file_shape()).enumerate() {
        if record.file_grid[axis] != AxisGrid::Regular {
            continue;
        }
        let padded = count.checked_mul(*edge);
        if padded.is_none_or(|padded| padded > i64::MAX as u64) {
            let reason = format_args!("axis {axis} of its last chunk ends beyond 2^63 - 1");
            return Err(reader.unsupported(shape, reason));
        }
    }
    // An empty array has no files, whatever its other extents are.
    let files = if counts[..axes].contains(&0) { Some(0) } else { product(&counts[..axes]) };
    if files.and_then(|files| files.checked_mul(record.chunks_per_file())).is_none() {
        let (shape, chunk) = (List(&record.shape[..axes]), List(&record.chunk_shape[..axes]));
        let reason =
            format_args!("{shape} in chunks of {chunk} are more than 2^64 chunks: use larger ones");
        return Err(reader.unsupported(chunk_grid, reason));
    }
    Ok(())
}

/// The size of a chunk, and its strides: row-major in the order of its axes.
pub(super) fn set_strides(
    reader: &mut Reader<'_>,
    codecs: Value<'_>,
    record: &mut ArrayRecord,
) -> Result<(), Status> {
    let axes = record.axes();
    let elements = product(&record.chunk_shape[..axes]);
    let bytes = elements.and_then(|count| count.checked_mul(u64::from(record.dtype_bytes)));
    if bytes.is_none_or(|bytes| bytes > CHUNK_BYTES_MAX) {
        let (chunk, size) = (List(&record.chunk_shape[..axes]), record.dtype_bytes);
        let reason = format_args!(
            "chunks of {chunk} times {size} bytes, more than {CHUNK_BYTES_MAX}: use smaller ones"
        );
        return Err(reader.unsupported(codecs, reason));
    }
    record.pack_chunk();
    Ok(())
}
