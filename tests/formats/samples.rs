//! Samples of several boxes and fields are what numpy makes of them: tests/data/make_samples.py.

use crate::common::drive::in_hook_mode;
use crate::common::samples::cases;
use wavetrain::config::*;

#[test]
fn fields_boxes_steps_and_axes_are_what_numpy_makes_of_them() {
    let mut bytes = 0;
    for case in cases() {
        let config = case.config();
        let threads = [1, 2, 8][case.number % 3];
        bytes += case.stream(&Config { n_decode_threads: threads, ..config });
        case.stream(&Config { thread_mode: THREADS_PUMP, ..config });
        case.stream(&Config { chunk_cache_bytes: 1 << 20, ..in_hook_mode(&config) });
    }
    assert!(bytes > 1 << 20, "{bytes}");
}
