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

/// A tick of the kernel's clock has 10 ms at most. Both times are of ticks.
const SETTLING_NS: u64 = 10_000_000;

impl Version {
    /// The version of a thing that has none.
    pub const NONE: Version = Version { device: 0, inode: 0, bytes: 0, modified_ns: 0 };

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
