//! Any bytes as a blosclz stream: c-blosc's decoder has the same outcome.

use super::guard::with_bench;
use blosc_src as _;
use std::ffi::c_void;
use wavetrain::decode::blosclz::decompress;
use wavetrain::status::{Status, Why};

/// Longest target, two bytes of the input choose it.
const BYTES_MAX: usize = 1 << 16;

unsafe extern "C" {
    fn blosclz_decompress(input: *const c_void, length: i32, output: *mut c_void, max: i32) -> i32;
}

/// Checks one input: two bytes of the target's length, and a stream.
pub fn run(data: &[u8]) {
    let Some((bytes, stream)) = data.split_first_chunk::<2>() else { return };
    let bytes = usize::from(u16::from_le_bytes(*bytes)) % BYTES_MAX;
    let outcome = decoded(stream, bytes, true);
    assert_eq!(outcome, decoded(stream, bytes, false));
    let mut target = vec![0; bytes];
    // SAFETY: both buffers are live and as long as the call is told.
    let count = unsafe {
        blosclz_decompress(
            stream.as_ptr().cast(),
            stream.len() as i32,
            target.as_mut_ptr().cast(),
            bytes as i32,
        )
    };
    target.truncate(count.max(0) as usize);
    // There 0 is an error and an empty stream at once.
    assert_eq!(outcome.unwrap_or_default(), target);
}

fn decoded(stream: &[u8], bytes: usize, at_end: bool) -> Result<Vec<u8>, Status> {
    with_bench(|bench| {
        let target = bench.target.poisoned(bytes, at_end);
        let mut why = Why::new();
        let outcome = decompress(bench.source.copy_of(stream), target, &mut why);
        assert_eq!(outcome.is_err(), !why.is_empty());
        outcome.map(|count| target[..count].to_vec())
    })
}
