//! The header of a .npy file (numpy.lib.format, versions 1.0 to 3.0).
//!
//! In: the first bytes of the file. Out: element type, order and shape. Invariant: the header is a
//! literal of a Python dictionary of the three keys that the format has; nothing of it is run, and
//! whatever else it is is refused by name.

use super::members::{Place, place_of};
use super::{ElementType, Elements, elements_of, flat_record, numpy_type};
use crate::base::limits::RANK_MAX;
use crate::base::math::index;
use crate::base::status::{Status, Why};
use crate::base::text::Tail;
use crate::fail;
use crate::records::ArrayRecord;
use arrayvec::ArrayVec;

const MAGIC: &[u8] = b"\x93NUMPY";
/// Bytes of a header that an error text shows.
const SHOWN_BYTES: usize = 160;

/// What the first bytes of a file say of its header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NpyHeader<'a> {
    /// There it is, and elements begin at that byte.
    Found(&'a str, u64),
    /// It needs so many bytes from the start of the file.
    Longer(u64),
}

/// Finds the header in the first bytes of a file; `uri` names it in texts.
pub fn npy_header<'a>(front: &'a [u8], uri: &str, why: &mut Why) -> Result<NpyHeader<'a>, Status> {
    let shown = Tail(uri, SHOWN_BYTES);
    let Some(rest) = front.strip_prefix(MAGIC) else {
        return Err(fail!(why, Decode, "{shown}: does not begin as a .npy file does"));
    };
    let (start, bytes) = match rest {
        [1, 0, a, b, ..] => (10, u64::from(u16::from_le_bytes([*a, *b]))),
        [2 | 3, 0, a, b, c, d, ..] => (12, u64::from(u32::from_le_bytes([*a, *b, *c, *d]))),
        [1..=3, 0, ..] | [_] | [] => {
            return Err(fail!(why, Decode, "{shown}: ends inside of the .npy header"));
        }
        [major, minor, ..] => {
            return Err(fail!(
                why,
                Unsupported,
                "{shown}: .npy version {major}.{minor}, 1.0 to 3.0 are read"
            ));
        }
    };
    let limit = start + bytes;
    if limit > front.len() as u64 {
        return Ok(NpyHeader::Longer(limit));
    }
    let header = &front[index(start)..index(limit)];
    match core::str::from_utf8(header) {
        Ok(text) => Ok(NpyHeader::Found(text, limit)),
        Err(_) => Err(fail!(why, Decode, "{shown}: the .npy header is not UTF-8")),
    }
}

/// The record of a .npy file with this header, whose elements begin at byte `offset`, or of a field
/// of its structured elements. `sizes`: bytes of the file, and most bytes of a chunk.
pub fn record_from_npy(
    (header, offset): (&str, u64),
    (uri, field): (&str, Option<&str>),
    sizes: (u64, u64),
    why: &mut Why,
) -> Result<ArrayRecord, Status> {
    let (file, shown) = (Tail(uri, SHOWN_BYTES), Tail(header.trim_end(), SHOWN_BYTES));
    let Some(dictionary) = Dictionary::read(header) else {
        return Err(fail!(why, Decode, "{file}: its .npy header is none: {shown}"));
    };
    let Some(shape) = dictionary.shape else {
        return Err(fail!(why, Unsupported, "{file}: more than {RANK_MAX} axes: {shown}"));
    };
    let place = match (dictionary.descr, field) {
        (Descr::List(list), field) => place_of(list, field, file, why)?,
        (Descr::Type(_), Some(_)) => {
            let text = "its elements have no fields: leave out ?field=";
            return Err(fail!(why, Invalid, "{file}: {text}"));
        }
        (Descr::Type(descr), None) => {
            let Some(element) = header_type(descr) else {
                let what = "its .npy header has a type that is not a number of up to 16 bytes";
                return Err(fail!(why, Unsupported, "{file}: {what}: {shown}"));
            };
            Place { element, pitch: 0, first: 0 }
        }
    };
    let Place { element: (dtype, dtype_bytes, byte_order, time), pitch, first } = place;
    let (is_column_major, first) = (dictionary.is_column_major, u64::from(first));
    let types = Elements { dtype, dtype_bytes, byte_order, time, ..Elements::BYTES };
    let elements = Elements { is_column_major, offset, pitch, first, ..types };
    flat_record(uri, &shape, &elements, sizes, why)
}

/// The type that a header names. Without an order it is in that of the machine, as numpy has it.
pub(super) fn header_type(descr: &str) -> Option<ElementType> {
    match descr.get(..1)? {
        "<" | ">" | "=" => numpy_type(descr),
        "|" => elements_of("=", &descr[1..]),
        _ => elements_of("=", descr),
    }
}

