//! Ways from a chunk's place in a file to its bytes in memory.

pub mod ask;
pub mod cached;
pub mod hook;
pub mod own;
pub mod unseen;
pub mod wait;
