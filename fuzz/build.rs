//! Compiles the LZ4 kernel for the target lz4_kernel, with what libFuzzer counts edges by: a warp is
//! one lane of it, and no simulator is needed. Where there is no clang++, that target has nothing to
//! do, and says so here.

use std::path::PathBuf;
use std::process::Command;

fn main() {
    println!("cargo::rustc-check-cfg=cfg(wavetrain_kernel)");
    for source in ["../kernels", "../tests/cuda_sim"] {
        println!("cargo::rerun-if-changed={source}");
    }
    let object = PathBuf::from(std::env::var_os("OUT_DIR").unwrap()).join("lz4_kernel.o");
    let flags = std::env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    let sanitizers = match flags.contains("sanitizer=address") {
        true => "-fsanitize=fuzzer-no-link,address",
        false => "-fsanitize=fuzzer-no-link",
    };
    let mut compiler = Command::new("clang++");
    compiler
        .args(["-std=c++17", "-O1", "-g", "-fPIC", "-fno-exceptions", "-fno-rtti"])
        .args(["-fno-strict-aliasing", "-Wall", "-Wextra", "-Werror", "-Wno-unknown-pragmas"])
        // A loop that cannot be unrolled is none of the host's business.
        .args(["-Wno-pass-failed", sanitizers, "-DWAVETRAIN_LANES=1"])
        .args(["-c", "../tests/cuda_sim/lz4_sim.cpp", "-o"])
        .arg(&object);
    if compiler.status().is_ok_and(|status| status.success()) {
        println!("cargo::rustc-cfg=wavetrain_kernel");
        println!("cargo::rustc-link-arg-bin=lz4_kernel={}", object.display());
    } else {
        println!("cargo::warning=skipped: lz4_kernel: clang++ made no kernel");
    }
}
