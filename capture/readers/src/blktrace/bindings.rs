//! Python's view of the reader of block-layer events: conversions only.
#![expect(
    clippy::needless_pass_by_value,
    reason = "Python hands over owned arguments"
)]

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use iotrace_arrow::Batch;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::reader::Reader;
use crate::bindings::guarded;
use crate::error::Unreadable;

/// Files of block-layer events being read.
#[pyclass(frozen, module = "iotrace.capture._readers")]
struct BlockEvents {
    reader: Mutex<Reader>,
}

impl BlockEvents {
    fn reader(&self) -> MutexGuard<'_, Reader> {
        self.reader.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl BlockEvents {
    fn next_io(&self, py: Python<'_>, rows: usize) -> PyResult<Option<Batch>> {
        let batch = guarded(py, || {
            let mut reader = self.reader();
            let Some(rows) = reader.next_rows(rows)? else {
                return Ok(None);
            };
            let batch = reader.ios(&rows).map(Some);
            batch.map_err(|problem| Unreadable::tables(&problem))
        })?;
        Ok(batch.map(Batch))
    }

    fn new_devices(&self) -> Vec<(i32, u32)> {
        self.reader().take_devices()
    }

    fn partitions(&self) -> Vec<(i32, u32, i32, u64)> {
        self.reader().take_partitions()
    }

    fn new_processes(&self, py: Python<'_>) -> PyResult<Batch> {
        let batch = guarded(py, || {
            let threads = self.reader().take_threads();
            threads.map_err(|problem| Unreadable::tables(&problem))
        })?;
        Ok(Batch(batch))
    }

    fn counts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let reader = self.reader();
        let dict = PyDict::new(py);
        dict.set_item("events", reader.facts.events)?;
        dict.set_item("rejected", reader.facts.rejected)?;
        dict.set_item("passthrough", reader.facts.passthrough)?;
        dict.set_item("lost", reader.facts.lost)?;
        dict.set_item("repeated", reader.facts.repeated)?;
        dict.set_item("truncated", reader.facts.truncated)?;
        dict.set_item("utc_offset_ns", reader.facts.utc_offset_ns)?;
        dict.set_item("first_ns", reader.first_ns)?;
        dict.set_item("last_ns", reader.last_ns)?;
        let counts = reader.pairing.counts;
        dict.set_item("unpaired_issues", counts.unpaired_issues)?;
        dict.set_item("unpaired_completions", counts.unpaired_completions)?;
        dict.set_item("would_block", counts.would_block)?;
        dict.set_item("requeues", counts.requeues)?;
        dict.set_item("backwards", reader.backwards)?;
        dict.set_item("sent_on", reader.sent_on)?;
        dict.set_item("kept", reader.kept)?;
        dict.set_item("position", reader.position())?;
        Ok(dict)
    }
}

#[pyfunction]
fn read_block_events(py: Python<'_>, paths: Vec<PathBuf>, kind: String) -> PyResult<BlockEvents> {
    let reader = guarded(py, || Reader::open(&paths, &kind))?;
    Ok(BlockEvents {
        reader: Mutex::new(reader),
    })
}

/// Add this reader to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<BlockEvents>()?;
    module.add_function(wrap_pyfunction!(read_block_events, module)?)
}
