//! A first look at a file system: which ranges of the device belong to which file.
//!
//! Only names and places are read, no data. A file system with very many files is left when the time is over; what is
//! in use is looked at first.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::catalogue::Catalogue;
use super::layout::{Structure, file_ranges, own_ranges};

/// How it went.
#[derive(Clone, Copy, Debug, Default)]
pub struct Scan {
    pub files: u64,
    /// The time was over before everything was seen.
    pub is_cut: bool,
}

/// Look at the file system at `position` until `until`; `first` are files to begin with.
pub fn scan(catalogue: &mut Catalogue, position: usize, first: &[PathBuf], until: Instant) -> Scan {
    let mut outcome = Scan::default();
    for path in first {
        outcome.files += u64::from(look_at(catalogue, position, path));
    }
    let place = &catalogue.filesystems[position];
    let (journal, metadata, point) = (place.journal, place.metadata, place.mounted.point.clone());
    let mut own = Vec::new();
    let seen_all = place.root().map(|root| {
        own_ranges(&root, until, |start, end, structure| {
            let is_journal = structure == Structure::Journal;
            own.push((start, end, if is_journal { journal } else { metadata }));
        })
    });
    if let Some(xfs) = place.xfs {
        let start = xfs.byte(xfs.journal_block);
        let end = start + xfs.journal_blocks * xfs.block_bytes;
        own.push((start, end, journal));
    }
    outcome.is_cut |= matches!(seen_all, Some(Ok(false))); // some cannot tell at all
    for (start, end, entry) in own {
        catalogue.give(position, start, end, entry);
    }
    let mut folders = vec![point];
    while let Some(folder) = folders.pop() {
        if Instant::now() >= until {
            outcome.is_cut = true;
            break;
        }
        look_at(catalogue, position, &folder);
        let Ok(entries) = std::fs::read_dir(&folder) else {
            continue;
        };
        for entry in entries.flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() && is_within(catalogue, position, &entry.path()) => {
                    folders.push(entry.path());
                }
                Ok(kind) if kind.is_file() => {
                    outcome.files += u64::from(look_at(catalogue, position, &entry.path()));
                }
                _ => {}
            }
        }
    }
    outcome
}

/// Whether `path` lies on the file system rather than on one mounted there.
fn is_within(catalogue: &Catalogue, position: usize, path: &Path) -> bool {
    let number = catalogue.filesystems[position].mounted.number;
    std::fs::symlink_metadata(path).is_ok_and(|metadata| kernel_number(metadata.dev()) == number)
}

/// Take in the ranges of one file or folder; whether it was one of this file system.
fn look_at(catalogue: &mut Catalogue, position: usize, path: &Path) -> bool {
    let Some(file) = open(path) else {
        return false;
    };
    let Ok(metadata) = file.metadata() else {
        return false;
    };
    let place = &catalogue.filesystems[position];
    if kernel_number(metadata.dev()) != place.mounted.number {
        return false;
    }
    let entry = if metadata.is_dir() {
        place.metadata
    } else if metadata.is_file() {
        let path = path.to_string_lossy().into_owned();
        catalogue.on_found(position, metadata.ino(), path, metadata.len())
    } else {
        return false;
    };
    let mut ranges = Vec::new();
    // A file whose places cannot be told stays without; its name is known all the same.
    let _ = file_ranges(&file, |start, end| ranges.push((start, end)));
    for (start, end) in ranges {
        catalogue.give(position, start, end, entry);
    }
    true
}

fn open(path: &Path) -> Option<File> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let mut options = OpenOptions::new();
    options.read(true);
    // Only a file's owner and root may leave its time of access alone.
    options
        .clone()
        .custom_flags(flags | libc::O_NOATIME)
        .open(path)
        .or_else(|_| options.custom_flags(flags).open(path))
        .ok()
}

/// The kernel's form of a device number (major << 20 | minor) from user space's.
#[must_use]
pub fn kernel_number(dev: u64) -> u32 {
    libc::major(dev) << 20 | libc::minor(dev)
}
