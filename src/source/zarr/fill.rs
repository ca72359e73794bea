//! Fill values: one element from its JSON spelling.
//!
//! Comes in: the member `fill_value` and the element type. Goes out: the element in the byte order
//! of this machine. Sources: zarr v3 core, "Permitted fill values"; zarr storage specification
//! version 2, "Fill value encoding"; and what is written beside them:
//!
//! - Raw bytes are in base64 too, which is how zarr-python and tensorstore write them.
//! - In v2, zarr-python writes complex numbers as [real, imaginary]; tensorstore reads base64 for
//!   them too, in the byte order of the type.
//! - Writers that keep the value as a double (z5) spell whole numbers as 7.0, and some
//!   spell any number as a string, "0" or "0.0"; 0 and 1 stand for booleans. zarr-python reads
//!   them.
//! - In v2, null is zeros, which is what zarr-python 3 and tensorstore read (the specification
//!   leaves missing chunks undefined then), and NaT if elements are times, as in zarr-python. A
//!   spelling that those two read differently is refused, above all "0x..." for floats: bits in v3,
//!   and a number to tensorstore in v2.
//!
//! Invariant: decimal numbers are read as an f64 and become an element as `pad_value` does, by
//! [`value_element`]. The thread holds a [`crate::simd::FloatEnvironment`].

use super::node::Node;
use super::structs::{Element, Structure};
use crate::assemble::value_element;
use crate::base::math::index;
use crate::base::status::Status;
use crate::fail;
use crate::loops::convert::{Half, f32_from_half};
use crate::loops::small::widen;
use crate::records::{ArrayRecord, ByteOrder, DocumentKind, Dtype, Small, Time};
use crate::source::json::{Kind, Str};

/// Below this magnitude every whole number is an f64, and no other is rounded to it.
const WHOLE_LIMIT: u64 = 1 << 53;

/// Reads the fill value of a record whose type and byte order are set.
pub(super) fn read_fill<'r, 'a>(
    node: Node<'r, 'a>,
    structure: Option<&Structure<'r, 'a>>,
    record: &mut ArrayRecord,
) -> Result<(), Status> {
    let is_zarr2 = record.document == DocumentKind::Zarr2Array;
    let &mut ArrayRecord { dtype, dtype_bytes: bytes, time, small, byte_order, .. } = record;
    // In zarr v3 the order of chunks is that of a codec, and bytes in a document are little.
    let byte_order = if is_zarr2 { byte_order } else { ByteOrder::Little };
    let element = Element { dtype, bytes, time, small, byte_order };
    record.is_fill_given = node.kind() != Kind::Null;
    let out = &mut record.fill[..bytes as usize];
    match structure {
        Some(_) if node.kind() == Kind::Null && is_zarr2 => Ok(()),
        Some(structure) => structure.read_fill(node, &element, is_zarr2, out),
        None => fill_element(node, &element, is_zarr2, out),
    }
}

/// Reads a fill value into `element`, which has the bytes of one.
pub(super) fn fill_element(
    node: Node<'_, '_>,
    &Element { dtype, time, small, byte_order, .. }: &Element,
    is_zarr2: bool,
    element: &mut [u8],
) -> Result<(), Status> {
    let (kind, is_time) = (node.kind(), time.is_some());
    let name = small.map_or(dtype.zarr3_name(), Small::name);
    let is_nat = kind == Kind::Null || node.as_str().is_some_and(|text| text == *"NaT");
    if let Some(small) = small.filter(|_| kind != Kind::Null) {
        return read_small(node, small, is_zarr2, element);
    }
    match dtype {
        _ if kind == Kind::Null && !is_zarr2 => {
            return Err(fail!(node, Decode, "null is not of type {name}: zarr v3 needs a value"));
        }
        _ if kind == Kind::Null && !is_time => {}
        _ if is_time && is_nat => {
            element.copy_from_slice(&Time::NONE.to_ne_bytes());
        }
        Dtype::Bool if kind == Kind::Number => read_integer(node, dtype, true, element)?,
        Dtype::Bool => element[0] = node.boolean()? as u8,
        Dtype::Raw if !is_zarr2 && kind != Kind::String => {
            let size = element.len();
            let says = format_args!("bytes, but r{} has {size}", 8 * size);
            for (byte, item) in element.iter_mut().zip(node.items_of(size, says)?) {
                *byte = item.integer(0, 255)? as u8;
            }
        }
        Dtype::Raw => read_base64(node, element)?,
        Dtype::C64 | Dtype::C128 if is_zarr2 && kind == Kind::String => {
            read_base64(node, element)?;
            if (byte_order == ByteOrder::Big) != cfg!(target_endian = "big") {
                element.chunks_mut(dtype.word_bytes() as usize).for_each(<[u8]>::reverse);
            }
        }
        Dtype::C64 | Dtype::C128 => {
            let says = format_args!("parts, but {name} has 2: [real, imaginary]");
            let parts = element.chunks_mut(dtype.word_bytes() as usize);
            for (part, item) in parts.zip(node.items_of(2, says)?) {
                read_float(item, dtype, is_zarr2, part)?;
            }
        }
        Dtype::F16 | Dtype::Bf16 | Dtype::F32 | Dtype::F64 => {
            read_float(node, dtype, is_zarr2, element)?;
        }
        _ => read_integer(node, dtype, !is_time, element)?,
    }
    Ok(())
}

