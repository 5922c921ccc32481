//! Which blocks were touched, by whom and when: the working set, how it grew, and where it was hot.
//!
//! Blocks of 64 KiB lie in pages of 16 MiB, which are made when something touches them; a page belongs to one area (a
//! device, or above the block layer a file). Where pages would take more room than they may, blocks are made twice as
//! large, as often as it takes; the room is at least that of two pages for each area.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hint;

use crate::page::{PAGE_BLOCKS, Page, Pages, count};
use crate::rows::Row;
use crate::streams::Place;

const FIRST_SHIFT: u32 = 16;
const PAGE_SHIFT: u32 = PAGE_BLOCKS.ilog2();
/// Offsets are below 2^63, so that blocks of this size lie in a single page.
const LAST_SHIFT: u32 = 63 - PAGE_SHIFT;
/// I/Os whose memory is waited for together.
const TOGETHER: usize = 64;
const TABLE_PAGES: usize = 1 << 22;
/// Of fewer blocks no hundredth is told.
const BLOCKS_MIN: u64 = 100;

/// What one slice of time touched.
#[derive(Clone, Debug, PartialEq)]
pub struct Slice {
    /// I/Os that moved data.
    pub io_count: u64,
    /// Different bytes touched.
    pub touched_bytes: u64,
    /// Those that no earlier slice touched.
    pub new_bytes: u64,
    /// Share of its I/Os that began in the busiest hundredth of its blocks.
    pub hottest_share: Option<f64>,
}

/// Takes in I/Os in order of time, and answers when all have been taken in (`finish`).
pub struct Touched {
    kinds: usize,
    /// Where each slice but the first begins.
    cuts_ns: Vec<i64>,
    room_bytes: usize,
    shift: u32,
    pages: Pages,
    finder: Finder,
    io_count: u64,
    is_stuck: bool,
    todo: Vec<Touch>,
    /// The slices that are over.
    pub slices: Vec<Slice>,
}

impl Touched {
    /// `cuts_ns`: where each slice of time but the first begins, ascending, fewer than `SLICES_MAX`.
    pub fn new(areas: usize, kinds: usize, cuts_ns: Vec<i64>, room_bytes: usize) -> Self {
        Self {
            kinds,
            cuts_ns,
            room_bytes,
            shift: FIRST_SHIFT,
            pages: Pages::new(kinds),
            todo: Vec::with_capacity(TOGETHER),
            finder: Finder::new(areas),
            io_count: 0,
            is_stuck: false,
            slices: Vec::new(),
        }
    }

    /// What blocks have come to.
    pub fn block_bytes(&self) -> u64 {
        1 << self.shift
    }

    /// Takes in I/Os at ascending times, and of them what moves data at a known place.
    pub fn add(&mut self, rows: &[Row], places: &[Place]) {
        let mut rest = rows;
        loop {
            let cut = self.cuts_ns.get(self.slices.len());
            let count = cut.map_or(rest.len(), |&cut| {
                rest.partition_point(|row| row.issued_ns < cut)
            });
            let (slice, later) = rest.split_at(count);
            slice
                .chunks(TOGETHER)
                .for_each(|rows| self.touch(rows, places));
            if later.is_empty() {
                return;
            }
            self.end_slice();
            rest = later;
        }
    }

    /// Ends the last slice.
    pub fn finish(&mut self) {
        while self.slices.len() <= self.cuts_ns.len() {
            self.end_slice();
        }
    }

    /// Different bytes that any of `kinds` touched, in some areas or in all.
    pub fn touched_bytes(&self, kinds: &[usize], areas: Option<&[u32]>) -> u64 {
        let areas: Option<HashSet<u32>> = areas.map(|areas| areas.iter().copied().collect());
        let is_asked = |area| areas.as_ref().is_none_or(|areas| areas.contains(&area));
        let slots = (0..self.pages.len()).filter(|&slot| is_asked(self.pages.rest[slot].key.0));
        let touched = slots.map(|slot| {
            self.pages
                .marked(slot, kinds.iter().copied(), |mark| mark > 0)
        });
        touched.map(|blocks| count(&blocks)).sum::<u64>() << self.shift
    }

