//! `wavetrain stats`: the numbers that normalisation needs, of a whole array or a box of it.
//!
//! The box streams in cells that follow the chunk grid; each cell's elements are added to the sets
//! that they belong to, in the order of the cells. Percentiles of types of more than 16 bits take a
//! second pass, once the ends of each set are known.

pub mod cells;
mod histogram;
mod moments;
mod number;

use crate::fault::{Fault, Outcome, failed, failure_text, usage};
use crate::feed::{self, List};
use crate::fields::{ConfigFlags, fields_help};
use crate::progress::Progress;
use crate::report;
use crate::requests::{Extent, Requests};
use crate::store;
use cells::Cells;
use histogram::{Histogram, PERCENTS, histogram_counts};
use moments::Moments;
use number::{Bf16, Bool, F16, F32, F64, Number, Value};
use serde_json::{Map, Value as Json, json};
use std::borrow::Cow;
use std::fmt::Write as _;
use wavetrain::abi::ArrayInfo;
use wavetrain::config::ON_ERROR_FAIL;
use wavetrain::loader::{self, Batch};
use wavetrain::records::Dtype;

const HELP: &str = "\
Prints the numbers that normalisation needs, of an array or a box of it.

  wavetrain stats URI [--box 0:64,:,32:160] [--by-axis N] [--percentiles] [--json] [config flags]

