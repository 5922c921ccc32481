//! Bindings of the engine crate: convert, release the interpreter, convert back.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arrow_array::types::Int64Type;
use iotrace_arrow::Batch;
use iotrace_load::distribution::Distribution;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::backend::{Backend, Wish};
use crate::device::RawFile;
use crate::device::simulated::{Law, Service};
use crate::pacer::{Pacing, Settings};
use crate::progress::{Ended, Progress};
use crate::run::{Run, SetUp};
use crate::shape_bindings::numbers_of;
use crate::tally::Tally;
use crate::trial;

/// A run. See `_engine.pyi`.
#[pyclass]
pub struct Engine {
    run: Mutex<Run>,
    progress: Arc<Progress>,
    set_up: Mutex<Option<SetUp>>,
}

#[pymethods]
impl Engine {
    #[new]
    #[pyo3(signature = (files, *, in_flight_max, read_bytes_max, write_bytes_max, paced=true, issue_for_ns=None,
                        errors_max=None, drain_ns=None, stall_ns=None, backend="auto", submitters=1, seed=0,
                        pacing="precise", batch=None, simulate=None, direct=true))]
    #[expect(clippy::too_many_arguments, reason = "named on the Python side")]
    fn new(
        files: Vec<RawFile>,
        in_flight_max: u32,
        read_bytes_max: u32,
        write_bytes_max: u32,
        paced: bool,
        issue_for_ns: Option<i64>,
        errors_max: Option<u64>,
        drain_ns: Option<i64>,
        stall_ns: Option<i64>,
        backend: &str,
        submitters: usize,
        seed: u64,
        pacing: &str,
        batch: Option<usize>,
        simulate: Option<&Bound<'_, PyDict>>,
        direct: bool,
    ) -> PyResult<Self> {
        let usual = Settings::default();
        let settings = Settings {
            in_flight_max,
            paced,
            issue_until_ns: issue_for_ns.unwrap_or(usual.issue_until_ns),
            errors_max,
            drain_ns: drain_ns.unwrap_or(usual.drain_ns),
            stall_ns: stall_ns.unwrap_or(usual.stall_ns),
            pacing: pacing_named(pacing)?,
            batch: batch.unwrap_or(usual.batch).max(1),
        };
        let wish = Wish {
            backend: backend_named(backend)?,
            in_flight_max,
            read_bytes_max,
            write_bytes_max,
            submitters,
            seed,
            direct,
        };
        let law = simulate.map(law_from).transpose()?;
        let run = Run::new(files, wish, settings, law);
        Ok(Self {
            progress: Arc::clone(&run.progress),
            run: Mutex::new(run),
            set_up: Mutex::new(None),
        })
    }

    fn offer(&self, py: Python<'_>, plan: Batch) -> PyResult<()> {
        let batch = plan.0;
        py.detach(|| self.lock().offer(batch))
            .map_err(|problem| PyValueError::new_err(problem.to_string()))
    }

    fn wanted(&self) -> u64 {
        self.lock().wanted()
    }

    fn end_plan(&self) {
        self.lock().end_plan();
    }

    #[pyo3(signature = (at_ns=None))]
    fn start(&self, py: Python<'_>, at_ns: Option<i64>) -> PyResult<()> {
        let set_up = py.detach(|| self.lock().start(at_ns))?;
        *self.set_up.lock().unwrap_or_else(PoisonError::into_inner) = Some(set_up);
        Ok(())
    }

    fn wait(&self, py: Python<'_>, seconds: f64) -> bool {
        py.detach(|| {
            self.lock()
                .wait(Duration::from_secs_f64(seconds.clamp(0.0, 1e6)))
        })
    }

    fn take<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        py.detach(|| self.lock().take())
            .map_err(|problem| PyRuntimeError::new_err(problem.to_string()))?
            .map(|batch| Batch(batch).into_pyobject(py))
            .transpose()
    }

    fn snapshot<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let shot = self.progress.snapshot();
        let fields = PyDict::new(py);
        fields.set_item("elapsed_ns", shot.elapsed_ns)?;
        fields.set_item("due", shot.due)?;
        fields.set_item("issued", shot.issued)?;
        fields.set_item("completed", shot.completed)?;
        fields.set_item("failed", shot.failed)?;
        fields.set_item("delayed", shot.delayed)?;
        fields.set_item("starved", shot.starved)?;
        fields.set_item("waits_for_room", shot.waits_for_room)?;
        fields.set_item("bytes", shot.bytes)?;
        fields.set_item("response_ns_sum", shot.response_ns_sum)?;
        fields.set_item("service_ns_sum", shot.service_ns_sum)?;
        fields.set_item("spun_ns", shot.spun_ns)?;
        Ok(fields)
    }

    fn set_up<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let set_up = self.set_up.lock().unwrap_or_else(PoisonError::into_inner);
        let set_up = set_up
            .as_ref()
            .ok_or_else(|| PyRuntimeError::new_err("the run was not started"))?;
        let fields = PyDict::new(py);
        fields.set_item("backend", set_up.backend)?;
        fields.set_item("reason", &set_up.reason)?;
        fields.set_item("unregistered", &set_up.unregistered)?;
        fields.set_item("start_utc_ns", set_up.start_utc_ns)?;
        fields.set_item("start_ns", set_up.start_ns)?;
        fields.set_item("in_flight_max", set_up.in_flight_max)?;
        fields.set_item("preferred", set_up.preferred)?;
        fields.set_item("submitters", set_up.submitters)?;
        Ok(fields)
    }

    fn stop(&self) {
        self.progress.stop();
    }

    fn abandon(&self) {
        self.progress.abandon();
    }

    fn ended<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let fields = PyDict::new(py);
        let (word, reason, target) = match self.progress.ended() {
            Ended::Normally => ("normally", None, None),
            Ended::Stopped => ("stopped", None, None),
            Ended::TooManyErrors => ("too_many_errors", None, None),
            Ended::Stalled(target) => ("stalled", None, Some(target)),
            Ended::Hung => ("hung", None, None),
            Ended::Broken(reason) => ("broken", Some(reason), None),
        };
        fields.set_item("word", word)?;
        fields.set_item("reason", reason)?;
        fields.set_item("target", target)?;
        fields.set_item("threads_left_behind", self.lock().left_behind())?;
        Ok(fields)
    }

    fn tally<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let mut run = self.lock();
        let processor_ns = run.processor_ns().to_vec();
        tally_fields(py, run.tally(), &processor_ns)
    }
}

