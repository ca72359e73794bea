//! The parts of an array that are checked, each a sample: a chunk, or a piece of a large one that
//! nothing encodes.
//!
//! In: the chunk grid. Out: boxes, row-major. No part has elements of two chunks. Worked example:
//! 25 elements in chunks of 10, of which pieces have 4: 0..4, 4..8, 8..10, 10..14, 14..18, 18..20,
//! 20..24 and 24..25.

use crate::feed::{Known, List};
use crate::report;
use crate::requests::Extent;
use crate::stats::cells::{CELL_BYTES, is_plain};
use wavetrain::abi::ArrayInfo;
use wavetrain::loader::{Failure, Loader, Part, Sample};

/// An axis of the array.
struct Axis {
    extent: u64,
    /// Elements of a chunk, and of a piece of it.
    chunk: u64,
    piece: u64,
}

impl Axis {
    /// Parts before a chunk.
    fn parts_before(&self, chunk: u64) -> u64 {
        chunk * self.chunk.div_ceil(self.piece)
    }

    fn chunks(&self) -> u64 {
        self.extent.div_ceil(self.chunk)
    }

    fn parts(&self) -> u64 {
        let whole = self.extent / self.chunk;
        self.parts_before(whole) + (self.extent - whole * self.chunk).div_ceil(self.piece)
    }

    fn chunk_of(&self, part: u64) -> u64 {
        part / self.parts_before(1)
    }

    fn ends(&self, part: u64) -> (u64, u64) {
        let chunk = self.chunk_of(part);
        let begin = chunk * self.chunk + (part - self.parts_before(chunk)) * self.piece;
        let limit = (chunk + 1).saturating_mul(self.chunk).min(self.extent);
        (begin, begin.saturating_add(self.piece).min(limit))
    }
}

/// See the module.
pub struct Parts<'a> {
    uri: &'a str,
    axes: Vec<Axis>,
    sample_shape: Vec<u64>,
    element_bytes: u64,
}

/// A part as push takes it.
pub struct Item<'a> {
    uri: &'a str,
    extent: Extent,
    tag: u64,
}

impl<'a> Parts<'a> {
    /// The parts of an array.
    pub fn new(uri: &'a str, info: &ArrayInfo) -> Parts<'a> {
        let rank = info.rank as usize;
        let element_bytes = u64::from(info.dtype_bytes);
        let is_cut = is_plain(&report::name_text(&info.codecs)) && info.chunk_bytes > CELL_BYTES;
        let edges = info.shape[..rank].iter().zip(&info.chunk_shape);
        let mut axes: Vec<Axis> = edges
            .map(|(extent, edge)| {
                let chunk = (*edge).clamp(1, (*extent).max(1));
                Axis { extent: *extent, chunk, piece: chunk }
            })
            .collect();
        if is_cut {
            // Axes from the last on stay whole as long as there is room.
            let mut room = (CELL_BYTES / element_bytes.max(1)).max(1);
            for axis in axes.iter_mut().rev() {
                axis.piece = axis.chunk.min(room);
                room = (room / axis.chunk).max(1);
            }
        }
        let sample_shape = axes.iter().map(|axis| axis.piece).collect();
        Parts { uri, axes, sample_shape, element_bytes }
    }

    /// The array.
    pub fn uri(&self) -> &'a str {
        self.uri
    }

    /// Chunks of the array.
    pub fn chunks(&self) -> u64 {
        self.axes.iter().map(Axis::chunks).product()
    }

    /// Whether a chunk is several parts.
    pub fn are_pieces(&self) -> bool {
        self.axes.iter().any(|axis| axis.piece < axis.chunk)
    }

    /// Extents of the largest part.
    pub fn sample_shape(&self) -> &[u64] {
        &self.sample_shape
    }

    /// The number of a part along each axis.
    fn places(&self, index: usize) -> Vec<u64> {
        let mut rest = index as u64;
        let mut places: Vec<u64> = (self.axes.iter().rev())
            .map(|axis| {
                let place = rest % axis.parts();
                rest /= axis.parts();
                place
            })
            .collect();
        places.reverse();
        places
    }

