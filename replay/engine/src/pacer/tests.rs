//! The pacer in simulated time, against exact schedules and the laws of queues.

use std::sync::Arc;
use std::sync::mpsc;

use arrow_array::{
    ArrayRef, BooleanArray, Int64Array, RecordBatch, UInt8Array, UInt16Array, UInt32Array,
    UInt64Array,
};

use super::*;
use crate::chunk::{Chunk, NEVER};
use crate::clock::FakeClock;
use crate::device::simulated::{Law, Service, SimulatedDevice};
use crate::memory::Random;
use crate::plan::{Columns, Limits};

const MICROSECOND: i64 = 1_000;
const SECOND: i64 = 1_000_000_000;

/// Deadlines, and for whom rows wait: so many rows back, and for how long after it.
struct Plan {
    intended_ns: Vec<i64>,
    after: Option<Vec<(u32, i64)>>,
}

fn plan_of(intended_ns: Vec<i64>) -> Plan {
    Plan {
        intended_ns,
        after: None,
    }
}

impl Plan {
    fn chunk(&self, rows: std::ops::Range<usize>) -> Arc<Chunk> {
        let count = rows.len();
        let mut columns = vec![
            (
                "intended_ns",
                Arc::new(Int64Array::from(self.intended_ns[rows.clone()].to_vec())) as ArrayRef,
            ),
            ("offset_bytes", Arc::new(UInt64Array::from(vec![0; count]))),
            ("size_bytes", Arc::new(UInt32Array::from(vec![8192; count]))),
            ("op", Arc::new(UInt8Array::from(vec![0; count]))),
            ("target", Arc::new(UInt16Array::from(vec![0; count]))),
            ("durable", Arc::new(BooleanArray::from(vec![false; count]))),
        ];
        if let Some(after) = &self.after {
            let after = &after[rows.clone()];
            let back: Vec<u32> = after.iter().map(|one| one.0).collect();
            let think: Vec<i64> = after.iter().map(|one| one.1).collect();
            columns.push(("after", Arc::new(UInt32Array::from(back))));
            columns.push(("think_ns", Arc::new(Int64Array::from(think))));
        }
        let batch = RecordBatch::try_from_iter(columns).expect("columns of one length");
        let limits = Limits {
            targets: 1,
            read_bytes_max: 8192,
            write_bytes_max: 8192,
        };
        let first_row = rows.start as u64;
        let plan = Columns::of(&batch, &limits, first_row, i64::MIN).expect("it can be played");
        Arc::new(Chunk::new(batch, plan, first_row, 1))
    }
}

/// What came of a run, column by column.
struct Outcome {
    intended_ns: Vec<i64>,
    issued_ns: Vec<i64>,
    completed_ns: Vec<i64>,
    error: Vec<i32>,
    delayed: Vec<bool>,
    ended: Ended,
}

fn play_on(
    plan: &Plan,
    clock: &FakeClock,
    device: &mut dyn Device,
    settings: Settings,
    progress: &Progress,
) -> Outcome {
    let rows = plan.intended_ns.len();
    // Pieces of a thousand, so that every test also walks from batch to batch.
    let chunks: Vec<Arc<Chunk>> = (0..rows)
        .step_by(1000)
        .map(|start| plan.chunk(start..rows.min(start + 1000)))
        .collect();
    let (feed, incoming) = mpsc::channel();
    for chunk in &chunks {
        feed.send(Arc::clone(chunk)).expect("somebody listens");
    }
    drop(feed);
    progress.room.store(settings.in_flight_max, Relaxed);
    let mut lane = Lane::new(0, incoming);
    play(&mut lane, 0, clock, device, 1, settings, progress);
    let issued = || {
        chunks
            .iter()
            .flat_map(|chunk| chunk.rows.iter())
            .filter(|row| row.issued_ns.load(Relaxed) != NEVER)
    };
    Outcome {
        intended_ns: issued().map(|row| row.intended_ns.load(Relaxed)).collect(),
        issued_ns: issued().map(|row| row.issued_ns.load(Relaxed)).collect(),
        completed_ns: issued().map(|row| row.completed_ns.load(Relaxed)).collect(),
        error: issued().map(|row| row.error.load(Relaxed)).collect(),
        delayed: issued().map(|row| row.delayed.load(Relaxed) != 0).collect(),
        ended: progress.ended(),
    }
}

