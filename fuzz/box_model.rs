//! What the contract of include/wavetrain.h says of the boxes of a sample: which of them push
//! takes, and what they put at each place of a field. One place after the other; nothing of the
//! library's is asked. Over 500 lines: choices of boxes and their model, of which each needs all.
//!
//! In: choices. Out: fields, boxes over images and over memory of any strides, the structs that
//! push gets, and what must become of them.

use super::choices::Choices;
use super::map_model::MapModel;
use super::memory_store::Array;
use super::oracle::{Image, Pad, cast, has_cast};
use std::sync::Arc;
use wavetrain::abi::{BOX_MEMORY, BOX_VALUE, Blank, FieldSpec, IndexList, SampleBox, Tensor};
use wavetrain::assemble::value_element;
use wavetrain::base::limits::RANK_MAX;
use wavetrain::config::{BACKEND_CUDA, Config};
use wavetrain::records::Dtype;

/// Elements of a field, of a tensor: the oracle asks each.
const FIELD_MAX: u64 = 400;
const TENSOR_MAX: u64 = 4000;

/// Types of tensors, and what fields may be made of them.
const TYPES: [(Dtype, Dtype); 8] = [
    (Dtype::U8, Dtype::U8),
    (Dtype::U16, Dtype::U16),
    (Dtype::F32, Dtype::F32),
    (Dtype::U16, Dtype::F32),
    (Dtype::F64, Dtype::F64),
    (Dtype::U8, Dtype::F16),
    (Dtype::I32, Dtype::I64),
    (Dtype::F32, Dtype::Bf16),
];

/// A table of fields as a config has it.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Table {
    pub fields: *const FieldSpec,
    pub n_fields: u32,
    pub field_bytes: u32,
}

impl Table {
    pub fn of(specs: &[FieldSpec]) -> Table {
        let field_bytes = size_of::<FieldSpec>() as u32;
        Table { fields: specs.as_ptr(), n_fields: specs.len() as u32, field_bytes }
    }

    pub fn put(self, config: &mut Config) {
        // SAFETY: the same members in the same order.
        config.fields =
            unsafe { std::mem::transmute::<Table, wavetrain::config::FieldTable>(self) };
    }
}

/// A field of a batch.
#[derive(Clone, Debug)]
pub struct FieldModel {
    /// Empty where the config has no table.
    pub name: String,
    pub shape: Vec<u64>,
    pub dtype: Dtype,
    pub bytes: u32,
    pub pad: Pad,
    pub pad_value: f64,
    pub pads_value: bool,
    /// Whether a box may be a part of it.
    pub takes_parts: bool,
    /// Whether arrays are decoded by the CF conventions.
    pub is_cf: bool,
}

impl FieldModel {
    pub fn choose(choices: &mut Choices<'_>, number: usize) -> FieldModel {
        let rank = choices.below(6) as usize;
        let (mut elements, mut shape) = (1, Vec::new());
        for _ in 0..rank {
            let extent = 1 + choices.below(7);
            let extent = if elements * extent > FIELD_MAX { 1 } else { extent };
            elements *= extent;
            shape.push(extent);
        }
        let (_, dtype) = choices.one_of(&TYPES);
        let mut field = FieldModel {
            name: format!("field {number}"),
            shape,
            dtype,
            bytes: dtype.bytes(),
            pad: choices.one_of(&[Pad::None, Pad::Constant, Pad::Edge, Pad::Reflect]),
            pad_value: choices.one_of(&[3.0, 0.0, 77.0]),
            pads_value: choices.below(2) == 1,
            takes_parts: true,
            is_cf: false,
        };
        // Not a choice of its own, so that inputs of before stay what they are.
        field.is_cf = field.pad_value == 77.0;
        field
    }

    /// The one of a config without a table that was opened.
    pub fn of_config(config: &Config) -> FieldModel {
        let dtype = Dtype::from_code(config.dtype).expect("it was opened");
        FieldModel {
            name: String::new(),
            shape: config.sample_shape[..config.sample_rank as usize].to_vec(),
            dtype,
            bytes: if dtype == Dtype::Raw { config.dtype_bytes } else { dtype.bytes() },
            pad: [Pad::None, Pad::Constant, Pad::Edge, Pad::Reflect][config.pad_mode as usize],
            pad_value: config.pad_value,
            pads_value: config.pad_value_set == 1,
            takes_parts: config.max_boxes_per_sample > 0 || config.max_indices_per_sample > 0,
            is_cf: false,
        }
    }

