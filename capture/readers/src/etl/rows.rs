//! From events of each layer to rows of the recording, with what they name.

use super::decode::is_known;
use super::devices::SECTOR_BYTES;
use super::facts::{DiskIo, Op};
use super::flags::{disk_flags, file_flags};
use super::operations::Finished;
use super::paths::is_metadata;
use super::requests::{Began, Length, Service};
use super::timeline::Meaning;
use super::trace::Trace;

/// 100 ns each: a request that takes longer than a day does not.
const IMPLAUSIBLE_DURATION: u64 = 86_400 * 10_000_000;

/// Positions in the word list of the recording's `layer`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i8)]
pub enum Layer {
    Filesystem = 1,
    Block = 2,
    Device = 3,
}

/// A file that was read or written.
#[derive(Debug, Clone)]
pub struct FileRow {
    pub path: String,
    /// Row of the devices: the partition its first I/O fell into or its drive letter names, or the disk.
    pub device: Option<i32>,
    metadata: bool,
}

/// A row of the recording's `io`.
#[derive(Debug, Clone, Copy)]
pub struct IoRow {
    pub layer: Layer,
    pub op: Op,
    pub issued_ns: i64,
    pub completed_ns: Option<i64>,
    pub offset_bytes: Option<u64>,
    pub size_bytes: u32,
    pub device: Option<i32>,
    pub file: Option<i32>,
    pub process: Option<i32>,
    pub thread: Option<i32>,
    pub flags: u32,
    pub error: i32,
}

impl Trace {
    /// `None` where a time cannot be expressed, as in the other layers.
    #[inline]
    pub fn block_row(&mut self, io: &DiskIo) -> Option<IoRow> {
        let clock = self.header.clock;
        let completed_ns = clock.ns(io.completed)?;
        let issued_ns = completed_ns.checked_sub(clock.response_ns(io.response)?)?;
        let issued_ticks = io.completed.saturating_sub(clock.response_raw(io.response));
        let disk = self.devices.disk_row(io.disk);
        let file = self.file_of_disk_io(io);
        let process = self.process(io.thread, issued_ticks, None);
        Some(IoRow {
            layer: Layer::Block,
            op: io.op,
            issued_ns,
            completed_ns: (!io.response_dropped).then_some(completed_ns),
            offset_bytes: if io.op == Op::Flush {
                None
            } else {
                u64::try_from(io.offset).ok()
            },
            size_bytes: io.size,
            device: Some(disk as i32),
            file: file.map(u32::cast_signed),
            process,
            thread: i32::try_from(io.thread).ok(),
            flags: disk_flags(io, self.devices.sector_bytes(disk), self.is_metadata(file)),
            error: 0,
        })
    }

    /// `None` where a time cannot be expressed.
    pub fn filesystem_row(&mut self, finished: &Finished) -> Option<IoRow> {
        let Finished { operation, end } = *finished;
        let clock = self.header.clock;
        let opening = self
            .objects
            .at(operation.object, operation.ticks)
            .map(|opening| self.openings[opening as usize]);
        let path = self
            .names
            .at(operation.key, operation.ticks)
            .or(opening.map(|(path, _)| path));
        let file = path.map(|path| self.file(path, None));
        let options = opening.map_or(0, |(_, options)| options);
        Some(IoRow {
            layer: Layer::Filesystem,
            op: operation.op?,
            issued_ns: clock.ns(operation.ticks)?,
            completed_ns: end.and_then(|end| clock.ns(end.ticks)),
            offset_bytes: if operation.op == Some(Op::Flush) {
                None
            } else {
                u64::try_from(operation.offset).ok()
            },
            size_bytes: operation.size,
            device: file.and_then(|file| self.files[file as usize].device),
            file: file.map(u32::cast_signed),
            process: self.process(operation.thread, operation.ticks, Some(operation.process)),
            thread: i32::try_from(operation.thread).ok(),
            flags: file_flags(operation.irp_flags, options, self.is_metadata(file)),
            error: end.map_or(0, |end| end.status.min(0)),
        })
    }

