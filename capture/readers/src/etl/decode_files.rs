//! Events of files into facts: names, and operations with their ends, from the kernel logger and its manifest twin.
//!
//! In version 2 (Vista, 7) the thread is as wide as a pointer and comes early, in version 3 (8 and later) it has 32 bits
//! and comes late. A read of 48 bytes may be either, so the version decides and never the size.

use super::events::{KernelEvent, ManifestEvent, UNKNOWN};
use super::facts::{
    Event, Facts, FileName, Op, Opened, Operation, OperationEnd, Origin, Valid, Wanted,
};

const CREATE: u8 = 0x40;
const CLEANUP: u8 = 0x41;
const CLOSE: u8 = 0x42;
const READ: u8 = 0x43;
const WRITE: u8 = 0x44;
const ENUMERATE: u8 = 0x48;
const FLUSH: u8 = 0x49;
const FILE_SYSTEM_CONTROL: u8 = 0x4B;
const OPERATION_END: u8 = 0x4C;

/// Decode an event of the kernel's file group.
pub fn kernel(event: KernelEvent, facts: &mut Facts) -> Option<()> {
    match event.kind {
        0x00 | 0x20 => name(event, Valid::From, facts),
        0x23 | 0x24 => name(event, Valid::Until, facts),
        CREATE..=OPERATION_END if event.version >= 2 => operation(event, Origin::Classic, facts),
        CREATE..=OPERATION_END => None,
        _ => Some(()),
    }
}

/// Decode an event of Microsoft-Windows-Kernel-File: version 0 has the classic layouts of version 2, 1 those of 3.
pub fn manifest(event: ManifestEvent, facts: &mut Facts) -> Option<()> {
    let kind = match event.id {
        10 => 0x20,
        11 => 0x23,
        12 => CREATE,
        13 => CLEANUP,
        14 => CLOSE,
        15 => READ,
        16 => WRITE,
        21 => FLUSH,
        24 => OPERATION_END,
        _ => return Some(()),
    };
    if event.version > 1 {
        return None;
    }
    let classic = KernelEvent {
        group: super::events::GROUP_FILE,
        kind,
        version: event.version + 2,
        pointer: event.pointer,
        thread: event.thread,
        process: event.process,
        ticks: event.ticks,
        payload: event.payload,
    };
    match kind {
        0x20 => name(classic, Valid::From, facts),
        0x23 => name(classic, Valid::Until, facts),
        _ => operation(classic, Origin::Manifest, facts),
    }
}

fn name(event: KernelEvent, valid: Valid, facts: &mut Facts) -> Option<()> {
    if facts.wanted == Wanted::EventsOnly {
        return Some(());
    }
    let key = event.payload.pointer(0, event.pointer)?;
    let (path, _) = event.payload.wide(event.pointer)?;
    let path = facts.paths.number(path);
    facts.names.push(FileName {
        ticks: event.ticks,
        key,
        valid,
        path,
    });
    Some(())
}

fn operation(event: KernelEvent, origin: Origin, facts: &mut Facts) -> Option<()> {
    let found = if event.kind == OPERATION_END {
        Event::OperationEnd(end(event, origin)?)
    } else {
        if !(CREATE..=FILE_SYSTEM_CONTROL).contains(&event.kind) || event.kind == ENUMERATE {
            return Some(());
        }
        Event::Operation(start(event, origin, facts)?)
    };
    let counts = &mut facts.counts;
    match (&found, origin) {
        (Event::OperationEnd(_), Origin::Classic) => counts.operation_ends += 1,
        (Event::OperationEnd(_), Origin::Manifest) => counts.manifest_operation_ends += 1,
        (Event::Operation(Operation { op: None, .. }), _) => (),
        (_, Origin::Classic) => counts.operations += 1,
        (_, Origin::Manifest) => counts.manifest_operations += 1,
    }
    facts.add(found);
    Some(())
}

fn end(event: KernelEvent, origin: Origin) -> Option<OperationEnd> {
    let (fields, p) = (event.payload, event.pointer);
    Some(OperationEnd {
        ticks: event.ticks,
        irp: fields.pointer(0, p)?,
        moved: fields.pointer(p, p)?,
        status: fields.u32(2 * p)?.cast_signed(),
        origin,
    })
}

/// The start of an operation.
fn start(event: KernelEvent, origin: Origin, facts: &mut Facts) -> Option<Operation> {
    let (fields, p) = (event.payload, event.pointer);
    let early = event.version < 3;
    let mut operation = Operation {
        ticks: event.ticks,
        irp: 0,
        object: 0,
        key: 0,
        offset: 0,
        size: 0,
        irp_flags: 0,
        thread: UNKNOWN,
        process: event.process,
        op: None,
        origin,
    };
    // Where the Irp is, and where the thread of version 3 is.
    let (irp, late_thread) = match event.kind {
        READ | WRITE => (8, 8 + 3 * p),
        CREATE => (0, 2 * p),
        CLEANUP | CLOSE | FLUSH => (0, 3 * p),
        // Information, rename, delete and control: one more pointer.
        _ => (0, 4 * p),
    };
    operation.irp = fields.pointer(irp, p)?;
    let object = irp + if early { 2 * p } else { p };
    operation.object = fields.pointer(object, p)?;
    operation.thread = if early {
        fields.pointer(irp + p, p)? as u32
    } else {
        fields.u32(late_thread)?
    };
    match event.kind {
        CREATE => opened(event, &operation, facts)?,
        READ | WRITE => {
            operation.op = Some(if event.kind == READ {
                Op::Read
            } else {
                Op::Write
            });
            operation.offset = fields.i64(0)?;
            operation.key = fields.pointer(object + p, p)?;
            let sizes = if early {
                object + 2 * p
            } else {
                late_thread + 4
            };
            operation.size = fields.u32(sizes)?;
            operation.irp_flags = fields.u32(sizes + 4)?;
        }
        FLUSH => {
            operation.op = Some(Op::Flush);
            operation.key = fields.pointer(object + p, p)?;
        }
        _ => (),
    }
    Some(operation)
}

fn opened(event: KernelEvent, operation: &Operation, facts: &mut Facts) -> Option<()> {
    if facts.wanted == Wanted::EventsOnly {
        return Some(());
    }
    let (fields, p) = (event.payload, event.pointer);
    let options = if event.version < 3 { 3 * p } else { 2 * p + 4 };
    let how = fields.u32(options)?;
    let (path, _) = fields.wide(options + 12)?;
    let path = facts.paths.number(path);
    facts.opened.push(Opened {
        ticks: event.ticks,
        object: operation.object,
        path,
        options: how,
    });
    Some(())
}
