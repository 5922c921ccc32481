//! What a run adds up to: distributions by class of I/O, and one row per second. Memory grows by 40 bytes a second, for
//! twelve days.
//!
//! Histograms of three significant digits: a quantile is within 0.1 % of the exact one.

use hdrhistogram::Histogram;

const SECOND_NS: i64 = 1_000_000_000;
/// Twelve days. What comes later counts in the last: a model may be as slow as whoever wrote it likes.
const SECONDS_MAX: i64 = 1 << 20;

/// The row of a time.
#[must_use]
pub fn second_of(at_ns: i64) -> usize {
    (at_ns.max(0) / SECOND_NS).min(SECONDS_MAX - 1) as usize
}

/// Sums, extremes and quantiles of times.
#[derive(Clone, Debug)]
pub struct Times {
    histogram: Histogram<u64>,
    sum_ns: i128,
    max_ns: i64,
}

impl Default for Times {
    fn default() -> Self {
        Self {
            histogram: Histogram::new(3).expect("3 digits are possible"),
            sum_ns: 0,
            max_ns: i64::MIN,
        }
    }
}

impl Times {
    fn add(&mut self, ns: i64) {
        // Nothing is negative, and it grows to hold any value.
        let _ = self.histogram.record(ns.max(0) as u64);
        self.sum_ns += i128::from(ns);
        self.max_ns = self.max_ns.max(ns);
    }

    /// Add what another one holds.
    pub fn merge(&mut self, other: &Self) {
        let _ = self.histogram.add(&other.histogram);
        self.sum_ns += other.sum_ns;
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// How many.
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

/// One second. Issued ones count where they were issued, completed ones where they completed.
#[derive(Clone, Copy, Debug, Default)]
#[expect(missing_docs, reason = "named by what they count")]
pub struct Second {
    pub issued: u64,
    pub completed: u64,
    pub delayed: u64,
    pub bytes: u64,
}

/// See the module.
#[derive(Debug, Default)]
#[expect(missing_docs, reason = "named by what they count")]
pub struct Summary {
    pub issued: u64,
    pub completed: u64,
    pub delayed: u64,
    pub bytes: u64,
    pub first_issued_ns: Option<i64>,
    pub last_issued_ns: Option<i64>,
    pub last_completed_ns: Option<i64>,
    /// From when it was due to its end, by class.
    pub response: Vec<Times>,
    /// From when it was issued to its end.
    pub service: Times,
    /// From when it was due to when it was issued.
    pub lateness: Times,
    /// Response of those that too many in flight did not hold back.
    pub own_response: Times,
    pub seconds: Vec<Second>,
}

impl Summary {
    /// Of so many classes.
    #[must_use]
    pub fn new(classes: usize) -> Self {
        Self {
            response: vec![Times::default(); classes.max(1)],
            ..Self::default()
        }
    }

    /// An I/O was issued.
    pub fn issue(&mut self, due_ns: i64, issued_ns: i64, delayed: bool) {
        self.issued += 1;
        self.delayed += u64::from(delayed);
        self.first_issued_ns.get_or_insert(issued_ns);
        self.last_issued_ns = Some(issued_ns);
        self.lateness.add(issued_ns - due_ns);
        let second = self.second(issued_ns);
        second.issued += 1;
        second.delayed += u64::from(delayed);
    }

    /// An I/O has completed.
    pub fn complete(
        &mut self,
        due_ns: i64,
        issued_ns: i64,
        completed_ns: i64,
        class: u8,
        bytes: u64,
    ) {
        self.completed += 1;
        self.bytes += bytes;
        self.last_completed_ns = Some(
            self.last_completed_ns
                .map_or(completed_ns, |last| last.max(completed_ns)),
        );
        self.response[usize::from(class)].add(completed_ns - due_ns);
        self.service.add(completed_ns - issued_ns);
        if issued_ns == due_ns {
            self.own_response.add(completed_ns - due_ns);
        }
        let second = self.second(completed_ns);
        second.completed += 1;
        second.bytes += bytes;
    }

    /// Response of all classes together.
    #[must_use]
    pub fn response_of_all(&self) -> Times {
        let mut all = Times::default();
        for one in &self.response {
            all.merge(one);
        }
        all
    }

    fn second(&mut self, at_ns: i64) -> &mut Second {
        let number = second_of(at_ns);
        if number >= self.seconds.len() {
            self.seconds.resize(number + 1, Second::default());
        }
        &mut self.seconds[number]
    }
}