    pub fn spec(&self) -> FieldSpec {
        let mut spec = FieldSpec { dtype: self.dtype as u32, ..FieldSpec::BLANK };
        spec.name[..self.name.len()].copy_from_slice(self.name.as_bytes());
        spec.sample_rank = self.shape.len() as u32;
        spec.sample_shape[..self.shape.len()].copy_from_slice(&self.shape);
        spec.dtype_bytes = if self.dtype == Dtype::Raw { self.bytes } else { 0 };
        let pads = [Pad::None, Pad::Constant, Pad::Edge, Pad::Reflect];
        spec.pad_mode = pads.iter().position(|pad| *pad == self.pad).unwrap() as u32;
        spec.pad_value_set = u32::from(self.pads_value);
        spec.pad_value = self.pad_value;
        spec.cf = u32::from(self.is_cf);
        spec
    }

    /// Bytes of a chunk of an array that boxes to it read.
    pub fn chunk_bytes(&self, array: &Array, config: &Config) -> u64 {
        // Others are decoded when they are cast.
        let is_whole = config.backend == BACKEND_CUDA || config.augment > 0;
        match self.view(array) {
            Some(view) if self.is_cf && is_whole && view.dtype != array.image.dtype => {
                8 * array.chunk_elements
            }
            _ => array.chunk_bytes,
        }
    }

    /// What a box to it sees of an array; None: push refuses the box.
    pub fn view<'a>(&self, array: &'a Array) -> Option<&'a Image> {
        if self.is_cf { array.numbers.as_ref() } else { Some(&array.image) }
    }

    pub fn elements(&self) -> usize {
        self.shape.iter().product::<u64>() as usize
    }

    pub fn sample_bytes(&self) -> usize {
        self.elements() * self.bytes as usize
    }

    /// pad_value as an element.
    pub fn pad_element(&self) -> Vec<u8> {
        let element = value_element(self.pad_value, self.dtype, self.bytes);
        element.expect("open has checked it")[..self.bytes as usize].to_vec()
    }

    /// NaN as an element, if it has one.
    pub fn nan_element(&self) -> Option<Vec<u8>> {
        let element = value_element(f64::NAN, self.dtype, self.bytes)?;
        Some(element[..self.bytes as usize].to_vec())
    }
}

/// A tensor of the caller's in a heap block that has its elements and nothing else.
pub struct Fed {
    pub kind: u32,
    pub tensor: Tensor,
    pub block: Vec<u8>,
}

/// A box, and the whole of what it is of.
pub struct BoxModel {
    pub field: u32,
    pub begin: Vec<i64>,
    pub end: Vec<i64>,
    pub step: Vec<i64>,
    pub axes: Vec<u8>,
    pub at: [u64; RANK_MAX],
    pub image: Image,
    pub fed: Option<Box<Fed>>,
    /// The map to its voxels; None: they are those of begin, end and step.
    pub map: Option<MapModel>,
    pub lists: Lists,
    /// Refused whatever else it says.
    pub is_hostile: bool,
}

/// The axes of a box that read elements one by one, and the structs of them that push gets.
#[derive(Default)]
pub struct Lists {
    of_axes: Vec<(usize, Vec<i64>)>,
    raws: Vec<IndexList>,
}

/// A place of the field, and the coordinates of what it holds.
pub type Place = (Vec<u64>, Vec<i64>);

/// A sample's part of a field.
#[derive(Clone, PartialEq, Debug)]
pub struct Painted {
    pub bytes: Vec<u8>,
    pub filled_shape: Vec<u64>,
}

/// What a box reads for a place.
pub struct Held {
    pub element: Vec<u8>,
    pub dtype: Dtype,
    /// It lies outside of the array.
    pub is_padding: bool,
}

impl Held {
    /// As an element of a field.
    pub fn cast(&self, field: &FieldModel) -> Vec<u8> {
        match field.dtype {
            Dtype::Raw => self.element.clone(),
            to => cast(self.dtype, to, &self.element),
        }
    }
}

/// What is wrong with a box.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Fault {
    /// By itself, or with what it is fed from: push refuses it.
    Box,
    /// With the array that it is of: pop tells.
    Source,
}

impl BoxModel {
    /// A box that goes to one of the fields. Mostly it is right by itself.
    pub fn choose(choices: &mut Choices<'_>, fields: &[FieldModel]) -> BoxModel {
        let menu = |field: Dtype| TYPES.map(|(from, to)| if to == field { from } else { field });
        Self::choose_of(choices, fields, menu)
    }

