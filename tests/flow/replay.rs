//! Runs that are killed and go on elsewhere: the same samples in the same global order.

use crate::common::drive::in_hook_mode;
use crate::common::replay::{Source, Way, replay};
use wavetrain::config::*;
use wavetrain::sampler::Deal;

#[test]
fn a_run_that_is_killed_200_times_goes_on_in_one_order_with_the_same_digests() {
    let source = Source::new();
    let config = source.config();
    let configs = [
        Config { n_decode_threads: 1, ..config },
        Config { n_decode_threads: 2, ..config },
        Config { n_decode_threads: 8, ..config },
        Config { thread_mode: THREADS_PUMP, ..config },
        Config { chunk_cache_bytes: 1 << 20, ..config },
        in_hook_mode(&config),
    ];
    for way in [Way::Shuffled(Deal::BySample), Way::Shuffled(Deal::ByBatch), Way::ChunkShuffle] {
        replay(&source, way, &configs, 200);
    }
}
