//! One batch of the plan on its way through the engine, with what came of each of its rows.
//!
//! Submitters write rows with relaxed atomic stores, which cost what plain ones do; the last of them to finish with a
//! chunk says so, and only then it is read. A run that left a submitter behind in the kernel reads what is there.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{
    AtomicI32, AtomicI64, AtomicU32, AtomicUsize,
    Ordering::{AcqRel, Acquire, Relaxed},
};

use arrow_array::{ArrayRef, BooleanArray, Int32Array, Int64Array, RecordBatch, make_array};
use arrow_buffer::{BooleanBuffer, NullBuffer};
use arrow_data::transform::MutableArrayData;
use arrow_schema::{ArrowError, DataType, Field, Schema};

use crate::plan::Columns;

/// Stands for a time that there is not.
pub const NEVER: i64 = i64::MIN;

/// What came of one I/O. `issued_ns` is `NEVER` until it was handed to the kernel.
#[derive(Debug)]
pub struct Row {
    /// When it was due: its deadline, or what came instead in a plan whose rows wait for one another.
    pub intended_ns: AtomicI64,
    /// When it was handed to the kernel.
    pub issued_ns: AtomicI64,
    /// When its completion was seen.
    pub completed_ns: AtomicI64,
    /// 0 or the operating system's error.
    pub error: AtomicI32,
    /// 1 if too many in flight held it back.
    pub delayed: AtomicU32,
}

impl Row {
    fn new() -> Self {
        Self {
            intended_ns: AtomicI64::new(NEVER),
            issued_ns: AtomicI64::new(NEVER),
            completed_ns: AtomicI64::new(NEVER),
            error: AtomicI32::new(0),
            delayed: AtomicU32::new(0),
        }
    }

    /// Note that it was issued.
    pub fn issue(&self, intended_ns: i64, issued_ns: i64, delayed: bool) {
        self.intended_ns.store(intended_ns, Relaxed);
        self.delayed.store(u32::from(delayed), Relaxed);
        self.issued_ns.store(issued_ns, Relaxed);
    }
}

/// A batch of the plan. 32 bytes per row beside the batch.
#[derive(Debug)]
pub struct Chunk {
    /// Row of the plan that is the first here.
    pub first_row: u64,
    /// The engine's columns.
    pub plan: Columns,
    /// Outcomes, one per row.
    pub rows: Box<[Row]>,
    /// The rows of each submitter, where there are several.
    pub shares: Vec<Vec<u32>>,
    batch: RecordBatch,
    submitters_busy: AtomicUsize,
}

impl Chunk {
    /// Share a checked batch out to `submitters`.
    #[must_use]
    pub fn new(batch: RecordBatch, plan: Columns, first_row: u64, submitters: usize) -> Self {
        let mut shares = Vec::new();
        if submitters > 1 {
            shares = vec![Vec::with_capacity(plan.len() / submitters * 2); submitters];
            for index in 0..plan.len() {
                shares[(plan.order_of(index) % submitters as u64) as usize].push(index as u32);
            }
        }
        Self {
            first_row,
            rows: (0..plan.len()).map(|_| Row::new()).collect(),
            plan,
            shares,
            batch,
            submitters_busy: AtomicUsize::new(submitters),
        }
    }

    /// A submitter has seen the last of its rows complete.
    pub fn leave(&self) {
        self.submitters_busy.fetch_sub(1, AcqRel);
    }

