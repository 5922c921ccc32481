//! Several files of events in one order of time, paired as they pass: memory grows with what is in flight only.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap, HashSet};
use std::fs::File;
use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::{
    ArrayRef, Int8Array, Int32Array, Int64Array, RecordBatch, StringArray, UInt32Array, UInt64Array,
};
use arrow_schema::ArrowError;
use iotrace_block::{Asker, Kind, Layer, Pairing, Row};

use super::binary::{Binary, byte_order};
use super::blkparse::Blkparse;
use super::event::{Facts, Happening, Source, What};
use super::perf::Perf;
use super::remaps::Remaps;
use crate::error::Unreadable;
use crate::hashing::NumberMap;

/// Events read ahead of each file, so that small disorder within it is put right.
const AHEAD: usize = 4096;
/// The same where one file holds all processors, each in blocks of its own.
const AHEAD_ALONE: usize = 1 << 17;

/// Of a bio, here alone: a volume sent it on, and it is on the block layer as the volume's already.
const SENT_ON: u32 = 1 << 31;

/// Whether a row is an I/O of its own on its layer.
fn counts(row: &Row, sent_on: &mut u64) -> bool {
    let is_again = row.layer == Layer::Block && row.flags & SENT_ON != 0;
    *sent_on += u64::from(is_again);
    !is_again
}

/// The order it was read in, its source, and what it is.
struct Ahead(u64, usize, Happening);

impl PartialEq for Ahead {
    fn eq(&self, other: &Self) -> bool {
        (self.2.time_ns, self.0) == (other.2.time_ns, other.0)
    }
}
impl Eq for Ahead {}
impl PartialOrd for Ahead {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Ahead {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.2.time_ns, self.0).cmp(&(other.2.time_ns, other.0))
    }
}

pub struct Reader {
    sources: Vec<Box<dyn Source>>,
    heap: BinaryHeap<Reverse<Ahead>>,
    pub facts: Facts,
    pub pairing: Pairing,
    remaps: Remaps,
    /// Devices on which bios were queued.
    with_bios: HashSet<u32>,
    /// I/Os on the block layer that a volume sent on, and that are not handed out.
    pub sent_on: u64,
    /// Rows that are finished, to be handed out, and their device's kernel number.
    rows: Vec<(u32, Row)>,
    /// Events that are earlier than the one before them.
    pub backwards: u64,
    number: u64,
    pub first_ns: Option<u64>,
    pub last_ns: u64,
    is_done: bool,
    /// Positions in the pairing by kernel number, and back.
    positions: NumberMap<u32, usize>,
    numbers: Vec<u32>,
    devices: BTreeMap<u32, i32>,
    new_devices: Vec<u32>,
    threads: HashMap<i32, i32>,
    new_threads: Vec<i32>,
    pub kept: u64,
}

impl Reader {
    /// Open files of one kind: "blktrace", "blkparse" or "perf".
    pub fn open(paths: &[PathBuf], kind: &str) -> Result<Self, Unreadable> {
        let mut sources: Vec<Box<dyn Source>> = Vec::new();
        for path in paths {
            let mut file = File::open(path)?;
            sources.push(match kind {
                "blkparse" => Box::new(Blkparse::new(file)),
                "perf" => Box::new(Perf::new(file)),
                _ => {
                    let mut head = Vec::new();
                    file.by_ref().take(4).read_to_end(&mut head)?;
                    // A processor that saw no I/O leaves an empty file.
                    if head.is_empty() {
                        continue;
                    }
                    let Some(order) = byte_order(&head) else {
                        return Err(Unreadable::content(
                            "is no blktrace file of version 7",
                            "take the trace with a blktrace that writes version 7, or hand over blkparse's text",
                        ));
                    };
                    Box::new(Binary::new(File::open(path)?, order))
                }
            });
        }
        let mut reader = Self {
            sources,
            heap: BinaryHeap::new(),
            facts: Facts::default(),
            pairing: Pairing::default(),
            remaps: Remaps::default(),
            with_bios: HashSet::new(),
            sent_on: 0,
            rows: Vec::new(),
            backwards: 0,
            number: 0,
            first_ns: None,
            last_ns: 0,
            is_done: false,
            positions: NumberMap::default(),
            numbers: Vec::new(),
            devices: BTreeMap::new(),
            new_devices: Vec::new(),
            threads: HashMap::new(),
            new_threads: Vec::new(),
            kept: 0,
        };
        let ahead = if reader.sources.len() == 1 {
            AHEAD_ALONE
        } else {
            AHEAD
        };
        for source in 0..reader.sources.len() {
            for _ in 0..ahead {
                if !reader.refill(source)? {
                    break;
                }
            }
        }
        reader.first_ns = reader.heap.peek().map(|Reverse(ahead)| ahead.2.time_ns);
        reader.last_ns = reader.first_ns.unwrap_or(0);
        Ok(reader)
    }

