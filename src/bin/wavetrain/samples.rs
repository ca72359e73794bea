//! Samples of several boxes, and the fields that they go to: `--fields FILE` of crop and bench, and
//! what the demo streams.
//!
//! In: a table of fields in JSON, and lines `{"boxes": [{"field": 0, "uri": "..", "box": [[0,64]],
//! "at": [..], "step": [..], "axes": [..]}, {"field": "label", "value": 3}], "tag": 7}`. Out: what
//! push takes. A line is only looked at as far as it must be to be handed on: whether boxes fit is
//! for the library to say.
//!
//! Samples own their boxes, so that a block of a list is freed once it was streamed. The table of
//! fields, one in a process, lives as long as that: a config has only such tables.

use crate::augments::{self, Change};
use crate::fault::Outcome;
use crate::feed::{self, Known, List};
use crate::fields::ConfigFlags;
use crate::requests::{Extent, LineList, Uris, extent_from_value};
use crate::staging;
use serde_json::Value;
use std::collections::BTreeMap;
use std::iter::repeat;
use std::path::Path;
use wavetrain::abi::{Blank, FieldSpec};
use wavetrain::assemble::value_element;
use wavetrain::config::{self, Config, FieldTable};
use wavetrain::loader::{Failure, Feed, Loader, Part, Sample};
use wavetrain::records::{DTYPES, Dtype};

/// A table of fields.
pub struct Fields {
    pub specs: Vec<FieldSpec>,
    pub names: Vec<String>,
    /// The arithmetic on the elements of boxes, by field.
    changes: Vec<Change>,
    dtypes: Vec<Dtype>,
}

/// Samples of a list, or a block of one.
pub struct Samples {
    /// Place of the first in the whole list.
    pub first: usize,
    fields: &'static Fields,
    items: Vec<Item>,
    /// Distinct arrays.
    uris: Uris,
    /// Samples whose lines are none, and why; their items have no boxes.
    pub malformed: BTreeMap<usize, String>,
}

#[derive(Default)]
struct Item {
    pieces: Vec<Piece>,
    /// What the line calls itself, if it does.
    tag: Option<u64>,
}

/// One box of a sample.
struct Piece {
    field: u32,
    extent: Extent,
    at: Vec<u64>,
    step: Vec<i64>,
    axes: Vec<Option<usize>>,
    source: Source,
}

/// What a box is read from.
enum Source {
    /// The array of this position.
    Array(usize),
    /// A value: type, extents and bytes.
    Value(Dtype, Vec<u64>, Vec<u8>),
}

/// A sample as push takes it, once its boxes have a slice.
pub struct Waiting<'a> {
    parts: Vec<Part<'a>>,
    tag: u64,
}

/// The keys of an object that are none of these are an error.
pub fn object<'v>(
    value: &'v Value,
    keys: &[&str],
    what: &str,
) -> Result<&'v serde_json::Map<String, Value>, String> {
    let object = value.as_object().ok_or_else(|| format!("{what} is not a JSON object"))?;
    match object.keys().find(|key| !keys.contains(&key.as_str())) {
        Some(key) => Err(format!("unknown key '{key}': {what} has {}", keys.join(", "))),
        None => Ok(object),
    }
}

impl Fields {
    /// Reads `[{"name": "image", "sample_shape": [64,64], "dtype": "f32"}, ..]`, and the file of
    /// `--augment`.
    pub fn read(path: &Path, augment: Option<&Path>) -> Outcome<&'static Fields> {
        let mut fields = augments::parsed(path, Fields::from_value)?;
        if let Some(path) = augment {
            fields.changes = augments::read_by_field(path, &fields.names)?;
        }
        Ok(Box::leak(Box::new(fields)))
    }

    /// A table without `--augment`.
    pub fn from_value(value: &Value) -> Result<Fields, String> {
        let list = value.as_array().filter(|list| !list.is_empty());
        let list = list.ok_or("no list of fields")?;
        let mut fields = Fields {
            specs: Vec::new(),
            names: Vec::new(),
            changes: vec![Change::default(); list.len()],
            dtypes: Vec::new(),
        };
        for (number, value) in list.iter().enumerate() {
            let (name, dtype, spec) =
                field(value).map_err(|reason| format!("field {number}: {reason}"))?;
            fields.names.push(name);
            fields.dtypes.push(dtype);
            fields.specs.push(spec);
        }
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

const FIELD_KEYS: [&str; 7] =
    ["name", "sample_shape", "dtype", "pad_mode", "pad_value", "dtype_bytes", "cf"];

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
        spec.pad_value = value.as_f64().ok_or("pad_value is not a number")?;
        spec.pad_value_set = 1;
    }
    if let Some(cf) = object.get("cf") {
        spec.cf = cf.as_bool().ok_or("'cf' is neither true nor false")?.into();
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
    list.ok_or_else(|| format!("'{name}' is not a list of such numbers"))
}