    /// Whether all rows have completed.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.submitters_busy.load(Acquire) == 0
    }

    /// The batch of the plan with what came of it: `intended_ns` as it really was, `issued_ns`, `completed_ns` (null:
    /// not seen), `error` and `delayed`. Rows that were never issued are left out.
    pub fn outcome(&self) -> Result<RecordBatch, ArrowError> {
        let issued: Vec<i64> = self
            .rows
            .iter()
            .map(|row| row.issued_ns.load(Acquire))
            .collect();
        let completed: Vec<i64> = self
            .rows
            .iter()
            .map(|row| row.completed_ns.load(Relaxed))
            .collect();
        let seen = NullBuffer::new(BooleanBuffer::collect_bool(completed.len(), |row| {
            completed[row] != NEVER
        }));
        let intended: Int64Array = self
            .rows
            .iter()
            .map(|row| row.intended_ns.load(Relaxed))
            .collect::<Vec<_>>()
            .into();
        let errors: Int32Array = self
            .rows
            .iter()
            .map(|row| row.error.load(Relaxed))
            .collect::<Vec<_>>()
            .into();
        let delayed = BooleanBuffer::collect_bool(self.rows.len(), |row| {
            self.rows[row].delayed.load(Relaxed) != 0
        });
        let issued_rows = runs(&issued);
        let mut fields: Vec<Field> = Vec::new();
        let mut columns: Vec<ArrayRef> = Vec::new();
        for (field, column) in self
            .batch
            .schema()
            .fields()
            .iter()
            .zip(self.batch.columns())
        {
            let column = if field.name() == "intended_ns" {
                Arc::new(intended.clone())
            } else {
                Arc::clone(column)
            };
            fields.push(field.as_ref().clone());
            columns.push(column);
        }
        for (name, column, nullable) in [
            (
                "issued_ns",
                Arc::new(Int64Array::from(issued)) as ArrayRef,
                false,
            ),
            (
                "completed_ns",
                Arc::new(Int64Array::new(completed.into(), Some(seen))),
                true,
            ),
            ("error", Arc::new(errors), false),
            ("delayed", Arc::new(BooleanArray::new(delayed, None)), false),
        ] {
            let kind: DataType = column.data_type().clone();
            fields.push(Field::new(name, kind, nullable));
            columns.push(column);
        }
        only(
            RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)?,
            &issued_rows,
        )
    }
}

/// The ranges of rows that were issued.
fn runs(issued_ns: &[i64]) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    for (row, _) in issued_ns.iter().enumerate().filter(|&(_, &at)| at != NEVER) {
        match found.last_mut() {
            Some(last) if last.end == row => last.end += 1,
            _ => found.push(row..row + 1),
        }
    }
    found
}

/// These ranges of the rows of `batch`.
fn only(batch: RecordBatch, ranges: &[Range<usize>]) -> Result<RecordBatch, ArrowError> {
    let rows = ranges.iter().map(ExactSizeIterator::len).sum();
    if rows == batch.num_rows() {
        return Ok(batch);
    }
    let columns = batch.columns().iter().map(|column| {
        let all = column.to_data();
        let mut kept = MutableArrayData::new(vec![&all], false, rows);
        for range in ranges {
            kept.try_extend(0, range.start, range.end)?;
        }
        Ok(make_array(kept.freeze()))
    });
    RecordBatch::try_new(batch.schema(), columns.collect::<Result<_, ArrowError>>()?)
}

#[cfg(test)]
mod tests {
    use arrow_array::{Array as _, StringArray};

    use super::*;

    #[test]
    fn rows_that_were_never_issued_are_left_out() {
        let text = StringArray::from(vec![Some("a"), None, Some("c"), Some("d"), Some("e")]);
        let flags = BooleanArray::from(vec![Some(true), Some(false), None, Some(true), None]);
        let batch = RecordBatch::try_from_iter_with_nullable([
            ("text", Arc::new(text) as ArrayRef, true),
            ("flags", Arc::new(flags) as ArrayRef, true),
        ])
        .unwrap();
        let kept = only(batch.clone(), &runs(&[NEVER, 7, 0, NEVER, -1])).unwrap();
        let text = StringArray::from(vec![None, Some("c"), Some("e")]);
        let flags = BooleanArray::from(vec![Some(false), None, None]);
        assert_eq!(kept.column(0).to_data(), text.to_data());
        assert_eq!(kept.column(1).to_data(), flags.to_data());
        assert_eq!(only(batch.clone(), &runs(&[0; 5])).unwrap(), batch);
        assert_eq!(only(batch, &runs(&[NEVER; 5])).unwrap().num_rows(), 0);
    }
}
