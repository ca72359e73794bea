//! The fields of a batch: tensors that each sample has a part of.
//!
//! In: the config's table of fields, or, where there is none, its members that describe one. Out:
//! [`Field`]s, checked, each with its place in a batch slot. Invariant: the parts of a slot do not
//! overlap, and a tensor begins where DLPack wants it.

use crate::assemble::axis::PadMode;
use crate::assemble::cast::Cast;
use crate::assemble::value_element;
use crate::base::abi::{Blank, FieldSpec, NAME_BYTES};
use crate::base::limits::{BUFFER_ALIGN, ELEMENT_BYTES_MAX, FIELDS_MAX, RANK_MAX};
use crate::base::math::{align_up, product};
use crate::base::status::{Status, Why};
use crate::base::text::{Float, Text};
use crate::fail;
use crate::records::{ArrayRecord, BoxShape, Dtype};
use crate::setup::config::{self, Config, range};
use arrayvec::ArrayVec;
use core::str;

/// Largest batch slot: keeps every sum of the bill far below u64, and every walk along an axis in
/// the bits that it has.
const SLOT_BYTES_MAX: u64 = 1 << 44;

/// A field of a batch.
#[derive(Clone, Debug)]
pub struct Field {
    /// Its name, with a NUL; empty where the config has no table.
    name: [u8; NAME_BYTES],
    /// Axes of a sample.
    pub rank: u32,
    /// Their extents.
    pub shape: [u64; RANK_MAX],
    /// Bytes from one element to the next along each of them.
    pub strides: [u64; RANK_MAX],
    /// Element type.
    pub dtype: Dtype,
    /// Bytes of an element.
    pub dtype_bytes: u32,
    /// Bytes of one sample.
    pub sample_bytes: u64,
    /// First byte in a batch slot.
    pub offset: u64,
    /// What lies outside of an array.
    pub pad_mode: PadMode,
    /// pad_value as an element.
    pub pad_element: [u8; ELEMENT_BYTES_MAX],
    /// Constant padding takes it, not the array's fill value.
    pub pads_value: bool,
    /// Numbers of any kind become integers, clamped.
    pub is_clamped: bool,
    /// Arrays are decoded by the CF conventions.
    pub is_cf: bool,
}

/// The fields of a batch.
pub type Fields = ArrayVec<Field, { FIELDS_MAX as usize }>;

impl Field {
    /// Its name, with a NUL.
    pub fn name_nul(&self) -> &[u8] {
        &self.name
    }

    /// The same without.
    pub fn name(&self) -> &str {
        let bytes = self.name.split(|byte| *byte == 0).next().unwrap_or(&[]);
        // It was checked when it was read.
        str::from_utf8(bytes).unwrap_or("")
    }

    /// Extents of a sample, as many as it has axes.
    pub fn extents(&self) -> &[u64] {
        &self.shape[..self.rank as usize]
    }

    /// Number of elements of a sample.
    pub fn elements(&self) -> u64 {
        self.sample_bytes / u64::from(self.dtype_bytes)
    }

    /// Extents that say what boxes cover of a sample: a scalar has one.
    pub fn filled_extents(&self) -> usize {
        self.extents().len().max(1)
    }

    /// Whether its elements can be what arithmetic on floats gives.
    pub fn has_floats(&self) -> bool {
        matches!(self.dtype, Dtype::F32 | Dtype::Bf16 | Dtype::F16)
    }

    /// The cast of an array's elements to those of the field, if there is one.
    pub fn cast_from(&self, record: &ArrayRecord) -> Option<Cast> {
        let find = if self.is_clamped { Cast::find_clamped } else { Cast::find };
        let (dtype, bytes) = record.number_type();
        find(dtype, bytes, self.dtype, self.dtype_bytes)?.of_elements(record)
    }

    /// The same for memory of a caller: of RAW each array's own bytes.
    pub fn cast_to_target(&self, record: &ArrayRecord) -> Option<Cast> {
        match self.dtype {
            Dtype::Raw => {
                let (dtype, bytes) = record.number_type();
                Cast::find(dtype, bytes, Dtype::Raw, bytes)?.of_elements(record)
            }
            _ => self.cast_from(record),
        }
    }

    /// The same, of an array that push or the planner has compared with the field: both refuse one
    /// that has none.
    pub fn checked_cast(&self, record: &ArrayRecord) -> Cast {
        let Some(cast) = self.cast_from(record) else {
            unreachable!("an array without a cast is refused first")
        };
        cast
    }