/// The dictionary of a header.
struct Dictionary<'a> {
    descr: Descr<'a>,
    is_column_major: bool,
    /// The extents; None of more axes than are read.
    shape: Option<ArrayVec<u64, RANK_MAX>>,
}

/// The type of a header.
#[derive(Clone, Copy)]
enum Descr<'a> {
    Type(&'a str),
    /// The list of fields of a structured type.
    List(&'a str),
}

/// What is left of a header.
pub(super) struct Text<'a>(pub &'a str);

impl<'a> Text<'a> {
    /// Skips blanks, and the word if it comes next.
    pub fn take(&mut self, word: &str) -> bool {
        self.0 = self.0.trim_ascii_start();
        let rest = self.0.strip_prefix(word);
        self.0 = rest.unwrap_or(self.0);
        rest.is_some()
    }

    /// A string without escapes.
    pub fn string(&mut self) -> Option<&'a str> {
        let quote = if self.take("'") { '\'' } else { '"' };
        if quote == '"' && !self.take("\"") {
            return None;
        }
        let (text, rest) = self.0.split_once(quote)?;
        self.0 = rest;
        (!text.contains('\\')).then_some(text)
    }

    /// A whole number; Python 2 wrote an L behind long ones.
    fn number(&mut self) -> Option<u64> {
        self.0 = self.0.trim_ascii_start();
        let count = self.0.bytes().take_while(u8::is_ascii_digit).count();
        let (digits, rest) = self.0.split_at(count);
        self.0 = rest.strip_prefix('L').unwrap_or(rest);
        digits.parse().ok()
    }

    /// Skips a value of lists, tuples and strings, which describes a structured type; gives it.
    fn skip_list(&mut self) -> Option<&'a str> {
        let (whole, mut depth) = (self.0.trim_ascii_start(), 0u32);
        // Ends: every turn takes a byte of the text at least.
        loop {
            self.0 = self.0.trim_ascii_start();
            match self.0.bytes().next()? {
                b'\'' | b'"' => drop(self.string()?),
                byte => {
                    depth += u32::from(matches!(byte, b'[' | b'('));
                    depth = depth.checked_sub(u32::from(matches!(byte, b']' | b')')))?;
                    self.0 = self.0.get(1..)?;
                }
            }
            if depth == 0 {
                return whole.get(..whole.len() - self.0.len());
            }
        }
    }

    pub fn tuple(&mut self) -> Option<Option<ArrayVec<u64, RANK_MAX>>> {
        let (mut extents, mut fits) = (ArrayVec::new(), true);
        if !self.take("(") {
            return None;
        }
        // Ends: every turn takes a digit at least.
        while !self.take(")") {
            fits &= extents.try_push(self.number()?).is_ok();
            if !self.take(",") {
                if !self.take(")") {
                    return None;
                }
                break;
            }
        }
        Some(fits.then_some(extents))
    }
}

