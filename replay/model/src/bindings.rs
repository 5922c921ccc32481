//! Bindings of the model: convert, release the interpreter, convert back. See `_model.pyi`.

use std::sync::Arc;
use std::sync::{Mutex, MutexGuard, PoisonError};

use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type};
use arrow_array::{Array, ArrayRef, BooleanArray, Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use iotrace_arrow::Batch;
use iotrace_load::distribution::Distribution;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::demand::BUSIEST_SECONDS;
use crate::gate::{Bucket, Held};
use crate::simulator::{self, Arrivals, Outcome};
use crate::spec::Spec;

/// See `_model.pyi`.
#[pyclass]
pub struct Simulator {
    inner: Mutex<simulator::Simulator>,
}

#[pymethods]
impl Simulator {
    #[new]
    #[pyo3(signature = (spec, *, in_flight_max, seed=0, classes=1, keep=true))]
    fn new(
        spec: &str,
        in_flight_max: usize,
        seed: u64,
        classes: usize,
        keep: bool,
    ) -> PyResult<Self> {
        let spec: Spec = serde_json::from_str(spec).map_err(in_words)?;
        let inner = simulator::Simulator::new(&spec, in_flight_max, seed, classes, keep)
            .map_err(in_words)?;
        Ok(Self {
            inner: Mutex::new(inner),
        })
    }

    fn offer(&self, py: Python<'_>, arrivals: Batch) -> PyResult<()> {
        let batch = arrivals.0;
        py.detach(|| offer(&mut self.lock(), &batch))
    }

    fn take<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some(outcome) = py.detach(|| self.lock().take()) else {
            return Ok(None);
        };
        let batch =
            batch_of(outcome).map_err(|problem| PyRuntimeError::new_err(problem.to_string()))?;
        Batch(batch).into_pyobject(py).map(Some)
    }

    fn end(&self, py: Python<'_>) {
        py.detach(|| self.lock().end());
    }

    fn figures<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let inner = self.lock();
        let summary = &inner.summary;
        let fields = PyDict::new(py);
        fields.set_item("issued", summary.issued)?;
        fields.set_item("completed", summary.completed)?;
        fields.set_item("delayed", summary.delayed)?;
        fields.set_item("bytes", summary.bytes)?;
        fields.set_item("first_issued_ns", summary.first_issued_ns)?;
        fields.set_item("last_issued_ns", summary.last_issued_ns)?;
        fields.set_item("last_completed_ns", summary.last_completed_ns)?;
        fields.set_item("response", times_fields(py, &summary.response_of_all())?)?;
        fields.set_item("service", times_fields(py, &summary.service())?)?;
        fields.set_item("lateness", times_fields(py, &summary.lateness())?)?;
        fields.set_item("own_response", times_fields(py, &summary.own_response())?)?;
        let seconds = PyList::empty(py);
        for (number, second) in summary.seconds.iter().enumerate() {
            let row = PyDict::new(py);
            row.set_item("second", number)?;
            row.set_item("issued", second.issued)?;
            row.set_item("completed", second.completed)?;
            row.set_item("delayed", second.delayed)?;
            row.set_item("bytes", second.bytes)?;
            seconds.append(row)?;
        }
        fields.set_item("seconds", seconds)?;
        let gates = PyList::empty(py);
        let end_ns = summary.last_completed_ns.unwrap_or(0) as f64;
        for gate in &inner.gates {
            let row = held_fields(py, &gate.held)?;
            let buckets = PyList::empty(py);
            for bucket in &gate.buckets {
                buckets.append(bucket_fields(py, bucket, end_ns)?)?;
            }
            row.set_item("buckets", buckets)?;
            gates.append(row)?;
        }
        fields.set_item("gates", gates)?;
        let disks = PyList::empty(py);
        for disk in &inner.disks {
            let row = PyDict::new(py);
            row.set_item("busy_ns", disk.busy_ns)?;
            row.set_item("in_flight_max", disk.in_flight_max)?;
            row.set_item("beyond_ios", disk.beyond_ios)?;
            disks.append(row)?;
        }
        fields.set_item("disks", disks)?;
        Ok(fields)
    }

    fn count_of(&self, classes: Vec<usize>) -> u64 {
        let inner = self.lock();
        let known = classes
            .into_iter()
            .filter_map(|class| inner.summary.response.get(class));
        known.map(Distribution::count).sum()
    }

    fn response_ns_of(&self, classes: Vec<usize>, shares: Vec<f64>) -> Vec<Option<i64>> {
        let inner = self.lock();
        let mut all = Distribution::default();
        for class in classes {
            if let Some(times) = inner.summary.response.get(class) {
                all.merge(times);
            }
        }
        shares
            .into_iter()
            .map(|share| all.quantile_ns(share))
            .collect()
    }
}

impl Simulator {
    fn lock(&self) -> MutexGuard<'_, simulator::Simulator> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn in_words(problem: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(problem.to_string())
}

