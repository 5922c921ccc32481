//! A read log with its names resolved: the tables of a recording, disk I/O in order of issue.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::decode::is_known;
use super::facts::{Counts, Disk, DiskIo, Facts, FileName, Mapping, Op, Partition, Thread};
use super::flags::flags;
use super::header::LogHeader;
use super::letters::{IOS_PER_WORKER, Votes};
use super::pairing::{Pairing, earliest, pair};
use super::paths::{is_metadata, user_path};
use super::processes::Processes;
use super::read::Log;
use super::sequence::{Hole, holes};
use super::timeline::Timeline;

/// Disks without a description are taken to have the sectors nearly all have.
const SECTOR_BYTES: u32 = 512;

/// A file that was read or written.
#[derive(Debug, Clone)]
pub struct FileRow {
    pub path: String,
    /// Row of the devices: the partition its first I/O fell into, or the disk.
    pub device: i32,
    metadata: bool,
}

/// A row of the recording's `io`.
#[derive(Debug, Clone, Copy)]
pub struct IoRow {
    pub op: Op,
    pub issued_ns: i64,
    pub completed_ns: Option<i64>,
    pub offset_bytes: Option<u64>,
    pub size_bytes: u32,
    pub device: i32,
    pub file: Option<i32>,
    pub process: Option<i32>,
    pub thread: Option<i32>,
    pub flags: u32,
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
    pub pairing: Pairing,
    pub truncated: bool,
    pub holes: Vec<Hole>,
    pub group_masks: [u32; 8],
    /// Raw timestamps of the first and last event outside the first buffer.
    pub span: Option<(i64, i64)>,
    /// Disk I/O by op, before any is left out.
    pub ops: [u64; 3],
    /// Completions whose time cannot be expressed; left out.
    pub unplaceable: u64,
    /// Nanoseconds of the latest completion handed out so far.
    pub last_completed_ns: Option<i64>,
    pub files: Vec<FileRow>,
    pub processes: Processes,
    pub mappings: Vec<Mapping>,
    /// How many of the mappings are not the log's own but inferred.
    pub inferred_letters: usize,
    disks: Vec<(u32, Option<Disk>)>,
    partitions: Vec<Partition>,
    workers: Vec<Facts>,
    heads: Vec<usize>,
    names: Timeline,
    paths: Vec<String>,
    /// File row of each of `paths` that an I/O asked for.
    path_files: Vec<Option<u32>>,
    files_by_path: HashMap<String, u32>,
    threads: Timeline,
}

impl Trace {
    /// Resolve a log. Sorts its disk I/O; nothing is converted yet.
    pub fn new(log: Log) -> Self {
        let Log {
            header,
            facts: mut workers,
            truncated,
        } = log;
        let pairing = pair(&mut workers, &header.clock);
        let clock = header.clock;
        let issue = |io: &DiskIo| issue_order(io, &clock);
        let mut ops = [0; 3];
        let mut numbers = BTreeSet::new();
        for facts in &mut workers {
            facts.ios.sort_by_key(issue);
            let mut previous = None;
            for io in &facts.ios {
                ops[io.op as usize] += 1;
                if previous.replace(io.disk) != Some(io.disk) {
                    numbers.insert(io.disk);
                }
            }
        }
        let shared = workers.first_mut().map(std::mem::take).unwrap_or_default();
        let Facts {
            ios,
            names,
            threads,
            processes,
            mut disks,
            mut partitions,
            mut mappings,
            sequences,
            ..
        } = shared;
        if let Some(first) = workers.first_mut() {
            first.ios = ios;
        }

        let (names, paths) = name_timeline(names);
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

        let mut trace = Self {
            holes: holes(sequences, header.is_circular()),
            heads: vec![0; workers.len()],
            path_files: vec![None; paths.len()],
            counts: shared.counts,
            group_masks: shared.group_masks,
            span: shared.span,
            disks: numbers
                .into_iter()
                .map(|number| (number, described.remove(&number)))
                .collect(),
            partitions: partitions.into_values().collect(),
            processes: Processes::from_events(processes),
            names,
            threads: thread_timeline(threads),
            header,
            pairing,
            truncated,
            ops,
            unplaceable: 0,
            last_completed_ns: None,
            files: Vec::new(),
            mappings,
            workers,
            paths,
            files_by_path: HashMap::new(),
            inferred_letters: 0,
        };
        trace.infer_letters();
        trace
    }

    /// Map drive letters from where the I/O fell, if the log maps none itself.
    fn infer_letters(&mut self) {
        if !self.mappings.is_empty() || self.partitions.is_empty() {
            return;
        }
        let mut votes = Votes::default();
        for io in self
            .workers
            .iter()
            .flat_map(|facts| facts.ios.iter().take(IOS_PER_WORKER))
        {
            if let Some(path) = self.names.at(io.key, io.completed) {
                votes.add(&self.paths[path as usize], io, self.partition_of(io));
            }
        }
        let letters: Vec<&str> = self
            .partitions
            .iter()
            .map(|part| part.letter.as_str())
            .collect();
        let mappings = votes.mappings(&letters);
        self.inferred_letters = mappings.len();
        self.mappings = mappings;
    }

