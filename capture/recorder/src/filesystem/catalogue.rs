//! The files of the recorded file systems: who they are, and which ranges of the disk are theirs.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int32Array, RecordBatch, StringArray, UInt64Array};
use arrow_schema::ArrowError;

use super::extents::ExtentMap;
use super::handles::{self, Named};
use super::layout::{XfsGeometry, xfs_geometry};
use super::scan::kernel_number;

/// Files told apart at most, of those known and of those that saw I/O: a bound on memory where files come and go by the
/// million. What is beyond goes by one name.
const ENTRIES_MAX: usize = 1 << 20;
const FILES_MAX: usize = 1 << 16;
/// Ranges remembered at most: a bound on memory.
const RANGES_MAX: usize = 1 << 22;

/// A mounted file system on a recorded disk.
#[derive(Clone, Debug)]
pub struct Mounted {
    pub point: PathBuf,
    /// Kernel number of the disk or partition it lies on.
    pub number: u32,
    pub is_xfs: bool,
    /// Row of `devices` of the disk.
    pub device_id: i32,
    /// Where on the disk it begins and ends.
    pub start_bytes: u64,
    pub end_bytes: u64,
}

/// One of them, opened.
pub struct FileSystem {
    pub mounted: Mounted,
    pub block_bytes: u64,
    pub xfs: Option<XfsGeometry>,
    pub extents: ExtentMap,
    /// Entries that stand for what is no file's.
    pub journal: u32,
    pub metadata: u32,
    /// Stands for the files that are too many.
    others: u32,
}

impl FileSystem {
    /// Its uppermost folder. It is not kept open: that would keep it from being unmounted.
    #[must_use]
    pub fn root(&self) -> Option<File> {
        let root = File::open(&self.mounted.point).ok()?;
        let number = kernel_number(root.metadata().ok()?.dev());
        (number == self.mounted.number).then_some(root)
    }

    fn look_up(&self, inode: u64) -> Option<Named> {
        handles::look_up(&self.root()?, inode, self.mounted.is_xfs)
    }
}

#[derive(Debug)]
struct Entry {
    filesystem: usize,
    inode: u64,
    path: Option<String>,
    size_bytes: Option<u64>,
    /// Given when the file is first needed.
    file_id: Option<i32>,
}

/// Files known so far. An entry is a file's position here; a `file_id` is given to those that saw I/O.
pub struct Catalogue {
    pub filesystems: Vec<FileSystem>,
    entries: Vec<Entry>,
    by_inode: HashMap<(u32, u64), u32>,
    /// Whom an inode's number belonged to before it was given up.
    former: HashMap<(u32, u64), u32>,
    unnamed: Vec<u32>,
    first_file_id: i32,
    ids: Vec<u32>,
    entries_max: usize,
    files_max: usize,
}

impl Catalogue {
    /// Open the file systems. Rows of `files` are numbered from `first_file_id`.
    pub fn open(mounted: Vec<Mounted>, first_file_id: i32) -> std::io::Result<Self> {
        let mut catalogue = Self {
            filesystems: Vec::new(),
            entries: Vec::new(),
            by_inode: HashMap::new(),
            former: HashMap::new(),
            unnamed: Vec::new(),
            first_file_id,
            ids: Vec::new(),
            entries_max: ENTRIES_MAX,
            files_max: FILES_MAX,
        };
        for (position, mounted) in mounted.into_iter().enumerate() {
            let root = File::open(&mounted.point)?;
            let xfs = mounted.is_xfs.then(|| xfs_geometry(&root)).transpose()?;
            let block_bytes = match xfs {
                Some(geometry) => geometry.block_bytes,
                None => rustix::fs::statvfs(&mounted.point)?.f_bsize,
            };
            let point = mounted.point.to_string_lossy();
            let point = point.trim_end_matches('/');
            let journal = catalogue.add(position, 0, Some(format!("{point}/[journal]")));
            let metadata = catalogue.add(position, 0, Some(format!("{point}/[metadata]")));
            let others = catalogue.add(position, 0, Some(format!("{point}/[other files]")));
            catalogue.filesystems.push(FileSystem {
                mounted,
                block_bytes,
                xfs,
                extents: ExtentMap::default(),
                journal,
                metadata,
                others,
            });
        }
        Ok(catalogue)
    }

