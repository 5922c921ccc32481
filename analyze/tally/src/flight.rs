//! I/Os in flight, inside a window of time.
//!
//! An I/O is in flight in [issued, completed): of an end and a start at the same nanosecond the end comes first. Those that
//! were in flight when the window began count.
//!
//! The integral is a sum over I/Os. The most at once needs order, but only where it may be reached: ends are kept as they
//! come, and those that lie behind are taken away only once more are kept than were ever in flight. What is still in
//! flight then goes to a heap, so that no I/O is looked at more than twice outside of it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Counts I/Os of one device, or of all.
#[derive(Clone, Debug)]
pub struct Flight {
    from_ns: i64,
    until_ns: i64,
    recent_ends: Vec<i64>,
    ends: BinaryHeap<Reverse<i64>>,
    /// Most in flight at once.
    pub peak: usize,
    integral_ns: i128,
}

impl Flight {
    /// Nothing in flight yet, for a window [from, until).
    pub fn new(from_ns: i64, until_ns: i64) -> Self {
        let (recent_ends, ends) = (Vec::new(), BinaryHeap::new());
        Self {
            from_ns,
            until_ns,
            recent_ends,
            ends,
            peak: 0,
            integral_ns: 0,
        }
    }

    /// Takes in an I/O, not issued before the last one.
    #[inline]
    pub fn add(&mut self, issued_ns: i64, completed_ns: i64) {
        if completed_ns <= self.from_ns || issued_ns >= self.until_ns || completed_ns <= issued_ns {
            return;
        }
        let begin = issued_ns.max(self.from_ns);
        self.integral_ns += i128::from(completed_ns.min(self.until_ns)) - i128::from(begin);
        self.recent_ends.push(completed_ns);
        if self.recent_ends.len() + self.ends.len() > self.peak {
            self.settle(begin);
        }
    }

    /// Time-integral of the number in flight over the window; as much as an int64 holds.
    pub fn integral_ns(&self) -> i64 {
        i64::try_from(self.integral_ns).unwrap_or(i64::MAX)
    }

    #[inline(never)]
    fn settle(&mut self, now_ns: i64) {
        while self.ends.peek().is_some_and(|end| end.0 <= now_ns) {
            self.ends.pop();
        }
        if self.recent_ends.len() + self.ends.len() <= self.peak {
            return;
        }
        let still = self.recent_ends.drain(..).filter(|&end| end > now_ns);
        self.ends.extend(still.map(Reverse));
        self.peak = self.peak.max(self.ends.len());
    }
}

#[cfg(test)]
mod tests {
    use super::Flight;

    fn of(window: (i64, i64), ios: &[(i64, i64)]) -> (usize, i64) {
        let mut flight = Flight::new(window.0, window.1);
        for &(issued, completed) in ios {
            flight.add(issued, completed);
        }
        (flight.peak, flight.integral_ns())
    }

    #[test]
    fn an_end_comes_before_a_start_of_the_same_nanosecond() {
        assert_eq!(of((0, 100), &[(1, 5), (5, 9), (5, 7)]), (2, 10));
    }

    #[test]
    fn the_window_cuts_both_ends_and_knows_what_was_in_flight_when_it_began() {
        assert_eq!(
            of(
                (10, 20),
                &[(0, 5), (1, 12), (2, 30), (3, 10), (19, 40), (20, 21)]
            ),
            (2, 13)
        );
    }

    #[test]
    fn an_io_that_ended_before_it_began_was_never_in_flight() {
        assert_eq!(of((0, 100), &[(5, 5), (6, 2), (7, i64::MIN)]), (0, 0));
    }

    #[test]
    fn far_away_times_add_up_to_as_much_as_fits() {
        assert_eq!(
            of((i64::MIN, i64::MAX), &[(i64::MIN, i64::MAX), (0, i64::MAX)]),
            (2, i64::MAX)
        );
    }
}
