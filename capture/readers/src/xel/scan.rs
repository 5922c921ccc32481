//! The first walk over a file: its metadata, where its buffers are, what they hold and when.
//!
//! Rows can be handed over in order of time in the second walk because the first noted when each buffer begins.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use crate::error::Unreadable;

use super::container::{Buffer, Container, Content};
use super::events::{Events, Raw, field};
use super::meaning::Plan;
use super::metadata::{Clock, Known, Metadata, parse};
use super::sequence::{Missing, Sequence};

/// A kind of event: the position of its signature, and its id.
pub type Kind = (usize, u32);

/// A buffer of events. `first_utc_ns` is the earliest of its events.
pub struct EventBuffer {
    pub place: Buffer,
    pub signature: usize,
    pub first_utc_ns: i64,
}

/// A file of a database, as the events name it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DatabaseFile {
    pub database_id: Option<u64>,
    pub number: Option<u64>,
    pub path: Option<String>,
    pub database: Option<String>,
}

/// Files are known by database and number; where an event lacks these, by path.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum FileKey {
    Number(u64, u64),
    Path(String),
}

/// What was found and what was wrong.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    pub buffers: u64,
    pub events: u64,
    pub damaged: u64,
    pub wrong_checksums: u64,
    /// Wrong checksums before any right one, of buffers that were read all the same.
    pub unchecked_buffers: u64,
    pub broken_metadata: u64,
    pub buffer_holes: u64,
    pub truncated: bool,
    /// Events that no metadata describes.
    pub undescribed: u64,
    /// Events outside 1970 to 2262.
    pub timeless: u64,
    pub unusable_io: u64,
    /// Whether some event bore `event_sequence`.
    pub has_sequence: bool,
    pub missing: Missing,
}

/// All that the first walk tells.
pub struct Scan {
    pub bytes: u64,
    pub signatures: Vec<[u8; 16]>,
    pub known: Known,
    pub plans: HashMap<Kind, Plan>,
    pub buffers: Vec<EventBuffer>,
    pub events: BTreeMap<Kind, u64>,
    pub span_utc_ns: Option<(i64, i64)>,
    pub files: Vec<DatabaseFile>,
    pub file_ids: HashMap<FileKey, usize>,
    pub counts: Counts,
}

impl Scan {
    pub fn metadata(&self, signature: usize) -> Option<&Metadata> {
        self.known.get(self.signatures.get(signature)?)
    }

    /// The clock of the session; a file has one.
    pub fn clock(&self) -> Option<Clock> {
        let first = self.signatures.iter().find_map(|one| self.known.get(one));
        first
            .or_else(|| self.known.values().next())
            .map(|metadata| metadata.clock)
    }
}

/// Walk over the file at `path`. `report` gets bytes done and in all; `false` from it ends the walk.
pub fn scan(path: &Path, report: &mut dyn FnMut(u64, u64) -> bool) -> Result<Scan, Unreadable> {
    let mut container = Container::open(path)?;
    let mut scan = Scan {
        bytes: container.bytes(),
        signatures: Vec::new(),
        known: Known::new(),
        plans: HashMap::new(),
        buffers: Vec::new(),
        events: BTreeMap::new(),
        span_utc_ns: None,
        files: Vec::new(),
        file_ids: HashMap::new(),
        counts: Counts::default(),
    };
    let mut walk = Walk::default();
    let mut payload = Vec::new();
    while let Some(buffer) = container.next_buffer()? {
        let is_right = container.payload(&buffer, &mut payload)?;
        scan.counts.truncated |= is_right.is_none();
        if is_right == Some(true) {
            walk.checksums_hold = true;
        } else if is_right == Some(false) {
            // Should a version of SQL Server compute them in another way, none is right from the first on.
            if walk.checksums_hold {
                scan.counts.wrong_checksums += 1;
                continue;
            }
            scan.counts.unchecked_buffers += 1;
        }
        scan.counts.buffers += 1;
        match buffer.content {
            Content::Metadata => {
                if !parse(&payload, &mut scan.known) && !buffer.is_cut {
                    scan.counts.broken_metadata += 1;
                }
                scan.plans.clear();
            }
            Content::Events => scan.add(buffer, &payload, &mut walk),
            Content::Other => {}
        }
        if !report(container.done(), container.bytes()) {
            return Err(Unreadable::Cancelled);
        }
    }
    scan.counts.damaged += container.damaged;
    scan.counts.truncated |= container.truncated;
    scan.counts.missing = walk.sequence.missing();
    if scan.known.is_empty() {
        return Err(Unreadable::content(
            "holds no description of its events",
            "the file is cut short or damaged near its start; copy it again from the server",
        ));
    }
    scan.plan_again();
    Ok(scan)
}