fn progress() -> Progress {
    Progress::new(1, 0)
}

fn poisson(rows: usize, mean_gap_ns: f64, seed: u64) -> Vec<i64> {
    let mut random = Random::new(seed);
    let mut at_ns = 0.0;
    (0..rows)
        .map(|_| {
            at_ns -= random.unit().ln() * mean_gap_ns;
            at_ns as i64
        })
        .collect()
}

fn unlimited() -> Settings {
    Settings {
        in_flight_max: 65_536,
        ..Settings::default()
    }
}

fn run(
    plan: &Plan,
    servers: usize,
    service: Service,
    settings: Settings,
) -> (Outcome, SimulatedDevice) {
    let clock = FakeClock::at(-5_000_000);
    let mut device = SimulatedDevice::new(&clock, Law::new(servers, service), 42);
    let outcome = play_on(plan, &clock, &mut device, settings, &progress());
    (outcome, device)
}

#[test]
fn every_io_is_issued_exactly_when_intended() {
    let deadlines = vec![
        0,
        1,
        1,
        100,
        149_999,
        150_000,
        150_001,
        2 * SECOND,
        2 * SECOND,
        7 * SECOND + 3,
    ];
    let (outcome, _) = run(
        &plan_of(deadlines.clone()),
        64,
        Service::Constant(80 * MICROSECOND),
        unlimited(),
    );
    assert_eq!(outcome.issued_ns, deadlines);
    let ends: Vec<i64> = deadlines.iter().map(|at| at + 80 * MICROSECOND).collect();
    assert_eq!(outcome.completed_ns, ends);
    assert!(!outcome.delayed.contains(&true));
    assert_eq!(outcome.ended, Ended::Normally);
}

/// A disk on a host that wakes its sleepers late by 0.4 ms.
struct Oversleeping {
    disk: SimulatedDevice,
    clock: FakeClock,
}

impl Device for Oversleeping {
    fn stage(&mut self, slot: u32, io: &crate::plan::Io) -> io::Result<()> {
        self.disk.stage(slot, io)
    }

    fn submit(&mut self) -> io::Result<bool> {
        self.disk.submit()
    }

    fn reap(&mut self, seen: &mut Vec<Completion>) -> io::Result<()> {
        self.disk.reap(seen)
    }

    fn wait(&mut self, timeout_ns: i64) -> io::Result<()> {
        let alarm_ns = self.clock.now_ns() + timeout_ns;
        self.disk.wait(timeout_ns)?;
        if self.clock.now_ns() == alarm_ns {
            self.clock.advance(alarm_ns + 400 * MICROSECOND);
        }
        Ok(())
    }

    fn abandon(&mut self) {
        self.disk.abandon();
    }
}

#[test]
fn a_host_that_wakes_late_is_told_to_wake_earlier() {
    let clock = FakeClock::at(-5_000_000);
    let disk = SimulatedDevice::new(&clock, Law::new(4, Service::Constant(80 * MICROSECOND)), 1);
    let mut device = Oversleeping {
        disk,
        clock: clock.clone(),
    };
    let deadlines: Vec<i64> = (0..8000).map(|row| row * 4_000_000).collect();
    let plan = plan_of(deadlines);
    let outcome = play_on(&plan, &clock, &mut device, unlimited(), &progress());
    let late = (outcome.issued_ns.iter())
        .zip(&outcome.intended_ns)
        .filter(|(issued, intended)| issued > intended)
        .count();
    // Six misses of 50 µs lift the margin from 150 to 400 µs; it forgets 50 µs in 200 alarms, which completions are not.
    assert!((35..=50).contains(&late), "{late}");
}

#[test]
fn a_slow_disk_does_not_slow_the_arrivals() {
    // One server at three times the work it can do: a closed loop would stretch the arrivals, an open one may not.
    let deadlines: Vec<i64> = (0..1000).map(|row| row * 100 * MICROSECOND).collect();
    let (outcome, _) = run(
        &plan_of(deadlines.clone()),
        1,
        Service::Constant(300 * MICROSECOND),
        unlimited(),
    );
    assert_eq!(outcome.issued_ns, deadlines);
    assert_eq!(outcome.completed_ns[999], 1000 * 300 * MICROSECOND);
}

