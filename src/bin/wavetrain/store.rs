//! The stores that the tool reads: files of this machine and, with the cargo feature `remote`,
//! objects of s3://, gs://, az://, http(s):// and entries of zip archives.
//!
//! In: uris, and the flags of access. Out: what the library finds at a uri, and configs with hooks.
//! The first uri that needs it opens the one client of the process, which from then on reads local
//! paths too. Without the feature the library refuses such a uri, and `explained` has the fix.

#[cfg_attr(not(feature = "remote"), path = "store/none.rs")]
#[cfg_attr(feature = "remote", path = "store/remote.rs")]
mod remote;

pub use remote::{Access, HELP, explained};

use crate::fault::{Outcome, failure_text};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use wavetrain::abi::{ArrayInfo, Memory};
use wavetrain::config::Config;
use wavetrain::loader::{self, Failure, Node};

/// Schemes that need a client.
const SCHEMES: [&str; 8] = ["s3", "s3a", "gs", "az", "abfs", "abfss", "http", "https"];

/// The flags of access that were given.
static ACCESS: Mutex<Access> = Mutex::new(Access::NONE);

/// Takes a flag of access from the parser; false: `--name` is none.
pub fn take_flag(name: &str, parser: &mut lexopt::Parser) -> Outcome<bool> {
    ACCESS.lock().unwrap_or_else(PoisonError::into_inner).take(name, parser)
}

/// Whether a uri needs a client: by its scheme, or because it leads into an archive.
pub fn is_far(uri: &str) -> bool {
    let uri = uri.strip_prefix("raw:").unwrap_or(uri);
    match uri.split_once("://") {
        _ if uri.starts_with("zip:") => true,
        Some((scheme, _)) if SCHEMES.contains(&scheme) => true,
        Some(("file", path)) => is_in_archive(path),
        Some(_) => false,
        None => is_in_archive(uri),
    }
}

/// Whether a path leads into an archive, or is one.
fn is_in_archive(path: &str) -> bool {
    let ends = path.match_indices(".zip").map(|(at, end)| at + end.len());
    let mut whole = ends.filter(|end| path[*end..].is_empty() || path[*end..].starts_with('/'));
    whole.any(|end| Path::new(&path[..end]).is_file())
}

/// A config with the hooks that `uri` needs, and those that were needed before.
fn hooked(config: &Config, uris: &[&str]) -> Result<Config, Failure> {
    let is_needed = uris.iter().any(|uri| is_far(uri)) || remote::is_in_use();
    // Files of a hook that somebody asked for stay those of the hook.
    if !is_needed || config.files.size.is_some() {
        return Ok(*config);
    }
    remote::with_hooks(config, &ACCESS.lock().unwrap_or_else(PoisonError::into_inner))
}

/// The config of a loader, with the hooks that uris needed so far.
pub fn config_of(config: &Config) -> Result<Config, Failure> {
    hooked(config, &[])
}

/// The facts of an array: see [`loader::array_info`].
pub fn array_info(uri: &str, scratch: &mut [u8]) -> Result<ArrayInfo, Failure> {
    let config = hooked(&Config::DEFAULT, &[uri])?;
    // SAFETY: the hooks are the client's, which lives as long as the process.
    unsafe { loader::array_info_trusting(uri, &config, scratch) }
}

/// An array or a group: see [`loader::node_info`].
pub fn node_info<'s>(uri: &str, scratch: &'s mut [u8]) -> Result<Node<'s>, Failure> {
    let config = hooked(&Config::DEFAULT, &[uri])?;
    // SAFETY: as of `array_info`.
    unsafe { loader::node_info_trusting(uri, &config, scratch) }
}

/// A document in a store far away, of `bytes_max` bytes at most; None: it is absent.
pub fn read(name: &str, bytes_max: usize) -> Result<Option<Vec<u8>>, String> {
    hooked(&Config::DEFAULT, &[name]).map_err(|failure| failure_text(&failure))?;
    remote::read(name, bytes_max)
}

/// The names of the folders in a folder of a store far away.
pub fn children(name: &str) -> Result<Vec<String>, String> {
    hooked(&Config::DEFAULT, &[name]).map_err(|failure| failure_text(&failure))?;
    remote::children(name)
}

/// The memory bill of a loader with the hooks that uris needed so far.
pub fn memory_need(config: &Config) -> Result<Memory, Failure> {
    loader::memory_need(&config_of(config)?)
}

/// Raises the caps of `config` to what the arrays need: see [`loader::config_fit`].
pub fn fit(config: &mut Config, uris: &[&str], scratch: &mut [u8]) -> Result<(), Failure> {
    let (files, store) = (config.files, config.store);
    let mut fitted = hooked(config, uris)?;
    // SAFETY: hooks are the client's or this program's, and the driver is the one that its user
    // names.
    unsafe { loader::config_fit_trusting(&mut fitted, uris, scratch) }?;
    *config = Config { files, store, ..fitted };
    Ok(())
}
