//! `wavetrain crop`: boxes of arrays into .npy files.
//!
//! A list is read and streamed block by block, so that memory stays small whatever its length is.
//! Requests of a block are grouped by sample shape and element type; each group streams through one
//! loader, in order, and every sample goes to its file as soon as its batch is out. A request whose
//! array cannot be read joins a group all the same, so that its failure comes out of the stream in
//! order, in the library's words.

mod endings;
mod fields;
mod options;

use crate::fault::{Fault, Outcome, failed, failure_text};
use crate::feed::{self, Receiver, Stop};
use crate::npy::{self, Element, Writer};
use crate::progress::Progress;
use crate::report;
use crate::requests::Requests;
use crate::staging;
use endings::Endings;
pub use options::help;
use options::{Block, Options, Target};
use serde_json::{Value, json};
use wavetrain::config::Config;
use wavetrain::loader::{Batch, Failure};
use wavetrain::records::Dtype;
use wavetrain::status::Status;

/// Requests that go through one loader.
struct Group {
    shape: Vec<u64>,
    element: Element,
    /// Which requests of the block, in order.
    indexes: Vec<usize>,
}

/// The one file that all boxes go to.
struct Stack {
    writer: Writer,
    shape: Vec<u64>,
    element: Element,
    row_bytes: u64,
}

/// The target of all blocks, and how many of their requests failed.
struct Sink<'a> {
    options: &'a Options,
    /// None before the first box, and in a folder.
    stack: Option<Stack>,
    /// Requests of the blocks before.
    count: usize,
    failures: usize,
}

/// The same of a block.
struct BlockSink<'a, 'b> {
    requests: &'a Requests,
    sink: &'a mut Sink<'b>,
    endings: Endings,
}

/// Runs the command.
pub fn run(parser: &mut lexopt::Parser) -> Outcome<()> {
    let Some((options, mut source)) = options::options(parser)? else { return Ok(()) };
    if let Target::Folder(folder) = &options.target {
        std::fs::create_dir_all(folder).map_err(|error| Fault::path(folder, &error))?;
    }
    let progress = Progress::begin(None, "cropping");
    let mut sink = Sink { options: &options, stack: None, count: 0, failures: 0 };
    while let Some(block) = source.next(&options, sink.stack.is_some(), &progress)? {
        run_block(&options, &block, &mut sink, &progress)?;
    }
    drop(progress);
    sink.finish()
}

fn run_block(
    options: &Options,
    block: &Block,
    sink: &mut Sink<'_>,
    progress: &Progress,
) -> Outcome<()> {
    let requests = &block.requests;
    let groups = groups(options, block, sink.stack.as_ref());
    open_stack(options, &groups, requests.items.len(), sink)?;
    let endings = Endings::new(requests.items.len(), &requests.malformed);
    progress.step(requests.malformed.len() as u64);
    let mut sink = BlockSink { requests, sink, endings };
    for group in &groups {
        match run_group(options, group, block, &mut sink, progress) {
            Ok(()) => {}
            Err(Stop::Tool(fault)) => return Err(fault),
            Err(Stop::Library(failure)) if options.keep_going && failure.tag == 0 => {
                sink.endings.give_up(group.indexes.iter().copied(), &failure);
                sink.tell()?;
            }
            Err(Stop::Library(failure)) => return sink.stop(&failure, group),
        }
    }
    sink.end()
}

/// Groups requests by shape and type, in the order of their first request. Those of arrays that
/// cannot be read join the `stack`, or a group of their shape.
fn groups(options: &Options, block: &Block, stack: Option<&Stack>) -> Vec<Group> {
    let config = &options.flags.config;
    let requests = &block.requests;
    let mut groups: Vec<Group> = Vec::new();
    let mut unknown = Vec::new();
    for (index, (uri, extent)) in requests.items.iter().enumerate() {
        if requests.malformed.contains_key(&index) {
            continue;
        }
        let shape = sample_shape(config, extent.shape());
        let kind = match (options.source, block.types[*uri]) {
            (true, known) => known.map(|known| known.element),
            (false, _) => Dtype::from_code(config.dtype).map(|dtype| (dtype, type_bytes(config))),
        };
        match kind {
            Some(element) => join(&mut groups, shape, element, index),
            None => unknown.push((index, shape)),
        }
    }
    for (index, shape) in unknown {
        let known = stack.filter(|stack| stack.shape == shape).map(|stack| stack.element);
        let like = || groups.iter().find(|group| group.shape == shape).map(|group| group.element);
        let element = known.or_else(like).unwrap_or((Dtype::U8, 1));
        join(&mut groups, shape, element, index);
    }
    for group in &mut groups {
        group.indexes.sort_unstable();
    }
    groups.sort_by_key(|group| group.indexes.first().copied());
    groups
}

