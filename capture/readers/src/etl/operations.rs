//! Which end belongs to which operation on a file.

use super::facts::{Operation, OperationEnd};
use crate::hashing::NumberMap;

/// A read, write or flush of a file, with its end if the trace has it.
#[derive(Debug, Clone, Copy)]
pub struct Finished {
    pub operation: Operation,
    pub end: Option<OperationEnd>,
}

/// Pairs operations and their ends by Irp as they come in order of time, the latest start winning.
pub struct Operations {
    /// Whether the trace has ends at all: without them no operation is kept waiting.
    has_ends: bool,
    open: NumberMap<u64, Operation>,
    /// Operations whose end is not in the trace, where it has ends.
    pub unended: u64,
    /// Operations that failed.
    pub failed: u64,
    /// Operations that succeeded and moved less than they were asked to.
    pub short: u64,
    /// Bytes that these did not move.
    pub short_bytes: u64,
}

impl Operations {
    pub fn new(has_ends: bool) -> Self {
        Self {
            has_ends,
            open: NumberMap::default(),
            unended: 0,
            failed: 0,
            short: 0,
            short_bytes: 0,
        }
    }

    /// An operation began. What it shows to be without an end goes to `ready`.
    pub fn begin(&mut self, operation: Operation, ready: &mut Vec<Finished>) {
        let unended = if self.has_ends {
            self.open.insert(operation.irp, operation)
        } else {
            Some(operation)
        };
        self.give_up(unended, ready);
    }

    /// An operation ended; it goes to `ready`.
    pub fn end(&mut self, end: OperationEnd, ready: &mut Vec<Finished>) {
        let Some(operation) = self.open.remove(&end.irp) else {
            return;
        };
        if operation.op.is_some() {
            self.failed += u64::from(end.status < 0);
            let missing = u64::from(operation.size).saturating_sub(end.moved);
            if end.status >= 0 && missing > 0 {
                self.short += 1;
                self.short_bytes += missing;
            }
            ready.push(Finished {
                operation,
                end: Some(end),
            });
        }
    }

    /// Nothing more comes: what is open goes to `ready`, in order of its start.
    pub fn finish(&mut self, ready: &mut Vec<Finished>) {
        let mut open: Vec<_> = std::mem::take(&mut self.open).into_values().collect();
        open.sort_by_key(|operation| (operation.ticks, operation.irp));
        for operation in open {
            self.give_up(Some(operation), ready);
        }
    }

    fn give_up(&mut self, operation: Option<Operation>, ready: &mut Vec<Finished>) {
        if let Some(operation) = operation.filter(|operation| operation.op.is_some()) {
            self.unended += u64::from(self.has_ends);
            ready.push(Finished {
                operation,
                end: None,
            });
        }
    }
}
