//! Pairs block events into I/Os on two layers.
//!
//! `block` is a bio, from queued to done; `device` is a request, from issued to the driver to done. A request is made
//! of the bios, or parts of bios, whose sectors it covers: a bio that shares its request is marked merged, a request
//! that is a part of a larger bio is marked split, and a bio is done when its last part is.
//!
//! A write with a pre-flush, or with forced unit access the device lacks, is a sequence: flush, data, flush. The kernel
//! ends it with one more completion of zero sectors, and there the bio ends. The device layer shows the flushes and
//! the data as requests of their own. A bio that asks for a flush and has no data is a flush on the block layer.
//!
//! Limits: of I/Os over the very same sectors at the same time the oldest is taken to be done first; a request of
//! several disjoint discards is matched by its first; bios that md remaps onto a member without a clone of their own
//! stay unpaired on the md device.

use std::collections::HashMap;

use rustc_hash::FxHashMap;

use crate::event::{Event, Kind, Op, flags};
use crate::pending::{Bio, BioId, Bios, Device, Few, Fragment, Request};
use crate::rows::{Layer, Row, Rows};

const EAGAIN: i32 = 11;
const SECTOR_BYTES: u64 = 512;
/// Bios held before the oldest are given up: a bound on memory, reached only if completions never come.
const BIOS_MAX: usize = 1 << 20;

/// A device asked for.
#[derive(Clone, Copy, Debug)]
pub struct DeviceIds {
    /// Row of `devices`.
    pub device_id: i32,
    /// Row of `files` its I/O is attributed to.
    pub file_id: Option<i32>,
}

/// What could not be paired, and what was left out on purpose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Starts whose end never came, those under way at the end included.
    pub unpaired_issues: u64,
    /// Ends whose start was not seen.
    pub unpaired_completions: u64,
    /// iotrace's own I/Os (block layer).
    pub own: u64,
    /// Bios turned away because the caller would not wait; the caller asks again.
    pub would_block: u64,
}

/// State of all devices.
#[derive(Debug, Default)]
pub struct Tracker {
    /// Kernel device number (of a disk or its partitions) → position.
    positions: FxHashMap<u32, usize>,
    ids: Vec<DeviceIds>,
    devices: Vec<Device>,
    bios: Bios,
    /// See [`Counts`].
    pub counts: Counts,
}

impl Tracker {
    /// `numbers`: kernel device number → position in `ids`; a disk's partitions lead to the disk.
    #[must_use]
    pub fn new(numbers: HashMap<u32, usize>, ids: Vec<DeviceIds>) -> Self {
        let devices = ids.iter().map(|_| Device::default()).collect();
        Self {
            positions: numbers.into_iter().collect(),
            ids,
            devices,
            ..Self::default()
        }
    }

    /// Take in one event; `process_of` names the thread that queued a bio and tells whether it is iotrace's own.
    pub fn on_event(
        &mut self,
        event: &Event,
        rows: &mut Rows,
        process_of: impl FnOnce(&Event) -> (Option<i32>, bool),
    ) {
        let Some(&position) = self.positions.get(&event.device) else {
            return;
        };
        match event.kind {
            Kind::BioQueue => self.on_queue(position, event, process_of(event)),
            Kind::BioComplete => self.on_bio_complete(position, event, rows),
            Kind::Split => {
                if let Some(bio) =
                    self.devices[position].split(event.op, event.sector, event.sectors)
                {
                    self.add_fragment(bio);
                }
            }
            Kind::RequestIssue => self.on_issue(position, event),
            Kind::RequestRequeue => self.on_requeue(position, event),
            Kind::RequestComplete if event.sectors == 0 => {
                self.on_sequence_end(position, event, rows);
            }
            Kind::RequestComplete => self.on_complete(position, event, rows),
        }
    }

    /// Events were lost: what is under way could be paired with the wrong end, so it is given up.
    pub fn resynchronise(&mut self) {
        self.counts.unpaired_issues += self.bios.drain().filter(|bio| !bio.own).count() as u64;
        self.counts.unpaired_issues += self
            .devices
            .iter()
            .map(|device| device.requests() as u64)
            .sum::<u64>();
        self.devices
            .iter_mut()
            .for_each(|device| *device = Device::default());
    }

