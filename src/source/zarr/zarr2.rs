//! Zarr v2 array metadata (`.zarray`).
//!
//! Comes in: the document. Goes out: an [`ArrayRecord`] or a refusal. Source: zarr storage
//! specification version 2, section Arrays, and the numpy array interface for type strings.
//!
//! Details that the specification leaves open are read as zarr-python and tensorstore both read
//! them: members that it does not name are ignored (it asks readers to, and knows no
//! `must_understand`; what changes the data can only stand in `compressor` and `filters`, where
//! everything unknown is refused); consolidated metadata (`.zmetadata`) is not looked at.
//! Attributes (`.zattrs`) say nothing about the bytes: what they say of elements is in
//! `packing.rs`.
//!
//! Invariant: the format number is looked at before anything else.

use super::fill::read_fill;
use super::grid::{finish, read_regular, read_shape};
use super::named_codecs::{Named, Names, unread};
use super::names::{dtype_of, number_of};
use super::node::{Document, Extension, Node};
use super::structs::{Element, Fields, Spelling, read_type};
use crate::base::limits::ELEMENT_BYTES_MAX;
use crate::base::status::{Status, Why};
use crate::fail;
use crate::records::{
    ArrayRecord, ByteOrder, Codec, DocumentKind, Dtype, Filter, KeyEncoding, Number, Packed, Small,
    TIME_UNITS, Time,
};
use crate::source::json::Kind;

/// Bytes of the longest type string, a time of "[2147483647generic]".
const DTYPE_BYTES: usize = 24;

/// The record of the array whose `.zarray` is `json`; `uri` names it in texts.
///
/// Errors: DECODE (not JSON, a member missing, ill-typed or contradicting another), UNSUPPORTED
/// (well-formed, not read). A record of rank 0 is handed out like any other. A fill value that is
/// null, or absent as netCDF-C leaves it, reads as zeros; so are filters and the compressor none
/// where they are absent, as zarr-python reads them.
pub fn array_from_zarr2(
    json: &[u8],
    (uri, field): (&str, Option<&str>),
    why: &mut Why,
) -> Result<ArrayRecord, Status> {
    let document = Document::new(uri, DocumentKind::Zarr2Array.file_name(), json, why);
    let root = document.root()?;
    root.pick("zarr_format", 1)?[0].check_format(2)?;
    let names = "shape chunks dtype order fill_value compressor filters dimension_separator";
    let [shape, chunks, dtype, order, fill, compressor, filters, separator, ..] =
        root.pick(names, 4)?;

    let mut record = ArrayRecord::EMPTY;
    record.document = DocumentKind::Zarr2Array;
    read_shape(shape, &mut record)?;
    read_regular(chunks, &mut record)?;
    let structure = match dtype.kind() {
        Kind::Array => Some(Fields { list: dtype, spelling: Spelling::Zarr2 }),
        _ => None,
    };
    let structure = read_type(dtype, structure, field, element_of, &mut record)?;
    if order.choice("C F", Status::Decode)? == 1 {
        let axes = record.axes();
        record.axis_order[0][..axes].reverse();
    }
    read_fill(fill, structure.as_ref(), &mut record)?;
    if let Some(small) = record.small {
        record.codecs.push(Codec::Filter(Filter::Packed(Packed { small, padding: None })));
    }
    if let Some(member) = structure.and_then(|structure| structure.member()) {
        record.codecs.push(Codec::Filter(Filter::Member(member)));
    }
    if let Some(filters) = filters.present() {
        for filter in filters.items()? {
            read_codec(filter, "filter", &mut record)?;
        }
    }
    if let Some(compressor) = compressor.present() {
        read_codec(compressor, "compressor", &mut record)?;
    }
    record.key_encoding = KeyEncoding::V2;
    record.separator = match separator.found() {
        None => b'.',
        Some(separator) => b"./"[separator.choice(". /", Status::Decode)?],
    };
    finish([shape, chunks, chunks], &mut record, &[])?;
    Ok(record)
}