    /// The same, of elements of a type that `menu` has for the field's.
    pub fn choose_of<const N: usize>(
        choices: &mut Choices<'_>,
        fields: &[FieldModel],
        menu: impl Fn(Dtype) -> [Dtype; N],
    ) -> BoxModel {
        let number = choices.below(fields.len() as u64) as usize;
        let field = &fields[number];
        let (mut at, mut axes, mut steps) = ([0; RANK_MAX], Vec::new(), Vec::new());
        let mut places: Vec<u64> = Vec::new();
        let style = choices.below(4);
        let style = if field.elements() as u64 > FIELD_MAX { style.max(1) } else { style };
        let mut left: Vec<usize> = (0..field.shape.len()).collect();
        // Axes that the box drops come first, which is right whatever the style.
        for _ in 0..if choices.rarely(4) { 1 + choices.below(2) } else { 0 } {
            axes.push(0);
            places.push(1);
        }
        while !left.is_empty() {
            let turn = if style == 3 { choices.below(left.len() as u64) as usize } else { 0 };
            let axis = left.remove(turn);
            let extent = field.shape[axis];
            let length = if style == 0 { extent } else { 1 + choices.below(extent.min(7)) };
            at[axis] = if style == 0 { 0 } else { choices.below(extent - length + 1) };
            if style == 3 && length == 1 && choices.rarely(2) {
                continue;
            }
            axes.push(if style >= 2 { axis as u8 + 1 } else { 0 });
            places.push(length);
        }
        let (mut begin, mut end, mut shape) = (Vec::new(), Vec::new(), Vec::new());
        for places in &places {
            let (first, limit, step, extent) = span(choices, *places, field.pad);
            begin.push(first);
            end.push(limit);
            steps.push(step);
            shape.push(extent);
        }
        if shape.iter().product::<u64>() > TENSOR_MAX {
            // Small enough: the box itself, every element.
            shape = places.clone();
            begin.fill(0);
            end = places.iter().map(|places| *places as i64).collect();
            steps.fill(1);
        }
        let dtype = choices.one_of(&menu(field.dtype));
        let dtype = if choices.rarely(20) { Dtype::C64 } else { dtype };
        let dtype = if dtype == Dtype::Raw { Dtype::U16 } else { dtype };
        let (image, fed) = tensor(choices, dtype, shape);
        let (fed, step) = (Some(Box::new(fed)), steps);
        let (field, map, lists, is_hostile) = (number as u32, None, Lists::default(), false);
        let mut made =
            BoxModel { field, begin, end, step, axes, at, image, fed, map, lists, is_hostile };
        if choices.rarely(10) {
            made.spoil(choices);
        }
        made
    }

    /// A box of an array of a store, to one of the fields.
    pub fn of_array(choices: &mut Choices<'_>, fields: &[FieldModel], image: &Image) -> BoxModel {
        let number = choices.below(fields.len() as u64) as usize;
        let field = &fields[number];
        let mut left: Vec<usize> = (0..field.shape.len()).collect();
        let (mut at, mut axes, mut step) = ([0; RANK_MAX], Vec::new(), Vec::new());
        let (mut begin, mut end) = (Vec::new(), Vec::new());
        for extent in image.shape.iter().map(|extent| *extent as i64) {
            let mut places = 1;
            if left.is_empty() || choices.rarely(4) {
                axes.push(0);
            } else {
                let axis = left.remove(choices.below(left.len() as u64) as usize);
                let room = field.shape[axis];
                places = 1 + choices.below(room.min(extent as u64));
                at[axis] = choices.below(room - places + 1);
                axes.push(axis as u8 + 1);
            }
            let places = places as i64;
            let length = match choices.one_of(&[1, 1, 2, 3, 7]) {
                length if (places - 1) * length < extent => length,
                _ => 1,
            };
            let reach = (places - 1) * length + 1;
            let margin = if field.pad == Pad::None || length > 1 { 0 } else { 2 };
            let first = choices.below((extent - reach + 1 + 2 * margin) as u64) as i64 - margin;
            begin.push(first);
            end.push(first + reach);
            step.push(choices.one_of(&[length, -length]));
        }
        // A box of no axis of the field is one by its order, if by any.
        let (field, image, is_hostile) = (number as u32, image.clone(), false);
        let (fed, map, lists) = (None, None, Lists::default());
        let mut made =
            BoxModel { field, begin, end, step, axes, at, image, fed, map, lists, is_hostile };
        if choices.rarely(12) {
            made.spoil(choices);
        }
        made
    }

    /// Has it see of its array what its field sees.
    pub fn look_at(&mut self, array: &Array, fields: &[FieldModel]) {
        match fields.get(self.field as usize).map(|field| field.view(array)) {
            Some(Some(image)) => self.image = image.clone(),
            Some(None) => self.is_hostile = true,
            None => {}
        }
    }

