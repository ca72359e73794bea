//! `--augment FILE` of crop and bench: what is done to the elements of boxes.
//!
//! In: a JSON object with the members of `wavetrain_augment`, or, with a table of fields, such
//! objects by the names of fields. Out: what push takes with each box. A file is only looked at as
//! far as it must be to be handed on: whether it fits a sample is for the library to say.
//!
//! Numbers of a file, of which a process reads one, live as long as the process.

use crate::fault::{Fault, Outcome};
use crate::fields::ConfigFlags;
use crate::samples::object;
use serde_json::Value;
use std::path::{Path, PathBuf};
use wavetrain::loader::{Augmentation, Erasure};

/// The end of the help of both commands.
pub const HELP: &str = "
The file of --augment, of which each member may be left out:
  {\"scale\": 0.004, \"bias\": [-0.5,-0.4], \"channel_axis\": 0,
    \"noise\": {\"sigma\": 0.1, \"key\": 7}, \"clamp\": [-2,null],
    \"erase\": [{\"begin\": [0,8,8], \"end\": [2,16,16], \"value\": 0}],
    \"pad_goes_through\": true}
Members mean what those of wavetrain_augment do in wavetrain.h, and work in its order. A number may
be a list of one for each channel (\"values\" of an erased box); null is no limit. With --fields the
file is an object of such objects by the names of fields; boxes of other fields are cast alone.
";

const KEYS: [&str; 7] =
    ["scale", "bias", "channel_axis", "noise", "clamp", "erase", "pad_goes_through"];

/// Reads the file of all boxes.
pub fn read(path: &Path) -> Outcome<Augmentation<'static>> {
    parsed(path, augment)
}

/// Reads the file of a table of fields: what boxes of each field have, in the order of the table.
pub fn read_by_field(path: &Path, names: &[String]) -> Outcome<Vec<Option<Augmentation<'static>>>> {
    let by_name = |value: &Value| {
        let object = value.as_object().ok_or("no JSON object by the names of fields")?;
        if let Some(other) = object.keys().find(|key| !names.contains(key)) {
            let names = names.join(", ");
            return Err(format!("no field '{other}': with --fields members are of {names}"));
        }
        let of_field = |name: &String| {
            let found = object.get(name).map(augment).transpose();
            found.map_err(|reason| format!("field {name}: {reason}"))
        };
        names.iter().map(of_field).collect()
    };
    parsed(path, by_name)
}

/// Takes the path of the flag from the parser, and sets what a config needs for it.
pub fn take(flags: &mut ConfigFlags, parser: &mut lexopt::Parser) -> Outcome<PathBuf> {
    flags.config.augment = 1;
    Ok(PathBuf::from(parser.value()?))
}

/// Reads a file of JSON.
pub fn parsed<T>(path: &Path, read: impl Fn(&Value) -> Result<T, String>) -> Outcome<T> {
    let text = std::fs::read_to_string(path).map_err(|error| Fault::path(path, &error))?;
    let value = serde_json::from_str(&text).map_err(|error| error.to_string());
    let made = value.and_then(|value| read(&value));
    made.map_err(|reason| Fault::Failed(format!("{}: {reason}", path.display())))
}

fn augment(value: &Value) -> Result<Augmentation<'static>, String> {
    let object = object(value, &KEYS, "an augment")?;
    let mut made = Augmentation::default();
    let [scale, bias] = ["scale", "bias"].map(|name| floats(object.get(name), name));
    let (scale, bias) = (scale?, bias?);
    let erase: &[Value] = match object.get("erase") {
        None => &[],
        Some(list) => list.as_array().ok_or("'erase' is no list: give [{\"begin\": ..}]")?,
    };
    let erased = erase.iter().enumerate().map(|(number, value)| {
        erasure(value).map_err(|reason| format!("erase[{number}]: {reason}"))
    });
    let erased: Vec<Erasure<'static>> = erased.collect::<Result<_, _>>()?;
    made.channels = channels([scale.len(), bias.len()], &erased)?;
    made.scale = by_channel(scale, made.channels);
    made.bias = by_channel(bias, made.channels);
    made.erase = erased.leak();
    if let Some(axis) = object.get("channel_axis") {
        let axis = axis.as_u64().ok_or("'channel_axis' is no axis: give a whole number")?;
        made.channel_axis = if made.channels > 1 { axis as usize } else { 0 };
    }
    made.noise = object.get("noise").map(noise).transpose()?.unwrap_or_default();
    made.clamp = object.get("clamp").map(clamp).transpose()?;
    if let Some(goes) = object.get("pad_goes_through") {
        let goes = goes.as_bool().ok_or("'pad_goes_through' is neither true nor false")?;
        made.pad_goes_through = goes;
    }
    Ok(made)
}

