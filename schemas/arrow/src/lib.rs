//! Record batches to and from Python over the Arrow C data interface, without a copy.

use std::ffi::CStr;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi};
use arrow_array::{Array, RecordBatch, RecordBatchOptions, StructArray, make_array};
use arrow_schema::{ArrowError, Schema};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyCapsule;

const SCHEMA: &CStr = c"arrow_schema";
const ARRAY: &CStr = c"arrow_array";

/// A record batch: any object with `__arrow_c_array__` as an argument, a `pyarrow.RecordBatch` as a result.
#[derive(Debug)]
pub struct Batch(pub RecordBatch);

impl<'py> FromPyObject<'_, 'py> for Batch {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let py = object.py();
        let Ok(export) = object.getattr(intern!(py, "__arrow_c_array__")) else {
            let kind = object.get_type();
            return Err(PyTypeError::new_err(format!(
                "expected a record batch, got {kind}"
            )));
        };
        let (schema, array): (Bound<'py, PyCapsule>, Bound<'py, PyCapsule>) =
            export.call0()?.extract()?;
        let schema = schema.pointer_checked(Some(SCHEMA))?.cast();
        let array = array.pointer_checked(Some(ARRAY))?.cast();
        // SAFETY: capsules of these names hold these structures, and `schema` lives until the end of this function.
        let schema: &FFI_ArrowSchema = unsafe { schema.as_ref() };
        // SAFETY: as above; the structure is taken out, and what is left is one that was released.
        let array = unsafe { FFI_ArrowArray::from_raw(array.as_ptr()) };
        // SAFETY: the exporter answers for both describing the same memory.
        let data = unsafe { from_ffi(array, schema) }.map_err(in_words)?;
        let array = make_array(data);
        let columns = array
            .as_struct_opt()
            .filter(|columns| columns.null_count() == 0)
            .ok_or_else(|| PyTypeError::new_err("expected a record batch, got an array"))?;
        let rows = RecordBatchOptions::new().with_row_count(Some(columns.len()));
        let schema = Arc::new(Schema::try_from(schema).map_err(in_words)?);
        RecordBatch::try_new_with_options(schema, columns.columns().to_vec(), &rows)
            .map(Self)
            .map_err(in_words)
    }
}

impl<'py> IntoPyObject<'py> for Batch {
    type Target = PyAny;
    type Output = Bound<'py, PyAny>;
    type Error = PyErr;

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Self::Output> {
        static RECORD_BATCH: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let schema = FFI_ArrowSchema::try_from(self.0.schema_ref().as_ref()).map_err(in_words)?;
        let array = FFI_ArrowArray::new(&StructArray::from(self.0).to_data());
        let schema = PyCapsule::new_with_value(py, schema, SCHEMA)?;
        let array = PyCapsule::new_with_value(py, array, ARRAY)?;
        RECORD_BATCH
            .import(py, "pyarrow", "RecordBatch")?
            .call_method1(intern!(py, "_import_from_c_capsule"), (schema, array))
    }
}

#[expect(clippy::needless_pass_by_value, reason = "handed to map_err")]
fn in_words(problem: ArrowError) -> PyErr {
    PyValueError::new_err(problem.to_string())
}