    /// Share of all I/Os that began in the busiest hundredth of the touched blocks; None below 100 blocks.
    pub fn share_of_busiest(&self) -> Option<f64> {
        let (mut counts, pages) = (Counts::default(), &self.pages.rest);
        for page in pages {
            counts.add(&page.begun_before);
        }
        counts.share_of_busiest(pages.iter().map(|page| count(&page.ever)).sum())
    }

    /// The pages in which most I/Os began, the busiest first: I/Os and the page.
    pub fn hot_pages(&self, most: usize) -> Vec<(u64, &Page)> {
        let total = |page: &Page| {
            page.by_slice
                .iter()
                .map(|&count| u64::from(count))
                .sum::<u64>()
        };
        let pages = self.pages.rest.iter().map(|page| (total(page), page));
        let mut found: Vec<_> = pages.filter(|hot| hot.0 > 0).collect();
        found.sort_by_key(|(count, page)| (u64::MAX - count, page.key));
        found.truncate(most);
        found
    }

    /// Where a page begins.
    pub fn offset_bytes(&self, page: &Page) -> u64 {
        page.key.1 << (self.shift + PAGE_SHIFT)
    }

    fn touch(&mut self, rows: &[Row], places: &[Place]) {
        let mut todo = std::mem::take(&mut self.todo);
        for row in rows {
            let place = &places[row.stream()];
            let is_placed = place.is_load && row.offset_bytes >= 0 && row.size_bytes > 0;
            let Some(kind) = place.kind.filter(|_| is_placed) else {
                continue;
            };
            let offset = row.offset_bytes as u64;
            let last = (offset + u64::from(row.size_bytes) - 1) >> self.shift;
            let first = offset >> self.shift;
            let slot = self.slot(place.area, first >> PAGE_SHIFT);
            todo.push(Touch {
                area: place.area,
                kind: kind as usize,
                slot,
                first,
                last,
            });
        }
        let warm = |io: &Touch| {
            self.pages
                .warm(io.slot, io.kind, io.first as usize % PAGE_BLOCKS)
        };
        hint::black_box(todo.iter().fold(0, |sum, io| sum ^ warm(io)));
        self.io_count += todo.len() as u64;
        for io in todo.drain(..) {
            self.pages.begin(io.slot, io.first as usize % PAGE_BLOCKS);
            self.mark(&io);
        }
        self.todo = todo;
        if self.pages.size_bytes() > self.room_bytes && !self.is_stuck {
            self.make_room();
        }
    }

    fn mark(&mut self, io: &Touch) {
        let mark = self.slices.len() as u8 + 1;
        let Touch {
            area,
            kind,
            mut slot,
            mut first,
            last,
        } = *io;
        while first >> PAGE_SHIFT < last >> PAGE_SHIFT {
            // An I/O over the end of a page goes on in the next one.
            self.pages.mark(
                slot,
                kind,
                first as usize % PAGE_BLOCKS,
                PAGE_BLOCKS - 1,
                mark,
            );
            first = ((first >> PAGE_SHIFT) + 1) << PAGE_SHIFT;
            slot = self.slot(area, first >> PAGE_SHIFT);
        }
        let (from, to) = (first as usize % PAGE_BLOCKS, last as usize % PAGE_BLOCKS);
        self.pages.mark(slot, kind, from, to, mark);
    }

    #[inline]
    fn slot(&mut self, area: u32, number: u64) -> usize {
        if let Some(slot) = self.finder.find(area, number) {
            return slot;
        }
        self.finder.insert(area, number, self.pages.len());
        self.pages.push((area, number));
        self.pages.len() - 1
    }

    /// Makes blocks larger until pages have room, or as large as can be.
    #[cold]
    fn make_room(&mut self) {
        // Each area keeps a page however large blocks are, and a million small files have a million areas: larger blocks
        // would make no room there, and say nothing any more.
        let pages = self.pages.rest.iter();
        let areas = pages.map(|page| page.key.0).collect::<HashSet<_>>().len();
        self.room_bytes = self.room_bytes.max(2 * areas * self.pages.page_bytes());
        while self.pages.size_bytes() > self.room_bytes {
            if self.shift >= LAST_SHIFT {
                self.is_stuck = true;
                return;
            }
            self.shift += 1;
            self.finder.clear();
            let finer = std::mem::replace(&mut self.pages, Pages::new(self.kinds));
            for (from, page) in finer.rest.iter().enumerate() {
                let slot = self.slot(page.key.0, page.key.1 >> 1);
                self.pages.fold(slot, &finer, from);
            }
        }
    }

