//! Load and latency of one layer over slots of time: what a report draws.
//!
//! Rows may come in any order, so threads may share the row groups of a recording, each with a `Course` of its own.

use std::array;

use crate::rows::{Column, NEVER_NS};

/// Bands of latency: twentieths of a decade, up to the longest time.
pub const BANDS: usize = 380;

const BANDS_PER_DECADE: f64 = 20.0;
const READ: u8 = 0;
const WRITE: u8 = 1;

/// Columns of `io`, as in `rows`.
pub struct CourseColumns<'a> {
    /// Position in the vocabulary.
    pub op: Column<'a, u8>,
    /// Start.
    pub issued_ns: Column<'a, i64>,
    /// End, or `NEVER_NS`.
    pub completed_ns: Column<'a, i64>,
    /// When it was due, or `NEVER_NS`.
    pub intended_ns: Option<Column<'a, i64>>,
    /// Bytes asked for.
    pub size_bytes: Column<'a, u32>,
    /// Position in the vocabulary.
    pub layer: Column<'a, u8>,
    /// 0 for success.
    pub error: Column<'a, i32>,
}

/// What began and ended in a slot; the columns of query ``report_timeline``, and the longest read or write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slot {
    /// Reads that began.
    pub reads: i64,
    /// Writes that began.
    pub writes: i64,
    /// Bytes of these reads.
    pub read_bytes: i64,
    /// Bytes of these writes.
    pub written_bytes: i64,
    /// I/Os of any kind that began, if they were seen to end.
    pub begun: i64,
    /// Sum over these of the time from their start to the end of the slot; as much as fits.
    pub begun_rest_ns: i64,
    /// I/Os that ended.
    pub ended: i64,
    /// Sum over these of the time from their end to the end of the slot; as much as fits.
    pub ended_rest_ns: i64,
    /// Longest latency of the reads and writes that began and succeeded.
    pub longest_ns: i64,
}

/// Counts I/Os of a layer by slot, and by slot and band of latency.
pub struct Course {
    layer: u8,
    from_ns: i64,
    until_ns: i64,
    slot_ns: i64,
    /// What began before the first slot and ended within one.
    before: i64,
    slots: Vec<Slot>,
    bands: Vec<u32>,
    limits: Limits,
    /// The slots of the last start and of the last end: the next is nearly always in the same.
    recent: [usize; 2],
}

impl Course {
    /// Nothing counted yet; slots of `slot_ns`, more than 0, cover the time from `from_ns` to `until_ns`, which is later.
    pub fn new(layer: u8, from_ns: i64, until_ns: i64, slot_ns: i64) -> Self {
        let count = (until_ns.saturating_sub(from_ns) as u64).div_ceil(slot_ns as u64) as usize;
        Self {
            layer,
            from_ns,
            until_ns,
            slot_ns,
            before: 0,
            slots: vec![Slot::default(); count],
            bands: vec![0; count * BANDS],
            limits: Limits::new(),
            recent: [0; 2],
        }
    }

    /// Takes in rows; false if columns are of different lengths.
    pub fn add(&mut self, columns: &CourseColumns<'_>) -> bool {
        let count = columns.issued_ns.len();
        let lengths = [
            columns.op.len(),
            columns.completed_ns.len(),
            columns.intended_ns.map_or(count, <[_]>::len),
            columns.size_bytes.len(),
            columns.layer.len(),
            columns.error.len(),
        ];
        if lengths != [count; 6] {
            return false;
        }
        for place in 0..count {
            let ended_ns = columns.completed_ns[place];
            let is_finished = ended_ns != NEVER_NS;
            if columns.layer[place] != self.layer || (is_finished && ended_ns < self.from_ns) {
                continue;
            }
            let due_ns = columns.intended_ns.map_or(NEVER_NS, |due| due[place]);
            let begun_ns = if due_ns == NEVER_NS {
                columns.issued_ns[place]
            } else {
                due_ns
            };
            if begun_ns < self.until_ns {
                let is_good = is_finished && columns.error[place] == 0;
                let latency_ns = is_good.then(|| ended_ns.saturating_sub(begun_ns));
                let (op, size_bytes) = (columns.op[place], columns.size_bytes[place]);
                self.begin(op, begun_ns, size_bytes, is_finished, latency_ns);
            }
            if is_finished && ended_ns < self.until_ns {
                let (number, rest_ns) = self.place::<1>(ended_ns);
                let slot = &mut self.slots[number];
                slot.ended += 1;
                slot.ended_rest_ns = slot.ended_rest_ns.saturating_add(rest_ns);
            }
        }
        true
    }

    /// I/Os seen to end that had begun before the first slot.
    pub fn before(&self) -> i64 {
        self.before
    }

    /// What each slot holds.
    pub fn slots(&self) -> &[Slot] {
        &self.slots
    }

    /// Reads and writes by slot and band, `BANDS` to a slot.
    pub fn bands(&self) -> &[u32] {
        &self.bands
    }

