//! Which bytes of storage were touched at least once, in granules of 4 KiB.
//!
//! 4 KiB is the sector of today's disks and half a page of SQL Server: smaller granules would tell nothing more, larger
//! ones would count several times what random I/O of 8 KiB touches. Where notes on them would take more room than they
//! may, granules are made twice as large, as often as it takes.

use rustc_hash::FxHashMap;

/// Bytes of a granule, unless granules had to be made larger.
pub const GRANULE_BYTES: u64 = 1 << GRANULE_SHIFT;

const GRANULE_SHIFT: u32 = 12;
/// Granules of a word: 256 KiB.
const WORD_SHIFT: u32 = 6;
/// Words of a page: 16 MiB.
const PAGE_SHIFT: u32 = 6;
const PAGE_WORDS: usize = 1 << PAGE_SHIFT;

/// Pages before granules are made larger: a quarter of a GiB. Each address space may keep two.
const PAGES_MAX: usize = 1 << 19;

/// A bit for each granule of 16 MiB.
type Page = [u64; PAGE_WORDS];

/// A set of granules of one address space: half a KiB for each 16 MiB in which any is.
#[derive(Clone, Debug, Default)]
pub struct Granules {
    pages: Vec<Page>,
    /// Position in `pages`, by the page's number.
    places: FxHashMap<u64, u32>,
    /// Number and position of the latest page: neighbours come together.
    latest: Option<(u64, u32)>,
}

impl Granules {
    /// Adds what a transfer touches, in granules of two to the power of `shift`; one of no bytes touches nothing.
    #[inline]
    fn add(&mut self, offset_bytes: u64, size_bytes: u64, shift: u32) {
        let Some(last_byte) = size_bytes.checked_sub(1) else {
            return;
        };
        let first = offset_bytes >> shift;
        let last = offset_bytes.saturating_add(last_byte) >> shift;
        let (word, last_word) = (first >> WORD_SHIFT, last >> WORD_SHIFT);
        let from = u64::MAX << (first & 63);
        let to = u64::MAX >> (63 - (last & 63));
        if word == last_word {
            self.mark(word, from & to);
            return;
        }
        self.mark(word, from);
        for between in word + 1..last_word {
            self.mark(between, u64::MAX);
        }
        self.mark(last_word, to);
    }

    /// How many.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.pages.iter().map(ones).sum()
    }

    /// How many of them are not in `other`.
    #[must_use]
    pub fn count_beyond(&self, other: &Self) -> u64 {
        let pages = self.places.iter().map(|(&number, &place)| {
            let (mine, theirs) = (&self.pages[place as usize], other.page(number));
            theirs.map_or_else(
                || ones(mine),
                |theirs| ones(&std::array::from_fn(|word| mine[word] & !theirs[word])),
            )
        });
        pages.sum()
    }

    /// Adds what is in `other`.
    pub fn unite(&mut self, other: &Self) {
        for (&number, &place) in &other.places {
            let theirs = &other.pages[place as usize];
            for (mine, theirs) in self.page_mut(number).iter_mut().zip(theirs) {
                *mine |= theirs;
            }
        }
    }

    /// The stretches of neighbouring granules, rising, as the first granule and the one after the last.
    #[must_use]
    pub fn stretches(&self) -> Vec<(u64, u64)> {
        let mut found: Vec<(u64, u64)> = Vec::new();
        for (number, place) in self.numbers() {
            for (word, &granules) in (number << PAGE_SHIFT..).zip(&self.pages[place]) {
                for (start, end) in runs(word << WORD_SHIFT, granules) {
                    match found.last_mut() {
                        Some(last) if last.1 == start => last.1 = end,
                        _ => found.push((start, end)),
                    }
                }
            }
        }
        found
    }

    /// The same in granules twice as large.
    fn coarser(&self) -> Self {
        let mut found = Self::default();
        for (&number, &place) in &self.places {
            let page = found.page_mut(number >> 1);
            let half = (number & 1) as usize * (PAGE_WORDS / 2);
            for (pair, words) in self.pages[place as usize].chunks_exact(2).enumerate() {
                page[half + pair] |= halved(words[0]) | halved(words[1]) << 32;
            }
        }
        found
    }

    #[inline]
    fn mark(&mut self, word: u64, granules: u64) {
        let page = self.page_mut(word >> PAGE_SHIFT);
        page[word as usize & (PAGE_WORDS - 1)] |= granules;
    }

    /// Pages by their numbers, rising, with their positions.
    fn numbers(&self) -> Vec<(u64, usize)> {
        let places = self.places.iter();
        let mut found: Vec<_> = places
            .map(|(&number, &place)| (number, place as usize))
            .collect();
        found.sort_unstable();
        found
    }

    /// The word that a granule is in.
    #[inline]
    fn word(&self, granule: u64) -> u64 {
        let word = granule >> WORD_SHIFT;
        let page = self.page(word >> PAGE_SHIFT);
        page.map_or(0, |page| page[word as usize & (PAGE_WORDS - 1)])
    }

    #[inline]
    fn page(&self, number: u64) -> Option<&Page> {
        self.pages.get(*self.places.get(&number)? as usize)
    }

    #[inline]
    fn page_mut(&mut self, number: u64) -> &mut Page {
        let place = match self.latest {
            Some((latest, place)) if latest == number => place,
            _ => {
                let pages = &mut self.pages;
                *self.places.entry(number).or_insert_with(|| {
                    pages.push([0; PAGE_WORDS]);
                    pages.len() as u32 - 1
                })
            }
        };
        self.latest = Some((number, place));
        &mut self.pages[place as usize]
    }
}

