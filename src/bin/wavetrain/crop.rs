//! `wavetrain crop`: boxes of arrays into .npy files.
//!
//! Requests are grouped by sample shape and element type; each group streams through one loader,
//! in order, and every sample goes to its file as soon as its batch is out. What is kept of a
//! request is its outcome. A request whose array cannot be read joins a group all the
//! same, so that its failure comes out of the stream in order, in the library's words.

use crate::fault::{Fault, Outcome, failed, failure_text, usage};
use crate::feed::{self, ElementType, Receiver, Stop};
use crate::fields::{ConfigFlags, fields_help};
use crate::npy::Writer;
use crate::report;
use crate::requests::Requests;
use crate::samples::{self, Fields, Samples};
use crate::system;
use std::path::{Path, PathBuf};
use wavetrain::config::{Config, ON_ERROR_SKIP};
use wavetrain::loader::{Batch, Failure};
use wavetrain::records::Dtype;
use wavetrain::status::Status;

const HELP: &str = "\
Writes boxes of arrays as .npy files.

  wavetrain crop URI BOX [BOX ..] [URI BOX ..] -o OUT.npy
  wavetrain crop --requests REQS.jsonl -o OUT.npy
  wavetrain crop --requests REQS.jsonl --out-dir DIR
  wavetrain crop --fields FIELDS.json --requests REQS.jsonl --out-dir DIR