    /// The places that a box covers, from the first along each axis to behind the last.
    pub fn covered_by(&self, shape: &BoxShape) -> ([u64; RANK_MAX], [u64; RANK_MAX]) {
        let (mut low, mut high) = ([0; RANK_MAX], [1; RANK_MAX]);
        let (mut at, mut elements) = (shape.at, self.elements());
        for axis in 0..self.extents().len() {
            elements /= self.shape[axis];
            (low[axis], at) = (at / elements, at % elements);
            high[axis] = low[axis] + 1;
        }
        for walk in &shape.axes {
            if let Some(axis) = walk.to() {
                high[axis] = low[axis] + walk.places();
            }
        }
        (low, high)
    }

    fn new(
        spec: &FieldSpec,
        (number, is_named): (usize, bool),
        why: &mut Why,
    ) -> Result<Field, Status> {
        let of = Of { name: name_of(spec, (number, is_named), why)?, is_named };
        let least = u32::from(!is_named);
        let limits = [
            ("sample_rank", spec.sample_rank, (least, RANK_MAX as u32)),
            ("pad_mode", spec.pad_mode, (0, config::PAD_REFLECT)),
            ("pad_value_set", spec.pad_value_set, (0, 1)),
            ("cf", spec.cf, (0, 1)),
        ];
        for (member, value, (least, most)) in limits {
            let mut name = Text::<128>::new();
            write!(name, "{of}{member}");
            range(why, name.as_str(), value.into(), (least.into(), most.into()))?;
        }
        let rank = spec.sample_rank as usize;
        let (dtype, dtype_bytes) = output_type(spec, &of, why)?;
        let pad_value = spec.pad_value;
        let Some(pad_element) = value_element(pad_value, dtype, dtype_bytes) else {
            let (value, name) = (Float(pad_value), dtype.name());
            return Err(fail!(why, Invalid, "{of}pad_value = {value}: {name} cannot hold it"));
        };
        let shape = spec.sample_shape;
        if let Some(axis) = shape[..rank].iter().position(|extent| *extent == 0) {
            return Err(fail!(why, Invalid, "{of}sample_shape[{axis}] = 0: must be at least 1"));
        }
        let bytes = |elements: u64| elements.checked_mul(u64::from(dtype_bytes));
        let sample_bytes = product(&shape[..rank]).and_then(bytes);
        let Some(sample_bytes) = sample_bytes.filter(|bytes| *bytes <= SLOT_BYTES_MAX) else {
            let text = "sample_shape: one sample is over 16 TiB: make it smaller";
            return Err(fail!(why, Budget, "{of}{text}"));
        };
        let mut strides = [0; RANK_MAX];
        let mut stride = u64::from(dtype_bytes);
        for axis in (0..rank).rev() {
            strides[axis] = stride;
            stride *= shape[axis];
        }
        Ok(Field {
            name: spec.name,
            rank: spec.sample_rank,
            shape,
            strides,
            dtype,
            dtype_bytes,
            sample_bytes,
            offset: 0,
            pad_mode: pad_mode(spec.pad_mode),
            pad_element,
            pads_value: spec.pad_value_set == 1,
            is_clamped: false,
            is_cf: spec.cf == 1,
        })
    }

    /// Which field, in front of what is wrong with it: nothing where there is but one without name.
    pub fn of(&self) -> impl core::fmt::Display + '_ {
        Of { name: self.name(), is_named: !self.name().is_empty() }
    }
}

/// The mode that a `PAD_` stands for; other numbers are refused before.
pub fn pad_mode(code: u32) -> PadMode {
    match code {
        config::PAD_CONSTANT => PadMode::Constant,
        config::PAD_EDGE => PadMode::Edge,
        config::PAD_REFLECT => PadMode::Reflect,
        _ => PadMode::None,
    }
}

/// "field mask: ", or nothing.
struct Of<'a> {
    name: &'a str,
    is_named: bool,
}

impl core::fmt::Display for Of<'_> {
    fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        if self.is_named { write!(formatter, "field {}: ", self.name) } else { Ok(()) }
    }
}

