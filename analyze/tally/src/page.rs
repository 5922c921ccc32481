//! Pages: 256 neighbouring blocks each, with how many I/Os began in each block and when.

/// Blocks of a page.
pub const PAGE_BLOCKS: usize = 256;

/// Slices of time there may be.
pub const SLICES_MAX: usize = 30;

/// I/Os that began in each block.
pub type Begun = [u32; PAGE_BLOCKS];

/// What is seldom looked at of a page.
#[derive(Clone, Debug)]
pub struct Page {
    /// The area it belongs to, and which page of it.
    pub key: (u32, u64),
    /// I/Os that began in it, by slice.
    pub by_slice: [u32; SLICES_MAX],
    /// I/Os that began in each block in earlier slices.
    pub begun_before: Begun,
}

/// All pages, by slot. What every I/O writes to lies apart from the rest, so that it fits a cache.
#[derive(Debug, Default)]
pub struct Pages {
    /// The rest of each page.
    pub rest: Vec<Page>,
    /// In the present slice.
    pub begun: Vec<Begun>,
}

impl Pages {
    /// Bytes that one page takes.
    pub const PAGE_BYTES: usize = size_of::<Page>() + size_of::<Begun>();

    /// Pages there are.
    pub fn len(&self) -> usize {
        self.rest.len()
    }

    /// Bytes that pages take.
    pub fn size_bytes(&self) -> usize {
        self.len() * Self::PAGE_BYTES
    }

    /// Makes a page in which no I/O began, in the next slot.
    pub fn push(&mut self, key: (u32, u64)) {
        self.rest.push(Page {
            key,
            by_slice: [0; SLICES_MAX],
            begun_before: [0; PAGE_BLOCKS],
        });
        self.begun.push([0; PAGE_BLOCKS]);
    }

    /// Reads what an I/O is about to write to. Done for many in a row, this waits for memory once instead of each time.
    #[inline]
    pub fn warm(&self, slot: usize, block: usize) -> u32 {
        self.begun[slot][block]
    }

    /// Notes that an I/O began in a block.
    #[inline]
    pub fn begin(&mut self, slot: usize, block: usize) {
        let begun = &mut self.begun[slot][block];
        *begun = begun.saturating_add(1);
    }

    /// Takes in a page of blocks half as large, which becomes one half of the page at `slot`.
    pub fn fold(&mut self, slot: usize, finer: &Self, from: usize) {
        let theirs = &finer.rest[from];
        let half = (theirs.key.1 & 1) as usize * (PAGE_BLOCKS / 2);
        let (mine, begun) = (&mut self.rest[slot], &mut self.begun[slot]);
        for (mine, theirs) in mine.by_slice.iter_mut().zip(theirs.by_slice) {
            *mine = mine.saturating_add(theirs);
        }
        for block in 0..PAGE_BLOCKS {
            let place = half + block / 2;
            begun[place] = begun[place].saturating_add(finer.begun[from][block]);
            mine.begun_before[place] =
                mine.begun_before[place].saturating_add(theirs.begun_before[block]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{PAGE_BLOCKS, Pages};

    #[test]
    fn blocks_twice_as_large_hold_what_both_held() {
        let (mut fine, mut coarse) = (Pages::default(), Pages::default());
        fine.push((0, 3));
        (0..3).for_each(|io| fine.begin(0, 4 + io % 2));
        fine.rest[0].begun_before[255] = 7;
        coarse.push((0, 1));
        coarse.fold(0, &fine, 0);
        assert_eq!(coarse.begun[0][128 + 2], 3);
        assert_eq!(coarse.rest[0].begun_before[255], 7);
    }

    #[test]
    fn a_page_becomes_the_lower_half_where_its_number_is_even_and_the_upper_where_it_is_odd() {
        let (mut fine, mut coarse) = (Pages::default(), Pages::default());
        coarse.push((0, 1));
        for (slot, number) in [2, 3].into_iter().enumerate() {
            fine.push((0, number));
            fine.rest[slot].by_slice[5] = 10 + slot as u32;
            for block in 0..PAGE_BLOCKS {
                fine.begin(slot, block);
                fine.rest[slot].begun_before[block] = 1 + (block / 2 + 128 * slot) as u32;
            }
            coarse.fold(0, &fine, slot);
        }
        assert_eq!(coarse.begun[0], [2; PAGE_BLOCKS]);
        let before: Vec<u32> = (0..PAGE_BLOCKS as u32)
            .map(|place| 2 * (1 + place))
            .collect();
        assert_eq!(coarse.rest[0].begun_before[..], before[..]);
        assert_eq!(coarse.rest[0].by_slice[4..7], [0, 21, 0]);
        // 256 counts of the present slice, as many of earlier ones, and one for each slice, of four bytes each, and a key.
        let each = 4 * (256 + 256 + 30);
        assert!((2 * each..2 * each + 64).contains(&fine.size_bytes()));
    }
}
