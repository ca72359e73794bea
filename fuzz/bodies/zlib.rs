//! Any bytes as a zlib stream: zlib itself has the same outcome, but for bytes behind the stream
//! and preset dictionaries, which are refused here.

use super::guard::{ROOM_BYTES, with_bench};
use flate2::{Decompress, FlushDecompress, Status as Flated};
use wavetrain::status::{Status, Why};

/// Checks one input.
pub fn run(data: &[u8]) {
    let outcome = decoded(data, ROOM_BYTES);
    assert_eq!(outcome, decoded(data, ROOM_BYTES));
    let mut target = vec![0; ROOM_BYTES];
    let mut oracle = Decompress::new(true);
    let flated = oracle.decompress(data, &mut target, FlushDecompress::Finish);
    let is_whole =
        matches!(flated, Ok(Flated::StreamEnd)) && oracle.total_in() == data.len() as u64;
    target.truncate(if is_whole { oracle.total_out() as usize } else { 0 });
    assert_eq!(outcome.as_ref().ok(), is_whole.then_some(&target));
    let Ok(bytes) = outcome else { return };
    // Exactly enough room is enough, and a byte less is too little.
    assert_eq!(decoded(data, bytes.len()).as_ref(), Ok(&bytes));
    if !bytes.is_empty() {
        assert_eq!(decoded(data, bytes.len() - 1), Err(Status::Decode));
    }
}

fn decoded(source: &[u8], bytes: usize) -> Result<Vec<u8>, Status> {
    with_bench(|bench| {
        let target = bench.target.poisoned(bytes, true);
        let mut why = Why::new();
        let outcome = bench.inflater.zlib(bench.source.copy_of(source), target, &mut why);
        assert_eq!(outcome.is_err(), !why.is_empty());
        outcome.map(|count| target[..count].to_vec())
    })
}
