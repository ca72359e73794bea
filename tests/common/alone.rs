//! Tests that need a process of their own: they count what the whole process has, or change it.
//!
//! A test program runs its tests side by side, in threads. What is here runs the one test again, in
//! a child that runs no other.

use std::any::type_name;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};

/// Set in the child to the test that it is for.
const CHILD: &str = "WAVETRAIN_TEST_ALONE";

/// Runs `test`, which is a closure written in the test itself, in a process of its own; what it
/// printed is printed here, and where it fails this fails.
pub fn alone<F: FnOnce()>(test: F) {
    let Some((name, status, text)) = child(test) else { return };
    assert!(status.success() && text.contains("1 passed"), "{name}: {status}");
}

/// The same of a test whose process must be ended by a signal.
pub fn alone_ends_by<F: FnOnce()>(signal: i32, test: F) {
    let Some((name, status, _)) = child(test) else {
        panic!("it was to be ended by signal {signal}");
    };
    assert_eq!(status.signal(), Some(signal), "{name}: {status}");
}

/// Runs the test in a child: its name, how it ended, and what it printed. None in the child, where
/// the test has run.
fn child<F: FnOnce()>(test: F) -> Option<(&'static str, ExitStatus, String)> {
    // "program::module::test::{{closure}}": the harness knows it without both ends.
    let closure = type_name::<F>();
    let name = closure.split_once("::").and_then(|(_, rest)| rest.strip_suffix("::{{closure}}"));
    let name = name.unwrap_or_else(|| panic!("{closure} is no closure of a test"));
    if std::env::var(CHILD).is_ok_and(|child| child == name) {
        test();
        return None;
    }
    let program = std::env::current_exe().expect("this program");
    let mut command = Command::new(program);
    command.args(["--exact", name, "--nocapture", "--test-threads=1"]).env(CHILD, name);
    let output = command.output().expect("a child");
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    print!("{text}");
    Some((name, output.status, text))
}
