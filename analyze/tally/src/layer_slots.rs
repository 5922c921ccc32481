//! Latency of every layer over slots of time: what a comparison holds against one another, layer by layer.
//!
//! Rows may come in any order.

use crate::rows::{Column, NEVER_NS};

/// Layers and operations there may be.
const WORDS: usize = 8;

/// What was issued in a slot, without what failed or never ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slot {
    /// I/Os.
    pub io_count: i64,
    /// Sum of their latencies, from issued to completed; as much as fits.
    pub latency_sum_ns: i64,
}

/// Columns of `io`, as in `rows`.
pub struct LayerColumns<'a> {
    /// Position in the vocabulary; may be missing where there is one layer only.
    pub layer: Option<Column<'a, u8>>,
    /// Position in the vocabulary.
    pub op: Column<'a, u8>,
    /// Start.
    pub issued_ns: Column<'a, i64>,
    /// End, or `NEVER_NS`.
    pub completed_ns: Column<'a, i64>,
    /// 0 for success, as where it is missing.
    pub error: Option<Column<'a, i32>>,
}

/// Counts I/Os by layer, operation and slot.
pub struct LayerSlots {
    only_layer: u8,
    from_ns: i64,
    until_ns: i64,
    slot_ns: i64,
    slot_count: usize,
    /// By layer and operation, where there are any.
    slots: [Vec<Slot>; WORDS * WORDS],
    recent: usize,
}

impl LayerSlots {
    /// Nothing counted yet: slots of `slot_ns`, more than 0, from `from_ns` until the one in which the later `until_ns` lies.
    /// Rows that do not say their layer are of `only_layer`.
    pub fn new(only_layer: u8, from_ns: i64, until_ns: i64, slot_ns: i64) -> Self {
        let length_ns = until_ns.saturating_sub(from_ns);
        Self {
            only_layer,
            from_ns,
            until_ns,
            slot_ns,
            slot_count: (length_ns as u64).div_ceil(slot_ns as u64) as usize,
            slots: [const { Vec::new() }; WORDS * WORDS],
            recent: 0,
        }
    }

    /// Takes in rows; false if columns are of different lengths, or of words that there are none of.
    pub fn add(&mut self, columns: &LayerColumns<'_>) -> bool {
        let count = columns.issued_ns.len();
        let lengths = [
            columns.layer.map_or(count, <[_]>::len),
            columns.op.len(),
            columns.completed_ns.len(),
            columns.error.map_or(count, <[_]>::len),
        ];
        if lengths != [count; 4] {
            return false;
        }
        for place in 0..count {
            let (issued_ns, completed_ns) = (columns.issued_ns[place], columns.completed_ns[place]);
            let is_measured =
                completed_ns != NEVER_NS && columns.error.is_none_or(|error| error[place] == 0);
            if !is_measured || issued_ns < self.from_ns || issued_ns >= self.until_ns {
                continue;
            }
            let layer = columns.layer.map_or(self.only_layer, |layer| layer[place]);
            let (layer, op) = (usize::from(layer), usize::from(columns.op[place]));
            if layer >= WORDS || op >= WORDS {
                return false;
            }
            let number = self.slot_of(issued_ns - self.from_ns);
            let slots = &mut self.slots[layer * WORDS + op];
            if slots.is_empty() {
                slots.resize(self.slot_count, Slot::default());
            }
            let slot = &mut slots[number];
            slot.io_count += 1;
            let latency_ns = completed_ns.saturating_sub(issued_ns).max(0);
            slot.latency_sum_ns = slot.latency_sum_ns.saturating_add(latency_ns);
        }
        true
    }

    /// Layer, operation, slot and what is in it, where anything is; in order.
    pub fn slots(&self) -> impl Iterator<Item = (usize, usize, usize, &Slot)> {
        let words = self.slots.iter().enumerate();
        words.flat_map(|(word, slots)| {
            let numbered = slots.iter().enumerate().filter(|one| one.1.io_count > 0);
            numbered.map(move |(number, slot)| (word / WORDS, word % WORDS, number, slot))
        })
    }

    /// The slot of a time since the first began; the next I/O is nearly always in that of the last.
    #[inline]
    fn slot_of(&mut self, since_ns: i64) -> usize {
        let within_ns = since_ns - self.recent as i64 * self.slot_ns;
        if !(0..self.slot_ns).contains(&within_ns) {
            self.recent = (since_ns / self.slot_ns) as usize;
        }
        self.recent
    }
}

#[cfg(test)]
mod tests {
    use super::{LayerColumns, LayerSlots, Slot};
    use crate::rows::NEVER_NS;

    #[test]
    fn what_succeeded_counts_in_the_slot_it_was_issued_in() {
        let mut of = LayerSlots::new(2, 100, 350, 100);
        let is_whole = of.add(&LayerColumns {
            layer: Some(&[2, 2, 2, 3, 2, 2, 2, 2]),
            op: &[0, 0, 1, 0, 0, 0, 0, 0],
            issued_ns: &[340, 100, 199, 200, 110, 120, 99, 350],
            completed_ns: &[900, 150, 190, 230, NEVER_NS, 130, 120, 360],
            error: Some(&[0, 0, 0, 0, 0, 5, 0, 0]),
        });
        assert!(is_whole);
        let slot = |io_count, latency_sum_ns| Slot {
            io_count,
            latency_sum_ns,
        };
        let found: Vec<_> = of
            .slots()
            .map(|(layer, op, number, slot)| (layer, op, number, *slot))
            .collect();
        assert_eq!(
            found,
            [
                (2, 0, 0, slot(1, 50)),
                (2, 0, 2, slot(1, 560)),
                (2, 1, 0, slot(1, 0)),
                (3, 0, 1, slot(1, 30)),
            ]
        );
    }

    #[test]
    fn columns_that_do_not_belong_together_are_refused() {
        let mut of = LayerSlots::new(0, 0, 10, 1);
        let columns = |op, ended| LayerColumns {
            layer: None,
            op,
            issued_ns: &[1],
            completed_ns: ended,
            error: None,
        };
        assert!(of.add(&columns(&[0], &[2])));
        assert!(!of.add(&columns(&[0], &[2, 3])));
        assert!(!of.add(&columns(&[8], &[2])));
        assert_eq!(of.slots().count(), 1);
    }
}
