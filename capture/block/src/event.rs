//! What every source of block-layer events is brought to, and what becomes of it.

/// Position in the recording's word list `layer`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(i8)]
pub enum Layer {
    /// A call on a file enters … returns.
    Filesystem = 1,
    /// Bio queued … done.
    Block = 2,
    /// Request issued … done.
    Device = 3,
}

/// Position in the recording's word list `op`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(i8)]
pub enum Op {
    /// Read.
    Read = 0,
    /// Write.
    Write = 1,
    /// Cache flush.
    Flush = 2,
    /// Discard, secure erase and write-zeroes: no data is transferred.
    Discard = 3,
}

/// Bits of `io.flags`, as in `schemas/recording.json`.
pub mod flags {
    /// Somebody waits for it.
    pub const SYNCHRONOUS: u32 = 0x4;
    /// Forced unit access.
    pub const WRITE_THROUGH: u32 = 0x8;
    /// Speculative.
    pub const READAHEAD: u32 = 0x10;
    /// File system metadata.
    pub const METADATA: u32 = 0x20;
    /// The cache is flushed first.
    pub const PREFLUSH: u32 = 0x40;
    /// Of a request: a part of a larger bio.
    pub const SPLIT: u32 = 0x100;
    /// Of a bio: travelled inside a larger request.
    pub const MERGED: u32 = 0x200;
}

/// What happened, with the letter of blktrace(8) and the name of the kernel's tracepoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Q, `block_bio_queue`: a bio reached the block layer.
    BioQueue,
    /// `block_bio_complete`: a bio that no request carried is done.
    BioComplete,
    /// X, `block_split`: a bio was cut in two.
    Split,
    /// D, `block_rq_issue`: a request was handed to the driver.
    RequestIssue,
    /// R, `block_rq_requeue`: the driver could not take it yet.
    RequestRequeue,
    /// `block_rq_complete`: bytes of a request are done.
    RequestComplete,
    /// C: one of the two completions; blktrace does not tell which.
    Complete,
}

/// One event. A sector is 512 bytes.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    /// On the trace clock.
    pub time_ns: u64,
    /// What happened.
    pub kind: Kind,
    /// Kernel device number, major << 20 | minor.
    pub device: u32,
    /// Operation.
    pub op: Op,
    /// Bits of `io.flags`.
    pub flags: u32,
    /// First sector.
    pub sector: u64,
    /// Sectors; of a split those of the first part. `sector + sectors` is at most [`Event::SECTORS_MAX`] twice.
    pub sectors: u64,
    /// Positive error number.
    pub error: i32,
    /// Thread in whose context it happened.
    pub thread: i32,
}

impl Event {
    /// Half of what 64 bits of bytes can address: where there are sectors, neither their first nor their number is larger.
    pub const SECTORS_MAX: u64 = u64::MAX >> 10;
}

/// One I/O on one layer: a row of `io`. Times are on the trace clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Whose clock it shows.
    pub layer: Layer,
    /// What was asked.
    pub op: Op,
    /// Its start.
    pub issued_ns: u64,
    /// Its end, if it was seen to end, and not before it began.
    pub completed_ns: Option<u64>,
    /// Where on the device or in the file; a flush has no place.
    pub offset_bytes: Option<u64>,
    /// How much.
    pub size_bytes: u32,
    /// Who asked, if it is known.
    pub process: Option<i32>,
    /// The thread that asked, if it is known.
    pub thread: Option<i32>,
    /// Bits of `io.flags`.
    pub flags: u32,
    /// Positive error number, 0 for none.
    pub error: i32,
}
