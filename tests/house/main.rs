//! The house itself: style, README.md, committed kernels, and the scripts that are carried away.

#[path = "../common/mod.rs"]
mod common;
mod gpu_run;
mod ptx;
mod readme;
mod style;
