//! The process's current folder, as it was at open: relative uris are of it.
//!
//! In: a uri as it was pushed. Out: the same, or an absolute one. Without it chdir would change
//! which array a uri names, also of a file that was read before and is opened again. Invariant: a
//! uri that cannot be made absolute is refused, never left to the folder of the moment.

use crate::base::limits::URI_BYTES_MAX;
use crate::base::status::{Status, Why};
use crate::base::text::{Tail, Text, scheme};
use crate::fail;
use crate::os::{Errno, Os, system_call};

/// Bytes of a uri or a folder, with a NUL.
const BYTES: usize = URI_BYTES_MAX + 1;

/// See the module.
pub struct Folder {
    /// Its path, and anything after it.
    bytes: [u8; BYTES],
    /// Bytes of the path; 0 where it has none that a uri can have.
    len: usize,
    /// Why it has none.
    errno: Errno,
}

impl Folder {
    /// The current one.
    pub fn current(os: &Os) -> Folder {
        let mut folder = Folder { bytes: [0; BYTES], len: 0, errno: Errno(libc::ENOENT) };
        match (os.current_folder)(&mut folder.bytes) {
            Ok(len) => folder.len = len,
            Err(errno) => folder.errno = errno,
        }
        // The kernel says "(unreachable)/a" of a folder in another tree of mounts.
        if !folder.path().starts_with('/') {
            folder.len = 0;
        }
        folder
    }

    fn path(&self) -> &str {
        let path = self.bytes.get(..self.len).map(core::str::from_utf8);
        path.and_then(Result::ok).unwrap_or("")
    }

    /// Makes the path absolute that stands in `uri` after `prefix`, if that is there; leaves alone
    /// one that is, and one with a scheme. INVALID where that makes the uri too long or the folder
    /// has no path.
    pub fn fix(&self, uri: &mut Text<BYTES>, prefix: &str, why: &mut Why) -> Result<(), Status> {
        let given = uri.as_str();
        let (prefix, path) = match given.strip_prefix(prefix) {
            Some(path) => (prefix, path),
            None => ("", given),
        };
        // A home folder that no shell has expanded is refused by what it is, when it is not found.
        if path.starts_with('/') || path.starts_with("~/") || scheme(path).is_some() {
            return Ok(());
        }
        let shown = Tail(given, 200);
        if self.path().is_empty() {
            let errno = self.errno;
            let note =
                "the current folder had no path that a uri can have as the loader was opened";
            return Err(fail!(why, Invalid, "{shown}: {note}: {errno}: give an absolute path"));
        }
        let mut whole = Text::<BYTES>::new();
        let root = self.path().trim_end_matches('/');
        write!(whole, "{prefix}{root}/{path}");
        if whole.is_cut() {
            let bytes = root.len() + 1 + given.len();
            let note = "a relative uri, with the current folder before it";
            return Err(fail!(
                why,
                Invalid,
                "{shown}: {note} {bytes} bytes, limit {URI_BYTES_MAX}: give a shorter path"
            ));
        }
        *uri = whole;
        Ok(())
    }
}

/// Writes the path of the current folder; its bytes. A system call, because the C library's may
/// allocate and asks for more where there is no path.
pub(super) fn current_folder(target: &mut [u8]) -> Result<usize, Errno> {
    // SAFETY: the kernel writes at most `target.len()` bytes, which are writable.
    let written = unsafe {
        let start = target.as_mut_ptr().expose_provenance();
        system_call(libc::SYS_getcwd, [start, target.len(), 0, 0, 0])
    };
    written.map(|bytes| bytes.saturating_sub(1)) // a NUL
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::SYSTEM;
    use std::string::{String, ToString};

    fn folder(path: &'static str) -> Folder {
        let mut of = Folder { bytes: [0; BYTES], len: path.len(), errno: Errno(libc::ENOENT) };
        of.bytes[..path.len()].copy_from_slice(path.as_bytes());
        of
    }

    fn fixed(of: &Folder, uri: &str) -> Result<String, String> {
        let (mut text, mut why) = (Text::new(), Why::new());
        text.push_str(uri);
        match of.fix(&mut text, "raw:", &mut why) {
            Ok(()) => Ok(text.as_str().to_string()),
            Err(status) => {
                assert_eq!((status, text.as_str()), (Status::Invalid, uri));
                Err(why.as_str().to_string())
            }
        }
    }

    #[test]
    fn the_current_folder_is_that_of_the_process() {
        let of = Folder::current(&SYSTEM);
        assert_eq!(of.path(), std::env::current_dir().unwrap().to_str().unwrap());
    }

    #[test]
    fn relative_uris_alone_become_absolute() {
        let of = folder("/data/x");
        for (uri, whole) in [
            ("a.zarr", "/data/x/a.zarr"),
            ("../a/b#level=1", "/data/x/../a/b#level=1"),
            (".", "/data/x/."),
            ("raw:a?dtype=u8&shape=4", "raw:/data/x/a?dtype=u8&shape=4"),
            ("raw:/a?dtype=u8&shape=4", "raw:/a?dtype=u8&shape=4"),
            ("/a", "/a"),
            ("s3://bucket/a", "s3://bucket/a"),
        ] {
            assert_eq!(fixed(&of, uri).as_deref(), Ok(whole));
        }
        assert_eq!(fixed(&folder("/"), "a").as_deref(), Ok("/a"));
    }

    #[test]
    fn a_folder_without_a_path_refuses_relative_uris_alone() {
        let of = folder("");
        assert_eq!(fixed(&of, "/a").as_deref(), Ok("/a"));
        let why = fixed(&of, "a").unwrap_err();
        assert!(why.starts_with("a: the current folder had no path"), "{why}");
        assert!(why.ends_with("(errno 2): give an absolute path"), "{why}");
    }

    #[test]
    fn the_longest_whole_uri_is_taken_and_one_byte_more_is_refused() {
        let of = folder("/data");
        let most = URI_BYTES_MAX - "/data/".len();
        assert_eq!(fixed(&of, &"a".repeat(most)).map(|uri| uri.len()), Ok(URI_BYTES_MAX));
        let why = fixed(&of, &"a".repeat(most + 1)).unwrap_err();
        assert!(why.contains("4096 bytes, limit 4095"), "{why}");
    }
}
