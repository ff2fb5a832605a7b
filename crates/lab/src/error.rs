//! Errors of a lab, in words for its user.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

/// Anything that keeps a lab from being built or used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A program that `make setup` provides is not there.
    #[error("{0} is missing on this machine: run `make setup`")]
    Missing(&'static str),
    /// A kernel is not installed.
    #[error("no kernel {name} in {}: run scripts/setup-kernels.sh {name}", .folder.display())]
    NoKernel {
        /// Its name.
        name: &'static str,
        /// The folder that was looked for.
        folder: PathBuf,
    },
    /// `ip` or `tc` refused.
    #[error("{command}: {said}")]
    Refused {
        /// The whole command line.
        command: String,
        /// Its standard error.
        said: String,
    },
    /// No number of a subnet could be claimed.
    #[error("no bridge could be made, not even {0}\nAre you root? Run `make setup` if not done yet.")]
    NoSubnet(Box<Error>),
    /// More machines than addresses.
    #[error("a lab has room for {max} {what}")]
    Full {
        /// How many there can be.
        max: u8,
        /// Of what.
        what: &'static str,
    },
    /// This machine refused something.
    #[error("{doing}: {why}")]
    Io {
        /// The operation that failed, and its object.
        doing: String,
        /// The machine's error.
        why: io::Error,
    },
    /// A client machine died, or did not answer in time; with what is known about why.
    #[error("client {name}: {why}\n{known}")]
    Client {
        /// Its name.
        name: String,
        /// The failure.
        why: String,
        /// The end of its console, or what its processes were doing.
        known: String,
    },
    /// A server did not start, or did not end, as it should.
    #[error("{name} {why}\n{log}")]
    Server {
        /// Its name.
        name: String,
        /// The failure.
        why: String,
        /// The ends of its log.
        log: String,
    },
    /// A server ended with another status than 0.
    #[error("{name} ended with {status}\n{log}")]
    Ended {
        /// Its name.
        name: String,
        /// How.
        status: ExitStatus,
        /// The ends of its log.
        log: String,
    },
    /// Ctrl-C, or another signal to end.
    #[error("interrupted")]
    Interrupted,
    /// The request cannot be fulfilled.
    #[error("{0}")]
    Impossible(String),
}

/// Of whatever a lab does.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn io(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Error {
        let doing = doing.into();
        move |why| Error::Io { doing, why }
    }

    /// `write /a/b: No space left on device`.
    pub(crate) fn file(verb: &str, path: &Path) -> impl FnOnce(io::Error) -> Error {
        Error::io(format!("{verb} {}", path.display()))
    }
}
