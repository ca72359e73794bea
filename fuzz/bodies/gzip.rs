//! Any bytes as gzip members: flate2's reader over zlib, member by member and zeroes skipped as
//! Python skips them, has the same outcome, but for reserved flags, which are refused here.

use super::guard::{ROOM_BYTES, with_bench};
use flate2::bufread::GzDecoder;
use std::io::Read;
use wavetrain::decode::gzip::decode;
use wavetrain::status::{Status, Why};

/// Checks one input.
pub fn run(data: &[u8]) {
    let outcome = decoded(data, ROOM_BYTES);
    assert_eq!(outcome, decoded(data, ROOM_BYTES));
    let expected = by_flate2(data);
    match outcome {
        Ok(bytes) => {
            assert_eq!(expected.as_ref(), Some(&bytes));
            assert_eq!(decoded(data, bytes.len()).as_ref(), Ok(&bytes));
            if !bytes.is_empty() {
                assert_eq!(decoded(data, bytes.len() - 1).unwrap_err().0, Status::Decode);
            }
        }
        Err((status, why)) => {
            assert_eq!(status, Status::Decode);
            assert!(expected.is_none() || why.contains("reserved"), "{why}");
        }
    }
}

fn by_flate2(data: &[u8]) -> Option<Vec<u8>> {
    let (mut rest, mut bytes) = (data, Vec::new());
    loop {
        let mut member = GzDecoder::new(rest);
        let room = (ROOM_BYTES - bytes.len()) as u64;
        let count = member.by_ref().take(room + 1).read_to_end(&mut bytes).ok()?;
        // Only a read that finds the end looks at the checksum.
        if count as u64 > room || member.read(&mut [0]).ok()? != 0 {
            return None;
        }
        rest = member.into_inner();
        while let [0, behind @ ..] = rest {
            rest = behind;
        }
        if rest.is_empty() {
            return Some(bytes);
        }
    }
}

fn decoded(source: &[u8], bytes: usize) -> Result<Vec<u8>, (Status, String)> {
    with_bench(|bench| {
        let target = bench.target.poisoned(bytes, true);
        let mut why = Why::new();
        let source = bench.source.copy_of(source);
        let outcome = decode(&mut bench.inflater, source, target, &mut why);
        assert_eq!(outcome.is_err(), !why.is_empty());
        outcome
            .map(|count| target[..count].to_vec())
            .map_err(|status| (status, why.as_str().to_string()))
    })
}
