//! Who queued an I/O: a thread seen in the trace, looked up in /proc while it lives.

use std::sync::{Arc, Mutex};

use arrow_array::{ArrayRef, Int32Array, Int64Array, RecordBatch, StringArray};
use arrow_schema::ArrowError;
use rustc_hash::FxHashMap;

use crate::event::Comm;
use crate::lifecycle::{Change, ThreadEvent};

/// Threads remembered before the memory of them starts anew: a bound where threads come and go by the million.
const THREADS_MAX: usize = 1 << 16;
/// A thread that ended is remembered this long, for events that are looked at later.
const REMEMBERED_NS: u64 = 10_000_000_000;

/// Parent of all kernel threads.
const KTHREADD: i32 = 2;

/// The one table of processes of a recording, whoever records into it.
pub type SharedProcesses = Arc<Mutex<Processes>>;

/// One row of `processes`. Command lines are not read: they hold passwords.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Process {
    os_process_id: i32,
    name: String,
    os_parent_process_id: Option<i32>,
    /// Since boot.
    started_boot_ns: Option<u64>,
    /// On the trace clock.
    ended_ns: Option<u64>,
}

/// A thread whose process is known.
#[derive(Debug)]
struct Seen {
    row: i32,
    own: bool,
    comm: Option<Comm>,
    ended_ns: Option<u64>,
}

/// A thread that began during the recording.
#[derive(Debug)]
struct Birth {
    by: i32,
    is_process: bool,
    born_ns: u64,
    comm: Comm,
    ended_ns: Option<u64>,
}

/// Threads seen so far and the processes they belong to.
#[derive(Debug)]
pub struct Processes {
    own_process: i32,
    tick_ns: u64,
    start_ns: u64,
    boot_offset_ns: u64,
    threads: FxHashMap<i32, Seen>,
    births: FxHashMap<i32, Birth>,
    /// Newest row of each process number.
    by_process: FxHashMap<i32, i32>,
    rows: Vec<Process>,
}

impl Processes {
    /// `own_process` is recognised as iotrace's own; `ticks_per_second` is the unit of /proc/PID/stat; `start_ns` is the
    /// recording's start on the trace clock, and `boot_offset_ns` what time since boot is ahead of that clock.
    #[must_use]
    pub fn new(
        own_process: i32,
        ticks_per_second: u64,
        start_ns: u64,
        boot_offset_ns: u64,
    ) -> Self {
        Self {
            own_process,
            tick_ns: 1_000_000_000 / ticks_per_second.max(1),
            start_ns,
            boot_offset_ns,
            threads: FxHashMap::default(),
            births: FxHashMap::default(),
            by_process: FxHashMap::default(),
            rows: Vec::new(),
        }
    }

    /// Row of the process that `thread` belonged to at `at_ns`, and whether that is iotrace.
    ///
    /// `comm` is the thread's name then, where the event told it. A thread that ended before it was looked up belongs to
    /// the process its birth told; if that is unknown, too, it stands for itself, under its own name.
    pub fn of_thread(
        &mut self,
        thread: i32,
        comm: Option<Comm>,
        at_ns: u64,
    ) -> (Option<i32>, bool) {
        if let Some(seen) = self.threads.get_mut(&thread) {
            let is_same = comm.is_none() || seen.comm.is_none() || seen.comm == comm;
            if is_same && seen.ended_ns.is_none_or(|ended_ns| at_ns <= ended_ns) {
                seen.comm = seen.comm.or(comm);
                return (Some(seen.row), seen.own);
            }
        }
        let birth = self.births.get(&thread);
        let is_gone = birth.is_some_and(|birth| birth.ended_ns.is_some() || birth.born_ns > at_ns);
        let found = if is_gone { None } else { self.look_up(thread) };
        let name = comm.or(birth.map(|birth| birth.comm)).map(text);
        let mut process = found.unwrap_or_else(|| self.born(thread, name.as_deref()));
        if let Some(name) = name
            && process.os_parent_process_id == Some(KTHREADD)
        {
            // /proc adds what the kernel thread happens to do just now.
            process.name = name;
        }
        let own = process.os_process_id == self.own_process;
        let row = self.row_of(process, at_ns);
        if self.threads.len() >= THREADS_MAX {
            self.threads.clear();
        }
        let ended_ns = self.births.get(&thread).and_then(|birth| birth.ended_ns);
        let seen = Seen {
            row,
            own,
            comm,
            ended_ns,
        };
        self.threads.insert(thread, seen);
        (Some(row), own)
    }

    /// A thread began or ended.
    pub fn on_change(&mut self, event: &ThreadEvent) {
        match event.change {
            Change::Began { by, is_process } => {
                self.threads.remove(&event.thread);
                if self.births.len() >= THREADS_MAX {
                    let old_ns = event.time_ns.saturating_sub(REMEMBERED_NS);
                    let is_old = |ended_ns: Option<u64>| ended_ns.is_some_and(|at| at < old_ns);
                    self.births.retain(|_, birth| !is_old(birth.ended_ns));
                    self.threads.retain(|_, seen| !is_old(seen.ended_ns));
                    if self.births.len() >= THREADS_MAX / 2 {
                        self.births.clear();
                    }
                }
                let birth = Birth {
                    by,
                    is_process,
                    born_ns: event.time_ns,
                    comm: event.comm,
                    ended_ns: None,
                };
                self.births.insert(event.thread, birth);
            }
            Change::Ended { with_process } => self.on_end(event, with_process),
        }
    }

