//! The kinds of work, a file each.

mod absence;
pub mod asked;
pub mod assemble;
pub mod blanks;
mod crop;
pub mod device;
pub mod digest;
mod encoded;
pub mod failures;
pub mod feed;
pub mod flat;
pub mod groups;
pub mod lease;
pub mod lend;
pub mod load;
pub mod look;
pub mod look_array;
pub mod look_up;
mod packing;
pub mod parts;
pub mod patch;
pub mod plan;
pub mod read;
pub mod release;
pub mod tensors;
mod to_slab;
