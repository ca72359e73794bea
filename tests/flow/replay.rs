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
    let by_sample = replay(&source, Way::Shuffled(Deal::BySample), &configs, 200);
    // Who is dealt what is not what stands where.
    assert_eq!(replay(&source, Way::Shuffled(Deal::ByBatch), &configs, 200), by_sample);
    assert_ne!(replay(&source, Way::Free, &configs, 200), by_sample);
}