fn join(groups: &mut Vec<Group>, shape: Vec<u64>, element: Element, index: usize) {
    let same = |group: &&mut Group| group.shape == shape && group.element == element;
    match groups.iter_mut().find(same) {
        Some(group) => group.indexes.push(index),
        None => groups.push(Group { shape, element, indexes: vec![index] }),
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

/// Makes the one file, which all groups must fit. `count`: requests of this block, which is the
/// only one unless the file is regular.
fn open_stack(
    options: &Options,
    groups: &[Group],
    count: usize,
    sink: &mut Sink<'_>,
) -> Outcome<()> {
    let (Target::File(path), Some(first)) = (&options.target, groups.first()) else {
        return Ok(());
    };
    let begun = sink.stack.as_ref().map(|stack| (&stack.shape, stack.element));
    let (shape, element) = begun.unwrap_or((&first.shape, first.element));
    if let Some(other) = groups.iter().find(|group| group.shape != *shape) {
        return failed(format!(
            "boxes of different shapes ({} and {}) do not stack into one file: use --out-dir",
            report::crosses(shape),
            report::crosses(&other.shape)
        ));
    }
    if let Some(other) = groups.iter().find(|group| group.element != element) {
        return failed(format!(
            "arrays of different types ({} and {}) do not stack into one file: use --dtype or \
             --out-dir",
            element.0.name(),
            other.element.0.name()
        ));
    }
    if sink.stack.is_some() {
        return Ok(());
    }
    let writer = if options.unstacked {
        Writer::create(path, element, shape)
    } else if npy::is_regular(path) {
        Writer::create_rows(path, element, shape)
    } else {
        Writer::create(path, element, &[&[count as u64], &shape[..]].concat())
    };
    let writer = writer?;
    let row_bytes = shape.iter().product::<u64>() * u64::from(element.1);
    sink.stack = Some(Stack { writer, shape: shape.clone(), element, row_bytes });
    Ok(())
}

fn run_group(
    options: &Options,
    group: &Group,
    block: &Block,
    sink: &mut BlockSink<'_, '_>,
    progress: &Progress,
) -> Result<(), Stop> {
    let Block { requests, types } = block;
    let mut config = options.flags.config;
    feed::set_shape(&mut config, &group.shape)?;
    let (dtype, dtype_bytes) = group.element;
    config.dtype = dtype as u32;
    config.dtype_bytes = if dtype == Dtype::Raw { dtype_bytes } else { 0 };
    let element = u64::from(group.element.1);
    let bytes = group.shape.iter().fold(element, |all, extent| all.saturating_mul(*extent));
    let indices = group.indexes.iter().map(|index| requests.items[*index].1.indices());
    feed::set_indices(&mut config, &options.flags, indices);
    feed::set_batch(&mut config, &options.flags, bytes, group.indexes.len() as u64);
    if !options.flags.caps_given() {
        if !options.flags.is_given("max_resample_bytes") {
            let field = (config.pad_mode, config.cf);
            let boxes = group.indexes.iter().map(|index| requests.box_of(*index, field));
            staging::fit(&mut config, (&requests.uris.list, types), boxes);
        }
        let mut seen = vec![false; types.len()];
        let uris = group.indexes.iter().map(|index| requests.items[*index].0);
        let uris = uris.filter(|uri| !std::mem::replace(&mut seen[*uri], true));
        feed::fit_known(&mut config, uris.map(|uri| (&*requests.uris.list[uri], types[uri])))?;
    }
    let loader = feed::open(&config)?;
    let indexes = group.indexes.iter().copied();
    let mut receiver = GroupSink { group, sink };
    feed::stream(&loader, requests, indexes, config.pop_timeout_ns, progress, &mut receiver)
}

/// The sink of one group's batches.
struct GroupSink<'a, 'b, 'c> {
    group: &'a Group,
    sink: &'a mut BlockSink<'b, 'c>,
}

impl Receiver for GroupSink<'_, '_, '_> {
    fn take(&mut self, batch: &Batch<'_>) -> Outcome<()> {
        let data = feed::samples(batch)?;
        let ended = self.sink.endings.take(batch);
        let rows = data.chunks(data.len() / ended.len());
        for ((index, status), row) in ended.into_iter().zip(rows) {
            self.sink.write(index, status, row, self.group)?;
        }
        self.sink.tell()
    }

    fn refuse(&mut self, index: usize, failure: &Failure) -> bool {
        let keep_going = self.sink.sink.options.keep_going;
        if keep_going {
            self.sink.endings.refuse(index, failure);
        }
        keep_going
    }
}

