//! What is kept of a log while its buffers are decoded, in whatever order.

use std::collections::BTreeSet;

use super::counts::Counts;
use super::extents::Extents;
use super::names::Paths;

/// A completed disk I/O.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskIo {
    /// Raw timestamp of the completion.
    pub completed: i64,
    /// Performance counter ticks from start to completion.
    pub response: i64,
    /// From the start of the disk; 0 for a flush.
    pub offset: i64,
    pub irp: u64,
    /// Names the file; 0 for a flush.
    pub key: u64,
    pub size: u32,
    /// As the system gives them.
    pub irp_flags: u32,
    pub thread: u32,
    pub disk: u32,
    pub op: Op,
    /// The response time made no sense and no start event told better.
    pub response_dropped: bool,
    pub origin: Origin,
}

/// Positions in the word list of the recording's `op`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Op {
    Read = 0,
    Write = 1,
    Flush = 2,
    Discard = 3,
}

/// Which of the system's two providers an event came from. They tell the same, so only one of them is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The kernel logger.
    Classic,
    /// Microsoft-Windows-Kernel-Disk or -File.
    Manifest,
}

/// The start of a disk I/O, where the trace was asked for them.
#[derive(Debug, Clone, Copy)]
pub struct DiskInit {
    pub ticks: i64,
    pub irp: u64,
    pub thread: u32,
    pub op: Op,
}

/// The start of an operation on a file.
#[derive(Debug, Clone, Copy)]
pub struct Operation {
    pub ticks: i64,
    pub irp: u64,
    /// The open file, which its Create named.
    pub object: u64,
    /// The file itself, as disk I/O and rundown name it.
    pub key: u64,
    /// In the file.
    pub offset: i64,
    pub size: u32,
    pub irp_flags: u32,
    pub thread: u32,
    /// Process of the event's header, for a thread nobody told of.
    pub process: u32,
    /// `None`: no transfer (create, close …), of interest only because its end is none of a transfer's.
    pub op: Option<Op>,
    pub origin: Origin,
}

/// The end of an operation on a file.
#[derive(Debug, Clone, Copy)]
pub struct OperationEnd {
    pub ticks: i64,
    pub irp: u64,
    /// Bytes really read or written.
    pub moved: u64,
    /// Negative: failed.
    pub status: i32,
    pub origin: Origin,
}

/// Something the port driver says of a request to a device.
#[derive(Debug, Clone, Copy)]
pub struct Request {
    pub ticks: i64,
    pub irp: u64,
    /// Of the request above the port driver; 0 where not told.
    pub original: u64,
    /// 100 ns each; of `Timed` only.
    pub duration: u64,
    /// Logical block; of `Dispatch` and `Detailed` only.
    pub block: u64,
    /// Bytes of `Timed`, else logical blocks.
    pub length: u32,
    /// NT status of `Done`.
    pub status: i32,
    /// SCSI port, path, target, unit.
    pub address: Option<[u8; 4]>,
    /// SCSI operation code.
    pub command: u8,
    pub srb_status: u8,
    pub scsi_status: u8,
    pub kind: RequestKind,
}

/// What a `Request` event marks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestKind {
    /// Handed to the driver below.
    Dispatch,
    /// Done, without a figure of how long it took.
    Done,
    /// Done, with the time in the target device (event 200).
    TimedInDevice,
    /// Done, with the time in the lower driver stack (event 201).
    TimedInStack,
    /// Done, with its whole command (events 222 and 223).
    Detailed,
}

/// One event of interest to I/O, in whatever layer.
#[derive(Debug, Clone, Copy)]
pub enum Event {
    Disk(DiskIo),
    Init(DiskInit),
    Operation(Operation),
    OperationEnd(OperationEnd),
    Request(Request),
}

impl Event {
    /// Raw timestamp.
    #[inline]
    pub fn ticks(&self) -> i64 {
        match self {
            Self::Disk(io) => io.completed,
            Self::Init(init) => init.ticks,
            Self::Operation(operation) => operation.ticks,
            Self::OperationEnd(end) => end.ticks,
            Self::Request(request) => request.ticks,
        }
    }
}

/// Whether a fact holds from its moment on, or until then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Valid {
    From,
    Until,
}

/// A file key had, or was given, a name.
#[derive(Debug, Clone, Copy)]
pub struct FileName {
    pub ticks: i64,
    pub key: u64,
    pub valid: Valid,
    /// Number in `Facts::paths`.
    pub path: u32,
}

/// A thread belonged to a process.
#[derive(Debug, Clone, Copy)]
pub struct Thread {
    pub ticks: i64,
    pub number: u32,
    pub process: u32,
    pub valid: Valid,
}

/// A process began, ended, or was there.
#[derive(Debug, Clone)]
pub struct Process {
    pub ticks: i64,
    /// Address of its kernel object: tells apart two that had the same number.
    pub key: u64,
    pub number: u32,
    pub parent: u32,
    pub valid: Valid,
    /// A real start or end, not a rundown.
    pub real: bool,
    pub name: String,
}

