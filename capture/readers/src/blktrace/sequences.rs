//! Sequence numbers of records: what is missing, and what is there a second time.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// A number further than this from the one before it and the one after it is damage, not a gap.
const STEP_MAX: u32 = 1 << 16;
const PROCESSORS_MAX: usize = 1 << 16;

/// Those of each device and processor.
#[derive(Debug, Default)]
pub struct Sequences(HashMap<(u32, u32), Numbers>);

impl Sequences {
    /// False for a record that was there before.
    pub fn count(&mut self, device: u32, processor: u32, number: u32, time_ns: u64) -> bool {
        let is_full = self.0.len() >= PROCESSORS_MAX;
        match self.0.entry((device, processor)) {
            Entry::Occupied(mut entry) => {
                if entry.get_mut().repeats(number, time_ns) {
                    return false;
                }
                entry.get_mut().add(number);
            }
            Entry::Vacant(entry) if !is_full => {
                entry.insert(Numbers::new(number, time_ns));
            }
            Entry::Vacant(_) => {}
        }
        true
    }

    /// Records that are missing.
    pub fn lost(&self) -> u64 {
        self.0
            .values()
            .map(|numbers| u64::from(numbers.lost()))
            .sum()
    }
}

/// The sequence numbers of one processor's records, which count up by one, as they come.
#[derive(Clone, Copy, Debug)]
struct Numbers {
    latest: u32,
    /// The first and the last that a neighbour confirms, so that no single wrong number claims a gap; and how many
    /// records there are from the one to the other.
    confirmed: Option<(u32, u32, u32)>,
    /// Since the first confirmed one.
    count: u32,
    /// Number and time of the first record, and the time of the last: where the first comes again, so do the others.
    first: (u32, u64),
    last_ns: u64,
    is_again: bool,
}

impl Numbers {
    fn new(number: u32, time_ns: u64) -> Self {
        Self {
            latest: number,
            confirmed: None,
            count: 0,
            first: (number, time_ns),
            last_ns: time_ns,
            is_again: false,
        }
    }

    /// Whether a record was there before, as in a file that holds the same trace twice.
    fn repeats(&mut self, number: u32, time_ns: u64) -> bool {
        self.is_again =
            time_ns <= self.last_ns && (self.is_again || (number, time_ns) == self.first);
        self.last_ns = self.last_ns.max(time_ns);
        self.is_again
    }

    fn add(&mut self, number: u32) {
        // They may wrap around, and neighbours may come in the wrong order.
        self.count = self.count.saturating_add(1);
        if number.wrapping_sub(self.latest).wrapping_add(STEP_MAX) <= 2 * STEP_MAX {
            let first = if let Some((first, ..)) = self.confirmed {
                first
            } else {
                self.count = 2;
                self.latest
            };
            self.confirmed = Some((first, number, self.count));
        }
        self.latest = number;
    }

    fn lost(&self) -> u32 {
        let (first, last, count) = self.confirmed.unwrap_or_default();
        match last.wrapping_sub(first) {
            // The last came before the first.
            0x8000_0000.. => 0,
            between => (between + 1).saturating_sub(count),
        }
    }
}
