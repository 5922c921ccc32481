//! Plays I/Os in virtual time on a model of storage: limits, credits, queues, service times, caches, stripes.
//!
//! `bindings` is all that Python sees. `spec` is the model as Python hands it over, `simulator` takes arrivals and has
//! the events in order of time, `gate` holds I/Os back until a limit lets them go, `disk` serves them, for as long as
//! `service` says, and `summary` and `demand` add up what came of them.
//!
//! An arrival's way: the gates of its volume (limits of a machine, of a set of disks), a piece to each disk that its
//! stripe touches, the gates of that disk, its queue, its service. It has completed when its last piece has. Where rows
//! wait for one another (`waiting`), an arrival is due so long after another has completed. Where only limits take time and
//! nobody overtakes (`straight`), as with most disks of the catalogue, all of that way is worked out at once, without events.

mod bindings;
pub mod demand;
pub mod disk;
pub mod gate;
pub mod random;
pub mod service;
pub mod simulator;
pub mod spec;
mod straight;
pub mod summary;
pub mod waiting;

use pyo3::prelude::*;

/// Python module.
#[pymodule]
fn _model(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<bindings::Simulator>()
}