A BOX is begin:end per axis, and what is left out of it the array's: 0:64,:,32:160
(--box=-16:48,.. where it starts with a minus); \"\" of an array without axes.
A request is a line {\"uri\": \"..\", \"box\": [[0,64],[0,128]]}; '-' reads standard input.

  -o, --out FILE        boxes of one shape, stacked [N, ..] in order; one box alone on the command
                        line is written unstacked
      --out-dir DIR     one file per request, of any shape: 000000.npy, 000001.npy, ..
      --fields FILE     samples of several boxes, which go to fields: NAME.000000.npy of each field
                        and request. The file is a list of fields,
                          {\"name\": \"image\", \"sample_shape\": [64,64], \"dtype\": \"f32\"}
                        with pad_mode and pad_value if you like; a request is a line
                          {\"boxes\": [{\"field\": \"image\", \"uri\": \"..\",
                            \"box\": [[0,64],[0,64]], \"at\": [0,0], \"step\": [1,-1],
                            \"axes\": [1,0]}, {\"field\": \"label\", \"value\": 3}]}
                        of which at (where the box goes), step and axes (which axis of the field
                        each becomes, null: none) may be left out
      --dtype TYPE      'source' (default) writes each array's own type bit for bit (bf16 as
                        uint16); or a type from the list below
      --keep-going      go on after a failing request, or a line that is none; stacked, its row
                        holds pad-value (zeros where its uri or its line is refused)
      --json            one line per request on standard output

Exit code: 0 when every byte was written, 1 when a request failed, 2 for a wrong command line.
Caps are raised to what the arrays need, unless one is given.

Config (sizes take suffixes: 64MiB, 4k):
";

/// Batches of a crop are at most this large, so that memory stays small whatever the boxes are.
const BATCH_BYTES_MAX: u64 = 32 << 20;
const BATCH_SAMPLES_MAX: u64 = 16;
/// Samples larger than this go through one slot: memory counts more than overlap.
const SLOT_BYTES_LARGE: u64 = 256 << 20;

/// The command line of a crop.
struct Options {
    flags: ConfigFlags,
    requests: Requests,
    target: Target,
    /// Whether a single box is written without the leading axis of 1.
    unstacked: bool,
    keep_going: bool,
    json: bool,
    /// Whether every array keeps its own type.
    source: bool,
}

enum Target {
    File(PathBuf),
    Folder(PathBuf),
}

/// Requests that go through one loader.
struct Group {
    shape: Vec<u64>,
    dtype: Dtype,
    dtype_bytes: u32,
    /// Which requests, in order.
    indexes: Vec<usize>,
}

/// How a request ended.
type Ending = (Status, String);

/// What has come out so far, and where it goes.
struct Sink<'a> {
    options: &'a Options,
    /// The one file of a stack.
    stack: Option<Writer>,
    /// Rows that the stack has.
    stacked: usize,
    endings: Vec<Option<Ending>>,
    /// Requests before this one have their line.
    told: usize,
}

/// Runs the command.
pub fn run(parser: &mut lexopt::Parser) -> Outcome<()> {
    let Some(options) = options(parser)? else { return Ok(()) };
    let types = feed::element_types(&options.requests.uris);
    let groups = groups(&options, &types);
    let stack = open_target(&options, &groups)?;
    let count = options.requests.items.len();
    let mut endings = vec![None; count];
    for (index, text) in &options.requests.malformed {
        endings[*index] = Some((Status::Invalid, text.clone()));
    }
    let mut sink = Sink { options: &options, stack, stacked: 0, endings, told: 0 };
    for group in &groups {
        match run_group(&options, group, &types, &mut sink) {
            Ok(()) => {}
            Err(Stop::Tool(fault)) => return Err(fault),
            Err(Stop::Library(failure)) if options.keep_going && failure.tag == 0 => {
                sink.give_up(group, &failure)?;
            }
            Err(Stop::Library(failure)) => return sink.stop(&failure, group),
        }
    }
    sink.finish()
}

fn options(parser: &mut lexopt::Parser) -> Outcome<Option<Options>> {
    use lexopt::Arg::{Long, Short, Value};
    let mut flags = ConfigFlags::new();
    let (mut out, mut folder, mut file) = (None, None, None);
    let (mut json, mut source) = (false, true);
    let mut fields = None;
    let mut words: Vec<String> = Vec::new();
    while let Some(argument) = parser.next()? {
        match argument {
            Short('h') | Long("help") => {
                report::print(&format!("{HELP}{}", fields_help()))?;
                return Ok(None);
            }
            Short('o') | Long("out") => out = Some(PathBuf::from(parser.value()?)),
            Long("out-dir") => folder = Some(PathBuf::from(parser.value()?)),
            Long("requests") => file = Some(PathBuf::from(parser.value()?)),
            Long("fields") => fields = Some(PathBuf::from(parser.value()?)),
            Long("box") => words.push(word(parser.value()?)?),
            Long("keep-going") => flags.config.on_error = ON_ERROR_SKIP,
            Long("json") => json = true,
            Value(value) => words.push(word(value)?),
            Short(digit) if digit.is_ascii_digit() => {
                return usage("a box that starts with a minus is given as --box=-16:48,..");
            }
            Long("dtype") => {
                let value = parser.value()?;
                source = value == "source";
                if !source {
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
        if json || !source || !words.is_empty() {
            return usage("crop --fields FILE takes no box, no --dtype and no --json");
        }
        let samples = Samples::read(file, Fields::read(&fields)?)?;
        return samples::crop(&mut flags, &samples, folder).map(|()| None);
    }
    let target = target(out, folder)?;
    let keep_going = flags.config.on_error == ON_ERROR_SKIP;
    let by_words = !words.is_empty();
    let requests = match file {
        Some(_) if by_words => return usage("give either URI BOX or --requests FILE"),
        Some(path) => Requests::read(&path, keep_going)?,
        None => Requests::from_words(&words, feed::extents)?,
    };
    let unstacked = by_words && requests.items.len() == 1;
    Ok(Some(Options { flags, requests, target, unstacked, keep_going, json, source }))
}

fn target(out: Option<PathBuf>, folder: Option<PathBuf>) -> Outcome<Target> {
    match (out, folder) {
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

/// Groups requests by shape and type, in the order of their first request.
fn groups(options: &Options, types: &[Option<ElementType>]) -> Vec<Group> {
    let config = &options.flags.config;
    let mut groups: Vec<Group> = Vec::new();
    let mut unknown = Vec::new();
    for (index, (uri, extent)) in options.requests.items.iter().enumerate() {
        if options.requests.malformed.contains_key(&index) {
            continue;
        }
        let shape = sample_shape(config, extent.shape());
        let kind = match (options.source, types[*uri]) {
            (true, known) => known,
            (false, _) => Dtype::from_code(config.dtype).map(|dtype| (dtype, type_bytes(config))),
        };
        match kind {
            Some((dtype, dtype_bytes)) => join(&mut groups, shape, dtype, dtype_bytes, index),
            None => unknown.push((index, shape)),
        }
    }
    for (index, shape) in unknown {
        let like = groups.iter().find(|group| group.shape == shape);
        let (dtype, bytes) = like.map_or((Dtype::U8, 1), |group| (group.dtype, group.dtype_bytes));
        join(&mut groups, shape, dtype, bytes, index);
    }
    for group in &mut groups {
        group.indexes.sort_unstable();
    }
    groups.sort_by_key(|group| group.indexes.first().copied());
    groups
}

fn join(groups: &mut Vec<Group>, shape: Vec<u64>, dtype: Dtype, dtype_bytes: u32, index: usize) {
    let same = |group: &&mut Group| {
        group.shape == shape && group.dtype == dtype && group.dtype_bytes == dtype_bytes
    };
    match groups.iter_mut().find(same) {
        Some(group) => group.indexes.push(index),
        None => groups.push(Group { shape, dtype, dtype_bytes, indexes: vec![index] }),
    }
}

/// Bytes of an element of the config's output type.
fn type_bytes(config: &Config) -> u32 {
    match Dtype::from_code(config.dtype) {
        Some(Dtype::Raw) | None => config.dtype_bytes,
        Some(dtype) => dtype.bytes(),
    }
}

/// The sample shape of the command line, else the extents of the box.
fn sample_shape(config: &Config, extents: Vec<u64>) -> Vec<u64> {
    match config.sample_rank as usize {
        0 => extents,
        rank => config.sample_shape[..rank.min(config.sample_shape.len())].to_vec(),
    }
}

/// Makes the folder, or the one file, whose group must then be the only one.
fn open_target(options: &Options, groups: &[Group]) -> Outcome<Option<Writer>> {
    let path = match &options.target {
        Target::Folder(folder) => {
            std::fs::create_dir_all(folder).map_err(|error| Fault::path(folder, &error))?;
            return Ok(None);
        }
        Target::File(path) => path,
    };
    if groups.is_empty() {
        return Ok(None);
    }
    let [group] = groups else {
        let other = groups.iter().find(|group| group.shape != groups[0].shape);
        return failed(match other {
            Some(other) => format!(
                "boxes of different shapes ({} and {}) do not stack into one file: use --out-dir",
                report::crosses(&groups[0].shape),
                report::crosses(&other.shape)
            ),
            None => format!(
                "arrays of different types ({} and {}) do not stack into one file: use --dtype or \
                 --out-dir",
                groups[0].dtype.name(),
                groups[1].dtype.name()
            ),
        });
    };
    let mut shape = group.shape.clone();
    if !options.unstacked {
        shape.insert(0, options.requests.items.len() as u64);
    }
    Writer::create(path, group.dtype, group.dtype_bytes, &shape).map(Some)
}

fn run_group(
    options: &Options,
    group: &Group,
    types: &[Option<ElementType>],
    sink: &mut Sink<'_>,
) -> Result<(), Stop> {
    let requests = &options.requests;
    let mut config = options.flags.config;
    feed::set_shape(&mut config, &group.shape)?;
    config.dtype = group.dtype as u32;
    config.dtype_bytes = if group.dtype == Dtype::Raw { group.dtype_bytes } else { 0 };
    set_batch(&mut config, &options.flags, group);
    if !options.flags.caps_given() {
        let mut uris: Vec<&str> = Vec::new();
        let mut seen = vec![false; types.len()];
        for index in &group.indexes {
            let uri = requests.items[*index].0;
            if types[uri].is_some() && !std::mem::replace(&mut seen[uri], true) {
                uris.push(&requests.uris[uri]);
            }
        }
        feed::fit(&mut config, &uris)?;
    }
    let loader = feed::open(&config)?;
    let indexes = group.indexes.iter().copied();
    let mut receiver = GroupSink { group, sink };
    feed::stream(&loader, requests, indexes, config.pop_timeout_ns, &mut receiver)
}

/// Takes no more memory for batches than the group can use: a single box takes a single slot.
fn set_batch(config: &mut Config, flags: &ConfigFlags, group: &Group) {
    let element = u64::from(group.dtype_bytes);
    let bytes = group.shape.iter().fold(element, |all, extent| all.saturating_mul(*extent));
    let count = group.indexes.len() as u64;
    if !flags.is_given("samples_per_batch") {
        let fitting = (BATCH_BYTES_MAX / bytes.max(1)).clamp(1, BATCH_SAMPLES_MAX);
        config.samples_per_batch = fitting.min(count) as u32;
    }
    if !flags.is_given("n_batch_slots") {
        let batches = count.div_ceil(u64::from(config.samples_per_batch.max(1)));
        let useful = if bytes > SLOT_BYTES_LARGE { 1 } else { batches };
        config.n_batch_slots = u64::from(config.n_batch_slots).min(useful) as u32;
    }
}

/// The sink of one group's batches.
struct GroupSink<'a, 'b> {
    group: &'a Group,
    sink: &'a mut Sink<'b>,
}

impl Receiver for GroupSink<'_, '_> {
    fn take(&mut self, batch: &Batch<'_>) -> Outcome<()> {
        let count = batch.tags().len();
        let data = feed::samples(batch)?;
        let row_bytes = data.len() / count.max(1);
        for (sample, tag) in batch.tags().iter().enumerate() {
            let index = (*tag - 1) as usize;
            let code = batch.statuses().get(sample).copied().unwrap_or(0);
            let status = Status::from_code(code).unwrap_or(Status::Internal);
            let row = &data[sample * row_bytes..(sample + 1) * row_bytes];
            self.sink.write(index, status, row, self.group)?;
            let text = match status {
                Status::Ok => String::new(),
                _ => skipped_text(*tag, status),
            };
            self.sink.endings[index] = Some((status, text));
        }
        self.sink.tell()
    }

    fn refuse(&mut self, index: usize, failure: &Failure) -> bool {
        if self.sink.options.keep_going {
            self.sink.endings[index] = Some((failure.status, failure.text.as_str().to_owned()));
        }
        self.sink.options.keep_going
    }
}

/// What the log said about a skipped sample, without the status in front.
fn skipped_text(tag: u64, status: Status) -> String {
    let text = system::take_text(tag).unwrap_or_default();
    match text.strip_prefix(status.name()).and_then(|rest| rest.strip_prefix(": ")) {
        Some(rest) => rest.to_owned(),
        None => text,
    }
}

impl Sink<'_> {
    /// Writes a row where it belongs. In a stack, requests that never came out leave zeros.
    fn write(&mut self, index: usize, status: Status, row: &[u8], group: &Group) -> Outcome<()> {
        if let Some(stack) = &mut self.stack {
            while self.stacked < index {
                stack.write(&vec![0; row.len()])?;
                self.stacked += 1;
            }
            self.stacked += 1;
            return stack.write(row);
        }
        match &self.options.target {
            Target::Folder(folder) if status == Status::Ok => write_file(folder, index, group, row),
            _ => Ok(()),
        }
    }

    /// Tells how requests ended, in their order, up to the first that has not ended.
    fn tell(&mut self) -> Outcome<()> {
        while let Some(Some((status, text))) = self.endings.get(self.told) {
            let index = self.told;
            if *status != Status::Ok {
                let name = self.options.requests.name(index);
                report::warn(&format!("{name}: {status}: {text}"));
            }
            if self.options.json {
                report::print(&json_line(index, *status, text))?;
            }
            self.told += 1;
        }
        Ok(())
    }

    /// Ends after a failure that the stream does not survive.
    fn stop(&mut self, failure: &Failure, group: &Group) -> Outcome<()> {
        self.tell()?;
        let requests = &self.options.requests;
        // A config that cannot be opened is the matter of the group's first request.
        let Some(index) =
            feed::request_of(failure, requests).or_else(|| group.indexes.first().copied())
        else {
            return Err(Fault::library(failure));
        };
        if self.options.json {
            report::print(&json_line(index, failure.status, failure.text.as_str()))?;
        }
        failed(format!("{}: {}", requests.name(index), failure_text(failure)))
    }

    /// Marks what is left of a group that no loader can be opened for.
    fn give_up(&mut self, group: &Group, failure: &Failure) -> Outcome<()> {
        for index in &group.indexes {
            self.endings[*index]
                .get_or_insert_with(|| (failure.status, failure.text.as_str().to_owned()));
        }
        self.tell()
    }

    fn finish(mut self) -> Outcome<()> {
        self.tell()?;
        let failing = |ending: &&Option<Ending>| {
            ending.as_ref().is_none_or(|(status, _)| *status != Status::Ok)
        };
        let failures = self.endings.iter().filter(failing).count();
        let all = self.endings.len();
        // A stack of nothing but padding helps nobody.
        if let Some(mut stack) = self.stack
            && failures < all
        {
            stack.fill_up()?;
            stack.finish()?;
        }
        if failures == 0 {
            return Ok(());
        }
        failed(format!("{failures} of {all} requests failed"))
    }
}

/// `{"index":3,"status":"DECODE","error":"..."}` and a line end.
fn json_line(index: usize, status: Status, text: &str) -> String {
    match status {
        Status::Ok => format!("{{\"index\":{index},\"status\":\"OK\"}}\n"),
        _ => {
            let text = serde_json::Value::from(text);
            format!("{{\"index\":{index},\"status\":\"{status}\",\"error\":{text}}}\n")
        }
    }
}

fn write_file(folder: &Path, index: usize, group: &Group, row: &[u8]) -> Outcome<()> {
    let path = folder.join(format!("{index:06}.npy"));
    let mut file = Writer::create(&path, group.dtype, group.dtype_bytes, &group.shape)?;
    file.write(row)?;
    file.finish()
}
