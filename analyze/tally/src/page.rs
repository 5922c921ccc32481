//! Pages: 256 neighbouring blocks each, with who touched each block and when, and how many I/Os began in it.

/// Blocks of a page.
pub const PAGE_BLOCKS: usize = 256;

/// Slices of time there may be.
pub const SLICES_MAX: usize = 30;

const WORDS: usize = PAGE_BLOCKS / 64;

/// A bit for each block.
pub type Bits = [u64; WORDS];

/// I/Os that began in each block.
pub type Begun = [u32; PAGE_BLOCKS];

/// What is seldom looked at of a page.
#[derive(Clone, Debug)]
pub struct Page {
    /// The area it belongs to, and which page of it.
    pub key: (u32, u64),
    /// Blocks that were touched in earlier slices.
    pub ever: Bits,
    /// I/Os that began in it, by slice.
    pub by_slice: [u32; SLICES_MAX],
    /// I/Os that began in each block in earlier slices.
    pub begun_before: Begun,
}

/// All pages, by slot. What every I/O writes to lies apart from the rest, so that it fits a cache.
#[derive(Debug, Default)]
pub struct Pages {
    kinds: usize,
    /// The rest of each page.
    pub rest: Vec<Page>,
    /// Whether something touched it in the present slice.
    pub is_touched: Vec<bool>,
    /// In the present slice.
    pub begun: Vec<Begun>,
    /// For each kind and block the last slice that touched it, counted from 1.
    marks: Vec<u8>,
}

impl Pages {
    /// No page yet.
    pub fn new(kinds: usize) -> Self {
        Self {
            kinds,
            ..Self::default()
        }
    }

    /// Pages there are.
    pub fn len(&self) -> usize {
        self.rest.len()
    }

    /// Bytes that pages take.
    pub fn size_bytes(&self) -> usize {
        self.len() * self.page_bytes()
    }

    /// Bytes that one page takes.
    pub fn page_bytes(&self) -> usize {
        size_of::<Page>() + size_of::<Begun>() + self.kinds * PAGE_BLOCKS + 1
    }

    /// Makes a page that nothing touched, in the next slot.
    pub fn push(&mut self, key: (u32, u64)) {
        let (ever, by_slice, begun_before) = ([0; WORDS], [0; SLICES_MAX], [0; PAGE_BLOCKS]);
        self.rest.push(Page {
            key,
            ever,
            by_slice,
            begun_before,
        });
        self.is_touched.push(false);
        self.begun.push([0; PAGE_BLOCKS]);
        self.marks.resize(self.len() * self.kinds * PAGE_BLOCKS, 0);
    }

    /// Reads what an I/O is about to write to. Done for many in a row, this waits for memory once instead of each time.
    #[inline]
    pub fn warm(&self, slot: usize, kind: usize, block: usize) -> u32 {
        self.begun[slot][block] ^ u32::from(self.marks[self.place(slot, kind) + block])
    }

    /// Notes that an I/O began in a block.
    #[inline]
    pub fn begin(&mut self, slot: usize, block: usize) {
        let begun = &mut self.begun[slot][block];
        *begun = begun.saturating_add(1);
    }

    /// Marks blocks `first` to `last` of a page for a kind.
    #[inline]
    pub fn mark(&mut self, slot: usize, kind: usize, first: usize, last: usize, mark: u8) {
        self.is_touched[slot] = true;
        let place = self.place(slot, kind);
        for block in &mut self.marks[place + first..=place + last] {
            *block = mark;
        }
    }

    /// Blocks of a page whose mark of any of the kinds is one that is asked for.
    pub fn marked(
        &self,
        slot: usize,
        kinds: impl Iterator<Item = usize>,
        is_wanted: impl Fn(u8) -> bool,
    ) -> Bits {
        let mut found = [false; PAGE_BLOCKS];
        for kind in kinds.filter(|&kind| kind < self.kinds) {
            for (found, &mark) in found.iter_mut().zip(&self.marks[self.place(slot, kind)..]) {
                *found |= is_wanted(mark);
            }
        }
        let mut bits = [0; WORDS];
        for (word, found) in bits.iter_mut().zip(found.chunks_exact(64)) {
            *word = found
                .iter()
                .rev()
                .fold(0, |word, &is_found| word << 1 | u64::from(is_found));
        }
        bits
    }

    /// Takes in a page of blocks half as large, which becomes one half of the page at `slot`.
    pub fn fold(&mut self, slot: usize, finer: &Self, from: usize) {
        let (theirs, half) = (
            &finer.rest[from],
            (finer.rest[from].key.1 & 1) as usize * (PAGE_BLOCKS / 2),
        );
        self.is_touched[slot] |= finer.is_touched[from];
        let (mine, begun) = (&mut self.rest[slot], &mut self.begun[slot]);
        for (mine, theirs) in mine.by_slice.iter_mut().zip(theirs.by_slice) {
            *mine = mine.saturating_add(theirs);
        }
        for block in 0..PAGE_BLOCKS {
            let place = half + block / 2;
            begun[place] = begun[place].saturating_add(finer.begun[from][block]);
            mine.begun_before[place] =
                mine.begun_before[place].saturating_add(theirs.begun_before[block]);
            mine.ever[place / 64] |= (theirs.ever[block / 64] >> (block % 64) & 1) << (place % 64);
        }
        for kind in 0..self.kinds {
            let (to, from) = (self.place(slot, kind) + half, finer.place(from, kind));
            for block in 0..PAGE_BLOCKS {
                let mine = &mut self.marks[to + block / 2];
                *mine = finer.marks[from + block].max(*mine);
            }
        }
    }

    #[inline]
    fn place(&self, slot: usize, kind: usize) -> usize {
        (slot * self.kinds + kind) * PAGE_BLOCKS
    }
}

/// Blocks in a set.
pub fn count(bits: &Bits) -> u64 {
    bits.iter().map(|word| u64::from(word.count_ones())).sum()
}

#[cfg(test)]
mod tests {
    use super::{Pages, count};

    #[test]
    fn blocks_twice_as_large_hold_what_both_held() {
        let (mut fine, mut coarse) = (Pages::new(2), Pages::new(2));
        fine.push((0, 3));
        fine.mark(0, 1, 4, 6, 2);
        (0..3).for_each(|io| fine.begin(0, 4 + io % 2));
        fine.rest[0].ever[0] = 1 << 63;
        coarse.push((0, 1));
        coarse.fold(0, &fine, 0);
        assert_eq!(coarse.marked(0, 0..2, |mark| mark == 2), [0, 0, 0b1100, 0]);
        assert_eq!(coarse.marked(0, 0..1, |mark| mark > 0), [0; 4]);
        assert_eq!(coarse.begun[0][128 + 2], 3);
        assert_eq!(coarse.rest[0].ever, [0, 0, 1 << 31, 0]);
        assert_eq!(count(&coarse.rest[0].ever), 1);
    }
}
