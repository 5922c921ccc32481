//! The stretches of storage that transfers touch, gathered in one pass and bounded memory.
//!
//! A place is one number: the address space's slot above, the number of its 4 KiB granule below.

/// Bits of a place that hold the granule.
pub const GRANULE_BITS: u32 = 44;

const GRANULE_SHIFT: u32 = 12;
/// Granules noted in one word: 256 KiB.
const WORD_SHIFT: u32 = 6;
const WORDS: usize = 1 << 15;
/// Longer transfers are stretches of their own at once.
const WORDS_MAX: i64 = 16;
const ROOM_LEAST: usize = 1 << 12;

/// First place, and the place after the last.
pub type Stretch = (i64, i64);

/// Gathers places. Those touched of late are noted as bits, so that touching them again costs next to nothing; what has
/// to make way for others is sorted into the stretches from time to time.
pub struct Touched {
    /// A word's number and 1, which of its granules were touched; 0 for none. Each has one place it can lie in.
    recent: Vec<[u64; 2]>,
    stretches: Vec<Stretch>,
    /// How many of them, from the first on, are disjoint and rising.
    united: usize,
    room: usize,
    stretches_max: usize,
}

impl Touched {
    /// More than `stretches_max` stretches, at least two, are joined across the smallest gaps of a space.
    #[must_use]
    pub fn new(stretches_max: usize) -> Self {
        Self {
            recent: vec![[0, 0]; WORDS],
            stretches: Vec::new(),
            united: 0,
            room: ROOM_LEAST,
            stretches_max: stretches_max.max(2),
        }
    }

    /// Add a transfer of at least a byte below 2^56 in the space with this slot.
    pub fn add(&mut self, slot: i64, offset_bytes: i64, size_bytes: i64) {
        let base = slot << GRANULE_BITS;
        let first = base | (offset_bytes >> GRANULE_SHIFT);
        let last = base | ((offset_bytes + size_bytes.max(1) - 1) >> GRANULE_SHIFT);
        let (word, last_word) = (first >> WORD_SHIFT, last >> WORD_SHIFT);
        let from = u64::MAX << (first & 63);
        let to = u64::MAX >> (63 - (last & 63));
        if word == last_word {
            self.note(word, from & to);
        } else if last_word - word < WORDS_MAX {
            self.note(word, from);
            for between in word + 1..last_word {
                self.note(between, u64::MAX);
            }
            self.note(last_word, to);
        } else {
            self.push(first, last + 1);
        }
    }

    /// All that was touched, disjoint and rising; stretches next to one another are one.
    pub fn stretches(&mut self) -> &[Stretch] {
        for position in 0..self.recent.len() {
            let [number, granules] = std::mem::take(&mut self.recent[position]);
            self.keep(number, granules);
        }
        self.unite();
        &self.stretches
    }

    fn note(&mut self, word: i64, granules: u64) {
        // Neighbours lie side by side; spaces begin in different places.
        let position = (word ^ (word >> (GRANULE_BITS - WORD_SHIFT)).wrapping_mul(0x9E37)) as usize;
        let number = word as u64 + 1;
        let there = &mut self.recent[position & (WORDS - 1)];
        if there[0] == number {
            there[1] |= granules;
            return;
        }
        let [old, noted] = std::mem::replace(there, [number, granules]);
        self.keep(old, noted);
    }

    /// Turn the bits of a word into stretches.
    fn keep(&mut self, number: u64, mut granules: u64) {
        let base = (number.wrapping_sub(1) as i64) << WORD_SHIFT;
        while granules != 0 {
            let first = granules.trailing_zeros();
            let count = (granules >> first).trailing_ones();
            self.push(base + i64::from(first), base + i64::from(first + count));
            if first + count >= 64 {
                return;
            }
            granules &= u64::MAX << (first + count);
        }
    }

    fn push(&mut self, start: i64, end: i64) {
        if self.stretches.len() >= self.room {
            self.unite();
            self.room = ROOM_LEAST.max(self.stretches.len() * 2);
        }
        if self.stretches.len() > self.united
            && let Some(last) = self.stretches.last_mut()
            && last.1 == start
        {
            last.1 = end;
            return;
        }
        self.stretches.push((start, end));
    }

