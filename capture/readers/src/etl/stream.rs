//! Events of I/O in order of time, whatever the length of the log.
//!
//! Method: buffers are decoded (again) in the order of their earliest event, a few megabytes at a time, and an event is
//! handed out once no buffer yet to come begins before it. This needs no faith in the order of buffers in the file, which
//! means nothing in a circular log, and holds only the buffers that overlap in time. Of events at one moment, those of
//! one processor keep their order, and the lowest processor comes first.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::thread;

use super::container::BufferHeader;
use super::decode;
use super::facts::{Event, Facts, Indexed};
use super::header::LogHeader;
use super::read::{Payload, payload};
use crate::error::Unreadable;

/// Bytes of buffers, decompressed, that are decoded at a time.
const CHUNK_BYTES: usize = 8 << 20;

/// See the module.
pub struct Stream {
    file: File,
    header: LogHeader,
    threads: usize,
    /// Buffers to be decoded again, with their ranks, by their earliest event.
    left: Vec<(u32, Indexed)>,
    next_left: usize,
    /// What was kept of the first reading, and what is decoded now; each in order of time.
    kept: Queue,
    loaded: Queue,
    /// Buffers as they lie in the file, with their ranks: kept for their memory.
    raw: Vec<(u32, Vec<u8>)>,
}

/// Events that are consumed in order of time.
#[derive(Default)]
struct Queue {
    events: Vec<Event>,
    /// Time, rank of the buffer and position in `events`, sorted: moving these is cheaper than moving events.
    order: Vec<(i64, u32, u32)>,
    head: usize,
}

impl Queue {
    fn new(events: Vec<Event>) -> Self {
        let mut order: Vec<_> = (0..)
            .zip(&events)
            .map(|(position, event)| (event.ticks(), event.buffer, position))
            .collect();
        // Positions keep the order inside a buffer, whose events lie one after the other.
        order.sort_unstable();
        Self {
            events,
            order,
            head: 0,
        }
    }

    #[inline]
    fn first(&self) -> Option<(i64, u32)> {
        let (ticks, rank, _) = self.order.get(self.head)?;
        Some((*ticks, *rank))
    }

    #[inline]
    fn take(&mut self) -> Option<Event> {
        let (.., position) = *self.order.get(self.head)?;
        self.head += 1;
        Some(self.events[position as usize])
    }

    fn rest(&self) -> impl Iterator<Item = Event> {
        self.order[self.head..]
            .iter()
            .map(|(.., position)| self.events[*position as usize])
    }
}

impl Stream {
    /// All events that `facts` hold or index; takes both out of them.
    pub fn new(file: File, header: LogHeader, threads: usize, facts: &mut Facts) -> Self {
        let mut index = std::mem::take(&mut facts.index);
        index.sort_by_key(|entry| (entry.processor, entry.sequence, entry.number));
        let last_number = index.iter().map(|entry| entry.number).max();
        let mut ranks = vec![0_u32; last_number.map_or(0, |last| last as usize + 1)];
        for (rank, entry) in (0..).zip(&index) {
            ranks[entry.number as usize] = rank;
        }
        let mut kept = std::mem::take(&mut facts.events);
        for event in &mut kept {
            event.buffer = ranks[event.buffer as usize];
        }
        let mut left: Vec<_> = (0..).zip(index).filter(|(_, entry)| entry.left).collect();
        left.sort_by_key(|(rank, entry)| (entry.earliest, *rank));
        Self {
            file,
            header,
            threads: threads.max(1),
            left,
            next_left: 0,
            kept: Queue::new(kept),
            loaded: Queue::default(),
            raw: Vec::new(),
        }
    }

    /// The next event; `None` after the last.
    pub fn next(&mut self) -> Result<Option<Event>, Unreadable> {
        loop {
            let from_kept = match (self.kept.first(), self.loaded.first()) {
                (Some(kept), Some(loaded)) => kept < loaded,
                (kept, _) => kept.is_some(),
            };
            let queue = if from_kept {
                &mut self.kept
            } else {
                &mut self.loaded
            };
            let Some((rank, next)) = self.left.get(self.next_left) else {
                return Ok(queue.take());
            };
            let to_come = (next.earliest, *rank);
            if queue.first().is_some_and(|first| first < to_come) {
                return Ok(queue.take());
            }
            self.load()?;
        }
    }

    /// Decode the next few of the buffers left.
    fn load(&mut self) -> Result<(), Unreadable> {
        let session_bytes = (self.header.buffer_bytes as usize).max(1);
        let count = (CHUNK_BYTES / session_bytes).max(1);
        let end = (self.next_left + count).min(self.left.len());
        let chunk = &self.left[self.next_left..end];
        self.next_left = end;
        self.raw.resize_with(chunk.len(), Default::default);
        for ((rank, entry), (raw_rank, bytes)) in chunk.iter().zip(&mut self.raw) {
            *raw_rank = *rank;
            bytes.resize(entry.bytes as usize, 0);
            self.file.seek(SeekFrom::Start(entry.position))?;
            self.file.read_exact(bytes)?;
        }
        let raw = &self.raw;
        let header = &self.header;
        let share = raw.len().div_ceil(self.threads).max(1);
        let decoded = thread::scope(|scope| {
            let handles: Vec<_> = raw
                .chunks(share)
                .map(|share| scope.spawn(|| decode_all(share, header)))
                .collect();
            handles
                .into_iter()
                .map(|handle| handle.join().map_err(|_| Unreadable::defect()))
                .collect::<Result<Vec<_>, _>>()
        })?;
        // A buffer is decoded whole, so ranks keep apart what was there from what comes.
        let mut decoded = decoded.into_iter();
        let mut events = decoded.next().unwrap_or_default();
        events.extend(decoded.flatten().chain(self.loaded.rest()));
        self.loaded = Queue::new(events);
        Ok(())
    }
}

fn decode_all(buffers: &[(u32, Vec<u8>)], log: &LogHeader) -> Vec<Event> {
    let mut facts = Facts {
        events_only: true,
        ..Facts::default()
    };
    let mut scratch = Vec::new();
    for (rank, bytes) in buffers {
        let Some(header) = BufferHeader::parse(bytes) else {
            continue;
        };
        if let Payload::Whole(payload) | Payload::Clipped(payload) =
            payload(bytes, header, log, &mut scratch)
        {
            decode::buffer(payload, *rank, &mut facts);
        }
    }
    facts.events
}
