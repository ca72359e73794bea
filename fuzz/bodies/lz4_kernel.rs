//! Any bytes as an LZ4 block for the device: its kernel, with warps of one lane, takes it exactly
//! where the host's decoder takes it and fills the target, and makes the same bytes.

use super::guard::{POISON, with_bench};
use super::lane_kernel;
use wavetrain::device::{Stream, StreamKind, StreamStatus};
use wavetrain::loops::lz4::block;

/// Checks one input: two bytes of the target's length, and a block.
pub fn run(data: &[u8]) {
    let Some(launch) = lane_kernel::launch() else { return };
    let Some((bytes, source)) = data.split_first_chunk::<2>() else { return };
    let bytes = usize::from(u16::from_le_bytes(*bytes));
    let mut expected = vec![POISON; bytes];
    let filled = block(source, &mut expected);
    for at_end in [true, false] {
        let taken = decoded(launch, StreamKind::Lz4, source, bytes, at_end);
        assert_eq!(taken.as_ref(), (filled == Ok(bytes)).then_some(&expected));
        // What fills a part of the target fills one of that size.
        if let Ok(count) = filled {
            let taken = decoded(launch, StreamKind::Lz4, source, count, at_end);
            assert_eq!(taken.as_deref(), Some(&expected[..count]));
        }
        let copied = decoded(launch, StreamKind::Copy, source, source.len(), at_end);
        assert_eq!(copied.as_deref(), Some(source));
    }
}

/// What a stream becomes, whose extents end, or begin, where nobody may go on.
fn decoded(
    launch: lane_kernel::Launch,
    kind: StreamKind,
    source: &[u8],
    bytes: usize,
    at_end: bool,
) -> Option<Vec<u8>> {
    with_bench(|bench| {
        let wave = bench.source.poisoned(source.len(), at_end);
        wave.copy_from_slice(source);
        let target = bench.target.poisoned(bytes, at_end);
        let (source_bytes, target_bytes) = (source.len() as u32, bytes as u32);
        let stream = Stream { kind: kind as u32, source_bytes, target_bytes, ..Stream::default() };
        // The record is no part of the wave, so that its bytes alone lie between the pages.
        let streams_at = (&raw const stream as u64).wrapping_sub(wave.as_ptr() as u64);
        let mut status = 0;
        // SAFETY: the wave, the record, the target and the word are live, and as long as is said.
        unsafe {
            launch(
                wave.as_ptr(),
                wave.len() as u64,
                streams_at,
                1,
                target.as_mut_ptr(),
                target.len() as u64,
                &mut status,
                0,
            );
        }
        assert_ne!(status, 0);
        (status == StreamStatus::Decoded as u32).then(|| target.to_vec())
    })
}
