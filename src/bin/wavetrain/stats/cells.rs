//! How a box is cut into samples.
//!
//! In: the box, and the chunk grid. Out: cells, row-major. Each is whole chunks, or the part of
//! them that lies in the box, so that each chunk is decoded once. Cells depend on the array and the
//! box alone. Worked example: chunks of 10, whole cells of 20, the box 15..58: 15..20, 20..40 and
//! 40..58, in samples of 20.

use crate::feed::{Known, List};
use crate::report;
use crate::requests::Extent;
use wavetrain::abi::ArrayInfo;
use wavetrain::loader::{Failure, Loader, Part, Sample};

/// Bytes of a cell: one chunk if that has more, else as many whole ones as it has room for.
pub const CELL_BYTES: u64 = 4 << 20;

/// The cells of a box.
pub struct Cells<'a> {
    uri: &'a str,
    extent: &'a Extent,
    /// Extents of whole cells, which begin at multiples of them.
    edges: Vec<u64>,
    /// Along each axis the first cell that the box meets, and how many.
    first: Vec<u64>,
    counts: Vec<u64>,
    /// The axis of the field that each axis becomes.
    axes: Vec<Option<usize>>,
}

/// Whether chunks, in shards too, are row-major elements and nothing else: "bytes(little)",
/// "sharding_indexed[bytes](index at end, crc32c)", of v2 "order C".
pub fn is_plain(codecs: &str) -> bool {
    let inner = codecs.rsplit('[').next().and_then(|inner| inner.split(']').next());
    let is_bare = inner.is_some_and(|inner| inner == "order C" || !inner.contains(' '));
    is_bare && !codecs.contains("transpose")
}

/// A cell as push takes it.
pub struct Cell<'a> {
    uri: &'a str,
    axes: &'a [Option<usize>],
    extent: Extent,
    tag: u64,
}

impl<'a> Cells<'a> {
    /// The cells of a box that lies in the array. `by_axis` becomes the first axis of samples.
    pub fn new(
        uri: &'a str,
        info: &ArrayInfo,
        extent: &'a Extent,
        by_axis: Option<usize>,
    ) -> Cells<'a> {
        let shape = extent.shape();
        // A part of a chunk that nothing encodes is read alone.
        let is_cut = is_plain(&report::name_text(&info.codecs)) && info.chunk_bytes > CELL_BYTES;
        let mut edges = match is_cut {
            true => vec![1; shape.len()],
            false => info.chunk_shape[..shape.len()].iter().map(|edge| (*edge).max(1)).collect(),
        };
        let element = u64::from(info.dtype_bytes);
        for axis in (0..shape.len()).rev() {
            let clipped = edges.iter().zip(&shape).map(|(edge, extent)| *edge.min(extent));
            let room = CELL_BYTES / clipped.fold(element, u64::saturating_mul).max(1);
            let begin = extent.begin[axis] as u64;
            // Cells begin at multiples of their extents: this one reaches from 0 to the end.
            let all = (begin + shape[axis]).div_ceil(edges[axis]);
            edges[axis] *= room.min(all).max(1);
            if room < all {
                break;
            }
        }
        let first: Vec<u64> =
            extent.begin.iter().zip(&edges).map(|(begin, edge)| *begin as u64 / edge).collect();
        let ends = extent.end.iter().zip(&edges).map(|(end, edge)| (*end as u64).div_ceil(*edge));
        let counts = ends.zip(&first).map(|(end, first)| end - first).collect();
        let axes = (0..shape.len()).map(|axis| match by_axis {
            Some(first) if axis == first => Some(0),
            Some(first) if axis < first => Some(axis + 1),
            _ => Some(axis),
        });
        Cells { uri, extent, edges, first, counts, axes: axes.collect() }
    }

    /// The extents of samples: no cell is larger.
    pub fn sample_shape(&self) -> Vec<u64> {
        let shape = self.extent.shape();
        self.turned(self.edges.iter().zip(&shape).map(|(edge, extent)| *edge.min(extent)))
    }

    /// The part of the box that a cell is.
    fn extent(&self, index: usize) -> Extent {
        let mut rest = index as u64;
        let mut extent = self.extent.clone();
        for axis in (0..self.counts.len()).rev() {
            let cell = self.first[axis] + rest % self.counts[axis];
            rest /= self.counts[axis];
            let begin = (cell * self.edges[axis]) as i64;
            extent.begin[axis] = begin.max(self.extent.begin[axis]);
            extent.end[axis] =
                begin.saturating_add_unsigned(self.edges[axis]).min(self.extent.end[axis]);
        }
        extent
    }

    /// Extents of a cell along the axes of the sample.
    pub fn filled(&self, index: usize) -> Vec<u64> {
        self.turned(self.extent(index).shape().into_iter())
    }

    /// Extents of the axes of the array, by axis of the sample.
    fn turned(&self, extents: impl Iterator<Item = u64>) -> Vec<u64> {
        let mut turned = vec![0; self.axes.len()];
        for (axis, extent) in self.axes.iter().zip(extents) {
            turned[axis.unwrap_or(0)] = extent;
        }
        turned
    }

    /// Where a cell begins in the box, along an axis of the array.
    pub fn offset(&self, index: usize, axis: usize) -> usize {
        (self.extent(index).begin[axis] - self.extent.begin[axis]) as usize
    }
}

