//! What the bindings of all readers share: the exception they raise, and how they call reading code.

use std::panic::{AssertUnwindSafe, catch_unwind};

use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyRuntimeError};
use pyo3::prelude::*;

use crate::error::Unreadable;

create_exception!(_readers, UnreadableError, PyException);

/// Run reading code without the interpreter lock. A panic becomes an `UnreadableError` like any other.
pub fn guarded<T: Send>(
    py: Python<'_>,
    work: impl FnOnce() -> Result<T, Unreadable> + Send,
) -> PyResult<T> {
    let outcome = py.detach(|| catch_unwind(AssertUnwindSafe(work)));
    outcome
        .unwrap_or_else(|_| Err(Unreadable::defect()))
        .map_err(raised)
}

/// What Python is told of a file that cannot be read.
fn raised(problem: Unreadable) -> PyErr {
    match problem {
        Unreadable::Content { what, hint } => UnreadableError::new_err((what, hint)),
        Unreadable::Io(problem) => problem.into(),
        Unreadable::Cancelled => PyRuntimeError::new_err("interrupted"),
    }
}

/// Add the exception to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("UnreadableError", module.py().get_type::<UnreadableError>())
}