/// A value of a type of few bits, as the type of the array. No other is rounded to it: writers
/// spell the number that the type has.
fn read_small(
    node: Node<'_, '_>,
    small: Small,
    is_zarr2: bool,
    element: &mut [u8],
) -> Result<(), Status> {
    let (name, given) = (small.name(), node.as_str());
    let names = given.and_then(|text| text.place_in("NaN Infinity -Infinity"));
    let named = names.map(|place| [f64::NAN, f64::INFINITY, f64::NEG_INFINITY][place]);
    let number = node.numeral().as_f64().or(named);
    let bits = given.filter(|_| !is_zarr2 && small.bits() == 8);
    let bits = bits.and_then(|text| bits_from_hex(text, 2)).map(|bits| bits as u8);
    // The first of several that are equal: NaNs, and bytes whose unused bits differ.
    let value = |byte: &u8| {
        let mut bytes = [0; 2];
        let bytes = &mut bytes[..small.dtype().bytes() as usize];
        widen(small, &[*byte], bytes);
        match *bytes {
            [low, high] => f64::from(f32_from_half(Half(u16::from_le_bytes([low, high])))),
            [byte] if small.dtype() == Dtype::I8 => f64::from(byte as i8),
            _ => f64::from(bytes[0]),
        }
    };
    let is_equal = |a: f64, b: f64| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan();
    let is_given = |byte: &u8| number.is_some_and(|number| is_equal(value(byte), number));
    match bits.or_else(|| (0..=u8::MAX).find(is_given)) {
        Some(byte) => widen(small, &[byte], element),
        None => return Err(fail!(node, Decode, "{node} is not of type {name}")),
    }
    if cfg!(target_endian = "big") {
        element.reverse();
    }
    Ok(())
}

/// An integer; if `may_be_double`, also one that is spelled with a fraction or an exponent, or in a
/// string.
fn read_integer(
    node: Node<'_, '_>,
    dtype: Dtype,
    may_be_double: bool,
    element: &mut [u8],
) -> Result<(), Status> {
    let name = dtype.zarr3_name();
    let numeral = if may_be_double { node.numeral() } else { node };
    let number = match numeral.as_integer() {
        None if may_be_double => numeral.as_f64().and_then(integer_from_f64),
        number => number,
    };
    let is_signed = matches!(dtype, Dtype::I8 | Dtype::I16 | Dtype::I32 | Dtype::I64);
    let bits = if dtype == Dtype::Bool { 1 } else { 8 * dtype.bytes() - u32::from(is_signed) };
    let first = if is_signed { -1 << bits } else { 0 };
    match number {
        Some(number) if (first..1i128 << bits).contains(&number) => {
            write_bits(number as u64, element);
            Ok(())
        }
        None if !numeral.is_integer() => {
            Err(fail!(node, Decode, "{node} is not of type {name}: a whole number is needed"))
        }
        _ => Err(fail!(node, Decode, "{node} does not fit {name}")),
    }
}

