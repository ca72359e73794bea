//! The codecs `scale_offset` and `cast_value` of zarr-extensions.
//!
//! Comes in: one item of a list, and the type of the elements that it was given. Goes out: a codec
//! of the chain; the pairs of a `scalar_map`, in rows after the runs of the grid. Sources: their
//! specifications, and zarr-python 3.4: a scale or an offset that is left out is 1 or 0.
//!
//! Invariant: each value is one of the type that it is meant for, read as a fill value is.
//! The map that encodes, and what only encoding needs, are checked all the same.

use super::fill::fill_element;
use super::node::{Extension, Node};
use super::structs::Element;
use super::zarr3::element_of;
use crate::base::limits::CAST_PAIRS_MAX;
use crate::base::status::Status;
use crate::fail;
use crate::loops::filters::word_of;
use crate::records::grid::EdgeRun;
use crate::records::{
    ArrayRecord, BEYOND_NAMES, BEYONDS, Beyond, ByteOrder, Cast, Codec, CodecName, Dtype, Filter,
    Number, Pair, ROUNDING_NAMES, ROUNDINGS, Rounding, Scaling, Types,
};

/// The byte order of this machine.
pub(super) const NATIVE: ByteOrder =
    if cfg!(target_endian = "big") { ByteOrder::Big } else { ByteOrder::Little };

/// The codec that an item of the list of codecs is. `given` is the type of the elements that it was
/// given; the rows of its pairs go to `table`, after those that the record has.
pub(super) fn read_values(
    extension: &Extension<'_, '_>,
    codec: CodecName,
    given: Number,
    record: &ArrayRecord,
    table: &mut [EdgeRun],
) -> Result<Codec, Status> {
    let is_plain = record.time.is_none() && record.small.is_none();
    if !is_plain || !is_number(given.dtype) {
        let (name, node) = (extension.name, extension.node);
        let way = "only of integers and floats of 16, 32 and 64 bits: write the array again \
                   without it";
        return Err(fail!(node, Unsupported, "{name} of this data type is not read, {way}"));
    }
    Ok(Codec::Filter(match codec {
        CodecName::ScaleOffset => read_scale_offset(extension, given)?,
        _ => Filter::Cast(read_cast(extension, given.dtype, record, table)?),
    }))
}

/// The type has numbers that are read here. Bfloat16 is left out, as zarr-python has none.
fn is_number(dtype: Dtype) -> bool {
    !matches!(dtype, Dtype::Bool | Dtype::Bf16 | Dtype::C64 | Dtype::C128 | Dtype::Raw)
}

pub(super) fn is_float(dtype: Dtype) -> bool {
    matches!(dtype, Dtype::F16 | Dtype::F32 | Dtype::F64)
}

fn read_scale_offset(extension: &Extension<'_, '_>, given: Number) -> Result<Filter, Status> {
    let [offset, scale, ..] = extension.pick("offset scale", 0)?;
    let (dtype, name) = (given.dtype, given.dtype.zarr3_name());
    let one = if is_float(dtype) { 1f64.to_bits() } else { 1 };
    let value = |node: Node<'_, '_>, absent| {
        let Some(node) = node.found() else { return Ok(absent) };
        let word = read_word(node, dtype)?;
        if is_float(dtype) && !f64::from_bits(word).is_finite() {
            let way = "write the array again without this codec";
            return Err(fail!(node, Unsupported, "{node} is not finite in {name}: {way}"));
        }
        Ok(word)
    };
    let scaling = Scaling { scale: value(scale, one)?, offset: value(offset, 0)? };
    let is_zero = match is_float(dtype) {
        true => f64::from_bits(scaling.scale) == 0.0,
        false => scaling.scale == 0,
    };
    if is_zero {
        return Err(fail!(scale, Decode, "a scale that is 0 in {name} leaves nothing to read"));
    }
    Ok(Filter::ScaleOffset(Types { decoded: given, encoded: given }, scaling))
}

