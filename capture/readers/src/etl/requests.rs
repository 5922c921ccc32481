//! Requests of the port driver: which of its events is a request's row, and what tells its position.
//!
//! A log may describe one request several times (its dispatch, its completion, its time in the stack and in the device).
//! One kind of event makes the rows of a whole log, the first there is of: the time in the lower driver stack (201), the
//! time in the target device (200), the whole command (222, 223), the completion (208, 211). The position comes from the
//! dispatch of the same Irp, or the disk I/O whose Irp the request names as its original.

use super::counts::Counts;
use super::facts::{DiskIo, Op, Request, RequestKind};
use crate::hashing::NumberMap;

/// Requests that wait for their disk I/O. More than any queue is deep: beyond, the trace lacks the disk I/O.
const HELD_MAX: usize = 1 << 16;
const STATUS_IO_DEVICE_ERROR: i32 = 0xC000_0185_u32.cast_signed();
const SRB_STATUS_SUCCESS: u8 = 1;
/// Bits beside the status: sense data there, queue frozen.
const SRB_STATUS_MASK: u8 = 0x3F;

/// When a request began.
#[derive(Debug, Clone, Copy)]
pub enum Began {
    /// Raw timestamp.
    At(i64),
    /// 100 ns each before its completion.
    Before(u64),
    Unknown,
}

/// How much a request moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Length {
    Bytes(u32),
    Blocks(u32),
}

/// A completed request.
#[derive(Debug, Clone, Copy)]
pub struct Service {
    pub completed: i64,
    pub began: Began,
    pub op: Op,
    /// First logical block, where an event tells it.
    pub block: Option<u64>,
    pub length: Length,
    pub address: Option<[u8; 4]>,
    /// NT status if negative, else 0.
    pub error: i32,
}

/// See the module.
pub struct Requests {
    rows: Option<RequestKind>,
    /// Whether the trace has disk I/O to wait for.
    has_disk_io: bool,
    dispatched: NumberMap<u64, Request>,
    held: NumberMap<u64, Vec<Service>>,
    held_count: usize,
    /// Requests that are neither reads nor writes, flushes or discards.
    pub other: u64,
}

impl Requests {
    pub fn new(counts: &Counts, has_disk_io: bool) -> Self {
        let rows = [
            (RequestKind::TimedInStack, counts.requests_timed_in_stack),
            (RequestKind::TimedInDevice, counts.requests_timed_in_device),
            (RequestKind::Detailed, counts.requests_detailed),
            (RequestKind::Done, counts.requests_done),
        ];
        Self {
            rows: rows
                .into_iter()
                .find(|(_, count)| *count > 0)
                .map(|(kind, _)| kind),
            has_disk_io,
            dispatched: NumberMap::default(),
            held: NumberMap::default(),
            held_count: 0,
            other: 0,
        }
    }

    /// Take an event. A request that waits for nothing more goes to `ready`.
    pub fn take(&mut self, request: Request, ready: &mut Vec<Service>) {
        if Some(request.kind) == self.rows {
            let dispatch = self.dispatched.remove(&request.irp);
            if let Some((service, original)) = self.service(request, dispatch) {
                self.hold(service, original, ready);
            }
        } else if request.kind == RequestKind::Dispatch {
            self.dispatched.insert(request.irp, request);
        } else if request.kind == RequestKind::Done
            && let Some(dispatch) = self.dispatched.get_mut(&request.irp)
        {
            dispatch.status = request.status;
        }
    }

    /// The requests that a disk I/O was made of.
    #[inline]
    pub fn of(&mut self, io: &DiskIo) -> Vec<Service> {
        if self.held_count == 0 {
            return Vec::new();
        }
        let services = self.held.remove(&io.irp).unwrap_or_default();
        self.held_count -= services.len();
        services
    }

    /// Nothing more comes: what waits goes to `ready`, in order of completion.
    pub fn finish(&mut self, ready: &mut Vec<Service>) {
        let mut all: Vec<_> = std::mem::take(&mut self.held).into_iter().collect();
        all.sort_by_key(|(irp, services)| (services[0].completed, *irp));
        ready.extend(all.into_iter().flat_map(|(_, services)| services));
        self.held_count = 0;
    }

    fn service(&mut self, request: Request, dispatch: Option<Request>) -> Option<(Service, u64)> {
        // A completion does not tell its command: without its dispatch it says nothing.
        let command = match request.kind {
            RequestKind::Done => dispatch?.command,
            _ => request.command,
        };
        let Some(op) = op(command) else {
            self.other += 1;
            return None;
        };
        // A dispatch with another command belongs to another request that had the Irp.
        let dispatch = dispatch.filter(|dispatch| dispatch.command == command);
        let began = match request.kind {
            RequestKind::TimedInDevice | RequestKind::TimedInStack => {
                Began::Before(request.duration)
            }
            _ => dispatch.map_or(Began::Unknown, |dispatch| Began::At(dispatch.ticks)),
        };
        let told = match request.kind {
            RequestKind::Detailed => Some(request),
            _ => dispatch,
        };
        let is_transfer = matches!(op, Op::Read | Op::Write);
        let told = told.filter(|told| is_transfer && told.length > 0);
        let length = match request.kind {
            _ if !is_transfer => Length::Bytes(0),
            RequestKind::TimedInDevice | RequestKind::TimedInStack => Length::Bytes(request.length),
            _ => Length::Blocks(told.map_or(0, |told| told.length)),
        };
        let status = match request.kind {
            RequestKind::Done => request.status,
            _ => dispatch.map_or(0, |dispatch| dispatch.status),
        };
        let failed =
            request.srb_status & SRB_STATUS_MASK != SRB_STATUS_SUCCESS || request.scsi_status != 0;
        let service = Service {
            completed: request.ticks,
            began,
            op,
            block: told.map(|told| told.block),
            length,
            address: request.address,
            error: match status {
                ..0 => status,
                _ if failed => STATUS_IO_DEVICE_ERROR,
                _ => 0,
            },
        };
        let original = match (request.original, dispatch) {
            (0, Some(dispatch)) => dispatch.original,
            (original, _) => original,
        };
        Some((service, original))
    }

    fn hold(&mut self, service: Service, original: u64, ready: &mut Vec<Service>) {
        if original == 0 || !self.has_disk_io {
            ready.push(service);
            return;
        }
        if self.held_count >= HELD_MAX {
            self.finish(ready);
        }
        self.held.entry(original).or_default().push(service);
        self.held_count += 1;
    }
}

/// What a SCSI operation code asks for (SBC-4).
fn op(command: u8) -> Option<Op> {
    match command {
        0x08 | 0x28 | 0x88 | 0xA8 => Some(Op::Read),
        0x0A | 0x2A | 0x8A | 0xAA => Some(Op::Write),
        0x35 | 0x91 => Some(Op::Flush),
        0x42 => Some(Op::Discard),
        _ => None,
    }
}