    /// Position of the file system on the device with this number.
    #[must_use]
    pub fn position(&self, number: u32) -> Option<usize> {
        self.filesystems
            .iter()
            .position(|filesystem| filesystem.mounted.number == number)
    }

    /// A file found by its path.
    pub fn on_found(&mut self, position: usize, inode: u64, path: String, size_bytes: u64) -> u32 {
        let key = (self.filesystems[position].mounted.number, inode);
        if let Some(&entry) = self.by_inode.get(&key) {
            return entry; // another name of the same file
        }
        if self.entries.len() >= self.entries_max {
            return self.filesystems[position].others;
        }
        let entry = self.add(position, inode, Some(path));
        self.entries[entry as usize].size_bytes = Some(size_bytes);
        self.by_inode.insert(key, entry);
        entry
    }

    /// The entry of an inode, looked up if it is new. A folder belongs to the metadata.
    pub fn of_inode(&mut self, position: usize, inode: u64) -> u32 {
        let filesystem = &self.filesystems[position];
        let key = (filesystem.mounted.number, inode);
        if let Some(&entry) = self.by_inode.get(&key) {
            return entry;
        }
        if self.entries.len() >= self.entries_max {
            return self.former.get(&key).copied().unwrap_or(filesystem.others);
        }
        let named = filesystem.look_up(inode);
        let metadata = filesystem.metadata;
        let before = self.former.get(&key).copied();
        let entry = match named {
            Some(Named {
                is_folder: true, ..
            }) => metadata,
            Some(named) => {
                let same = before.filter(|&entry| {
                    self.entries[entry as usize].path.as_ref() == Some(&named.path)
                });
                let entry = same.unwrap_or_else(|| self.add(position, inode, Some(named.path)));
                self.entries[entry as usize].size_bytes = Some(named.size_bytes);
                entry
            }
            None => {
                let entry = self.add(position, inode, None);
                self.unnamed.push(entry);
                entry
            }
        };
        self.by_inode.insert(key, entry);
        entry
    }

    /// The inode's number may belong to another file from now on.
    pub fn forget(&mut self, number: u32, inode: u64) {
        if let Some(entry) = self.by_inode.remove(&(number, inode)) {
            self.former.insert((number, inode), entry);
        }
    }

    /// Ask again for the names of files that had none when they were first seen.
    pub fn name_the_unnamed(&mut self) {
        for entry in std::mem::take(&mut self.unnamed) {
            let Entry {
                filesystem, inode, ..
            } = self.entries[entry as usize];
            let place = &self.filesystems[filesystem];
            let key = (place.mounted.number, inode);
            if self.by_inode.get(&key) != Some(&entry) {
                continue; // gone meanwhile
            }
            if let Some(named) = place.look_up(inode) {
                let known = &mut self.entries[entry as usize];
                known.path = Some(named.path);
                known.size_bytes = Some(named.size_bytes);
            }
        }
    }

    /// `start..end`, in bytes of the file system, belongs to `entry` from now on.
    pub fn give(&mut self, position: usize, start: u64, end: u64, entry: u32) {
        let extents = &mut self.filesystems[position].extents;
        if extents.len() < RANGES_MAX {
            extents.insert(start, end, entry);
        }
    }

    /// The file that holds the byte at `offset` of the disk `device_id`, and the file system that spans it.
    #[must_use]
    pub fn at(&self, device_id: i32, offset: u64) -> Option<(&FileSystem, Option<u32>)> {
        let filesystem = self.filesystems.iter().find(|filesystem| {
            let mounted = &filesystem.mounted;
            mounted.device_id == device_id
                && (mounted.start_bytes..mounted.end_bytes).contains(&offset)
        })?;
        let owner = filesystem
            .extents
            .owner(offset - filesystem.mounted.start_bytes);
        Some((filesystem, owner))
    }

