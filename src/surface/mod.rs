//! What callers touch: the C functions, the Rust loader, and what both share.

pub mod c;
pub mod handles;
pub mod info;
pub mod loader;