    /// The number of the chunk that a part is of, row-major.
    pub fn chunk(&self, index: usize) -> u64 {
        let places = self.places(index).into_iter().zip(&self.axes);
        places.fold(0, |number, (place, axis)| number * axis.chunks() + axis.chunk_of(place))
    }

    /// The box of a part.
    pub fn extent(&self, index: usize) -> Extent {
        let places = self.places(index).into_iter().zip(&self.axes);
        let ends: Vec<(u64, u64)> = places.map(|(place, axis)| axis.ends(place)).collect();
        Extent {
            begin: ends.iter().map(|ends| ends.0 as i64).collect(),
            end: ends.iter().map(|ends| ends.1 as i64).collect(),
            lists: Vec::new(),
        }
    }
}

impl List for Parts<'_> {
    type Item<'a>
        = Item<'a>
    where
        Self: 'a;

    fn len(&self) -> usize {
        self.axes.iter().map(Axis::parts).product::<u64>() as usize
    }

    fn item(&self, index: usize) -> Item<'_> {
        Item { uri: self.uri, extent: self.extent(index), tag: index as u64 + 1 }
    }

    fn tag(item: &Item<'_>) -> u64 {
        item.tag
    }

    fn push(loader: &Loader, items: &[Item<'_>], timeout_ns: u64) -> (usize, Result<(), Failure>) {
        let parts = items.iter().map(|Item { uri, extent: Extent { begin, end, .. }, .. }| {
            [Part { uri, begin, end, ..Part::default() }]
        });
        let parts: Vec<_> = parts.collect();
        let samples = items.iter().zip(&parts).map(|(item, parts)| Sample { parts, tag: item.tag });
        loader.push_samples(&samples.collect::<Vec<_>>(), timeout_ns)
    }

    fn name(&self, index: usize) -> String {
        format!("{} of {}", self.extent(index).text(), self.uri)
    }

    fn fields(&self) -> &[String] {
        &[]
    }

    fn source_bytes(&self, _: &[Option<Known>]) -> f64 {
        let elements = self.axes.iter().map(|axis| axis.extent as f64);
        elements.fold(self.element_bytes as f64, |all, extent| all * extent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(shape: &[u64], chunk: &[u64], codecs: &str) -> Parts<'static> {
        let mut info = ArrayInfo { rank: shape.len() as u32, dtype_bytes: 8, ..ArrayInfo::EMPTY };
        info.shape[..shape.len()].copy_from_slice(shape);
        info.chunk_shape[..shape.len()].copy_from_slice(chunk);
        info.chunk_bytes = 8 * chunk.iter().product::<u64>();
        for (place, byte) in info.codecs.iter_mut().zip(codecs.bytes()) {
            *place = byte as _;
        }
        Parts::new("a", &info)
    }

    #[test]
    fn each_element_is_in_one_part_and_each_part_in_one_chunk() {
        let large = [7u64, 1000, 903];
        for (shape, chunk, codecs, are_pieces) in [
            (&[10u64, 7][..], &[4u64, 3][..], "bytes(little) zstd", false),
            (&[10, 7], &[40, 3], "bytes(little)", false),
            (&large, &[3, 700, 903], "bytes(little)", true),
            (&large, &[3, 700, 903], "bytes(little) zstd", false),
            (&[1 << 21, 2], &[1 << 20, 2], "order C", true),
            (&[], &[], "bytes", false),
            (&[0, 5], &[2, 2], "bytes", false),
        ] {
            let parts = parts(shape, chunk, codecs);
            assert_eq!(parts.are_pieces(), are_pieces, "{shape:?}");
            let (mut elements, mut chunks) = (0, std::collections::BTreeSet::new());
            for index in 0..parts.len() {
                let extent = parts.extent(index);
                elements += extent.shape().iter().product::<u64>();
                let most = extent.shape().into_iter().zip(parts.sample_shape());
                assert!(most.clone().all(|(extent, most)| 0 < extent && extent <= *most));
                let edges = extent.begin.iter().zip(&extent.end).zip(chunk);
                for ((begin, end), edge) in edges {
                    assert_eq!(*begin as u64 / edge, (*end as u64 - 1) / edge);
                }
                chunks.insert(parts.chunk(index));
            }
            assert_eq!(elements, shape.iter().product::<u64>());
            assert_eq!(chunks.len() as u64, parts.chunks());
        }
    }
}