count, min, max, mean and std: of the elements that are not NaN; std is that of a population,
divided by count. nan: elements that are NaN. fill: elements that equal the array's fill value, as a
part of all elements, NaN among them; missing chunks are fill value. Padding is not counted.

      --box BOX         begin:end per axis, and what is left out of it the array's [all of it]
                        (--box=.. with \"\" for an array without axes)
      --by-axis N       one set of numbers for each index along axis N, up to 4,096: channels
      --percentiles     also 0.1, 1, 5, 25, 50, 75, 95, 99 and 99.9 %, as numpy.percentile has them.
                        They are exact for types of 8 and 16 bits, and for others at most 0.05 % of
                        the range of finite elements off, in a second pass
      --json            one JSON object on standard output; sets: a list of one, or of one for each
                        index. \"NaN\", \"Infinity\" and \"-Infinity\" are texts; figures of no
                        element are null

Integers up to 32 bits have exact sums. No figure depends on threads, caps or batches. Each chunk is
decoded once in a pass (of a rectilinear grid some are more often); memory is that of some chunks.
With --percentiles and --by-axis types of 16 bits take a pass for every 512 indices.
Elements are numbers: complex and raw types are refused.

Exit code: 0 when every element was looked at, 1 when something failed, 2 for a wrong command line.
Caps are raised to what the array needs, unless one is given.

Config (sizes take suffixes: 64MiB, 4k):
";

/// The text of --help.
pub fn help() -> String {
    format!("{HELP}{}", fields_help())
}

/// Most sets.
const SETS_MAX: u64 = 4096;

/// Counts of histograms that are held at a time: 256 MiB.
const COUNTS_MAX: usize = 1 << 25;

struct Options {
    flags: ConfigFlags,
    uri: String,
    extent: Option<String>,
    by_axis: Option<usize>,
    percentiles: bool,
    json: bool,
}

/// The array and the box of it.
struct Source {
    info: ArrayInfo,
    dtype: Dtype,
    extent: Extent,
}

/// The figures of a set.
struct Set {
    count: u64,
    nan_count: u64,
    fill_share: f64,
    ends: Option<[Value; 2]>,
    mean: f64,
    deviation: f64,
    percentiles: Option<[f64; PERCENTS.len()]>,
}

/// Runs the command.
pub fn run(parser: &mut lexopt::Parser) -> Outcome<()> {
    let Some(options) = options(parser)? else { return Ok(()) };
    let source = source(&options)?;
    let measured = match source.dtype {
        Dtype::Bool => measure::<Bool>(&options, &source),
        Dtype::U8 => measure::<u8>(&options, &source),
        Dtype::I8 => measure::<i8>(&options, &source),
        Dtype::U16 => measure::<u16>(&options, &source),
        Dtype::I16 => measure::<i16>(&options, &source),
        Dtype::U32 => measure::<u32>(&options, &source),
        Dtype::I32 => measure::<i32>(&options, &source),
        Dtype::U64 => measure::<u64>(&options, &source),
        Dtype::I64 => measure::<i64>(&options, &source),
        Dtype::F16 => measure::<F16>(&options, &source),
        Dtype::Bf16 => measure::<Bf16>(&options, &source),
        Dtype::F32 => measure::<F32>(&options, &source),
        Dtype::F64 => measure::<F64>(&options, &source),
        Dtype::C64 | Dtype::C128 | Dtype::Raw => failed(format!(
            "{}: elements of type {} have no order, and no such numbers: stats takes integers, \
             floats and bool",
            options.uri,
            source.dtype.name()
        )),
    };
    let (fill, sets) = measured?;
    match options.json {
        true => report::print_json(&json(&options, &source, fill, &sets)),
        false => report::print(&table(&options, &source, fill, &sets)),
    }
}

fn options(parser: &mut lexopt::Parser) -> Outcome<Option<Options>> {
    use lexopt::Arg::{Long, Short, Value};
    let (mut flags, mut uri, mut extent) = (ConfigFlags::new(), None, None);
    let (mut by_axis, mut percentiles, mut json) = (None, false, false);
    while let Some(argument) = parser.next()? {
        match argument {
            Short('h') | Long("help") => {
                report::print(&help())?;
                return Ok(None);
            }
            Long("box") => extent = Some(parser.value()?.to_string_lossy().into_owned()),
            Long("by-axis") => {
                let text = parser.value()?.to_string_lossy().into_owned();
                by_axis = match text.parse() {
                    Ok(axis) => Some(axis),
                    Err(_) => return usage(format!("--by-axis {text}: not the number of an axis")),
                };
            }
            Long("percentiles") => percentiles = true,
            Long("json") => json = true,
            Long(
                name @ ("dtype" | "dtype-bytes" | "sample-rank" | "sample-shape" | "drop-last"),
            ) => {
                return usage(format!("--{name}: stats has that of the array and the box"));
            }
            Value(value) if uri.is_none() => uri = Some(value.to_string_lossy().into_owned()),
            Long(name) => {
                let name = name.to_owned();
                flags.take_or_refuse(&name, parser, "stats")?;
            }
            other => return Err(other.unexpected().into()),
        }
    }
    if flags.config.on_error != ON_ERROR_FAIL {
        return usage("--on-error: numbers without some elements would mislead");
    }
    match uri {
        Some(uri) => Ok(Some(Options { flags, uri, extent, by_axis, percentiles, json })),
        None => usage("stats needs a URI"),
    }
}

/// Looks at the array, and at what the command line asks of it.
fn source(options: &Options) -> Outcome<Source> {
    let uri = &options.uri;
    let info = store::array_info(uri, &mut vec![0; loader::SCRATCH_BYTES])
        .map_err(|failure| Fault::Failed(format!("{uri}: {}", failure_text(&failure))))?;
    let shape = &info.shape[..info.rank as usize];
    let Some(dtype) = Dtype::from_code(info.dtype) else {
        return failed(format!("{uri}: an element type that this tool does not know"));
    };
    let extent = match &options.extent {
        None => {
            let end = shape.iter().map(|extent| *extent as i64).collect();
            Extent { begin: vec![0; shape.len()], end, lists: Vec::new() }
        }
        Some(text) => {
            let words = [uri.clone(), text.clone()];
            let mut requests = Requests::from_words(&words, |_| Ok(shape.to_vec()))?;
            requests.items.swap_remove(0).1
        }
    };
    let wrong = |reason: String| usage(format!("box {} of '{uri}': {reason}", extent.text()));
    if extent.begin.len() != shape.len() {
        return wrong(format!(
            "it has {} axes, the array {}: {shape:?}",
            extent.begin.len(),
            shape.len()
        ));
    }
    let ends = extent.begin.iter().zip(&extent.end).zip(shape);
    if let Some(axis) =
        ends.enumerate().position(|(_, ((begin, end), all))| *begin < 0 || *end as u64 > *all)
    {
        return wrong(format!("axis {axis} reaches beyond the array, which has {}", shape[axis]));
    }
    if let Some(axis) = options.by_axis {
        let Some(count) = extent.shape().get(axis).copied() else {
            return usage(format!("--by-axis {axis}: '{uri}' has {} axes", shape.len()));
        };
        if count > SETS_MAX {
            return usage(format!(
                "--by-axis {axis}: {count} indices, at most {SETS_MAX}: give a smaller --box"
            ));
        }
    }
    Ok(Source { info, dtype, extent })
}

/// The fill value, and the sets of the box: as many at a time as their histograms have room.
fn measure<T: Number>(options: &Options, source: &Source) -> Outcome<(Value, Vec<Set>)> {
    let fill = T::of(&source.info.fill[..T::BYTES]);
    let at_a_time = match (options.by_axis, options.percentiles) {
        (Some(_), true) => (COUNTS_MAX / histogram_counts::<T>()) as i64,
        _ => SETS_MAX as i64,
    };
    let mut sets = Vec::new();
    let mut rest = source.extent.clone();
    let Some(axis) = options.by_axis else {
        sets.extend(measure_box(options, source, &rest, fill)?);
        return Ok((fill.value(), sets));
    };
    while rest.begin[axis] < source.extent.end[axis] {
        rest.end[axis] = (rest.begin[axis] + at_a_time).min(source.extent.end[axis]);
        sets.extend(measure_box(options, source, &rest, fill)?);
        rest.begin[axis] = rest.end[axis];
    }
    Ok((fill.value(), sets))
}

fn measure_box<T: Number>(
    options: &Options,
    source: &Source,
    extent: &Extent,
    fill: T,
) -> Outcome<Vec<Set>> {
    let cells = Cells::new(&options.uri, &source.info, extent, options.by_axis);
    let count = options.by_axis.map_or(1, |axis| extent.shape()[axis] as usize);
    let mut all: Vec<Moments<T>> = (0..count).map(|_| Moments::new()).collect();
    // Values that are few are counted at once, others once the ends are known.
    let counts_at_once = options.percentiles && T::VALUES.is_some();
    let histograms = |all: &[Moments<T>]| -> Vec<Histogram<T>> {
        all.iter().map(|moments| Histogram::new(moments.finite_ends)).collect()
    };
    let mut counted = if counts_at_once { histograms(&all) } else { Vec::new() };
    stream(options, source, &cells, T::BYTES, "measuring", |set, bytes| {
        all[set].add(bytes, fill);
        if let Some(histogram) = counted.get_mut(set) {
            histogram.add(bytes);
        }
    })?;
    if options.percentiles && !counts_at_once {
        counted = histograms(&all);
        stream(options, source, &cells, T::BYTES, "counting", |set, bytes| {
            counted[set].add(bytes);
        })?;
    }
    let sets = all.iter().enumerate().map(|(number, moments)| {
        let [mean, deviation] = moments.mean_and_deviation();
        Set {
            count: moments.count,
            nan_count: moments.nan_count,
            fill_share: moments.fill_share(),
            ends: moments.ends.map(|ends| ends.map(T::value)),
            mean,
            deviation,
            percentiles: counted.get(number).and_then(|counted| counted.percentiles(moments)),
        }
    });
    Ok(sets.collect())
}

/// Streams all cells, and hands the elements of each to `add`, set by set.
fn stream(
    options: &Options,
    source: &Source,
    cells: &Cells<'_>,
    element_bytes: usize,
    what: &'static str,
    mut add: impl FnMut(usize, &[u8]),
) -> Outcome<()> {
    let count = cells.len();
    if count == 0 {
        return Ok(());
    }
    let shape = cells.sample_shape();
    let mut config = options.flags.config;
    feed::set_shape(&mut config, &shape)?;
    config.dtype = source.dtype as u32;
    config.max_boxes_per_sample = config.max_boxes_per_sample.max(1);
    let sample_bytes = shape.iter().fold(element_bytes as u64, |all, extent| all * extent);
    feed::set_batch(&mut config, &options.flags, sample_bytes, count as u64);
    if !options.flags.caps_given() {
        let fitted = feed::fit(&mut config, &[&options.uri]);
        fitted.map_err(|failure| Fault::library(&failure))?;
    }
    let loader = feed::open(&config).map_err(|failure| Fault::library(&failure))?;
    let progress = Progress::begin(Some(count as u64), what);
    let mut take = |batch: &Batch<'_>| -> Outcome<()> {
        let data = feed::samples(batch)?;
        for (tag, row) in batch.tags().iter().zip(data.chunks(data.len() / batch.tags().len())) {
            let index = (*tag - 1) as usize;
            let filled = cells.filled(index);
            let elements = packed(row, &shape, &filled, element_bytes);
            let Some(axis) = options.by_axis else {
                add(0, &elements);
                continue;
            };
            let first = cells.offset(index, axis);
            for (number, bytes) in elements.chunks(elements.len() / filled[0] as usize).enumerate()
            {
                add(first + number, bytes);
            }
        }
        Ok(())
    };
    let timeout_ns = config.pop_timeout_ns;
    let streamed = feed::stream(&loader, cells, 0..count, timeout_ns, &progress, &mut take);
    drop(progress);
    streamed.map_err(|stop| feed::stop_fault(stop, cells))
}