    /// Makes lists of some of its axes, in any order, neighbours and repeats among them; mostly
    /// right by themselves.
    pub fn choose_lists(&mut self, choices: &mut Choices<'_>, fields: &[FieldModel]) {
        let field = fields.get(self.field as usize);
        let (Some(field), Some(places)) = (field, self.extents()) else { return };
        for axis in 0..places.len().min(self.image.shape.len()) {
            let extent = self.image.shape[axis] as i64;
            if choices.below(2) == 0 || extent == 0 {
                continue;
            }
            let pads = matches!(field.pad, Pad::Constant | Pad::Edge) || choices.rarely(16);
            let margin = if pads { 3 } else { 0 };
            let mut list: Vec<i64> = Vec::new();
            for _ in 0..places[axis] {
                let any = choices.below((extent + 2 * margin) as u64) as i64 - margin;
                let last = list.last().copied().unwrap_or(any);
                let next = choices.one_of(&[any, last + 1, last - 1, last, any]);
                list.push(if (-margin..extent + margin).contains(&next) { next } else { any });
            }
            (self.begin[axis], self.end[axis]) = (0, list.len() as i64);
            self.step[axis] = choices.one_of(&[0, 1]);
            self.lists.of_axes.push((axis, list));
        }
        let raw = |(axis, list): &(usize, Vec<i64>)| IndexList {
            axis: *axis as u32,
            reserved: 0,
            indices: list.as_ptr(),
            n_indices: list.len() as u64,
        };
        self.lists.raws = self.lists.of_axes.iter().map(raw).collect();
        if choices.rarely(10) && !self.lists.raws.is_empty() {
            self.spoil_lists(choices);
        }
    }

    fn spoil_lists(&mut self, choices: &mut Choices<'_>) {
        self.is_hostile = true;
        let Lists { of_axes, raws } = &mut self.lists;
        let at = choices.below(raws.len() as u64) as usize;
        match choices.below(6) {
            0 => raws[at].axis = choices.one_of(&[16, u32::MAX, self.begin.len() as u32]),
            1 => raws[at].reserved = 1,
            2 => raws[at].indices = std::ptr::null(),
            3 => raws[at].n_indices = choices.one_of(&[0, u64::MAX, 1 << 40]),
            4 => of_axes[at].1[0] = i64::MAX,
            _ => raws.push(raws[at]),
        }
    }

    /// Indices of its lists, which are their product.
    pub fn index_count(&self) -> u64 {
        let lists = &self.lists.of_axes;
        let product = lists.iter().map(|(_, list)| list.len() as u64).product();
        if lists.is_empty() { 0 } else { product }
    }

    /// Gives it a map, if it has axes to map, and mostly the walks that a map wants.
    pub fn choose_map(&mut self, choices: &mut Choices<'_>, fields: &[FieldModel]) {
        let field = fields.get(self.field as usize);
        let (Some(field), Some(places)) = (field, self.extents()) else { return };
        if places.len() != self.image.shape.len() {
            return;
        }
        self.map = MapModel::choose(choices, (&self.image.shape, field));
        let Some(map) = self.map.as_ref().filter(|_| !choices.rarely(16)) else { return };
        for axis in (0..places.len()).filter(|axis| map.is_mapped(*axis)) {
            (self.begin[axis], self.end[axis]) = (0, places[axis] as i64);
            self.step[axis] = choices.one_of(&[0, 1]);
        }
    }

    /// Makes any one thing wrong, or right in another way.
    fn spoil(&mut self, choices: &mut Choices<'_>) {
        let rank = self.begin.len();
        let axis = choices.below(rank.max(1) as u64) as usize;
        let wild = choices.one_of(&[0, 1, 2, 3, -1, -2, 9, i64::MAX, i64::MIN, 1 << 29]);
        match choices.below(10) {
            0 => self.field = choices.one_of(&[0, 1, 2, 8, u32::MAX]),
            1 => self.at[choices.below(RANK_MAX as u64) as usize] = wild as u64,
            2 if rank > 0 => self.step[axis] = wild.max(-i64::MAX),
            3 if rank > 0 => self.axes[axis] = wild as u8,
            4 if rank > 0 && is_near(wild, self.end[axis]) => self.begin[axis] = wild,
            5 if rank > 0 && is_near(self.begin[axis], wild) => self.end[axis] = wild,
            6 if rank > 1 => self.axes.swap(axis, 0),
            _ => self.spoil_tensor(choices),
        }
    }