/// Granules touched, by slot: an address space, or any other number of the caller's that is small.
#[derive(Clone, Debug)]
pub struct Footprint {
    slots: Vec<Granules>,
    /// Of all slots.
    pages: usize,
    pages_max: usize,
    /// Granules are of two bytes to the power of this.
    shift: u32,
}

impl Default for Footprint {
    fn default() -> Self {
        Self::of_size(PAGES_MAX)
    }
}

impl Footprint {
    /// Nothing yet; granules are made larger where they would take more than `pages_max` pages of half a KiB.
    #[must_use]
    pub fn of_size(pages_max: usize) -> Self {
        Self {
            slots: Vec::new(),
            pages: 0,
            pages_max,
            shift: GRANULE_SHIFT,
        }
    }

    /// What granules have come to.
    #[must_use]
    pub fn granule_bytes(&self) -> u64 {
        1 << self.shift
    }

    /// Adds a transfer.
    #[inline]
    pub fn add(&mut self, slot: u32, offset_bytes: u64, size_bytes: u64) {
        let shift = self.shift;
        let granules = self.slot_mut(slot as usize);
        let before = granules.pages.len();
        granules.add(offset_bytes, size_bytes, shift);
        let more = granules.pages.len() - before;
        self.grew(more);
    }

    /// Reads what a transfer is about to write to. Done for many in a row, this waits for memory once, not each time.
    #[inline]
    #[must_use]
    pub fn warm(&self, slot: u32, offset_bytes: u64) -> u64 {
        let granules = self.slots.get(slot as usize);
        granules.map_or(0, |granules| granules.word(offset_bytes >> self.shift))
    }

    /// Adds what is in `other`, slot by slot, in the larger granules of the two.
    pub fn unite(&mut self, other: &mut Self) {
        self.align(other);
        for slot in 0..other.slots.len() {
            let granules = self.slot_mut(slot);
            let before = granules.pages.len();
            granules.unite(&other.slots[slot]);
            let more = granules.pages.len() - before;
            self.pages += more;
        }
        self.grew(0);
    }

    /// Gives both the larger granules of the two.
    pub fn align(&mut self, other: &mut Self) {
        while self.shift < other.shift {
            self.coarsen();
        }
        while other.shift < self.shift {
            other.coarsen();
        }
    }

    /// By slot.
    #[must_use]
    pub fn slots(&self) -> &[Granules] {
        &self.slots
    }

