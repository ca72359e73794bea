//! From files to bytes: which files are open, what their shard indexes say, reads of chunk data.
//!
//! In: positions (file, chunk) of the plan. Out: the place of each chunk, and its bytes in a slab.
//! The tables of this room are plain data under the loader's lock; the functions that touch files
//! run without it, on a [`Lease`].

mod access;
mod document;
mod file_record;
mod files;
mod folders;
mod foreign;
mod listing;
mod locate;
mod merge;
mod pages;
pub mod shard_index;
mod sums;
mod whole_file;
mod windows;

pub use access::Access;
pub use document::{
    ATTRIBUTES_FILE_NAME, CONSOLIDATED_FILE_NAME, Document, document_path, read_beside,
    read_document,
};
pub use file_record::{Lease, LeaseOutcome};
pub use files::FileTable;
pub use folders::{Folder, FolderTable, folders_of};
pub use listing::list_folders;
pub use locate::{Located, OpenFault, SHOWN_BYTES, locate, open_leased, shown};
pub use merge::{Piece, merge_pieces, staged_bytes};
pub use pages::{
    IndexPage, LOOKS_MAX, Look, Looks, Outcome, PAGE_BYTES, PageCache, Question, Requests,
};
pub use sums::{PageCheck, SUM_BYTES};
pub use whole_file::{whole_file_bytes, whole_file_bytes_max};
pub use windows::{Window, Windows};

#[cfg(test)]
mod files_tests;
