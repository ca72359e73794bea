//! The order in which an epoch's samples come, and what is random about them.
//!
//! In: how many samples, a seed, and who takes them. Out: numbers of samples, or boxes; the same as
//! of include/wavetrain_epoch.h and of wavetrain.epoch in Python. Whole numbers and nothing else:
//! no allocation, no hidden state. Tables lie in memory of the caller.
//!
//! ```
//! use wavetrain::sampler::{Epoch, Order, Tail};
//!
//! # fn main() -> Result<(), wavetrain::sampler::Misfit> {
//! let mut epoch = Epoch::new(1000, 7, Order::Shuffled)?.with_ranks(0, 4, 32)?;
//! epoch = epoch.with_tail(Tail::Drop);
//! let mut checkpoint = epoch.state();
//! for _ in 0..2 {
//!     while epoch.left() > 0 {
//!         let batch: Vec<u64> = epoch.by_ref().take(32).collect();
//!         assert_eq!(batch.len(), 32);
//!         checkpoint = epoch.state();
//!     }
//!     epoch.turn();
//! }
//! // Another number of ranks goes on in the same global order.
//! let mut resumed = Epoch::new(1000, 7, Order::Shuffled)?.with_ranks(1, 2, 16)?;
//! resumed.resume(&checkpoint)?;
//! # Ok(())
//! # }
//! ```
//!
//! An epoch is a row of positions `0..n`. Which sample stands at a position depends on the seed and
//! on the number of the epoch, never on ranks, threads or batches: those only deal positions. A
//! [`ChunkShuffle`] deals them so that a chunk is decoded while it is kept, and [`cost()`] says
//! before an epoch how many chunks it decodes.

mod boxes;
mod chunk_shuffle;
mod cost;
mod epoch;
mod random;
mod tables;

pub use boxes::{Arrays, Begin, BoxPlaces, Boxes, End, Grid};
pub use chunk_shuffle::ChunkShuffle;
pub(crate) use cost::cost_of;
pub use cost::{Cost, cost};
pub(crate) use epoch::hash_with;
pub use epoch::{Deal, Epoch, Order, Place, State, Tail, Taken};
pub use random::{below, key, mix, permute, philox, purpose};
pub use tables::{Mixture, Share, accumulate, group, part, stratify, weighted};

use core::fmt;

/// Samples of an epoch at most.
pub const SAMPLES_MAX: u64 = 1 << 62;

/// Why numbers do not fit together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misfit {
    /// More than [`SAMPLES_MAX`] samples, or not as many as the epoch has.
    Samples,
    /// A rank that is not below the world, no samples in a batch, or too many in a round.
    Ranks,
    /// A state of another order: another seed, number of samples, shuffle or table; or, inside of a
    /// round of shuffle windows of a chunk-aware shuffle, of another world.
    State,
    /// A chunk-aware shuffle with runs or shuffle windows of nothing, or with a deal or a tail that
    /// it does not have.
    ChunkShuffle,
    /// A label that is not below the number of labels, or tables that are not of one grouping.
    Labels,
    /// Weights that are all 0, too many or too large.
    Weights,
    /// A source of a mixture that has a weight and no samples.
    Source,
    /// A grid without boxes, or of numbers that are too large.
    Grid,
    /// The memory that was given is too small.
    Memory,
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Misfit::Samples => "more samples than 2^62, or not as many as the epoch has",
            Misfit::Ranks => "rank, world and batch do not fit together",
            Misfit::State => {
                "the state is of another order: seed, samples, shuffle, table or, in a \
                              window, world differ"
            }
            Misfit::ChunkShuffle => {
                "a chunk-aware shuffle has runs and shuffle windows of at least 1, shuffles by \
                 itself, deals shuffle windows, and does not repeat"
            }
            Misfit::Labels => "a label is too high, or the tables are not of one grouping",
            Misfit::Weights => "the weights are all 0, too many, or too large",
            Misfit::Source => "a source of the mixture has a weight and no samples",
            Misfit::Grid => "the grid has no boxes, or a number of it is too large",
            Misfit::Memory => "the memory that was given is too small",
        })
    }
}

impl core::error::Error for Misfit {}

#[cfg(test)]
mod boxes_tests;
#[cfg(test)]
mod deal_tests;
#[cfg(test)]
mod tests;
