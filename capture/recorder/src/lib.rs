//! Bindings of the recorder crate.

use pyo3::prelude::*;

/// Whether this module was built without optimisation.
#[pyfunction]
fn is_debug_build() -> bool {
    cfg!(debug_assertions)
}

/// Python module.
#[pymodule]
fn _recorder(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(is_debug_build, module)?)
}
