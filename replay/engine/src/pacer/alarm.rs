//! When the alarm is set for a deadline, by a sleeper who is woken late.
//!
//! A quiet host wakes a thread within 50 µs; a virtual machine whose processor was given to somebody else meanwhile takes
//! several times as long, and no clock tells beforehand. So it is learnt while the run goes on: a running estimate of a
//! quantile by stochastic approximation (Robbins and Monro, "A Stochastic Approximation Method", Ann. Math. Stat.
//! 1951). Each alarm that rings later than expected moves the estimate up by n - 1 steps, each other one down by one step:
//! the two balance where one in n is late. The median service is learnt in the same way.

const STEP_NS: i64 = 250;
/// An I/O that usually takes no longer is served by processors of this host, and perhaps by the one that a wake-up would take
/// away from it: a loop device's worker, a memory disk. A flash device takes longer, and needs no processor meanwhile.
const SERVED_HERE_NS: i64 = 60_000;
/// After so many times the median service such an I/O has ended, mostly.
const ENDED_BY: i64 = 2;
/// For so long gentle pacing lets such an I/O end before it is woken for the next one.
const PATIENCE_NS: i64 = 30_000;
/// So near a deadline the program that was recorded had not gone to sleep either.
const NEAR_NS: i64 = 10_000;
/// Lateness of one in so many parts of the median service changes no answer.
const NEGLIGIBLE_PART: i64 = 10;

/// What a submitter does between two deadlines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pacing {
    /// Wake early enough for one deadline in 200, by 150 µs at least, and spin until it is due.
    Precise,
    /// Wake early enough for three deadlines in four, by 100 µs at most, and spin until it is due: some 15 µs an I/O, and a
    /// processor that has just been woken is slower. Not where being late is nothing beside the median service, nor
    /// where an I/O under way would be held up by it.
    Gentle,
}

impl Pacing {
    /// How early to wake at least and at most.
    const fn bounds_ns(self) -> (i64, i64) {
        match self {
            // Spinning longer would take a processor for good from a host that has few. What is later than the most is a
            // pause, and no alarm helps against it.
            Self::Precise => (150_000, 1_000_000),
            Self::Gentle => (0, 100_000),
        }
    }

    const fn one_late_in(self) -> i64 {
        match self {
            Self::Precise => 200,
            Self::Gentle => 4,
        }
    }
}

/// Learns how late alarms ring, and how long I/Os take.
#[derive(Clone, Copy, Debug)]
pub struct Alarm {
    pacing: Pacing,
    early_ns: i64,
    service_ns_p50: i64,
}

impl Alarm {
    /// Set as early as `pacing` asks for.
    #[must_use]
    pub fn new(pacing: Pacing) -> Self {
        Self {
            pacing,
            early_ns: pacing.bounds_ns().0,
            service_ns_p50: 0,
        }
    }

    /// How long before a deadline it is to be set now, where being late matters.
    #[cfg(test)]
    pub fn early_ns(&self) -> i64 {
        self.early_ns
    }

    /// When to wake for a deadline that is the next; in the past where it is too near for sleep.
    #[must_use]
    pub fn wake_ns(&self, due_ns: i64, now_ns: i64, in_flight: usize) -> i64 {
        if self.pacing == Pacing::Gentle {
            if in_flight > 0 && self.service_ns_p50 < SERVED_HERE_NS {
                if due_ns - now_ns <= NEAR_NS {
                    return now_ns;
                }
                // It will have ended by then, and the alarm need not be moved.
                let usual_ns = due_ns - self.early_ns;
                return if usual_ns - now_ns >= ENDED_BY * self.service_ns_p50 {
                    usual_ns
                } else {
                    due_ns + PATIENCE_NS
                };
            }
            if self.early_ns * NEGLIGIBLE_PART <= self.service_ns_p50 {
                return due_ns;
            }
        }
        due_ns - self.early_ns
    }

    /// It was set for `early_ns` before a deadline, while nothing was in flight or did not matter, and rang so late.
    pub fn rang(&mut self, late_ns: i64) {
        let others = self.pacing.one_late_in() - 1;
        let (least_ns, most_ns) = self.pacing.bounds_ns();
        self.early_ns += if late_ns > self.early_ns {
            STEP_NS * others
        } else {
            -STEP_NS
        };
        self.early_ns = self.early_ns.clamp(least_ns, most_ns);
    }