    #[inline]
    fn begin(
        &mut self,
        op: u8,
        begun_ns: i64,
        size_bytes: u32,
        is_finished: bool,
        latency_ns: Option<i64>,
    ) {
        if begun_ns < self.from_ns {
            self.before += i64::from(is_finished);
            return;
        }
        let (number, rest_ns) = self.place::<0>(begun_ns);
        let slot = &mut self.slots[number];
        if is_finished {
            slot.begun += 1;
            slot.begun_rest_ns = slot.begun_rest_ns.saturating_add(rest_ns);
        }
        let (ios, bytes) = match op {
            READ => (&mut slot.reads, &mut slot.read_bytes),
            WRITE => (&mut slot.writes, &mut slot.written_bytes),
            _ => return,
        };
        *ios += 1;
        *bytes += i64::from(size_bytes);
        if let Some(latency_ns) = latency_ns {
            slot.longest_ns = slot.longest_ns.max(latency_ns);
            let band = self.limits.band(latency_ns);
            self.bands[number * BANDS + band] += 1;
        }
    }

    /// The slot of a time that is within one, and how long from then on it lasts.
    #[inline]
    fn place<const WHICH: usize>(&mut self, at_ns: i64) -> (usize, i64) {
        let since_ns = at_ns - self.from_ns;
        let mut within_ns = since_ns - self.recent[WHICH] as i64 * self.slot_ns;
        if !(0..self.slot_ns).contains(&within_ns) {
            let number = since_ns / self.slot_ns;
            self.recent[WHICH] = number as usize;
            within_ns = since_ns - number * self.slot_ns;
        }
        (self.recent[WHICH], self.slot_ns - within_ns)
    }
}

/// Where bands begin.
struct Limits {
    /// The shortest latency of each band that is in no lower one; of empty bands, that of the next.
    least_ns: [i64; BANDS + 1],
    /// The band of 1, 2, 4, … ns.
    first: [usize; 63],
}

impl Limits {
    fn new() -> Self {
        let band = |ns: i64| (BANDS_PER_DECADE * (ns as f64).log10()).floor() as usize;
        let least_ns = array::from_fn(|number| {
            if number >= BANDS {
                return i64::MAX;
            }
            let mut ns = 10_f64
                .powf(number as f64 / BANDS_PER_DECADE)
                .round()
                .max(1.0) as i64;
            while ns > 1 && band(ns - 1) >= number {
                ns -= 1;
            }
            while ns < i64::MAX && band(ns) < number {
                ns += 1;
            }
            ns
        });
        Self {
            least_ns,
            first: array::from_fn(|power| band(1 << power)),
        }
    }

    /// The band of a latency; what took no time took 1 ns.
    #[inline]
    fn band(&self, latency_ns: i64) -> usize {
        let ns = latency_ns.max(1);
        let mut band = self.first[ns.ilog2() as usize];
        while band + 1 < BANDS && self.least_ns[band + 1] <= ns {
            band += 1;
        }
        band
    }
}

#[cfg(test)]
mod tests {
    use super::{BANDS, Course, CourseColumns, Limits, Slot};
    use crate::rows::NEVER_NS;

    #[test]
    fn bands_are_twentieths_of_a_decade() {
        let limits = Limits::new();
        for (ns, band) in [
            (-5, 0),
            (0, 0),
            (1, 0),
            (2, 6),
            (9, 19),
            (10, 20),
            (999, 59),
            (1000, 60),
        ] {
            assert_eq!(limits.band(ns), band, "{ns}");
        }
        let mut ns = 1_i64;
        while let Some(next) = ns.checked_mul(3) {
            for near in [ns - 1, ns, ns + 1, ns + ns / 2] {
                let told = (20.0 * (near.max(1) as f64).log10()).floor() as usize;
                assert_eq!(limits.band(near), told, "{near}");
            }
            ns = next;
        }
        assert_eq!(limits.band(i64::MAX), BANDS - 1);
    }

    #[test]
    fn what_began_before_or_ends_after_counts_where_it_is_inside() {
        let mut course = Course::new(2, 100, 350, 100);
        let is_whole = course.add(&CourseColumns {
            op: &[0, 1, 2, 0, 0, 0, 1],
            issued_ns: &[50, 120, 130, 340, 40, 110, 199],
            completed_ns: &[150, 250, 140, 400, 99, NEVER_NS, 200],
            intended_ns: None,
            size_bytes: &[1, 2, 4, 8, 16, 32, 64],
            layer: &[2; 7],
            error: &[0, 0, 0, 0, 0, 0, 5],
        });
        assert!(is_whole);
        assert_eq!(course.before(), 1);
        assert_eq!(
            course.slots()[0],
            Slot {
                reads: 1,
                writes: 2,
                read_bytes: 32,
                written_bytes: 66,
                begun: 3,
                begun_rest_ns: 80 + 70 + 1,
                ended: 2,
                ended_rest_ns: 50 + 60,
                longest_ns: 130,
            }
        );
        assert_eq!(
            (course.slots()[1].ended, course.slots()[1].ended_rest_ns),
            (2, 50 + 100)
        );
        assert_eq!((course.slots()[2].reads, course.slots()[2].ended), (1, 0));
        assert_eq!(course.slots().len(), 3);
        assert_eq!(
            course.bands().iter().sum::<u32>(),
            2,
            "130 ns, and 60 in the last slot"
        );
    }

    #[test]
    fn other_layers_are_left_out_and_time_runs_from_when_an_io_was_due() {
        let mut course = Course::new(1, 0, 20, 10);
        course.add(&CourseColumns {
            op: &[0, 0],
            issued_ns: &[15, 15],
            completed_ns: &[18, 18],
            intended_ns: Some(&[5, 5]),
            size_bytes: &[1, 1],
            layer: &[1, 2],
            error: &[0, 0],
        });
        assert_eq!(
            (course.slots()[0].reads, course.slots()[0].longest_ns),
            (1, 13)
        );
    }
}
