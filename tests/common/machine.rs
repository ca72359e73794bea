//! A machine that a test makes up: files of /proc and /sys, variables of launchers, CPUs, limits.
//!
//! In: what it has. Out: a table of system calls that shows it to the thread that entered it, and
//! the real machine to all others.

use std::cell::RefCell;
use std::collections::BTreeMap;
use wavetrain::base::cpus::CpuSet;
use wavetrain::os::{Errno, Os, SYSTEM};

thread_local! {
    static ENTERED: RefCell<Option<Machine>> = const { RefCell::new(None) };
}

/// See the module.
#[derive(Clone)]
pub struct Machine {
    files: BTreeMap<String, Vec<u8>>,
    variables: BTreeMap<String, String>,
    mask: CpuSet,
    address_bytes_max: u64,
}

/// Shows the machine that the calling thread has entered.
pub static MACHINE: Os = Os {
    read_system: |path, target, offset| {
        let (_, path) = path.split_last().unwrap();
        let path = std::str::from_utf8(path).unwrap();
        ENTERED.with_borrow(|machine| {
            let file = machine.as_ref().and_then(|machine| machine.files.get(path));
            file.map(|file| read_of(file, target, offset)).ok_or(Errno(libc::ENOENT))
        })
    },
    variable: |name, target| {
        let name = std::str::from_utf8(name).unwrap().trim_end_matches('\0');
        ENTERED.with_borrow(|machine| {
            let value = machine.as_ref()?.variables.get(name)?.as_bytes();
            target.get_mut(..value.len())?.copy_from_slice(value);
            Some(value.len())
        })
    },
    cpus: || {
        let mask = ENTERED.with_borrow(|machine| machine.as_ref().map(|machine| machine.mask));
        mask.unwrap_or_else(|| (SYSTEM.cpus)())
    },
    address_bytes_max: || {
        ENTERED.with_borrow(|machine| machine.as_ref().map_or(u64::MAX, |it| it.address_bytes_max))
    },
    ..SYSTEM
};

/// The answer of a read of a file that holds these bytes.
pub fn read_of(file: &[u8], target: &mut [u8], offset: u64) -> usize {
    let rest = file.get(offset as usize..).unwrap_or(&[]);
    let bytes = rest.len().min(target.len());
    target[..bytes].copy_from_slice(&rest[..bytes]);
    bytes
}

impl Machine {
    /// One of 64 CPUs and without a limit.
    pub fn new() -> Machine {
        let machine = Machine {
            files: BTreeMap::new(),
            variables: BTreeMap::new(),
            mask: CpuSet::from_list("0-63").unwrap(),
            address_bytes_max: u64::MAX,
        };
        machine.file("/sys/devices/system/cpu/online", "0-63\n")
    }

    /// The same with a file.
    pub fn file(mut self, path: &str, bytes: impl AsRef<[u8]>) -> Machine {
        self.files.insert(path.to_owned(), bytes.as_ref().to_owned());
        self
    }

    /// The same with files below a folder.
    pub fn files(self, folder: &str, files: &[(&str, &str)]) -> Machine {
        files.iter().fold(self, |machine, (name, text)| {
            machine.file(&format!("{folder}/{name}"), format!("{text}\n"))
        })
    }

    /// The same with a variable.
    pub fn variable(mut self, name: &str, value: &str) -> Machine {
        self.variables.insert(name.to_owned(), value.to_owned());
        self
    }

    /// The same with another mask of CPUs.
    pub fn mask(mut self, list: &str) -> Machine {
        self.mask = CpuSet::from_list(list).unwrap();
        self
    }

    /// The same with a limit of addresses.
    pub fn address_bytes_max(mut self, bytes: u64) -> Machine {
        self.address_bytes_max = bytes;
        self
    }

    /// Paths of its files.
    pub fn paths(&self) -> Vec<String> {
        self.files.keys().cloned().collect()
    }

    /// Shows it to this thread while `look` runs.
    pub fn enter<T>(&self, look: impl FnOnce() -> T) -> T {
        ENTERED.set(Some(self.clone()));
        let seen = look();
        ENTERED.set(None);
        seen
    }
}
