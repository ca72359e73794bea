//! The house itself: style, documents, committed kernels, and the scripts that are carried away.

#[path = "../common/mod.rs"]
mod common;
mod gpu_run;
mod pages;
mod ptx;
mod style;
mod texts;
mod words;
