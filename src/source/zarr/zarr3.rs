//! Zarr v3 array metadata (`zarr.json`).
//!
//! Comes in: the document. Goes out: an [`ArrayRecord`] or a refusal. Source: zarr v3 core
//! specification, section Array metadata, and its extension points.
//!
//! Invariant: node type and format are looked at before anything else, so that a group, or a
//! document of another format, is called what it is and not a malformed array.

use super::codecs::read_codecs;
use super::fill::read_fill;
use super::grid::{finish, read_chunk_grid, read_shape};
use super::names::{dtype_of, number_of};
use super::node::{Document, Extension, Node};
use super::packing::packing_of;
use super::structs::{Element, fields_of, read_type};
use crate::base::limits::{EDGE_RUNS_MAX, ELEMENT_BYTES_MAX};
use crate::base::status::{Status, Why};
use crate::fail;
use crate::records::grid::EdgeRun;
use crate::records::{ArrayRecord, DocumentKind, Dtype, KeyEncoding, Small, TIME_UNITS, Time};
use crate::source::json::{Str, Value};

/// The record of the array whose `zarr.json` is `json`; `uri` names it in texts. The runs of a
/// rectilinear grid, and the pairs of casts, go to `table`, which has room for EDGE_RUNS_MAX; to
/// look up single files, and to decode, the record has to be bound to it
/// ([`ArrayRecord::bind_rows`]).
///
/// Errors: DECODE (not JSON, a member missing, ill-typed or contradicting another), NOT_FOUND (a
/// group), UNSUPPORTED (well-formed, not read). A record of rank 0 is handed out like any other.
pub fn array_from_zarr3(
    json: &[u8],
    (uri, field): (&str, Option<&str>),
    table: &mut [EdgeRun],
    why: &mut Why,
) -> Result<ArrayRecord, Status> {
    assert!(table.len() >= EDGE_RUNS_MAX);
    let document = Document::new(uri, DocumentKind::Zarr3.file_name(), json, why);
    let root = document.root()?;
    let names = "shape data_type chunk_grid chunk_key_encoding fill_value codecs zarr_format \
                 node_type storage_transformers attributes";
    let (picked, other) = root.walk(names, is_ignored)?;
    let [shape, data_type, grid, encoding, fill, codecs, format, node_type, ..] = picked;
    let [.., transformers, attributes] = picked;
    check_version(root, format, node_type)?;
    if node_type.choice("array group", Status::Unsupported)? == 1 {
        return Err(fail!(document, NotFound, "is a group: name one of the arrays in it"));
    }
    root.check_known(other)?;
    root.check_present(names, &picked[..6])?;
    if let Some(transformers) = transformers.present()
        && let Some(first) = transformers.items()?.next()
    {
        let name = first.extension()?.name;
        return Err(fail!(first, Unsupported, "storage transformer {name} is not read"));
    }

    let mut record = ArrayRecord::EMPTY;
    read_shape(shape, &mut record)?;
    let structure = fields_of(&data_type.extension()?)?;
    let structure = read_type(data_type, structure, field, element_of, &mut record)?;
    read_chunk_grid(grid, &mut record, table)?;
    read_key_encoding(encoding, &mut record)?;
    read_codecs(codecs, structure.as_ref(), &mut record, table)?;
    read_fill(fill, structure.as_ref(), &mut record)?;
    record.packing = packing_of(*attributes, &record);
    finish([shape, grid, codecs], &mut record, table)?;
    Ok(record)
}

/// Whether a document is of this version of zarr, and says what type of node it describes.
pub(super) fn check_version<'r, 'a>(
    root: Node<'r, 'a>,
    format: Node<'r, 'a>,
    node_type: Node<'r, 'a>,
) -> Result<(), Status> {
    root.check_present("zarr_format", &[format])?;
    format.check_format(3)?;
    root.check_present("node_type", &[node_type])
}

/// Whether a member beside the known ones says nothing about the data.
pub(super) fn is_ignored(name: Str<'_>, value: Value<'_>) -> bool {
    let must_understand = value.members().and_then(|members| members.get("must_understand"));
    name.place_in("attributes dimension_names consolidated_metadata").is_some()
        || must_understand.and_then(Value::as_bool) == Some(false)
}

/// The element type and its bytes, and the times that elements are, as zarr-python names numpy's.
pub(super) fn element_of(node: Node<'_, '_>) -> Result<Element, Status> {
    let extension = node.extension()?;
    let mut buffer = [0; 20];
    let name = extension.name.decode_into(&mut buffer).unwrap_or("");
    Ok(match name {
        "numpy.datetime64" | "numpy.timedelta64" => {
            let [unit, scale, ..] = extension.pick("unit scale_factor", 2)?;
            let unit = unit.choice(TIME_UNITS, Status::Unsupported)? as u8;
            let scale = scale.integer(1, i32::MAX.into())? as u32;
            let time = Some(Time { is_delta: name == "numpy.timedelta64", unit, scale });
            Element { time, ..Element::plain(Dtype::I64) }
        }
        // zarr-python's and tensorstore's spelling of r*.
        "raw_bytes" => {
            let [length, ..] = extension.pick("length_bytes", 1)?;
            let bytes = length.integer(1, i64::MAX)?;
            if bytes > ELEMENT_BYTES_MAX as i64 {
                let reason = format_args!("elements above {ELEMENT_BYTES_MAX} bytes are not read");
                return Err(length.fail(Status::Unsupported, reason));
            }
            Element::raw(bytes as u32)
        }
        _ => {
            let small = Small::from_name(name);
            let wide = small.map(Small::dtype);
            let known = wide.or_else(|| dtype_of(name, Dtype::zarr3_name));
            let known = known.map(|dtype| Element { small, ..Element::plain(dtype) });
            let known = known.or_else(|| raw_from_name(name));
            let element = known.ok_or_else(|| unknown_dtype(&extension))?;
            extension.pick("", 0)?;
            element
        }
    })
}

/// The type "r<bits>", for whole bytes up to ELEMENT_BYTES_MAX.
fn raw_from_name(name: &str) -> Option<Element> {
    let bits = number_of(name.strip_prefix('r')?)?;
    let is_whole = bits.is_multiple_of(8) && bits / 8 <= ELEMENT_BYTES_MAX as u32;
    is_whole.then_some(Element::raw(bits / 8))
}

fn unknown_dtype(extension: &Extension<'_, '_>) -> Status {
    let Extension { node, name, .. } = *extension;
    let texts = "string fixed_length_utf32 variable_length_utf8 null_terminated_bytes \
                 variable_length_bytes bytes";
    if name.place_in(texts).is_some() {
        return node.no_numbers(name);
    }
    let known = "bool, int*, uint*, float16 to float64, float8_e4m3fn, float8_e5m2, bfloat16, \
                 complex*, r8 to r128, and numpy's datetime64 and timedelta64";
    node.unknown("data type", name, known)
}

/// The key encoding and its separator.
fn read_key_encoding(node: Node<'_, '_>, record: &mut ArrayRecord) -> Result<(), Status> {
    let extension = node.extension()?;
    (record.key_encoding, record.separator) = match extension.name.place_in("default v2") {
        Some(0) => (KeyEncoding::Default, b'/'),
        Some(_) => (KeyEncoding::V2, b'.'),
        None => {
            return Err(node.unknown("key encoding", extension.name, "\"default\" and \"v2\""));
        }
    };
    let [separator, ..] = extension.pick("separator", 0)?;
    if let Some(separator) = separator.found() {
        record.separator = b"/."[separator.choice("/ .", Status::Unsupported)?];
    }
    Ok(())
}