/// The elements of a sample that its box covers, which begins at its first place: without padding.
fn packed<'a>(row: &'a [u8], shape: &[u64], filled: &[u64], element_bytes: usize) -> Cow<'a, [u8]> {
    if shape == filled {
        return Cow::Borrowed(row);
    }
    // Axes after the last that is not full are one line with it.
    let axis = (0..shape.len()).rfind(|axis| shape[*axis] != filled[*axis]).unwrap_or(0);
    let inner: u64 = shape[axis + 1..].iter().product();
    let line = (filled[axis] * inner) as usize * element_bytes;
    let mut out = Vec::with_capacity(row.len());
    for number in 0..filled[..axis].iter().product::<u64>() {
        let (mut rest, mut at, mut stride) = (number, 0, shape[axis] * inner);
        for outer in (0..axis).rev() {
            at += rest % filled[outer] * stride;
            rest /= filled[outer];
            stride *= shape[outer];
        }
        let at = at as usize * element_bytes;
        out.extend_from_slice(&row[at..at + line]);
    }
    Cow::Owned(out)
}

/// An array's address, and the numbers of all sets.
fn json(options: &Options, source: &Source, fill: Value, sets: &[Set]) -> Json {
    let real = |real: f64| Value::Real(real).json();
    let of_set = |(number, set): (usize, &Set)| {
        let mut map = Map::new();
        let mut put = |name: &str, value: Json| map.insert(name.to_owned(), value);
        if let Some(axis) = options.by_axis {
            put("index", json!(source.extent.begin[axis] + number as i64));
        }
        put("count", json!(set.count));
        put("nan_count", json!(set.nan_count));
        put(
            "fill_share",
            if set.count + set.nan_count == 0 { Json::Null } else { real(set.fill_share) },
        );
        for (place, name) in ["min", "max"].into_iter().enumerate() {
            put(name, set.ends.map_or(Json::Null, |ends| ends[place].json()));
        }
        for (name, value) in [("mean", set.mean), ("std", set.deviation)] {
            put(name, if set.count == 0 { Json::Null } else { real(value) });
        }
        if options.percentiles {
            let named = |list: [f64; PERCENTS.len()]| -> Map<String, Json> {
                PERCENTS.iter().zip(list).map(|(of, value)| (of.to_string(), real(value))).collect()
            };
            put("percentiles", set.percentiles.map_or(Json::Null, |list| json!(named(list))));
        }
        Json::Object(map)
    };
    let axes = source.extent.begin.iter().zip(&source.extent.end);
    json!({
        "uri": options.uri,
        "dtype": source.dtype.name(),
        "shape": source.info.shape[..source.info.rank as usize],
        "box": axes.map(|(begin, end)| json!([begin, end])).collect::<Json>(),
        "axis": options.by_axis,
        "fill_value": fill.json(),
        "sets": sets.iter().enumerate().map(of_set).collect::<Json>(),
    })
}

