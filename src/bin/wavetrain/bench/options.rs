//! The command line of `wavetrain bench`, and its help.
//!
//! In: arguments. Out: options that fit together; a loader to share, or a consumer of one.

use crate::augments;
use crate::fault::{Fault, Outcome, usage};
use crate::fields::{ConfigFlags, fields_help_without};
use crate::report;
use crate::shared;
use crate::system;
use crate::trace;
use std::ffi::CString;
use std::path::{Path, PathBuf};
use wavetrain::setup::share::ShareName;

/// Fields of the config that a consumer takes.
const OF_CONSUMER: [&str; 2] = ["pop_timeout_ns", "attach_timeout_ns"];

const HELP: &str = "\
Streams the boxes of a request list and measures.

  wavetrain bench --requests REQS.jsonl --batch 8 [--json] [--repeat R] [--verify] [config flags]
  wavetrain bench --fields FIELDS.json --requests REQS.jsonl --batch 8 [..]
  wavetrain bench --share NAME --consumers N --requests REQS.jsonl --batch 8 [..]
  wavetrain bench --attach NAME --consumer K [--json] [--repeat R] [--verify]

A request is a line {\"uri\": \"..\", \"box\": [[0,64],[0,128]]}; all boxes have one shape.

      --requests FILE   the list; '-' reads standard input
      --fields FILE     samples of several boxes for fields: a table and requests as
                        wavetrain crop --help shows them; each field has its own shape and type
      --augment FILE    arithmetic on the elements of each box, and an affine map, see below
      --repeat R        replay the list R times through one loader [1]; figures are those of the
                        repeat of median time, open_seconds and first_batch_seconds of the first
      --through-hook    read files through a files hook of the tool, one pread for each read: the
                        cost of a program's own files, to compare with those of the system
      --verify          add crcs, the CRC-32 (IEEE) of every batch's bytes, in order; with --fields
                        of each batch a list, of each field in the table's order; not for timing
      --digest          give each sample a digest of its bytes, and add digest: of the run (with
                        --fields of each field) the sum over the samples of mix(position in the
                        list, digest), as wavetrain.h has it
      --digest-to FILE  write them: a line for each sample, of position, tag and digests
      --digest-from FILE  compare with such a file as samples come, and end with the first that
                        differs; '-' reads standard input
      --trace FILE      write the last events of stages of the last repeat, 1,048,576 unless
                        --trace-events has another number, as JSON for https://ui.perfetto.dev
      --json            one JSON object on standard output
      --share NAME      one loader for the processes of a node: this process opens it and pushes,
                        N processes that it starts take batches. samples, batches and rates are
                        sums; consumers: of each. --share-order chooses who gets which
      --consumers N     how many processes, 1 to 64
      --attach NAME     take the batches of a loader that shares this name, until its END, R times;
                        with --json a line once attached, one for each END, one for a failure.
                        seconds: from the wait for the first batch. It waits for the owner for
                        --attach-timeout-ns
      --consumer K      as this consumer, counted from 0

seconds: first push to last pop. first_batch_seconds: first push to first pop. open_seconds: the
open itself. bill_bytes: the memory that open took. voxel_gb_per_s: source voxels delivered, 10^9
bytes; pushed values do not count.
failed: samples that failed with --on-error skip, in the repeat that has most of them; the exit code
is 1 if there are any.
peak_rss_bytes: of the process, from before open. backend: where batches are made, and why.
decoded_for_device (on a device): chunks that threads of the CPU decoded, by codec; those of them
that were decoded straight into a slab, and those whose shuffle the device undoes.
chunk_cache (with --chunk-cache-bytes): chunks found decoded, decoded, and evicted; decoded bytes of
the hits, and held at the end.

Caps are raised to what the arrays need, unless one is given.

Config (sizes take suffixes: 64MiB, 4k):
";

/// The text of --help.
pub fn help() -> String {
    let fields = fields_help_without("augment");
    format!("{HELP}{fields}{}", augments::HELP)
}

/// The command line.
#[derive(Default)]
pub struct Options {
    /// The config.
    pub flags: ConfigFlags,
    /// The options about sharing.
    pub asked: shared::Asked,
    /// How often the list is replayed.
    pub repeat: u32,
    /// Whether checksums are wanted.
    pub verify: bool,
    /// Whether the figures are JSON.
    pub json: bool,
    /// The list.
    pub requests: Option<PathBuf>,
    /// The table of fields.
    pub fields: Option<PathBuf>,
    /// Arithmetic.
    pub augment: Option<PathBuf>,
    /// A file of digests to write.
    pub digest_to: Option<PathBuf>,
    /// A file of events to write.
    pub trace: Option<PathBuf>,
    /// One to compare with.
    pub digest_from: Option<PathBuf>,
}

/// None: help was asked for.
pub fn options(parser: &mut lexopt::Parser) -> Outcome<Option<Options>> {
    use lexopt::Arg::{Long, Short, Value};
    let mut options = Options { repeat: 1, ..Options::default() };
    let text = |parser: &mut lexopt::Parser| -> Outcome<String> {
        Ok(parser.value()?.to_string_lossy().into_owned())
    };
    let path = |parser: &mut lexopt::Parser| -> Outcome<Option<PathBuf>> {
        Ok(Some(PathBuf::from(parser.value()?)))
    };
    while let Some(argument) = parser.next()? {
        match argument {
            Short('h') | Long("help") => {
                report::print(&help())?;
                return Ok(None);
            }
            Long("requests") => options.requests = path(parser)?,
            Long("fields") => options.fields = path(parser)?,
            Long("augment") => {
                options.augment = Some(augments::take(&mut options.flags, parser)?);
            }
            Long("repeat") => {
                let text = text(parser)?;
                options.repeat = match text.parse::<u32>() {
                    Ok(count) if count > 0 => count,
                    _ => return usage(format!("--repeat {text}: not a count of at least 1")),
                };
            }
            Long("through-hook") => options.flags.config.files = system::files_hook(),
            Long("verify") => options.verify = true,
            Long("digest-to") => options.digest_to = path(parser)?,
            Long("digest-from") => options.digest_from = path(parser)?,
            Long("trace") => options.trace = path(parser)?,
            Long("json") => options.json = true,
            Long("share") => options.asked.share = Some(text(parser)?),
            Long("consumers") => options.asked.consumers = Some(text(parser)?),
            Long("attach") => options.asked.attach = Some(text(parser)?),
            Long("consumer") => options.asked.consumer = Some(text(parser)?),
            Long(name) => {
                let name = name.to_owned();
                options.flags.take_or_refuse(&name, parser, "bench")?;
            }
            Value(value) => {
                let value = value.to_string_lossy().into_owned();
                return usage(format!("{value}: bench reads boxes from a list, --requests FILE"));
            }
            other => return Err(other.unexpected().into()),
        }
    }
    let events = &mut options.flags.config.trace_events;
    if options.trace.is_some() && *events == 0 {
        *events = trace::EVENTS;
    }
    Ok(Some(options))
}

/// The consumer that is asked for, if one is.
pub fn consumer(options: &Options) -> Outcome<Option<shared::Consumer>> {
    let Some(number) = options.asked.number()? else { return Ok(None) };
    let Options { flags, asked, requests, fields, augment, digest_to, digest_from, trace, .. } =
        options;
    let files = [requests, fields, augment, digest_to, digest_from, trace];
    let is_owner = asked.share.is_some() || asked.consumers.is_some();
    if is_owner || files.iter().any(|file| file.is_some()) || flags.has_other(&OF_CONSUMER) {
        return usage(
            "bench --attach takes --consumer, --repeat, --verify, --json, --pop-timeout-ns and \
             --attach-timeout-ns: give the rest to the owner, bench --share",
        );
    }
    Ok(Some(shared::Consumer {
        name: asked.attach.clone().unwrap_or_default(),
        number,
        repeat: options.repeat,
        verify: options.verify,
        json: options.json,
        pop_timeout_ns: flags.config.pop_timeout_ns,
        attach_timeout_ns: flags.config.attach_timeout_ns,
    }))
}

/// Checks the options against each other; the list.
pub fn checked(options: &mut Options) -> Outcome<PathBuf> {
    let flags = &mut options.flags;
    let count = options.asked.count(|name| flags.is_given(name))?;
    let Some(requests) = options.requests.clone() else {
        return usage("bench needs --requests FILE");
    };
    let is_filed = options.digest_to.is_some() || options.digest_from.is_some();
    if let Some((name, count)) = options.asked.share.as_deref().zip(count) {
        if options.trace.is_some() {
            return usage("--trace is not for --share: trace a bench of one process");
        }
        if is_filed {
            return usage("--digest-to and --digest-from are not for --share: use --digest");
        }
        // The config is copied about, so the name lives as long as the program.
        let name = CString::new(name).map_err(|_| Fault::Usage("--share: a NUL byte".into()))?;
        flags.config.share_name = ShareName::from_static(Box::leak(name.into_boxed_c_str()));
        flags.config.share_consumers = count;
    }
    if is_filed {
        if flags.is_given("digest") && flags.config.digest == 0 {
            return usage("--digest 0 leaves no digests for --digest-to and --digest-from");
        }
        flags.config.digest = 1;
    }
    let stdin = Path::new("-");
    if requests == stdin && options.digest_from.as_deref() == Some(stdin) {
        return usage("--requests and --digest-from cannot both read standard input");
    }
    Ok(requests)
}
