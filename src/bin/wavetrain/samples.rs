//! Samples of several boxes, and the fields that they go to: `--fields FILE` of crop and bench, and
//! what the demo streams.
//!
//! In: a table of fields in JSON, and lines `{"boxes": [{"field": 0, "uri": "..", "box": [[0,64]],
//! "at": [..], "step": [..], "axes": [..]}, {"field": "label", "value": 3}], "tag": 7}`. Out: what
//! push takes; of crop a .npy file of each field and sample. What a line says is only looked at as
//! far as it must be to be handed on: whether boxes fit is for the library to say.
//!
//! Fields, boxes and what they borrow live as long as the process: the library borrows them.

use crate::fault::{Fault, Outcome, failed};
use crate::feed::{self, ElementType, List, Stop};
use crate::fields::ConfigFlags;
use crate::npy::Writer;
use crate::progress::Progress;
use crate::report;
use crate::requests::{Extent, extent_from_value, lines};
use serde_json::Value;
use std::collections::HashMap;
use std::path::Path;
use wavetrain::abi::{Blank, FieldSpec};
use wavetrain::assemble::value_element;
use wavetrain::config::{self, FieldTable};
use wavetrain::loader::{Batch, Failure, Feed, Loader, Part, Sample};
use wavetrain::records::{DTYPES, Dtype};
use wavetrain::status::Status;

/// A table of fields.
pub struct Fields {
    specs: &'static [FieldSpec],
    names: Vec<String>,
    dtypes: Vec<Dtype>,
}

/// Samples of a file.
pub struct Samples {
    fields: Fields,
    items: Vec<Sample<'static>>,
    /// What lines call themselves, where they do.
    tags: Vec<Option<u64>>,
    /// Distinct arrays.
    pub uris: Vec<&'static str>,
}

fn leak<T>(list: Vec<T>) -> &'static [T] {
    list.leak()
}

/// The keys of an object that are none of these are an error.
fn object<'v>(
    value: &'v Value,
    keys: &[&str],
    what: &str,
) -> Result<&'v serde_json::Map<String, Value>, String> {
    let object = value.as_object().ok_or_else(|| format!("{what} is no JSON object"))?;
    match object.keys().find(|key| !keys.contains(&key.as_str())) {
        Some(key) => Err(format!("unknown key '{key}': {what} has {}", keys.join(", "))),
        None => Ok(object),
    }
}

impl Fields {
    /// Reads `[{"name": "image", "sample_shape": [64,64], "dtype": "f32"}, ..]`.
    pub fn read(path: &Path) -> Outcome<Fields> {
        let text = std::fs::read_to_string(path).map_err(|error| Fault::path(path, &error))?;
        let told = |reason: String| Fault::Failed(format!("{}: {reason}", path.display()));
        let value: Value = serde_json::from_str(&text).map_err(|error| told(error.to_string()))?;
        Fields::from_value(&value).map_err(told)
    }

    /// The same of a value.
    pub fn from_value(value: &Value) -> Result<Fields, String> {
        let list = value.as_array().filter(|list| !list.is_empty());
        let list = list.ok_or("no list of fields")?;
        let mut fields = Fields { specs: &[], names: Vec::new(), dtypes: Vec::new() };
        let mut specs = Vec::new();
        for (number, value) in list.iter().enumerate() {
            let (name, dtype, spec) =
                field(value).map_err(|reason| format!("field {number}: {reason}"))?;
            fields.names.push(name);
            fields.dtypes.push(dtype);
            specs.push(spec);
        }
        fields.specs = leak(specs);
        Ok(fields)
    }

    fn number(&self, value: Option<&Value>) -> Result<u32, String> {
        let named = |name: &str| self.names.iter().position(|known| known == name);
        let number = match value {
            None => Some(0),
            Some(Value::String(name)) => named(name),
            Some(value) => value.as_u64().map(|number| number as usize),
        };
        match number.filter(|number| *number < self.names.len()) {
            Some(number) => Ok(number as u32),
            None => Err(format!("no such field: there are {}", self.names.join(", "))),
        }
    }
}

const FIELD_KEYS: [&str; 6] =
    ["name", "sample_shape", "dtype", "pad_mode", "pad_value", "dtype_bytes"];