impl Samples {
    /// None yet; the first will be number `first` of the list.
    pub fn beginning_at(first: usize, fields: &'static Fields) -> Samples {
        let (items, uris, malformed) = (Vec::new(), Uris::default(), BTreeMap::new());
        Samples { first, fields, items, uris, malformed }
    }

    /// Appends the sample of a line.
    pub fn add(&mut self, value: &Value) -> Result<(), String> {
        let mut item = Item::default();
        match value.get("boxes") {
            None => item.pieces.push(self.piece(value)?),
            Some(boxes) => {
                let object = object(value, &["boxes", "tag"], "a request")?;
                let whole = |tag: &Value| tag.as_u64().ok_or("'tag' is not a whole number");
                item.tag = object.get("tag").map(whole).transpose()?;
                let boxes = boxes.as_array().ok_or("'boxes' is not a list")?;
                let pieces = boxes.iter().map(|value| self.piece(value));
                item.pieces = pieces.collect::<Result<_, _>>()?;
            }
        }
        self.items.push(item);
        Ok(())
    }

    fn piece(&mut self, value: &Value) -> Result<Piece, String> {
        const KEYS: [&str; 7] = ["field", "uri", "box", "value", "at", "step", "axes"];
        let object = object(value, &KEYS, "a box")?;
        let field = self.fields.number(object.get("field"))?;
        let at = list(object.get("at"), "at", Value::as_u64)?;
        let step = list(object.get("step"), "step", Value::as_i64)?;
        let axis = |axis: &Value| match axis {
            Value::Null => Some(None),
            axis => axis.as_u64().map(|axis| Some(axis as usize)),
        };
        let axes = list(object.get("axes"), "axes", axis)?;
        let (source, extent) = match (object.get("uri"), object.get("value")) {
            (Some(uri), None) => {
                let uri = uri.as_str().ok_or("'uri' is not a string")?;
                let extent = extent_from_value(object.get("box"))?;
                (Source::Array(self.uris.position(uri)), extent)
            }
            (None, Some(value)) if !object.contains_key("box") => {
                let dtype = self.fields.dtypes[field as usize];
                let (mut shape, mut bytes) = (Vec::new(), Vec::new());
                flatten(value, dtype, 0, &mut shape, &mut bytes)?;
                let end: Vec<i64> = shape.iter().map(|extent| *extent as i64).collect();
                let begin = vec![0; end.len()];
                (Source::Value(dtype, shape, bytes), Extent { begin, end, lists: Vec::new() })
            }
            _ => return Err("a box has a uri and a box, or a value".to_owned()),
        };
        Ok(Piece { field, extent, at, step, axes, source })
    }

    fn part<'a>(&'a self, piece: &'a Piece) -> Part<'a> {
        let (uri, feed) = match &piece.source {
            Source::Array(position) => (self.uris.list[*position].as_str(), Feed::Nothing),
            Source::Value(dtype, shape, bytes) => ("", Feed::Value(*dtype, shape, bytes)),
        };
        let Piece { field, extent: Extent { begin, end, lists }, at, step, axes, .. } = piece;
        let (augment, affine) = (None, None);
        let field = *field;
        let part = Part { uri, feed, begin, end, field, at, step, lists, axes, augment, affine };
        self.fields.changes[field as usize].of(part)
    }

