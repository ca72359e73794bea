//! Any bytes as bzip2 streams: the crate `bzip2`, stream by stream, has the same outcome. Streams
//! whose checksums alone are wrong get the right ones, so that the rest of them is compared, too.

use super::guard::with_bench;
use wavetrain::decode::bz2::{decode, workspace_bytes};
use wavetrain::loops::bz2::LEVEL_MAX;
use wavetrain::status::{Status, Why};

/// Bytes of the target: the workspace of it fits a room.
const TARGET_BYTES: usize = 160 << 10;

/// The 48 bits before the checksum of a stream.
const END_MAGIC: u64 = 0x1772_4538_5090;

/// Checks one input.
pub fn run(data: &[u8]) {
    let mut data = data.to_vec();
    // Ends: a block, and then its stream, get their checksums.
    for _ in 0..3 {
        check(&data);
        let Err((_, why)) = decoded(&data, TARGET_BYTES) else { return };
        let Some(sealed) = sealed(&data, &why) else { return };
        data = sealed;
    }
}

fn check(data: &[u8]) {
    let outcome = decoded(data, TARGET_BYTES);
    assert_eq!(outcome, decoded(data, TARGET_BYTES));
    let expected = by_crate(data);
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
            assert!(expected.is_none(), "{why}");
        }
    }
}

/// The streams with the checksum that `why` says was computed; None if it is about something else.
fn sealed(data: &[u8], why: &str) -> Option<Vec<u8>> {
    let sum = why.rsplit("computed 0x").next().and_then(|sum| u32::from_str_radix(sum, 16).ok())?;
    let mut data = data.to_vec();
    if why.starts_with("bz2 block crc") {
        data.get_mut(10..14)?.copy_from_slice(&sum.to_be_bytes());
        return Some(data);
    }
    // It lies at any bit, near the end.
    let bit = |at: usize| u64::from(data[at / 8] >> (7 - at % 8) & 1);
    let word = |at: usize| (at..at + 48).fold(0, |word, at| word << 1 | bit(at));
    let at = (0..(8 * data.len()).checked_sub(80)? + 1).rfind(|at| word(*at) == END_MAGIC)? + 48;
    for (place, shift) in (at..at + 32).zip((0..32).rev()) {
        let mask = 0x80 >> (place % 8);
        data[place / 8] = data[place / 8] & !mask | if sum >> shift & 1 == 1 { mask } else { 0 };
    }
    Some(data)
}

fn by_crate(data: &[u8]) -> Option<Vec<u8>> {
    let (mut rest, mut bytes) = (data, Vec::with_capacity(TARGET_BYTES + 1));
    loop {
        let mut stream = bzip2::Decompress::new(false);
        let status = stream.decompress_vec(rest, &mut bytes).ok()?;
        if status != bzip2::Status::StreamEnd || bytes.len() > TARGET_BYTES {
            return None;
        }
        rest = &rest[stream.total_in() as usize..];
        if rest.is_empty() {
            return Some(bytes);
        }
    }
}

fn decoded(source: &[u8], bytes: usize) -> Result<Vec<u8>, (Status, String)> {
    with_bench(|bench| {
        let target = bench.target.poisoned(bytes, true);
        let need = workspace_bytes(LEVEL_MAX, bytes as u64) as usize;
        let workspace = bench.scratch.poisoned(need, true);
        let mut why = Why::new();
        let source = bench.source.copy_of(source);
        let outcome = decode(LEVEL_MAX, workspace, source, target, &mut why);
        assert_eq!(outcome.is_err(), !why.is_empty());
        outcome
            .map(|count| target[..count].to_vec())
            .map_err(|status| (status, why.as_str().to_string()))
    })
}
