//! `wavetrain inspect`: what an array is, how it lies on disk, and whether wavetrain reads it.
//!
//! A group is told as what it says of itself, and then as the arrays below it. The library decides
//! what is read; the only thing taken from the metadata here is the spelling of keys, which the
//! data path keeps to itself.

use crate::consolidated;
use crate::fault::{Fault, Outcome, failed, failure_text, usage};
use crate::groups;
use crate::nodes::{Below, document, document_at, folder, is_group};
use crate::progress::Progress;
use crate::report;
use crate::store;
use serde_json::{Map, Value, json};
use std::collections::HashSet;
use std::fmt::Write as _;
use wavetrain::abi::{self, ArrayInfo, PACKING_UNKNOWN};
use wavetrain::loader::{self, Failure, Node};
use wavetrain::records::{Dtype, Packing, split_cf};

const HELP: &str = "\
Describes an array, and whether wavetrain reads it. For a group it lists the nodes in it (the levels
of an OME-NGFF image, the wells of a plate), and then every array below it.

  wavetrain inspect URI [URI ..] [--json]

      --json            one JSON object per group and array on standard output, a line each

A reason is printed for each node that a group's metadata names and that is absent, and for each
folder that cannot be looked into. Consolidated metadata that differs from the documents of the
nodes is printed as stale (stale in JSON, a list). wavetrain itself reads these documents.

Exit code: 0 when every array would be read, 1 when one would be rejected, or a named node cannot be
read.
";

/// The text of --help.
pub fn help() -> String {
    format!("{HELP}{}", store::HELP)
}

/// Runs the command.
pub fn run(parser: &mut lexopt::Parser) -> Outcome<()> {
    use lexopt::Arg::{Long, Short, Value};
    let mut json = false;
    let mut uris: Vec<String> = Vec::new();
    while let Some(argument) = parser.next()? {
        match argument {
            Short('h') | Long("help") => return report::print(&help()),
            Long("json") => json = true,
            Value(value) => uris.push(value.to_string_lossy().into_owned()),
            Long(name) => {
                let name = name.to_owned();
                if store::take_flag(&name, parser)? {
                    continue;
                }
                return usage(format!("unknown flag '--{name}': see wavetrain inspect --help"));
            }
            other => return Err(other.unexpected().into()),
        }
    }
    if uris.is_empty() {
        return usage("inspect needs a URI");
    }
    let mut rejected = 0;
    let mut scratch = vec![0; loader::SCRATCH_BYTES];
    for uri in &uris {
        if !is_group(uri) {
            rejected += tell(uri, &store::array_info(uri, &mut scratch), json)?;
            continue;
        }
        let below = Below::look(uri)?;
        rejected += below.refused + tell_group(uri, &below, json, &mut scratch)?;
        if below.arrays.is_empty() && rejected == 0 {
            return failed(format!("{uri}: a group without arrays"));
        }
        let progress = Progress::begin(Some(below.arrays.len() as u64), "looking at arrays");
        for array in &below.arrays {
            rejected += tell(array, &store::array_info(array, &mut scratch), json)?;
            progress.step(1);
        }
    }
    if rejected == 0 { Ok(()) } else { Err(Fault::Told) }
}

/// Scratch for a group: entries of a plate of every well that there is.
const GROUP_SCRATCH_BYTES: usize = 64 << 20;

/// Stale nodes that a line names; JSON has all of them.
const STALE_SHOWN_MAX: usize = 3;

