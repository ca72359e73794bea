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
use super::byte_codecs::{Spelling, check_configuration};
use super::node::{Extension, Extents, Node, Reader};
use super::zarr2_fill::fill_from_zarr2;
use super::zarr3::{check_grid, set_strides};
use crate::base::text::{List, Text};
use crate::json::{self, Kind, Str};
use crate::limits::ELEMENT_BYTES_MAX;
use crate::records::{ArrayRecord, ByteOrder, Codec, CodecChain, DocumentKind, Dtype, KeyEncoding};
use crate::status::{Status, Why};
use core::fmt::Write;

/// The element types of the array interface behind their byte order. The void type "V", whose
/// number of bytes is free, is read apart, as is the name "bfloat16" that tensorstore writes.
pub(super) const TYPE_STRINGS: [(&str, Dtype); 14] = [
    ("b1", Dtype::Bool),
    ("i1", Dtype::I8),
    ("u1", Dtype::U8),
    ("i2", Dtype::I16),
    ("u2", Dtype::U16),
    ("i4", Dtype::I32),
    ("u4", Dtype::U32),
    ("i8", Dtype::I64),
    ("u8", Dtype::U64),
    ("f2", Dtype::F16),
    ("f4", Dtype::F32),
    ("f8", Dtype::F64),
    ("c8", Dtype::C64),
    ("c16", Dtype::C128),
];

/// The compressors that are read, by their numcodecs ids.
const COMPRESSORS: [Codec; 5] = [Codec::Zstd, Codec::Blosc, Codec::Gzip, Codec::Zlib, Codec::Lz4];

/// The record of the array whose `.zarray` is `json`; `uri` names it in texts.
///
/// Errors: DECODE (not JSON, a member missing, ill-typed or contradicting another), UNSUPPORTED
/// (well-formed, not read). A record of rank 0 is handed out like any other. A fill value of null
/// reads as zeros.
pub fn array_from_zarr2(json: &[u8], uri: &str, why: &mut Why) -> Result<ArrayRecord, Status> {
    let reader = &mut Reader::new(uri, DocumentKind::Zarr2Array.file_name(), why);
    let document = json::parse(json).map_err(|error| reader.malformed(error))?;
    let root = &Node::root(document);
    let names = [
        "zarr_format",
        "shape",
        "chunks",
        "dtype",
        "order",
        "fill_value",
        "compressor",
        "filters",
        "dimension_separator",
    ];
    let members = reader.pick(root, &names, |_, _| {})?;
    let [format, shape, chunks, dtype, order, fill, compressor, filters, separator] = members;
    check_format(reader, root, format)?;

    let mut record = ArrayRecord::EMPTY;
    record.document = DocumentKind::Zarr2Array;
    let shape = reader.required(root, "shape", shape)?;
    let chunks = reader.required(root, "chunks", chunks)?;
    read_shapes(reader, &shape, &chunks, &mut record)?;
    let dtype = reader.required(root, "dtype", dtype)?;
    (record.dtype, record.dtype_bytes, record.byte_order) = read_dtype(reader, &dtype)?;
    let order = reader.required(root, "order", order)?;
    let is_column_major = read_order(reader, &order)?;
    let fill = reader.required(root, "fill_value", fill)?;
    record.fill = fill_from_zarr2(reader, &fill, &record)?;
    let compressor = reader.required(root, "compressor", compressor)?;
    record.codecs = read_compressor(reader, &compressor)?;
    let filters = reader.required(root, "filters", filters)?;
    check_filters(reader, &filters)?;
    record.key_encoding = KeyEncoding::V2;
    record.separator = read_separator(reader, separator)?;

    check_grid(reader, &shape, &chunks, &record)?;
    if is_column_major {
        let axes = record.axes();
        record.axis_order[0][..axes].reverse();
    }
    set_strides(reader, &chunks, &mut record)?;
    Ok(record)
}

fn check_format(
    reader: &mut Reader<'_>,
    root: &Node<'_>,
    format: Option<Node<'_>>,
) -> Result<(), Status> {
    let format = reader.required(root, "zarr_format", format)?;
    let version = reader.integer(&format, i64::MIN, i64::MAX)?;
    if version != 2 {
        let reason = format_args!("{version} is not read under this name, only 2");
        return Err(reader.unsupported(&format, reason));
    }
    Ok(())
}

