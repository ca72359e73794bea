//! How the keys of an array's files are spelled.

use super::{ArrayRecord, KeyEncoding};

/// A spelling of keys. Keys without coordinates, and bare keys of one, have no separator: theirs
/// is the one of the array.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Spelling {
    /// The encoding, which sets the text before the coordinates.
    pub encoding: KeyEncoding,
    /// The byte between them: b'/' or b'.'.
    pub separator: u8,
}

impl Spelling {
    /// The same with the other separator; None where keys of the array have none.
    pub fn with_other_separator(self, record: &ArrayRecord) -> Option<Spelling> {
        let separator = if self.separator == b'/' { b'.' } else { b'/' };
        record.has_separator(self.encoding).then_some(Spelling { separator, ..self })
    }

    /// The key in the path of a file of the array at `uri`.
    pub fn key_of<'p>(path: &'p str, uri: &str) -> &'p str {
        path.strip_prefix(uri).unwrap_or(path).trim_start_matches('/')
    }
}

impl ArrayRecord {
    /// How the document says that keys are spelled.
    pub fn spelling(&self) -> Spelling {
        Spelling { encoding: self.key_encoding, separator: self.separator }
    }

    /// Whether something stands between the parts of a key in this encoding.
    pub fn has_separator(&self, encoding: KeyEncoding) -> bool {
        let parts = if self.is_scalar { 0 } else { self.axes() };
        parts > usize::from(encoding == KeyEncoding::V2)
    }
}
