//! The tool while it runs: lists that stream, signals, standard output as a file, and the bar on a
//! terminal.

use serde_json::{Value, json};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::FromRawFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::ptr::null_mut;

/// Requests that crop reads before it streams them.
const BLOCK: usize = 1 << 16;

/// Elements of the array: more than one byte each, none alike.
const ELEMENTS: usize = 300;

/// An empty folder with an array of u16, and the uri of that.
fn folder(test: &str) -> (PathBuf, String) {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("tool_streams").join(test);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(folder.join("a/c")).unwrap();
    let grid = json!({"name": "regular", "configuration": {"chunk_shape": [ELEMENTS]}});
    let metadata = json!({
        "zarr_format": 3, "node_type": "array", "shape": [ELEMENTS], "data_type": "uint16",
        "chunk_grid": grid, "chunk_key_encoding": {"name": "default"}, "fill_value": 0,
        "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
    });
    fs::write(folder.join("a/zarr.json"), metadata.to_string()).unwrap();
    fs::write(folder.join("a/c/0"), elements(0..ELEMENTS)).unwrap();
    let uri = folder.join("a").to_str().unwrap().to_owned();
    (folder, uri)
}

fn elements(range: std::ops::Range<usize>) -> Vec<u8> {
    range.flat_map(|at| (at as u16 * 7 + 1).to_le_bytes()).collect()
}

/// The first element of the box of a request.
fn begin(request: usize) -> usize {
    request % (ELEMENTS - 2)
}

fn line(uri: &str, request: usize) -> String {
    let begin = begin(request);
    format!("{}\n", json!({"uri": uri, "box": [[begin, begin + 2]]}))
}

/// Shape and elements of a .npy file of u16.
fn npy(bytes: &[u8]) -> (String, &[u8]) {
    let head = 10 + u16::from_le_bytes([bytes[8], bytes[9]]) as usize;
    assert_eq!((&bytes[..8], head % 64), (&b"\x93NUMPY\x01\x00"[..], 0));
    let text = std::str::from_utf8(&bytes[10..head]).unwrap().trim_end();
    assert!(text.starts_with("{'descr': '<u2', 'fortran_order': False, 'shape': "), "{text}");
    (text[50..].trim_end_matches(", }").to_owned(), &bytes[head..])
}

/// Starts a crop of a list on its standard input to `out.npy`, a line of JSON for each request.
fn crop(folder: &Path) -> Child {
    spawn(folder, &["--json", "-o", "out.npy"])
}

/// The same to the field `pair`, files in the folder `out`. A line that is not a request is written
/// to standard error once all before it have their file.
fn crop_fields(folder: &Path) -> Child {
    let fields = json!([{"name": "pair", "sample_shape": [2], "dtype": "u16"}]);
    fs::write(folder.join("fields"), fields.to_string()).unwrap();
    spawn(folder, &["--fields", "fields", "--out-dir", "out", "--keep-going"])
}

