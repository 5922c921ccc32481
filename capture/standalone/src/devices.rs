//! From what a user calls a device (path, mount point, file on it) to kernel numbers, and what /sys tells of it.
//!
//! The same as `capture/linux/devices.py`, whose tests hold both to one another.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// Bytes of what the kernel calls a sector, whatever the device's own are.
pub const SECTOR_BYTES: u64 = 512;

/// A disk or partition. A disk is its own `disk_number`; numbers are the kernel's: major << 20 | minor.
#[derive(Clone, Debug)]
pub struct Device {
    pub name: String,
    pub number: u32,
    pub disk_number: u32,
    pub start_sector: u64,
    pub sectors: u64,
    /// In /sys.
    pub folder: PathBuf,
}

impl Device {
    pub fn is_partition(&self) -> bool {
        self.number != self.disk_number
    }

    /// Whether a driver queue exists; device-mapper, md and zram take bios and have no device layer.
    pub fn takes_requests(&self) -> bool {
        self.disk_folder().join("mq").is_dir()
    }

    pub fn disk_folder(&self) -> &Path {
        let parent = self.folder.parent().unwrap_or(&self.folder);
        if self.is_partition() {
            parent
        } else {
            &self.folder
        }
    }

    /// A file of the disk's queue.
    pub fn queue(&self, name: &str) -> Option<String> {
        text(&self.disk_folder().join("queue").join(name))
    }

    fn in_folder(folder: &Path) -> Result<Self, Failure> {
        let number = number_in(folder)?;
        let is_partition = folder.join("partition").exists();
        let count = |name| text(&folder.join(name)).and_then(|text| text.parse().ok());
        Ok(Self {
            name: folder
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .replace('!', "/"),
            number,
            disk_number: if is_partition {
                number_in(folder.parent().unwrap_or(folder))?
            } else {
                number
            },
            start_sector: count("start").filter(|_| is_partition).unwrap_or(0),
            sectors: count("size").unwrap_or(0),
            folder: folder.to_owned(),
        })
    }

    fn disk(&self) -> Result<Self, Failure> {
        Self::in_folder(self.disk_folder())
    }

    /// Partitions of a disk in order of their start.
    pub fn partitions(&self) -> Vec<Self> {
        let mut found: Vec<Self> = folders_in(&self.folder)
            .iter()
            .filter(|folder| folder.join("partition").exists())
            .filter_map(|folder| Self::in_folder(folder).ok())
            .collect();
        found.sort_by_key(|part| part.start_sector);
        found
    }

    /// The disks and partitions that a volume (LVM, MD) is made of, down to those whose driver takes requests.
    pub fn lies_on(&self) -> Vec<Self> {
        let mut found: Vec<Self> = Vec::new();
        let mut below = folders_in(&self.disk_folder().join("slaves"));
        below.sort();
        for folder in below.iter().filter_map(|link| link.canonicalize().ok()) {
            let Ok(part) = Self::in_folder(&folder) else {
                continue;
            };
            let lower = if part.takes_requests() {
                vec![part]
            } else {
                part.lies_on()
            };
            for one in lower {
                if found.iter().all(|other| other.number != one.number) {
                    found.push(one);
                }
            }
        }
        found
    }

    /// Vendor's name for it, or what it is made of.
    pub fn model(&self) -> Option<String> {
        let below = self.lies_on();
        if !below.is_empty() {
            let kind = text(&self.folder.join("md/level")).unwrap_or_else(|| "volume".to_owned());
            let names: Vec<_> = below.iter().map(|part| part.name.as_str()).collect();
            return Some(format!("{kind} over {}", names.join(", ")));
        }
        if let Some(backing) = text(&self.folder.join("loop/backing_file")) {
            return Some(format!("loop device over {backing}"));
        }
        let folder = self.disk_folder().join("device");
        let words: Vec<_> = ["vendor", "model"]
            .iter()
            .filter_map(|name| text(&folder.join(name)).filter(|word| !word.is_empty()))
            .collect();
        (!words.is_empty()).then(|| words.join(" "))
    }

    /// Where it is mounted first, and as what.
    pub fn mount(&self) -> Option<Mount> {
        mounts()
            .into_iter()
            .find(|mount| mount.number == self.number)
    }
}

/// What to record: the devices asked for, the disks in order of `device_id`, and each disk's role.
#[derive(Debug)]
pub struct Selection {
    pub words: Vec<(String, Device)>,
    /// Those asked for, then those beneath them.
    pub disks: Vec<Device>,
    /// Position of the disk → (word, role).
    pub roles: Vec<(usize, String, String)>,
    /// Word for a volume that takes no requests → what it lies on, whose requests are its device layer.
    pub beneath: Vec<(String, Vec<Device>)>,
}

