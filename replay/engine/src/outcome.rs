//! What came of a run: one row per I/O issued, in the order of the plan.
//!
//! Memory: 24 bytes per planned I/O, taken before the run starts, so that nothing is allocated while it lasts.

use std::sync::Arc;

use arrow_array::{Int32Array, Int64Array, RecordBatch, UInt32Array};
use arrow_buffer::{BooleanBuffer, NullBuffer};
use arrow_schema::{ArrowError, DataType, Field, Schema};

use crate::plan::Plan;

/// Held back because too many were in flight: the recording's `delayed` bit.
pub const FLAG_DELAYED: u32 = 0x400;

/// `completed_ns` of an I/O whose completion was not seen.
pub const NOT_COMPLETED: i64 = i64::MIN;

/// Why a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Every I/O was issued.
    Normally,
    /// Somebody asked it to stop.
    Stopped,
    /// More I/Os failed than were allowed to.
    TooManyErrors,
    /// The kernel refused to take I/Os any more, with its words.
    Broken(String),
}

/// Times and errors of the I/Os issued.
#[derive(Debug)]
pub struct Outcome {
    /// When each was handed to the kernel.
    pub issued_ns: Vec<i64>,
    /// When its completion was seen, or `NOT_COMPLETED`.
    pub completed_ns: Vec<i64>,
    /// 0 or the operating system's error.
    pub error: Vec<i32>,
    /// `FLAG_DELAYED` or 0.
    pub flags: Vec<u32>,
    /// Why it ended.
    pub ended: Ended,
}

impl Outcome {
    /// Room for `rows` I/Os.
    #[must_use]
    pub fn with_capacity(rows: usize) -> Self {
        Self {
            issued_ns: Vec::with_capacity(rows),
            completed_ns: Vec::with_capacity(rows),
            error: Vec::with_capacity(rows),
            flags: Vec::with_capacity(rows),
            ended: Ended::Normally,
        }
    }

    /// As a batch whose row n is row n of the plan; I/Os that were never issued are left out at the end.
    pub fn into_batch(self, plan: &Plan) -> Result<RecordBatch, ArrowError> {
        let rows = self.issued_ns.len();
        let seen = BooleanBuffer::collect_bool(rows, |row| self.completed_ns[row] != NOT_COMPLETED);
        let completed = Int64Array::new(self.completed_ns.into(), Some(NullBuffer::new(seen)));
        let schema = Schema::new(vec![
            Field::new("intended_ns", DataType::Int64, false),
            Field::new("issued_ns", DataType::Int64, false),
            Field::new("completed_ns", DataType::Int64, true),
            Field::new("error", DataType::Int32, false),
            Field::new("flags", DataType::UInt32, false),
        ]);
        RecordBatch::try_new(
            Arc::new(schema),
            vec![
                Arc::new(plan.intended_column(rows)),
                Arc::new(Int64Array::from(self.issued_ns)),
                Arc::new(completed),
                Arc::new(Int32Array::from(self.error)),
                Arc::new(UInt32Array::from(self.flags)),
            ],
        )
    }
}
