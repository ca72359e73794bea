//! The version of a file: what tells two states of it apart without reading it.

/// A file has a device, an inode, a size and a time of change of the contents. An object of a files
/// hook has its size alone. The time of change of the inode (ctime) does not
/// belong to it: a hard link, chmod and a rename change that time, and no byte.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Version {
    /// Device that the file lies on; 0 of an object.
    pub device: u64,
    /// Number of the file on its device; 0 of an object.
    pub inode: u64,
    /// Size in bytes.
    pub bytes: u64,
    /// Time of the last change of the contents in nanoseconds; 0 of an object. It wraps in 2262,
    /// and is only compared.
    pub modified_ns: i64,
}

impl Version {
    /// The version of a thing that has none.
    pub const NONE: Version = Version { device: 0, inode: 0, bytes: 0, modified_ns: 0 };
}
