//! How a name becomes the record of an array.

pub mod asked;
pub mod flat;
pub mod json;
pub mod paths;
pub mod zarr;
