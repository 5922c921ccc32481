//! Pairs block events into I/Os on two layers.
//!
//! `block` is a bio, from queued to done; `device` is a request, from issued to the driver to done. A request is made
//! of the bios, or parts of bios, whose sectors it covers: a bio that shares its request is marked merged, a request
//! that is a part of a larger bio is marked split, and a bio is done when its last part is. So merges need no events of
//! their own, and a split whose event is missing is found by its request. A completion of sectors that no request covers
//! ends the bios that wait there: their requests were not traced, or the device works without.
//!
//! A write with a pre-flush, or with forced unit access the device lacks, is a sequence: flush, data, flush. The kernel
//! ends it with one more completion of zero sectors, and there the bio ends. The device layer shows the flushes and
//! the data as requests of their own. A bio that asks for a flush and has no data is a flush on the block layer. It ends
//! with a flush that was issued after it was queued.
//!
//! **Which of two alike ends first.** I/Os of one kind over the very same sectors at the same time cannot be told apart: the
//! later is taken to end first. Whichever is taken, the sum of their times and so the mean is the same. But an I/O
//! whose completion was lost is passed over by all that follow at its place, and stays without an end. Were the
//! older to end first, it would take the end of the next, that one the end of the one after it, and so on: on a place that is
//! written again and again every I/O would show the time since the one before it. The price: where several reads of
//! one place are under way all the time, the slowest look slower than they are (in a simulation with two under way on
//! average the 99th percentile came out 2.5 times too high; with the older first 0.6 times).
//!
//! **Issued again.** A request goes back to the queue (R) and is issued again (D); its device clock begins with the last
//! issue. Where R is missing, a second D over the sectors of a request under way is the same request again if no
//! bio of its own waits there. In traces without bios this cannot be told, and the first of the two stays without an end.
//!
//! Limits: a request of several disjoint discards is matched by its first; bios that md remaps onto a member without a
//! clone of their own stay unpaired on the md device.

use crate::event::{Event, Kind, Layer, Op, Row, flags};
use crate::in_flight::{Bio, BioId, Bios, Device, Few, FlushBio, Fragment, Request, latest};

const EAGAIN: i32 = 11;
const SECTOR_BYTES: u64 = 512;
/// Bios and requests held before all are given up: a bound on memory, reached only if completions never come.
const IN_FLIGHT_MAX: usize = 1 << 20;

/// Who asked for an I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asker {
    /// Its thread.
    pub thread: i32,
    /// Its process, as the caller numbers them.
    pub process: Option<i32>,
    /// Whether it is the recorder itself, whose I/Os are left out.
    pub own: bool,
}

/// What could not be paired, and what was left out on purpose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Starts whose end never came, those under way at the end included.
    pub unpaired_issues: u64,
    /// Ends whose start was not seen.
    pub unpaired_completions: u64,
    /// The recorder's own I/Os (block layer).
    pub own: u64,
    /// Bios turned away because the caller would not wait; the caller asks again.
    pub would_block: u64,
    /// Requests that went back to the queue or were issued again without.
    pub requeues: u64,
}

/// What ended on one device, the recorder's own included: to be held against what the kernel itself counts of that disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ended {
    /// Requests; flushes, which the kernel counts apart, are not among them.
    pub requests: u64,
    /// Their bytes.
    pub request_bytes: u64,
    /// Those of requests that were the recorder's own and became no rows.
    pub own_request_bytes: u64,
    /// Flushes without data that somebody asked for: the kernel counts each as a write of no sectors.
    pub empty_flushes: u64,
    /// Bytes of bios.
    pub bio_bytes: u64,
    /// Those of bios that were the recorder's own and became no rows.
    pub own_bio_bytes: u64,
}

/// State of all devices.
#[derive(Debug, Default)]
pub struct Pairing {
    devices: Vec<Device>,
    bios: Bios,
    requests: usize,
    ended: Vec<Ended>,
    /// See [`Counts`].
    pub counts: Counts,
}

impl Pairing {
    /// For so many devices.
    #[must_use]
    pub fn new(devices: usize) -> Self {
        Self {
            devices: (0..devices).map(|_| Device::default()).collect(),
            ended: vec![Ended::default(); devices],
            ..Self::default()
        }
    }

    /// One device more; its position.
    pub fn add_device(&mut self) -> usize {
        self.devices.push(Device::default());
        self.ended.push(Ended::default());
        self.devices.len() - 1
    }

    /// What has ended so far, by position of the device.
    #[must_use]
    pub fn ended(&self) -> &[Ended] {
        &self.ended
    }

