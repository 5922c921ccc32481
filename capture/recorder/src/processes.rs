//! Who queued an I/O: a thread seen in the trace, looked up in /proc while it lives.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int32Array, Int64Array, RecordBatch, StringArray};
use arrow_schema::ArrowError;

/// Threads remembered before the memory of them starts anew: a bound where threads come and go by the million.
const THREADS_MAX: usize = 1 << 16;

/// Parent of all kernel threads.
const KTHREADD: i32 = 2;

type Comm = [u8; 16];

/// One row of `processes`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Process {
    os_process_id: i32,
    name: String,
    command_line: Option<String>,
    os_parent_process_id: Option<i32>,
    /// Since boot.
    started_boot_ns: Option<u64>,
}

/// Threads seen so far and the processes they belong to.
#[derive(Debug)]
pub struct Processes {
    own_process: i32,
    tick_ns: u64,
    by_thread: HashMap<(i32, Comm), (i32, bool)>,
    by_process: HashMap<(i32, Option<u64>), i32>,
    rows: Vec<Process>,
}

impl Processes {
    /// `own_process` is recognised as iotrace's own; `ticks_per_second` is the unit of /proc/PID/stat.
    #[must_use]
    pub fn new(own_process: i32, ticks_per_second: u64) -> Self {
        Self {
            own_process,
            tick_ns: 1_000_000_000 / ticks_per_second.max(1),
            by_thread: HashMap::new(),
            by_process: HashMap::new(),
            rows: Vec::new(),
        }
    }

    /// Row of the process that `thread` belongs to, and whether that is iotrace.
    ///
    /// A thread that ended before it was looked up stands for itself, under its own name.
    pub fn of_thread(&mut self, thread: i32, comm: Comm) -> (Option<i32>, bool) {
        if let Some(&(row, own)) = self.by_thread.get(&(thread, comm)) {
            return (Some(row), own);
        }
        let comm_name = String::from_utf8_lossy(&comm)
            .trim_end_matches('\0')
            .to_owned();
        let mut process = self.look_up(thread).unwrap_or_else(|| Process {
            os_process_id: thread,
            name: comm_name.clone(),
            command_line: None,
            os_parent_process_id: None,
            started_boot_ns: None,
        });
        if process.os_parent_process_id == Some(KTHREADD) {
            // /proc adds what the kernel thread happens to do just now.
            process.name = comm_name;
        }
        let own = process.os_process_id == self.own_process;
        let key = (process.os_process_id, process.started_boot_ns);
        let row = *self.by_process.entry(key).or_insert_with(|| {
            self.rows.push(process);
            self.rows.len() as i32 - 1
        });
        if self.by_thread.len() >= THREADS_MAX {
            self.by_thread.clear();
        }
        self.by_thread.insert((thread, comm), (row, own));
        (Some(row), own)
    }

    fn look_up(&self, thread: i32) -> Option<Process> {
        let status = std::fs::read_to_string(format!("/proc/{thread}/status")).ok()?;
        let id = number_after(&status, "Tgid:")?;
        let main = if id == thread {
            status
        } else {
            std::fs::read_to_string(format!("/proc/{id}/status")).ok()?
        };
        let command_line = std::fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
        let command_line = String::from_utf8_lossy(&command_line)
            .replace('\0', " ")
            .trim()
            .to_owned();
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        Some(Process {
            os_process_id: id,
            name: value_after(&main, "Name:")?.to_owned(),
            command_line: (!command_line.is_empty()).then_some(command_line),
            os_parent_process_id: number_after(&main, "PPid:"),
            started_boot_ns: started_ticks(&stat).map(|ticks| ticks.saturating_mul(self.tick_ns)),
        })
    }

    /// The `processes` table; `start_boot_ns` is the recording's start as time since boot.
    pub fn batch(&self, start_boot_ns: u64) -> Result<RecordBatch, ArrowError> {
        let rows = &self.rows;
        // A process that ran before the recording has no start in it.
        let started = |row: &Process| {
            row.started_boot_ns?
                .checked_sub(start_boot_ns)
                .map(|ns| ns as i64)
        };
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
            (
                "name",
                Arc::new(
                    rows.iter()
                        .map(|row| Some(row.name.as_str()))
                        .collect::<StringArray>(),
                ),
            ),
            (
                "command_line",
                Arc::new(
                    rows.iter()
                        .map(|row| row.command_line.as_deref())
                        .collect::<StringArray>(),
                ),
            ),
            (
                "os_parent_process_id",
                Arc::new(
                    rows.iter()
                        .map(|row| row.os_parent_process_id.map(i64::from))
                        .collect::<Int64Array>(),
                ),
            ),
            (
                "started_ns",
                Arc::new(rows.iter().map(started).collect::<Int64Array>()),
            ),
        ];
        RecordBatch::try_from_iter_with_nullable(
            columns
                .into_iter()
                .map(|(name, column)| (name, column, true)),
        )
    }
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
mod tests {
    use super::*;

    #[test]
    fn threads_of_one_process_share_its_row() {
        let own = std::process::id() as i32;
        let mut processes = Processes::new(own, 100);
        assert_eq!(
            processes.of_thread(own, *b"main\0\0\0\0\0\0\0\0\0\0\0\0"),
            (Some(0), true)
        );
        assert_eq!(
            processes.of_thread(own, *b"renamed\0\0\0\0\0\0\0\0\0"),
            (Some(0), true)
        );
        assert_eq!(processes.rows[0].os_process_id, own);
    }

    #[test]
    fn a_thread_that_is_gone_stands_for_itself() {
        let mut processes = Processes::new(1, 100);
        assert_eq!(
            processes.of_thread(i32::MAX, *b"gone\0\0\0\0\0\0\0\0\0\0\0\0"),
            (Some(0), false)
        );
        assert_eq!(
            (
                processes.rows[0].name.as_str(),
                processes.rows[0].os_process_id
            ),
            ("gone", i32::MAX)
        );
    }

    #[test]
    fn the_start_is_found_behind_any_name() {
        let stat = "7 (a) b 1) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4242 20";
        assert_eq!(started_ticks(stat), Some(4242));
    }
}
