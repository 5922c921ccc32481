//! The loop that plays a plan: open-loop, on absolute deadlines.
//!
//! Each turn collects completions, issues what is due, and waits: asleep in the device until shortly before the next
//! deadline (completions wake it, so that they are stamped when they happen), then spinning for the last stretch.
//! Deadlines come from the plan alone, so an error in one does not move the next. What is overdue is issued in the
//! plan's order, `batch` at a time, with the clock read before each batch: an I/O's `issued_ns` is early by at most
//! the time the kernel takes over its batch, and that time counts as service, never as nothing.

#[cfg(test)]
mod tests;

use std::sync::atomic::Ordering::Relaxed;

use crate::clock::Clock;
use crate::device::{Completion, Device};
use crate::outcome::{Ended, FLAG_DELAYED, NOT_COMPLETED, Outcome};
use crate::plan::Plan;
use crate::progress::Progress;

/// How often, at least, a sleeping pacer looks whether it should stop.
const GLANCE_NS: i64 = 20_000_000;

/// How a run is to be made.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Cap on I/Os in flight; what it holds back is counted and flagged.
    pub in_flight_max: u32,
    /// The run stops once more than this many I/Os failed.
    pub errors_max: Option<u64>,
    /// How long to wait at the end for what is in flight.
    pub drain_ns: i64,
    /// Spin instead of sleeping when a deadline is nearer than this.
    pub spin_ns: i64,
    /// Most I/Os handed to the kernel with one clock reading.
    pub batch: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            in_flight_max: 1024,
            errors_max: None,
            drain_ns: 30_000_000_000,
            spin_ns: 150_000,
            batch: 16,
        }
    }
}

struct Pacer<'a, C, D> {
    plan: &'a Plan,
    clock: &'a C,
    device: &'a mut D,
    settings: Settings,
    progress: &'a Progress,
    outcome: Outcome,
    seen: Vec<Completion>,
    slots_free: Vec<u32>,
    slot_rows: Vec<usize>,
    slot_sizes: Vec<u32>,
    /// The next row to issue.
    next: usize,
    /// The first row not yet due.
    due: usize,
    /// When the cap last let go: what was due before and is not issued yet was held back by it.
    full_until_ns: i64,
    totals: Totals,
}

#[derive(Default)]
struct Totals {
    completed: u64,
    failed: u64,
    delayed: u64,
    bytes: u64,
    response_ns: u64,
    service_ns: u64,
}

/// Play `plan` on `device` and return what came of it. Runs until every I/O has completed, or was given up.
pub fn play<C: Clock, D: Device>(
    plan: &Plan,
    clock: &C,
    device: &mut D,
    settings: Settings,
    progress: &Progress,
) -> Outcome {
    let slots = settings.in_flight_max.max(1);
    let mut pacer = Pacer {
        plan,
        clock,
        device,
        settings,
        progress,
        outcome: Outcome::with_capacity(plan.len()),
        seen: Vec::with_capacity(slots as usize),
        slots_free: (0..slots).rev().collect(),
        slot_rows: vec![0; slots as usize],
        slot_sizes: vec![0; slots as usize],
        next: 0,
        due: 0,
        full_until_ns: i64::MIN,
        totals: Totals::default(),
    };
    if let Err(problem) = pacer.play() {
        pacer.outcome.ended = Ended::Broken(problem.to_string());
    }
    if pacer.in_flight() > 0 {
        pacer.device.abandon();
    }
    pacer.publish();
    pacer.outcome
}

