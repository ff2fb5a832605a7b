//! Errors of a lab, for its user.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

/// Error of building or using a lab.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A program of `make setup` is missing.
    #[error("{0} is missing on this machine: run `make setup`")]
    Missing(&'static str),
    /// A kernel is not installed.
    #[error("no kernel {name} in {}: run scripts/setup-kernels.sh {name}", .folder.display())]
    NoKernel {
        /// Name of the kernel.
        name: &'static str,
        /// Expected folder.
        folder: PathBuf,
    },
    /// `ip` or `tc` refused.
    #[error("{command}: {said}")]
    Refused {
        /// Command line.
        command: String,
        /// Standard error of the command.
        said: String,
    },
    /// No subnet number is free.
    #[error("no bridge could be made, not even {0}\nAre you root? Run `make setup` if not done yet.")]
    NoSubnet(Box<Error>),
    /// More machines than addresses.
    #[error("a lab has room for {max} {what}")]
    Full {
        /// Maximal number.
        max: u8,
        /// Kind of machines.
        what: &'static str,
    },
    /// I/O error.
    #[error("{doing}: {why}")]
    Io {
        /// The operation that failed, and its object.
        doing: String,
        /// Error of the system.
        why: io::Error,
    },
    /// A client machine died, or exceeded a timeout.
    #[error("client {name}: {why}\n{known}")]
    Client {
        /// Name of the client.
        name: String,
        /// Failure.
        why: String,
        /// End of its console, or the state of its processes.
        known: String,
    },
    /// A server did not start or did not stop.
    #[error("{name} {why}\n{log}")]
    Server {
        /// Name of the server.
        name: String,
        /// Failure.
        why: String,
        /// First and last lines of its log.
        log: String,
    },
    /// A server exited with a status other than 0.
    #[error("{name} ended with {status}\n{log}")]
    Ended {
        /// Name of the server.
        name: String,
        /// Exit status.
        status: ExitStatus,
        /// First and last lines of its log.
        log: String,
    },
    /// Ctrl-C, or another signal to terminate.
    #[error("interrupted")]
    Interrupted,
    /// Invalid request.
    #[error("{0}")]
    Impossible(String),
}

/// Result with an [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn io(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Error {
        let doing = doing.into();
        move |why| Error::Io { doing, why }
    }

    /// Error such as `write /a/b: No space left on device`.
    pub(crate) fn file(verb: &str, path: &Path) -> impl FnOnce(io::Error) -> Error {
        Error::io(format!("{verb} {}", path.display()))
    }
}
