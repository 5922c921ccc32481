//! Counters that the pacer keeps and anybody may read while it runs, and the two ways to stop it.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed};

/// Shared between the pacer's thread and its observers. Each counter is exact; together they may be a moment apart.
#[derive(Debug, Default)]
pub struct Progress {
    /// Time on the run's clock.
    pub elapsed_ns: AtomicI64,
    /// I/Os whose deadline has passed.
    pub due: AtomicU64,
    /// I/Os handed to the kernel.
    pub issued: AtomicU64,
    /// I/Os whose completion was seen, failed ones included.
    pub completed: AtomicU64,
    /// Completed with an error.
    pub failed: AtomicU64,
    /// Held back because too many were in flight.
    pub delayed: AtomicU64,
    /// Bytes of the I/Os that completed without error.
    pub bytes: AtomicU64,
    /// Sum of completed − intended over the completed.
    pub response_ns_sum: AtomicU64,
    /// Sum of completed − issued over the completed.
    pub service_ns_sum: AtomicU64,
    stop: AtomicBool,
    abandon: AtomicBool,
}

/// One reading of the counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields of `Progress`, read")]
pub struct Snapshot {
    pub elapsed_ns: i64,
    pub due: u64,
    pub issued: u64,
    pub completed: u64,
    pub failed: u64,
    pub delayed: u64,
    pub bytes: u64,
    pub response_ns_sum: u64,
    pub service_ns_sum: u64,
}

impl Progress {
    /// Issue nothing more, wait for what is in flight.
    pub fn stop(&self) {
        self.stop.store(true, Relaxed);
    }

    /// Do not even wait for what is in flight.
    pub fn abandon(&self) {
        self.stop();
        self.abandon.store(true, Relaxed);
    }

    /// Whether `stop` was called.
    pub fn stopping(&self) -> bool {
        self.stop.load(Relaxed)
    }

    /// Whether `abandon` was called.
    pub fn abandoning(&self) -> bool {
        self.abandon.load(Relaxed)
    }

    /// Read all counters. Completed is read before issued, so that in flight never comes out negative.
    pub fn snapshot(&self) -> Snapshot {
        let completed = self.completed.load(Relaxed);
        Snapshot {
            elapsed_ns: self.elapsed_ns.load(Relaxed),
            completed,
            issued: self.issued.load(Relaxed).max(completed),
            due: self.due.load(Relaxed),
            failed: self.failed.load(Relaxed),
            delayed: self.delayed.load(Relaxed),
            bytes: self.bytes.load(Relaxed),
            response_ns_sum: self.response_ns_sum.load(Relaxed),
            service_ns_sum: self.service_ns_sum.load(Relaxed),
        }
    }
}
