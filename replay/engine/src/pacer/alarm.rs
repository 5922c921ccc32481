//! How long before a deadline the alarm has to be set, for a sleeper who is woken late.
//!
//! A quiet host wakes a thread within 50 µs; a virtual machine whose processor was given to somebody else meanwhile takes
//! several times as long, and no clock tells beforehand. So it is learnt while the run goes on: a running estimate of a
//! quantile by stochastic approximation (Robbins and Monro, "A Stochastic Approximation Method", Ann. Math. Stat.
//! 1951). Each alarm that rings later than expected moves the estimate up by n - 1 steps, each other one down by one step:
//! the two balance where one in n is late.

const STEP_NS: i64 = 250;

/// What a submitter does between two deadlines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pacing {
    /// Wake early enough for one deadline in 200, by 150 µs at least, and keep the processor until it is due.
    Precise,
    /// Wake early enough for three deadlines in four, by 100 µs at most, and let others have the processor until then.
    ///
    /// What is spun is then some 10 µs an I/O, which is what an ordinary program takes as well. A storage path that
    /// needs the processor (a loop device's worker, an interrupt's second half) gets it at once.
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

/// Learns how late alarms ring.
#[derive(Clone, Copy, Debug)]
pub struct Alarm {
    pacing: Pacing,
    early_ns: i64,
}

impl Alarm {
    /// Set as early as `pacing` asks for.
    #[must_use]
    pub fn new(pacing: Pacing) -> Self {
        Self {
            pacing,
            early_ns: pacing.bounds_ns().0,
        }
    }

    /// How long before a deadline it is to be set now.
    #[must_use]
    pub fn early_ns(&self) -> i64 {
        self.early_ns
    }

    /// It rang so late.
    pub fn rang(&mut self, late_ns: i64) {
        self.early_ns += if late_ns > self.early_ns {
            STEP_NS * (self.pacing.one_late_in() - 1)
        } else {
            -STEP_NS
        };
        let (least_ns, most_ns) = self.pacing.bounds_ns();
        self.early_ns = self.early_ns.clamp(least_ns, most_ns);
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