    /// The next I/O in order of issue. `files` and `processes` grow with what it names.
    pub fn next_io(&mut self) -> Option<IoRow> {
        let clock = self.header.clock;
        loop {
            let worker = match self.workers.len() {
                1 => 0,
                _ => earliest(&self.workers, &self.heads, |io| issue_order(io, &clock))?,
            };
            let io = *self.workers[worker].ios.get(self.heads[worker])?;
            self.heads[worker] += 1;
            if let Some(row) = self.row(io) {
                self.last_completed_ns = self
                    .last_completed_ns
                    .max(row.completed_ns.or(Some(row.issued_ns)));
                return Some(row);
            }
            self.unplaceable += 1;
        }
    }

    fn row(&mut self, io: DiskIo) -> Option<IoRow> {
        let clock = self.header.clock;
        let completed_ns = clock.ns(io.completed)?;
        let issued_ns = completed_ns.checked_sub(clock.response_ns(io.response)?)?;
        let issued_ticks = issued(&io, &clock);
        let disk = self.disk_row(io.disk);
        let file = self.file(&io);
        let process = is_known(io.thread)
            .then(|| self.threads.at(u64::from(io.thread), issued_ticks))
            .flatten()
            .map(|number| self.processes.at(number, issued_ticks).cast_signed());
        let metadata = file.is_some_and(|file| self.files[file as usize].metadata);
        Some(IoRow {
            op: io.op,
            issued_ns,
            completed_ns: (!io.response_dropped).then_some(completed_ns),
            offset_bytes: if io.op == Op::Flush {
                None
            } else {
                u64::try_from(io.offset).ok()
            },
            size_bytes: io.size,
            device: disk as i32,
            file: file.map(u32::cast_signed),
            process,
            thread: i32::try_from(io.thread).ok(),
            flags: flags(&io, self.sector_bytes(disk), metadata),
        })
    }

    fn file(&mut self, io: &DiskIo) -> Option<u32> {
        if io.op == Op::Flush {
            return None;
        }
        let path_number = self.names.at(io.key, io.completed)? as usize;
        if let Some(file) = self.path_files[path_number] {
            return Some(file);
        }
        let path = user_path(&self.paths[path_number], &self.mappings);
        let file = if let Some(file) = self.files_by_path.get(&path) {
            *file
        } else {
            let file = self.files.len() as u32;
            let device = self
                .partition_of(io)
                .map_or(self.disk_row(io.disk), |index| self.disks.len() + index)
                as i32;
            self.files.push(FileRow {
                metadata: is_metadata(&path),
                device,
                path: path.clone(),
            });
            self.files_by_path.insert(path, file);
            file
        };
        self.path_files[path_number] = Some(file);
        Some(file)
    }

    fn disk_row(&self, number: u32) -> usize {
        self.disks.partition_point(|(known, _)| *known < number)
    }

    fn sector_bytes(&self, row: usize) -> u32 {
        let described = self.disks.get(row).and_then(|(_, disk)| disk.as_ref());
        described
            .map(|disk| disk.sector_bytes)
            .filter(|bytes| *bytes > 0)
            .unwrap_or(SECTOR_BYTES)
    }

    /// Position of the partition an I/O fell into.
    fn partition_of(&self, io: &DiskIo) -> Option<usize> {
        let offset = u64::try_from(io.offset).ok()?;
        let next = self
            .partitions
            .partition_point(|part| (part.disk, part.start_bytes) <= (io.disk, offset));
        let index = next.checked_sub(1)?;
        let part = &self.partitions[index];
        (part.disk == io.disk && offset - part.start_bytes < part.size_bytes).then_some(index)
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

/// What each file key was called when, as numbers of the paths beside it.
fn name_timeline(mut names: Vec<FileName>) -> (Timeline, Vec<String>) {
    names.sort_by_key(|name| name.ticks);
    let mut timeline = Timeline::default();
    let mut numbers: HashMap<String, u32> = HashMap::new();
    for name in names {
        let next = numbers.len() as u32;
        let number = *numbers.entry(name.path).or_insert(next);
        timeline.insert(name.key, name.ticks, name.valid, number);
    }
    timeline.sort();
    let mut paths = vec![String::new(); numbers.len()];
    for (path, number) in numbers {
        paths[number as usize] = path;
    }
    (timeline, paths)
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

fn issued(io: &DiskIo, clock: &super::clock::Clock) -> i64 {
    io.completed.saturating_sub(clock.response_raw(io.response))
}

/// In order of issue; what follows only makes the order of equals the same in every run.
fn issue_order(io: &DiskIo, clock: &super::clock::Clock) -> (i64, i64, u32, i64, u64) {
    (issued(io, clock), io.completed, io.disk, io.offset, io.irp)
}
