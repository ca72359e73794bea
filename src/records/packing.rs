//! The packing of an array's elements, which its attributes describe beyond the array's own type.
//!
//! It changes nothing of what a loader delivers, unless a uri asks for the numbers: `#cf=1`.

use crate::base::abi::{PACKING_FILL, PACKING_OFFSET, PACKING_SCALE, PACKING_UNSIGNED};

/// The attributes of the CF conventions that xarray packs by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Packing {
    /// PACKING_ bits of those that there are.
    pub bits: u32,
    /// The bits among them that give elements another meaning: a scale of 1 and a NaN that marks
    /// holes do not. None if they are applied.
    pub changes: u32,
}

impl Packing {
    /// No such attributes.
    pub const NONE: Packing = Packing { bits: 0, changes: 0 };

    /// The attributes that these bits stand for, in the order of the bits.
    pub fn names(bits: u32) -> impl Iterator<Item = &'static str> {
        let names = [
            (PACKING_SCALE, "scale_factor"),
            (PACKING_OFFSET, "add_offset"),
            (PACKING_FILL, "_FillValue"),
            (PACKING_UNSIGNED, "_Unsigned"),
        ];
        names.into_iter().filter(move |(bit, _)| bits & bit != 0).map(|(_, name)| name)
    }
}