/// A signal ends the crop, also if the tests themselves ignore that.
fn spawn(folder: &Path, arguments: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wavetrain"));
    command.args(["crop", "--requests", "-"]).args(arguments).current_dir(folder);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let defaults = || {
        for signal in [libc::SIGINT, libc::SIGTERM] {
            // SAFETY: the action is the system's, and nothing else runs in this child yet.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
        Ok(())
    };
    // SAFETY: signal may be called between fork and exec.
    unsafe { command.pre_exec(defaults) };
    command.spawn().unwrap()
}

/// Largest resident memory of a process so far.
fn peak_bytes(child: &Child) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

#[test]
fn a_list_streams_block_by_block_while_it_is_written_and_takes_no_more_memory() {
    let (folder, uri) = folder("blocks");
    let mut child = crop(&folder);
    let mut told = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut pipe = child.stdin.take().unwrap();
    let mut peaks = Vec::new();
    for block in 0..4 {
        let lines: String = (0..BLOCK).map(|at| line(&uri, block * BLOCK + at)).collect();
        std::thread::scope(|scope| {
            // Both pipes are shorter than a block.
            scope.spawn(|| pipe.write_all(lines.as_bytes()).unwrap());
            for at in 0..BLOCK {
                let told: Value = serde_json::from_str(&told.next().unwrap().unwrap()).unwrap();
                let request = block * BLOCK + at;
                let place = json!([[begin(request), begin(request) + 2]]);
                let expected = json!({"index": request, "status": "OK", "uri": uri, "box": place});
                assert_eq!(told, expected);
            }
        });
        peaks.push(peak_bytes(&child));
        assert!(!folder.join("out.npy").exists());
    }
    pipe.write_all(line(&uri, 4 * BLOCK).as_bytes()).unwrap();
    drop(pipe);
    assert_eq!(told.count(), 1);
    assert!(child.wait().unwrap().success());
    // The system counts pages a few at a time.
    let more = peaks[3].saturating_sub(peaks[1]);
    assert!(more < 6 << 20, "{more} bytes more for {} more requests", 2 * BLOCK);
    let file = fs::read(folder.join("out.npy")).unwrap();
    let (shape, data) = npy(&file);
    assert_eq!((shape.as_str(), data.len()), ("(262145, 2)", 4 * (4 * BLOCK + 1)));
    for (request, row) in data.chunks(4).enumerate() {
        assert_eq!(row, elements(begin(request)..begin(request) + 2), "{request}");
    }
}

/// A line that is not a request.
const MALFORMED: &str = "{}\n";

#[test]
fn a_list_of_fields_streams_block_by_block_while_it_is_written_and_takes_no_more_memory() {
    const EACH: usize = 16;
    let (folder, uri) = folder("field_blocks");
    let mut child = crop_fields(&folder);
    let mut told = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut pipe = child.stdin.take().unwrap();
    let long = format!("{}\n", json!({"uri": uri, "box": [[0, 3]]}));
    // Files take most of the time, so that few samples have one: the box of the others is too long.
    let is_good = |request: usize| request.is_multiple_of(EACH);
    let of = |at| if is_good(at) { line(&uri, at) } else { long.clone() };
    let mut peaks = Vec::new();
    for block in 0..4 {
        let requests = block * BLOCK..(block + 1) * BLOCK;
        let lines: String = requests.clone().map(of).collect();
        std::thread::scope(|scope| {
            scope.spawn(|| pipe.write_all(lines.as_bytes()).unwrap());
            for request in requests.filter(|request| !is_good(*request)) {
                let told = told.next().unwrap().unwrap();
                let reason = format!("wavetrain: request {request}: INVALID: field pair: ");
                assert!(told.starts_with(&reason), "{told}");
            }
        });
        peaks.push(peak_bytes(&child));
        assert_eq!(names(&folder.join("out")).len(), (block + 1) * BLOCK / EACH);
    }
    pipe.write_all(line(&uri, 4 * BLOCK).as_bytes()).unwrap();
    drop(pipe);
    let failures = 4 * (BLOCK - BLOCK / EACH);
    let end = format!("wavetrain: {failures} of {} requests failed", 4 * BLOCK + 1);
    assert_eq!(told.map(|line| line.unwrap()).collect::<Vec<_>>(), [end]);
    assert_eq!(child.wait().unwrap().code(), Some(1));
    // The system counts pages a few at a time.
    let more = peaks[3].saturating_sub(peaks[1]);
    assert!(more < 6 << 20, "{more} bytes more for {} more requests", 2 * BLOCK);
    for request in [0, BLOCK - EACH, BLOCK, 2 * BLOCK + 5 * EACH, 4 * BLOCK] {
        let file = fs::read(folder.join(format!("out/pair.{request:06}.npy"))).unwrap();
        let elements = elements(begin(request)..begin(request) + 2);
        assert_eq!(npy(&file), ("(2,)".to_owned(), &elements[..]), "{request}");
    }
}

#[test]
fn a_malformed_line_of_a_later_block_of_fields_ends_the_crop_with_its_number() {
    let (folder, uri) = folder("field_malformed");
    let fields = json!([{"name": "pair", "sample_shape": [2], "dtype": "u16"}]);
    fs::write(folder.join("fields"), fields.to_string()).unwrap();
    // Samples of one kind that the library refuses cost no file.
    let refused = format!("{}\n", json!({"boxes": [], "tag": 3}));
    let list = format!("\n{}{}{MALFORMED}", refused.repeat(BLOCK), line(&uri, 0));
    fs::write(folder.join("list"), &list).unwrap();
    let run = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_wavetrain"));
        let arguments = ["crop", "--fields", "fields", "--requests", "list", "--out-dir", "out"];
        command.args(arguments).args(more).current_dir(&folder);
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8(output.stderr).unwrap()
    };
    let error = run(&["--keep-going"]);
    let mut lines = error.lines().rev();
    assert_eq!(lines.next(), Some("wavetrain: 65537 of 65538 requests failed"));
    let reason = "list, line 65539: a box has a uri and a box, or a value";
    assert_eq!(lines.next(), Some(&*format!("wavetrain: request 65537: INVALID: {reason}")));
    let last = lines.next().unwrap();
    assert!(last.starts_with("wavetrain: request 65535 (tag 3): INVALID: "), "{last}");
    assert_eq!(lines.count(), BLOCK - 1);
    assert_eq!(names(&folder.join("out")), ["pair.065536.npy"]);
    // The first failure ends a crop that does not keep on.
    assert!(run(&[]).starts_with("wavetrain: request 0 (tag 3): INVALID: "));
    let good = line(&uri, 0).repeat(2);
    fs::write(folder.join("list"), format!("{good}{MALFORMED}")).unwrap();
    assert_eq!(run(&[]), "wavetrain: list, line 3: a box has a uri and a box, or a value\n");
}

