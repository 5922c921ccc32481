//! Events of the port driver (Microsoft-Windows-StorPort) into facts. Fields are packed; a version not listed has another
//! layout and is refused.

use super::events::ManifestEvent;
use super::facts::{Event, Facts, Request, RequestKind};
use super::fields::Fields;

/// Decode one event; `None` if its version or length is not the published one.
pub fn request(event: ManifestEvent, facts: &mut Facts) -> Option<()> {
    let counts = &mut facts.counts;
    let request = match (event.id, event.version) {
        (200 | 201, 2) => timed(event)?,
        (202..=207, 2) => dispatch(event)?,
        (208 | 211, 1) => done(event)?,
        (210, 1) => flush_dispatch(event)?,
        (222 | 223, 1) => detailed(event)?,
        (13, 1) => {
            counts.requests_of_windows_7 += 1;
            return Some(());
        }
        (504, _) => {
            counts.requests_summed_up += 1;
            return Some(());
        }
        (13 | 200..=208 | 210 | 211 | 222 | 223, _) => return None,
        _ => return Some(()),
    };
    match request.kind {
        RequestKind::Dispatch => counts.requests_dispatched += 1,
        RequestKind::Done => counts.requests_done += 1,
        RequestKind::TimedInDevice => counts.requests_timed_in_device += 1,
        RequestKind::TimedInStack => counts.requests_timed_in_stack += 1,
        RequestKind::Detailed => counts.requests_detailed += 1,
    }
    facts.add(Event::Request(request));
    Some(())
}

fn blank(event: ManifestEvent, kind: RequestKind) -> Request {
    Request {
        ticks: event.ticks,
        irp: 0,
        original: 0,
        duration: 0,
        block: 0,
        length: 0,
        status: 0,
        address: None,
        command: 0,
        srb_status: 0,
        scsi_status: 0,
        kind,
    }
}

fn address(fields: Fields, at: usize) -> Option<[u8; 4]> {
    fields.0.get(at..)?.first_chunk::<4>().copied()
}

fn timed(event: ManifestEvent) -> Option<Request> {
    let (fields, p) = (event.payload, event.pointer);
    // Build and start times follow the length: a shorter payload is not this form.
    fields.u64(27 + 2 * p)?;
    Some(Request {
        duration: fields.u64(0)?,
        irp: fields.pointer(8, p)?,
        command: fields.u8(8 + p)?,
        srb_status: fields.u8(9 + p)?,
        original: fields.pointer(10 + p, p)?,
        address: Some(address(fields, 10 + 2 * p)?),
        scsi_status: fields.u8(14 + 2 * p)?,
        length: fields.u32(15 + 2 * p)?,
        ..blank(
            event,
            if event.id == 200 {
                RequestKind::TimedInDevice
            } else {
                RequestKind::TimedInStack
            },
        )
    })
}

fn dispatch(event: ManifestEvent) -> Option<Request> {
    let (fields, p) = (event.payload, event.pointer);
    fields.u8(17 + 2 * p)?;
    Some(Request {
        irp: fields.pointer(0, p)?,
        command: fields.u8(p)?,
        length: u32::try_from(fields.u64(1 + p)?).unwrap_or(u32::MAX),
        block: fields.u64(9 + p)?,
        original: fields.pointer(17 + p, p)?,
        ..blank(event, RequestKind::Dispatch)
    })
}

fn done(event: ManifestEvent) -> Option<Request> {
    let (fields, p) = (event.payload, event.pointer);
    Some(Request {
        irp: fields.pointer(0, p)?,
        status: fields.u32(p)?.cast_signed(),
        srb_status: fields.u8(p + 4)?,
        scsi_status: fields.u8(p + 5)?,
        original: fields.pointer(p + 9, p)?,
        ..blank(event, RequestKind::Done)
    })
}

/// A flush has no command of its own in the event; it is the SCSI one that empties the device's cache.
fn flush_dispatch(event: ManifestEvent) -> Option<Request> {
    let (fields, p) = (event.payload, event.pointer);
    fields.u8(p + 2)?;
    Some(Request {
        irp: fields.pointer(0, p)?,
        command: 0x35,
        ..blank(event, RequestKind::Dispatch)
    })
}

fn detailed(event: ManifestEvent) -> Option<Request> {
    let (fields, p) = (event.payload, event.pointer);
    let command_bytes = fields.u32(12)? as usize;
    let command = Fields(fields.0.get(16..)?.get(..command_bytes)?);
    let rest = Fields(fields.0.get(16 + command_bytes..)?);
    let (block, length) = position(command).unwrap_or_default();
    Some(Request {
        address: Some(address(fields, 0)?),
        command: command.u8(0)?,
        block,
        length,
        srb_status: rest.u8(0)?,
        irp: rest.pointer(1, p)?,
        original: rest.pointer(1 + p, p)?,
        ..blank(event, RequestKind::Detailed)
    })
}

/// Logical block and number of blocks of a SCSI read or write command (SBC: fields are big-endian).
fn position(command: Fields) -> Option<(u64, u32)> {
    let number = |at: usize, bytes: usize| {
        let field = command.0.get(at..at + bytes)?;
        Some(
            field
                .iter()
                .fold(0_u64, |all, byte| all << 8 | u64::from(*byte)),
        )
    };
    let (block, length) = match command.u8(0)? {
        0x28 | 0x2A => (number(2, 4)?, number(7, 2)?),
        0xA8 | 0xAA => (number(2, 4)?, number(6, 4)?),
        0x88 | 0x8A => (number(2, 8)?, number(10, 4)?),
        _ => return None,
    };
    Some((block, length as u32))
}
