//! numcodecs' filters and checksums: in zarr v2 the items of `filters`, in v3 codecs whose names
//! have "numcodecs." before them.
//!
//! Comes in: one item of a list. Goes out: a codec with all that undoing it takes, or nothing where
//! reading changes nothing (bitround, quantize). Source: the classes of numcodecs, whose arguments
//! a document holds, and `zarr.codecs.numcodecs` of zarr-python.
//!
//! Invariant: the bytes that come out are numcodecs' bytes. What its release for numpy 2 cannot
//! decode, or what depends on the machine that does it, is refused.

use super::node::{Extension, Reader};
use super::zarr2::{TYPE_NAMES, TYPES};
use super::{ZARR_NAMES, zarr_name};
use crate::base::limits::CHUNK_BYTES_MAX;
use crate::base::status::Status;
use crate::records::{
    ArrayRecord, ByteOrder, Codec, CodecChain, DTYPES, Dtype, Filter, Line, Number, Sum, SumKind,
    Types,
};
use crate::source::json::{Kind, Value};

/// The names in zarr v2, and again as they are in v3. The first six are given elements in v3, the
/// others bytes.
const NAMES: &str = "delta fixedscaleoffset packbits astype quantize bitround shuffle crc32 \
                     adler32 fletcher32 numcodecs.delta numcodecs.fixedscaleoffset \
                     numcodecs.packbits numcodecs.astype numcodecs.quantize numcodecs.bitround \
                     numcodecs.shuffle numcodecs.crc32 numcodecs.adler32 numcodecs.fletcher32";

/// Half as many as there are NAMES.
const COUNT: usize = 10;

/// How many of them are given elements in v3.
const ELEMENT_COUNT: usize = 6;

/// Most bytes of an element that a shuffle is for: what blosc has.
const SHUFFLE_BYTES_MAX: i64 = 255;

/// One of NAMES.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Name {
    place: usize,
    is_zarr3: bool,
}

impl Name {
    /// The name of an item, if it is one of these in this version of zarr.
    pub fn find(extension: &Extension<'_>) -> Option<Name> {
        let place = extension.name.place_in(NAMES)?;
        let name = Name { place: place % COUNT, is_zarr3: place >= COUNT };
        (name.is_zarr3 != extension.has_id).then_some(name)
    }

    /// Whether it stands before the codec `bytes` in zarr v3.
    pub fn is_of_elements(self) -> bool {
        self.place < ELEMENT_COUNT
    }
}

/// The codec that an item of this name is; None where it changes nothing on reading. `given` is the
/// type of the elements that it was given: in zarr v3 it must be the one that it was made for. In
/// v2 only the bytes count.
pub(super) fn read_filter(
    reader: &mut Reader<'_>,
    extension: &Extension<'_>,
    name: Name,
    given: Number,
) -> Result<Option<Codec>, Status> {
    let filter = match name.place {
        0 => {
            let types = read_types(reader, extension, name, given, "dtype astype", 1)?;
            check_delta(reader, extension, types)?;
            Filter::Delta(types)
        }
        1 => return read_line(reader, extension, name, given).map(Some),
        2 => {
            reader.configuration(extension, "", 0)?;
            let booleans = Number { dtype: Dtype::Bool, byte_order: ByteOrder::Little };
            check_given(reader, extension.value, name, given, booleans)?;
            Filter::PackBits
        }
        3 => Filter::AsType(read_types(
            reader,
            extension,
            name,
            given,
            "decode_dtype encode_dtype",
            2,
        )?),
        4 => return read_quantize(reader, extension, name, given),
        5 => {
            let [bits, ..] = reader.configuration(extension, "keepbits", 1)?;
            reader.integer(bits, 0, 52)?;
            return Ok(None);
        }
        6 => return read_shuffle(reader, extension, name, given),
        7 => return read_sum(reader, extension, SumKind::Crc32, true).map(Some),
        8 => return read_sum(reader, extension, SumKind::Adler32, true).map(Some),
        _ => {
            reader.configuration(extension, "", 0)?;
            let sum = Sum { kind: SumKind::Fletcher32, at_start: false };
            return Ok(Some(Codec::Sum(sum)));
        }
    };
    Ok(Some(Codec::Filter(filter)))
}

