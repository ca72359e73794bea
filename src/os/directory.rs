//! The names in a directory, without the C library's opendir, which allocates.
//!
//! In: a descriptor and a buffer. Out: entries as the kernel lays them out, and [`Entries`], which
//! walks over them. Invariant: an entry that does not lie inside the buffer ends the walk, so bytes
//! of a table that is not the system's lead nowhere.

use crate::os::{Errno, system_call};

/// Bytes of an entry before its name: inode, offset, length of the entry, type.
const HEAD_BYTES: usize = 19;

pub(super) fn read_directory(fd: i32, target: &mut [u8]) -> Result<usize, Errno> {
    // SAFETY: the kernel writes at most `target.len()` bytes, which are writable.
    unsafe {
        let start = target.as_mut_ptr().expose_provenance();
        system_call(libc::SYS_getdents64, [fd as usize, start, target.len(), 0, 0])
    }
}

/// One entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry<'a> {
    /// Its name, without a NUL.
    pub name: &'a [u8],
    /// Whether it is a folder, or a link or something unknown that may lead to one.
    pub may_be_folder: bool,
}

/// The entries of what `read_directory` gave.
pub struct Entries<'a>(pub &'a [u8]);

impl<'a> Iterator for Entries<'a> {
    type Item = Entry<'a>;

    fn next(&mut self) -> Option<Entry<'a>> {
        let head = self.0.first_chunk::<HEAD_BYTES>()?;
        let bytes = u16::from_ne_bytes([head[16], head[17]]) as usize;
        if bytes <= HEAD_BYTES {
            return None;
        }
        let (entry, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        let name = entry[HEAD_BYTES..].split(|byte| *byte == 0).next()?;
        let may_be_folder = matches!(head[18], libc::DT_DIR | libc::DT_LNK | libc::DT_UNKNOWN);
        Some(Entry { name, may_be_folder })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::SYSTEM;
    use std::vec::Vec;

    fn raw(name: &[u8], kind: u8) -> Vec<u8> {
        let mut entry = std::vec![0; HEAD_BYTES];
        entry.extend_from_slice(name);
        entry.push(0);
        let bytes = entry.len() as u16;
        entry[16..18].copy_from_slice(&bytes.to_ne_bytes());
        entry[18] = kind;
        entry
    }

    #[test]
    fn entries_of_the_system_are_the_folders_that_are_there() {
        let fd = (SYSTEM.open_directory)(b"/proc/self\0").unwrap();
        let mut found = Vec::new();
        let mut buffer = [0; 512];
        loop {
            let got = read_directory(fd, &mut buffer).unwrap();
            if got == 0 {
                break;
            }
            let folders = Entries(&buffer[..got]).filter(|entry| entry.may_be_folder);
            found.extend(folders.map(|entry| entry.name.to_vec()));
        }
        super::super::close(fd);
        assert!(found.contains(&b"task".to_vec()) && !found.contains(&b"status".to_vec()));
    }

    #[test]
    fn an_entry_that_leaves_the_buffer_ends_the_walk() {
        let mut bytes = raw(b"a", libc::DT_DIR);
        bytes.extend(raw(b"b", libc::DT_REG));
        let all: Vec<_> = Entries(&bytes).map(|entry| (entry.name, entry.may_be_folder)).collect();
        assert_eq!(all, [(&b"a"[..], true), (&b"b"[..], false)]);
        bytes.pop();
        assert_eq!(Entries(&bytes).count(), 1);
        bytes[16] = 3;
        bytes[17] = 0;
        assert_eq!(Entries(&bytes).count(), 0);
    }

    #[test]
    fn a_file_is_no_directory() {
        assert_eq!((SYSTEM.open_directory)(b"/dev/null\0"), Err(Errno(libc::ENOTDIR)));
    }
}
