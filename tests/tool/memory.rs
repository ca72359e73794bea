//! What the tool itself keeps beside the memory of the bill: a little for each request and array,
//! so that lists of millions are no trouble. And lists that come out of a pipe.

use serde_json::{Value, json};
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

/// Bytes for a request and its array: the uri, which is some hundred bytes here, the box, and what
/// the allocator adds.
const REQUEST_BYTES_MAX: u64 = 500;

fn folder(test: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("tool_memory").join(test);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{command:?}: {text}");
    output
}

fn metadata() -> String {
    let grid = json!({"name": "regular", "configuration": {"chunk_shape": [16]}});
    let keys = json!({"name": "default", "configuration": {"separator": "/"}});
    json!({
        "zarr_format": 3, "node_type": "array", "shape": [16], "data_type": "uint8",
        "chunk_grid": grid, "chunk_key_encoding": keys, "fill_value": 7,
        "codecs": [{"name": "bytes"}], "attributes": {},
    })
    .to_string()
}

#[test]
fn a_request_and_its_array_cost_the_tool_some_hundred_bytes() {
    let folder = folder("many");
    let metadata = metadata();
    let mut lines = String::new();
    let mut peaks = Vec::new();
    for limit in [200usize, 8200] {
        for number in lines.lines().count()..limit {
            let uri = folder.join(format!("{number}"));
            fs::create_dir(&uri).unwrap();
            fs::write(uri.join("zarr.json"), &metadata).unwrap();
            lines += &json!({"uri": uri, "box": [[0, 16]]}).to_string();
            lines += "\n";
        }
        let list = folder.join("list.jsonl");
        fs::write(&list, &lines).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_wavetrain"));
        command.args(["bench", "--json", "--batch", "8", "--requests"]).arg(&list);
        let figures: Value = serde_json::from_slice(&run(&mut command).stdout).unwrap();
        assert_eq!(figures["samples"], limit);
        peaks.push(figures["peak_rss_bytes"].as_u64().unwrap());
    }
    let each = peaks[1].saturating_sub(peaks[0]) / 8000;
    assert!(each <= REQUEST_BYTES_MAX, "{each} bytes for each of 8,000 more requests");
}

#[test]
fn a_list_of_requests_may_come_out_of_a_pipe_and_an_array_may_not() {
    let folder = folder("pipe");
    let array = folder.join("array");
    fs::create_dir(&array).unwrap();
    fs::write(array.join("zarr.json"), metadata()).unwrap();
    let tool = env!("CARGO_BIN_EXE_wavetrain");
    let line = json!({"uri": array, "box": [[0, 4]]});
    let out = folder.join("out.npy");
    let script = format!("'{tool}' crop --requests <(echo '{line}') -o '{}'", out.display());
    run(Command::new("bash").args(["-c", &script]));
    assert!(fs::read(&out).unwrap().ends_with(&[7; 4]));
    fs::remove_file(array.join("zarr.json")).unwrap();
    run(Command::new("mkfifo").arg(array.join("zarr.json")));
    let uri = array.to_str().unwrap();
    let crop = ["crop", uri, "0:4", "-o", out.to_str().unwrap()];
    for arguments in [&["inspect", uri][..], &crop] {
        let output = Command::new(tool).args(arguments).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(text.contains("zarr.json: is a FIFO, not a regular file"), "{text}");
    }
}