/// The extents of the array and of its chunks.
fn read_shapes(
    reader: &mut Reader<'_>,
    shape: &Node<'_>,
    chunks: &Node<'_>,
    record: &mut ArrayRecord,
) -> Result<(), Status> {
    let extents: Extents = reader.extents(shape, 0)?;
    let edges: Extents = reader.extents(chunks, 1)?;
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
fn read_dtype(reader: &mut Reader<'_>, node: &Node<'_>) -> Result<(Dtype, u32, ByteOrder), Status> {
    if node.value.kind() == Kind::Array {
        let reason = format_args!("structured data type {} is not read", node.value);
        return Err(reader.unsupported(node, reason));
    }
    let name = reader.string(node)?;
    if name == *"bfloat16" {
        return Ok((Dtype::Bf16, Dtype::Bf16.bytes(), ByteOrder::Little));
    }
    // The longest string that is read has 4 bytes.
    let mut buffer = [0; 8];
    let text = name.decode_into(&mut buffer).unwrap_or("");
    let order = text.chars().next().filter(|order| "<>|".contains(*order));
    let Some((order, kind)) = order.map(|order| (order, &text[1..])) else {
        return Err(unknown_dtype(reader, node, name));
    };
    if let Some(digits) = kind.strip_prefix('V') {
        return read_void(reader, node, name, digits);
    }
    let Some((_, dtype)) = TYPE_STRINGS.iter().find(|(known, _)| *known == kind) else {
        return Err(unknown_dtype(reader, node, name));
    };
    // The order of single bytes is no order, however it is spelled: one record for one layout.
    let byte_order = match (order, dtype.word_bytes()) {
        (_, 1) | ('<', _) => ByteOrder::Little,
        ('>', _) => ByteOrder::Big,
        (_, bytes) => {
            let reason = format_args!("{name} has words of {bytes} bytes and no byte order");
            return Err(reader.decode(node, reason));
        }
    };
    Ok((*dtype, dtype.bytes(), byte_order))
}

/// A void type of `digits` bytes.
fn read_void(
    reader: &mut Reader<'_>,
    node: &Node<'_>,
    name: Str<'_>,
    digits: &str,
) -> Result<(Dtype, u32, ByteOrder), Status> {
    // parse would also take a sign and zeros before the number.
    let is_spelled = digits.starts_with(|first: char| ('1'..='9').contains(&first));
    let Some(bytes) = digits.parse::<u32>().ok().filter(|_| is_spelled) else {
        return Err(unknown_dtype(reader, node, name));
    };
    if bytes > ELEMENT_BYTES_MAX as u32 {
        let reason = format_args!("{name}: elements above {ELEMENT_BYTES_MAX} bytes are not read");
        return Err(reader.unsupported(node, reason));
    }
    Ok((Dtype::Raw, bytes, ByteOrder::Little))
}

fn unknown_dtype(reader: &mut Reader<'_>, node: &Node<'_>, name: Str<'_>) -> Status {
    let known = "|b1, |i1, |u1, |V1 to |V16, bfloat16, and i2 to i8, u2 to u8, f2 to f8, c8, c16";
    let reason = format_args!("data type {name} is not read, only {known} behind < or >");
    reader.unsupported(node, reason)
}

/// Whether the elements of a chunk lie in column-major order.
fn read_order(reader: &mut Reader<'_>, node: &Node<'_>) -> Result<bool, Status> {
    let name = reader.string(node)?;
    if name != *"C" && name != *"F" {
        return Err(reader.decode(node, format_args!("{name} is neither \"C\" nor \"F\"")));
    }
    Ok(name == *"F")
}

/// The chain of the one compressor, or of none.
fn read_compressor(reader: &mut Reader<'_>, node: &Node<'_>) -> Result<CodecChain, Status> {
    let mut chain = CodecChain::new();
    if node.value.kind() == Kind::Null {
        return Ok(chain);
    }
    let [id] = reader.pick(node, &["id"], |_, _| {})?;
    let id = reader.required(node, "id", id)?;
    let name = reader.string(&id)?;
    let Some(codec) = COMPRESSORS.into_iter().find(|codec| name == *codec.name()) else {
        let mut known = Text::<64>::new();
        for codec in COMPRESSORS {
            known.push_str(codec.name());
            known.push_str(", ");
        }
        let reason = format_args!("compressor {name} is not read, only {known}and null");
        return Err(reader.unsupported(&id, reason));
    };
    let (configuration, name_member) = (Some(node.clone()), Some("id"));
    let extension = Extension { node: node.clone(), name, configuration, name_member };
    check_configuration(reader, &extension, codec, Spelling::Numcodecs)?;
    chain.push(codec);
    Ok(chain)
}

/// Whether there are no filters.
fn check_filters(reader: &mut Reader<'_>, node: &Node<'_>) -> Result<(), Status> {
    if node.value.kind() == Kind::Null {
        return Ok(());
    }
    let Some(first) = reader.items(node)?.next() else { return Ok(()) };
    let [id] = reader.pick(&first, &["id"], |_, _| {})?;
    let id = reader.required(&first, "id", id)?;
    let name = reader.string(&id)?;
    let reason = format_args!("filter {name} is not read: write the array without it");
    Err(reader.unsupported(&id, reason))
}

/// What stands between the coordinates in a key; "." where the document does not say.
fn read_separator(reader: &mut Reader<'_>, node: Option<Node<'_>>) -> Result<u8, Status> {
    let Some(node) = node else { return Ok(b'.') };
    let text = reader.string(&node)?;
    if text == *"." {
        Ok(b'.')
    } else if text == *"/" {
        Ok(b'/')
    } else {
        Err(reader.decode(&node, format_args!("{text} is neither \".\" nor \"/\"")))
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
    let known = TYPE_STRINGS.iter().find(|(_, dtype)| *dtype == record.dtype);
    // Never cut: the longest name is "bfloat16".
    let _ = match (known, record.dtype) {
        (Some((name, _)), _) => write!(dtype_name, "{order}{name}"),
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
