//! What a log's container holds, event by event: for checking the reader against others, and for a look inside.

use std::collections::BTreeMap;
use std::path::Path;

use super::container::{Batch, BufferHeader, FLAG_COMPRESSED, Walker};
use super::events::Events;
use super::header::LogHeader;
use super::read::{Payload, check_ratio, open, payload};
use super::sequence::{Hole, holes};
use crate::crc32;
use crate::error::Unreadable;

/// The first buffers, with checksums of what they store and what it decompresses to.
pub struct BufferSummary {
    pub stored_bytes: usize,
    pub payload_bytes: usize,
    pub stored_crc32: u32,
    pub payload_crc32: u32,
}

/// How many buffers are summarised one by one.
const SUMMARIES: usize = 8;

/// Counts over a whole log.
pub struct Inspection {
    pub header: LogHeader,
    pub buffers: u64,
    pub compressed_buffers: u64,
    pub damaged_buffers: u64,
    pub truncated: bool,
    pub payload_bytes: u64,
    /// Of all payloads in file order.
    pub payload_crc32: u32,
    pub events: u64,
    /// By type byte of the event's header; 0 stands for trace messages.
    pub by_header_type: BTreeMap<u8, u64>,
    /// By group and type, for the header forms that have them.
    pub by_hook: BTreeMap<u16, u64>,
    /// Of the manifest providers that are read.
    pub by_provider: BTreeMap<&'static str, u64>,
    /// Raw timestamps of the earliest and latest event.
    pub span: Option<(i64, i64)>,
    pub holes: Vec<Hole>,
    pub first_buffers: Vec<BufferSummary>,
}

/// Look at every event of a log, in file order, on one thread. `keep_going` is asked after every batch.
pub fn inspect(
    path: &Path,
    keep_going: &mut dyn FnMut() -> bool,
) -> Result<Inspection, Unreadable> {
    let (file, length, header) = open(path)?;
    let mut walker = Walker::new(file, length, header.stride());
    let mut result = Inspection {
        buffers: 0,
        compressed_buffers: 0,
        damaged_buffers: 0,
        truncated: false,
        payload_bytes: 0,
        payload_crc32: 0,
        events: 0,
        by_header_type: BTreeMap::new(),
        by_hook: BTreeMap::new(),
        by_provider: BTreeMap::new(),
        span: None,
        holes: Vec::new(),
        first_buffers: Vec::new(),
        header,
    };
    let (mut batch, mut scratch, mut sequences) = (Batch::default(), Vec::new(), Vec::new());
    while walker.next(&mut batch)? {
        for (_, bytes) in batch.buffers() {
            let Some(buffer) = BufferHeader::parse(bytes) else {
                continue;
            };
            if result.buffers > 0 {
                sequences.push(buffer.sequence);
            }
            result.buffers += 1;
            result.compressed_buffers += u64::from(buffer.flags & FLAG_COMPRESSED != 0);
            match payload(bytes, buffer, &result.header, &mut scratch) {
                Payload::Whole(payload) => result.add(bytes, payload),
                Payload::Clipped(payload) => {
                    result.damaged_buffers += 1;
                    result.add(bytes, payload);
                }
                Payload::Damaged => result.damaged_buffers += 1,
            }
            check_ratio(result.payload_bytes, length)?;
        }
        if !keep_going() {
            return Err(Unreadable::Cancelled);
        }
    }
    result.damaged_buffers += walker.damaged;
    result.truncated = walker.truncated;
    result.holes = holes(sequences, result.header.is_circular());
    Ok(result)
}

impl Inspection {
    fn add(&mut self, stored: &[u8], payload: &[u8]) {
        self.payload_bytes += payload.len() as u64;
        self.payload_crc32 = crc32::update(self.payload_crc32, payload);
        if self.first_buffers.len() < SUMMARIES {
            let stored = &stored[super::container::HEADER_BYTES..];
            self.first_buffers.push(BufferSummary {
                stored_bytes: stored.len(),
                payload_bytes: payload.len(),
                stored_crc32: crc32::update(0, stored),
                payload_crc32: crc32::update(0, payload),
            });
        }
        let mut events = Events::new(payload);
        for event in &mut events {
            self.events += 1;
            *self.by_header_type.entry(event.kind).or_default() += 1;
            if let Some(hook) = event.hook() {
                *self.by_hook.entry(hook).or_default() += 1;
            } else if let Some(event) = event.manifest() {
                *self.by_provider.entry(event.provider.name()).or_default() += 1;
            }
            if let Some(ticks) = event.ticks() {
                self.span = Some(self.span.map_or((ticks, ticks), |(first, last)| {
                    (first.min(ticks), last.max(ticks))
                }));
            }
        }
        self.damaged_buffers += u64::from(events.damaged);
    }
}
