//! What was touched, by whom and when: the footprint, how it grew, and where it was hot.
//!
//! The footprint is in granules of 4 KiB (`iotrace_load::footprint`). Hot spots are found by blocks of 64 KiB in pages of
//! 16 MiB, which are made when an I/O begins in them; a page belongs to one area (a device, or above the block layer a
//! file). Where pages would take more room than they may, blocks are made twice as large, as often as it takes; the room
//! is at least that of two pages for each area.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hint;

use iotrace_load::footprint::{Footprint, union};

use crate::page::{PAGE_BLOCKS, Page, Pages};
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
    /// Share of its I/Os that began in the busiest hundredth of the blocks in which any began.
    pub hottest_share: Option<f64>,
}

/// Takes in I/Os in order of time, and answers when all have been taken in (`finish`).
pub struct Touched {
    areas: usize,
    kinds: usize,
    /// Where each slice but the first begins.
    cuts_ns: Vec<i64>,
    room_bytes: usize,
    shift: u32,
    /// Whether it is asked where it was hot.
    has_pages: bool,
    pages: Pages,
    finder: Finder,
    /// Of the present slice, by area and kind.
    now: Footprint,
    /// Of the slices that are over, by area and kind.
    ever: Footprint,
    io_count: u64,
    is_stuck: bool,
    todo: Vec<Touch>,
    /// The slices that are over.
    pub slices: Vec<Slice>,
}

impl Touched {
    /// `cuts_ns`: where each slice of time but the first begins, ascending, fewer than `SLICES_MAX`. Without `has_pages`
    /// only the footprint is told.
    pub fn new(
        areas: usize,
        kinds: usize,
        cuts_ns: Vec<i64>,
        room_bytes: usize,
        has_pages: bool,
    ) -> Self {
        Self {
            areas,
            kinds,
            cuts_ns,
            room_bytes,
            shift: FIRST_SHIFT,
            has_pages,
            pages: Pages::default(),
            todo: Vec::with_capacity(TOGETHER),
            finder: Finder::new(areas),
            now: Footprint::default(),
            ever: Footprint::default(),

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
        let of_area = |area: usize| {
            let kinds = kinds.iter().filter(|&&kind| kind < self.kinds);
            union(kinds.filter_map(|&kind| self.ever.slots().get(area * self.kinds + kind))).count()
        };
        let granules: u64 = match areas {
            Some(areas) => {
                let areas: HashSet<u32> = areas.iter().copied().collect();
                areas.into_iter().map(|area| of_area(area as usize)).sum()
            }
            None => (0..self.areas).map(of_area).sum(),
        };
        granules * self.ever.granule_bytes()
    }

    /// Share of all I/Os that began in the busiest hundredth of the blocks in which any began; None below 100 blocks.
    pub fn share_of_busiest(&self) -> Option<f64> {
        let mut counts = Counts::default();
        let pages = self.pages.rest.iter();
        pages.for_each(|page| counts.add(&page.begun_before));
        counts.share_of_busiest()
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
            let offset_bytes = row.offset_bytes as u64;
            let block = offset_bytes >> self.shift;
            let slot = if self.has_pages {
                self.slot(place.area, block >> PAGE_SHIFT)
            } else {
                0
            };
            todo.push(Touch {
                slot,
                block: block as usize % PAGE_BLOCKS,
                set: place.area * self.kinds as u32 + kind,
                offset_bytes,
                size_bytes: u64::from(row.size_bytes),
            });
        }
        let warm = |io: &Touch| {
            let page = self.has_pages.then(|| self.pages.warm(io.slot, io.block));
            u64::from(page.unwrap_or(0)) ^ self.now.warm(io.set, io.offset_bytes)
        };
        hint::black_box(todo.iter().fold(0, |sum, io| sum ^ warm(io)));
        self.io_count += todo.len() as u64;
        for io in todo.drain(..) {
            if self.has_pages {
                self.pages.begin(io.slot, io.block);
            }
            self.now.add(io.set, io.offset_bytes, io.size_bytes);
        }
        self.todo = todo;
        if self.pages.size_bytes() > self.room_bytes && !self.is_stuck {
            self.make_room();
        }
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
        self.room_bytes = self.room_bytes.max(2 * areas * Pages::PAGE_BYTES);
        while self.pages.size_bytes() > self.room_bytes {
            if self.shift >= LAST_SHIFT {
                self.is_stuck = true;
                return;
            }
            self.shift += 1;
            self.finder.clear();
            let finer = std::mem::take(&mut self.pages);
            for (from, page) in finer.rest.iter().enumerate() {
                let slot = self.slot(page.key.0, page.key.1 >> 1);
                self.pages.fold(slot, &finer, from);
            }
        }
    }

    fn end_slice(&mut self) {
        let (number, mut counts) = (self.slices.len(), Counts::default());
        for (page, begun) in self.pages.rest.iter_mut().zip(&mut self.pages.begun) {
            let total = begun
                .iter()
                .fold(0_u32, |sum, &begun| sum.saturating_add(begun));
            if total == 0 {
                continue;
            }
            counts.add(begun);
            page.by_slice[number] = total;
            for (before, begun) in page.begun_before.iter_mut().zip(begun) {
                *before = before.saturating_add(std::mem::take(begun));
            }
        }
        let mut now = std::mem::take(&mut self.now);
        now.align(&mut self.ever);
        let (mut touched, mut new) = (0, 0);
        let kinds = self.kinds.max(1);
        for (area, by_kind) in now.slots().chunks(kinds).enumerate() {
            let any = union(by_kind);
            touched += any.count();
            let ever = self.ever.slots().chunks(kinds).nth(area);
            new += any.count_beyond(&union(ever.unwrap_or_default()));
        }
        let granule_bytes = now.granule_bytes();
        self.ever.unite(&mut now);
        self.slices.push(Slice {
            io_count: std::mem::take(&mut self.io_count),
            touched_bytes: touched * granule_bytes,
            new_bytes: new * granule_bytes,
            hottest_share: counts.share_of_busiest(),
        });
    }
}

/// Where an I/O begins: the slot of the page, and the block in it; and what it touches of which set of granules.
struct Touch {
    slot: usize,
    block: usize,
    set: u32,
    offset_bytes: u64,
    size_bytes: u64,
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
        for &count in begun.iter().filter(|&&count| count > 0) {
            match self.small.get_mut(count as usize) {
                Some(blocks) => *blocks += 1,
                None => *self.large.entry(count).or_default() += 1,
            }
        }
    }

    fn share_of_busiest(&self) -> Option<f64> {
        let blocks = self.small.iter().chain(self.large.values()).sum::<u64>();
        if blocks < BLOCKS_MIN {
            return None;
        }
        let mut blocks_left = ((blocks as f64 * 0.01).round_ties_even() as u64).max(1);
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
