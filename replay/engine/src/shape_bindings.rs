//! Bindings of `shape` and `touched`.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, UInt8Type};
use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use pyo3_arrow::PyRecordBatch;

use crate::shape::{self, Columns};
use crate::touched::{self, Stretch};

/// See `_engine.pyi`.
#[pyclass]
pub struct Shape {
    counts: shape::Shape,
}

#[pymethods]
impl Shape {
    #[new]
    fn new(stretches_max: usize) -> Self {
        Self {
            counts: shape::Shape::new(stretches_max),
        }
    }

    fn add(&mut self, py: Python<'_>, rows: PyRecordBatch) -> PyResult<()> {
        let batch = rows.into_inner();
        let columns = Columns {
            at_ns: numbers(&batch, "at_ns")?,
            space: numbers(&batch, "space")?,
            offset_bytes: numbers(&batch, "offset_bytes")?,
            size_bytes: numbers(&batch, "size_bytes")?,
            transfers: batch
                .column_by_name("transfers")
                .and_then(|column| column.as_primitive_opt::<UInt8Type>())
                .ok_or_else(|| missing("transfers"))?
                .values(),
            medium: match batch.column_by_name("medium") {
                Some(_) => Some(numbers(&batch, "medium")?),
                None => None,
            },
        };
        if py.detach(|| self.counts.add(&columns)) {
            Ok(())
        } else {
            Err(PyValueError::new_err(format!(
                "more than {} address spaces",
                shape::SPACES_MAX
            )))
        }
    }

    fn counts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let counts = &self.counts;
        let fields = PyDict::new(py);
        fields.set_item("ios", counts.count)?;
        fields.set_item("transfers", counts.transfers)?;
        fields.set_item("moved_bytes", counts.moved_bytes)?;
        fields.set_item("first_ns", counts.first_ns)?;
        fields.set_item("last_ns", counts.last_ns)?;
        fields.set_item("square_ns2", counts.square_ns2)?;
        fields.set_item("follows", counts.follows)?;
        fields.set_item("most", counts.most().to_vec())?;
        Ok(fields)
    }

    fn spaces(&self) -> Vec<i64> {
        self.counts.spaces.clone()
    }

    fn stretches<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let batch = py.detach(|| batch_of(self.counts.touched.stretches()))?;
        PyRecordBatch::new(batch).into_pyarrow(py)
    }
}

/// See `_engine.pyi`.
#[pyclass]
pub struct Touched {
    touched: touched::Touched,
}

#[pymethods]
impl Touched {
    #[new]
    fn new(stretches_max: usize) -> Self {
        Self {
            touched: touched::Touched::new(stretches_max),
        }
    }

    fn add(&mut self, py: Python<'_>, transfers: PyRecordBatch) -> PyResult<()> {
        let batch = transfers.into_inner();
        let slot = numbers(&batch, "slot")?;
        let offset_bytes = numbers(&batch, "offset_bytes")?;
        let size_bytes = numbers(&batch, "size_bytes")?;
        py.detach(|| {
            for row in 0..slot.len() {
                self.touched
                    .add(slot[row], offset_bytes[row], size_bytes[row]);
            }
        });
        Ok(())
    }

    fn stretches<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let batch = py.detach(|| batch_of(self.touched.stretches()))?;
        PyRecordBatch::new(batch).into_pyarrow(py)
    }
}

fn numbers<'a>(batch: &'a RecordBatch, name: &'static str) -> PyResult<&'a [i64]> {
    batch
        .column_by_name(name)
        .and_then(|column| column.as_primitive_opt::<Int64Type>())
        .map(|column| &column.values()[..])
        .ok_or_else(|| missing(name))
}

fn missing(name: &str) -> PyErr {
    PyValueError::new_err(format!("no column {name} of the right type"))
}

fn batch_of(stretches: &[Stretch]) -> PyResult<RecordBatch> {
    let starts = Int64Array::from_iter_values(stretches.iter().map(|stretch| stretch.0));
    let ends = Int64Array::from_iter_values(stretches.iter().map(|stretch| stretch.1));
    let columns: [(&str, ArrayRef); 2] = [("start", Arc::new(starts)), ("end", Arc::new(ends))];
    RecordBatch::try_from_iter(columns)
        .map_err(|problem| PyRuntimeError::new_err(problem.to_string()))
}
