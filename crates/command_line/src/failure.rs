//! Failure that ends a command: one line with the cause and the remedy.

use std::fmt;

/// Exit status of a command that Ctrl-C ended, as in shells.
pub const INTERRUPTED: u8 = 130;

/// Exit status of a server that was removed from its cluster: a restart does not help.
pub const TAKEN_OUT: u8 = 3;

/// Exit status of `heorot status` without a verdict, after the convention of monitoring programs.
pub const UNKNOWN: u8 = 3;

/// Failure in one line for the user. It can be made from any error whose text is such a line.
#[derive(Debug, PartialEq, Eq)]
pub struct Failure {
    line: String,
    code: u8,
}

impl Failure {
    /// Failure with exit status 1.
    pub fn new(line: impl Into<String>) -> Self {
        Self { line: line.into(), code: 1 }
    }

    /// Failure with exit status [`TAKEN_OUT`].
    pub fn taken_out(line: impl Into<String>) -> Self {
        Self { line: line.into(), code: TAKEN_OUT }
    }

    /// The same failure with exit status [`UNKNOWN`].
    #[must_use]
    pub fn unknown(self) -> Self {
        Self { code: UNKNOWN, ..self }
    }

    /// Failure with exit status [`INTERRUPTED`].
    pub fn interrupted(line: impl Into<String>) -> Self {
        Self { line: line.into(), code: INTERRUPTED }
    }

    /// Exit status of the process.
    #[must_use]
    pub fn code(&self) -> u8 {
        self.code
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Join the lines of a library's message.
        f.write_str(&self.line.split_whitespace().collect::<Vec<_>>().join(" "))
    }
}

// Failure itself is no Error, which would conflict with this implementation.
impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::new(error.to_string())
    }
}
