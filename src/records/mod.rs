//! The plain records that stages hand to each other: element types, codec chains and the array.
//!
//! A source (zarr v3 or v2) fills one [`ArrayRecord`]; everything after `source` works on records
//! alone and knows no file format.
//!
//! Words: the *file grid* divides the array into files (shards, or chunks if it has no shards); the
//! *chunk grid* divides a file into chunks, the unit that is decoded. A *rectilinear* file grid has
//! files of different extents along some axis: what the record says of a file or of a chunk then
//! holds for the largest, and [`ArrayRecord::of_file`] gives the record of one file.

mod affine;
mod asked;
mod augment;
mod boxes;
mod codec;
mod cut;
mod dtype;
mod fed;
mod flat;
pub mod grid;
mod lzma;
mod need;
mod packing;
mod parts;
mod placement;
mod shards;
mod small;
mod spelling;
mod time;
mod values;

pub use affine::Affine;
pub use asked::Origin;
pub use augment::{Augment, AugmentHead, AugmentWords, Erased, arithmetic_words, augment_words};
pub use boxes::{
    AxisWalk, BoxRecord, BoxShape, CallerPlaces, Destination, PadMode, STEP_MAX, STEPPED_MAX,
    WalkFault,
};
pub use codec::{
    CODECS, Codec, CodecChain, CodecName, CodecRow, Filter, Line, Member, Number, Sum, SumKind,
    Types,
};
pub use cut::chunk_origin;
pub use dtype::{DTYPES, Dtype};
pub use fed::{DeviceMemory, Fed, FedData, VALUE_BYTES};
pub use flat::{
    CF_MARK, FIELD_MARK, HOOK_PREFIX, RAW_PREFIX, STRUCT_BYTES_MAX, array_path, field_place,
    flat_path, is_npy, npy_field, split_cf, split_field,
};
pub use lzma::{LZMA_CONTEXT_BITS_MAX, Lzma, LzmaChain, LzmaProperties};
pub use need::{Need, Span};
pub use packing::Packing;
pub use parts::{PART_DIGITS_MAX, Part};
pub use placement::{LEVEL_ROUNDING, LevelChoice, Placement, split_level_name, write_level_name};
#[cfg(feature = "internals")]
pub use shards::MISSING;
pub use shards::{INDEX_CRC_BYTES, cell_place};
#[cfg(feature = "internals")]
pub use small::SMALLS;
pub use small::{Packed, Padding, Small};
pub use spelling::Spelling;
pub use time::{TIME_UNITS, Time};
pub use values::{
    BEYOND_NAMES, BEYONDS, Beyond, Cast, Cf, Pair, ROUNDING_NAMES, ROUNDINGS, Rounding, Scaling,
};

use self::grid::{AxisGrid, Cell, EdgeRun};
use crate::base::abi::CODEC_NONE;
use crate::base::limits::{ELEMENT_BYTES_MAX, RANK_MAX, SHARDS_MAX, compressed_bytes_max};
use crate::base::math::{coordinates_from_linear, product};
use crate::base::version::Version;

/// Order of the bytes of a word in a decoded chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ByteOrder {
    /// Least significant byte first.
    Little,
    /// Most significant byte first.
    Big,
}

/// Bytes of a decoded chunk: all of them, or those that somebody needs.
#[derive(Clone, Copy, Debug)]
pub struct ChunkBytes<'a> {
    /// The bytes.
    pub bytes: &'a [u8],
    /// The place of the first of them in the chunk.
    pub first: u64,
}

/// The place and the form of a shard's index.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IndexLayout {
    /// Before the chunks instead of after them.
    pub at_start: bool,
    /// A CRC-32C of the index follows it.
    pub has_crc: bool,
    /// Order of the bytes of its u64 words.
    pub byte_order: ByteOrder,
}

/// Which metadata document describes an array or group; its name says so.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DocumentKind {
    /// `zarr.json`: an array or a group of zarr v3, which the document itself tells apart.
    Zarr3,
    /// `.zarray`: an array of zarr v2.
    Zarr2Array,
    /// `.zgroup`: a group of zarr v2.
    Zarr2Group,
}