    fn on_end(&mut self, event: &ThreadEvent, with_process: Option<bool>) {
        let leader = self.leader_of(event.thread);
        if let Some(seen) = self.threads.get_mut(&event.thread) {
            seen.ended_ns = Some(event.time_ns);
        }
        if let Some(birth) = self.births.get_mut(&event.thread) {
            birth.ended_ns = Some(event.time_ns);
            birth.comm = event.comm;
        }
        // Older kernels do not tell the last thread's end from others'; the first thread's is the nearest to it.
        let process_ended = with_process.unwrap_or(leader == event.thread);
        if process_ended && let Some(&row) = self.by_process.get(&leader) {
            let process = &mut self.rows[row as usize];
            process.ended_ns = process.ended_ns.or(Some(event.time_ns));
        }
    }

    /// Number of the process that a thread belongs to, without asking /proc.
    fn leader_of(&self, thread: i32) -> i32 {
        if let Some(seen) = self.threads.get(&thread) {
            return self.rows[seen.row as usize].os_process_id;
        }
        let mut at = thread;
        for _ in 0..64 {
            match self.births.get(&at) {
                Some(birth) if !birth.is_process => at = birth.by,
                _ => break,
            }
            if let Some(seen) = self.threads.get(&at) {
                return self.rows[seen.row as usize].os_process_id;
            }
        }
        at
    }

    /// What the births tell of a thread that is gone.
    fn born(&self, thread: i32, name: Option<&str>) -> Process {
        let leader = self.leader_of(thread);
        let birth = self
            .births
            .get(&leader)
            .filter(|birth| birth.is_process || leader == thread);
        Process {
            os_process_id: leader,
            name: name.unwrap_or("?").to_owned(),
            os_parent_process_id: birth.map(|birth| self.leader_of(birth.by)),
            started_boot_ns: birth.map(|birth| birth.born_ns + self.boot_offset_ns),
            ended_ns: birth.and_then(|birth| birth.ended_ns),
        }
    }

    /// The row `process` has, or a new one: a number may be used again once its process has ended.
    fn row_of(&mut self, process: Process, at_ns: u64) -> i32 {
        if let Some(&row) = self.by_process.get(&process.os_process_id) {
            let known = &self.rows[row as usize];
            let is_over = known.ended_ns.is_some_and(|ended_ns| ended_ns < at_ns);
            // The two sources of a start differ by up to a tick.
            let is_other = match (known.started_boot_ns, process.started_boot_ns) {
                (Some(one), Some(other)) => one.abs_diff(other) > 2 * self.tick_ns,
                _ => false,
            };
            if !is_over && !is_other {
                return row;
            }
        }
        let row = self.rows.len() as i32;
        self.by_process.insert(process.os_process_id, row);
        self.rows.push(process);
        row
    }

    fn look_up(&self, thread: i32) -> Option<Process> {
        let status = std::fs::read_to_string(format!("/proc/{thread}/status")).ok()?;
        let id = number_after(&status, "Tgid:")?;
        let main = if id == thread {
            status
        } else {
            std::fs::read_to_string(format!("/proc/{id}/status")).ok()?
        };
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        Some(Process {
            os_process_id: id,
            name: value_after(&main, "Name:")?.to_owned(),
            os_parent_process_id: number_after(&main, "PPid:"),
            started_boot_ns: started_ticks(&stat).map(|ticks| ticks.saturating_mul(self.tick_ns)),
            ended_ns: None,
        })
    }

    /// Name of a process.
    #[must_use]
    pub fn name(&self, row: i32) -> Option<&str> {
        let row = self.rows.get(usize::try_from(row).ok()?)?;
        Some(row.name.as_str())
    }

    /// The `processes` table.
    pub fn batch(&self) -> Result<RecordBatch, ArrowError> {
        let rows = &self.rows;
        // A process that ran before the recording has no start in it.
        let started = |row: &Process| {
            row.started_boot_ns?
                .checked_sub(self.start_ns + self.boot_offset_ns)
                .map(|ns| ns as i64)
        };
        let ended = |row: &Process| Some(row.ended_ns?.wrapping_sub(self.start_ns) as i64);
        let names = rows.iter().map(|row| Some(row.name.as_str()));
        let parents = rows
            .iter()
            .map(|row| row.os_parent_process_id.map(i64::from));
        let columns: [(&str, ArrayRef); 6] = [
            (
                "process_id",
                Arc::new(Int32Array::from_iter_values(0..rows.len() as i32)),
            ),
            (
                "os_process_id",
                Arc::new(Int64Array::from_iter_values(
                    rows.iter().map(|row| row.os_process_id as i64),
                )),
            ),
            ("name", Arc::new(names.collect::<StringArray>())),
            (
                "os_parent_process_id",
                Arc::new(parents.collect::<Int64Array>()),
            ),
            (
                "started_ns",
                Arc::new(rows.iter().map(started).collect::<Int64Array>()),
            ),
            (
                "ended_ns",
                Arc::new(rows.iter().map(ended).collect::<Int64Array>()),
            ),
        ];
        RecordBatch::try_from_iter_with_nullable(
            columns
                .into_iter()
                .map(|(name, column)| (name, column, true)),
        )
    }
}

fn text(comm: Comm) -> String {
    String::from_utf8_lossy(&comm)
        .trim_end_matches('\0')
        .to_owned()
}

fn value_after<'text>(text: &'text str, label: &str) -> Option<&'text str> {
    text.lines()
        .find_map(|line| line.strip_prefix(label))
        .map(str::trim)
}

fn number_after(text: &str, label: &str) -> Option<i32> {
    value_after(text, label)?.parse().ok()
}

/// Field 22 of /proc/PID/stat; the name in field 2 may hold anything, so count from its closing bracket.
fn started_ticks(stat: &str) -> Option<u64> {
    stat.rsplit_once(')')?
        .1
        .split_whitespace()
        .nth(19)?
        .parse()
        .ok()
}

#[cfg(test)]
#[path = "processes_tests.rs"]
mod tests;
