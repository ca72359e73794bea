//! The slow obvious writer of transposes and of shards in shards: element by element, level by
//! level, straight from the specification.
//!
//! In: layers, outermost first, and a function from array coordinates to elements. Out: the codec
//! list of zarr.json and the bytes of each file. Shares nothing with the library.

use crate::common::fixtures::Scratch;
use std::fs;

/// How an index is written.
#[derive(Clone, Copy, Debug)]
pub struct IndexForm {
    pub at_start: bool,
    pub has_crc: bool,
    pub is_big: bool,
}

impl IndexForm {
    /// What writers choose by default.
    pub const USUAL: IndexForm = IndexForm { at_start: false, has_crc: true, is_big: false };

    /// The index of these entries.
    pub fn index(&self, entries: &[(u64, u64)]) -> Vec<u8> {
        let words = entries.iter().flat_map(|(offset, length)| [*offset, *length]);
        let word = |word: u64| if self.is_big { word.to_be_bytes() } else { word.to_le_bytes() };
        let mut bytes: Vec<u8> = words.flat_map(word).collect();
        if self.has_crc {
            bytes.extend(crc32c::crc32c(&bytes).to_le_bytes());
        }
        bytes
    }

    /// A shard of these parts, side by side in their order; None is missing.
    pub fn shard(&self, parts: &[Option<Vec<u8>>]) -> Vec<u8> {
        let index_bytes = parts.len() * 16 + if self.has_crc { 4 } else { 0 };
        let mut at = if self.at_start { index_bytes as u64 } else { 0 };
        let mut entries = Vec::new();
        let mut payload = Vec::new();
        for part in parts {
            let Some(part) = part else {
                entries.push((u64::MAX, u64::MAX));
                continue;
            };
            entries.push((at, part.len() as u64));
            at += part.len() as u64;
            payload.extend_from_slice(part);
        }
        let index = self.index(&entries);
        if self.at_start { [index, payload].concat() } else { [payload, index].concat() }
    }