/// All documents in the order in which they are looked for: if an array has several, the first one
/// counts, as for zarr-python.
pub const DOCUMENT_KINDS: [DocumentKind; 3] =
    [DocumentKind::Zarr3, DocumentKind::Zarr2Array, DocumentKind::Zarr2Group];

impl DocumentKind {
    /// The name of the file.
    pub const fn file_name(self) -> &'static str {
        match self {
            DocumentKind::Zarr3 => "zarr.json",
            DocumentKind::Zarr2Array => ".zarray",
            DocumentKind::Zarr2Group => ".zgroup",
        }
    }
}
/// Axes of an array in the order in which something counts them, outermost first.
pub type AxisOrder = [u8; RANK_MAX];

/// The order of the metadata.
pub const IN_ORDER: AxisOrder = {
    let mut order = [0; RANK_MAX];
    let mut place = 0;
    while place < RANK_MAX {
        order[place] = place as u8;
        place += 1;
    }
    order
};

/// How the path of a file follows from its coordinates in the file grid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeyEncoding {
    /// "c/0/1/2"; "c" alone for rank 0.
    Default,
    /// "0.1.2"; "0" alone for rank 0.
    V2,
}

/// Everything that the data path needs to know about an array. All extents are in elements; axis
/// order is the order of the metadata.
#[derive(Clone, Debug)]
pub struct ArrayRecord {
    /// The document that says all this.
    pub document: DocumentKind,
    /// Number of axes, at most RANK_MAX.
    pub rank: u32,
    /// Element type.
    pub dtype: Dtype,
    /// Bytes of one element, 1 to ELEMENT_BYTES_MAX.
    pub dtype_bytes: u32,
    /// The times that elements, which are int64 then, are.
    pub time: Option<Time>,
    /// The type that the document names, if it has fewer bits than `dtype`.
    pub small: Option<Small>,
    /// Stands for an array of rank 0 where boxes are read: its rank and extent are 1, and its file
    /// is that of rank 0.
    pub is_scalar: bool,
    /// Byte order of the elements in a decoded chunk.
    pub byte_order: ByteOrder,
    /// Extents of the array; an extent may be 0.
    pub shape: [u64; RANK_MAX],
    /// How files divide the array along each axis.
    pub file_grid: [AxisGrid; RANK_MAX],
    /// The runs that `file_grid` counts from; none if all axes are regular.
    pub edges: &'static [EdgeRun],
    /// The pairs that casts among `codecs` count from ([`Pair`]), in rows after the runs.
    pub pairs: &'static [EdgeRun],
    /// Extents of a chunk, of the largest one if files are chunks of different extents; so are its
    /// strides and bytes.
    pub chunk_shape: [u64; RANK_MAX],
    /// Bytes from one element of a decoded chunk to the next along each axis: row-major in the
    /// chunk's axis_order.
    pub chunk_strides: [i64; RANK_MAX],
    /// Bytes of a decoded chunk: product of chunk_shape times dtype_bytes.
    pub chunk_bytes: u64,
    /// 0: a file is a chunk. 1: a file is a shard of chunks. 2: a shard of shards.
    pub shard_levels: u32,
    /// Extents of the shards, outermost first; the outermost is a file, the largest one. Those of a
    /// stored chunk that `is_cut` follow, or, of each shard that is decoded whole, those of a cell.
    pub shard_shape: [[u64; RANK_MAX]; SHARDS_MAX],
    /// Index of each shard level, then of each shard that is decoded whole.
    pub index: [IndexLayout; SHARDS_MAX],
    /// Transposes: the axes as the index of each shard level counts its entries, and, after those,
    /// as the elements of a chunk lie in it. Grids, shapes and positions stay in array order. Those
    /// of each shard that is decoded whole follow.
    pub axis_order: [AxisOrder; SHARDS_MAX + 1],
    /// Codecs of a chunk.
    pub codecs: CodecChain,
    /// One element, in the byte order of this machine, that missing chunks read as.
    pub fill: [u8; ELEMENT_BYTES_MAX],
    /// Whether its document gives it: in zarr v2 null is none.
    pub is_fill_given: bool,
    /// The packing that attributes describe; elements are delivered as they are stored without CF.
    pub packing: Packing,
    /// What CF makes of elements when they are cast. As a filter among `codecs` it makes that of
    /// whole chunks, and this is None.
    pub cf: Option<Cf>,
    /// The array is one file of elements as they are, the first of them at this byte: strides are
    /// those of the file, and a chunk is a part of it that begins at its first element. It has no
    /// shards then, the file is the only one, and its extents are in `shard_shape`.
    pub flat: Option<u64>,
    /// Bytes of the structured elements of that file, of which elements are a field or the whole;
    /// 0: it has none, and elements lie side by side.
    pub pitch: u32,
    /// The version of that file whose header was read: this record describes no other version.
    pub flat_version: Option<Version>,
    /// Its files are these, one after the other along the first axis, and it is as flat as each of
    /// them: `flat` is of the first.
    pub parts: &'static [Part],
    /// Digits of the numbers of such files, at least; 0 of other arrays.
    pub part_digits: u32,
    /// The chunks here are parts of those of the store: strides are those of a stored chunk, its
    /// extents are in `shard_shape`. The last of its parts may be smaller than `chunk_shape`.
    pub is_cut: bool,
    /// The owner of its elements.
    pub origin: Origin,
    /// How paths are made.
    pub key_encoding: KeyEncoding,
    /// Between the coordinates in a path: b'/' or b'.'.
    pub separator: u8,
}

