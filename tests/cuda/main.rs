//! The CUDA backend on the simulated driver, the simulator itself, and the kernels on the CPU.
//!
//! Where `WAVETRAIN_TEST_DRIVER` names another driver, what of consumer and streams needs no
//! simulator runs on that, and the rest skips itself.

mod augmented;
mod cases;
#[path = "../common/mod.rs"]
mod common;
mod consumer;
mod digests;
mod driver;
mod lend;
mod lent_units;
mod loans;
mod mapped;
mod named;
mod numa;
mod pipeline;
mod release;
mod shared;
mod sim;
mod simt;
mod simulator;
mod streams;
mod sweeps;
mod threads;

// What benches/gpu shares, where it is named like this.
use common::cc;