fn field(value: &Value) -> Result<(String, Dtype, FieldSpec), String> {
    let object = object(value, &FIELD_KEYS, "a field")?;
    let text = |key: &str| object.get(key).and_then(Value::as_str);
    let mut spec = FieldSpec::BLANK;
    let name = text("name").ok_or("no string 'name'")?;
    if name.len() >= spec.name.len() {
        return Err(format!("a name of {} bytes: at most {}", name.len(), spec.name.len() - 1));
    }
    spec.name[..name.len()].copy_from_slice(name.as_bytes());
    let dtype = text("dtype").unwrap_or("f32");
    let known = DTYPES.iter().find(|known| known.name() == dtype);
    let dtype = *known.ok_or_else(|| format!("dtype '{dtype}': no such element type"))?;
    spec.dtype = dtype as u32;
    if let Some(bytes) = object.get("dtype_bytes") {
        spec.dtype_bytes = bytes.as_u64().and_then(|n| u32::try_from(n).ok()).unwrap_or(u32::MAX);
    }
    let shape = list(object.get("sample_shape"), "sample_shape", Value::as_u64)?;
    if shape.len() > spec.sample_shape.len() {
        return Err(format!("a sample_shape of {} axes", shape.len()));
    }
    spec.sample_rank = shape.len() as u32;
    spec.sample_shape[..shape.len()].copy_from_slice(&shape);
    spec.pad_mode = match text("pad_mode").unwrap_or("none") {
        "none" => config::PAD_NONE,
        "constant" => config::PAD_CONSTANT,
        "edge" => config::PAD_EDGE,
        "reflect" => config::PAD_REFLECT,
        other => return Err(format!("pad_mode '{other}': none, constant, edge or reflect")),
    };
    if let Some(value) = object.get("pad_value") {
        spec.pad_value = value.as_f64().ok_or("pad_value is no number")?;
        spec.pad_value_set = 1;
    }
    Ok((name.to_owned(), dtype, spec))
}

/// A list of values of one kind; empty where there is none.
fn list<T>(
    value: Option<&Value>,
    name: &str,
    each: impl Fn(&Value) -> Option<T>,
) -> Result<Vec<T>, String> {
    let Some(value) = value else { return Ok(Vec::new()) };
    let list = value.as_array().and_then(|list| list.iter().map(each).collect());
    list.ok_or_else(|| format!("'{name}' is no list of such numbers"))
}

impl Samples {
    /// None yet.
    pub fn new(fields: Fields) -> Samples {
        Samples { fields, items: Vec::new(), tags: Vec::new(), uris: Vec::new() }
    }

    /// Reads a file of JSON lines, or standard input for "-".
    pub fn read(path: &Path, fields: Fields) -> Outcome<Samples> {
        let mut samples = Samples::new(fields);
        lines(path, |index, line| {
            let value =
                line.and_then(|line| serde_json::from_str(line).map_err(|error| error.to_string()));
            let added = value.and_then(|value| samples.add(&value));
            added.or_else(|reason| {
                failed(format!("{}, line {}: {reason}", path.display(), index + 1))
            })
        })?;
        if samples.items.is_empty() {
            return failed(format!("{}: no requests in it", path.display()));
        }
        Ok(samples)
    }

    /// Appends what a line says.
    pub fn add(&mut self, value: &Value) -> Result<(), String> {
        let tag = self.items.len() as u64 + 1;
        let mut own_tag = None;
        let parts = match value.get("boxes") {
            None => vec![self.part(value)?],
            Some(boxes) => {
                let object = object(value, &["boxes", "tag"], "a request")?;
                let whole = |tag: &Value| tag.as_u64().ok_or("'tag' is no whole number");
                own_tag = object.get("tag").map(whole).transpose()?;
                let boxes = boxes.as_array().ok_or("'boxes' is no list")?;
                boxes.iter().map(|value| self.part(value)).collect::<Result<_, _>>()?
            }
        };
        self.tags.push(own_tag);
        self.items.push(Sample { parts: leak(parts), tag });
        Ok(())
    }

