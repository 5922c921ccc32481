//! The pacer in simulated time, against exact schedules and the laws of queues.

use std::sync::Arc;

use arrow_array::{
    BooleanArray, Int64Array, RecordBatch, UInt8Array, UInt16Array, UInt32Array, UInt64Array,
};

use super::*;
use crate::clock::FakeClock;
use crate::device::fake::{FakeDevice, Service};
use crate::memory::Random;
use crate::outcome::NOT_COMPLETED;

const MICROSECOND: i64 = 1_000;
const SECOND: i64 = 1_000_000_000;

fn plan_of(intended_ns: Vec<i64>) -> Plan {
    let rows = intended_ns.len();
    let batch = RecordBatch::try_from_iter([
        (
            "intended_ns",
            Arc::new(Int64Array::from(intended_ns)) as arrow_array::ArrayRef,
        ),
        ("offset_bytes", Arc::new(UInt64Array::from(vec![0; rows]))),
        ("size_bytes", Arc::new(UInt32Array::from(vec![8192; rows]))),
        ("op", Arc::new(UInt8Array::from(vec![0; rows]))),
        ("target", Arc::new(UInt16Array::from(vec![0; rows]))),
        ("durable", Arc::new(BooleanArray::from(vec![false; rows]))),
    ])
    .expect("columns of one length");
    Plan::from_batch(&batch, 1).expect("a plan that can be played")
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

fn run(plan: &Plan, servers: usize, service: Service, settings: Settings) -> (Outcome, FakeDevice) {
    let clock = FakeClock::at(-5_000_000);
    let mut device = FakeDevice::new(&clock, servers, service, 42);
    let outcome = play(plan, &clock, &mut device, settings, &Progress::default());
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
    assert!(outcome.flags.iter().all(|&flags| flags == 0));
    assert_eq!(outcome.ended, Ended::Normally);
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
    let delayed: Vec<bool> = outcome
        .flags
        .iter()
        .map(|&flags| flags == FLAG_DELAYED)
        .collect();
    assert_eq!(delayed, [vec![false; 4], vec![true; 6]].concat());
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
    assert_eq!(outcome.flags, [0, 0, FLAG_DELAYED]);
}

#[test]
fn errors_of_single_ios_are_recorded_and_the_run_goes_on() {
    let clock = FakeClock::at(0);
    let mut device = FakeDevice::new(&clock, 8, Service::Constant(1000), 1);
    device.fail_every = Some((10, 5));
    let progress = Progress::default();
    let outcome = play(
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
    let mut device = FakeDevice::new(&clock, 1, Service::Constant(1000), 1);
    device.fail_every = Some((1, 5));
    let settings = Settings {
        errors_max: Some(2),
        ..Settings::default()
    };
    let plan = plan_of((0..100).map(|row| row * SECOND).collect());
    let outcome = play(&plan, &clock, &mut device, settings, &Progress::default());
    assert_eq!(outcome.ended, Ended::TooManyErrors);
    assert_eq!(outcome.error, [5, 5, 5]);
}

#[test]
fn a_stop_keeps_what_was_measured_and_waits_for_what_is_in_flight() {
    let clock = FakeClock::at(0);
    let mut device = FakeDevice::new(&clock, 1, Service::Constant(1000), 1);
    let progress = Progress::default();
    progress.stop();
    let outcome = play(
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
    let mut device = FakeDevice::new(&clock, 4, Service::Never, 1);
    let outcome = play(
        &plan_of(vec![0, 10, 20]),
        &clock,
        &mut device,
        settings,
        &Progress::default(),
    );
    assert_eq!(outcome.completed_ns, [NOT_COMPLETED; 3]);
    assert!(device.abandoned);
    assert_eq!(clock.now_ns(), 20 + 3 * SECOND);
}

#[test]
fn a_device_that_breaks_ends_the_run_with_its_words() {
    let clock = FakeClock::at(0);
    let mut device = FakeDevice::new(&clock, 4, Service::Constant(10), 1);
    device.breaks_after = 3;
    let outcome = play(
        &plan_of((0..9).collect()),
        &clock,
        &mut device,
        unlimited(),
        &Progress::default(),
    );
    assert_eq!(outcome.ended, Ended::Broken("the ring is gone".into()));
    assert_eq!(outcome.issued_ns.len(), 3);
}

fn mean(values: impl Iterator<Item = i64>, rows: usize) -> f64 {
    values.map(|ns| ns as f64).sum::<f64>() / rows as f64
}

/// Mean wait in front of one server with constant service time: ρ s / (2 (1 − ρ)), Pollaczek 1930, Khinchine 1932.
#[test]
fn waits_obey_the_law_of_m_d_1() {
    let (rows, service_ns) = (400_000, 100_000.0);
    for load in [0.3, 0.6, 0.8] {
        let plan = plan_of(poisson(rows, service_ns / load, 7));
        let (outcome, _) = run(&plan, 1, Service::Constant(service_ns as i64), unlimited());
        let wait = mean(
            (0..rows).map(|r| outcome.completed_ns[r] - plan.intended_ns(r)),
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
            (0..rows).map(|r| outcome.completed_ns[r] - plan.intended_ns(r)),
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
