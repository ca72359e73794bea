//! Which chunks a batch needs, each once, streamed in bounded memory.
//!
//! In: the source box of every sample of one array. Out: chunks in file order (file by file,
//! row-major in each), each with all samples that touch it. Nothing is stored per chunk: one
//! [`Cursor`] walks the chunk grid of each sample, and [`Merge`] brings equal positions together,
//! so a box over a million chunks takes the memory of a box over one.

mod asked;
mod cursor;
mod merge;
mod need;

pub use asked::asked_chunk;
pub use cursor::{Cursor, Reach};
pub use merge::Merge;
