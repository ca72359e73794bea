//! What is shipped: the archive, the packages, the headers with the compilers that take them, and
//! the programs of examples/.

mod archive;
#[path = "../common/mod.rs"]
mod common;
mod cpp;
mod epoch;
mod examples;
mod hdf5;
mod link;
mod packages;
mod pages;
mod panics;
mod python;
mod questions;
mod ranks;
mod shipping;
mod tiles;
mod wheel;