#[test]
fn a_stack_has_the_type_of_the_first_array_that_can_be_read_in_whatever_block() {
    let (folder, uri) = folder("late_type");
    let nowhere = folder.join("nowhere");
    let mut lines = line(nowhere.to_str().unwrap(), 0).repeat(BLOCK + 1);
    lines += &line(&uri, 5);
    fs::write(folder.join("list"), lines).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_wavetrain"));
    command.args(["crop", "--requests", "list", "-o", "out.npy", "--keep-going"]);
    let output = command.args(["--pad-value", "9"]).current_dir(&folder).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.ends_with("65537 of 65538 requests failed\n"), "{}", &error[..500]);
    assert!(error.contains(&format!("request 65536 (0:2 of {})", nowhere.display())));
    let file = fs::read(folder.join("out.npy")).unwrap();
    let (shape, data) = npy(&file);
    assert_eq!(shape, "(65538, 2)");
    let (pads, row) = data.split_at(4 * (BLOCK + 1));
    assert!(pads.chunks(2).all(|pad| pad == [9, 0]));
    assert_eq!(row, elements(5..7));
}

#[test]
fn a_box_of_another_shape_in_a_later_block_leaves_no_file() {
    let (folder, uri) = folder("late_shape");
    let mut lines: String = (0..BLOCK).map(|request| line(&uri, request)).collect();
    lines += &format!("{}\n", json!({"uri": uri, "box": [[0, 3]]}));
    fs::write(folder.join("list"), lines).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_wavetrain"));
    command.args(["crop", "--requests", "list", "-o", "out.npy"]).current_dir(&folder);
    let output = command.output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("boxes of different shapes (2 and 3)"), "{error}");
    assert_eq!(names(&folder), ["a", "list"]);
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_signal_ends_a_crop_which_leaves_the_file_that_was_there_and_no_other() {
    for signal in [libc::SIGINT, libc::SIGTERM] {
        let (folder, uri) = folder(&format!("signal_{signal}"));
        fs::write(folder.join("out.npy"), "old").unwrap();
        let mut child = crop(&folder);
        let lines: String = (0..BLOCK).map(|request| line(&uri, request)).collect();
        let mut pipe = child.stdin.take().unwrap();
        pipe.write_all(lines.as_bytes()).unwrap();
        let mut told = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(told.next().unwrap().unwrap().starts_with("{\"index\":0,"));
        let partial = format!("out.npy.{}.partial", child.id());
        assert_eq!(names(&folder), ["a", "out.npy", &partial]);
        // SAFETY: the child was not waited for, so that the id is its own.
        unsafe { libc::kill(child.id() as libc::pid_t, signal) };
        assert_eq!(child.wait().unwrap().signal(), Some(signal));
        assert_eq!(names(&folder), ["a", "out.npy"]);
        assert_eq!(fs::read(folder.join("out.npy")).unwrap(), b"old");
    }
}

#[test]
fn a_signal_ends_a_crop_of_fields_which_leaves_whole_files_alone() {
    let (folder, uri) = folder("field_signal");
    let mut child = crop_fields(&folder);
    let mut pipe = child.stdin.take().unwrap();
    let mut told = BufReader::new(child.stderr.take().unwrap()).lines();
    let lines: String = (1..BLOCK).map(|request| line(&uri, request)).collect();
    pipe.write_all((MALFORMED.to_owned() + &lines).as_bytes()).unwrap();
    // It is written with the first batch, which the rest of the block follows.
    assert!(told.next().unwrap().unwrap().starts_with("wavetrain: request 0: INVALID: "));
    // SAFETY: the child was not waited for, so that the id is its own.
    unsafe { libc::kill(child.id() as libc::pid_t, libc::SIGINT) };
    assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGINT));
    let files = names(&folder.join("out"));
    assert!((1..BLOCK - 1).contains(&files.len()), "{} files", files.len());
    for (at, name) in files.iter().enumerate() {
        assert_eq!(*name, format!("pair.{:06}.npy", at + 1));
    }
}

