//! The loop of one submitter: open-loop, on absolute deadlines; or closed-loop, as many in flight as allowed.
//!
//! Each turn collects completions, issues what is due, and waits: asleep in the device until shortly before the next
//! deadline (completions wake it, so that they are stamped when they happen), then spinning for the last stretch. When it
//! has to wake is what `alarm` knows of each kind of pacing.
//! Deadlines come from the plan alone, so an error in one does not move the next. What is overdue is issued in the
//! plan's order, `batch` at a time, with the clock read before each batch: an I/O's `issued_ns` is early by at most
//! the time the kernel takes over its batch, and that time counts as service, never as nothing.

mod alarm;
#[cfg(test)]
mod tests;

use std::io;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use crate::clock::Clock;
use crate::device::{Completion, Device};
use crate::lane::{Lane, Place};
use crate::progress::{Ended, Progress};
use alarm::Alarm;
pub use alarm::Pacing;

/// How often, at least, a sleeping submitter looks whether it should stop.
const GLANCE_NS: i64 = 20_000_000;
/// Most I/Os handed over at once where nothing is paced: what has completed is replaced sooner, and the device does not
/// run dry between two larger batches. On a virtual disk, 32 in flight, 4 gave 1.04 times the IOPS of 16.
const BATCH_UNPACED: usize = 4;
/// Whoever takes so long with a processor given to him computes, and serves no I/O.
const TAKEN_NS: i64 = 50_000;
/// For so long it is then given to nobody: the kernel may take milliseconds to give it back.
const KEPT_NS: i64 = 20_000_000;
/// So far behind, gentle pacing hands over whole batches.
const CATCH_UP_NS: i64 = 20_000;
/// With the next I/O due no sooner, one that nothing is under way beside is handed over by the call that waits.
const LEISURE_NS: i64 = 20_000;
/// How long it waits for the plan, or for I/Os that others may put in flight, before it looks again.
const MOMENT_NS: i64 = 50_000;

/// How a run is to be made.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Cap on I/Os in flight, over all submitters; what it holds back is counted and flagged.
    pub in_flight_max: u32,
    /// Deadlines hold. Otherwise each I/O goes as soon as it may be in flight.
    pub paced: bool,
    /// Nothing is issued from this time on.
    pub issue_until_ns: i64,
    /// The run stops once more than this many I/Os failed.
    pub errors_max: Option<u64>,
    /// How long to wait at the end for what is in flight.
    pub drain_ns: i64,
    /// The run ends when a target with I/Os in flight completes nothing for so long.
    pub stall_ns: i64,
    /// What is done between two deadlines.
    pub pacing: Pacing,
    /// Most I/Os handed to the kernel with one clock reading.
    pub batch: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            in_flight_max: 1024,
            paced: true,
            issue_until_ns: i64::MAX,
            errors_max: None,
            drain_ns: 30_000_000_000,
            stall_ns: 120_000_000_000,
            pacing: Pacing::Precise,
            batch: 16,
        }
    }
}

/// What came of looking for I/Os that are due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Issued {
    Nothing,
    /// Some, and the device has them.
    HandedOver,
    /// Some, and the device gets them with the wait that comes next.
    Staged,
}

/// What a slot is busy with.
#[derive(Clone, Copy, Default)]
struct Slot {
    place: Place,
    target: u16,
    size_bytes: u32,
    intended_ns: i64,
    issued_ns: i64,
}

/// I/Os in flight on a target, and since when it owes a completion.
#[derive(Clone, Copy, Default)]
struct Debt {
    in_flight: u32,
    since_ns: i64,
    stalled: bool,
}

struct Pacer<'a, C> {
    lane: &'a mut Lane,
    clock: &'a C,
    device: &'a mut dyn Device,
    settings: Settings,
    alarm: Alarm,
    progress: &'a Progress,
    number: usize,
    seen: Vec<Completion>,
    slots: Vec<Slot>,
    slots_free: Vec<u32>,
    staged: Vec<u32>,
    debts: Vec<Debt>,
    /// Where `totals.due` was counted to.
    due_to: Place,
    /// When the cap, or a disk that had no room left, last let go: what was due before and is not issued yet was held
    /// back by it.
    full_until_ns: i64,
    /// Others have the whole of what may be in flight.
    full: bool,
    looked_for_stalls_ns: i64,
    /// Since when it spins, where it does.
    spins_since_ns: Option<i64>,
    /// Until when it keeps the processor while it spins.
    keeps_until_ns: i64,
    totals: Totals,
}

