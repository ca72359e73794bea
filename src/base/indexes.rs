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

/// How many waves each lane has, those of samples first, and of what each has how much.
#[derive(Clone, Copy, Debug)]
pub struct WaveCounts {
    pub waves: [u32; LANES],
    /// Chunk tasks of a wave, and so many reads at most.
    pub chunks: [u32; LANES],
    /// Boxes of all its chunk tasks together.
    pub pairs: [u32; LANES],
}

impl WaveCounts {
    /// Waves of all lanes.
    pub fn all(&self) -> u32 {
        self.waves.iter().sum()
    }

    /// The lane of a wave.
    pub fn lane(&self, wave: WaveIndex) -> Lane {
        if wave.0 < self.waves[0] { Lane::Samples } else { Lane::Readers }
    }

    /// Rows of a table that has so many for each wave of a lane.
    pub fn rows(&self, each: [u32; LANES]) -> u64 {
        self.waves.iter().zip(each).map(|(waves, each)| u64::from(*waves) * u64::from(each)).sum()
    }

    /// The first row of a wave in such a table.
    pub fn first(&self, wave: WaveIndex, each: [u32; LANES]) -> usize {
        let (of_samples, wave) = (self.waves[0].min(wave.0), wave.0);
        (of_samples * each[0] + (wave - of_samples) * each[1]) as usize
    }

    /// Row of a chunk task, a read, or a position in their order.
    pub fn row(&self, wave: WaveIndex, position: u32) -> usize {
        self.first(wave, self.chunks) + position as usize
    }

    /// The wave and the position of a row.
    pub fn wave_and_position(&self, row: u32) -> (WaveIndex, u32) {
        let of_samples = self.waves[0] * self.chunks[0];
        match row.checked_sub(of_samples) {
            None => (WaveIndex(row / self.chunks[0]), row % self.chunks[0]),
            Some(row) => (WaveIndex(self.waves[0] + row / self.chunks[1]), row % self.chunks[1]),
        }
    }
}

impl ArraySlot {
    /// Of what is no array's.
    pub const NONE: ArraySlot = ArraySlot(u32::MAX);
}