    fn spoil_tensor(&mut self, choices: &mut Choices<'_>) {
        let Some(fed) = &mut self.fed else { return };
        let shape = &self.image.shape;
        let has_elements = shape.iter().all(|extent| *extent > 0);
        let axis = choices.below(shape.len().max(1) as u64) as usize;
        let is_row_major = fed.tensor.strides.iter().all(|stride| *stride == 0);
        self.is_hostile = true;
        match choices.below(10) {
            0 => fed.kind = choices.one_of(&[3, u32::MAX]),
            1 => fed.tensor.struct_size = choices.one_of(&[0, 7]),
            2 => fed.tensor.dtype = choices.one_of(&[99, u32::MAX]),
            3 => fed.tensor.dtype_bytes = 17,
            4 => fed.tensor.device = choices.one_of(&[0, -2, i32::MAX]),
            5 => fed.tensor.reserved = 1,
            6 => fed.tensor.event = std::ptr::dangling_mut(),
            // Where no memory can be; along an axis of one element it says nothing.
            7 | 8 if fed.kind == BOX_MEMORY && !shape.is_empty() && !is_row_major => {
                fed.tensor.strides[axis] =
                    choices.one_of(&[i64::MIN, i64::MAX, 1 << 58, -(1 << 58), i64::MIN + 1]);
                self.is_hostile = has_elements && shape[axis] > 1;
            }
            _ => {
                fed.tensor.data = std::ptr::null();
                self.is_hostile = has_elements;
            }
        }
    }

    /// The coordinates that the places along each axis read; None where there are none.
    fn coordinates(&self) -> Option<Vec<Vec<i64>>> {
        let of_axis = |axis: usize| {
            if let Some((_, list)) = self.lists.of_axes.iter().find(|(of, _)| *of == axis) {
                return Some(list.clone());
            }
            let (begin, end) = (i128::from(self.begin[axis]), i128::from(self.end[axis]));
            let step = i128::from(if self.step[axis] == 0 { 1 } else { self.step[axis] });
            let mut at = if step < 0 { end - 1 } else { begin };
            let mut all = Vec::new();
            while (begin..end).contains(&at) {
                all.push(at as i64);
                at += step;
            }
            (!all.is_empty()).then_some(all)
        };
        (0..self.begin.len()).map(of_axis).collect()
    }

    /// Places along each axis; None where there are none.
    fn extents(&self) -> Option<Vec<u64>> {
        Some(self.coordinates()?.iter().map(|all| all.len() as u64).collect())
    }

    /// Whether it has no map, or one that push takes whatever the box is of.
    fn is_mapped_right(&self, field: &FieldModel) -> bool {
        let (Some(map), Some(extents)) = (&self.map, self.extents()) else { return true };
        let walks = extents.iter().zip(&self.begin).zip(&self.step);
        let walks: Vec<_> = walks.map(|((places, begin), step)| (*places, *begin, *step)).collect();
        map.is_right(field, &walks)
    }

    /// Whether push refuses its map, or the array that it is of has all that it reads.
    pub fn fails_at_push_or_never(&self, field: &FieldModel) -> bool {
        !self.is_mapped_right(field) || self.has_source(field)
    }

    /// The axis of the field that each axis of the box becomes.
    pub fn field_axes(&self, field: &FieldModel) -> Option<Vec<Option<usize>>> {
        let extents = self.extents()?;
        let (rank, shape) = (extents.len(), &field.shape);
        let axes = &self.axes[..rank];
        if axes.iter().any(|axis| *axis != 0) {
            let to: Vec<_> = axes.iter().map(|axis| usize::from(*axis).checked_sub(1)).collect();
            let is_right = |(at, to): (usize, &Option<usize>)| match to {
                Some(axis) => *axis < shape.len() && !axes[..at].contains(&axes[at]),
                None => extents[at] == 1,
            };
            return to.iter().enumerate().all(is_right).then_some(to);
        }
        // Some of the axes of extent 1 are dropped, and the rest is the sample.
        for dropped in 0..1u32 << rank {
            let is_dropped = |axis: &usize| dropped >> axis & 1 == 1;
            let kept: Vec<usize> = (0..rank).filter(|axis| !is_dropped(axis)).collect();
            let is_sample = kept.iter().map(|axis| &extents[*axis]).eq(shape);
            if is_sample && (0..rank).filter(is_dropped).all(|axis| extents[axis] == 1) {
                let to = |axis| kept.iter().position(|kept| *kept == axis);
                return Some((0..rank).map(to).collect());
            }
        }
        let is_one = field.takes_parts || shape.iter().all(|extent| *extent == 1);
        if rank == 0 && is_one {
            return Some(Vec::new());
        }
        // One element, which goes to any place.
        if field.takes_parts && extents.iter().all(|extent| *extent == 1) {
            return Some(vec![None; rank]);
        }
        let before = rank.checked_sub(shape.len()).filter(|_| field.takes_parts)?;
        let is_right = extents[..before].iter().all(|extent| *extent == 1);
        is_right.then(|| (0..rank).map(|axis| axis.checked_sub(before)).collect())
    }

