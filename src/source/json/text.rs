//! Strings of a checked document: compared, copied and printed without decoding them into memory.
//!
//! Comes in: the source between the quotes. Goes out: characters, one by one. Invariant: every
//! escape was checked, surrogate pairs included.

use super::check::code_unit;
use crate::base::text::Text;
use core::fmt;

/// A string as the document spells it, escapes and all. Compares and prints as what it means; its
/// `Display` shows control characters escaped and cuts a long text.
#[derive(Clone, Copy, Default)]
pub struct Str<'a> {
    raw: &'a str,
}

impl<'a> Str<'a> {
    /// The string with this source between its quotes.
    pub(super) fn new(raw: &'a str) -> Self {
        Str { raw }
    }

    /// A text of our own as a string: it has no escapes.
    pub fn plain(text: &'static str) -> Str<'static> {
        assert!(!text.contains('\\'));
        Str { raw: text }
    }

    /// Whether there is nothing between the quotes.
    pub fn is_empty(self) -> bool {
        self.raw.is_empty()
    }

    /// The characters, escapes resolved.
    pub fn chars(self) -> Chars<'a> {
        Chars { rest: self.raw }
    }

    /// Which of the words, with one space between them, it is. An empty text has no words.
    pub fn place_in(self, words: &str) -> Option<usize> {
        let (raw, is_plain) = (self.raw.as_bytes(), !self.raw.contains('\\'));
        let mut split = words.as_bytes().split(|byte| *byte == b' ');
        let place = split.position(|word| if is_plain { raw == word } else { self.is(word) });
        place.filter(|_| !words.is_empty())
    }

    fn is(self, other: &[u8]) -> bool {
        let is_same = |other: &str| self.chars().eq(other.chars());
        self.raw.as_bytes() == other
            || self.raw.contains('\\') && core::str::from_utf8(other).is_ok_and(is_same)
    }

    /// The whole string in `buffer`, or None where it does not fit.
    pub fn decode_into(self, buffer: &mut [u8]) -> Option<&str> {
        let mut len = 0;
        for character in self.chars() {
            let limit = len + character.len_utf8();
            character.encode_utf8(buffer.get_mut(len..limit)?);
            len = limit;
        }
        core::str::from_utf8(&buffer[..len]).ok()
    }

    /// The string, cut where it does not fit.
    pub fn to_text<const N: usize>(self) -> Text<N> {
        let mut text = Text::new();
        for character in self.chars() {
            text.push_str(character.encode_utf8(&mut [0; 4]));
        }
        text
    }
}

impl PartialEq for Str<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.chars().eq(other.chars())
    }
}

impl PartialEq<str> for Str<'_> {
    fn eq(&self, other: &str) -> bool {
        self.is(other.as_bytes())
    }
}

/// Characters of a string that a text shows.
const SHOWN_CHARS: usize = 60;

impl fmt::Display for Str<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"")?;
        write_printable(&mut self.chars().take(SHOWN_CHARS), f)?;
        let is_cut = self.chars().nth(SHOWN_CHARS).is_some();
        f.write_str(if is_cut { "...\"" } else { "\"" })
    }
}

impl fmt::Debug for Str<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Writes characters on one line: white space as a space, other control characters escaped, so
/// that a hostile document can neither break a log line nor drive a terminal.
pub(super) fn write_printable(
    chars: &mut dyn Iterator<Item = char>,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    use fmt::Write;
    for character in chars {
        match character {
            '\n' | '\r' | '\t' => f.write_char(' ')?,
            _ if character.is_control() => write!(f, "\\u{{{:x}}}", u32::from(character))?,
            _ => f.write_char(character)?,
        }
    }
    Ok(())
}

/// The characters of a [`Str`].
#[derive(Clone)]
pub struct Chars<'a> {
    rest: &'a str,
}

impl Iterator for Chars<'_> {
    type Item = char;

    fn next(&mut self) -> Option<char> {
        let first = self.rest.chars().next()?;
        let (character, taken) =
            if first == '\\' { escaped(self.rest.as_bytes()) } else { (first, first.len_utf8()) };
        self.rest = &self.rest[taken..];
        Some(character)
    }
}

/// The character that the escape at the start of `text` stands for, and the bytes it takes.
fn escaped(text: &[u8]) -> (char, usize) {
    let simple = match text[1] {
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        b'u' => return escaped_unit(text),
        other => char::from(other),
    };
    (simple, 2)
}

fn escaped_unit(text: &[u8]) -> (char, usize) {
    let unit = code_unit(text, 0);
    assert!(unit.is_some(), "escapes were checked");
    let units = [unit.unwrap_or(0), code_unit(text, 6).unwrap_or(0)];
    let character = char::decode_utf16(units).next().and_then(Result::ok);
    let character = character.unwrap_or(char::REPLACEMENT_CHARACTER);
    (character, if matches!(units[0], 0xd800..=0xdbff) { 12 } else { 6 })
}