impl Selection {
    /// Resolve the user's words.
    pub fn new(words: &[String], roles: &[(String, String)]) -> Result<Self, Failure> {
        let mut selection = Self {
            words: Vec::new(),
            disks: Vec::new(),
            roles: Vec::new(),
            beneath: Vec::new(),
        };
        for word in words {
            selection.words.push((word.clone(), resolve(word)?));
        }
        for (_, device) in selection.words.clone() {
            selection.add_disk(&device)?;
        }
        for (word, device) in selection.words.clone() {
            if device.takes_requests() {
                continue;
            }
            let below = device.lies_on();
            for part in &below {
                selection.add_disk(part)?;
            }
            if !below.is_empty() {
                selection.beneath.push((word, below));
            }
        }
        selection.attribute(roles)?;
        Ok(selection)
    }

    fn add_disk(&mut self, device: &Device) -> Result<(), Failure> {
        if self.position(device.disk_number).is_none() {
            self.disks.push(device.disk()?);
        }
        Ok(())
    }

    fn position(&self, disk_number: u32) -> Option<usize> {
        self.disks
            .iter()
            .position(|disk| disk.number == disk_number)
    }

    fn attribute(&mut self, roles: &[(String, String)]) -> Result<(), Failure> {
        for (word, role) in roles {
            let Some(position) = self.position(resolve(word)?.disk_number) else {
                return Err(Failure::new(
                    format!("a role is given for '{word}', which is not recorded"),
                    "name the device, too",
                ));
            };
            if let Some((_, other, _)) = self.roles.iter().find(|one| one.0 == position) {
                return Err(Failure::new(
                    format!("'{word}' and '{other}' lie on one disk and cannot have a role each"),
                    "roles are told apart by disk",
                ));
            }
            self.roles.push((position, word.clone(), role.clone()));
        }
        // A volume's role is that of the disks it alone lies on.
        for (word, below) in self.beneath.clone() {
            let own = self.words.iter().find(|one| one.0 == word);
            let above = own.and_then(|(_, device)| self.position(device.disk_number));
            let Some((_, told, role)) = self.roles.iter().find(|one| Some(one.0) == above).cloned()
            else {
                continue;
            };
            for part in &below {
                let is_shared = self.beneath.iter().any(|(other, parts)| {
                    *other != word && parts.iter().any(|one| one.disk_number == part.disk_number)
                });
                let position = self.position(part.disk_number);
                if let Some(position) = position.filter(|_| !is_shared)
                    && self.roles.iter().all(|one| one.0 != position)
                {
                    self.roles.push((position, told.clone(), role.clone()));
                }
            }
        }
        self.roles.sort_by_key(|one| one.0);
        Ok(())
    }

    /// Kernel number → position of the disk, for disks and their partitions.
    pub fn positions(&self) -> HashMap<u32, usize> {
        let mut at = HashMap::new();
        for (index, disk) in self.disks.iter().enumerate() {
            at.insert(disk.number, index);
            at.extend(disk.partitions().iter().map(|part| (part.number, index)));
        }
        at
    }

    /// Ftrace filter that passes the asked devices' events.
    ///
    /// Bio events of a partition carry its number, request events its disk's; sectors count from the disk's start in
    /// both. Flush requests carry no sector, so a partition's recording holds those of its whole disk.
    pub fn trace_filter(&self, event: &str) -> String {
        let of_requests = event.contains("_rq_");
        // A volume's bios are counted on the volume; those it sends to the disks beneath would be counted twice.
        let beneath = self
            .beneath
            .iter()
            .flat_map(|(_, parts)| parts)
            .filter(|_| of_requests);
        let mut clauses: Vec<String> = Vec::new();
        for device in self.words.iter().map(|(_, device)| device).chain(beneath) {
            if !device.is_partition() {
                clauses.push(format!("dev == {}", device.number));
                let parts = device.partitions();
                clauses.extend(parts.iter().map(|part| format!("dev == {}", part.number)));
                continue;
            }
            let (disk, start) = (device.disk_number, device.start_sector);
            let end = start + device.sectors;
            clauses.push(format!("dev == {}", device.number));
            clauses.push(format!(
                "(dev == {disk} && sector >= {start} && sector < {end})"
            ));
            if of_requests {
                clauses.push(format!("(dev == {disk} && nr_sector == 0)"));
            }
        }
        let mut once: Vec<String> = Vec::new();
        for clause in clauses {
            if !once.contains(&clause) {
                once.push(clause);
            }
        }
        once.join(" || ")
    }
}

