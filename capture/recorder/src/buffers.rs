//! The per-CPU buffers of one tracing instance, read in binary.

use std::fs::{self, File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::OFlags;
use rustix::time::{ClockId, Timespec, clock_gettime};

use crate::cpu_buffer::CpuBuffer;
use crate::format::{EventFormat, FormatError, PageFormat};
use crate::merge::merge;

/// What went wrong, and on which file.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// Reading failed.
    #[error("{path}: {problem}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system says.
        problem: std::io::Error,
    },
    /// A layout is not as expected.
    #[error("{0}")]
    Format(#[from] FormatError),
}

struct Cpu {
    stats: PathBuf,
    lost: u64,
}

/// All CPUs' buffers of one instance.
pub struct Buffers {
    folder: PathBuf,
    cpus: Vec<Cpu>,
    pages: Vec<CpuBuffer<File>>,
    format: PageFormat,
    /// Events the kernel had no room for.
    pub lost: u64,
}

impl Buffers {
    /// Open those of the tracing instance in `folder`.
    pub fn open(folder: &Path) -> Result<Self, SessionError> {
        let events = folder.join("events");
        let format = PageFormat::parse(
            &text(&events.join("header_page"))?,
            &text(&events.join("header_event"))?,
        )?;
        let (cpus, pages) = open_cpus(folder, &format)?;
        Ok(Self {
            folder: folder.to_owned(),
            cpus,
            pages,
            format,
            lost: 0,
        })
    }

    /// Layout of the event in `events/{group}/{name}`.
    pub fn event_format(&self, group: &str, name: &str) -> Result<EventFormat, SessionError> {
        let path = self.folder.join("events").join(group).join(name);
        Ok(EventFormat::parse(&text(&path.join("format"))?)?)
    }

    /// Sleep until a buffer is filled to the instance's `buffer_percent`, or the time is over.
    pub fn wait(&self, timeout_ms: u32) -> Result<(), SessionError> {
        let mut files: Vec<_> = self
            .pages
            .iter()
            .map(|buffer| PollFd::new(buffer.pipe(), PollFlags::IN))
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

    /// Take what happened up to `until_ns` over all CPUs in order of time: see [`merge`]. True if events were lost, or
    /// are about to be seen to be: then what happened until now is not usable beyond what `on_event` was told is.
    pub fn merge(
        &mut self,
        until_ns: u64,
        on_event: impl FnMut(u64, &[u8], bool),
    ) -> Result<bool, SessionError> {
        let now_ns = now_ns(ClockId::Monotonic);
        for index in 0..self.cpus.len() {
            self.pages[index].has_gap = self.look_for_losses(index)?;
        }
        let merged = merge(&mut self.pages, &self.format, until_ns, now_ns, on_event);
        let mut has_gap = merged.map_err(|(index, problem)| self.failed(index, problem))?;
        for index in 0..self.cpus.len() {
            has_gap |= self.look_for_losses(index)?;
        }
        Ok(has_gap)
    }

    /// Take what the buffers hold now, CPU by CPU, each in order of time; not more, however fast they refill.
    pub fn drain(&mut self, mut on_event: impl FnMut(u64, &[u8])) -> Result<(), SessionError> {
        for index in 0..self.cpus.len() {
            let until_ns = now_ns(ClockId::Monotonic);
            loop {
                let cpu = &mut self.pages[index];
                match cpu.head_ns(&self.format, until_ns) {
                    Ok(Some(head_ns)) if head_ns <= until_ns => {
                        if let Some((time_ns, record)) = cpu.take() {
                            on_event(time_ns, record);
                        }
                    }
                    Ok(_) => break,
                    Err(problem) => return Err(self.failed(index, problem)),
                }
            }
        }
        Ok(())
    }

    /// If events were lost since the last look, beside `drain`: the time of the last one before the first gap.
    ///
    /// A full buffer drops what is new until it is read, so a CPU's gap begins after its last event from before the
    /// reading began.
    pub fn find_gap(&mut self) -> Result<Option<u64>, SessionError> {
        let mut gap_ns: Option<u64> = None;
        for index in 0..self.cpus.len() {
            if self.look_for_losses(index)? {
                let last_ns = self.pages[index].last_ns;
                gap_ns = Some(gap_ns.map_or(last_ns, |gap_ns| gap_ns.min(last_ns)));
            }
        }
        Ok(gap_ns)
    }

    /// Pages that contradicted themselves.
    #[must_use]
    pub fn damaged_pages(&self) -> u64 {
        self.pages.iter().map(|buffer| buffer.damaged_pages).sum()
    }

    /// Whether a CPU lost events since the last look.
    fn look_for_losses(&mut self, index: usize) -> Result<bool, SessionError> {
        let cpu = &mut self.cpus[index];
        let lost = lost_events(&text(&cpu.stats)?);
        let more = lost.saturating_sub(cpu.lost);
        cpu.lost += more;
        self.lost += more;
        Ok(more > 0)
    }

    fn failed(&self, index: usize, problem: std::io::Error) -> SessionError {
        SessionError::Io {
            path: self.cpus[index].stats.with_file_name("trace_pipe_raw"),
            problem,
        }
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

fn open_cpus(
    folder: &Path,
    format: &PageFormat,
) -> Result<(Vec<Cpu>, Vec<CpuBuffer<File>>), SessionError> {
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
    let mut opened = (Vec::new(), Vec::new());
    for cpu in cpus {
        let path = cpu.join("trace_pipe_raw");
        let mut options = OpenOptions::new();
        let pipe = options
            .read(true)
            .custom_flags(OFlags::NONBLOCK.bits() as i32)
            .open(&path);
        opened
            .1
            .push(CpuBuffer::new(pipe.map_err(fail(&path))?, format));
        opened.0.push(Cpu {
            stats: cpu.join("stats"),
            lost: 0,
        });
    }
    Ok(opened)
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

/// A clock's reading.
#[must_use]
pub fn now_ns(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// How far this process's monotonic clock is ahead of the one that the kernel stamps its events with, or its clock since
/// the start is: in a time namespace (`time_namespaces(7)`) they differ.
#[must_use]
pub fn clock_ahead_s() -> i64 {
    // Kernels without them, before 5.6, have no such file.
    ahead_s(&fs::read_to_string("/proc/self/timens_offsets").unwrap_or_default())
}

/// Of lines `clock seconds nanoseconds`, the first that is not 0 s.
fn ahead_s(offsets: &str) -> i64 {
    let seconds = |line: &str| line.split_whitespace().nth(1)?.parse().ok();
    offsets
        .lines()
        .filter_map(seconds)
        .find(|&ahead| ahead != 0)
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_not_the_hosts_is_seen() {
        // As Linux 6.18 shows them, after `unshare --time --monotonic=-1234`, and without.
        let apart = "monotonic       -1234         0\nboottime            0         0\n";
        assert_eq!(ahead_s(apart), -1234);
        assert_eq!(ahead_s(&apart.replace("-1234", "0")), 0);
        assert_eq!(ahead_s(""), 0);
    }

    #[test]
    fn losses_are_summed_over_their_kinds() {
        let stats = "entries: 9\noverrun: 1\ncommit overrun: 2\nbytes: 77\ndropped events: 4\nread events: 8\n";
        assert_eq!(lost_events(stats), 7);
    }
}
