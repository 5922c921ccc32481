//! How I/Os arrived: the gaps between them, and how many came within the fullest stretches of some lengths.

/// Lengths of time whose fullest stretch is looked for: 10 ms, 100 ms and 1 s.
pub const WIDTHS_NS: [i64; 3] = [10_000_000, 100_000_000, 1_000_000_000];

/// So many times are kept before any that are over are let go of.
const OVER_MIN: usize = 1 << 13;
const GAPS_MIN: f64 = 100.0;
const STRETCHES_MIN: f64 = 10.0;

/// Sums over the gaps between neighbouring arrivals, enough for their mean and variance, and the fullest stretches.
///
/// A stretch begins at an arrival, wherever that is: on a grid, a burst that a border cuts in two would count half.
/// Arrivals of the last second are kept, in runs of one time each.
#[derive(Clone, Debug, Default)]
pub struct Arrivals {
    count: u64,
    first_ns: i64,
    last_ns: i64,
    square_sum_ns2: u128,
    /// Times within the longest of the lengths and some before, and how many arrived up to and with each.
    recent: Vec<(i64, u64)>,
    /// How many of them are to be kept before those that are over go.
    full_at: usize,
    stretches: [Stretch; 3],
}

/// The latest stretch of one length. It begins too early while it holds no more than the fullest even so.
#[derive(Clone, Copy, Debug, Default)]
struct Stretch {
    /// The position in `recent` at which it begins.
    begin: usize,
    /// How many arrived before it.
    before: u64,
    /// Arrivals in the fullest.
    peak: u64,
}

impl Stretch {
    /// Lets it begin less than a length before `at_ns`.
    #[inline]
    fn settle(&mut self, recent: &[(i64, u64)], at_ns: i64, width_ns: i64) {
        while at_ns.abs_diff(recent[self.begin].0) >= width_ns as u64 {
            self.before = recent[self.begin].1;
            self.begin += 1;
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
        match self.recent.last_mut() {
            Some(last) if last.0 == at_ns => last.1 = self.count,
            _ => self.recent.push((at_ns, self.count)),
        }
        for (stretch, width_ns) in self.stretches.iter_mut().zip(WIDTHS_NS) {
            if self.count - stretch.before > stretch.peak {
                stretch.settle(&self.recent, at_ns, width_ns);
                stretch.peak = stretch.peak.max(self.count - stretch.before);
            }
        }
        if self.recent.len() >= self.full_at {
            self.let_go(at_ns);
        }
    }

    /// Lets go of what the longest stretch has passed.
    #[inline(never)]
    fn let_go(&mut self, at_ns: i64) {
        for (stretch, width_ns) in self.stretches.iter_mut().zip(WIDTHS_NS) {
            stretch.settle(&self.recent, at_ns, width_ns);
        }
        let over = self.stretches[WIDTHS_NS.len() - 1].begin;
        self.recent.drain(..over);
        self.stretches.iter_mut().for_each(|one| one.begin -= over);
        self.full_at = OVER_MIN.max(2 * self.recent.len());
    }

    /// I/Os that arrived.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// When the first arrived, and the last.
    #[must_use]
    pub fn span_ns(&self) -> (i64, i64) {
        (self.first_ns, self.last_ns)
    }

    /// Arrivals a second between the first and the last; None where they are at one moment.
    #[must_use]
    pub fn rate_per_s(&self) -> Option<f64> {
        (self.length_ns() > 0.0).then(|| self.gap_count() * 1e9 / self.length_ns())
    }

    /// Standard deviation over mean of the gaps: 1 for random (Poisson) arrivals, 0 for a metronome; None below 100 gaps.
    #[must_use]
    pub fn coefficient_of_variation(&self) -> Option<f64> {
        if self.gap_count() < GAPS_MIN || self.length_ns() <= 0.0 {
            return None;
        }
        let mean_ns = self.length_ns() / self.gap_count();
        let variance_ns2 = self.square_sum_ns2 as f64 / self.gap_count() - mean_ns * mean_ns;
        Some(variance_ns2.max(0.0).sqrt() / mean_ns)
    }

    /// How much fuller the fullest stretch of each of `WIDTHS_NS` is than the mean one between the first arrival and the
    /// last; None where there are fewer than ten of them.
    #[must_use]
    pub fn peak_to_mean(&self) -> [Option<f64>; 3] {
        let mut widths_ns = WIDTHS_NS.into_iter();
        self.peaks().map(|peak| {
            let stretches = self.length_ns() / widths_ns.next()? as f64;
            (stretches >= STRETCHES_MIN).then(|| peak as f64 * stretches / self.gap_count())
        })
    }

    fn gap_count(&self) -> f64 {
        self.count.saturating_sub(1) as f64
    }

    fn length_ns(&self) -> f64 {
        (i128::from(self.last_ns) - i128::from(self.first_ns)) as f64
    }

    /// Arrivals in the fullest stretch of each of `WIDTHS_NS`.
    #[must_use]
    pub fn peaks(&self) -> [u64; 3] {
        self.stretches.map(|stretch| stretch.peak)
    }
}

#[cfg(test)]
mod tests {
    use super::{Arrivals, OVER_MIN, WIDTHS_NS};

