//! Codec lists: the chain of a chunk, the shards around it, and transposes anywhere in front;
//! filters of elements in front of the `bytes` of a chunk.
//!
//! Comes in: the member `codecs`. Goes out: byte order, codec chain and axis orders in a record.
//! Sources: zarr v3 core, section Codecs; the specifications of `bytes` and `transpose`. Shards are
//! read by `shards`, all other codecs by `named_codecs`.
//!
//! Invariant: parameters that decoding does not need are checked all the same: a value that a
//! writer cannot have meant says that this is not the format we think it is.

use super::named_codecs::{Named, Names, unread};
use super::node::{Extension, Node};
use super::reshape::read_reshape;
use super::shards::{WholeShards, read_shard};
use super::structs::Structure;
use super::values::read_values;
use crate::base::limits::{CODECS_MAX, SHARDS_MAX};
use crate::base::status::Status;
use crate::base::text::List;
use crate::fail;
use crate::records::grid::EdgeRun;
use crate::records::{
    ArrayRecord, ByteOrder, Codec, CodecChain, Dtype, Filter, Number, Packed, Padding, Small,
};

/// Reads `codecs` into `record`, whose rank, dtype and chunk_shape (the shape of the outer chunk
/// grid) are set; the pairs of casts go to `table`, after the runs that the record has.
pub(super) fn read_codecs(
    codecs: Node<'_, '_>,
    structure: Option<&Structure<'_, '_>>,
    record: &mut ArrayRecord,
    table: &mut [EdgeRun],
) -> Result<(), Status> {
    let mut list = codecs;
    let mut whole = WholeShards::default();
    // Ends: every turn adds a level of shards, at most SHARDS_MAX.
    loop {
        let level = record.shard_levels as usize;
        let mut items = list.items()?;
        let first = read_front(list, &mut items, record, table)?;
        if first.name != *"sharding_indexed" {
            read_chunk_codecs(&first, items, structure, record)?;
            return whole.settle(list, record);
        }
        if let Some(filter) = record.codecs.first() {
            let (name, way) = (filter.name(), "put it among the codecs of the shard");
            let reason = format_args!("in front of sharding_indexed is not read: {way}");
            return Err(fail!(list, Unsupported, "{name} {reason}"));
        }
        if level == SHARDS_MAX {
            let way = "write the array again with fewer";
            let reason =
                format_args!("more than {SHARDS_MAX} levels of shards are not read: {way}");
            return Err(fail!(first.node, Unsupported, "{reason}"));
        }
        let mut after = CodecChain::new();
        read_bytes_codecs(&first, items, RAW, &mut after)?;
        whole.add(list, level, after)?;
        list = read_shard(&first, record)?;
        // The contents of a shard have the shard's axes, until it is transposed itself.
        record.axis_order[level + 1] = record.axis_order[level];
    }
}

