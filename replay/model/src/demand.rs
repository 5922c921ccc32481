//! What was asked of a limit over time, in memory that does not grow: by the second at first, and once there are too many
//! points two become one, so that each stands for twice as long. Sums stay exact, and so does the busiest minute.

const SECOND_NS: i64 = 1_000_000_000;
/// Points of the series at most: 68 minutes by the second.
pub const POINTS_MAX: usize = 1 << 12;
/// Length of the busiest stretch.
pub const BUSIEST_SECONDS: usize = 60;

/// See the module.
#[derive(Clone, Debug)]
pub struct Demand {
    /// What was asked for in each `step_s` from the start.
    pub points: Vec<f64>,
    /// Seconds that a point stands for.
    pub step_s: usize,
    /// All of it.
    pub sum: f64,
    /// The last second in which anything was asked for.
    second: usize,
    /// Where most of what comes belongs: that second's beginning, and its point.
    second_ns: i64,
    point: usize,
    /// Up to and with that second, by second modulo its length.
    last: [f64; BUSIEST_SECONDS],
    busiest: f64,
}

impl Default for Demand {
    fn default() -> Self {
        Self {
            points: Vec::new(),
            step_s: 1,
            sum: 0.0,
            second: 0,
            second_ns: i64::MAX,
            point: 0,
            last: [0.0; BUSIEST_SECONDS],
            busiest: 0.0,
        }
    }
}

impl Demand {
    /// `amount` more is asked for. Calls come in order of time, or nearly so: what comes more than a stretch late is no
    /// part of any. Times before the start count as the first second.
    #[inline]
    pub fn note(&mut self, at_ns: i64, amount: f64) {
        if at_ns >= self.second_ns && at_ns - self.second_ns < SECOND_NS {
            self.last[self.second % BUSIEST_SECONDS] += amount;
            self.sum += amount;
            self.points[self.point] += amount;
        } else {
            self.note_elsewhere(at_ns, amount);
        }
    }

    /// In another second than the last I/O.
    fn note_elsewhere(&mut self, at_ns: i64, amount: f64) {
        let second = (at_ns / SECOND_NS).max(0) as usize;
        if second > self.second {
            self.go_on(second);
        }
        if second + BUSIEST_SECONDS > self.second {
            self.last[second % BUSIEST_SECONDS] += amount;
        }
        self.sum += amount;
        while second / self.step_s >= POINTS_MAX {
            self.thin();
        }
        let point = second / self.step_s;
        if point >= self.points.len() {
            self.points.resize(point + 1, 0.0);
        }
        self.points[point] += amount;
        self.second_ns = self.second as i64 * SECOND_NS;
        self.point = self.second / self.step_s;
    }

    /// Whole seconds from the start to the last I/O.
    #[must_use]
    pub fn seconds(&self) -> usize {
        if self.points.is_empty() {
            0
        } else {
            self.second + 1
        }
    }

    /// The most that was asked for in `BUSIEST_SECONDS` whole seconds on end, or in all where there are fewer.
    #[must_use]
    pub fn busiest(&self) -> f64 {
        self.busiest.max(self.last.iter().sum())
    }

    /// A later second begins: what is older than a stretch before it falls out.
    fn go_on(&mut self, second: usize) {
        self.busiest = self.busiest();
        for gone in self.second + 1..=second.min(self.second + BUSIEST_SECONDS) {
            self.last[gone % BUSIEST_SECONDS] = 0.0;
        }
        self.second = second;
    }

    fn thin(&mut self) {
        self.step_s *= 2;
        self.points = self
            .points
            .chunks(2)
            .map(|pair| pair.iter().sum())
            .collect();
    }
}

#[cfg(test)]
mod tests {
    // Whole numbers, which floats hold exactly.
    #![allow(clippy::float_cmp)]

    use super::{BUSIEST_SECONDS, Demand, POINTS_MAX, SECOND_NS};

    /// One token a second for so long, and 100 more in each of the ten seconds from `burst` on.
    fn with_burst(seconds: usize, burst: usize) -> Demand {
        let mut demand = Demand::default();
        for second in 0..seconds {
            demand.note(second as i64 * SECOND_NS, 1.0);
            if (burst..burst + 10).contains(&second) {
                demand.note(second as i64 * SECOND_NS + 1, 100.0);
            }
        }
        demand
    }

    #[test]
    fn weeks_take_no_more_points_and_lose_nothing() {
        let seconds = 30 * 86_400;
        let demand = with_burst(seconds, 1_000_000);
        assert!(demand.points.len() <= POINTS_MAX);
        assert_eq!(demand.points.iter().sum::<f64>(), seconds as f64 + 1000.0);
        assert_eq!(demand.sum, seconds as f64 + 1000.0);
        assert_eq!(demand.seconds(), seconds);
        assert_eq!(demand.points.len(), seconds.div_ceil(demand.step_s));
        assert_eq!(demand.busiest(), BUSIEST_SECONDS as f64 + 1000.0);
    }

    #[test]
    fn what_comes_late_counts_where_it_belongs() {
        let mut demand = Demand::default();
        for second in [0, 70, 5, 69, 71] {
            demand.note(second * SECOND_NS, 1.0);
        }
        assert_eq!((demand.points[5], demand.points[69]), (1.0, 1.0));
        assert_eq!((demand.sum, demand.busiest()), (5.0, 3.0));
    }

    #[test]
    fn the_busiest_stretch_forgets_what_is_older() {
        let mut demand = Demand::default();
        demand.note(0, 5.0);
        demand.note(59 * SECOND_NS, 4.0);
        assert_eq!(demand.busiest(), 9.0);
        demand.note(60 * SECOND_NS, 4.0);
        assert_eq!(demand.busiest(), 9.0);
        demand.note(118 * SECOND_NS, 4.0);
        assert_eq!(demand.busiest(), 12.0);
        demand.note(10_000 * SECOND_NS, 13.0);
        assert_eq!(demand.busiest(), 13.0);
    }
}
