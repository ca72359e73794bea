//! Codec lists: the chain of a chunk, the shards around it, and transposes anywhere in front;
//! filters of elements in front of the `bytes` of a chunk.
//!
//! Comes in: the member `codecs`. Goes out: byte order, codec chain, axis orders, shard shapes and
//! index layouts in a record. Sources: zarr v3 core, section Codecs; the specifications of `bytes`,
//! `sharding_indexed` and `transpose`. Codecs from bytes to bytes are told in `byte_codecs`,
//! numcodecs' filters in `filters`.
//!
//! Invariant: parameters that decoding does not need (levels, shuffles) are checked all the same: a
//! value that a writer cannot have meant says that this is not the format we think it is.

use super::byte_codecs::{codec_from_name, read_configuration};
use super::filters::{Name, push, read_filter};
use super::node::{Extension, Extents, Reader};
use crate::base::limits::{SHARD_CHUNKS_MAX, SHARD_LEVELS_MAX};
use crate::base::math::product;
use crate::base::status::Status;
use crate::base::text::List;
use crate::records::{
    ArrayRecord, ByteOrder, Codec, CodecChain, Dtype, Filter, IndexLayout, Number, Types,
};
use crate::source::json::{Items, Value};

/// Codecs of the specifications that are given arrays.
const ARRAY_CODECS: &str = "transpose bytes sharding_indexed";

/// Reads `codecs` into `record`, whose rank, dtype and chunk_shape (the shape of the outer chunk
/// grid) are set.
pub(super) fn read_codecs(
    reader: &mut Reader<'_>,
    codecs: Value<'_>,
    record: &mut ArrayRecord,
) -> Result<(), Status> {
    let mut list = codecs;
    // Ends: every turn adds a level of shards, of which there are SHARD_LEVELS_MAX.
    loop {
        let level = record.shard_levels as usize;
        let mut items = reader.items(list)?;
        let first = read_front(reader, list, &mut items, record)?;
        if first.name != *"sharding_indexed" {
            return read_chunk_codecs(reader, &first, items, record);
        }
        if let Some(filter) = record.codecs.first() {
            let (name, way) = (filter.name(), "put it among the codecs of the shard");
            let reason = format_args!("{name} in front of sharding_indexed is not read: {way}");
            return Err(reader.unsupported(list, reason));
        }
        if level == SHARD_LEVELS_MAX {
            return Err(reader.too_many(first.value, SHARD_LEVELS_MAX, "levels of shards"));
        }
        if let Some(behind) = items.next() {
            let name = reader.extension(behind)?.name;
            let reason = format_args!("codec {name} behind sharding_indexed is not read");
            return Err(reader.unsupported(behind, reason));
        }
        list = read_shard(reader, &first, record)?;
        // What a shard holds has the shard's axes, until it is transposed itself.
        record.axis_order[level + 1] = record.axis_order[level];
    }
}

/// The codecs of a chunk from the one that makes bytes on, behind the filters that the record has.
fn read_chunk_codecs(
    reader: &mut Reader<'_>,
    first: &Extension<'_>,
    items: Items<'_>,
    record: &mut ArrayRecord,
) -> Result<(), Status> {
    let encoded = encoded_number(record, &record.codecs);
    // zarr-python leaves the order out where the array's own elements have one byte.
    let word_bytes = encoded.dtype.word_bytes().min(record.dtype.word_bytes());
    let byte_order = read_array_to_bytes(reader, first, word_bytes)?;
    match record.codecs.first() {
        None => record.byte_order = byte_order,
        // zarr-python's own reading of these takes the bytes in the wrong order.
        Some(filter) if byte_order == ByteOrder::Big => {
            let name = filter.name();
            let reason = format_args!("{name} in front of big-endian bytes is not read");
            return Err(reader.unsupported(first.value, reason));
        }
        Some(_) => {}
    }
    read_bytes_codecs(reader, items, array_number(record), &mut record.codecs)
}

/// The elements of an array, in the order that its filters are given them.
fn array_number(record: &ArrayRecord) -> Number {
    Number { dtype: record.dtype, byte_order: ByteOrder::Little }
}

/// The elements that the filters of a chain make of those of the array.
fn encoded_number(record: &ArrayRecord, chain: &[Codec]) -> Number {
    match chain.last() {
        Some(Codec::Filter(
            Filter::Delta(Types { encoded, .. })
            | Filter::AsType(Types { encoded, .. })
            | Filter::FixedScaleOffset(Types { encoded, .. }, _),
        )) => *encoded,
        Some(Codec::Filter(Filter::PackBits)) => {
            Number { dtype: Dtype::U8, byte_order: ByteOrder::Little }
        }
        _ => array_number(record),
    }
}