/// Says what a group says of itself. Nodes that it or a group below it names, and that cannot be
/// read, are rejected: the result is their number. A group that is not understood is named.
fn tell_group(uri: &str, below: &Below, json: bool, scratch: &mut [u8]) -> Outcome<usize> {
    let mut group_scratch = vec![0; GROUP_SCRATCH_BYTES];
    let known: HashSet<&str> = below.nodes().collect();
    let progress = Progress::begin(Some(1 + below.groups.len() as u64), "looking at groups");
    let mut rejected = 0;
    for group in std::iter::once(uri).chain(below.groups.iter().map(String::as_str)) {
        let stale = consolidated::stale(&folder(group), below.nodes());
        if !stale.is_empty() {
            let more = stale.len().saturating_sub(STALE_SHOWN_MAX);
            let more = if more > 0 { format!(", and {more} more") } else { String::new() };
            let listed = stale[..stale.len().min(STALE_SHOWN_MAX)].join(", ");
            report::warn(&format!(
                "{group}: its consolidated metadata is stale: {listed}{more}: consolidate it again"
            ));
        }
        let found = store::node_info(group, &mut group_scratch);
        if group == uri {
            tell_one_group(uri, &found, &stale, json, scratch)?;
        }
        match &found {
            Ok(Node::Group(view)) if view.info().entry_sources & abi::SOURCE_FOLDER == 0 => {
                for entry in view.entries() {
                    let child = groups::child(group, &entry);
                    let is_told = known.contains(&*folder(&child).to_string_lossy());
                    if !is_told && let Err(failure) = store::node_info(&child, scratch) {
                        rejected += tell(&child, &Err(failure), json)?;
                    }
                }
            }
            Err(failure) => report::warn(&format!("{group}: {}", failure_text(failure))),
            // Somebody else has made an array of it meanwhile.
            Ok(_) => {}
        }
        progress.step(1);
    }
    Ok(rejected)
}

fn tell_one_group(
    uri: &str,
    found: &Result<Node<'_>, Failure>,
    stale: &[String],
    json: bool,
    scratch: &mut [u8],
) -> Outcome<()> {
    match (found, json) {
        (Ok(Node::Group(group)), true) => {
            let mut value = groups::group_json(uri, group, scratch);
            value["stale"] = json!(stale);
            report::print_json(&value)
        }
        (Ok(Node::Group(group)), false) => report::print(&groups::group_text(uri, group, scratch)),
        (Ok(Node::Array(_)), _) => Ok(()),
        (Err(failure), true) => {
            let mut value = refusal_json(uri, failure);
            value["kind"] = json!("group");
            report::print_json(&value)
        }
        (Err(failure), false) => {
            let uri = report::line(uri);
            report::print(&format!("{uri}\n  group        {}\n", failure_text(failure)))
        }
    }
}

fn refusal_json(uri: &str, failure: &Failure) -> Value {
    json!({
        "uri": uri,
        "accepted": false,
        "status": failure.status.name(),
        "error": failure.text.as_str(),
    })
}

/// Says what an array is; 1 if it is rejected.
fn tell(uri: &str, info: &Result<ArrayInfo, Failure>, json: bool) -> Outcome<usize> {
    if let Err(failure) = info {
        report::warn(&format!("{uri}: {}", failure_text(failure)));
    }
    match (json, info) {
        (true, Ok(info)) => report::print_json(&info_json(uri, info)),
        (true, Err(failure)) => report::print_json(&refusal_json(uri, failure)),
        (false, Ok(info)) => report::print(&info_text(uri, info)),
        (false, Err(failure)) => {
            let uri = report::line(uri);
            report::print(&format!("{uri}\n  verdict      rejected: {}\n", failure_text(failure)))
        }
    }?;
    Ok(usize::from(info.is_err()))
}

/// Extents of an info struct, as many as the array has axes.
fn axes<'a>(info: &ArrayInfo, extents: &'a [u64]) -> &'a [u64] {
    &extents[..(info.rank as usize).min(extents.len())]
}

/// How many chunks cover the array along each axis: shards, of whatever extents, are whole chunks.
fn chunk_cells(info: &ArrayInfo) -> Vec<u64> {
    if info.shard_levels == 0 {
        return axes(info, &info.file_counts).to_vec();
    }
    let shape = axes(info, &info.shape).iter().zip(&info.chunk_shape);
    shape.map(|(extent, edge)| extent.div_ceil((*edge).max(1))).collect()
}

/// Extents of a file, or those of the smallest and the largest.
fn file_text(info: &ArrayInfo) -> String {
    let largest = axes(info, &info.file_shape);
    if info.is_rectilinear == 0 {
        return report::crosses(largest);
    }
    let edges = largest.iter().zip(&info.file_shape_min).map(|(most, least)| match most == least {
        true => most.to_string(),
        false => format!("{least}..{most}"),
    });
    format!("rectilinear, edges {}", edges.collect::<Vec<_>>().join(" x "))
}

fn product(counts: &[u64]) -> u64 {
    counts.iter().fold(1, |all: u64, count| all.saturating_mul(*count))
}

/// Decoded bytes of the array.
fn array_bytes(info: &ArrayInfo) -> u64 {
    product(axes(info, &info.shape)).saturating_mul(u64::from(info.dtype_bytes))
}

