//! What is to be played: one row per I/O, in order of intended time.

use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type};
use arrow_array::{Array, BooleanArray, RecordBatch};
use thiserror::Error;

/// The largest single I/O the engine carries; the kernel itself stops short of 2 GiB.
pub const SIZE_BYTES_MAX: u32 = 256 << 20;

/// What is asked of the device. The numbers are positions in the recording's word list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Transfer from the device.
    Read = 0,
    /// Transfer to the device.
    Write = 1,
    /// Make everything written so far durable.
    Flush = 2,
}

/// One I/O as a device sees it.
#[derive(Clone, Copy, Debug)]
pub struct Io {
    /// Row of the plan.
    pub row: u64,
    /// What to do.
    pub op: Op,
    /// Position in the run's list of targets.
    pub target: u16,
    /// A write that is on stable media when it completes.
    pub durable: bool,
    /// Where on the target.
    pub offset_bytes: u64,
    /// How much.
    pub size_bytes: u32,
}

/// A plan that cannot be played. All of these are defects of whoever made it.
#[derive(Debug, Error)]
pub enum PlanError {
    /// A column is missing or has another type.
    #[error("the plan has no column {0} of the right type")]
    Column(&'static str),
    /// A column has nulls.
    #[error("the plan's column {0} has nulls")]
    Nulls(&'static str),
    /// Deadlines fall.
    #[error("row {0} of the plan is due before the row in front of it")]
    Unordered(usize),
    /// An op other than read, write and flush.
    #[error("row {0} of the plan has the unknown op {1}")]
    Op(usize, u8),
    /// More than the engine carries at once, or nothing at all.
    #[error("row {0} of the plan transfers {1} bytes")]
    Size(usize, u32),
    /// A target that is not there.
    #[error("row {0} of the plan names target {1} of {2}")]
    Target(usize, u16, usize),
}

/// The columns of a plan: 24 bytes per I/O, shared with the batch they came in.
#[derive(Clone, Debug)]
pub struct Plan {
    intended_ns: arrow_array::Int64Array,
    offset_bytes: arrow_array::UInt64Array,
    size_bytes: arrow_array::UInt32Array,
    op: arrow_array::UInt8Array,
    target: arrow_array::UInt16Array,
    durable: BooleanArray,
    /// Largest read.
    pub read_bytes_max: u32,
    /// Largest write.
    pub write_bytes_max: u32,
}

macro_rules! column {
    ($batch:expr, $name:literal, $get:expr) => {{
        let array = $batch
            .column_by_name($name)
            .ok_or(PlanError::Column($name))?;
        if array.null_count() > 0 {
            return Err(PlanError::Nulls($name));
        }
        let get: fn(&dyn Array) -> Option<_> = $get;
        get(array.as_ref()).ok_or(PlanError::Column($name))?
    }};
}

impl Plan {
    /// Check a batch with the columns `intended_ns` int64, `offset_bytes` uint64, `size_bytes` uint32, `op` uint8,
    /// `target` uint16 and `durable` bool for a run on `targets` targets.
    pub fn from_batch(batch: &RecordBatch, targets: usize) -> Result<Self, PlanError> {
        let mut plan = Self {
            intended_ns: column!(batch, "intended_ns", |a| a
                .as_primitive_opt::<Int64Type>()
                .cloned()),
            offset_bytes: column!(batch, "offset_bytes", |a| a
                .as_primitive_opt::<UInt64Type>()
                .cloned()),
            size_bytes: column!(batch, "size_bytes", |a| a
                .as_primitive_opt::<UInt32Type>()
                .cloned()),
            op: column!(batch, "op", |a| a.as_primitive_opt::<UInt8Type>().cloned()),
            target: column!(batch, "target", |a| a
                .as_primitive_opt::<UInt16Type>()
                .cloned()),
            durable: column!(batch, "durable", |a| a.as_boolean_opt().cloned()),
            read_bytes_max: 0,
            write_bytes_max: 0,
        };
        let mut previous_ns = i64::MIN;
        for row in 0..plan.len() {
            let (due_ns, size_bytes, target) = (
                plan.intended_ns.value(row),
                plan.size_bytes.value(row),
                plan.target.value(row),
            );
            if due_ns < previous_ns {
                return Err(PlanError::Unordered(row));
            }
            previous_ns = due_ns;
            if usize::from(target) >= targets {
                return Err(PlanError::Target(row, target, targets));
            }
            let largest = match plan.op.value(row) {
                0 => &mut plan.read_bytes_max,
                1 => &mut plan.write_bytes_max,
                2 => continue,
                op => return Err(PlanError::Op(row, op)),
            };
            if size_bytes == 0 || size_bytes > SIZE_BYTES_MAX {
                return Err(PlanError::Size(row, size_bytes));
            }
            *largest = size_bytes.max(*largest);
        }
        Ok(plan)
    }

    /// I/Os in the plan.
    #[must_use]
    pub fn len(&self) -> usize {
        self.intended_ns.len()
    }

    /// Whether there is nothing to play.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Deadline of a row, in nanoseconds from the run's start.
    #[must_use]
    pub fn intended_ns(&self, row: usize) -> i64 {
        self.intended_ns.value(row)
    }

    /// The deadlines, to be handed on without a copy.
    #[must_use]
    pub fn intended_column(&self, rows: usize) -> arrow_array::Int64Array {
        self.intended_ns.slice(0, rows)
    }

    /// A row as a device sees it.
    #[must_use]
    pub fn io(&self, row: usize) -> Io {
        Io {
            row: row as u64,
            op: match self.op.value(row) {
                0 => Op::Read,
                1 => Op::Write,
                _ => Op::Flush,
            },
            target: self.target.value(row),
            durable: self.durable.value(row),
            offset_bytes: self.offset_bytes.value(row),
            size_bytes: self.size_bytes.value(row),
        }
    }
}
