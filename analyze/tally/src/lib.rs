//! Every figure of `describe` that depends on order, takes a histogram or needs to know what was touched, from one pass
//! over a recording's I/Os in order of issue.
//!
//! `bindings` is all that Python sees. `tally` takes rows piece by piece (`rows`), tells whose they are (`streams`), puts
//! them in order of time and hands each to what counts: `flight`, `latency`, `seconds`, in a thread of its own `touched`,
//! and what other rooms state too, arrivals and sequences (`iotrace_load`).
//!
//! Four take rows in any order: `classes` latencies by class of I/Os, and their course over time, and `layer_slots` those
//! of each layer, for comparisons;
//! `course` load and latency of a layer, for charts; `stream_slots` those of each stream, for incidents.
//!
//! `change_points` is a search of its own, over a series that was made of I/Os.

mod bindings;
mod busiest;
mod change_points;
mod classes;
mod course;
mod flight;
mod latency;
mod layer_slots;
mod page;
mod rows;
mod seconds;
mod stream_slots;
mod streams;
mod tally;
mod touched;

use pyo3::prelude::*;

/// Python module.
#[pymodule]
fn _tally(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<bindings::Tally>()?;
    module.add_class::<bindings::Classes>()?;
    module.add_class::<bindings::Course>()?;
    module.add_class::<bindings::StreamSlots>()?;
    module.add_class::<bindings::LayerSlots>()?;
    module.add_function(wrap_pyfunction!(bindings::best_borders, module)?)
}
