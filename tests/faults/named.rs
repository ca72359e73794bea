//! What tools/gpu_run.sh runs of these tests on a GPU, on the simulated driver as on any other: by
//! its name alone.

use crate::common::cc;
use crate::common::cuda_sim::library;
use crate::common::drive::named_driver;
use std::process::Command;

#[test]
fn streams_and_faults_need_nothing_but_the_name_of_a_driver() {
    if named_driver().is_some() {
        return;
    }
    let Some(driver) = library() else { return };
    for module in ["stress::", "sweep::absent"] {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .arg(module)
            .env("WAVETRAIN_TEST_DRIVER", &driver)
            .env("WAVETRAIN_STRESS_CASES", "5");
        let text = cc::run(&mut command);
        assert!(text.contains(" 0 failed") && !text.contains("ok. 0 passed"), "{module}: {text}");
    }
}
