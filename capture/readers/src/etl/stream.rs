//! Events of I/O in order of time, whatever the length of the log.
//!
//! Method: a buffer is a run of events in order of time. Runs are merged; one enters when the merge gets to its earliest
//! event. Runs that were not kept are decoded again then, a few at a time. This needs no faith in the order of buffers in
//! the file, which means nothing in a circular log, and holds only the buffers that overlap in time. Of events at one
//! moment, those of one processor keep their order, and the lowest processor comes first.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::thread;

use super::container::BufferHeader;
use super::decode;
use super::facts::{Event, Facts, Indexed};
use super::header::LogHeader;
use super::read::{Payload, payload};
use crate::error::Unreadable;

/// Bytes of buffers, decompressed, that each thread decodes at a time: their events are to stay in the processor's cache,
/// and to be worth starting a thread.
const CHUNK_BYTES: usize = 1 << 20;

/// A moment, and of the buffers with events then, the rank of one.
type Moment = (i64, u32);

const NEVER: Moment = (i64::MAX, u32::MAX);

/// See the module.
pub struct Stream {
    file: File,
    header: LogHeader,
    threads: usize,
    /// Events that were kept of the first reading.
    kept: Vec<Event>,
    /// Runs that have not entered, from `next_pending` on, with their ranks; by their earliest event.
    pending: Vec<(u32, Indexed)>,
    next_pending: usize,
    /// Runs that have entered. Those not in `free` are `current` or have an entry in `heads`.
    runs: Vec<Run>,
    free: Vec<usize>,
    /// The first event of each run but `current`.
    heads: BinaryHeap<Reverse<(Moment, usize)>>,
    /// The run whose events come next, up to `limit`.
    current: Option<usize>,
    limit: Moment,
    /// Buffers as they lie in the file: kept for their memory.
    raw: Vec<Vec<u8>>,
}

/// Events of one buffer, in order of time.
#[derive(Default)]
struct Run {
    rank: u32,
    events: Vec<Event>,
    next: usize,
}

impl Run {
    /// Have `put` give it other events.
    fn fill(&mut self, put: impl FnOnce(&mut Vec<Event>)) {
        self.events.clear();
        put(&mut self.events);
        // A damaged buffer may go back in time.
        if !self.events.is_sorted_by_key(Event::ticks) {
            self.events.sort_by_key(Event::ticks);
        }
    }

    /// When its next event is; `None` at its end.
    #[inline]
    fn moment(&self) -> Option<Moment> {
        Some((self.events.get(self.next)?.ticks(), self.rank))
    }
}

impl Stream {
    /// All events that `facts` hold or index; takes both out of them.
    pub fn new(file: File, header: LogHeader, threads: usize, facts: &mut Facts) -> Self {
        let kept = std::mem::take(&mut facts.events);
        let mut index = std::mem::take(&mut facts.index);
        index.sort_by_key(|entry| (entry.processor, entry.sequence, entry.number));
        let mut pending: Vec<_> = (0..).zip(index).collect();
        pending.sort_by_key(|(rank, entry)| (entry.earliest, *rank));
        Self {
            file,
            header,
            threads: threads.max(1),
            kept,
            pending,
            next_pending: 0,
            runs: Vec::new(),
            free: Vec::new(),
            heads: BinaryHeap::new(),
            current: None,
            limit: NEVER,
            raw: Vec::new(),
        }
    }

    /// The next event; `None` after the last.
    #[inline]
    pub fn next(&mut self) -> Result<Option<Event>, Unreadable> {
        loop {
            if let Some(current) = self.current {
                let run = &mut self.runs[current];
                if run.moment().is_some_and(|moment| moment < self.limit) {
                    run.next += 1;
                    return Ok(Some(run.events[run.next - 1]));
                }
            }
            if !self.switch()? {
                return Ok(None);
            }
        }
    }

