//! Passes: the frames of a wave, cut so that the scratch of each part fits one arena.
//!
//! In: frames in the order of their streams, with what their blocks need. Out: passes, and the
//! offset of each frame's scratch in the arena. Invariant: frames of a pass lie apart in the arena;
//! a frame that fits none is in no pass.
//!
//! All passes of all waves share the arena: they run one after the other, on one stream.

use super::streams::Stream;
use crate::cuda::{PASSES_MAX, Pass};

/// See the module.
#[derive(Default)]
pub struct Passes {
    /// Those so far, up to the first without a stream.
    pub all: [Pass; PASSES_MAX],
    at: usize,
    /// Units of the arena that the last one has taken.
    used: u64,
    /// Blocks of all.
    blocks: u32,
}

impl Passes {
    /// Takes a frame, which is stream `number` of the wave, into an arena of `units` units: its
    /// `source` says how many it needs. The place of its first block's record after all streams,
    /// and of its scratch.
    pub fn take(&mut self, number: u32, frame: &mut Stream, units: u64) -> Option<(u32, u32)> {
        let need = frame.source;
        if need > units || units == 0 {
            return None;
        }
        if self.used + need > units {
            (self.at, self.used) = (self.at + 1, 0);
        }
        let pass = self.all.get_mut(self.at)?;
        if pass.streams == 0 {
            *pass = Pass { stream: number, block: self.blocks, ..Pass::default() };
        }
        frame.source = u64::from(pass.blocks);
        pass.streams = number + 1 - pass.stream;
        pass.blocks += frame.source_bytes;
        let place = (self.blocks, self.used as u32);
        self.used += need;
        self.blocks += frame.source_bytes;
        Some(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(source: u64, blocks: u32) -> Stream {
        Stream { source, source_bytes: blocks, ..Stream::default() }
    }

    #[test]
    fn frames_lie_side_by_side_until_the_arena_is_full() {
        let mut passes = Passes::default();
        let sizes = [(0, 30, 2), (1, 0, 1), (3, 70, 3), (4, 1, 1), (5, 99, 4), (7, 100, 1)];
        let places = sizes.map(|(number, scratch, blocks)| {
            let mut frame = frame(scratch, blocks);
            (passes.take(number, &mut frame, 100), frame.source)
        });
        let expected = [
            (Some((0, 0)), 0),
            (Some((2, 30)), 2),
            (Some((3, 30)), 3),
            (Some((6, 0)), 0),
            (Some((7, 1)), 1),
            (Some((11, 0)), 0),
        ];
        assert_eq!(places, expected);
        let pass = |stream, streams, block, blocks| Pass { stream, streams, block, blocks };
        assert_eq!(passes.all[..3], [pass(0, 4, 0, 6), pass(4, 2, 6, 5), pass(7, 1, 11, 1)]);
        assert_eq!(passes.all[3], Pass::default());
    }

    #[test]
    fn a_frame_that_no_pass_fits_is_in_none() {
        let mut passes = Passes::default();
        assert_eq!(passes.take(0, &mut frame(101, 1), 100), None);
        for number in 0..PASSES_MAX as u32 {
            assert_eq!(passes.take(number, &mut frame(100, 1), 100), Some((number, 0)));
        }
        assert_eq!(passes.take(99, &mut frame(100, 1), 100), None);
        assert_eq!(passes.take(100, &mut frame(0, 1), 100), None);
        assert_eq!(passes.all[PASSES_MAX - 1].blocks, 1);
    }
}