    fn on_queue(&mut self, position: usize, event: &Event, (process, own): (Option<i32>, bool)) {
        let empty_flush =
            event.sectors == 0 && (event.op == Op::Flush || event.flags & flags::PREFLUSH != 0);
        if event.sectors == 0 && !empty_flush {
            return;
        }
        if self.bios.len() >= BIOS_MAX {
            self.resynchronise();
        }
        let id = self.bios.insert(Bio {
            queued_ns: event.time_ns,
            start: event.sector,
            sectors: event.sectors,
            op: if empty_flush { Op::Flush } else { event.op },
            flags: if empty_flush {
                event.flags & !flags::PREFLUSH
            } else {
                event.flags
            },
            thread: event.thread,
            process,
            own,
            fragments: 1,
            error: 0,
        });
        let device = &mut self.devices[position];
        if empty_flush {
            device.flushes_waiting.push_back(id);
        } else {
            device.wait(
                event.op,
                Fragment {
                    bio: id,
                    start: event.sector,
                    end: event.sector + event.sectors,
                },
            );
        }
    }

    fn on_bio_complete(&mut self, position: usize, event: &Event, rows: &mut Rows) {
        let device = &mut self.devices[position];
        if let Some(fragment) = device.take_one(event.op, event.sector, event.sectors) {
            if event.error == EAGAIN {
                self.counts.would_block += 1;
                self.bios.remove(fragment.bio);
                return;
            }
            self.finish(position, fragment, event, rows);
        } else if event.sectors == 0
            && let Some(bio) = device.flushes_waiting.pop_front()
        {
            self.finish(
                position,
                Fragment {
                    bio,
                    start: 0,
                    end: 0,
                },
                event,
                rows,
            );
        } else {
            self.counts.unpaired_completions += 1;
        }
    }

    fn on_issue(&mut self, position: usize, event: &Event) {
        if event.sectors == 0 {
            self.on_issue_flush(position, event);
            return;
        }
        let end = event.sector + event.sectors;
        let mut cut = Vec::new();
        let fragments =
            self.devices[position].take(event.op, event.sector, end, |bio| cut.push(bio));
        for bio in cut {
            self.add_fragment(bio);
        }
        let first = fragments
            .first()
            .and_then(|fragment| self.bios.get(fragment.bio));
        let (thread, process) = (
            first.map(|bio| bio.thread),
            first.and_then(|bio| bio.process),
        );
        let mut own = !fragments.is_empty();
        let mut bits = event.flags & !(flags::SPLIT | flags::MERGED);
        for fragment in &fragments {
            let Some(bio) = self.bios.get_mut(fragment.bio) else {
                continue;
            };
            own &= bio.own;
            if fragment.end - fragment.start < bio.sectors {
                bits |= flags::SPLIT;
            }
            if fragment.end - fragment.start < event.sectors {
                bio.flags |= flags::MERGED;
            }
        }
        self.devices[position].issue(Request {
            issued_ns: event.time_ns,
            op: event.op,
            flags: bits,
            start: event.sector,
            end,
            cursor: event.sector,
            fragments,
            error: 0,
            thread,
            process,
            own,
        });
    }

    /// A flush serves every bio that waits for one; it is shown as the oldest one's.
    fn on_issue_flush(&mut self, position: usize, event: &Event) {
        if event.op != Op::Flush {
            return;
        }
        let device = &mut self.devices[position];
        let cause = device
            .flushes_waiting
            .front()
            .or(device.sequenced.first().map(|fragment| &fragment.bio));
        let bio = cause.and_then(|&bio| self.bios.get(bio));
        let request = Request {
            issued_ns: event.time_ns,
            op: Op::Flush,
            flags: event.flags,
            start: 0,
            end: 0,
            cursor: 0,
            fragments: Few::new(),
            error: 0,
            thread: bio.map(|bio| bio.thread),
            process: bio.and_then(|bio| bio.process),
            own: bio.is_some_and(|bio| bio.own),
        };
        device.flushes_issued.push_back(request);
    }

    fn on_requeue(&mut self, position: usize, event: &Event) {
        let device = &mut self.devices[position];
        if event.op == Op::Flush {
            device.flushes_issued.pop_back();
        } else if let Some(request) = device.take_request(event.op, event.sector, event.sectors) {
            request
                .fragments
                .into_iter()
                .for_each(|fragment| device.wait(event.op, fragment));
        }
    }

