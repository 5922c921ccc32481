//! Bindings of the readers crate.

use pyo3::prelude::*;

/// Whether this module was built without optimisation.
#[pyfunction]
fn is_debug_build() -> bool {
    cfg!(debug_assertions)
}

/// Python module.
#[pymodule]
fn _readers(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(is_debug_build, module)?)
}
