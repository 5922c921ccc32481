//! Bindings of `shape`, and of what it counts with where that is wanted alone.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{ArrowPrimitiveType, Int32Type, Int64Type, UInt8Type};
use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use iotrace_arrow::Batch;
use iotrace_load::footprint;
use iotrace_load::sequence;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::shape::{self, Columns};

/// Bits of a place that hold the granule; above them is the slot.
const GRANULE_BITS: u32 = 44;

/// See `_engine.pyi`.
#[pyclass]
pub struct Shape {
    counts: shape::Shape,
}

#[pymethods]
impl Shape {
    #[new]
    fn new() -> Self {
        Self {
            counts: shape::Shape::default(),
        }
    }

    fn add(&mut self, py: Python<'_>, rows: Batch) -> PyResult<()> {
        let batch = rows.0;
        let columns = Columns {
            at_ns: numbers_of::<Int64Type>(&batch, "at_ns")?,
            op: numbers_of::<UInt8Type>(&batch, "op")?,
            is_log: numbers_of::<UInt8Type>(&batch, "is_log")?,
            space: numbers_of::<Int64Type>(&batch, "space")?,
            file_id: numbers_of::<Int32Type>(&batch, "file_id")?,
            offset_bytes: numbers_of::<Int64Type>(&batch, "offset_bytes")?,
            size_bytes: numbers_of::<Int64Type>(&batch, "size_bytes")?,
            medium: match batch.column_by_name("medium") {
                Some(_) => Some(numbers_of::<Int64Type>(&batch, "medium")?),
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
        let arrivals = &counts.arrivals;
        let (placed, sequential) = counts.sequences.counts();
        let fields = PyDict::new(py);
        fields.set_item("ios", counts.count)?;
        fields.set_item("first_ns", counts.first_ns)?;
        fields.set_item("last_ns", counts.last_ns)?;
        fields.set_item("moved_bytes", counts.moved_bytes)?;
        fields.set_item("span_ns", arrivals.span_ns().1 - arrivals.span_ns().0)?;
        fields.set_item("rate_per_s", arrivals.rate_per_s())?;
        fields.set_item("cv_interarrival", arrivals.coefficient_of_variation())?;
        fields.set_item("peak_to_mean", arrivals.peak_to_mean().to_vec())?;
        fields.set_item("transfers", placed)?;
        fields.set_item("sequential", sequential)?;
        fields.set_item("footprint_bytes", counts.footprint.bytes())?;
        Ok(fields)
    }

    fn spaces(&self) -> Vec<i64> {
        self.counts.spaces.clone()
    }

    fn stretches<'py>(&self, py: Python<'py>, most: usize) -> PyResult<Bound<'py, PyAny>> {
        stretches_of(py, &self.counts.footprint, most)
    }
}

/// See `_engine.pyi`.
#[pyclass]
#[derive(Default)]
pub struct Footprint {
    footprint: footprint::Footprint,
}

#[pymethods]
impl Footprint {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    fn add(&mut self, py: Python<'_>, transfers: Batch) -> PyResult<()> {
        let batch = transfers.0;
        let slot = numbers_of::<Int64Type>(&batch, "slot")?;
        let offset_bytes = numbers_of::<Int64Type>(&batch, "offset_bytes")?;
        let size_bytes = numbers_of::<Int64Type>(&batch, "size_bytes")?;
        py.detach(|| {
            for row in 0..slot.len() {
                let (offset_bytes, size_bytes) = (offset_bytes[row] as u64, size_bytes[row] as u64);
                self.footprint
                    .add(slot[row] as u32, offset_bytes, size_bytes);
            }
        });
        Ok(())
    }

    fn bytes(&self) -> u64 {
        self.footprint.bytes()
    }

    fn stretches<'py>(&self, py: Python<'py>, most: usize) -> PyResult<Bound<'py, PyAny>> {
        stretches_of(py, &self.footprint, most)
    }
}

/// See `_engine.pyi`.
#[pyclass]
#[derive(Default)]
pub struct Sequences {
    sequences: sequence::Sequences,
}

