//! The config as flags: one flag per field, the field's name with dashes, kept in one table from
//! which parsing and help are made. A test compares the table with the struct, so that a new field
//! cannot be forgotten.
//!
//! Hooks and `consumer_stream` are addresses inside a process and have no flag.

use crate::fault::{Outcome, usage};
use std::ffi::{CStr, CString, OsString};
use std::fmt::Write as _;
use wavetrain::base::limits::RANK_MAX;
use wavetrain::config::{self, Config};
use wavetrain::cuda::DriverPath;
use wavetrain::records::DTYPES;

/// Names of an enumeration and their values.
type Names = &'static [(&'static str, u32)];

/// How the value of a field is written on the command line.
enum Kind {
    /// A count.
    Count(fn(&mut Config) -> &mut u32),
    /// A number of bytes with an optional suffix.
    Bytes(fn(&mut Config) -> &mut u64),
    /// A time with an optional unit.
    Time(fn(&mut Config) -> &mut u64),
    /// A number that may be negative.
    Signed(fn(&mut Config) -> &mut i32),
    /// 0 or 1, or nothing for 1.
    Switch(fn(&mut Config) -> &mut u32),
    /// One of a few names.
    Choice(fn(&mut Config) -> &mut u32, Names),
    /// An element type.
    Dtype,
    /// Extents; also sets the rank.
    Shape,
    /// A real number; also sets `pad_value_set`.
    PadValue,
    /// name=value pairs of `metadata_latency`.
    Latency,
    /// A path.
    Path(fn(&mut Config) -> &mut DriverPath),
}

/// One field of the config.
struct Field {
    name: &'static str,
    kind: Kind,
    help: &'static str,
}

const fn field(name: &'static str, kind: Kind, help: &'static str) -> Field {
    Field { name, kind, help }
}

const BACKENDS: Names = &[
    ("auto", config::BACKEND_AUTO),
    ("host", config::BACKEND_HOST),
    ("cuda", config::BACKEND_CUDA),
];
const THREAD_MODES: Names =
    &[("own", config::THREADS_OWN), ("pump", config::THREADS_PUMP), ("hook", config::THREADS_HOOK)];
const ON_ERRORS: Names = &[("fail", config::ON_ERROR_FAIL), ("skip", config::ON_ERROR_SKIP)];
const MISSING: Names = &[("fill", config::MISSING_FILL), ("error", config::MISSING_ERROR)];
const PADS: Names = &[
    ("none", config::PAD_NONE),
    ("constant", config::PAD_CONSTANT),
    ("edge", config::PAD_EDGE),
    ("reflect", config::PAD_REFLECT),
];
const GDS: Names = &[("auto", config::AUTO), ("off", config::GDS_OFF), ("on", config::GDS_ON)];
const NUMA: Names = &[("auto", config::AUTO), ("off", config::NUMA_OFF), ("pin", config::NUMA_PIN)];
const READERS: Names = &[
    ("auto", config::READER_AUTO),
    ("threads", config::READER_THREADS),
    ("uring", config::READER_URING),
    ("direct", config::READER_DIRECT),
];
const LEVELS: Names = &[
    ("trace", 0),
    ("debug", 1),
    ("info", 2),
    ("warn", 3),
    ("error", 4),
    ("fatal", 5),
    ("off", config::LOG_OFF),
];

