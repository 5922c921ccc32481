//! Gaps in `event_sequence`: numbers that the session gave to events that are not in the file.

use std::collections::HashSet;

/// Gathers the numbers of each buffer as ranges.
#[derive(Default)]
pub struct Sequence {
    ranges: Vec<(u64, u64)>,
    /// First and last number of each buffer in file order.
    buffers: Vec<(u64, u64)>,
    buffer_ids: HashSet<u32>,
}

/// Missing numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Missing {
    /// Events that the session lost.
    pub lost: u64,
    /// Numbers at an end of the file where buffers of several processors overlap: lost, or in the neighbouring file.
    pub uncertain: u64,
}

impl Sequence {
    /// Take a buffer's numbers, in any order; leaves `numbers` empty.
    pub fn add(&mut self, buffer_id: u32, numbers: &mut Vec<u64>) {
        numbers.sort_unstable();
        if let (Some(&first), Some(&last)) = (numbers.first(), numbers.last()) {
            self.buffers.push((first, last));
            self.buffer_ids.insert(buffer_id);
        }
        let start = self.ranges.len();
        for number in numbers.drain(..) {
            match self.ranges[start..].last_mut() {
                Some((_, end)) if number <= end.saturating_add(1) => *end = number.max(*end),
                _ => self.ranges.push((number, number)),
            }
        }
    }

    /// The numbers that no event has, between the first and the last.
    pub fn missing(&mut self) -> Missing {
        self.ranges.sort_unstable();
        let is_ordered = self.buffers.is_sorted_by(|one, next| one.1 < next.0);
        // Where buffers overlap, each of the session's buffers may have a predecessor or successor in another file.
        let edge = self.buffer_ids.len();
        let (from, to) = if is_ordered {
            (0, u64::MAX)
        } else {
            let head = self.buffers.iter().take(edge).map(|buffer| buffer.1);
            let tail = self.buffers.iter().rev().take(edge).map(|buffer| buffer.0);
            (head.max().unwrap_or(0), tail.min().unwrap_or(0))
        };
        let mut missing = Missing::default();
        let mut reached: Option<u64> = None;
        for &(first, last) in &self.ranges {
            if let Some(end) = reached.filter(|end| first > end.saturating_add(1)) {
                let count = first - end - 1;
                let is_certain = end >= from && first <= to;
                *(if is_certain {
                    &mut missing.lost
                } else {
                    &mut missing.uncertain
                }) += count;
            }
            reached = Some(reached.map_or(last, |end| end.max(last)));
        }
        missing
    }
}

#[test]
fn gaps_are_counted_once() {
    let mut sequence = Sequence::default();
    sequence.add(0, &mut vec![1, 2, 3]);
    sequence.add(1, &mut vec![6, 5, 9]);
    let lost = Missing {
        lost: 1 + 2,
        uncertain: 0,
    };
    assert_eq!(sequence.missing(), lost);
}

#[test]
fn overlapping_buffers_fill_one_another_and_leave_the_ends_open() {
    let mut sequence = Sequence::default();
    for (id, numbers) in [
        (0, vec![1, 4]),
        (1, vec![2, 6]),
        (0, vec![7, 9, 12]),
        (1, vec![8, 10, 14]),
        (0, vec![16]),
        (1, vec![15, 19]),
    ] {
        sequence.add(id, &mut numbers.clone());
    }
    // 3 and 5 before the first buffers' end, 17 and 18 after the last buffers' start; 11 and 13 between.
    let found = sequence.missing();
    assert_eq!((found.lost, found.uncertain), (2, 4));
}
