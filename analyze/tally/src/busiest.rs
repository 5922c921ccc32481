//! Which windows of some lengths held the most I/Os, and which the most bytes, wherever they begin.
//!
//! A fullest window may be taken to begin at an I/O: moved on until it does, it loses nothing. So one look at each I/O
//! suffices, at all that came in the length of time up to it. What is kept is what the longest window holds.

/// Lengths of the windows; the last is the longest.
pub const LENGTHS_NS: [i64; 2] = [1_000_000_000, 60_000_000_000];

/// So many I/Os are kept before any that are over are let go of.
const OVER_MIN: usize = 1 << 16;

/// Where a window begins, and what it holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Best {
    /// When it begins.
    pub from_ns: i64,
    /// I/Os or bytes, by what was asked for; 0 where there was nothing.
    pub amount: u64,
}

/// One of a length. It begins too early while it holds no more than the fullest even so.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    /// The place of its first I/O.
    begin: usize,
    size_bytes: u64,
    most_ios: Best,
    most_bytes: Best,
}

/// Takes in I/Os in order of time.
#[derive(Clone, Debug, Default)]
pub struct Busiest {
    issued_ns: Vec<i64>,
    sizes: Vec<u32>,
    /// How many are to be kept before those that are over go.
    full_at: usize,
    windows: [Window; 2],
}

impl Window {
    /// Lets it begin less than a length before `at_ns`.
    #[inline]
    fn settle(&mut self, issued_ns: &[i64], sizes: &[u32], at_ns: i64, length_ns: i64) {
        while at_ns.abs_diff(issued_ns[self.begin]) >= length_ns as u64 {
            self.size_bytes -= u64::from(sizes[self.begin]);
            self.begin += 1;
        }
    }
}

impl Busiest {
    /// Takes in an I/O, not issued before the last one.
    #[inline]
    pub fn add(&mut self, at_ns: i64, size_bytes: u32) {
        self.issued_ns.push(at_ns);
        self.sizes.push(size_bytes);
        let end = self.sizes.len();
        for (window, length_ns) in self.windows.iter_mut().zip(LENGTHS_NS) {
            window.size_bytes += u64::from(size_bytes);
            let count = (end - window.begin) as u64;
            if count <= window.most_ios.amount && window.size_bytes <= window.most_bytes.amount {
                continue;
            }
            window.settle(&self.issued_ns, &self.sizes, at_ns, length_ns);
            let from_ns = self.issued_ns[window.begin];
            let ios = (end - window.begin) as u64;
            for (most, amount) in [
                (&mut window.most_ios, ios),
                (&mut window.most_bytes, window.size_bytes),
            ] {
                if amount > most.amount {
                    *most = Best { from_ns, amount };
                }
            }
        }
        if end >= self.full_at {
            self.let_go(at_ns);
        }
    }

    /// Lets go of what all windows have passed.
    #[inline(never)]
    fn let_go(&mut self, at_ns: i64) {
        for (window, length_ns) in self.windows.iter_mut().zip(LENGTHS_NS) {
            window.settle(&self.issued_ns, &self.sizes, at_ns, length_ns);
        }
        let over = self.windows.iter().map(|window| window.begin).min();
        let over = over.unwrap_or_default();
        self.issued_ns.drain(..over);
        self.sizes.drain(..over);
        self.windows.iter_mut().for_each(|one| one.begin -= over);
        // A minute of a million I/Os a second takes a gigabyte: no more room than that.
        let kept = self.sizes.len();
        self.full_at = OVER_MIN.max(kept + kept / 2);
        self.issued_ns.reserve_exact(self.full_at - kept);
        self.sizes.reserve_exact(self.full_at - kept);
    }

    /// Per length: the window with the most I/Os, and that with the most bytes.
    pub fn found(&self) -> [(Best, Best); 2] {
        self.windows
            .map(|window| (window.most_ios, window.most_bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::{Best, Busiest, LENGTHS_NS, OVER_MIN};

    const S: i64 = 1_000_000_000;

    fn of(ios: &[(i64, u32)]) -> [(Best, Best); 2] {
        let mut busiest = Busiest::default();
        for &(at, size) in ios {
            busiest.add(at, size);
        }
        busiest.found()
    }

    #[test]
    fn a_window_holds_its_start_and_not_its_end() {
        let found = of(&[(0, 1), (S / 2, 1), (S - 1, 1), (S, 1), (3 * S, 9)]);
        assert_eq!((found[0].0.from_ns, found[0].0.amount), (0, 3));
        assert_eq!((found[0].1.from_ns, found[0].1.amount), (3 * S, 9));
        assert_eq!((found[1].0.from_ns, found[1].0.amount), (0, 5));
    }

    #[test]
    fn it_is_the_most_over_all_windows() {
        let mut state = 7_u64;
        let mut next = |most: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 33) % most
        };
        let mut at = -5 * S;
        let ios: Vec<(i64, u32)> = (0..600)
            .map(|_| {
                at +=
                    next(2 * S as u64) as i64 * i64::from(next(9) == 0) + next(300_000_000) as i64;
                (at, next(100_000) as u32)
            })
            .collect();
        let found = of(&ios);
        for (place, length) in LENGTHS_NS.into_iter().enumerate() {
            let inside = |from: i64| {
                ios.iter()
                    .filter(move |io| io.0 >= from && io.0 < from + length)
            };
            let ios_most = ios.iter().map(|io| inside(io.0).count() as u64).max();
            let bytes_most = ios
                .iter()
                .map(|io| inside(io.0).map(|io| u64::from(io.1)).sum())
                .max();
            assert_eq!(Some(found[place].0.amount), ios_most);
            assert_eq!(Some(found[place].1.amount), bytes_most);
            assert_eq!(
                inside(found[place].0.from_ns).count() as u64,
                found[place].0.amount
            );
        }
    }

    #[test]
    fn it_is_the_most_also_after_ios_were_let_go_of() {
        // A minute holds 15,000 I/Os, then 20,000: the fullest come last, when most has been let go of.
        held_by_counting(6 * OVER_MIN as i64, 40_000, (4_000_000, 3_000_000));
        // It holds 120,000, then 150,000: more than are kept at the least.
        held_by_counting(8 * OVER_MIN as i64, 200_000, (500_000, 400_000));
    }

    /// Neighbouring I/Os are so many nanoseconds apart, the last `late` of all others.
    fn held_by_counting(count: i64, late: i64, apart_ns: (i64, i64)) {
        let ios: Vec<(i64, u32)> = (0..count)
            .scan(0, |at, place| {
                *at += if place < count - late {
                    apart_ns.0
                } else {
                    apart_ns.1
                };
                Some((*at, 1 + (place % 7) as u32))
            })
            .collect();
        let found = of(&ios);
        for (place, length) in LENGTHS_NS.into_iter().enumerate() {
            let (mut from, mut bytes, mut most) = (0, 0, (0, 0));
            for (end, &(at, size)) in ios.iter().enumerate() {
                bytes += u64::from(size);
                while at - ios[from].0 >= length {
                    bytes -= u64::from(ios[from].1);
                    from += 1;
                }
                most = (most.0.max((end + 1 - from) as u64), most.1.max(bytes));
            }
            assert_eq!((found[place].0.amount, found[place].1.amount), most);
        }
    }

    #[test]
    fn the_ends_of_time_are_times() {
        assert_eq!(of(&[(i64::MIN, 1), (i64::MAX, 1)])[1].0.amount, 1);
        assert_eq!(of(&[])[0].0.amount, 0);
    }
}
