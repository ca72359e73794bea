//! A lazy JSON reader (RFC 8259) over bytes in place.
//!
//! Comes in: the bytes of a document. Goes out: a [`Value`], which is a place in the document;
//! members and items are found when they are asked for. Nothing is allocated and nothing recurses.
//!
//! Invariant: a `Value` exists only after [`parse`] has checked the whole document, so everything
//! here walks text that is known to be well-formed. Walking over a member costs its length once
//! per level, so [`Members::pick`] reads any number of names in one pass; a caller that calls
//! [`Members::get`] for each name would pass over a large attributes block each time.
//!
//! Choices that the RFC leaves open: a byte order mark is refused; a surrogate without its partner
//! is refused; nesting deeper than [`crate::limits::JSON_DEPTH_MAX`] is refused; a name that comes
//! twice is well-formed, and an error for whoever asks for that name.

mod check;
mod number;
mod text;

pub use text::{Chars, Str};

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
    /// A name that was asked for comes twice in one object.
    Duplicate,
}

impl Fault {
    /// The fault in words.
    pub const fn text(self) -> &'static str {
        match self {
            Fault::Utf8 => "not UTF-8",
            Fault::ByteOrderMark => "a byte order mark, which JSON does not allow",
            Fault::Value => "a value is missing",
            Fault::Number => "not a JSON number",
            Fault::Name => "a member name in quotes is missing",
            Fault::Colon => "a colon is missing",
            Fault::Comma => "a comma or closing bracket is missing",
            Fault::OpenString => "a string is not closed",
            Fault::Control => "a control character in a string",
            Fault::Escape => "a backslash that starts no escape",
            Fault::Surrogate => "half of a surrogate pair",
            Fault::Depth => "nested too deeply",
            Fault::Trailing => "something follows the document",
            Fault::Duplicate => "a member that comes twice",
        }
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
    /// A number of any size.
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
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Null => "null",
            Kind::Bool => "a boolean",
            Kind::Number => "a number",
            Kind::String => "a string",
            Kind::Array => "an array",
            Kind::Object => "an object",
        }
    }
}

/// Checks the whole document, in time linear in its length, and gives its one value.
pub fn parse(bytes: &[u8]) -> Result<Value<'_>, Error> {
    let document = core::str::from_utf8(bytes)
        .map_err(|error| Error { offset: error.valid_up_to(), fault: Fault::Utf8 })?;
    let (first, limit) = check::check(document.as_bytes())?;
    Ok(Value { document, first, limit })
}

/// A value of a checked document. Its `Display` is the source text on one line, cut when long.
#[derive(Clone, Copy)]
pub struct Value<'a> {
    document: &'a str,
    first: usize,
    limit: usize,
}

impl<'a> Value<'a> {
    /// Bytes of the document before the value.
    pub fn offset(self) -> usize {
        self.first
    }

