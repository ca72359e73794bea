//! The one pass that decides whether bytes are a JSON document, and the walks over checked text.
//!
//! Comes in: UTF-8. Goes out: the extent of the document's value, or the first fault. Invariant:
//! open brackets are bits in a fixed stack, so neither depth nor length costs memory.

use super::{Error, Fault};
use crate::base::limits::JSON_DEPTH_MAX;

/// Checks `text`, which is UTF-8, and gives the first byte and the limit of its value.
pub(super) fn check(text: &[u8]) -> Result<(usize, usize), Error> {
    if text.starts_with("\u{feff}".as_bytes()) {
        return Err(Error { offset: 0, fault: Fault::ByteOrderMark });
    }
    let mut scan = Scan { text, at: 0 };
    let mut open = Nesting::default();
    scan.skip_space();
    let first = scan.at;
    // Every turn takes at least one byte of the text.
    loop {
        if !scan.value_or_open(&mut open)? {
            continue;
        }
        // A value ended here. Close what ends with it, up to what goes on.
        loop {
            if open.depth == 0 {
                let limit = scan.at;
                scan.skip_space();
                let done = scan.at == text.len();
                return if done { Ok((first, limit)) } else { Err(scan.fault(Fault::Trailing)) };
            }
            scan.skip_space();
            match (scan.peek(), open.in_object()) {
                (Some(b','), in_object) => {
                    scan.at += 1;
                    scan.skip_space();
                    if in_object {
                        scan.name()?;
                    }
                    break;
                }
                (Some(b'}'), true) | (Some(b']'), false) => {
                    scan.at += 1;
                    open.pop();
                }
                _ => return Err(scan.fault(Fault::Comma)),
            }
        }
    }
}

/// The open brackets: bit `d` says whether level `d` is an object.
#[derive(Default)]
struct Nesting {
    objects: [u64; JSON_DEPTH_MAX.div_ceil(64)],
    depth: usize,
}

impl Nesting {
    fn push(&mut self, is_object: bool) -> bool {
        if self.depth == JSON_DEPTH_MAX {
            return false;
        }
        let bit = 1 << (self.depth % 64);
        let word = &mut self.objects[self.depth / 64];
        *word = if is_object { *word | bit } else { *word & !bit };
        self.depth += 1;
        true
    }

    fn pop(&mut self) {
        assert!(self.depth > 0);
        self.depth -= 1;
    }

    fn in_object(&self) -> bool {
        let level = self.depth - 1;
        self.objects[level / 64] >> (level % 64) & 1 == 1
    }
}

/// A place in text that is not checked yet.
struct Scan<'a> {
    text: &'a [u8],
    at: usize,
}