impl<'a> Dictionary<'a> {
    /// None where it is no such dictionary.
    fn read(header: &'a str) -> Option<Dictionary<'a>> {
        let mut text = Text(header);
        let (mut descr, mut order, mut shape) = (None, None, None);
        if !text.take("{") {
            return None;
        }
        // Ends: every turn takes a key.
        while !text.take("}") {
            let key = text.string()?;
            if !text.take(":") {
                return None;
            }
            match key {
                "descr" if descr.is_none() => {
                    let is_list = text.0.trim_ascii_start().starts_with('[');
                    descr = Some(match is_list {
                        true => Descr::List(text.skip_list()?),
                        false => Descr::Type(text.string()?),
                    });
                }
                "fortran_order" if order.is_none() => {
                    let is_column_major = text.take("True");
                    if !is_column_major && !text.take("False") {
                        return None;
                    }
                    order = Some(is_column_major);
                }
                "shape" if shape.is_none() => shape = Some(text.tuple()?),
                _ => return None,
            }
            if !text.take(",") {
                if !text.take("}") {
                    return None;
                }
                break;
            }
        }
        let is_over = text.0.bytes().all(|byte| byte.is_ascii_whitespace());
        let (descr, is_column_major, shape) = (descr?, order?, shape?);
        is_over.then_some(Dictionary { descr, is_column_major, shape })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::{ByteOrder, Dtype};
    use std::format;
    use std::string::{String, ToString};
    use std::vec::Vec;

    fn record(header: &str, file_bytes: u64) -> Result<ArrayRecord, (Status, String)> {
        let mut why = Why::new();
        let sizes = (file_bytes, u64::MAX);
        record_from_npy((header, 128), ("/x.npy", None), sizes, &mut why)
            .map_err(|status| (status, why.to_string()))
    }

    #[test]
    fn headers_of_every_spelling_are_read() {
        for header in [
            "{'descr': '<u2', 'fortran_order': False, 'shape': (3, 4, 5), }   \n",
            "{\"shape\":(3,4,5),\"descr\":\"<u2\",\"fortran_order\":False}",
            "{'descr':'<u2','fortran_order':False,'shape':(3L, 4L, 5L)}\n",
        ] {
            let record = record(header, 128 + 120).unwrap();
            assert_eq!((record.dtype, record.byte_order), (Dtype::U16, ByteOrder::Little));
            assert_eq!((&record.shape[..3], record.flat), (&[3, 4, 5][..], Some(128)));
            assert_eq!(record.chunk_strides[..3], [40, 10, 2]);
            assert_eq!(record.flat_bytes(), 128 + 120);
        }
        let fortran = "{'descr': '>f8', 'fortran_order': True, 'shape': (3, 4), }";
        let record = record(fortran, 128 + 96).unwrap();
        assert_eq!(
            (record.chunk_strides[..2].to_vec(), record.byte_order),
            ([8, 24].into(), ByteOrder::Big)
        );
        assert_eq!(
            super::tests::record("{'descr': '|b1', 'fortran_order': False, 'shape': ()}", 129)
                .unwrap()
                .rank,
            0
        );
        assert_eq!(
            super::tests::record(
                "{'descr': '<M8[ns]', 'fortran_order': False, 'shape': (1,)}",
                136
            )
            .unwrap()
            .dtype,
            Dtype::I64
        );
    }

    #[test]
    fn a_type_without_an_order_has_that_of_the_machine() {
        let native = if cfg!(target_endian = "big") { ByteOrder::Big } else { ByteOrder::Little };
        for descr in ["u2", "|u2", "=u2"] {
            let text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': (3,), }}");
            let record = record(&text, 134).unwrap();
            assert_eq!((record.dtype, record.byte_order), (Dtype::U16, native), "{descr}");
        }
    }

    #[test]
    fn what_a_header_lies_about_is_refused() {
        let header = |descr: &str, shape: &str| {
            format!("{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}")
        };
        for (text, bytes, status) in [
            (header("'<u2'", "(3, 4)"), 128 + 23, Status::Decode),
            (header("'<u2'", "(4294967296, 4294967296, 2)"), 1 << 40, Status::Decode),
            (header("'<u2'", "(18446744073709551616,)"), 1 << 40, Status::Decode),
            (header("'<u2'", "(-1,)"), 1 << 40, Status::Decode),
            (header("'<u2'", "3"), 1 << 40, Status::Decode),
            (header("'|O'", "(3,)"), 1 << 40, Status::Unsupported),
            (header("'<U8'", "(3,)"), 1 << 40, Status::Unsupported),
            (header("'<f16'", "(3,)"), 1 << 40, Status::Unsupported),
            (header("'|<u2'", "(3,)"), 1 << 40, Status::Unsupported),
            (header("'µ'", "(3,)"), 1 << 40, Status::Unsupported),
            (header("[('a', '<f4'), ('b', '<i4', (4,))]", "(3,)"), 1 << 40, Status::Unsupported),
            (header("[('a', '<f4'), ('b', '|O')]", "(3,)"), 1 << 40, Status::Unsupported),
            (header("[('a', '<f4'), ('b', '<i4', (2,))]", "(3,)"), 163, Status::Decode),
            (header("'<u2'", &format!("({})", "1,".repeat(17))), 1 << 40, Status::Unsupported),
            (header("'<u2'", "(3,)").replace("shape", "shapes"), 1 << 40, Status::Decode),
            (header("'<u2'", "(3,)") + "x", 1 << 40, Status::Decode),
            (header("'<u2'", "(3,), 'shape': (3,)"), 1 << 40, Status::Decode),
            (String::new(), 1 << 40, Status::Decode),
        ] {
            let refused = record(&text, bytes).expect_err(&text);
            assert_eq!(refused.0, status, "{text}: {}", refused.1);
            assert!(refused.1.starts_with("/x.npy: "), "{}", refused.1);
        }
    }

    #[test]
    fn the_front_of_a_file_is_found_whole_or_asked_for() {
        let mut why = Why::new();
        let mut file: Vec<u8> = b"\x93NUMPY\x01\x00\x05\x00hello".to_vec();
        assert_eq!(npy_header(&file, "x", &mut why), Ok(NpyHeader::Found("hello", 15)));
        assert_eq!(npy_header(&file[..12], "x", &mut why), Ok(NpyHeader::Longer(15)));
        for limit in 0..10 {
            assert_eq!(npy_header(&file[..limit], "x", &mut why), Err(Status::Decode), "{limit}");
        }
        file[6] = 3;
        assert_eq!(npy_header(&file, "x", &mut why), Ok(NpyHeader::Longer(12 + 0x6568_0005)));
        file[6] = 4;
        assert_eq!(npy_header(&file, "x", &mut why), Err(Status::Unsupported));
    }
}
