//! tools/cuda_sim.sh, by which anybody streams on a device: the driver that it builds, and what it
//! says where it cannot.

use crate::common::{cc, store};
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn script(arguments: &[&Path], compiler: &str) -> Output {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tools/cuda_sim.sh");
    Command::new(script).args(arguments).env("CXX", compiler).output().unwrap()
}

/// What a crop of the array wrote with these flags.
fn crop(array: &Path, out: &Path, flags: &[&str]) -> Vec<u8> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wavetrain"));
    command.arg("crop").arg(array).args(["3:40,5:27,11:48", "-o"]).arg(out).args(flags);
    cc::run(&mut command);
    fs::read(out).unwrap()
}

#[test]
fn a_crop_on_the_driver_that_the_script_builds_is_the_host_s() {
    let Some(compiler) = cc::find("g++", &["g++"]) else { return };
    let folder = cc::folder("tool-simulated");
    let array = folder.join("array");
    let spec = store::Spec { seed: 3, edge: 48, shard: 24, chunk: 12, zstd: true, sparse: true };
    store::write(&array, &spec);
    // A folder that is not there yet.
    let out = folder.join("driver/here");
    let built = script(&[&out], &compiler);
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let names = fs::read_dir(&out).unwrap().map(|entry| entry.unwrap().file_name());
    assert_eq!(names.collect::<Vec<_>>(), ["libcuda.so.1"], "and nothing else");
    let driver = out.join("libcuda.so.1");
    let device = ["--backend", "cuda", "--device", "0", "--cuda-driver", driver.to_str().unwrap()];
    let host = crop(&array, &folder.join("host.npy"), &["--backend", "host"]);
    assert!(host == crop(&array, &folder.join("device.npy"), &device));
    assert!(host.len() > 37 * 22 * 37 * 2);
}

#[test]
fn without_a_folder_or_a_compiler_the_script_says_what_is_missing() {
    let folder = cc::folder("tool-simulated-errors");
    let says = |arguments: &[&Path], compiler: &str, code: i32, words: &str| {
        let output = script(arguments, compiler);
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{text}");
        assert!(text.contains(words), "{text}");
    };
    says(&[], "g++", 2, "cuda_sim.sh OUT_DIR: builds");
    says(&[&folder, Path::new("driver.cpp")], "g++", 2, "cuda_sim.sh OUT_DIR: builds");
    says(&[&folder], "no-such-compiler", 77, "there is no no-such-compiler here");
    // A compiler that fails leaves nothing behind.
    assert!(!script(&[&folder], "false").status.success());
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
}
