//! Samples of several boxes and what numpy made of them (tests/data/make_samples.py).
//!
//! In: a way to change a config. Out: panics where a batch is not what numpy says, in bytes or in
//! what its boxes cover.

use crate::common::arithmetic::Arithmetic;
use crate::common::asked;
use crate::common::digest;
use crate::common::drive::{Dice, PATIENCE_NS};
use crate::common::fixtures;
use crate::common::lender::Lender;
use serde_json::Value;
use std::fs;
use std::sync::Mutex;
use wavetrain::abi::{Blank, FieldSpec, SourceHook};
use wavetrain::config::*;
use wavetrain::loader::{Erasure, Feed, Loader, Memory, Part, Pop, Sample};
use wavetrain::os::SYSTEM;
use wavetrain::records::{DTYPES, Dtype};

/// A config, its samples, and of each batch and field the CRC-32 and what is covered.
pub struct Case {
    pub number: usize,
    fields: &'static [FieldSpec],
    has_table: bool,
    samples_per_batch: u32,
    max_boxes: u32,
    samples: Vec<Vec<Boxed>>,
    batches: Vec<Vec<(u32, Vec<u64>)>>,
    /// Gives arrays when it is asked.
    source: SourceHook,
}

struct Boxed {
    uri: String,
    source: Source,
    begin: Vec<i64>,
    end: Vec<i64>,
    step: Vec<i64>,
    field: u32,
    at: Vec<u64>,
    axes: Vec<Option<usize>>,
}

/// Axes of a box as lists of the elements that it reads, and its other axes as they are.
#[derive(Default)]
struct Listed {
    begin: Vec<i64>,
    end: Vec<i64>,
    step: Vec<i64>,
    lists: Vec<(usize, &'static [i64])>,
}

/// Most indices of a box that is given as lists, of several axes their product.
const LISTED_MAX: usize = 600;

impl Listed {
    /// The box, of an array of a store, with axes that `dice` chooses as lists.
    fn draw(dice: &mut Dice, boxed: &Boxed) -> Listed {
        let (begin, end, step) = (boxed.begin.clone(), boxed.end.clone(), boxed.step.clone());
        let mut made = Listed { begin, end, step, lists: Vec::new() };
        let mut indices = 1;
        for axis in 0..boxed.begin.len() {
            let (low, high) = (boxed.begin[axis], boxed.end[axis]);
            let step = boxed.step.get(axis).copied().unwrap_or(0);
            let step = if step == 0 { 1 } else { step };
            let up = (low..high).step_by(step.unsigned_abs() as usize);
            let down = (low..high).rev().step_by(step.unsigned_abs() as usize);
            let list: Vec<i64> = if step < 0 { down.collect() } else { up.collect() };
            let is_store = matches!(boxed.source, Source::Store);
            if !is_store || indices * list.len() > LISTED_MAX || dice.range(0, 3) == 0 {
                continue;
            }
            indices *= list.len();
            (made.begin[axis], made.end[axis]) = (0, list.len() as i64);
            if axis < made.step.len() {
                made.step[axis] = 1;
            }
            made.lists.push((axis, list.leak()));
        }
        made
    }

    fn indices(&self) -> u32 {
        let product = self.lists.iter().map(|list| list.1.len() as u32).product();
        if self.lists.is_empty() { 0 } else { product }
    }
}

enum Source {
    Store,
    Memory(Raw),
    Value(Dtype, Vec<u64>, Vec<u8>),
}

/// A part of a file that is held in memory for good, because loaders read it.
pub struct Raw {
    bytes: &'static [u8],
    offset: usize,
    dtype: Dtype,
    shape: Vec<u64>,
    strides: Vec<u64>,
}

impl Raw {
    fn memory(&self, gpu: Option<&Lender>) -> Memory {
        let Raw { bytes, offset, dtype, shape, strides } = self;
        if let Some(gpu) = gpu {
            let (device, address, event) = gpu.lend(bytes);
            let place = (device, address + *offset as u64, event);
            // SAFETY: numpy looked at the same bytes with these strides, and the lender keeps them.
            return unsafe { Memory::on_device(place, *dtype, shape, strides) };
        }
        // SAFETY: likewise, and nobody writes them.
        unsafe { Memory::new(bytes[*offset..].as_ptr(), *dtype, shape, strides) }
    }
}

pub fn dtype(value: &Value) -> Dtype {
    let name = value.as_str().expect("a type");
    *DTYPES.iter().find(|known| known.name() == name).expect("known")
}

/// What a box reads that is no store.
fn source(value: &Value) -> Source {
    let shape = list(&value["shape"], number);
    if let Some(name) = value["memory"].as_str() {
        return Source::Memory(Raw {
            bytes: raw(name),
            offset: number(&value["offset"]) as usize,
            dtype: dtype(&value["type"]),
            shape,
            strides: list(&value["strides"], number),
        });
    }
    let Some(hex) = value["value"].as_str() else { return Source::Store };
    let byte = |at: usize| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).expect("hex");
    Source::Value(dtype(&value["type"]), shape, (0..hex.len() / 2).map(byte).collect())
}

