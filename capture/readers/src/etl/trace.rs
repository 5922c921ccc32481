//! A read log with its names resolved: the tables of a recording, I/O of all layers in order of completion.

use std::collections::{BTreeMap, HashMap};

use super::decode::is_known;
use super::facts::{
    Counts, Disk, DiskIo, Event, Facts, FileName, Mapping, Op, Opened, Origin, Partition, Thread,
    What,
};
use super::flags::{disk_flags, file_flags};
use super::header::LogHeader;
use super::letters::Votes;
use super::operations::{Finished, Operations};
use super::pairing::Pairer;
use super::paths::{is_metadata, user_path};
use super::processes::Processes;
use super::read::Log;
use super::requests::{Began, Length, Requests, Service};
use super::sequence::{Hole, holes};
use super::stream::Stream;
use super::timeline::Timeline;
use crate::error::Unreadable;

/// Disks without a description are taken to have the sectors nearly all have.
const SECTOR_BYTES: u32 = 512;
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

/// See the module.
pub struct Trace {
    pub header: LogHeader,
    pub counts: Counts,
    pub pairer: Pairer,
    pub operations: Operations,
    pub requests: Requests,
    pub truncated: bool,
    pub holes: Vec<Hole>,
    pub group_masks: [u32; 8],
    /// Raw timestamps of the first and last event outside the first buffer.
    pub span: Option<(i64, i64)>,
    /// Where disk I/O and file operations are taken from.
    pub disk_origin: Origin,
    pub file_origin: Origin,
    /// Rows left out: their time cannot be expressed.
    pub unplaceable: u64,
    /// Requests whose duration cannot be.
    pub durations_dropped: u64,
    /// Rows handed out of each layer, `sql` first.
    pub rows: [u64; 4],
    /// Nanoseconds of the latest completion handed out so far.
    pub last_completed_ns: Option<i64>,
    pub files: Vec<FileRow>,
    pub processes: Processes,
    pub mappings: Vec<Mapping>,
    /// How many of the mappings are not the log's own but inferred.
    pub inferred_letters: usize,
    stream: Stream,
    finished: bool,
    ready: Vec<IoRow>,
    settled: Vec<DiskIo>,
    ended: Vec<Finished>,
    served: Vec<Service>,
    disks: Vec<(u32, Option<Disk>)>,
    partitions: Vec<Partition>,
    names: Timeline,
    paths: Vec<String>,
    /// File row of each of `paths` that an I/O asked for.
    path_files: Vec<Option<u32>>,
    files_by_path: HashMap<String, u32>,
    /// What open files were opened as: positions in `openings`.
    objects: Timeline,
    /// Path number and options.
    openings: Vec<(u32, u32)>,
    threads: Timeline,
}

impl Trace {
    /// Resolve a log. No I/O is converted yet.
    pub fn new(log: Log) -> Self {
        let Log {
            header,
            mut facts,
            truncated,
            file,
            threads,
        } = log;
        let stream = Stream::new(file, header.clone(), threads, &mut facts);
        let Facts {
            names,
            opened,
            threads,
            processes,
            mut disks,
            mut partitions,
            mut mappings,
            sequences,
            extents,
            disk_numbers: mut numbers,
            counts,
            group_masks,
            span,
            ..
        } = facts;

        let mut paths = Paths::default();
        let names = name_timeline(names, &mut paths);
        let (objects, openings) = object_timeline(opened, &mut paths);
        let paths = paths.into_list();
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
        mappings.sort_by_key(|mapping| mapping.order);
        let classic = |count: u64| {
            if count > 0 {
                Origin::Classic
            } else {
                Origin::Manifest
            }
        };
        let disk_origin = classic(counts.reads + counts.writes + counts.flushes);
        let file_origin = classic(counts.operations);
        let has_ends = match file_origin {
            Origin::Classic => counts.operation_ends,
            Origin::Manifest => counts.manifest_operation_ends,
        } > 0;
        let has_disk_io = disk_origin == Origin::Classic
            || counts.manifest_reads + counts.manifest_writes + counts.manifest_flushes > 0;

        let mut trace = Self {
            holes: holes(sequences, header.is_circular()),
            path_files: vec![None; paths.len()],
            pairer: Pairer::new(header.clock, counts.inits > 0),
            operations: Operations::new(has_ends),
            requests: Requests::new(&counts, has_disk_io),
            counts,
            group_masks,
            span,
            disk_origin,
            file_origin,
            disks: numbers
                .into_iter()
                .map(|number| (number, described.remove(&number)))
                .collect(),
            partitions: partitions.into_values().collect(),
            processes: Processes::from_events(processes),
            names,
            objects,
            openings,
            threads: thread_timeline(threads),
            header,
            truncated,
            unplaceable: 0,
            durations_dropped: 0,
            rows: [0; 4],
            last_completed_ns: None,
            files: Vec::new(),
            mappings,
            paths,
            files_by_path: HashMap::new(),
            inferred_letters: 0,
            stream,
            finished: false,
            ready: Vec::new(),
            settled: Vec::new(),
            ended: Vec::new(),
            served: Vec::new(),
        };
        if trace.mappings.is_empty() && !trace.partitions.is_empty() {
            let mut votes = Votes::default();
            for (key, extent) in extents {
                for path in trace.names.ever(key) {
                    for offset in [extent.first, extent.last] {
                        let partition = trace.partition_at(extent.disk, offset);
                        let path = &trace.paths[path as usize];
                        votes.add(path, partition.filter(|_| !extent.mixed));
                    }
                }
            }
            trace.infer_letters(votes);
        }
        trace
    }

