//! How long before a deadline the alarm has to be set, for a sleeper who is woken late.
//!
//! A quiet host wakes a thread within 50 µs; a virtual machine whose processor was given to somebody else meanwhile takes
//! several times as long, and no clock tells beforehand. So it is learnt while the run goes on: a running estimate of a
//! high quantile by stochastic approximation (Robbins and Monro, "A Stochastic Approximation Method", Ann. Math. Stat.
//! 1951). Each alarm that rings later than expected moves the estimate up by 199 steps, each other one down by one step:
//! the two balance where one in 200 is late.

const STEP_NS: i64 = 250;
const ONE_LATE_IN: i64 = 200;
/// Spinning longer would take a processor for good from a host that has few. What is later than this is a pause, and no
/// alarm helps against it.
const EARLY_NS_MAX: i64 = 1_000_000;

/// Learns how late alarms ring.
#[derive(Clone, Copy, Debug)]
pub struct Alarm {
    least_ns: i64,
    early_ns: i64,
}

impl Alarm {
    /// Set at least `least_ns` before a deadline.
    #[must_use]
    pub fn new(least_ns: i64) -> Self {
        Self {
            least_ns,
            early_ns: least_ns,
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
            STEP_NS * (ONE_LATE_IN - 1)
        } else {
            -STEP_NS
        };
        let most_ns = EARLY_NS_MAX.max(self.least_ns);
        self.early_ns = self.early_ns.clamp(self.least_ns, most_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Random;

    #[test]
    fn it_settles_where_one_in_two_hundred_is_late() {
        // Exponentially late by 60 µs at the mean: the quantile is 60 µs * ln(200) = 318 µs.
        let (mut alarm, mut random) = (Alarm::new(150_000), Random::new(1));
        let mut late = || (-random.unit().ln() * 60_000.0) as i64;
        for _ in 0..20_000 {
            alarm.rang(late());
        }
        let rounds = 100_000;
        let (mut missed, mut sum_ns) = (0, 0);
        for _ in 0..rounds {
            let late_ns = late();
            missed += i64::from(late_ns > alarm.early_ns());
            sum_ns += alarm.early_ns();
            alarm.rang(late_ns);
        }
        // 500 expected; four standard errors of independent ones would be 89.
        assert!((411..589).contains(&missed), "{missed}");
        let mean_ns = sum_ns / rounds;
        assert!((280_000..380_000).contains(&mean_ns), "{mean_ns}");
    }

    #[test]
    fn a_punctual_host_gets_the_least_and_no_host_more_than_a_millisecond() {
        let mut alarm = Alarm::new(150_000);
        for _ in 0..100 {
            alarm.rang(0);
        }
        assert_eq!(alarm.early_ns(), 150_000);
        for _ in 0..100 {
            alarm.rang(30_000_000);
        }
        assert_eq!(alarm.early_ns(), 1_000_000);
        assert_eq!(Alarm::new(2_000_000).early_ns(), 2_000_000);
    }
}