    /// A piece as the staging of maps has it; None of a value, which needs next to nothing.
    fn box_of(&self, piece: &Piece) -> Option<staging::Item<'_>> {
        let Source::Array(uri) = piece.source else { return None };
        let steps = piece.step.iter().map(|step| step.unsigned_abs().max(1)).chain(repeat(1));
        let places = piece.extent.shape().into_iter().zip(steps);
        let places = places.map(|(extent, step)| extent.div_ceil(step)).collect();
        let field = piece.field as usize;
        let spec = &self.fields.specs[field];
        Some((uri, places, &self.fields.changes[field], (spec.pad_mode, spec.cf)))
    }

    /// The config of the command line with the table of fields, room for the boxes, and, unless it
    /// has caps, caps that do for the arrays; and the types of these.
    pub fn prepare(&self, flags: &ConfigFlags) -> Outcome<(Config, Vec<Option<Known>>)> {
        let mut config = flags.config;
        config.fields = FieldTable::from_static(&self.fields.specs);
        let most = self.items.iter().map(|item| item.pieces.len()).max().unwrap_or(1);
        if config.max_boxes_per_sample == 0 {
            config.max_boxes_per_sample = most.max(self.fields.names.len()) as u32;
        }
        let indices = |item: &Item| {
            item.pieces.iter().fold(0, |all: u32, piece| all.saturating_add(piece.extent.indices()))
        };
        feed::set_indices(&mut config, flags, self.items.iter().map(indices));
        let types = feed::element_types(&self.uris.list, 0);
        if !flags.caps_given() {
            if !flags.is_given("max_resample_bytes") {
                let pieces = self.items.iter().flat_map(|item| &item.pieces);
                let boxes = pieces.filter_map(|piece| self.box_of(piece));
                staging::fit(&mut config, (&self.uris.list, &types), boxes);
            }
            feed::fit_readable(&mut config, &self.uris.list, &types)?;
        }
        Ok((config, types))
    }
}

impl LineList for Samples {
    fn count(&self) -> usize {
        self.items.len()
    }

    fn add_line(&mut self, line: &str) -> Result<(), String> {
        let value = serde_json::from_str(line).map_err(|error| error.to_string())?;
        self.add(&value)
    }

    fn add_malformed(&mut self, text: String) {
        self.malformed.insert(self.items.len(), text);
        self.items.push(Item::default());
    }

    fn uris(&mut self) -> &mut Uris {
        &mut self.uris
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
    let number = value.as_f64().ok_or("'value' is not a number")?;
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
    type Item<'a> = Waiting<'a>;

    fn len(&self) -> usize {
        self.items.len()
    }

    fn item(&self, index: usize) -> Waiting<'_> {
        let parts = self.items[index].pieces.iter().map(|piece| self.part(piece));
        Waiting { parts: parts.collect(), tag: index as u64 + 1 }
    }

    fn tag(item: &Waiting<'_>) -> u64 {
        item.tag
    }

    fn push(
        loader: &Loader,
        items: &[Waiting<'_>],
        timeout_ns: u64,
    ) -> (usize, Result<(), Failure>) {
        let samples = items.iter().map(|item| Sample { parts: &item.parts, tag: item.tag });
        loader.push_samples(&samples.collect::<Vec<_>>(), timeout_ns)
    }

    fn name(&self, index: usize) -> String {
        let number = self.first + index;
        match self.items[index].tag {
            Some(tag) => format!("request {number} (tag {tag})"),
            None => format!("request {number}"),
        }
    }

    fn own_tag(&self, index: usize) -> u64 {
        self.items[index].tag.unwrap_or((self.first + index) as u64 + 1)
    }

    fn place(&self, index: usize, field: usize) -> String {
        let pieces = self.items[index].pieces.iter();
        let of_piece = |piece: &Piece| match piece.source {
            Source::Array(uri) => format!("{} of {}", piece.extent.text(), self.uris.list[uri]),
            Source::Value(..) => "a value".to_owned(),
        };
        let of_field = pieces.filter(|piece| piece.field as usize == field);
        let boxes: Vec<String> = of_field.map(of_piece).collect();
        let boxes = if boxes.is_empty() { "no box".to_owned() } else { boxes.join(", ") };
        format!("{} ({boxes})", self.name(index))
    }

    fn fields(&self) -> &[String] {
        &self.fields.names
    }

    fn source_bytes(&self, types: &[Option<Known>]) -> f64 {
        let of_piece = |piece: &Piece| {
            let Source::Array(uri) = piece.source else { return 0.0 };
            let shape = piece.extent.shape();
            let places = shape.iter().enumerate().map(|(axis, extent)| {
                let step = piece.step.get(axis).map_or(1, |step| step.unsigned_abs().max(1));
                extent.div_ceil(step) as f64
            });
            types[uri].map_or(0.0, |known| f64::from(known.element.1)) * places.product::<f64>()
        };
        self.items.iter().flat_map(|item| &item.pieces).map(of_piece).sum()
    }
}
