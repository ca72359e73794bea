//! The list of fields that a .npy header describes structured elements by.
//!
//! In: the list, as `numpy.save` writes it, and the name of a field if a uri names one. Out: bytes
//! of an element, and of the field its place and type. Invariant: a field lies inside of its
//! element. Worked example: [('a', '<i4'), ('', '|V4'), ('b', '<f8')] is 16 bytes, b at byte 8.

use super::ElementType;
use super::npy::{Text, header_type};
use crate::base::limits::ELEMENT_BYTES_MAX;
use crate::base::math::product;
use crate::base::status::{Status, Why};
use crate::base::text::Tail;
use crate::fail;
use crate::records::{ByteOrder, Dtype, STRUCT_BYTES_MAX};

/// Most levels of structured types in one another.
const DEPTH_MAX: u32 = 4;
/// Bytes of a name that a text shows.
const SHOWN_BYTES: usize = 60;

/// The place of the elements of an array in structured ones.
pub(super) struct Place {
    pub element: ElementType,
    /// Bytes of a structured element.
    pub pitch: u32,
    /// Bytes before the field in it.
    pub first: u32,
}

/// A field of a list.
struct Field<'a> {
    /// Empty: it is padding.
    name: &'a str,
    /// The type, unless it is a list.
    descr: Option<&'a str>,
    /// Whether it is an array of values.
    is_many: bool,
    offset: u64,
    bytes: u64,
}

/// Reads a list of fields, and gives the bytes of all; None if it is of a kind that is not read.
fn walk<'a>(text: &mut Text<'a>, depth: u32, visit: &mut dyn FnMut(Field<'a>)) -> Option<u64> {
    if depth > DEPTH_MAX || !text.take("[") {
        return None;
    }
    let mut offset = 0u64;
    // Ends: every turn takes a bracket at least.
    while !text.take("]") {
        let name = (text.take("("), name_of(text)?, text.take(","));
        let (true, name, true) = name else { return None };
        let (descr, each) = match text.string() {
            Some(descr) => (Some(descr), bytes_of(descr)?),
            None => (None, walk(text, depth + 1, &mut |_| ())?),
        };
        let is_many = text.take(",") && !text.take(")");
        let count = if is_many { product(&text.tuple()??)? } else { 1 };
        let bytes = each.checked_mul(count)?;
        let limit = offset.checked_add(bytes).filter(|limit| *limit <= STRUCT_BYTES_MAX)?;
        visit(Field { name, descr, is_many, offset, bytes });
        offset = limit;
        let is_closed = text.take(")");
        let is_last = !text.take(",");
        if !is_closed || is_last && !text.take("]") {
            return None;
        }
        if is_last {
            break;
        }
    }
    Some(offset)
}

/// The name of a field, which may stand after a title.
fn name_of<'a>(text: &mut Text<'a>) -> Option<&'a str> {
    if !text.take("(") {
        return text.string();
    }
    let found = (text.string()?, text.take(","), text.string()?, text.take(")"));
    let (_, true, name, true) = found else { return None };
    Some(name)
}

/// Bytes of a value of a type; None of objects, which are elsewhere, and of what is no type.
fn bytes_of(descr: &str) -> Option<u64> {
    let kind = descr.trim_start_matches(['<', '>', '|', '=']);
    let rest = kind.strip_prefix(['b', 'i', 'u', 'f', 'c', 'm', 'M', 'S', 'U', 'V'])?;
    let count = rest.bytes().take_while(u8::is_ascii_digit).count();
    let number = rest.get(..count)?.parse::<u64>().ok()?;
    number.checked_mul(if kind.starts_with('U') { 4 } else { 1 })
}

/// The place of the field of that name, or of the whole element. `file` names it in texts.
pub(super) fn place_of(
    list: &str,
    wanted: Option<&str>,
    file: Tail<'_>,
    why: &mut Why,
) -> Result<Place, Status> {
    let (mut found, mut times) = (None, 0);
    let mut text = Text(list);
    let bytes = walk(&mut text, 1, &mut |field| {
        if wanted.is_some_and(|wanted| field.name == wanted && !wanted.is_empty()) {
            (found, times) = (Some(field), times + 1);
        }
    });
    let shown = Tail(list, 2 * SHOWN_BYTES);
    let Some(bytes) = bytes.filter(|bytes| *bytes > 0) else {
        let text = format_args!("above {STRUCT_BYTES_MAX} bytes, of objects, or none");
        let way = "write its fields to .npy files of their own";
        return Err(fail!(why, Unsupported, "{file}: structured elements {text}: {shown}: {way}"));
    };
    let raw = |bytes: u64| (Dtype::Raw, bytes as u32, ByteOrder::Little, None);
    let (most, pitch) = (ELEMENT_BYTES_MAX as u64, bytes as u32);
    let Some(wanted) = wanted else {
        if bytes > most {
            let way = "name one of its fields, ?field=.. of";
            return Err(fail!(
                why,
                Unsupported,
                "{file}: elements of {bytes} bytes: {way} {shown}"
            ));
        }
        return Ok(Place { element: raw(bytes), pitch, first: 0 });
    };
    let wanted = Tail(wanted, SHOWN_BYTES);
    let field = match (found, times) {
        (Some(field), 1) => field,
        (None, _) => {
            let text = "there is no field";
            return Err(fail!(why, Invalid, "{file}: {text} \"{wanted}\", only {shown}"));
        }
        _ => return Err(fail!(why, Decode, "{file}: there are two fields \"{wanted}\"")),
    };
    let element = match field.descr {
        _ if field.is_many => None,
        Some(descr) => header_type(descr),
        None => Some(raw(field.bytes)).filter(|_| (1..=most).contains(&field.bytes)),
    };
    let Some(element) = element else {
        let text = format_args!("field \"{wanted}\" is not one value of up to {most} bytes");
        let way = "write it to a .npy file of its own";
        return Err(fail!(why, Unsupported, "{file}: {text}, but of {shown}: {way}"));
    };
    Ok(Place { element, pitch, first: field.offset as u32 })
}