fn read_cast(
    extension: &Extension<'_, '_>,
    decoded: Dtype,
    record: &ArrayRecord,
    table: &mut [EdgeRun],
) -> Result<Cast, Status> {
    let [data_type, rounding, beyond, map, ..] =
        extension.pick("data_type rounding out_of_range scalar_map", 1)?;
    let element = element_of(data_type)?;
    let encoded = element.dtype;
    if element.time.is_some() || element.small.is_some() || !is_number(encoded) {
        let way = "only to integers and floats of 16, 32 and 64 bits: write the array again so";
        return Err(fail!(data_type, Unsupported, "cast_value to {data_type} is not read, {way}"));
    }
    let choice = |node: Node<'_, '_>, names| {
        node.found().map_or(Ok(0), |node| node.choice(names, Status::Unsupported))
    };
    let rounding: Rounding = ROUNDINGS[choice(rounding, ROUNDING_NAMES)?];
    let rule: Beyond = BEYONDS[choice(beyond, BEYOND_NAMES)?];
    if rule == Beyond::Wrap && is_float(encoded) {
        let name = encoded.zarr3_name();
        return Err(fail!(beyond, Decode, "\"wrap\" is for integers, and the cast is to {name}"));
    }
    let [encode, decode] = match map.present() {
        None => [map, map],
        Some(map) => {
            let [encode, decode, ..] = map.pick_but("encode decode", 0, |_, _| false)?;
            [encode, decode]
        }
    };
    // Only their values are checked; the rows are free for those that decode.
    let first = record.rows_used() as usize;
    let rows = table.get_mut(first..).unwrap_or_default();
    read_pairs(encode, [decoded, encoded], rows)?;
    let pairs = read_pairs(decode, [encoded, decoded], rows)?;
    let number = |dtype| Number { dtype, byte_order: ByteOrder::Little };
    let types = Types { decoded: number(decoded), encoded: number(encoded) };
    let first_pair = record.pairs_used() as u16;
    Ok(Cast { types, rounding, beyond: rule, first_pair, pairs })
}

/// Reads a list of pairs, from a value of the first type to one of the second, into rows.
fn read_pairs(
    list: Node<'_, '_>,
    [from, to]: [Dtype; 2],
    rows: &mut [EdgeRun],
) -> Result<u16, Status> {
    let Some(list) = list.present() else { return Ok(0) };
    let mut count = 0;
    for item in list.items()? {
        if count == CAST_PAIRS_MAX {
            return Err(list.too_many(CAST_PAIRS_MAX, "pairs of values"));
        }
        let mut sides = item.items_of(2, format_args!("values, but a pair has 2"))?;
        let (Some(key), Some(value)) = (sides.next(), sides.next()) else {
            return Err(fail!(item, Decode, "{item} is not a pair of values"));
        };
        let pair = Pair { encoded: read_word(key, from)?, decoded: read_word(value, to)? };
        let is_float = is_float(from);
        let is_same = |row: &EdgeRun| is_equal(Pair::of_row(*row).encoded, pair.encoded, is_float);
        let (used, free) = rows.split_at_mut(count.min(rows.len()));
        if used.iter().any(is_same) {
            return Err(fail!(key, Unsupported, "{key} occurs twice in one map: leave one out"));
        }
        let Some(row) = free.first_mut() else {
            let way =
                "leaves no room for the pairs of its codecs: write it again on a regular grid";
            return Err(fail!(list, Unsupported, "a grid of so many chunk lengths {way}"));
        };
        *row = pair.row();
        count += 1;
    }
    Ok(count as u16)
}

/// Whether two words are one value for a map.
fn is_equal(a: u64, b: u64, is_float: bool) -> bool {
    let (x, y) = (f64::from_bits(a), f64::from_bits(b));
    if is_float { x == y || x.is_nan() && y.is_nan() } else { a == b }
}

/// A value of the type, as loops have it.
fn read_word(node: Node<'_, '_>, dtype: Dtype) -> Result<u64, Status> {
    let mut bytes = [0; 8];
    let element = &mut bytes[..dtype.bytes() as usize];
    fill_element(node, &Element::plain(dtype), false, element)?;
    Ok(word_of(Number { dtype, byte_order: NATIVE }, element))
}
