//! Zarr v2 array metadata (`.zarray`).
//!
//! Comes in: the document. Goes out: an [`ArrayRecord`] or a refusal. Source: zarr storage
//! specification version 2, section Arrays, and the numpy array interface for type strings.
//!
//! What the specification leaves open is read as zarr-python and tensorstore both read it: members
//! that it does not name are ignored (it asks readers to, and knows no `must_understand`; what
//! changes the data can only stand in `compressor` and `filters`, where everything unknown is
//! refused); attributes and consolidated metadata (`.zattrs`, `.zmetadata`) are not looked at.
//!
//! Invariant: the format number is looked at before anything else.

use super::Description;
use super::byte_codecs::{Spelling, read_configuration};
use super::filters::{Name, check_sizes, push, read_filter};
use super::node::{Extension, Reader};
use super::zarr2_fill::fill_from_zarr2;
use super::zarr3::{check_grid, set_strides};
use crate::base::limits::ELEMENT_BYTES_MAX;
use crate::base::status::{Status, Why};
use crate::base::text::{List, Text, part_of};
use crate::records::{
    ArrayRecord, ByteOrder, Codec, DocumentKind, Dtype, KeyEncoding, Number, TIME_UNITS, Time,
};
use crate::source::json::{Kind, Str, Value};
use core::fmt::Write;

/// The element types of the array interface behind their byte order. The void type "V", whose
/// number of bytes is free, is read apart, as is the name "bfloat16" that tensorstore writes.
pub(super) const TYPE_NAMES: &str = "b1 i1 u1 i2 u2 i4 u4 i8 u8 f2 f4 f8 c8 c16";
pub(super) const TYPES: [Dtype; 14] = [
    Dtype::Bool,
    Dtype::I8,
    Dtype::U8,
    Dtype::I16,
    Dtype::U16,
    Dtype::I32,
    Dtype::U32,
    Dtype::I64,
    Dtype::U64,
    Dtype::F16,
    Dtype::F32,
    Dtype::F64,
    Dtype::C64,
    Dtype::C128,
];

/// Bytes of the longest type string, a time of "[2147483647generic]".
const DTYPE_BYTES: usize = 24;

/// The codecs that are read without their parameters, by their numcodecs ids.
const CODEC_NAMES: &str = "zstd blosc gzip zlib lz4 crc32c";
const CODECS: [Codec; 6] =
    [Codec::Zstd, Codec::Blosc, Codec::Gzip, Codec::Zlib, Codec::Lz4, Codec::Crc32c];

/// The record of the array whose `.zarray` is `json`; `uri` names it in texts.
///
/// Errors: DECODE (not JSON, a member missing, ill-typed or contradicting another), UNSUPPORTED
/// (well-formed, not read). A record of rank 0 is handed out like any other. A fill value of null
/// reads as zeros.
pub fn array_from_zarr2(json: &[u8], uri: &str, why: &mut Why) -> Result<ArrayRecord, Status> {
    let name = DocumentKind::Zarr2Array.file_name();
    let (mut reader, root) = Reader::open(uri, name, json, why)?;
    let reader = &mut reader;
    let names = "shape chunks dtype order fill_value compressor filters zarr_format \
                 dimension_separator";
    let [members @ .., format, separator] = reader.walk(root, names, |_, _| true)?.members;
    reader.check_format(root, format, 2)?;
    reader.check_present(root, names, &members)?;
    let [shape, chunks, dtype, order, fill, compressor, filters] = members;

    let mut record = ArrayRecord::EMPTY;
    record.document = DocumentKind::Zarr2Array;
    read_shapes(reader, shape, chunks, &mut record)?;
    record.time = read_time(dtype);
    (record.dtype, record.dtype_bytes, record.byte_order) = read_dtype(reader, dtype)?;
    let is_column_major = reader.choice(order, "C F", Status::Decode)? == 1;
    record.fill = fill_from_zarr2(reader, fill, &record)?;
    read_codecs(reader, filters, compressor, &mut record)?;
    record.key_encoding = KeyEncoding::V2;
    record.separator = match separator.found() {
        None => b'.',
        Some(separator) => b"./"[reader.choice(separator, ". /", Status::Decode)?],
    };

    check_grid(reader, shape, chunks, &record)?;
    if is_column_major {
        let axes = record.axes();
        record.axis_order[0][..axes].reverse();
    }
    set_strides(reader, chunks, &mut record)?;
    check_sizes(reader, filters, &record)?;
    Ok(record)
}

