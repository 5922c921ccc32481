//! Every figure of `describe` that depends on order, takes a histogram or needs to know which blocks were touched, from one
//! pass over a recording's I/Os in order of issue.
//!
//! `bindings` is all that Python sees. `tally` takes rows piece by piece (`rows`), tells whose they are (`streams`), puts
//! them in order of time and hands each to what counts: `arrivals`, `flight`, `sequence`, `latency`, `seconds`, and in a
//! thread of its own `touched`.

mod arrivals;
mod bindings;
mod flight;
mod latency;
mod page;
mod rows;
mod seconds;
mod sequence;
mod streams;
mod tally;
mod touched;

use pyo3::prelude::*;

/// Python module.
#[pymodule]
fn _tally(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<bindings::Tally>()
}