    fn codecs(&self) -> String {
        let endian = if self.is_big { "big" } else { "little" };
        let bytes = format!(r#"{{"name":"bytes","configuration":{{"endian":"{endian}"}}}}"#);
        bytes + if self.has_crc { r#","crc32c""# } else { "" }
    }
}

/// A codec in front of the one that makes bytes.
#[derive(Clone, Debug)]
pub enum Layer {
    /// Axis `i` behind it is axis `order[i]` in front of it.
    Transpose(Vec<usize>),
    /// Edges in the axis order in front of it.
    Shard(Vec<u64>, IndexForm),
}

/// A store in the making.
pub struct Layered<'a> {
    pub shape: Vec<u64>,
    /// Extents of a file's cell.
    pub cell: Vec<u64>,
    pub layers: Vec<Layer>,
    /// JSON.
    pub data_type: &'a str,
    /// JSON.
    pub fill: &'a str,
    /// JSON objects: `bytes` and what is behind it.
    pub tail: &'a str,
    /// The element at a place of the array or past it, as `bytes` writes it.
    pub pixel: &'a dyn Fn(&[u64]) -> Vec<u8>,
    /// What the codecs behind `bytes` do.
    pub encode: &'a dyn Fn(Vec<u8>) -> Vec<u8>,
    /// Whether the chunk whose first element is there is written.
    pub is_there: &'a dyn Fn(&[u64]) -> bool,
}

/// A cell on its way through the layers: its array axes in the order that they have there.
struct Cell {
    axes: Vec<usize>,
    origin: Vec<u64>,
    shape: Vec<u64>,
}

/// All places of a grid, the last axis fastest.
pub fn places(shape: &[u64]) -> impl Iterator<Item = Vec<u64>> + use<> {
    let shape = shape.to_vec();
    (0..shape.iter().product::<u64>()).map(move |mut number| {
        let mut at = vec![0; shape.len()];
        for axis in (0..shape.len()).rev() {
            at[axis] = number % shape[axis];
            number /= shape[axis];
        }
        at
    })
}

impl Layered<'_> {
    /// The text of zarr.json.
    pub fn metadata(&self) -> String {
        let mut codecs = self.tail.to_string();
        for layer in self.layers.iter().rev() {
            codecs = match layer {
                Layer::Transpose(order) => format!(
                    r#"{{"name":"transpose","configuration":{{"order":{order:?}}}}},{codecs}"#
                ),
                Layer::Shard(chunk, form) => format!(
                    r#"{{"name":"sharding_indexed","configuration":{{"chunk_shape":{chunk:?},
                    "codecs":[{codecs}],"index_codecs":[{}],"index_location":"{}"}}}}"#,
                    form.codecs(),
                    if form.at_start { "start" } else { "end" },
                ),
            };
        }
        format!(
            r#"{{"zarr_format":3,"node_type":"array","shape":{:?},"data_type":{},"fill_value":{},
            "chunk_grid":{{"name":"regular","configuration":{{"chunk_shape":{:?}}}}},
            "chunk_key_encoding":"default","codecs":[{codecs}]}}"#,
            self.shape, self.data_type, self.fill, self.cell
        )
    }

    /// Writes all of the store. Returns the uri.
    pub fn write(&self, scratch: &Scratch, name: &str) -> String {
        let root = scratch.path(name);
        fs::create_dir_all(&root).expect("the array's folder");
        fs::write(root.join("zarr.json"), self.metadata()).expect("zarr.json");
        let counts: Vec<u64> = self
            .shape
            .iter()
            .zip(&self.cell)
            .map(|(extent, edge)| extent.div_ceil(*edge))
            .collect();
        for file in places(&counts) {
            let cell = Cell {
                axes: (0..self.shape.len()).collect(),
                origin: file.iter().zip(&self.cell).map(|(at, edge)| at * edge).collect(),
                shape: self.cell.clone(),
            };
            let Some(bytes) = self.bytes_of(&self.layers, cell) else { continue };
            let mut path = root.join("c");
            file.iter().for_each(|at| path.push(at.to_string()));
            fs::create_dir_all(path.parent().expect("a folder")).expect("folders of the key");
            fs::write(path, bytes).expect("the file");
        }
        scratch.uri(name)
    }

    fn bytes_of(&self, layers: &[Layer], cell: Cell) -> Option<Vec<u8>> {
        let Some((layer, rest)) = layers.split_first() else { return self.chunk(&cell) };
        match layer {
            Layer::Transpose(order) => {
                let pick = |from: &[u64]| order.iter().map(|axis| from[*axis]).collect();
                let axes = order.iter().map(|axis| cell.axes[*axis]).collect();
                let turned = Cell { axes, origin: pick(&cell.origin), shape: pick(&cell.shape) };
                self.bytes_of(rest, turned)
            }
            Layer::Shard(chunk, form) => {
                let counts: Vec<u64> = cell.shape.iter().zip(chunk).map(|(s, c)| s / c).collect();
                let part = |at: Vec<u64>| {
                    let steps = at.iter().zip(chunk).map(|(at, edge)| at * edge);
                    let origin = cell.origin.iter().zip(steps).map(|(o, step)| o + step).collect();
                    let inner = Cell { axes: cell.axes.clone(), origin, shape: chunk.clone() };
                    self.bytes_of(rest, inner)
                };
                let parts: Vec<Option<Vec<u8>>> = places(&counts).map(part).collect();
                parts.iter().any(Option::is_some).then(|| form.shard(&parts))
            }
        }
    }

    fn chunk(&self, cell: &Cell) -> Option<Vec<u8>> {
        let in_array = |at: &[u64]| {
            let mut place = vec![0; at.len()];
            cell.axes.iter().zip(at).for_each(|(axis, at)| place[*axis] = *at);
            place
        };
        if !(self.is_there)(&in_array(&cell.origin)) {
            return None;
        }
        let at = |inside: Vec<u64>| -> Vec<u64> {
            in_array(&cell.origin.iter().zip(inside).map(|(o, at)| o + at).collect::<Vec<_>>())
        };
        let raw = places(&cell.shape).flat_map(|inside| (self.pixel)(&at(inside))).collect();
        Some((self.encode)(raw))
    }
}
