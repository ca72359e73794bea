//! Compiles the kernels of the targets lz4_kernel and zstd_kernel, with what libFuzzer counts edges
//! by: a warp is one lane of it, and no simulator is needed. Where there is no clang++, those targets
//! have nothing to do, and the build prints that.

use std::path::PathBuf;
use std::process::Command;

fn main() {
    println!("cargo::rustc-check-cfg=cfg(wavetrain_kernel)");
    for source in ["../kernels", "../tests/cuda_sim"] {
        println!("cargo::rerun-if-changed={source}");
    }
    let objects = ["lz4", "zstd"].map(compiled);
    if objects.iter().any(Option::is_none) {
        println!("cargo::warning=skipped: lz4_kernel, zstd_kernel: clang++ made no kernel");
        return;
    }
    println!("cargo::rustc-cfg=wavetrain_kernel");
    for object in objects.iter().flatten() {
        println!("cargo::rustc-link-arg-bin=body={}", object.display());
    }
}

fn compiled(codec: &str) -> Option<PathBuf> {
    let out = PathBuf::from(std::env::var_os("OUT_DIR").unwrap());
    let object = out.join(format!("{codec}_kernel.o"));
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
        .args(["-c", &format!("../tests/cuda_sim/{codec}_sim.cpp"), "-o"])
        .arg(&object);
    compiler.status().is_ok_and(|status| status.success()).then_some(object)
}
