//! The command-line tool as its users meet it.
#![cfg(feature = "cli")]

mod augment;
mod checks;
mod commands;
#[path = "../common/mod.rs"]
mod common;
mod digests;
mod epoch;
mod far;
mod fields;
mod groups;
mod memory;
mod pages;
mod shared;
mod shell;
mod simulated;
mod statistics;
mod streams;
mod trace;
mod v2;
