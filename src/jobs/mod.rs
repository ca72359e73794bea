//! The kinds of work, a file each.

mod absence;
pub mod assemble;
pub mod blanks;
mod decode;
pub mod device;
pub mod failures;
mod fed;
pub mod lease;
pub mod load;
pub mod look;
pub mod look_array;
pub mod look_up;
pub mod parts;
pub mod plan;
pub mod read;
pub mod release;
pub mod resample;
mod sink;
pub mod tensors;
