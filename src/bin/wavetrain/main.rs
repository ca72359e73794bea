//! `wavetrain`: the command-line tool. It inspects arrays, cuts boxes out of them, measures their
//! elements and the loader, checks every chunk, predicts and counts what epochs cost, prints its
//! memory budget and shows it at work. It also writes its manual page and completions for shells.
//!
//! What comes in is the command line; what goes out is files, JSON or text on standard output, and
//! failures on standard error, and on a terminal how far it is. Exit code 0 means that every byte
//! was delivered; 1 that something failed; 2 that the command line cannot be meant. A signal that
//! ends the tool leaves no half-written file.

mod augments;
mod bench;
mod budget;
mod check;
mod consolidated;
mod crop;
mod demo;
mod digests;
mod epoch;
mod fault;
mod feed;
mod fields;
mod groups;
mod inspect;
mod nodes;
mod npy;
mod partial;
mod progress;
mod report;
mod requests;
mod samples;
mod shared;
mod shell;
mod spelling;
mod staging;
mod stats;
mod store;
mod system;
mod trace;

use fault::{Fault, Outcome, usage};
use std::process::ExitCode;

/// The help of the tool without a command.
pub const HELP: &str = "\
wavetrain streams boxes of chunked arrays into fixed-shape typed batches.

  wavetrain demo                        make a small store, stream it, check it, draw a picture
  wavetrain inspect URI [--json]        what an array is and whether it would be read
  wavetrain crop URI BOX [..] -o FILE   boxes into .npy files
  wavetrain stats URI [--json]          count, ends, mean, deviation and percentiles of an array
  wavetrain check URI [--json]          every chunk read and decoded: which are bad or missing
  wavetrain bench --requests FILE       how fast a request list streams
  wavetrain epoch URI .. --box EXTENTS  what a chunk-aware shuffle decodes, predicted and counted
  wavetrain budget [config flags]       the memory budget of a config, line by line
  wavetrain completions SHELL           completions for bash, zsh or fish, on standard output
  wavetrain man                         the manual page, on standard output

wavetrain COMMAND --help describes a command; wavetrain --version prints the version.
If standard error is a terminal, a bar on it shows how far a command is: done, all, the rate and
the time left. Ctrl-C ends any command and leaves no partial file.
";

fn main() -> ExitCode {
    let started = system::clean_on_signal(clean);
    match started.and_then(|()| run(&mut lexopt::Parser::from_env())) {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => {
            if !matches!(fault, Fault::Told) {
                report::warn(&fault.to_string());
            }
            ExitCode::from(fault.exit_code())
        }
    }
}

/// Before a signal ends the tool.
fn clean() {
    shared::end_for_signal();
    partial::remove_all();
}

fn run(parser: &mut lexopt::Parser) -> Outcome<()> {
    use lexopt::Arg::{Long, Short, Value};
    match parser.next()? {
        Some(Short('h') | Long("help")) => report::print(HELP),
        Some(Short('V') | Long("version")) => {
            report::print(concat!("wavetrain ", env!("CARGO_PKG_VERSION"), "\n"))
        }
        Some(Value(command)) => match command.to_string_lossy().as_ref() {
            "demo" => demo::run(parser),
            "inspect" => inspect::run(parser),
            "crop" => crop::run(parser),
            "stats" => stats::run(parser),
            "check" => check::run(parser),
            "bench" => bench::run(parser),
            "epoch" => epoch::run(parser),
            "budget" => budget::run(parser),
            "completions" => shell::completions(parser),
            "man" => shell::man(parser),
            "help" => report::print(HELP),
            other => usage(format!(
                "unknown command '{other}': demo, inspect, crop, stats, check, bench, epoch, \
                 budget, completions or man (see --help)"
            )),
        },
        Some(other) => Err(other.unexpected().into()),
        None => usage(
            "no command: demo, inspect, crop, stats, check, bench, epoch, budget, completions or \
             man (see --help)",
        ),
    }
}