    /// The text of the value as the document spells it.
    pub fn source(self) -> &'a str {
        &self.document[self.first..self.limit]
    }

    /// The type.
    pub fn kind(self) -> Kind {
        match self.document.as_bytes()[self.first] {
            b'n' => Kind::Null,
            b't' | b'f' => Kind::Bool,
            b'"' => Kind::String,
            b'[' => Kind::Array,
            b'{' => Kind::Object,
            _ => Kind::Number,
        }
    }

    /// The boolean, if it is one.
    pub fn as_bool(self) -> Option<bool> {
        (self.kind() == Kind::Bool).then(|| self.source() == "true")
    }

    /// The string, if it is one.
    pub fn as_str(self) -> Option<Str<'a>> {
        (self.kind() == Kind::String).then(|| Str::new(&self.source()[1..self.source().len() - 1]))
    }

    /// Whether it is a number without fraction and exponent.
    pub fn is_integer(self) -> bool {
        self.kind() == Kind::Number && !self.source().contains(['.', 'e', 'E'])
    }

    /// The number, if it is spelled as an integer and fits. `-0` is 0.
    pub fn as_u64(self) -> Option<u64> {
        let (value, is_negative) = self.as_integer()?;
        (value == 0 || !is_negative).then_some(value)
    }

    /// The number, if it is spelled as an integer and fits.
    pub fn as_i64(self) -> Option<i64> {
        let (value, is_negative) = self.as_integer()?;
        if is_negative { 0i64.checked_sub_unsigned(value) } else { value.try_into().ok() }
    }

    fn as_integer(self) -> Option<(u64, bool)> {
        if self.kind() == Kind::Number { number::integer(self.source().as_bytes()) } else { None }
    }

    /// The number rounded once to nearest even, whatever the thread's rounding mode; infinite where
    /// it is beyond the largest f64.
    pub fn as_f64(self) -> Option<f64> {
        (self.kind() == Kind::Number).then(|| number::float(self.source().as_bytes()))
    }

    /// The members, if it is an object.
    pub fn members(self) -> Option<Members<'a>> {
        let members = Members { document: self.document, at: self.first + 1 };
        (self.kind() == Kind::Object).then_some(members)
    }

    /// The items, if it is an array.
    pub fn items(self) -> Option<Items<'a>> {
        let items = Items { document: self.document, at: self.first + 1 };
        (self.kind() == Kind::Array).then_some(items)
    }

    /// The value that starts at `first`.
    fn starting_at(document: &'a str, first: usize) -> Self {
        Value { document, first, limit: check::value_limit(document.as_bytes(), first) }
    }
}

/// Bytes of a value that a text shows.
const SHOWN_BYTES: usize = 60;

impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let source = self.source();
        let shown = &source[..source.floor_char_boundary(SHOWN_BYTES)];
        text::write_printable(shown.chars(), f)?;
        if shown.len() < source.len() { f.write_str("...") } else { Ok(()) }
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
    document: &'a str,
    at: usize,
}

impl<'a> Members<'a> {
    /// The values of `names` in one pass; every other member goes to `other`. A name of `names`
    /// that comes twice is an error, because two readers would see two documents.
    pub fn pick<const N: usize>(
        self,
        names: &[&str; N],
        mut other: impl FnMut(Str<'a>, Value<'a>),
    ) -> Result<[Option<Value<'a>>; N], Error> {
        let mut values = [None; N];
        for (name, value) in self {
            match names.iter().position(|known| name == **known) {
                Some(place) if values[place].is_some() => {
                    return Err(Error { offset: value.offset(), fault: Fault::Duplicate });
                }
                Some(place) => values[place] = Some(value),
                None => other(name, value),
            }
        }
        Ok(values)
    }

    /// The value of `name`, if there is one. Passes over the whole object.
    pub fn get(self, name: &str) -> Result<Option<Value<'a>>, Error> {
        Ok(self.pick(&[name], |_, _| {})?[0])
    }
}

impl<'a> Iterator for Members<'a> {
    type Item = (Str<'a>, Value<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let text = self.document.as_bytes();
        let name_first = check::next_element(text, self.at)?;
        let name_limit = check::value_limit(text, name_first);
        let value_first = check::after_colon(text, name_limit);
        let value = Value::starting_at(self.document, value_first);
        self.at = value.limit;
        Some((Str::new(&self.document[name_first + 1..name_limit - 1]), value))
    }
}

/// The items of an array in order.
#[derive(Clone, Copy)]
pub struct Items<'a> {
    document: &'a str,
    at: usize,
}

impl<'a> Iterator for Items<'a> {
    type Item = Value<'a>;

    fn next(&mut self) -> Option<Value<'a>> {
        let first = check::next_element(self.document.as_bytes(), self.at)?;
        let value = Value::starting_at(self.document, first);
        self.at = value.limit;
        Some(value)
    }
}

#[cfg(test)]
mod tests;
