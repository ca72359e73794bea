//! The one pass that decides whether bytes are a JSON document, and the walks over checked text.
//!
//! Comes in: UTF-8. Goes out: the extent of the document's value, or the first fault. Invariant:
//! open brackets are bits in a fixed stack, so neither depth nor length costs memory.

use super::{Error, Fault};
use crate::base::limits::JSON_DEPTH_MAX;

/// Checks `text`, which is UTF-8, and gives the first byte and the limit of its value.
pub(super) fn check(text: &[u8]) -> Result<(usize, usize), Error> {
    let mut scan = Scan { text, at: 0, objects: 0, depth: 0 };
    if text.starts_with("\u{feff}".as_bytes()) {
        return Err(scan.fault(Fault::ByteOrderMark));
    }
    scan.skip_space();
    let first = scan.at;
    // Every turn takes at least one byte of the text.
    loop {
        if !scan.value_or_open()? {
            continue;
        }
        // A value ended here. Close what ends with it, up to what goes on.
        loop {
            let (limit, in_object) = (scan.at, scan.objects & 1 == 1);
            scan.skip_space();
            match scan.peek() {
                None if scan.depth == 0 => return Ok((first, limit)),
                _ if scan.depth == 0 => return Err(scan.fault(Fault::Trailing)),
                Some(b',') => {
                    scan.at += 1;
                    scan.skip_space();
                    if in_object {
                        scan.name()?;
                    }
                    break;
                }
                Some(close) if close == if in_object { b'}' } else { b']' } => scan.close(),
                _ => return Err(scan.fault(Fault::Comma)),
            }
        }
    }
}

/// A place in text that is not checked yet.
struct Scan<'a> {
    text: &'a [u8],
    at: usize,
    /// For each open bracket, the innermost in the lowest bit, whether it is an object's.
    objects: u128,
    /// Open brackets.
    depth: usize,
}

const _: () = assert!(JSON_DEPTH_MAX <= u128::BITS as usize);

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
    fn value_or_open(&mut self) -> Result<bool, Error> {
        let is_object = match self.peek() {
            Some(b'{') => true,
            Some(b'[') => false,
            _ => return self.scalar().map(|()| true),
        };
        if self.depth == JSON_DEPTH_MAX {
            return Err(self.fault(Fault::Depth));
        }
        (self.objects, self.depth) = (self.objects << 1 | u128::from(is_object), self.depth + 1);
        self.at += 1;
        self.skip_space();
        if self.peek() == Some(if is_object { b'}' } else { b']' }) {
            self.close();
            return Ok(true);
        }
        if is_object {
            self.name()?;
        }
        Ok(false)
    }

    /// Steps over a closing bracket.
    fn close(&mut self) {
        self.at += 1;
        (self.objects, self.depth) = (self.objects >> 1, self.depth - 1);
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
        if self.text.get(self.at + 1).is_some_and(|byte| simple.contains(byte)) {
            self.at += 2;
            return Ok(());
        }
        let units = [self.at, self.at + 6].map(|at| code_unit(self.text, at));
        self.at += match units {
            [None, _] => return Err(self.fault(Fault::Escape)),
            [Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)] => 12,
            [Some(0xd800..=0xdfff), _] => return Err(self.fault(Fault::Surrogate)),
            _ => 6,
        };
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

/// In checked text, from behind an opening bracket, a name or a value: where the next value starts
/// and ends.
pub(super) fn next_value(text: &[u8]) -> Option<(usize, usize)> {
    let mut first = skip_space(text, 0);
    if matches!(text[first], b',' | b':') {
        first = skip_space(text, first + 1);
    }
    let limit = match text[first] {
        b'}' | b']' => return None,
        b'"' | b'{' | b'[' => value_limit(text, first),
        // A number or a word.
        _ => {
            let is_behind = |byte: &u8| b",]} \t\n\r".contains(byte);
            first + text[first..].iter().position(is_behind)?
        }
    };
    Some((first, limit))
}

/// Where the string, array or object that starts at `first` ends.
fn value_limit(text: &[u8], first: usize) -> usize {
    let (mut depth, mut at) = (0, first);
    // Ends: every turn takes a byte, and what was opened is closed in checked text.
    loop {
        match text[at] {
            b'"' => at = string_end(text, at),
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth -= 1,
            _ => {
                at += 1;
                continue;
            }
        }
        at += 1;
        if depth == 0 {
            return at;
        }
    }
}

/// The closing quote of the string that starts at `first`.
fn string_end(text: &[u8], first: usize) -> usize {
    let mut at = first + 1;
    while text[at] != b'"' {
        at += if text[at] == b'\\' { 2 } else { 1 };
    }
    at
}
