//! Files that are one chunk each: how many bytes they may have, and which are read before anybody
//! looked at them.

use crate::base::status::{Status, Why};
use crate::fail;
use crate::jobs::plan::ask::is_chunk_file;
use crate::jobs::plan::keep::is_keeping;
use crate::jobs::plan::planned::{Place, Planned, Settled};
use crate::os::FileStat;
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

/// Most bytes of a file that is one chunk.
pub fn whole_file_bytes_max(record: &ArrayRecord) -> u64 {
    record.stored_bytes().unwrap_or(record.encoded_bytes_max())
}

/// A file that is one chunk: its size must be one that the chunk can have.
pub fn whole_file_bytes(record: &ArrayRecord, bytes: u64, why: &mut Why) -> Result<u64, Status> {
    let exact = record.stored_bytes();
    if let Some(exact) = exact
        && bytes != exact
    {
        return Err(fail!(why, Decode, "the file has {bytes} bytes, the chunk needs {exact}"));
    }
    let most = whole_file_bytes_max(record);
    if bytes == 0 || bytes > most {
        return Err(fail!(
            why,
            Decode,
            "the file has {bytes} bytes; a chunk of {} bytes takes 1 to {most}",
            record.chunk_bytes
        ));
    }
    Ok(bytes)
}
