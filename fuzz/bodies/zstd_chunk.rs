//! Any bytes as zstd frames: libzstd's one-shot decoder, in a context of its own, has the same
//! outcome, and decoding up to some byte gives the first bytes of the whole.

use super::guard::{ROOM_BYTES, with_bench};
use wavetrain::status::{Status, Why};

/// Checks one input: two bytes that choose where to stop, and frames.
pub fn run(data: &[u8]) {
    let Some((stop, source)) = data.split_first_chunk::<2>() else { return };
    let whole = decoded(source, ROOM_BYTES);
    let oracle = zstd::bulk::Decompressor::new().unwrap().decompress(source, ROOM_BYTES);
    assert_eq!(whole.as_ref().ok(), oracle.as_ref().ok());
    let bytes = whole.as_ref().map_or(ROOM_BYTES / 2, Vec::len);
    if bytes == 0 {
        return;
    }
    let limit = 1 + bytes * usize::from(u16::from_le_bytes(*stop)) / (1 << 16);
    let part = prefix(source, bytes, limit, true);
    assert_eq!(part, prefix(source, bytes, limit, false));
    match whole {
        Ok(whole) => {
            let part = part.unwrap();
            assert!(part.len() >= limit && whole.starts_with(&part));
            // In a target of another length the chunk has the wrong size; a longer one has to fit.
            for other in [bytes - 1, bytes + 1] {
                let fits = other <= ROOM_BYTES;
                assert!(!fits || prefix(source, other, other, true) == Err(Status::Decode));
            }
        }
        Err(_) => assert!(part.is_err() || part.unwrap().len() >= limit),
    }
}

fn decoded(source: &[u8], bytes: usize) -> Result<Vec<u8>, Status> {
    with_bench(|bench| {
        let target = bench.target.poisoned(bytes, true);
        let mut why = Why::new();
        let outcome = bench.context.decompress(bench.source.copy_of(source), target, &mut why);
        assert_eq!(outcome.is_err(), !why.is_empty());
        outcome.map(|count| target[..count].to_vec())
    })
}

fn prefix(source: &[u8], bytes: usize, limit: usize, at_end: bool) -> Result<Vec<u8>, Status> {
    with_bench(|bench| {
        let target = bench.target.poisoned(bytes.min(ROOM_BYTES), at_end);
        let limit = limit.min(target.len());
        let source = bench.source.copy_of(source);
        let mut why = Why::new();
        let outcome = bench.context.decompress_prefix(source, target, limit, &mut why);
        assert_eq!(outcome.is_err(), !why.is_empty());
        outcome.map(|count| target[..count].to_vec())
    })
}
