//! Bindings of the engine crate: convert, release the interpreter, convert back.

use std::os::fd::RawFd;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use pyo3_arrow::PyRecordBatch;

use crate::outcome::Ended;
use crate::pacer::Settings;
use crate::plan::Plan;
use crate::run::{Backend, Run};

/// A run under way. See `_engine.pyi`.
#[pyclass]
pub struct Engine {
    run: Mutex<Option<Run>>,
    done: Mutex<Receiver<()>>,
}

#[pymethods]
impl Engine {
    #[new]
    #[pyo3(signature = (plan, files, *, in_flight_max, errors_max=None, drain_ns=30_000_000_000, backend="auto",
                        seed=0, spin_ns=None, batch=None))]
    #[expect(clippy::too_many_arguments, reason = "named on the Python side")]
    fn new(
        py: Python<'_>,
        plan: PyRecordBatch,
        files: Vec<RawFd>,
        in_flight_max: u32,
        errors_max: Option<u64>,
        drain_ns: i64,
        backend: &str,
        seed: u64,
        spin_ns: Option<i64>,
        batch: Option<usize>,
    ) -> PyResult<Self> {
        let backend = match backend {
            "auto" => Backend::Auto,
            "io_uring" => Backend::Uring,
            "threads" => Backend::Threads,
            other => {
                return Err(PyValueError::new_err(format!(
                    "no backend is called '{other}'"
                )));
            }
        };
        let usual = Settings::default();
        let settings = Settings {
            in_flight_max,
            errors_max,
            drain_ns,
            spin_ns: spin_ns.unwrap_or(usual.spin_ns),
            batch: batch.unwrap_or(usual.batch),
        };
        let batch = plan.into_inner();
        let (sender, done) = channel();
        let run = py.detach(|| {
            let plan = Plan::from_batch(&batch, files.len())
                .map_err(|e| PyValueError::new_err(e.to_string()))?;
            Run::start(plan, files, settings, backend, seed, sender).map_err(PyErr::from)
        })?;
        Ok(Self {
            run: Mutex::new(Some(run)),
            done: Mutex::new(done),
        })
    }

    fn wait(&self, py: Python<'_>, seconds: f64) -> bool {
        py.detach(|| {
            let done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
            done.recv_timeout(Duration::from_secs_f64(seconds.max(0.0)))
                != Err(RecvTimeoutError::Timeout)
        })
    }

    fn snapshot<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let shot = self.with_run(|run| run.progress.snapshot())?;
        let fields = PyDict::new(py);
        fields.set_item("elapsed_ns", shot.elapsed_ns)?;
        fields.set_item("due", shot.due)?;
        fields.set_item("issued", shot.issued)?;
        fields.set_item("completed", shot.completed)?;
        fields.set_item("failed", shot.failed)?;
        fields.set_item("delayed", shot.delayed)?;
        fields.set_item("bytes", shot.bytes)?;
        fields.set_item("response_ns_sum", shot.response_ns_sum)?;
        fields.set_item("service_ns_sum", shot.service_ns_sum)?;
        Ok(fields)
    }

    fn set_up<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let set_up = self.with_run(|run| run.set_up.clone())?;
        let fields = PyDict::new(py);
        fields.set_item("backend", set_up.backend)?;
        fields.set_item("reason", set_up.reason)?;
        fields.set_item("start_utc_ns", set_up.start_utc_ns)?;
        fields.set_item("in_flight_max", set_up.in_flight_max)?;
        fields.set_item("preferred", set_up.preferred)?;
        Ok(fields)
    }

    fn stop(&self) -> PyResult<()> {
        self.with_run(|run| run.progress.stop())
    }

    fn abandon(&self) -> PyResult<()> {
        self.with_run(|run| run.progress.abandon())
    }

    fn finish<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<(Bound<'py, PyAny>, &'static str, Option<String>)> {
        let run = self
            .run
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let run = run.ok_or_else(|| PyRuntimeError::new_err("the run is finished"))?;
        let (batch, ended) = py.detach(|| {
            let (outcome, plan) = run.finish();
            let ended = outcome.ended.clone();
            (outcome.into_batch(&plan), ended)
        });
        let batch = batch.map_err(|problem| PyRuntimeError::new_err(problem.to_string()))?;
        let (word, reason) = match ended {
            Ended::Normally => ("normally", None),
            Ended::Stopped => ("stopped", None),
            Ended::TooManyErrors => ("too_many_errors", None),
            Ended::Broken(reason) => ("broken", Some(reason)),
        };
        Ok((PyRecordBatch::new(batch).into_pyarrow(py)?, word, reason))
    }
}

impl Engine {
    fn with_run<T>(&self, look: impl FnOnce(&Run) -> T) -> PyResult<T> {
        let run = self.run.lock().unwrap_or_else(PoisonError::into_inner);
        run.as_ref()
            .map(look)
            .ok_or_else(|| PyRuntimeError::new_err("the run is finished"))
    }
}
