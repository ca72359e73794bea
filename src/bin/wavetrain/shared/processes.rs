//! The processes of an owner: started, read line by line, and ended with it.
//!
//! In: the number of consumers. Out: the figures of each at an END, or the reason of its end before
//! that.

use crate::bench::Options;
use crate::fault::{Fault, Outcome};
use crate::system;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Lines};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Mutex, PoisonError};

/// Processes that were started, in the order of their numbers.
static STARTED: Mutex<Vec<Child>> = Mutex::new(Vec::new());

fn started<T>(use_them: impl FnOnce(&mut Vec<Child>) -> T) -> T {
    use_them(&mut STARTED.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Ends the consumers that run.
fn end_consumers() {
    started(|children| {
        for child in children {
            // One that has ended already is as good.
            let _ = child.kill().and_then(|()| child.wait());
        }
    });
}

/// The same before a signal ends the owner, which is not to notice it and print a failure: its main
/// thread waits for the lock of the processes until the signal ends it.
pub fn end_for_signal() {
    let mut children = STARTED.lock().unwrap_or_else(PoisonError::into_inner);
    for child in children.iter_mut() {
        // One that has ended already is as good.
        let _ = child.kill();
    }
    core::mem::forget(children);
}

/// The consumers of an owner.
pub struct Consumers {
    lines: Vec<Lines<BufReader<ChildStdout>>>,
    /// The reasons of consumers that ended before the stream.
    pub ends: BTreeMap<u32, String>,
}

impl Drop for Consumers {
    fn drop(&mut self) {
        end_consumers();
    }
}

impl Consumers {
    /// Starts them; each is attached, or has ended.
    pub fn start(options: &Options, name: &str, count: u32) -> Outcome<Consumers> {
        let config = &options.flags.config;
        let program = std::env::current_exe();
        let program = program.map_err(|error| Fault::Failed(format!("this program: {error}")))?;
        let mut consumers = Consumers { lines: Vec::new(), ends: BTreeMap::new() };
        for number in 0..count {
            let mut command = Command::new(&program);
            command.args(["bench", "--json", "--attach", name]);
            for (flag, value) in [
                ("--consumer", u64::from(number)),
                ("--repeat", u64::from(options.repeat)),
                ("--pop-timeout-ns", config.pop_timeout_ns),
                ("--attach-timeout-ns", config.attach_timeout_ns),
            ] {
                command.args([flag, &value.to_string()]);
            }
            command.args(options.verify.then_some("--verify"));
            command.stdin(Stdio::null()).stdout(Stdio::piped());
            system::end_with_parent(&mut command);
            let child = command.spawn();
            let mut child =
                child.map_err(|error| Fault::Failed(format!("consumer {number}: {error}")))?;
            let pipe = child.stdout.take();
            started(|children| children.push(child));
            consumers.lines.extend(pipe.map(|pipe| BufReader::new(pipe).lines()));
        }
        (0..count).for_each(|number| drop(consumers.next(number)));
        Ok(consumers)
    }

    /// The next line of a consumer; None if it has ended.
    pub fn next(&mut self, number: u32) -> Option<Value> {
        if self.ends.contains_key(&number) {
            return None;
        }
        let line = self.lines[number as usize].next().and_then(Result::ok);
        let line = line.and_then(|line| serde_json::from_str::<Value>(&line).ok());
        let failure = match line {
            Some(line) if line["failure"].is_null() => return Some(line),
            Some(line) => line["failure"].as_str().map(str::to_owned),
            None => None,
        };
        // Its standard output is closed, or about to be.
        let ended = started(|children| children[number as usize].wait());
        let status = ended.map_or_else(|error| error.to_string(), |status| status.to_string());
        let text = failure.map_or(status.clone(), |failure| format!("{failure} ({status})"));
        self.ends.insert(number, text);
        None
    }

    /// The failure of a stream, and the ends of processes that no failure of their own explains.
    pub fn explain(&mut self, fault: Fault) -> Fault {
        // The stream has ended for all: each writes a line, or has ended.
        let mut text = fault.to_string();
        for number in 0..self.lines.len() as u32 {
            while self.next(number).is_some() {}
            if let Some(end) = self.ends.get(&number).filter(|end| !end.contains("exit status")) {
                // Writing into a String cannot fail.
                let _ = write!(text, "; consumer {number} ended by {end}");
            }
        }
        Fault::Failed(text)
    }
}
