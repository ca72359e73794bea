//! One loader for the processes of a node: what consumers get, in which order, and what anybody's
//! death means for the others.

#[path = "../common/mod.rs"]
mod common;
mod deaths;
mod orders;
mod refusals;
mod world;
