//! A resolved trace as Arrow record batches of the recording's tables. Words are positions in the format's word lists.

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, BooleanArray, Int8Array, Int32Array, Int64Array, RecordBatch, StringArray,
    UInt32Array, UInt64Array,
};
use arrow_schema::ArrowError;

use super::trace::Trace;

const KIND_DISK: i8 = 0;
const KIND_PARTITION: i8 = 1;

/// A batch of these columns; those without nulls are declared so.
pub fn batch(columns: Vec<(&str, ArrayRef)>) -> Result<RecordBatch, ArrowError> {
    let nullable = columns.into_iter().map(|(name, array)| {
        let has_nulls = array.null_count() > 0;
        (name, array, has_nulls)
    });
    RecordBatch::try_from_iter_with_nullable(nullable)
}

/// A column of what `of` tells of each row.
fn column<A, R, T>(rows: &[R], of: impl Fn(&R) -> T) -> ArrayRef
where
    A: FromIterator<T> + Array + 'static,
{
    Arc::new(rows.iter().map(of).collect::<A>())
}

/// Ids of `count` rows from row `first` on.
fn ids(first: usize, count: usize) -> ArrayRef {
    Arc::new(Int32Array::from_iter_values(
        first as i32..(first + count) as i32,
    ))
}

/// All rows of `devices`.
pub fn devices(trace: &Trace) -> Result<RecordBatch, ArrowError> {
    let rows = trace.devices.rows();
    let kinds = rows.iter().map(|row| {
        if row.parent.is_some() {
            KIND_PARTITION
        } else {
            KIND_DISK
        }
    });
    batch(vec![
        ("device_id", ids(0, rows.len())),
        (
            "name",
            Arc::new(StringArray::from_iter_values(
                rows.iter().map(|row| &row.name),
            )),
        ),
        ("kind", Arc::new(Int8Array::from_iter_values(kinds))),
        (
            "parent_device_id",
            column::<Int32Array, _, _>(&rows, |row| row.parent),
        ),
        (
            "start_bytes",
            column::<UInt64Array, _, _>(&rows, |row| row.start_bytes),
        ),
        (
            "size_bytes",
            column::<UInt64Array, _, _>(&rows, |row| row.size_bytes),
        ),
        (
            "logical_block_bytes",
            column::<UInt32Array, _, _>(&rows, |row| row.sector_bytes),
        ),
        (
            "mount",
            column::<StringArray, _, _>(&rows, |row| row.mount.clone()),
        ),
        (
            "filesystem",
            column::<StringArray, _, _>(&rows, |row| row.filesystem.clone()),
        ),
        (
            "model",
            column::<StringArray, _, _>(&rows, |row| row.model.clone()),
        ),
        (
            "write_cache",
            column::<BooleanArray, _, _>(&rows, |row| row.write_cache),
        ),
    ])
}

/// `file_id`, `path` and `device_id` of the files from row `first` on that the I/O handed out so far went to.
pub fn files(trace: &Trace, first: usize) -> Result<RecordBatch, ArrowError> {
    let files = trace.files.get(first..).unwrap_or_default();
    batch(vec![
        ("file_id", ids(first, files.len())),
        (
            "path",
            Arc::new(StringArray::from_iter_values(
                files.iter().map(|file| &file.path),
            )),
        ),
        (
            "device_id",
            column::<Int32Array, _, _>(files, |file| file.device),
        ),
    ])
}

/// The rows of `processes` from row `first` on; handing out I/O may add some.
pub fn processes(trace: &Trace, first: usize) -> Result<RecordBatch, ArrowError> {
    let lives = trace.processes.lives.get(first..).unwrap_or_default();
    let clock = &trace.header.clock;
    batch(vec![
        ("process_id", ids(first, lives.len())),
        (
            "os_process_id",
            Arc::new(Int64Array::from_iter_values(
                lives.iter().map(|life| i64::from(life.number)),
            )),
        ),
        (
            "name",
            column::<StringArray, _, _>(lives, |life| life.name.clone()),
        ),
        (
            "os_parent_process_id",
            column::<Int64Array, _, _>(lives, |life| life.parent.map(i64::from)),
        ),
        (
            "started_ns",
            column::<Int64Array, _, _>(lives, |life| {
                life.started.and_then(|ticks| clock.ns(ticks))
            }),
        ),
        (
            "ended_ns",
            column::<Int64Array, _, _>(lives, |life| life.ended.and_then(|ticks| clock.ns(ticks))),
        ),
    ])
}
