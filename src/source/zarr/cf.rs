//! The CF conventions: attributes by which an array's elements stand for other numbers.
//!
//! Comes in: the attributes of an array whose uri ends with `#cf=1`, and its record. Goes out: the
//! record of the numbers that the elements stand for, f64. Sources: CF 2.5.1 and 8.1, NUG's
//! `_Unsigned`, and xarray 2026.9, whose zarr backend spells a float `_FillValue` of zarr v3 as the
//! base64 of an f64, and keeps that of zarr v2 as `fill_value`.
//!
//! Beyond xarray, `valid_range`, `valid_min` and `valid_max` mask what is outside of them. As in
//! xarray, `missing_value` and `_FillValue` may differ, and both mask.
//!
//! Invariant: an attribute that is not understood, or contradicts another one, is refused. Values
//! are of the type that elements are stored in; `_Unsigned` reads them as it reads elements.

use super::fill::{base64_part, integer_from_f64};
use super::node::{Document, Node};
use super::values::{NATIVE, is_float};
use crate::assemble::value_element;
use crate::base::limits::{CAST_PAIRS_MAX, CHUNK_BYTES_MAX, CODECS_MAX};
use crate::base::math::product;
use crate::base::status::{Status, Why};
use crate::fail;
use crate::loops::cf::cf;
use crate::loops::filters::word_of;
use crate::records::grid::EdgeRun;
use crate::records::{
    ArrayRecord, ByteOrder, Cf, Codec, DocumentKind, Dtype, Filter, Number, Types,
};
use crate::source::json::Kind;

/// The attributes of elements, and after those the one that xarray gives each of its arrays.
const NAMES: &str = "scale_factor add_offset _FillValue missing_value valid_range valid_min \
                     valid_max _Unsigned _ARRAY_DIMENSIONS";

/// How many there are of elements.
const OF_ELEMENTS: usize = 8;

/// Ends the text of a refusal.
const WAY: &str = "correct it, or leave out #cf=1 or cf = 1";

