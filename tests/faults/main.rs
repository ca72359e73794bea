//! Calls of the system and of the driver that fail, and streams in which chance decides everything.

mod augmented;
#[path = "../common/mod.rs"]
mod common;
mod device;
mod named;
mod stress;
mod sweep;
