//! Python class `FileTrace` of `iotrace.capture._recorder`.

use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Duration;

use iotrace_arrow::Batch;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::catalogue::Mounted;
use super::session::{FileSession, Options};
use super::sources::{Instance, sources};
use crate::bindings::linux::{BlockTrace, to_python};

/// Mount point, kernel number, type, row of `devices`, first byte and end on the disk.
type MountedArguments = (PathBuf, u32, String, i32, u64, u64);
/// Instance, group, name, device field, condition, file system.
type SourceNames = (
    &'static str,
    &'static str,
    &'static str,
    Option<&'static str>,
    Option<&'static str>,
    Option<&'static str>,
);

#[pyclass(frozen)]
pub struct FileTrace {
    session: Mutex<Option<FileSession>>,
}

impl FileTrace {
    fn with<T>(&self, work: impl FnOnce(&mut FileSession) -> T) -> PyResult<T> {
        let mut session = self.session.lock().expect("no thread panicked");
        session
            .as_mut()
            .map(work)
            .ok_or_else(|| PyValueError::new_err("the trace is closed"))
    }
}

#[pymethods]
impl FileTrace {
    #[new]
    #[pyo3(signature = (calls, changes, *, enabled, mounted, first_file_id, own_process, scan_seconds))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        py: Python<'_>,
        calls: PathBuf,
        changes: PathBuf,
        enabled: Vec<String>,
        mounted: Vec<MountedArguments>,
        first_file_id: i32,
        own_process: i32,
        scan_seconds: f64,
    ) -> PyResult<Self> {
        let scan_limit = Duration::try_from_secs_f64(scan_seconds)
            .map_err(|_| PyValueError::new_err("scan_seconds is no length of time"))?;
        let mounted = mounted
            .into_iter()
            .map(
                |(point, number, kind, device_id, start_bytes, end_bytes)| Mounted {
                    point,
                    number,
                    is_xfs: kind == "xfs",
                    device_id,
                    start_bytes,
                    end_bytes,
                },
            )
            .collect();
        let options = Options {
            calls,
            changes,
            enabled,
            mounted,
            first_file_id,
            own_process,
            scan_limit,
        };
        let session = py.detach(|| FileSession::open(options));
        Ok(Self {
            session: Mutex::new(Some(session.map_err(to_python)?)),
        })
    }

    #[staticmethod]
    fn sources() -> Vec<SourceNames> {
        sources()
            .into_iter()
            .map(|one| {
                let instance = match one.instance {
                    Instance::Calls => "calls",
                    Instance::Changes => "changes",
                };
                (
                    instance,
                    one.group,
                    one.name,
                    one.device_field,
                    one.condition,
                    one.filesystem,
                )
            })
            .collect()
    }

    fn begin(&self, blocks: &BlockTrace, start_ns: u64) -> PyResult<()> {
        let processes = blocks.with(|session| session.shared_processes())?;
        self.with(|session| session.begin(processes, start_ns))
    }

    #[pyo3(signature = (*, last = false))]
    fn read<'py>(&self, py: Python<'py>, last: bool) -> PyResult<Bound<'py, PyAny>> {
        let batch = py
            .detach(|| self.with(|session| session.read(last)))?
            .map_err(to_python)?;
        Batch(batch).into_pyobject(py)
    }

    fn attribute<'py>(&self, py: Python<'py>, batch: Batch) -> PyResult<Bound<'py, PyAny>> {
        let batch = batch.0;
        let attributed = py
            .detach(|| self.with(|session| session.attribute(&batch)))?
            .map_err(|problem| PyValueError::new_err(problem.to_string()))?;
        Batch(attributed).into_pyobject(py)
    }

    fn files<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let batch = self.with(FileSession::files)?;
        Batch(batch).into_pyobject(py)
    }

    fn statistics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let statistics = self.with(|session| session.statistics())?;
        let counts = statistics.counts;
        let dict = PyDict::new(py);
        for (name, value) in [
            ("events", statistics.events),
            ("events_lost", statistics.events_lost),
            ("damaged_pages", statistics.damaged_pages),
            ("files_scanned", statistics.files_scanned),
            ("scan_is_cut", u64::from(statistics.scan_is_cut)),
            (
                "newcomers_are_seen",
                u64::from(statistics.newcomers_are_seen),
            ),
            ("unpaired_issues", counts.unpaired_issues),
            ("unpaired_completions", counts.unpaired_completions),
            ("would_block", counts.would_block),
            ("empty", counts.empty),
            ("own", statistics.own),
            ("files", statistics.files),
            ("ios", statistics.ios),
            ("bytes", statistics.bytes),
            ("attributed_ios", statistics.attributed_ios),
            ("attributed_bytes", statistics.attributed_bytes),
        ] {
            dict.set_item(name, value)?;
        }
        Ok(dict)
    }

    fn close(&self) {
        *self.session.lock().expect("no thread panicked") = None;
    }
}
