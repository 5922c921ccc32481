//! Rows of `io` as columns. A block of rows that fits the processor's nearest cache is turned about at a time: rows kept
//! whole and turned afterwards cross memory twice more, and a value at a time asks of each column whether it has room.

use std::sync::Arc;

use arrow_array::builder::BooleanBufferBuilder;
use arrow_array::types::{Int8Type, Int32Type, Int64Type, UInt32Type, UInt64Type};
use arrow_array::{ArrayRef, ArrowPrimitiveType, PrimitiveArray, RecordBatch};
use arrow_schema::ArrowError;

use super::rows::IoRow;
use super::tables::batch;

const BLOCK_ROWS: usize = 128;

/// See the module.
pub struct IoColumns {
    block: Vec<IoRow>,
    layer: Vec<i8>,
    op: Vec<i8>,
    issued_ns: Vec<i64>,
    completed_ns: Nullable<Int64Type>,
    offset_bytes: Nullable<UInt64Type>,
    size_bytes: Vec<u32>,
    device: Nullable<Int32Type>,
    file: Nullable<Int32Type>,
    process: Nullable<Int32Type>,
    thread: Nullable<Int32Type>,
    flags: Vec<u32>,
    error: Vec<i32>,
}

impl IoColumns {
    /// Room for this many rows.
    pub fn with_capacity(rows: usize) -> Self {
        Self {
            block: Vec::with_capacity(BLOCK_ROWS.min(rows)),
            layer: Vec::with_capacity(rows),
            op: Vec::with_capacity(rows),
            issued_ns: Vec::with_capacity(rows),
            completed_ns: Nullable::with_capacity(rows),
            offset_bytes: Nullable::with_capacity(rows),
            size_bytes: Vec::with_capacity(rows),
            device: Nullable::with_capacity(rows),
            file: Nullable::with_capacity(rows),
            process: Nullable::with_capacity(rows),
            thread: Nullable::with_capacity(rows),
            flags: Vec::with_capacity(rows),
            error: Vec::with_capacity(rows),
        }
    }

    pub fn len(&self) -> usize {
        self.layer.len() + self.block.len()
    }

    #[inline]
    pub fn push(&mut self, row: IoRow) {
        if self.block.len() >= BLOCK_ROWS {
            self.turn();
        }
        self.block.push(row);
    }

    fn turn(&mut self) {
        let rows = &self.block;
        self.layer.extend(rows.iter().map(|row| row.layer as i8));
        self.op.extend(rows.iter().map(|row| row.op as i8));
        self.issued_ns.extend(rows.iter().map(|row| row.issued_ns));
        self.completed_ns.extend(rows, |row| row.completed_ns);
        self.offset_bytes.extend(rows, |row| row.offset_bytes);
        self.size_bytes
            .extend(rows.iter().map(|row| row.size_bytes));
        self.device.extend(rows, |row| row.device);
        self.file.extend(rows, |row| row.file);
        self.process.extend(rows, |row| row.process);
        self.thread.extend(rows, |row| row.thread);
        self.flags.extend(rows.iter().map(|row| row.flags));
        self.error.extend(rows.iter().map(|row| row.error));
        self.block.clear();
    }

    /// The rows as a batch of the recording's `io`.
    pub fn finish(mut self) -> Result<RecordBatch, ArrowError> {
        self.turn();
        batch(vec![
            ("layer", whole::<Int8Type>(self.layer)),
            ("op", whole::<Int8Type>(self.op)),
            ("issued_ns", whole::<Int64Type>(self.issued_ns)),
            ("completed_ns", self.completed_ns.finish()),
            ("offset_bytes", self.offset_bytes.finish()),
            ("size_bytes", whole::<UInt32Type>(self.size_bytes)),
            ("device_id", self.device.finish()),
            ("file_id", self.file.finish()),
            ("process_id", self.process.finish()),
            ("thread_id", self.thread.finish()),
            ("flags", whole::<UInt32Type>(self.flags)),
            ("error", whole::<Int32Type>(self.error)),
        ])
    }
}

/// Values of a column that may lack some.
struct Nullable<T: ArrowPrimitiveType> {
    values: Vec<T::Native>,
    /// Of each value whether it is there.
    valid: BooleanBufferBuilder,
}

impl<T: ArrowPrimitiveType> Nullable<T> {
    fn with_capacity(rows: usize) -> Self {
        Self {
            values: Vec::with_capacity(rows),
            valid: BooleanBufferBuilder::new(rows),
        }
    }

    #[inline]
    fn extend(&mut self, rows: &[IoRow], value: impl Fn(&IoRow) -> Option<T::Native>) {
        self.values
            .extend(rows.iter().map(|row| value(row).unwrap_or_default()));
        let there = rows.iter().filter(|row| value(row).is_some()).count();
        if there == 0 || there == rows.len() {
            self.valid.append_n(rows.len(), there > 0);
        } else {
            for row in rows {
                self.valid.append(value(row).is_some());
            }
        }
    }

    fn finish(mut self) -> ArrayRef {
        let valid = self.valid.finish();
        let nulls = (valid.count_set_bits() < valid.len()).then(|| valid.into());
        Arc::new(PrimitiveArray::<T>::new(self.values.into(), nulls))
    }
}

fn whole<T: ArrowPrimitiveType>(values: Vec<T::Native>) -> ArrayRef {
    Arc::new(PrimitiveArray::<T>::new(values.into(), None))
}