#[test]
fn the_cap_holds_and_what_it_delays_is_flagged() {
    // Ten at once, four allowed, one server of 1 ms: four go at 0, then one per completion.
    let settings = Settings {
        in_flight_max: 4,
        ..Settings::default()
    };
    let (outcome, device) = run(
        &plan_of(vec![0; 10]),
        1,
        Service::Constant(1_000_000),
        settings,
    );
    let expected: Vec<i64> = [0, 0, 0, 0, 1, 2, 3, 4, 5, 6]
        .iter()
        .map(|ms| ms * 1_000_000)
        .collect();
    assert_eq!(outcome.issued_ns, expected);
    assert_eq!(device.in_flight_max, 4);
    assert_eq!(outcome.delayed, [vec![false; 4], vec![true; 6]].concat());
}

#[test]
fn what_was_done_is_counted_as_it_was() {
    // As above: they end at 1, 2, … 10 ms, and were due at 0.
    let settings = Settings {
        in_flight_max: 4,
        ..Settings::default()
    };
    let clock = FakeClock::at(-5_000_000);
    let law = Law::new(1, Service::Constant(1_000_000));
    let mut device = SimulatedDevice::new(&clock, law, 42);
    let progress = progress();
    play_on(
        &plan_of(vec![0; 10]),
        &clock,
        &mut device,
        settings,
        &progress,
    );
    let counted = progress.snapshot();
    assert_eq!(
        (counted.due, counted.issued, counted.completed),
        (10, 10, 10)
    );
    assert_eq!(
        (counted.failed, counted.delayed, counted.starved),
        (0, 6, 0)
    );
    assert_eq!(counted.bytes, 10 * 8192);
    assert_eq!(counted.response_ns_sum, 55 * 1_000_000);
    // Four go at 0, the others when one has ended, and each has three before it.
    assert_eq!(counted.service_ns_sum, (1 + 2 + 3 + 7 * 4) * 1_000_000);
    assert_eq!(counted.elapsed_ns, 10_000_000);
}

#[test]
fn time_spent_spinning_is_that_from_waking_to_the_deadline() {
    let clock = FakeClock::at(-5_000_000);
    let law = Law::new(4, Service::Constant(80 * MICROSECOND));
    let mut device = SimulatedDevice::new(&clock, law, 1);
    let progress = progress();
    let deadlines = (0..10).map(|row| row * 4_000_000).collect();
    play_on(
        &plan_of(deadlines),
        &clock,
        &mut device,
        unlimited(),
        &progress,
    );
    // It wakes 150 µs before each of them.
    assert_eq!(progress.snapshot().spun_ns, 10 * 150_000);
}

/// A disk of which others have all that may be in flight, until it was waited for three times.
struct Shared<'a> {
    disk: SimulatedDevice,
    progress: &'a Progress,
    waits_ns: Vec<i64>,
}

impl Device for Shared<'_> {
    fn stage(&mut self, slot: u32, io: &crate::plan::Io) -> io::Result<()> {
        self.disk.stage(slot, io)
    }

    fn submit(&mut self) -> io::Result<bool> {
        self.disk.submit()
    }

    fn reap(&mut self, seen: &mut Vec<Completion>) -> io::Result<()> {
        if self.waits_ns.is_empty() {
            self.progress.room.store(0, Relaxed);
        }
        self.disk.reap(seen)
    }

    fn wait(&mut self, timeout_ns: i64) -> io::Result<()> {
        self.waits_ns.push(timeout_ns);
        if self.waits_ns.len() == 3 {
            self.progress.give_room(1);
        }
        self.disk.wait(timeout_ns)
    }

    fn abandon(&mut self) {
        self.disk.abandon();
    }
}

#[test]
fn where_others_have_all_that_may_be_in_flight_it_looks_again_after_a_moment() {
    let clock = FakeClock::at(0);
    let law = Law::new(1, Service::Constant(80 * MICROSECOND));
    let progress = progress();
    let mut device = Shared {
        disk: SimulatedDevice::new(&clock, law, 1),
        progress: &progress,
        waits_ns: Vec::new(),
    };
    let outcome = play_on(
        &plan_of(vec![0]),
        &clock,
        &mut device,
        Settings::default(),
        &progress,
    );
    assert_eq!(device.waits_ns[..3], [50 * MICROSECOND; 3]);
    assert_eq!(outcome.issued_ns, [150 * MICROSECOND]);
    assert_eq!(outcome.completed_ns, [230 * MICROSECOND]);
    assert_eq!(outcome.delayed, [true]);
    assert_eq!(progress.snapshot().spun_ns, 0);
}