impl<C: Clock, D: Device> Pacer<'_, C, D> {
    fn play(&mut self) -> std::io::Result<()> {
        let mut drain_until_ns = i64::MAX;
        loop {
            self.reap()?;
            if self.outcome.ended == Ended::Normally {
                if self.progress.stopping() {
                    self.outcome.ended = Ended::Stopped;
                } else if self
                    .settings
                    .errors_max
                    .is_some_and(|most| self.totals.failed > most)
                {
                    self.outcome.ended = Ended::TooManyErrors;
                }
            }
            let issuing = self.next < self.plan.len() && self.outcome.ended == Ended::Normally;
            self.publish();
            if issuing && self.issue()? {
                continue;
            }
            let now_ns = self.clock.now_ns();
            let mut until_ns = now_ns + GLANCE_NS;
            let mut spin_ns = 0;
            if issuing && self.next < self.plan.len() {
                if !self.slots_free.is_empty() {
                    until_ns = until_ns.min(self.plan.intended_ns(self.next));
                    spin_ns = self.settings.spin_ns;
                }
            } else if self.in_flight() == 0 {
                return Ok(());
            } else {
                if drain_until_ns == i64::MAX {
                    drain_until_ns = now_ns.saturating_add(self.settings.drain_ns);
                }
                if now_ns >= drain_until_ns || self.progress.abandoning() {
                    return Ok(());
                }
                until_ns = until_ns.min(drain_until_ns);
            }
            if until_ns - now_ns > spin_ns {
                self.device.wait(until_ns - spin_ns - now_ns)?;
            } else {
                self.clock.relax(until_ns);
            }
        }
    }

    fn in_flight(&self) -> usize {
        self.slot_rows.len() - self.slots_free.len()
    }

    /// Issue one batch of what is due. True if anything was issued.
    fn issue(&mut self) -> std::io::Result<bool> {
        let now_ns = self.clock.now_ns();
        let first = self.next;
        while self.next < self.plan.len()
            && self.next - first < self.settings.batch
            && self.plan.intended_ns(self.next) <= now_ns
        {
            let Some(slot) = self.slots_free.pop() else {
                break;
            };
            let io = self.plan.io(self.next);
            self.device.stage(slot, &io)?;
            self.slot_rows[slot as usize] = self.next;
            self.slot_sizes[slot as usize] = io.size_bytes;
            self.next += 1;
        }
        if self.next == first {
            return Ok(false);
        }
        let issued_ns = self.clock.now_ns();
        for row in first..self.next {
            let delayed = self.plan.intended_ns(row) < self.full_until_ns;
            self.totals.delayed += u64::from(delayed);
            self.outcome.issued_ns.push(issued_ns);
            self.outcome.completed_ns.push(NOT_COMPLETED);
            self.outcome.error.push(0);
            self.outcome
                .flags
                .push(if delayed { FLAG_DELAYED } else { 0 });
        }
        self.device.submit()?;
        Ok(true)
    }

    fn reap(&mut self) -> std::io::Result<()> {
        self.device.reap(&mut self.seen)?;
        if self.seen.is_empty() {
            return Ok(());
        }
        let now_ns = self.clock.now_ns();
        if self.slots_free.is_empty() {
            self.full_until_ns = now_ns;
        }
        for end in self.seen.drain(..) {
            let row = self.slot_rows[end.slot as usize];
            if let Some(issued_ns) = end.issued_ns {
                self.outcome.issued_ns[row] = issued_ns;
            }
            let completed_ns = end.completed_ns.unwrap_or(now_ns);
            self.outcome.completed_ns[row] = completed_ns;
            self.outcome.error[row] = end.error;
            self.totals.completed += 1;
            self.totals.response_ns += (completed_ns - self.plan.intended_ns(row)).max(0) as u64;
            self.totals.service_ns += (completed_ns - self.outcome.issued_ns[row]).max(0) as u64;
            if end.error == 0 {
                self.totals.bytes += u64::from(self.slot_sizes[end.slot as usize]);
            } else {
                self.totals.failed += 1;
            }
            self.slots_free.push(end.slot);
        }
        Ok(())
    }

    fn publish(&mut self) {
        let now_ns = self.clock.now_ns();
        while self.due < self.plan.len() && self.plan.intended_ns(self.due) <= now_ns {
            self.due += 1;
        }
        let progress = self.progress;
        progress.elapsed_ns.store(now_ns, Relaxed);
        progress.due.store(self.due as u64, Relaxed);
        progress.issued.store(self.next as u64, Relaxed);
        progress.completed.store(self.totals.completed, Relaxed);
        progress.failed.store(self.totals.failed, Relaxed);
        progress.delayed.store(self.totals.delayed, Relaxed);
        progress.bytes.store(self.totals.bytes, Relaxed);
        progress
            .response_ns_sum
            .store(self.totals.response_ns, Relaxed);
        progress
            .service_ns_sum
            .store(self.totals.service_ns, Relaxed);
    }
}