const FIELDS: &[Field] = &[
    field("samples-per-batch", Kind::Count(|c| &mut c.samples_per_batch), "samples in a batch"),
    field("sample-rank", Kind::Count(|c| &mut c.sample_rank), "axes of a sample"),
    field("sample-shape", Kind::Shape, "extents of a sample: 64,128,128 (sets sample-rank)"),
    field("dtype", Kind::Dtype, "output element type"),
    field("dtype-bytes", Kind::Count(|c| &mut c.dtype_bytes), "bytes of a raw element"),
    field(
        "max-gpu-memory-bytes",
        Kind::Bytes(|c| &mut c.max_gpu_memory_bytes),
        "cap on device bytes; 0 = derived",
    ),
    field(
        "max-host-memory-bytes",
        Kind::Bytes(|c| &mut c.max_host_memory_bytes),
        "cap on host bytes; 0 = derived",
    ),
    field(
        "lookahead-samples",
        Kind::Count(|c| &mut c.lookahead_samples),
        "samples taken ahead; 0 = two batches",
    ),
    field("n-batch-slots", Kind::Count(|c| &mut c.n_batch_slots), "batches in flight"),
    field(
        "max-chunk-uncompressed-bytes",
        Kind::Bytes(|c| &mut c.max_chunk_uncompressed_bytes),
        "largest decoded chunk",
    ),
    field("max-read-op-bytes", Kind::Bytes(|c| &mut c.max_read_op_bytes), "largest merged read"),
    field("host-buffer-waves", Kind::Count(|c| &mut c.host_buffer_waves), "waves staged at a time"),
    field("max-chunks-per-wave", Kind::Count(|c| &mut c.max_chunks_per_wave), "chunks in a wave"),
    field(
        "max-substreams-per-chunk",
        Kind::Count(|c| &mut c.max_substreams_per_chunk),
        "most blosc streams in a chunk; 0 = no limit",
    ),
    field("n-io-threads", Kind::Count(|c| &mut c.n_io_threads), "threads that wait for storage"),
    field(
        "n-decode-threads",
        Kind::Count(|c| &mut c.n_decode_threads),
        "threads that decode; 0 = CPUs (short: --threads)",
    ),
    field(
        "metadata-io-concurrency",
        Kind::Count(|c| &mut c.metadata_io_concurrency),
        "metadata reads in flight",
    ),
    field("n-array-meta-cache", Kind::Count(|c| &mut c.n_array_meta_cache), "cached arrays"),
    field("n-shard-index-cache", Kind::Count(|c| &mut c.n_shard_index_cache), "cached index pages"),
    field(
        "n-chunk-layout-cache",
        Kind::Count(|c| &mut c.n_chunk_layout_cache),
        "cached file layouts",
    ),
    field(
        "max-shards-per-sample",
        Kind::Count(|c| &mut c.max_shards_per_sample),
        "most shards that a box touches; 0 = no limit",
    ),
    field("chunk-cache-bytes", Kind::Bytes(|c| &mut c.chunk_cache_bytes), "decoded chunks to keep"),
    field("backend", Kind::Choice(|c| &mut c.backend, BACKENDS), "where batches are made"),
    field("device", Kind::Signed(|c| &mut c.device), "CUDA device; -1 = the current context"),
    field("thread-mode", Kind::Choice(|c| &mut c.thread_mode, THREAD_MODES), "who runs the work"),
    field("drop-last", Kind::Switch(|c| &mut c.drop_last), "discard a partial last batch"),
    field("on-error", Kind::Choice(|c| &mut c.on_error, ON_ERRORS), "after a failing sample"),
    field(
        "missing-chunks",
        Kind::Choice(|c| &mut c.missing_chunks, MISSING),
        "what a chunk that does not exist is",
    ),
    field("pad-mode", Kind::Choice(|c| &mut c.pad_mode, PADS), "boxes that reach outside"),
    field(
        "pad-value-set",
        Kind::Switch(|c| &mut c.pad_value_set),
        "constant padding takes pad-value, not the fill value",
    ),
    field("pad-value", Kind::PadValue, "what padding holds (sets pad-value-set)"),
    field(
        "pop-timeout-ns",
        Kind::Time(|c| &mut c.pop_timeout_ns),
        "longest wait for a batch: 500ms, 30s; plain numbers are ns",
    ),
    field(
        "enable-gds",
        Kind::Choice(|c| &mut c.enable_gds, GDS),
        "GPUDirect Storage; not built yet",
    ),
    field(
        "numa-strategy",
        Kind::Choice(|c| &mut c.numa_strategy, NUMA),
        "NUMA placement; not built yet",
    ),
    field("numa-node", Kind::Signed(|c| &mut c.numa_node), "NUMA node; -1 = none; not built yet"),
    field("log-level", Kind::Choice(|c| &mut c.log_level, LEVELS), "least severe level logged"),
    field("log-quiet", Kind::Switch(|c| &mut c.log_quiet), "no log lines on stderr"),
    field("metadata-latency", Kind::Latency, "synthetic latency of metadata; not built yet"),
    field("reader", Kind::Choice(|c| &mut c.reader, READERS), "who reads what is not cached"),
    field("cuda-driver", Kind::Path(|c| &mut c.cuda_driver), "path of the CUDA driver"),
];

