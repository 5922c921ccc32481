//! Kernel event payloads into facts. Layouts are of versions 2 and later, with pointers of 4 or 8 bytes.

use super::decode_files;
use super::decode_requests;
use super::events::{
    Events, GROUP_CONFIG, GROUP_DISK, GROUP_FILE, GROUP_HEADER, GROUP_LOSSES, GROUP_MERGE_FACTS,
    GROUP_PROCESS, GROUP_THREAD, KernelEvent, ManifestEvent, Provider, UNKNOWN,
};
use super::facts::{
    Disk, DiskInit, DiskIo, Event, Facts, Mapping, Op, Origin, Partition, Process, Thread, Valid,
    Wanted,
};
use super::fields::Fields;

/// Decode all events of one buffer. `number` is the buffer's in the file.
pub fn buffer(payload: &[u8], number: u32, facts: &mut Facts) {
    let mut events = Events::new(payload);
    let mut count = 0;
    let mut first = None;
    let mut last = None;
    for event in events.by_ref() {
        count += 1;
        first.get_or_insert(event);
        last = Some(event);
        if let Some(kernel) = event.kernel() {
            self::event(kernel, (number, count), facts);
        } else if let Some(manifest) = event.manifest() {
            let understood = match manifest.provider {
                Provider::KernelDisk => manifest_disk(manifest, facts),
                Provider::KernelFile => decode_files::manifest(manifest, facts),
                Provider::StorPort => decode_requests::request(manifest, facts),
            };
            facts.counts.rejected_events += u64::from(understood.is_none());
        }
    }
    facts.counts.events += count as u64;
    facts.counts.damaged_buffers += u64::from(events.damaged);
    if number > 0 {
        // Inside a buffer time never goes back, so its ends tell its span.
        for ticks in [first, last]
            .into_iter()
            .flatten()
            .filter_map(super::events::RawEvent::ticks)
        {
            facts.cover(ticks);
        }
    }
}

#[inline]
fn event(event: KernelEvent, order: (u32, usize), facts: &mut Facts) {
    if facts.wanted == Wanted::EventsOnly && !matches!(event.group, GROUP_DISK | GROUP_FILE) {
        return;
    }
    let understood = match event.group {
        GROUP_DISK => disk(event, facts),
        GROUP_FILE => decode_files::kernel(event, facts),
        GROUP_THREAD => thread(event, facts),
        GROUP_PROCESS => process(event, facts),
        GROUP_CONFIG => config(event, facts),
        GROUP_HEADER => header(event, facts),
        GROUP_MERGE_FACTS => mapping(event, order, facts),
        GROUP_LOSSES => {
            facts.counts.loss_events += u64::from(matches!(event.kind, 32..=34));
            Some(())
        }
        _ => Some(()),
    };
    facts.counts.rejected_events += u64::from(understood.is_none());
}

fn disk(event: KernelEvent, facts: &mut Facts) -> Option<()> {
    match event.kind {
        10..=15 if event.version < 2 => facts.counts.old_disk_events += 1,
        10 => {
            let io = transfer(event, Op::Read)?;
            facts.counts.reads += 1;
            completed(io, facts);
        }
        11 => {
            let io = transfer(event, Op::Write)?;
            facts.counts.writes += 1;
            completed(io, facts);
        }
        14 => {
            let io = flush(event)?;
            facts.counts.flushes += 1;
            completed(io, facts);
        }
        12 => begun(init(event, Op::Read)?, facts),
        13 => begun(init(event, Op::Write)?, facts),
        15 => begun(init(event, Op::Flush)?, facts),
        55..=60 => facts.counts.optical_events += 1,
        _ => (),
    }
    Some(())
}

fn begun(init: DiskInit, facts: &mut Facts) {
    facts.counts.inits += 1;
    facts.add(Event::Init(init));
}

/// Microsoft-Windows-Kernel-Disk: the classic payloads of version 2. The header's thread is whoever ran at completion.
fn manifest_disk(event: ManifestEvent, facts: &mut Facts) -> Option<()> {
    if event.version != 0 {
        return None;
    }
    let classic = KernelEvent {
        group: GROUP_DISK,
        kind: event.id as u8,
        version: 2,
        pointer: event.pointer,
        thread: UNKNOWN,
        process: UNKNOWN,
        ticks: event.ticks,
        payload: event.payload,
    };
    let counts = &mut facts.counts;
    let mut io = match event.id {
        10 => transfer(classic, Op::Read)?,
        11 => transfer(classic, Op::Write)?,
        14 => flush(classic)?,
        _ => return Some(()),
    };
    *match io.op {
        Op::Read => &mut counts.manifest_reads,
        Op::Write => &mut counts.manifest_writes,
        _ => &mut counts.manifest_flushes,
    } += 1;
    io.origin = Origin::Manifest;
    completed(io, facts);
    Some(())
}

#[expect(
    clippy::inline_always,
    reason = "an I/O that is handed on through memory is loaded wider than it was stored, and that stalls"
)]
#[inline(always)]
fn completed(io: DiskIo, facts: &mut Facts) {
    if facts.wanted != Wanted::EventsOnly {
        if facts.latest_disk.replace(io.disk) != Some(io.disk) {
            facts.disk_numbers.insert(io.disk);
        }
        if io.op != Op::Flush && io.size > 0 {
            facts.extents.touch(&io);
        }
    }
    facts.add(Event::Disk(io));
}

#[inline]
fn transfer(event: KernelEvent, op: Op) -> Option<DiskIo> {
    if event.pointer == 4 {
        transfer_with::<4>(event, op)
    } else {
        transfer_with::<8>(event, op)
    }
}

