//! The refusal of a group in place of an array: what it is and which arrays are in it.
//!
//! Comes in: the nodes that were found in the group. Goes out: NOT_FOUND and a text with as many of
//! their names as it holds, the rest counted.

use super::entry::{Entry, NodeKind};
use crate::base::status::{Status, Why};
use crate::base::text::{Tail, Text, line_bytes};
use crate::fail;
use crate::records::DocumentKind;
use core::fmt;

/// Bytes of the names in a refusal. With SHOWN_URI_BYTES they leave some 180 of an error text for
/// words and numbers.
const NAMES_BYTES: usize = 208;

/// Names of nodes as a text shows them: "0, 1, 2 (and 3 more)".
pub struct Names {
    text: Text<NAMES_BYTES>,
    shown: u64,
    total: u64,
}

impl Names {
    /// No names.
    pub const NONE: Names = Names { text: Text::new(), shown: 0, total: 0 };

    /// Appends a name; those after the first that does not fit are counted only.
    pub fn push(&mut self, name: &str) {
        let is_open = self.shown == self.total;
        self.total += 1;
        let separator = if self.shown == 0 { "" } else { ", " };
        let len = self.text.as_bytes().len() + separator.len() + line_bytes(name);
        if is_open && len < NAMES_BYTES {
            self.text.write_line(format_args!("{separator}{name}"));
            self.shown += 1;
        }
    }
}

impl fmt::Display for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text.as_str())?;
        match (self.shown, self.total - self.shown) {
            (_, 0) => Ok(()),
            (0, hidden) => write!(f, "{hidden} with long names"),
            (_, hidden) => write!(f, " (and {hidden} more)"),
        }
    }
}

/// The facts of a group in place of an array.
pub struct GroupRefusal {
    /// Which document makes it a group.
    pub document: DocumentKind,
    /// The kind of the group.
    pub kind: NodeKind,
    /// The arrays in it.
    pub arrays: Names,
    /// The groups in it.
    pub groups: Names,
    /// Why names are missing; else empty.
    pub note: &'static str,
}

impl GroupRefusal {
    /// A group of which nothing is known.
    pub const fn new(document: DocumentKind) -> GroupRefusal {
        let (arrays, groups) = (Names::NONE, Names::NONE);
        GroupRefusal { document, kind: NodeKind::Group, arrays, groups, note: "" }
    }

    /// Takes a node that was found in it.
    pub fn add(&mut self, entry: &Entry<'_>) {
        match entry.kind {
            NodeKind::Array => self.arrays.push(entry.path),
            NodeKind::Unknown => {}
            _ => self.groups.push(entry.path),
        }
    }

    /// The refusal: NOT_FOUND, with the names of what could be meant.
    pub fn refuse(&self, uri: &str, why: &mut Why) -> Status {
        let (file, file_name) = (Tail(uri, SHOWN_URI_BYTES), self.document.file_name());
        let (what, below) = match self.kind {
            NodeKind::Image => ("an image, which is a group", "groups"),
            NodeKind::Plate => ("a plate, which is a group", "wells"),
            NodeKind::Well => ("a well, which is a group", "fields"),
            _ => ("a group", "groups"),
        };
        let Self { arrays, groups, note, .. } = self;
        let (way, below, names) = match (arrays.total, groups.total) {
            (0, 0) => (": name one of the arrays in it", "", &Names::NONE),
            (0, _) => (", name an array in one of its ", below, groups),
            _ => (", name one of its ", "arrays", arrays),
        };
        let colon = if below.is_empty() { "" } else { ": " };
        fail!(why, NotFound, "{file}/{file_name}: is {what}{way}{below}{colon}{names}{note}")
    }
}

/// Bytes of the uri that a refusal shows.
const SHOWN_URI_BYTES: usize = 120;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::zarr::Detail;
    use std::string::ToString;

    #[test]
    fn names_are_shown_until_one_does_not_fit() {
        let mut names = Names::NONE;
        assert_eq!(names.to_string(), "");
        names.push("a");
        names.push("b/c");
        assert_eq!(names.to_string(), "a, b/c");
        names.push(&"d".repeat(NAMES_BYTES));
        names.push("e");
        assert_eq!(names.to_string(), "a, b/c (and 2 more)");
        let mut long = Names::NONE;
        long.push(&"d".repeat(NAMES_BYTES));
        assert_eq!(long.to_string(), "1 with long names");
    }

    #[test]
    fn a_refusal_fits_its_text_whatever_the_uri_and_the_names() {
        let kinds = [NodeKind::Group, NodeKind::Image, NodeKind::Plate, NodeKind::Well];
        let names = [("u", "resolution"), ("\u{1b}", "resolution\n\t\u{2028}")];
        for (kind, (uri, path)) in
            kinds.into_iter().flat_map(|kind| names.map(|names| (kind, names)))
        {
            let mut refusal = GroupRefusal::new(DocumentKind::Zarr3);
            refusal.kind = kind;
            refusal.note = " (its attributes about them are not understood)";
            for _ in 0..60 {
                refusal.add(&Entry { path, kind: NodeKind::Well, detail: Detail::None });
            }
            let mut why = Why::new();
            assert_eq!(refusal.refuse(&uri.repeat(4000), &mut why), Status::NotFound);
            assert!(!why.is_cut() && why.as_str().contains(" more)"), "{why}");
        }
    }
}
