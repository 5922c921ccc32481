//! Plays a plan of disk I/Os at exact times and records when each was meant, issued and completed.
//!
//! `bindings` is all that Python sees. `run` takes the plan in batches (`plan`, `chunk`), deals their rows out to
//! submitters (`lane`), each a `pacer` on a thread of its own with a device that `backend` opens, and hands back each
//! batch with what came of it, and what all adds up to (`tally`). A pacer is generic over `clock` and `device`, so that
//! it also runs in simulated time against a simulated disk.
//!
//! `trial` tells beforehand how late this host wakes a sleeper, and what a spinning thread does to others.
//!
//! `shape` and `touched` count what a plan, or the recording it is made from, asks of storage.

pub mod backend;
mod bindings;
pub mod chunk;
pub mod clock;
pub mod device;
pub mod lane;
pub mod memory;
pub mod pacer;
pub mod plan;
pub mod progress;
pub mod run;
pub mod shape;
mod shape_bindings;
pub mod tally;
pub mod trial;

use pyo3::prelude::*;

/// Whether this module was built without optimisation.
#[pyfunction]
fn is_debug_build() -> bool {
    cfg!(debug_assertions)
}

/// Python module.
#[pymodule]
fn _engine(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<bindings::Engine>()?;
    module.add_class::<bindings::Times>()?;
    module.add_class::<shape_bindings::Shape>()?;
    module.add_class::<shape_bindings::Footprint>()?;
    module.add_class::<shape_bindings::Sequences>()?;
    module.add_function(wrap_pyfunction!(bindings::try_waiting, module)?)?;
    module.add_function(wrap_pyfunction!(is_debug_build, module)?)
}