    fn refill(&mut self, source: usize) -> Result<bool, Unreadable> {
        let Some(happening) = self.sources[source].next(&mut self.facts)? else {
            return Ok(false);
        };
        self.number += 1;
        self.heap
            .push(Reverse(Ahead(self.number, source, happening)));
        Ok(true)
    }

    pub fn position(&self) -> u64 {
        self.sources.iter().map(|source| source.position()).sum()
    }

    fn pair(&mut self, happening: &Happening) {
        if happening.time_ns < self.last_ns {
            self.backwards += 1;
        }
        self.last_ns = self.last_ns.max(happening.time_ns);
        let mut event = match &happening.what {
            What::Event(event) => *event,
            What::Remap(remap) => {
                let from_has_bios = self.with_bios.contains(&remap.from);
                self.remaps.learn(*remap, from_has_bios);
                return;
            }
            What::Other => return,
        };
        if event.kind == Kind::BioQueue {
            self.with_bios.insert(event.device);
            if self.remaps.is_sent_on(event.device, event.sector) {
                event.flags |= SENT_ON;
            }
        }
        let position = *self.positions.entry(event.device).or_insert_with(|| {
            self.numbers.push(event.device);
            self.pairing.add_device()
        });
        let (rows, numbers) = (&mut self.rows, &self.numbers);
        // A request without its bio is most likely the asker's own doing: most are issued by whoever queued them.
        let asker_of = |event: &iotrace_block::Event| {
            Some(Asker {
                thread: event.thread,
                process: None,
                own: false,
            })
        };
        let mut push = |position: usize, row: Row| {
            if counts(&row, &mut self.sent_on) {
                rows.push((numbers[position], row));
            }
        };
        self.pairing.on_event(position, &event, asker_of, &mut push);
    }

    fn finish(&mut self) {
        let (rows, numbers) = (&mut self.rows, &self.numbers);
        let ended = rows.len();
        self.pairing.give_up(&mut |position, row| {
            if counts(&row, &mut self.sent_on) {
                rows.push((numbers[position], row));
            }
        });
        rows[ended..].sort_by_key(|(_, row)| (row.issued_ns, row.layer, row.offset_bytes));
        for source in &mut self.sources {
            source.finish(&mut self.facts);
        }
        self.is_done = true;
    }

    /// Read on until about `rows` rows are finished, each with its device's kernel number; None when everything is handed out.
    pub fn next_rows(&mut self, rows: usize) -> Result<Option<Vec<(u32, Row)>>, Unreadable> {
        while !self.is_done && self.rows.len() < rows {
            let Some(Reverse(Ahead(_, source, happening))) = self.heap.pop() else {
                self.finish();
                break;
            };
            self.refill(source)?;
            self.pair(&happening);
        }
        let rows = std::mem::take(&mut self.rows);
        if rows.is_empty() && self.is_done {
            return Ok(None);
        }
        self.kept += rows.len() as u64;
        for (device, row) in &rows {
            let count = self.devices.len() as i32;
            self.devices.entry(*device).or_insert_with(|| {
                self.new_devices.push(*device);
                count
            });
            let count = self.threads.len() as i32;
            if let Some(thread) = row.thread {
                self.threads.entry(thread).or_insert_with(|| {
                    self.new_threads.push(thread);
                    count
                });
            }
        }
        Ok(Some(rows))
    }

