//! The second walk: events in order of time, as rows.
//!
//! Events are ordered within a buffer, but buffers of different processors overlap. An event is handed over once no
//! buffer still to come begins before it, so few are held at a time. Where a damaged file would need more than
//! `HELD_BYTES_MAX`, they are handed over early, out of order.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

use crate::error::Unreadable;

use super::bytes::unsigned;
use super::container::Container;
use super::events::{Events, Raw, fields};
use super::meaning::{Meaning, Plan};
use super::metadata::{Event, Metadata};
use super::scan::{Counts, DatabaseFile, FileKey, Scan};
use super::tables::{Batches, IoRow, MarkerRow, WaitRow};
use super::values::{Object, Value, value};

const HELD_BYTES_MAX: usize = 1 << 29;
const BATCH_TEXT_BYTES: usize = 1 << 26;
/// More actions than SQL Server has are damage; the limit keeps an event from growing into long text.
const ACTIONS_MAX: usize = 4096;
/// Longer than this, a duration is no duration.
const DURATION_NS_MAX: u64 = 86_400_000_000_000;

/// Ordered so that the earliest is the greatest: what a heap hands out first.
struct Held {
    utc_ns: i64,
    /// Of two at one moment, the first held comes first.
    number: u64,
    signature: usize,
    buffer: Arc<Vec<u8>>,
    start: usize,
    bytes: usize,
}

impl Ord for Held {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.utc_ns, other.number).cmp(&(self.utc_ns, self.number))
    }
}

impl PartialOrd for Held {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Held {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Held {}

/// What the second walk left out.
#[derive(Clone, Copy, Debug, Default)]
pub struct Dropped {
    /// Events whose columns cannot be told apart.
    pub unreadable_events: u64,
    /// I/Os and waits whose duration cannot be; the I/Os are kept without an end.
    pub durations: u64,
    /// I/Os larger than a recording can say, or without a size.
    pub unplaceable: u64,
    /// I/Os whose duration came out as 0: shorter than the unit.
    pub durations_zero: u64,
}

/// A file read into rows, batch by batch.
pub struct Reader {
    path: PathBuf,
    container: Option<Container>,
    pub scan: Scan,
    pub start_utc_ns: i64,
    /// Of each buffer and all after it, the earliest event.
    earliest: Vec<i64>,
    next_buffer: usize,
    held: BinaryHeap<Held>,
    held_bytes: usize,
    held_count: u64,
    checkpoints: HashMap<Option<u64>, i64>,
    pub dropped: Dropped,
    fields: Object,
    actions: Object,
}

impl Reader {
    pub fn new(path: PathBuf, scan: Scan) -> Self {
        let mut earliest: Vec<i64> = scan
            .buffers
            .iter()
            .rev()
            .scan(i64::MAX, |least, buffer| {
                *least = buffer.first_utc_ns.min(*least);
                Some(*least)
            })
            .collect();
        earliest.reverse();
        let start_utc_ns = scan.span_utc_ns.map_or_else(
            || scan.clock().and_then(|clock| clock.utc_ns(0)).unwrap_or(0),
            |span| span.0,
        );
        Self {
            path,
            container: None,
            scan,
            start_utc_ns,
            earliest,
            next_buffer: 0,
            held: BinaryHeap::new(),
            held_bytes: 0,
            held_count: 0,
            checkpoints: HashMap::new(),
            dropped: Dropped::default(),
            fields: Object::default(),
            actions: Object::default(),
        }
    }

    pub fn counts(&self) -> &Counts {
        &self.scan.counts
    }

    pub fn files(&self) -> &[DatabaseFile] {
        &self.scan.files
    }

    /// Rows of the next at most `count` events; `None` after the last.
    pub fn next(&mut self, count: usize) -> Result<Option<Batches>, Unreadable> {
        let mut batches = Batches::default();
        let mut taken = 0;
        while taken < count.max(1)
            && batches.text_bytes() < BATCH_TEXT_BYTES
            && let Some(held) = self.take()?
        {
            taken += 1;
            let event = &held.buffer[held.start..held.start + held.bytes];
            if let Some(raw) = Events::new(event).next() {
                self.row(&raw, held.utc_ns, held.signature, &mut batches);
            }
        }
        if taken > 0 {
            return Ok(Some(batches));
        }
        if self.checkpoints.is_empty() {
            return Ok(None);
        }
        for (database_id, at_ns) in self.checkpoints.drain() {
            let text = format!("{}end not in the file", database_words(database_id));
            batches.marker(MarkerRow::new(at_ns, None, "checkpoint", Some(text)));
        }
        Ok(Some(batches))
    }

    /// The next event: one that comes before any not yet held.
    fn take(&mut self) -> Result<Option<Held>, Unreadable> {
        while let Some(&to_come) = self.earliest.get(self.next_buffer)
            && self.held_bytes <= HELD_BYTES_MAX
            && self.held.peek().is_none_or(|held| held.utc_ns >= to_come)
        {
            self.load()?;
        }
        let held = self.held.pop();
        self.held_bytes -= held.as_ref().map_or(0, |held| held.bytes);
        Ok(held)
    }