impl ArrayRecord {
    /// A record of rank 0, to be filled.
    pub const EMPTY: ArrayRecord = ArrayRecord {
        document: DocumentKind::Zarr3,
        rank: 0,
        dtype: Dtype::U8,
        dtype_bytes: 1,
        time: None,
        small: None,
        is_scalar: false,
        byte_order: ByteOrder::Little,
        shape: [0; RANK_MAX],
        file_grid: [AxisGrid::Regular; RANK_MAX],
        edges: &[],
        pairs: &[],
        chunk_shape: [1; RANK_MAX],
        chunk_strides: [0; RANK_MAX],
        chunk_bytes: 1,
        shard_levels: 0,
        shard_shape: [[1; RANK_MAX]; SHARDS_MAX],
        index: [IndexLayout { at_start: false, has_crc: true, byte_order: ByteOrder::Little };
            SHARDS_MAX],
        axis_order: [IN_ORDER; SHARDS_MAX + 1],
        codecs: CodecChain::new_const(),
        fill: [0; ELEMENT_BYTES_MAX],
        is_fill_given: false,
        packing: Packing::NONE,
        cf: None,
        flat: None,
        pitch: 0,
        flat_version: None,
        parts: &[],
        part_digits: 0,
        is_cut: false,
        origin: Origin::FILES,
        key_encoding: KeyEncoding::Default,
        separator: b'/',
    };

    /// Gives an array of rank 0 the one axis that a box of rank 0 stands for.
    pub fn give_axis(&mut self) {
        if self.rank == 0 {
            (self.rank, self.is_scalar, self.shape[0]) = (1, true, 1);
            self.pack_chunk();
        }
    }

    /// Number of axes, to index with.
    pub fn axes(&self) -> usize {
        self.rank as usize
    }

    /// Extents of a file's cell, the largest one: the outermost shard, or the chunk if it has no
    /// shards.
    pub fn file_shape(&self) -> &[u64; RANK_MAX] {
        let is_shard = self.shard_levels > 0 || self.flat.is_some() || self.is_cut;
        if is_shard { &self.shard_shape[0] } else { &self.chunk_shape }
    }

    /// Whether files have different extents along some axis.
    pub fn is_rectilinear(&self) -> bool {
        self.file_grid[..self.axes()].iter().any(|grid| *grid != AxisGrid::Regular)
    }

    /// A value for each axis, and then those of `others`.
    fn by_axis(&self, others: &[u64; RANK_MAX], value: impl Fn(usize) -> u64) -> [u64; RANK_MAX] {
        let mut values = *others;
        (0..self.axes()).for_each(|axis| values[axis] = value(axis));
        values
    }