    /// Rows of `io`, times since the trace's first event.
    pub fn ios(&self, rows: &[(u32, Row)]) -> Result<RecordBatch, ArrowError> {
        let start_ns = self.first_ns.unwrap_or(0) as i64;
        let io = || rows.iter().map(|(_, row)| row);
        let completed = |row: &Row| row.completed_ns.map(|end_ns| end_ns as i64 - start_ns);
        let process = |row: &Row| row.thread.map(|thread| self.threads[&thread]);
        let columns: Vec<(&str, ArrayRef, bool)> = vec![
            (
                "layer",
                Arc::new(Int8Array::from_iter_values(io().map(|row| row.layer as i8))),
                false,
            ),
            (
                "op",
                Arc::new(Int8Array::from_iter_values(io().map(|row| row.op as i8))),
                false,
            ),
            (
                "issued_ns",
                Arc::new(Int64Array::from_iter_values(
                    io().map(|row| row.issued_ns as i64 - start_ns),
                )),
                false,
            ),
            (
                "completed_ns",
                Arc::new(io().map(completed).collect::<Int64Array>()),
                true,
            ),
            (
                "offset_bytes",
                Arc::new(io().map(|row| row.offset_bytes).collect::<UInt64Array>()),
                true,
            ),
            (
                "size_bytes",
                Arc::new(UInt32Array::from_iter_values(
                    io().map(|row| row.size_bytes),
                )),
                false,
            ),
            (
                "device_id",
                Arc::new(Int32Array::from_iter_values(
                    rows.iter().map(|(device, _)| self.devices[device]),
                )),
                false,
            ),
            (
                "process_id",
                Arc::new(io().map(process).collect::<Int32Array>()),
                true,
            ),
            (
                "thread_id",
                Arc::new(io().map(|row| row.thread).collect::<Int32Array>()),
                true,
            ),
            (
                "flags",
                Arc::new(UInt32Array::from_iter_values(io().map(|row| row.flags))),
                false,
            ),
            (
                "error",
                Arc::new(Int32Array::from_iter_values(io().map(|row| row.error))),
                false,
            ),
        ];
        RecordBatch::try_from_iter_with_nullable(columns)
    }

    /// Devices that the rows handed out so far are the first to name: id and kernel number.
    pub fn take_devices(&mut self) -> Vec<(i32, u32)> {
        let new = std::mem::take(&mut self.new_devices);
        new.into_iter()
            .map(|device| (self.devices[&device], device))
            .collect()
    }

    /// Partitions that remaps told of: id, kernel number, the disk's id, first byte.
    pub fn take_partitions(&mut self) -> Vec<(i32, u32, i32, u64)> {
        let mut partitions = Vec::new();
        let told: Vec<_> = self.remaps.partitions().collect();
        for (device, parent, shift) in told {
            let Some(parent) = self.devices.get(&parent).copied() else {
                continue;
            };
            if !self.devices.contains_key(&device) {
                let id = self.devices.len() as i32;
                self.devices.insert(device, id);
                partitions.push((id, device, parent, shift.saturating_mul(512)));
            }
        }
        partitions
    }

    /// Threads that the rows handed out so far are the first to name.
    pub fn take_threads(&mut self) -> Result<RecordBatch, ArrowError> {
        let new = std::mem::take(&mut self.new_threads);
        let names = new.iter().map(|thread| match thread {
            0 => Some("idle"),
            _ => self.facts.names.get(thread).map(String::as_str),
        });
        let columns: Vec<(&str, ArrayRef, bool)> = vec![
            (
                "process_id",
                Arc::new(Int32Array::from_iter_values(
                    new.iter().map(|thread| self.threads[thread]),
                )),
                false,
            ),
            (
                "os_process_id",
                Arc::new(Int64Array::from_iter_values(
                    new.iter().map(|thread| i64::from(*thread)),
                )),
                false,
            ),
            ("name", Arc::new(names.collect::<StringArray>()), true),
        ];
        RecordBatch::try_from_iter_with_nullable(columns)
    }
}
