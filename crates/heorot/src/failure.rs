//! What ends a command: one line that says what failed and what to do about it.

use std::fmt;

/// What a shell says of a program that Ctrl-C ended.
pub(crate) const INTERRUPTED: u8 = 130;

/// What a server ends with that was taken out of its cluster: started again as it is, it would say the same.
pub(crate) const TAKEN_OUT: u8 = 3;

/// Exit status of `heorot status` when nothing can be said: as monitoring programs have it, after 0, 1 and 2.
pub(crate) const UNKNOWN: u8 = 3;

/// One line for the person who typed the command. It is made from any error whose text is already such a line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    line: String,
    code: u8,
}

impl Failure {
    pub(crate) fn new(line: impl Into<String>) -> Self {
        Self { line: line.into(), code: 1 }
    }

    /// See [`TAKEN_OUT`].
    pub(crate) fn taken_out(line: impl Into<String>) -> Self {
        Self { line: line.into(), code: TAKEN_OUT }
    }

    /// See [`UNKNOWN`].
    pub(crate) fn unknown(self) -> Self {
        Self { code: UNKNOWN, ..self }
    }

    /// Somebody pressed Ctrl-C.
    pub(crate) fn interrupted(line: impl Into<String>) -> Self {
        Self { line: line.into(), code: INTERRUPTED }
    }

    /// What the process ends with.
    pub(crate) fn code(&self) -> u8 {
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
