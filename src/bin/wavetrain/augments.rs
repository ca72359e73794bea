//! `--augment FILE` of crop and bench: what is done to the elements of boxes, and the map that they
//! lie at.
//!
//! In: a JSON object with the members of `wavetrain_augment`, and with `affine`, those of
//! `wavetrain_affine`; or, with a table of fields, such objects by the names of fields. Out: what
//! push takes with each box. A file is only looked at as far as it must be to be handed on: whether
//! it fits a sample is for the library to say.
//!
//! Numbers of a file, of which a process reads one, live as long as the process.

use crate::fault::{Fault, Outcome};
use crate::fields::ConfigFlags;
use crate::samples::object;
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};
use wavetrain::abi::{LINEAR, MAP_AXES, NEAREST};
use wavetrain::base::limits::RANK_MAX;
use wavetrain::loader::{AffineMap, Augmentation, Erasure, Interpolation, Part};
use wavetrain::records;

/// The end of the help of both commands.
pub const HELP: &str = "
The file of --augment, of which each member may be left out:
  {\"scale\": 0.004, \"bias\": [-0.5,-0.4], \"channel_axis\": 0,
    \"noise\": {\"sigma\": 0.1, \"key\": 7}, \"clamp\": [-2,null],
    \"erase\": [{\"begin\": [0,8,8], \"end\": [2,16,16], \"value\": 0}],
    \"pad_goes_through\": true,
    \"affine\": {\"matrix\": [[0.8,-0.6,30],[0.6,0.8,4]], \"axes\": [1,2], \"filter\": \"linear\",
      \"level\": 0, \"units\": false}}
Members mean what those of wavetrain_augment do in wavetrain.h, and work in its order. A number may
be a list of one for each channel (\"values\" of an erased box); null: no limit. With --fields the
file is an object of such objects by the names of fields; boxes of other fields are cast alone.
affine is wavetrain_affine: place (i, j) of a box reads about the voxel matrix @ (i, j, 1), for up
to three axes of the array. These are the last ones if axes is left out. Along these the box is
0:extent, of the output. The filter is \"linear\", for floats, or \"nearest\". The uri may be that
of an OME-NGFF image: the coarsest level that is fine enough is read, or the given one. With units
the matrix leads to physical units. Outside of the array --pad-mode, or that of the field, has the
elements. Memory for voxels is raised to what the boxes read, unless --max-resample-bytes or another
cap is given.
";

const KEYS: [&str; 8] =
    ["scale", "bias", "channel_axis", "noise", "clamp", "erase", "pad_goes_through", "affine"];

/// The axes of an array, of which a map without axes of its own has the last ones.
const AXES: [usize; RANK_MAX] = {
    let mut axes = [0; RANK_MAX];
    let mut axis = 0;
    while axis < RANK_MAX {
        axes[axis] = axis;
        axis += 1;
    }
    axes
};

/// Members of boxes next to their places.
#[derive(Clone, Copy, Default)]
pub struct Change {
    augment: Option<Augmentation<'static>>,
    affine: Option<Affine>,
}

/// A map, and how many axes it has; those that the file does not name are none of the map's yet.
#[derive(Clone, Copy)]
struct Affine {
    map: AffineMap<'static>,
    rank: usize,
}

impl Change {
    /// The same box with it.
    pub fn of<'a>(&self, part: Part<'a>) -> Part<'a> {
        let affine = self.affine.map(|affine| affine.of_box(part.begin.len()));
        Part { augment: self.augment, affine, ..part }
    }

    /// The map of a box of so many axes, if it has one.
    pub fn affine(&self, rank: usize) -> Option<records::Affine> {
        let AffineMap { axes: named, matrix, filter, level, has_units } = self.affine?.of_box(rank);
        let mut axes = [0; MAP_AXES];
        for (place, axis) in axes.iter_mut().zip(named) {
            *place = u32::try_from(*axis).ok()?;
        }
        let filter = if filter == Interpolation::Linear { LINEAR } else { NEAREST };
        let level = level.map_or(Some(-1), |level| i32::try_from(level).ok())?;
        let rank = named.len() as u32;
        Some(records::Affine { rank, axes, matrix, filter, level, has_units })
    }

    /// Whether elements of any type become floats.
    pub fn makes_floats(&self) -> bool {
        let is_linear = |affine: Affine| affine.map.filter == Interpolation::Linear;
        self.augment.is_some() || self.affine.is_some_and(is_linear)
    }
}

impl Affine {
    /// The map of a box of so many axes. Push refuses one that has too few.
    fn of_box(&self, rank: usize) -> AffineMap<'static> {
        match self.map.axes {
            [] => {
                let axes = &AXES[rank.min(RANK_MAX).saturating_sub(self.rank)..][..self.rank];
                AffineMap { axes, ..self.map }
            }
            _ => self.map,
        }
    }
}

