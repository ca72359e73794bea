//! The commands of the documents that are marked "run", on arrays as the demo's.

use crate::common::cc;
use crate::common::pages::{marked, write_demo};
use std::path::Path;
use std::process::Command;

#[test]
fn commands_of_the_pages_run() {
    let home = cc::folder("page-home");
    write_demo(&home);
    let tool = Path::new(env!("CARGO_BIN_EXE_wavetrain")).parent().unwrap();
    let path = format!("{}:{}", tool.display(), std::env::var("PATH").unwrap());
    for snippet in marked("sh", "run") {
        let work = cc::folder("page-commands");
        let mut command = Command::new("sh");
        command.args(["-e", "-c", &snippet.code]).current_dir(work);
        command.env("HOME", &home).env_remove("XDG_CACHE_HOME").env("PATH", &path);
        assert!(!cc::run(&mut command).is_empty(), "{}", snippet.at);
    }
}
