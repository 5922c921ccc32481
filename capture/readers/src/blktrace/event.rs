//! What every source of block-layer events hands out.

use iotrace_block::{Event, Kind};

use super::remaps::Remap;

/// Something that happened.
#[derive(Clone, Debug)]
pub struct Happening {
    pub time_ns: u64,
    pub what: What,
}

#[derive(Clone, Debug)]
pub enum What {
    Event(Event),
    Remap(Remap),
    /// What changes no clock (G, I, M, P, U and others) is no event, but has its time.
    Other,
}

/// What an action of blktrace(8) is, by its letter; None for those that change no clock.
///
/// Merges (M, F) are among these: which bios a request is made of, its sectors tell.
pub fn kind_of(letter: u8) -> Option<Kind> {
    Some(match letter {
        b'Q' => Kind::BioQueue,
        b'X' => Kind::Split,
        b'D' => Kind::RequestIssue,
        b'R' => Kind::RequestRequeue,
        b'C' => Kind::Complete,
        _ => return None,
    })
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
    /// Records that are there a second time.
    pub repeated: u64,
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

/// Reads what happened in the order they are stored.
pub trait Source: Send {
    /// The next; None at the end.
    fn next(&mut self, facts: &mut Facts) -> std::io::Result<Option<Happening>>;
    /// Called when the source is exhausted.
    fn finish(&mut self, facts: &mut Facts);
    /// Bytes read so far.
    fn position(&self) -> u64;
}