/// The key of the first file, which shows how keys are spelt.
fn key_sample(uri: &str, info: &ArrayInfo) -> Option<String> {
    let mut parts = vec!["0"; info.rank as usize];
    // The library has read the document: a failure here is for the next call of it to report.
    let folder = folder(split_cf(uri).unwrap_or(uri));
    let Some(document) = document(&folder).ok()? else {
        let document = document_at(&folder.join(".zarray")).ok()??;
        parts.resize(parts.len().max(1), "0");
        return Some(parts.join(document["dimension_separator"].as_str().unwrap_or(".")));
    };
    let encoding = &document["chunk_key_encoding"];
    let name = encoding["name"].as_str().or(encoding.as_str())?;
    let usual = if name == "v2" { "." } else { "/" };
    let separator = encoding["configuration"]["separator"].as_str().unwrap_or(usual);
    if name == "default" {
        parts.insert(0, "c");
    } else {
        parts.resize(parts.len().max(1), "0");
    }
    Some(parts.join(separator))
}

fn info_json(uri: &str, info: &ArrayInfo) -> Value {
    let (chunks, files) = (axes(info, &info.chunk_shape), axes(info, &info.file_shape));
    let mut map = Map::new();
    let mut put = |name: &str, value: Value| map.insert(name.to_owned(), value);
    put("uri", json!(uri));
    put("accepted", json!(true));
    put("kind", json!("array"));
    put("shape", json!(axes(info, &info.shape)));
    put("dtype", json!(Dtype::from_code(info.dtype).map(Dtype::name)));
    put("dtype_name", json!(report::name_text(&info.dtype_name)));
    put("dtype_bytes", json!(info.dtype_bytes));
    put("byte_order", json!(if info.byte_order == 0 { "little" } else { "big" }));
    put("bytes", json!(array_bytes(info)));
    put("chunk_shape", json!(chunks));
    put("chunk_bytes", json!(info.chunk_bytes));
    put("chunks", json!(product(&chunk_cells(info))));
    put("file_shape", json!(files));
    put("file_shape_min", json!(axes(info, &info.file_shape_min)));
    put("rectilinear", json!(info.is_rectilinear != 0));
    put("files", json!(product(axes(info, &info.file_counts))));
    put("shard_levels", json!(info.shard_levels));
    put("index_at_start", json!(info.shard_levels > 0 && info.index_at_start != 0));
    put("codecs", json!(report::name_text(&info.codecs)));
    put("fill_value", json!(fill_text(info)));
    put("packing", json!(packing_names(info)));
    put("first_key", json!(key_sample(uri, info)));
    Value::Object(map)
}

fn info_text(uri: &str, info: &ArrayInfo) -> String {
    let (chunks, files) = (axes(info, &info.chunk_shape), axes(info, &info.file_shape));
    let (chunk_cells, file_cells) = (chunk_cells(info), axes(info, &info.file_counts));
    let mut text = format!("{}\n", report::line(uri));
    let mut row = |name: &str, value: String| {
        // Writing into a String cannot fail.
        let _ = writeln!(text, "  {name:<12} {value}");
    };
    row(
        "array",
        format!(
            "{} of {} ({}-endian), {}",
            report::crosses(axes(info, &info.shape)),
            report::name_text(&info.dtype_name),
            if info.byte_order == 0 { "little" } else { "big" },
            report::bytes_long(array_bytes(info))
        ),
    );
    row(
        "chunks",
        format!(
            "{} ({}{}), grid {} = {}",
            if info.shard_levels == 0 { file_text(info) } else { report::crosses(chunks) },
            if info.is_rectilinear != 0 && info.shard_levels == 0 { "up to " } else { "" },
            report::bytes_long(info.chunk_bytes),
            report::crosses(&chunk_cells),
            product(&chunk_cells)
        ),
    );
    let per_file: Vec<u64> = files.iter().zip(chunks).map(|(f, c)| f / (*c).max(1)).collect();
    row(
        if info.shard_levels > 0 { "shards" } else { "files" },
        match info.shard_levels {
            0 => format!("one per chunk, up to {}", product(file_cells)),
            levels => format!(
                "{}, grid {} = up to {} files of {}{} chunks, index at the {}{}",
                file_text(info),
                report::crosses(file_cells),
                product(file_cells),
                if info.is_rectilinear != 0 { "up to " } else { "" },
                product(&per_file),
                if info.index_at_start != 0 { "start" } else { "end" },
                if levels > 1 { ", shards inside shards" } else { "" }
            ),
        },
    );
    row("codecs", report::line(&report::name_text(&info.codecs)));
    row("fill value", fill_text(info));
    if let Some(packing) = packing_text(uri, info) {
        row("packing", packing);
    }
    if let Some(key) = key_sample(uri, info) {
        row("first key", key);
    }
    row("verdict", "accepted".to_owned());
    text
}

