//! Any bytes as a zstd frame for the device: its kernels, with warps of one lane, take nothing that
//! libzstd does not take, and make the same bytes.

use super::guard::{POISON, with_bench};
use super::lane_kernel;
use wavetrain::decode::zstd_blocks::{BlockPlace, blocks, measure};
use wavetrain::device::{Stream, StreamKind, StreamStatus};
use wavetrain::status::Why;

/// The largest scratch that is tried.
const SCRATCH_MAX: usize = 1 << 20;

/// Checks one input: three bytes of the target's length, and a frame.
pub fn run(data: &[u8]) {
    let Some(launch) = lane_kernel::launch_frames() else { return };
    let Some((bytes, frame)) = data.split_first_chunk::<3>() else { return };
    let bytes = u32::from_le_bytes([bytes[0], bytes[1], bytes[2] & 3, 0]) as usize;
    let mut expected = vec![POISON; bytes];
    let mut why = Why::new();
    let filled = with_bench(|bench| bench.context.decompress(frame, &mut expected, &mut why).ok());
    let sizes = [Some(bytes), filled.filter(|count| *count != bytes)];
    for bytes in sizes.into_iter().flatten() {
        for at_end in [true, false] {
            if let Some(found) = decoded(launch, frame, bytes, at_end) {
                assert_eq!(filled, Some(bytes), "libzstd does not take it");
                assert!(found == expected[..bytes]);
            }
        }
    }
}

/// What a frame becomes, whose extents end, or begin, where nobody may go on. None of one that is
/// none for a device.
fn decoded(
    launch: lane_kernel::FrameLaunch,
    frame: &[u8],
    bytes: usize,
    at_end: bool,
) -> Option<Vec<u8>> {
    with_bench(|bench| {
        let wave = bench.source.poisoned(frame.len(), at_end);
        wave.copy_from_slice(frame);
        let (mut records, mut scratch) = (Vec::new(), 0);
        let push = |place: BlockPlace| {
            let back = place.back.iter().rev().fold(0, |back, next| back << 16 | u64::from(*next));
            records.push(Stream {
                source: place.source.start as u64,
                target: back,
                source_bytes: place.source.len() as u32,
                target_bytes: place.bytes as u32,
                kind: place.kind as u32,
                scratch,
            });
            scratch = scratch.saturating_add(place.scratch_units() as u32);
        };
        blocks(frame, bytes as u64, push).ok()?;
        let arena_bytes = scratch as usize * 16;
        if arena_bytes > SCRATCH_MAX {
            return None;
        }
        let arena = bench.scratch.poisoned(arena_bytes, at_end);
        let target = bench.target.poisoned(bytes, at_end);
        let (source_bytes, target_bytes) = (records.len() as u32, bytes as u32);
        let kind = StreamKind::Zstd as u32;
        let scratch = measure(frame, bytes as u64).unwrap().block_bytes;
        let stream = Stream { kind, source_bytes, target_bytes, scratch, ..Stream::default() };
        // The records are no part of the wave, so that its bytes alone lie between the pages.
        let behind = |place: *const Stream| (place as u64).wrapping_sub(wave.as_ptr() as u64);
        let mut status = 0;
        // SAFETY: the wave, the records, the scratch, the target and the word are live, and as long
        // as is said.
        unsafe {
            launch(
                wave.as_ptr(),
                wave.len() as u64,
                behind(records.as_ptr()),
                records.len() as u32,
                arena.as_mut_ptr(),
                arena.len() as u64,
                behind(&raw const stream),
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
