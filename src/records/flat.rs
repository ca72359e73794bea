//! Arrays that are files of elements as they are, and what uris have before and after a path.
//!
//! In: extents. Out: chunks that nobody wrote as such, parts of a file.

use super::ArrayRecord;
use crate::base::text::scheme;

/// What stands before the name of an array that the host describes.
pub const HOOK_PREFIX: &str = "hook:";

/// What stands before the path of a raw file in its uri.
pub const RAW_PREFIX: &str = "raw:";

/// The path in the uri of a flat array: of a raw file what stands before its last question mark, of
/// a field what stands before its mark.
pub fn flat_path(uri: &str) -> &str {
    let Some(rest) = uri.strip_prefix(RAW_PREFIX) else {
        return npy_field(uri).map_or(uri, |(path, _)| path);
    };
    rest.rsplit_once('?').map_or(rest, |(path, _)| path)
}

/// Most bytes of a structured element that has a field which is read.
pub const STRUCT_BYTES_MAX: u64 = u16::MAX as u64;

/// What stands before the name of a field in the uri of an array of structured elements.
pub const FIELD_MARK: &str = "?field=";

/// The last place of [`FIELD_MARK`] in a uri. A name of a field may have a question mark.
pub fn field_place(uri: &str) -> Option<usize> {
    let is_mark = |place: &usize| uri.get(*place..).is_some_and(|end| end.starts_with(FIELD_MARK));
    uri.rmatch_indices('?').map(|(place, _)| place).find(is_mark)
}

/// Splits a uri that names a field of structured elements: the uri of the array, and the name.
pub fn split_field(uri: &str) -> Option<(&str, &str)> {
    let (array, mark) = uri.split_at_checked(field_place(uri)?)?;
    let field = mark.strip_prefix(FIELD_MARK)?;
    let is_other = [RAW_PREFIX, HOOK_PREFIX].iter().any(|prefix| uri.starts_with(prefix));
    let array = array.trim_end_matches('/');
    (!array.is_empty() && !is_other).then_some((array, field))
}

/// Whether a uri ends as names of .npy files do.
pub fn is_npy(uri: &str) -> bool {
    let ending = uri.get(uri.len().saturating_sub(4)..).unwrap_or("");
    ending.eq_ignore_ascii_case(".npy")
}

/// Splits a uri that names a field of a .npy file. One that ends as a file does is that of a file.
pub fn npy_field(uri: &str) -> Option<(&str, &str)> {
    split_field(uri).filter(|(path, _)| is_npy(path) && !is_npy(uri))
}

/// The end of the uri of an array whose elements are decoded by the CF conventions.
pub const CF_MARK: &str = "#cf=1";

/// The uri of an array before [`CF_MARK`]; None of one without it.
pub fn split_cf(uri: &str) -> Option<&str> {
    let given = uri.strip_suffix(CF_MARK)?;
    let array = given.trim_end_matches('/');
    // A scheme alone names no array.
    let is_root = array.len() < given.len() && array.eq_ignore_ascii_case("file:");
    let is_named = scheme(given).is_none_or(|name| array.len() > name.len() + 1) && !is_root;
    (!array.is_empty() && is_named && !uri.starts_with(HOOK_PREFIX)).then_some(array)
}

/// The path of an array of zarr at `uri`.
pub fn array_path(uri: &str) -> &str {
    let uri = split_cf(uri).unwrap_or(uri);
    split_field(uri).map_or(uri, |(path, _)| path)
}

impl ArrayRecord {
    /// Bytes that the file of a flat array has at least.
    pub fn flat_bytes(&self) -> u64 {
        let axes = 0..self.axes();
        if axes.clone().any(|axis| self.shape[axis] == 0) {
            return self.flat.unwrap_or(0);
        }
        let last = self.offset_of(&self.by_axis(&self.shape, |axis| self.shape[axis] - 1));
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mark_of_cf_stands_last() {
        for (uri, path) in [("/a#cf=1", "/a"), ("/a/?field=b#cf=1", "/a"), ("/a#/#cf=1", "/a#")] {
            assert_eq!((split_cf(uri).is_some(), array_path(uri)), (true, path));
        }
        let of_schemes = ["my://#cf=1", "file:///#cf=1", "file:/#cf=1", "FILE:/#cf=1"];
        let others = ["/a#cf=1/", "/a#cf=0", "#cf=1", "/#cf=1", "hook:a#cf=1", "/a"];
        for uri in of_schemes.into_iter().chain(others) {
            assert_eq!((split_cf(uri), array_path(uri)), (None, uri));
        }
        assert_eq!(split_cf("a:#cf=1"), Some("a:"));
    }

    #[test]
    fn a_field_begins_at_the_last_mark() {
        assert_eq!(split_field("/a?field=b"), Some(("/a", "b")));
        assert_eq!(split_field("/a/?field=what?"), Some(("/a", "what?")));
        assert_eq!(flat_path("/a.npy?field=b"), "/a.npy");
        assert_eq!(flat_path("/a.npy?field=b.npy"), "/a.npy?field=b.npy");
        assert_eq!(split_field("/a?field=b?field=c"), Some(("/a?field=b", "c")));
        for uri in ["/a?fields=b", "?field=b", "raw:/a?field=b", "hook:a?field=b", "/a"] {
            assert_eq!((split_field(uri), array_path(uri)), (None, uri));
        }
    }
}
