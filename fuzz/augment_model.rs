//! What include/wavetrain.h says of wavetrain_augment: which of them push takes for a field, and
//! what they make of each element, in the order of its lines. Nothing of the library's is asked.
//!
//! In: choices. Out: structs in memory that ends where nobody may go on, the verdict, elements.

use super::box_model::{FieldModel, Held, bytes_of};
use super::choices::Choices;
use super::guard::{PAGE_BYTES, Room};
use super::oracle::cast;
use std::sync::LazyLock;
use wavetrain::abi::{Augment, Blank, Erase};
use wavetrain::base::limits::RANK_MAX;
use wavetrain::records::Dtype;

/// What the header states.
const CHANNELS_MAX: u32 = 64;
const ERASES_MAX: u32 = 8;
const NAN: f32 = f32::from_bits(0x7FC0_0000);

const STRUCT_BYTES: usize = size_of::<Augment>();
const ERASE_BYTES: usize = size_of::<Erase>();

unsafe extern "C" {
    safe fn erfc(x: f64) -> f64;
}

/// The table of the noise. The quantile of each entry of the upper half is found by bisection.
static TABLE: LazyLock<Vec<f32>> = LazyLock::new(|| {
    let quantile = |entry: usize| {
        let above = 1.0 - (entry as f64 + 0.5) / 2048.0;
        let (mut low, mut high) = (0.0, 8.0);
        for _ in 0..64 {
            let middle = (low + high) / 2.0;
            let is_below = erfc(middle * std::f64::consts::FRAC_1_SQRT_2) / 2.0 > above;
            *if is_below { &mut low } else { &mut high } = middle;
        }
        low
    };
    let entry = |entry: usize| match entry {
        0..1024 => -quantile(2047 - entry),
        _ => quantile(entry),
    };
    (0..2048).map(|number| (entry(number) * 0.7073325951129718) as f32).collect()
});

/// Rooms of a page for what a push reads. Each byte past the end of one ends the program.
#[derive(Default)]
pub struct Pool {
    rooms: Vec<Room>,
    used: Vec<(*mut u8, usize)>,
}

impl Pool {
    /// A copy that ends at the end of its room, or `skew` bytes before.
    pub fn put(&mut self, bytes: &[u8], skew: usize) -> *const u8 {
        let number = self.used.len();
        if number == self.rooms.len() {
            self.rooms.push(Room::of(PAGE_BYTES));
        }
        let room = self.rooms[number].poisoned(bytes.len() + skew, true);
        room[..bytes.len()].copy_from_slice(bytes);
        self.used.push((room.as_mut_ptr(), bytes.len()));
        room.as_ptr()
    }

    /// Writes over all of it, and takes it back.
    pub fn wipe(&mut self) {
        for (first, bytes) in self.used.drain(..) {
            // SAFETY: the bytes of a room, which nobody has borrowed.
            unsafe { first.write_bytes(0xEE, bytes) };
        }
    }
}

/// A struct, and what its pointers lead to.
pub struct AugmentModel {
    /// Its pointers are NULL until it is written.
    raw: Augment,
    /// Bytes that a newer header might have after it.
    tail: Vec<u8>,
    scale: Option<Vec<f32>>,
    bias: Option<Vec<f32>>,
    erase: Option<Vec<EraseModel>>,
    /// Bytes after each of the erased boxes, of which the last is this.
    erase_end: u8,
    skew: usize,
}

struct EraseModel {
    raw: Erase,
    values: Option<Vec<f32>>,
}