/// Fields that cap what config_fit would raise: whoever gives one means it.
const CAPS: &[&str] = &[
    "max-gpu-memory-bytes",
    "max-host-memory-bytes",
    "max-chunk-uncompressed-bytes",
    "max-substreams-per-chunk",
    "max-shards-per-sample",
];

/// A config as far as the command line has filled it.
pub struct ConfigFlags {
    /// The config; fields without a flag have their defaults.
    pub config: Config,
    given: Vec<&'static str>,
}

impl ConfigFlags {
    /// The defaults.
    pub fn new() -> ConfigFlags {
        ConfigFlags { config: Config::default(), given: Vec::new() }
    }

    /// Whether the command line set the field `name`.
    pub fn is_given(&self, name: &str) -> bool {
        self.given.contains(&name)
    }

    /// Whether the command line set a cap, so that config_fit must not raise it.
    pub fn caps_given(&self) -> bool {
        CAPS.iter().any(|cap| self.is_given(cap))
    }

    /// Takes the value of `--name` from the parser; false where there is no such field.
    pub fn take(&mut self, name: &str, parser: &mut lexopt::Parser) -> Outcome<bool> {
        let name = match name {
            "threads" => "n-decode-threads",
            "batch" => "samples-per-batch",
            other => other,
        };
        let Some(field) = FIELDS.iter().find(|field| field.name == name) else {
            return Ok(false);
        };
        let value = match (&field.kind, parser.optional_value()) {
            (_, Some(value)) => value,
            (Kind::Switch(_), None) => OsString::from("1"),
            (_, None) => parser.value()?,
        };
        self.set_text(field.name, &value.to_string_lossy())?;
        Ok(true)
    }

    /// As [`ConfigFlags::take`]; a flag that is no field either is refused by name.
    pub fn take_or_refuse(
        &mut self,
        name: &str,
        parser: &mut lexopt::Parser,
        command: &str,
    ) -> Outcome<()> {
        if self.take(name, parser)? {
            return Ok(());
        }
        usage(format!("unknown flag '--{name}': wavetrain {command} --help lists them"))
    }

    /// Sets a field whose value the command has taken itself.
    pub fn set_text(&mut self, name: &'static str, text: &str) -> Outcome<()> {
        let Some(field) = FIELDS.iter().find(|field| field.name == name) else {
            return usage(format!("unknown flag '--{name}'"));
        };
        if let Err(reason) = self.set(field, text) {
            return usage(format!("--{name} {text}: {reason}"));
        }
        self.given.push(field.name);
        Ok(())
    }