/// Takes the transposes at the front of a list into the axis order of the level that is read, and
/// the filters into the codecs of the chunk; gives the codec behind them.
fn read_front<'a>(
    reader: &mut Reader<'_>,
    list: Value<'_>,
    items: &mut Items<'a>,
    record: &mut ArrayRecord,
) -> Result<Extension<'a>, Status> {
    let mut is_first = true;
    for item in items {
        let extension = reader.extension(item)?;
        if let Some(name) = Name::find(&extension).filter(|name| name.is_of_elements()) {
            let given = encoded_number(record, &record.codecs);
            if let Some(codec) = read_filter(reader, &extension, name, given)? {
                push(reader, item, &mut record.codecs, codec)?;
            }
        } else if extension.name == *"transpose" {
            check_in_front(reader, item, &record.codecs)?;
            let axes = record.axes();
            let order = &mut record.axis_order[record.shard_levels as usize];
            transpose(reader, &extension, &mut order[..axes])?;
        } else {
            return Ok(extension);
        }
        is_first = false;
    }
    let reason = if is_first {
        "the list of codecs is empty"
    } else {
        "no codec behind transpose or filters makes bytes"
    };
    Err(reader.decode(list, format_args!("{reason}")))
}

/// A transpose may stand behind filters that look at each element for itself.
fn check_in_front(
    reader: &mut Reader<'_>,
    item: Value<'_>,
    filters: &[Codec],
) -> Result<(), Status> {
    let is_in_order =
        |codec: &&Codec| matches!(codec, Codec::Filter(Filter::Delta(_) | Filter::PackBits));
    if let Some(filter) = filters.iter().find(is_in_order) {
        let reason = format_args!("transpose behind {} is not read", filter.name());
        return Err(reader.unsupported(item, reason));
    }
    Ok(())
}

/// Applies a transpose to the axes that it gets: axis `i` of what it gives is axis `order[i]` of
/// what it gets.
///
/// Worked example: chunks of axes z y x, two transposes in a row. The order [2, 0, 1] gives x z y;
/// of those the order [1, 0, 2] gives z x y.
fn transpose(
    reader: &mut Reader<'_>,
    extension: &Extension<'_>,
    axes: &mut [u8],
) -> Result<(), Status> {
    let [order, ..] = reader.configuration(extension, "order", 1)?;
    if let Some(name) = order.as_str() {
        // What writers made before the specification had only permutations.
        match name.place_in("C F") {
            Some(0) => {}
            Some(_) => axes.reverse(),
            None => {
                let reason = format_args!("{name} is no list of axes, nor \"C\" or \"F\"");
                return Err(reader.unsupported(order, reason));
            }
        }
        return Ok(());
    }
    let places = reader.extents(order, 0)?;
    let given = Extents::from_iter(axes.iter().map(|axis| u64::from(*axis)));
    let is_permutation =
        places.len() == axes.len() && (0..axes.len() as u64).all(|axis| places.contains(&axis));
    if !is_permutation {
        let (places, count) = (List(&places), axes.len());
        let reason = format_args!("{places} does not name each of {count} axes, from 0, once");
        return Err(reader.decode(order, reason));
    }
    for (axis, place) in axes.iter_mut().zip(&places) {
        // Both are below the rank, which was checked.
        *axis = given[*place as usize] as u8;
    }
    Ok(())
}

/// The configuration of a shard whose shape is `record.chunk_shape` so far; gives the codecs of
/// what it holds.
fn read_shard<'a>(
    reader: &mut Reader<'_>,
    shard: &Extension<'a>,
    record: &mut ArrayRecord,
) -> Result<Value<'a>, Status> {
    if shard.configuration.is_none() {
        let reason = format_args!("member \"configuration\" is missing");
        return Err(reader.decode(shard.value, reason));
    }
    let [chunk_shape, codecs, index_codecs, location, ..] =
        reader.configuration(shard, "chunk_shape codecs index_codecs index_location", 3)?;
    let (axes, level) = (record.axes(), record.shard_levels as usize);
    // The shard's own axes: a transpose in front of it gave them another order.
    let order = record.axis_order[level];
    let outer: Extents =
        order[..axes].iter().map(|axis| record.chunk_shape[usize::from(*axis)]).collect();
    let inner = reader.extents(chunk_shape, 1)?;
    check_division(reader, chunk_shape, &outer, &inner)?;
    record.shard_shape[level] = record.chunk_shape;
    for (axis, edge) in order.iter().zip(&inner) {
        record.chunk_shape[usize::from(*axis)] = *edge;
    }
    record.shard_levels += 1;
    record.index[level] = read_index_codecs(reader, index_codecs)?;
    if let Some(location) = location.found() {
        let place = reader.choice(location, "start end", Status::Unsupported)?;
        record.index[level].at_start = place == 0;
    }
    Ok(codecs)
}

/// Whether chunks of `inner` divide a shard of `outer` exactly, into not too many.
fn check_division(
    reader: &mut Reader<'_>,
    value: Value<'_>,
    outer: &[u64],
    inner: &Extents,
) -> Result<(), Status> {
    let is_divided = outer.len() == inner.len()
        && outer.iter().zip(inner).all(|(shard, chunk)| shard % chunk == 0);
    if !is_divided {
        let (chunk, shard) = (List(inner), List(outer));
        let reason = format_args!("chunks of {chunk} do not divide shards of {shard}");
        return Err(reader.decode(value, reason));
    }
    let mut counts = Extents::new();
    for (shard, chunk) in outer.iter().zip(inner) {
        counts.push(shard / chunk);
    }
    if product(&counts).is_none_or(|count| count > SHARD_CHUNKS_MAX) {
        let counts = List(&counts);
        let reason = format_args!(
            "{counts} chunks per shard, more than {SHARD_CHUNKS_MAX}: use larger chunks"
        );
        return Err(reader.unsupported(value, reason));
    }
    Ok(())
}

