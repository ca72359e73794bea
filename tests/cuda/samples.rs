//! Samples of several boxes and fields on the simulated device: as on the host, what numpy makes of
//! them.

use crate::common::cuda_sim::Simulator;
use crate::common::drive::in_hook_mode;
use crate::common::samples::cases;
use wavetrain::config::*;

#[test]
fn fields_and_boxes_on_a_device_are_what_numpy_makes_of_them() {
    let Some(simulator) = Simulator::take() else { return };
    let mut bytes = 0;
    for case in cases() {
        let host = case.config();
        let config = Config {
            backend: BACKEND_CUDA,
            cuda_driver: simulator.driver_path(),
            max_host_memory_bytes: host.max_host_memory_bytes + (8 << 20),
            ..host
        };
        bytes += match case.number % 4 {
            0 => case.stream(&Config { thread_mode: THREADS_PUMP, ..config }),
            1 => case.stream(&in_hook_mode(&config)),
            2 => case.stream(&Config { chunk_cache_bytes: 1 << 20, ..config }),
            _ => case.stream(&Config { n_decode_threads: 8, ..config }),
        };
    }
    assert!(bytes > 1 << 20, "{bytes}");
}
