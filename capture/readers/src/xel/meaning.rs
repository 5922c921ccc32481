//! What an event means to a recording, worked out once for each kind of event in the file.

use super::metadata::Event;

/// Which rows an event becomes beside its own in `xevents`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    Read,
    Write,
    Wait,
    LogFlush,
    CheckpointBegin,
    CheckpointEnd,
    Growth,
    Other,
}

/// A column that holds a duration.
#[derive(Clone, Copy, Debug)]
pub struct Duration {
    pub column: usize,
    pub unit_ns: u64,
    /// Whether the file's metadata states the unit; else it is what is documented or used in public.
    pub is_stated: bool,
}

/// A kind of event, and its columns of interest by position.
#[derive(Clone, Debug)]
pub struct Plan {
    pub meaning: Meaning,
    /// Has the name of a completed I/O but lacks its size or duration.
    pub is_unusable_io: bool,
    pub duration: Option<Duration>,
    pub signal: Option<usize>,
    pub database_id: Option<usize>,
    pub database_name: Option<usize>,
    pub file_id: Option<usize>,
    pub path: Option<usize>,
    pub offset: Option<usize>,
    pub size: Option<usize>,
    pub wait_type: Option<usize>,
    pub opcode: Option<usize>,
    pub is_automatic: Option<usize>,
}

impl Plan {
    pub fn of(event: &Event) -> Self {
        let column = |names: &[&str]| {
            names
                .iter()
                .find_map(|name| event.columns.iter().position(|column| column.name == *name))
        };
        let meaning = match event.name.as_str() {
            "file_read_completed" => Meaning::Read,
            "file_write_completed" => Meaning::Write,
            "wait_info" | "wait_info_external" | "wait_completed" | "wait_completed_external" => {
                Meaning::Wait
            }
            "log_flush_complete" => Meaning::LogFlush,
            "checkpoint_begin" => Meaning::CheckpointBegin,
            "checkpoint_end" => Meaning::CheckpointEnd,
            "database_file_size_change" => Meaning::Growth,
            _ => Meaning::Other,
        };
        let duration = column(&["duration"]).and_then(|column| {
            let stated_ns = unit_ns(&event.columns[column].description);
            let usual_ns = matches!(
                meaning,
                Meaning::Read | Meaning::Write | Meaning::Wait | Meaning::LogFlush
            )
            .then_some(1_000_000);
            Some(Duration {
                column,
                unit_ns: stated_ns.or(usual_ns)?,
                is_stated: stated_ns.is_some(),
            })
        });
        let size = column(&["size"]);
        let is_io = matches!(meaning, Meaning::Read | Meaning::Write);
        let is_unusable_io = is_io && (size.is_none() || duration.is_none());
        let is_unusable_wait =
            meaning == Meaning::Wait && (duration.is_none() || column(&["wait_type"]).is_none());
        Self {
            meaning: if is_unusable_io || is_unusable_wait {
                Meaning::Other
            } else {
                meaning
            },
            is_unusable_io,
            duration,
            signal: column(&["signal_duration"]),
            database_id: column(&["database_id"]),
            database_name: column(&["database_name"]),
            file_id: column(&["file_id"]),
            path: column(&["path", "file_path"]),
            offset: column(&["offset"]),
            size,
            wait_type: column(&["wait_type"]),
            opcode: column(&["opcode"]),
            is_automatic: column(&["is_automatic"]),
        }
    }

    pub fn is_io(&self) -> bool {
        matches!(self.meaning, Meaning::Read | Meaning::Write)
    }
}

/// The unit of time that a column's description names, in nanoseconds.
fn unit_ns(description: &str) -> Option<u64> {
    let text = description.to_lowercase();
    [
        ("nanosecond", 1),
        ("microsecond", 1_000),
        ("millisecond", 1_000_000),
        ("second", 1_000_000_000),
    ]
    .into_iter()
    .find_map(|(word, unit_ns)| text.contains(word).then_some(unit_ns))
}

#[test]
fn units_are_read_from_descriptions() {
    assert_eq!(
        unit_ns("The time (in microseconds) that it took"),
        Some(1_000)
    );
    assert_eq!(unit_ns("Duration in Milliseconds"), Some(1_000_000));
    assert_eq!(unit_ns("seconds waited"), Some(1_000_000_000));
    assert_eq!(unit_ns(""), None);
}
