//! Element types, of arrays and of batches.
//!
//! In: a number of the C ABI. Out: a type, its size, its words and its short name. Invariant: the
//! numbers are the ABI and never change.

macro_rules! dtypes {
    ($(
        $(#[$doc:meta])*
        $dtype:ident = $code:literal, $bytes:literal, $name:literal, $v3:literal, $v2:literal;
    )+) => {
        /// An element type, of an array or of a batch. The numbers are the C ABI (`WAVETRAIN_F32`
        /// ..).
        #[repr(u32)]
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Dtype { $($(#[$doc])* $dtype = $code,)+ }

        /// All element types, in the order of their numbers.
        pub const DTYPES: [Dtype; 16] = [$(Dtype::$dtype),+];

        impl Dtype {
            /// Bytes of one element; 0 for `Raw`, whose size is a field beside it.
            pub const fn bytes(self) -> u32 {
                match self { $(Dtype::$dtype => $bytes,)+ }
            }

            /// The short name that the command line and texts use: "u16".
            pub fn name(self) -> &'static str {
                match self { $(Dtype::$dtype => $name,)+ }
            }

            /// The name in zarr v3.
            pub fn zarr3_name(self) -> &'static str {
                match self { $(Dtype::$dtype => $v3,)+ }
            }

            /// The name in zarr v2, after the byte order.
            pub fn zarr2_name(self) -> &'static str {
                match self { $(Dtype::$dtype => $v2,)+ }
            }
        }
    };
}

// Number, bytes of an element, short name, and the names in zarr v3 and v2 ("bfloat16" in v2 is a
// name that tensorstore writes, and little). Those of raw bytes stand for all sizes.
dtypes! {
    /// IEEE binary32.
    F32 = 1, 4, "f32", "float32", "f4";
    /// bfloat16.
    Bf16 = 2, 2, "bf16", "bfloat16", "bfloat16";
    /// IEEE binary16.
    F16 = 3, 2, "f16", "float16", "f2";
    /// Signed 32 bit.
    I32 = 4, 4, "i32", "int32", "i4";
    /// Signed 64 bit.
    I64 = 5, 8, "i64", "int64", "i8";
    /// Unsigned 8 bit.
    U8 = 6, 1, "u8", "uint8", "u1";
    /// Signed 8 bit.
    I8 = 7, 1, "i8", "int8", "i1";
    /// Unsigned 16 bit.
    U16 = 8, 2, "u16", "uint16", "u2";
    /// Signed 16 bit.
    I16 = 9, 2, "i16", "int16", "i2";
    /// Unsigned 32 bit.
    U32 = 10, 4, "u32", "uint32", "u4";
    /// Unsigned 64 bit.
    U64 = 11, 8, "u64", "uint64", "u8";
    /// IEEE binary64.
    F64 = 12, 8, "f64", "float64", "f8";
    /// One byte, 0 or 1.
    Bool = 13, 1, "bool", "bool", "b1";
    /// Two binary32: real, imaginary.
    C64 = 14, 8, "c64", "complex64", "c8";
    /// Two binary64: real, imaginary.
    C128 = 15, 16, "c128", "complex128", "c16";
    /// Bytes without a meaning, `dtype_bytes` of them per element.
    Raw = 16, 0, "raw", "r*", "V*";
}

impl Dtype {
    /// The type with this ABI number.
    pub fn from_code(code: u32) -> Option<Dtype> {
        DTYPES.into_iter().find(|dtype| *dtype as u32 == code)
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dtype_codes_are_their_own_inverse() {
        for dtype in DTYPES {
            assert_eq!(Dtype::from_code(dtype as u32), Some(dtype));
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
