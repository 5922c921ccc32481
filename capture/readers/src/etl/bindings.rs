//! Python's view of the .etl reader: conversions only.
#![expect(
    clippy::needless_pass_by_value,
    reason = "Python hands over owned arguments"
)]

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use arrow_array::RecordBatch;
use arrow_schema::ArrowError;
use iotrace_arrow::Batch;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::{
    Compression, KEPT_EVENTS, LogHeader, Origin, Trace, devices, files, inspect, open, processes,
    read,
};
use crate::bindings::guarded;
use crate::error::Unreadable;

fn header_dict<'py>(py: Python<'py>, header: &LogHeader) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("buffer_bytes", header.buffer_bytes)?;
    dict.set_item("os_major", header.os_major)?;
    dict.set_item("os_minor", header.os_minor)?;
    dict.set_item("os_build", header.os_build)?;
    dict.set_item("processors", header.processors)?;
    dict.set_item("mode", header.mode)?;
    dict.set_item("circular", header.is_circular())?;
    dict.set_item(
        "compression",
        header.compression.map(|format| format as u32),
    )?;
    dict.set_item(
        "compression_name",
        header.compression.map(Compression::name),
    )?;
    dict.set_item("unclosed", header.is_unclosed())?;
    dict.set_item("buffers_written", header.buffers_written)?;
    dict.set_item("pointer_bytes", header.pointer_bytes)?;
    dict.set_item("events_lost", header.events_lost)?;
    dict.set_item("buffers_lost", header.buffers_lost)?;
    dict.set_item("session", &header.session)?;
    dict.set_item("file", &header.file)?;
    dict.set_item("utc_bias_minutes", header.utc_bias_minutes)?;
    dict.set_item("clock", header.clock.kind.name())?;
    dict.set_item("clock_resolution_ns", header.clock.resolution_ns())?;
    dict.set_item("counter_hz", header.clock.counter_hz)?;
    dict.set_item("start_ticks", header.clock.start_ticks)?;
    dict.set_item("start_utc_ns", header.clock.start_utc_ns())?;
    dict.set_item("boot_utc_ns", header.boot_utc_ns())?;
    dict.set_item("end_ns", header.end_ns())?;
    Ok(dict)
}

/// Calls Python's `progress(done, total)` and looks for Ctrl-C; keeps what either raises.
struct Reporter {
    progress: Option<Py<PyAny>>,
    raised: Option<PyErr>,
}

impl Reporter {
    fn report(&mut self, done: u64, total: u64) -> bool {
        if self.raised.is_none() {
            let outcome = Python::attach(|py| {
                py.check_signals()?;
                self.progress.as_ref().map_or(Ok(()), |progress| {
                    progress.call1(py, (done, total)).map(drop)
                })
            });
            self.raised = outcome.err();
        }
        self.raised.is_none()
    }
}

/// A log read into memory; its tables are taken out batch by batch.
#[pyclass(frozen, module = "iotrace.capture._readers")]
struct EtlTrace {
    trace: Mutex<Trace>,
}

impl EtlTrace {
    fn table(
        &self,
        py: Python<'_>,
        of: impl FnOnce(&Trace) -> Result<RecordBatch, ArrowError> + Send,
    ) -> PyResult<Batch> {
        let batch = guarded(py, || {
            of(&self.trace.lock().unwrap_or_else(PoisonError::into_inner))
                .map_err(|problem| Unreadable::tables(&problem))
        })?;
        Ok(Batch(batch))
    }
}

#[pymethods]
impl EtlTrace {
    fn next_io(&self, py: Python<'_>, rows: usize) -> PyResult<Option<Batch>> {
        let batch = guarded(py, || {
            let mut trace = self.trace.lock().unwrap_or_else(PoisonError::into_inner);
            trace.next_io(rows)
        })?;
        Ok(batch.map(Batch))
    }

    fn devices(&self, py: Python<'_>) -> PyResult<Batch> {
        self.table(py, devices)
    }

    fn files(&self, py: Python<'_>, first: usize) -> PyResult<Batch> {
        self.table(py, |trace| files(trace, first))
    }

    fn processes(&self, py: Python<'_>, first: usize) -> PyResult<Batch> {
        self.table(py, |trace| processes(trace, first))
    }

