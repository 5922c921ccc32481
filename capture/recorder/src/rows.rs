//! Finished I/Os, gathered column by column into a record batch of the recording's `io` table.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, Int8Array, Int32Array, Int64Array, RecordBatch, UInt32Array, UInt64Array,
};
use arrow_schema::ArrowError;

use crate::event::Op;
use crate::tracker::DeviceIds;

/// Position in the recording's word list `layer`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i8)]
pub enum Layer {
    /// A call on a file enters … returns.
    Filesystem = 1,
    /// Bio queued … done.
    Block = 2,
    /// Request issued … done.
    Device = 3,
}

/// One I/O on one layer; times on the trace clock.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    pub layer: Layer,
    pub op: Op,
    pub issued_ns: u64,
    pub completed_ns: u64,
    pub offset_bytes: Option<u64>,
    pub size_bytes: u32,
    pub ids: DeviceIds,
    pub process: Option<i32>,
    pub thread: Option<i32>,
    pub flags: u32,
    pub error: i32,
}

/// Rows since the last batch.
#[derive(Debug, Default)]
pub struct Rows(Vec<Row>);

impl Rows {
    /// Add one.
    pub fn push(&mut self, row: Row) {
        self.0.push(row);
    }

    /// The rows so far.
    #[cfg(test)]
    #[must_use]
    pub fn as_slice(&self) -> &[Row] {
        &self.0
    }

    /// All rows as a batch with times since `start_ns`; none remain.
    pub fn take_batch(&mut self, start_ns: u64) -> Result<RecordBatch, ArrowError> {
        let rows = std::mem::take(&mut self.0);
        let since_start = |time_ns: u64| time_ns.wrapping_sub(start_ns) as i64;
        let columns: [(&str, ArrayRef); 12] = [
            (
                "layer",
                Arc::new(
                    rows.iter()
                        .map(|row| Some(row.layer as i8))
                        .collect::<Int8Array>(),
                ),
            ),
            (
                "op",
                Arc::new(
                    rows.iter()
                        .map(|row| Some(row.op as i8))
                        .collect::<Int8Array>(),
                ),
            ),
            (
                "issued_ns",
                Arc::new(Int64Array::from_iter_values(
                    rows.iter().map(|row| since_start(row.issued_ns)),
                )),
            ),
            (
                "completed_ns",
                Arc::new(Int64Array::from_iter_values(
                    rows.iter().map(|row| since_start(row.completed_ns)),
                )),
            ),
            (
                "offset_bytes",
                Arc::new(
                    rows.iter()
                        .map(|row| row.offset_bytes)
                        .collect::<UInt64Array>(),
                ),
            ),
            (
                "size_bytes",
                Arc::new(UInt32Array::from_iter_values(
                    rows.iter().map(|row| row.size_bytes),
                )),
            ),
            (
                "device_id",
                Arc::new(Int32Array::from_iter_values(
                    rows.iter().map(|row| row.ids.device_id),
                )),
            ),
            (
                "file_id",
                Arc::new(
                    rows.iter()
                        .map(|row| row.ids.file_id)
                        .collect::<Int32Array>(),
                ),
            ),
            (
                "process_id",
                Arc::new(rows.iter().map(|row| row.process).collect::<Int32Array>()),
            ),
            (
                "thread_id",
                Arc::new(rows.iter().map(|row| row.thread).collect::<Int32Array>()),
            ),
            (
                "flags",
                Arc::new(UInt32Array::from_iter_values(
                    rows.iter().map(|row| row.flags),
                )),
            ),
            (
                "error",
                Arc::new(Int32Array::from_iter_values(
                    rows.iter().map(|row| row.error),
                )),
            ),
        ];
        RecordBatch::try_from_iter_with_nullable(
            columns
                .into_iter()
                .map(|(name, column)| (name, column, true)),
        )
    }
}
