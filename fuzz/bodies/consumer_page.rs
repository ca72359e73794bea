//! A consumer of shared batches that writes anything into its page, and sends anything: the owner
//! neither ends nor hangs, and no other consumer gets a wrong byte.

use super::hostile_consumer::{self, Writes};

/// Checks one input.
pub fn run(data: &[u8]) {
    hostile_consumer::run(data, Writes::Page);
}
