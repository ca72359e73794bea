//! What wavetrain does on a GPU: `tools/gpu.sh` packs it and runs it where there is one.
//!
//! `cargo bench --bench gpu -- PART [--driver PATH] [--dir DIR] [--small]` prints a row for each
//! figure of a part: its name, the figure, its unit, and what it is a share of.
//!
//! | part | |
//! |---|---|
//! | `device` | name, driver, memory, what context and module take |
//! | `units` | random work of the assemble kernel against the host's bytes |
//! | `rates` | copies and the kernels, GB/s and as a share of the driver's own copy |
//! | `overlap` | copies to the device beside the kernel, by the device's clock |
//! | `data` | writes the stores of `stream` to DIR |
//! | `stream` | the scenarios of the reference loader end to end, on the device and on the host |
//!
//! With `--small` everything shrinks so far that the simulated driver gets through it; its rates
//! mean nothing. Exit status 77, with a reason: there is no driver or no device.

#[path = "../../tests/cuda/cases.rs"]
#[allow(dead_code)]
mod cases;
#[path = "../../tests/common/cc.rs"]
mod cc;
#[path = "../common/mod.rs"]
mod common;
mod gpu;
mod rates;
#[path = "../../tests/cuda/sim.rs"]
#[allow(dead_code)]
mod sim;
mod stream;

use common::{flag_value, has_flag};
use gpu::Gpu;
use std::path::PathBuf;

/// One line of the table.
fn row(name: &str, figure: f64, unit: &str, note: &str) {
    println!("{:<46} {:>12.2} {:<12} {}", name, figure, unit, note);
}

/// The same of words.
fn fact(name: &str, text: &str) {
    println!("{name:<46} {text}");
}

fn main() {
    let part = std::env::args().nth(1).unwrap_or_default();
    let driver = flag_value("--driver").unwrap_or_else(|| "libcuda.so.1".to_owned());
    let folder = PathBuf::from(flag_value("--dir").unwrap_or_else(|| "gpu-data".to_owned()));
    let is_small = has_flag("--small");
    if part == "data" {
        return stream::write(&folder, is_small);
    }
    let gpu = match Gpu::open(&driver) {
        Ok(gpu) => gpu,
        Err(why) => {
            println!("skipped: {why}");
            std::process::exit(77);
        }
    };
    match part.as_str() {
        "device" => gpu.describe(),
        "units" => rates::units(&gpu, if is_small { 40 } else { 3000 }),
        "rates" => rates::all(&gpu, is_small),
        "overlap" => rates::overlap(&gpu, is_small),
        "stream" => stream::all(&driver, &folder, is_small),
        _ => {
            eprintln!("usage: gpu device|units|rates|overlap|data|stream [--driver PATH] ..");
            std::process::exit(2);
        }
    }
}
