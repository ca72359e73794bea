//! The version of a file: what tells two states of it apart without reading it.

/// A file has a device, an inode, a size and a time of change of the contents. The time of change
/// of the inode (ctime) does not belong to it: a hard link, chmod and a rename change that time,
/// and no byte. An object of a files hook has a size, and the 32 bytes that the host tells of its
/// version (`store.read_version`) in the place of the others, or zeros.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Version {
    /// Device that the file lies on.
    pub device: u64,
    /// Number of the file on its device.
    pub inode: u64,
    /// Size in bytes.
    pub bytes: u64,
    /// Time of the last change of the contents in nanoseconds. It wraps in 2262, and is only
    /// compared.
    pub modified_ns: i64,
    /// Last bytes of what a host tells of an object; 0 of a file.
    pub tag: u64,
}

/// Bytes that a host tells of the version of an object.
pub const TOLD_BYTES: usize = 32;

/// A tick of the kernel's clock has 10 ms at most. Both times are of ticks.
const SETTLING_NS: u64 = 10_000_000;

impl Version {
    /// The version of a thing that has none.
    pub const NONE: Version = Version { device: 0, inode: 0, bytes: 0, modified_ns: 0, tag: 0 };

    /// The version of an object of `bytes` bytes, of which a host tells this.
    pub fn of_object(bytes: u64, told: &[u8; TOLD_BYTES]) -> Version {
        let [device, inode, modified, tag] = [0, 8, 16, 24].map(|at| {
            let mut word = [0; 8];
            word.copy_from_slice(&told[at..at + 8]);
            u64::from_ne_bytes(word)
        });
        Version { device, inode, bytes, modified_ns: modified as i64, tag }
    }

    /// The bytes that the host told of an object; zeros if it told nothing.
    pub fn told(&self) -> [u8; TOLD_BYTES] {
        let words = [self.device, self.inode, self.modified_ns as u64, self.tag];
        let mut told = [0; TOLD_BYTES];
        let places = told.as_chunks_mut::<8>().0.iter_mut();
        places.zip(words).for_each(|(place, word)| *place = word.to_ne_bytes());
        told
    }

    /// Whether every change that begins at `now_ns` or later gives another version. A file system
    /// takes the time of change from a clock of coarse ticks, and before it copies the bytes. So
    /// two changes shortly after each other may leave one version, and contents that are read then
    /// are of one batch alone. `now_ns`: the time of day, before they are read.
    pub fn is_settled(&self, now_ns: i64) -> bool {
        // Whole seconds are what some file systems have for ticks; some of them have two.
        let is_coarse = self.modified_ns % 1_000_000_000 == 0;
        let window_ns = if is_coarse { 2_000_000_000 } else { SETTLING_NS };
        // A time far ahead comes from another machine's clock, or is invented.
        self.modified_ns == 0 || now_ns.wrapping_sub(self.modified_ns).unsigned_abs() > window_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000_000;

    fn is_settled(modified_ns: i64, now_ns: i64) -> bool {
        Version { modified_ns, ..Version::NONE }.is_settled(now_ns)
    }

    #[test]
    fn an_object_has_the_bytes_that_its_host_tells_and_its_size() {
        let told = core::array::from_fn(|at| at as u8 + 200);
        let version = Version::of_object(7, &told);
        assert_eq!((version.told(), version.bytes), (told, 7));
        for at in 0..TOLD_BYTES {
            let mut other = told;
            other[at] ^= 1;
            assert_ne!(Version::of_object(7, &other), version);
        }
        assert_ne!(Version::of_object(8, &told), version);
        assert_eq!(Version::of_object(0, &[0; TOLD_BYTES]), Version::NONE);
    }

    #[test]
    fn a_change_is_settled_once_its_clock_has_ticked() {
        let modified = 1_800_000_000 * SECOND + 1;
        assert!(!is_settled(modified, modified));
        assert!(!is_settled(modified, modified + 10_000_000));
        assert!(is_settled(modified, modified + 10_000_001));
        assert!(!is_settled(modified, modified - 10_000_000));
        assert!(is_settled(modified, modified - 10_000_001));
    }

    #[test]
    fn whole_seconds_take_two_to_settle() {
        let modified = 1_800_000_000 * SECOND;
        assert!(!is_settled(modified, modified + 2 * SECOND));
        assert!(is_settled(modified, modified + 2 * SECOND + 1));
        assert!(!is_settled(modified, modified - 2 * SECOND));
        assert!(is_settled(modified, modified - 2 * SECOND - 1));
    }

    #[test]
    fn what_has_no_time_is_settled_and_no_time_overflows() {
        assert!(is_settled(0, 0));
        assert!(is_settled(i64::MIN, i64::MAX - SECOND / 2));
        assert!(is_settled(i64::MAX, i64::MIN / 2));
    }
}
