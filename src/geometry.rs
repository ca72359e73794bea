//! Sizes of scratch and staging, solved in closed form from the memory cap.
//!
//! In: settings, and what everything else takes. Out: [`Geometry`]. Invariant: its bill is within
//! the cap, and every chunk up to the settings' cap can be staged and decoded in it.

use crate::base::math::align_up;
use crate::fail;
use crate::limits::{
    BUFFER_ALIGN, DIRECT_ALIGN, MEMORY_PAGE_BYTES, METADATA_BYTES_MAX, compressed_bytes_max,
};
use crate::settings::Settings;
use crate::status::{Status, Why};

/// Chunks up to this size are read and decoded in a worker's own scratch, which stays in its cache;
/// larger ones are staged in the slab and borrow from the common scratch.
pub const SMALL_CHUNK_BYTES: u64 = 1 << 20;
/// Staging memory that the geometry asks for where the cap allows it.
const SLAB_WISH_BYTES: u64 = 16 << 20;
/// Sizes that follow from the memory cap.
#[derive(Clone, Copy, Debug, Default)]
pub struct Geometry {
    /// Bytes of each worker's place for an encoded chunk.
    pub staging_bytes: u64,
    /// Bytes of each worker's place for a decoded chunk.
    pub target_bytes: u64,
    /// Bytes of each worker's place for a block before its filter is undone.
    pub block_bytes: u64,
    /// Bytes of the common scratch: large chunks, and metadata documents that are too large for a
    /// worker's buffer.
    pub pool_bytes: u64,
    /// Bytes of the ring that waves are staged in.
    pub slab_bytes: u64,
}

impl Settings {
    /// The least geometry that streams every chunk up to the cap: common scratch for one large
    /// chunk of one block, staging for one chunk. `target_bytes(chunk)` is the room for a decoded
    /// chunk.
    pub fn floor_geometry(&self, target_bytes: impl Fn(u64) -> u64) -> Geometry {
        let chunk_bytes = self.config.max_chunk_uncompressed_bytes;
        let small_bytes = chunk_bytes.min(SMALL_CHUNK_BYTES);
        let read_more = if self.reads_direct { 2 * DIRECT_ALIGN } else { 0 };
        let large_bytes = if chunk_bytes > SMALL_CHUNK_BYTES {
            2 * align_up(target_bytes(chunk_bytes), MEMORY_PAGE_BYTES)
        } else {
            0
        };
        Geometry {
            staging_bytes: align_up(compressed_bytes_max(small_bytes), MEMORY_PAGE_BYTES),
            target_bytes: align_up(target_bytes(small_bytes), MEMORY_PAGE_BYTES),
            block_bytes: align_up(target_bytes(small_bytes), MEMORY_PAGE_BYTES),
            pool_bytes: large_bytes.max(METADATA_BYTES_MAX as u64),
            slab_bytes: align_up(
                compressed_bytes_max(chunk_bytes) + BUFFER_ALIGN.max(read_more),
                MEMORY_PAGE_BYTES,
            ),
        }
    }

    /// Solves the geometry. `bill(g)` is the whole bill under geometry `g`.
    ///
    /// Everything but common scratch and staging is fixed; of what the cap leaves, staging gets its
    /// wish, then the common scratch room for as many large chunks as there are decoders.
    pub fn solve(
        &self,
        target_bytes: impl Fn(u64) -> u64,
        bill: impl Fn(&Geometry) -> u64,
        why: &mut Why,
    ) -> Result<Geometry, Status> {
        let mut geometry = self.floor_geometry(&target_bytes);
        let (floor, cap) = (bill(&geometry), self.host_bytes_max());
        if floor > cap {
            return Err(fail!(
                why,
                Budget,
                "max_host_memory_bytes = {cap}: this config needs at least {floor} ({} of it batch \
                 slots): raise the cap, or lower samples_per_batch, n_batch_slots, \
                 n_decode_threads or max_chunk_uncompressed_bytes",
                self.slots_bytes()
            ));
        }
        let mut spare = (cap - floor) & !(MEMORY_PAGE_BYTES - 1);
        let slab_more = SLAB_WISH_BYTES.saturating_sub(geometry.slab_bytes).min(spare);
        geometry.slab_bytes += slab_more;
        spare -= slab_more;
        let chunk_bytes = self.config.max_chunk_uncompressed_bytes;
        if chunk_bytes > SMALL_CHUNK_BYTES {
            let each = align_up(target_bytes(chunk_bytes), MEMORY_PAGE_BYTES);
            let wish = each * self.decode_threads as u64;
            geometry.pool_bytes += wish.saturating_sub(geometry.pool_bytes).min(spare);
        }
        Ok(geometry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::settings::settings_from_config;

    #[test]
    fn the_geometry_never_exceeds_the_cap_and_names_the_floor() {
        let mut config = Config { sample_rank: 2, ..Config::default() };
        config.sample_shape[..2].copy_from_slice(&[8, 16]);
        let bill = |g: &Geometry| (1 << 20) + g.slab_bytes + g.pool_bytes;
        let mut why = Why::new();
        let mut accepted = 0;
        for cap in (1..200).map(|mib| mib << 20) {
            config.max_host_memory_bytes = cap;
            let settings = settings_from_config(&config, 8, &mut why).unwrap();
            match settings.solve(|chunk| chunk, bill, &mut why) {
                Ok(geometry) => {
                    assert!(bill(&geometry) <= cap);
                    assert!(geometry.slab_bytes >= compressed_bytes_max(16 << 20));
                    accepted += 1;
                }
                Err(status) => {
                    assert_eq!(status, Status::Budget);
                    assert!(why.as_str().contains("needs at least"), "{why}");
                }
            }
        }
        assert!(accepted > 100);
    }
}