impl Scan<'_> {
    fn fault(&self, fault: Fault) -> Error {
        Error { offset: self.at, fault }
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    /// Steps over `byte` if it is next.
    fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += found as usize;
        found
    }

    fn skip_space(&mut self) {
        self.at = skip_space(self.text, self.at);
    }

    /// Takes a scalar or an empty container and says true, or opens a container and says false.
    fn value_or_open(&mut self, open: &mut Nesting) -> Result<bool, Error> {
        let is_object = match self.peek() {
            Some(b'{') => true,
            Some(b'[') => false,
            _ => return self.scalar().map(|()| true),
        };
        if !open.push(is_object) {
            return Err(self.fault(Fault::Depth));
        }
        self.at += 1;
        self.skip_space();
        if self.take(if is_object { b'}' } else { b']' }) {
            open.pop();
            return Ok(true);
        }
        if is_object {
            self.name()?;
        }
        Ok(false)
    }

    /// A member's name, its colon and the space around it.
    fn name(&mut self) -> Result<(), Error> {
        if self.peek() != Some(b'"') {
            return Err(self.fault(Fault::Name));
        }
        self.string()?;
        self.skip_space();
        if !self.take(b':') {
            return Err(self.fault(Fault::Colon));
        }
        self.skip_space();
        Ok(())
    }

    fn scalar(&mut self) -> Result<(), Error> {
        match self.peek() {
            Some(b'"') => self.string(),
            Some(b'0'..=b'9') => self.number(),
            first => {
                let rest = &self.text[self.at..];
                for word in ["true", "false", "null", "NaN", "Infinity", "-Infinity"] {
                    if rest.starts_with(word.as_bytes()) {
                        self.at += word.len();
                        return Ok(());
                    }
                }
                if first == Some(b'-') { self.number() } else { Err(self.fault(Fault::Value)) }
            }
        }
    }

    fn number(&mut self) -> Result<(), Error> {
        self.take(b'-');
        // A leading zero stands alone: what follows it is not a digit of this number.
        if !self.take(b'0') {
            self.digits()?;
        } else if matches!(self.peek(), Some(b'0'..=b'9')) {
            return Err(self.fault(Fault::Number));
        }
        if self.take(b'.') {
            self.digits()?;
        }
        if self.take(b'e') || self.take(b'E') {
            if !self.take(b'+') {
                self.take(b'-');
            }
            self.digits()?;
        }
        Ok(())
    }

    /// One digit or more.
    fn digits(&mut self) -> Result<(), Error> {
        let first = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        if self.at == first { Err(self.fault(Fault::Number)) } else { Ok(()) }
    }

    fn string(&mut self) -> Result<(), Error> {
        self.at += 1;
        loop {
            match self.peek() {
                None => return Err(self.fault(Fault::OpenString)),
                Some(b'"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(b'\\') => self.escape()?,
                Some(0..=0x1f) => return Err(self.fault(Fault::Control)),
                Some(_) => self.at += 1,
            }
        }
    }

    fn escape(&mut self) -> Result<(), Error> {
        let simple = br#""\/bfnrt"#;
        match self.text.get(self.at + 1) {
            Some(byte) if simple.contains(byte) => {
                self.at += 2;
                return Ok(());
            }
            Some(b'u') => {}
            _ => return Err(self.fault(Fault::Escape)),
        }
        let Some(unit) = code_unit(self.text, self.at) else {
            return Err(self.fault(Fault::Escape));
        };
        match unit {
            0xd800..=0xdbff => match code_unit(self.text, self.at + 6) {
                Some(0xdc00..=0xdfff) => self.at += 12,
                _ => return Err(self.fault(Fault::Surrogate)),
            },
            0xdc00..=0xdfff => return Err(self.fault(Fault::Surrogate)),
            _ => self.at += 6,
        }
        Ok(())
    }
}

/// The UTF-16 code unit of the escape `\uXXXX` at `at`, if there is one.
pub(super) fn code_unit(text: &[u8], at: usize) -> Option<u16> {
    let digits = text.get(at..at.checked_add(6)?)?.strip_prefix(b"\\u")?;
    let mut unit = 0;
    for digit in digits {
        unit = unit << 4 | char::from(*digit).to_digit(16)? as u16;
    }
    Some(unit)
}

/// The first byte at or behind `at` that is not white space, or the end.
fn skip_space(text: &[u8], mut at: usize) -> usize {
    while matches!(text.get(at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
        at += 1;
    }
    at
}

/// In checked text, from behind an opening bracket or an element: where the next element starts.
pub(super) fn next_element(text: &[u8], at: usize) -> Option<usize> {
    let mut at = skip_space(text, at);
    if text[at] == b',' {
        at = skip_space(text, at + 1);
    }
    if matches!(text[at], b'}' | b']') { None } else { Some(at) }
}

/// In checked text, from behind a member's name: where its value starts.
pub(super) fn after_colon(text: &[u8], at: usize) -> usize {
    let colon = skip_space(text, at);
    assert!(text[colon] == b':');
    skip_space(text, colon + 1)
}

/// In checked text: where the value that starts at `first` ends.
pub(super) fn value_limit(text: &[u8], first: usize) -> usize {
    let mut depth = 0;
    let mut at = first;
    loop {
        match text[at] {
            b'"' => at = string_limit(text, at),
            b'{' | b'[' => {
                depth += 1;
                at += 1;
            }
            b'}' | b']' => {
                depth -= 1;
                at += 1;
            }
            b'-' | b'0'..=b'9' | b'a'..=b'z' | b'N' | b'I' => at = word_limit(text, at),
            _ => at += 1,
        }
        if depth == 0 {
            return at;
        }
    }
}

/// In checked text: behind the closing quote of the string that starts at `first`.
fn string_limit(text: &[u8], first: usize) -> usize {
    let mut at = first + 1;
    while text[at] != b'"' {
        at += if text[at] == b'\\' { 2 } else { 1 };
    }
    at + 1
}

/// In checked text: behind the number or word at `first`.
fn word_limit(text: &[u8], first: usize) -> usize {
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
    first + text[first..].iter().position(|byte| !is_word(byte)).unwrap_or(text.len() - first)
}
