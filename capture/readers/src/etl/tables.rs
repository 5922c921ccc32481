//! A resolved trace as Arrow record batches of the recording's tables. Words are positions in the format's word lists.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, BooleanArray, Int8Array, Int32Array, Int64Array, RecordBatch, StringArray,
    UInt32Array, UInt64Array,
};
use arrow_schema::ArrowError;

use super::facts::{Disk, Partition};
use super::trace::{DeviceRow, IoRow, Trace};

const LAYER_BLOCK: i8 = 2;
const KIND_DISK: i8 = 0;
const KIND_PARTITION: i8 = 1;

fn batch(columns: Vec<(&str, ArrayRef)>) -> Result<RecordBatch, ArrowError> {
    let nullable = columns.into_iter().map(|(name, array)| {
        let has_nulls = array.null_count() > 0;
        (name, array, has_nulls)
    });
    RecordBatch::try_from_iter_with_nullable(nullable)
}

/// The next at most `rows` rows of `io` in order of issue; `None` after the last.
pub fn next_io(trace: &mut Trace, rows: usize) -> Result<Option<RecordBatch>, ArrowError> {
    let ios: Vec<IoRow> = std::iter::from_fn(|| trace.next_io()).take(rows).collect();
    if ios.is_empty() {
        return Ok(None);
    }
    fn column<A: FromIterator<T> + arrow_array::Array + 'static, T>(
        ios: &[IoRow],
        of: impl Fn(&IoRow) -> T,
    ) -> ArrayRef {
        Arc::new(ios.iter().map(of).collect::<A>())
    }
    batch(vec![
        (
            "layer",
            Arc::new(Int8Array::from(vec![LAYER_BLOCK; ios.len()])),
        ),
        (
            "op",
            Arc::new(Int8Array::from_iter_values(
                ios.iter().map(|io| io.op as i8),
            )),
        ),
        (
            "issued_ns",
            Arc::new(Int64Array::from_iter_values(
                ios.iter().map(|io| io.issued_ns),
            )),
        ),
        (
            "completed_ns",
            column::<Int64Array, _>(&ios, |io| io.completed_ns),
        ),
        (
            "offset_bytes",
            column::<UInt64Array, _>(&ios, |io| io.offset_bytes),
        ),
        (
            "size_bytes",
            Arc::new(UInt32Array::from_iter_values(
                ios.iter().map(|io| io.size_bytes),
            )),
        ),
        (
            "device_id",
            Arc::new(Int32Array::from_iter_values(ios.iter().map(|io| io.device))),
        ),
        ("file_id", column::<Int32Array, _>(&ios, |io| io.file)),
        ("process_id", column::<Int32Array, _>(&ios, |io| io.process)),
        ("thread_id", column::<Int32Array, _>(&ios, |io| io.thread)),
        (
            "flags",
            Arc::new(UInt32Array::from_iter_values(ios.iter().map(|io| io.flags))),
        ),
    ])
    .map(Some)
}

