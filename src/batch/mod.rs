//! Batches: the slots that hold them, the passes over them, digests of their samples, and their
//! tensors for other libraries.

pub mod digests;
pub mod dlpack;
pub mod exports;
pub mod pieces;
pub mod slots;

#[cfg(test)]
mod digests_tests;
#[cfg(test)]
mod slots_tests;