    /// Extents of the smallest file.
    pub fn file_shape_min(&self) -> [u64; RANK_MAX] {
        self.by_axis(self.file_shape(), |axis| match self.file_grid[axis] {
            AxisGrid::Regular => self.file_shape()[axis],
            AxisGrid::Edges { edge_min, .. } => edge_min,
        })
    }

    /// Number of files along each axis, those that may be missing included.
    pub fn file_counts(&self) -> [u64; RANK_MAX] {
        self.by_axis(&[1; RANK_MAX], |axis| match self.file_grid[axis] {
            AxisGrid::Regular => self.shape[axis].div_ceil(self.file_shape()[axis]),
            AxisGrid::Edges { cells, .. } => cells,
        })
    }

    /// Coordinate along `axis` of the file that holds `element` of the array.
    pub fn file_at(&self, axis: usize, element: u64) -> u64 {
        match self.file_grid[axis] {
            AxisGrid::Regular => element / self.file_shape()[axis],
            AxisGrid::Edges { first, count, .. } => {
                grid::cell_at(grid::runs(self.edges, first, count), element)
            }
        }
    }

    /// The range of the axis in the files at coordinate `file` along `axis`.
    #[inline(always)] // the planner asks for each axis of each chunk
    pub fn file_cell(&self, axis: usize, file: u64) -> Cell {
        self.file_cell_in(self.edges, axis, file)
    }

    #[inline(always)] // as said of `file_cell`
    fn file_cell_in(&self, edges: &[EdgeRun], axis: usize, file: u64) -> Cell {
        match self.file_grid[axis] {
            AxisGrid::Regular => {
                let edge = self.file_shape()[axis];
                Cell { first: file * edge, edge }
            }
            AxisGrid::Edges { first, count, .. } => {
                grid::cell(grid::runs(edges, first, count), file)
            }
        }
    }

    /// The record of file number `file`: the same array, but the extents, strides and bytes of a
    /// file and of its chunks are this file's own. If all files are alike, it is `self`; else `own`
    /// holds it.
    #[inline]
    pub fn of_file<'a>(&'a self, file: u64, own: &'a mut Option<ArrayRecord>) -> &'a ArrayRecord {
        self.of_file_in(self.edges, file, own)
    }

    /// Coordinates of a file in the file grid.
    #[inline]
    pub fn file_coordinates(&self, file: u64) -> [u64; RANK_MAX] {
        let (mut at, axes) = ([0; RANK_MAX], self.axes());
        if file > 0 {
            coordinates_from_linear(file, &self.file_counts()[..axes], &mut at[..axes]);
        }
        at
    }

    fn with_extents_of(&self, edges: &[EdgeRun], file: u64) -> ArrayRecord {
        let coordinates = self.file_coordinates(file);
        let mut record = self.clone();
        let edge = |axis: usize| self.file_cell_in(edges, axis, coordinates[axis]).edge;
        if self.is_in_parts() {
            record.give_rows(edge(0));
        } else if self.shard_levels > 0 {
            record.shard_shape[0] = self.by_axis(&self.shard_shape[0], edge);
        } else if self.is_cut {
            record.shard_shape[0] = self.by_axis(&self.shard_shape[0], edge);
            record.chunk_shape =
                self.by_axis(&self.chunk_shape, |axis| self.chunk_shape[axis].min(edge(axis)));
            record.lay_out(&record.shard_shape[0].clone());
        } else {
            record.chunk_shape = self.by_axis(&self.chunk_shape, edge);
            record.pack_chunk();
        }
        record
    }

    /// Sets the strides and the bytes of a chunk of elements side by side from its shape, row-major
    /// in its axis_order. The caller checked that a chunk has at most CHUNK_BYTES_MAX bytes.
    pub fn pack_chunk(&mut self) {
        self.pitch = 0;
        let shape = self.chunk_shape;
        self.lay_out(&shape);
        let elements = shape[..self.axes()].iter().product::<u64>();
        self.chunk_bytes = elements * u64::from(self.dtype_bytes);
    }

