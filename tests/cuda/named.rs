//! The tests that a GPU can run, on the simulated driver as any other: by its name alone.

use crate::common::cc;
use crate::common::cuda_sim::library;
use crate::common::drive::named_driver;
use std::process::Command;

/// How many tests of a module passed, and how many of them skipped themselves.
fn run(module: &str, queues: &str) -> Option<(usize, usize)> {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([module, "--show-output"]).env("WAVETRAIN_TEST_DRIVER", library()?);
    let text = cc::run(command.env("CUDA_DEVICE_MAX_CONNECTIONS", queues));
    let passed = text.lines().filter(|line| line.ends_with(" ... ok")).count();
    Some((passed, text.lines().filter(|line| line.starts_with("skipped: it ")).count()))
}

#[test]
fn consumers_and_captures_need_no_simulator_but_for_a_few_and_a_queue_for_streams_that_are_held() {
    if named_driver().is_some() {
        return;
    }
    for module in ["consumer::", "streams::"] {
        let Some((passed, skipped)) = run(module, "32") else { return };
        assert!(skipped > 0 && skipped * 3 < passed, "{module}: {skipped} of {passed}");
        let (shared, more) = run(module, "1").unwrap();
        assert!(shared == passed && more > skipped && more < passed, "{module}: {more}");
    }
}
