//! numcodecs' filters: in zarr v2 the items of `filters`, in v3 codecs whose names have
//! "numcodecs." before them.
//!
//! Comes in: one item of a list. Goes out: a codec with all that undoing it takes, or nothing if
//! reading changes nothing (bitround, quantize). Source: the classes of numcodecs, whose arguments
//! a document holds, and `zarr.codecs.numcodecs` of zarr-python.
//!
//! Invariant: the bytes that come out are numcodecs' bytes. Filters that its release for numpy 2
//! cannot decode, or whose result depends on the machine, are refused.

use super::names::dtype_of;
use super::node::{Extension, Node};
use crate::base::status::Status;
use crate::fail;
use crate::records::{ByteOrder, Codec, CodecName, Dtype, Filter, Line, Number, Types};

/// Most bytes of an element that a shuffle is for: what blosc has.
const SHUFFLE_BYTES_MAX: i64 = 255;

/// The codec that a filter is; None if it changes nothing on reading. `given` is the type of the
/// elements that it was given.
pub(super) fn read_filter(
    extension: &Extension<'_, '_>,
    codec: CodecName,
    given: Number,
) -> Result<Option<Codec>, Status> {
    let node = extension.node;
    // In zarr v3 the type of the decoded elements may be left out: it is the one that is given.
    let typed = usize::from(extension.has_id);
    let filter = match codec {
        CodecName::Delta => {
            let [decoded, encoded, ..] = extension.pick("dtype astype", typed)?;
            let types = read_types(extension, given, decoded, encoded)?;
            check_delta(node, types)?;
            Filter::Delta(types)
        }
        CodecName::FixedScaleOffset => {
            let [scale, offset, decoded, encoded, ..] =
                extension.pick("scale offset dtype astype", 2 + typed)?;
            let line = Line { scale: scale.number()?, offset: offset.number()? };
            let types = read_types(extension, given, decoded, encoded)?;
            if [types.decoded.dtype, types.encoded.dtype].contains(&Dtype::Bool) {
                return Err(fail!(node, Unsupported, "booleans with a scale are not read"));
            }
            Filter::FixedScaleOffset(types, line)
        }
        CodecName::PackBits => {
            extension.pick("", 0)?;
            let booleans = Number { dtype: Dtype::Bool, byte_order: ByteOrder::Little };
            check_given(extension, node, given, booleans)?;
            Filter::PackBits
        }
        CodecName::AsType => {
            let [encoded, decoded, ..] = extension.pick("encode_dtype decode_dtype", 1 + typed)?;
            Filter::AsType(read_types(extension, given, decoded, encoded)?)
        }
        CodecName::Quantize => {
            let [digits, decoded, encoded, ..] =
                extension.pick("digits dtype astype", 1 + typed)?;
            digits.integer(i32::MIN.into(), i32::MAX.into())?;
            let types = read_types(extension, given, decoded, encoded)?;
            if !is_float(types.decoded.dtype) || !is_float(types.encoded.dtype) {
                return Err(fail!(node, Decode, "quantize of elements that are no floats"));
            }
            if types.decoded == types.encoded {
                return Ok(None);
            }
            Filter::AsType(types)
        }
        CodecName::Shuffle => match shuffle_bytes(extension, given)? {
            0 | 1 => return Ok(None),
            bytes => Filter::Shuffle(bytes),
        },
        CodecName::BitRound => {
            return extension.pick("keepbits", 1)?[0].integer(0, 52).map(|_| None);
        }
        _ => unreachable!("{codec:?} is not a filter"),
    };
    Ok(Some(Codec::Filter(filter)))
}

