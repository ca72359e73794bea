//! What callers touch: the C functions, the Rust loader, and what both share.

mod affine;
mod augment;
pub mod batch;
pub mod c;
pub mod entries;
pub mod feed;
pub mod handles;
pub mod info;
pub mod loader;
pub mod metadata;
mod part;
pub mod table;
