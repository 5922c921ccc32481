//! Python module `iotrace.capture._recorder`.

use pyo3::prelude::*;

/// Whether this module was built without optimisation.
#[pyfunction]
fn is_debug_build() -> bool {
    cfg!(debug_assertions)
}

#[cfg(target_os = "linux")]
pub(crate) mod linux {
    use std::path::Path;

    use iotrace_arrow::Batch;
    use pyo3::exceptions::{PyOSError, PyValueError};
    use pyo3::prelude::*;
    use pyo3::types::PyDict;

    use crate::buffers::{SessionError, clock_ahead_s};
    use crate::event::EVENTS;
    use crate::lifecycle;
    use crate::rows::DeviceIds;
    use crate::session::Session;

    #[pyclass(frozen)]
    pub struct BlockTrace {
        session: std::sync::Mutex<Option<Session>>,
    }

    impl BlockTrace {
        pub(crate) fn with<T>(&self, work: impl FnOnce(&mut Session) -> T) -> PyResult<T> {
            let mut session = self.session.lock().expect("no thread panicked");
            session
                .as_mut()
                .map(work)
                .ok_or_else(|| PyValueError::new_err("the trace is closed"))
        }
    }

    #[pymethods]
    impl BlockTrace {
        #[new]
        #[pyo3(signature = (instance, *, numbers, devices, start_ns, own_process))]
        fn new(
            py: Python<'_>,
            instance: &str,
            numbers: std::collections::HashMap<u32, usize>,
            devices: Vec<(i32, Option<i32>)>,
            start_ns: u64,
            own_process: i32,
        ) -> PyResult<Self> {
            if numbers.values().any(|&position| position >= devices.len()) {
                return Err(PyValueError::new_err("numbers lead past devices"));
            }
            let ids = devices
                .into_iter()
                .map(|(device_id, file_id)| DeviceIds { device_id, file_id })
                .collect();
            let session = py
                .detach(|| Session::open(Path::new(instance), numbers, ids, start_ns, own_process));
            Ok(Self {
                session: std::sync::Mutex::new(Some(session.map_err(to_python)?)),
            })
        }

        #[staticmethod]
        fn clock_ahead_seconds() -> i64 {
            clock_ahead_s()
        }

        #[staticmethod]
        fn event_names() -> Vec<&'static str> {
            EVENTS.iter().map(|(name, _)| *name).collect()
        }

        #[staticmethod]
        fn thread_event_names() -> Vec<(&'static str, &'static str)> {
            lifecycle::EVENTS.to_vec()
        }

        #[pyo3(signature = (timeout_ms, *, last = false))]
        fn read<'py>(
            &self,
            py: Python<'py>,
            timeout_ms: u32,
            last: bool,
        ) -> PyResult<Bound<'py, PyAny>> {
            let batch = py
                .detach(|| self.with(|session| session.read(timeout_ms, last)))?
                .map_err(to_python)?;
            Batch(batch).into_pyobject(py)
        }

        fn processes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
            let batch = self.with(|session| session.processes())?;
            Batch(batch).into_pyobject(py)
        }

        fn statistics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
            let statistics = self.with(|session| session.statistics())?;
            let (counts, totals) = (statistics.counts, statistics.totals);
            let dict = PyDict::new(py);
            for (name, value) in [
                ("events", statistics.events),
                ("events_lost", statistics.events_lost),
                ("damaged_pages", statistics.damaged_pages),
                ("unpaired_issues", counts.unpaired_issues),
                ("unpaired_completions", counts.unpaired_completions),
                ("own", counts.own),
                ("would_block", counts.would_block),
                ("ios", totals.ios),
                ("reads", totals.reads),
                ("writes", totals.writes),
                ("bytes", totals.bytes),
                ("latency_ns", totals.latency_ns),
            ] {
                dict.set_item(name, value)?;
            }
            Ok(dict)
        }

        fn ended<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
            let all = self.with(|session| session.ended().to_vec())?;
            all.iter()
                .map(|ended| {
                    let dict = PyDict::new(py);
                    for (name, value) in [
                        ("requests", ended.requests),
                        ("request_bytes", ended.request_bytes),
                        ("own_request_bytes", ended.own_request_bytes),
                        ("empty_flushes", ended.empty_flushes),
                        ("bio_bytes", ended.bio_bytes),
                        ("own_bio_bytes", ended.own_bio_bytes),
                    ] {
                        dict.set_item(name, value)?;
                    }
                    Ok(dict)
                })
                .collect()
        }

        fn close(&self) {
            *self.session.lock().expect("no thread panicked") = None;
        }
    }

    /// As Python's own kinds of error.
    pub(crate) fn to_python(problem: SessionError) -> PyErr {
        match problem {
            SessionError::Io { path, problem } => PyOSError::new_err((
                problem.raw_os_error().unwrap_or_default(),
                problem.to_string(),
                path.display().to_string(),
            )),
            SessionError::Format(problem) => PyValueError::new_err(problem.to_string()),
        }
    }
}

/// Python module.
#[pymodule]
fn _recorder(module: &Bound<'_, PyModule>) -> PyResult<()> {
    #[cfg(target_os = "linux")]
    module.add_class::<linux::BlockTrace>()?;
    #[cfg(target_os = "linux")]
    module.add_class::<crate::filesystem::bindings::FileTrace>()?;
    module.add_function(wrap_pyfunction!(is_debug_build, module)?)
}
