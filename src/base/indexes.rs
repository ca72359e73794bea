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

impl ArraySlot {
    /// Of what is no array's.
    pub const NONE: ArraySlot = ArraySlot(u32::MAX);
}
