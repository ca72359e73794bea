//! The table of fields that a config points to.
//!
//! In: an address, and what its maker says of it. Out: copies of its rows. Invariant: nothing is
//! read past the rows that the table states.

use crate::base::abi::{Blank, FieldSpec};
use crate::base::limits::FIELDS_MAX;
use crate::base::status::{Status, Why};
use crate::fail;
use crate::setup::config::range;
use core::ptr;

/// A table of fields as a config has it: read while a call has the config, and not after.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FieldTable {
    fields: *const FieldSpec,
    n_fields: u32,
    field_bytes: u32,
}

impl Blank for FieldTable {
    const BLANK: FieldTable = FieldTable::NONE;
}

impl FieldTable {
    /// No table: one field, of the config's own members.
    pub const NONE: FieldTable = FieldTable { fields: ptr::null(), n_fields: 0, field_bytes: 0 };

    /// Its parts as the header has them, and where each lies.
    #[doc(hidden)]
    pub const FIELDS: &'static [(&'static str, usize)] = &[
        ("fields", core::mem::offset_of!(FieldTable, fields)),
        ("n_fields", core::mem::offset_of!(FieldTable, n_fields)),
        ("field_bytes", core::mem::offset_of!(FieldTable, field_bytes)),
    ];

    /// A table that lives as long as the process.
    pub const fn from_static(fields: &'static [FieldSpec]) -> FieldTable {
        FieldTable {
            fields: fields.as_ptr(),
            n_fields: fields.len() as u32,
            field_bytes: size_of::<FieldSpec>() as u32,
        }
    }

    /// A table that is there as long as the config is used.
    pub(crate) fn over(fields: &[FieldSpec]) -> FieldTable {
        FieldTable {
            fields: fields.as_ptr(),
            n_fields: fields.len() as u32,
            field_bytes: size_of::<FieldSpec>() as u32,
        }
    }

    /// Number of fields; 0: one, of the config's own members.
    pub fn len(&self) -> u32 {
        self.n_fields
    }

    /// Whether there is no table.
    pub fn is_empty(&self) -> bool {
        self.n_fields == 0
    }

    /// Calls `each` with every field, up to the first that is refused.
    pub(super) fn read(
        &self,
        why: &mut Why,
        mut each: impl FnMut(&FieldSpec, &mut Why) -> Result<(), Status>,
    ) -> Result<(), Status> {
        let (count, bytes) = (self.n_fields, self.field_bytes as usize);
        range(why, "n_fields", count.into(), (0, FIELDS_MAX.into()))?;
        if count > 0 && self.fields.is_null() {
            return Err(fail!(why, Invalid, "n_fields = {count}, but fields is NULL"));
        }
        let known = size_of::<FieldSpec>();
        // The first version of the struct; later ones are longer.
        let is_size = (known..=1 << 16).contains(&bytes) && bytes.is_multiple_of(8);
        if count > 0 && !is_size {
            return Err(fail!(
                why,
                Invalid,
                "field_bytes = {bytes}: must be sizeof(wavetrain_field), {known}"
            ));
        }
        for number in 0..count as usize {
            let mut spec = FieldSpec::BLANK;
            let newer = (known..bytes).find(|offset| {
                // SAFETY: the table has `count` structs of `bytes` bytes each, as its makers say.
                unsafe { self.fields.cast::<u8>().add(number * bytes + offset).read() != 0 }
            });
            if let Some(offset) = newer {
                return Err(fail!(
                    why,
                    Invalid,
                    "field_bytes = {bytes}: this version knows {known} bytes, and byte {offset} \
                     of field {number} asks for something newer"
                ));
            }
            // SAFETY: the same; of a struct of numbers any bytes are a value.
            unsafe {
                let source = self.fields.cast::<u8>().add(number * bytes);
                ptr::copy_nonoverlapping(source, (&raw mut spec).cast(), known);
            }
            each(&spec, why)?;
        }
        Ok(())
    }
}