/// All rows of `devices`.
pub fn devices(trace: &Trace) -> Result<RecordBatch, ArrowError> {
    let rows: Vec<DeviceRow> = trace.devices().collect();
    let disk = |row: &DeviceRow| {
        if let DeviceRow::Disk(_, disk) = row {
            disk.cloned()
        } else {
            None
        }
    };
    let part = |row: &DeviceRow| {
        if let DeviceRow::Partition(_, part) = row {
            Some((*part).clone())
        } else {
            None
        }
    };
    let disks: Vec<Option<Disk>> = rows.iter().map(disk).collect();
    let parts: Vec<Option<Partition>> = rows.iter().map(part).collect();
    let named = |text: &String| (!text.is_empty()).then(|| text.clone());
    let names = rows.iter().map(|row| match row {
        DeviceRow::Disk(number, _) => format!("disk {number}"),
        DeviceRow::Partition(_, part) => format!("disk {} partition {}", part.disk, part.number),
    });
    let kinds = rows.iter().map(|row| {
        if matches!(row, DeviceRow::Disk(..)) {
            KIND_DISK
        } else {
            KIND_PARTITION
        }
    });
    let parents = rows.iter().map(|row| {
        if let DeviceRow::Partition(disk, _) = row {
            Some(*disk)
        } else {
            None
        }
    });
    let sizes = disks.iter().zip(&parts).map(|(disk, part)| {
        disk.as_ref()
            .and_then(|disk| disk.size_bytes)
            .or(part.as_ref().map(|part| part.size_bytes))
    });
    batch(vec![
        (
            "device_id",
            Arc::new(Int32Array::from_iter_values(0..rows.len() as i32)),
        ),
        ("name", Arc::new(StringArray::from_iter_values(names))),
        ("kind", Arc::new(Int8Array::from_iter_values(kinds))),
        (
            "parent_device_id",
            Arc::new(parents.collect::<Int32Array>()),
        ),
        (
            "start_bytes",
            Arc::new(
                parts
                    .iter()
                    .map(|part| part.as_ref().map(|part| part.start_bytes))
                    .collect::<UInt64Array>(),
            ),
        ),
        ("size_bytes", Arc::new(sizes.collect::<UInt64Array>())),
        (
            "logical_block_bytes",
            Arc::new(
                disks
                    .iter()
                    .map(|disk| disk.as_ref().map(|disk| disk.sector_bytes))
                    .collect::<UInt32Array>(),
            ),
        ),
        (
            "mount",
            Arc::new(
                parts
                    .iter()
                    .map(|part| part.as_ref().and_then(|part| named(&part.letter)))
                    .collect::<StringArray>(),
            ),
        ),
        (
            "filesystem",
            Arc::new(
                parts
                    .iter()
                    .map(|part| part.as_ref().and_then(|part| named(&part.filesystem)))
                    .collect::<StringArray>(),
            ),
        ),
        (
            "model",
            Arc::new(
                disks
                    .iter()
                    .map(|disk| disk.as_ref().and_then(|disk| named(&disk.model)))
                    .collect::<StringArray>(),
            ),
        ),
        (
            "write_cache",
            Arc::new(
                disks
                    .iter()
                    .map(|disk| disk.as_ref().map(|disk| disk.write_cache))
                    .collect::<BooleanArray>(),
            ),
        ),
    ])
}

/// `file_id`, `path` and `device_id` of the files from row `first` on that the I/O handed out so far went to.
pub fn files(trace: &Trace, first: usize) -> Result<RecordBatch, ArrowError> {
    let files = trace.files.get(first..).unwrap_or_default();
    batch(vec![
        (
            "file_id",
            Arc::new(Int32Array::from_iter_values(
                first as i32..(first + files.len()) as i32,
            )),
        ),
        (
            "path",
            Arc::new(StringArray::from_iter_values(
                files.iter().map(|file| &file.path),
            )),
        ),
        (
            "device_id",
            Arc::new(Int32Array::from_iter_values(
                files.iter().map(|file| file.device),
            )),
        ),
    ])
}

/// The rows of `processes` from row `first` on; handing out I/O may add some.
pub fn processes(trace: &Trace, first: usize) -> Result<RecordBatch, ArrowError> {
    let lives = trace.processes.lives.get(first..).unwrap_or_default();
    let clock = &trace.header.clock;
    batch(vec![
        (
            "process_id",
            Arc::new(Int32Array::from_iter_values(
                first as i32..(first + lives.len()) as i32,
            )),
        ),
        (
            "os_process_id",
            Arc::new(Int64Array::from_iter_values(
                lives.iter().map(|life| i64::from(life.number)),
            )),
        ),
        (
            "name",
            Arc::new(
                lives
                    .iter()
                    .map(|life| life.name.as_deref())
                    .collect::<StringArray>(),
            ),
        ),
        (
            "command_line",
            Arc::new(
                lives
                    .iter()
                    .map(|life| life.command_line.as_deref())
                    .collect::<StringArray>(),
            ),
        ),
        (
            "os_parent_process_id",
            Arc::new(
                lives
                    .iter()
                    .map(|life| life.parent.map(i64::from))
                    .collect::<Int64Array>(),
            ),
        ),
        (
            "started_ns",
            Arc::new(
                lives
                    .iter()
                    .map(|life| life.started.and_then(|ticks| clock.ns(ticks)))
                    .collect::<Int64Array>(),
            ),
        ),
        (
            "ended_ns",
            Arc::new(
                lives
                    .iter()
                    .map(|life| life.ended.and_then(|ticks| clock.ns(ticks)))
                    .collect::<Int64Array>(),
            ),
        ),
    ])
}
