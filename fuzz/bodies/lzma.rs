//! Any bytes as LZMA data: .xz streams, .lzma streams, and data of chosen filters. liblzma has the
//! same outcome, but for filters that are not read. Data whose checksums alone are wrong gets the
//! right ones, so that the rest of it is compared, too.

use super::guard::with_bench;
use liblzma::stream::{
    Action, CONCATENATED, Error, Filters, LzmaOptions, Status as Ending, Stream,
    TELL_UNSUPPORTED_CHECK,
};
use wavetrain::decode::lzma::{WORKSPACE_BYTES, decode};
use wavetrain::records::{Lzma, LzmaChain, LzmaProperties};
use wavetrain::status::{Status, Why};

/// Bytes of the target.
const TARGET_BYTES: usize = 160 << 10;

/// Memory for liblzma, which takes a dictionary as large as the data declares.
const MEMORY_BYTES: u64 = 256 << 20;

/// Checksums of one input that are mended.
const SUMS_MAX: usize = 8;

/// Checks one input: the first byte chooses the container.
pub fn run(data: &[u8]) {
    let Some((how, data)) = data.split_first() else { return };
    let lzma = match how % 4 {
        0 => Lzma::Xz,
        1 => Lzma::Alone,
        other => {
            let distance = [0, 1, 2, 256][usize::from(how / 4 % 4)];
            let (lc, lp) = [(3, 0), (0, 4), (2, 2), (4, 0)][usize::from(how / 16 % 4)];
            let properties = LzmaProperties::new(lc, lp, how / 64).filter(|_| other == 3);
            Lzma::Raw(LzmaChain { deltas: [distance, 0, 0], dictionary_bytes: 4096, properties })
        }
    };
    let mut data = data.to_vec();
    for _ in 0..SUMS_MAX {
        check(lzma, &data);
        let Err((_, why)) = decoded(lzma, &data, TARGET_BYTES) else { return };
        let Some(sealed) = sealed(&data, &why) else { return };
        data = sealed;
    }
}

fn check(lzma: Lzma, data: &[u8]) {
    let outcome = decoded(lzma, data, TARGET_BYTES);
    assert_eq!(outcome, decoded(lzma, data, TARGET_BYTES));
    let expected = by_crate(lzma, data);
    match outcome {
        Ok(bytes) => {
            assert!(expected.is_none_or(|expected| expected.as_ref() == Some(&bytes)));
            assert_eq!(decoded(lzma, data, bytes.len()).as_ref(), Ok(&bytes));
            if !bytes.is_empty() {
                assert_eq!(decoded(lzma, data, bytes.len() - 1).unwrap_err().0, Status::Decode);
            }
        }
        Err((status, why)) => {
            assert_eq!(status, Status::Decode);
            let is_read = !why.contains("is not read");
            assert!(!is_read || expected.is_none_or(|expected| expected.is_none()), "{why}");
        }
    }
}

/// The data with the checksum that `why` says was computed in the first place that has the stored
/// one; None if it is about something else.
fn sealed(data: &[u8], why: &str) -> Option<Vec<u8>> {
    let (stored, computed) = why.split_once("stored 0x")?.1.split_once(", computed 0x")?;
    let bytes = |text: &str| {
        let sum = u64::from_str_radix(text, 16).ok()?;
        Some(sum.to_le_bytes()[..text.len() / 2].to_vec())
    };
    let (stored, computed) = (bytes(stored)?, bytes(computed)?);
    let at = data.windows(stored.len()).position(|window| window == stored)?;
    let mut data = data.to_vec();
    data[at..at + stored.len()].copy_from_slice(&computed);
    Some(data)
}

/// The bytes of all streams, None inside if liblzma refuses them; None if they take more memory
/// than it is given.
fn by_crate(lzma: Lzma, data: &[u8]) -> Option<Option<Vec<u8>>> {
    let (mut rest, mut bytes) = (data, Vec::with_capacity(TARGET_BYTES + 1));
    loop {
        let flags = CONCATENATED | TELL_UNSUPPORTED_CHECK;
        let mut stream = match lzma {
            Lzma::Xz => Stream::new_stream_decoder(MEMORY_BYTES, flags),
            Lzma::Alone => Stream::new_lzma_decoder(MEMORY_BYTES),
            Lzma::Raw(chain) => Stream::new_raw_decoder(&filters(chain)),
        }
        .unwrap();
        match stream.process_vec(rest, &mut bytes, Action::Finish) {
            Ok(Ending::StreamEnd) if bytes.len() <= TARGET_BYTES => {}
            Err(Error::MemLimit) => return None,
            _ => return Some(None),
        }
        rest = &rest[stream.total_in() as usize..];
        if rest.is_empty() {
            return Some(Some(bytes));
        }
    }
}

fn filters(chain: LzmaChain) -> Filters {
    let mut filters = Filters::new();
    for distance in chain.deltas.iter().filter(|distance| **distance > 0) {
        filters.delta_properties(&[(distance - 1) as u8]).unwrap();
    }
    let mut options = LzmaOptions::new_preset(6).unwrap();
    options.dict_size(chain.dictionary_bytes);
    match chain.properties {
        None => filters.lzma2(&options),
        Some(LzmaProperties { lc, lp, pb }) => {
            options.literal_context_bits(lc.into()).literal_position_bits(lp.into());
            filters.lzma1(options.position_bits(pb.into()))
        }
    };
    filters
}

fn decoded(lzma: Lzma, source: &[u8], bytes: usize) -> Result<Vec<u8>, (Status, String)> {
    with_bench(|bench| {
        let target = bench.target.poisoned(bytes, true);
        let workspace = bench.scratch.poisoned(WORKSPACE_BYTES, true);
        let mut why = Why::new();
        let source = bench.source.copy_of(source);
        let outcome = decode(lzma, workspace, source, target, &mut why);
        assert_eq!(outcome.is_err(), !why.is_empty());
        outcome
            .map(|count| target[..count].to_vec())
            .map_err(|status| (status, why.as_str().to_string()))
    })
}