/// A disk whose requests are all taken at 1 ms: the kernel lets go of who submits then at 3 ms.
struct WithoutRoom {
    disk: SimulatedDevice,
    clock: FakeClock,
}

impl Device for WithoutRoom {
    fn stage(&mut self, slot: u32, io: &crate::plan::Io) -> io::Result<()> {
        self.disk.stage(slot, io)
    }

    fn submit(&mut self) -> io::Result<bool> {
        self.disk.submit()?;
        let full = self.clock.now_ns() == 1_000_000;
        if full {
            self.clock.advance(3_000_000);
        }
        Ok(full)
    }

    fn reap(&mut self, seen: &mut Vec<Completion>) -> io::Result<()> {
        self.disk.reap(seen)
    }

    fn wait(&mut self, timeout_ns: i64) -> io::Result<()> {
        self.disk.wait(timeout_ns)
    }

    fn abandon(&mut self) {
        self.disk.abandon();
    }
}

/// A disk that counts how often it was given what was staged, and takes it no later than at the time of the clock reading.
struct Counting {
    disk: SimulatedDevice,
    clock: FakeClock,
    staged_ns: Option<i64>,
    handed_over: usize,
    handed_over_by_waits: usize,
}

impl Counting {
    fn take(&mut self) -> bool {
        let Some(staged_ns) = self.staged_ns.take() else {
            return false;
        };
        assert_eq!(staged_ns, self.clock.now_ns());
        true
    }
}

impl Device for Counting {
    fn stage(&mut self, slot: u32, io: &crate::plan::Io) -> io::Result<()> {
        self.staged_ns.get_or_insert(self.clock.now_ns());
        self.disk.stage(slot, io)
    }

    fn submit(&mut self) -> io::Result<bool> {
        self.handed_over += usize::from(self.take());
        self.disk.submit()
    }

    fn reap(&mut self, seen: &mut Vec<Completion>) -> io::Result<()> {
        assert_eq!(self.staged_ns, None, "an I/O is kept back");
        self.disk.reap(seen)
    }

    fn wait(&mut self, timeout_ns: i64) -> io::Result<()> {
        self.handed_over_by_waits += usize::from(self.take());
        self.disk.wait(timeout_ns)
    }

    fn abandon(&mut self) {
        self.disk.abandon();
    }
}

#[test]
fn the_call_that_waits_hands_over_an_io_that_is_alone_and_no_other() {
    let clock = FakeClock::at(-5_000_000);
    for (pacing, service_ns, gap_ns, by_waits) in [
        // Far apart: all but the last, after which there is no deadline to wait for.
        (Pacing::Gentle, 80_000, 1_000_000, 99),
        (Pacing::Precise, 80_000, 1_000_000, 99),
        // Another is under way, or the next is near.
        (Pacing::Gentle, 5_000_000, 1_000_000, 1),
        (Pacing::Gentle, 5_000, 10_000, 0),
        (Pacing::Precise, 80_000, 100_000, 0),
    ] {
        let disk = SimulatedDevice::new(&clock, Law::new(100, Service::Constant(service_ns)), 1);
        let mut device = Counting {
            disk,
            clock: clock.clone(),
            staged_ns: None,
            handed_over: 0,
            handed_over_by_waits: 0,
        };
        let from_ns = clock.now_ns() + 5_000_000;
        let plan = plan_of((0..100).map(|row| from_ns + row * gap_ns).collect());
        let settings = Settings {
            pacing,
            ..unlimited()
        };
        let outcome = play_on(&plan, &clock, &mut device, settings, &progress());
        assert_eq!(outcome.issued_ns.len(), 100);
        let counted = (device.handed_over, device.handed_over_by_waits);
        assert_eq!(counted, (100 - by_waits, by_waits), "{pacing:?} {gap_ns}");
    }
}

#[test]
fn what_is_due_while_a_disk_has_no_room_is_flagged() {
    let clock = FakeClock::at(-5_000_000);
    let disk = SimulatedDevice::new(&clock, Law::new(4, Service::Constant(10_000_000)), 1);
    let mut device = WithoutRoom {
        disk,
        clock: clock.clone(),
    };
    let plan = plan_of(vec![
        0, 1_000_000, 2_000_000, 2_999_999, 3_000_000, 4_000_000,
    ]);
    let progress = progress();
    let outcome = play_on(&plan, &clock, &mut device, unlimited(), &progress);
    let issued_us: Vec<i64> = outcome.issued_ns.iter().map(|at| at / 1000).collect();
    assert_eq!(issued_us, [0, 1000, 3000, 3000, 3000, 4000]);
    assert_eq!(outcome.delayed, [false, false, true, true, false, false]);
    assert_eq!(progress.snapshot().waits_for_room, 1);
}