/// The same as a table of a line for each set, and one of the percentiles.
fn table(options: &Options, source: &Source, fill: Value, sets: &[Set]) -> String {
    let mut text = format!(
        "{}\n  {} of {}, fill value {fill}\n\n",
        report::line(&options.uri),
        source.dtype.name(),
        source.extent.text(),
    );
    let index = |number: usize| -> Vec<String> {
        let axis = options.by_axis.map(|axis| source.extent.begin[axis] + number as i64);
        axis.iter().map(i64::to_string).collect()
    };
    let head = |names: &[&str]| -> Vec<String> {
        let index = options.by_axis.map(|_| "index").into_iter();
        index.chain(names.iter().copied()).map(str::to_owned).collect()
    };
    let mut rows = vec![head(&["count", "nan", "fill", "min", "max", "mean", "std"])];
    let none = || "-".to_owned();
    for (number, set) in sets.iter().enumerate() {
        let of_ends = |place: usize| set.ends.map_or_else(none, |ends| ends[place].to_string());
        let is_none = set.count == 0;
        let share = match set.count + set.nan_count {
            0 => none(),
            _ => format!("{:.2} %", 100.0 * set.fill_share),
        };
        let moments = [set.mean, set.deviation];
        let moments = moments.map(|value| if is_none { none() } else { rounded(value) });
        let counts = [set.count.to_string(), set.nan_count.to_string(), share];
        let ends = [of_ends(0), of_ends(1)];
        rows.push(index(number).into_iter().chain(counts).chain(ends).chain(moments).collect());
    }
    text.push_str(&aligned(&rows));
    if options.percentiles {
        let names = PERCENTS.map(|percent| format!("{percent} %"));
        let mut rows = vec![head(&names.each_ref().map(String::as_str))];
        for (number, set) in sets.iter().enumerate() {
            let list =
                set.percentiles.map_or_else(|| PERCENTS.map(|_| none()), |list| list.map(rounded));
            rows.push(index(number).into_iter().chain(list).collect());
        }
        text.push('\n');
        text.push_str(&aligned(&rows));
    }
    text
}

/// A number of seven digits.
fn rounded(value: f64) -> String {
    let seven: f64 = format!("{value:.6e}").parse().unwrap_or(value);
    Value::Real(seven).to_string()
}

/// Lines of columns that end below each other.
fn aligned(rows: &[Vec<String>]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..rows[0].len()).map(width).collect();
    let mut text = String::new();
    for row in rows {
        for (cell, width) in row.iter().zip(&widths) {
            // Writing into a String cannot fail.
            let _ = write!(text, "  {cell:>width$}");
        }
        text.push('\n');
    }
    text
}