/// A checksum of numcodecs that may be on either side.
pub(super) fn read_sum(
    reader: &mut Reader<'_>,
    extension: &Extension<'_>,
    kind: SumKind,
    default_start: bool,
) -> Result<Codec, Status> {
    let [location, ..] = reader.configuration(extension, "location", 0)?;
    let at_start = match location.kind() {
        Kind::Null => default_start,
        _ => reader.choice(location, "start end", Status::Unsupported)? == 0,
    };
    Ok(match (kind, at_start) {
        (SumKind::Crc32c, false) => Codec::Crc32c,
        _ => Codec::Sum(Sum { kind, at_start }),
    })
}

fn read_shuffle(
    reader: &mut Reader<'_>,
    extension: &Extension<'_>,
    name: Name,
    given: Number,
) -> Result<Option<Codec>, Status> {
    let [size, ..] = reader.configuration(extension, "elementsize", 0)?;
    let size = match size.kind() {
        // zarr-python takes the array's then, numcodecs alone 4.
        Kind::Null if name.is_zarr3 => i64::from(given.dtype.bytes()),
        Kind::Null => 4,
        _ => reader.integer(size, 0, i64::MAX)?,
    };
    if size > SHUFFLE_BYTES_MAX {
        let reason = format_args!("a shuffle of {size} bytes is not read, only up to 255");
        return Err(reader.unsupported(extension.value, reason));
    }
    Ok((size > 1).then_some(Codec::Filter(Filter::Shuffle(size as u8))))
}

fn read_line(
    reader: &mut Reader<'_>,
    extension: &Extension<'_>,
    name: Name,
    given: Number,
) -> Result<Codec, Status> {
    let names = "scale offset dtype astype";
    let [scale, offset, dtype, astype, ..] = reader.configuration(extension, names, 2)?;
    let line = Line { scale: reader.number(scale)?, offset: reader.number(offset)? };
    let types = types_of(reader, extension, name, given, (dtype, astype))?;
    for number in [types.decoded, types.encoded] {
        if number.dtype == Dtype::Bool {
            let reason = format_args!("booleans with a scale are not read");
            return Err(reader.unsupported(extension.value, reason));
        }
    }
    Ok(Codec::Filter(Filter::FixedScaleOffset(types, line)))
}

fn read_quantize(
    reader: &mut Reader<'_>,
    extension: &Extension<'_>,
    name: Name,
    given: Number,
) -> Result<Option<Codec>, Status> {
    let [digits, dtype, astype, ..] = reader.configuration(extension, "digits dtype astype", 1)?;
    reader.integer(digits, i64::from(i32::MIN), i64::from(i32::MAX))?;
    let types = types_of(reader, extension, name, given, (dtype, astype))?;
    let is_float = |number: Number| matches!(number.dtype, Dtype::F16 | Dtype::F32 | Dtype::F64);
    if !is_float(types.decoded) || !is_float(types.encoded) {
        let reason = format_args!("quantize of elements that are no floats");
        return Err(reader.decode(extension.value, reason));
    }
    Ok((types.decoded != types.encoded).then_some(Codec::Filter(Filter::AsType(types))))
}

/// The types on both sides, from the members `names`: of the decoded elements, of the encoded ones.
fn read_types(
    reader: &mut Reader<'_>,
    extension: &Extension<'_>,
    name: Name,
    given: Number,
    names: &str,
    required: usize,
) -> Result<Types, Status> {
    // zarr-python fills in the type that an astype decodes to.
    let required = if name.is_zarr3 { 0 } else { required };
    let [decoded, encoded, ..] = reader.configuration(extension, names, required)?;
    if name.place == 3 {
        let parent = extension.configuration.unwrap_or(extension.value);
        reader.required(parent, "encode_dtype", encoded)?;
    }
    types_of(reader, extension, name, given, (decoded, encoded))
}

/// The types that two members say; those that are not there are the other's, and the array's.
fn types_of(
    reader: &mut Reader<'_>,
    extension: &Extension<'_>,
    name: Name,
    given: Number,
    (decoded, encoded): (Value<'_>, Value<'_>),
) -> Result<Types, Status> {
    let at = decoded.found().unwrap_or(extension.value);
    let decoded = match decoded.found() {
        Some(value) => read_number(reader, value)?,
        None if name.is_zarr3 => given,
        None => {
            let parent = extension.configuration.unwrap_or(extension.value);
            reader.required(parent, "dtype", decoded)?;
            given
        }
    };
    check_given(reader, at, name, given, decoded)?;
    let encoded = match encoded.kind() {
        Kind::Null => decoded,
        _ => read_number(reader, encoded)?,
    };
    Ok(Types { decoded, encoded })
}