    /// Go to the run whose event is next; `false` at the end.
    fn switch(&mut self) -> Result<bool, Unreadable> {
        if let Some(slot) = self.current.take() {
            let to_come = self.to_come();
            // With several processors at work this happens at every other event: one move in the heap instead of two.
            let exchanged = match (self.runs[slot].moment(), self.heads.peek_mut()) {
                (Some(moment), Some(mut first)) if first.0.0 < to_come => {
                    Some(std::mem::replace(&mut *first, Reverse((moment, slot))).0.1)
                }
                _ => None,
            };
            if let Some(next) = exchanged {
                self.go_on_with(next);
                return Ok(true);
            }
            self.enter(slot);
        }
        loop {
            let first = self.heads.peek().map_or(NEVER, |head| head.0.0);
            if self.to_come() >= first {
                break;
            }
            let (rank, entry) = self.pending[self.next_pending];
            if entry.is_kept() {
                self.next_pending += 1;
                let slot = self.slot(rank);
                let events = &self.kept[entry.kept.0..entry.kept.1];
                self.runs[slot].fill(|of| of.extend_from_slice(events));
                self.enter(slot);
            } else {
                self.load()?;
            }
        }
        let Some(Reverse((_, slot))) = self.heads.pop() else {
            return Ok(false);
        };
        self.go_on_with(slot);
        Ok(true)
    }

    /// Hand out a run's events until another's is next.
    fn go_on_with(&mut self, slot: usize) {
        self.current = Some(slot);
        let next = self.heads.peek().map_or(NEVER, |head| head.0.0);
        self.limit = next.min(self.to_come());
    }

    /// When the first run that has not entered begins.
    fn to_come(&self) -> Moment {
        self.pending
            .get(self.next_pending)
            .map_or(NEVER, |(rank, entry)| (entry.earliest, *rank))
    }

    /// An empty run.
    fn slot(&mut self, rank: u32) -> usize {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.runs.push(Run::default());
            self.runs.len() - 1
        });
        let run = &mut self.runs[slot];
        run.rank = rank;
        run.next = 0;
        slot
    }

    /// Have a run merged from its next event on.
    fn enter(&mut self, slot: usize) {
        match self.runs[slot].moment() {
            Some(moment) => self.heads.push(Reverse((moment, slot))),
            None => self.free.push(slot),
        }
    }

    /// Decode the next few of the runs that were not kept.
    fn load(&mut self) -> Result<(), Unreadable> {
        // A compressed buffer may become as large as the session's; a stored one is what it is, whatever the header says.
        let session_bytes = match self.header.compression {
            Some(_) => self.header.buffer_bytes as usize,
            None => 0,
        };
        let mut bytes = 0;
        let count = self.pending[self.next_pending..]
            .iter()
            .take_while(|(_, entry)| {
                let is_room = !entry.is_kept() && bytes < CHUNK_BYTES * self.threads;
                bytes += session_bytes.max(entry.bytes as usize);
                is_room
            })
            .count();
        let chunk = self.next_pending..self.next_pending + count;
        self.next_pending = chunk.end;
        let slots: Vec<usize> = chunk
            .clone()
            .map(|at| self.slot(self.pending[at].0))
            .collect();
        self.raw.resize_with(count, Vec::new);
        let mut work = Vec::with_capacity(count);
        for ((at, slot), raw) in chunk.zip(&slots).zip(&mut self.raw) {
            let (_, entry) = &self.pending[at];
            raw.resize(entry.bytes as usize, 0);
            self.file.seek(SeekFrom::Start(entry.position))?;
            self.file.read_exact(raw)?;
            work.push((&*raw, std::mem::take(&mut self.runs[*slot])));
        }
        let header = &self.header;
        if self.threads == 1 {
            decode_all(&mut work, header);
        } else {
            let share = count.div_ceil(self.threads).max(1);
            thread::scope(|scope| {
                let handles: Vec<_> = work
                    .chunks_mut(share)
                    .map(|share| scope.spawn(|| decode_all(share, header)))
                    .collect();
                handles
                    .into_iter()
                    .try_for_each(|handle| handle.join().map_err(|_| Unreadable::defect()))
            })?;
        }
        for (slot, (_, run)) in slots.iter().zip(work) {
            self.runs[*slot] = run;
        }
        for slot in slots {
            self.enter(slot);
        }
        Ok(())
    }
}

fn decode_all(work: &mut [(&Vec<u8>, Run)], log: &LogHeader) {
    let mut facts = Facts {
        events_only: true,
        ..Facts::default()
    };
    let mut scratch = Vec::new();
    for (bytes, run) in work {
        run.fill(|events| {
            facts.events = std::mem::take(events);
            if let Some(header) = BufferHeader::parse(bytes)
                && let Payload::Whole(payload) | Payload::Clipped(payload) =
                    payload(bytes, header, log, &mut scratch)
            {
                decode::buffer(payload, 0, &mut facts);
            }
            *events = std::mem::take(&mut facts.events);
        });
    }
}