/// How many channels are told apart, as Python's `Augment` has it.
fn channels(tables: [usize; 2], erased: &[Erasure<'_>]) -> Result<usize, String> {
    let counts = tables.into_iter().chain(erased.iter().map(|each| each.values.len()));
    let several: Vec<usize> = counts.filter(|count| *count > 1).collect();
    match several.iter().find(|count| **count != several[0]) {
        Some(other) => Err(format!(
            "scale, bias and values have {} and {other} numbers: give one, or one for each channel",
            several[0]
        )),
        None => Ok(several.first().copied().unwrap_or(tables[0].max(tables[1]))),
    }
}

/// One number of channels that something else tells apart is that of each.
fn by_channel(mut table: Vec<f32>, channels: usize) -> &'static [f32] {
    if let [one] = table[..] {
        table.resize(channels, one);
    }
    table.leak()
}

fn erasure(value: &Value) -> Result<Erasure<'static>, String> {
    let object = object(value, &["begin", "end", "value", "values"], "an erased box")?;
    let places = |name: &str| {
        let list = object.get(name).and_then(Value::as_array);
        let places = list.and_then(|list| list.iter().map(Value::as_u64).collect::<Option<_>>());
        places.ok_or_else(|| format!("no list '{name}': give a whole number by axis of the field"))
    };
    let (begin, end): (Vec<u64>, Vec<u64>) = (places("begin")?, places("end")?);
    if begin.len() != end.len() {
        let (begins, ends) = (begin.len(), end.len());
        return Err(format!("begin has {begins} axes and end {ends}: give those of the field"));
    }
    let values = match (object.get("value"), object.get("values")) {
        (Some(_), Some(_)) => return Err("value and values: give one of them".to_owned()),
        (None, None) => vec![0.0],
        (one, several) => floats(one.or(several), if one.is_some() { "value" } else { "values" })?,
    };
    if values.is_empty() {
        return Err("'values' is empty: give one number, or one for each channel".to_owned());
    }
    Ok(Erasure { begin: begin.leak(), end: end.leak(), values: values.leak() })
}

/// The deviation and the key.
fn noise(value: &Value) -> Result<(f32, u64), String> {
    let object = object(value, &["sigma", "key"], "noise")?;
    let sigma = object.get("sigma").ok_or("noise has no 'sigma': give its standard deviation")?;
    let key = object.get("key").map_or(Some(0), Value::as_u64);
    Ok((float(sigma, "noise.sigma")?, key.ok_or("'noise.key' is no whole number of 64 bits")?))
}

fn clamp(value: &Value) -> Result<(f32, f32), String> {
    let limit = |value: &Value, none| match value {
        Value::Null => Ok(none),
        value => float(value, "clamp"),
    };
    match value.as_array().map(Vec::as_slice) {
        Some([low, high]) => Ok((limit(low, f32::NEG_INFINITY)?, limit(high, f32::INFINITY)?)),
        _ => Err("'clamp' is no pair: give [least, largest], null for no limit".to_owned()),
    }
}

/// A number, or a list of them; none if the member is left out.
fn floats(value: Option<&Value>, name: &str) -> Result<Vec<f32>, String> {
    match value {
        None => Ok(Vec::new()),
        Some(Value::Array(list)) => list.iter().map(|each| float(each, name)).collect(),
        Some(one) => Ok(vec![float(one, name)?]),
    }
}

fn float(value: &Value, name: &str) -> Result<f32, String> {
    let number = value.as_f64().ok_or_else(|| format!("'{name}' is no number: {value}"))?;
    match number as f32 {
        float if float.is_finite() => Ok(float),
        _ => Err(format!("'{name}' has {number:e}: at most {:e} fits a float", f32::MAX)),
    }
}