/// The fields of a config, one behind the other in a batch slot, and the bytes that they take.
pub fn fields_from_config(config: &Config, why: &mut Why) -> Result<(Fields, u64), Status> {
    let mut fields = Fields::new();
    if config.fields.is_empty() {
        fields.push(Field::new(&own_members(config), (0, false), why)?);
    } else {
        refuse_own_members(config, why)?;
    }
    config.fields.read(why, |spec, why| {
        let field = Field::new(spec, (fields.len(), true), why)?;
        if fields.iter().any(|other| other.name() == field.name()) {
            return Err(fail!(why, Invalid, "two fields are named {}", field.name()));
        }
        fields.push(field);
        Ok(())
    })?;
    let holds_nan = |of: &Field| value_element(f64::NAN, of.dtype, of.dtype_bytes).is_some();
    if config.on_error == config::ON_ERROR_NAN && !fields.iter().any(holds_nan) {
        let way_out = "give one f32, f16, bf16 or f64, or set on_error = skip";
        return Err(fail!(
            why,
            Invalid,
            "on_error = nan, but the dtype of no field has NaN: {way_out}"
        ));
    }
    let samples = config.samples_per_batch;
    let mut bytes = 0;
    for field in &mut fields {
        field.is_clamped = config.saturate == 1;
        field.offset = align_up(bytes, BUFFER_ALIGN);
        // Eight fields of samples of 16 TiB each, a million times: below 2^67, but checked.
        let all = field.sample_bytes.checked_mul(u64::from(samples));
        let limit = all.map(|all| field.offset.saturating_add(all));
        let Some(limit) = limit.filter(|limit| *limit <= SLOT_BYTES_MAX) else {
            let way_out = "lower samples_per_batch";
            return Err(fail!(
                why,
                Budget,
                "a batch of {samples} samples is over 16 TiB: {way_out}"
            ));
        };
        bytes = limit;
    }
    Ok((fields, bytes))
}

/// Whether arrays of fields are read as stored, and whether they are decoded by the CF conventions.
pub fn ways_to_read(config: &Config, why: &mut Why) -> Result<(bool, bool), Status> {
    let mut ways = (false, false);
    let mut note = |cf: u32| if cf == 1 { ways.1 = true } else { ways.0 = true };
    if config.fields.is_empty() {
        note(config.cf);
    }
    config.fields.read(why, |spec, _| {
        note(spec.cf);
        Ok(())
    })?;
    Ok(ways)
}

/// The field that a config without a table has.
fn own_members(config: &Config) -> FieldSpec {
    FieldSpec {
        sample_rank: config.sample_rank,
        dtype: config.dtype,
        dtype_bytes: config.dtype_bytes,
        pad_mode: config.pad_mode,
        pad_value_set: config.pad_value_set,
        sample_shape: config.sample_shape,
        pad_value: config.pad_value,
        cf: config.cf,
        ..FieldSpec::BLANK
    }
}

/// With a table, what describes the one field without it must say nothing.
fn refuse_own_members(config: &Config, why: &mut Why) -> Result<(), Status> {
    let (c, default) = (config, &Config::DEFAULT);
    let set = [
        ("sample_rank", c.sample_rank != default.sample_rank),
        ("sample_shape", c.sample_shape != default.sample_shape),
        ("dtype", c.dtype != default.dtype),
        ("dtype_bytes", c.dtype_bytes != default.dtype_bytes),
        ("pad_mode", c.pad_mode != default.pad_mode),
        ("pad_value_set", c.pad_value_set != default.pad_value_set),
        ("pad_value", c.pad_value != default.pad_value),
        ("cf", c.cf != default.cf),
    ];
    let Some((name, _)) = set.into_iter().find(|(_, is_set)| *is_set) else { return Ok(()) };
    Err(fail!(why, Invalid, "{name} is set, and so is fields: each field has its own {name}"))
}

fn name_of<'a>(
    spec: &'a FieldSpec,
    (number, is_named): (usize, bool),
    why: &mut Why,
) -> Result<&'a str, Status> {
    if !is_named {
        return Ok("");
    }
    let bytes = spec.name.iter().position(|byte| *byte == 0).map(|limit| &spec.name[..limit]);
    let text = bytes.and_then(|bytes| str::from_utf8(bytes).ok()).unwrap_or("");
    let is_plain = |text: &str| !text.chars().any(|c| c.is_control() || c == '/');
    if text.is_empty() || !is_plain(text) {
        return Err(fail!(
            why,
            Invalid,
            "the name of field {number}: must be 1 to {} bytes of UTF-8 and a NUL, without '/' and \
             control characters",
            spec.name.len() - 1
        ));
    }
    Ok(text)
}

