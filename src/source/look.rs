//! A source gets a name, ways to look for it, and room for what is found.

use crate::base::arena::split_end;
use crate::base::limits::{EDGE_RUNS_MAX, METADATA_SMALL_BYTES, URI_BYTES_MAX};
use crate::base::status::{Status, Why};
use crate::base::text::{Tail, Uri};
use crate::base::version::Version;
use crate::fail;
use crate::os::asked::Asked;
pub use crate::read::Access;
use crate::read::SHOWN_BYTES;
use crate::records::grid::EdgeRun;
use crate::records::{ArrayRecord, DocumentKind, Placement};
use core::fmt;
use static_assertions::const_assert;

/// A name to look for, and room for what is found.
pub struct Look<'a> {
    /// Opens files.
    pub access: &'a dyn Access,
    /// Arrays that the host has.
    pub asked: &'a Asked,
    /// The name.
    pub uri: &'a str,
    /// The field of its structured elements, if one is meant.
    pub field: Option<&'a str>,
    /// Whether its elements are decoded by the CF conventions.
    pub is_cf: bool,
    /// Whether that is left to their cast.
    pub casts_cf: bool,
    /// Numbered files at most.
    pub files_max: u32,
    /// Bytes of a chunk of a flat file at most.
    pub chunk_bytes_max: u64,
    /// For documents and headers.
    pub buffer: &'a mut [u8],
    /// No larger buffer exists.
    pub is_large: bool,
    /// The array that was found.
    pub record: &'a mut ArrayRecord,
    /// Runs of its rectilinear grid.
    pub edges: &'a mut [EdgeRun],
    /// The uri that this one stands for.
    pub alias: &'a mut Uri,
    /// The name may be that of a group, too. Otherwise it is refused.
    pub takes_groups: bool,
    /// Bytes of its document, at the start of the buffer.
    pub document_bytes: usize,
    /// The version of its document, of its .npy file, or of the folder of its numbered files; None
    /// if nothing of an array is read.
    pub version: Option<Version>,
    /// The place of the level that was found for a box with a map.
    pub placement: Placement,
}

/// The things that lie at a uri.
#[derive(Clone, Copy)]
pub enum Seen {
    /// An array, in one file or as its document says.
    Array,
    /// Another uri is meant.
    Alias,
    /// An array in so many numbered files; the record is that of the first.
    Parts(u32),
    /// A group, by a document of that kind.
    Group(DocumentKind),
    /// More than the buffer holds.
    TooLarge,
}

const_assert!(
    METADATA_SMALL_BYTES > (EDGE_RUNS_MAX + 1) * size_of::<EdgeRun>() + size_of::<Uri>() + 4096
);

/// Cuts the places for runs and for a uri off the end of a block, which would be too much for the
/// stack of what follows; None if they do not fit.
#[inline(never)]
pub fn split_block(block: &mut [u8]) -> Option<(&mut [u8], &mut [EdgeRun], &mut Uri)> {
    let (block, edges) = split_end(block, EDGE_RUNS_MAX, EdgeRun::EMPTY)?;
    let (buffer, alias) = split_end(block, 1, Uri::new())?;
    Some((buffer, edges, alias.first_mut()?))
}

impl Look<'_> {
    /// The uri means another one. `what` is too long if it has more bytes than a uri may have,
    /// unless `whole` moves.
    pub fn alias(
        &mut self,
        alias: fmt::Arguments<'_>,
        (what, whole): (&str, &str),
        why: &mut Why,
    ) -> Result<Seen, Status> {
        self.alias.clear();
        self.alias.write_fmt(alias);
        match self.alias.is_cut() {
            false => Ok(Seen::Alias),
            true => Err(fail!(
                why,
                Unsupported,
                "{}: {what} more than {URI_BYTES_MAX} bytes: move the {whole} to a shorter path",
                Tail(self.uri, SHOWN_BYTES)
            )),
        }
    }

    /// The answer about the array before a mark: another uri that it means has the mark, too.
    pub fn marked(
        &mut self,
        found: Option<Result<Seen, Status>>,
        mark: fmt::Arguments<'_>,
        why: &mut Why,
    ) -> Result<Seen, Status> {
        let found = found.unwrap_or(Err(Status::NotFound))?;
        let (Seen::Alias, array) = (&found, *self.alias) else { return Ok(found) };
        self.alias(format_args!("{array}{mark}"), ("the path of its level has", "group"), why)
    }
}
