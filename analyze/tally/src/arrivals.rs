//! How I/Os arrived: the gaps between them, and how many came in the fullest stretches of some lengths.

/// Lengths in which arrivals are counted, aligned to the recording's start; each divides the next.
pub const BINS_NS: [i64; 3] = [10_000_000, 100_000_000, 1_000_000_000];

/// Sums over the gaps between neighbouring arrivals, enough for their mean and variance, and arrivals per bin.
#[derive(Clone, Debug)]
pub struct Arrivals {
    count: u64,
    first_ns: i64,
    last_ns: i64,
    square_sum_ns2: u128,
    /// The last nanosecond of the bins that are being filled.
    bin_ends_ns: [i64; 3],
    /// Arrivals in them; those of the shortest are passed on when it is full.
    filled: [u64; 3],
    peaks: [u64; 3],
}

impl Default for Arrivals {
    fn default() -> Self {
        Self {
            count: 0,
            first_ns: 0,
            last_ns: 0,
            square_sum_ns2: 0,
            bin_ends_ns: [i64::MIN; 3],
            filled: [0; 3],
            peaks: [0; 3],
        }
    }
}

impl Arrivals {
    /// Takes in an arrival, not before the last one.
    #[inline]
    pub fn add(&mut self, at_ns: i64) {
        if self.count == 0 {
            self.first_ns = at_ns;
            self.last_ns = at_ns;
        }
        self.count += 1;
        let gap = u128::from(at_ns.abs_diff(self.last_ns));
        self.square_sum_ns2 = self.square_sum_ns2.saturating_add(gap * gap);
        self.last_ns = at_ns;
        if at_ns > self.bin_ends_ns[0] {
            self.turn(at_ns);
        }
        self.filled[0] += 1;
    }

    /// Gaps, one less than arrivals.
    pub fn gap_count(&self) -> u64 {
        self.count.saturating_sub(1)
    }

    /// Sum of the gaps.
    pub fn gap_sum_ns(&self) -> f64 {
        (i128::from(self.last_ns) - i128::from(self.first_ns)) as f64
    }

    /// Sum of the squares of the gaps.
    pub fn gap_square_sum_ns2(&self) -> f64 {
        self.square_sum_ns2 as f64
    }

    /// Arrivals in the fullest bin of each length.
    pub fn peaks(&self) -> [u64; 3] {
        let mut whole = self.clone();
        whole.pass_on(3);
        whole.peaks
    }

    #[cold]
    fn turn(&mut self, at_ns: i64) {
        let full = self
            .bin_ends_ns
            .iter()
            .take_while(|&&end| at_ns > end)
            .count();
        self.pass_on(full);
        for (end, width) in self.bin_ends_ns.iter_mut().zip(BINS_NS).take(full) {
            let start = at_ns.div_euclid(width).saturating_mul(width);
            *end = start.saturating_add(width - 1);
        }
    }

    /// Closes the `full` shortest bins.
    fn pass_on(&mut self, full: usize) {
        for bin in 0..full {
            let arrivals = std::mem::take(&mut self.filled[bin]);
            self.peaks[bin] = self.peaks[bin].max(arrivals);
            if let Some(longer) = self.filled.get_mut(bin + 1) {
                *longer += arrivals;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Arrivals, BINS_NS};

    fn of(times: &[i64]) -> Arrivals {
        let mut arrivals = Arrivals::default();
        for &at in times {
            arrivals.add(at);
        }
        arrivals
    }

    #[test]
    fn bins_lie_at_multiples_of_their_length_before_the_start_too() {
        let found = of(&[-10_000_001, -10_000_000, -1, 0, 9_999_999, 10_000_000]);
        assert_eq!(found.peaks(), [2, 3, 3]);
        assert_eq!(found.gap_count(), 5);
        assert!((found.gap_sum_ns() - 20_000_001.0).abs() < 1e-9);
    }

    #[test]
    fn nothing_has_no_peak() {
        assert_eq!(of(&[]).peaks(), [0, 0, 0]);
        assert_eq!(of(&[]).gap_count(), 0);
    }

    #[test]
    fn the_ends_of_time_are_times() {
        assert_eq!(
            of(&[i64::MIN, i64::MIN, 0, i64::MAX, i64::MAX]).peaks(),
            [2, 2, 2]
        );
        assert_eq!(BINS_NS[2] % BINS_NS[1], 0);
    }
}