    /// Map drive letters from where the I/O fell, for a log that maps none itself.
    fn infer_letters(&mut self, votes: Votes) {
        let letters: Vec<&str> = self
            .partitions
            .iter()
            .map(|part| part.letter.as_str())
            .collect();
        let mappings = votes.mappings(&letters);
        self.inferred_letters = mappings.len();
        self.mappings = mappings;
    }

    /// Completed I/O of the kind that is used: reads, writes, flushes.
    pub fn disk_io(&self) -> [u64; 3] {
        let counts = &self.counts;
        match self.disk_origin {
            Origin::Classic => [counts.reads, counts.writes, counts.flushes],
            Origin::Manifest => [
                counts.manifest_reads,
                counts.manifest_writes,
                counts.manifest_flushes,
            ],
        }
    }

    /// The next at most `rows` rows of I/O, in order of completion; none after the last. `files` and `processes` grow with
    /// what they name.
    pub fn next_rows(&mut self, rows: usize) -> Result<Vec<IoRow>, Unreadable> {
        while self.ready.len() < rows && !self.finished {
            if let Some(event) = self.stream.next()? {
                self.take(event);
            } else {
                self.finished = true;
                self.pairer.finish(&mut self.settled);
                self.operations.finish(&mut self.ended);
                self.write_out();
                self.requests.finish(&mut self.served);
            }
            self.write_out();
        }
        let more = self.ready.split_off(rows.min(self.ready.len()));
        let rows = std::mem::replace(&mut self.ready, more);
        for row in &rows {
            self.last_completed_ns = self
                .last_completed_ns
                .max(row.completed_ns.or(Some(row.issued_ns)));
            self.rows[row.layer as usize] += 1;
        }
        Ok(rows)
    }

    fn take(&mut self, event: Event) {
        self.pairer.advance(event.ticks(), &mut self.settled);
        match event.what {
            What::Disk(io) if io.origin == self.disk_origin => {
                self.pairer.complete(io, &mut self.settled);
            }
            What::Init(init) => self.pairer.begin(init),
            What::Operation(operation) if operation.origin == self.file_origin => {
                self.operations.begin(operation, &mut self.ended);
            }
            What::OperationEnd(end) if end.origin == self.file_origin => {
                self.operations.end(end, &mut self.ended);
            }
            What::Request(request) => self.requests.take(request, &mut self.served),
            _ => (),
        }
    }

    /// Turn what waits for nothing more into rows.
    fn write_out(&mut self) {
        let mut settled = std::mem::take(&mut self.settled);
        for io in settled.drain(..) {
            let row = self.block_row(&io);
            self.push(row);
            for service in self.requests.of(&io) {
                let row = self.device_row(&service, Some((&io, row)));
                self.push(row);
            }
        }
        self.settled = settled;
        let mut ended = std::mem::take(&mut self.ended);
        for finished in ended.drain(..) {
            let row = self.filesystem_row(&finished);
            self.push(row);
        }
        self.ended = ended;
        let mut served = std::mem::take(&mut self.served);
        for service in served.drain(..) {
            let row = self.device_row(&service, None);
            self.push(row);
        }
        self.served = served;
    }

    fn push(&mut self, row: Option<IoRow>) {
        self.unplaceable += u64::from(row.is_none());
        self.ready.extend(row);
    }

