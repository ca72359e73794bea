//! Any bytes as an LZ4 block: a decoder that goes byte by byte has the same outcome, and what the C
//! library takes is taken, with the same bytes.

use super::guard::with_bench;
use wavetrain::decode::lz4::{block, decode};
use wavetrain::status::{Status, Why};

/// Checks one input: two bytes of the target's length, and a block.
pub fn run(data: &[u8]) {
    let Some((bytes, source)) = data.split_first_chunk::<2>() else { return };
    let bytes = usize::from(u16::from_le_bytes(*bytes));
    let outcome = decoded(source, bytes, true);
    assert_eq!(outcome, decoded(source, bytes, false));
    let expected = byte_by_byte(source, bytes);
    assert_eq!(outcome.as_ref().ok(), expected.as_ref().ok());
    if expected != Err(Broken::OffsetZero)
        && let Some(by_c) = by_c(source, bytes)
    {
        assert_eq!(expected, Ok(by_c));
    }
    // With its size before it, it is a chunk of numcodecs.
    let sized = |size: usize| [&(size as u32).to_le_bytes(), source].concat();
    assert_eq!(numcodecs(&sized(bytes), bytes), outcome);
    assert_eq!(numcodecs(&sized(bytes + 1), bytes), Err(Status::Decode));
}

fn decoded(source: &[u8], bytes: usize, at_end: bool) -> Result<Vec<u8>, Status> {
    with_bench(|bench| {
        let target = bench.target.poisoned(bytes, at_end);
        let mut why = Why::new();
        let outcome = block(bench.source.copy_of(source), target, &mut why);
        assert_eq!(outcome.is_err(), !why.is_empty());
        outcome.map(|count| target[..count].to_vec())
    })
}

fn numcodecs(source: &[u8], bytes: usize) -> Result<Vec<u8>, Status> {
    with_bench(|bench| {
        let target = bench.target.poisoned(bytes, true);
        let outcome = decode(bench.source.copy_of(source), target, &mut Why::new());
        outcome.map(|count| target[..count].to_vec())
    })
}

#[derive(PartialEq, Debug)]
enum Broken {
    OffsetZero,
    Other,
}

/// lz4_Block_format.md, word by word.
fn byte_by_byte(source: &[u8], bytes: usize) -> Result<Vec<u8>, Broken> {
    let mut rest = source.iter().map(|byte| usize::from(*byte));
    let mut target: Vec<u8> = Vec::new();
    let mut is_zero = false;
    loop {
        let token = rest.next().ok_or(Broken::Other)?;
        let length = |code: usize, rest: &mut dyn Iterator<Item = usize>| {
            let mut length = code;
            let mut more = code == 15;
            while more {
                let byte = rest.next().ok_or(Broken::Other)?;
                length += byte;
                more = byte == 255;
            }
            Ok(length)
        };
        for _ in 0..length(token >> 4, &mut rest)? {
            target.push(rest.next().ok_or(Broken::Other)? as u8);
        }
        if target.len() > bytes {
            return Err(Broken::Other);
        }
        if rest.len() == 0 {
            // What follows an offset of 0 does not matter: the block is broken.
            return if is_zero { Err(Broken::OffsetZero) } else { Ok(target) };
        }
        let low = rest.next().ok_or(Broken::Other)?;
        let offset = low | rest.next().ok_or(Broken::Other)? << 8;
        let count = 4 + length(token & 15, &mut rest)?;
        if offset > target.len() || target.len() + count > bytes {
            return Err(Broken::Other);
        }
        is_zero |= offset == 0;
        for _ in 0..count {
            let byte = if offset == 0 { 0 } else { target[target.len() - offset] };
            target.push(byte);
        }
    }
}

fn by_c(source: &[u8], bytes: usize) -> Option<Vec<u8>> {
    let mut target = vec![0; bytes];
    // SAFETY: both buffers are live and as long as the call is told.
    let count = unsafe {
        lz4_sys::LZ4_decompress_safe(
            source.as_ptr().cast(),
            target.as_mut_ptr().cast(),
            source.len() as i32,
            bytes as i32,
        )
    };
    target.truncate(usize::try_from(count).ok()?);
    Some(target)
}
