//! kernels/*.ptx.z is what tools/ptx.sh makes of kernels/*.cu, as far as that shows without its
//! compilers: the first line of each text names its sources and their CRC-32.

use flate2::read::ZlibDecoder;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use wavetrain::cuda::kernels::{ASSEMBLE, COPY, DIGEST, Kernel, LZ4};

fn kernels() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels")
}

/// Names of the files with this ending.
fn files(ending: &str) -> Vec<String> {
    let entries = fs::read_dir(kernels()).unwrap().map(|entry| entry.unwrap().file_name());
    let names = entries.map(|name| name.to_str().unwrap().to_owned());
    let mut found: Vec<String> =
        names.filter_map(|name| name.strip_suffix(ending).map(str::to_owned)).collect();
    found.sort();
    found
}

fn text(name: &str) -> String {
    fs::read_to_string(kernels().join(name)).unwrap()
}

/// What kernels/`name`.ptx.z holds, by another inflate than ours.
fn ptx_text(packed: &[u8]) -> String {
    let mut text = String::new();
    ZlibDecoder::new(packed).read_to_string(&mut text).unwrap();
    text
}

fn ptx(name: &str) -> String {
    ptx_text(&fs::read(kernels().join(format!("{name}.ptx.z"))).unwrap())
}

/// The files that `name` includes, theirs too, in the order in which they are met.
fn add_headers(name: &str, found: &mut Vec<String>) {
    for line in text(name).lines() {
        let header = line.strip_prefix("#include \"").and_then(|rest| rest.strip_suffix('"'));
        if let Some(header) = header.filter(|header| !found.iter().any(|name| name == header)) {
            found.push(header.to_owned());
            add_headers(header, found);
        }
    }
}

#[test]
fn each_ptx_is_made_from_the_sources_that_are_committed() {
    assert!(!files(".cu").is_empty());
    for name in files(".cu") {
        let mut sources = vec![format!("{name}.cu")];
        add_headers(&format!("{name}.cu"), &mut sources);
        let named: Vec<String> = sources
            .iter()
            .map(|source| format!("{source} {:08x}", crc32fast::hash(text(source).as_bytes())))
            .collect();
        let head = format!("// tools/ptx.sh made this from {}", named.join(", "));
        assert_eq!(
            ptx(&name).lines().next(),
            Some(&head[..]),
            "{name}.ptx is stale: run tools/ptx.sh"
        );
    }
}

#[test]
fn there_is_a_ptx_for_each_kernel_file_and_no_other() {
    assert_eq!(files(".cu"), files(".ptx.z"));
}

#[test]
fn every_driver_from_r525_and_every_gpu_from_ampere_on_takes_it() {
    for name in files(".ptx.z") {
        assert!(ptx(&name).contains("\n.version 8.0\n.target sm_80\n.address_size 64\n"), "{name}");
    }
}

#[test]
fn each_text_in_the_library_has_the_entry_that_it_names_and_no_other() {
    for Kernel { packed, entry } in [ASSEMBLE, COPY, DIGEST, LZ4] {
        let text = ptx_text(packed);
        let entries: Vec<&str> = text.lines().filter(|line| line.contains(".entry")).collect();
        assert_eq!(entries, [format!(".visible .entry {}(", entry.to_str().unwrap())]);
    }
}