impl Engine {
    fn lock(&self) -> MutexGuard<'_, Run> {
        self.run.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// See `_engine.pyi`.
#[pyclass]
#[derive(Default)]
pub struct Times {
    times: Distribution,
}

#[pymethods]
impl Times {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    fn add(&mut self, py: Python<'_>, times: Batch) -> PyResult<()> {
        let batch = times.0;
        let ns = numbers_of::<Int64Type>(&batch, "ns")?;
        py.detach(|| ns.iter().for_each(|&one| self.times.add(one)));
        Ok(())
    }

    fn figures<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        distribution_fields(py, &self.times)
    }
}

/// See `_engine.pyi`.
#[pyfunction]
pub fn try_waiting(py: Python<'_>, seconds: f64) -> PyResult<Bound<'_, PyDict>> {
    let length = Duration::from_secs_f64(seconds.clamp(0.0, 60.0));
    let found = py.detach(|| trial::try_waiting(length))?;
    let fields = PyDict::new(py);
    for (name, quantiles) in [
        ("lateness", found.lateness),
        ("others_beside_sleeper", found.others_beside_sleeper),
        ("others_beside_spinner", found.others_beside_spinner),
    ] {
        let [p50, p90, p99] = quantiles;
        fields.set_item(format!("{name}_ns_p50"), p50)?;
        fields.set_item(format!("{name}_ns_p90"), p90)?;
        fields.set_item(format!("{name}_ns_p99"), p99)?;
    }
    Ok(fields)
}

fn pacing_named(name: &str) -> PyResult<Pacing> {
    match name {
        "precise" => Ok(Pacing::Precise),
        "gentle" => Ok(Pacing::Gentle),
        other => Err(PyValueError::new_err(format!(
            "no pacing is called '{other}'"
        ))),
    }
}

fn backend_named(name: &str) -> PyResult<Backend> {
    match name {
        "auto" => Ok(Backend::Auto),
        "io_uring" => Ok(Backend::Uring),
        "threads" => Ok(Backend::Threads),
        "completion_port" => Ok(Backend::CompletionPort),
        other => Err(PyValueError::new_err(format!(
            "no backend is called '{other}'"
        ))),
    }
}

fn law_from(words: &Bound<'_, PyDict>) -> PyResult<Law> {
    let service: String = required(words, "service")?;
    let service_ns: i64 = optional(words, "service_ns")?.unwrap_or(0);
    let service = match service.as_str() {
        "constant" => Service::Constant(service_ns),
        "exponential" => Service::Exponential(service_ns),
        "never" => Service::Never,
        other => return Err(PyValueError::new_err(format!("no law is called '{other}'"))),
    };
    let servers: usize = optional(words, "servers")?.unwrap_or(1);
    if servers == 0 || service_ns < 0 {
        return Err(PyValueError::new_err(
            "a disk has a server and takes its time",
        ));
    }
    let sound = Law::new(servers, service);
    Ok(Law {
        fail_every: optional(words, "fail_every")?,
        stall_ns: optional(words, "stall_ns")?,
        removed_at_ns: optional(words, "removed_at_ns")?.unwrap_or(sound.removed_at_ns),
        breaks_after: optional(words, "breaks_after")?.unwrap_or(sound.breaks_after),
        hangs_after: optional(words, "hangs_after")?.unwrap_or(sound.hangs_after),
        ..sound
    })
}

fn optional<'py, T>(words: &Bound<'py, PyDict>, name: &str) -> PyResult<Option<T>>
where
    T: for<'a> FromPyObject<'a, 'py, Error = PyErr>,
{
    words
        .get_item(name)?
        .map(|value| value.extract())
        .transpose()
}

