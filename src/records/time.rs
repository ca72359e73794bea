//! Times of numpy: int64 words that count units.
//!
//! In: a unit and how many of it a word counts. Out: its name. Invariant: a time changes nothing on
//! the data path; a record has it so that it can be named, and is not taken for a number.

use crate::base::text::part_of;
use core::fmt;

/// The units of numpy, years to attoseconds; without one, "generic" alone.
pub const TIME_UNITS: &str = "generic Y M W D h m s ms us ns ps fs as \u{3bc}s";

/// A type of times.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Time {
    /// timedelta64 instead of datetime64.
    pub is_delta: bool,
    /// Its place in [`TIME_UNITS`].
    pub unit: u8,
    /// Units of a step, at least 1.
    pub scale: u32,
}

impl Time {
    /// Not a time, in every unit.
    pub const NONE: i64 = i64::MIN;
}

/// "[ns]", "[25s]"; nothing for a generic unit.
impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = part_of(TIME_UNITS, ' ', usize::from(self.unit));
        match (self.unit, self.scale) {
            (0, _) => Ok(()),
            (_, 1) => write!(f, "[{unit}]"),
            (_, scale) => write!(f, "[{scale}{unit}]"),
        }
    }
}