    fn load(&mut self) -> Result<(), Unreadable> {
        let buffer = &self.scan.buffers[self.next_buffer];
        self.next_buffer += 1;
        let container = match &mut self.container {
            Some(container) => container,
            none => none.insert(Container::open(&self.path)?),
        };
        let mut payload = Vec::new();
        container.payload(&buffer.place, &mut payload)?;
        let payload = Arc::new(payload);
        let Some(metadata) = self.scan.metadata(buffer.signature) else {
            return Ok(());
        };
        let mut events = Events::new(&payload);
        loop {
            let start = events.position();
            let Some(raw) = events.next() else { break };
            let bytes = events.position() - start;
            if !metadata.events.contains_key(&raw.id) {
                continue;
            }
            if let Some(utc_ns) = metadata.clock.utc_ns(raw.ticks) {
                self.held_bytes += bytes;
                self.held_count += 1;
                self.held.push(Held {
                    utc_ns,
                    number: self.held_count,
                    signature: buffer.signature,
                    buffer: Arc::clone(&payload),
                    start,
                    bytes,
                });
            }
        }
        Ok(())
    }

    fn row(&mut self, raw: &Raw<'_>, utc_ns: i64, signature: usize, batches: &mut Batches) {
        let Some(metadata) = self.scan.metadata(signature) else {
            return;
        };
        let (Some(event), Some(plan)) = (
            metadata.events.get(&raw.id),
            self.scan.plans.get(&(signature, raw.id)),
        ) else {
            return;
        };
        let Some(values) = fields(raw, event, metadata) else {
            self.dropped.unreadable_events += 1;
            return;
        };
        let at_ns = utc_ns.saturating_sub(self.start_utc_ns);
        let here = Here {
            at_ns,
            event,
            plan,
            values: &values,
        };
        self.fields.begin();
        for (column, value) in event.columns.iter().zip(&values) {
            if let Some(value) = value {
                self.fields.member(&column.name, value);
            }
        }
        let from_actions = actions(raw, metadata, &mut self.actions);
        batches.event(
            at_ns,
            here.duration_ns(),
            &event.package,
            &event.name,
            from_actions.sequence,
            self.fields.end(),
            self.actions.end(),
        );
        match plan.meaning {
            Meaning::Read | Meaning::Write => {
                let key = here.file_key();
                let file = key.and_then(|key| self.scan.file_ids.get(&key)).copied();
                match here.io(file, from_actions.thread) {
                    Some(row) => {
                        self.dropped.durations += u64::from(row.completed_ns.is_none());
                        self.dropped.durations_zero +=
                            u64::from(row.completed_ns == Some(row.issued_ns));
                        batches.io(row);
                    }
                    None => self.dropped.unplaceable += 1,
                }
            }
            Meaning::Wait => {
                if here.text(plan.opcode).is_none_or(|opcode| opcode == "End") {
                    match here.wait(&from_actions) {
                        Some(row) => batches.wait(row),
                        None => self.dropped.durations += 1,
                    }
                }
            }
            Meaning::LogFlush => batches.marker(here.spell("log_flush")),
            Meaning::CheckpointBegin | Meaning::CheckpointEnd => {
                note_checkpoint(&mut self.checkpoints, &here, batches);
            }
            Meaning::Growth => {
                if here.value(plan.is_automatic) != Some(&Value::Boolean(false)) {
                    batches.marker(here.spell("autogrow"));
                }
            }
            Meaning::Other => {}
        }
    }
}

/// Pair the begin and the end of a database's checkpoint into one marker.
fn note_checkpoint(begun: &mut HashMap<Option<u64>, i64>, here: &Here<'_>, batches: &mut Batches) {
    let database_id = here.number(here.plan.database_id);
    let half = |at_ns, missing| {
        let text = format!("{}{missing} not in the file", database_words(database_id));
        MarkerRow::new(at_ns, None, "checkpoint", Some(text))
    };
    if here.plan.meaning == Meaning::CheckpointBegin {
        if let Some(began_ns) = begun.insert(database_id, here.at_ns) {
            batches.marker(half(began_ns, "end"));
        }
    } else if let Some(began_ns) = begun.remove(&database_id) {
        let duration_ns = here.at_ns - began_ns;
        batches.marker(MarkerRow::new(
            began_ns,
            Some(duration_ns),
            "checkpoint",
            here.words(),
        ));
    } else {
        batches.marker(half(here.at_ns, "begin"));
    }
}

/// What the actions tell that has a column of its own.
#[derive(Default)]
struct FromActions {
    sequence: Option<u64>,
    session: Option<i32>,
    thread: Option<i32>,
    database: Option<String>,
}

/// Write all actions to `out`; names that occur twice are told apart by their package.
fn actions(raw: &Raw<'_>, metadata: &Metadata, out: &mut Object) -> FromActions {
    let mut told = FromActions::default();
    let mut seen: HashSet<&str> = HashSet::new();
    out.begin();
    for (id, bytes) in raw.actions().take(ACTIONS_MAX) {
        let Some(action) = metadata.actions.get(&id) else {
            out.member(&format!("action_{id:#x}"), &Value::Binary(bytes));
            continue;
        };
        let decoded = metadata
            .type_of(action.type_id)
            .and_then(|of| value(bytes, of, metadata))
            .unwrap_or(Value::Binary(bytes));
        let small = || unsigned(bytes).and_then(|number| i32::try_from(number).ok());
        match action.name.as_str() {
            "event_sequence" => told.sequence = decoded.unsigned(),
            "session_id" => told.session = small(),
            "system_thread_id" => told.thread = small(),
            "database_name" => told.database = decoded.text().map(str::to_owned),
            _ => {}
        }
        if seen.insert(&action.name) {
            out.member(&action.name, &decoded);
        } else {
            out.member(&format!("{}.{}", action.package, action.name), &decoded);
        }
    }
    told
}

/// One event and what is known of its kind.
struct Here<'a> {
    at_ns: i64,
    event: &'a Event,
    plan: &'a Plan,
    values: &'a [Option<Value<'a>>],
}

