//! What remaps tell: which devices are partitions, and which bios are a volume's own on what it lies on.

use std::collections::{BTreeMap, HashSet};

/// A bio for a sector of one device, which goes to a sector of another (A): of a partition to its disk, or of a
/// volume (LVM, MD, multipath) to what it lies on.
#[derive(Clone, Copy, Debug)]
pub struct Remap {
    pub from: u32,
    pub from_sector: u64,
    pub to: u32,
    pub to_sector: u64,
}

const SHIFTS_MAX: usize = 1 << 12;
/// Remapped bios that are not queued yet; usually one a processor.
const UNDER_WAY_MAX: usize = 1 << 16;

#[derive(Debug, Default)]
pub struct Remaps {
    /// Parent and shift in sectors of each device that remaps come from; None once two shifts disagree.
    shifts: BTreeMap<u32, (u32, Option<u64>)>,
    /// Devices and sectors at which a bio of a volume will be queued next.
    under_way: HashSet<(u32, u64)>,
}

impl Remaps {
    /// Take in one. `from_has_bios`: bios were queued on the device it comes from. On a partition none ever are; a
    /// volume's are in the trace already, and what it sends on must not count again.
    pub fn learn(&mut self, remap: Remap, from_has_bios: bool) {
        let Remap {
            from,
            from_sector,
            to,
            to_sector,
        } = remap;
        if from == to {
            return;
        }
        // A volume's bio may pass through a partition, which kernels from 5.12 give the number of its disk.
        let passes_on = self.under_way.remove(&(from, from_sector))
            || !from_has_bios && self.under_way.remove(&(to, from_sector));
        if !from_has_bios {
            self.learn_shift(remap);
        }
        if from_has_bios || passes_on {
            if self.under_way.len() >= UNDER_WAY_MAX {
                self.under_way.clear();
            }
            self.under_way.insert((to, to_sector));
        }
    }

    fn learn_shift(&mut self, remap: Remap) {
        if remap.from >> 20 != remap.to >> 20 || self.shifts.len() > SHIFTS_MAX {
            return;
        }
        let shift = remap.to_sector.checked_sub(remap.from_sector);
        let known = self.shifts.entry(remap.from).or_insert((remap.to, shift));
        if known.0 != remap.to || known.1 != shift {
            known.1 = None;
        }
    }

    /// Whether the bio that is queued here was sent on by a volume.
    pub fn is_sent_on(&mut self, device: u32, sector: u64) -> bool {
        !self.under_way.is_empty() && self.under_way.remove(&(device, sector))
    }

    /// Partitions: their number, their disk's, and the first sector on it.
    pub fn partitions(&self) -> impl Iterator<Item = (u32, u32, u64)> {
        let known = |(device, (parent, shift)): (&u32, &(u32, Option<u64>))| {
            Some((*device, *parent, (*shift)?))
        };
        self.shifts.iter().filter_map(known)
    }
}