    fn set(&mut self, field: &Field, text: &str) -> Result<(), String> {
        let config = &mut self.config;
        match field.kind {
            Kind::Count(place) => {
                let value = parse_size(text)?;
                *place(config) =
                    u32::try_from(value).map_err(|_| "larger than a 32-bit count".to_owned())?;
            }
            Kind::Bytes(place) => *place(config) = parse_size(text)?,
            Kind::Time(place) => *place(config) = parse_time(text)?,
            Kind::Signed(place) => {
                *place(config) = text.parse().map_err(|_| "not a 32-bit number".to_owned())?;
            }
            Kind::Switch(place) => *place(config) = parse_switch(text)?,
            Kind::Choice(place, names) => *place(config) = parse_choice(text, names)?,
            Kind::Dtype => {
                let found = DTYPES.into_iter().find(|dtype| dtype.name() == text);
                let dtype = found.ok_or_else(|| {
                    let names: Vec<_> = DTYPES.iter().map(|dtype| dtype.name()).collect();
                    format!("one of {}", names.join(", "))
                })?;
                config.dtype = dtype as u32;
            }
            Kind::Shape => set_shape(config, text)?,
            Kind::PadValue => {
                config.pad_value = text.parse().map_err(|_| "not a number".to_owned())?;
                config.pad_value_set = 1;
            }
            Kind::Latency => set_latency(config, text)?,
            Kind::Path(place) => {
                let path = CString::new(text).map_err(|_| "a NUL byte".to_owned())?;
                // The config is copied about, so the path lives as long as the program.
                let path: &'static CStr = Box::leak(path.into_boxed_c_str());
                *place(config) = DriverPath::from_static(path);
            }
        }
        Ok(())
    }
}

/// Every config flag, a line each, with its default.
pub fn fields_help() -> String {
    let mut help = String::new();
    for field in FIELDS {
        let text = wrapped(&format!("{}{}", field.help, hint(field)));
        // Writing into a String cannot fail.
        let _ = writeln!(help, "  --{:<30}{text}", field.name);
    }
    help
}

/// Breaks a help text into lines below each other, between words and between names.
fn wrapped(text: &str) -> String {
    let mut out = String::new();
    let mut width = 0;
    for piece in text.split_inclusive([' ', '|', ',']) {
        if width + piece.len() > 64 {
            out.truncate(out.trim_end().len());
            out.push_str(&format!("\n{:34}", ""));
            width = 0;
        }
        out.push_str(piece);
        width += piece.len();
    }
    out
}

/// The names or the default that a line of the help ends with.
fn hint(field: &Field) -> String {
    let mut config = Config::default();
    match field.kind {
        Kind::Count(place) => format!(" [{}]", place(&mut config)),
        Kind::Bytes(place) => format!(" [{}]", crate::report::bytes_short(*place(&mut config))),
        Kind::Time(place) => format!(" [{}s]", *place(&mut config) / 1_000_000_000),
        Kind::Signed(place) => format!(" [{}]", place(&mut config)),
        Kind::Switch(place) => format!(" [{}]", place(&mut config)),
        Kind::Choice(place, names) => {
            let taken = *place(&mut config);
            let all: Vec<_> = names.iter().map(|name| name.0).collect();
            let default = names.iter().find(|name| name.1 == taken).map_or("", |name| name.0);
            format!(": {} [{default}]", all.join("|"))
        }
        Kind::Dtype => {
            let names: Vec<_> = DTYPES.iter().map(|dtype| dtype.name()).collect();
            format!(": {}", names.join("|"))
        }
        Kind::Latency => {
            ": baseline_ns=..,lognormal_mu_ln_ns=..,lognormal_sigma_ln_ns=..,cap_ns=..,seed=.."
                .into()
        }
        Kind::Path(_) => " [libcuda.so.1]".into(),
        Kind::Shape | Kind::PadValue => String::new(),
    }
}

/// A whole number with an optional suffix: 64MiB, 4k (1024), 2GB (10^9).
pub fn parse_size(text: &str) -> Result<u64, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, suffix) = text.split_at(digits);
    let number: u64 = number.parse().map_err(|_| "not a whole number".to_owned())?;
    let unit: u64 = match suffix.trim_start().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        "t" | "tib" => 1 << 40,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        _ => return Err("a suffix is k, M, G, T, KiB, MiB, GiB, TiB, kB, MB, GB or TB".to_owned()),
    };
    number.checked_mul(unit).ok_or_else(|| "larger than 2^64 bytes".to_owned())
}