/// A physical disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disk {
    pub number: u32,
    /// SCSI port, path, target, unit.
    pub address: [u32; 4],
    pub sector_bytes: u32,
    /// Cylinders times tracks times sectors: up to one cylinder short.
    pub size_bytes: Option<u64>,
    pub model: String,
    pub write_cache: bool,
}

/// A partition of a physical disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partition {
    pub disk: u32,
    pub number: u32,
    pub start_bytes: u64,
    pub size_bytes: u64,
    pub letter: String,
    pub filesystem: String,
}

/// A kernel path prefix and what users call it; `order` is where it stood in the file.
#[derive(Debug, Clone)]
pub struct Mapping {
    pub order: (u32, usize),
    pub kernel: String,
    pub user: String,
}

/// An open file was given a path.
#[derive(Debug, Clone, Copy)]
pub struct Opened {
    pub ticks: i64,
    pub object: u64,
    /// Number in `Facts::paths`.
    pub path: u32,
    /// How it was opened.
    pub options: u32,
}

/// A buffer that holds events of interest to I/O.
#[derive(Debug, Clone, Copy)]
pub struct Indexed {
    /// Its number in the file.
    pub number: u32,
    /// Where in the file it begins, and how long it is there.
    pub position: u64,
    pub bytes: u32,
    pub processor: u16,
    pub sequence: i64,
    /// Raw timestamp of its earliest event of interest.
    pub earliest: i64,
    /// Where its events are in `Facts::events`; empty if they were not kept: then it is to be decoded again.
    pub kept: (usize, usize),
}

impl Indexed {
    /// Whether its events are in `Facts::events`.
    pub fn is_kept(&self) -> bool {
        self.kept.0 < self.kept.1
    }
}

/// What is to be taken from a buffer.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    #[default]
    Everything,
    /// All but the events of I/O themselves: there are too many to keep.
    AllButEvents,
    /// The rest is known.
    EventsOnly,
}

/// Everything one worker took from its buffers.
#[derive(Debug, Default)]
pub struct Facts {
    pub wanted: Wanted,
    pub events: Vec<Event>,
    /// Raw timestamp of the earliest event of I/O since this was last emptied, whether it is in `events` or not.
    pub earliest: Option<i64>,
    pub index: Vec<Indexed>,
    pub extents: Extents,
    pub disk_numbers: BTreeSet<u32>,
    /// The one inserted last: nearly always the next, too.
    pub latest_disk: Option<u32>,
    /// What `names` and `opened` name.
    pub paths: Paths,
    pub names: Vec<FileName>,
    pub opened: Vec<Opened>,
    pub threads: Vec<Thread>,
    pub processes: Vec<Process>,
    pub disks: Vec<(i64, Disk)>,
    pub partitions: Vec<(i64, Partition)>,
    pub mappings: Vec<Mapping>,
    /// OR of the group masks of all Extension events.
    pub group_masks: [u32; 8],
    pub counts: Counts,
    /// Sequence numbers of the data buffers.
    pub sequences: Vec<i64>,
    /// Raw timestamps of the earliest and the latest event outside the first buffer.
    pub span: Option<(i64, i64)>,
}

impl Facts {
    /// Take an event of I/O.
    #[expect(
        clippy::inline_always,
        reason = "an event that is handed on through memory is loaded wider than it was stored, and that stalls"
    )]
    #[inline(always)]
    pub fn add(&mut self, event: Event) {
        let ticks = event.ticks();
        self.earliest = Some(self.earliest.map_or(ticks, |earliest| earliest.min(ticks)));
        if self.wanted != Wanted::AllButEvents {
            self.events.push(event);
        }
    }

    /// Widen `span` to hold `ticks`.
    pub fn cover(&mut self, ticks: i64) {
        self.span = Some(self.span.map_or((ticks, ticks), |(first, last)| {
            (first.min(ticks), last.max(ticks))
        }));
    }

    /// Take over everything of another worker.
    pub fn absorb(&mut self, mut other: Self) {
        let before = self.events.len();
        if before == 0 {
            self.events = std::mem::take(&mut other.events);
        } else {
            self.events.append(&mut other.events);
        }
        for entry in &mut other.index {
            entry.kept.0 += before;
            entry.kept.1 += before;
        }
        self.index.append(&mut other.index);
        let numbers: Vec<u32> = other
            .paths
            .into_list()
            .into_iter()
            .map(|path| self.paths.number(path))
            .collect();
        self.names
            .extend(other.names.into_iter().map(|name| FileName {
                path: numbers[name.path as usize],
                ..name
            }));
        self.opened
            .extend(other.opened.into_iter().map(|opened| Opened {
                path: numbers[opened.path as usize],
                ..opened
            }));
        self.threads.append(&mut other.threads);
        self.processes.append(&mut other.processes);
        self.disks.append(&mut other.disks);
        self.partitions.append(&mut other.partitions);
        self.mappings.append(&mut other.mappings);
        self.sequences.append(&mut other.sequences);
        self.disk_numbers.append(&mut other.disk_numbers);
        self.extents.absorb(other.extents);
        for (mask, more) in self.group_masks.iter_mut().zip(other.group_masks) {
            *mask |= more;
        }
        if let Some((first, last)) = other.span {
            self.cover(first);
            self.cover(last);
        }
        self.counts.add(&other.counts);
    }
}