#[derive(Default)]
struct Totals {
    turns: u64,
    due: u64,
    issued: u64,
    completed: u64,
    failed: u64,
    delayed: u64,
    starved: u64,
    waits_for_room: u64,
    bytes: u64,
    response_ns: u64,
    service_ns: u64,
    spun_ns: u64,
}

/// Play a lane on `device`, until every I/O has completed or was given up. Counts as number `number` in `progress`.
pub fn play<C: Clock>(
    lane: &mut Lane,
    number: usize,
    clock: &C,
    device: &mut dyn Device,
    targets: usize,
    settings: Settings,
    progress: &Progress,
) {
    let slots = settings.in_flight_max.max(1) as usize;
    let mut pacer = Pacer {
        lane,
        clock,
        device,
        settings,
        alarm: Alarm::new(settings.pacing),
        progress,
        number,
        seen: Vec::with_capacity(slots),
        slots: vec![Slot::default(); slots],
        slots_free: (0..slots as u32).rev().collect(),
        staged: Vec::with_capacity(settings.batch),
        debts: vec![Debt::default(); targets],
        due_to: Place::default(),
        full_until_ns: i64::MIN,
        full: false,
        looked_for_stalls_ns: i64::MIN,
        spins_since_ns: None,
        keeps_until_ns: i64::MIN,
        totals: Totals::default(),
    };
    if let Err(problem) = pacer.play() {
        progress.end(Ended::Broken(problem.to_string()));
    }
    if pacer.in_flight() > 0 {
        pacer.device.abandon();
    }
    pacer.publish();
}