/// The codecs of a chunk from the one that makes bytes on, after the filters that the record has.
fn read_chunk_codecs<'r, 'a: 'r>(
    first: &Extension<'r, 'a>,
    items: impl Iterator<Item = Node<'r, 'a>>,
    structure: Option<&Structure<'_, '_>>,
    record: &mut ArrayRecord,
) -> Result<(), Status> {
    if let Some(structure) = structure {
        read_structure(first, structure, record)?;
        return read_bytes_codecs(first, items, RAW, &mut record.codecs);
    }
    if let Some(packed) = read_packed(first, record)? {
        let packed = Codec::Filter(Filter::Packed(packed));
        let is_pushed = record.codecs.try_push(packed);
        is_pushed.map_err(|_| first.node.too_many(CODECS_MAX, "codecs"))?;
        let bytes = Number { dtype: Dtype::U8, byte_order: ByteOrder::Little };
        return read_bytes_codecs(first, items, bytes, &mut record.codecs);
    }
    let encoded = encoded_number(record);
    let word_bytes = match record.codecs.last_mut() {
        Some(Codec::Filter(Filter::ScaleOffset(..) | Filter::Cast(_))) => {
            encoded.dtype.word_bytes()
        }
        // zarr-python leaves the order out if the array's own elements have one byte.
        _ => encoded.dtype.word_bytes().min(record.dtype.word_bytes()),
    };
    let byte_order = read_array_to_bytes(first, word_bytes)?;
    match record.codecs.last_mut() {
        None => record.byte_order = byte_order,
        Some(Codec::Filter(Filter::ScaleOffset(types, _))) => types.encoded.byte_order = byte_order,
        Some(Codec::Filter(Filter::Cast(cast))) => cast.types.encoded.byte_order = byte_order,
        // zarr-python's own reading of these takes the bytes in the wrong order.
        Some(filter) if byte_order == ByteOrder::Big => {
            let (name, reason) = (filter.name(), "in front of big-endian bytes is not read");
            return Err(fail!(first.node, Unsupported, "{name} {reason}"));
        }
        Some(_) => {}
    }
    // zarr-python takes the array's type, but for codecs that it keeps account of itself.
    let is_of_zarr3 = |codec: &Codec| codec.row().is_of_zarr3;
    let given = if record.codecs.iter().any(is_of_zarr3) { encoded } else { array_number(record) };
    read_bytes_codecs(first, items, given, &mut record.codecs)
}

/// The bytes of structured elements, of which a field may be meant.
fn read_structure(
    first: &Extension<'_, '_>,
    structure: &Structure<'_, '_>,
    record: &mut ArrayRecord,
) -> Result<(), Status> {
    if let Some(filter) = record.codecs.first() {
        let (name, node) = (filter.name(), first.node);
        return Err(fail!(node, Unsupported, "{name} in front of structured elements is not read"));
    }
    let member = structure.member();
    // zarr-python 3.1 leaves the order out, and means little.
    let is_given = first.pick("endian", 0).is_ok_and(|[endian, ..]| endian.found().is_some());
    let byte_order = read_array_to_bytes(first, if is_given { 2 } else { 1 })?;
    if byte_order == ByteOrder::Big && (member.is_none() || record.dtype == Dtype::Raw) {
        let way = "are read field by field: name one, ?field=..";
        return Err(fail!(first.node, Unsupported, "big-endian structured elements {way}"));
    }
    if record.dtype.word_bytes() > 1 && record.small.is_none() {
        record.byte_order = byte_order;
    }
    if let Some(small) = record.small {
        record.codecs.push(Codec::Filter(Filter::Packed(Packed { small, padding: None })));
    }
    if let Some(member) = member {
        record.codecs.push(Codec::Filter(Filter::Member(member)));
    }
    Ok(())
}

/// How the elements of a type of few bits lie in a chunk; None for other types in `bytes`.
fn read_packed(
    extension: &Extension<'_, '_>,
    record: &ArrayRecord,
) -> Result<Option<Packed>, Status> {
    let Extension { node, name, .. } = *extension;
    let is_packed = name == *"packbits";
    let bit = Some(Small::Bit).filter(|_| is_packed && record.dtype == Dtype::Bool);
    let small = record.small.or(bit);
    if let Some(filter) = record.codecs.first()
        && (is_packed || small.is_some())
    {
        let (filter, type_name) = (filter.name(), small.map_or("packbits", Small::name));
        return Err(fail!(node, Unsupported, "{filter} in front of {type_name} is not read"));
    }
    let Some(small) = small.filter(|small| !is_packed || small.can_be_packed()) else {
        if is_packed {
            let reason = "is read of bool, int2, uint2, int4 and uint4: write the array again with \
                          \"bytes\"";
            return Err(fail!(node, Unsupported, "codec {name} {reason}"));
        }
        return Ok(None);
    };
    if !is_packed {
        read_array_to_bytes(extension, 1)?;
        return Ok(Some(Packed { small, padding: None }));
    }
    let [padding, first, last, ..] = extension.pick("padding_encoding first_bit last_bit", 0)?;
    let padding = match padding.found() {
        None => Padding::Absent,
        Some(padding) => {
            let kinds = [Padding::Absent, Padding::First, Padding::Last];
            kinds[padding.choice("none first_byte last_byte", Status::Unsupported)?]
        }
    };
    for (bit, whole) in [(first, 0), (last, i128::from(small.bits()) - 1)] {
        if let Some(bit) = bit.present()
            && bit.as_integer() != Some(whole)
        {
            let reason = "a part of the bits of elements is not read: write all of them";
            return Err(fail!(bit, Unsupported, "packbits from bit {bit}: {reason}"));
        }
    }
    Ok(Some(Packed { small, padding: Some(padding) }))
}