/// A time in nanoseconds: 30s, 500ms, 10us, 7ns, 7.
fn parse_time(text: &str) -> Result<u64, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().map_err(|_| "not a whole number".to_owned())?;
    let unit: u64 = match unit.trim_start() {
        "" | "ns" => 1,
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        _ => return Err("a unit is ns, us, ms or s".to_owned()),
    };
    number.checked_mul(unit).ok_or_else(|| "longer than 2^64 ns".to_owned())
}

fn parse_switch(text: &str) -> Result<u32, String> {
    match text {
        "1" | "true" | "yes" | "on" => Ok(1),
        "0" | "false" | "no" | "off" => Ok(0),
        _ => Err("0 or 1".to_owned()),
    }
}

fn parse_choice(text: &str, names: Names) -> Result<u32, String> {
    let found = names.iter().find(|name| name.0 == text);
    found.map(|name| name.1).ok_or_else(|| {
        let all: Vec<_> = names.iter().map(|name| name.0).collect();
        format!("one of {}", all.join(", "))
    })
}

/// "64,128,128" or "64x128x128".
fn set_shape(config: &mut Config, text: &str) -> Result<(), String> {
    let mut shape = [0; RANK_MAX];
    let mut rank = 0;
    for part in text.split([',', 'x']) {
        if rank == RANK_MAX {
            return Err(format!("more than {RANK_MAX} axes"));
        }
        shape[rank] = part.trim().parse().map_err(|_| "extents are like 64,128,128".to_owned())?;
        rank += 1;
    }
    config.sample_shape = shape;
    config.sample_rank = rank as u32;
    Ok(())
}

fn set_latency(config: &mut Config, text: &str) -> Result<(), String> {
    let latency = &mut config.metadata_latency;
    for pair in text.split(',') {
        let (name, value) = pair.split_once('=').ok_or("pairs of name=value")?;
        let real = || value.parse::<f64>().map_err(|_| format!("{name} is not a number"));
        match name {
            "baseline_ns" => latency.baseline_ns = parse_time(value)?,
            "lognormal_mu_ln_ns" => latency.lognormal_mu_ln_ns = real()?,
            "lognormal_sigma_ln_ns" => latency.lognormal_sigma_ln_ns = real()?,
            "cap_ns" => latency.cap_ns = parse_time(value)?,
            "seed" => latency.seed = parse_size(value)?,
            other => return Err(format!("no field '{other}'")),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_config_field_has_a_flag() {
        let source = include_str!("../../setup/config.rs");
        let start = source.find("pub struct Config {").unwrap();
        let body = &source[start..start + source[start..].find("\n}").unwrap()];
        let without = ["struct_size", "reserved", "reserved2", "consumer_stream"];
        let hooks = ["memory", "files", "log", "fatal", "workers", "profiler"];
        let mut seen = 0;
        for line in body.lines().filter_map(|line| line.trim().strip_prefix("pub ")) {
            let Some((name, _)) = line.split_once(':') else { continue };
            if without.contains(&name) || hooks.contains(&name) {
                continue;
            }
            let flag = name.replace('_', "-");
            assert!(FIELDS.iter().any(|field| field.name == flag), "no flag --{flag}");
            seen += 1;
        }
        assert_eq!(seen, FIELDS.len());
    }

    #[test]
    fn sizes_take_binary_and_decimal_suffixes() {
        assert_eq!(parse_size("64MiB"), Ok(64 << 20));
        assert_eq!(parse_size("4k"), Ok(4096));
        assert_eq!(parse_size("2GB"), Ok(2_000_000_000));
        assert_eq!(parse_size("7"), Ok(7));
        for bad in ["", "MiB", "-1", "4q", "1.5G", "99999999999G"] {
            assert!(parse_size(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_shape_is_read_with_commas_or_crosses() {
        let mut config = Config::default();
        set_shape(&mut config, "64x128,32").unwrap();
        assert_eq!((config.sample_rank, &config.sample_shape[..3]), (3, &[64, 128, 32][..]));
        assert!(set_shape(&mut config, "64,,2").is_err());
    }
}