impl Here<'_> {
    fn value(&self, column: Option<usize>) -> Option<&Value<'_>> {
        self.values.get(column?)?.as_ref()
    }

    fn number(&self, column: Option<usize>) -> Option<u64> {
        self.value(column)?.unsigned()
    }

    fn text(&self, column: Option<usize>) -> Option<&str> {
        self.value(column)?.text()
    }

    /// `None` where the event has no duration, or one that cannot be.
    fn duration_ns(&self) -> Option<i64> {
        let of = self.plan.duration?;
        let value = self.number(Some(of.column))?;
        let duration_ns = value.checked_mul(of.unit_ns)?;
        i64::try_from(duration_ns)
            .ok()
            .filter(|_| duration_ns <= DURATION_NS_MAX)
    }

    /// A marker for something that this event ends.
    fn spell(&self, kind: &'static str) -> MarkerRow {
        let duration_ns = self.duration_ns();
        let began_ns = self.at_ns - duration_ns.unwrap_or(0);
        MarkerRow::new(began_ns, duration_ns, kind, self.words())
    }

    fn file_key(&self) -> Option<FileKey> {
        let database_id = self.number(self.plan.database_id);
        let number = self.number(self.plan.file_id);
        database_id
            .zip(number)
            .map(|(database_id, number)| FileKey::Number(database_id, number))
            .or_else(|| {
                let path = self.text(self.plan.path).filter(|path| !path.is_empty())?;
                Some(FileKey::Path(path.to_owned()))
            })
    }

    fn io(&self, file: Option<usize>, thread_id: Option<i32>) -> Option<IoRow> {
        let duration_ns = self.duration_ns();
        Some(IoRow {
            is_write: self.plan.meaning == Meaning::Write,
            issued_ns: self.at_ns - duration_ns.unwrap_or(0),
            completed_ns: duration_ns.map(|_| self.at_ns),
            offset_bytes: self.number(self.plan.offset),
            size_bytes: u32::try_from(self.number(self.plan.size)?).ok()?,
            file_id: file.and_then(|id| i32::try_from(id).ok()),
            thread_id,
        })
    }

    fn wait(&self, actions: &FromActions) -> Option<WaitRow> {
        let unit_ns = self.plan.duration?.unit_ns;
        let signal = self.number(self.plan.signal);
        Some(WaitRow {
            at_ns: self.at_ns,
            wait_type: self.text(self.plan.wait_type)?.to_owned(),
            duration_ns: self.duration_ns()?,
            signal_ns: signal
                .and_then(|number| number.checked_mul(unit_ns))
                .and_then(|signal_ns| i64::try_from(signal_ns).ok()),
            session: actions.session,
            database: actions.database.clone(),
        })
    }

    /// The numbers and names of the event in its own words; durations are told elsewhere.
    fn words(&self) -> Option<String> {
        let columns = self.event.columns.iter().zip(self.values).enumerate();
        let words: Vec<String> = columns
            .filter(|(position, _)| self.plan.duration.is_none_or(|of| of.column != *position))
            .filter_map(|(_, (column, value))| {
                let value = match value.as_ref()? {
                    Value::Signed(number) => number.to_string(),
                    Value::Unsigned(number) => number.to_string(),
                    Value::Text(text) if !text.is_empty() => text.clone(),
                    _ => return None,
                };
                Some(format!("{} {value}", column.name))
            })
            .collect();
        (!words.is_empty()).then(|| words.join(", "))
    }
}

fn database_words(database_id: Option<u64>) -> String {
    database_id.map_or_else(String::new, |id| format!("database_id {id}, "))
}