/// The bytes of a file, read once.
pub fn raw(name: &str) -> &'static [u8] {
    static READ: Mutex<Vec<(String, &'static [u8])>> = Mutex::new(Vec::new());
    let mut read = READ.lock().expect("no test fails here");
    if let Some((_, bytes)) = read.iter().find(|(known, _)| known == name) {
        return bytes;
    }
    let bytes = fs::read(fixtures::samples().join("raw").join(name)).expect("it is there");
    read.push((name.to_owned(), bytes.leak()));
    read[read.len() - 1].1
}

pub fn list<T>(value: &Value, each: impl Fn(&Value) -> T) -> Vec<T> {
    value.as_array().map(|list| list.iter().map(each).collect()).unwrap_or_default()
}

pub fn number(value: &Value) -> u64 {
    value.as_u64().expect("a number")
}

fn signed(value: &Value) -> i64 {
    value.as_i64().expect("a number")
}

fn field(value: &Value) -> FieldSpec {
    let mut spec = FieldSpec::BLANK;
    let name = value["name"].as_str().expect("a name");
    spec.name[..name.len()].copy_from_slice(name.as_bytes());
    let shape = list(&value["shape"], number);
    spec.sample_rank = shape.len() as u32;
    spec.sample_shape[..shape.len()].copy_from_slice(&shape);
    spec.dtype = dtype(&value["dtype"]) as u32;
    spec.pad_mode = match value["pad_mode"].as_str().expect("a mode") {
        "constant" => PAD_CONSTANT,
        "edge" => PAD_EDGE,
        "reflect" => PAD_REFLECT,
        _ => PAD_NONE,
    };
    spec.pad_value_set = number(&value["pad_value_set"]) as u32;
    spec.pad_value = number(&value["pad_value"]) as f64;
    spec
}

/// All cases.
pub fn cases() -> Vec<Case> {
    let folder = fixtures::samples();
    let text = fs::read_to_string(folder.join("cases.json")).expect("the cases are there");
    let all: Value = serde_json::from_str(&text).expect("the cases are JSON");
    let asked = asked::source(&all["asked"]);
    let boxed = |value: &Value| Boxed {
        uri: {
            let text = |key: &str| value[key].as_str().unwrap_or("");
            let path = folder.join("stores").join(text("array"));
            match text("before") {
                "hook:" => format!("hook:{}", text("array")),
                before => format!("{before}{}", path.to_str().expect("UTF-8")),
            }
        },
        source: source(value),
        begin: list(&value["begin"], signed),
        end: list(&value["end"], signed),
        step: list(&value["step"], signed),
        field: number(&value["field"]) as u32,
        at: list(&value["at"], number),
        axes: list(&value["axes"], |axis| (number(axis) as usize).checked_sub(1)),
    };
    let batch = |value: &Value| (number(&value["crc"]) as u32, list(&value["covered"], number));
    let case = |(at, value): (usize, &Value)| Case {
        number: at,
        fields: list(&value["fields"], field).leak(),
        has_table: value["has_table"].as_bool().expect("a truth"),
        samples_per_batch: number(&value["samples_per_batch"]) as u32,
        max_boxes: number(&value["max_boxes"]) as u32,
        samples: list(&value["samples"], |boxes| list(boxes, boxed)),
        batches: list(&value["batches"], |fields| list(fields, batch)),
        source: asked,
    };
    let cases = all["cases"].as_array().expect("a list");
    let cases: Vec<Case> = cases.iter().enumerate().map(case).collect();
    assert!(cases.len() > 200);
    cases
}