/// Whether a filter of zarr v3 decodes to the type of the elements before it: zarr-python would
/// convert them once more.
fn check_given(
    reader: &mut Reader<'_>,
    value: Value<'_>,
    name: Name,
    given: Number,
    decoded: Number,
) -> Result<(), Status> {
    if !name.is_zarr3 || given == decoded {
        return Ok(());
    }
    let (from, to) = (zarr_name(decoded.dtype), zarr_name(given.dtype));
    let reason =
        format_args!("a filter that decodes to {from} where elements are {to} is not read");
    Err(reader.unsupported(value, reason))
}

/// A type as numpy spells it: "<i4", "i4" or "int32".
fn read_number(reader: &mut Reader<'_>, value: Value<'_>) -> Result<Number, Status> {
    let name = reader.string(value)?;
    let mut buffer = [0; 8];
    let text = name.decode_into(&mut buffer).unwrap_or("");
    let (order, kind) = match text.split_at_checked(1) {
        Some((order @ ("<" | ">" | "|" | "="), kind)) => (order, kind),
        _ => ("", text),
    };
    let long = || ZARR_NAMES.split(' ').position(|known| known == text).map(|at| DTYPES[at]);
    let short = TYPE_NAMES.split(' ').position(|known| known == kind).map(|at| TYPES[at]);
    let dtype = short
        .or_else(long)
        .filter(|dtype| !matches!(dtype, Dtype::Bf16 | Dtype::C64 | Dtype::C128 | Dtype::Raw));
    let Some(dtype) = dtype else {
        let known = "bool, integers, and floats of 2, 4 or 8 bytes, as in \"<i4\" or \"int32\"";
        return Err(reader.unknown(value, "a filter of type", name, known));
    };
    let is_big = order == ">" && dtype.bytes() > 1;
    let byte_order = if is_big { ByteOrder::Big } else { ByteOrder::Little };
    Ok(Number { dtype, byte_order })
}

/// Whether numpy adds these up without a type in between, or by rounding more than once.
fn check_delta(
    reader: &mut Reader<'_>,
    extension: &Extension<'_>,
    types: Types,
) -> Result<(), Status> {
    let (from, to) = (types.encoded.dtype, types.decoded.dtype);
    let is_float = |dtype| matches!(dtype, Dtype::F16 | Dtype::F32 | Dtype::F64);
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
        let (from, to) = (zarr_name(from), zarr_name(to));
        let reason =
            format_args!("delta of {to} as {from} is not read: numpy would round the sums");
        return Err(reader.unsupported(extension.value, reason));
    }
    Ok(())
}

/// Adds a codec to a chain.
pub(super) fn push(
    reader: &mut Reader<'_>,
    item: Value<'_>,
    chain: &mut CodecChain,
    codec: Codec,
) -> Result<(), Status> {
    let has_compressor = chain.iter().any(|before| before.is_compressor());
    if has_compressor && (codec.is_compressor() || codec.is_filter()) {
        let (name, other) = (codec.name(), if codec.is_filter() { "a" } else { "another" });
        let reason = format_args!("{name} behind {other} compressor is not read");
        return Err(reader.unsupported(item, reason));
    }
    let most = chain.capacity();
    chain.try_push(codec).map_err(|_| reader.too_many(item, most, "codecs"))
}

/// Whether the chunks of a record fit its filters, and the filters the caps.
pub(super) fn check_sizes(
    reader: &mut Reader<'_>,
    value: Value<'_>,
    record: &ArrayRecord,
) -> Result<(), Status> {
    for (position, codec) in record.codecs.iter().enumerate().filter(|(_, codec)| codec.is_filter())
    {
        let Some(bytes) = record.encoded_bytes(position) else { continue };
        if codec.encoded_bytes(bytes).is_none() {
            let name = codec.name();
            let reason = format_args!("{bytes} bytes of a chunk are not whole elements of {name}");
            return Err(reader.decode(value, reason));
        }
    }
    let most = record.working_bytes();
    if most > CHUNK_BYTES_MAX {
        let reason = format_args!(
            "filters make {most} bytes of a chunk, more than {CHUNK_BYTES_MAX}: use smaller chunks"
        );
        return Err(reader.unsupported(value, reason));
    }
    Ok(())
}
