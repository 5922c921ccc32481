//! Which I/Os continue an earlier one of their stream: the one before, or one of the last few.
//!
//! Several sequential readers of one file take turns, so that hardly any I/O continues the one just before it; looking back
//! over some more shows them (windowed seek distance: Ahmad, "Easy and Efficient Disk I/O Workload Characterization in
//! `VMware` ESX Server", IISWC 2007).

/// How many I/Os of the same stream are looked back over.
pub const LOOK_BACK_IOS: usize = 16;

const NO_END: i64 = -1;

/// I/Os of one stream that continue another.
#[derive(Clone, Debug)]
pub struct Sequence {
    ends: [i64; LOOK_BACK_IOS],
    last: usize,
    /// I/Os with a place.
    pub count: u64,
    /// Those that begin where the one before ended.
    pub next_count: u64,
    /// Those that begin where one of the last `LOOK_BACK_IOS` ended.
    pub near_count: u64,
}

impl Default for Sequence {
    fn default() -> Self {
        Self {
            ends: [NO_END; LOOK_BACK_IOS],
            last: 0,
            count: 0,
            next_count: 0,
            near_count: 0,
        }
    }
}

impl Sequence {
    /// Takes in an I/O at an offset of at least 0.
    #[inline]
    pub fn add(&mut self, offset_bytes: i64, size_bytes: u32) {
        self.count += 1;
        self.next_count += u64::from(self.ends[self.last] == offset_bytes);
        // All of them, each time: that needs no branch.
        let near = self.ends.iter().filter(|&&end| end == offset_bytes).count();
        self.near_count += u64::from(near > 0);
        self.last = (self.last + 1) % LOOK_BACK_IOS;
        self.ends[self.last] = offset_bytes.saturating_add(i64::from(size_bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::{LOOK_BACK_IOS, Sequence};

    #[test]
    fn sixteen_are_looked_back_over_and_not_seventeen() {
        for (between, near) in [(LOOK_BACK_IOS - 1, 1), (LOOK_BACK_IOS, 0)] {
            let mut sequence = Sequence::default();
            sequence.add(0, 8);
            (0..between).for_each(|place| sequence.add(1000 + 100 * place as i64, 8));
            sequence.add(8, 8);
            assert_eq!((sequence.next_count, sequence.near_count), (0, near));
        }
    }

    #[test]
    fn the_first_continues_nothing() {
        let mut sequence = Sequence::default();
        sequence.add(0, 0);
        sequence.add(0, 0);
        assert_eq!(
            (sequence.count, sequence.next_count, sequence.near_count),
            (2, 1, 1)
        );
    }
}
