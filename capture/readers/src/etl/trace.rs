//! A read log with its names resolved: the tables of a recording, I/O of all layers in order of completion.

use std::collections::{HashMap, VecDeque};

use arrow_array::RecordBatch;

use super::columns::IoColumns;
use super::counts::Counts;
use super::devices::Devices;
use super::extents::Extent;
use super::facts::{DiskIo, Event, Facts, Origin};
use super::header::LogHeader;
use super::letters::Votes;
use super::names::{name_timeline, object_timeline, thread_timeline};
use super::operations::{Finished, Operations};
use super::pairing::Pairer;
use super::paths::Mappings;
use super::processes::Processes;
use super::read::Log;
use super::requests::{Requests, Service};
use super::rows::{FileRow, IoRow};
use super::sequence::{Hole, holes};
use super::stream::Stream;
use super::timeline::{Recent, Timeline};
use crate::error::Unreadable;
use crate::hashing::NumberMap;

/// A batch that is asked to be larger than this grows as it fills.
const CAPACITY_ROWS_MAX: usize = 1 << 19;

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
    pub mappings: Mappings,
    /// How many mappings the log itself has.
    pub told_mappings: usize,
    /// How many were inferred, where it has none.
    pub inferred_letters: usize,
    stream: Stream,
    finished: bool,
    /// Rows of the batch being made, and those of the next that one event brought with them.
    columns: IoColumns,
    batch_rows: usize,
    overflow: VecDeque<IoRow>,
    settled: Vec<DiskIo>,
    ended: Vec<Finished>,
    served: Vec<Service>,
    pub devices: Devices,
    pub names: Timeline,
    pub paths: Vec<String>,
    /// File row of each of `paths` that an I/O asked for.
    pub path_files: Vec<Option<u32>>,
    pub files_by_path: HashMap<String, u32>,
    /// What open files were opened as: positions in `openings`.
    pub objects: Timeline,
    /// Path number and options.
    pub openings: Vec<(u32, u32)>,
    pub threads: Timeline,
    /// File rows by key and process rows by thread, as disk I/O found them.
    pub recent_files: Recent<Option<u32>>,
    pub recent_processes: Recent<Option<i32>>,
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
            paths,
            names,
            opened,
            threads,
            processes,
            disks,
            partitions,
            mut mappings,
            sequences,
            extents,
            disk_numbers,
            counts,
            group_masks,
            span,
            ..
        } = facts;

        let names = name_timeline(names);
        let (objects, openings) = object_timeline(opened);
        let paths = paths.into_list();
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
            devices: Devices::from_events(disks, partitions, disk_numbers),
            processes: Processes::from_events(processes),
            names,
            objects,
            openings,
            threads: thread_timeline(threads),
            recent_files: Recent::default(),
            recent_processes: Recent::default(),
            header,
            truncated,
            unplaceable: 0,
            durations_dropped: 0,
            rows: [0; 4],
            last_completed_ns: None,
            files: Vec::new(),
            told_mappings: mappings.len(),
            mappings: Mappings::new(&mappings),
            paths,
            files_by_path: HashMap::new(),
            inferred_letters: 0,
            stream,
            finished: false,
            columns: IoColumns::with_capacity(0),
            batch_rows: 0,
            overflow: VecDeque::new(),
            settled: Vec::new(),
            ended: Vec::new(),
            served: Vec::new(),
        };
        if mappings.is_empty() && !trace.devices.partitions.is_empty() {
            trace.infer_letters(&extents.by_key());
        }
        trace
    }

    /// Map drive letters from where the I/O fell, for a log that maps none itself.
    fn infer_letters(&mut self, extents: &NumberMap<u64, Extent>) {
        let mut votes = Votes::default();
        for (key, extent) in extents {
            for path in self.names.ever(*key) {
                for offset in [extent.first, extent.last] {
                    let partition = self.devices.partition_at(extent.disk, offset);
                    let path = &self.paths[path as usize];
                    votes.add(path, partition.filter(|_| !extent.mixed));
                }
            }
        }
        let partitions = &self.devices.partitions;
        let letters: Vec<&str> = partitions.iter().map(|part| part.letter.as_str()).collect();
        let mappings = votes.mappings(&letters);
        self.inferred_letters = mappings.len();
        self.mappings = Mappings::new(&mappings);
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

    /// The next at most `rows` rows of `io`, in order of completion; none after the last. `files` and `processes` grow
    /// with what they name.
    pub fn next_io(&mut self, rows: usize) -> Result<Option<RecordBatch>, Unreadable> {
        self.batch_rows = rows;
        self.columns = IoColumns::with_capacity(rows.min(CAPACITY_ROWS_MAX));
        while self.columns.len() < rows
            && let Some(row) = self.overflow.pop_front()
        {
            self.columns.push(row);
        }
        while self.columns.len() < rows && !self.finished {
            if !self.take_next()? {
                self.finished = true;
                self.pairer.finish(&mut self.settled);
                self.operations.finish(&mut self.ended);
                self.write_out();
                self.requests.finish(&mut self.served);
            }
            self.write_out();
        }
        let columns = std::mem::replace(&mut self.columns, IoColumns::with_capacity(0));
        if columns.len() == 0 {
            return Ok(None);
        }
        columns
            .finish()
            .map(Some)
            .map_err(|problem| Unreadable::tables(&problem))
    }

    /// Hand the next event to whom it concerns; `false` after the last.
    #[inline]
    fn take_next(&mut self) -> Result<bool, Unreadable> {
        let Some(event) = self.stream.next()? else {
            return Ok(false);
        };
        self.pairer.advance(event.ticks(), &mut self.settled);
        match event {
            Event::Disk(io) if io.origin == self.disk_origin => {
                let mut io = *io;
                let is_settled = self.pairer.complete(&mut io);
                if !self.settled.is_empty() {
                    self.write_out();
                }
                if is_settled {
                    self.write_disk_io(&io);
                }
            }
            Event::Init(init) => self.pairer.begin(*init),
            Event::Operation(operation) if operation.origin == self.file_origin => {
                self.operations.begin(*operation, &mut self.ended);
            }
            Event::OperationEnd(end) if end.origin == self.file_origin => {
                self.operations.end(*end, &mut self.ended);
            }
            Event::Request(request) => self.requests.take(*request, &mut self.served),
            _ => (),
        }
        Ok(true)
    }

    #[inline]
    fn write_disk_io(&mut self, io: &DiskIo) {
        let row = self.block_row(io);
        self.push(row);
        for service in self.requests.of(io) {
            let row = self.device_row(&service, Some((io, row)));
            self.push(row);
        }
    }

    /// Turn what waits for nothing more into rows.
    fn write_out(&mut self) {
        if !self.settled.is_empty() {
            let mut settled = std::mem::take(&mut self.settled);
            for io in settled.drain(..) {
                self.write_disk_io(&io);
            }
            self.settled = settled;
        }
        if !self.ended.is_empty() {
            let mut ended = std::mem::take(&mut self.ended);
            for finished in ended.drain(..) {
                let row = self.filesystem_row(&finished);
                self.push(row);
            }
            self.ended = ended;
        }
        if !self.served.is_empty() {
            let mut served = std::mem::take(&mut self.served);
            for service in served.drain(..) {
                let row = self.device_row(&service, None);
                self.push(row);
            }
            self.served = served;
        }
    }

    #[inline]
    fn push(&mut self, row: Option<IoRow>) {
        let Some(row) = row else {
            self.unplaceable += 1;
            return;
        };
        self.last_completed_ns = self
            .last_completed_ns
            .max(row.completed_ns.or(Some(row.issued_ns)));
        self.rows[row.layer as usize] += 1;
        if self.columns.len() < self.batch_rows {
            self.columns.push(row);
        } else {
            self.overflow.push_back(row);
        }
    }
}
