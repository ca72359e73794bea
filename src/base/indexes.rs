//! Numbers of places in tables that meet in one function: a type for each, so that the compiler
//! refuses one where another belongs.

macro_rules! index_types {
    ($($(#[$doc:meta])* $name:ident)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
        pub struct $name(pub u32);

        impl $name {
            /// The place in its table.
            pub const fn at(self) -> usize {
                self.0 as usize
            }
        }
    )*};
}

index_types! {
    /// A batch slot.
    BatchSlot
    /// A wave.
    WaveIndex
    /// An array's metadata.
    ArraySlot
    /// A file's record.
    FileSlot
}

/// What is planned and read beside each other: neither waits for the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lane {
    /// The samples that are pushed, in order.
    Samples,
    /// The boxes that callers read into memory of their own.
    Readers,
}

/// How many lanes there are.
pub const LANES: usize = 2;

impl Lane {
    /// Both.
    pub const ALL: [Lane; LANES] = [Lane::Samples, Lane::Readers];
}

impl ArraySlot {
    /// Of what is no array's.
    pub const NONE: ArraySlot = ArraySlot(u32::MAX);
}
