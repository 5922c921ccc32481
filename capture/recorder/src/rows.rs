//! Finished I/Os, gathered column by column into a record batch of the recording's `io` table.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow_array::types::{Int8Type, Int32Type, Int64Type, UInt32Type, UInt64Type};
use arrow_array::{ArrayRef, ArrowPrimitiveType, PrimitiveArray, RecordBatch};
use arrow_buffer::{ArrowNativeType, BooleanBufferBuilder, Buffer, NullBuffer};
use arrow_schema::ArrowError;

use iotrace_block::{Layer, Op, Row};

/// A device asked for.
#[derive(Clone, Copy, Debug)]
pub struct DeviceIds {
    /// Row of `devices`.
    pub device_id: i32,
    /// Row of `files` its I/O is attributed to.
    pub file_id: Option<i32>,
}

/// What the block layer did since the recording began; each I/O is counted once.
#[derive(Clone, Copy, Debug, Default)]
pub struct Totals {
    /// I/Os done.
    pub ios: u64,
    /// Reads among them.
    pub reads: u64,
    /// Writes among them.
    pub writes: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Sum of their latencies.
    pub latency_ns: u64,
}

/// A column with places that hold nothing, which are few or all.
#[derive(Debug, Default)]
struct Nullable<T> {
    values: Vec<T>,
    nulls: Vec<u32>,
}

impl<T: ArrowNativeType> Nullable<T> {
    fn new(values: Vec<T>) -> Self {
        Self {
            values,
            nulls: Vec::new(),
        }
    }

    #[inline]
    fn push(&mut self, value: Option<T>) {
        if value.is_none() {
            self.nulls.push(self.values.len() as u32);
        }
        self.values.push(value.unwrap_or_default());
    }

    fn null_buffer(&self) -> Option<NullBuffer> {
        let rows = self.values.len();
        if self.nulls.is_empty() {
            None
        } else if self.nulls.len() == rows {
            Some(NullBuffer::new_null(rows))
        } else {
            let mut valid = BooleanBufferBuilder::new(rows);
            valid.append_n(rows, true);
            for &row in &self.nulls {
                valid.set_bit(row as usize, false);
            }
            Some(NullBuffer::new(valid.finish()))
        }
    }
}

#[derive(Debug, Default)]
struct Columns {
    layer: Vec<i8>,
    op: Vec<i8>,
    issued_ns: Vec<i64>,
    completed_ns: Vec<i64>,
    offset_bytes: Nullable<u64>,
    size_bytes: Vec<u32>,
    device_id: Vec<i32>,
    file_id: Nullable<i32>,
    process_id: Nullable<i32>,
    thread_id: Nullable<i32>,
    flags: Vec<u32>,
    error: Vec<i32>,
}

impl Columns {
    /// For about so many rows, in the memory of `lent` where it is free again and fits.
    fn with_capacity(rows: usize, lent: Vec<Buffer>) -> Self {
        let mut lent = lent.into_iter();
        Self {
            layer: empty(rows, lent.next()),
            op: empty(rows, lent.next()),
            issued_ns: empty(rows, lent.next()),
            completed_ns: empty(rows, lent.next()),
            offset_bytes: Nullable::new(empty(rows, lent.next())),
            size_bytes: empty(rows, lent.next()),
            device_id: empty(rows, lent.next()),
            file_id: Nullable::new(empty(rows, lent.next())),
            process_id: Nullable::new(empty(rows, lent.next())),
            thread_id: Nullable::new(empty(rows, lent.next())),
            flags: empty(rows, lent.next()),
            error: empty(rows, lent.next()),
        }
    }
}

fn empty<T: ArrowNativeType>(rows: usize, lent: Option<Buffer>) -> Vec<T> {
    match lent.and_then(|buffer| buffer.into_vec::<T>().ok()) {
        Some(mut values) if values.capacity() <= 4 * rows + KEPT_ROWS => {
            values.clear();
            values
        }
        _ => Vec::with_capacity(rows),
    }
}

/// Memory for so many rows is kept however few there are.
const KEPT_ROWS: usize = 1 << 14;
/// Batches whose memory is taken back once their reader has let go of them.
const LENT_MAX: usize = 16;

/// Rows since the last batch.
///
/// Memory goes round: what the kernel hands out anew it has to clear first, page by page.
#[derive(Debug, Default)]
pub struct Rows {
    columns: Columns,
    lent: VecDeque<Vec<Buffer>>,
    /// See [`Totals`].
    pub totals: Totals,
}

impl Rows {
    /// Add one of the device or file that `ids` name. One without an end is left out.
    pub fn push(&mut self, row: &Row, ids: DeviceIds) {
        let Some(completed_ns) = row.completed_ns else {
            return;
        };
        if row.layer == Layer::Block {
            self.totals.ios += 1;
            self.totals.reads += u64::from(row.op == Op::Read);
            self.totals.writes += u64::from(row.op == Op::Write);
            self.totals.bytes += u64::from(row.size_bytes);
            self.totals.latency_ns += completed_ns.saturating_sub(row.issued_ns);
        }
        let columns = &mut self.columns;
        columns.layer.push(row.layer as i8);
        columns.op.push(row.op as i8);
        columns.issued_ns.push(row.issued_ns as i64);
        columns.completed_ns.push(completed_ns as i64);
        columns.offset_bytes.push(row.offset_bytes);
        columns.size_bytes.push(row.size_bytes);
        columns.device_id.push(ids.device_id);
        columns.file_id.push(ids.file_id);
        columns.process_id.push(row.process);
        columns.thread_id.push(row.thread);
        columns.flags.push(row.flags);
        columns.error.push(row.error);
    }

