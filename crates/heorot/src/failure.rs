//! What ends a command: one line that says what failed and what to do about it.

use std::fmt;

/// One line for the person who typed the command. It is made from any error whose text is already such a line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Failure(String);

impl Failure {
    pub(crate) fn new(line: impl Into<String>) -> Self {
        Self(line.into())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // One line, whatever a library put into its message.
        f.write_str(&self.0.split_whitespace().collect::<Vec<_>>().join(" "))
    }
}

// Not for Failure itself, which therefore is no Error.
impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}
