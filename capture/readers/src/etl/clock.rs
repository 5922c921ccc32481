//! From a log's raw ticks to nanoseconds since its start.

/// What the performance counter of Windows 10 and later counts; divisions are slow.
const USUAL_HZ: i64 = 10_000_000;
const FILETIME_UNIX_EPOCH: i128 = 116_444_736_000_000_000;

/// What the raw timestamps of a log count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClockKind {
    /// The performance counter.
    Counter,
    /// 100 ns since 1601.
    SystemTime,
    /// Processor cycles.
    Cycles,
}

impl ClockKind {
    /// Name for a manifest.
    pub fn name(self) -> &'static str {
        match self {
            Self::Counter => "performance counter",
            Self::SystemTime => "system time",
            Self::Cycles => "processor cycles",
        }
    }
}

/// Converts raw timestamps and response times of one log.
///
/// The anchor is the raw timestamp of the log header event, which is the moment `StartTime` names. (The boot time in the
/// header is rounded and drifts from the counter by minutes; it is no anchor.)
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    pub kind: ClockKind,
    /// Raw timestamp of the log header event.
    pub start_ticks: i64,
    /// The same moment as FILETIME.
    pub start_filetime: i64,
    /// Performance counter ticks per second: the unit of response times whatever the clock.
    pub counter_hz: i64,
    /// Processor cycles per microsecond.
    pub cpu_mhz: u32,
}

impl Clock {
    /// Nanoseconds from the log's start to `ticks`, rounded down; `None` beyond 292 years.
    #[inline]
    pub fn ns(&self, ticks: i64) -> Option<i64> {
        if self.kind == ClockKind::Counter
            && let Some(since_start) = ticks.checked_sub(self.start_ticks)
            && let Some(ns) = scale(since_start, self.counter_hz)
        {
            return Some(ns);
        }
        let since_start = i128::from(ticks) - i128::from(self.start_ticks);
        let ns = match self.kind {
            ClockKind::Counter => {
                (since_start * 1_000_000_000).div_euclid(i128::from(self.counter_hz))
            }
            ClockKind::SystemTime => (i128::from(ticks) - i128::from(self.start_filetime)) * 100,
            ClockKind::Cycles => (since_start * 1000).div_euclid(i128::from(self.cpu_mhz)),
        };
        i64::try_from(ns).ok()
    }

    /// Length of a response time given in performance counter ticks.
    #[inline]
    pub fn response_ns(&self, response_ticks: i64) -> Option<i64> {
        if let (0.., Some(ns)) = (response_ticks, scale(response_ticks, self.counter_hz)) {
            return Some(ns);
        }
        i64::try_from(i128::from(response_ticks) * 1_000_000_000 / i128::from(self.counter_hz)).ok()
    }

    /// A response time in the units of this clock's raw timestamps.
    #[inline]
    pub fn response_raw(&self, response_ticks: i64) -> i64 {
        let scale = match self.kind {
            ClockKind::Counter => return response_ticks,
            ClockKind::SystemTime => 10_000_000,
            ClockKind::Cycles => i128::from(self.cpu_mhz) * 1_000_000,
        };
        saturate(i128::from(response_ticks) * scale / i128::from(self.counter_hz))
    }

    /// A span of raw timestamps as a response time.
    pub fn raw_as_response(&self, raw: i64) -> i64 {
        let scale = match self.kind {
            ClockKind::Counter => return raw,
            ClockKind::SystemTime => 10_000_000,
            ClockKind::Cycles => i128::from(self.cpu_mhz) * 1_000_000,
        };
        saturate(i128::from(raw) * i128::from(self.counter_hz) / scale)
    }

    /// The log's start in nanoseconds since 1970; `None` if that does not fit.
    pub fn start_utc_ns(&self) -> Option<i64> {
        filetime_utc_ns(self.start_filetime)
    }

    /// Shortest time the raw timestamps can tell apart.
    pub fn resolution_ns(&self) -> f64 {
        match self.kind {
            ClockKind::Counter => 1e9 / self.counter_hz as f64,
            ClockKind::SystemTime => 100.0,
            ClockKind::Cycles => 1e3 / f64::from(self.cpu_mhz),
        }
    }
}

/// A FILETIME in nanoseconds since 1970; `None` outside 1677 to 2262.
pub fn filetime_utc_ns(filetime: i64) -> Option<i64> {
    i64::try_from((i128::from(filetime) - FILETIME_UNIX_EPOCH) * 100).ok()
}

/// Ticks at `hz` in nanoseconds, rounded down, in 64-bit arithmetic; `None` where that does not suffice.
#[inline]
fn scale(ticks: i64, hz: i64) -> Option<i64> {
    if hz == USUAL_HZ {
        return ticks.checked_mul(1_000_000_000 / USUAL_HZ);
    }
    let (seconds, rest) = (ticks.div_euclid(hz), ticks.rem_euclid(hz));
    seconds
        .checked_mul(1_000_000_000)?
        .checked_add(rest.checked_mul(1_000_000_000)? / hz)
}

fn saturate(value: i128) -> i64 {
    i64::try_from(value).unwrap_or(if value < 0 { i64::MIN } else { i64::MAX })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock(kind: ClockKind, counter_hz: i64) -> Clock {
        Clock {
            kind,
            start_ticks: 1_000,
            start_filetime: 132_404_548_206_236_160,
            counter_hz,
            cpu_mhz: 3_592,
        }
    }

    #[test]
    fn a_week_at_ten_megahertz_does_not_overflow() {
        let week = 7 * 86_400 * 10_000_000_i64;
        assert_eq!(
            clock(ClockKind::Counter, 10_000_000).ns(1_000 + week),
            Some(7 * 86_400 * 1_000_000_000)
        );
    }

    #[test]
    fn odd_frequencies_round_down_on_both_sides_of_the_start() {
        let clock = clock(ClockKind::Counter, 1_818_300);
        assert_eq!(clock.ns(1_001), Some(549));
        assert_eq!(clock.ns(999), Some(-550));
    }

    #[test]
    fn each_kind_has_its_unit() {
        assert_eq!(
            clock(ClockKind::SystemTime, 2_000_000).ns(132_404_548_206_236_170),
            Some(1_000)
        );
        assert_eq!(
            clock(ClockKind::Cycles, 2_000_000).ns(1_000 + 3_592),
            Some(1_000)
        );
        assert_eq!(clock(ClockKind::SystemTime, 2_000_000).response_raw(2), 10);
        assert_eq!(
            clock(ClockKind::SystemTime, 2_000_000).response_ns(2),
            Some(1_000)
        );
    }

    #[test]
    fn what_does_not_fit_is_none() {
        assert_eq!(clock(ClockKind::Counter, 1).ns(i64::MAX), None);
        assert_eq!(
            clock(ClockKind::Counter, 10_000_000).start_utc_ns(),
            Some(1_595_981_220_623_616_000)
        );
    }
}