/// The block device a path names, or the one it lies on.
pub fn resolve(word: &str) -> Result<Device, Failure> {
    let mut path = PathBuf::from(word);
    if !path.exists() && !word.contains('/') && Path::new("/dev").join(word).exists() {
        path = Path::new("/dev").join(word);
    }
    let status = path.metadata().map_err(|problem| {
        Failure::new(
            format!("no device '{word}': {problem}"),
            "lsblk, or /sys/block, lists the block devices of this machine",
        )
    })?;
    if status.file_type().is_char_device() {
        return Err(Failure::new(
            format!("'{word}' is a character device, not a block device"),
            "lsblk, or /sys/block, lists block devices",
        ));
    }
    let is_device = status.file_type().is_block_device();
    let mut number = if is_device {
        status.rdev()
    } else {
        status.dev()
    };
    if libc::major(number) == 0 {
        // btrfs and the like number their mounts themselves, but name a device in the mount table.
        let own = kernel_number(number);
        let mounts = mounts();
        let source = mounts
            .iter()
            .filter(|mount| mount.number == own && mount.source.starts_with("/dev/"))
            .find_map(|mount| fs::metadata(&mount.source).ok())
            .filter(|source| source.file_type().is_block_device());
        let Some(source) = source else {
            let kind = mounts.iter().find(|mount| mount.number == own);
            let kind = kind.map_or("a file system in memory", |mount| &mount.filesystem);
            return Err(Failure::new(
                format!("no block device lies behind '{word}' ({kind})"),
                "name a disk, or a path on one",
            ));
        };
        number = source.rdev();
    }
    let link = format!(
        "/sys/dev/block/{}:{}",
        libc::major(number),
        libc::minor(number)
    );
    let folder = fs::canonicalize(link).map_err(|_| {
        Failure::new(
            format!("'{word}' has no block device in /sys"),
            "mount -t sysfs sysfs /sys, where it is not mounted",
        )
    })?;
    Device::in_folder(&folder)
}

/// A line of the mount table (`man 5 proc_pid_mountinfo`).
#[derive(Debug)]
pub struct Mount {
    number: u32,
    pub point: String,
    pub filesystem: String,
    source: String,
}

fn mounts() -> Vec<Mount> {
    let table = text(Path::new("/proc/self/mountinfo")).unwrap_or_default();
    table.lines().filter_map(mount).collect()
}

fn mount(line: &str) -> Option<Mount> {
    let (before, after) = line.split_once(" - ")?;
    let fields: Vec<_> = before.split_whitespace().collect();
    let mut after = after.split_whitespace();
    let (major, minor) = fields.get(2)?.split_once(':')?;
    Some(Mount {
        number: major.parse::<u32>().ok()? << 20 | minor.parse::<u32>().ok()?,
        point: fields.get(4)?.replace("\\040", " "),
        filesystem: after.next()?.to_owned(),
        source: after.next()?.to_owned(),
    })
}

fn kernel_number(number: u64) -> u32 {
    libc::major(number) << 20 | libc::minor(number)
}

fn number_in(folder: &Path) -> Result<u32, Failure> {
    let numbers = text(&folder.join("dev"));
    let parsed = numbers.as_deref().and_then(|numbers| {
        let (major, minor) = numbers.split_once(':')?;
        Some(major.parse::<u32>().ok()? << 20 | minor.parse::<u32>().ok()?)
    });
    parsed.ok_or_else(|| {
        Failure::new(
            format!("'{}' has no device number", folder.display()),
            "the device may just have gone: look again",
        )
    })
}

fn folders_in(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

/// A small file without the blanks around it; none where it cannot be read.
pub fn text(path: &Path) -> Option<String> {
    let bytes = fs::read(path).ok()?;
    Some(String::from_utf8_lossy(&bytes).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(number: u32, disk_number: u32, start_sector: u64) -> Device {
        Device {
            name: "x".to_owned(),
            number,
            disk_number,
            start_sector,
            sectors: 50,
            folder: PathBuf::from("/nowhere/x"),
        }
    }

    #[test]
    fn a_partition_is_filtered_by_where_it_lies() {
        let selection = Selection {
            words: vec![
                ("a".to_owned(), device(9, 8, 100)),
                ("b".to_owned(), device(7, 7, 0)),
            ],
            disks: Vec::new(),
            roles: Vec::new(),
            beneath: vec![("b".to_owned(), vec![device(5, 5, 0)])],
        };
        assert_eq!(
            selection.trace_filter("block_bio_queue"),
            "dev == 9 || (dev == 8 && sector >= 100 && sector < 150) || dev == 7"
        );
        assert_eq!(
            selection.trace_filter("block_rq_issue"),
            "dev == 9 || (dev == 8 && sector >= 100 && sector < 150) || (dev == 8 && nr_sector == 0) || dev == 7 \
             || dev == 5"
        );
    }

    #[test]
    fn a_line_of_the_mount_table() {
        let mount = mount(
            "36 35 98:1 / /mnt/a\\040b rw,noatime master:1 - ext3 /dev/root rw,errors=continue",
        )
        .unwrap();
        assert_eq!(mount.number, 98 << 20 | 1);
        assert_eq!(
            (mount.point.as_str(), mount.filesystem.as_str()),
            ("/mnt/a b", "ext3")
        );
        assert_eq!(mount.source, "/dev/root");
    }
}
