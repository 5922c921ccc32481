//! Reads a tracing instance: per-CPU buffers into one stream in order of time, and that into I/Os.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::OFlags;
use rustix::time::{ClockId, Timespec, clock_gettime};

use crate::event::{Decoder, Event, Kind};
use crate::format::{EventFormat, FormatError, PageFormat};
use crate::page::read_page;
use crate::processes::Processes;
use crate::rows::Rows;
use crate::tracker::{Counts, DeviceIds, Tracker};

/// An event takes its time before it can be read: what is younger than this waits for the next round, so that no CPU's
/// event arrives after a later one of another CPU was used.
const SETTLE_NS: u64 = 5_000_000;

/// What went wrong, and on which file.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// Reading failed.
    #[error("{path}: {problem}")]
    Io {
        path: PathBuf,
        problem: std::io::Error,
    },
    /// A layout is not as expected.
    #[error("{0}")]
    Format(#[from] FormatError),
}

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

struct CpuBuffer {
    pipe: File,
    stats: PathBuf,
    lost: u64,
    /// Time of the last event from before the last reading began.
    last_ns: u64,
}

/// An open tracing instance.
pub struct Session {
    buffers: Vec<CpuBuffer>,
    page_format: PageFormat,
    decoder: Decoder,
    page: Vec<u8>,
    events: Vec<Event>,
    tracker: Tracker,
    processes: Processes,
    rows: Rows,
    start_ns: u64,
    start_boot_ns: u64,
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
        let events = folder.join("events");
        let page_format = PageFormat::parse(
            &text(&events.join("header_page"))?,
            &text(&events.join("header_event"))?,
        )?;
        let mut formats = Vec::new();
        for kind in Kind::ALL {
            let path = events.join("block").join(kind.event_name()).join("format");
            formats.push((kind, EventFormat::parse(&text(&path)?)?));
        }
        let boot_offset_ns = now_ns(ClockId::Boottime).saturating_sub(now_ns(ClockId::Monotonic));
        Ok(Self {
            buffers: open_buffers(folder)?,
            page: vec![0; page_format.page_bytes],
            page_format,
            decoder: Decoder::new(&formats)?,
            events: Vec::new(),
            tracker: Tracker::new(numbers, ids),
            processes: Processes::new(own_process, rustix::param::clock_ticks_per_second()),
            rows: Rows::default(),
            start_ns,
            start_boot_ns: start_ns + boot_offset_ns,
            statistics: Statistics::default(),
        })
    }

    /// Wait up to `timeout_ms` for a buffer to fill, then take what there is: I/Os that have ended since.
    ///
    /// `last`: tracing is off, nothing younger will come, and what is still under way stays unpaired.
    pub fn read(&mut self, timeout_ms: u32, last: bool) -> Result<RecordBatch, SessionError> {
        if !last {
            self.wait(timeout_ms)?;
        }
        let settled_ns = if last {
            u64::MAX
        } else {
            now_ns(ClockId::Monotonic).saturating_sub(SETTLE_NS)
        };
        for index in 0..self.buffers.len() {
            self.drain(index)?;
        }
        let gap_ns = self.find_gap()?;
        // Each CPU's events are in order already: a stable sort merges the runs.
        self.events.sort_by_key(|event| event.time_ns);
        let usable = gap_ns.map_or(settled_ns, |gap_ns| gap_ns.min(settled_ns));
        let ready = self.events.partition_point(|event| event.time_ns <= usable);
        for event in self.events.drain(..ready) {
            let processes = &mut self.processes;
            self.tracker.on_event(&event, &mut self.rows, |event| {
                processes.of_thread(event.thread, event.comm)
            });
        }
        if gap_ns.is_some() {
            // One CPU fell silent before the others did: what they saw meanwhile would be paired wrongly.
            let now_ns = now_ns(ClockId::Monotonic);
            let spoilt = self.events.partition_point(|event| event.time_ns <= now_ns);
            self.events.drain(..spoilt);
            self.statistics.events_lost += spoilt as u64;
        }
        if gap_ns.is_some() || last {
            self.tracker.resynchronise();
        }
        self.statistics.counts = self.tracker.counts;
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
        self.processes
            .batch(self.start_boot_ns)
            .expect("columns of one length")
    }

    /// Sleeps until a buffer is filled to the instance's `buffer_percent`, or the time is over.
    fn wait(&self, timeout_ms: u32) -> Result<(), SessionError> {
        let mut files: Vec<_> = self
            .buffers
            .iter()
            .map(|buffer| PollFd::new(&buffer.pipe, PollFlags::IN))
            .collect();
        let timeout = Timespec {
            tv_sec: i64::from(timeout_ms / 1000),
            tv_nsec: i64::from(timeout_ms % 1000) * 1_000_000,
        };
        match poll(&mut files, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()), // a signal: Python looks at it between two reads
            Err(problem) => Err(SessionError::Io {
                path: "trace_pipe_raw".into(),
                problem: problem.into(),
            }),
        }
    }

    /// Take what one CPU's buffer holds now; not more, however fast it refills.
    fn drain(&mut self, index: usize) -> Result<(), SessionError> {
        let until_ns = now_ns(ClockId::Monotonic);
        let buffer = &mut self.buffers[index];
        loop {
            let length = match buffer.pipe.read(&mut self.page) {
                Ok(0) => return Ok(()),
                Ok(length) => length,
                Err(problem) if problem.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(problem) if problem.kind() == ErrorKind::Interrupted => continue,
                Err(problem) => {
                    return Err(SessionError::Io {
                        path: buffer.stats.clone(),
                        problem,
                    });
                }
            };
            let (decoder, events) = (&self.decoder, &mut self.events);
            let before = events.len();
            let outcome = read_page(
                &self.page[..length],
                &self.page_format,
                |time_ns, record| {
                    events.extend(decoder.decode(time_ns, record));
                },
            );
            let before_reading = |event: &&Event| event.time_ns <= until_ns;
            if let Some(event) = events[before..].iter().rfind(before_reading) {
                buffer.last_ns = event.time_ns;
            }
            self.statistics.events += (events.len() - before) as u64;
            self.statistics.damaged_pages += u64::from(outcome.damaged);
            if events.last().is_some_and(|event| event.time_ns > until_ns) {
                return Ok(());
            }
        }
    }

    /// If events were lost since the last look: the time of the last one before the first gap.
    ///
    /// A full buffer drops what is new until it is read, so a CPU's gap begins after its last event from before the
    /// reading began.
    fn find_gap(&mut self) -> Result<Option<u64>, SessionError> {
        let mut gap_ns: Option<u64> = None;
        for buffer in &mut self.buffers {
            let lost = lost_events(&text(&buffer.stats)?);
            if lost > buffer.lost {
                self.statistics.events_lost += lost - buffer.lost;
                buffer.lost = lost;
                gap_ns = Some(gap_ns.map_or(buffer.last_ns, |gap_ns| gap_ns.min(buffer.last_ns)));
            }
        }
        Ok(gap_ns)
    }
}

