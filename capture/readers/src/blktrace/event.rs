//! What every source of block-layer events is brought to.

/// What happened to a bio or request, as blktrace(8) and blkparse(1) name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Q: a bio reached the block layer.
    Queue,
    /// M and F: a bio joined a request.
    Merge,
    /// R: a request went back to the queue.
    Requeue,
    /// D: a request was handed to the driver.
    Issue,
    /// C: done.
    Complete,
    /// X: a bio was cut up.
    Split,
    /// A: a bio was moved to another device.
    Remap,
    /// G, I, P, U and others, which change no clock.
    Other,
}

/// Position in the format's word list of operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(i8)]
pub enum Op {
    Read = 0,
    Write = 1,
    Flush = 2,
    Discard = 3,
}

/// Bits of `io.flags`.
pub mod flags {
    pub const SYNCHRONOUS: u32 = 0x4;
    pub const WRITE_THROUGH: u32 = 0x8;
    pub const READAHEAD: u32 = 0x10;
    pub const METADATA: u32 = 0x20;
    pub const PREFLUSH: u32 = 0x40;
    pub const SPLIT: u32 = 0x100;
    pub const MERGED: u32 = 0x200;
}

/// One event. A sector is 512 bytes.
#[derive(Clone, Debug)]
pub struct Event {
    pub time_ns: i64,
    pub device: u32,
    pub action: Action,
    pub op: Op,
    pub flags: u32,
    pub sector: u64,
    pub bytes: u64,
    /// Whether the direction is write: tells a flush that was asked for (FWS) from the request it becomes (FN, FF).
    pub writes: bool,
    pub thread: i32,
    pub error: i32,
    /// Where a remapped bio came from: device and sector.
    pub remapped_from: Option<(u32, u64)>,
}

/// What a source turns up beside events.
#[derive(Debug, Default)]
pub struct Facts {
    /// Wall clock less the trace's clock, if the trace tells.
    pub utc_offset_ns: Option<i64>,
    /// Thread number and name, the last name winning.
    pub names: std::collections::HashMap<i32, String>,
    /// Records or lines that made no sense.
    pub rejected: u64,
    /// Commands that are not reads or writes of sectors.
    pub passthrough: u64,
    /// Records missing by their sequence numbers.
    pub lost: u64,
    /// Whether the end is cut off.
    pub truncated: bool,
    /// Events of every kind.
    pub events: u64,
}

const NAMES_MAX: usize = 1 << 20;

impl Facts {
    pub fn name(&mut self, thread: i32, name: &str) {
        if name.is_empty()
            || name == "(null)"
            || (self.names.len() >= NAMES_MAX && !self.names.contains_key(&thread))
        {
            return;
        }
        if self.names.get(&thread).is_none_or(|known| known != name) {
            self.names.insert(thread, name.to_owned());
        }
    }
}

/// Reads events in the order they are stored.
pub trait Source: Send {
    /// The next event; None at the end.
    fn next(&mut self, facts: &mut Facts) -> std::io::Result<Option<Event>>;
    /// Called when the source is exhausted.
    fn finish(&mut self, facts: &mut Facts);
    /// Bytes read so far.
    fn position(&self) -> u64;
}

/// Flags and operation of the letters blkparse and the kernel's tracepoints print (`rwbs`); None if they are none.
pub fn letters(text: &[u8], bytes: u64) -> Option<(Op, u32)> {
    let mut op = None;
    let mut bits = 0;
    for (place, letter) in text.iter().enumerate() {
        match letter {
            b'R' => op = Some(Op::Read),
            b'W' => op = Some(Op::Write),
            b'D' | b'E' => op = Some(Op::Discard),
            // F before the direction asks for a flush first; after it, for forced unit access.
            b'F' if place == 0 || (place == 1 && text[0] == b'F' && op.is_none()) => {
                bits |= flags::PREFLUSH;
            }
            b'F' => bits |= flags::WRITE_THROUGH,
            b'S' => bits |= flags::SYNCHRONOUS,
            b'M' => bits |= flags::METADATA,
            b'A' => bits |= flags::READAHEAD,
            b'N' | b'B' | b'V' | b'H' | b'P' | b'I' | b'U' | b'T' => {}
            _ => return None,
        }
    }
    if bits & flags::PREFLUSH != 0 && bytes == 0 {
        return Some((Op::Flush, bits & !flags::PREFLUSH));
    }
    op.map(|op| (op, bits))
}
