//! Reads a tracing instance: per-CPU buffers into one stream in order of time, and that into I/Os.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use arrow_array::RecordBatch;
pub use iotrace_block::Ended;
use iotrace_block::{Asker, Counts, Event, Kind, Pairing};
use rustc_hash::FxHashMap;
use rustix::time::ClockId;

use crate::buffers::{Buffers, SessionError, now_ns};
use crate::event::{Comm, Decoder, EVENTS};
use crate::lifecycle;
use crate::processes::{Processes, SharedProcesses};
use crate::rows::{DeviceIds, Rows, Totals};

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
    /// See [`Totals`].
    pub totals: Totals,
}

/// An open tracing instance.
pub struct Session {
    buffers: Buffers,
    decoder: Decoder,
    thread_decoder: lifecycle::Decoder,
    /// Kernel device number (of a disk or its partitions) → position.
    positions: FxHashMap<u32, usize>,
    ids: Vec<DeviceIds>,
    pairing: Pairing,
    processes: SharedProcesses,
    rows: Rows,
    start_ns: u64,
    /// Until then events lie beside a gap and are not used.
    spoilt_until_ns: u64,
    /// How many those were.
    spoilt: u64,
    statistics: Statistics,
}

impl Session {
    /// Open the buffers of the tracing instance in `folder`.
    ///
    /// `numbers` leads from kernel device numbers, a disk's and its partitions', to positions in `ids`; `start_ns` is the
    /// recording's start on `CLOCK_MONOTONIC`; `own_process` is left out of the recording.
    pub fn open(
        folder: &Path,
        numbers: HashMap<u32, usize>,
        ids: Vec<DeviceIds>,
        start_ns: u64,
        own_process: i32,
    ) -> Result<Self, SessionError> {
        let buffers = Buffers::open(folder)?;
        let mut formats = Vec::new();
        for (name, kind) in EVENTS {
            formats.push((kind, buffers.event_format("block", name)?));
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
            positions: numbers.into_iter().collect(),
            pairing: Pairing::new(ids.len()),
            ids,
            processes: Arc::new(Mutex::new(processes)),
            rows: Rows::default(),
            start_ns,
            spoilt_until_ns: 0,
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
        let has_gap = self.use_events(settled_ns)?;
        if has_gap {
            // One CPU fell silent before the others did: what they saw meanwhile would be paired wrongly.
            self.spoilt_until_ns = now_ns(ClockId::Monotonic);
        }
        if has_gap || last {
            self.pairing.give_up(&mut |_, _| {});
        }
        self.statistics.counts = self.pairing.counts;
        self.statistics.totals = self.rows.totals;
        self.statistics.events_lost = self.buffers.lost + self.spoilt;
        self.statistics.damaged_pages = self.buffers.damaged_pages();
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

    /// What ended so far, by position of the disk.
    #[must_use]
    pub fn ended(&self) -> &[Ended] {
        self.pairing.ended()
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

    /// Pair the events up to `until_ns`; threads begin and end between them, in order of time.
    fn use_events(&mut self, until_ns: u64) -> Result<bool, SessionError> {
        let mut processes = self.processes.lock().expect("no thread panicked");
        self.buffers.merge(until_ns, |time_ns, record, is_usable| {
            if let Some((event, comm)) = self.decoder.decode(time_ns, record) {
                self.statistics.events += 1;
                if !is_usable || time_ns <= self.spoilt_until_ns {
                    self.spoilt += 1;
                } else if let Some(&position) = self.positions.get(&event.device) {
                    let asker_of = |event: &Event| asker_of(event, comm, &mut processes);
                    let (rows, ids) = (&mut self.rows, &self.ids);
                    let mut push = |position: usize, row| rows.push(&row, ids[position]);
                    self.pairing.on_event(position, &event, asker_of, &mut push);
                }
            } else if let Some(change) = self.thread_decoder.decode(time_ns, record) {
                processes.on_change(&change);
            }
        })
    }
}

/// Who queued a bio. A request may be issued by any thread, so without its bio it is nobody's.
fn asker_of(event: &Event, comm: Comm, processes: &mut Processes) -> Option<Asker> {
    if event.kind != Kind::BioQueue {
        return None;
    }
    let (process, own) = processes.of_thread(event.thread, Some(comm), event.time_ns);
    Some(Asker {
        thread: event.thread,
        process,
        own,
    })
}
