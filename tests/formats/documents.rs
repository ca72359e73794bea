//! Which metadata document counts where there are several, and what is said where there is none.

use crate::common::damage::u16_config;
use crate::common::drive::{Job, first_failure, open, stream};
use crate::common::fixtures::Scratch;
use crate::common::hook::with_hook;
use crate::common::synth::{Meta, write_text};
use std::fs;
use wavetrain::config::Config;
use wavetrain::status::Status;

const SPAN: ([i64; 2], [i64; 2]) = ([0, 0], [4, 4]);

fn span() -> (Vec<i64>, Vec<i64>) {
    (SPAN.0.to_vec(), SPAN.1.to_vec())
}

/// A config that reads the system's files, and one that reads through a hook.
fn configs() -> [Config; 2] {
    [u16_config(&[4, 4], 1), with_hook(u16_config(&[4, 4], 1))]
}

/// Status and text of the first failure, with "ARRAY" for the uri; the same through a hook.
fn failure_of(scratch: &Scratch) -> (Status, String) {
    let uri = scratch.uri("array");
    let [system, hook] = configs().map(|config| {
        let job = Job::failing(&uri, span(), Status::NotFound);
        let (_, failure) = first_failure(&open(&config), &[job]);
        // What a hook cannot do is said, and no difference otherwise.
        let text = failure.text.as_str().replace(" (a files hook lists no folders)", "");
        (failure.status, text.replace(&uri, "ARRAY"))
    });
    assert_eq!(system, hook);
    system
}

fn write(scratch: &Scratch, name: &str, text: &str) {
    let folder = scratch.path("array");
    fs::create_dir_all(&folder).expect("the array's folder");
    fs::write(folder.join(name), text).expect(name);
}

#[test]
fn where_there_is_no_document_the_text_names_all_that_were_looked_for() {
    let scratch = Scratch::new();
    let job = Job::failing(&scratch.uri("array"), span(), Status::NotFound);
    let [system, _] = configs();
    let (_, failure) = first_failure(&open(&system), &[job]);
    assert!(failure.text.as_str().contains("array: no such file or folder"), "{failure}");
    fs::create_dir_all(scratch.path("array")).expect("the array's folder");
    let (status, text) = failure_of(&scratch);
    assert_eq!(status, Status::NotFound);
    let says =
        "ARRAY/zarr.json: no such file, nor .zarray or .zgroup next to it: it is not a zarr array";
    assert!(text.contains(says), "{text}");
}

#[test]
fn a_group_of_either_format_is_called_a_group() {
    for (name, document) in [
        (".zgroup", r#"{"zarr_format":2}"#),
        ("zarr.json", r#"{"zarr_format":3,"node_type":"group"}"#),
    ] {
        let scratch = Scratch::new();
        write(&scratch, name, document);
        let (status, text) = failure_of(&scratch);
        assert_eq!(status, Status::NotFound);
        let says = format!("ARRAY/{name}: is a group: name one of the arrays in it");
        assert!(text.contains(&says), "{text}");
    }
}

#[test]
fn zarr_json_counts_where_other_documents_lie_beside_it() {
    let scratch = Scratch::new();
    let uri = write_text(&scratch, "array", &Meta::u16(&[8, 8], &[4, 4], None).text());
    for name in [".zarray", ".zgroup"] {
        write(&scratch, name, "no JSON");
    }
    let want = 7u16.to_le_bytes().repeat(16);
    for config in configs() {
        stream(&config, &[Job::new(&uri, span(), want.clone())]);
    }
}
