//! Which file the I/O of the layers below belongs to.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int8Type, Int32Type, Int64Type, UInt32Type, UInt64Type};
use arrow_array::{Array, Int32Array, RecordBatch};
use arrow_schema::ArrowError;

use super::session::FileSession;
use iotrace_block::{Layer, Op, flags};

impl FileSession {
    /// `batch`, rows of `io` of the block and device layers, with `file_id` where the file is known.
    pub fn attribute(&mut self, batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
        let column = |name: &str| {
            let found = batch.column_by_name(name);
            found.ok_or_else(|| ArrowError::SchemaError(format!("no column {name}")))
        };
        let layers = column("layer")?.as_primitive::<Int8Type>();
        let ops = column("op")?.as_primitive::<Int8Type>();
        let offsets = column("offset_bytes")?.as_primitive::<UInt64Type>();
        let sizes = column("size_bytes")?.as_primitive::<UInt32Type>();
        let devices = column("device_id")?.as_primitive::<Int32Type>();
        let processes = column("process_id")?.as_primitive::<Int32Type>();
        let threads = column("thread_id")?.as_primitive::<Int32Type>();
        let issued = column("issued_ns")?.as_primitive::<Int64Type>();
        let bits = column("flags")?.as_primitive::<UInt32Type>();
        let before = column("file_id")?.as_primitive::<Int32Type>();
        let files: Int32Array = (0..batch.num_rows())
            .map(|row| {
                let known = before.is_valid(row).then(|| before.value(row));
                if offsets.is_null(row) || devices.is_null(row) {
                    let thread = threads.is_valid(row).then(|| threads.value(row));
                    let at_ns = self.start_ns.wrapping_add(issued.value(row) as u64);
                    let file = thread.and_then(|thread| self.flushed_by(thread, at_ns));
                    return file.or(known);
                }
                let process = processes.is_valid(row).then(|| processes.value(row));
                let found = self.file_at(
                    devices.value(row),
                    offsets.value(row),
                    bits.value(row),
                    process,
                );
                let transfers =
                    ops.value(row) == Op::Read as i8 || ops.value(row) == Op::Write as i8;
                if layers.value(row) == Layer::Block as i8 && transfers {
                    let bytes = u64::from(sizes.value(row));
                    self.statistics.ios += 1;
                    self.statistics.bytes += bytes;
                    if found.is_some() {
                        self.statistics.attributed_ios += 1;
                        self.statistics.attributed_bytes += bytes;
                    }
                }
                found.or(known)
            })
            .collect();
        let index = batch.schema().index_of("file_id")?;
        let mut columns = batch.columns().to_vec();
        columns[index] = Arc::new(files);
        RecordBatch::try_new(batch.schema(), columns)
    }

    fn file_at(
        &mut self,
        device_id: i32,
        offset: u64,
        bits: u32,
        process: Option<i32>,
    ) -> Option<i32> {
        let (filesystem, owner) = self.catalogue.at(device_id, offset)?;
        let (journal, metadata) = (filesystem.journal, filesystem.metadata);
        let entry = owner.or_else(|| {
            // Not told where it lies, but by whom or as what it is written.
            let is_journal = process
                .zip(self.processes.as_ref())
                .is_some_and(|(row, all)| {
                    let all = all.lock().expect("no thread panicked");
                    all.name(row).is_some_and(|name| name.starts_with("jbd2/"))
                });
            (is_journal.then_some(journal)).or((bits & flags::METADATA != 0).then_some(metadata))
        })?;
        Some(self.catalogue.file_id(entry))
    }

    /// The file that a flush at `at_ns` was for.
    fn flushed_by(&mut self, thread: i32, at_ns: u64) -> Option<i32> {
        let ended = self.syncs.at(thread, at_ns);
        let (number, inode) = ended.or_else(|| self.calls.flushing(thread, at_ns))?;
        let position = self.catalogue.position(number)?;
        let entry = self.catalogue.of_inode(position, inode);
        Some(self.catalogue.file_id(entry))
    }
}
