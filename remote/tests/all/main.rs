//! All tests of the crate are one program, because each program links 130 crates.

mod abi;
mod access;
mod archives;
mod azure;
mod client;
mod common;
mod google;
mod http;
#[cfg(feature = "profiles")]
mod profiles;
mod s3;
mod zip;
