//! Readers of trace files, and their Python bindings.
#![cfg_attr(
    not(feature = "python"),
    allow(
        dead_code,
        unused_imports,
        reason = "only the bindings ask for some of it"
    )
)]

#[cfg(feature = "python")]
use pyo3::prelude::*;

#[cfg(feature = "python")]
mod bindings;
mod blktrace;
mod crc32;
mod error;
mod etl;
#[cfg(fuzzing)]
pub mod fuzzing;
mod hashing;
mod lznt1;
mod xel;
mod xpress;
mod xpress_huffman;

/// Whether this module was built without optimisation.
#[cfg(feature = "python")]
#[pyfunction]
fn is_debug_build() -> bool {
    cfg!(debug_assertions)
}

/// Python module.
#[cfg(feature = "python")]
#[pymodule]
fn _readers(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(is_debug_build, module)?)?;
    bindings::register(module)?;
    blktrace::register(module)?;
    etl::register(module)?;
    xel::register(module)
}
