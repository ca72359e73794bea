//! How many bytes a file may have that is one chunk.

use crate::base::status::{Status, Why};
use crate::fail;
use crate::records::ArrayRecord;

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