    fn unite(&mut self) {
        if self.united == self.stretches.len() {
            return;
        }
        let mut fresh = self.stretches.split_off(self.united);
        fresh.sort_unstable();
        let mut united: Vec<Stretch> = Vec::with_capacity(self.united + fresh.len());
        let (mut old, mut new) = (self.stretches.iter().peekable(), fresh.iter().peekable());
        loop {
            let next = match (old.peek(), new.peek()) {
                (Some(one), Some(other)) if one.0 <= other.0 => old.next(),
                (_, Some(_)) => new.next(),
                (_, None) => old.next(),
            };
            let Some(&(start, end)) = next else { break };
            match united.last_mut() {
                Some(last) if start <= last.1 => last.1 = last.1.max(end),
                _ => united.push((start, end)),
            }
        }
        if united.len() > self.stretches_max {
            united = bounded(&united, self.stretches_max);
        }
        self.united = united.len();
        self.stretches = united;
    }
}

/// More than `most` stretches made fewer: those nearest one another are joined. Spaces stay apart.
fn bounded(stretches: &[Stretch], most: usize) -> Vec<Stretch> {
    let mut gaps: Vec<i64> = stretches
        .windows(2)
        .map(|pair| pair[1].0 - pair[0].1)
        .collect();
    // Half of what is allowed is left, so that this happens seldom.
    let joined = stretches.len() - most / 2 - 1;
    let widest = *gaps.select_nth_unstable(joined).1;
    let mut found: Vec<Stretch> = Vec::with_capacity(most);
    for &(start, end) in stretches {
        match found.last_mut() {
            Some(last)
                if start - last.1 <= widest && start >> GRANULE_BITS == last.0 >> GRANULE_BITS =>
            {
                last.1 = end;
            }
            _ => found.push((start, end)),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Random;

    /// The same by marking every granule.
    fn by_hand(transfers: &[(i64, i64, i64)]) -> Vec<Stretch> {
        let mut granules: Vec<i64> = transfers
            .iter()
            .flat_map(|&(slot, offset, size)| {
                let base = slot << GRANULE_BITS;
                (offset / 4096..=(offset + size - 1) / 4096).map(move |granule| base | granule)
            })
            .collect();
        granules.sort_unstable();
        granules.dedup();
        let mut found: Vec<Stretch> = Vec::new();
        for granule in granules {
            match found.last_mut() {
                Some(last) if last.1 == granule => last.1 += 1,
                _ => found.push((granule, granule + 1)),
            }
        }
        found
    }

    #[test]
    fn stretches_are_those_of_marking_every_granule() {
        let mut random = Random::new(5);
        // Dense, spread wider than there are words, and long transfers; three spaces.
        for (reach, longest) in [(1_i64 << 22, 20_000), (1 << 40, 70_000), (1 << 34, 9 << 20)] {
            let transfers: Vec<(i64, i64, i64)> = (0..20_000)
                .map(|_| {
                    let offset = (random.unit() * reach as f64) as i64;
                    let size = 1 + (random.unit() * longest as f64) as i64;
                    ((random.unit() * 3.0) as i64, offset, size)
                })
                .collect();
            let mut touched = Touched::new(1 << 21);
            for &(slot, offset, size) in &transfers[..7_000] {
                touched.add(slot, offset, size);
            }
            assert_eq!(touched.stretches(), by_hand(&transfers[..7_000]));
            for &(slot, offset, size) in &transfers[7_000..] {
                touched.add(slot, offset, size);
            }
            assert_eq!(touched.stretches(), by_hand(&transfers));
        }
    }

    #[test]
    fn too_many_stretches_are_joined_and_lose_nothing() {
        let many = 9000;
        let mut touched = Touched::new(1000);
        for number in 0..many {
            // Every gap is one granule or, in the second space, two.
            let slot = number & 1;
            touched.add(slot, (number >> 1) * (2 + slot) * 4096, 4096);
        }
        let found = touched.stretches();
        assert!(found.len() <= 1000);
        let covers = |place: i64| {
            let at = found.partition_point(|stretch| stretch.0 <= place);
            at > 0 && place < found[at - 1].1
        };
        assert!((0..many).all(|number| {
            let slot = number & 1;
            covers((slot << GRANULE_BITS) | ((number >> 1) * (2 + slot)))
        }));
        assert!(
            found
                .iter()
                .all(|one| one.0 >> GRANULE_BITS == (one.1 - 1) >> GRANULE_BITS)
        );
    }
}