#[test]
fn an_io_due_just_when_a_slot_is_free_is_not_delayed() {
    let settings = Settings {
        in_flight_max: 1,
        ..Settings::default()
    };
    let (outcome, _) = run(
        &plan_of(vec![0, 1_000_000, 1_500_000]),
        1,
        Service::Constant(1_000_000),
        settings,
    );
    assert_eq!(outcome.issued_ns, [0, 1_000_000, 2_000_000]);
    assert_eq!(outcome.delayed, [false, false, true]);
}

#[test]
fn errors_of_single_ios_are_recorded_and_the_run_goes_on() {
    let clock = FakeClock::at(0);
    let law = Law {
        fail_every: Some((10, 5)),
        ..Law::new(8, Service::Constant(1000))
    };
    let mut device = SimulatedDevice::new(&clock, law, 1);
    let progress = progress();
    let outcome = play_on(
        &plan_of((0..100).collect()),
        &clock,
        &mut device,
        unlimited(),
        &progress,
    );
    assert_eq!(
        outcome.error.iter().filter(|&&error| error == 5).count(),
        10
    );
    assert_eq!(outcome.ended, Ended::Normally);
    let shot = progress.snapshot();
    assert_eq!(
        (shot.issued, shot.completed, shot.failed, shot.bytes),
        (100, 100, 10, 90 * 8192)
    );
}

#[test]
fn too_many_errors_end_the_run() {
    let clock = FakeClock::at(0);
    let law = Law {
        fail_every: Some((1, 5)),
        ..Law::new(1, Service::Constant(1000))
    };
    let mut device = SimulatedDevice::new(&clock, law, 1);
    let settings = Settings {
        errors_max: Some(2),
        ..Settings::default()
    };
    let plan = plan_of((0..100).map(|row| row * SECOND).collect());
    let outcome = play_on(&plan, &clock, &mut device, settings, &progress());
    assert_eq!(outcome.ended, Ended::TooManyErrors);
    assert_eq!(outcome.error, [5, 5, 5]);
}

#[test]
fn a_stop_keeps_what_was_measured_and_waits_for_what_is_in_flight() {
    let clock = FakeClock::at(0);
    let mut device = SimulatedDevice::new(&clock, Law::new(1, Service::Constant(1000)), 1);
    let progress = progress();
    progress.stop();
    let outcome = play_on(
        &plan_of(vec![0, 1]),
        &clock,
        &mut device,
        unlimited(),
        &progress,
    );
    assert_eq!(outcome.ended, Ended::Stopped);
    assert!(outcome.issued_ns.is_empty());
}

#[test]
fn a_dead_disk_is_given_up_after_the_drain_time() {
    let settings = Settings {
        drain_ns: 3 * SECOND,
        ..Settings::default()
    };
    let clock = FakeClock::at(0);
    let mut device = SimulatedDevice::new(&clock, Law::new(4, Service::Never), 1);
    let outcome = play_on(
        &plan_of(vec![0, 10, 20]),
        &clock,
        &mut device,
        settings,
        &progress(),
    );
    assert_eq!(outcome.completed_ns, [NEVER; 3]);
    assert!(device.abandoned);
    assert_eq!(clock.now_ns(), 20 + 3 * SECOND);
}

#[test]
fn a_device_that_breaks_ends_the_run_with_its_words() {
    let clock = FakeClock::at(0);
    let law = Law {
        breaks_after: 3,
        ..Law::new(4, Service::Constant(10))
    };
    let mut device = SimulatedDevice::new(&clock, law, 1);
    let outcome = play_on(
        &plan_of((0..9).collect()),
        &clock,
        &mut device,
        unlimited(),
        &progress(),
    );
    assert_eq!(outcome.ended, Ended::Broken("the ring is gone".into()));
    assert_eq!(outcome.issued_ns.len(), 3);
}

fn mean(values: impl Iterator<Item = i64>, rows: usize) -> f64 {
    values.map(|ns| ns as f64).sum::<f64>() / rows as f64
}

