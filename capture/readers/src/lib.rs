//! Readers of trace files, and their Python bindings.

use pyo3::prelude::*;

mod blktrace;
mod crc32;
mod error;
mod etl;
mod etl_bindings;
mod hashing;
mod lznt1;
mod xel;
mod xpress;
mod xpress_huffman;

/// Whether this module was built without optimisation.
#[pyfunction]
fn is_debug_build() -> bool {
    cfg!(debug_assertions)
}

/// Python module.
#[pymodule]
fn _readers(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(is_debug_build, module)?)?;
    etl_bindings::register(module)?;
    blktrace::register(module)?;
    xel::register(module)
}
