//! Counters that submitters keep and anybody may read while they run, and the ways to stop them.

use std::sync::atomic::{
    AtomicBool, AtomicI64, AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use std::sync::{Mutex, PoisonError};

/// Why a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Every I/O was issued, or the time to issue them was over.
    Normally,
    /// Somebody asked it to stop.
    Stopped,
    /// More I/Os failed than were allowed to.
    TooManyErrors,
    /// A target, by its position, completed nothing for too long with I/Os in flight.
    Stalled(u16),
    /// A system call did not return for too long.
    Hung,
    /// The kernel refused to take I/Os any more, with its words.
    Broken(String),
}

/// The counters of one submitter. Each is exact; together they may be a moment apart.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Counters {
    /// Time on the run's clock.
    pub elapsed_ns: AtomicI64,
    /// Turns of its loop: proof that it lives.
    pub turns: AtomicU64,
    /// I/Os whose deadline has passed.
    pub due: AtomicU64,
    /// I/Os handed to the kernel.
    pub issued: AtomicU64,
    /// I/Os whose completion was seen, failed ones included.
    pub completed: AtomicU64,
    /// Completed with an error.
    pub failed: AtomicU64,
    /// Held back because too many were in flight, or a disk had no room left.
    pub delayed: AtomicU64,
    /// Times that it wanted the next row of the plan and had not been given it.
    pub starved: AtomicU64,
    /// Times that the kernel made it wait, because a disk had no room left.
    pub waits_for_room: AtomicU64,
    /// Bytes of the I/Os that completed without error.
    pub bytes: AtomicU64,
    /// Sum of completed − intended over the completed.
    pub response_ns_sum: AtomicU64,
    /// Sum of completed − issued over the completed.
    pub service_ns_sum: AtomicU64,
    /// Time spent spinning before deadlines.
    pub spun_ns: AtomicU64,
}

/// Shared between the submitters of a run and its observers.
#[derive(Debug)]
pub struct Progress {
    /// Of each submitter.
    pub counters: Vec<Counters>,
    /// I/Os that may still be put in flight; shared by all submitters.
    pub room: AtomicU32,
    ended: Mutex<Option<Ended>>,
    stop: AtomicBool,
    abandon: AtomicBool,
}

/// One reading of all submitters' counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields of `Counters`, read and added up")]
pub struct Snapshot {
    pub elapsed_ns: i64,
    pub due: u64,
    pub issued: u64,
    pub completed: u64,
    pub failed: u64,
    pub delayed: u64,
    pub starved: u64,
    pub waits_for_room: u64,
    pub bytes: u64,
    pub response_ns_sum: u64,
    pub service_ns_sum: u64,
    pub spun_ns: u64,
}

impl Progress {
    /// For so many submitters with so many I/Os in flight together.
    #[must_use]
    pub fn new(submitters: usize, in_flight_max: u32) -> Self {
        Self {
            counters: (0..submitters).map(|_| Counters::default()).collect(),
            room: AtomicU32::new(in_flight_max),
            ended: Mutex::new(None),
            stop: AtomicBool::new(false),
            abandon: AtomicBool::new(false),
        }
    }

    /// Issue nothing more, wait for what is in flight.
    pub fn stop(&self) {
        self.end(Ended::Stopped);
    }

    /// Do not even wait for what is in flight.
    pub fn abandon(&self) {
        self.abandon.store(true, Relaxed);
        self.stop();
    }

    /// Issue nothing more, for this reason unless there is one already.
    pub fn end(&self, reason: Ended) {
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        if ended.is_none() {
            *ended = Some(reason);
        }
        self.stop.store(true, Release);
    }

    /// Why the run ended before its plan did.
    #[must_use]
    pub fn ended(&self) -> Ended {
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        ended.clone().unwrap_or(Ended::Normally)
    }

    /// Whether nothing more is to be issued.
    pub fn stopping(&self) -> bool {
        self.stop.load(Acquire)
    }

    /// Whether `abandon` was called.
    pub fn abandoning(&self) -> bool {
        self.abandon.load(Relaxed)
    }

    /// Take up to `wanted` of the I/Os that may be put in flight.
    pub fn take_room(&self, wanted: u32) -> u32 {
        let mut room = self.room.load(Relaxed);
        loop {
            let taken = room.min(wanted);
            match self
                .room
                .compare_exchange_weak(room, room - taken, Relaxed, Relaxed)
            {
                Ok(_) => return taken,
                Err(now) => room = now,
            }
        }
    }

    /// Give some back.
    pub fn give_room(&self, many: u32) {
        if many > 0 {
            self.room.fetch_add(many, Relaxed);
        }
    }

    /// I/Os that failed so far.
    pub fn failed(&self) -> u64 {
        self.counters
            .iter()
            .map(|one| one.failed.load(Relaxed))
            .sum()
    }

    /// Read all counters. Completed is read before issued, so that in flight never comes out negative.
    pub fn snapshot(&self) -> Snapshot {
        let mut sum = Snapshot::default();
        for one in &self.counters {
            let completed = one.completed.load(Relaxed);
            sum.elapsed_ns = sum.elapsed_ns.max(one.elapsed_ns.load(Relaxed));
            sum.completed += completed;
            sum.issued += one.issued.load(Relaxed).max(completed);
            sum.due += one.due.load(Relaxed);
            sum.failed += one.failed.load(Relaxed);
            sum.delayed += one.delayed.load(Relaxed);
            sum.starved += one.starved.load(Relaxed);
            sum.waits_for_room += one.waits_for_room.load(Relaxed);
            sum.bytes += one.bytes.load(Relaxed);
            sum.response_ns_sum += one.response_ns_sum.load(Relaxed);
            sum.service_ns_sum += one.service_ns_sum.load(Relaxed);
            sum.spun_ns += one.spun_ns.load(Relaxed);
        }
        sum
    }
}