/// Adds the codecs behind the one that makes bytes, of an array of elements `given`.
fn read_bytes_codecs(
    reader: &mut Reader<'_>,
    items: Items<'_>,
    given: Number,
    codecs: &mut CodecChain,
) -> Result<(), Status> {
    for item in items {
        let extension = reader.extension(item)?;
        if let Some(codec) = read_bytes_to_bytes(reader, &extension, given)? {
            push(reader, item, codecs, codec)?;
        }
    }
    Ok(())
}

/// The codec that makes bytes of a chunk, which must be `bytes`.
fn read_array_to_bytes(
    reader: &mut Reader<'_>,
    extension: &Extension<'_>,
    word_bytes: u32,
) -> Result<ByteOrder, Status> {
    let Extension { value, name, .. } = extension;
    if *name == *"bytes" {
        return read_bytes(reader, extension, word_bytes);
    }
    let is_of_bytes = Name::find(extension).is_some_and(|name| !name.is_of_elements());
    if is_of_bytes || codec_from_name(extension).is_some() {
        let reason = format_args!("codec {name} must stand behind \"bytes\"");
        return Err(reader.decode(*value, reason));
    }
    Err(unknown_codec(reader, extension))
}

/// The byte order that `bytes` says; words of one byte need none.
fn read_bytes(
    reader: &mut Reader<'_>,
    extension: &Extension<'_>,
    word_bytes: u32,
) -> Result<ByteOrder, Status> {
    let [endian, ..] = reader.configuration(extension, "endian", 0)?;
    let Some(endian) = endian.found() else {
        if word_bytes == 1 {
            return Ok(ByteOrder::Little);
        }
        let reason = format_args!("bytes of a type of {word_bytes}-byte words needs \"endian\"");
        return Err(reader.decode(extension.value, reason));
    };
    let place = reader.choice(endian, "little big", Status::Unsupported)?;
    // The order of single bytes is no order: one record for one layout.
    Ok(if place == 0 || word_bytes == 1 { ByteOrder::Little } else { ByteOrder::Big })
}

fn unknown_codec(reader: &mut Reader<'_>, extension: &Extension<'_>) -> Status {
    let known = "transpose, bytes, zstd, blosc, gzip, zlib, lz4, crc32c, sharding_indexed, and of \
                 numcodecs. also delta, fixedscaleoffset, packbits, astype, quantize, bitround, \
                 shuffle, crc32, adler32, fletcher32";
    reader.unknown(extension.value, "codec", extension.name, known)
}

/// A codec behind `bytes`; None where it changes nothing.
fn read_bytes_to_bytes(
    reader: &mut Reader<'_>,
    extension: &Extension<'_>,
    given: Number,
) -> Result<Option<Codec>, Status> {
    let Extension { value, name, .. } = extension;
    if let Some((codec, spelling)) = codec_from_name(extension) {
        return read_configuration(reader, extension, codec, spelling).map(Some);
    }
    match Name::find(extension) {
        Some(name) if !name.is_of_elements() => read_filter(reader, extension, name, given),
        None if name.place_in(ARRAY_CODECS).is_none() => Err(unknown_codec(reader, extension)),
        _ => {
            let reason = format_args!("codec {name} cannot stand behind \"bytes\"");
            Err(reader.decode(*value, reason))
        }
    }
}

/// The codecs of a shard index: `bytes` of u64 words, then nothing or one `crc32c`.
fn read_index_codecs(reader: &mut Reader<'_>, list: Value<'_>) -> Result<IndexLayout, Status> {
    let mut items = reader.items(list)?;
    let Some(first) = items.next() else {
        return Err(reader.decode(list, format_args!("the list of codecs is empty")));
    };
    let first = reader.extension(first)?;
    if first.name.place_in("transpose sharding_indexed").is_some() {
        let reason = format_args!("codec {} in front of an index is not read", first.name);
        return Err(reader.unsupported(first.value, reason));
    }
    let byte_order = read_array_to_bytes(reader, &first, 8)?;
    let words = Number { dtype: Dtype::U64, byte_order };
    let mut codecs = CodecChain::new();
    read_bytes_codecs(reader, items, words, &mut codecs)?;
    let has_crc = match codecs.as_slice() {
        [] => false,
        [Codec::Crc32c] => true,
        _ => {
            let reason =
                format_args!("an index other than bytes, or bytes and crc32c, is not read");
            return Err(reader.unsupported(list, reason));
        }
    };
    Ok(IndexLayout { at_start: false, has_crc, byte_order })
}