#[pymethods]
impl Sequences {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    fn add<'py>(&mut self, py: Python<'py>, transfers: Batch) -> PyResult<Bound<'py, PyBytes>> {
        let batch = transfers.0;
        let space = numbers_of::<Int64Type>(&batch, "space")?;
        let file_id = numbers_of::<Int32Type>(&batch, "file_id")?;
        let is_write = numbers_of::<UInt8Type>(&batch, "is_write")?;
        let is_log = numbers_of::<UInt8Type>(&batch, "is_log")?;
        let offset_bytes = numbers_of::<Int64Type>(&batch, "offset_bytes")?;
        let size_bytes = numbers_of::<Int64Type>(&batch, "size_bytes")?;
        let found: Vec<u8> = py.detach(|| {
            (0..space.len())
                .map(|row| {
                    let stream = sequence::Stream {
                        space: space[row],
                        file_id: file_id[row],
                        is_write: is_write[row] != 0,
                        is_log: is_log[row] != 0,
                    };
                    let (offset_bytes, size_bytes) = (offset_bytes[row], size_bytes[row]);
                    u8::from(self.sequences.add(stream, offset_bytes, size_bytes))
                })
                .collect()
        });
        Ok(PyBytes::new(py, &found))
    }
}

pub fn numbers_of<'a, T: ArrowPrimitiveType>(
    batch: &'a RecordBatch,
    name: &'static str,
) -> PyResult<&'a [T::Native]> {
    batch
        .column_by_name(name)
        .and_then(|column| column.as_primitive_opt::<T>())
        .map(|column| &column.values()[..])
        .ok_or_else(|| missing(name))
}

fn missing(name: &str) -> PyErr {
    PyValueError::new_err(format!("no column {name} of the right type"))
}

/// Stretches of all slots as places, rising; of more than `most` those nearest one another are joined.
fn stretches_of<'py>(
    py: Python<'py>,
    footprint: &footprint::Footprint,
    most: usize,
) -> PyResult<Bound<'py, PyAny>> {
    let batch = py.detach(|| {
        let mut found = Vec::new();
        // Granules may have become larger than those that places are told in.
        let times = footprint.granule_bytes() / footprint::GRANULE_BYTES;
        for (slot, granules) in (0_i64..).zip(footprint.slots()) {
            let base = slot << GRANULE_BITS;
            let of_slot = granules.stretches().into_iter();
            found.extend(
                of_slot.map(|(start, end)| {
                    (base + (start * times) as i64, base + (end * times) as i64)
                }),
            );
        }
        if found.len() > most.max(2) {
            found = joined(&found, most.max(2));
        }
        let starts = Int64Array::from_iter_values(found.iter().map(|stretch| stretch.0));
        let ends = Int64Array::from_iter_values(found.iter().map(|stretch| stretch.1));
        let columns: [(&str, ArrayRef); 2] = [("start", Arc::new(starts)), ("end", Arc::new(ends))];
        RecordBatch::try_from_iter(columns)
            .map_err(|problem| PyRuntimeError::new_err(problem.to_string()))
    })?;
    Batch(batch).into_pyobject(py)
}

/// More than `most` stretches made that few: those nearest one another are joined. Slots stay apart.
fn joined(stretches: &[(i64, i64)], most: usize) -> Vec<(i64, i64)> {
    let mut gaps: Vec<i64> = stretches
        .windows(2)
        .map(|pair| pair[1].0 - pair[0].1)
        .collect();
    let widest = *gaps.select_nth_unstable(stretches.len() - most - 1).1;
    let mut found: Vec<(i64, i64)> = Vec::with_capacity(most);
    for &(start, end) in stretches {
        match found.last_mut() {
            Some(last)
                if start - last.1 <= widest && start >> GRANULE_BITS == last.0 >> GRANULE_BITS =>
            {
                last.1 = end;
            }
            _ => found.push((start, end)),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::{GRANULE_BITS, joined};

    #[test]
    fn too_many_stretches_are_joined_and_lose_nothing() {
        // Every gap is one granule or, in the second slot, two.
        let many: Vec<(i64, i64)> = (0..9000)
            .map(|number| {
                let (slot, place) = (number / 4500, number % 4500);
                let start = (slot << GRANULE_BITS) | (place * (2 + slot));
                (start, start + 1)
            })
            .collect();
        let found = joined(&many, 5000);
        assert!(found.len() <= 5000);
        assert!(many.iter().all(|&(start, end)| {
            let at = found.partition_point(|stretch| stretch.0 <= start);
            at > 0 && end <= found[at - 1].1
        }));
        assert!(
            found
                .iter()
                .all(|one| one.0 >> GRANULE_BITS == (one.1 - 1) >> GRANULE_BITS)
        );
    }
}
