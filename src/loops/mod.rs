//! The loops that every byte of a sample passes: codecs, filters, changes of type.
//!
//! In: slices, and plain numbers. Out: slices, or what is wrong with the data. No error texts, no
//! records, no calls of the system: those are the business of `decode`, `assemble` and others.
//!
//! ```text
//! lz4 blosclz      dictionary coders        unshuffle   blosc's filters
//! inflate          deflate data
//! bz2 lzma         blocks of bzip2, data of LZMA and LZMA2
//! casts            types into types         convert     one element
//! filters sums     what numcodecs does to elements, and its checksums
//! values cf        scales and casts of zarr-extensions, and of the CF conventions
//! digest           64 bits of what a sample holds
//! augment normal   arithmetic on floats, and its noise
//! lognormal        numbers of lognormal distributions
//! resample         between elements of a block
//! simd             instructions of some CPUs only, and which of them are here
//! ```

pub mod augment;
pub mod blosclz;
pub mod bz2;
mod bz2_mask;
pub mod casts;
pub mod cf;
pub mod convert;
pub mod crc32;
pub mod crc32c;
pub mod crc64;
mod crc_tables;
pub mod digest;
pub mod filters;
pub mod inflate;
pub mod lognormal;
pub mod lz4;
pub mod lzma;
mod normal;
mod repeat;
pub mod resample;
pub mod sha256;
pub mod simd;
pub mod small;
pub mod sums;
pub mod unshuffle;
pub mod values;
