//! Files that bear another name until they are whole.
//!
//! In: the name that a file is to have. Out: a file of that name that is complete, or none: one
//! that is given up is removed, and so are all of them if a signal ends the tool.
//!
//! Invariant: every file NAME.PID.partial of this process is in the list. Files are made, renamed
//! and removed under its lock, which [`remove_all`] keeps for good.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

static PARTIALS: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

fn partials() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    PARTIALS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The name of a file until it is whole.
pub struct Partial {
    partial: PathBuf,
    whole: PathBuf,
}

impl Partial {
    /// Makes an empty file, which gets the name `whole` at its end.
    pub fn create(whole: &Path) -> io::Result<(Partial, File)> {
        let mut partial = whole.as_os_str().to_owned();
        partial.push(format!(".{}.partial", std::process::id()));
        let partial = PathBuf::from(partial);
        let mut list = partials();
        let file = File::create(&partial)?;
        list.insert(partial.clone());
        Ok((Partial { partial, whole: whole.to_owned() }, file))
    }

    /// Gives the file its name.
    pub fn finish(self) -> io::Result<()> {
        let mut list = partials();
        fs::rename(&self.partial, &self.whole)?;
        list.remove(&self.partial);
        Ok(())
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        let mut list = partials();
        if list.remove(&self.partial) {
            // Best effort: the failure that led here is the one to report.
            let _ = fs::remove_file(&self.partial);
        }
    }
}

/// Removes all files that are not whole. No file is made or renamed afterwards: this is for the end
/// of the process.
pub fn remove_all() {
    let list = partials();
    for partial in list.iter() {
        // Best effort: there is nobody left to report to.
        let _ = fs::remove_file(partial);
    }
    std::mem::forget(list);
}