    fn of(times: &[i64]) -> Arrivals {
        let mut arrivals = Arrivals::default();
        for &at in times {
            arrivals.add(at);
        }
        arrivals
    }

    #[test]
    fn a_burst_counts_whole_wherever_it_lies() {
        let found = of(&[-10_000_001, -10_000_000, -1, 0, 9_999_998, 10_000_000]);
        assert_eq!(found.peaks(), [3, 6, 6]);
        assert_eq!(found.rate_per_s().map(f64::round), Some(250.0));
    }

    #[test]
    fn a_stretch_holds_what_comes_before_its_length_is_over() {
        for width in WIDTHS_NS {
            let place = WIDTHS_NS.iter().position(|&one| one == width).unwrap();
            assert_eq!(of(&[0, width - 1]).peaks()[place], 2);
            assert_eq!(of(&[0, width]).peaks()[place], 1);
        }
    }

    #[test]
    fn peaks_are_those_of_counting_from_every_arrival() {
        let mut state = 7_u64;
        let mut at = 0;
        let times: Vec<i64> = (0..3_000)
            .map(|_| {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                // Many at one time, many close, some far.
                at +=
                    [0, 0, 300_000, 9_999_999, 10_000_000, 400_000_000][(state >> 33) as usize % 6];
                at
            })
            .collect();
        let counted = WIDTHS_NS.map(|width| {
            let within = |from: usize| {
                times[from..]
                    .iter()
                    .take_while(|&&at| at < times[from] + width)
                    .count()
            };
            (0..times.len()).map(within).max().unwrap() as u64
        });
        assert_eq!(of(&times).peaks(), counted);
    }

    #[test]
    fn peaks_are_those_of_counting_also_after_times_were_let_go_of() {
        let mut state = 11_u64;
        let mut at = 0_i64;
        let times: Vec<i64> = (0..8 * OVER_MIN)
            .map(|place| {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                // Ever denser: the fullest stretches come last, when most has been let go of.
                at += (state >> 33) as i64 % (4_000_000 - 50 * place as i64);
                at
            })
            .collect();
        let counted = WIDTHS_NS.map(|width| {
            let mut from = 0;
            let within = times.iter().enumerate().map(|(place, &at)| {
                from += times[from..]
                    .iter()
                    .take_while(|&&begun| at - begun >= width)
                    .count();
                place + 1 - from
            });
            within.max().unwrap() as u64
        });
        assert_eq!(of(&times).peaks(), counted);
    }

    #[test]
    fn a_metronome_never_varies_and_a_burst_is_as_many_times_the_mean() {
        let even: Vec<i64> = (0..=1000).map(|number| number * 1_000_000).collect();
        let found = of(&even);
        assert_eq!(found.coefficient_of_variation(), Some(0.0));
        assert_eq!(found.peak_to_mean(), [Some(1.0), Some(1.0), None]);
        assert_eq!(of(&even[..100]).coefficient_of_variation(), None);
        // Ten at once, once a second for 20 s: 200 gaps of which 20 are long.
        let bursts: Vec<i64> = (0..=200)
            .map(|number| number / 10 * 1_000_000_000)
            .collect();
        assert_eq!(
            of(&bursts).peak_to_mean(),
            [Some(100.0), Some(10.0), Some(1.0)]
        );
        let cv = of(&bursts).coefficient_of_variation().unwrap();
        assert!((cv - 3.0).abs() < 1e-9, "{cv}");
    }

    #[test]
    fn nothing_has_no_peak() {
        assert_eq!(of(&[]).peaks(), [0, 0, 0]);
        assert_eq!(of(&[]).rate_per_s(), None);
        assert_eq!(of(&[5]).peak_to_mean(), [None; 3]);
    }

    #[test]
    fn the_ends_of_time_are_times() {
        assert_eq!(
            of(&[i64::MIN, i64::MIN, 0, i64::MAX, i64::MAX]).peaks(),
            [2, 2, 2]
        );
    }
}
