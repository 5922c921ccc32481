//! Why a file could not be read, in words for the person who brought it.

/// A file that cannot be read. `what` continues the sentence "'FILE' …".
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    /// The bytes are not what the reader takes, or are damaged beyond use.
    #[error("{what}")]
    Content {
        /// What is wrong, as the rest of a sentence that begins with the file's name.
        what: String,
        /// What to do next.
        hint: String,
    },
    /// The operating system refused.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// The caller asked to stop.
    #[error("interrupted")]
    Cancelled,
}

impl Unreadable {
    pub(crate) fn content(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Content {
            what: what.into(),
            hint: hint.into(),
        }
    }

    /// Arrow refused what a reader made.
    pub(crate) fn tables(problem: &arrow_schema::ArrowError) -> Self {
        Self::content(
            format!("cannot be turned into tables: {problem}"),
            "please report it",
        )
    }

    /// The reader itself failed.
    pub(crate) fn defect() -> Self {
        Self::content(
            "made the reader fail, which is a defect of iotrace",
            "please report it, with the file if you may share it",
        )
    }
}
