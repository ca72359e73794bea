//! The tool without a client of stores far away: uris that need one are refused, with the fix.

use crate::fault::{Outcome, usage};
use wavetrain::config::Config;
use wavetrain::loader::Failure;

/// The lines of a command's help; this build has none of these flags.
pub const HELP: &str = "
s3://, gs://, az://, http(s):// and zip archives are read by a tool that was built with the feature
remote: cargo install --path . --features cli,remote
";

const FIX: &str = "this build of the tool does not read it: install one with the feature remote \
                   (cargo install --path . --features cli,remote), or mount the store and give \
                   its path";

/// The flags of a build with the client.
const FLAGS: [&str; 9] = [
    "region",
    "endpoint",
    "anonymous",
    "allow-http",
    "path-style",
    "ca-file",
    "proxy",
    "absent",
    "store-option",
];

/// How stores are entered: nohow.
pub struct Access;

impl Access {
    /// Nothing was given.
    pub const NONE: Access = Access;

    /// Refuses the flags of a build with the client.
    pub fn take(&mut self, name: &str, _: &mut lexopt::Parser) -> Outcome<bool> {
        match FLAGS.contains(&name) {
            true => usage(format!(
                "--{name} is for stores far away, which need the feature remote: \
                 cargo install --path . --features cli,remote"
            )),
            false => Ok(false),
        }
    }
}

/// Whether a client is open.
pub fn is_in_use() -> bool {
    false
}

/// The config as it is: the library refuses the uri.
pub fn with_hooks(config: &Config, _: &Access) -> Result<Config, Failure> {
    Ok(*config)
}

/// A text of the library, with the fix of this tool.
pub fn explained(text: &str) -> String {
    const OF_A_HOST: &str =
        "mount the store and give its path, or answer for its files in config.files";
    match (text.contains(OF_A_HOST), text.strip_suffix("is a zip file: unpack it")) {
        (true, _) => text.replace(OF_A_HOST, FIX),
        (false, Some(start)) => format!(
            "{start}is a zip file: unpack it, or install the tool \
                                         with the feature remote, which reads it"
        ),
        (false, None) => text.to_owned(),
    }
}

/// A document of a store far away: never asked for.
pub fn read(_: &str, _: usize) -> Result<Option<Vec<u8>>, String> {
    Err(FIX.to_owned())
}

/// The names in a folder of a store far away: never asked for.
pub fn children(_: &str) -> Result<Vec<String>, String> {
    Err(FIX.to_owned())
}