    /// Row of `files` for an entry.
    pub fn file_id(&mut self, entry: u32) -> i32 {
        let next = self.first_file_id + self.ids.len() as i32;
        let others = self.filesystems[self.entries[entry as usize].filesystem].others;
        let is_beyond =
            self.ids.len() >= self.files_max && self.entries[entry as usize].file_id.is_none();
        let entry = if is_beyond { others } else { entry };
        let known = &mut self.entries[entry as usize];
        *known.file_id.get_or_insert_with(|| {
            self.ids.push(entry);
            next
        })
    }

    /// Files that saw I/O so far.
    #[must_use]
    pub fn files_used(&self) -> u64 {
        self.ids.len() as u64
    }

    /// Rows of `files` for the files that saw I/O: `file_id`, `path`, `device_id`, `size_bytes`.
    ///
    /// Sizes are those of now, where the file can still be found.
    pub fn batch(&mut self) -> Result<RecordBatch, ArrowError> {
        self.name_the_unnamed();
        let entries: Vec<&Entry> = self
            .ids
            .iter()
            .map(|&id| &self.entries[id as usize])
            .collect();
        let place = |entry: &Entry| &self.filesystems[entry.filesystem];
        let path = |entry: &&Entry| {
            entry.path.clone().unwrap_or_else(|| {
                let point = place(entry).mounted.point.to_string_lossy().into_owned();
                format!("{}/[inode {}]", point.trim_end_matches('/'), entry.inode)
            })
        };
        let size = |entry: &&Entry| {
            let path = entry.path.as_ref().filter(|_| entry.inode != 0)?;
            let now = std::fs::symlink_metadata(path).ok();
            now.map(|now| now.len()).or(entry.size_bytes)
        };
        let device = |entry: &&Entry| place(entry).mounted.device_id;
        let ids = self.first_file_id..self.first_file_id + entries.len() as i32;
        let columns: [(&str, ArrayRef); 4] = [
            ("file_id", Arc::new(Int32Array::from_iter_values(ids))),
            (
                "path",
                Arc::new(entries.iter().map(path).map(Some).collect::<StringArray>()),
            ),
            (
                "device_id",
                Arc::new(Int32Array::from_iter_values(entries.iter().map(device))),
            ),
            (
                "size_bytes",
                Arc::new(entries.iter().map(size).collect::<UInt64Array>()),
            ),
        ];
        RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true)))
    }

    fn add(&mut self, filesystem: usize, inode: u64, path: Option<String>) -> u32 {
        self.entries.push(Entry {
            filesystem,
            inode,
            path,
            size_bytes: None,
            file_id: None,
        });
        self.entries.len() as u32 - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of the file system that the tests run on, whichever it is.
    fn catalogue() -> Catalogue {
        let point = std::env::temp_dir();
        let number = kernel_number(std::fs::metadata(&point).unwrap().dev());
        let mounted = Mounted {
            point,
            number,
            is_xfs: false,
            device_id: 3,
            start_bytes: 1000,
            end_bytes: 9000,
        };
        Catalogue::open(vec![mounted], 5).unwrap()
    }

    #[test]
    fn ranges_lie_where_their_file_system_begins() {
        let mut catalogue = catalogue();
        let entry = catalogue.on_found(0, 77, "/a".into(), 10);
        catalogue.give(0, 100, 200, entry);
        let owner = |device, offset| catalogue.at(device, offset).map(|(_, owner)| owner);
        assert_eq!(owner(3, 1099), Some(None));
        assert_eq!(owner(3, 1100), Some(Some(entry)));
        assert_eq!(owner(3, 999), None);
        assert_eq!(owner(4, 1100), None);
    }

    #[test]
    fn only_files_with_io_are_numbered_and_too_many_share_a_name() {
        let mut catalogue = catalogue();
        catalogue.files_max = 2;
        let entries: Vec<u32> = (0..4)
            .map(|inode| catalogue.on_found(0, 77 + inode, format!("/{inode}"), 10))
            .collect();
        let ids: Vec<i32> = [1, 3, 0, 2, 1]
            .map(|at| catalogue.file_id(entries[at]))
            .into();
        assert_eq!(ids, [5, 6, 7, 7, 5]);
        catalogue.entries_max = 0;
        let beyond = catalogue.on_found(0, 99, "/more".into(), 10);
        assert_eq!(catalogue.file_id(beyond), 7);
        assert_eq!(catalogue.files_used(), 3);
    }
}
