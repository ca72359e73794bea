//! What decoding works in besides its buffers: a zstd context and a deflate state, both in the
//! arena.
//!
//! Invariant: one thread uses a decoder at a time, and what one chunk left in it never shows in the
//! next.

use super::inflate::Inflater;
use super::zstd::Context;
use crate::base::arena::Carver;
use crate::base::bill::Item;
use crate::base::status::Status;
use crate::loops::{crc32, crc32c, crc64};

/// Everything that some codec keeps while it decodes a chunk.
pub struct Decoder {
    pub(super) zstd: Context,
    pub(super) inflater: &'static mut Inflater,
}

impl Decoder {
    /// Carves a decoder. None while counting, and where zstd does not take its workspace.
    pub fn carve(carver: &mut Carver) -> Option<Decoder> {
        let bytes = Context::workspace_bytes();
        let workspace = carver.bytes(Item::Decoders, bytes, 64);
        let inflater = carver.slice_from(Item::Decoders, 1, |_| Inflater::new()).first_mut()?;
        Decoder::new(workspace, inflater).ok()
    }

    /// A decoder whose zstd context lives in `workspace`: as for [`Context::new`].
    pub fn new(
        workspace: &'static mut [u8],
        inflater: &'static mut Inflater,
    ) -> Result<Decoder, Status> {
        // Now, so that no memory is touched for the first time after the open.
        crc32::make_tables();
        crc32c::make_tables();
        crc64::make_tables();
        Ok(Decoder { zstd: Context::new(workspace)?, inflater })
    }
}

#[cfg(test)]
/// What tests of other modules need to decode.
pub mod test_support {
    use super::*;
    use crate::decode::zstd::test_support::context;
    use std::boxed::Box;

    /// A decoder in leaked memory.
    pub fn decoder() -> Decoder {
        Decoder { zstd: context(), inflater: Box::leak(Box::new(Inflater::new())) }
    }
}