    fn on_complete(&mut self, position: usize, event: &Event, rows: &mut Rows) {
        let Some(mut request) =
            self.devices[position].take_request(event.op, event.sector, event.sectors)
        else {
            self.counts.unpaired_completions += 1;
            return;
        };
        request.cursor += event.sectors;
        if request.error == 0 {
            request.error = event.error;
        }
        let done = request
            .fragments
            .iter()
            .take_while(|fragment| fragment.end <= request.cursor)
            .count();
        for fragment in request.fragments.drain(..done) {
            let Some(bio) = self.bios.get(fragment.bio) else {
                continue;
            };
            let wants_unit_access = bio.flags & flags::WRITE_THROUGH != 0;
            let has_unit_access = request.flags & flags::WRITE_THROUGH != 0;
            if bio.flags & flags::PREFLUSH != 0 || (wants_unit_access && !has_unit_access) {
                self.devices[position].sequenced.push(fragment);
            } else {
                self.finish(position, fragment, event, rows);
            }
        }
        if request.cursor < request.end {
            self.devices[position].issue(request);
        } else {
            self.emit_request(position, &request, event.time_ns, rows);
        }
    }

    /// A completion of no sectors: a flush request, the end of a flush sequence, or a flush bio.
    fn on_sequence_end(&mut self, position: usize, event: &Event, rows: &mut Rows) {
        let device = &mut self.devices[position];
        if event.op == Op::Flush {
            if let Some(mut request) = device.flushes_issued.pop_front() {
                request.error = event.error;
                self.emit_request(position, &request, event.time_ns, rows);
            } else {
                self.counts.unpaired_completions += 1;
            }
            return;
        }
        // Kernels differ in whether the request still points at its start or already at its end.
        let ended = |part: &Fragment| part.start == event.sector || part.end == event.sector;
        if let Some(index) = device.sequenced.iter().position(ended) {
            let fragment = device.sequenced.remove(index);
            self.finish(position, fragment, event, rows);
        } else if let Some(bio) = device.flushes_waiting.pop_front() {
            self.finish(
                position,
                Fragment {
                    bio,
                    start: 0,
                    end: 0,
                },
                event,
                rows,
            );
        } else {
            self.counts.unpaired_completions += 1;
        }
    }

    fn add_fragment(&mut self, bio: BioId) {
        if let Some(bio) = self.bios.get_mut(bio) {
            bio.fragments += 1;
        }
    }

    /// A part of a bio is done; with the last one the bio is.
    fn finish(&mut self, position: usize, fragment: Fragment, event: &Event, rows: &mut Rows) {
        let Some(bio) = self.bios.get_mut(fragment.bio) else {
            return;
        };
        if bio.error == 0 {
            bio.error = event.error;
        }
        bio.fragments -= 1;
        if bio.fragments > 0 {
            return;
        }
        let bio = self
            .bios
            .remove(fragment.bio)
            .expect("was there a moment ago");
        if bio.own {
            self.counts.own += 1;
            return;
        }
        rows.push(Row {
            layer: Layer::Block,
            op: bio.op,
            issued_ns: bio.queued_ns,
            completed_ns: event.time_ns,
            offset_bytes: (bio.op != Op::Flush).then_some(bio.start * SECTOR_BYTES),
            size_bytes: bytes(bio.sectors),
            ids: self.ids[position],
            process: bio.process,
            thread: Some(bio.thread),
            flags: bio.flags,
            error: bio.error,
        });
    }

    fn emit_request(&self, position: usize, request: &Request, completed_ns: u64, rows: &mut Rows) {
        if request.own {
            return;
        }
        rows.push(Row {
            layer: Layer::Device,
            op: request.op,
            issued_ns: request.issued_ns,
            completed_ns,
            offset_bytes: (request.op != Op::Flush).then_some(request.start * SECTOR_BYTES),
            size_bytes: bytes(request.end - request.start),
            ids: self.ids[position],
            process: request.process,
            thread: request.thread,
            flags: request.flags,
            error: request.error,
        });
    }
}

fn bytes(sectors: u64) -> u32 {
    u32::try_from(sectors.saturating_mul(SECTOR_BYTES)).unwrap_or(u32::MAX)
}

#[cfg(test)]
#[path = "tracker_tests.rs"]
mod tests;