    fn part(&mut self, value: &Value) -> Result<Part<'static>, String> {
        const KEYS: [&str; 7] = ["field", "uri", "box", "value", "at", "step", "axes"];
        let object = object(value, &KEYS, "a box")?;
        let field = self.fields.number(object.get("field"))?;
        let at = leak(list(object.get("at"), "at", Value::as_u64)?);
        let step = leak(list(object.get("step"), "step", Value::as_i64)?);
        let axis = |axis: &Value| match axis {
            Value::Null => Some(None),
            axis => axis.as_u64().map(|axis| Some(axis as usize)),
        };
        let axes = leak(list(object.get("axes"), "axes", axis)?);
        let part = Part { field, at, step, axes, ..Part::default() };
        match (object.get("uri"), object.get("value")) {
            (Some(uri), None) => {
                let uri = uri.as_str().ok_or("'uri' is no string")?;
                let extent = extent_from_value(object.get("box"))?;
                let uri = self.known_uri(uri);
                Ok(Part { uri, begin: leak(extent.begin), end: leak(extent.end), ..part })
            }
            (None, Some(value)) if !object.contains_key("box") => {
                let dtype = self.fields.dtypes[field as usize];
                let (mut shape, mut bytes) = (Vec::new(), Vec::new());
                flatten(value, dtype, 0, &mut shape, &mut bytes)?;
                let end = leak(shape.iter().map(|extent| *extent as i64).collect());
                let begin = leak(vec![0; end.len()]);
                let feed = Feed::Value(dtype, leak(shape), leak(bytes));
                Ok(Part { feed, begin, end, ..part })
            }
            _ => Err("a box has a uri and a box, or a value".to_owned()),
        }
    }

    /// Puts the table of fields into a config, room for the boxes, and, unless the command line
    /// gave caps, caps that do for the arrays. Gives the types of these.
    pub fn prepare(&self, flags: &mut ConfigFlags) -> Outcome<Vec<Option<ElementType>>> {
        let has_caps = flags.caps_given();
        let config = &mut flags.config;
        config.fields = FieldTable::from_static(self.fields.specs);
        let most = self.items.iter().map(|sample| sample.parts.len()).max().unwrap_or(1);
        if config.max_boxes_per_sample == 0 {
            config.max_boxes_per_sample = most.max(self.fields.names.len()) as u32;
        }
        let types = feed::element_types(&self.uris);
        if !has_caps {
            feed::fit_readable(config, &self.uris, &types)?;
        }
        Ok(types)
    }

    fn known_uri(&mut self, uri: &str) -> &'static str {
        if let Some(known) = self.uris.iter().rev().take(16).find(|known| **known == uri) {
            return known;
        }
        let known: &'static str = uri.to_owned().leak();
        self.uris.push(known);
        known
    }
}

/// The shape and the bytes of a number, or of lists of them.
fn flatten(
    value: &Value,
    dtype: Dtype,
    depth: usize,
    shape: &mut Vec<u64>,
    bytes: &mut Vec<u8>,
) -> Result<(), String> {
    if let Some(list) = value.as_array() {
        if depth == shape.len() {
            if !bytes.is_empty() {
                return Err("'value' has lists and numbers side by side".to_owned());
            }
            shape.push(list.len() as u64);
        }
        if shape[depth] != list.len() as u64 {
            return Err("'value' has lists of different lengths".to_owned());
        }
        return list.iter().try_for_each(|each| flatten(each, dtype, depth + 1, shape, bytes));
    }
    if depth != shape.len() {
        return Err("'value' has lists and numbers side by side".to_owned());
    }
    let number = value.as_f64().ok_or("'value' is no number")?;
    // A double has not all integers of 64 bits.
    let exact = match (dtype, value.as_i64(), value.as_u64()) {
        (Dtype::I64, Some(whole), _) => Some(whole.to_ne_bytes()),
        (Dtype::U64, _, Some(whole)) => Some(whole.to_ne_bytes()),
        _ => None,
    };
    let element = value_element(number, dtype, dtype.bytes());
    match (exact, element) {
        (Some(exact), _) => bytes.extend_from_slice(&exact),
        (None, Some(element)) => bytes.extend_from_slice(&element[..dtype.bytes() as usize]),
        (None, None) => return Err(format!("{} cannot hold the value {number}", dtype.name())),
    }
    Ok(())
}

impl List for Samples {
    type Item<'a> = Sample<'a>;

    fn len(&self) -> usize {
        self.items.len()
    }