    /// An I/O took so long. Steps are of a part of the estimate: storage takes microseconds or milliseconds.
    pub fn took(&mut self, service_ns: i64) {
        let step_ns = STEP_NS.max(self.service_ns_p50 / 16);
        self.service_ns_p50 += if service_ns > self.service_ns_p50 {
            step_ns
        } else {
            -step_ns
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Random;

    /// Rounds, how many of them rang too late, and the mean of how early it was set; exponentially late by `mean_ns`.
    fn settle(pacing: Pacing, mean_ns: f64) -> (i64, i64) {
        let (mut alarm, mut random) = (Alarm::new(pacing), Random::new(1));
        let mut late = || (-random.unit().ln() * mean_ns) as i64;
        for _ in 0..20_000 {
            alarm.rang(late());
        }
        let (mut missed, mut sum_ns) = (0, 0);
        for _ in 0..ROUNDS {
            let late_ns = late();
            missed += i64::from(late_ns > alarm.early_ns());
            sum_ns += alarm.early_ns();
            alarm.rang(late_ns);
        }
        (missed, sum_ns / ROUNDS)
    }

    const ROUNDS: i64 = 100_000;

    #[test]
    fn precise_settles_where_one_in_two_hundred_is_late() {
        // The quantile is 60 µs * ln(200) = 318 µs.
        let (missed, mean_ns) = settle(Pacing::Precise, 60_000.0);
        // 500 expected; four standard errors of independent ones would be 89.
        assert!((411..589).contains(&missed), "{missed}");
        assert!((280_000..380_000).contains(&mean_ns), "{mean_ns}");
    }

    #[test]
    fn gentle_settles_where_one_in_four_is_late() {
        // The quantile is 40 µs * ln(4) = 55 µs.
        let (missed, mean_ns) = settle(Pacing::Gentle, 40_000.0);
        // 25,000 expected; four standard errors of independent ones would be 548.
        assert!((24_452..25_548).contains(&missed), "{missed}");
        assert!((53_000..58_000).contains(&mean_ns), "{mean_ns}");
    }

    /// Gentle, woken 40 µs late each time, on storage that takes exponentially long by `mean_ns`.
    fn learnt(mean_ns: f64) -> Alarm {
        let (mut alarm, mut random) = (Alarm::new(Pacing::Gentle), Random::new(1));
        for _ in 0..2000 {
            alarm.rang(40_000);
            alarm.took((-random.unit().ln() * mean_ns) as i64);
        }
        assert!((39_000..41_000).contains(&alarm.early_ns()), "{alarm:?}");
        alarm
    }

    #[test]
    fn gentle_lets_a_short_io_end_before_it_wakes_for_the_next() {
        let alarm = learnt(30_000.0);
        let usual_ns = 500_000 - alarm.early_ns();
        assert_eq!(alarm.wake_ns(500_000, usual_ns - 10_000, 1), 530_000);
        assert!(alarm.wake_ns(500_000, 495_000, 1) <= 495_000);
        // Long before it, the alarm is set once.
        assert_eq!(alarm.wake_ns(500_000, 300_000, 1), usual_ns);
        assert_eq!(
            alarm.wake_ns(500_000, 300_000, 0),
            500_000 - alarm.early_ns()
        );
    }

    #[test]
    fn gentle_wakes_early_beside_long_ios_and_not_at_all_where_lateness_is_nothing_to_them() {
        let alarm = learnt(200_000.0);
        assert_eq!(
            alarm.wake_ns(500_000, 300_000, 1),
            500_000 - alarm.early_ns()
        );
        let alarm = learnt(4_000_000.0);
        assert_eq!(alarm.wake_ns(500_000, 300_000, 1), 500_000);
    }

    #[test]
    fn the_median_service_is_found_from_microseconds_to_seconds() {
        for mean_ns in [20_000.0, 2_000_000.0, 1e9] {
            let median_ns = mean_ns * std::f64::consts::LN_2;
            let found = learnt(mean_ns).service_ns_p50 as f64 / median_ns;
            // A part of 16 up or down at each step: it wanders about the median.
            assert!((0.5..2.0).contains(&found), "{mean_ns}: {found}");
        }
    }

    #[test]
    fn precise_wakes_early_whatever_is_under_way() {
        let mut alarm = Alarm::new(Pacing::Precise);
        for _ in 0..1000 {
            alarm.took(20_000);
        }
        assert_eq!(alarm.wake_ns(500_000, 300_000, 1), 350_000);
    }

    #[test]
    fn a_punctual_host_gets_the_least_and_no_host_more_than_the_most() {
        for (pacing, least_ns, most_ns) in [
            (Pacing::Precise, 150_000, 1_000_000),
            (Pacing::Gentle, 0, 100_000),
        ] {
            let mut alarm = Alarm::new(pacing);
            for _ in 0..100 {
                alarm.rang(0);
            }
            assert_eq!(alarm.early_ns(), least_ns);
            for _ in 0..1000 {
                alarm.rang(30_000_000);
            }
            assert_eq!(alarm.early_ns(), most_ns);
        }
    }
}
