//! Structured elements: how many bytes they have, and the place of a field in them.
//!
//! In: the list of fields of a document, and the name of a field if a uri names one. Out: the type
//! of the field, or of the whole element, which is raw bytes; and its fill value. Sources: zarr
//! storage specification version 2, section Data type encoding; `struct` of zarr-extensions, and
//! `structured`, which zarr-python 3.1 writes.
//!
//! Invariant: a field lies inside of its element. Worked example: of the fields a = int32, b =
//! float64 an element has 12 bytes, and b begins at byte 4.

use super::fill::{base64_part, fill_element};
use super::names::number_of;
use super::node::{Extension, Node};
use super::{zarr2, zarr3};
use crate::base::limits::ELEMENT_BYTES_MAX;
use crate::base::math::{index, product};
use crate::base::status::Status;
use crate::base::text::Tail;
use crate::fail;
use crate::loops::small::widen;
use crate::records::{ArrayRecord, ByteOrder, Dtype, Member, STRUCT_BYTES_MAX, Small, Time};
use crate::source::json::{Kind, Str};
use core::fmt;

/// Bytes of a name that a text shows.
const SHOWN_BYTES: usize = 60;

/// Most levels of structured types in one another.
const DEPTH_MAX: u32 = 4;

/// What a document says of the elements of an array.
#[derive(Clone, Copy)]
pub(super) struct Element {
    pub dtype: Dtype,
    pub bytes: u32,
    /// The times that elements are.
    pub time: Option<Time>,
    /// The type that the document names, if it has fewer bits.
    pub small: Option<Small>,
    /// That of zarr v2.
    pub byte_order: ByteOrder,
}

impl Element {
    /// An element of bytes without a meaning.
    pub fn raw(bytes: u32) -> Element {
        let (time, small, byte_order) = (None, None, ByteOrder::Little);
        Element { dtype: Dtype::Raw, bytes, time, small, byte_order }
    }

    /// An element of a type that has no more to it.
    pub fn plain(dtype: Dtype) -> Element {
        Element { dtype, bytes: dtype.bytes(), ..Element::raw(0) }
    }

    /// Turns the words of a value from their order in a document to that of this machine.
    fn to_native(self, value: &mut [u8]) {
        if (self.byte_order == ByteOrder::Big) != cfg!(target_endian = "big") {
            value.chunks_mut(self.dtype.word_bytes() as usize).for_each(<[u8]>::reverse);
        }
    }

    /// Bytes of an element in a chunk, if types of few bits are not packed.
    fn stored_bytes(self) -> u32 {
        if self.small.is_some() { 1 } else { self.bytes }
    }
}

/// How a version of zarr spells the fields of an element.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Spelling {
    /// Lists of a name, a type of numpy and maybe a shape.
    Zarr2,
    /// Objects of a name and a type, or lists of both.
    Zarr3,
}

/// The list of fields of a document.
#[derive(Clone, Copy)]
pub(super) struct Fields<'r, 'a> {
    pub list: Node<'r, 'a>,
    pub spelling: Spelling,
}

/// One field.
struct Field<'r, 'a> {
    name: Str<'a>,
    node: Node<'r, 'a>,
    /// Its extents, in zarr v2.
    shape: Option<Node<'r, 'a>>,
    /// Bytes before it.
    offset: u64,
    bytes: u64,
}

/// An array of structured elements, or of a field of them.
pub(super) struct Structure<'r, 'a> {
    fields: Fields<'r, 'a>,
    /// Bytes of the whole element.
    bytes: u64,
    /// The field that is meant.
    field: Option<Field<'r, 'a>>,
}

