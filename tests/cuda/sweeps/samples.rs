//! Samples of several boxes and fields on the simulated device: as on the host, what numpy makes of
//! them; also where their memory is the device's.

use crate::common::cuda_sim::{Mode, Simulator};
use crate::common::drive::in_hook_mode;
use crate::common::effort;
use crate::common::lender::Lender;
use crate::common::platform::Platform;
use crate::common::replay::{Source, Way, replay};
use crate::common::samples::{Case, cases};
use wavetrain::config::*;
use wavetrain::sampler::Deal;

/// As many cases in a row have each way to work in each mode of the simulator.
const KINDS: usize = 12;

/// The config of a case with batches on the device, in one of the ways to work.
fn config(case: &Case, simulator: &Simulator) -> Config {
    let host = case.config();
    let config = Config {
        backend: BACKEND_CUDA,
        device: 0,
        cuda_driver: simulator.driver_path(),
        max_host_memory_bytes: host.max_host_memory_bytes + (16 << 20),
        ..host
    };
    match case.number % 4 {
        0 => Config { thread_mode: THREADS_PUMP, ..config },
        1 => in_hook_mode(&config),
        2 => Config { chunk_cache_bytes: 1 << 20, ..config },
        _ => Config { n_decode_threads: 8, ..config },
    }
}

#[test]
fn fields_and_boxes_on_a_device_are_what_numpy_makes_of_them_and_so_are_their_digests() {
    let Some(simulator) = Simulator::take() else { return };
    let (mut bytes, mut digested) = (0, 0);
    for case in effort::part(&cases(), KINDS) {
        let number = case.number;
        simulator.set_mode([Mode::Eager, Mode::Jitter, Mode::Lazy][number % 3], number as u64);
        // Every fifth case without: each way to work and each mode has both.
        let digest = u32::from(number % 5 > 0);
        bytes += case.stream(&Config { digest, ..config(case, &simulator) });
        digested += digest;
    }
    assert!(bytes > 1 << 19 && digested > 30, "{bytes} bytes, {digested} with digests");
}

#[test]
fn axes_as_lists_of_their_elements_give_the_same_bytes_on_a_device() {
    let Some(simulator) = Simulator::take() else { return };
    let mut lists = 0;
    for case in effort::part(&cases(), KINDS).filter(|case| case.number % 3 == 0) {
        let number = case.number;
        simulator.set_mode([Mode::Eager, Mode::Jitter, Mode::Lazy][number % 4 % 3], number as u64);
        lists += case.stream_listed(&Config { digest: 1, ..config(case, &simulator) });
    }
    assert!(lists > 100, "{lists}");
}

#[test]
fn arithmetic_on_a_device_gives_the_bytes_of_the_host_and_their_digests() {
    let Some(simulator) = Simulator::take() else { return };
    let lender = Lender::new(simulator.driver_path());
    let (mut boxes, mut lent) = (0, 0);
    for case in effort::part(&cases(), KINDS) {
        let number = case.number;
        simulator.set_mode([Mode::Eager, Mode::Jitter, Mode::Lazy][number % 3], number as u64);
        let host = Config { thread_mode: THREADS_PUMP, ..case.config() };
        let (expected, count) = case.stream_augmented(&host, None);
        let config = Config { digest: u32::from(number % 5 > 0), ..config(case, &simulator) };
        let (found, _) = case.stream_augmented(&config, None);
        assert!(found == expected, "case {number}");
        boxes += count;
        if case.reads_memory() && count > 0 {
            let (found, _) = case.stream_augmented(&config, Some(&lender));
            assert!(found == expected, "case {number}, lent");
            lender.take_back();
            lent += 1;
        }
    }
    assert!(boxes > 150 && lent > 10, "{boxes} boxes, memory of {lent} cases");
}

#[test]
fn memory_of_the_device_gives_what_memory_of_the_host_gives() {
    let Some(simulator) = Simulator::take() else { return };
    let lender = Lender::new(simulator.driver_path());
    let (mut bytes, mut count) = (0, 0);
    for case in effort::part(&cases(), KINDS).filter(|case| case.reads_memory()) {
        simulator.set_mode([Mode::Eager, Mode::Jitter, Mode::Lazy][count % 3], count as u64);
        bytes += case.stream_lent(&config(case, &simulator), &lender);
        lender.take_back();
        count += 1;
    }
    assert!(bytes > 1 << 17 && count > 25, "{bytes} bytes of {count} cases");
}

#[test]
fn a_run_that_is_killed_goes_on_on_devices_with_the_digests_of_the_host() {
    let Some(simulator) = Simulator::take() else { return };
    let source = Source::new();
    let host = source.config();
    let cuda_driver = simulator.driver_path();
    let max_host_memory_bytes = host.max_host_memory_bytes + (16 << 20);
    let device = Config { backend: BACKEND_CUDA, device: 0, cuda_driver, ..host };
    let device = Config { max_host_memory_bytes, ..device };
    let pumped = Config { thread_mode: THREADS_PUMP, ..device };
    // The first is what the others are held against.
    let configs = [host, device, pumped, Config { n_decode_threads: 8, ..device }];
    for way in [Way::Shuffled(Deal::BySample), Way::ChunkShuffle] {
        replay(&source, way, &configs, effort::rounds(200, 60));
    }
}