    /// Take in one event of the device at `position`; events come in order of time. `rows` receives the I/Os that end
    /// with it, and their device.
    ///
    /// `asker_of` is asked for every bio that is queued, and for a request without a bio.
    pub fn on_event(
        &mut self,
        position: usize,
        event: &Event,
        asker_of: impl FnOnce(&Event) -> Option<Asker>,
        rows: &mut impl FnMut(usize, Row),
    ) {
        if self.bios.len() + self.requests >= IN_FLIGHT_MAX {
            self.give_up(rows);
        }
        match event.kind {
            Kind::BioQueue => self.on_queue(position, event, asker_of(event)),
            Kind::BioComplete => self.on_bio_complete(position, event, rows),
            Kind::Split => {
                let at = event.sector + event.sectors;
                if let Some(bio) = self.devices[position].split(event.op, event.sector, at) {
                    self.add_fragment(bio);
                }
            }
            Kind::RequestIssue if event.sectors == 0 => {
                self.on_issue_flush(position, event, asker_of);
            }
            Kind::RequestIssue => self.on_issue(position, event, asker_of),
            Kind::RequestRequeue => self.on_requeue(position, event),
            Kind::RequestComplete | Kind::Complete if event.sectors == 0 => {
                self.on_sequence_end(position, event, rows);
            }
            Kind::RequestComplete | Kind::Complete => self.on_complete(position, event, rows),
        }
    }

    /// Give up what is under way, since it could be paired with the wrong end: events were lost, or there are no more.
    /// `rows` receives it without an end.
    pub fn give_up(&mut self, rows: &mut impl FnMut(usize, Row)) {
        for bio in self.bios.drain() {
            if !bio.is_own() {
                self.counts.unpaired_issues += 1;
                rows(bio.device, bio_row(&bio, None));
            }
        }
        for (position, device) in self.devices.iter_mut().enumerate() {
            for request in device.drain_requests() {
                self.counts.unpaired_issues += 1;
                if !request.own {
                    rows(position, request_row(&request, None));
                }
            }
            *device = Device::default();
        }
        self.requests = 0;
    }

    fn on_queue(&mut self, position: usize, event: &Event, asker: Option<Asker>) {
        let empty_flush =
            event.sectors == 0 && (event.op == Op::Flush || event.flags & flags::PREFLUSH != 0);
        if event.sectors == 0 && !empty_flush {
            return;
        }
        let id = self.bios.insert(Bio {
            device: position,
            queued_ns: event.time_ns,
            start: event.sector,
            sectors: event.sectors,
            op: if empty_flush { Op::Flush } else { event.op },
            flags: if empty_flush {
                event.flags & !flags::PREFLUSH
            } else {
                event.flags
            },
            asker,
            fragments: 1,
            error: 0,
        });
        let device = &mut self.devices[position];
        if empty_flush {
            device.flushes_waiting.push(FlushBio {
                bio: id,
                queued_ns: event.time_ns,
            });
        } else {
            let whole = Fragment {
                bio: id,
                start: event.sector,
                end: event.sector + event.sectors,
            };
            device.wait(event.op, whole);
        }
    }

    fn on_bio_complete(
        &mut self,
        position: usize,
        event: &Event,
        rows: &mut impl FnMut(usize, Row),
    ) {
        let device = &mut self.devices[position];
        if let Some(fragment) = device.take_one(event.op, event.sector, event.sectors) {
            self.end_waiting(position, fragment, event, rows);
        } else if can_be_flush(event)
            && let Some(bio) = device.take_flush_bio()
        {
            self.finish(position, bio, event, rows);
        } else if !device.has_requests {
            // With requests it repeats what theirs has said.
            self.counts.unpaired_completions += 1;
        }
    }

    /// A bio that no request carried is done, or was turned away.
    fn end_waiting(
        &mut self,
        position: usize,
        fragment: Fragment,
        event: &Event,
        rows: &mut impl FnMut(usize, Row),
    ) {
        if event.error == EAGAIN {
            self.counts.would_block += 1;
            self.bios.remove(fragment.bio);
        } else {
            self.finish(position, fragment.bio, event, rows);
        }
    }

