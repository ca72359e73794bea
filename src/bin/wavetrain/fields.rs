//! The config as flags: one flag per field, the field's name with dashes. Kind and help of a flag
//! stand in the library's table of fields, from which parsing and help are made. A test looks for
//! fields without a flag, so that a new one cannot be forgotten.
//!
//! Hooks and `consumer_stream` are addresses inside a process and have no flag.

use crate::fault::{Outcome, usage};
use crate::store;
use std::ffi::{CStr, CString, OsString};
use std::fmt::Write as _;
use wavetrain::base::limits::RANK_MAX;
use wavetrain::config::{self, Config, MetadataLatency};
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
    Dtype(fn(&mut Config) -> &mut u32),
    /// Extents; also sets the rank.
    Shape(fn(&mut Config) -> &mut [u64; RANK_MAX]),
    /// A real number; also sets `pad_value_set`.
    PadValue(fn(&mut Config) -> &mut f64),
    /// name=value pairs.
    Latency(fn(&mut Config) -> &mut MetadataLatency),
    /// A path.
    Path(fn(&mut Config) -> &mut DriverPath),
}

/// One field of the config.
struct Field {
    /// As in the config, with underscores.
    name: &'static str,
    kind: Kind,
    help: &'static str,
}

impl Field {
    /// The field of the flag `--name`.
    fn of_flag(name: &str) -> Option<&'static Field> {
        FIELDS.iter().find(|field| field.flag() == name)
    }

    fn flag(&self) -> String {
        self.name.replace('_', "-")
    }
}

/// The flag of the setting of that name, without dashes in front, if there is one.
pub fn flag_of(name: &str) -> Option<String> {
    FIELDS.iter().find(|field| field.name == name).map(Field::flag)
}

/// Whether `--name` is the flag of a setting that is not a switch.
pub fn takes_value(name: &str) -> bool {
    Field::of_flag(name).is_some_and(|field| !matches!(field.kind, Kind::Switch(_)))
}

const BACKENDS: Names = &[
    ("auto", config::BACKEND_AUTO),
    ("host", config::BACKEND_HOST),
    ("cuda", config::BACKEND_CUDA),
];
const THREAD_MODES: Names =
    &[("own", config::THREADS_OWN), ("pump", config::THREADS_PUMP), ("hook", config::THREADS_HOOK)];
const ON_ERRORS: Names = &[
    ("fail", config::ON_ERROR_FAIL),
    ("skip", config::ON_ERROR_SKIP),
    ("nan", config::ON_ERROR_NAN),
];
const MISSING: Names = &[("fill", config::MISSING_FILL), ("error", config::MISSING_ERROR)];
const PADS: Names = &[
    ("none", config::PAD_NONE),
    ("constant", config::PAD_CONSTANT),
    ("edge", config::PAD_EDGE),
    ("reflect", config::PAD_REFLECT),
];
const GDS: Names = &[("auto", config::AUTO), ("off", config::GDS_OFF), ("on", config::GDS_ON)];
const DECODES: Names =
    &[("auto", config::DECODE_AUTO), ("off", config::DECODE_OFF), ("on", config::DECODE_ON)];
const LOST: Names = &[("fail", config::LOST_FAIL), ("skip", config::LOST_SKIP)];
const ORDERS: Names =
    &[("round", config::SHARE_ROUND), ("first", config::SHARE_FIRST), ("all", config::SHARE_ALL)];
const NUMA: Names = &[("auto", config::AUTO), ("off", config::NUMA_OFF), ("pin", config::NUMA_PIN)];
const LEVELS: Names = &[
    ("trace", 0),
    ("debug", 1),
    ("info", 2),
    ("warn", 3),
    ("error", 4),
    ("fatal", 5),
    ("off", config::LOG_OFF),
];

