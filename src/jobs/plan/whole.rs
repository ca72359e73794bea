//! Files that are one chunk each, and that are read before anybody looked at them.
//!
//! In: a chunk of the window. Out: whether its file is read so, and which bytes of it.

use crate::jobs::plan::ask::is_chunk_file;
use crate::jobs::plan::keep::is_keeping;
use crate::jobs::plan::planned::{Place, Planned, Settled};
use crate::os::FileStat;
use crate::read::whole_file_bytes_max;
use crate::records::ArrayRecord;
use crate::state::shared::Shared;

/// Whether a file that is one chunk is read before anybody looked at it: one request brings its
/// bytes, its size and whether it is there. A chunk that is cached has a version, and one that a
/// device decodes is taken with its size.
pub fn is_read_unseen(shared: &Shared, record: &ArrayRecord) -> bool {
    let has_way = shared.store.row.has_tails && shared.engine().is_none();
    has_way && is_chunk_file(record) && !is_keeping(shared, record)
}

/// The bytes to read of such a file: the part that boxes need of an uncompressed chunk; else as
/// many as a chunk can have, because its size is not known.
pub fn unseen_place(record: &ArrayRecord, entry: &Planned) -> Place {
    let (most, need) = (whole_file_bytes_max(record), entry.need.span);
    let (offset, bytes) = match record.is_read_partly() {
        true => (need.first, need.bytes()),
        false => (0, most),
    };
    Place::Known(Settled::Data { offset, bytes, stat: FileStat::UNSEEN })
}