    fn on_issue(
        &mut self,
        position: usize,
        event: &Event,
        asker_of: impl FnOnce(&Event) -> Option<Asker>,
    ) {
        let end = event.sector + event.sectors;
        let device = &mut self.devices[position];
        device.has_requests = true;
        if !device.has_waiting(event.op, event.sector)
            && let Some(request) = device.take_issued_again(event.op, event.sector, event.sectors)
        {
            self.counts.requeues += 1;
            device.issue(Request {
                issued_ns: event.time_ns,
                ..request
            });
            return;
        }
        let mut cut = Few::new();
        let fragments = device.take(event.op, event.sector, end, |bio| cut.push(bio));
        for bio in cut {
            self.add_fragment(bio);
        }
        let first = fragments
            .first()
            .and_then(|fragment| self.bios.get(fragment.bio));
        let asker = match first {
            Some(bio) => bio.asker,
            None => asker_of(event),
        };
        let mut own = !fragments.is_empty();
        let mut bits = event.flags & !(flags::SPLIT | flags::MERGED);
        for fragment in &fragments {
            let Some(bio) = self.bios.get_mut(fragment.bio) else {
                continue;
            };
            own &= bio.is_own();
            let sectors = fragment.end - fragment.start;
            if sectors < bio.sectors {
                bits |= flags::SPLIT;
            }
            if sectors < event.sectors {
                bio.flags |= flags::MERGED;
            }
        }
        self.requests += 1;
        self.devices[position].issue(Request {
            issued_ns: event.time_ns,
            op: event.op,
            flags: bits,
            start: event.sector,
            end,
            cursor: event.sector,
            fragments,
            error: 0,
            asker,
            own,
        });
    }

    /// A flush serves every bio that waits for one; it is shown as the first one's.
    fn on_issue_flush(
        &mut self,
        position: usize,
        event: &Event,
        asker_of: impl FnOnce(&Event) -> Option<Asker>,
    ) {
        // Until Linux 4.8 it was an empty write with a pre-flush.
        if event.op != Op::Flush && event.flags & flags::PREFLUSH == 0 {
            return;
        }
        let device = &mut self.devices[position];
        device.has_requests = true;
        let sequenced = || device.sequenced.last().map(|fragment| fragment.bio);
        let cause = device.unserved_flush_bio().or_else(sequenced);
        let asker = match cause.and_then(|bio| self.bios.get(bio)) {
            Some(bio) => bio.asker,
            None => asker_of(event),
        };
        self.requests += 1;
        device.flushes_issued.push(Request {
            issued_ns: event.time_ns,
            op: Op::Flush,
            flags: event.flags & !flags::PREFLUSH,
            start: 0,
            end: 0,
            cursor: 0,
            fragments: Few::new(),
            error: 0,
            asker,
            own: cause.is_some() && asker.is_some_and(|asker| asker.own),
        });
    }

    fn on_requeue(&mut self, position: usize, event: &Event) {
        self.counts.requeues += 1;
        let device = &mut self.devices[position];
        let request = if event.sectors == 0 {
            device.flushes_issued.pop()
        } else {
            device.take_request(event.op, event.sector, event.sectors)
        };
        if let Some(request) = request {
            self.requests -= 1;
            for fragment in request.fragments {
                device.wait(event.op, fragment);
            }
        }
    }

    fn on_complete(&mut self, position: usize, event: &Event, rows: &mut impl FnMut(usize, Row)) {
        let device = &mut self.devices[position];
        let Some(mut request) = device.take_request(event.op, event.sector, event.sectors) else {
            self.on_complete_without_request(position, event, rows);
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
            self.end_data(position, fragment, request.flags, event, rows);
        }
        if request.cursor < request.end {
            self.devices[position].issue(request);
        } else {
            self.end_request(position, &request, event, rows);
        }
    }

    fn end_request(
        &mut self,
        position: usize,
        request: &Request,
        event: &Event,
        rows: &mut impl FnMut(usize, Row),
    ) {
        self.requests -= 1;
        let bytes = (request.end - request.start).saturating_mul(SECTOR_BYTES);
        let ended = &mut self.ended[position];
        ended.requests += u64::from(request.op != Op::Flush);
        ended.request_bytes += bytes;
        if request.own {
            ended.own_request_bytes += bytes;
        } else {
            rows(position, request_row(request, Some(event.time_ns)));
        }
    }

    /// The data of a part of a bio is down; that ends it, unless its flush sequence goes on. `bits` are the flags with which
    /// the device was asked.
    fn end_data(
        &mut self,
        position: usize,
        fragment: Fragment,
        bits: u32,
        event: &Event,
        rows: &mut impl FnMut(usize, Row),
    ) {
        let Some(bio) = self.bios.get(fragment.bio) else {
            return;
        };
        // A device that is asked for them needs no sequence.
        let sequence = bio.flags & (flags::PREFLUSH | flags::WRITE_THROUGH) & !bits;
        if sequence == 0 {
            self.finish(position, fragment.bio, event, rows);
        } else {
            self.devices[position].sequenced.push(fragment);
        }
    }

    fn on_complete_without_request(
        &mut self,
        position: usize,
        event: &Event,
        rows: &mut impl FnMut(usize, Row),
    ) {
        let mut cut = Few::new();
        let end = event.sector + event.sectors;
        let fragments =
            self.devices[position].take(event.op, event.sector, end, |bio| cut.push(bio));
        for bio in cut {
            self.add_fragment(bio);
        }
        if fragments.is_empty() {
            self.counts.unpaired_completions += 1;
        }
        for fragment in fragments {
            if event.error == EAGAIN {
                self.end_waiting(position, fragment, event, rows);
                continue;
            }
            if fragment.end - fragment.start < event.sectors
                && let Some(bio) = self.bios.get_mut(fragment.bio)
            {
                bio.flags |= flags::MERGED;
            }
            self.end_data(position, fragment, event.flags, event, rows);
        }
    }

