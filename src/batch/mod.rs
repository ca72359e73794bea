//! Batches: the slots that hold them, what slots say of themselves, the passes over them, and
//! their tensors for other libraries.

pub mod dlpack;
pub mod exports;
mod failures;
pub mod pieces;
mod places;
mod readers;
pub mod received;
pub mod record;
pub mod shared;
pub mod slots;

#[cfg(test)]
mod slots_tests;