/// Elements of bytes that mean nothing to codecs.
pub(super) const RAW: Number = Number { dtype: Dtype::Raw, byte_order: ByteOrder::Little };

/// The elements of an array, in the order that its filters are given them.
fn array_number(record: &ArrayRecord) -> Number {
    Number { dtype: record.dtype, byte_order: ByteOrder::Little }
}

/// The elements that the filters of a record make of those of the array.
pub(super) fn encoded_number(record: &ArrayRecord) -> Number {
    match record.codecs.iter().rfind(|codec| codec.row().is_of_elements) {
        Some(Codec::Filter(Filter::PackBits)) => {
            Number { dtype: Dtype::U8, byte_order: ByteOrder::Little }
        }
        Some(codec) => codec.types().map_or(array_number(record), |types| types.encoded),
        None => array_number(record),
    }
}

/// Takes the transposes at the front of a list into the axis order of the level that is read, and
/// the filters into the codecs of the chunk; gives the codec after them. A reshape is only checked:
/// it leaves the elements in their order.
fn read_front<'r, 'a>(
    list: Node<'r, 'a>,
    items: &mut impl Iterator<Item = Node<'r, 'a>>,
    record: &mut ArrayRecord,
    table: &mut [EdgeRun],
) -> Result<Extension<'r, 'a>, Status> {
    let mut reason = "the list of codecs is empty";
    let mut reshaped = None;
    for item in items {
        let extension = item.extension()?;
        if let Some(named) = Named::find(&extension).filter(|named| named.row.is_of_elements) {
            let given = encoded_number(record);
            if named.row.is_of_zarr3 {
                let codec = read_values(&extension, named.row.codec, given, record, table)?;
                let is_pushed = record.codecs.try_push(codec);
                is_pushed.map_err(|_| list.too_many(CODECS_MAX, "codecs"))?;
            } else {
                named.add_to(&mut record.codecs, given)?;
            }
        } else if extension.name == *"reshape" {
            reshaped = Some(read_reshape(&extension, reshaped, record)?);
        } else if reshaped.is_some()
            && extension.name.place_in("transpose sharding_indexed").is_some()
        {
            let (name, way) = (extension.name, "put reshape after it");
            return Err(fail!(item, Unsupported, "{name} after reshape is not read: {way}"));
        } else if extension.name == *"transpose" {
            read_transpose(&extension, record)?;
        } else {
            return Ok(extension);
        }
        reason = "no codec after transpose, reshape or filters makes bytes";
    }
    Err(fail!(list, Decode, "{reason}"))
}

