//! Any bytes as a blosc1 chunk: a header that is taken is consistent, decoding writes nothing
//! outside its buffers, and a second decoding gives the same.

use super::guard::with_bench;
use std::ops::Range;
use wavetrain::decode::blosc::{Header, decode, header};
use wavetrain::records::Span;
use wavetrain::status::{Status, Why};

/// Largest chunk that is decoded; larger headers are only parsed.
const NBYTES_MAX: u32 = 1 << 20;

/// Bytes on each side of a buffer that must stay as they are.
const GUARD_BYTES: usize = 64;

const POISON: u8 = 0xA5;

/// Checks one input.
pub fn run(data: &[u8]) {
    let mut why = Why::new();
    let header = match header(data, &mut why) {
        Ok(header) => header,
        Err(status) => {
            assert!(matches!(status, Status::Decode | Status::Unsupported));
            return assert!(!why.is_empty());
        }
    };
    check_header(&header, data.len());
    if header.nbytes > NBYTES_MAX {
        return;
    }
    let nbytes = header.nbytes as usize;
    let first = decoded(data, nbytes, 0, 0..nbytes);
    assert_eq!(first, decoded(data, nbytes, 0, 0..nbytes));
    assert_eq!(decoded(data, nbytes + 1, 0, 0..nbytes + 1), Err(Status::Decode));
    check_parts(data, nbytes, &first);
    let streams = header.stream_count();
    if !header.memcpyed && streams > 1 {
        assert_eq!(decoded(data, nbytes, streams as u32 - 1, 0..nbytes), Err(Status::Decode));
        assert_eq!(decoded(data, nbytes, streams as u32, 0..nbytes), first);
    }
}

/// Parts of a chunk that decodes are the same bytes; of one that does not, some parts may decode,
/// and each always the same way.
fn check_parts(data: &[u8], nbytes: usize, whole: &Result<Vec<u8>, Status>) {
    for (from, to) in [(0, 1), (nbytes / 3, nbytes / 2), (nbytes.saturating_sub(1), nbytes)] {
        if from >= to || to > nbytes {
            continue;
        }
        let part = decoded(data, nbytes, 0, from..to);
        match whole {
            Ok(whole) => assert_eq!(part.as_deref(), Ok(&whole[from..to])),
            Err(_) => assert_eq!(part, decoded(data, nbytes, 0, from..to)),
        }
    }
}

fn check_header(header: &Header, bytes: usize) {
    assert_eq!(header.cbytes as usize, bytes);
    assert!((1..=255).contains(&header.typesize));
    assert!(header.blocksize > 0);
    assert!(header.memcpyed || header.block_count as usize <= bytes / 4);
    if header.memcpyed {
        return;
    }
    let blocks = 0..header.block_count;
    let total: u64 = blocks.clone().map(|block| u64::from(header.block_bytes(block))).sum();
    assert_eq!(total, u64::from(header.nbytes));
    let streams: u64 = blocks.clone().map(|block| u64::from(header.block_streams(block))).sum();
    assert_eq!(streams, header.stream_count());
    for block in blocks {
        assert!(header.block_bytes(block).is_multiple_of(header.block_streams(block)));
    }
}

/// Bytes `span` of the chunk, decoded into guarded buffers.
fn decoded(
    data: &[u8],
    nbytes: usize,
    max_substreams: u32,
    span: Range<usize>,
) -> Result<Vec<u8>, Status> {
    let mut target = vec![POISON; nbytes + 2 * GUARD_BYTES];
    let mut scratch = vec![POISON; nbytes + 2 * GUARD_BYTES];
    let inside = GUARD_BYTES..GUARD_BYTES + nbytes;
    let mut why = Why::new();
    let outcome = with_bench(|bench| {
        let (target, scratch) = (&mut target[inside.clone()], &mut scratch[inside.clone()]);
        let span = Span { first: span.start as u64, limit: span.end as u64 };
        let decoded =
            decode(&mut bench.decoder, data, max_substreams, span, target, scratch, &mut why);
        decoded.map(|decoded| decoded.bytes.to_vec())
    });
    for buffer in [&target, &scratch] {
        assert!(buffer[..inside.start].iter().all(|byte| *byte == POISON));
        assert!(buffer[inside.end..].iter().all(|byte| *byte == POISON));
    }
    assert_eq!(outcome.is_err(), !why.is_empty());
    outcome
}