#[derive(Default)]
struct Walk {
    checksums_hold: bool,
    last_number: i32,
    sequence: Sequence,
    numbers: Vec<u64>,
    /// Of each of `Scan::signatures`.
    positions: HashMap<[u8; 16], usize>,
}

impl Scan {
    fn add(&mut self, place: Buffer, payload: &[u8], walk: &mut Walk) {
        if place.number > 0 {
            if walk.last_number > 0 && place.number > walk.last_number {
                self.counts.buffer_holes += u64::from(place.number - walk.last_number > 1);
            }
            walk.last_number = place.number;
        }
        let signature = *walk.positions.entry(place.signature).or_insert_with(|| {
            self.signatures.push(place.signature);
            self.signatures.len() - 1
        });
        let Some(metadata) = self.known.get(&place.signature) else {
            let mut events = Events::new(payload);
            while events.next().is_some() {
                self.counts.events += 1;
                self.counts.undescribed += 1;
            }
            return;
        };
        let mut events = Events::new(payload);
        let mut first_utc_ns = i64::MAX;
        while let Some(raw) = events.next() {
            self.counts.events += 1;
            let Some(event) = metadata.events.get(&raw.id) else {
                self.counts.undescribed += 1;
                continue;
            };
            let Some(utc_ns) = metadata.clock.utc_ns(raw.ticks) else {
                self.counts.timeless += 1;
                continue;
            };
            first_utc_ns = first_utc_ns.min(utc_ns);
            let span = self.span_utc_ns.get_or_insert((utc_ns, utc_ns));
            *span = (span.0.min(utc_ns), span.1.max(utc_ns));
            let kind = (signature, raw.id);
            *self.events.entry(kind).or_insert(0) += 1;
            let plan = self.plans.entry(kind).or_insert_with(|| Plan::of(event));
            self.counts.unusable_io += u64::from(plan.is_unusable_io);
            if plan.is_io() {
                let (key, file) = file_of(&raw, plan, event, metadata);
                note_file(&mut self.files, &mut self.file_ids, key, file);
            }
            if let Some(wanted) = metadata.sequence_action {
                let bytes = raw.actions().find(|(id, _)| *id == wanted);
                if let Some(number) = bytes.and_then(|(_, bytes)| super::bytes::unsigned(bytes)) {
                    self.counts.has_sequence = true;
                    walk.numbers.push(number);
                }
            }
        }
        if !events.is_at_end() && !place.is_cut {
            self.counts.damaged += 1;
        }
        walk.sequence.add(place.id, &mut walk.numbers);
        self.buffers.push(EventBuffer {
            place,
            signature,
            first_utc_ns,
        });
    }

    /// Metadata may have changed after a plan was made: make them all from what is known at the end.
    fn plan_again(&mut self) {
        self.plans.clear();
        for kind in self.events.keys() {
            let event = self
                .known
                .get(&self.signatures[kind.0])
                .and_then(|metadata| metadata.events.get(&kind.1));
            if let Some(event) = event {
                self.plans.insert(*kind, Plan::of(event));
            }
        }
    }
}

/// Which file an I/O event is about.
pub fn file_of(
    raw: &Raw<'_>,
    plan: &Plan,
    event: &super::metadata::Event,
    metadata: &Metadata,
) -> (Option<FileKey>, DatabaseFile) {
    let value = |column: Option<usize>| field(raw, &event.columns[column?], metadata);
    let number = |column| value(column).and_then(|value| value.unsigned());
    let text = |column| {
        let found = value(column)?.text()?.to_owned();
        (!found.is_empty()).then_some(found)
    };
    let file = DatabaseFile {
        database_id: number(plan.database_id),
        number: number(plan.file_id),
        path: text(plan.path),
        database: text(plan.database_name),
    };
    let key = match (file.database_id, file.number) {
        (Some(database_id), Some(number)) => Some(FileKey::Number(database_id, number)),
        _ => file.path.clone().map(FileKey::Path),
    };
    (key, file)
}

fn note_file(
    files: &mut Vec<DatabaseFile>,
    ids: &mut HashMap<FileKey, usize>,
    key: Option<FileKey>,
    file: DatabaseFile,
) {
    let Some(key) = key else { return };
    let id = *ids.entry(key).or_insert(files.len());
    if id == files.len() {
        files.push(file);
        return;
    }
    // Paths are collected for reads and for writes apart.
    let known = &mut files[id];
    known.path = known.path.take().or(file.path);
    known.database = known.database.take().or(file.database);
}
