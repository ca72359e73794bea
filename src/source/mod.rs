//! How a name becomes the record of an array.

pub mod json;
pub mod zarr;