/// The element type, its bytes and their order, and the times that elements are.
pub(super) fn element_of(node: Node<'_, '_>) -> Result<Element, Status> {
    let name = node.string()?;
    let mut buffer = [0; DTYPE_BYTES];
    let text = name.decode_into(&mut buffer).unwrap_or("");
    let unknown = || {
        let known = "|b1, |i1, |u1, |V1 to |V16, bfloat16, int4, float8_e4m3fn, float8_e5m2, and \
                     i2 to i8, u2 to u8, f2 to f8, c8, c16, M8 and m8 after < or >";
        node.unknown("data type", name, known)
    };
    let (order, kind) = match text.split_at_checked(1) {
        _ if is_name(text) => ("<", text),
        Some((order @ ("<" | ">" | "|"), kind)) if !is_name(kind) => (order, kind),
        _ => return Err(unknown()),
    };
    if kind.starts_with(['U', 'S', 'O', 'T']) {
        return Err(node.no_numbers(name));
    }
    let void = kind.strip_prefix('V').and_then(number_of);
    if void.is_some_and(|bytes| bytes as usize > ELEMENT_BYTES_MAX) {
        let reason = format_args!("elements above {ELEMENT_BYTES_MAX} bytes are not read");
        return Err(fail!(node, Unsupported, "{name}: {reason}"));
    }
    let small = Small::from_name(kind);
    let wide = small.map(|small| (small.dtype(), small.dtype().bytes(), None));
    let (dtype, bytes, time) = wide.or_else(|| element_of_kind(kind)).ok_or_else(unknown)?;
    // The order of single bytes is no order, however it is spelled: one record for one layout.
    let byte_order = match (order, dtype.word_bytes()) {
        (_, 1) | ("<", _) => ByteOrder::Little,
        (">", _) => ByteOrder::Big,
        (_, bytes) => {
            let reason = format_args!("has words of {bytes} bytes and no byte order");
            return Err(fail!(node, Decode, "{name} {reason}"));
        }
    };
    Ok(Element { dtype, bytes, time, small, byte_order })
}

/// Whether tensorstore names a type so, which numpy has no name for; it has no byte order then.
fn is_name(text: &str) -> bool {
    text == "bfloat16" || Small::from_name(text).is_some()
}

/// The type after a byte order, its bytes, and the times that its elements are.
pub fn element_of_kind(kind: &str) -> Option<(Dtype, u32, Option<Time>)> {
    if let Some(time) = time_of(kind) {
        return Some((Dtype::I64, Dtype::I64.bytes(), Some(time)));
    }
    if let Some(bytes) = kind.strip_prefix('V').and_then(number_of) {
        return (bytes as usize <= ELEMENT_BYTES_MAX).then_some((Dtype::Raw, bytes, None));
    }
    dtype_of(kind, Dtype::zarr2_name).map(|dtype| (dtype, dtype.bytes(), None))
}

/// The times that a type string names after its byte order: "M8[ns]", "m8[25s]", "M8".
fn time_of(kind: &str) -> Option<Time> {
    let (is_delta, rest) = match kind.split_at_checked(2)? {
        ("M8", rest) => (false, rest),
        ("m8", rest) => (true, rest),
        _ => return None,
    };
    if rest.is_empty() {
        return Some(Time { is_delta, unit: 0, scale: 1 });
    }
    let rest = rest.strip_prefix('[')?.strip_suffix(']')?;
    let unit = rest.trim_start_matches(|first: char| first.is_ascii_digit());
    let scale = match rest.strip_suffix(unit)? {
        "" => 1,
        digits => digits.parse().ok().filter(|scale| (1..=i32::MAX as u32).contains(scale))?,
    };
    let unit = TIME_UNITS.split(' ').position(|known| known == unit)? as u8;
    Some(Time { is_delta, unit, scale })
}

/// Adds a filter, or the compressor, as `what` says, to the chain. Both may be any codec of
/// numcodecs.
fn read_codec(node: Node<'_, '_>, what: &str, record: &mut ArrayRecord) -> Result<(), Status> {
    let [id, ..] = node.pick("id", 1)?;
    let name = id.string()?;
    let extension = Extension { node, name, configuration: Some(node), has_id: true };
    let Some(named) = Named::find(&extension) else {
        let known = format_args!("{} and null", Names(|row| !row.is_of_zarr3));
        return Err(unread(id, what, name, known));
    };
    // A document says all that is needed: only bytes count.
    let given = Number { dtype: record.dtype, byte_order: record.byte_order };
    named.add_to(&mut record.codecs, given)
}