    fn counts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        let trace = self.trace.lock().unwrap_or_else(PoisonError::into_inner);
        let (counts, pairing) = (&trace.counts, &trace.pairer.pairing);
        dict.set_item("buffers", counts.buffers)?;
        dict.set_item("events", counts.events)?;
        let [reads, writes, flushes] = trace.disk_io();
        dict.set_item("reads", reads)?;
        dict.set_item("writes", writes)?;
        dict.set_item("flushes", flushes)?;
        let manifest = counts.manifest_reads + counts.manifest_writes + counts.manifest_flushes;
        dict.set_item("manifest_disk_events", manifest)?;
        dict.set_item(
            "operations",
            counts.operations.max(counts.manifest_operations),
        )?;
        dict.set_item(
            "operation_ends",
            match trace.file_origin {
                Origin::Classic => counts.operation_ends,
                Origin::Manifest => counts.manifest_operation_ends,
            },
        )?;
        dict.set_item("unended_operations", trace.operations.unended)?;
        dict.set_item("failed_operations", trace.operations.failed)?;
        dict.set_item("short_operations", trace.operations.short)?;
        dict.set_item("short_bytes", trace.operations.short_bytes)?;
        dict.set_item("requests_timed_in_stack", counts.requests_timed_in_stack)?;
        dict.set_item("requests_timed_in_device", counts.requests_timed_in_device)?;
        dict.set_item("requests_detailed", counts.requests_detailed)?;
        dict.set_item("requests_dispatched", counts.requests_dispatched)?;
        dict.set_item("requests_done", counts.requests_done)?;
        dict.set_item("requests_of_windows_7", counts.requests_of_windows_7)?;
        dict.set_item("requests_summed_up", counts.requests_summed_up)?;
        dict.set_item("other_requests", trace.requests.other)?;
        dict.set_item("rows", trace.rows.to_vec())?;
        dict.set_item("damaged_buffers", counts.damaged_buffers)?;
        dict.set_item("loss_flags", counts.loss_flags)?;
        dict.set_item("loss_events", counts.loss_events)?;
        dict.set_item("rejected_events", counts.rejected_events)?;
        dict.set_item("old_disk_events", counts.old_disk_events)?;
        dict.set_item("optical_events", counts.optical_events)?;
        dict.set_item("inits", counts.inits)?;
        dict.set_item("paired", pairing.paired)?;
        dict.set_item("unpaired_inits", pairing.unpaired_inits)?;
        dict.set_item("unpaired_completions", pairing.unpaired_completions)?;
        dict.set_item(
            "responses_dropped",
            pairing.responses_dropped + trace.durations_dropped,
        )?;
        dict.set_item("responses_replaced", pairing.responses_replaced)?;
        dict.set_item("unplaceable", trace.unplaceable)?;
        dict.set_item("truncated", trace.truncated)?;
        dict.set_item(
            "holes",
            trace
                .holes
                .iter()
                .take(1000)
                .map(|hole| (hole.first, hole.missing))
                .collect::<Vec<_>>(),
        )?;
        dict.set_item("hole_count", trace.holes.len())?;
        dict.set_item("group_masks", trace.group_masks.to_vec())?;
        dict.set_item("volume_mappings", trace.told_mappings)?;
        dict.set_item("inferred_letters", trace.inferred_letters)?;
        dict.set_item(
            "first_event_ns",
            trace
                .span
                .and_then(|(first, _)| trace.header.clock.ns(first)),
        )?;
        dict.set_item(
            "last_event_ns",
            trace.span.and_then(|(_, last)| trace.header.clock.ns(last)),
        )?;
        dict.set_item("last_completed_ns", trace.last_completed_ns)?;
        Ok(dict)
    }
}

#[pyfunction]
#[pyo3(signature = (path, *, threads = 0, kept_events = KEPT_EVENTS, progress = None))]
fn read_etl(
    py: Python<'_>,
    path: PathBuf,
    threads: usize,
    kept_events: usize,
    progress: Option<Py<PyAny>>,
) -> PyResult<EtlTrace> {
    let mut reporter = Reporter {
        progress,
        raised: None,
    };
    let outcome = guarded(py, || {
        let log = read(&path, threads, kept_events, &mut |done, total| {
            reporter.report(done, total)
        })?;
        Ok(Trace::new(log))
    });
    match reporter.raised {
        Some(raised) => Err(raised),
        None => outcome.map(|trace| EtlTrace {
            trace: Mutex::new(trace),
        }),
    }
}

#[pyfunction]
fn read_etl_header(py: Python<'_>, path: PathBuf) -> PyResult<Bound<'_, PyDict>> {
    let (_, _, header) = guarded(py, || open(&path))?;
    header_dict(py, &header)
}

#[pyfunction]
fn inspect_etl(py: Python<'_>, path: PathBuf) -> PyResult<Bound<'_, PyDict>> {
    let mut reporter = Reporter {
        progress: None,
        raised: None,
    };
    let outcome = guarded(py, || inspect(&path, &mut || reporter.report(0, 0)));
    if let Some(raised) = reporter.raised {
        return Err(raised);
    }
    let found = outcome?;
    let dict = PyDict::new(py);
    dict.set_item("header", header_dict(py, &found.header)?)?;
    dict.set_item("buffers", found.buffers)?;
    dict.set_item("compressed_buffers", found.compressed_buffers)?;
    dict.set_item("damaged_buffers", found.damaged_buffers)?;
    dict.set_item("truncated", found.truncated)?;
    dict.set_item("payload_bytes", found.payload_bytes)?;
    dict.set_item("payload_crc32", found.payload_crc32)?;
    dict.set_item("events", found.events)?;
    dict.set_item("by_header_type", found.by_header_type)?;
    dict.set_item("by_hook", found.by_hook)?;
    dict.set_item("by_provider", found.by_provider)?;
    dict.set_item(
        "first_event_ns",
        found
            .span
            .and_then(|(first, _)| found.header.clock.ns(first)),
    )?;
    dict.set_item(
        "last_event_ns",
        found.span.and_then(|(_, last)| found.header.clock.ns(last)),
    )?;
    dict.set_item(
        "holes",
        found
            .holes
            .iter()
            .take(1000)
            .map(|hole| (hole.first, hole.missing))
            .collect::<Vec<_>>(),
    )?;
    let buffers = found.first_buffers.iter().map(|buffer| {
        let dict = PyDict::new(py);
        dict.set_item("stored_bytes", buffer.stored_bytes)?;
        dict.set_item("payload_bytes", buffer.payload_bytes)?;
        dict.set_item("stored_crc32", buffer.stored_crc32)?;
        dict.set_item("payload_crc32", buffer.payload_crc32)?;
        Ok(dict)
    });
    dict.set_item("first_buffers", buffers.collect::<PyResult<Vec<_>>>()?)?;
    Ok(dict)
}

/// Add the .etl reader to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<EtlTrace>()?;
    module.add_function(wrap_pyfunction!(read_etl, module)?)?;
    module.add_function(wrap_pyfunction!(read_etl_header, module)?)?;
    module.add_function(wrap_pyfunction!(inspect_etl, module)?)
}