impl Case {
    /// Its config, of few threads and little memory.
    pub fn config(&self) -> Config {
        let mut config = Config {
            samples_per_batch: self.samples_per_batch,
            // The queue of the usual 64 samples would be most of the memory, all of it touched.
            lookahead_samples: 2 * self.samples_per_batch,
            max_chunk_uncompressed_bytes: 1 << 20,
            max_host_memory_bytes: 96 << 20,
            max_chunks_per_wave: 64,
            max_npy_files: 32,
            source: self.source,
            n_io_threads: 2,
            n_decode_threads: 2,
            n_array_meta_cache: 16,
            n_shard_index_cache: 64,
            n_chunk_layout_cache: 64,
            ..Config::default()
        };
        if self.has_table {
            config.fields = FieldTable::from_static(self.fields);
            config.max_boxes_per_sample = self.max_boxes;
            return config;
        }
        let only = &self.fields[0];
        (config.sample_rank, config.sample_shape) = (only.sample_rank, only.sample_shape);
        config.dtype = only.dtype;
        (config.pad_mode, config.pad_value) = (only.pad_mode, only.pad_value);
        config.pad_value_set = only.pad_value_set;
        config
    }

    /// Whether a box of it reads memory.
    pub fn reads_memory(&self) -> bool {
        self.samples.iter().flatten().any(|boxed| matches!(boxed.source, Source::Memory(_)))
    }

    /// Streams it and compares; how many bytes came out.
    pub fn stream(&self, config: &Config) -> u64 {
        self.stream_from(config, None)
    }

    /// The same with its memory in that of a device, where the loader's batches are.
    pub fn stream_lent(&self, config: &Config, gpu: &Lender) -> u64 {
        self.stream_from(config, Some(gpu))
    }

    fn stream_from(&self, config: &Config, gpu: Option<&Lender>) -> u64 {
        let mut bytes = 0;
        self.stream_each(config, gpu, (&[], &[]), &mut |batch, field, data| {
            bytes += data.len() as u64;
            let place = format!("case {}, batch {batch}, field {field}", self.number);
            assert_eq!(crc32fast::hash(data), self.batches[batch][field].0, "{place}");
        });
        bytes
    }

    /// Streams it with axes of boxes as lists of the same elements, and compares; how many lists.
    pub fn stream_listed(&self, config: &Config) -> usize {
        let mut dice = Dice(0x517C_C1B7_2722_0A95 ^ (self.number as u64) << 20);
        let listed: Vec<Vec<Listed>> = { self.samples.iter() }
            .map(|boxes| boxes.iter().map(|boxed| Listed::draw(&mut dice, boxed)).collect())
            .collect();
        let of_sample = |boxes: &Vec<Listed>| boxes.iter().map(Listed::indices).sum();
        let max_indices_per_sample = listed.iter().map(of_sample).max().unwrap_or(0);
        // Boxes that wait, and those of batches.
        let max_host_memory_bytes = config.max_host_memory_bytes + (192 << 20);
        let config = Config { max_indices_per_sample, max_host_memory_bytes, ..*config };
        let flat: Vec<Listed> = listed.into_iter().flatten().collect();
        self.stream_each(&config, None, (&[], &flat), &mut |batch, field, data| {
            let place = format!("case {}, batch {batch}, field {field}", self.number);
            assert_eq!(crc32fast::hash(data), self.batches[batch][field].0, "{place}");
        });
        flat.iter().map(|boxed| boxed.lists.len()).sum()
    }

    /// Streams it with arithmetic on the elements of each box that goes to floats: the same for
    /// every config. The bytes of each batch and field, and how many boxes had some.
    pub fn stream_augmented(&self, config: &Config, gpu: Option<&Lender>) -> (Vec<Vec<u8>>, usize) {
        let mut dice = Dice(0x9E37_79B9_7F4A_7C15 ^ (self.number as u64) << 20);
        let mut draw = |boxed: &Boxed| {
            let field = &self.fields[boxed.field as usize];
            let is_float = [Dtype::F32, Dtype::Bf16, Dtype::F16].map(|dtype| dtype as u32);
            let extents = &field.sample_shape[..field.sample_rank as usize];
            let is_changed = is_float.contains(&field.dtype) && dice.range(0, 4) > 0;
            is_changed.then(|| Arithmetic::draw(&mut dice, extents))
        };
        let drawn: Vec<_> = self.samples.iter().flatten().map(&mut draw).collect();
        let mut batches = Vec::new();
        let max_host_memory_bytes = config.max_host_memory_bytes + (128 << 20);
        let config = Config { augment: 1, max_host_memory_bytes, ..*config };
        self.stream_each(&config, gpu, (&drawn, &[]), &mut |_, _, data| {
            batches.push(data.to_vec());
        });
        (batches, drawn.iter().flatten().count())
    }