/// Applies a transpose to the axes that it gets: axis `i` of what it gives is axis `order[i]` of
/// what it gets. It may follow filters that look at each element for itself.
///
/// Worked example: chunks of axes z y x, two transposes in a row. The order [2, 0, 1] gives x z y;
/// of those the order [1, 0, 2] gives z x y.
fn read_transpose(extension: &Extension<'_, '_>, record: &mut ArrayRecord) -> Result<(), Status> {
    let is_in_order =
        |codec: &&Codec| matches!(codec, Codec::Filter(Filter::Delta(_) | Filter::PackBits));
    if let Some(filter) = record.codecs.iter().find(is_in_order) {
        let name = filter.name();
        return Err(fail!(extension.node, Unsupported, "transpose after {name} is not read"));
    }
    let rank = record.axes();
    let axes = &mut record.axis_order[record.shard_levels as usize];
    let given = *axes;
    let axes = &mut axes[..rank];
    let [order, ..] = extension.pick("order", 1)?;
    if let Some(name) = order.as_str() {
        // Writers that are older than the specification made only permutations.
        match name.place_in("C F") {
            Some(0) => {}
            Some(_) => axes.reverse(),
            None => {
                let reason = "is not a list of axes, \"C\" or \"F\"";
                return Err(fail!(order, Unsupported, "{name} {reason}"));
            }
        }
        return Ok(());
    }
    let places = order.extents(0)?;
    if places.len() != rank || !(0..rank as u64).all(|axis| places.contains(&axis)) {
        let (places, reason) = (List(&places), "axes, from 0, once");
        return Err(fail!(order, Decode, "{places} does not name each of {rank} {reason}"));
    }
    for (axis, place) in axes.iter_mut().zip(&places) {
        *axis = given[*place as usize];
    }
    Ok(())
}

/// Adds the codecs after the one that makes bytes, `first`, of an array of elements `given`.
pub(super) fn read_bytes_codecs<'r, 'a: 'r>(
    first: &Extension<'r, 'a>,
    items: impl Iterator<Item = Node<'r, 'a>>,
    given: Number,
    codecs: &mut CodecChain,
) -> Result<(), Status> {
    for item in items {
        let extension = item.extension()?;
        let name = extension.name;
        match Named::find(&extension) {
            Some(named) if !named.row.is_of_elements => named.add_to(codecs, given)?,
            None if name
                .place_in("transpose reshape bytes packbits sharding_indexed")
                .is_none() =>
            {
                return Err(unknown_codec(&extension));
            }
            _ => {
                let reason = "cannot stand after";
                return Err(fail!(item, Decode, "codec {name} {reason} {}", first.name));
            }
        }
    }
    Ok(())
}

/// The byte order that the codec says which makes bytes of a chunk. It must be `bytes`; words of
/// one byte need no order.
pub(super) fn read_array_to_bytes(
    extension: &Extension<'_, '_>,
    word_bytes: u32,
) -> Result<ByteOrder, Status> {
    let Extension { node, name, .. } = *extension;
    if name != *"bytes" {
        let named = Named::find(extension).filter(|named| !named.row.is_of_elements);
        return Err(match named {
            Some(_) => fail!(node, Decode, "codec {name} must stand after \"bytes\""),
            None => unknown_codec(extension),
        });
    }
    let [endian, ..] = extension.pick("endian", 0)?;
    let place = match endian.found() {
        Some(endian) => endian.choice("little big", Status::Unsupported)?,
        None if word_bytes == 1 => 0,
        None => {
            let reason = "words needs \"endian\"";
            return Err(fail!(node, Decode, "bytes of a type of {word_bytes}-byte {reason}"));
        }
    };
    // The order of single bytes is no order: one record for one layout.
    Ok(if place == 0 || word_bytes == 1 { ByteOrder::Little } else { ByteOrder::Big })
}

fn unknown_codec(extension: &Extension<'_, '_>) -> Status {
    let known = format_args!(
        "transpose, reshape, bytes, packbits, {}, sharding_indexed, numcodecs. and {}, {}, {}",
        Names(|row| row.is_specified),
        Names(|row| row.is_of_elements && !row.is_of_zarr3),
        Names(|row| !row.is_specified
            && !row.is_of_zarr3
            && !row.is_of_elements
            && !row.has_checksum),
        Names(|row| !row.is_specified && row.has_checksum),
    );
    unread(extension.node, "codec", extension.name, known)
}