fn required<'py, T>(words: &Bound<'py, PyDict>, name: &str) -> PyResult<T>
where
    T: for<'a> FromPyObject<'a, 'py, Error = PyErr>,
{
    optional(words, name)?
        .ok_or_else(|| PyValueError::new_err(format!("a simulated disk needs '{name}'")))
}

fn tally_fields<'py>(
    py: Python<'py>,
    tally: &Tally,
    processor_ns: &[i64],
) -> PyResult<Bound<'py, PyDict>> {
    let fields = PyDict::new(py);
    fields.set_item("issued", tally.issued)?;
    fields.set_item("completed", tally.completed)?;
    fields.set_item("failed", tally.failed)?;
    fields.set_item("delayed", tally.delayed)?;
    fields.set_item("bytes", tally.bytes)?;
    let any = tally.issued > 0;
    fields.set_item("first_issued_ns", any.then_some(tally.first_issued_ns))?;
    fields.set_item("last_issued_ns", any.then_some(tally.last_issued_ns))?;
    let seen = tally.completed > 0;
    fields.set_item("last_completed_ns", seen.then_some(tally.last_completed_ns))?;
    fields.set_item("errors", tally.errors.clone())?;
    for (name, distribution) in [
        ("lateness", &tally.lateness),
        ("response", &tally.response),
        ("service", &tally.service),
        ("own_lateness", &tally.own_lateness),
        ("own_response", &tally.own_response),
    ] {
        fields.set_item(name, distribution_fields(py, distribution)?)?;
    }
    let seconds = PyList::empty(py);
    for (number, second) in tally.seconds.iter().enumerate() {
        let row = PyDict::new(py);
        row.set_item("second", number)?;
        row.set_item("issued", second.issued)?;
        row.set_item("completed", second.completed)?;
        row.set_item("failed", second.failed)?;
        row.set_item("delayed", second.delayed)?;
        row.set_item("bytes", second.bytes)?;
        row.set_item("lateness_ns_p50", second.lateness_ns_p50)?;
        row.set_item("lateness_ns_p99", second.lateness_ns_p99)?;
        row.set_item("lateness_ns_max", second.lateness_ns_max)?;
        row.set_item("processor_ns", processor_ns.get(number))?;
        seconds.append(row)?;
    }
    fields.set_item("seconds", seconds)?;
    Ok(fields)
}

fn distribution_fields<'py>(
    py: Python<'py>,
    distribution: &Distribution,
) -> PyResult<Bound<'py, PyDict>> {
    let fields = PyDict::new(py);
    fields.set_item("count", distribution.count())?;
    fields.set_item("mean_ns", distribution.mean_ns())?;
    fields.set_item("max_ns", distribution.max_ns())?;
    for (name, share) in [
        ("p50_ns", 0.5),
        ("p90_ns", 0.9),
        ("p99_ns", 0.99),
        ("p999_ns", 0.999),
    ] {
        fields.set_item(name, distribution.quantile_ns(share))?;
    }
    Ok(fields)
}