    fn end_slice(&mut self) {
        let (number, mark) = (self.slices.len(), self.slices.len() as u8 + 1);
        let (mut now, mut new, mut counts) = (0, 0, Counts::default());
        for slot in 0..self.pages.len() {
            if !self.pages.is_touched[slot] {
                continue;
            }
            let touched = self
                .pages
                .marked(slot, 0..self.kinds, |found| found == mark);
            let (page, begun) = (&mut self.pages.rest[slot], &mut self.pages.begun[slot]);
            now += count(&touched);
            for (word, ever) in touched.iter().zip(&mut page.ever) {
                new += u64::from((word & !*ever).count_ones());
                *ever |= word;
            }
            counts.add(begun);
            page.by_slice[number] = begun
                .iter()
                .fold(0, |sum, &begun| sum.saturating_add(begun));
            for (before, begun) in page.begun_before.iter_mut().zip(begun) {
                *before = before.saturating_add(std::mem::take(begun));
            }
            self.pages.is_touched[slot] = false;
        }
        self.slices.push(Slice {
            io_count: std::mem::take(&mut self.io_count),
            touched_bytes: now << self.shift,
            new_bytes: new << self.shift,
            hottest_share: counts.share_of_busiest(now),
        });
    }
}

/// An I/O over some blocks: the slot of the page where it begins, its first block and its last.
struct Touch {
    area: u32,
    kind: usize,
    slot: usize,
    first: u64,
    last: u64,
}

/// Finds pages: in a table as far as that reaches, beyond it in a map.
struct Finder {
    stride: u64,
    /// Page plus 1; 0 where there is none.
    table: Vec<u32>,
    map: HashMap<(u32, u64), usize>,
}

impl Finder {
    fn new(areas: usize) -> Self {
        let stride = TABLE_PAGES / areas.max(1);
        Self {
            stride: stride as u64,
            table: vec![0; stride * areas],
            map: HashMap::new(),
        }
    }

    fn clear(&mut self) {
        self.table.fill(0);
        self.map.clear();
    }

    #[inline]
    fn find(&self, area: u32, number: u64) -> Option<usize> {
        if number < self.stride {
            let found = *self.table.get(self.place(area, number))?;
            (found as usize).checked_sub(1)
        } else {
            self.map.get(&(area, number)).copied()
        }
    }

    fn insert(&mut self, area: u32, number: u64, slot: usize) {
        if number < self.stride {
            let place = self.place(area, number);
            self.table[place] = slot as u32 + 1;
        } else {
            self.map.insert((area, number), slot);
        }
    }

    fn place(&self, area: u32, number: u64) -> usize {
        (u64::from(area) * self.stride + number) as usize
    }
}

/// How many blocks had how many I/Os.
#[derive(Default)]
struct Counts {
    small: Vec<u64>,
    large: BTreeMap<u32, u64>,
}

impl Counts {
    const SMALL: usize = 1 << 12;

    fn add(&mut self, begun: &[u32; PAGE_BLOCKS]) {
        self.small.resize(Self::SMALL, 0);
        for &count in begun {
            match self.small.get_mut(count as usize) {
                Some(blocks) => *blocks += 1,
                None => *self.large.entry(count).or_default() += 1,
            }
        }
    }

    fn share_of_busiest(&self, touched: u64) -> Option<f64> {
        if touched < BLOCKS_MIN {
            return None;
        }
        let mut blocks_left = ((touched as f64 * 0.01).round_ties_even() as u64).max(1);
        let (mut busiest, mut total) = (0, 0);
        let small = self.small.iter().enumerate().rev();
        let small = small.map(|(count, &blocks)| (count as u64, blocks));
        let large = self.large.iter().rev();
        let large = large.map(|(&count, &blocks)| (u64::from(count), blocks));
        for (count, blocks) in large.chain(small) {
            let taken = blocks.min(blocks_left);
            blocks_left -= taken;
            busiest += count * taken;
            total += count * blocks;
        }
        (total > 0).then(|| busiest as f64 / total as f64)
    }
}