#[test]
fn a_row_that_waits_is_due_when_the_other_has_completed_and_it_has_thought() {
    // Two streams: rows 0, 2 and 3 one after the other, row 1 on its own, row 4 after row 1 without thinking.
    let plan = Plan {
        intended_ns: vec![0, 100, 200, 300, 400],
        after: Some(vec![(0, 0), (0, 0), (2, 50), (1, 70), (3, 0)]),
    };
    let (outcome, _) = run(&plan, 8, Service::Constant(1000), unlimited());
    assert_eq!(outcome.intended_ns, [0, 100, 1050, 2120, 1100]);
    assert_eq!(outcome.issued_ns, outcome.intended_ns);
    // A faster disk pulls the same rows forward.
    let (outcome, _) = run(&plan, 8, Service::Constant(10), unlimited());
    assert_eq!(outcome.issued_ns, [0, 100, 60, 140, 110]);
}

#[test]
fn chains_go_through_a_disk_as_fast_as_it_answers() {
    // 10,000 rows of 10 streams, each waiting for the row ten before: as long as 1,000 services and thinking times.
    let rows = 10_000;
    let plan = Plan {
        intended_ns: (0..rows).collect(),
        after: Some(
            (0..rows)
                .map(|row| {
                    if row < 10 {
                        (0, 0)
                    } else {
                        (10, 3 * MICROSECOND)
                    }
                })
                .collect(),
        ),
    };
    let (outcome, device) = run(&plan, 16, Service::Constant(7 * MICROSECOND), unlimited());
    assert_eq!(outcome.ended, Ended::Normally);
    assert_eq!(outcome.issued_ns[9_999], 9 + 999 * 10 * MICROSECOND);
    assert_eq!(device.in_flight_max, 10);
}

#[test]
fn a_closed_loop_keeps_as_many_in_flight_as_allowed_until_its_time_is_over() {
    let settings = Settings {
        in_flight_max: 8,
        paced: false,
        issue_until_ns: SECOND,
        ..Settings::default()
    };
    let plan = plan_of(vec![0; 100_000]);
    let (outcome, device) = run(&plan, 4, Service::Constant(1_000_000), settings);
    // Four servers of 1 ms each, from 5 ms before the run's start: 4,000 a second. Eight in flight wait for 2 ms.
    assert_eq!(device.in_flight_max, 8);
    assert_eq!(outcome.intended_ns, outcome.issued_ns);
    let rows = outcome.issued_ns.len();
    assert!((4020..=4028).contains(&rows), "{rows}");
    let service = outcome.completed_ns[rows - 1] - outcome.issued_ns[rows - 1];
    assert_eq!(service, 2_000_000);
    assert_eq!(outcome.ended, Ended::Normally);
}

#[test]
fn a_disk_that_stalls_for_a_while_is_measured_and_survived() {
    let law = Law {
        stall_ns: Some((SECOND / 2, 30 * SECOND)),
        ..Law::new(1, Service::Constant(1_000_000))
    };
    let clock = FakeClock::at(0);
    let mut device = SimulatedDevice::new(&clock, law, 1);
    let plan = plan_of((0..1000).map(|row| row * 2_000_000).collect());
    let outcome = play_on(&plan, &clock, &mut device, unlimited(), &progress());
    assert_eq!(outcome.ended, Ended::Normally);
    assert_eq!(outcome.completed_ns[249], 499_000_000);
    assert_eq!(outcome.completed_ns[250], 30 * SECOND + 501_000_000);
    assert!(!outcome.completed_ns.contains(&NEVER));
}

#[test]
fn a_disk_that_stalls_for_ever_ends_the_run_with_what_was_measured() {
    let law = Law {
        stall_ns: Some((SECOND / 2, 1 << 60)),
        ..Law::new(1, Service::Constant(1_000_000))
    };
    let settings = Settings {
        stall_ns: 5 * SECOND,
        in_flight_max: 64,
        ..Settings::default()
    };
    let clock = FakeClock::at(0);
    let mut device = SimulatedDevice::new(&clock, law, 1);
    let plan = plan_of((0..100_000).map(|row| row * 2_000_000).collect());
    let outcome = play_on(&plan, &clock, &mut device, settings, &progress());
    assert_eq!(outcome.ended, Ended::Stalled(0));
    assert_eq!(outcome.issued_ns.len(), 250 + 64);
    let seen = outcome.completed_ns.iter().filter(|&&at| at != NEVER);
    assert_eq!(seen.count(), 250);
    assert!(device.abandoned);
    // It ends by itself, 5 s after it owed its first completion.
    assert!((SECOND / 2 + 5 * SECOND..6 * SECOND).contains(&clock.now_ns()));
}