/// With pointers of `P` bytes.
#[inline]
fn transfer_with<const P: usize>(event: KernelEvent, op: Op) -> Option<DiskIo> {
    // One look at the length instead of one for each field.
    let fields = Fields(event.payload.0.get(..32 + 2 * P)?);
    Some(DiskIo {
        completed: event.ticks,
        disk: fields.u32(0)?,
        irp_flags: fields.u32(4)?,
        size: fields.u32(8)?,
        offset: fields.i64(16)?,
        key: fields.pointer(24, P)?,
        irp: fields.pointer(24 + P, P)?,
        response: fields.i64(24 + 2 * P)?,
        thread: if event.version >= 3 {
            event.payload.u32(32 + 2 * P)?
        } else {
            event.thread
        },
        op,
        response_dropped: false,
        origin: Origin::Classic,
    })
}

/// A flush has its response time before its Irp, unlike a transfer.
fn flush(event: KernelEvent) -> Option<DiskIo> {
    let (fields, p) = (event.payload, event.pointer);
    Some(DiskIo {
        completed: event.ticks,
        disk: fields.u32(0)?,
        irp_flags: fields.u32(4)?,
        response: fields.i64(8)?,
        irp: fields.pointer(16, p)?,
        thread: if event.version >= 3 {
            fields.u32(16 + p)?
        } else {
            event.thread
        },
        size: 0,
        offset: 0,
        key: 0,
        op: Op::Flush,
        response_dropped: false,
        origin: Origin::Classic,
    })
}

/// The header's thread of an Init is whoever was running; the payload's is the one that asked.
fn init(event: KernelEvent, op: Op) -> Option<DiskInit> {
    let (fields, p) = (event.payload, event.pointer);
    let thread = if event.version >= 3 {
        fields.u32(p)?
    } else {
        event.thread
    };
    Some(DiskInit {
        ticks: event.ticks,
        irp: fields.pointer(0, p)?,
        thread,
        op,
    })
}

fn thread(event: KernelEvent, facts: &mut Facts) -> Option<()> {
    let valid = match event.kind {
        1 | 3 => Valid::From,
        2 | 4 => Valid::Until,
        _ => return Some(()),
    };
    let (first, second) = (event.payload.u32(0)?, event.payload.u32(4)?);
    let (process, thread) = if event.version == 0 {
        (second, first)
    } else {
        (first, second)
    };
    facts.threads.push(Thread {
        ticks: event.ticks,
        number: thread,
        process,
        valid,
    });
    Some(())
}

fn process(event: KernelEvent, facts: &mut Facts) -> Option<()> {
    let (valid, real) = match event.kind {
        1 => (Valid::From, true),
        3 => (Valid::From, false),
        2 => (Valid::Until, true),
        4 => (Valid::Until, false),
        _ => return Some(()),
    };
    if event.version < 2 {
        return None;
    }
    let (fields, p) = (event.payload, event.pointer);
    let mut at = p + 16;
    if event.version >= 3 {
        at += p; // page directory
    }
    if event.version >= 4 {
        at += 4; // flags
    }
    if fields.u32(at)? == 0 {
        at += 4;
    } else {
        // Two dead pointers, then the security identifier with its own count of parts.
        at += 2 * p;
        at += 8 + 4 * fields.u8(at + 1)? as usize;
    }
    // The command line comes after it, and is left there: command lines hold passwords.
    let (name, _) = fields.narrow(at)?;
    facts.processes.push(Process {
        ticks: event.ticks,
        key: fields.pointer(0, p)?,
        number: fields.u32(p)?,
        parent: fields.u32(p + 4)?,
        valid,
        real,
        name,
    });
    Some(())
}

fn config(event: KernelEvent, facts: &mut Facts) -> Option<()> {
    let fields = event.payload;
    match event.kind {
        0x0B => {
            let sector_bytes = fields.u32(4)?;
            let size_bytes = [fields.u32(8)?, fields.u32(12)?, sector_bytes]
                .into_iter()
                .try_fold(fields.u64(16)?, |size, factor| {
                    size.checked_mul(u64::from(factor))
                })
                .filter(|size| *size > 0);
            let disk = Disk {
                number: fields.u32(0)?,
                address: [
                    fields.u32(24)?,
                    fields.u32(28)?,
                    fields.u32(32)?,
                    fields.u32(36)?,
                ],
                sector_bytes,
                size_bytes,
                model: fields.wide_fixed(40, 256)?.trim().to_owned(),
                write_cache: fields.u8(556)? != 0,
            };
            facts.disks.push((event.ticks, disk));
        }
        0x0C => {
            let partition = Partition {
                start_bytes: fields.u64(0)?,
                size_bytes: fields.u64(8)?,
                disk: fields.u32(16)?,
                letter: fields.wide_fixed(28, 4)?,
                number: fields.u32(40)?,
                filesystem: fields.wide_fixed(72, 16)?,
            };
            facts.partitions.push((event.ticks, partition));
        }
        _ => (),
    }
    Some(())
}

fn header(event: KernelEvent, facts: &mut Facts) -> Option<()> {
    if matches!(event.kind, 0x05 | 0x20) {
        for (index, mask) in facts.group_masks.iter_mut().enumerate() {
            *mask |= event.payload.u32(4 * index)?;
        }
    }
    Some(())
}

fn mapping(event: KernelEvent, order: (u32, usize), facts: &mut Facts) -> Option<()> {
    if event.kind == 35 {
        let (kernel, at) = event.payload.wide(0)?;
        let (user, _) = event.payload.wide(at).unwrap_or_default();
        facts.mappings.push(Mapping {
            order,
            kernel,
            user,
        });
    }
    Some(())
}

/// Whether an event's thread is known. Idle runs as thread 0, so 0 is known too.
pub fn is_known(thread: u32) -> bool {
    thread != UNKNOWN
}
