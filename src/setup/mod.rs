//! What is decided once, at open: settings, sizes, and which backend.

pub mod backend;
pub mod config;
pub mod geometry;
pub mod settings;