/// Makes the record of an array that of the numbers that its attributes make of its elements: by a
/// filter of chunks, or, if `is_cast`, when elements are cast. They stand in `document`, which is
/// `zarr.json` or `.zattrs`. Values that are missing go to rows of `table`, after those of the
/// record. An array without such attributes stays as it is.
///
/// Errors: DECODE (not JSON, or not a value of the type), UNSUPPORTED (a contradiction, or a type
/// that has no such attributes).
pub fn read_cf(
    ((uri, file_name), document): ((&str, &'static str), &[u8]),
    is_cast: bool,
    record: &mut ArrayRecord,
    table: &mut [EdgeRun],
    why: &mut Why,
) -> Result<(), Status> {
    let document = Document::new(uri, file_name, document, why);
    let (root, is_zarr2) = (document.root()?, record.document == DocumentKind::Zarr2Array);
    record.packing.changes = 0;
    let attributes = if is_zarr2 { root } else { root.pick("attributes", 0)?[0] };
    let Some(attributes) = attributes.present() else { return Ok(()) };
    let picked = attributes.pick(NAMES, 0)?;
    let [scale, offset, fill, missing, range, least, largest, unsigned, dimensions, ..] = picked;
    // For xarray the fill value of such an array marks what is missing.
    let masks_fill = is_zarr2 && record.is_fill_given && dimensions.present().is_some();
    let first = picked[..OF_ELEMENTS].iter().find_map(|node| node.present());
    let Some(first) = first.or(masks_fill.then_some(dimensions)) else { return Ok(()) };
    check_type(first, record)?;
    let values = Values { stored: record.dtype, meant: meant_type(unsigned, record.dtype)? };
    let limits = values.limits([range, least, largest])?;
    let first_row = record.pairs_used() as u16;
    let rows = table.get_mut(record.rows_used() as usize..).unwrap_or_default();
    let mut rows = Rows { rows, used: 0 };
    rows.push(first, limits)?;
    for attribute in [fill, missing].into_iter().filter_map(Node::present) {
        values.for_each(attribute, &mut |item, word| values.push_missing(item, word, &mut rows))?;
    }
    if masks_fill {
        let word = word_of(values.number(NATIVE), &record.fill[..values.bytes()]);
        values.check_fill(fill, word)?;
        values.push_missing(dimensions, word, &mut rows)?;
    }
    record.dtype = values.meant;
    let is_scaled = scale.present().or(offset.present()).is_some();
    if !is_scaled && rows.used == 1 && limits == values.all() {
        return Ok(());
    }
    let decoded = Number { dtype: Dtype::F64, byte_order: ByteOrder::Little };
    let types = Types { decoded, encoded: values.number(record.byte_order) };
    // Adding -0.0 changes no number, and 0.0 would turn -0.0 over.
    let (scale, offset) = (read_factor(scale, 1.0)?, read_factor(offset, -0.0)?);
    let rule = Cf { types, scale, offset, first_row, rows: rows.used as u16 };
    if is_cast {
        record.cf = Some(rule);
        return check_size(first, record);
    }
    decode_with(first, rule, rows.rows, record)
}

/// Whether elements are numbers that may be missing.
fn check_type(node: Node<'_, '_>, record: &ArrayRecord) -> Result<(), Status> {
    let is_number =
        !matches!(record.dtype, Dtype::Bool | Dtype::Bf16 | Dtype::C64 | Dtype::C128 | Dtype::Raw);
    let is_member =
        record.codecs.iter().any(|codec| matches!(codec, Codec::Filter(Filter::Member(_))));
    if is_member {
        let way = "leave out #cf=1 or cf = 1";
        return Err(fail!(node, Unsupported, "it is not of one field of the elements: {way}"));
    }
    if is_number && record.time.is_none() && record.small.is_none() {
        return Ok(());
    }
    let way = "only of integers and floats of 8 to 64 bits: leave out #cf=1 or cf = 1";
    Err(fail!(node, Unsupported, "the CF conventions are not read of this data type, {way}"))
}

/// The type that `_Unsigned` makes of the type of integers that are stored.
fn meant_type(node: Node<'_, '_>, stored: Dtype) -> Result<Dtype, Status> {
    use Dtype::{I8, I16, I32, I64, U8, U16, U32, U64};
    let Some(node) = node.present() else { return Ok(stored) };
    let name = stored.zarr3_name();
    if is_float(stored) {
        return Err(fail!(node, Unsupported, "{name} has no sign to leave out: {WAY}"));
    }
    let word = node.as_str().and_then(|text| text.place_in("true false"));
    let Some(place) = word.or(node.as_bool().map(|is_true| usize::from(!is_true))) else {
        return Err(fail!(node, Decode, "{node} is neither \"true\" nor \"false\": {WAY}"));
    };
    Ok(match (stored, place) {
        (I8 | U8, 0) => U8,
        (I16 | U16, 0) => U16,
        (I32 | U32, 0) => U32,
        (I64 | U64, 0) => U64,
        (I8 | U8, _) => I8,
        (I16 | U16, _) => I16,
        (I32 | U32, _) => I32,
        _ => I64,
    })
}

/// Values of attributes, as words of the loops.
#[derive(Clone, Copy)]
struct Values {
    /// The type of the array's document.
    stored: Dtype,
    /// The type that its elements are read as, of the same size.
    meant: Dtype,
}

impl Values {
    fn bytes(self) -> usize {
        self.stored.bytes() as usize
    }

    fn number(self, byte_order: ByteOrder) -> Number {
        Number { dtype: self.meant, byte_order }
    }

    /// The limits that every value but NaN is within.
    fn all(self) -> EdgeRun {
        let (least, largest) = match self.meant {
            meant if is_float(meant) => (f64::NEG_INFINITY.to_bits(), f64::INFINITY.to_bits()),
            meant if is_signed(meant) => (i64::MIN as u64, i64::MAX as u64),
            _ => (0, u64::MAX),
        };
        EdgeRun { limit: least, cell_limit: largest }
    }

    /// Whether one value is larger than another one.
    fn is_above(self, value: u64, other: u64) -> bool {
        match self.meant {
            meant if is_float(meant) => f64::from_bits(value) > f64::from_bits(other),
            meant if is_signed(meant) => value as i64 > other as i64,
            _ => value > other,
        }
    }

    /// The least and the largest value that is not missing.
    fn limits(self, [range, least, largest]: [Node<'_, '_>; 3]) -> Result<EdgeRun, Status> {
        let (mut limits, mut sides) = (self.all(), [least.present(), largest.present()]);
        if let Some(range) = range.present() {
            if let Some(other) = sides.into_iter().flatten().next() {
                let way = "leave out one of them, #cf=1 or cf = 1";
                return Err(fail!(other, Unsupported, "it contradicts valid_range: {way}"));
            }
            let says = format_args!("values, but a range has 2: {WAY}");
            let mut items = range.items_of(2, says)?;
            sides = [items.next(), items.next()];
        }
        for (place, node) in sides.into_iter().enumerate() {
            let Some(node) = node else { continue };
            let mut count = 0;
            self.for_each(node, &mut |item, word| {
                count += 1;
                if is_float(self.meant) && f64::from_bits(word).is_nan() || count > 1 {
                    return Err(fail!(item, Unsupported, "{item} is not a limit: {WAY}"));
                }
                *if place == 0 { &mut limits.limit } else { &mut limits.cell_limit } = word;
                Ok(())
            })?;
        }
        if self.is_above(limits.limit, limits.cell_limit) {
            let node = range.present().or(largest.present()).unwrap_or(least);
            return Err(fail!(node, Unsupported, "no value is within the limits: {WAY}"));
        }
        Ok(limits)
    }

    /// Calls `each` with the value of an attribute, or each item of a list.
    fn for_each<'r, 'a>(
        self,
        node: Node<'r, 'a>,
        each: &mut dyn FnMut(Node<'r, 'a>, u64) -> Result<(), Status>,
    ) -> Result<(), Status> {
        if node.kind() != Kind::Array {
            return each(node, self.read(node)?);
        }
        for item in node.items()? {
            each(item, self.read(item)?)?;
        }
        Ok(())
    }

    /// A value of the stored type as a word of the type that is meant. Beyond the stored type it is
    /// already one of the other.
    fn read(self, node: Node<'_, '_>) -> Result<u64, Status> {
        let (name, number) = (self.stored.zarr3_name(), node.numeral());
        let refusal = || fail!(node, Decode, "{node} is not a value of {name}: {WAY}");
        if is_float(self.stored) {
            return read_float(node, self.stored).ok_or_else(refusal);
        }
        let whole = number.as_integer().or_else(|| number.as_f64().and_then(integer_from_f64));
        let whole = whole.ok_or_else(refusal)?;
        let bits = 8 * self.stored.bytes();
        let fits = |dtype| match is_signed(dtype) {
            true => (-1 << (bits - 1)..1i128 << (bits - 1)).contains(&whole),
            false => (0..1i128 << bits).contains(&whole),
        };
        if !fits(self.stored) && !fits(self.meant) {
            return Err(refusal());
        }
        Ok(word_of(self.number(NATIVE), &(whole as u64).to_ne_bytes()[..self.bytes()]))
    }

    /// Adds a value that is missing. NaN is missing anyway.
    fn push_missing(
        self,
        node: Node<'_, '_>,
        word: u64,
        rows: &mut Rows<'_>,
    ) -> Result<(), Status> {
        let row = EdgeRun { limit: word, cell_limit: word };
        let is_known = rows.rows.iter().take(rows.used).skip(1).any(|known| *known == row);
        if is_known || is_float(self.meant) && f64::from_bits(word).is_nan() {
            return Ok(());
        }
        rows.push(node, row)
    }

    /// Whether `_FillValue` is the fill value of the array too, if it is given.
    fn check_fill(self, attribute: Node<'_, '_>, fill: u64) -> Result<(), Status> {
        let Some(attribute) = attribute.present() else { return Ok(()) };
        let is_nan = |word| is_float(self.meant) && f64::from_bits(word).is_nan();
        self.for_each(attribute, &mut |item, word| {
            if word == fill || is_nan(word) && is_nan(fill) {
                return Ok(());
            }
            let text = "contradicts fill_value of .zarray, which xarray masks";
            Err(fail!(item, Unsupported, "{item} {text}: {WAY}"))
        })
    }
}

fn is_signed(dtype: Dtype) -> bool {
    matches!(dtype, Dtype::I8 | Dtype::I16 | Dtype::I32 | Dtype::I64)
}

/// A float as the type has it; None if it is no number, or too large for the type.
fn read_float(node: Node<'_, '_>, dtype: Dtype) -> Option<u64> {
    let mut bytes = [0; 8];
    let text = node.as_str();
    let named = text.and_then(|text| text.place_in("NaN Infinity -Infinity"));
    let named = named.map(|place| [f64::NAN, f64::INFINITY, f64::NEG_INFINITY][place]);
    let spelled = text.and_then(|text| base64_part(text, 8, 0, &mut bytes));
    let spelled = spelled.map(|()| f64::from_le_bytes(bytes));
    let value = node.numeral().as_f64().or(named).or(spelled)?;
    let element = value_element(value, dtype, 0)?;
    let number = Number { dtype, byte_order: NATIVE };
    let word = word_of(number, &element[..dtype.bytes() as usize]);
    let is_same = value.is_infinite() || !f64::from_bits(word).is_infinite();
    is_same.then_some(word)
}

/// `scale_factor` or `add_offset`, a number or a list of one; `absent` if there is none.
fn read_factor(node: Node<'_, '_>, absent: f64) -> Result<f64, Status> {
    let Some(node) = node.present() else { return Ok(absent) };
    let mut only = node;
    if node.kind() == Kind::Array {
        let says = format_args!("numbers, but one is read: {WAY}");
        for item in node.items_of(1, says)? {
            only = item;
        }
    }
    match only.as_f64().filter(|number| number.is_finite()) {
        // Only a scale has an absent value that is not 0.
        Some(0.0) if absent != 0.0 => {
            Err(fail!(node, Unsupported, "a scale of 0 leaves nothing to read: {WAY}"))
        }
        Some(number) => Ok(number),
        None => Err(fail!(node, Decode, "{only} is not a finite number: {WAY}")),
    }
}

/// The rows of the table that are free, and how many of them are used.
struct Rows<'t> {
    rows: &'t mut [EdgeRun],
    used: usize,
}

impl Rows<'_> {
    fn push(&mut self, node: Node<'_, '_>, row: EdgeRun) -> Result<(), Status> {
        if self.used > CAST_PAIRS_MAX {
            return Err(node.too_many(CAST_PAIRS_MAX, "missing values"));
        }
        let Some(free) = self.rows.get_mut(self.used) else {
            let way = "leaves no room for missing values: leave out #cf=1 or cf = 1";
            return Err(fail!(node, Unsupported, "a grid of so many chunk lengths {way}"));
        };
        *free = row;
        self.used += 1;
        Ok(())
    }
}