/// The extents of the array and of its chunks.
fn read_shapes(
    reader: &mut Reader<'_>,
    shape: Value<'_>,
    chunks: Value<'_>,
    record: &mut ArrayRecord,
) -> Result<(), Status> {
    let extents = reader.extents(shape, 0)?;
    let edges = reader.extents(chunks, 1)?;
    if edges.len() != extents.len() {
        let (chunk, shape) = (List(&edges), List(&extents));
        let reason = format_args!("chunks of {chunk} do not fit an array of {shape}");
        return Err(reader.decode(chunks, reason));
    }
    record.rank = extents.len() as u32;
    record.shape[..extents.len()].copy_from_slice(&extents);
    record.chunk_shape[..edges.len()].copy_from_slice(&edges);
    Ok(())
}

/// The element type, its bytes and their order.
fn read_dtype(
    reader: &mut Reader<'_>,
    value: Value<'_>,
) -> Result<(Dtype, u32, ByteOrder), Status> {
    if value.kind() == Kind::Array {
        let reason = format_args!("structured data type {value} is not read");
        return Err(reader.unsupported(value, reason));
    }
    let name = reader.string(value)?;
    if name == *"bfloat16" {
        return Ok((Dtype::Bf16, Dtype::Bf16.bytes(), ByteOrder::Little));
    }
    let mut buffer = [0; DTYPE_BYTES];
    let text = name.decode_into(&mut buffer).unwrap_or("");
    let Some((order @ ("<" | ">" | "|"), kind)) = text.split_at_checked(1) else {
        return Err(unknown_dtype(reader, value, name));
    };
    if kind.starts_with(['U', 'S', 'O', 'T']) {
        return Err(reader.no_numbers(value, name));
    }
    let kind = if read_time(value).is_some() { "i8" } else { kind };
    if let Some(digits) = kind.strip_prefix('V') {
        return read_void(reader, value, name, digits);
    }
    let Some(place) = TYPE_NAMES.split(' ').position(|known| known == kind) else {
        return Err(unknown_dtype(reader, value, name));
    };
    let dtype = TYPES[place];
    // The order of single bytes is no order, however it is spelled: one record for one layout.
    let byte_order = match (order, dtype.word_bytes()) {
        (_, 1) | ("<", _) => ByteOrder::Little,
        (">", _) => ByteOrder::Big,
        (_, bytes) => {
            let reason = format_args!("{name} has words of {bytes} bytes and no byte order");
            return Err(reader.decode(value, reason));
        }
    };
    Ok((dtype, dtype.bytes(), byte_order))
}

/// The times that a type string names: "<M8[ns]", "<m8[25s]", "<M8".
fn read_time(value: Value<'_>) -> Option<Time> {
    let mut buffer = [0; DTYPE_BYTES];
    let text = value.as_str()?.decode_into(&mut buffer)?;
    let (_, kind) = text.split_at_checked(1)?;
    let (is_delta, rest) = match kind.split_at_checked(2)? {
        ("M8", rest) => (false, rest),
        ("m8", rest) => (true, rest),
        _ => return None,
    };
    if rest.is_empty() {
        return Some(Time { is_delta, unit: 0, scale: 1 });
    }
    let rest = rest.strip_prefix('[')?.strip_suffix(']')?;
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let (scale, unit) = rest.split_at(digits);
    let scale = match scale {
        "" => 1,
        _ => scale.parse().ok().filter(|scale| (1..=i32::MAX as u32).contains(scale))?,
    };
    let unit = TIME_UNITS.split(' ').position(|known| known == unit)? as u8;
    Some(Time { is_delta, unit, scale })
}

/// A void type of `digits` bytes.
fn read_void(
    reader: &mut Reader<'_>,
    value: Value<'_>,
    name: Str<'_>,
    digits: &str,
) -> Result<(Dtype, u32, ByteOrder), Status> {
    // parse would also take a sign and zeros before the number.
    let is_spelled = digits.starts_with(|first: char| ('1'..='9').contains(&first));
    let Some(bytes) = digits.parse::<u32>().ok().filter(|_| is_spelled) else {
        return Err(unknown_dtype(reader, value, name));
    };
    if bytes > ELEMENT_BYTES_MAX as u32 {
        let reason = format_args!("{name}: elements above {ELEMENT_BYTES_MAX} bytes are not read");
        return Err(reader.unsupported(value, reason));
    }
    Ok((Dtype::Raw, bytes, ByteOrder::Little))
}