impl<'r, 'a> Fields<'r, 'a> {
    /// Goes over the fields; gives the bytes of all.
    fn walk(
        self,
        depth: u32,
        visit: &mut dyn FnMut(Field<'r, 'a>) -> Result<(), Status>,
    ) -> Result<u64, Status> {
        if depth > DEPTH_MAX {
            return Err(self.list.too_many(DEPTH_MAX as usize, "levels of structured types"));
        }
        let mut offset = 0u64;
        for item in self.list.items()? {
            let (name, node, shape) = self.parts_of(item)?;
            let count = shape.map_or(Ok(1), count_of)?;
            let bytes = self.bytes_of(node, depth)?;
            let bytes = bytes.checked_mul(count).filter(|bytes| *bytes <= STRUCT_BYTES_MAX);
            let limit =
                bytes.map(|bytes| offset + bytes).filter(|limit| *limit <= STRUCT_BYTES_MAX);
            let (Some(bytes), Some(limit)) = (bytes, limit) else {
                let reason = format_args!("elements above {STRUCT_BYTES_MAX} bytes are not read");
                return Err(item.fail(Status::Unsupported, reason));
            };
            visit(Field { name, node, shape, offset, bytes })?;
            offset = limit;
        }
        match offset {
            0 => Err(fail!(self.list, Decode, "a structured type without a byte")),
            bytes => Ok(bytes),
        }
    }

    /// The name, the type and the extents of a field.
    #[inline(never)]
    fn parts_of(
        self,
        item: Node<'r, 'a>,
    ) -> Result<(Str<'a>, Node<'r, 'a>, Option<Node<'r, 'a>>), Status> {
        if self.spelling == Spelling::Zarr3 && item.kind() == Kind::Object {
            let [name, node, ..] = item.pick("name data_type", 2)?;
            return Ok((name.string()?, node, None));
        }
        let most = if self.spelling == Spelling::Zarr2 { 3 } else { 2 };
        let mut items = item.items()?;
        match (items.next(), items.next(), items.next(), items.next()) {
            (Some(name), Some(node), shape, None) if shape.is_none() || most == 3 => {
                Ok((name.string()?, node, shape))
            }
            _ => Err(fail!(item, Decode, "{item} is not a name and a type")),
        }
    }

    /// Bytes of a value of a type.
    #[inline(never)]
    fn bytes_of(self, node: Node<'r, 'a>, depth: u32) -> Result<u64, Status> {
        let nested = |fields: Fields<'r, 'a>| fields.walk(depth + 1, &mut |_| Ok(()));
        if self.spelling == Spelling::Zarr2 {
            if node.kind() == Kind::Array {
                return nested(Fields { list: node, spelling: Spelling::Zarr2 });
            }
            return match text_bytes(node.string()?) {
                Some(bytes) => Ok(bytes),
                None => Ok(zarr2::element_of(node)?.stored_bytes().into()),
            };
        }
        let extension = node.extension()?;
        if let Some(fields) = fields_of(&extension)? {
            return nested(fields);
        }
        if is_text(&extension) || extension.name == *"raw_bytes" {
            let [length, ..] = extension.pick("length_bytes", 1)?;
            return Ok(length.integer(0, STRUCT_BYTES_MAX as i64)? as u64);
        }
        Ok(zarr3::element_of(node)?.stored_bytes().into())
    }

    /// The element of the whole, or of the field of that name.
    #[inline(never)]
    fn read(self, wanted: Option<&str>) -> Result<(Element, Structure<'r, 'a>), Status> {
        let (mut found, mut is_twice) = (None, false);
        let bytes = self.walk(1, &mut |field| {
            if wanted.is_some_and(|wanted| field.name == *wanted) {
                is_twice |= found.is_some();
                found = Some(field);
            }
            Ok(())
        })?;
        let (list, names) = (self.list, FieldNames(self));
        let Some(wanted) = wanted else {
            if bytes > ELEMENT_BYTES_MAX as u64 {
                let way = format_args!("name one of its fields, ?field=.. of {names}");
                return Err(fail!(list, Unsupported, "elements of {bytes} bytes: {way}"));
            }
            let structure = Structure { fields: self, bytes, field: None };
            return Ok((Element::raw(bytes as u32), structure));
        };
        let Some(field) = found else {
            let wanted = Tail(wanted, SHOWN_BYTES);
            return Err(fail!(list, Invalid, "there is no field \"{wanted}\", only {names}"));
        };
        if is_twice {
            return Err(fail!(list, Decode, "there are two fields {}", field.name));
        }
        if let Some(shape) = field.shape {
            let way = "only fields that are one value";
            return Err(fail!(shape, Unsupported, "a field of several values is not read, {way}"));
        }
        let element = self.element_of(&field)?;
        Ok((element, Structure { fields: self, bytes, field: Some(field) }))
    }