fn output_type(spec: &FieldSpec, of: &Of<'_>, why: &mut Why) -> Result<(Dtype, u32), Status> {
    let Some(dtype) = Dtype::from_code(spec.dtype) else {
        return Err(fail!(why, Invalid, "{of}dtype = {}: no such element type", spec.dtype));
    };
    let (given, bytes, name) = (spec.dtype_bytes, dtype.bytes(), dtype.name());
    if dtype == Dtype::Raw {
        range(why, "dtype_bytes (of RAW)", given.into(), (1, ELEMENT_BYTES_MAX as u64))?;
        return Ok((dtype, given));
    }
    if given != 0 && given != bytes {
        return Err(fail!(why, Invalid, "{of}dtype_bytes = {given}: {name} has {bytes}"));
    }
    Ok((dtype, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setup::field_table::FieldTable;
    use std::format;
    use std::string::{String, ToString};

    fn spec(name: &str, shape: &[u64], dtype: Dtype) -> FieldSpec {
        let mut spec = FieldSpec { dtype: dtype as u32, ..FieldSpec::BLANK };
        spec.name[..name.len()].copy_from_slice(name.as_bytes());
        spec.sample_rank = shape.len() as u32;
        spec.sample_shape[..shape.len()].copy_from_slice(shape);
        spec
    }

    fn fields(specs: &[FieldSpec]) -> Result<(Fields, u64), (Status, String)> {
        let specs = specs.to_vec().leak();
        let fields = FieldTable::from_static(specs);
        let config = Config { samples_per_batch: 3, fields, ..Config::DEFAULT };
        let mut why = Why::new();
        fields_from_config(&config, &mut why).map_err(|status| (status, why.to_string()))
    }

    #[test]
    fn fields_lie_behind_each_other_where_tensors_may_begin() {
        let specs = [
            spec("image", &[5, 7], Dtype::F32),
            spec("label", &[], Dtype::U8),
            spec("weights", &[2, 3, 4], Dtype::F64),
        ];
        let (fields, bytes) = fields(&specs).unwrap();
        let offsets: std::vec::Vec<u64> = fields.iter().map(|field| field.offset).collect();
        assert_eq!((&offsets[..], bytes), (&[0, 512, 768][..], 768 + 3 * 192));
        assert_eq!(fields[0].strides[..2], [28, 4]);
        assert_eq!((fields[1].sample_bytes, fields[1].elements()), (1, 1));
        assert_eq!(fields[2].name(), "weights");
    }

    #[test]
    fn what_is_wrong_with_a_field_is_told_by_its_name() {
        let image = spec("image", &[5, 7], Dtype::F32);
        let told = |specs: &[FieldSpec]| fields(specs).unwrap_err().1;
        assert_eq!(told(&[image, image]), "two fields are named image");
        assert!(told(&[spec("a/b", &[1], Dtype::U8)]).starts_with("the name of field 0: must be"));
        assert!(told(&[image, spec("", &[1], Dtype::U8)]).starts_with("the name of field 1"));
        let text = told(&[spec("mask", &[4, 0], Dtype::U8)]);
        assert_eq!(text, "field mask: sample_shape[1] = 0: must be at least 1");
        let text = told(&[FieldSpec { dtype: 99, ..image }]);
        assert_eq!(text, "field image: dtype = 99: no such element type");
        let whole = [-0.5, 256.0, f64::NAN]
            .map(|pad_value| FieldSpec { pad_value, ..spec("m", &[4], Dtype::U8) });
        for (spec, value) in whole.into_iter().zip(["-0.5", "256", "NaN"]) {
            assert_eq!(
                told(&[image, spec]),
                format!("field m: pad_value = {value}: u8 cannot hold it")
            );
        }
        let (status, text) = fields(&[spec("big", &[1 << 43], Dtype::U8), image]).unwrap_err();
        assert_eq!((status, text.contains("over 16 TiB")), (Status::Budget, true), "{text}");
        let many: std::vec::Vec<FieldSpec> =
            (0..9).map(|n| spec(&format!("f{n}"), &[1], Dtype::U8)).collect();
        assert_eq!(told(&many), "n_fields = 9: must be 0 to 8");
        assert_eq!(fields(&many[..8]).unwrap().0.len(), 8);
    }

    #[test]
    fn members_of_the_one_field_beside_a_table_are_refused() {
        let table = FieldTable::from_static(std::vec![spec("image", &[5], Dtype::F32)].leak());
        let mut why = Why::new();
        let config = Config { pad_mode: 1, fields: table, ..Config::DEFAULT };
        assert_eq!(fields_from_config(&config, &mut why).unwrap_err(), Status::Invalid);
        let text = "pad_mode is set, and so is fields: each field has its own pad_mode";
        assert_eq!(why.as_str(), text);
    }
}
