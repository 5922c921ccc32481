//! Time as a value that can be replaced: nanoseconds from the start of the run.

#[cfg_attr(target_os = "linux", path = "clock/linux.rs")]
#[cfg_attr(windows, path = "clock/windows.rs")]
mod system;
#[cfg(any(windows, test))]
mod ticks;

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

#[cfg(target_os = "linux")]
pub(crate) use system::monotonic_ns;
pub use system::processor_time_ns;

/// What the pacer asks of a clock.
pub trait Clock {
    /// Nanoseconds since the run's start; negative before it.
    fn now_ns(&self) -> i64;
    /// Pass a moment, at most until `until_ns`, without giving up the processor.
    fn relax(&self, until_ns: i64);
    /// Pass a moment, at most until `until_ns`, and let whoever waits for this processor have it.
    fn give_way(&self, until_ns: i64) {
        self.relax(until_ns);
    }
    /// Whether time passes only where the pacer lets it.
    fn stands_still(&self) -> bool {
        false
    }
}

/// The system's monotonic clock, from an instant that is set when everything is ready.
#[derive(Clone, Debug, Default)]
pub struct MonotonicClock {
    zero_ns: Arc<AtomicI64>,
}

impl MonotonicClock {
    /// A clock that reads 0 in `lead_ns` from now.
    #[must_use]
    pub fn starting_in(lead_ns: i64) -> Self {
        let clock = Self::default();
        clock.start_in(lead_ns);
        clock
    }

    /// Let this clock and its copies read 0 in `lead_ns` from now.
    pub fn start_in(&self, lead_ns: i64) {
        self.zero_ns
            .store(system::monotonic_ns() + lead_ns, Relaxed);
    }

    /// Let this clock and its copies read 0 when the system's monotonic clock reads `at_ns`.
    pub fn start_at(&self, at_ns: i64) {
        self.zero_ns.store(at_ns, Relaxed);
    }

    /// What the system's monotonic clock reads at this clock's 0.
    #[must_use]
    pub fn zero_ns(&self) -> i64 {
        self.zero_ns.load(Relaxed)
    }

    /// UTC in nanoseconds since 1970 at this clock's 0, as the system's wall clock has it now.
    #[must_use]
    pub fn zero_utc_ns(&self) -> i64 {
        system::utc_ns() - self.now_ns()
    }
}

impl Clock for MonotonicClock {
    fn now_ns(&self) -> i64 {
        system::monotonic_ns() - self.zero_ns.load(Relaxed)
    }

    fn relax(&self, _until_ns: i64) {
        std::hint::spin_loop();
    }

    fn give_way(&self, _until_ns: i64) {
        std::thread::yield_now();
    }
}

/// Simulated time, shared by the fake clock and the fake device.
#[derive(Clone, Debug)]
pub struct FakeClock {
    now_ns: Rc<Cell<i64>>,
    /// When the fake device completes something next.
    pub next_event_ns: Rc<Cell<i64>>,
}

impl FakeClock {
    /// A clock that reads `now_ns` and stands still until told otherwise.
    #[must_use]
    pub fn at(now_ns: i64) -> Self {
        Self {
            now_ns: Rc::new(Cell::new(now_ns)),
            next_event_ns: Rc::new(Cell::new(i64::MAX)),
        }
    }

    /// Move to `until_ns`, or to the device's next completion if that comes first; never backwards.
    pub fn advance(&self, until_ns: i64) {
        self.now_ns.set(
            until_ns
                .min(self.next_event_ns.get())
                .max(self.now_ns.get()),
        );
    }
}

impl Clock for FakeClock {
    fn now_ns(&self) -> i64 {
        self.now_ns.get()
    }

    fn relax(&self, until_ns: i64) {
        self.advance(until_ns);
    }

    fn stands_still(&self) -> bool {
        true
    }
}
