//! What is decided once, at open: settings, sizes, and which backend.

pub mod allotted;
pub mod augment;
mod backend;
pub mod config;
pub mod counts;
pub mod cpu_table;
pub mod field_table;
pub mod fields;
pub mod geometry;
pub mod metadata_table;
pub mod numa;
pub mod settings;
pub mod share;
mod store;
