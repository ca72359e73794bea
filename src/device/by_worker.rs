//! Why a worker decodes a chunk that a device might, and what a device is spared.

/// Why a worker decodes a chunk on its way to a device: the numbers of the header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ByWorker {
    /// The config says so, or the caps left no room for a device that decodes.
    Off,
    /// No device decodes the codecs of its array, or only if the config insists.
    Codec,
    /// It is cached.
    Kept,
    /// Boxes read less of it than lies in the file.
    Unneeded,
    /// It is one large stream, which a worker decodes sooner.
    Large,
    /// Too many chunks of its array were refused.
    Array,
    /// It is broken before its streams are, or may be.
    Broken,
    /// Its streams are of another codec than metadata says, or frames that libzstd alone decodes.
    OtherCodec,
    /// It has too many streams for its size.
    Streams,
    /// The slab had no room for its streams.
    Room,
    /// The device refused a stream.
    Refused,
}

/// Refusals after which all chunks of an array go to workers.
pub const REFUSALS_MAX: u32 = 8;

/// The largest stream, decoded, that a device is given if a worker may decode it, too: a warp
/// decodes it alone, and the whole wave waits for the last.
pub const AUTO_STREAM_BYTES: u64 = 256 << 10;