impl List for Cells<'_> {
    type Item<'a>
        = Cell<'a>
    where
        Self: 'a;

    fn len(&self) -> usize {
        self.counts.iter().product::<u64>() as usize
    }

    fn item(&self, index: usize) -> Cell<'_> {
        let (uri, axes) = (self.uri, &self.axes[..]);
        Cell { uri, axes, extent: self.extent(index), tag: index as u64 + 1 }
    }

    fn tag(item: &Cell<'_>) -> u64 {
        item.tag
    }

    fn push(loader: &Loader, items: &[Cell<'_>], timeout_ns: u64) -> (usize, Result<(), Failure>) {
        let parts = items.iter().map(|item| {
            let Cell { uri, axes, extent: Extent { begin, end, .. }, .. } = item;
            [Part { uri, begin, end, axes, ..Part::default() }]
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

    fn source_bytes(&self, types: &[Option<Known>]) -> f64 {
        let known = types.first().copied().flatten();
        let element = known.map_or(0.0, |known| f64::from(known.element.1));
        self.extent.shape().iter().fold(element, |all, extent| all * *extent as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An array of f64 in chunks; with a codec they are decoded whole.
    fn info(shape: &[u64], chunk: &[u64], codecs: &str) -> ArrayInfo {
        let mut info = ArrayInfo { rank: shape.len() as u32, dtype_bytes: 8, ..ArrayInfo::EMPTY };
        info.shape[..shape.len()].copy_from_slice(shape);
        info.chunk_shape[..shape.len()].copy_from_slice(chunk);
        info.chunk_bytes = 8 * chunk.iter().product::<u64>();
        for (place, byte) in info.codecs.iter_mut().zip(codecs.bytes()) {
            *place = byte as _;
        }
        info
    }

    /// How many cells and elements a box has. No two cells overlap, each is whole chunks or reaches
    /// to an end of the box, and none is larger than a sample.
    fn elements(info: &ArrayInfo, extent: &Extent, is_whole: bool) -> (usize, u64) {
        let cells = Cells::new("a", info, extent, Some(1));
        let most = cells.sample_shape();
        let all: Vec<Extent> = (0..cells.len()).map(|index| cells.extent(index)).collect();
        for (index, cell) in all.iter().enumerate() {
            assert!(cells.filled(index).iter().zip(&most).all(|(extent, most)| extent <= most));
            for axis in 0..cell.begin.len() {
                let ends =
                    [(cell.begin[axis], extent.begin[axis]), (cell.end[axis], extent.end[axis])];
                for (end, of_box) in ends {
                    assert!(extent.begin[axis] <= end && end <= extent.end[axis]);
                    let edge = info.chunk_shape[axis] as i64;
                    assert!(!is_whole || end % edge == 0 || end == of_box, "{}", cell.text());
                }
            }
            let apart = |other: &Extent| {
                let pairs = (0..cell.begin.len()).map(|axis| {
                    cell.end[axis] <= other.begin[axis] || other.end[axis] <= cell.begin[axis]
                });
                pairs.into_iter().any(|apart| apart)
            };
            assert!(all[..index].iter().all(apart), "{}", cell.text());
        }
        let bytes = 8 * most.iter().product::<u64>();
        assert!(bytes <= CELL_BYTES.max(if is_whole { info.chunk_bytes } else { 0 }));
        (all.len(), all.iter().map(|cell| cell.shape().iter().product::<u64>()).sum())
    }

    /// And whether chunks are decoded whole, or read so because rows are no runs.
    const CODECS: [(&str, bool); 8] = [
        ("bytes(little) zstd", true),
        ("sharding_indexed[bytes(little) crc32c](index at end, crc32c)", true),
        ("transpose(1,0,2) sharding_indexed[bytes(little)](index at end, crc32c)", true),
        ("zstd order C", true),
        ("order F", true),
        ("order C", false),
        ("bytes(little)", false),
        ("sharding_indexed[sharding_indexed[bytes](index at end)](index at start, crc32c)", false),
    ];

    #[test]
    fn cells_are_whole_chunks_and_each_element_of_the_box_is_in_one() {
        let shape = [300, 200, 90];
        for (begin, end) in [([0, 0, 0], [300, 200, 90]), ([7, 31, 2], [259, 200, 90])] {
            let extent = Extent { begin: begin.to_vec(), end: end.to_vec(), lists: Vec::new() };
            for chunk in [[1, 1, 1], [30, 20, 10], [64, 200, 7], [300, 200, 90], [512, 300, 100]] {
                for (codecs, is_whole) in CODECS {
                    let info = info(&shape, &chunk, codecs);
                    let is_whole = is_whole || info.chunk_bytes <= CELL_BYTES;
                    let (count, elements) = elements(&info, &extent, is_whole);
                    assert_eq!(elements, extent.shape().iter().product::<u64>(), "{chunk:?}");
                    assert!(count < 50, "{count} cells of {chunk:?}");
                }
            }
        }
    }

    #[test]
    fn the_axis_of_the_sets_is_the_first_of_a_sample() {
        let info = info(&[10, 20, 30], &[10, 20, 30], "");
        let extent = Extent { begin: vec![0; 3], end: vec![10, 20, 30], lists: Vec::new() };
        let shape = |by_axis| Cells::new("a", &info, &extent, by_axis).sample_shape();
        assert_eq!(shape(None), [10, 20, 30]);
        assert_eq!(shape(Some(0)), [10, 20, 30]);
        assert_eq!(shape(Some(1)), [20, 10, 30]);
        assert_eq!(shape(Some(2)), [30, 10, 20]);
    }
}
