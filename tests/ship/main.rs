//! What is shipped: the archive, the packages, the headers with the compilers that take them, and
//! the programs of examples/.

mod archive;
#[path = "../common/mod.rs"]
mod common;
mod cpp;
mod examples;
mod hdf5;
mod link;
mod packages;
mod panics;
mod python;
mod ranks;
mod shipping;
mod tiles;
mod wheel;
