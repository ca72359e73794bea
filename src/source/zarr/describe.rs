//! The facts of an array in its record, in words.
//!
//! Comes in: a record. Goes out: the name of the element type and the codecs, as the format of its
//! document names them. Invariant: one layout has one description, however it was spelled.

use crate::base::abi::{CODECS_TEXT_BYTES, NAME_BYTES};
use crate::base::text::Text;
use crate::records::{
    ArrayRecord, ByteOrder, Cast, Cf, Codec, DocumentKind, Dtype, Filter, IN_ORDER, IndexLayout,
    Number, Small,
};

/// The texts of `array_info`.
#[derive(Clone, Copy, Debug)]
pub struct Description {
    /// The element type as the document names it: "float32", "r24"; "<f4", "|V3" in zarr v2.
    pub dtype_name: Text<NAME_BYTES>,
    /// The codecs in the order of encoding: "bytes(little) zstd crc32c", for shards
    /// "sharding_indexed[bytes(little) zstd](index at end, crc32c)", with one "transpose(1,0)" for
    /// all that stand side by side, codecs after a shard that is decoded whole, and filters in
    /// front: "delta bytes(little) shuffle zstd", "scale_offset cast_value(int16) bytes(little)",
    /// with the type that elements are cast to. The decoding of the CF conventions stands first,
    /// with the type that it is of: "cf(int16)". For zarr v2 the filters, the compressor, if it has
    /// one, and the order of the elements: "delta zstd order C".
    pub codecs: Text<CODECS_TEXT_BYTES>,
}

/// The words for a record.
pub fn describe(record: &ArrayRecord) -> Description {
    let mut words = Description { dtype_name: Text::new(), codecs: Text::new() };
    let is_zarr2 = record.flat.is_some() || record.document == DocumentKind::Zarr2Array;
    let write = if is_zarr2 { write_zarr2 } else { write_zarr3 };
    write(record, &mut words);
    words
}

fn write_zarr3(record: &ArrayRecord, words: &mut Description) {
    let Description { dtype_name, codecs } = words;
    match (record.time, record.dtype) {
        (Some(time), _) if time.is_delta => write!(dtype_name, "numpy.timedelta64{time}"),
        (Some(time), _) => write!(dtype_name, "numpy.datetime64{time}"),
        _ if record.small.is_some() => dtype_name.push_str(record.small.map_or("", Small::name)),
        (_, Dtype::Raw) => write!(dtype_name, "r{}", record.dtype_bytes * 8),
        (_, dtype) => dtype_name.push_str(dtype.zarr3_name()),
    }
    let levels = record.shard_count();
    for level in 0..=levels {
        write_transpose(codecs, record, level);
        codecs.push_str(if level < levels { "sharding_indexed[" } else { "" });
    }
    let packed = record.codecs.iter().find_map(|codec| match codec {
        Codec::Filter(Filter::Packed(packed)) => Some(packed),
        _ => None,
    });
    let is_named = |codec: &&Codec| codec.row().is_of_elements && is_named(codec);
    for codec in record.codecs.iter().filter(is_named) {
        write_codec(codecs, *codec);
    }
    let of_zarr3 = record.codecs.iter().rfind(|codec| codec.row().is_of_elements);
    let of_zarr3 = of_zarr3.filter(|codec| codec.row().is_of_zarr3).and_then(|codec| codec.types());
    let Number { dtype, byte_order } = match of_zarr3 {
        Some(types) => types.encoded,
        None => match record.codecs.first() {
            Some(Codec::Filter(Filter::Cf(cf))) => cf.types.encoded,
            _ => Number { dtype: record.dtype, byte_order: record.byte_order },
        },
    };
    codecs.push_str(match byte_order {
        _ if packed.is_some_and(|packed| packed.padding.is_some()) => "packbits",
        _ if packed.is_some() => "bytes",
        _ if dtype.word_bytes() == 1 => "bytes",
        ByteOrder::Little => "bytes(little)",
        ByteOrder::Big => "bytes(big)",
    });
    for codec in record.codecs.iter().filter(|codec| !codec.row().is_of_elements) {
        match codec.shard() {
            Some(number) => write_index(codecs, record.index[number]),
            None => write!(codecs, " {}", codec.name()),
        }
    }
    let levels = &record.index[..record.shard_levels as usize];
    levels.iter().rev().for_each(|layout| write_index(codecs, *layout));
}

/// The end of a shard: "](index at end, crc32c)".
fn write_index(text: &mut Text<CODECS_TEXT_BYTES>, layout: IndexLayout) {
    text.push_str(if layout.at_start { "](index at start" } else { "](index at end" });
    text.push_str(if layout.byte_order == ByteOrder::Big { ", big" } else { "" });
    text.push_str(if layout.has_crc { ", crc32c)" } else { ")" });
}

/// A codec with the type that elements are cast to, or that CF decodes: "cast_value(int16) ".
fn write_codec(text: &mut Text<CODECS_TEXT_BYTES>, codec: Codec) {
    text.push_str(codec.name());
    if let Codec::Filter(Filter::Cast(Cast { types, .. }) | Filter::Cf(Cf { types, .. })) = codec {
        write!(text, "({})", types.encoded.dtype.zarr3_name());
    }
    text.push_str(" ");
}

/// Whether a document names a codec: the type of the elements stands for the others.
fn is_named(codec: &&Codec) -> bool {
    !matches!(codec, Codec::Filter(Filter::Packed(_) | Filter::Member(_)))
}

/// The transpose between the axes of level `level` and those of the level around it, if it exists:
/// "transpose(1,0) ".
fn write_transpose(text: &mut Text<CODECS_TEXT_BYTES>, record: &ArrayRecord, level: usize) {
    let axes = record.axes();
    let outer = if level == 0 { IN_ORDER } else { *record.order_at(level - 1) };
    let inner = *record.order_at(level);
    if inner == outer {
        return;
    }
    for (place, axis) in inner[..axes].iter().enumerate() {
        let from = outer[..axes].iter().position(|other| other == axis).unwrap_or(0);
        write!(text, "{}{from}", if place == 0 { "transpose(" } else { "," });
    }
    text.push_str(") ");
}

fn write_zarr2(record: &ArrayRecord, words: &mut Description) {
    let Description { dtype_name, codecs } = words;
    let order = match record.byte_order {
        _ if record.dtype.word_bytes() == 1 => "|",
        ByteOrder::Little => "<",
        ByteOrder::Big => ">",
    };
    match (record.time, record.dtype) {
        (Some(time), _) if time.is_delta => write!(dtype_name, "{order}m8{time}"),
        (Some(time), _) => write!(dtype_name, "{order}M8{time}"),
        (_, Dtype::Raw) => write!(dtype_name, "{order}V{}", record.dtype_bytes),
        _ if record.small.is_some() => dtype_name.push_str(record.small.map_or("", Small::name)),
        (_, Dtype::Bf16) => dtype_name.push_str("bfloat16"),
        (_, dtype) => write!(dtype_name, "{order}{}", dtype.zarr2_name()),
    }
    for codec in record.codecs.iter().filter(is_named) {
        write_codec(codecs, *codec);
    }
    // Both orders are one layout if at most one axis is longer than 1: it is called C.
    let axes = (0..record.axes()).filter(|axis| record.chunk_shape[*axis] > 1);
    let mut outward = axes.map(|axis| record.chunk_strides[axis]);
    let is_column_major = matches!((outward.next(), outward.next()), (Some(a), Some(b)) if a < b);
    codecs.push_str(if is_column_major { "order F" } else { "order C" });
}
