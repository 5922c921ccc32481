//! What is kept of a log while its buffers are decoded, in whatever order.

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
}

/// Positions in the word list of the recording's `op`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Op {
    Read = 0,
    Write = 1,
    Flush = 2,
}

/// The start of a disk I/O, where the trace was asked for them.
#[derive(Debug, Clone, Copy)]
pub struct DiskInit {
    pub ticks: i64,
    pub irp: u64,
    pub thread: u32,
    pub op: Op,
}

/// Whether a fact holds from its moment on, or until then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Valid {
    From,
    Until,
}

/// A file key had, or was given, a name.
#[derive(Debug)]
pub struct FileName {
    pub ticks: i64,
    pub key: u64,
    pub valid: Valid,
    pub path: String,
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
    pub command_line: String,
}

/// A physical disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disk {
    pub number: u32,
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
    pub order: (u64, usize),
    pub kernel: String,
    pub user: String,
}

/// Everything one worker took from its buffers.
#[derive(Debug, Default)]
pub struct Facts {
    pub ios: Vec<DiskIo>,
    pub inits: Vec<DiskInit>,
    pub names: Vec<FileName>,
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

/// Counts over all buffers.
#[derive(Debug, Default, Clone, Copy)]
pub struct Counts {
    pub buffers: u64,
    pub events: u64,
    pub damaged_buffers: u64,
    /// Buffers flagged with lost events or lost buffers.
    pub loss_flags: u64,
    /// Events that mark losses in real-time delivery.
    pub loss_events: u64,
    /// Kernel events shorter than their form, or of a form too old to be read.
    pub rejected_events: u64,
    /// Disk events without an Irp (Server 2003 form).
    pub old_disk_events: u64,
    /// Disk events of the manifest provider, which are not read.
    pub kernel_disk_events: u64,
    /// Disk events of optical drives, which are not read.
    pub optical_events: u64,
}

impl Facts {
    /// Widen `span` to hold `ticks`.
    pub fn cover(&mut self, ticks: i64) {
        self.span = Some(self.span.map_or((ticks, ticks), |(first, last)| {
            (first.min(ticks), last.max(ticks))
        }));
    }

    /// Take over the small tables of another worker; `ios` and `inits` stay apart, to be merged in order.
    pub fn absorb(&mut self, other: &mut Self) {
        self.names.append(&mut other.names);
        self.threads.append(&mut other.threads);
        self.processes.append(&mut other.processes);
        self.disks.append(&mut other.disks);
        self.partitions.append(&mut other.partitions);
        self.mappings.append(&mut other.mappings);
        self.sequences.append(&mut other.sequences);
        for (mask, more) in self.group_masks.iter_mut().zip(other.group_masks) {
            *mask |= more;
        }
        if let Some((first, last)) = other.span {
            self.cover(first);
            self.cover(last);
        }
        let (counts, more) = (&mut self.counts, other.counts);
        counts.buffers += more.buffers;
        counts.events += more.events;
        counts.damaged_buffers += more.damaged_buffers;
        counts.loss_flags += more.loss_flags;
        counts.loss_events += more.loss_events;
        counts.rejected_events += more.rejected_events;
        counts.old_disk_events += more.old_disk_events;
        counts.kernel_disk_events += more.kernel_disk_events;
        counts.optical_events += more.optical_events;
    }
}
