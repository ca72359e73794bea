//! Element types, of arrays and of batches.
//!
//! In: a number of the C ABI. Out: a type, its size, its words and its short name. Invariant: the
//! numbers are the ABI and never change.

use crate::base::text::part_of;

/// An element type, of an array or of a batch. The numbers are the C ABI (`WAVETRAIN_F32` ..).
#[repr(u32)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dtype {
    /// IEEE binary32.
    F32 = 1,
    /// bfloat16.
    Bf16 = 2,
    /// IEEE binary16.
    F16 = 3,
    /// Signed 32 bit.
    I32 = 4,
    /// Signed 64 bit.
    I64 = 5,
    /// Unsigned 8 bit.
    U8 = 6,
    /// Signed 8 bit.
    I8 = 7,
    /// Unsigned 16 bit.
    U16 = 8,
    /// Signed 16 bit.
    I16 = 9,
    /// Unsigned 32 bit.
    U32 = 10,
    /// Unsigned 64 bit.
    U64 = 11,
    /// IEEE binary64.
    F64 = 12,
    /// One byte, 0 or 1.
    Bool = 13,
    /// Two binary32: real, imaginary.
    C64 = 14,
    /// Two binary64: real, imaginary.
    C128 = 15,
    /// Bytes without a meaning, `dtype_bytes` of them per element.
    Raw = 16,
}

/// All element types.
pub const DTYPES: [Dtype; 16] = [
    Dtype::F32,
    Dtype::Bf16,
    Dtype::F16,
    Dtype::I32,
    Dtype::I64,
    Dtype::U8,
    Dtype::I8,
    Dtype::U16,
    Dtype::I16,
    Dtype::U32,
    Dtype::U64,
    Dtype::F64,
    Dtype::Bool,
    Dtype::C64,
    Dtype::C128,
    Dtype::Raw,
];

impl Dtype {
    /// The type with this ABI number.
    pub fn from_code(code: u32) -> Option<Dtype> {
        DTYPES.into_iter().find(|dtype| *dtype as u32 == code)
    }

    /// Bytes of one element; 0 for `Raw`, whose size is a field beside it.
    pub const fn bytes(self) -> u32 {
        match self {
            Dtype::U8 | Dtype::I8 | Dtype::Bool => 1,
            Dtype::U16 | Dtype::I16 | Dtype::F16 | Dtype::Bf16 => 2,
            Dtype::U32 | Dtype::I32 | Dtype::F32 => 4,
            Dtype::U64 | Dtype::I64 | Dtype::F64 | Dtype::C64 => 8,
            Dtype::C128 => 16,
            Dtype::Raw => 0,
        }
    }

    /// The unit whose bytes a byte order swaps: half of a complex number, else the element.
    pub const fn word_bytes(self) -> u32 {
        match self {
            Dtype::C64 => 4,
            Dtype::C128 => 8,
            Dtype::Raw => 1,
            other => other.bytes(),
        }
    }

    /// The short name that the command line and texts use: "u16".
    pub fn name(self) -> &'static str {
        let names = "f32 bf16 f16 i32 i64 u8 i8 u16 i16 u32 u64 f64 bool c64 c128 raw";
        part_of(names, ' ', self.place())
    }

    /// Its place in [`DTYPES`].
    pub const fn place(self) -> usize {
        self as usize - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dtype_codes_are_their_own_inverse() {
        for dtype in DTYPES {
            assert_eq!(Dtype::from_code(dtype as u32), Some(dtype));
            assert_eq!(DTYPES[dtype.place()], dtype);
        }
        assert_eq!(Dtype::from_code(0), None);
    }

    #[test]
    fn short_names_say_kind_and_bits() {
        for dtype in DTYPES {
            let name = std::format!("{dtype:?}").to_lowercase();
            assert_eq!(dtype.name(), name);
        }
    }
}
