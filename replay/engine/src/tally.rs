//! What a run adds up to: totals, distributions, and one row per second, from chunks as they are handed out.
//!
//! Memory does not grow with the number of I/Os, and by 100 bytes with each second.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::Ordering::Relaxed;

use iotrace_load::distribution::Distribution;

use crate::chunk::{Chunk, NEVER};

/// Seconds whose lateness is still being gathered; rows come in the plan's order, so older ones are finished.
const OPEN_SECONDS: usize = 8;
const SECOND_NS: i64 = 1_000_000_000;

/// One second of the run's clock. Issued ones count where they were issued, completed ones where they completed.
#[derive(Clone, Copy, Debug, Default)]
#[expect(missing_docs, reason = "the fields of `Tally`, by second")]
pub struct Second {
    pub issued: u64,
    pub completed: u64,
    pub failed: u64,
    pub delayed: u64,
    pub bytes: u64,
    pub lateness_ns_p50: Option<i64>,
    pub lateness_ns_p99: Option<i64>,
    pub lateness_ns_max: Option<i64>,
}

/// See the module. Lateness is of all issued, response and service are of those that completed without error; `own` are
/// of those that too many in flight did not hold back.
#[derive(Debug)]
#[expect(missing_docs, reason = "named by what they count")]
pub struct Tally {
    pub issued: u64,
    pub completed: u64,
    pub failed: u64,
    pub delayed: u64,
    pub bytes: u64,
    pub first_issued_ns: i64,
    pub last_issued_ns: i64,
    pub last_completed_ns: i64,
    pub errors: HashMap<i32, u64>,
    pub lateness: Distribution,
    pub response: Distribution,
    pub service: Distribution,
    pub own_lateness: Distribution,
    pub own_response: Distribution,
    pub seconds: Vec<Second>,
    open: VecDeque<(usize, Distribution)>,
}

impl Default for Tally {
    fn default() -> Self {
        Self {
            issued: 0,
            completed: 0,
            failed: 0,
            delayed: 0,
            bytes: 0,
            first_issued_ns: i64::MAX,
            last_issued_ns: i64::MIN,
            last_completed_ns: i64::MIN,
            errors: HashMap::new(),
            lateness: Distribution::default(),
            response: Distribution::default(),
            service: Distribution::default(),
            own_lateness: Distribution::default(),
            own_response: Distribution::default(),
            seconds: Vec::new(),
            open: VecDeque::new(),
        }
    }
}

impl Tally {
    /// Add a chunk whose rows are final.
    pub fn add(&mut self, chunk: &Chunk) {
        for (index, row) in chunk.rows.iter().enumerate() {
            let issued_ns = row.issued_ns.load(Relaxed);
            if issued_ns == NEVER {
                continue;
            }
            let intended_ns = row.intended_ns.load(Relaxed);
            let delayed = row.delayed.load(Relaxed) != 0;
            let lateness_ns = issued_ns - intended_ns;
            self.issued += 1;
            self.delayed += u64::from(delayed);
            self.first_issued_ns = self.first_issued_ns.min(issued_ns);
            self.last_issued_ns = self.last_issued_ns.max(issued_ns);
            self.lateness.add(lateness_ns);
            if !delayed {
                self.own_lateness.add(lateness_ns);
            }
            let second = self.second(issued_ns);
            second.issued += 1;
            second.delayed += u64::from(delayed);
            self.add_lateness(number_of(issued_ns), lateness_ns);
            let completed_ns = row.completed_ns.load(Relaxed);
            if completed_ns == NEVER {
                continue;
            }
            let error = row.error.load(Relaxed);
            let bytes = u64::from(chunk.plan.size_bytes(index));
            self.completed += 1;
            self.last_completed_ns = self.last_completed_ns.max(completed_ns);
            let second = self.second(completed_ns);
            second.completed += 1;
            if error != 0 {
                second.failed += 1;
                self.failed += 1;
                *self.errors.entry(error).or_default() += 1;
                continue;
            }
            second.bytes += bytes;
            self.bytes += bytes;
            self.response.add(completed_ns - intended_ns);
            self.service.add(completed_ns - issued_ns);
            if !delayed {
                self.own_response.add(completed_ns - intended_ns);
            }
        }
        self.close(OPEN_SECONDS);
    }

    /// No more will come.
    pub fn finish(&mut self) {
        self.close(0);
    }

    fn second(&mut self, at_ns: i64) -> &mut Second {
        let number = number_of(at_ns);
        if number >= self.seconds.len() {
            self.seconds.resize(number + 1, Second::default());
        }
        &mut self.seconds[number]
    }

    fn add_lateness(&mut self, number: usize, lateness_ns: i64) {
        if let Some((_, open)) = self.open.iter_mut().rev().find(|one| one.0 == number) {
            open.add(lateness_ns);
        } else if self.seconds[number].lateness_ns_max.is_none() {
            let mut open = Distribution::default();
            open.add(lateness_ns);
            self.open.push_back((number, open));
        }
    }

    fn close(&mut self, keep: usize) {
        while self.open.len() > keep
            && let Some((number, lateness)) = self.open.pop_front()
        {
            let second = &mut self.seconds[number];
            second.lateness_ns_p50 = lateness.quantile_ns(0.5);
            second.lateness_ns_p99 = lateness.quantile_ns(0.99);
            second.lateness_ns_max = lateness.max_ns();
        }
    }
}

fn number_of(at_ns: i64) -> usize {
    at_ns.max(0) as usize / SECOND_NS as usize
}
