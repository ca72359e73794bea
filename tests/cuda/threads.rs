//! Threads of ours where batches are made on a device: who goes first.
//!
//! Calls are seen through the table of system calls.

use crate::common::cuda_sim::Simulator;
use crate::common::gpu::device_config;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use wavetrain::config::{BACKEND_HOST, Config, THREADS_PUMP};
use wavetrain::cuda::DriverPath;
use wavetrain::loader::Loader;
use wavetrain::os::{Errno, Os, SYSTEM};

static BATCH_THREADS: AtomicUsize = AtomicUsize::new(0);

/// Of a system that says no to what may be done without.
static STERN: Os = Os {
    be_batch: || {
        BATCH_THREADS.fetch_add(1, SeqCst);
        Err(Errno(libc::EPERM))
    },
    ..SYSTEM
};

fn on_host(config: &Config) -> Config {
    Config { backend: BACKEND_HOST, device: -1, cuda_driver: DriverPath::NULL, ..*config }
}

#[test]
fn threads_that_decode_for_a_device_let_others_go_first_and_those_for_the_host_do_not() {
    let Some(simulator) = Simulator::take() else { return };
    let device = Config { n_decode_threads: 3, ..device_config(&simulator, 2) };
    let pump = Config { thread_mode: THREADS_PUMP, ..device };
    for (config, threads) in [(device, 3), (on_host(&device), 0), (pump, 0)] {
        BATCH_THREADS.store(0, SeqCst);
        Loader::open_on(&STERN, &config).unwrap().close(0).unwrap();
        assert_eq!(BATCH_THREADS.load(SeqCst), threads);
    }
}
