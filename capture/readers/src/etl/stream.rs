//! Events of I/O in order of time, whatever the length of the log.
//!
//! Method: a buffer is a run of events in order of time. Runs are merged; one enters when the merge gets to its earliest
//! event. Runs that were not kept are decoded again shortly before that, a few at a time. This needs no faith in the order
//! of buffers in the file, which is not a known key in a circular log, and merges only the buffers that overlap in time. Of
//! events at one moment, those of one processor keep their order, and the lowest processor comes first.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::thread;

use super::container::BufferHeader;
use super::decode;
use super::facts::{Event, Facts, Indexed, Wanted};
use super::header::LogHeader;
use super::merge::{Moment, NEVER, Tournament, moment};
use super::read::{Payload, payload};
use crate::error::Unreadable;

/// Bytes of buffers, decompressed, that are decoded at a time: their events are to stay in the processor's own cache.
const CHUNK_BYTES: usize = 1 << 18;
/// The same for each of several threads: it is to be worth starting them.
const CHUNK_BYTES_PER_THREAD: usize = 1 << 20;

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
    /// Of these the first few, if they are decoded already.
    loaded: VecDeque<usize>,
    /// When the first run that has not entered begins.
    to_come: Moment,
    /// Runs in memory. Those not in `free` are `loaded` or in a place of the tournament.
    runs: Vec<Run>,
    free: Vec<usize>,
    tournament: Tournament,
    /// Of each place the run that entered there.
    entered: Vec<usize>,
    /// Buffers as they lie in the file: kept for their memory.
    raw: Vec<Vec<u8>>,
}

/// Events of one buffer, in order of time.
#[derive(Default)]
struct Run {
    rank: u32,
    events: Vec<Event>,
    next: usize,
    /// When the event after that is. Known beforehand, it keeps the merge from waiting for memory at each event.
    then: Moment,
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

    /// When one of its events is.
    #[inline]
    fn moment(&self, event: usize) -> Moment {
        self.events
            .get(event)
            .map_or(NEVER, |event| moment(event.ticks(), self.rank))
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
        let mut stream = Self {
            file,
            header,
            threads: threads.max(1),
            kept,
            pending,
            next_pending: 0,
            loaded: VecDeque::new(),
            to_come: NEVER,
            runs: Vec::new(),
            free: Vec::new(),
            tournament: Tournament::new(),
            entered: Vec::new(),
            raw: Vec::new(),
        };
        stream.look_ahead();
        stream
    }

    /// The next event; `None` after the last.
    #[inline]
    pub fn next(&mut self) -> Result<Option<&Event>, Unreadable> {
        let (mut first, mut place) = self.tournament.first();
        while self.to_come <= first {
            if self.to_come == NEVER {
                return Ok(None);
            }
            self.enter()?;
            (first, place) = self.tournament.first();
        }
        let slot = self.entered[place];
        let run = &mut self.runs[slot];
        if run.then < NEVER {
            self.tournament.set(place, run.then);
        } else {
            self.tournament.leave(place);
            // What is free is not filled before the next call.
            self.free.push(slot);
        }
        run.next += 1;
        run.then = run.moment(run.next + 1);
        Ok(run.events.get(run.next - 1))
    }

    /// Let the next run enter.
    fn enter(&mut self) -> Result<(), Unreadable> {
        if self.loaded.is_empty() {
            self.load()?;
        }
        if let Some(slot) = self.loaded.pop_front() {
            self.next_pending += 1;
            self.look_ahead();
            let run = &mut self.runs[slot];
            let first = run.moment(0);
            if first < NEVER {
                run.then = run.moment(1);
                let place = self.tournament.enter(first);
                if place >= self.entered.len() {
                    self.entered.resize(place + 1, 0);
                }
                self.entered[place] = slot;
            } else {
                self.free.push(slot);
            }
        }
        Ok(())
    }

    fn look_ahead(&mut self) {
        self.to_come = self
            .pending
            .get(self.next_pending)
            .map_or(NEVER, |(rank, entry)| moment(entry.earliest, *rank));
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

    /// Get the next run that has not entered; of those that were not kept, a few at once.
    fn load(&mut self) -> Result<(), Unreadable> {
        let Some((rank, entry)) = self.pending.get(self.next_pending).copied() else {
            return Ok(());
        };
        if !entry.is_kept() {
            return self.decode();
        }
        let slot = self.slot(rank);
        let events = &self.kept[entry.kept.0..entry.kept.1];
        self.runs[slot].fill(|of| of.extend_from_slice(events));
        self.loaded.push_back(slot);
        Ok(())
    }

    fn decode(&mut self) -> Result<(), Unreadable> {
        // A compressed buffer may become as large as the session's; a stored one is what it is, whatever the header says.
        let session_bytes = match self.header.compression {
            Some(_) => self.header.buffer_bytes as usize,
            None => 0,
        };
        let chunk_bytes = match self.threads {
            1 => CHUNK_BYTES,
            threads => CHUNK_BYTES_PER_THREAD * threads,
        };
        let mut bytes = 0;
        let count = self.pending[self.next_pending..]
            .iter()
            .take_while(|(_, entry)| {
                let is_room = !entry.is_kept() && bytes < chunk_bytes;
                bytes += session_bytes.max(entry.bytes as usize);
                is_room
            })
            .count();
        let chunk = self.next_pending..self.next_pending + count;
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
        self.loaded.extend(slots);
        Ok(())
    }
}

fn decode_all(work: &mut [(&Vec<u8>, Run)], log: &LogHeader) {
    let mut facts = Facts {
        wanted: Wanted::EventsOnly,
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