    /// Different bytes that were touched, in whole granules; slots are address spaces.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.slots.iter().map(Granules::count).sum::<u64>() << self.shift
    }

    #[inline]
    fn slot_mut(&mut self, slot: usize) -> &mut Granules {
        if slot >= self.slots.len() {
            self.slots.resize_with(slot + 1, Granules::default);
        }
        &mut self.slots[slot]
    }

    #[inline]
    fn grew(&mut self, pages: usize) {
        self.pages += pages;
        // Each slot keeps a page however large granules are: larger ones would make no room there.
        while self.pages > self.pages_max && self.pages > 2 * self.slots.len() && self.shift < 63 {
            self.coarsen();
        }
    }

    #[cold]
    fn coarsen(&mut self) {
        for granules in &mut self.slots {
            *granules = granules.coarser();
        }
        self.pages = self.slots.iter().map(|granules| granules.pages.len()).sum();
        self.shift += 1;
    }
}

/// What is in any of the sets, which are of one address space.
#[must_use]
pub fn union<'a>(sets: impl IntoIterator<Item = &'a Granules>) -> Granules {
    let mut sets = sets.into_iter();
    let mut union = sets.next().cloned().unwrap_or_default();
    for set in sets {
        union.unite(set);
    }
    union
}

/// Of each two neighbouring bits whether any is set, in the lower half.
fn halved(word: u64) -> u64 {
    let mut bits = (word | word >> 1) & 0x5555_5555_5555_5555;
    for (step, mask) in [
        (1, 0x3333_3333_3333_3333),
        (2, 0x0F0F_0F0F_0F0F_0F0F),
        (4, 0x00FF_00FF_00FF_00FF),
        (8, 0x0000_FFFF_0000_FFFF),
        (16, 0x0000_0000_FFFF_FFFF),
    ] {
        bits = (bits | bits >> step) & mask;
    }
    bits
}

fn ones(page: &Page) -> u64 {
    page.iter().map(|word| u64::from(word.count_ones())).sum()
}

