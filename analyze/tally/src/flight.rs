//! I/Os in flight, inside a window of time.
//!
//! An I/O is in flight in [issued, completed): of an end and a start at the same nanosecond the end comes first. Those that
//! were in flight when the window began count.
//!
//! The most at once needs order, but only where it may be reached: ends are kept as they come, and those that lie behind
//! are taken away only once more are kept than were ever in flight. What is still in flight then goes to a heap, so that
//! no I/O is looked at more than twice outside of it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A stretch of time; its end is not included.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// When it begins.
    pub from_ns: i64,
    /// When it ends.
    pub until_ns: i64,
}

impl Window {
    /// From when until when an I/O is in flight in it; None where it is not.
    #[inline]
    pub fn part(self, issued_ns: i64, completed_ns: i64) -> Option<(i64, i64)> {
        let begun_ns = issued_ns.max(self.from_ns);
        let ended_ns = completed_ns.min(self.until_ns);
        (ended_ns > begun_ns).then_some((begun_ns, ended_ns))
    }
}

/// Finds the most I/Os in flight at once, of one device or of all.
#[derive(Clone, Debug, Default)]
pub struct Flight {
    recent_ends: Vec<i64>,
    ends: BinaryHeap<Reverse<i64>>,
    /// Most in flight at once.
    pub peak: usize,
}

impl Flight {
    /// Takes in an I/O that ends after it begins, which is not before the last one.
    #[inline]
    pub fn add(&mut self, begun_ns: i64, ended_ns: i64) {
        self.recent_ends.push(ended_ns);
        if self.recent_ends.len() + self.ends.len() > self.peak {
            self.settle(begun_ns);
        }
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
    use super::{Flight, Window};

    fn of(window: (i64, i64), ios: &[(i64, i64)]) -> (usize, i128) {
        let (from_ns, until_ns) = window;
        let window = Window { from_ns, until_ns };
        let (mut flight, mut integral_ns) = (Flight::default(), 0);
        for &(issued, completed) in ios {
            if let Some((begun, ended)) = window.part(issued, completed) {
                flight.add(begun, ended);
                integral_ns += i128::from(ended) - i128::from(begun);
            }
        }
        (flight.peak, integral_ns)
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
    fn the_ends_of_time_are_times() {
        assert_eq!(
            of((i64::MIN, i64::MAX), &[(i64::MIN, i64::MAX), (0, i64::MAX)]),
            (2, i128::from(u64::MAX) + i128::from(i64::MAX))
        );
    }
}