/// Reads the file of all boxes.
pub fn read(path: &Path) -> Outcome<Change> {
    parsed(path, change)
}

/// Reads the file of a table of fields: what boxes of each field have, in the order of the table.
pub fn read_by_field(path: &Path, names: &[String]) -> Outcome<Vec<Change>> {
    let by_name = |value: &Value| {
        let object = value.as_object().ok_or("no JSON object by the names of fields")?;
        if let Some(other) = object.keys().find(|key| !names.contains(key)) {
            let names = names.join(", ");
            return Err(format!("no field '{other}': with --fields members are of {names}"));
        }
        let of_field = |name: &String| {
            let found = object.get(name).map_or(Ok(Change::default()), change);
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

fn change(value: &Value) -> Result<Change, String> {
    let object = object(value, &KEYS, "an augment")?;
    let affine = object.get("affine").map(affine).transpose();
    let affine = affine.map_err(|reason| format!("affine: {reason}"))?;
    // A map alone leaves elements as they are.
    let has_augment = affine.is_none() || object.len() > 1;
    let augment = has_augment.then(|| augment(object)).transpose()?;
    Ok(Change { augment, affine })
}

fn affine(value: &Value) -> Result<Affine, String> {
    let object = object(value, &["matrix", "axes", "filter", "level", "units"], "affine")?;
    let rows = object.get("matrix").and_then(Value::as_array);
    let rows = rows.ok_or("no list 'matrix': give a row for each axis that is mapped")?;
    let rank = rows.len();
    if rank == 0 || rank > MAP_AXES {
        return Err(format!("'matrix' has {rank} rows: give 1 to {MAP_AXES}, by mapped axis"));
    }
    let mut map = AffineMap::default();
    for (number, (target, row)) in map.matrix.iter_mut().zip(rows).enumerate() {
        let row = row.as_array().filter(|row| row.len() == rank + 1).ok_or_else(|| {
            let numbers = rank + 1;
            format!("'matrix' has no {numbers} numbers in row {number}: give factors and a term")
        })?;
        for (column, value) in row.iter().enumerate() {
            let number =
                value.as_f64().ok_or_else(|| format!("'matrix' has no number: {value}"))?;
            target[if column == rank { MAP_AXES } else { column }] = number;
        }
    }
    let axes = object.get("axes").map(|axes| {
        let axes = axes.as_array().filter(|axes| axes.len() == rank);
        let axes = axes.and_then(|axes| axes.iter().map(Value::as_u64).collect());
        axes.ok_or_else(|| format!("'axes' has no {rank} whole numbers: give one by row of matrix"))
    });
    let axes: Vec<u64> = axes.transpose()?.unwrap_or_default();
    map.axes = axes.into_iter().map(|axis| axis as usize).collect::<Vec<_>>().leak();
    map.filter = match object.get("filter").map(Value::as_str) {
        None | Some(Some("linear")) => Interpolation::Linear,
        Some(Some("nearest")) => Interpolation::Nearest,
        _ => return Err(format!("'filter' is {}: give linear or nearest", object["filter"])),
    };
    let level = object.get("level").map(|level| {
        let level = level.as_u64().and_then(|level| u32::try_from(level).ok());
        level.ok_or("'level' is not a level: give a whole number, or leave it out")
    });
    map.level = level.transpose()?;
    let units = object.get("units").map_or(Some(false), Value::as_bool);
    map.has_units = units.ok_or("'units' is neither true nor false")?;
    Ok(Affine { map, rank })
}

fn augment(object: &Map<String, Value>) -> Result<Augmentation<'static>, String> {
    let mut made = Augmentation::default();
    let [scale, bias] = ["scale", "bias"].map(|name| floats(object.get(name), name));
    let (scale, bias) = (scale?, bias?);
    let erase: &[Value] = match object.get("erase") {
        None => &[],
        Some(list) => list.as_array().ok_or("'erase' is not a list: give [{\"begin\": ..}]")?,
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
        let axis = axis.as_u64().ok_or("'channel_axis' is not an axis: give a whole number")?;
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
    Ok((float(sigma, "noise.sigma")?, key.ok_or("'noise.key' is not a whole number of 64 bits")?))
}

fn clamp(value: &Value) -> Result<(f32, f32), String> {
    let limit = |value: &Value, none| match value {
        Value::Null => Ok(none),
        value => float(value, "clamp"),
    };
    match value.as_array().map(Vec::as_slice) {
        Some([low, high]) => Ok((limit(low, f32::NEG_INFINITY)?, limit(high, f32::INFINITY)?)),
        _ => Err("'clamp' is not a pair: give [least, largest], null for no limit".to_owned()),
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
    let number = value.as_f64().ok_or_else(|| format!("'{name}' is not a number: {value}"))?;
    match number as f32 {
        float if float.is_finite() => Ok(float),
        _ => Err(format!("'{name}' has {number:e}: at most {:e} fits a float", f32::MAX)),
    }
}
