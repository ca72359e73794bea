//! Any bytes as a blosc1 chunk, decoded between guard pages: a part is that part of the whole, and
//! what is taken c-blosc takes too, with the same bytes.

use super::guard::{ROOM_BYTES, with_bench};
use std::ffi::{c_int, c_void};
use wavetrain::decode::blosc::{Compressor, decode, header};
use wavetrain::records::Span;
use wavetrain::status::{Status, Why};

/// Checks one input.
pub fn run(data: &[u8]) {
    // The length is set right, so that mutants of any length get past it.
    let mut chunk = data.to_vec();
    if data.first() != Some(&1) && data.len() >= 16 {
        chunk[12..16].copy_from_slice(&(data.len() as u32).to_le_bytes());
    }
    let mut why = Why::new();
    let Ok(header) = header(&chunk, &mut why) else { return assert!(!why.is_empty()) };
    let bytes = header.nbytes as usize;
    if bytes > ROOM_BYTES || bytes == 0 {
        return;
    }
    let whole = decoded(&chunk, bytes, 0..bytes, true);
    assert_eq!(whole, decoded(&chunk, bytes, 0..bytes, false));
    for (first, limit) in [(0, 1), (bytes / 3, bytes / 2), (bytes / 2, bytes), (bytes - 1, bytes)] {
        if first == limit {
            continue;
        }
        let part = decoded(&chunk, bytes, first..limit, true);
        match &whole {
            Ok(whole) => assert_eq!(part.as_deref(), Ok(&whole[first..limit])),
            // Other blocks are not looked at, so that a part of a broken chunk may decode.
            Err(_) => assert_eq!(part, decoded(&chunk, bytes, first..limit, false)),
        }
    }
    let Ok(whole) = whole else { return };
    match header.compressor {
        // Not built in here: it would bring zstd's old formats along.
        Compressor::Zstd if !header.memcpyed => {}
        // Of lz4 the end of a block is judged less strictly here.
        Compressor::Lz4 => assert!(by_c_blosc(&chunk, bytes).is_none_or(|bytes| bytes == whole)),
        _ => assert_eq!(by_c_blosc(&chunk, bytes), Some(whole)),
    }
}

/// The bytes `span` of the chunk.
fn decoded(
    chunk: &[u8],
    bytes: usize,
    span: std::ops::Range<usize>,
    at_end: bool,
) -> Result<Vec<u8>, Status> {
    with_bench(|bench| {
        let source = bench.source.copy_of(chunk);
        let target = bench.target.poisoned(bytes, at_end);
        let scratch = bench.scratch.poisoned(bytes, at_end);
        let span = Span { first: span.start as u64, limit: span.end as u64 };
        let mut why = Why::new();
        let outcome = decode(&mut bench.decoder, source, 0, span, target, scratch, &mut why);
        assert_eq!(outcome.is_err(), !why.is_empty());
        if let Ok(decoded) = &outcome {
            assert_eq!((decoded.first, decoded.bytes.len() as u64), (span.first, span.bytes()));
        }
        outcome.map(|decoded| decoded.bytes.to_vec())
    })
}

/// What c-blosc decodes; None where it refuses.
fn by_c_blosc(chunk: &[u8], bytes: usize) -> Option<Vec<u8>> {
    let mut target = vec![0; bytes];
    // SAFETY: both buffers are live, the chunk is as long as its header says (it was taken), and
    // the target as long as the call is told.
    let count: c_int = unsafe {
        blosc_src::blosc_decompress_ctx(
            chunk.as_ptr().cast::<c_void>(),
            target.as_mut_ptr().cast::<c_void>(),
            bytes,
            1,
        )
    };
    (count == bytes as c_int).then_some(target)
}
