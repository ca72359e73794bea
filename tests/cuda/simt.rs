//! tests/cuda_sim/simt.hpp, on which kernels run where there is no GPU: what it gives, and that it
//! reports what a kernel does wrong.
//!
//! The facts are functions of tests/cuda_sim/simt_test.cpp, each run by itself, because those that
//! must be reported end their process.

use crate::common::cc;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::OnceLock;

/// The program of facts, compiled with `flags`; None, with a reason, where there is no compiler.
fn program(name: &str, flags: &[&str]) -> Option<PathBuf> {
    cc::kernels(name, &[&["simt_test.cpp", name, "-O1"], flags].concat())
}

fn plain() -> Option<&'static PathBuf> {
    static PLAIN: OnceLock<Option<PathBuf>> = OnceLock::new();
    PLAIN.get_or_init(|| program("simt_plain", &[])).as_ref()
}

fn output(program: &PathBuf, fact: &str) -> Output {
    Command::new(program).arg(fact).output().unwrap()
}

fn holds(program: &PathBuf, fact: &str) {
    let output = output(program, fact);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The report of a kernel that must not come through.
fn report(program: &PathBuf, fact: &str) -> String {
    let output = output(program, fact);
    assert!(!output.status.success(), "{fact}: nothing was reported");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

macro_rules! facts {
    ($($fact:ident)*) => {$(
        #[test]
        fn $fact() {
            if let Some(program) = plain() {
                holds(program, stringify!($fact));
            }
        }
    )*};
}

facts! {
    sums_in_every_order
    launches_of_several_host_threads
    collectives_are_those_of_the_manual
    integers_are_those_of_the_manual
    dynamic_shared_memory_is_painted
}

macro_rules! reports {
    ($($fact:ident: $text:expr;)*) => {$(
        #[test]
        fn $fact() {
            let Some(program) = plain() else { return };
            let report = report(program, stringify!($fact));
            assert!(report.contains($text), "{report}");
        }
    )*};
}

reports! {
    fails_where_a_thread_leaves_before_the_barrier: "1 of 64 threads have left the kernel";
    fails_where_threads_meet_at_different_barriers: "threads meet at different barriers";
    fails_where_lanes_meet_in_different_operations: "lanes of a warp meet in different operations";
    fails_where_a_shuffle_reads_outside_its_mask: "a shuffle reads a lane outside its mask";
    fails_where_a_mask_names_lanes_that_are_not_there: "deadlock";
    fails_where_a_block_is_too_large: "a launch beyond the limits of a device";
}

#[test]
fn a_missing_barrier_gives_a_wrong_sum_in_some_order() {
    let Some(program) = program("simt_mutated", &["-DSIMT_MUTATE_BARRIER"]) else { return };
    assert!(report(&program, "sums_in_every_order").contains("the sum is wrong"));
}

#[test]
fn address_sanitizer_names_the_line_of_the_kernel_that_reads_behind_its_input() {
    let Some(program) = program("simt_asan", &["-fsanitize=address,undefined"]) else { return };
    holds(&program, "sums_in_every_order");
    holds(&program, "collectives_are_those_of_the_manual");
    let report = report(&program, "fails_where_a_kernel_reads_behind_its_input");
    let source = include_str!("../cuda_sim/simt_test.cpp");
    let line = source.lines().position(|line| line.contains("the line that a report names"));
    let place = format!("simt_test.cpp:{}", line.unwrap() + 1);
    assert!(report.contains("heap-buffer-overflow") && report.contains(&place), "{report}");
}

#[test]
fn thread_sanitizer_finds_nothing_in_launches_of_several_host_threads() {
    let Some(program) = program("simt_tsan", &["-fsanitize=thread"]) else { return };
    holds(&program, "launches_of_several_host_threads");
}
