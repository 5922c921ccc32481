//! A simulated disk of `c` servers and one queue, in simulated time, from one seed, with faults where they are planted.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;

use super::{Completion, Device};
use crate::clock::{Clock, FakeClock};
use crate::memory::Random;
use crate::plan::Io;

/// How long a server works on an I/O.
#[derive(Clone, Copy, Debug)]
pub enum Service {
    /// Always as long.
    Constant(i64),
    /// Exponentially distributed with this mean.
    Exponential(i64),
    /// Never ends: a dead disk.
    Never,
}

/// The disk's law, and what goes wrong with it.
#[derive(Clone, Copy, Debug)]
pub struct Law {
    /// How many I/Os are worked on at a time.
    pub servers: usize,
    /// For how long.
    pub service: Service,
    /// Every n-th I/O fails with this error.
    pub fail_every: Option<(u64, i32)>,
    /// All servers stand still from the first of these times for the second.
    pub stall_ns: Option<(i64, i64)>,
    /// From this time on every I/O fails with `ENODEV`.
    pub removed_at_ns: i64,
    /// It takes no more I/Os than so many.
    pub breaks_after: u64,
    /// The call that hands it more I/Os than so many never returns.
    pub hangs_after: u64,
}

impl Law {
    /// A sound disk.
    #[must_use]
    pub fn new(servers: usize, service: Service) -> Self {
        Self {
            servers,
            service,
            fail_every: None,
            stall_ns: None,
            removed_at_ns: i64::MAX,
            breaks_after: u64::MAX,
            hangs_after: u64::MAX,
        }
    }
}

const NO_DEVICE: i32 = 19;
/// Far enough ahead never to come, and near enough to be added to.
const FOREVER_NS: i64 = i64::MAX / 4;

/// First come, first served by whichever server is free first.
pub struct SimulatedDevice {
    clock: FakeClock,
    law: Law,
    random: Random,
    servers_free_ns: BinaryHeap<Reverse<i64>>,
    completions: BinaryHeap<Reverse<(i64, u32, i32)>>,
    /// I/Os taken.
    pub taken: u64,
    /// Most in flight at once.
    pub in_flight_max: usize,
    /// Whether `abandon` was called.
    pub abandoned: bool,
}

impl SimulatedDevice {
    /// A disk that obeys `law`.
    #[must_use]
    pub fn new(clock: &FakeClock, law: Law, seed: u64) -> Self {
        Self {
            clock: clock.clone(),
            law,
            random: Random::new(seed),
            servers_free_ns: (0..law.servers).map(|_| Reverse(i64::MIN)).collect(),
            completions: BinaryHeap::new(),
            taken: 0,
            in_flight_max: 0,
            abandoned: false,
        }
    }

    fn end_ns(&mut self, start_ns: i64) -> i64 {
        let service_ns = match self.law.service {
            Service::Constant(ns) => ns,
            Service::Exponential(mean_ns) => {
                (-self.random.unit().ln() * mean_ns as f64).round() as i64
            }
            Service::Never => FOREVER_NS,
        };
        match self.law.stall_ns {
            // What is being worked on goes on after the stall; what would begin in it begins then.
            Some((at_ns, for_ns)) if start_ns < at_ns && start_ns + service_ns > at_ns => {
                start_ns + service_ns + for_ns
            }
            Some((at_ns, for_ns)) if start_ns >= at_ns && start_ns < at_ns + for_ns => {
                at_ns + for_ns + service_ns
            }
            _ => start_ns + service_ns,
        }
    }

    fn note_next(&self) {
        self.clock
            .next_event_ns
            .set(self.completions.peek().map_or(i64::MAX, |next| next.0.0));
    }
}

impl Device for SimulatedDevice {
    fn stage(&mut self, slot: u32, _io: &Io) -> io::Result<()> {
        let now_ns = self.clock.now_ns();
        self.taken += 1;
        let (end_ns, error) = if now_ns >= self.law.removed_at_ns {
            (now_ns, NO_DEVICE)
        } else {
            let Reverse(free_ns) = self.servers_free_ns.pop().expect("as many pushes as pops");
            let end_ns = self.end_ns(free_ns.max(now_ns));
            self.servers_free_ns.push(Reverse(end_ns));
            match self.law.fail_every {
                _ if end_ns > self.law.removed_at_ns => (self.law.removed_at_ns, NO_DEVICE),
                Some((every, error)) if self.taken.is_multiple_of(every) => (end_ns, error),
                _ => (end_ns, 0),
            }
        };
        self.completions.push(Reverse((end_ns, slot, error)));
        self.in_flight_max = self.in_flight_max.max(self.completions.len());
        self.note_next();
        Ok(())
    }

    fn submit(&mut self) -> io::Result<bool> {
        if self.taken > self.law.hangs_after {
            loop {
                std::thread::park();
            }
        }
        if self.taken >= self.law.breaks_after {
            Err(io::Error::other("the ring is gone"))
        } else {
            Ok(false)
        }
    }

    fn reap(&mut self, seen: &mut Vec<Completion>) -> io::Result<()> {
        while let Some(&Reverse((end_ns, slot, error))) = self.completions.peek()
            && end_ns <= self.clock.now_ns()
        {
            self.completions.pop();
            seen.push(Completion {
                slot,
                error,
                issued_ns: None,
                completed_ns: None,
            });
        }
        self.note_next();
        Ok(())
    }

    fn wait(&mut self, timeout_ns: i64) -> io::Result<()> {
        self.submit()?;
        self.clock.advance(self.clock.now_ns() + timeout_ns);
        Ok(())
    }

    fn abandon(&mut self) {
        self.abandoned = true;
    }
}
