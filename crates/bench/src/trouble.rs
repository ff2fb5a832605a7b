//! Error that ends a run: one line with the operation, its object, the cause and the remedy.

use std::io;

use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::data::Wrong;

/// Error in one line; agents send it to their coordinator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{0}")]
pub struct Trouble(pub String);

impl Trouble {
    /// Error of the operation `what`, such as `write a/b`.
    #[must_use]
    pub fn io(what: &str, error: &io::Error) -> Self {
        let error_text = error.to_string();
        // Omit the number of the error.
        let why = error_text.split(" (os error").next().unwrap_or_default();
        Self(match advice(error) {
            Some(advice) => format!("{what}: {why}: {advice}"),
            None => format!("{what}: {why}"),
        })
    }

    /// Error of verification: a byte of a file differs from the written one.
    #[must_use]
    pub fn wrong(path: &str, wrong: Wrong) -> Self {
        Self(format!(
            "{path}: byte {} is {:#04x}, but {:#04x} was written there: the file system returned wrong data",
            wrong.offset, wrong.found, wrong.expected
        ))
    }
}

fn advice(error: &io::Error) -> Option<&'static str> {
    match Errno::from_io_error(error)? {
        Errno::NOSPC | Errno::DQUOT => Some("free some space there, or choose a smaller --size"),
        Errno::ACCESS | Errno::PERM => {
            Some("run as a user who may write there, or choose a directory where you may")
        }
        Errno::ROFS => Some("mount it to be written to, or choose another directory"),
        Errno::STALE | Errno::NOENT => Some("somebody removed it during the run: start again"),
        _ => None,
    }
}