impl AugmentModel {
    /// One that is mostly right for a field.
    pub fn choose(choices: &mut Choices<'_>, field: &FieldModel) -> AugmentModel {
        let shape = &field.shape;
        let mut raw = Augment::EMPTY;
        raw.n_channels = choices.one_of(&[1, 0, 1]);
        let axis = choices.below(shape.len() as u64 + 1) as usize;
        if let Some(extent @ 2..=64) = shape.get(axis).copied() {
            (raw.n_channels, raw.channel_axis) = (extent as u32, axis as u32);
        }
        let numbers = |choices: &mut Choices<'_>, count: u32| -> Vec<f32> {
            (0..count).map(|_| float(choices)).collect()
        };
        let table = |choices: &mut Choices<'_>| {
            let is_there = raw.n_channels > 0 && choices.below(2) == 1;
            is_there.then(|| numbers(choices, raw.n_channels))
        };
        let (scale, bias) = (table(choices), table(choices));
        let limits = [float(choices), float(choices)];
        if !limits.iter().any(|limit| limit.is_nan()) {
            raw.has_clamp = choices.below(2) as u32;
            raw.clamp_low = if limits[0] <= limits[1] { limits[0] } else { limits[1] };
            raw.clamp_high = if limits[0] <= limits[1] { limits[1] } else { limits[0] };
        }
        raw.noise_sigma = choices.one_of(&[0.0, 0.0, 0.5, 3.0, 1e-40, 1e38, -0.0]);
        raw.noise_key = choices.long();
        raw.pad_goes_through = choices.below(2) as u32;
        raw.n_erase = choices.one_of(&[0, 0, 1, 1, 2, 3, 8]);
        let erase = |choices: &mut Choices<'_>| {
            let mut made = Erase::BLANK;
            for (axis, extent) in shape.iter().enumerate() {
                made.begin[axis] = choices.below(*extent);
                let rest = extent - made.begin[axis];
                made.end[axis] = made.begin[axis] + 1 + choices.below(rest);
            }
            made.n_values = if choices.below(2) == 1 { raw.n_channels.max(1) } else { 1 };
            EraseModel { raw: made, values: Some(numbers(choices, made.n_values)) }
        };
        let erase = (raw.n_erase > 0).then(|| (0..raw.n_erase).map(|_| erase(choices)).collect());
        raw.erase_bytes = if raw.n_erase > 0 { ERASE_BYTES as u32 } else { 0 };
        let (tail, skew, erase_end) = (Vec::new(), choices.one_of(&[0, 0, 0, 1, 2, 3]), 0);
        let mut made = AugmentModel { raw, tail, scale, bias, erase, erase_end, skew };
        if choices.rarely(3) {
            made.spoil(choices);
        }
        made
    }

    /// Makes any one thing wrong, or right in another way.
    fn spoil(&mut self, choices: &mut Choices<'_>) {
        let wild = choices.one_of(&[0, 1, 2, 3, 7, 9, 63, 64, 65, 1 << 16, u32::MAX]);
        let float = float(choices);
        match choices.below(22) {
            0 => self.raw.struct_size = choices.one_of(&[0, 7, usize::MAX, 65_537]),
            1 => self.raw.struct_size = choices.below(STRUCT_BYTES as u64) as usize,
            2 => {
                self.tail = vec![0; 1 + choices.below(40) as usize];
                self.raw.struct_size += self.tail.len();
                *self.tail.last_mut().expect("a byte") = choices.one_of(&[0, 1]);
            }
            3 => self.set_channels(wild),
            4 => self.raw.channel_axis = wild,
            5 => self.raw.clamp_low = float,
            6 => self.raw.clamp_high = float,
            7 => self.raw.has_clamp = wild,
            8 => self.raw.noise_sigma = float,
            9 => self.raw.n_erase = wild,
            10 => self.erase = None,
            11 => {
                let wild = choices.one_of(&[0, 8, 264, 271, 273, 276, 280, 288, u32::MAX]);
                (self.raw.erase_bytes, self.erase_end) = (wild, choices.one_of(&[0, 1]));
            }
            12 => self.raw.pad_goes_through = wild,
            13 => self.raw.reserved = wild,
            14 => self.scale = None,
            15 => self.bias = None,
            16 => self.scale = Some(vec![float; self.raw.n_channels.min(CHANNELS_MAX) as usize]),
            _ => self.spoil_erase(choices, wild),
        }
    }

    /// Other channels, with tables of as many numbers where that many are read.
    fn set_channels(&mut self, count: u32) {
        self.raw.n_channels = count;
        let length = if count <= CHANNELS_MAX { count as usize } else { 0 };
        for table in [&mut self.scale, &mut self.bias].into_iter().flatten() {
            table.resize(length, 0.75);
        }
    }

    fn spoil_erase(&mut self, choices: &mut Choices<'_>, wild: u32) {
        let Some(erase) = &mut self.erase else { return };
        let number = choices.below(erase.len() as u64) as usize;
        let (made, axis) = (&mut erase[number], choices.below(RANK_MAX as u64 / 2) as usize);
        let place = choices.one_of(&[0, 1, 2, 3, 7, 8, u64::MAX, 1 << 32]);
        match choices.below(6) {
            0 => made.raw.begin[axis] = place,
            1 => made.raw.end[axis] = place,
            2 => made.raw.reserved = wild,
            3 => made.values = None,
            _ => {
                let length = if wild <= CHANNELS_MAX { wild as usize } else { 0 };
                made.raw.n_values = wild;
                made.values.as_mut().expect("it was not taken").resize(length, -2.5);
            }
        }
    }

    /// Writes all that the pointers lead to. The bytes of the struct, and of its tail.
    pub fn write(&self, pool: &mut Pool) -> Vec<u8> {
        let mut raw = self.raw;
        let skew = self.skew;
        let mut put = |table: &Option<Vec<f32>>| -> *const f32 {
            let bytes = |table: &Vec<f32>| -> Vec<u8> {
                table.iter().flat_map(|number| number.to_ne_bytes()).collect()
            };
            table.as_ref().map_or(std::ptr::null(), |table| pool.put(&bytes(table), skew).cast())
        };
        (raw.scale, raw.bias) = (put(&self.scale), put(&self.bias));
        let step = self.raw.erase_bytes as usize;
        let mut boxes: Vec<u8> = Vec::new();
        for EraseModel { raw, values } in self.erase.iter().flatten() {
            let raw = Erase { values: put(values), ..*raw };
            let mut bytes = vec![self.erase_end; step.min(PAGE_BYTES / ERASES_MAX as usize)];
            let common = bytes.len().min(ERASE_BYTES);
            bytes[..common].copy_from_slice(&bytes_of(&raw)[..common]);
            boxes.extend_from_slice(&bytes);
        }
        // Boxes that are too many or too large are not there: nobody may read them.
        if self.raw.n_erase > ERASES_MAX || step > PAGE_BYTES {
            boxes.clear();
        }
        // As many as the struct states: the same again, if there are fewer.
        let each = boxes.len() / self.erase.as_ref().map_or(1, Vec::len);
        let boxes: Vec<u8> =
            boxes.into_iter().cycle().take(each * self.raw.n_erase as usize).collect();
        if self.erase.is_some() {
            raw.erase = pool.put(&boxes, skew).cast();
        }
        let mut bytes = bytes_of(&raw);
        bytes.extend_from_slice(&self.tail);
        bytes
    }

    /// The struct in memory of its own, of as many bytes as it states, if those can be.
    pub fn place(&self, pool: &mut Pool) -> *const Augment {
        let bytes = self.write(pool);
        let stated = self.raw.struct_size.max(size_of::<usize>());
        pool.put(&bytes[..if stated <= bytes.len() { stated } else { 8 }], self.skew).cast()
    }

    /// Bytes that the struct states.
    pub fn struct_size(&self) -> usize {
        self.raw.struct_size
    }

    /// What the caller's header has: members past struct_size are zeros. Pointers are NULL or not.
    fn known(&self) -> Augment {
        let is_there = |is_there: bool| match is_there {
            true => usize::MAX as *const u8,
            false => std::ptr::null(),
        };
        let mut raw = self.raw;
        raw.scale = is_there(self.scale.is_some()).cast();
        raw.bias = is_there(self.bias.is_some()).cast();
        raw.erase = is_there(self.erase.is_some()).cast();
        let mut known = Augment::EMPTY;
        let common = self.raw.struct_size.min(STRUCT_BYTES);
        // SAFETY: plain old data, of which the first bytes are copied.
        unsafe {
            let source = (&raw const raw).cast::<u8>();
            (&raw mut known).cast::<u8>().copy_from_nonoverlapping(source, common);
        }
        known
    }

    /// As many boxes as the struct states.
    fn erased(&self) -> impl Iterator<Item = &EraseModel> {
        self.erase.iter().flatten().cycle().take(self.known().n_erase as usize)
    }

    /// Whether push takes it for a field of a config that keeps memory for it.
    pub fn is_right(&self, field: &FieldModel) -> bool {
        let (known, shape) = (self.known(), &field.shape);
        let (size, count) = (self.raw.struct_size, known.n_channels);
        let is_sized = (8..=STRUCT_BYTES + self.tail.len()).contains(&size)
            && self.tail.iter().all(|byte| *byte == 0);
        let has_switches = known.has_clamp <= 1 && known.pad_goes_through <= 1;
        let has_channels = match count {
            0 => known.scale.is_null() && known.bias.is_null() && known.channel_axis == 0,
            1 => known.channel_axis == 0,
            _ => {
                let extent = shape.get(known.channel_axis as usize);
                count <= CHANNELS_MAX && extent == Some(&count.into())
            }
        };
        let has_limits = known.has_clamp == 0 || known.clamp_low <= known.clamp_high; // false of NaN
        let has_sigma = known.noise_sigma >= 0.0 && known.noise_sigma.is_finite();
        let has_erase = match known.n_erase {
            0 => known.erase.is_null() && known.erase_bytes == 0,
            1..=ERASES_MAX => {
                let step = known.erase_bytes as usize;
                let is_sized = (ERASE_BYTES..=PAGE_BYTES).contains(&step) && step.is_multiple_of(8);
                let is_known = step == ERASE_BYTES || self.erase_end == 0;
                let right = |erase: &EraseModel| erase.is_right(shape, count);
                is_sized && is_known && self.erase.is_some() && self.erased().all(right)
            }
            _ => false,
        };
        let is_float = matches!(field.dtype, Dtype::F32 | Dtype::Bf16 | Dtype::F16);
        let is_whole = has_switches && has_channels && has_limits && has_sigma && has_erase;
        is_sized && known.reserved == 0 && is_whole && is_float
    }

    /// The field's element for a place.
    pub fn element(&self, place: &[u64], held: &Held, field: &FieldModel) -> Vec<u8> {
        let known = self.known();
        if held.is_padding && known.pad_goes_through == 0 {
            return held.cast(field);
        }
        let bytes = cast(held.dtype, Dtype::F32, &held.element);
        let mut x = f32::from_le_bytes(bytes.try_into().expect("a float"));
        let along = place.get(known.channel_axis as usize).copied().unwrap_or(0) as usize;
        let c = if known.n_channels <= 1 { 0 } else { along };
        let of = |table: &Vec<f32>| table[if table.len() == 1 { 0 } else { c }];
        if let Some(scale) = self.scale.as_ref().filter(|_| !known.scale.is_null()) {
            x *= of(scale);
        }
        if let Some(bias) = self.bias.as_ref().filter(|_| !known.bias.is_null()) {
            x += of(bias);
        }
        if known.noise_sigma != 0.0 {
            let number = place.iter().zip(&field.shape).fold(0, |at, (to, e)| at * e + to);
            let noise = known.noise_sigma * normal(known.noise_key, number);
            x += noise;
        }
        if known.has_clamp == 1 {
            x = if x < known.clamp_low { known.clamp_low } else { x };
            x = if x > known.clamp_high { known.clamp_high } else { x };
        }
        for erase in self.erased().filter(|erase| erase.has(place)) {
            x = of(erase.values.as_ref().expect("it is right"));
        }
        cast(Dtype::F32, field.dtype, &(if x.is_nan() { NAN } else { x }).to_le_bytes())
    }
}

