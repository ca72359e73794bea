//! One loader for the processes of a node: the batches that consumers get, their order, and the
//! effect of a death on the others.

#[path = "../common/mod.rs"]
mod common;
mod deaths;
mod orders;
mod refusals;
mod world;
