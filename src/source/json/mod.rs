//! A lazy JSON reader (RFC 8259) over bytes in place.
//!
//! Comes in: the bytes of a document. Goes out: a [`Value`], which is a part of the document;
//! members and items are found when they are asked for. Nothing is allocated and nothing recurses.
//!
//! Invariant: a `Value` exists only after [`parse`] has checked the whole document, so everything
//! here walks text that is known to be well-formed. Walking over a member costs its length once
//! per level, so whoever needs several members takes them out of [`Members`] in one pass; calling
//! [`Members::get`] for each would pass over a large attributes block each time.
//!
//! Choices that the RFC leaves open: a byte order mark is refused; a surrogate without its partner
//! is refused; nesting deeper than [`crate::base::limits::JSON_DEPTH_MAX`] is refused; a name that
//! comes twice is well-formed, and says nothing to whoever asks for that name. Beyond the RFC,
//! `NaN`, `Infinity` and `-Infinity` are numbers: Python writes them, so attributes are full of
//! them.

mod check;
mod text;

pub use text::Str;

use crate::base::text::part_of;
use core::fmt;

/// Why a document was refused, and where.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Error {
    /// Bytes before the fault.
    pub offset: usize,
    /// What is wrong there.
    pub fault: Fault,
}

/// What can be wrong with a document.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// Not UTF-8.
    Utf8,
    /// Starts with a byte order mark.
    ByteOrderMark,
    /// No value where one must be.
    Value,
    /// A number that the grammar does not have: 01, 1., +1, .5.
    Number,
    /// No name in quotes where a member must start.
    Name,
    /// No colon behind a member's name.
    Colon,
    /// Neither a comma nor the closing bracket behind a member or item.
    Comma,
    /// The document ends inside a string.
    OpenString,
    /// A control character inside a string.
    Control,
    /// A backslash that starts no escape.
    Escape,
    /// Half of a surrogate pair.
    Surrogate,
    /// Nested deeper than JSON_DEPTH_MAX.
    Depth,
    /// Something behind the end of the document.
    Trailing,
}

impl Fault {
    /// The fault in words.
    pub fn text(self) -> &'static str {
        let texts = "not UTF-8|a byte order mark, which JSON does not allow|a value is missing|\
                     not a JSON number|a member name in quotes is missing|a colon is missing|\
                     a comma or closing bracket is missing|a string is not closed|\
                     a control character in a string|a backslash that starts no escape|\
                     half of a surrogate pair|nested too deeply|something follows the document";
        part_of(texts, '|', self as usize)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}", self.fault.text(), self.offset)
    }
}

/// The type of a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool,
    /// A number of any size, or one of the three that are not finite.
    Number,
    /// A string.
    String,
    /// An array.
    Array,
    /// An object.
    Object,
}

impl Kind {
    /// The type with its article: "an array".
    pub fn name(self) -> &'static str {
        part_of("null|a boolean|a number|a string|an array|an object", '|', self as usize)
    }
}

/// Checks the whole document, in time linear in its length, and gives its one value.
pub fn parse(bytes: &[u8]) -> Result<Value<'_>, Error> {
    let text = core::str::from_utf8(bytes)
        .map_err(|error| Error { offset: error.valid_up_to(), fault: Fault::Utf8 })?;
    let (first, limit) = check::check(bytes)?;
    Ok(Value { source: &text[first..limit] })
}

/// A value of a checked document. Its `Display` is the source text on one line, cut when long.
#[derive(Clone, Copy)]
pub struct Value<'a> {
    source: &'a str,
}

impl<'a> Value<'a> {
    /// Stands for a member that is not there: a null without a text.
    pub const ABSENT: Value<'static> = Value { source: "" };

    /// The value, unless it stands for none.
    pub fn found(self) -> Option<Self> {
        if self.source.is_empty() { None } else { Some(self) }
    }

    /// Bytes of `document`, which the value is a part of, before the value.
    pub fn offset_in(self, document: &[u8]) -> usize {
        self.source.as_ptr().addr().wrapping_sub(document.as_ptr().addr())
    }

    /// Whether `inner`, of the same document, starts in this value.
    pub fn holds(self, inner: Value<'_>) -> bool {
        self.source.as_bytes().as_ptr_range().contains(&inner.source.as_ptr())
    }

