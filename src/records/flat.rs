//! Arrays that are files of elements as they are, and the uris that say so.
//!
//! In: extents. Out: chunks that nobody wrote as such, parts of a file.

use super::{ArrayRecord, file_and_chunk};
use crate::base::limits::RANK_MAX;

/// What stands before the name of an array that the host describes.
pub const HOOK_PREFIX: &str = "hook:";

/// What stands before the path of a raw file in its uri.
pub const RAW_PREFIX: &str = "raw:";

/// The path in the uri of a flat array: of a raw file what stands before its last question mark.
pub fn flat_path(uri: &str) -> &str {
    let Some(rest) = uri.strip_prefix(RAW_PREFIX) else { return uri };
    rest.rsplit_once('?').map_or(rest, |(path, _)| path)
}

impl ArrayRecord {
    /// Bytes that the file of a flat array has at least.
    pub fn flat_bytes(&self) -> u64 {
        let axes = 0..self.axes();
        if axes.clone().any(|axis| self.shape[axis] == 0) {
            return self.flat.unwrap_or(0);
        }
        let last: u64 =
            axes.map(|axis| (self.shape[axis] - 1) * self.chunk_strides[axis] as u64).sum();
        self.flat.unwrap_or(0) + last + u64::from(self.dtype_bytes)
    }

    /// Lays out a file of `rows` rows, and cuts it into chunks of at most `most` bytes.
    pub fn cut_file(&mut self, rows: u64, most: u64) {
        let extents =
            self.by_axis(&self.shape, |axis| if axis == 0 { rows } else { self.shape[axis] });
        self.cut(&extents, most);
        self.shard_shape[0] = self.by_axis(&self.shard_shape[0], |axis| {
            let extent = extents[axis].max(1);
            extent.checked_next_multiple_of(self.chunk_shape[axis]).unwrap_or(extents[axis])
        });
    }

    /// Cuts chunks of more than `cap` bytes into chunks of at most `most`, if each is a file that
    /// nothing compresses: a box reads only what it needs of one, so none takes memory of its size.
    pub fn cut_chunks(&mut self, cap: u64, most: u64) {
        let is_file = self.shard_levels == 0 && self.flat.is_none() && !self.is_rectilinear();
        if self.is_read_partly() && is_file && self.chunk_bytes > cap {
            let extents = self.chunk_shape;
            self.cut(&extents, most);
            (self.shard_shape[0], self.is_cut) = (extents, true);
        }
    }

    /// Bytes of a file that is cut.
    pub fn cut_bytes(&self) -> u64 {
        self.shard_shape[0][..self.axes()].iter().product::<u64>() * u64::from(self.dtype_bytes)
    }

    /// Bytes from the start of a file that is cut to a chunk of it.
    pub fn offset_in_cut(&self, file: u64, chunk: u64) -> u64 {
        let (_, at) = file_and_chunk(self, file, chunk);
        let along =
            |axis: usize| at[axis] * self.chunk_shape[axis] * self.chunk_strides[axis] as u64;
        (0..self.axes()).map(along).sum()
    }

    /// Lays out elements that are as many along each axis, and cuts them into chunks.
    fn cut(&mut self, extents: &[u64; RANK_MAX], most: u64) {
        let (axes, order, bytes) = (self.axes(), self.axis_order[0], u64::from(self.dtype_bytes));
        let (mut stride, mut left) = (bytes, (most / bytes).max(1));
        self.chunk_bytes = bytes;
        for axis in order[..axes].iter().rev().map(|axis| usize::from(*axis)) {
            // Of an array without elements nothing is read, whatever its strides are.
            self.chunk_strides[axis] = i64::try_from(stride).unwrap_or(0);
            stride = stride.saturating_mul(extents[axis].max(1));
            self.chunk_shape[axis] = extents[axis].clamp(1, left);
            left /= self.chunk_shape[axis];
            self.chunk_bytes *= self.chunk_shape[axis];
        }
    }
}
