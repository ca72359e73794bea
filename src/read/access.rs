//! Files and folders are opened as the caller opens them: a load makes room for descriptors.

use crate::os::FileStat;
use crate::os::store::{Fault, Path, Store};
use crate::read::open_folder;

/// Opens files that no table of files knows.
pub trait Access {
    /// The store of the files.
    fn store(&self) -> &Store;

    /// Opens a file, and looks at it.
    fn open(&self, path: &Path) -> Result<(i32, FileStat), Fault> {
        self.store().open(path)
    }

    /// Opens a folder, to list it.
    fn open_folder(&self, uri: &str) -> Result<i32, Fault> {
        open_folder(self.store(), uri)
    }
}

impl Access for Store {
    fn store(&self) -> &Store {
        self
    }
}
