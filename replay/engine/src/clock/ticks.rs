//! From the units of Windows clocks to nanoseconds, for any counter value and any frequency.

const NS_PER_SECOND: i64 = 1_000_000_000;

/// 100 ns intervals between 1601-01-01, where file times begin, and 1970-01-01.
const EPOCH_DISTANCE: i128 = 116_444_736_000_000_000;

/// `ticks` of a counter that makes `ticks_per_second` (above 0), in nanoseconds, rounded down; the bounds of the type
/// stand for what lies beyond them.
pub fn ns_of_ticks(ticks: i64, ticks_per_second: i64) -> i64 {
    // Nearly every counter makes 10 MHz; a division of 128 bits takes longer than reading it.
    if NS_PER_SECOND % ticks_per_second == 0
        && let Some(ns) = ticks.checked_mul(NS_PER_SECOND / ticks_per_second)
    {
        return ns;
    }
    saturating(
        (i128::from(ticks) * i128::from(NS_PER_SECOND)).div_euclid(i128::from(ticks_per_second)),
    )
}

/// A file time (100 ns since 1601, UTC) in nanoseconds since 1970.
pub fn utc_ns_of_file_time(intervals: u64) -> i64 {
    saturating((i128::from(intervals) - EPOCH_DISTANCE) * 100)
}

fn saturating(ns: i128) -> i64 {
    ns.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_usual_counter_is_exact() {
        assert_eq!(ns_of_ticks(1, 10_000_000), 100);
        assert_eq!(ns_of_ticks(10_000_000, 10_000_000), 1_000_000_000);
        // 2 of the 3,579,545 ticks of an ACPI timer's second last 558.730… ns.
        assert_eq!(ns_of_ticks(2, 3_579_545), 558);
    }

    #[test]
    fn a_counter_that_ran_for_centuries_does_not_overflow() {
        // In 64 bits, ticks times 10^9 overflows after 15 minutes at 10 MHz.
        assert_eq!(
            ns_of_ticks(86_400 * 365 * 290 * 10_000_000, 10_000_000),
            86_400 * 365 * 290 * 1_000_000_000
        );
        assert_eq!(ns_of_ticks(i64::MAX, 1_000_000_000), i64::MAX);
        assert_eq!(ns_of_ticks(i64::MAX, 1), i64::MAX);
        assert_eq!(ns_of_ticks(i64::MIN, 1), i64::MIN);
    }

    #[test]
    fn time_never_runs_backwards_between_neighbouring_ticks() {
        for ticks_per_second in [3_579_545, 10_000_000, 2_893_202_000, i64::MAX] {
            for start in [0, 1 << 31, 1 << 40, 1 << 53] {
                let times: Vec<i64> = (start..start + 1000)
                    .map(|ticks| ns_of_ticks(ticks, ticks_per_second))
                    .collect();
                assert!(times.is_sorted());
            }
        }
    }

    #[test]
    fn file_times_count_from_1601() {
        // 2009-07-25 23:00:00 UTC, second 1,248,562,800 of the Unix epoch by GNU date.
        assert_eq!(
            utc_ns_of_file_time(128_930_364_000_000_000),
            1_248_562_800_000_000_000
        );
        assert_eq!(utc_ns_of_file_time(0), i64::MIN);
    }
}
