//! The CUDA backend on the simulated driver, the simulator itself, and the kernels on the CPU.
//!
//! Where `WAVETRAIN_TEST_DRIVER` names another driver, what of consumer and streams needs no
//! simulator runs on that, and the rest skips itself.

mod cases;
mod codecs;
#[path = "../common/mod.rs"]
mod common;
mod consumer;
mod crops;
mod digests;
mod driver;
mod lend;
mod lent_units;
mod lz4;
mod named;
mod pipeline;
mod release;
mod samples;
mod sim;
mod simt;
mod simulator;
mod streams;
mod threads;
mod units;
mod zstd;

// What benches/gpu shares, where it is named like this.
use common::cc;