    /// Streams it, with what is drawn for each of its boxes, if it is, and lists; calls `each` with
    /// batch, field and bytes.
    fn stream_each<'a>(
        &'a self,
        config: &Config,
        gpu: Option<&Lender>,
        (drawn, listed): (&'a [Option<Arithmetic>], &'a [Listed]),
        each: &mut dyn FnMut(usize, usize, &[u8]),
    ) {
        let case = self.number;
        let erased: Vec<Vec<Erasure<'_>>> = drawn
            .iter()
            .map(|drawn| drawn.as_ref().map_or(Vec::new(), Arithmetic::erasures))
            .collect();
        let mut augments = drawn
            .iter()
            .zip(&erased)
            .map(|(drawn, erased)| drawn.as_ref().map(|drawn| drawn.given(erased)));
        let loader =
            Loader::open_on(&SYSTEM, config).unwrap_or_else(|why| panic!("case {case}: {why}"));
        let mut listed = listed.iter();
        let mut part = |boxed: &'a Boxed| Part {
            uri: &boxed.uri,
            feed: match &boxed.source {
                Source::Store => Feed::Nothing,
                Source::Memory(raw) => Feed::Memory(raw.memory(gpu)),
                Source::Value(dtype, shape, bytes) => Feed::Value(*dtype, shape, bytes),
            },
            begin: &boxed.begin,
            end: &boxed.end,
            field: boxed.field,
            at: &boxed.at,
            step: &boxed.step,
            lists: &[],
            axes: &boxed.axes,
            augment: augments.next().flatten(),
            affine: None,
        };
        let mut part = |boxed: &'a Boxed| match listed.next() {
            Some(Listed { begin, end, step, lists }) => {
                Part { begin, end, step, lists, ..part(boxed) }
            }
            None => part(boxed),
        };
        let parts: Vec<Vec<Part<'_>>> =
            self.samples.iter().map(|boxes| boxes.iter().map(&mut part).collect()).collect();
        let sample = |(tag, parts)| Sample { parts, tag };
        let samples: Vec<Sample<'_>> =
            (0..).zip(parts.iter().map(Vec::as_slice)).map(sample).collect();
        let (mut pushed, mut seen, mut flushed) = (0, 0, false);
        while seen < self.batches.len() {
            let (taken, result) = loader.push_samples(&samples[pushed..], 0);
            result.unwrap_or_else(|why| panic!("case {case}, sample {pushed}+{taken}: {why}"));
            pushed += taken;
            if pushed == samples.len() && !flushed {
                loader.flush().expect("a stream");
                flushed = true;
            }
            if config.thread_mode != THREADS_OWN {
                loader.pump(1_000_000).expect("a stream");
            }
            let timeout = if flushed { PATIENCE_NS } else { 0 };
            match loader.pop(timeout).unwrap_or_else(|why| panic!("case {case}: {why}")) {
                Pop::Batch(batch) => {
                    let first = seen * self.samples_per_batch as usize;
                    let tags: Vec<u64> =
                        (first..).map(|tag| tag as u64).take(batch.tags().len()).collect();
                    assert_eq!(batch.tags(), tags);
                    for (number, (_, filled_shape)) in self.batches[seen].iter().enumerate() {
                        let field = batch.field(number as u32).expect("a field");
                        let mut data = vec![0; field.bytes() as usize];
                        field.copy_to(&mut data).expect("a copy");
                        let place = format!("case {case}, batch {seen}, field {number}");
                        assert_eq!(field.filled_shape(), filled_shape, "{place}");
                        let position = first as u64;
                        let samples = data.chunks_exact(data.len() / tags.len());
                        digest::check(&field, config.digest == 1, samples, position, &place);
                        each(seen, number, &data);
                    }
                    seen += 1;
                }
                Pop::Again(_) => {}
                Pop::Starved(why) => panic!("case {case}: starved: {}", why.as_str()),
                Pop::End | Pop::Reset => panic!("case {case}: it ended after {seen} batches"),
            }
        }
        assert!(matches!(loader.pop(PATIENCE_NS), Ok(Pop::End)));
        loader.close(PATIENCE_NS).unwrap_or_else(|why| panic!("case {case}: {why}"));
    }
}