    /// All rows as a batch with times since `start_ns`; none remain.
    pub fn take_batch(&mut self, start_ns: u64) -> Result<RecordBatch, ArrowError> {
        let next = self.next_columns();
        let mut columns = std::mem::replace(&mut self.columns, next);
        for times in [&mut columns.issued_ns, &mut columns.completed_ns] {
            for time in times {
                *time = time.wrapping_sub(start_ns as i64);
            }
        }
        let mut lent = Vec::with_capacity(12);
        let lent_to = &mut lent;
        let columns: [(&str, ArrayRef); 12] = [
            ("layer", plain::<Int8Type>(columns.layer, lent_to)),
            ("op", plain::<Int8Type>(columns.op, lent_to)),
            ("issued_ns", plain::<Int64Type>(columns.issued_ns, lent_to)),
            (
                "completed_ns",
                plain::<Int64Type>(columns.completed_ns, lent_to),
            ),
            (
                "offset_bytes",
                nullable::<UInt64Type>(columns.offset_bytes, lent_to),
            ),
            (
                "size_bytes",
                plain::<UInt32Type>(columns.size_bytes, lent_to),
            ),
            ("device_id", plain::<Int32Type>(columns.device_id, lent_to)),
            ("file_id", nullable::<Int32Type>(columns.file_id, lent_to)),
            (
                "process_id",
                nullable::<Int32Type>(columns.process_id, lent_to),
            ),
            (
                "thread_id",
                nullable::<Int32Type>(columns.thread_id, lent_to),
            ),
            ("flags", plain::<UInt32Type>(columns.flags, lent_to)),
            ("error", plain::<Int32Type>(columns.error, lent_to)),
        ];
        self.lent.push_back(lent);
        RecordBatch::try_from_iter_with_nullable(
            columns
                .into_iter()
                .map(|(name, column)| (name, column, true)),
        )
    }

    /// What comes next is about as much again.
    fn next_columns(&mut self) -> Columns {
        let rows = self.columns.layer.len() * 9 / 8;
        let is_free = |lent: &Vec<Buffer>| lent.iter().all(|buffer| buffer.strong_count() == 1);
        let free = self.lent.iter().position(is_free);
        let lent = free.and_then(|index| self.lent.remove(index));
        self.lent.drain(..self.lent.len().saturating_sub(LENT_MAX));
        Columns::with_capacity(rows, lent.unwrap_or_default())
    }
}

fn plain<T: ArrowPrimitiveType>(values: Vec<T::Native>, lent: &mut Vec<Buffer>) -> ArrayRef {
    array::<T>(values, None, lent)
}

fn nullable<T: ArrowPrimitiveType>(
    column: Nullable<T::Native>,
    lent: &mut Vec<Buffer>,
) -> ArrayRef {
    let nulls = column.null_buffer();
    array::<T>(column.values, nulls, lent)
}

fn array<T: ArrowPrimitiveType>(
    values: Vec<T::Native>,
    nulls: Option<NullBuffer>,
    lent: &mut Vec<Buffer>,
) -> ArrayRef {
    let buffer = Buffer::from_vec(values);
    lent.push(buffer.clone());
    Arc::new(PrimitiveArray::<T>::new(buffer.into(), nulls))
}

#[cfg(test)]
mod tests {
    use arrow_array::cast::AsArray;

    use super::*;

    const IDS: DeviceIds = DeviceIds {
        device_id: 3,
        file_id: None,
    };

    fn row(number: u64, offset_bytes: Option<u64>) -> Row {
        Row {
            layer: Layer::Block,
            op: Op::Read,
            issued_ns: 100 + number,
            completed_ns: Some(200 + number),
            offset_bytes,
            size_bytes: 512,
            process: Some(4),
            thread: Some(5),
            flags: 6,
            error: 0,
        }
    }

    fn offsets(batch: &RecordBatch) -> Vec<Option<u64>> {
        batch["offset_bytes"]
            .as_primitive::<UInt64Type>()
            .iter()
            .collect()
    }

    #[test]
    fn batches_keep_their_rows_while_memory_goes_round() {
        let mut rows = Rows::default();
        let mut held = Vec::new();
        for round in 0..40_u64 {
            let expected: Vec<_> = (0..round % 7)
                .map(|at| (at != 2).then_some(round * at))
                .collect();
            for (number, offset) in expected.iter().enumerate() {
                rows.push(&row(number as u64, *offset), IDS);
            }
            let batch = rows.take_batch(100).unwrap();
            let issued = batch["issued_ns"].as_primitive::<Int64Type>();
            assert!(issued.iter().flatten().eq(0..(round % 7) as i64));
            assert_eq!(batch["file_id"].null_count(), expected.len());
            held.push((batch, expected));
            held.drain(..held.len().saturating_sub(3)); // let go of the older ones
            for (batch, expected) in &held {
                assert_eq!(&offsets(batch), expected);
            }
        }
        assert!(rows.lent.len() <= 4);
        assert_eq!(rows.totals.ios, (0..40).map(|round| round % 7).sum::<u64>());
    }
}
