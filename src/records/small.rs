//! Element types of fewer bits than any of [`Dtype`].
//!
//! In: a name of zarr. Out: the type that holds every one of its values, which is that of the
//! array. Invariant: a filter of the chunk ([`Packed`]) makes elements of that type of them, and
//! nothing after it differs.

use super::Dtype;

macro_rules! smalls {
    ($($(#[$doc:meta])* $small:ident = $name:literal, $bits:literal, $dtype:ident;)+) => {
        /// An element type of fewer bits.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Small { $($(#[$doc])* $small,)+ }

        /// All of them.
        pub const SMALLS: [Small; 7] = [$(Small::$small),+];

        impl Small {
            /// The name in zarr.
            pub const fn name(self) -> &'static str {
                match self { $(Small::$small => $name,)+ }
            }

            /// Bits of an element.
            pub const fn bits(self) -> u32 {
                match self { $(Small::$small => $bits,)+ }
            }

            /// The type that its elements become.
            pub const fn dtype(self) -> Dtype {
                match self { $(Small::$small => Dtype::$dtype,)+ }
            }
        }
    };
}

// Name, bits, and the type that has all of its values.
smalls! {
    /// A truth value, which is small if it is packed alone.
    Bit = "bool", 1, Bool;
    /// Signed, of two bits.
    I2 = "int2", 2, I8;
    /// Unsigned, of two bits.
    U2 = "uint2", 2, U8;
    /// Signed, of four bits.
    I4 = "int4", 4, I8;
    /// Unsigned, of four bits.
    U4 = "uint4", 4, U8;
    /// Four bits of exponent, three of fraction, no infinity.
    F8E4m3fn = "float8_e4m3fn", 8, F16;
    /// Five bits of exponent, two of fraction.
    F8E5m2 = "float8_e5m2", 8, F16;
}

impl Small {
    /// The type of an array that has this name in zarr.
    pub fn from_name(name: &str) -> Option<Small> {
        SMALLS.into_iter().find(|small| *small != Small::Bit && small.name() == name)
    }

    /// Whether the codec packbits is specified for it.
    pub fn can_be_packed(self) -> bool {
        self.bits() < 8
    }
}

/// How the elements of such a type lie in the bytes of a chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Packed {
    /// Their type.
    pub small: Small,
    /// None: a byte for each element, whose other bits mean nothing. Else: side by side, the first
    /// in the lowest bits.
    pub padding: Option<Padding>,
}

/// The place of the number of bits at the end that are none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Padding {
    /// Nowhere.
    Absent,
    /// In a byte before the others.
    First,
    /// In a byte after them.
    Last,
}

impl Packed {
    /// Bytes that it makes of `bytes` bytes of elements of the array; None if these are not whole.
    pub fn encoded_bytes(self, bytes: u64) -> Option<u64> {
        let element_bytes = u64::from(self.small.dtype().bytes());
        let count = bytes / element_bytes;
        // The number of bits may not fit a word.
        let packed = count.div_ceil(u64::from(8 / self.small.bits()));
        bytes.is_multiple_of(element_bytes).then_some(match self.padding {
            None => count,
            Some(Padding::Absent) => packed,
            Some(Padding::First | Padding::Last) => packed + 1,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_elements_end_with_a_whole_byte() {
        let bytes = |small, padding, bytes| Packed { small, padding }.encoded_bytes(bytes);
        assert_eq!(bytes(Small::I2, None, 5), Some(5));
        assert_eq!(bytes(Small::F8E5m2, None, 10), Some(5));
        assert_eq!(bytes(Small::F8E5m2, None, 9), None);
        assert_eq!(bytes(Small::I2, Some(Padding::Absent), 5), Some(2));
        assert_eq!(bytes(Small::U4, Some(Padding::Last), 5), Some(4));
        assert_eq!(bytes(Small::Bit, Some(Padding::First), 8), Some(2));
        assert_eq!(bytes(Small::U2, Some(Padding::Absent), u64::MAX), Some(1 << 62));
    }

    #[test]
    fn truth_values_are_an_array_type_of_their_own() {
        assert_eq!(Small::from_name("bool"), None);
        assert_eq!(Small::from_name("int4"), Some(Small::I4));
        assert_eq!(Small::from_name("float8"), None);
    }
}