/// Makes the flags of the library's table; what has no kind there has no flag.
macro_rules! flags {
    ($(
        $(#[$doc:meta])*
        $name:ident: $type:ty = $default:expr
        $(, [$least:expr, $most:expr])? $(, $hook:ident)?
        $(=> $kind:ident $($choices:ident)? $help:literal)?;
    )+) => {
        const FIELDS: &[Field] = &[$($(Field {
            name: stringify!($name),
            kind: Kind::$kind(|c| &mut c.$name $(, $choices)?),
            help: $help,
        },)?)+];
    };
}
wavetrain::config_table!(flags);

/// Fields that cap what config_fit would raise: whoever gives one means it.
const CAPS: &[&str] = &[
    "max_gpu_memory_bytes",
    "max_host_memory_bytes",
    "max_chunk_uncompressed_bytes",
    "max_substreams_per_chunk",
    "max_shards_per_sample",
];

/// A config as far as the command line has filled it.
#[derive(Default)]
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

    /// Whether the command line set the field `name`, as the config spells it.
    pub fn is_given(&self, name: &str) -> bool {
        self.given.contains(&name)
    }

    /// Whether the command line set a field that is not one of these.
    pub fn has_other(&self, names: &[&str]) -> bool {
        self.given.iter().any(|name| !names.contains(name))
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
        let Some(field) = Field::of_flag(name) else { return Ok(false) };
        let value = match (&field.kind, parser.optional_value()) {
            (_, Some(value)) => value,
            (Kind::Switch(_), None) => OsString::from("1"),
            (_, None) => parser.value()?,
        };
        self.set_text(name, &value.to_string_lossy())?;
        Ok(true)
    }

    /// As [`ConfigFlags::take`]; a flag that is no field either is refused by name.
    pub fn take_or_refuse(
        &mut self,
        name: &str,
        parser: &mut lexopt::Parser,
        command: &str,
    ) -> Outcome<()> {
        if name == "digest" && matches!(command, "check" | "crop" | "demo" | "epoch" | "stats") {
            return usage(format!("{command} shows no digests: wavetrain bench --digest does"));
        }
        if name == "cf" && matches!(command, "check" | "demo" | "epoch" | "stats") {
            return usage(format!("{command} has no --cf: write #cf=1 at the end of the uri"));
        }
        if self.take(name, parser)? || store::take_flag(name, parser)? {
            return Ok(());
        }
        usage(format!("unknown flag '--{name}': wavetrain {command} --help lists them"))
    }

    /// Sets the field of a flag whose value the command has taken itself.
    pub fn set_text(&mut self, name: &str, text: &str) -> Outcome<()> {
        let Some(field) = Field::of_flag(name) else {
            return usage(format!("unknown flag '--{name}'"));
        };
        if let Err(reason) = self.set(field, text) {
            return usage(format!("--{name} {text}: {reason}"));
        }
        self.given.push(field.name);
        // No context is current in this program, so -1 would be none.
        if !self.is_given("device") {
            self.config.device = if self.config.backend == config::BACKEND_HOST { -1 } else { 0 };
        }
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
            Kind::Dtype(place) => {
                let found = DTYPES.into_iter().find(|dtype| dtype.name() == text);
                let dtype = found.ok_or_else(|| {
                    let names: Vec<_> = DTYPES.iter().map(|dtype| dtype.name()).collect();
                    format!("one of {}", names.join(", "))
                })?;
                *place(config) = dtype as u32;
            }
            Kind::Shape(place) => {
                let rank = parse_shape(text, place(config))?;
                config.sample_rank = rank;
            }
            Kind::PadValue(place) => {
                *place(config) = text.parse().map_err(|_| "not a number".to_owned())?;
                config.pad_value_set = 1;
            }
            Kind::Latency(place) => set_latency(place(config), text)?,
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
    fields_help_without("")
}

/// The same for a command that has another flag of the name of a field.
pub fn fields_help_without(name: &str) -> String {
    let mut help = String::new();
    for field in FIELDS.iter().filter(|field| field.name != name) {
        let text = wrapped(&format!("{}{}", field.help, hint(field)));
        // Writing into a String cannot fail.
        let _ = writeln!(help, "  --{:<30}{text}", field.flag());
    }
    help.push_str(store::HELP);
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
        // As `set_text` has it.
        Kind::Signed(_) if field.name == "device" => " [0]".into(),
        Kind::Signed(place) => format!(" [{}]", place(&mut config)),
        Kind::Switch(place) => format!(" [{}]", place(&mut config)),
        Kind::Choice(place, names) => {
            let taken = *place(&mut config);
            let all: Vec<_> = names.iter().map(|name| name.0).collect();
            let default = names.iter().find(|name| name.1 == taken).map_or("", |name| name.0);
            format!(": {} [{default}]", all.join("|"))
        }
        Kind::Dtype(_) => {
            let names: Vec<_> = DTYPES.iter().map(|dtype| dtype.name()).collect();
            format!(": {}", names.join("|"))
        }
        Kind::Latency(_) => {
            ": baseline_ns=..,lognormal_mu_ln_ns=..,lognormal_sigma_ln_ns=..,cap_ns=..,seed=.."
                .into()
        }
        Kind::Path(_) => " [libcuda.so.1]".into(),
        Kind::Shape(_) | Kind::PadValue(_) => String::new(),
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
pub fn parse_shape(text: &str, extents: &mut [u64; RANK_MAX]) -> Result<u32, String> {
    let mut shape = [0; RANK_MAX];
    let mut rank = 0;
    for part in text.split([',', 'x']) {
        if rank == RANK_MAX {
            return Err(format!("more than {RANK_MAX} axes"));
        }
        shape[rank] = part.trim().parse().map_err(|_| "extents are like 64,128,128".to_owned())?;
        rank += 1;
    }
    *extents = shape;
    Ok(rank as u32)
}

fn set_latency(latency: &mut MetadataLatency, text: &str) -> Result<(), String> {
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
        // `crop` and `bench` take the table of fields from a file. `lent_slots` and `cpus` have no
        // flag. Bench has flags of its own for the name and the number of consumers.
        let without = |name: &str| {
            name.starts_with("reserved")
                || ["struct_size", "consumer_stream", "fields"].contains(&name)
        };
        let hooks = ["memory", "files", "log", "fatal", "workers", "profiler", "source", "store"];
        let others = Config::FIELDS.iter().position(|(name, _)| *name == "map_bytes_max");
        let names = Config::FIELDS[..others.unwrap()].iter().map(|(name, _)| *name);
        let shared = ["on_consumer_lost", "share_order", "attach_timeout_ns"];
        let listed = "max_indices_per_sample";
        let built = ["map_bytes_max", "n_readers", "trace_events", listed, "check_memory"];
        let names = names.chain(built).chain(shared);
        let expected = names.filter(|name| !without(name) && !hooks.contains(name));
        let flags: Vec<_> = FIELDS.iter().map(|field| field.name).collect();
        assert_eq!(flags, expected.collect::<Vec<_>>());
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
        let mut shape = [0; RANK_MAX];
        assert_eq!(parse_shape("64x128,32", &mut shape), Ok(3));
        assert_eq!(shape[..3], [64, 128, 32]);
        assert!(parse_shape("64,,2", &mut shape).is_err());
    }
}
