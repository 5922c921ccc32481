//! Disks and their partitions: what their events describe, and the rows they get.

use std::collections::{BTreeMap, BTreeSet};

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
        Self {
            disks: numbers
                .into_iter()
                .map(|number| (number, described.remove(&number)))
                .collect(),
            partitions: partitions.into_values().collect(),
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
        let mut rows = (0..).zip(&self.disks).filter(|(_, (_, disk))| {
            disk.as_ref()
                .is_some_and(|disk| disk.address == address.map(u32::from))
        });
        match (rows.next(), rows.next()) {
            (Some((row, _)), None) => Some(row),
            _ => None,
        }
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
        let mut called = (0..)
            .zip(&self.partitions)
            .filter(|(_, part)| part.letter.eq_ignore_ascii_case(letter));
        match (called.next(), called.next()) {
            (Some((index, _)), None) => Some(index),
            _ => None,
        }
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
