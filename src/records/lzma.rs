//! LZMA data: its container, and the filters that metadata or a header list.
//!
//! In: what metadata says. Out: plain records. Invariant: they are what liblzma takes.

/// The container of LZMA data, by the number `format` of metadata.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lzma {
    /// 1: .xz streams.
    Xz,
    /// 2: the older .lzma.
    Alone,
    /// 3: none, so that metadata lists the filters.
    Raw(LzmaChain),
}

/// Filters that the last of compresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LzmaChain {
    /// The distances of filters `delta` in the order of encoding, 1 to 256; 0: no more of them.
    pub deltas: [u16; LzmaChain::DELTAS_MAX],
    /// The largest distance of a match, before it is rounded.
    pub dictionary_bytes: u32,
    /// Those of LZMA; None: LZMA2, whose data has them.
    pub properties: Option<LzmaProperties>,
}

impl LzmaChain {
    /// liblzma takes four filters.
    pub const DELTAS_MAX: usize = 3;
}

/// The most bits of the context of literals, for the sum of `lc` and `lp`.
pub const LZMA_CONTEXT_BITS_MAX: u8 = 4;

/// The bits of the contexts of LZMA.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LzmaProperties {
    /// Highest bits of the last byte, for literals.
    pub lc: u8,
    /// Lowest bits of the position, for literals.
    pub lp: u8,
    /// Lowest bits of the position, for the rest.
    pub pb: u8,
}

impl LzmaProperties {
    /// Those of a preset.
    pub const DEFAULT: LzmaProperties = LzmaProperties { lc: 3, lp: 0, pb: 2 };

    /// None if liblzma refuses them.
    pub fn of_byte(byte: u8) -> Option<LzmaProperties> {
        LzmaProperties::new(byte % 9, byte / 9 % 5, byte / 45)
    }

    /// Likewise.
    pub fn new(lc: u8, lp: u8, pb: u8) -> Option<LzmaProperties> {
        let bits = LZMA_CONTEXT_BITS_MAX;
        let is_read = lc <= bits && lp <= bits - lc && pb <= bits;
        is_read.then_some(LzmaProperties { lc, lp, pb })
    }
}
