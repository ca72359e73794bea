//! Writers of blosc1 chunks: c-blosc, and one of our own for what c-blosc never writes: blocks of
//! any size, zstd whose blocks are split.

use std::ffi::CStr;

/// Filters of blosc.
pub const NONE: u8 = 0;
pub const BYTES: u8 = 1;
pub const BITS: u8 = 2;

/// How a blosc chunk is made.
#[derive(Clone, Copy)]
pub struct Blosc {
    pub shuffle: u8,
    /// Bytes of an element as the filter sees it.
    pub typesize: usize,
    pub block_bytes: usize,
    /// Whole blocks are cut into as many streams as an element has bytes, if blosc would.
    pub is_split: bool,
}

/// blosc's filters as its format says, bit by bit.
pub fn filtered(shuffle: u8, typesize: usize, block: &[u8]) -> Vec<u8> {
    let count = block.len() / typesize;
    let mut out = block.to_vec();
    if shuffle == NONE || shuffle == BITS && !count.is_multiple_of(8) {
        return out;
    }
    out[..count * typesize].fill(0);
    for (at, value) in block[..count * typesize].iter().enumerate() {
        let (element, byte) = (at / typesize, at % typesize);
        if shuffle == BYTES {
            out[byte * count + element] = *value;
            continue;
        }
        for bit in 0..8 {
            let row = (8 * byte + bit) * (count / 8);
            out[row + element / 8] |= (value >> bit & 1) << (element % 8);
        }
    }
    out
}

fn flag_of(shuffle: u8) -> u8 {
    [0, 1, 4][usize::from(shuffle)]
}

fn blosc_header(flags: u8, typesize: usize, words: [usize; 3]) -> Vec<u8> {
    let mut chunk = vec![2, 1, flags, typesize as u8];
    words.into_iter().for_each(|word| chunk.extend((word as u32).to_le_bytes()));
    chunk
}

/// A chunk of zstd streams, every third stored, its blocks in reverse order.
pub fn by_us(bytes: &[u8], how: Blosc) -> Vec<u8> {
    let Blosc { shuffle, typesize, block_bytes, is_split } = how;
    let splits = is_split
        && typesize <= 16
        && block_bytes / typesize >= 128
        && block_bytes.is_multiple_of(typesize);
    let first = 16 + 4 * bytes.len().div_ceil(block_bytes);
    let (mut starts, mut body) = (Vec::new(), Vec::new());
    for block in bytes.chunks(block_bytes).rev() {
        starts.push((first + body.len()) as u32);
        let is_whole = block.len() == block_bytes;
        let streams = if splits && is_whole { typesize } else { 1 };
        let filtered = filtered(shuffle, typesize, block);
        for (number, stream) in filtered.chunks(block.len() / streams).enumerate() {
            let frame = zstd::bulk::compress(stream, 1).unwrap();
            let is_stored = number % 3 == 2 || frame.len() >= stream.len();
            let coded = if is_stored { stream } else { &frame };
            body.extend((coded.len() as i32).to_le_bytes());
            body.extend(coded);
        }
    }
    let flags = 4 << 5 | flag_of(shuffle) | if splits { 0 } else { 0x10 };
    let mut chunk = blosc_header(flags, typesize, [bytes.len(), block_bytes, first + body.len()]);
    chunk.extend(starts.iter().rev().flat_map(|start| start.to_le_bytes()));
    chunk.extend(body);
    chunk
}

/// A chunk that blosc copied, which still names a filter.
pub fn copied(bytes: &[u8], shuffle: u8) -> Vec<u8> {
    let flags = 1 << 5 | 2 | flag_of(shuffle);
    let mut chunk = blosc_header(flags, 2, [bytes.len(), bytes.len(), bytes.len() + 16]);
    chunk.extend(bytes);
    chunk
}

/// By c-blosc, which may choose another block size; what does not shrink is copied.
pub fn by_c_blosc(bytes: &[u8], how: Blosc, name: &CStr) -> Vec<u8> {
    let mut chunk = vec![0; bytes.len() + 16];
    // SAFETY: both buffers are live and as long as the call is told; the name has a NUL.
    let count = unsafe {
        blosc_src::blosc_compress_ctx(
            5,
            how.shuffle.into(),
            how.typesize,
            bytes.len(),
            bytes.as_ptr().cast(),
            chunk.as_mut_ptr().cast(),
            chunk.len(),
            name.as_ptr(),
            how.block_bytes,
            1,
        )
    };
    chunk.truncate(usize::try_from(count).expect("a chunk"));
    chunk
}