impl EraseModel {
    fn is_right(&self, shape: &[u64], channels: u32) -> bool {
        let count = self.raw.n_values;
        let is_right = |axis: usize| match (self.raw.begin[axis], self.raw.end[axis]) {
            (begin, end) if axis < shape.len() => begin < end && end <= shape[axis],
            places => places == (0, 0),
        };
        let has_values = self.values.is_some() && (count == 1 || count > 0 && count == channels);
        self.raw.reserved == 0 && has_values && (0..RANK_MAX).all(is_right)
    }

    fn has(&self, place: &[u64]) -> bool {
        let lies_in =
            |(axis, at): (usize, &u64)| (self.raw.begin[axis]..self.raw.end[axis]).contains(at);
        place.iter().enumerate().all(lies_in)
    }
}

fn normal(key: u64, place: u64) -> f32 {
    let mut h = key.wrapping_add((place + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    h = (h ^ h >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    h = (h ^ h >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    h ^= h >> 31;
    TABLE[(h >> 53) as usize] + TABLE[(h >> 42 & 2047) as usize]
}

/// Numbers as they are used, and those at which something changes.
fn float(choices: &mut Choices<'_>) -> f32 {
    match choices.below(16) {
        0 => 0.0,
        1 => -0.0,
        2 => 1.0 / 255.0,
        3 => f32::INFINITY,
        4 => f32::NEG_INFINITY,
        5 => 1e-40,
        6 => f32::from_bits(u32::from(choices.word()) << 16 | u32::from(choices.word())),
        7 => choices.one_of(&[f32::NAN, f32::MAX, 65504.0, 1.0 + f32::EPSILON]),
        _ => f32::from(choices.word() as i16) / 128.0,
    }
}
