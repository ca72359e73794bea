//! The changes of values: what `scale_offset` and `cast_value` of zarr-extensions say, and what
//! attributes of the CF conventions do.
//!
//! In: their parameters. Out: what undoing them takes. Invariant: a value here is a word, as loops
//! have them: integers as two's complement, floats as the f64 that they are.

use super::codec::{Codec, Filter, Types};
use super::grid::{AxisGrid, EdgeRun};
use super::{ArrayRecord, Dtype};

/// `decoded = encoded / scale + offset`, in the type of both.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Scaling {
    /// A word that is not zero, and finite.
    pub scale: u64,
    /// A word that is finite.
    pub offset: u64,
}

/// A change of the type of values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cast {
    /// Integers, and floats of 16, 32 and 64 bits.
    pub types: Types,
    /// The neighbour that a value becomes which the type does not have.
    pub rounding: Rounding,
    /// The fate of values that the type is too small for.
    pub beyond: Beyond,
    /// The place of its first pair among those of the array.
    pub first_pair: u16,
    /// How many pairs it has, at most CAST_PAIRS_MAX.
    pub pairs: u16,
}

/// The decoding of the CF conventions: NaN of what is missing, else `encoded * scale + offset`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Cf {
    /// To f64, of the type that elements are meant to have: `_Unsigned` may turn it over.
    pub types: Types,
    /// Finite, and not 0.
    pub scale: f64,
    /// Finite; -0.0 changes nothing.
    pub offset: f64,
    /// The place of its first row among those of the array: the least and the largest value that is
    /// not missing. Each row after it has a value that is, twice.
    pub first_row: u16,
    /// How many rows it has.
    pub rows: u16,
}

/// How a value is rounded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rounding {
    /// To the nearest, of two to the even one.
    NearestEven,
    /// To the next one on the way to zero.
    Zero,
    /// Up.
    Positive,
    /// Down.
    Negative,
    /// To the nearest, of two to the one away from zero.
    NearestAway,
}

/// The names of zarr-extensions, in that order.
pub const ROUNDING_NAMES: &str =
    "nearest-even towards-zero towards-positive towards-negative nearest-away";

/// All of them, in that order.
pub const ROUNDINGS: [Rounding; 5] = [
    Rounding::NearestEven,
    Rounding::Zero,
    Rounding::Positive,
    Rounding::Negative,
    Rounding::NearestAway,
];

/// The fate of a value that a type is too small for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Beyond {
    /// The chunk is refused.
    Error,
    /// It is the least or the largest value; an infinity of floats.
    Clamp,
    /// Its lowest bits.
    Wrap,
}

/// The names of zarr-extensions, in that order.
pub const BEYOND_NAMES: &str = "error clamp wrap";

/// All of them, in that order.
pub const BEYONDS: [Beyond; 3] = [Beyond::Error, Beyond::Clamp, Beyond::Wrap];

/// A value that a cast maps to another one, whatever its other rules are. It lies in a row of the
/// table of runs, which follows those of the grid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pair {
    /// A word of the encoded type.
    pub encoded: u64,
    /// A word of the decoded type.
    pub decoded: u64,
}

impl Pair {
    /// The pair in a row.
    pub const fn of_row(row: EdgeRun) -> Pair {
        Pair { encoded: row.limit, decoded: row.cell_limit }
    }

    /// The row that it lies in.
    pub const fn row(self) -> EdgeRun {
        EdgeRun { limit: self.encoded, cell_limit: self.decoded }
    }
}

impl ArrayRecord {
    /// Takes the runs that `file_grid` counts from, and the pairs of casts, out of `table`, which
    /// nobody changes while the record is used. Before that a rectilinear record answers no
    /// question about single files, and no chunk with pairs is decoded.
    pub fn bind_rows(&mut self, table: &'static [EdgeRun]) {
        let (runs, rest) = table.split_at(self.runs_used() as usize);
        (self.edges, self.pairs) = (runs, &rest[..self.pairs_used() as usize]);
    }

    /// The same of a record that no runs are bound to: `edges` are those that it counts from.
    #[inline]
    pub fn of_file_in<'a>(
        &'a self,
        edges: &[EdgeRun],
        file: u64,
        own: &'a mut Option<ArrayRecord>,
    ) -> &'a ArrayRecord {
        if edges.is_empty() { self } else { own.insert(self.with_extents_of(edges, file)) }
    }

    /// Runs that the grid has.
    pub fn runs_used(&self) -> u32 {
        let used = self.file_grid[..self.axes()].iter().map(|grid| match grid {
            AxisGrid::Regular => 0,
            AxisGrid::Edges { first, count, .. } => first + count,
        });
        used.max().unwrap_or(0)
    }

    /// Rows of a table that both take.
    pub fn rows_used(&self) -> u32 {
        self.runs_used() + self.pairs_used()
    }

    /// Rows that casts and CF have.
    pub fn pairs_used(&self) -> u32 {
        let used = self.codecs.iter().map(|codec| match codec {
            Codec::Filter(Filter::Cast(cast)) => u32::from(cast.pairs),
            Codec::Filter(Filter::Cf(cf)) => u32::from(cf.rows),
            _ => 0,
        });
        used.sum::<u32>() + self.cf.map_or(0, |cf| u32::from(cf.rows))
    }

    /// The rows of CF.
    pub fn rows_of(&self, cf: &Cf) -> &'static [EdgeRun] {
        let first = usize::from(cf.first_row);
        &self.pairs[first..first + usize::from(cf.rows)]
    }

    /// The type and the bytes of the numbers that elements are delivered as, or cast from.
    pub fn number_type(&self) -> (Dtype, u32) {
        match self.cf {
            Some(_) => (Dtype::F64, Dtype::F64.bytes()),
            None => (self.dtype, self.dtype_bytes),
        }
    }
}