    /// The text of the value as the document spells it.
    pub fn source(self) -> &'a str {
        self.source
    }

    /// The type.
    pub fn kind(self) -> Kind {
        match self.source.as_bytes().first() {
            Some(b't' | b'f') => Kind::Bool,
            Some(b'"') => Kind::String,
            Some(b'[') => Kind::Array,
            Some(b'{') => Kind::Object,
            Some(b'-' | b'0'..=b'9' | b'N' | b'I') => Kind::Number,
            _ => Kind::Null,
        }
    }

    /// The boolean, if it is one.
    pub fn as_bool(self) -> Option<bool> {
        (self.kind() == Kind::Bool).then(|| self.source.starts_with('t'))
    }

    /// The string, if it is one.
    pub fn as_str(self) -> Option<Str<'a>> {
        self.source.strip_prefix('"')?.strip_suffix('"').map(Str::new)
    }

    /// The number that a string spells, as a document would; any other value is itself.
    #[inline(never)]
    pub fn numeral(self) -> Self {
        let inner = self.source.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
        let number = inner.and_then(|text| parse(text.as_bytes()).ok());
        number.filter(|value| value.kind() == Kind::Number).unwrap_or(self)
    }

    /// Whether it is a number without fraction and exponent.
    pub fn is_integer(self) -> bool {
        self.kind() == Kind::Number
            && self.source.bytes().all(|byte| matches!(byte, b'-' | b'0'..=b'9'))
    }

    /// The number, if it is spelled as an integer and fits. `-0` is 0.
    pub fn as_integer(self) -> Option<i128> {
        if self.is_integer() { self.source.parse().ok() } else { None }
    }

    /// The number rounded once, to nearest even if the thread rounds so; infinite where it is
    /// beyond the largest f64.
    pub fn as_f64(self) -> Option<f64> {
        if self.kind() == Kind::Number { self.source.parse().ok() } else { None }
    }

    /// The members, if it is an object.
    pub fn members(self) -> Option<Members<'a>> {
        self.source.strip_prefix('{').map(|rest| Members { rest })
    }

    /// The items, if it is an array.
    pub fn items(self) -> Option<Items<'a>> {
        self.source.strip_prefix('[').map(|rest| Items { rest })
    }

    /// Takes the next value off the front of checked text, from behind an opening bracket, a
    /// member's name or another value; None where a closing bracket stands.
    fn take(rest: &mut &'a str) -> Option<Self> {
        let (first, limit) = check::next_value(rest.as_bytes())?;
        let source = &rest[first..limit];
        *rest = &rest[limit..];
        Some(Value { source })
    }
}

/// Bytes of a value that a text shows.
const SHOWN_BYTES: usize = 60;

impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = &self.source[..self.source.floor_char_boundary(SHOWN_BYTES)];
        text::write_printable(&mut shown.chars(), f)?;
        if shown.len() < self.source.len() { f.write_str("...") } else { Ok(()) }
    }
}

impl fmt::Debug for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The members of an object in document order; a name may come twice.
#[derive(Clone, Copy)]
pub struct Members<'a> {
    /// From behind the opening brace or the value of a member on.
    rest: &'a str,
}

impl<'a> Members<'a> {
    /// The value of `name`; None also where it comes twice. Passes over the whole object.
    pub fn get(self, name: &str) -> Option<Value<'a>> {
        let mut values = self.filter(|(other, _)| *other == *name);
        let (_, value) = values.next()?;
        if values.next().is_some() { None } else { Some(value) }
    }
}

impl<'a> Iterator for Members<'a> {
    type Item = (Str<'a>, Value<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let name = Value::take(&mut self.rest)?.as_str()?;
        Some((name, Value::take(&mut self.rest)?))
    }
}

/// The items of an array in order.
#[derive(Clone, Copy)]
pub struct Items<'a> {
    /// From behind the opening bracket or an item on.
    rest: &'a str,
}

impl<'a> Iterator for Items<'a> {
    type Item = Value<'a>;

    fn next(&mut self) -> Option<Value<'a>> {
        Value::take(&mut self.rest)
    }
}

#[cfg(test)]
mod tests;
