//! Batches: the slots that hold them, and their tensors for other libraries.

pub mod dlpack;
pub mod exports;
pub mod slots;

#[cfg(test)]
mod slots_tests;
