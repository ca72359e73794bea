//! The metadata that a config points to, looked up before.
//!
//! In: an address, and what its maker says of it. Out: its bytes, once they are known to be
//! records. Invariant: nothing is read past the bytes that the table states.

use crate::base::abi::Blank;
use crate::base::snapshot;
use crate::base::status::{Status, Why};
use crate::fail;
use crate::setup::config::range;
use core::ptr;

/// Most bytes: places of records are counted in words of 8 bytes.
const BYTES_MAX: u64 = 8 * (u32::MAX as u64 - 1);

/// Metadata as a config has it: read while a loader of the config is open.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MetadataTable {
    metadata: *const u8,
    metadata_bytes: u64,
}

impl Blank for MetadataTable {
    const BLANK: MetadataTable = MetadataTable::NONE;
}

impl MetadataTable {
    /// Nothing was looked up before.
    pub const NONE: MetadataTable = MetadataTable { metadata: ptr::null(), metadata_bytes: 0 };

    /// Its parts as the header has them, and where each lies.
    #[doc(hidden)]
    pub const FIELDS: &'static [(&'static str, usize)] = &[
        ("metadata", core::mem::offset_of!(MetadataTable, metadata)),
        ("metadata_bytes", core::mem::offset_of!(MetadataTable, metadata_bytes)),
    ];

    /// Metadata that lives as long as the process.
    pub const fn from_static(bytes: &'static [u8]) -> MetadataTable {
        MetadataTable { metadata: bytes.as_ptr(), metadata_bytes: bytes.len() as u64 }
    }

    /// Metadata that is borrowed.
    ///
    /// # Safety
    /// It is there, and stays as it is, as long as a loader of the config is open.
    pub const unsafe fn over(bytes: &[u8]) -> MetadataTable {
        MetadataTable { metadata: bytes.as_ptr(), metadata_bytes: bytes.len() as u64 }
    }

    /// The bytes, and how many records they are.
    pub(crate) fn read(&self, why: &mut Why) -> Result<(&'static [u8], u32), Status> {
        let bytes = self.metadata_bytes;
        range(why, "metadata_bytes", bytes, (0, BYTES_MAX))?;
        if bytes == 0 {
            return Ok((&[], 0));
        }
        if self.metadata.is_null() {
            return Err(fail!(why, Invalid, "metadata_bytes = {bytes}, but metadata is NULL"));
        }
        // SAFETY: so many bytes are there, and stay as they are while a loader of the config is
        // open, as its maker says.
        let bytes = unsafe { core::slice::from_raw_parts(self.metadata, bytes as usize) };
        Ok((bytes, snapshot::count(bytes, why)?))
    }
}