impl BlockSink<'_, '_> {
    /// Writes a row where it belongs. In a stack, requests that never came out leave zeros.
    fn write(&mut self, index: usize, status: Status, row: &[u8], group: &Group) -> Outcome<()> {
        let number = self.requests.first + index;
        if let Some(stack) = &mut self.sink.stack {
            stack.writer.fill_to((number as u64).saturating_mul(stack.row_bytes))?;
            return stack.writer.write(row);
        }
        match &self.sink.options.target {
            Target::Folder(folder) if status == Status::Ok || self.sink.options.fills_nan => {
                let path = folder.join(format!("{number:06}.npy"));
                let mut file = Writer::create(&path, group.element, &group.shape)?;
                file.write(row)?;
                file.finish()
            }
            _ => Ok(()),
        }
    }

    /// Reports how requests ended, in their order, up to the first that has not ended.
    fn tell(&mut self) -> Outcome<()> {
        let (requests, json) = (self.requests, self.sink.options.json);
        let name = |index| requests.name(index);
        self.endings.tell(name, |index, status, text| match json {
            true => report::print(&json_line(requests, index, status, text)),
            false => Ok(()),
        })
    }

    /// Ends after a failure that the stream does not survive.
    fn stop(&mut self, failure: &Failure, group: &Group) -> Outcome<()> {
        self.tell()?;
        // A config that cannot be opened is the matter of the group's first request.
        let Some(index) =
            feed::request_of(failure, self.requests).or_else(|| group.indexes.first().copied())
        else {
            return Err(Fault::library(failure));
        };
        if self.sink.options.json {
            let text = failure.text.as_str();
            report::print(&json_line(self.requests, index, failure.status, text))?;
        }
        failed(format!("{}: {}", self.requests.name(index), failure_text(failure)))
    }

    /// Ends the block: requests that never came out have failed.
    fn end(mut self) -> Outcome<()> {
        self.tell()?;
        self.sink.failures += self.endings.failures();
        self.sink.count += self.requests.items.len();
        Ok(())
    }
}

/// `{"index":3,"status":"DECODE","uri":"..","box":[[0,64]],"error":".."}` and a line end; uri and
/// box of a line that is no request are null.
fn json_line(requests: &Requests, index: usize, status: Status, text: &str) -> String {
    let number = requests.first + index;
    let (mut uri, mut extent) = (Value::Null, Value::Null);
    if !requests.malformed.contains_key(&index) {
        let found = &requests.items[index].1;
        uri = Value::from(requests.uri(index));
        let axes = found.begin.iter().zip(&found.end);
        extent = axes.map(|(begin, end)| json!([begin, end])).collect();
    }
    let error = match status {
        Status::Ok => String::new(),
        _ => format!(",\"error\":{}", Value::from(text)),
    };
    format!(
        "{{\"index\":{number},\"status\":\"{status}\",\"uri\":{uri},\"box\":{extent}{error}}}\n"
    )
}

impl Sink<'_> {
    fn finish(self) -> Outcome<()> {
        let (failures, all) = (self.failures, self.count);
        // A stack of nothing but padding helps nobody.
        if let Some(mut stack) = self.stack
            && failures < all
        {
            let rows = if self.options.unstacked { 1 } else { all as u64 };
            stack.writer.fill_to(rows.saturating_mul(stack.row_bytes))?;
            stack.writer.finish()?;
        }
        if failures == 0 {
            return Ok(());
        }
        failed(format!("{failures} of {all} requests failed"))
    }
}
