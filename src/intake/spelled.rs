//! Whether the files of an array are named as its document says: what was found of that so far.

use crate::records::Spelling;

/// Whether an array's files are named as its document says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Spelled {
    /// None was found yet, and so many absent ones may still be asked for in another spelling.
    Unknown {
        /// So many.
        asks_left: u32,
    },
    /// One was found, or nothing contradicts it.
    AsItSays,
    /// All are named otherwise: so.
    Otherwise(Spelling),
}

/// Absent files of an array that are asked for in another spelling if no folder can be listed.
pub(super) const ASKS_MAX: u32 = 64;