impl<C: Clock> Pacer<'_, C> {
    fn play(&mut self) -> io::Result<()> {
        let mut drain_until_ns = i64::MAX;
        loop {
            self.reap()?;
            let more = self.lane.load(self.clock.now_ns());
            let now_ns = self.publish();
            self.look_for_stalls(now_ns);
            let issuing = !self.lane.is_over()
                && now_ns < self.settings.issue_until_ns
                && !self.progress.stopping();
            let issued = if issuing {
                self.issue()?
            } else {
                Issued::Nothing
            };
            if issued != Issued::Nothing {
                self.end_spin(now_ns);
            }
            if issued == Issued::HandedOver {
                continue;
            }
            if more && issuing && issued == Issued::Nothing {
                continue;
            }
            let now_ns = self.clock.now_ns();
            let mut until_ns = now_ns + GLANCE_NS;
            let mut alarm_ns = None;
            if issuing && !self.lane.is_over() {
                match self.lane.next_due_ns() {
                    _ if self.slots_free.is_empty() => {}
                    Some(due_ns) if self.full => until_ns = due_ns.max(now_ns + MOMENT_NS),
                    Some(due_ns) => {
                        until_ns = until_ns.min(due_ns).min(self.settings.issue_until_ns);
                        if until_ns == due_ns {
                            alarm_ns = Some(self.alarm.wake_ns(due_ns, now_ns, self.in_flight()));
                        }
                    }
                    None if self.waits_for_plan() => continue,
                    None if self.lane.is_complete() => {}
                    None => until_ns = now_ns + MOMENT_NS,
                }
            } else if self.in_flight() == 0 {
                return Ok(());
            } else {
                if drain_until_ns == i64::MAX {
                    drain_until_ns = now_ns.saturating_add(self.settings.drain_ns);
                }
                let hopeless = self
                    .debts
                    .iter()
                    .all(|one| one.in_flight == 0 || one.stalled);
                if now_ns >= drain_until_ns || hopeless || self.progress.abandoning() {
                    return Ok(());
                }
                until_ns = until_ns.min(drain_until_ns);
            }
            let wake_ns = alarm_ns.unwrap_or(until_ns);
            if wake_ns > now_ns {
                self.end_spin(now_ns);
                self.device.wait(wake_ns - now_ns)?;
                let late_ns = self.clock.now_ns() - wake_ns;
                // A completion may have come first. One that is set for after the deadline tells of nothing before it.
                if alarm_ns.is_some() && wake_ns <= until_ns && late_ns >= 0 {
                    self.alarm.rang(late_ns);
                }
            } else if issued == Issued::Staged {
                self.hand_over()?;
            } else {
                self.spins_since_ns.get_or_insert(now_ns);
                self.spin(now_ns, until_ns);
            }
        }
    }

    /// Pass a moment. Gentle pacing gives way between two I/Os, if only to be overtaken by the thread that serves the next:
    /// the scheduler lets a thread that gave way be interrupted at once, as it does a program that has computed for longer.
    fn spin(&mut self, now_ns: i64, until_ns: i64) {
        let gives_way = self.settings.pacing == Pacing::Gentle
            && self.in_flight() == 0
            && now_ns >= self.keeps_until_ns;
        if !gives_way {
            self.clock.relax(until_ns);
            return;
        }
        self.clock.give_way(until_ns);
        let back_ns = self.clock.now_ns();
        if back_ns - now_ns > TAKEN_NS {
            self.keeps_until_ns = back_ns + KEPT_NS;
        }
    }

    /// It spins no more. `now_ns` may be a moment old: what a turn of the loop takes is not counted.
    fn end_spin(&mut self, now_ns: i64) {
        if let Some(since_ns) = self.spins_since_ns.take() {
            self.totals.spun_ns += (now_ns - since_ns).max(0) as u64;
        }
    }

    fn in_flight(&self) -> usize {
        self.slots.len() - self.slots_free.len()
    }

    /// Where there is nothing to issue and nothing to wait for but more of the plan, wait for that.
    fn waits_for_plan(&mut self) -> bool {
        if self.lane.is_complete() {
            return false;
        }
        let patient = self.clock.stands_still() && !self.lane.waits();
        if self.in_flight() > 0 && !patient {
            self.totals.starved += 1;
            return false;
        }
        if self
            .lane
            .waits_in_vain(Duration::from_nanos(GLANCE_NS as u64))
        {
            self.totals.starved += 1;
        }
        true
    }

    /// Most I/Os to hand over at once. Programs do it one by one, and so does gentle pacing, unless it has to catch up.
    fn batch(&self, now_ns: i64) -> usize {
        let behind = self
            .lane
            .next_due_ns()
            .is_some_and(|due_ns| due_ns < now_ns - CATCH_UP_NS);
        if self.settings.pacing == Pacing::Gentle && !behind {
            1
        } else {
            self.settings.batch
        }
    }

    /// Issue one batch of what is due.
    fn issue(&mut self) -> io::Result<Issued> {
        let now_ns = self.clock.now_ns();
        let horizon_ns = if self.settings.paced {
            now_ns
        } else {
            i64::MAX
        };
        if self
            .lane
            .next_due_ns()
            .is_none_or(|due_ns| due_ns > horizon_ns)
        {
            return Ok(Issued::Nothing);
        }
        let batch = if self.settings.paced {
            self.batch(now_ns)
        } else {
            self.settings.batch.min(BATCH_UNPACED)
        };
        let wanted = batch.min(self.slots_free.len()) as u32;
        if wanted == 0 {
            return Ok(Issued::Nothing);
        }
        let room = self.progress.take_room(wanted);
        if room == 0 {
            self.full = true;
            return Ok(Issued::Nothing);
        }
        if self.full {
            self.full = false;
            self.full_until_ns = now_ns;
        }
        self.staged.clear();
        while self.staged.len() < room as usize
            && let Some(due_ns) = self.lane.next_due_ns()
            && due_ns <= horizon_ns
        {
            let place = self.lane.take();
            let chunk = self.lane.chunk(place);
            let io = chunk.plan.io(place.index as usize, chunk.first_row);
            let number = self.slots_free.pop().expect("room was taken for it");
            self.device.stage(number, &io)?;
            let slot = &mut self.slots[number as usize];
            (slot.place, slot.target, slot.size_bytes) = (place, io.target, io.size_bytes);
            slot.intended_ns = due_ns;
            self.staged.push(number);
        }
        self.progress.give_room(room - self.staged.len() as u32);
        self.note_issued();
        if self.slots_free.is_empty() && !self.settings.paced {
            // One system call for both.
            self.device.wait(GLANCE_NS)?;
            return Ok(Issued::HandedOver);
        }
        // Beside others it may have to wait for room, which only a call that does nothing else can tell.
        let is_alone = self.in_flight() == self.staged.len() && !self.slots_free.is_empty();
        if self.settings.paced
            && is_alone
            && self
                .lane
                .next_due_ns()
                .is_some_and(|due_ns| due_ns > now_ns + LEISURE_NS)
        {
            return Ok(Issued::Staged);
        }
        self.hand_over()?;
        Ok(Issued::HandedOver)
    }

    fn hand_over(&mut self) -> io::Result<()> {
        if self.device.submit()? {
            self.totals.waits_for_room += 1;
            self.full_until_ns = self.clock.now_ns();
        }
        Ok(())
    }

    fn note_issued(&mut self) {
        let issued_ns = self.clock.now_ns();
        for &number in &self.staged {
            let slot = &mut self.slots[number as usize];
            let delayed = self.settings.paced && slot.intended_ns < self.full_until_ns;
            if !self.settings.paced {
                slot.intended_ns = issued_ns;
            }
            slot.issued_ns = issued_ns;
            self.totals.issued += 1;
            self.totals.delayed += u64::from(delayed);
            let debt = &mut self.debts[usize::from(slot.target)];
            if debt.in_flight == 0 {
                debt.since_ns = issued_ns;
            }
            debt.in_flight += 1;
            let row = &self.lane.chunk(slot.place).rows[slot.place.index as usize];
            row.issue(slot.intended_ns, issued_ns, delayed);
        }
    }

    fn reap(&mut self) -> io::Result<()> {
        self.device.reap(&mut self.seen)?;
        if self.seen.is_empty() {
            return Ok(());
        }
        let now_ns = self.clock.now_ns();
        if self.slots_free.is_empty() {
            self.full_until_ns = now_ns;
        }
        self.progress.give_room(self.seen.len() as u32);
        for end in self.seen.drain(..) {
            let slot = self.slots[end.slot as usize];
            let row = &self.lane.chunk(slot.place).rows[slot.place.index as usize];
            let mut issued_ns = slot.issued_ns;
            if let Some(entered_ns) = end.issued_ns {
                issued_ns = entered_ns;
                row.issued_ns.store(issued_ns, Relaxed);
            }
            let completed_ns = end.completed_ns.unwrap_or(now_ns);
            row.error.store(end.error, Relaxed);
            row.completed_ns.store(completed_ns, Relaxed);
            let debt = &mut self.debts[usize::from(slot.target)];
            debt.in_flight -= 1;
            debt.since_ns = now_ns;
            self.totals.completed += 1;
            self.totals.response_ns += (completed_ns - slot.intended_ns).max(0) as u64;
            self.totals.service_ns += (completed_ns - issued_ns).max(0) as u64;
            self.alarm.took(completed_ns - issued_ns);
            if end.error == 0 {
                self.totals.bytes += u64::from(slot.size_bytes);
            } else {
                self.totals.failed += 1;
            }
            self.slots_free.push(end.slot);
            self.lane.complete(slot.place, completed_ns);
        }
        if self.totals.failed > 0
            && let Some(most) = self.settings.errors_max
        {
            self.progress.counters[self.number]
                .failed
                .store(self.totals.failed, Relaxed);
            if self.progress.failed() > most {
                self.progress.end(Ended::TooManyErrors);
            }
        }
        Ok(())
    }

    /// End the run when a target owes completions for too long.
    fn look_for_stalls(&mut self, now_ns: i64) {
        if now_ns.saturating_sub(self.looked_for_stalls_ns) < GLANCE_NS {
            return;
        }
        self.looked_for_stalls_ns = now_ns;
        for (target, debt) in self.debts.iter_mut().enumerate() {
            debt.stalled = debt.in_flight > 0 && now_ns - debt.since_ns >= self.settings.stall_ns;
            if debt.stalled {
                self.progress.end(Ended::Stalled(target as u16));
            }
        }
    }

    fn publish(&mut self) -> i64 {
        let now_ns = self.clock.now_ns();
        let totals = &mut self.totals;
        totals.turns += 1;
        totals.due = if self.settings.paced {
            self.lane
                .count_due(&mut self.due_to, totals.due, totals.issued, now_ns)
        } else {
            totals.issued
        };
        let counters = &self.progress.counters[self.number];
        for (counter, value) in [
            (&counters.turns, totals.turns),
            (&counters.due, totals.due),
            (&counters.issued, totals.issued),
            (&counters.completed, totals.completed),
            (&counters.failed, totals.failed),
            (&counters.delayed, totals.delayed),
            (&counters.starved, totals.starved),
            (&counters.waits_for_room, totals.waits_for_room),
            (&counters.bytes, totals.bytes),
            (&counters.response_ns_sum, totals.response_ns),
            (&counters.service_ns_sum, totals.service_ns),
            (&counters.spun_ns, totals.spun_ns),
        ] {
            counter.store(value, Relaxed);
        }
        counters.elapsed_ns.store(now_ns, Relaxed);
        now_ns
    }
}