    /// The element that a field is.
    #[inline(never)]
    fn element_of(self, field: &Field<'r, 'a>) -> Result<Element, Status> {
        let is_nested = match self.spelling {
            Spelling::Zarr2 => field.node.kind() == Kind::Array,
            _ => fields_of(&field.node.extension()?)?.is_some(),
        };
        if is_nested {
            if field.bytes > ELEMENT_BYTES_MAX as u64 {
                let (bytes, way) = (field.bytes, "write its fields as arrays of their own");
                return Err(fail!(field.node, Unsupported, "a field of {bytes} bytes: {way}"));
            }
            return Ok(Element::raw(field.bytes as u32));
        }
        match self.spelling {
            Spelling::Zarr2 => zarr2::element_of(field.node),
            _ => zarr3::element_of(field.node),
        }
    }
}

impl<'r, 'a> Structure<'r, 'a> {
    /// The place of the field that is meant.
    pub fn member(&self) -> Option<Member> {
        let Field { offset, bytes, .. } = *self.field.as_ref()?;
        let element_bytes = self.bytes as u32;
        Some(Member { element_bytes, offset: offset as u32, bytes: bytes as u32 })
    }

    /// Reads the fill value, which is not null, of an array of such elements into `out`, which has
    /// the bytes of `element`.
    #[inline(never)]
    pub fn read_fill(
        &self,
        node: Node<'r, 'a>,
        element: &Element,
        is_zarr2: bool,
        out: &mut [u8],
    ) -> Result<(), Status> {
        if node.kind() == Kind::Object && !is_zarr2 {
            return match &self.field {
                Some(field) => fill_value(member_of(node, field.name)?, field.node, 1, out),
                None => self.fields.fill(node, 1, out),
            };
        }
        let (text, whole) = (node.string()?, self.bytes);
        let first = self.field.as_ref().map_or(0, |field| field.offset);
        let spelled = |bytes: &mut [u8]| {
            base64_part(text, whole, first, bytes)
                .ok_or_else(|| fail!(node, Decode, "{text} is not the base64 of {whole} bytes"))
        };
        if let Some(small) = element.small {
            let mut byte = [0];
            spelled(&mut byte)?;
            widen(small, &byte, out);
        } else {
            spelled(out)?;
        }
        if element.dtype == Dtype::Bool && out.iter().any(|byte| *byte > 1) {
            return Err(fail!(node, Decode, "{text} is neither true nor false"));
        }
        element.to_native(out);
        Ok(())
    }
}

impl<'r, 'a> Fields<'r, 'a> {
    /// Fills the bytes of an element from an object that has a member for each field.
    fn fill(self, node: Node<'r, 'a>, depth: u32, out: &mut [u8]) -> Result<(), Status> {
        self.walk(depth, &mut |Field { name, node: kind, offset, bytes, .. }| {
            let range = index(offset)..index(offset + bytes);
            let own = out.get_mut(range).unwrap_or_default();
            fill_value(member_of(node, name)?, kind, depth, own)
        })?;
        Ok(())
    }
}

/// The member of a fill value for a field.
fn member_of<'r, 'a>(node: Node<'r, 'a>, name: Str<'_>) -> Result<Node<'r, 'a>, Status> {
    let found = node.members()?.find(|(known, _)| *known == name);
    found.map(|(_, value)| value).ok_or_else(|| fail!(node, Decode, "field {name} is missing"))
}

