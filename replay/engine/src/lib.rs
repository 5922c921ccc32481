//! Plays a plan of disk I/Os at exact times and records when each was meant, issued and completed.
//!
//! `bindings` is all that Python sees. `run` picks a device and starts `pacer` on a thread of its own; `pacer` is
//! generic over a `clock` and a `device`, so that tests run it in simulated time against a simulated disk.

#[cfg(target_os = "linux")]
mod bindings;
pub mod clock;
pub mod device;
pub mod memory;
pub mod outcome;
pub mod pacer;
pub mod plan;
pub mod progress;
#[cfg(target_os = "linux")]
pub mod run;

use pyo3::prelude::*;

/// Whether this module was built without optimisation.
#[pyfunction]
fn is_debug_build() -> bool {
    cfg!(debug_assertions)
}

/// Python module.
#[pymodule]
fn _engine(module: &Bound<'_, PyModule>) -> PyResult<()> {
    #[cfg(target_os = "linux")]
    module.add_class::<bindings::Engine>()?;
    module.add_function(wrap_pyfunction!(is_debug_build, module)?)
}
