//! Disks and their partitions: what their events describe, and the rows they get.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::facts::{Disk, Partition};

/// Disks without a description are taken to have the sectors nearly all have.
pub const SECTOR_BYTES: u32 = 512;

/// A row of the recording's `devices`. What its log does not tell is `None`.
#[derive(Debug, Default)]
pub struct DeviceRow {
    pub name: String,
    /// The row of its disk, if it is a partition.
    pub parent: Option<i32>,
    pub start_bytes: Option<u64>,
    pub size_bytes: Option<u64>,
    pub sector_bytes: Option<u32>,
    pub mount: Option<String>,
    pub filesystem: Option<String>,
    pub model: Option<String>,
    pub write_cache: Option<bool>,
}

/// Disks by number, then partitions by disk and position: positions are the recording's device ids.
#[derive(Default)]
pub struct Devices {
    disks: Vec<(u32, Option<Disk>)>,
    pub partitions: Vec<Partition>,
    /// Rows of disks by SCSI address, and positions of partitions by drive letter; `None` where several share one.
    by_address: HashMap<[u32; 4], Option<i32>>,
    by_letter: HashMap<String, Option<usize>>,
}

impl Devices {
    /// The latest description of each disk and partition holds; disks with I/O (`numbers`) need none.
    pub fn from_events(
        mut disks: Vec<(i64, Disk)>,
        mut partitions: Vec<(i64, Partition)>,
        mut numbers: BTreeSet<u32>,
    ) -> Self {
        disks.sort_by_key(|(ticks, _)| *ticks);
        let mut described: BTreeMap<u32, Disk> = disks
            .into_iter()
            .map(|(_, disk)| (disk.number, disk))
            .collect();
        numbers.extend(described.keys());
        partitions.sort_by_key(|(ticks, _)| *ticks);
        let partitions: BTreeMap<(u32, u64), Partition> = partitions
            .into_iter()
            .map(|(_, part)| ((part.disk, part.start_bytes), part))
            .collect();
        numbers.extend(partitions.keys().map(|(disk, _)| *disk));
        let disks: Vec<(u32, Option<Disk>)> = numbers
            .into_iter()
            .map(|number| (number, described.remove(&number)))
            .collect();
        let partitions: Vec<Partition> = partitions.into_values().collect();
        let addresses = (0..)
            .zip(&disks)
            .filter_map(|(row, (_, disk))| Some((disk.as_ref()?.address, row)));
        let letters = (0..)
            .zip(&partitions)
            .map(|(position, part)| (part.letter.to_ascii_lowercase(), position));
        Self {
            by_address: unshared(addresses),
            by_letter: unshared(letters),
            disks,
            partitions,
        }
    }

    /// Row of the partition at this position of `partitions`.
    pub fn partition_row(&self, index: usize) -> usize {
        self.disks.len() + index
    }

    /// Row of a disk that is known.
    pub fn disk_row(&self, number: u32) -> usize {
        self.disks.partition_point(|(known, _)| *known < number)
    }

    /// Row of the one disk with this SCSI address.
    pub fn disk_at(&self, address: [u8; 4]) -> Option<i32> {
        *self.by_address.get(&address.map(u32::from))?
    }

    /// Bytes of a logical block of the disk in this row.
    pub fn sector_bytes(&self, row: usize) -> u32 {
        let described = self.disks.get(row).and_then(|(_, disk)| disk.as_ref());
        described
            .map(|disk| disk.sector_bytes)
            .filter(|bytes| *bytes > 0)
            .unwrap_or(SECTOR_BYTES)
    }

    /// Position of the partition that holds this byte of a disk.
    pub fn partition_at(&self, disk: u32, offset: u64) -> Option<usize> {
        let next = self
            .partitions
            .partition_point(|part| (part.disk, part.start_bytes) <= (disk, offset));
        let index = next.checked_sub(1)?;
        let part = &self.partitions[index];
        (part.disk == disk && offset - part.start_bytes < part.size_bytes).then_some(index)
    }

    /// Position of the one partition whose drive letter begins a path.
    pub fn partition_called(&self, path: &str) -> Option<usize> {
        let letter = path.get(..2).filter(|letter| letter.ends_with(':'))?;
        *self.by_letter.get(&letter.to_ascii_lowercase())?
    }

    /// All devices in the order of their rows: disks, then partitions.
    pub fn rows(&self) -> Vec<DeviceRow> {
        let told = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let disks = self.disks.iter().map(|(number, disk)| DeviceRow {
            name: format!("disk {number}"),
            size_bytes: disk.as_ref().and_then(|disk| disk.size_bytes),
            sector_bytes: disk.as_ref().map(|disk| disk.sector_bytes),
            model: disk.as_ref().and_then(|disk| told(&disk.model)),
            write_cache: disk.as_ref().map(|disk| disk.write_cache),
            ..DeviceRow::default()
        });
        let partitions = self.partitions.iter().map(|part| DeviceRow {
            name: format!("disk {} partition {}", part.disk, part.number),
            parent: Some(self.disk_row(part.disk) as i32),
            start_bytes: Some(part.start_bytes),
            size_bytes: Some(part.size_bytes),
            mount: told(&part.letter),
            filesystem: told(&part.filesystem),
            ..DeviceRow::default()
        });
        disks.chain(partitions).collect()
    }
}

/// What each key stands for; `None` if for several things.
fn unshared<K: Eq + std::hash::Hash, V>(
    entries: impl Iterator<Item = (K, V)>,
) -> HashMap<K, Option<V>> {
    let mut all = HashMap::new();
    for (key, value) in entries {
        match all.entry(key) {
            Entry::Vacant(entry) => drop(entry.insert(Some(value))),
            Entry::Occupied(mut entry) => drop(entry.insert(None)),
        }
    }
    all
}
