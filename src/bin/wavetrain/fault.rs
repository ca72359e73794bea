//! Why a command ends early, and the exit code that goes with it.

use crate::spelling::spelled;
use crate::store;
use std::fmt;
use std::io;
use std::path::Path;
use wavetrain::base::text::List;
use wavetrain::loader::Failure;

/// The end of a command that did not do all of its work.
#[derive(Debug)]
pub enum Fault {
    /// The command line cannot be meant: exit code 2.
    Usage(String),
    /// The work failed: exit code 1.
    Failed(String),
    /// As `Failed`, but every line about it is already out.
    Told,
}

impl Fault {
    /// 2 for a wrong command line, else 1.
    pub fn exit_code(&self) -> u8 {
        match self {
            Fault::Usage(_) => 2,
            Fault::Failed(_) | Fault::Told => 1,
        }
    }

    /// A failure of the file system with the path in front.
    pub fn path(path: &Path, error: &io::Error) -> Fault {
        Fault::Failed(format!("{}: {error}", path.display()))
    }

    /// A failure of the library, in the words of the command line.
    pub fn library(failure: &Failure) -> Fault {
        Fault::Failed(failure_text(failure))
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Usage(text) | Fault::Failed(text) => f.write_str(text),
            Fault::Told => Ok(()),
        }
    }
}

impl From<lexopt::Error> for Fault {
    fn from(error: lexopt::Error) -> Fault {
        Fault::Usage(error.to_string())
    }
}

/// What every step of a command gives.
pub type Outcome<T> = Result<T, Fault>;

/// A wrong command line.
pub fn usage<T>(text: impl Into<String>) -> Outcome<T> {
    Err(Fault::Usage(text.into()))
}

/// Work that failed.
pub fn failed<T>(text: impl Into<String>) -> Outcome<T> {
    Err(Fault::Failed(text.into()))
}

/// "DECODE: text", with the chunk's coordinates if the text does not have them itself.
pub fn failure_text(failure: &Failure) -> String {
    let text = spelled(&store::explained(failure.text.as_str()));
    let chunk = List(&failure.chunk).to_string();
    if failure.chunk.is_empty() || text.contains(&chunk) {
        format!("{}: {text}", failure.status)
    } else {
        format!("{}: {text} (chunk {chunk})", failure.status)
    }
}