    /// Number of chunks in a file along each axis, those of all shards in it and past the array
    /// included.
    pub fn chunk_counts(&self) -> [u64; RANK_MAX] {
        self.by_axis(&[1; RANK_MAX], |axis| self.chunks_along(axis, self.file_shape()[axis]))
    }

    /// The same for the file at these coordinates of the file grid.
    pub fn chunk_counts_at(&self, file: &[u64; RANK_MAX]) -> [u64; RANK_MAX] {
        if self.edges.is_empty() {
            return self.chunk_counts();
        }
        let edge = |axis: usize| self.file_cell(axis, file[axis]).edge;
        self.by_axis(&[1; RANK_MAX], |axis| self.chunks_along(axis, edge(axis)))
    }

    /// Number of chunks in one file.
    pub fn chunks_per_file(&self) -> u64 {
        // Source checked the product when it made the record.
        product(&self.chunk_counts()[..self.axes()]).unwrap_or(u64::MAX)
    }

    /// The codec that compresses chunks, if one does.
    pub fn compressor(&self) -> Option<Codec> {
        self.codecs.iter().copied().find(|codec| codec.is_compressor())
    }

    /// The place of its chunks in counts by what compressed them.
    pub fn codec_place(&self) -> usize {
        self.compressor().map_or(CODEC_NONE, Codec::number)
    }

    /// Whether a codec of the chain carries a checksum, so that chunks are decoded whole.
    pub fn has_checksum(&self) -> bool {
        self.codecs.iter().any(|codec| codec.has_checksum())
    }

    /// Whether the bytes of a chunk in its file are the decoded bytes, and nothing checks them:
    /// then only what is needed is read, and the system keeps it.
    pub fn is_read_partly(&self) -> bool {
        self.codecs.is_empty() && self.origin.has_files
    }

    /// Whether a decoded chunk is worth being shared: not if decoding costs nothing, nor if a host
    /// gives each box by itself.
    pub fn is_decoded(&self) -> bool {
        !self.is_read_partly() && !self.origin.cuts_by_box
    }

    /// Whether chunks may be cached: decoded ones, and uncompressed ones that their array is stored
    /// in. A flat file has none, and one that is cut is too large.
    pub fn is_cacheable(&self) -> bool {
        self.is_decoded() || self.is_read_partly() && self.flat.is_none() && !self.is_cut
    }

    /// Bytes of a chunk, or of a cell of the shard that follows, after codecs `..count` of the
    /// chain, for codecs of a fixed size; a compressor or a shard makes every later size unknown
    /// (None).
    pub fn encoded_bytes(&self, count: usize) -> Option<u64> {
        self.codecs[..count]
            .iter()
            .try_fold(self.unit_bytes(count), |bytes, codec| codec.encoded_bytes(bytes))
    }

    /// Whether a filter of the chain changes the elements, so that chunks are decoded whole.
    pub fn is_filtered(&self) -> bool {
        self.codecs.iter().any(|codec| codec.is_filter())
    }

    /// Bytes of a chunk at its largest, filtered or not, and of what a shard takes to be decoded
    /// whole: what the cap on chunks is for. Checksums count if a filter follows them.
    pub fn working_bytes(&self) -> u64 {
        self.sizes(self.codecs.len()).working
    }

    /// Most bytes that a chunk of which the encoded size is not known may take in a file.
    pub fn encoded_bytes_max(&self) -> u64 {
        compressed_bytes_max(self.working_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shard_index_covers_the_whole_shard_past_the_array() {
        let mut record = ArrayRecord::EMPTY.clone();
        record.rank = 2;
        record.shape[..2].copy_from_slice(&[10, 100]);
        record.shard_levels = 1;
        record.shard_shape[0][..2].copy_from_slice(&[8, 64]);
        record.chunk_shape[..2].copy_from_slice(&[4, 16]);
        assert_eq!(record.file_counts()[..2], [2, 2]);
        assert_eq!(record.chunk_counts()[..2], [2, 4]);
        assert_eq!(record.chunks_per_file(), 8);
    }
}
