//! Linux: `CLOCK_MONOTONIC`, which neither steps nor stops, and `CLOCK_REALTIME`.

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds since some instant in the past.
pub fn monotonic_ns() -> i64 {
    read_ns(ClockId::Monotonic)
}

/// Nanoseconds since 1970.
pub fn utc_ns() -> i64 {
    read_ns(ClockId::Realtime)
}

/// Processor time that this process has taken.
#[must_use]
pub fn processor_time_ns() -> i64 {
    read_ns(ClockId::ProcessCPUTime)
}

fn read_ns(id: ClockId) -> i64 {
    let time = clock_gettime(id);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}
