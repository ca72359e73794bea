//! The command line of `wavetrain crop`, and the blocks of requests that it asks for.
//!
//! In: the arguments, and the lines of a list. Out: the options, and one block of requests after
//! the other, with the types of their arrays.

use crate::augments::{self, Change};
use crate::fault::{Fault, Outcome, usage};
use crate::feed::{self, Known};
use crate::fields::{ConfigFlags, fields_help_without};
use crate::npy;
use crate::progress::Progress;
use crate::report;
use crate::requests::{LineList, Lines, Requests, no_requests};
use crate::samples::Fields;
use std::path::{Path, PathBuf};
use wavetrain::config::{ON_ERROR_FAIL, ON_ERROR_NAN, ON_ERROR_SKIP};

const HELP: &str = "\
Writes boxes of arrays as .npy files.

  wavetrain crop URI BOX [BOX ..] [URI BOX ..] -o OUT.npy
  wavetrain crop --requests REQS.jsonl -o OUT.npy
  wavetrain crop --requests REQS.jsonl --out-dir DIR
  wavetrain crop --fields FIELDS.json --requests REQS.jsonl --out-dir DIR

A BOX is begin:end per axis, and what is left out of it the array's: 0:64,:,32:160
(--box=-16:48,.. where it starts with a minus); \"\" of an array without axes.
A request is a line {\"uri\": \"..\", \"box\": [[0,64],[0,128]]}; '-' reads standard input.
An axis of its box may be a list, in any order: [[0,64],{\"indices\": [9,2,2]}].

  -o, --out FILE        boxes of one shape, stacked [N, ..] in order; one box alone on the command
                        line is written unstacked; '-' writes standard output
      --out-dir DIR     one file per request, of any shape: 000000.npy, 000001.npy, ..
      --fields FILE     samples of several boxes for fields: NAME.000000.npy of each field
                        and request. The file is a list of fields,
                          {\"name\": \"image\", \"sample_shape\": [64,64], \"dtype\": \"f32\"}
                        with pad_mode, pad_value, cf if you like. A request is a line
                          {\"boxes\": [{\"field\": \"image\", \"uri\": \"..\",
                            \"box\": [[0,64],[0,64]], \"at\": [0,0], \"step\": [1,-1],
                            \"axes\": [1,0]}, {\"field\": \"label\", \"value\": 3}]}.
                        It may leave out at (the index of the box in the field), step and axes
                        (which axis of the field each becomes, null: none)
      --dtype TYPE      'source' (default) writes each array's own type bit for bit (bf16 as
                        uint16); or a type from the list below
      --augment FILE    arithmetic on the elements of each box, and an affine map, see below: with
                        arithmetic or a linear filter they become f32 if --dtype is left out
      --keep-going      go on after a request that fails, or a line that is not one; its row
                        of a stack holds pad-value (zeros if its uri or line is refused)
      --json            one line per request on standard output: index, status, uri, box, and the
                        error if it failed

A list is read as it streams, 65,536 requests at a time. With -o to standard output or a pipe all of
it is read first: the number of requests stands at the head of the file.
A file has its name once it is whole. Ctrl-C leaves no other.

Exit code: 0 when every byte was written, 1 when a request failed, 2 for a wrong command line.
Caps are raised to what the arrays need, unless one is given.

Config (sizes take suffixes: 64MiB, 4k):
";

/// The text of --help.
pub fn help() -> String {
    let fields = fields_help_without("augment");
    format!("{HELP}{fields}{}", augments::HELP)
}

/// Requests that are read before they are streamed: enough that opening a loader for them does not
/// matter, at some hundred bytes each.
pub const BLOCK_REQUESTS: usize = 1 << 16;

/// The command line of a crop.
pub struct Options {
    pub flags: ConfigFlags,
    pub target: Target,
    /// Whether a single box is written without the leading axis of 1.
    pub unstacked: bool,
    pub keep_going: bool,
    /// Requests that fail are written all the same, NaN where they did.
    pub fills_nan: bool,
    pub json: bool,
    /// Whether every array keeps its own type.
    pub source: bool,
    /// What each box has beside its places.
    pub change: Change,
}

pub enum Target {
    File(PathBuf),
    Folder(PathBuf),
}

/// The source of requests.
pub enum Source {
    /// Boxes of the command line, until they are taken.
    Words(Option<Requests>),
    /// A list; its path, and how many requests were read.
    List(Lines, PathBuf, usize),
}

/// Requests that are streamed together, and what is known of their arrays.
pub struct Block {
    pub requests: Requests,
    pub types: Vec<Option<Known>>,
}

/// Reads the command line; None if the command is done.
pub fn options(parser: &mut lexopt::Parser) -> Outcome<Option<(Options, Source)>> {
    use lexopt::Arg::{Long, Short, Value};
    let mut flags = ConfigFlags::new();
    let (mut out, mut folder, mut file) = (None, None, None);
    let (mut json, mut source, mut fields, mut augment) = (false, None, None, None);
    let mut words: Vec<String> = Vec::new();
    while let Some(argument) = parser.next()? {
        match argument {
            Short('h') | Long("help") => {
                report::print(&help())?;
                return Ok(None);
            }
            Short('o') | Long("out") => out = Some(PathBuf::from(parser.value()?)),
            Long("out-dir") => folder = Some(PathBuf::from(parser.value()?)),
            Long("requests") => file = Some(PathBuf::from(parser.value()?)),
            Long("fields") => fields = Some(PathBuf::from(parser.value()?)),
            Long("augment") => augment = Some(augments::take(&mut flags, parser)?),
            Long("box") => words.push(word(parser.value()?)?),
            Long("keep-going") => flags.config.on_error = ON_ERROR_SKIP,
            Long("json") => json = true,
            Value(value) => words.push(word(value)?),
            Short(digit) if digit.is_ascii_digit() => {
                return usage("a box that starts with a minus is given as --box=-16:48,..");
            }
            Long("dtype") => {
                let value = parser.value()?;
                source = Some(value == "source");
                if source == Some(false) {
                    flags.set_text("dtype", &value.to_string_lossy())?;
                }
            }
            Long(name) => {
                let name = name.to_owned();
                flags.take_or_refuse(&name, parser, "crop")?;
            }
            other => return Err(other.unexpected().into()),
        }
    }
    if let Some(fields) = fields {
        let (Some(folder), Some(file), None) = (&folder, &file, &out) else {
            return usage("crop --fields FILE needs --requests FILE and --out-dir DIR");
        };
        if json || source == Some(false) || !words.is_empty() {
            return usage("crop --fields FILE takes no box, no --dtype and no --json");
        }
        let fields = Fields::read(&fields, augment.as_deref())?;
        return super::fields::crop(&flags, fields, file, folder).map(|()| None);
    }
    let target = target(out, folder, json)?;
    let change = augment.as_deref().map_or(Ok(Change::default()), augments::read)?;
    let source = source.unwrap_or(!change.makes_floats());
    let keep_going = flags.config.on_error != ON_ERROR_FAIL;
    let (list, unstacked) = list(file, &words)?;
    let fills_nan = flags.config.on_error == ON_ERROR_NAN;
    let options = Options { flags, target, unstacked, keep_going, fills_nan, json, source, change };
    Ok(Some((options, list)))
}

/// The requests, and whether they are a single box of the command line.
fn list(file: Option<PathBuf>, words: &[String]) -> Outcome<(Source, bool)> {
    match file {
        Some(_) if !words.is_empty() => usage("give either URI BOX or --requests FILE"),
        Some(path) => Ok((Source::List(Lines::open(&path)?, path, 0), false)),
        None => {
            let requests = Requests::from_words(words, feed::extents)?;
            let is_one = requests.items.len() == 1;
            Ok((Source::Words(Some(requests)), is_one))
        }
    }
}

fn target(out: Option<PathBuf>, folder: Option<PathBuf>, json: bool) -> Outcome<Target> {
    match (out, folder) {
        (Some(path), None) if json && path == Path::new(npy::STANDARD_OUTPUT) => {
            usage("-o - and --json both write standard output: give -o a file")
        }
        (Some(path), None) => Ok(Target::File(path)),
        (None, Some(path)) => Ok(Target::Folder(path)),
        _ => usage("crop needs -o FILE or --out-dir DIR, and not both"),
    }
}

fn word(value: std::ffi::OsString) -> Outcome<String> {
    value
        .into_string()
        .map_err(|value| Fault::Usage(format!("'{}' is not UTF-8", value.to_string_lossy())))
}

impl Source {
    /// The next requests; None after the last. For a pipe all are one block: their number stands at
    /// its head.
    pub fn next(
        &mut self,
        options: &Options,
        has_stack: bool,
        progress: &Progress,
    ) -> Outcome<Option<Block>> {
        let (lines, path, first) = match self {
            Source::Words(requests) => {
                let Some(mut requests) = requests.take() else { return Ok(None) };
                requests.change = options.change;
                progress.set_count(Some(requests.items.len() as u64));
                let types = feed::element_types(&requests.uris.list, options.flags.config.cf);
                return Ok(Some(Block { requests, types }));
            }
            Source::List(lines, path, first) => (lines, path, first),
        };
        let count = match &options.target {
            Target::File(path) if !npy::is_regular(path) => usize::MAX,
            _ => BLOCK_REQUESTS,
        };
        let mut requests = Requests::beginning_at(*first);
        requests.change = options.change;
        let mut types = Vec::new();
        let stacks = matches!(options.target, Target::File(_));
        let lacks_type = stacks && !has_stack && options.source && options.keep_going;
        let mut has_more = true;
        // A stack has the type of the first array that can be read, so that one is looked for.
        while has_more && (types.is_empty() || lacks_type && types.iter().all(Option::is_none)) {
            has_more = requests.add_more(lines, count, options.keep_going)?;
            types.extend(feed::element_types(
                &requests.uris.list[types.len()..],
                options.flags.config.cf,
            ));
        }
        if requests.items.is_empty() {
            return if *first == 0 { no_requests(path) } else { Ok(None) };
        }
        *first += requests.items.len();
        let all = if has_more { lines.count_expected() } else { Some(*first as u64) };
        progress.set_count(all);
        Ok(Some(Block { requests, types }))
    }
}