/// The number as an integer, if it is one that no other number was rounded to.
pub(super) fn integer_from_f64(number: f64) -> Option<i128> {
    // The conversion saturates, and NaN becomes 0: neither comes back equal.
    let whole = number as i64;
    let is_exact = whole as f64 == number && whole.unsigned_abs() < WHOLE_LIMIT;
    is_exact.then_some(whole.into())
}

/// A float, or one part of a complex number.
fn read_float(
    node: Node<'_, '_>,
    dtype: Dtype,
    is_zarr2: bool,
    element: &mut [u8],
) -> Result<(), Status> {
    let (name, digits) = (dtype.zarr3_name(), 2 * element.len());
    let named = node.as_str().and_then(|text| text.place_in("NaN Infinity -Infinity"));
    let named = named.map(|place| [f64::NAN, f64::INFINITY, f64::NEG_INFINITY][place]);
    let bytes =
        node.numeral().as_f64().or(named).and_then(|number| value_element(number, dtype, 0));
    let bits = node.as_str().filter(|_| !is_zarr2).and_then(|text| bits_from_hex(text, digits));
    match (bytes, bits) {
        (Some(bytes), _) => element.copy_from_slice(&bytes[..element.len()]),
        (_, Some(bits)) => write_bits(bits, element),
        _ => {
            let numbers = "a number, \"NaN\", \"Infinity\" or \"-Infinity\"";
            let reason = format_args!("{node} is not of type {name}: {numbers}");
            return Err(match is_zarr2 {
                true => fail!(node, Decode, "{reason}"),
                false => fail!(node, Decode, "{reason}, or \"0x\" and {digits} hex digits"),
            });
        }
    }
    Ok(())
}

/// The bits that "0x" and this many digits spell.
fn bits_from_hex(text: Str<'_>, count: usize) -> Option<u64> {
    // The longest spelling is "0x" and 16 digits.
    let mut buffer = [0; 18];
    let digits = text.decode_into(&mut buffer)?.strip_prefix("0x")?;
    // from_str_radix would also take a sign.
    let is_hex = digits.len() == count && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    u64::from_str_radix(digits, 16).ok().filter(|_| is_hex)
}

/// The low bytes of `bits` as an element of this machine.
fn write_bits(bits: u64, element: &mut [u8]) {
    let bytes = bits.to_le_bytes();
    element.copy_from_slice(&bytes[..element.len()]);
    if cfg!(target_endian = "big") {
        element.reverse();
    }
}

/// The bytes of an element in base64, as they lie in a chunk.
fn read_base64(node: Node<'_, '_>, element: &mut [u8]) -> Result<(), Status> {
    let (text, size) = (node.string()?, element.len());
    base64_part(text, size as u64, 0, element)
        .ok_or_else(|| fail!(node, Decode, "{text} is not the base64 of {size} bytes"))
}

/// Fills `out` with a part of the bytes that `text` spells, which are exactly `count` (RFC 4648,
/// section 4, padded): those from `first` on.
pub(super) fn base64_part(text: Str<'_>, count: u64, first: u64, out: &mut [u8]) -> Option<()> {
    let (mut bits, mut digits, mut place) = (0u32, 0u64, 0u64);
    for digit in text.chars() {
        bits = bits << 6
            | match digit {
                'A'..='Z' => u32::from(digit) - u32::from('A'),
                'a'..='z' => u32::from(digit) - u32::from('a') + 26,
                '0'..='9' => u32::from(digit) - u32::from('0') + 52,
                '+' => 62,
                '/' => 63,
                // A last triple of n bytes has n + 1 digits, and padding after them.
                '=' if digits / 4 == count / 3 && digits % 4 > count % 3 => 0,
                _ => return None,
            };
        digits += 1;
        if digits.is_multiple_of(4) {
            let [_, bytes @ ..] = bits.to_be_bytes();
            for byte in bytes {
                let at = place.checked_sub(first).filter(|_| place < count);
                if let Some(slot) = at.and_then(|at| out.get_mut(index(at))) {
                    *slot = byte;
                }
                if place >= count && byte != 0 {
                    return None;
                }
                place += 1;
            }
            bits = 0;
        }
    }
    (digits == count.div_ceil(3) * 4).then_some(())
}