fn offer(inner: &mut simulator::Simulator, batch: &RecordBatch) -> PyResult<()> {
    let column = |name: &'static str| {
        let column = batch.column_by_name(name).ok_or(name)?;
        if column.null_count() > 0 {
            return Err(name);
        }
        Ok(column.as_ref())
    };
    let arrivals = (|| {
        Ok(Arrivals {
            intended_ns: column("intended_ns")?
                .as_primitive_opt::<Int64Type>()
                .ok_or("intended_ns")?
                .values(),
            offset_bytes: column("offset_bytes")?
                .as_primitive_opt::<UInt64Type>()
                .ok_or("offset_bytes")?
                .values(),
            size_bytes: column("size_bytes")?
                .as_primitive_opt::<UInt32Type>()
                .ok_or("size_bytes")?
                .values(),
            op: column("op")?
                .as_primitive_opt::<UInt8Type>()
                .ok_or("op")?
                .values(),
            volume: column("target")?
                .as_primitive_opt::<UInt16Type>()
                .ok_or("target")?
                .values(),
            class: match batch.column_by_name("class") {
                Some(_) => Some(
                    column("class")?
                        .as_primitive_opt::<UInt8Type>()
                        .ok_or("class")?
                        .values()
                        .as_ref(),
                ),
                None => None,
            },
            durable: match batch.column_by_name("durable") {
                Some(_) => Some(column("durable")?.as_boolean_opt().ok_or("durable")?),
                None => None,
            },
            after: match batch.column_by_name("after") {
                Some(_) => Some((
                    column("after")?
                        .as_primitive_opt::<UInt32Type>()
                        .ok_or("after")?
                        .values()
                        .as_ref(),
                    column("think_ns")?
                        .as_primitive_opt::<Int64Type>()
                        .ok_or("think_ns")?
                        .values()
                        .as_ref(),
                )),
                None => None,
            },
        })
    })()
    .map_err(|name: &'static str| {
        in_words(format!(
            "the arrivals have no column {name} of the right type"
        ))
    })?;
    inner.offer(&arrivals).map_err(in_words)
}

fn batch_of(outcome: Outcome) -> Result<RecordBatch, arrow_schema::ArrowError> {
    let due: Option<ArrayRef> = (!outcome.due_ns.is_empty())
        .then(|| Arc::new(Int64Array::from(outcome.due_ns)) as ArrayRef);
    let mut columns: Vec<(&str, ArrayRef)> =
        due.map(|due| ("intended_ns", due)).into_iter().collect();
    columns.extend::<[(&str, ArrayRef); 3]>([
        ("issued_ns", Arc::new(Int64Array::from(outcome.issued_ns))),
        (
            "completed_ns",
            Arc::new(Int64Array::from(outcome.completed_ns)),
        ),
        ("delayed", Arc::new(BooleanArray::from(outcome.delayed))),
    ]);
    let fields: Vec<Field> = columns
        .iter()
        .map(|(name, column)| {
            let kind: DataType = column.data_type().clone();
            Field::new(*name, kind, false)
        })
        .collect();
    RecordBatch::try_new(
        Arc::new(Schema::new(fields)),
        columns.into_iter().map(|(_, column)| column).collect(),
    )
}

fn times_fields<'py>(py: Python<'py>, times: &Distribution) -> PyResult<Bound<'py, PyDict>> {
    let fields = PyDict::new(py);
    fields.set_item("count", times.count())?;
    fields.set_item("mean_ns", times.mean_ns())?;
    fields.set_item("max_ns", times.max_ns())?;
    for (name, share) in [
        ("p50_ns", 0.5),
        ("p90_ns", 0.9),
        ("p95_ns", 0.95),
        ("p99_ns", 0.99),
        ("p999_ns", 0.999),
    ] {
        fields.set_item(name, times.quantile_ns(share))?;
    }
    Ok(fields)
}

fn held_fields<'py>(py: Python<'py>, held: &Held) -> PyResult<Bound<'py, PyDict>> {
    let fields = PyDict::new(py);
    fields.set_item("waited", held.ios)?;
    fields.set_item("wait_ns_sum", held.wait_ns)?;
    fields.set_item("wait_ns_max", held.wait_ns_max)?;
    fields.set_item("throttled_ns", held.throttled_ns)?;
    Ok(fields)
}

fn bucket_fields<'py>(
    py: Python<'py>,
    bucket: &Bucket,
    end_ns: f64,
) -> PyResult<Bound<'py, PyDict>> {
    let fields = held_fields(py, &bucket.held)?;
    fields.set_item("tokens_least", bucket.least())?;
    fields.set_item("tokens_end", bucket.tokens(end_ns))?;
    let demand = PyDict::new(py);
    demand.set_item("points", bucket.demand.points.clone())?;
    demand.set_item("step_s", bucket.demand.step_s)?;
    demand.set_item("sum", bucket.demand.sum)?;
    demand.set_item("seconds", bucket.demand.seconds())?;
    demand.set_item("busiest", bucket.demand.busiest())?;
    demand.set_item(
        "busiest_seconds",
        bucket.demand.seconds().min(BUSIEST_SECONDS),
    )?;
    fields.set_item("demand", demand)?;
    Ok(fields)
}
