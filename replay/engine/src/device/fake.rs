//! A simulated disk of `c` servers and one queue, in simulated time, from one seed.

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

/// First come, first served by whichever server is free first.
pub struct FakeDevice {
    clock: FakeClock,
    service: Service,
    random: Random,
    servers_free_ns: BinaryHeap<Reverse<i64>>,
    completions: BinaryHeap<Reverse<(i64, u32, i32)>>,
    /// Every n-th I/O fails with this error.
    pub fail_every: Option<(u64, i32)>,
    /// `submit` fails from this many I/Os on.
    pub breaks_after: u64,
    /// I/Os taken.
    pub taken: u64,
    /// Most in flight at once.
    pub in_flight_max: usize,
    /// Whether `abandon` was called.
    pub abandoned: bool,
}

impl FakeDevice {
    /// A disk of `servers` servers.
    #[must_use]
    pub fn new(clock: &FakeClock, servers: usize, service: Service, seed: u64) -> Self {
        Self {
            clock: clock.clone(),
            service,
            random: Random::new(seed),
            servers_free_ns: (0..servers).map(|_| Reverse(i64::MIN)).collect(),
            completions: BinaryHeap::new(),
            fail_every: None,
            breaks_after: u64::MAX,
            taken: 0,
            in_flight_max: 0,
            abandoned: false,
        }
    }

    fn note_next(&self) {
        self.clock
            .next_event_ns
            .set(self.completions.peek().map_or(i64::MAX, |next| next.0.0));
    }
}

impl Device for FakeDevice {
    fn stage(&mut self, slot: u32, _io: &Io) -> io::Result<()> {
        let Reverse(free_ns) = self.servers_free_ns.pop().expect("as many pushes as pops");
        let service_ns = match self.service {
            Service::Constant(ns) => ns,
            Service::Exponential(mean_ns) => {
                (-self.random.unit().ln() * mean_ns as f64).round() as i64
            }
            Service::Never => i64::MAX / 4,
        };
        let end_ns = free_ns.max(self.clock.now_ns()) + service_ns;
        self.servers_free_ns.push(Reverse(end_ns));
        self.taken += 1;
        let error = self.fail_every.map_or(0, |(every, error)| {
            if self.taken.is_multiple_of(every) {
                error
            } else {
                0
            }
        });
        self.completions.push(Reverse((end_ns, slot, error)));
        self.in_flight_max = self.in_flight_max.max(self.completions.len());
        self.note_next();
        Ok(())
    }

    fn submit(&mut self) -> io::Result<()> {
        if self.taken >= self.breaks_after {
            Err(io::Error::other("the ring is gone"))
        } else {
            Ok(())
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
        self.clock.advance(self.clock.now_ns() + timeout_ns);
        Ok(())
    }

    fn abandon(&mut self) {
        self.abandoned = true;
    }
}
