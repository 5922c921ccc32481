//! Rows gathered into Arrow record batches of the recording's tables.

use std::sync::Arc;

use arrow_array::builder::{ArrayBuilder as _, Int64Builder, StringBuilder, UInt64Builder};
use arrow_array::{
    Array, ArrayRef, Int8Array, Int32Array, Int64Array, RecordBatch, StringArray, UInt32Array,
    UInt64Array,
};
use arrow_schema::{ArrowError, DataType, Field, Schema};

const LAYER_SQL: i8 = 0;

/// A completed I/O.
pub struct IoRow {
    pub is_write: bool,
    pub issued_ns: i64,
    pub completed_ns: Option<i64>,
    pub offset_bytes: Option<u64>,
    pub size_bytes: u32,
    pub file_id: Option<i32>,
    pub thread_id: Option<i32>,
}

/// A wait that ended.
pub struct WaitRow {
    pub at_ns: i64,
    pub wait_type: String,
    pub duration_ns: i64,
    pub signal_ns: Option<i64>,
    pub session: Option<i32>,
    pub database: Option<String>,
}

/// Something to show beside the I/O.
pub struct MarkerRow {
    at_ns: i64,
    duration_ns: Option<i64>,
    kind: &'static str,
    text: Option<String>,
}

impl MarkerRow {
    pub fn new(
        at_ns: i64,
        duration_ns: Option<i64>,
        kind: &'static str,
        text: Option<String>,
    ) -> Self {
        Self {
            at_ns,
            duration_ns,
            kind,
            text,
        }
    }
}

/// Rows of a stretch of events.
#[derive(Default)]
pub struct Batches {
    at_ns: Int64Builder,
    duration_ns: Int64Builder,
    package: StringBuilder,
    name: StringBuilder,
    sequence: UInt64Builder,
    fields: StringBuilder,
    actions: StringBuilder,
    io: Vec<IoRow>,
    waits: Vec<WaitRow>,
    markers: Vec<MarkerRow>,
}

impl Batches {
    #[expect(clippy::too_many_arguments, reason = "one for each column")]
    pub fn event(
        &mut self,
        at_ns: i64,
        duration_ns: Option<i64>,
        package: &str,
        name: &str,
        sequence: Option<u64>,
        fields: &str,
        actions: &str,
    ) {
        self.at_ns.append_value(at_ns);
        self.duration_ns.append_option(duration_ns);
        self.package.append_value(package);
        self.name.append_value(name);
        self.sequence.append_option(sequence);
        self.fields.append_value(fields);
        self.actions.append_value(actions);
    }

    pub fn io(&mut self, row: IoRow) {
        self.io.push(row);
    }

    pub fn wait(&mut self, row: WaitRow) {
        self.waits.push(row);
    }

    pub fn marker(&mut self, row: MarkerRow) {
        self.markers.push(row);
    }

    pub fn text_bytes(&self) -> usize {
        self.fields.values_slice().len() + self.actions.values_slice().len()
    }

    /// The batches that have rows, by table.
    pub fn finish(mut self) -> Result<Vec<(&'static str, RecordBatch)>, ArrowError> {
        let mut batches = Vec::new();
        if !self.at_ns.is_empty() {
            batches.push(("xevents", self.xevents()?));
        }
        if !self.io.is_empty() {
            batches.push(("io", io(&self.io)?));
        }
        if !self.waits.is_empty() {
            batches.push(("waits", waits(&self.waits)?));
        }
        if !self.markers.is_empty() {
            batches.push(("markers", markers(&self.markers)?));
        }
        Ok(batches)
    }

    fn xevents(&mut self) -> Result<RecordBatch, ArrowError> {
        let columns: [(&str, bool, ArrayRef); 7] = [
            ("at_ns", false, Arc::new(self.at_ns.finish())),
            ("duration_ns", true, Arc::new(self.duration_ns.finish())),
            ("package", false, Arc::new(self.package.finish())),
            ("name", false, Arc::new(self.name.finish())),
            ("event_sequence", true, Arc::new(self.sequence.finish())),
            ("fields", false, Arc::new(self.fields.finish())),
            ("actions", false, Arc::new(self.actions.finish())),
        ];
        batch(columns)
    }
}

/// A batch whose schema does not hang on which values happen to be null.
fn batch<const N: usize>(columns: [(&str, bool, ArrayRef); N]) -> Result<RecordBatch, ArrowError> {
    let fields: Vec<Field> = columns
        .iter()
        .map(|(name, is_nullable, array)| {
            let data_type: DataType = array.data_type().clone();
            Field::new(*name, data_type, *is_nullable)
        })
        .collect();
    let arrays = columns.into_iter().map(|(_, _, array)| array).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)
}

/// A column of what `of` tells of each row.
fn column<A, R, T>(rows: &[R], of: impl Fn(&R) -> T) -> ArrayRef
where
    A: FromIterator<T> + Array + 'static,
{
    Arc::new(rows.iter().map(of).collect::<A>())
}

fn io(rows: &[IoRow]) -> Result<RecordBatch, ArrowError> {
    batch([
        (
            "layer",
            false,
            column::<Int8Array, _, _>(rows, |_| Some(LAYER_SQL)),
        ),
        (
            "op",
            false,
            column::<Int8Array, _, _>(rows, |row| Some(i8::from(row.is_write))),
        ),
        (
            "issued_ns",
            false,
            column::<Int64Array, _, _>(rows, |row| Some(row.issued_ns)),
        ),
        (
            "completed_ns",
            true,
            column::<Int64Array, _, _>(rows, |row| row.completed_ns),
        ),
        (
            "offset_bytes",
            true,
            column::<UInt64Array, _, _>(rows, |row| row.offset_bytes),
        ),
        (
            "size_bytes",
            false,
            column::<UInt32Array, _, _>(rows, |row| Some(row.size_bytes)),
        ),
        (
            "file_id",
            true,
            column::<Int32Array, _, _>(rows, |row| row.file_id),
        ),
        (
            "thread_id",
            true,
            column::<Int32Array, _, _>(rows, |row| row.thread_id),
        ),
    ])
}

fn waits(rows: &[WaitRow]) -> Result<RecordBatch, ArrowError> {
    batch([
        (
            "at_ns",
            false,
            column::<Int64Array, _, _>(rows, |row| Some(row.at_ns)),
        ),
        (
            "wait_type",
            false,
            Arc::new(StringArray::from_iter_values(
                rows.iter().map(|row| &row.wait_type),
            )),
        ),
        (
            "duration_ns",
            false,
            column::<Int64Array, _, _>(rows, |row| Some(row.duration_ns)),
        ),
        (
            "signal_ns",
            true,
            column::<Int64Array, _, _>(rows, |row| row.signal_ns),
        ),
        (
            "session",
            true,
            column::<Int32Array, _, _>(rows, |row| row.session),
        ),
        (
            "database",
            true,
            column::<StringArray, _, _>(rows, |row| row.database.clone()),
        ),
    ])
}

fn markers(rows: &[MarkerRow]) -> Result<RecordBatch, ArrowError> {
    batch([
        (
            "at_ns",
            false,
            column::<Int64Array, _, _>(rows, |row| Some(row.at_ns)),
        ),
        (
            "duration_ns",
            true,
            column::<Int64Array, _, _>(rows, |row| row.duration_ns),
        ),
        (
            "kind",
            false,
            Arc::new(StringArray::from_iter_values(
                rows.iter().map(|row| row.kind),
            )),
        ),
        (
            "text",
            true,
            column::<StringArray, _, _>(rows, |row| row.text.clone()),
        ),
    ])
}
