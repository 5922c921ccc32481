//! Columns of `io`, row by row.

use crate::streams::{Key, Streams};

/// Stands for a time that was not seen.
pub const NEVER_NS: i64 = i64::MIN;
/// Stands for an offset that is not known.
pub const NOWHERE: i64 = -1;
/// Stands for an id that is not known.
pub const NOBODY: i32 = i32::MIN;
/// Streams there may be: a bit of their number says whether an I/O failed.
pub const STREAMS_MAX: usize = FAILED as usize;

const OFFSET_MAX: u64 = 1 << 62;
const FAILED: u32 = 1 << 31;

/// Why rows cannot be taken in.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Problem {
    /// Columns do not belong together.
    #[error("columns are of different lengths")]
    Length,
    /// A row of a stream that was not announced.
    #[error(
        "it changed while it was read: now there are I/Os of device {device:?} and file {file:?}"
    )]
    Stream {
        /// Id.
        device: Option<i32>,
        /// Id.
        file: Option<i32>,
    },
    /// A row that comes after the time for it has passed.
    #[error("an I/O issued at {0} ns lies outside the times that its row group states")]
    Late(i64),
}

/// One I/O.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Start.
    pub issued_ns: i64,
    /// End, or `NEVER_NS`.
    pub completed_ns: i64,
    /// When a replay meant to issue it, or `NEVER_NS`.
    pub intended_ns: i64,
    /// At least 0, or `NOWHERE`.
    pub offset_bytes: i64,
    /// Bytes asked for.
    pub size_bytes: u32,
    stream: u32,
}

impl Row {
    /// Number of its stream.
    #[inline]
    pub fn stream(&self) -> usize {
        (self.stream & !FAILED) as usize
    }

    /// How long it took, if it succeeded and was seen to end; at least 0.
    #[inline]
    pub fn latency_ns(&self) -> Option<i64> {
        let is_measured = self.stream & FAILED == 0 && self.completed_ns != NEVER_NS;
        is_measured.then(|| self.completed_ns.saturating_sub(self.issued_ns).max(0))
    }
}

/// Values of a column.
pub type Column<'a, N> = &'a [N];

/// Columns of `io`; those that say the same everywhere may be missing: one layer only, nothing failed, nothing intended.
pub struct Columns<'a> {
    /// Position in the vocabulary.
    pub layer: Option<Column<'a, u8>>,
    /// Position in the vocabulary.
    pub op: Column<'a, u8>,
    /// See `Row`.
    pub issued_ns: Column<'a, i64>,
    /// See `Row`.
    pub completed_ns: Column<'a, i64>,
    /// See `Row`.
    pub intended_ns: Option<Column<'a, i64>>,
    /// Unknown where no device can have it.
    pub offset_bytes: Column<'a, u64>,
    /// See `Row`.
    pub size_bytes: Column<'a, u32>,
    /// Id or `NOBODY`.
    pub device_id: Column<'a, i32>,
    /// Id or `NOBODY`.
    pub file_id: Column<'a, i32>,
    /// 0 for success, as where it is missing.
    pub error: Option<Column<'a, i32>>,
}

impl Columns<'_> {
    /// Appends the rows; none of them if there is a problem.
    pub fn decode(&self, streams: &Streams, rows: &mut Vec<Row>) -> Result<(), Problem> {
        let (count, before) = (self.issued_ns.len(), rows.len());
        if !self
            .lengths()
            .into_iter()
            .flatten()
            .all(|length| length == count)
        {
            return Err(Problem::Length);
        }
        rows.reserve(count);
        for place in 0..count {
            let key = Key {
                layer: self.layer.map_or(streams.only_layer, |layer| layer[place]),
                op: self.op[place],
                device_id: known(self.device_id[place]),
                file_id: known(self.file_id[place]),
            };
            let Some(number) = streams.number(&key) else {
                rows.truncate(before);
                let Key {
                    device_id: device,
                    file_id: file,
                    ..
                } = key;
                return Err(Problem::Stream { device, file });
            };
            let has_failed = self.error.is_some_and(|error| error[place] != 0);
            let offset_bytes = self.offset_bytes[place];
            rows.push(Row {
                issued_ns: self.issued_ns[place],
                completed_ns: self.completed_ns[place],
                intended_ns: self
                    .intended_ns
                    .map_or(NEVER_NS, |intended| intended[place]),
                offset_bytes: if offset_bytes > OFFSET_MAX {
                    NOWHERE
                } else {
                    offset_bytes as i64
                },
                size_bytes: self.size_bytes[place],
                stream: if has_failed { number | FAILED } else { number },
            });
        }
        Ok(())
    }

    fn lengths(&self) -> [Option<usize>; 10] {
        [
            self.layer.map(<[_]>::len),
            Some(self.op.len()),
            Some(self.issued_ns.len()),
            Some(self.completed_ns.len()),
            self.intended_ns.map(<[_]>::len),
            Some(self.offset_bytes.len()),
            Some(self.size_bytes.len()),
            Some(self.device_id.len()),
            Some(self.file_id.len()),
            self.error.map(<[_]>::len),
        ]
    }
}

/// An id, if it is one.
#[inline]
pub fn known(id: i32) -> Option<i32> {
    (id != NOBODY).then_some(id)
}