/// The attributes that the elements are packed by, and whether they are applied; None without any.
fn packing_text(uri: &str, info: &ArrayInfo) -> Option<String> {
    let names = packing_names(info).join(", ");
    match info.packing {
        0 => None,
        PACKING_UNKNOWN => Some("unknown: its attributes, .zattrs, could not be read".to_owned()),
        _ if split_cf(uri).is_some() => Some(format!("{names} in its attributes: applied")),
        _ => Some(format!(
            "{names} in its attributes: not applied, elements are as stored; URI#cf=1 applies them"
        )),
    }
}

/// The attributes that the elements are packed by.
fn packing_names(info: &ArrayInfo) -> Vec<&'static str> {
    let unknown = if info.packing & PACKING_UNKNOWN != 0 { Some("unknown") } else { None };
    Packing::names(info.packing).chain(unknown).collect()
}

/// The fill value as a number, or its bytes in hex.
fn fill_text(info: &ArrayInfo) -> String {
    let bytes = &info.fill;
    let eight = |at: usize| <[u8; 8]>::try_from(&bytes[at..at + 8]).unwrap_or_default();
    let wide = u64::from_le_bytes(eight(0));
    let single = |at: usize| f32::from_bits(u64::from_le_bytes(eight(at)) as u32);
    let double = |at: usize| f64::from_bits(u64::from_le_bytes(eight(at)));
    match Dtype::from_code(info.dtype) {
        Some(Dtype::U8) => (wide as u8).to_string(),
        Some(Dtype::I8) => (wide as i8).to_string(),
        Some(Dtype::U16) => (wide as u16).to_string(),
        Some(Dtype::I16) => (wide as i16).to_string(),
        Some(Dtype::U32) => (wide as u32).to_string(),
        Some(Dtype::I32) => (wide as i32).to_string(),
        Some(Dtype::U64) => wide.to_string(),
        Some(Dtype::I64) => (wide as i64).to_string(),
        Some(Dtype::Bool) => (wide as u8 != 0).to_string(),
        Some(Dtype::F32) => short(format!("{:?}", single(0))),
        Some(Dtype::F64) => short(format!("{:?}", double(0))),
        Some(Dtype::Bf16) => short(format!("{:?}", f32::from_bits((wide as u32) << 16))),
        Some(Dtype::F16) => short(format!("{:?}", f32_from_half(wide as u16))),
        Some(Dtype::C64) => format!("{}{:+}j", single(0), single(4)),
        Some(Dtype::C128) => format!("{}{:+}j", double(0), double(8)),
        Some(Dtype::Raw) | None => {
            let used = &bytes[..(info.dtype_bytes as usize).min(bytes.len())];
            format!("0x{}", used.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
        }
    }
}

/// A float as Rust prints it with an exponent where it is long, without a fraction of 0.
fn short(text: String) -> String {
    text.strip_suffix(".0").unwrap_or(&text).to_string()
}

/// The value of an IEEE binary16: every one is exact in binary32.
fn f32_from_half(bits: u16) -> f32 {
    let sign = if bits >> 15 == 1 { -1.0 } else { 1.0 };
    let (exponent, fraction) = (i32::from(bits >> 10 & 31), f32::from(bits & 1023));
    sign * match exponent {
        0 => fraction * 2f32.powi(-24),
        31 if fraction == 0.0 => f32::INFINITY,
        31 => f32::NAN,
        _ => (1.0 + fraction / 1024.0) * 2f32.powi(exponent - 15),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_what_the_half_crate_says() {
        for bits in 0..=u16::MAX {
            let (ours, theirs) = (f32_from_half(bits), half::f16::from_bits(bits).to_f32());
            assert!(ours == theirs || ours.is_nan() && theirs.is_nan(), "{bits:04x}");
        }
    }
}
