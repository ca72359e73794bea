//! Files and folders are opened as the caller opens them: a load makes room for descriptors.

use crate::base::version::Version;
use crate::os::FileStat;
use crate::os::store::{Fault, Listing, Opened, Path, Store, Visit};

/// Opens files that no table of files knows.
pub trait Access {
    /// The store of the files.
    fn store(&self) -> &Store;

    /// Looks at a file, and opens it if reads of it need that.
    fn open(&self, path: &Path) -> Result<Opened, Fault> {
        self.store().open_document(path)
    }

    /// Fills the target from an offset of a file.
    fn read(
        &self,
        opened: Opened,
        path: &Path,
        target: &mut [u8],
        offset: u64,
    ) -> Result<(), Fault> {
        self.store().read_again(opened, path, target, offset)
    }

    /// See [`Store::read_tail`].
    fn read_tail(&self, path: &Path, target: &mut [u8]) -> Result<(FileStat, usize), Fault> {
        self.store().read_tail(path, target)
    }

    /// Lists a folder, to its end.
    fn list(&self, folder: &str, visit: &mut Visit<'_>) -> Result<(Listing, Version), Fault> {
        self.store().list(folder, u32::MAX, visit)
    }
}

impl Access for Store {
    fn store(&self) -> &Store {
        self
    }
}
