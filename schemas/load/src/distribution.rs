//! Sums, extremes and quantiles of times, in memory that does not grow with their number.
//!
//! A histogram of three significant digits: a quantile is within 0.1 % of the exact one, a maximum is exact.

use hdrhistogram::Histogram;

/// One quantity in nanoseconds.
#[derive(Clone, Debug)]
pub struct Distribution {
    histogram: Histogram<u64>,
    sum_ns: i128,
    max_ns: i64,
}

impl Default for Distribution {
    fn default() -> Self {
        Self {
            histogram: Histogram::new(3).expect("3 digits are possible"),
            sum_ns: 0,
            max_ns: i64::MIN,
        }
    }
}

impl Distribution {
    /// Take in a value.
    pub fn add(&mut self, ns: i64) {
        // Nothing is negative but by the resolution of a clock; and it grows to hold any value.
        self.add_many(ns, 1);
    }

    /// Take in a value so many times.
    pub fn add_many(&mut self, ns: i64, times: u64) {
        if times > 0 {
            let _ = self.histogram.record_n(ns.max(0) as u64, times);
            self.sum_ns += i128::from(ns) * i128::from(times);
            self.max_ns = self.max_ns.max(ns);
        }
    }

    /// Add what another one holds.
    pub fn merge(&mut self, other: &Self) {
        let _ = self.histogram.add(&other.histogram);
        self.sum_ns += other.sum_ns;
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// How many values.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// The smallest value that at least `share` of them do not exceed, within 0.1 %.
    #[must_use]
    pub fn quantile_ns(&self, share: f64) -> Option<i64> {
        (self.count() > 0)
            .then(|| (self.histogram.value_at_quantile(share) as i64).min(self.max_ns.max(0)))
    }

    /// Mean.
    #[must_use]
    pub fn mean_ns(&self) -> Option<f64> {
        (self.count() > 0).then(|| self.sum_ns as f64 / self.count() as f64)
    }

    /// Largest.
    #[must_use]
    pub fn max_ns(&self) -> Option<i64> {
        (self.count() > 0).then_some(self.max_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::Distribution;

    #[test]
    fn of_one_to_a_million_every_quantile_is_within_a_thousandth() {
        let mut all = Distribution::default();
        let mut odd = Distribution::default();
        (1..=1_000_000).for_each(|ns| {
            if ns % 2 == 0 {
                all.add(ns);
            } else {
                odd.add(ns);
            }
        });
        all.merge(&odd);
        for share in [0.01, 0.5, 0.9, 0.99, 0.999, 1.0] {
            let found = all.quantile_ns(share).unwrap() as f64;
            assert!(
                (found / (share * 1e6) - 1.0).abs() <= 1e-3,
                "{share}: {found}"
            );
        }
        assert_eq!(all.count(), 1_000_000);
        assert_eq!(all.mean_ns(), Some(500_000.5));
        assert_eq!(all.max_ns(), Some(1_000_000));
    }

    #[test]
    fn of_nothing_nothing_is_said() {
        let none = Distribution::default();
        assert_eq!(
            (none.quantile_ns(0.5), none.mean_ns(), none.max_ns()),
            (None, None, None)
        );
    }
}