    /// For each place, in the order of the box: the place of the field, and the coordinates.
    pub fn places(&self, field: &FieldModel) -> Option<Vec<Place>> {
        let coordinates = self.coordinates()?;
        let extents: Vec<u64> = coordinates.iter().map(|all| all.len() as u64).collect();
        let to = self.field_axes(field)?;
        for (axis, extent) in field.shape.iter().enumerate() {
            let places = to.iter().position(|to| *to == Some(axis)).map_or(1, |at| extents[at]);
            let fits = u128::from(self.at[axis]) + u128::from(places) <= u128::from(*extent);
            if !fits || places < *extent && !field.takes_parts {
                return None;
            }
        }
        if self.at[field.shape.len()..].iter().any(|at| *at != 0) {
            return None;
        }
        let mut all = Vec::new();
        for number in 0..extents.iter().product::<u64>() {
            let (mut rest, mut target) = (number, self.at[..field.shape.len()].to_vec());
            let mut source = vec![0; extents.len()];
            for axis in (0..extents.len()).rev() {
                let place = rest % extents[axis];
                rest /= extents[axis];
                source[axis] = coordinates[axis][place as usize];
                if let Some(to) = to[axis] {
                    target[to] += place;
                }
            }
            all.push((target, source));
        }
        Some(all)
    }

    /// Whether all that it reads can be had.
    fn has_source(&self, field: &FieldModel) -> bool {
        let image = &self.image;
        let fits = match field.dtype {
            Dtype::Raw => field.bytes == image.dtype.bytes(),
            to => has_cast(image.dtype, to),
        };
        if !fits || self.begin.len() != image.shape.len() {
            return false;
        }
        let coordinates = self.coordinates().expect("it is right by itself");
        let places: Vec<u64> = coordinates.iter().map(|all| all.len() as u64).collect();
        if self.map.as_ref().is_some_and(|map| !map.has_source(field, (image, &places))) {
            return false;
        }
        let is_mapped = |axis: usize| self.map.as_ref().is_some_and(|map| map.is_mapped(axis));
        let ranges = coordinates.iter().zip(&self.step).zip(&image.shape).enumerate();
        let mut copied = ranges.filter(|(axis, _)| !is_mapped(*axis));
        copied.all(|(_, ((all, step), extent))| {
            let (low, high) = (*all.iter().min().unwrap(), *all.iter().max().unwrap() + 1);
            let extent = *extent as i64;
            let is_inside = low >= 0 && high <= extent;
            let is_long = all.len() > 1 && step.unsigned_abs() > 1;
            match field.pad {
                _ if is_inside => true,
                _ if is_long => false,
                Pad::None => false,
                Pad::Constant => self.map.is_none(),
                Pad::Edge => extent > 0,
                Pad::Reflect => {
                    let meets = |run: &[i64]| run.iter().any(|at| (0..extent).contains(at));
                    extent > 0 && runs(all).into_iter().all(meets)
                }
            }
        })
    }

    /// The element of a place before any cast; `places`: of the box, along each axis.
    fn held(&self, field: &FieldModel, (places, at): (&[u64], &[i64])) -> Held {
        let read = |at: &[i64]| self.element(field, at);
        match &self.map {
            Some(map) => map.held(field, (&self.image, places, at), read),
            None => read(at),
        }
    }

    /// The element of the array at coordinates.
    fn element(&self, field: &FieldModel, at: &[i64]) -> Held {
        let image = &self.image;
        let is_inside = |(at, extent): (&i64, &u64)| (0..*extent as i64).contains(at);
        let is_padding = !at.iter().zip(&image.shape).all(is_inside);
        if field.pad == Pad::Constant && is_padding {
            let (is_value, fill) = (field.pads_value, &image.fill);
            let element = if is_value { field.pad_element() } else { fill.clone() };
            let dtype = if is_value { field.dtype } else { image.dtype };
            return Held { element, dtype, is_padding };
        }
        let end: Vec<i64> = at.iter().map(|at| at + 1).collect();
        let element = image.crop(at, &end, field.pad, &[]);
        Held { element, dtype: image.dtype, is_padding }
    }