    fn item(&self, index: usize) -> Sample<'_> {
        self.items[index]
    }

    fn tag(item: &Sample<'_>) -> u64 {
        item.tag
    }

    fn push(loader: &Loader, items: &[Sample<'_>]) -> (usize, Result<(), Failure>) {
        loader.push_samples(items, 0)
    }

    fn name(&self, index: usize) -> String {
        match self.tags[index] {
            Some(tag) => format!("request {index} (tag {tag})"),
            None => format!("request {index}"),
        }
    }

    fn own_tag(&self, index: usize) -> u64 {
        self.tags[index].unwrap_or(index as u64 + 1)
    }

    fn place(&self, index: usize, field: usize) -> String {
        let parts = self.items[index].parts.iter().filter(|part| part.field as usize == field);
        let of_part = |part: &Part<'static>| match part.feed {
            Feed::Nothing => {
                let extent = Extent { begin: part.begin.to_vec(), end: part.end.to_vec() };
                format!("{} of {}", extent.text(), part.uri)
            }
            _ => "a value".to_owned(),
        };
        let boxes: Vec<String> = parts.map(of_part).collect();
        let boxes = if boxes.is_empty() { "no box".to_owned() } else { boxes.join(", ") };
        format!("{} ({boxes})", self.name(index))
    }

    fn fields(&self) -> &[String] {
        &self.fields.names
    }

    fn source_bytes(&self, types: &[Option<ElementType>]) -> f64 {
        let types: HashMap<&str, _> = self.uris.iter().copied().zip(types).collect();
        let of_part = |part: &Part<'static>| {
            let known = types.get(part.uri).copied().copied().flatten();
            let element = known.map_or(0.0, |(_, bytes)| f64::from(bytes));
            let places = part.begin.iter().zip(part.end).enumerate().map(|(axis, (begin, end))| {
                let step = part.step.get(axis).map_or(1, |step| step.unsigned_abs().max(1));
                end.abs_diff(*begin).div_ceil(step) as f64
            });
            element * places.product::<f64>()
        };
        self.items.iter().flat_map(|sample| sample.parts).map(of_part).sum()
    }
}

/// Streams all samples, and writes NAME.000000.npy, NAME.000001.npy, .. of each field to a folder.
/// Samples that failed have no file; how many they are is the error.
pub fn crop(flags: &mut ConfigFlags, samples: &Samples, folder: &Path) -> Outcome<()> {
    std::fs::create_dir_all(folder).map_err(|error| Fault::path(folder, &error))?;
    samples.prepare(flags)?;
    let config = &flags.config;
    let library = |failure: Failure| Fault::library(&failure);
    let loader = feed::open(config).map_err(library)?;
    let mut failures = 0;
    let indexes = 0..samples.items.len();
    let mut write = |batch: &Batch<'_>| -> Outcome<()> {
        for (number, name) in samples.fields.names.iter().enumerate() {
            let field = batch.field(number as u32).map_err(library)?;
            let data = feed::elements(batch, &field)?;
            let spec = &samples.fields.specs[number];
            let rows = data.chunks(data.len() / batch.tags().len());
            for ((tag, code), row) in batch.tags().iter().zip(batch.statuses()).zip(rows) {
                let index = (*tag - 1) as usize;
                if *code != 0 {
                    failures += usize::from(number == 0);
                    if number == 0 {
                        let status = Status::from_code(*code).unwrap_or(Status::Internal);
                        let text = crate::system::take_text(*tag).unwrap_or_default();
                        report::warn(&format!("{}: {status}: {text}", samples.name(index)));
                    }
                    continue;
                }
                let bytes = spec.dtype_bytes.max(field.dtype().bytes());
                let path = folder.join(format!("{name}.{index:06}.npy"));
                let element = (field.dtype(), bytes);
                let mut file = Writer::create(&path, element, &field.shape()[1..])?;
                file.write(row)?;
                file.finish()?;
            }
        }
        Ok(())
    };
    let progress = Progress::begin(Some(samples.items.len() as u64), "cropping");
    let timeout_ns = config.pop_timeout_ns;
    let streamed = feed::stream(&loader, samples, indexes, timeout_ns, &progress, &mut write);
    drop(progress);
    streamed.map_err(|stop: Stop| feed::stop_fault(stop, samples))?;
    match failures {
        0 => Ok(()),
        count => failed(format!("{count} of {} requests failed", samples.items.len())),
    }
}
