//! What is no regular file is refused by name, at once: a FIFO would be waited for until somebody
//! writes to it, and a device has no end.

use crate::common::drive::{Job, PATIENCE_NS, Span, config, first_failure, open};
use crate::common::fixtures::Scratch;
use crate::common::synth::Meta;
use std::ffi::CString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;
use wavetrain::config::{Config, THREADS_PUMP};
use wavetrain::loader::{self, Node, SCRATCH_BYTES};
use wavetrain::records::Dtype;
use wavetrain::source::zarr::NodeKind;
use wavetrain::status::{Failure, Status};

/// What can lie at a path, and what the text calls it.
const KINDS: [(&str, fn(&Path)); 5] = [
    ("a FIFO", |path| make_node(path, libc::S_IFIFO)),
    ("a socket", |path| make_node(path, libc::S_IFSOCK)),
    ("a character device", |path| symlink("/dev/zero", path).expect("a link")),
    ("a character device", |path| symlink("/dev/tty", path).expect("a link")),
    ("a folder", |path| fs::create_dir(path).expect("a folder")),
];

/// Replaces what lies at a path.
fn make_node(path: &Path, kind: libc::mode_t) {
    let name = CString::new(path.as_os_str().as_bytes()).expect("no NUL");
    // SAFETY: the path is NUL-terminated.
    assert_eq!(unsafe { libc::mknod(name.as_ptr(), kind | 0o600, 0) }, 0);
}

fn near() -> Span {
    (vec![0, 0], vec![4, 4])
}

/// A config of every way that files are read in.
fn configs() -> [Config; 2] {
    let threads = config(Dtype::U16, &[4, 4], 1);
    [threads, Config { thread_mode: THREADS_PUMP, ..threads }]
}

/// Whether `failure` says that the file at `path` is `kind`.
fn check(failure: &Failure, path: &Path, kind: &str) {
    assert_eq!(failure.status, Status::Io, "{failure}");
    let text = failure.text.as_str();
    let is_named = text.contains(path.to_str().expect("UTF-8"));
    assert!(is_named && text.contains(&format!("is {kind}, not a regular file")), "{failure}");
}

/// Puts every kind of file in the place of `file` of an array of one chunk or shard, and expects
/// its refusal however files are read.
fn refused_in_place_of(file: &str, shard: Option<&[u64]>) {
    let scratch = Scratch::new();
    for (number, (kind, make)) in KINDS.into_iter().enumerate() {
        let name = number.to_string();
        let uri = Meta::u16(&[4, 4], &[4, 4], shard).write(&scratch, &name, Some(&[1; 52]));
        let path = scratch.path(&name).join(file);
        if file.starts_with('.') {
            fs::remove_file(scratch.path(&name).join("zarr.json")).expect("zarr.json");
        } else {
            fs::remove_file(&path).expect("the file");
        }
        make(&path);
        for config in configs() {
            let loader = open(&config);
            let (_, failure) = first_failure(&loader, &[Job::failing(&uri, near(), Status::Io)]);
            check(&failure, &path, kind);
            loader.close(PATIENCE_NS).unwrap_or_else(|failure| panic!("{failure}"));
        }
        if !file.starts_with('c') {
            let mut scratch = vec![0; SCRATCH_BYTES];
            let failure = loader::array_info(&uri, &mut scratch).err().expect("a refusal");
            check(&failure, &path, kind);
        }
    }
}

#[test]
fn the_metadata_of_an_array_is_a_regular_file() {
    refused_in_place_of("zarr.json", None);
    refused_in_place_of(".zarray", None);
    refused_in_place_of(".zgroup", None);
}

#[test]
fn a_chunk_is_a_regular_file() {
    refused_in_place_of("c/0/0", None);
}

#[test]
fn a_shard_is_a_regular_file() {
    refused_in_place_of("c/0/0", Some(&[4, 4]));
}

#[test]
fn the_attributes_of_a_group_are_a_regular_file() {
    let scratch = Scratch::new();
    for (number, (kind, make)) in KINDS.into_iter().enumerate() {
        let folder = scratch.path(&number.to_string());
        fs::create_dir(&folder).expect("a folder");
        fs::write(folder.join(".zgroup"), br#"{"zarr_format":2}"#).expect("a group");
        make(&folder.join(".zattrs"));
        let mut block = vec![0; SCRATCH_BYTES];
        let uri = folder.to_str().expect("UTF-8");
        let failure = loader::node_info(uri, &mut block).err().expect("a refusal");
        check(&failure, &folder.join(".zattrs"), kind);
    }
}

#[test]
fn a_folder_entry_that_would_be_waited_for_is_passed_over() {
    let scratch = Scratch::new();
    let group = scratch.path("group");
    Meta::u16(&[4, 4], &[4, 4], None).write(&scratch, "group/good", None);
    fs::write(group.join("zarr.json"), br#"{"zarr_format":3,"node_type":"group"}"#).expect("text");
    fs::create_dir(group.join("waits")).expect("a folder");
    make_node(&group.join("waits/zarr.json"), libc::S_IFIFO);
    make_node(&group.join("fifo"), libc::S_IFIFO);
    let mut block = vec![0; SCRATCH_BYTES];
    let Ok(Node::Group(view)) = loader::node_info(group.to_str().expect("UTF-8"), &mut block)
    else {
        panic!("a group")
    };
    let found: Vec<_> = view.entries().map(|entry| (entry.path(), entry.kind())).collect();
    assert_eq!(found, [("good", NodeKind::Array), ("waits", NodeKind::Unknown)]);
}