    /// The struct that push gets. Its tensor is this box's.
    pub fn raw(&self) -> SampleBox {
        let rank = self.begin.len();
        let mut raw = SampleBox::BLANK;
        (raw.rank, raw.field, raw.at) = (rank as u32, self.field, self.at);
        raw.begin[..rank].copy_from_slice(&self.begin);
        raw.end[..rank].copy_from_slice(&self.end);
        raw.step[..rank].copy_from_slice(&self.step);
        raw.axes[..rank].copy_from_slice(&self.axes);
        if let Some(fed) = &self.fed {
            (raw.kind, raw.tensor) = (fed.kind, &raw const fed.tensor);
        }
        if let lists @ [_, ..] = &self.lists.raws[..] {
            (raw.lists, raw.n_lists) = (lists.as_ptr(), lists.len() as u32);
            raw.list_bytes = size_of::<IndexList>() as u32;
        }
        raw
    }
}

/// The bytes of a struct without padding.
pub fn bytes_of<T>(value: &T) -> Vec<u8> {
    // SAFETY: all of its bytes are set.
    unsafe { std::slice::from_raw_parts((&raw const *value).cast(), size_of::<T>()) }.to_vec()
}

/// Whether a box from here to there is short or of no places at all: the oracle counts them.
fn is_near(begin: i64, end: i64) -> bool {
    end.saturating_sub(begin) < 64
}

/// The longest runs of coordinates that are neighbours, up or down, from the first one on.
fn runs(mut all: &[i64]) -> Vec<&[i64]> {
    let mut runs = Vec::new();
    while let Some(first) = all.first() {
        let is_run = |step: i64| {
            let line = (0..).map(|place| first + step * place);
            all.iter().zip(line).take_while(|(at, expected)| *at == expected).count()
        };
        let (run, rest) = all.split_at(is_run(1).max(is_run(-1)));
        runs.push(run);
        all = rest;
    }
    runs
}

/// Bounds, step and the extent of what is read, so that there are that many places.
fn span(choices: &mut Choices<'_>, places: u64, pad: Pad) -> (i64, i64, i64, u64) {
    let places = places as i64;
    let step: i64 = choices.one_of(&[0, 1, -1, 2, -2, 3, -3, 0, 1, -1, 5, -7]);
    let length = if step == 0 { 1 } else { step.abs() };
    // Behind the last place the box may go on, up to where the next one would be.
    let slack = choices.below(length as u64) as i64;
    let reach = (places - 1) * length + 1;
    let before = choices.below(3) as i64;
    let extent = before + reach + slack + choices.below(3) as i64;
    let (begin, end) = (before, before + reach + slack);
    if length > 1 || pad == Pad::None && !choices.rarely(16) {
        return (begin, end, step, extent as u64);
    }
    // Somewhere around an array of another extent, which may be 0.
    let extent = choices.below(6);
    let shift = choices.below(2 * places as u64 + extent) as i64 - places;
    (begin + shift, end + shift, step, extent)
}

/// Strides of elements row by row.
pub fn row_major(shape: &[u64], bytes: i64) -> Vec<i64> {
    let (mut strides, mut packed) = (vec![0; shape.len()], bytes);
    for axis in (0..shape.len()).rev() {
        strides[axis] = packed;
        packed *= shape[axis].max(1) as i64;
    }
    strides
}

/// Strides of elements in any order of the axes, apart by any number of bytes, times any of
/// `signs`.
pub fn scattered(choices: &mut Choices<'_>, shape: &[u64], bytes: i64, signs: &[i64]) -> Vec<i64> {
    let mut strides = vec![0; shape.len()];
    let mut left: Vec<usize> = (0..shape.len()).collect();
    let mut stride = bytes;
    while !left.is_empty() {
        let axis = left.remove(choices.below(left.len() as u64) as usize);
        stride += choices.one_of(&[0, 0, 0, 1, 3, 8]);
        strides[axis] = stride * choices.one_of(signs);
        stride *= shape[axis].max(1) as i64;
    }
    strides
}