#[test]
fn a_disk_that_is_removed_fails_what_follows() {
    let law = Law {
        removed_at_ns: SECOND,
        ..Law::new(4, Service::Constant(1_000_000))
    };
    let clock = FakeClock::at(0);
    let mut device = SimulatedDevice::new(&clock, law, 1);
    let plan = plan_of((0..1000).map(|row| row * 2_000_000).collect());
    let outcome = play_on(&plan, &clock, &mut device, unlimited(), &progress());
    assert_eq!(outcome.ended, Ended::Normally);
    let failed = outcome.error.iter().filter(|&&error| error == 19).count();
    assert_eq!(failed, 500);
}

/// Mean wait in front of one server with constant service time: ρ s / (2 (1 − ρ)), Pollaczek 1930, Khinchine 1932.
#[test]
fn waits_obey_the_law_of_m_d_1() {
    let (rows, service_ns) = (400_000, 100_000.0);
    for load in [0.3, 0.6, 0.8] {
        let plan = plan_of(poisson(rows, service_ns / load, 7));
        let (outcome, _) = run(&plan, 1, Service::Constant(service_ns as i64), unlimited());
        let wait = mean(
            (0..rows).map(|r| outcome.completed_ns[r] - plan.intended_ns[r]),
            rows,
        ) - service_ns;
        let law = load * service_ns / (2.0 * (1.0 - load));
        assert!(
            (wait / law - 1.0).abs() < 0.05,
            "load {load}: mean wait {wait:.0} ns, the law says {law:.0}"
        );
    }
}

/// Mean wait in front of c exponential servers: C(c, a) s / (c − a), Erlang 1917.
#[test]
fn waits_obey_the_law_of_m_m_c() {
    let (rows, service_ns) = (400_000, 100_000.0);
    for (servers, load) in [(1_u32, 0.7), (4, 0.8), (16, 0.9)] {
        let offered = f64::from(servers) * load;
        let mut term = 1.0;
        let mut sum = 1.0;
        for k in 1..servers {
            term *= offered / f64::from(k);
            sum += term;
        }
        let last = term * offered / f64::from(servers) / (1.0 - load);
        let law = last / (sum + last) * service_ns / (f64::from(servers) - offered);
        let plan = plan_of(poisson(rows, service_ns / offered, 11));
        let (outcome, _) = run(
            &plan,
            servers as usize,
            Service::Exponential(service_ns as i64),
            unlimited(),
        );
        let wait = mean(
            (0..rows).map(|r| outcome.completed_ns[r] - plan.intended_ns[r]),
            rows,
        ) - service_ns;
        assert!(
            (wait / law - 1.0).abs() < 0.08,
            "{servers} at {load}: mean wait {wait:.0} ns, the law says {law:.0}"
        );
    }
}

/// Mean number in the system = arrival rate × mean time in it, Little 1961; exact over a busy span that ends empty.
#[test]
fn the_number_in_flight_obeys_littles_law() {
    let rows = 100_000;
    let plan = plan_of(poisson(rows, 50_000.0, 3));
    let (outcome, device) = run(&plan, 4, Service::Exponential(150_000), unlimited());
    let mut events: Vec<(i64, i64)> = outcome.issued_ns.iter().map(|&at| (at, 1)).collect();
    events.extend(outcome.completed_ns.iter().map(|&at| (at, -1)));
    events.sort_unstable();
    let (mut area, mut in_flight, mut most, mut last) = (0.0, 0, 0, events[0].0);
    let start = last;
    for (at, change) in events {
        area += in_flight as f64 * (at - last) as f64;
        in_flight += change;
        most = in_flight.max(most);
        last = at;
    }
    let span = (last - start) as f64;
    let time_in_system = mean(
        (0..rows).map(|r| outcome.completed_ns[r] - outcome.issued_ns[r]),
        rows,
    );
    let expected = rows as f64 / span * time_in_system;
    assert!((area / span / expected - 1.0).abs() < 1e-9);
    assert!(device.in_flight_max as i64 >= most);
}
