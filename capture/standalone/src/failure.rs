//! What ends the program: what is wrong, in the user's words, and what to do next.

use std::fmt;
use std::io;
use std::path::Path;

/// Shown as two lines, `error:` and `hint:`.
#[derive(Debug)]
pub struct Failure {
    message: String,
    hint: String,
}

impl Failure {
    /// Of a sentence and a next step.
    pub fn new(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            hint: hint.into(),
        }
    }

    /// A file of the output that cannot be written.
    pub fn output(path: &Path, problem: &io::Error) -> Self {
        Self::new(
            format!("cannot write '{}': {problem}", path.display()),
            "choose a folder with room that you may write to with -o",
        )
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "error: {}\n\nhint: {}", self.message, self.hint)
    }
}