    /// A completion of no sectors: a flush request, the end of a flush sequence, or a flush bio.
    fn on_sequence_end(
        &mut self,
        position: usize,
        event: &Event,
        rows: &mut impl FnMut(usize, Row),
    ) {
        let device = &mut self.devices[position];
        let is_flush = event.op == Op::Flush || event.flags & flags::PREFLUSH != 0;
        if is_flush && let Some(mut request) = device.flushes_issued.pop() {
            request.error = event.error;
            device.flushed_until_ns = device.flushed_until_ns.max(Some(request.issued_ns));
            self.end_request(position, &request, event, rows);
            return;
        }
        // Kernels differ in whether the request still points at its start or already at its end.
        let ended = |part: &Fragment| part.start == event.sector || part.end == event.sector;
        if event.op == Op::Flush {
            self.counts.unpaired_completions += 1;
        } else if let Some(index) = latest(&device.sequenced, ended) {
            let fragment = device.sequenced.remove(index);
            self.finish(position, fragment.bio, event, rows);
        } else if event.kind == Kind::Complete {
            self.on_bio_complete(position, event, rows);
        } else if can_be_flush(event)
            && let Some(bio) = device.take_flush_bio()
        {
            self.finish(position, bio, event, rows);
        } else if can_be_flush(event) {
            self.counts.unpaired_completions += 1;
        }
    }

    fn add_fragment(&mut self, bio: BioId) {
        if let Some(bio) = self.bios.get_mut(bio) {
            bio.fragments += 1;
        }
    }

    /// A part of a bio is done; with the last one the bio is.
    fn finish(
        &mut self,
        position: usize,
        id: BioId,
        event: &Event,
        rows: &mut impl FnMut(usize, Row),
    ) {
        let Some(bio) = self.bios.get_mut(id) else {
            return;
        };
        if bio.error == 0 {
            bio.error = event.error;
        }
        bio.fragments -= 1;
        if bio.fragments > 0 {
            return;
        }
        let bio = self.bios.remove(id).expect("was there a moment ago");
        let bytes = bio.sectors.saturating_mul(SECTOR_BYTES);
        let ended = &mut self.ended[position];
        ended.bio_bytes += bytes;
        ended.empty_flushes += u64::from(bio.op == Op::Flush);
        if bio.is_own() {
            ended.own_bio_bytes += bytes;
            self.counts.own += 1;
        } else {
            rows(position, bio_row(&bio, Some(event.time_ns)));
        }
    }
}

/// Whether a completion may end a bio that asked for a flush: it ends as a write of nothing.
fn can_be_flush(event: &Event) -> bool {
    event.sectors == 0 && matches!(event.op, Op::Write | Op::Flush)
}

fn bio_row(bio: &Bio, completed_ns: Option<u64>) -> Row {
    Row {
        layer: Layer::Block,
        op: bio.op,
        issued_ns: bio.queued_ns,
        // Processors' clocks may differ by a little: a negative duration is none.
        completed_ns: completed_ns.filter(|&end_ns| end_ns >= bio.queued_ns),
        offset_bytes: offset(bio.op, bio.start),
        size_bytes: bytes(bio.sectors),
        process: bio.asker.and_then(|asker| asker.process),
        thread: bio.asker.map(|asker| asker.thread),
        flags: bio.flags,
        error: bio.error,
    }
}

fn request_row(request: &Request, completed_ns: Option<u64>) -> Row {
    Row {
        layer: Layer::Device,
        op: request.op,
        issued_ns: request.issued_ns,
        completed_ns: completed_ns.filter(|&end_ns| end_ns >= request.issued_ns),
        offset_bytes: offset(request.op, request.start),
        size_bytes: bytes(request.end - request.start),
        process: request.asker.and_then(|asker| asker.process),
        thread: request.asker.map(|asker| asker.thread),
        flags: request.flags,
        error: request.error,
    }
}

/// Where it lies; unknown for a flush, and for a sector that no disk has (a damaged trace).
fn offset(op: Op, sector: u64) -> Option<u64> {
    (op != Op::Flush)
        .then(|| sector.checked_mul(SECTOR_BYTES))
        .flatten()
}

fn bytes(sectors: u64) -> u32 {
    u32::try_from(sectors.saturating_mul(SECTOR_BYTES)).unwrap_or(u32::MAX)
}

#[cfg(test)]
#[path = "pairing_tests.rs"]
mod tests;
