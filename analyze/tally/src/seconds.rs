//! What each second saw.

const SECOND_NS: i64 = 1_000_000_000;

/// One second with I/Os issued in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Second {
    /// Counted from the recording's start.
    pub number: i64,
    /// I/Os, failed ones included.
    pub io_count: i64,
    /// Bytes they asked for.
    pub size_bytes: i64,
    /// Reads among them.
    pub read_count: i64,
    /// Those that succeeded, with a latency.
    pub measured_count: i64,
    /// Sum of the latencies of the measured ones; as much as fits.
    pub latency_sum_ns: i64,
}

/// Seconds of one layer, in order.
#[derive(Clone, Debug)]
pub struct Seconds {
    /// Those with I/Os.
    pub found: Vec<Second>,
    end_ns: i64,
}

impl Default for Seconds {
    fn default() -> Self {
        Self {
            found: Vec::new(),
            end_ns: i64::MIN,
        }
    }
}

impl Seconds {
    /// Takes in an I/O, not issued before the last one; its latency if it is a measured one.
    #[inline]
    pub fn add(&mut self, issued_ns: i64, size_bytes: u32, is_read: bool, latency_ns: Option<i64>) {
        if issued_ns > self.end_ns || self.found.is_empty() {
            let number = issued_ns.div_euclid(SECOND_NS);
            self.end_ns = number
                .saturating_mul(SECOND_NS)
                .saturating_add(SECOND_NS - 1);
            self.found.push(Second {
                number,
                ..Second::default()
            });
        }
        if let Some(now) = self.found.last_mut() {
            now.io_count += 1;
            now.size_bytes = now.size_bytes.saturating_add(i64::from(size_bytes));
            now.read_count += i64::from(is_read);
            now.measured_count += i64::from(latency_ns.is_some());
            now.latency_sum_ns = now.latency_sum_ns.saturating_add(latency_ns.unwrap_or(0));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Second, Seconds};

    #[test]
    fn the_second_before_the_start_is_minus_one() {
        let mut seconds = Seconds::default();
        seconds.add(-1, 8, true, Some(5));
        seconds.add(0, 8, false, None);
        seconds.add(999_999_999, 8, false, Some(7));
        let (size_bytes, read_count) = (8, 1);
        let before = Second {
            number: -1,
            io_count: 1,
            size_bytes,
            read_count,
            measured_count: 1,
            latency_sum_ns: 5,
        };
        let after = Second {
            number: 0,
            io_count: 2,
            size_bytes: 16,
            read_count: 0,
            measured_count: 1,
            latency_sum_ns: 7,
        };
        assert_eq!(seconds.found, [before, after]);
    }

    #[test]
    fn the_ends_of_time_are_times() {
        let mut seconds = Seconds::default();
        for at in [i64::MIN, i64::MIN, i64::MAX, i64::MAX] {
            seconds.add(at, 1, true, None);
        }
        assert_eq!(
            seconds
                .found
                .iter()
                .map(|second| second.io_count)
                .collect::<Vec<_>>(),
            [2, 2]
        );
    }
}