/// A tensor of any strides, and the image that it is.
fn tensor(choices: &mut Choices<'_>, dtype: Dtype, shape: Vec<u64>) -> (Image, Fed) {
    let (bytes, rank) = (dtype.bytes() as i64, shape.len());
    let elements: u64 = shape.iter().product();
    let row_major = row_major(&shape, bytes);
    let mut strides = row_major.clone();
    match choices.below(4) {
        0 => strides.fill(0),
        1 => {}
        _ => {
            // Downwards too, or again and again the same.
            strides = scattered(choices, &shape, bytes, &[1, -1, 1, -1, 0]);
        }
    }
    let steps = if strides.iter().all(|stride| *stride == 0) { &row_major } else { &strides };
    let reach = |pick: fn(&i64) -> bool| -> i64 {
        let axes = shape.iter().zip(steps).filter(|(_, stride)| pick(stride));
        axes.map(|(extent, stride)| (*extent as i64 - 1).max(0) * stride).sum()
    };
    let first = -reach(|stride| *stride < 0);
    let size = if elements > 0 { first + reach(|stride| *stride > 0) + bytes } else { 0 };
    let seed = u64::from(choices.byte());
    let painted = |at: i64| ((at as u64 + 1).wrapping_mul(2 * seed + 0x9E37_79B9) >> 11) as u8;
    let block: Vec<u8> = (0..size).map(painted).collect();
    let mut pixels = Vec::new();
    for number in 0..elements {
        let (mut rest, mut at) = (number, first);
        for axis in (0..rank).rev() {
            at += (rest % shape[axis]) as i64 * steps[axis];
            rest /= shape[axis];
        }
        pixels.extend_from_slice(&block[at as usize..(at + bytes) as usize]);
    }
    let mut tensor = Tensor { dtype: dtype as u32, ..Tensor::EMPTY };
    tensor.data = block.as_ptr().wrapping_add(first as usize).cast();
    tensor.shape[..rank].copy_from_slice(&shape);
    tensor.strides[..rank].copy_from_slice(&strides);
    let is_value = elements * bytes as u64 <= 64 && choices.below(2) == 0 || choices.rarely(30);
    let kind = if is_value { BOX_VALUE } else { BOX_MEMORY };
    let image = Image::new(dtype, shape, Arc::new(pixels), vec![0; bytes as usize]);
    (image, Fed { kind, tensor, block })
}

/// What a sample of these boxes holds of each field; or which is wrong, and how.
pub fn paint(fields: &[FieldModel], boxes: &[BoxModel]) -> Result<Vec<Painted>, Fault> {
    paint_with(fields, boxes, |_, _, held, field| held.cast(field))
}

/// The same, of elements that `element` makes: of a box by number, for a place of the field, of
/// what the box reads for it.
pub fn paint_with(
    fields: &[FieldModel],
    boxes: &[BoxModel],
    element: impl Fn(usize, &[u64], &Held, &FieldModel) -> Vec<u8>,
) -> Result<Vec<Painted>, Fault> {
    let mut painted: Vec<Painted> = Vec::new();
    let mut counts: Vec<Vec<u32>> = Vec::new();
    for field in fields {
        let bytes = field.pad_element().repeat(field.elements());
        painted.push(Painted { bytes, filled_shape: vec![0; field.shape.len().max(1)] });
        counts.push(vec![0; field.elements()]);
    }
    let mut fault = None;
    for (number, made) in boxes.iter().enumerate() {
        let is_large = made
            .fed
            .as_ref()
            .is_some_and(|fed| fed.kind == BOX_VALUE && made.image.pixels.len() > 64);
        let field = fields.get(made.field as usize).ok_or(Fault::Box)?;
        let places = made.places(field).filter(|_| !made.is_hostile && !is_large);
        let places = places.filter(|_| made.is_mapped_right(field)).ok_or(Fault::Box)?;
        let has_source = made.has_source(field);
        let extents = made.extents().ok_or(Fault::Box)?;
        match made.fed {
            Some(_) if !has_source => return Err(Fault::Box),
            None if !has_source => fault = Some(Fault::Source),
            _ => {}
        }
        let (counts, painted) =
            (&mut counts[made.field as usize], &mut painted[made.field as usize]);
        let bytes = field.bytes as usize;
        for (target, source) in places {
            let place = target.iter().zip(&field.shape).fold(0, |at, (to, e)| at * e + to);
            let place = place as usize;
            counts[place] += 1;
            if counts[place] > 1 {
                return Err(Fault::Box);
            }
            for (filled_shape, to) in painted.filled_shape.iter_mut().zip(&target) {
                *filled_shape = (*filled_shape).max(to + 1);
            }
            if target.is_empty() {
                painted.filled_shape[0] = 1;
            }
            if has_source {
                let element =
                    element(number, &target, &made.held(field, (&extents, &source)), field);
                painted.bytes[place * bytes..][..bytes].copy_from_slice(&element);
            }
        }
    }
    for (field, painted) in fields.iter().zip(&mut painted).filter(|(field, _)| !field.takes_parts)
    {
        painted.filled_shape = field.shape.clone();
    }
    fault.map_or(Ok(painted), Err)
}
