//! How a name becomes the record of an array.

pub mod asked;
pub mod cf;
mod fields;
mod files;
pub mod find;
pub mod flat;
pub mod groups;
pub mod json;
mod levels;
pub mod look;
mod nodes;
pub mod parts;
pub mod paths;
pub mod recorder;
pub mod zarr;