/// `overrun`, `commit overrun` and `dropped events` of a per-CPU `stats` file.
fn lost_events(stats: &str) -> u64 {
    let lines = stats.lines().filter_map(|line| line.split_once(':'));
    lines
        .filter(|(label, _)| {
            matches!(
                label.trim(),
                "overrun" | "commit overrun" | "dropped events"
            )
        })
        .filter_map(|(_, number)| number.trim().parse::<u64>().ok())
        .sum()
}

fn open_buffers(folder: &Path) -> Result<Vec<CpuBuffer>, SessionError> {
    let parent = folder.join("per_cpu");
    let fail = |path: &Path| {
        let path = path.to_owned();
        move |problem| SessionError::Io { path, problem }
    };
    let mut cpus: Vec<PathBuf> = fs::read_dir(&parent)
        .map_err(fail(&parent))?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect();
    cpus.sort();
    cpus.into_iter()
        .map(|cpu| {
            let path = cpu.join("trace_pipe_raw");
            let mut options = OpenOptions::new();
            let pipe = options
                .read(true)
                .custom_flags(OFlags::NONBLOCK.bits() as i32)
                .open(&path);
            Ok(CpuBuffer {
                pipe: pipe.map_err(fail(&path))?,
                stats: cpu.join("stats"),
                lost: 0,
                last_ns: 0,
            })
        })
        .collect()
}

/// A whole file of tracefs. Some give all they have to the first read and nothing to a second, so the first is large.
fn text(path: &Path) -> Result<String, SessionError> {
    let fail = |problem| SessionError::Io {
        path: path.to_owned(),
        problem,
    };
    let mut file = File::open(path).map_err(fail)?;
    let mut bytes = vec![0; 1 << 16];
    let mut length = 0;
    loop {
        match file.read(&mut bytes[length..]).map_err(fail)? {
            0 => break,
            more => length += more,
        }
    }
    bytes.truncate(length);
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn now_ns(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_are_summed_over_their_kinds() {
        let stats = "entries: 9\noverrun: 1\ncommit overrun: 2\nbytes: 77\ndropped events: 4\nread events: 8\n";
        assert_eq!(lost_events(stats), 7);
    }
}
