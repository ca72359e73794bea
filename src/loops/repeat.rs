//! The copies of dictionary coders: bytes that are there already, once more, and literals.
//!
//! Invariant: nothing is written outside the target. Short copies move a fixed number of bytes,
//! which costs no call; what they write too much is written again by what follows, or the stream is
//! too short for its target, and refused.

/// Bytes that a short copy moves at once.
const STEP_BYTES: usize = 16;

/// Repeats at `done` the `length` bytes that begin `distance` before it, 1 to `done`; they may
/// reach into themselves. The target has room for them.
pub(crate) fn repeat(target: &mut [u8], done: usize, distance: usize, length: usize) {
    assert!(distance > 0 && distance <= done);
    let from = done - distance;
    let room = target.len() - done;
    if distance >= STEP_BYTES && length <= 2 * STEP_BYTES && room >= 2 * STEP_BYTES {
        target.copy_within(from..from + STEP_BYTES, done);
        if length > STEP_BYTES {
            target.copy_within(from + STEP_BYTES..from + 2 * STEP_BYTES, done + STEP_BYTES);
        }
        return;
    }
    if distance == 1 {
        let byte = target[from];
        return target[done..done + length].fill(byte);
    }
    // What is there of the repeated bytes doubles with every turn.
    let (mut there, mut copied) = (distance, 0);
    while copied < length {
        let step = there.min(length - copied);
        target.copy_within(from..from + step, done + copied);
        copied += step;
        there += step;
    }
}

/// Copies the first `count` bytes of `source`, which has as many, to `done`; the target has room.
pub(crate) fn literals(target: &mut [u8], done: usize, source: &[u8], count: usize) {
    let target = &mut target[done..];
    if count <= STEP_BYTES
        && let Some(step) = source.first_chunk::<STEP_BYTES>()
        && let Some(room) = target.first_chunk_mut::<STEP_BYTES>()
    {
        *room = *step;
        return;
    }
    target[..count].copy_from_slice(&source[..count]);
}
