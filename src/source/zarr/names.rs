//! Words that both formats have: names of element types, and numbers in them.

use crate::records::{DTYPES, Dtype};

/// The element type of this name among `names`; none of raw bytes, whose names carry their size.
pub(super) fn dtype_of(name: &str, names: fn(Dtype) -> &'static str) -> Option<Dtype> {
    DTYPES.into_iter().find(|dtype| *dtype != Dtype::Raw && names(*dtype) == name)
}

/// The number that digits spell; parse alone would also take a sign, and zeros in front.
pub(super) fn number_of(digits: &str) -> Option<u32> {
    digits.parse().ok().filter(|_| digits.starts_with(|first| ('1'..='9').contains(&first)))
}
