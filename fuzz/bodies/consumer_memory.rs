//! A consumer of shared batches that writes anything into all that it has mapped to be written: the
//! owner neither ends nor hangs, and other consumers get their batches, with any bytes.

use super::hostile_consumer::{self, Writes};

/// Checks one input.
pub fn run(data: &[u8]) {
    hostile_consumer::run(data, Writes::All);
}
