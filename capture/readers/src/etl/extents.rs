//! Where the disk I/O of each file fell, by which an unmerged log's drive letters are inferred.

use super::facts::DiskIo;
use crate::hashing::NumberMap;

/// A power of two.
const RECENT: usize = 256;

/// Lowest and highest byte a file's disk I/O touched.
#[derive(Debug, Clone, Copy)]
pub struct Extent {
    pub disk: u32,
    pub first: u64,
    pub last: u64,
    /// On more than one disk.
    pub mixed: bool,
}

impl Extent {
    fn widen(&mut self, more: &Self) {
        self.mixed |= self.disk != more.disk || more.mixed;
        self.first = self.first.min(more.first);
        self.last = self.last.max(more.last);
    }
}

/// Extents by file key.
#[derive(Debug)]
pub struct Extents {
    all: NumberMap<u64, Extent>,
    /// Those of the files that I/O went to lately, not in `all` yet.
    recent: Box<[Option<(u64, Extent)>]>,
}

impl Default for Extents {
    fn default() -> Self {
        Self {
            all: NumberMap::default(),
            recent: vec![None; RECENT].into(),
        }
    }
}

impl Extents {
    /// Widen the extent of the file that an I/O went to.
    #[inline]
    pub fn touch(&mut self, io: &DiskIo) {
        let Ok(offset) = u64::try_from(io.offset) else {
            return;
        };
        let touched = Extent {
            disk: io.disk,
            first: offset,
            last: offset,
            mixed: false,
        };
        let place = (io.key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as usize % RECENT;
        match &mut self.recent[place] {
            Some((key, extent)) if *key == io.key => extent.widen(&touched),
            other => {
                if let Some((key, extent)) = other.replace((io.key, touched)) {
                    add(&mut self.all, key, extent);
                }
            }
        }
    }

    /// Take over those of another worker.
    pub fn absorb(&mut self, other: Self) {
        for (key, extent) in other.by_key() {
            add(&mut self.all, key, extent);
        }
    }

    pub fn by_key(mut self) -> NumberMap<u64, Extent> {
        for (key, extent) in self.recent.into_iter().flatten() {
            add(&mut self.all, key, extent);
        }
        self.all
    }
}

fn add(all: &mut NumberMap<u64, Extent>, key: u64, extent: Extent) {
    all.entry(key)
        .and_modify(|known| known.widen(&extent))
        .or_insert(extent);
}