/// The runs of ones in a word whose first granule is `base`.
fn runs(base: u64, mut granules: u64) -> impl Iterator<Item = (u64, u64)> {
    std::iter::from_fn(move || {
        if granules == 0 {
            return None;
        }
        let first = granules.trailing_zeros();
        let end = first + (granules >> first).trailing_ones();
        granules = granules
            .checked_shr(end)
            .unwrap_or(0)
            .checked_shl(end)
            .unwrap_or(0);
        Some((base + u64::from(first), base + u64::from(end)))
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{Footprint, GRANULE_BYTES, Granules, union};

    /// Numbers that look random (Steele et al., "Fast splittable pseudorandom number generators", 2014).
    fn numbers(mut state: u64) -> impl FnMut(u64) -> u64 {
        move |below| {
            state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mut mixed = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            (mixed ^ (mixed >> 31)) % below
        }
    }

    fn granules(transfers: &[(u32, u64, u64)], slot: u32) -> BTreeSet<u64> {
        let mine = transfers.iter().filter(|one| one.0 == slot);
        mine.flat_map(|&(_, offset, size)| {
            offset / GRANULE_BYTES..=(offset + size - 1) / GRANULE_BYTES
        })
        .collect()
    }

    fn of_stretches(stretches: &[(u64, u64)]) -> BTreeSet<u64> {
        assert!(stretches.windows(2).all(|pair| pair[0].1 < pair[1].0));
        stretches
            .iter()
            .flat_map(|&(start, end)| start..end)
            .collect()
    }

    #[test]
    fn what_is_touched_is_what_marking_every_granule_finds() {
        let mut random = numbers(5);
        // Dense; over more than the table reaches; and long transfers. Three spaces.
        for (count, reach, longest) in [
            (6_000, 1 << 22, 20_000),
            (6_000, 1 << 46, 70_000),
            (60, 1 << 34, 40 << 20),
        ] {
            let transfers: Vec<(u32, u64, u64)> = (0..count)
                .map(|_| (random(3) as u32, random(reach), 1 + random(longest)))
                .collect();
            let mut footprint = Footprint::default();
            for &(slot, offset, size) in &transfers {
                footprint.add(slot, offset, size);
            }
            let expected: Vec<_> = (0..3).map(|slot| granules(&transfers, slot)).collect();
            for (found, expected) in footprint.slots().iter().zip(&expected) {
                assert_eq!(&of_stretches(&found.stretches()), expected);
                assert_eq!(found.count(), expected.len() as u64);
            }
            let [first, second, third] = footprint.slots() else {
                panic!("three slots");
            };
            let both = union([first, third]);
            assert_eq!(of_stretches(&both.stretches()), &expected[0] | &expected[2]);
            assert_eq!(
                first.count_beyond(second),
                expected[0].difference(&expected[1]).count() as u64
            );
            let all = expected.iter().map(BTreeSet::len).sum::<usize>() as u64;
            assert_eq!(footprint.bytes(), all * GRANULE_BYTES);
        }
    }

    #[test]
    fn nothing_and_the_end_of_all_addresses_are_survived() {
        let mut footprint = Footprint::default();
        footprint.add(0, 0, 0);
        assert_eq!((footprint.bytes(), union([]).count()), (0, 0));
        footprint.add(0, u64::MAX, u64::MAX);
        assert_eq!(footprint.bytes(), GRANULE_BYTES);
    }

    #[test]
    fn stretches_over_the_borders_of_words_pages_and_the_table_are_one() {
        for border in [1 << 6, 1 << 12, 1 << 32] {
            let mut granules = Granules::default();
            granules.add((border - 1) * GRANULE_BYTES, 2 * GRANULE_BYTES, 12);
            assert_eq!(granules.stretches(), [(border - 1, border + 1)]);
        }
    }

    #[test]
    fn little_room_makes_larger_granules_and_loses_nothing() {
        let mut random = numbers(9);
        let transfers: Vec<(u32, u64, u64)> = (0..3_000)
            .map(|_| (random(2) as u32, random(1 << 38), 1 + random(70_000)))
            .collect();
        let (mut small, mut part) = (Footprint::of_size(200), Footprint::of_size(200));
        for (number, &(slot, offset, size)) in transfers.iter().enumerate() {
            let taken = if number < 2_000 {
                &mut small
            } else {
                &mut part
            };
            taken.add(slot, offset, size);
        }
        small.unite(&mut part);
        let granule = small.granule_bytes();
        assert!(small.pages <= 200 && granule > GRANULE_BYTES);
        for (slot, found) in small.slots().iter().enumerate() {
            let mine = transfers.iter().filter(|one| one.0 as usize == slot);
            let expected: BTreeSet<u64> = mine
                .flat_map(|&(_, offset, size)| offset / granule..=(offset + size - 1) / granule)
                .collect();
            assert_eq!(of_stretches(&found.stretches()), expected);
        }
    }

    #[test]
    fn united_they_are_of_the_larger_granules_whichever_had_them() {
        let mut random = numbers(11);
        let transfers: Vec<(u32, u64, u64)> = (0..2_000)
            .map(|_| (0, random(1 << 38), 1 + random(70_000)))
            .collect();
        for coarse_first in [true, false] {
            let (mut coarse, mut fine) = (Footprint::of_size(200), Footprint::default());
            for (number, &(slot, offset, size)) in transfers.iter().enumerate() {
                let taken = if number < 1_000 {
                    &mut coarse
                } else {
                    &mut fine
                };
                taken.add(slot, offset, size);
            }
            assert!(coarse.granule_bytes() > fine.granule_bytes());
            let granule = coarse.granule_bytes();
            let all = if coarse_first {
                coarse.unite(&mut fine);
                assert!(coarse.granule_bytes() >= granule);
                coarse
            } else {
                // It has room for all of them as they are.
                fine.unite(&mut coarse);
                assert_eq!(fine.granule_bytes(), granule);
                fine
            };
            let granule = all.granule_bytes();
            let expected: BTreeSet<u64> = transfers
                .iter()
                .flat_map(|&(_, offset, size)| offset / granule..=(offset + size - 1) / granule)
                .collect();
            assert_eq!(of_stretches(&all.slots()[0].stretches()), expected);
        }
    }
}
