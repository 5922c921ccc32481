//! Rows of `io` as columns, written as they come: rows kept whole and turned about afterwards cross memory twice more.

use std::sync::Arc;

use arrow_array::builder::{Int32Builder, Int64Builder, UInt64Builder};
use arrow_array::types::{Int8Type, Int32Type, Int64Type, UInt32Type};
use arrow_array::{ArrayRef, ArrowPrimitiveType, PrimitiveArray, RecordBatch};
use arrow_schema::ArrowError;

use super::rows::IoRow;
use super::tables::batch;

/// See the module. Columns that are never null are plain vectors.
pub struct IoColumns {
    layer: Vec<i8>,
    op: Vec<i8>,
    issued_ns: Vec<i64>,
    completed_ns: Int64Builder,
    offset_bytes: UInt64Builder,
    size_bytes: Vec<u32>,
    device: Int32Builder,
    file: Int32Builder,
    process: Int32Builder,
    thread: Int32Builder,
    flags: Vec<u32>,
    error: Vec<i32>,
}

impl IoColumns {
    /// Room for this many rows.
    pub fn with_capacity(rows: usize) -> Self {
        Self {
            layer: Vec::with_capacity(rows),
            op: Vec::with_capacity(rows),
            issued_ns: Vec::with_capacity(rows),
            completed_ns: Int64Builder::with_capacity(rows),
            offset_bytes: UInt64Builder::with_capacity(rows),
            size_bytes: Vec::with_capacity(rows),
            device: Int32Builder::with_capacity(rows),
            file: Int32Builder::with_capacity(rows),
            process: Int32Builder::with_capacity(rows),
            thread: Int32Builder::with_capacity(rows),
            flags: Vec::with_capacity(rows),
            error: Vec::with_capacity(rows),
        }
    }

    pub fn len(&self) -> usize {
        self.layer.len()
    }

    #[inline]
    pub fn push(&mut self, row: &IoRow) {
        self.layer.push(row.layer as i8);
        self.op.push(row.op as i8);
        self.issued_ns.push(row.issued_ns);
        self.completed_ns.append_option(row.completed_ns);
        self.offset_bytes.append_option(row.offset_bytes);
        self.size_bytes.push(row.size_bytes);
        self.device.append_option(row.device);
        self.file.append_option(row.file);
        self.process.append_option(row.process);
        self.thread.append_option(row.thread);
        self.flags.push(row.flags);
        self.error.push(row.error);
    }

    /// The rows as a batch of the recording's `io`.
    pub fn finish(mut self) -> Result<RecordBatch, ArrowError> {
        batch(vec![
            ("layer", whole::<Int8Type>(self.layer)),
            ("op", whole::<Int8Type>(self.op)),
            ("issued_ns", whole::<Int64Type>(self.issued_ns)),
            ("completed_ns", Arc::new(self.completed_ns.finish())),
            ("offset_bytes", Arc::new(self.offset_bytes.finish())),
            ("size_bytes", whole::<UInt32Type>(self.size_bytes)),
            ("device_id", Arc::new(self.device.finish())),
            ("file_id", Arc::new(self.file.finish())),
            ("process_id", Arc::new(self.process.finish())),
            ("thread_id", Arc::new(self.thread.finish())),
            ("flags", whole::<UInt32Type>(self.flags)),
            ("error", whole::<Int32Type>(self.error)),
        ])
    }
}

fn whole<T: ArrowPrimitiveType>(values: Vec<T::Native>) -> ArrayRef {
    Arc::new(PrimitiveArray::<T>::new(values.into(), None))
}