/// Puts the rule first of all codecs, and lays out the chunks and the fill value that it gives.
fn decode_with(
    node: Node<'_, '_>,
    rule: Cf,
    rows: &[EdgeRun],
    record: &mut ArrayRecord,
) -> Result<(), Status> {
    let rows = &rows[..usize::from(rule.rows)];
    let (given, mut fill) = (record.fill, [0; size_of::<f64>()]);
    let native = |number: Number| Number { byte_order: NATIVE, ..number };
    let Types { decoded, encoded } = rule.types;
    let types = Types { decoded: native(decoded), encoded: native(encoded) };
    cf(&Cf { types, ..rule }, rows, &given[..encoded.dtype.bytes() as usize], &mut fill);
    record.fill[..fill.len()].copy_from_slice(&fill);
    if record.codecs.try_insert(0, Codec::Filter(Filter::Cf(rule))).is_err() {
        let text = "codecs are as many as are read, and leave no room: leave out #cf=1 or cf = 1";
        return Err(fail!(node, Unsupported, "{CODECS_MAX} {text}"));
    }
    check_size(node, record)?;
    (record.dtype, record.dtype_bytes) = (decoded.dtype, decoded.dtype.bytes());
    record.byte_order = decoded.byte_order;
    record.pack_chunk();
    Ok(())
}

/// Whether a chunk of the numbers has a size that is read. Which loader reads it does not matter.
fn check_size(node: Node<'_, '_>, record: &ArrayRecord) -> Result<(), Status> {
    let elements = product(&record.chunk_shape[..record.axes()]);
    let bytes = elements.and_then(|count| count.checked_mul(size_of::<f64>() as u64));
    if bytes.is_some_and(|bytes| bytes <= CHUNK_BYTES_MAX) {
        return Ok(());
    }
    let way = "use smaller chunks, or leave out #cf=1 or cf = 1";
    let text = format_args!("of f64 have more than {CHUNK_BYTES_MAX} bytes");
    Err(fail!(node, Unsupported, "chunks {text}: {way}"))
}
