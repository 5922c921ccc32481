//! Reads a tracing instance: per-CPU buffers into one stream in order of time, and that into I/Os.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use arrow_array::RecordBatch;
use rustix::time::ClockId;

use crate::buffers::{Buffers, SessionError, now_ns};
use crate::event::{Decoder, Event, Kind};
use crate::lifecycle::{self, ThreadEvent};
use crate::processes::{Processes, SharedProcesses};
use crate::rows::Rows;
use crate::tracker::{Counts, DeviceIds, Tracker};

/// An event takes its time before it can be read: what is younger than this waits for the next round, so that no CPU's
/// event arrives after a later one of another CPU was used.
pub const SETTLE_NS: u64 = 5_000_000;

/// Numbers of the whole session.
#[derive(Clone, Copy, Debug, Default)]
pub struct Statistics {
    /// Block events decoded.
    pub events: u64,
    /// Events the kernel had no room for, and those around such a gap that could not be used.
    pub events_lost: u64,
    /// Pages that contradicted themselves.
    pub damaged_pages: u64,
    /// See [`Counts`].
    pub counts: Counts,
}

/// An open tracing instance.
pub struct Session {
    buffers: Buffers,
    decoder: Decoder,
    thread_decoder: lifecycle::Decoder,
    events: Vec<Event>,
    thread_events: Vec<ThreadEvent>,
    tracker: Tracker,
    processes: SharedProcesses,
    rows: Rows,
    start_ns: u64,
    /// Events beside a gap that could not be used.
    spoilt: u64,
    statistics: Statistics,
}

impl Session {
    /// Open the buffers of the tracing instance in `folder`.
    ///
    /// `numbers` leads from kernel device numbers to positions in `ids`; `start_ns` is the recording's start on
    /// `CLOCK_MONOTONIC`; `own_process` is left out of the recording.
    pub fn open(
        folder: &Path,
        numbers: HashMap<u32, usize>,
        ids: Vec<DeviceIds>,
        start_ns: u64,
        own_process: i32,
    ) -> Result<Self, SessionError> {
        let buffers = Buffers::open(folder)?;
        let mut formats = Vec::new();
        for kind in Kind::ALL {
            formats.push((kind, buffers.event_format("block", kind.event_name())?));
        }
        let [began, ended] = lifecycle::EVENTS;
        let thread_formats = [
            buffers.event_format(began.0, began.1)?,
            buffers.event_format(ended.0, ended.1)?,
        ];
        let boot_offset_ns = now_ns(ClockId::Boottime).saturating_sub(now_ns(ClockId::Monotonic));
        let ticks = rustix::param::clock_ticks_per_second();
        let processes = Processes::new(own_process, ticks, start_ns, boot_offset_ns);
        Ok(Self {
            buffers,
            decoder: Decoder::new(&formats)?,
            thread_decoder: lifecycle::Decoder::new(&thread_formats)?,
            events: Vec::new(),
            thread_events: Vec::new(),
            tracker: Tracker::new(numbers, ids),
            processes: Arc::new(Mutex::new(processes)),
            rows: Rows::default(),
            start_ns,
            spoilt: 0,
            statistics: Statistics::default(),
        })
    }

    /// Wait up to `timeout_ms` for a buffer to fill, then take what there is: I/Os that have ended since.
    ///
    /// `last`: tracing is off, nothing younger will come, and what is still under way stays unpaired.
    pub fn read(&mut self, timeout_ms: u32, last: bool) -> Result<RecordBatch, SessionError> {
        if !last {
            self.buffers.wait(timeout_ms)?;
        }
        let settled_ns = if last {
            u64::MAX
        } else {
            now_ns(ClockId::Monotonic).saturating_sub(SETTLE_NS)
        };
        self.drain()?;
        let gap_ns = self.buffers.find_gap()?;
        // Each CPU's events are in order already: a stable sort merges the runs.
        self.events.sort_by_key(|event| event.time_ns);
        self.thread_events.sort_by_key(|event| event.time_ns);
        let usable = gap_ns.map_or(settled_ns, |gap_ns| gap_ns.min(settled_ns));
        self.use_events(usable);
        if gap_ns.is_some() {
            // One CPU fell silent before the others did: what they saw meanwhile would be paired wrongly.
            let now_ns = now_ns(ClockId::Monotonic);
            let spoilt = self.events.partition_point(|event| event.time_ns <= now_ns);
            self.events.drain(..spoilt);
            self.spoilt += spoilt as u64;
        }
        if gap_ns.is_some() || last {
            self.tracker.resynchronise();
        }
        self.statistics.counts = self.tracker.counts;
        self.statistics.events_lost = self.buffers.lost + self.spoilt;
        self.statistics.damaged_pages = self.buffers.damaged_pages;
        Ok(self
            .rows
            .take_batch(self.start_ns)
            .expect("columns of one length"))
    }

    /// Numbers so far.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        self.statistics
    }

    /// The `processes` table so far.
    #[must_use]
    pub fn processes(&self) -> RecordBatch {
        let processes = self.processes.lock().expect("no thread panicked");
        processes.batch().expect("columns of one length")
    }

    /// The processes, for whoever else records them.
    #[must_use]
    pub fn shared_processes(&self) -> SharedProcesses {
        Arc::clone(&self.processes)
    }

    /// Decode what the buffers hold.
    fn drain(&mut self) -> Result<(), SessionError> {
        let before = self.events.len();
        let (events, thread_events) = (&mut self.events, &mut self.thread_events);
        let (decoder, thread_decoder) = (&self.decoder, &self.thread_decoder);
        self.buffers.drain(|time_ns, record| {
            if let Some(event) = decoder.decode(time_ns, record) {
                events.push(event);
            } else {
                thread_events.extend(thread_decoder.decode(time_ns, record));
            }
        })?;
        self.statistics.events += (self.events.len() - before) as u64;
        Ok(())
    }

    /// Pair the events up to `usable_ns`; threads begin and end between them, in order of time.
    fn use_events(&mut self, usable_ns: u64) {
        let mut processes = self.processes.lock().expect("no thread panicked");
        let ready = self
            .events
            .partition_point(|event| event.time_ns <= usable_ns);
        let count = self
            .thread_events
            .partition_point(|event| event.time_ns <= usable_ns);
        let mut changes = self.thread_events.drain(..count).peekable();
        for event in self.events.drain(..ready) {
            while let Some(change) = changes.next_if(|change| change.time_ns < event.time_ns) {
                processes.on_change(&change);
            }
            self.tracker.on_event(&event, &mut self.rows, |event| {
                processes.of_thread(event.thread, Some(event.comm), event.time_ns)
            });
        }
        changes.for_each(|change| processes.on_change(&change));
    }
}
