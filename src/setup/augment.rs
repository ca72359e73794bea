//! The memory that augmentation takes, as a config says.
//!
//! In: a config and its fields. Out: words of each box, bytes of staging; 0 without
//! `config.augment`.

use crate::base::limits::MEMORY_PAGE_BYTES;
use crate::records;
use crate::setup::config::Config;
use crate::setup::fields::Fields;
use crate::setup::settings::Settings;

/// Staging for boxes with a map at least, if the config does not say: small boxes are read ahead.
const RESAMPLE_BYTES_MIN: u64 = 1 << 20;

/// Most words of what is done to a box of any field; 0 if elements are cast alone, place by place.
pub(super) fn augment_words(config: &Config, fields: &Fields) -> u32 {
    let ranks = fields.iter().map(|field| field.extents().len());
    let most = if config.augment == 1 { ranks.max() } else { None };
    most.map_or(0, |rank| records::augment_words(rank) as u32)
}

/// Staging for boxes with a map: that for eight hulls as large as the largest field, if the config
/// does not say.
pub(super) fn resample_bytes(config: &Config, fields: &Fields) -> u64 {
    let sample_bytes = fields.iter().map(|field| field.sample_bytes).max().unwrap_or(0);
    match config.max_resample_bytes {
        _ if config.augment == 0 => 0,
        0 => (8 * sample_bytes).max(RESAMPLE_BYTES_MIN).next_multiple_of(MEMORY_PAGE_BYTES),
        given => given.next_multiple_of(MEMORY_PAGE_BYTES),
    }
}

impl Settings {
    /// Bytes of staging for boxes with a map, which the host resamples for a device too.
    pub fn resample_bytes(&self) -> u64 {
        self.resample_bytes
    }

    /// The same as texts show it: as the config has it, and not whole pages.
    pub fn shown_resample_bytes(&self) -> u64 {
        match self.config.max_resample_bytes {
            0 => self.resample_bytes(),
            given => given,
        }
    }
}
