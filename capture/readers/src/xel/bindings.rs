//! Python's view of the .xel reader: conversions only.
#![expect(
    clippy::needless_pass_by_value,
    reason = "Python hands over owned arguments"
)]

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use iotrace_arrow::Batch;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::rows::Reader;
use super::scan::scan;
use super::values::guid;
use crate::bindings::guarded;
use crate::error::Unreadable;

type FileTuple = (Option<u64>, Option<u64>, Option<String>, Option<String>);
type TableBatches = Vec<(String, Batch)>;

/// A file of an event session; its rows are taken out batch by batch.
#[pyclass(frozen, module = "iotrace.capture._readers")]
struct XelTrace {
    reader: Mutex<Reader>,
}

impl XelTrace {
    fn with<T>(&self, work: impl FnOnce(&mut Reader) -> T) -> T {
        work(&mut self.reader.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[pymethods]
impl XelTrace {
    fn next(&self, py: Python<'_>, events: usize) -> PyResult<Option<TableBatches>> {
        let batches = guarded(py, || {
            self.with(|reader| {
                let Some(batches) = reader.next(events)? else {
                    return Ok(None);
                };
                let batches = batches.finish().map(Some);
                batches.map_err(|problem| Unreadable::tables(&problem))
            })
        })?;
        Ok(batches.map(|batches| {
            batches
                .into_iter()
                .map(|(table, batch)| (table.to_owned(), Batch(batch)))
                .collect()
        }))
    }

    fn files(&self) -> Vec<FileTuple> {
        self.with(|reader| {
            reader
                .files()
                .iter()
                .map(|file| {
                    (
                        file.database_id,
                        file.number,
                        file.path.clone(),
                        file.database.clone(),
                    )
                })
                .collect()
        })
    }

    fn facts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.with(|reader| {
            let dict = PyDict::new(py);
            let clock = reader.scan.clock();
            dict.set_item("start_utc_ns", reader.start_utc_ns)?;
            dict.set_item("span_utc_ns", reader.scan.span_utc_ns)?;
            dict.set_item("clock_base_utc_ns", clock.and_then(|clock| clock.utc_ns(0)))?;
            dict.set_item("clock_hz", clock.map(|clock| clock.frequency))?;
            dict.set_item("bytes", reader.scan.bytes)?;
            let known = reader.scan.known.values();
            let packages: BTreeSet<_> = known.flat_map(|metadata| &metadata.packages).collect();
            dict.set_item("packages", packages.into_iter().collect::<Vec<_>>())?;
            dict.set_item("kinds", kinds(py, reader)?)?;
            Ok(dict)
        })
    }

    fn counts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.with(|reader| {
            let dict = PyDict::new(py);
            let counts = reader.counts();
            dict.set_item("buffers", counts.buffers)?;
            dict.set_item("events", counts.events)?;
            dict.set_item("damaged", counts.damaged)?;
            dict.set_item("wrong_checksums", counts.wrong_checksums)?;
            dict.set_item("unchecked_buffers", counts.unchecked_buffers)?;
            dict.set_item("broken_metadata", counts.broken_metadata)?;
            dict.set_item("buffer_holes", counts.buffer_holes)?;
            dict.set_item("truncated", counts.truncated)?;
            dict.set_item("undescribed", counts.undescribed)?;
            dict.set_item("timeless", counts.timeless)?;
            dict.set_item("unusable_io", counts.unusable_io)?;
            dict.set_item("has_sequence", counts.has_sequence)?;
            dict.set_item("sequence_lost", counts.missing.lost)?;
            dict.set_item("sequence_uncertain", counts.missing.uncertain)?;
            dict.set_item("unreadable_events", reader.dropped.unreadable_events)?;
            dict.set_item("durations_dropped", reader.dropped.durations)?;
            dict.set_item("durations_zero", reader.dropped.durations_zero)?;
            dict.set_item("unplaceable", reader.dropped.unplaceable)?;
            Ok(dict)
        })
    }
}

/// The kinds of events in the file, with what the metadata tells of them.
fn kinds<'py>(py: Python<'py>, reader: &Reader) -> PyResult<Vec<Bound<'py, PyDict>>> {
    let mut kinds = Vec::new();
    for (kind, count) in &reader.scan.events {
        let metadata = reader.scan.metadata(kind.0);
        let Some(event) = metadata.and_then(|metadata| metadata.events.get(&kind.1)) else {
            continue;
        };
        let duration = reader.scan.plans.get(kind).and_then(|plan| plan.duration);
        let dict = PyDict::new(py);
        dict.set_item("name", &event.name)?;
        dict.set_item("package", &event.package)?;
        dict.set_item("description", &event.description)?;
        dict.set_item("uuid", event.uuid.map(guid))?;
        dict.set_item("count", count)?;
        dict.set_item("duration_unit_ns", duration.map(|of| of.unit_ns))?;
        dict.set_item("duration_is_stated", duration.map(|of| of.is_stated))?;
        let columns: Vec<_> = event.columns.iter().map(|column| &column.name).collect();
        dict.set_item("columns", columns)?;
        kinds.push(dict);
    }
    Ok(kinds)
}

#[pyfunction]
#[pyo3(signature = (path, *, progress = None))]
fn read_xel(py: Python<'_>, path: PathBuf, progress: Option<Py<PyAny>>) -> PyResult<XelTrace> {
    let mut raised = None;
    let mut reported = 0;
    let outcome = guarded(py, || {
        let scan = scan(&path, &mut |done, total| {
            // Small buffers would spend more time in Python than in reading.
            if done < total && done - reported < 1 << 22 {
                return true;
            }
            reported = done;
            let outcome = Python::attach(|py| {
                py.check_signals()?;
                progress.as_ref().map_or(Ok(()), |progress| {
                    progress.call1(py, (done, total)).map(drop)
                })
            });
            raised = outcome.err();
            raised.is_none()
        })?;
        Ok(Reader::new(path.clone(), scan))
    });
    match raised {
        Some(raised) => Err(raised),
        None => outcome.map(|reader| XelTrace {
            reader: Mutex::new(reader),
        }),
    }
}

/// Add the .xel reader to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<XelTrace>()?;
    module.add_function(wrap_pyfunction!(read_xel, module)?)
}