    fn block_row(&mut self, io: &DiskIo) -> Option<IoRow> {
        let clock = self.header.clock;
        let completed_ns = clock.ns(io.completed)?;
        let issued_ns = completed_ns.checked_sub(clock.response_ns(io.response)?)?;
        let issued_ticks = io.completed.saturating_sub(clock.response_raw(io.response));
        let disk = self.disk_row(io.disk);
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
            flags: disk_flags(io, self.sector_bytes(disk), self.is_metadata(file)),
            error: 0,
        })
    }

    fn filesystem_row(&mut self, finished: &Finished) -> Option<IoRow> {
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
    fn device_row(
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
        let disk = io_row
            .and_then(|row| row.device)
            .or_else(|| service.address.and_then(|address| self.disk_at(address)));
        let block_bytes = disk.map_or(SECTOR_BYTES, |disk| self.sector_bytes(disk as usize));
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
        is_known(thread)
            .then(|| self.threads.at(u64::from(thread), ticks))
            .flatten()
            .or(otherwise.filter(|number| is_known(*number)))
            .map(|number| self.processes.at(number, ticks).cast_signed())
    }

    fn file_of_disk_io(&mut self, io: &DiskIo) -> Option<u32> {
        if io.op == Op::Flush {
            return None;
        }
        let path = self.names.at(io.key, io.completed)?;
        Some(self.file(path, Some(io)))
    }

    /// Row of the file with this path; `io` is what first went to it on a disk.
    fn file(&mut self, path_number: u32, io: Option<&DiskIo>) -> u32 {
        let path_number = path_number as usize;
        if let Some(file) = self.path_files[path_number] {
            return file;
        }
        let path = user_path(&self.paths[path_number], &self.mappings);
        let file = if let Some(file) = self.files_by_path.get(&path) {
            *file
        } else {
            let file = self.files.len() as u32;
            let partition = match io {
                Some(io) => u64::try_from(io.offset)
                    .ok()
                    .and_then(|offset| self.partition_at(io.disk, offset)),
                None => self.partition_called(&path),
            };
            let device = partition
                .map(|index| self.disks.len() + index)
                .or(io.map(|io| self.disk_row(io.disk)));
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

    fn disk_row(&self, number: u32) -> usize {
        self.disks.partition_point(|(known, _)| *known < number)
    }

    /// Row of the one disk with this SCSI address.
    fn disk_at(&self, address: [u8; 4]) -> Option<i32> {
        let mut rows = (0..).zip(&self.disks).filter(|(_, (_, disk))| {
            disk.as_ref()
                .is_some_and(|disk| disk.address == address.map(u32::from))
        });
        match (rows.next(), rows.next()) {
            (Some((row, _)), None) => Some(row),
            _ => None,
        }
    }

    fn sector_bytes(&self, row: usize) -> u32 {
        let described = self.disks.get(row).and_then(|(_, disk)| disk.as_ref());
        described
            .map(|disk| disk.sector_bytes)
            .filter(|bytes| *bytes > 0)
            .unwrap_or(SECTOR_BYTES)
    }

    /// Position of the partition that holds this byte of a disk.
    fn partition_at(&self, disk: u32, offset: u64) -> Option<usize> {
        let next = self
            .partitions
            .partition_point(|part| (part.disk, part.start_bytes) <= (disk, offset));
        let index = next.checked_sub(1)?;
        let part = &self.partitions[index];
        (part.disk == disk && offset - part.start_bytes < part.size_bytes).then_some(index)
    }

    /// Position of the one partition whose drive letter begins a path.
    fn partition_called(&self, path: &str) -> Option<usize> {
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
    pub fn devices(&self) -> Vec<DeviceRow> {
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

/// Paths by number, each once.
#[derive(Default)]
struct Paths(HashMap<String, u32>);

impl Paths {
    fn number(&mut self, path: String) -> u32 {
        let next = self.0.len() as u32;
        *self.0.entry(path).or_insert(next)
    }

    fn into_list(self) -> Vec<String> {
        let mut list = vec![String::new(); self.0.len()];
        for (path, number) in self.0 {
            list[number as usize] = path;
        }
        list
    }
}

/// What each file key was called when, as numbers of paths.
fn name_timeline(mut names: Vec<FileName>, paths: &mut Paths) -> Timeline {
    names.sort_by_key(|name| name.ticks);
    let mut timeline = Timeline::default();
    for name in names {
        timeline.insert(name.key, name.ticks, name.valid, paths.number(name.path));
    }
    timeline.sort();
    timeline
}

/// What each open file was opened as when, as positions in a list of path numbers and options.
fn object_timeline(mut opened: Vec<Opened>, paths: &mut Paths) -> (Timeline, Vec<(u32, u32)>) {
    opened.sort_by_key(|opened| opened.ticks);
    let mut timeline = Timeline::default();
    let mut numbers: HashMap<(u32, u32), u32> = HashMap::new();
    let mut openings = Vec::new();
    for Opened {
        ticks,
        object,
        path,
        options,
    } in opened
    {
        let opening = (paths.number(path), options);
        let number = *numbers.entry(opening).or_insert_with(|| {
            openings.push(opening);
            openings.len() as u32 - 1
        });
        timeline.insert(object, ticks, super::facts::Valid::From, number);
    }
    timeline.sort();
    (timeline, openings)
}

/// Which process each thread belonged to when.
fn thread_timeline(mut threads: Vec<Thread>) -> Timeline {
    threads.sort_by_key(|thread| thread.ticks);
    let mut timeline = Timeline::default();
    for thread in threads {
        timeline.insert(
            u64::from(thread.number),
            thread.ticks,
            thread.valid,
            thread.process,
        );
    }
    timeline.sort();
    timeline
}