fn unknown_dtype(reader: &mut Reader<'_>, value: Value<'_>, name: Str<'_>) -> Status {
    let known = "|b1, |i1, |u1, |V1 to |V16, bfloat16, and i2 to i8, u2 to u8, f2 to f8, c8, c16, \
                 M8 and m8 behind < or >";
    reader.unknown(value, "data type", name, known)
}

/// The chain of the filters and of the compressor behind them, all of which may be any codec of
/// numcodecs.
fn read_codecs(
    reader: &mut Reader<'_>,
    filters: Value<'_>,
    compressor: Value<'_>,
    record: &mut ArrayRecord,
) -> Result<(), Status> {
    if filters.kind() != Kind::Null {
        for filter in reader.items(filters)? {
            read_codec(reader, filter, "filter", record)?;
        }
    }
    if compressor.kind() != Kind::Null {
        read_codec(reader, compressor, "compressor", record)?;
    }
    Ok(())
}

/// Adds a filter, or the compressor, as `what` says, to the chain.
fn read_codec(
    reader: &mut Reader<'_>,
    value: Value<'_>,
    what: &str,
    record: &mut ArrayRecord,
) -> Result<(), Status> {
    let [id, ..] = reader.pick(value, "id", 1)?;
    let name = reader.string(id)?;
    let extension = Extension { value, name, configuration: Some(value), has_id: true };
    let codec = if let Some(place) = name.place_in(CODEC_NAMES) {
        Some(read_configuration(reader, &extension, CODECS[place], Spelling::Numcodecs)?)
    } else if let Some(name) = Name::find(&extension) {
        // A document says all that is needed: only bytes count.
        let given = Number { dtype: record.dtype, byte_order: record.byte_order };
        read_filter(reader, &extension, name, given)?
    } else {
        let known = "zstd, blosc, gzip, zlib, lz4, crc32c, crc32, adler32, fletcher32, shuffle, \
                     delta, fixedscaleoffset, packbits, astype, quantize, bitround and null";
        return Err(reader.unknown(id, what, name, known));
    };
    match codec {
        Some(codec) => push(reader, value, &mut record.codecs, codec),
        None => Ok(()),
    }
}

/// The words for a record that comes from zarr v2.
pub(super) fn describe_zarr2(record: &ArrayRecord) -> Description {
    let mut dtype_name = Text::new();
    let order = match record.byte_order {
        _ if record.dtype.word_bytes() == 1 => "|",
        ByteOrder::Little => "<",
        ByteOrder::Big => ">",
    };
    let known = TYPES.iter().position(|dtype| *dtype == record.dtype);
    // Never cut: the longest name is that of a time.
    let _ = match (known, record.dtype) {
        _ if record.time.is_some() => {
            let kind = if record.time.is_some_and(|time| time.is_delta) { 'm' } else { 'M' };
            record.time.map_or(Ok(()), |time| write!(dtype_name, "{order}{kind}8{time}"))
        }
        (Some(place), _) => {
            write!(dtype_name, "{order}{}", part_of(TYPE_NAMES, ' ', place))
        }
        (None, Dtype::Raw) => write!(dtype_name, "{order}V{}", record.dtype_bytes),
        (None, _) => write!(dtype_name, "bfloat16"),
    };
    let mut codecs = Text::new();
    for codec in &record.codecs {
        codecs.push_str(codec.name());
        codecs.push_str(" ");
    }
    // Both orders are one layout where at most one axis is longer than 1: it is called C.
    let axes = (0..record.axes()).filter(|axis| record.chunk_shape[*axis] > 1);
    let mut outward = axes.map(|axis| record.chunk_strides[axis]);
    let is_column_major = matches!((outward.next(), outward.next()), (Some(a), Some(b)) if a < b);
    codecs.push_str(if is_column_major { "order F" } else { "order C" });
    Description { dtype_name, codecs }
}
