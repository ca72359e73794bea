//! Files and folders are opened as the caller opens them: a load makes room for descriptors.

use crate::base::version::Version;
use crate::os::FileStat;
use crate::os::store::{Fault, Listing, Path, Store, Visit};

/// Opens files that no table of files knows.
pub trait Access {
    /// The store of the files.
    fn store(&self) -> &Store;

    /// Opens a file, and looks at it.
    fn open(&self, path: &Path) -> Result<(i32, FileStat), Fault> {
        self.store().open(path)
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