/// Fills the bytes of a field of type `kind`, as they lie in a chunk, with one value.
#[inline(never)]
fn fill_value<'r, 'a>(
    node: Node<'r, 'a>,
    kind: Node<'r, 'a>,
    depth: u32,
    out: &mut [u8],
) -> Result<(), Status> {
    let extension = kind.extension()?;
    if let Some(fields) = fields_of(&extension)? {
        return fields.fill(node, depth + 1, out);
    }
    if node.as_str().is_some_and(Str::is_empty) && is_text(&extension) {
        out.fill(0);
        return Ok(());
    }
    let element = zarr3::element_of(kind)?;
    if element.bytes as usize != out.len() {
        let reason = "is not read in a structured element: name another field, ?field=..";
        return Err(fail!(node, Unsupported, "a fill value of {} {reason}", extension.name));
    }
    fill_element(node, &element, false, out)
}

/// Reads the type of an array, or of the field of it that is meant, into `record`; `read` reads one
/// that has no fields.
#[inline(never)]
pub(super) fn read_type<'r, 'a>(
    node: Node<'r, 'a>,
    fields: Option<Fields<'r, 'a>>,
    field: Option<&str>,
    read: fn(Node<'_, '_>) -> Result<Element, Status>,
    record: &mut ArrayRecord,
) -> Result<Option<Structure<'r, 'a>>, Status> {
    let (element, structure) = match (fields, field) {
        (Some(fields), _) => fields.read(field).map(|(element, made)| (element, Some(made)))?,
        (None, None) => (read(node)?, None),
        (None, Some(_)) => {
            let reason = "elements have no fields: leave out ?field=";
            return Err(fail!(node, Invalid, "{reason}"));
        }
    };
    let Element { dtype, bytes, time, small, byte_order } = element;
    (record.dtype, record.dtype_bytes) = (dtype, bytes);
    (record.time, record.small, record.byte_order) = (time, small, byte_order);
    Ok(structure)
}

/// The fields of a data type of zarr v3 which is structured.
pub(super) fn fields_of<'r, 'a>(
    extension: &Extension<'r, 'a>,
) -> Result<Option<Fields<'r, 'a>>, Status> {
    if extension.name.place_in("structured struct").is_none() {
        return Ok(None);
    }
    let [list, ..] = extension.pick("fields", 1)?;
    Ok(Some(Fields { list, spelling: Spelling::Zarr3 }))
}

/// Whether a data type of zarr v3 is text of a fixed length.
fn is_text(extension: &Extension<'_, '_>) -> bool {
    extension.name.place_in("null_terminated_bytes fixed_length_utf32").is_some()
}

/// Bytes of a text or of raw bytes, as numpy names their types: "<U4", "|S3", "|V20".
fn text_bytes(name: Str<'_>) -> Option<u64> {
    let mut buffer = [0; 12];
    let text = name.decode_into(&mut buffer)?.trim_start_matches(['<', '>', '|']);
    let (kind, count) = text.split_at_checked(1)?;
    let count = u64::from(number_of(count)?);
    match kind {
        "U" => Some(4 * count),
        "S" | "V" => Some(count),
        _ => None,
    }
}

/// Values of a field of these extents.
fn count_of(shape: Node<'_, '_>) -> Result<u64, Status> {
    let extents = shape.extents(1)?;
    product(&extents).ok_or_else(|| fail!(shape, Unsupported, "{shape} values are not read"))
}

/// Names that a text shows.
const NAMES_SHOWN: usize = 8;

/// The names of fields, in a text.
struct FieldNames<'r, 'a>(Fields<'r, 'a>);

impl fmt::Display for FieldNames<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let items = self.0.list.items().into_iter().flatten();
        let mut names = items.filter_map(|item| self.0.parts_of(item).ok());
        let mut separator = "";
        for (name, ..) in names.by_ref().take(NAMES_SHOWN) {
            write!(f, "{separator}{name}")?;
            separator = ", ";
        }
        f.write_str(if names.next().is_some() { " .." } else { "" })
    }
}