#[test]
fn a_crop_to_standard_output_writes_the_file_there_and_nothing_else() {
    let (folder, uri) = folder("stdout");
    let list: String = (0..5).map(|request| line(&uri, request)).collect();
    fs::write(folder.join("list"), list).unwrap();
    let run = |arguments: &[&str], output: Stdio| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_wavetrain"));
        command.arg("crop").args(arguments).current_dir(&folder).stdout(output);
        command.stderr(Stdio::piped()).spawn().unwrap().wait_with_output().unwrap()
    };
    let output = run(&[&uri, "3:7", "-o", "-"], Stdio::piped());
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]));
    assert_eq!(npy(&output.stdout), ("(4,)".to_owned(), &elements(3..7)[..]));
    let output = run(&["--requests", "list", "-o", "-"], Stdio::piped());
    let rows: Vec<u8> = (0..5).flat_map(|request| elements(request..request + 2)).collect();
    assert_eq!(npy(&output.stdout), ("(5, 2)".to_owned(), &rows[..]));
    // A file that the shell has opened is written through that, at its place.
    let mut file = File::create(folder.join("shell")).unwrap();
    file.write_all(b"before").unwrap();
    assert!(run(&["--requests", "list", "-o", "-"], file.into()).status.success());
    assert_eq!(fs::read(folder.join("shell")).unwrap()[6..], output.stdout);
    assert_eq!(names(&folder), ["a", "list", "shell"]);

    let output = run(&[&uri, "3:7", "-o", "-", "--json"], Stdio::piped());
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{error}");
    assert!(error.contains("-o - and --json both write standard output"), "{error}");
}

/// The bytes that a command draws if its standard error is a terminal.
fn drawn(folder: &Path, arguments: &[&str]) -> String {
    let (mut near, mut far) = (0, 0);
    let (name, termios, window) = (null_mut(), null_mut(), null_mut());
    // SAFETY: the pointers are to live integers of ours; null leaves out name and settings.
    let opened = unsafe { libc::openpty(&mut near, &mut far, name, termios, window) };
    assert_eq!(opened, 0);
    // SAFETY: openpty gave both descriptors to us alone.
    let (mut near, far) = unsafe { (File::from_raw_fd(near), File::from_raw_fd(far)) };
    let mut command = Command::new(env!("CARGO_BIN_EXE_wavetrain"));
    command.args(arguments).current_dir(folder).env("TERM", "xterm");
    let mut child = command.stdout(Stdio::null()).stderr(far).spawn().unwrap();
    drop(command);
    let (mut text, mut part) = (Vec::new(), [0; 4096]);
    // A terminal that nobody writes to any more is an error.
    while let Ok(count @ 1..) = near.read(&mut part) {
        text.extend_from_slice(&part[..count]);
    }
    assert!(child.wait().unwrap().success());
    String::from_utf8_lossy(&text).into_owned()
}

#[test]
fn a_terminal_shows_how_far_a_command_is() {
    let (folder, uri) = folder("terminal");
    let list: String = (0..5000).map(|request| line(&uri, request)).collect();
    fs::write(folder.join("list"), list).unwrap();
    fs::write(folder.join("zarr.json"), r#"{"zarr_format": 3, "node_type": "group"}"#).unwrap();
    fs::write(folder.join("fields"), r#"[{"name": "a", "sample_shape": [2], "dtype": "u16"}]"#)
        .unwrap();
    for (arguments, what, count) in [
        (&["crop", "--requests", "list", "-o", "out.npy"][..], "cropping", "/5,000 "),
        (
            &["crop", "--fields", "fields", "--requests", "list", "--out-dir", "out"],
            "cropping",
            "/5,000 ",
        ),
        (&["bench", "--requests", "list"], "streaming", "/5,000 "),
        (&["stats", &uri], "measuring", "/1 "),
        (&["check", &uri], "checking", "/"),
        (&["epoch", &uri, "--box", "2"], "streaming an epoch", "/150 "),
        (&["inspect", "."], "looking at arrays", "/1 "),
    ] {
        let text = drawn(&folder, arguments);
        for part in [what, count, "/s", " left"] {
            assert!(text.contains(part), "{arguments:?} {part:?}: {text:?}");
        }
    }
}
