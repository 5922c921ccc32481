//! What waiting costs on this host, tried before a run without any I/O.
//!
//! The calling thread has a deadline every half millisecond, and wakes a helper thread at the start of each wait, as an
//! I/O wakes the thread that serves it. First it sleeps until the deadline: how late it wakes is the lateness that gentle
//! pacing will have, and how soon the helper runs is what the storage is used to. Then it spins until the deadline: how
//! much later the helper runs now is what spinning would do to the storage's own threads.

use std::io;
use std::sync::atomic::{
    AtomicBool, AtomicI64,
    Ordering::{Acquire, Release},
};
use std::time::Duration;

use crate::backend::prefer_this_thread;
use crate::clock::{Clock, MonotonicClock};
use crate::pacer::Pacing;

const GAP_NS: i64 = 500_000;
/// The helper has nothing to do.
const NOTHING: i64 = i64::MIN;

/// The p50, p90 and p99 of what was seen, in nanoseconds.
pub type Quantiles = [i64; 3];

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct Trial {
    /// How late a sleeper wakes.
    pub lateness: Quantiles,
    /// How long a thread that was woken waits to run while the one that woke it goes to sleep.
    pub others_beside_sleeper: Quantiles,
    /// The same while the one that woke it spins.
    pub others_beside_spinner: Quantiles,
}

/// Try for so long, on a thread of its own.
pub fn try_waiting(length: Duration) -> io::Result<Trial> {
    std::thread::Builder::new()
        .name("iotrace-trial".into())
        .spawn(move || run(length))?
        .join()
        .map_err(|_| io::Error::other("the trial of this host's clock broke off"))?
}

fn run(length: Duration) -> io::Result<Trial> {
    // Of this thread alone, which ends with the trial.
    let _ = prefer_this_thread(Pacing::Gentle);
    let clock = MonotonicClock::starting_in(0);
    let (sent_ns, closing) = (AtomicI64::new(NOTHING), AtomicBool::new(false));
    let rounds = (length.as_nanos() as i64 / 2 / GAP_NS).max(10);
    std::thread::scope(|scope| {
        let helper = std::thread::Builder::new()
            .name("iotrace-trial".into())
            .spawn_scoped(scope, || {
                let mut waits = Vec::with_capacity(2 * rounds as usize);
                while !closing.load(Acquire) {
                    std::thread::park();
                    let woken_ns = sent_ns.swap(NOTHING, Acquire);
                    if woken_ns != NOTHING {
                        waits.push((woken_ns, clock.now_ns() - woken_ns));
                    }
                }
                waits
            })?;
        let mut late = Vec::with_capacity(rounds as usize);
        let mut turned_ns = 0;
        for spins in [false, true] {
            turned_ns = clock.now_ns();
            for round in 1..=rounds {
                let due_ns = turned_ns + round * GAP_NS;
                // One that has not run yet goes on waiting: a long wait is not cut into short ones.
                if sent_ns.load(Acquire) == NOTHING {
                    sent_ns.store(clock.now_ns(), Release);
                    helper.thread().unpark();
                }
                if spins {
                    while clock.now_ns() < due_ns {
                        clock.relax(due_ns);
                    }
                } else {
                    let left_ns = (due_ns - clock.now_ns()).max(0);
                    std::thread::sleep(Duration::from_nanos(left_ns as u64));
                    late.push(clock.now_ns() - due_ns);
                }
            }
        }
        closing.store(true, Release);
        helper.thread().unpark();
        let waits = helper
            .join()
            .map_err(|_| io::Error::other("the trial of this host's clock broke off"))?;
        let (beside_spinner, beside_sleeper): (Vec<_>, Vec<_>) =
            waits.into_iter().partition(|wait| wait.0 >= turned_ns);
        let waited = |all: Vec<(i64, i64)>| quantiles(all.into_iter().map(|wait| wait.1).collect());
        Ok(Trial {
            lateness: quantiles(late),
            others_beside_sleeper: waited(beside_sleeper),
            others_beside_spinner: waited(beside_spinner),
        })
    })
}

/// The smallest values that at least half, nine in ten and 99 in a hundred of them do not exceed.
fn quantiles(mut values: Vec<i64>) -> Quantiles {
    values.sort_unstable();
    [50, 90, 99].map(|percent| {
        let rank = (values.len() * percent).div_ceil(100).max(1);
        values.get(rank - 1).copied().unwrap_or(0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_the_smallest_values_that_enough_do_not_exceed() {
        assert_eq!(quantiles((1..=1000).rev().collect()), [500, 900, 990]);
        assert_eq!(quantiles(vec![7]), [7, 7, 7]);
        assert_eq!(quantiles(vec![]), [0, 0, 0]);
    }

    #[test]
    fn a_trial_sees_sleepers_wake_and_helpers_run() {
        let found = try_waiting(Duration::from_millis(60)).expect("threads can be made");
        for seen in [
            found.lateness,
            found.others_beside_sleeper,
            found.others_beside_spinner,
        ] {
            assert!(seen[0] > 0 && seen.is_sorted(), "{found:?}");
        }
    }
}
