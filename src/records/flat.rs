//! Arrays that are files of elements as they are, and the uris that say so.
//!
//! In: extents. Out: chunks that nobody wrote as such, parts of a file.

use super::ArrayRecord;

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
        let (axes, order, bytes) = (self.axes(), self.axis_order[0], u64::from(self.dtype_bytes));
        let (mut stride, mut left) = (bytes, (most / bytes).max(1));
        self.chunk_bytes = bytes;
        for axis in order[..axes].iter().rev().map(|axis| usize::from(*axis)) {
            let extent = if axis == 0 { rows } else { self.shape[axis] };
            // Of an array without elements nothing is read, whatever its strides are.
            self.chunk_strides[axis] = i64::try_from(stride).unwrap_or(0);
            stride = stride.saturating_mul(extent.max(1));
            self.chunk_shape[axis] = extent.clamp(1, left);
            left /= self.chunk_shape[axis];
            self.chunk_bytes *= self.chunk_shape[axis];
            self.shard_shape[0][axis] =
                extent.max(1).checked_next_multiple_of(self.chunk_shape[axis]).unwrap_or(extent);
        }
    }
}
