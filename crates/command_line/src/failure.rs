//! The failure that ends a command: one line that says what failed and what to do about it.

use std::fmt;

/// Exit status of a command that Ctrl-C ended, as shells have it.
pub const INTERRUPTED: u8 = 130;

/// Exit status of a server that was taken out of its cluster: a restart does not help.
pub const TAKEN_OUT: u8 = 3;

/// Exit status of `heorot status` when nothing can be said: as monitoring programs have it, after 0, 1 and 2.
pub const UNKNOWN: u8 = 3;

/// One line for the person who typed the command. It is made from any error whose text is already such a
/// line.
#[derive(Debug, PartialEq, Eq)]
pub struct Failure {
    line: String,
    code: u8,
}

impl Failure {
    /// A failure with exit status 1.
    pub fn new(line: impl Into<String>) -> Self {
        Self { line: line.into(), code: 1 }
    }

    /// A failure with exit status [`TAKEN_OUT`].
    pub fn taken_out(line: impl Into<String>) -> Self {
        Self { line: line.into(), code: TAKEN_OUT }
    }

    /// The same failure with exit status [`UNKNOWN`].
    #[must_use]
    pub fn unknown(self) -> Self {
        Self { code: UNKNOWN, ..self }
    }

    /// A failure with exit status [`INTERRUPTED`].
    pub fn interrupted(line: impl Into<String>) -> Self {
        Self { line: line.into(), code: INTERRUPTED }
    }

    /// The exit status of the process.
    #[must_use]
    pub fn code(&self) -> u8 {
        self.code
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // One line, whatever a library put into its message.
        f.write_str(&self.line.split_whitespace().collect::<Vec<_>>().join(" "))
    }
}

// Not for Failure itself, which therefore is no Error.
impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::new(error.to_string())
    }
}