/// Bytes of the elements that a shuffle is for.
fn shuffle_bytes(extension: &Extension<'_, '_>, given: Number) -> Result<u8, Status> {
    let [size, ..] = extension.pick("elementsize", 0)?;
    let size = match size.present() {
        Some(size) => size.numeral().integer(0, i64::MAX)?, // netCDF-C writes "4"
        // zarr-python takes the array's then, numcodecs alone 4.
        None if extension.has_id => 4,
        None if given.dtype == Dtype::Raw => {
            let way = "write \"elementsize\" there";
            return Err(fail!(extension.node, Unsupported, "a shuffle of no size: {way}"));
        }
        None => i64::from(given.dtype.bytes()),
    };
    if size > SHUFFLE_BYTES_MAX {
        let reason = "bytes is not read, only up to 255";
        return Err(fail!(extension.node, Unsupported, "a shuffle of {size} {reason}"));
    }
    // netCDF-C says so whatever it shuffled by, and numcodecs, which shuffles nothing then, reads
    // what it wrote as noise.
    let bytes = given.dtype.bytes();
    if size == 0 && bytes > 1 {
        let reason = "0 bytes, which netCDF-C writes for elements of any size, is not read";
        let way_out = format_args!("write {bytes} there if that is who wrote it");
        return Err(fail!(extension.node, Unsupported, "a shuffle of {reason}: {way_out}"));
    }
    Ok(size as u8)
}

/// The types that two members say; those that are absent are the other's, and the array's.
fn read_types<'r, 'a>(
    extension: &Extension<'r, 'a>,
    given: Number,
    decoded: Node<'r, 'a>,
    encoded: Node<'r, 'a>,
) -> Result<Types, Status> {
    let node = decoded.found().unwrap_or(extension.node);
    let decoded = decoded.found().map_or(Ok(given), read_number)?;
    check_given(extension, node, given, decoded)?;
    let encoded = encoded.present().map_or(Ok(decoded), read_number)?;
    Ok(Types { decoded, encoded })
}

/// Whether a filter of zarr v3 decodes to the type of the elements before it: zarr-python would
/// convert them once more.
fn check_given(
    extension: &Extension<'_, '_>,
    node: Node<'_, '_>,
    given: Number,
    decoded: Number,
) -> Result<(), Status> {
    if extension.has_id || given == decoded {
        return Ok(());
    }
    let (from, to) = (decoded.dtype.zarr3_name(), given.dtype.zarr3_name());
    let reason = format_args!("decodes to {from} where elements are {to} is not read");
    Err(fail!(node, Unsupported, "a filter that {reason}"))
}

/// A type as numpy spells it: "<i4", "i4" or "int32".
fn read_number(node: Node<'_, '_>) -> Result<Number, Status> {
    let name = node.string()?;
    let mut buffer = [0; 8];
    let text = name.decode_into(&mut buffer).unwrap_or("");
    let kind = text.strip_prefix(['<', '>', '|', '=']).unwrap_or(text);
    let dtype = dtype_of(kind, Dtype::zarr2_name).or_else(|| dtype_of(text, Dtype::zarr3_name));
    let is_number = |dtype: &Dtype| !matches!(dtype, Dtype::Bf16 | Dtype::C64 | Dtype::C128);
    let Some(dtype) = dtype.filter(is_number) else {
        let known = "bool, integers, and floats of 2, 4 or 8 bytes, as in \"<i4\" or \"int32\"";
        return Err(node.unknown("a filter of type", name, known));
    };
    let is_big = text.starts_with('>') && dtype.bytes() > 1;
    let byte_order = if is_big { ByteOrder::Big } else { ByteOrder::Little };
    Ok(Number { dtype, byte_order })
}

fn is_float(dtype: Dtype) -> bool {
    matches!(dtype, Dtype::F16 | Dtype::F32 | Dtype::F64)
}

/// Whether numpy adds these up without a type in between, or by rounding more than once.
fn check_delta(node: Node<'_, '_>, types: Types) -> Result<(), Status> {
    let (from, to) = (types.encoded.dtype, types.decoded.dtype);
    let is_small = matches!(from, Dtype::I8 | Dtype::U8);
    let is_read = match to {
        _ if from == Dtype::Bool || to == Dtype::Bool => false,
        Dtype::F64 => true,
        Dtype::F32 => is_small || matches!(from, Dtype::I16 | Dtype::U16 | Dtype::F16 | Dtype::F32),
        Dtype::F16 => is_small || from == Dtype::F16,
        Dtype::U64 => !is_float(from) && from != Dtype::I64,
        Dtype::I8 | Dtype::I16 | Dtype::I32 | Dtype::I64 => !is_float(from) && from != Dtype::U64,
        _ => !is_float(from),
    };
    if !is_read {
        let (from, to) = (from.zarr3_name(), to.zarr3_name());
        let reason = "is not read: numpy would round the sums";
        return Err(fail!(node, Unsupported, "delta of {to} as {from} {reason}"));
    }
    Ok(())
}
