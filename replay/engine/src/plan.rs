//! What is to be played: record batches with one row per I/O, in order of intended time.

use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type};
use arrow_array::{Array, BooleanArray, Int64Array, RecordBatch, UInt8Array, UInt16Array};
use arrow_array::{UInt32Array, UInt64Array};
use thiserror::Error;

/// The largest single I/O the engine carries; the kernel itself stops short of 2 GiB.
pub const SIZE_BYTES_MAX: u32 = 256 << 20;

/// How far back, at most, lies the row that a row waits for; and how far ahead rows are looked at.
pub const AFTER_ROWS_MAX: u32 = 1 << 20;

/// Bytes of a target whose I/Os keep their order.
const REGION_BYTES_LOG2: u32 = 26;

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
    /// A write before which everything written so far is made durable.
    pub preflush: bool,
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
    Unordered(u64),
    /// An op other than read, write and flush.
    #[error("row {0} of the plan has the unknown op {1}")]
    Op(u64, u8),
    /// More than was announced, or nothing at all.
    #[error("row {0} of the plan transfers {1} bytes")]
    Size(u64, u32),
    /// A target that is not there.
    #[error("row {0} of the plan names target {1} of {2}")]
    Target(u64, u16, usize),
    /// A row that waits for one in front of the plan's first, or too far back.
    #[error("row {0} of the plan waits for the row {1} rows earlier")]
    After(u64, u32),
    /// Rows that wait for others in one batch and no such column in another.
    #[error("only some batches of the plan have the column after")]
    Mixed,
    /// Rows that wait for others, and several submitters.
    #[error("rows of a plan wait for one another only where one submitter issues them all")]
    Shared,
}

/// What a plan may ask for.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Targets there are.
    pub targets: usize,
    /// Largest read.
    pub read_bytes_max: u32,
    /// Largest write.
    pub write_bytes_max: u32,
}

/// For whom rows wait, where they do.
#[derive(Clone, Debug)]
pub struct Dependencies {
    /// So many rows earlier; 0 for none.
    pub after: UInt32Array,
    /// Due so long after that row has completed.
    pub think_ns: Int64Array,
}

/// The columns of one batch of a plan, shared with the batch they came in.
#[derive(Clone, Debug)]
pub struct Columns {
    intended_ns: Int64Array,
    offset_bytes: UInt64Array,
    size_bytes: UInt32Array,
    op: UInt8Array,
    target: UInt16Array,
    durable: BooleanArray,
    preflush: Option<BooleanArray>,
    stream: Option<UInt16Array>,
    /// Only in plans whose rows wait for one another.
    pub dependencies: Option<Dependencies>,
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

impl Columns {
    /// Check a batch whose first row is row `first_row` of the plan, and comes after a row due at `previous_ns`.
    ///
    /// Columns: `intended_ns` int64, `offset_bytes` uint64, `size_bytes` uint32, `op` uint8, `target` uint16,
    /// `durable` bool; `preflush` bool, `stream` uint16, `after` uint32 and `think_ns` int64 where they have a meaning.
    pub fn of(
        batch: &RecordBatch,
        limits: &Limits,
        first_row: u64,
        previous_ns: i64,
    ) -> Result<Self, PlanError> {
        let dependencies = if batch.column_by_name("after").is_some() {
            Some(Dependencies {
                after: column!(batch, "after", |a| a
                    .as_primitive_opt::<UInt32Type>()
                    .cloned()),
                think_ns: column!(batch, "think_ns", |a| a
                    .as_primitive_opt::<Int64Type>()
                    .cloned()),
            })
        } else {
            None
        };
        let preflush = if batch.column_by_name("preflush").is_some() {
            Some(column!(batch, "preflush", |a| a.as_boolean_opt().cloned()))
        } else {
            None
        };
        let stream = if batch.column_by_name("stream").is_some() {
            Some(column!(batch, "stream", |a| a
                .as_primitive_opt::<UInt16Type>()
                .cloned()))
        } else {
            None
        };
        let columns = Self {
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
            preflush,
            stream,
            dependencies,
        };
        columns.check(limits, first_row, previous_ns)?;
        Ok(columns)
    }

    fn check(&self, limits: &Limits, first_row: u64, previous_ns: i64) -> Result<(), PlanError> {
        let mut previous_ns = previous_ns;
        for index in 0..self.len() {
            let row = first_row + index as u64;
            let due_ns = self.intended_ns.value(index);
            if due_ns < previous_ns {
                return Err(PlanError::Unordered(row));
            }
            previous_ns = due_ns;
            let target = self.target.value(index);
            if usize::from(target) >= limits.targets {
                return Err(PlanError::Target(row, target, limits.targets));
            }
            if let Some(dependencies) = &self.dependencies {
                let after = dependencies.after.value(index);
                if u64::from(after) > row || after > AFTER_ROWS_MAX {
                    return Err(PlanError::After(row, after));
                }
            }
            let most = match self.op.value(index) {
                0 => limits.read_bytes_max,
                1 => limits.write_bytes_max,
                2 => continue,
                op => return Err(PlanError::Op(row, op)),
            };
            let size_bytes = self.size_bytes.value(index);
            if size_bytes == 0 || size_bytes > most.min(SIZE_BYTES_MAX) {
                return Err(PlanError::Size(row, size_bytes));
            }
        }
        Ok(())
    }

    /// Rows of the batch.
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
    pub fn intended_ns(&self, index: usize) -> i64 {
        self.intended_ns.value(index)
    }

    /// Rows of which this is the same keep their order: the stream, or where there is none the region of the target.
    #[must_use]
    pub fn order_of(&self, index: usize) -> u64 {
        match self.stream.as_ref().map_or(0, |column| column.value(index)) {
            0 => {
                let region = self.offset_bytes.value(index) >> REGION_BYTES_LOG2;
                region + u64::from(self.target.value(index))
            }
            stream => u64::from(stream),
        }
    }

    /// How much a row transfers; 0 for a flush.
    #[must_use]
    pub fn size_bytes(&self, index: usize) -> u32 {
        if self.op.value(index) == Op::Flush as u8 {
            0
        } else {
            self.size_bytes.value(index)
        }
    }

    /// A row as a device sees it.
    #[must_use]
    pub fn io(&self, index: usize, first_row: u64) -> Io {
        let op = match self.op.value(index) {
            0 => Op::Read,
            1 => Op::Write,
            _ => Op::Flush,
        };
        Io {
            row: first_row + index as u64,
            op,
            target: self.target.value(index),
            durable: self.durable.value(index),
            preflush: op == Op::Write
                && self
                    .preflush
                    .as_ref()
                    .is_some_and(|column| column.value(index)),
            offset_bytes: self.offset_bytes.value(index),
            size_bytes: self.size_bytes.value(index),
        }
    }
}