    /// `of`: the disk I/O the request was made for, and its row.
    pub fn device_row(
        &mut self,
        service: &Service,
        of: Option<(&DiskIo, Option<IoRow>)>,
    ) -> Option<IoRow> {
        let clock = self.header.clock;
        let completed_ns = clock.ns(service.completed)?;
        let issued_ns = match service.began {
            Began::At(ticks) => clock.ns(ticks),
            Began::Before(duration) if duration <= IMPLAUSIBLE_DURATION => {
                completed_ns.checked_sub(duration as i64 * 100)
            }
            Began::Before(_) => {
                self.durations_dropped += 1;
                None
            }
            Began::Unknown => None,
        };
        let (io, io_row) = of.unzip();
        let io_row = io_row.flatten();
        let disk = io_row.and_then(|row| row.device).or_else(|| {
            service
                .address
                .and_then(|address| self.devices.disk_at(address))
        });
        let block_bytes = disk.map_or(SECTOR_BYTES, |disk| {
            self.devices.sector_bytes(disk as usize)
        });
        let size_bytes = match service.length {
            Length::Bytes(bytes) => bytes,
            Length::Blocks(blocks) => blocks.saturating_mul(block_bytes),
        };
        // A request for all of a disk I/O lies where that does; one for a part of it lies nobody knows where.
        let same = io_row.filter(|row| row.op == service.op && row.size_bytes == size_bytes);
        Some(IoRow {
            layer: Layer::Device,
            op: service.op,
            issued_ns: issued_ns.unwrap_or(completed_ns),
            completed_ns: issued_ns.map(|_| completed_ns),
            offset_bytes: service
                .block
                .and_then(|block| block.checked_mul(u64::from(block_bytes)))
                .or(same.and_then(|row| row.offset_bytes)),
            size_bytes,
            device: disk,
            file: io_row.and_then(|row| row.file),
            process: io_row.and_then(|row| row.process),
            thread: io_row.and_then(|row| row.thread),
            flags: io.zip(io_row).map_or(0, |(_, row)| row.flags),
            error: service.error,
        })
    }

    fn is_metadata(&self, file: Option<u32>) -> bool {
        file.is_some_and(|file| self.files[file as usize].metadata)
    }

    /// Row of the process that had `thread` at `ticks`; else of process number `otherwise`, if that is known.
    fn process(&mut self, thread: u32, ticks: i64, otherwise: Option<u32>) -> Option<i32> {
        self.process_of_thread(thread, ticks).or_else(|| {
            let number = otherwise.filter(|number| is_known(*number))?;
            Some(self.processes.around(number, ticks).value.cast_signed())
        })
    }

    fn process_of_thread(&mut self, thread: u32, ticks: i64) -> Option<i32> {
        if !is_known(thread) {
            return None;
        }
        let key = u64::from(thread);
        if let Some(row) = self.recent_processes.get(key, ticks) {
            return row;
        }
        let owner = self.threads.around(key, ticks);
        let process = owner
            .value
            .map(|number| self.processes.around(number, ticks));
        let row = process.map(|process| process.value.cast_signed());
        let meaning = Meaning {
            value: row,
            from: owner
                .from
                .max(process.map_or(i64::MIN, |process| process.from)),
            until: owner
                .until
                .min(process.map_or(i64::MAX, |process| process.until)),
        };
        self.recent_processes.keep(key, meaning);
        row
    }

    fn file_of_disk_io(&mut self, io: &DiskIo) -> Option<u32> {
        if io.op == Op::Flush {
            return None;
        }
        if let Some(file) = self.recent_files.get(io.key, io.completed) {
            return file;
        }
        let Meaning { value, from, until } = self.names.around(io.key, io.completed);
        let file = value.map(|path| self.file(path, Some(io)));
        let meaning = Meaning {
            value: file,
            from,
            until,
        };
        self.recent_files.keep(io.key, meaning);
        file
    }

    /// Row of the file with this path; `io` is what first went to it on a disk.
    fn file(&mut self, path_number: u32, io: Option<&DiskIo>) -> u32 {
        let path_number = path_number as usize;
        if let Some(file) = self.path_files[path_number] {
            return file;
        }
        let path = self.mappings.user_path(&self.paths[path_number]);
        let file = if let Some(file) = self.files_by_path.get(&path) {
            *file
        } else {
            let file = self.files.len() as u32;
            let partition = match io {
                Some(io) => u64::try_from(io.offset)
                    .ok()
                    .and_then(|offset| self.devices.partition_at(io.disk, offset)),
                None => self.devices.partition_called(&path),
            };
            let device = partition
                .map(|index| self.devices.partition_row(index))
                .or(io.map(|io| self.devices.disk_row(io.disk)));
            self.files.push(FileRow {
                metadata: is_metadata(&path),
                device: device.map(|row| row as i32),
                path: path.clone(),
            });
            self.files_by_path.insert(path, file);
            file
        };
        self.path_files[path_number] = Some(file);
        file
    }
}
