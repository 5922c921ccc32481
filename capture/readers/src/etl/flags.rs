//! The system's flags of a request as bits of the recording's `io.flags`.

use super::facts::{DiskIo, Op};

const NO_CACHE: u32 = 0x1;
const PAGING: u32 = 0x2;
const SYNCHRONOUS: u32 = 0x4;
const METADATA: u32 = 0x20;
const WRITE_THROUGH: u32 = 0x8;
const SPLIT: u32 = 0x100;
const PRIORITY_LOW: u32 = 0x1000;
const PRIORITY_HIGH: u32 = 0x2000;
const UNALIGNED: u32 = 0x4000;

const IRP_NO_CACHE: u32 = 0x1;
const IRP_PAGING: u32 = 0x2;
const IRP_SYNCHRONOUS: u32 = 0x4;
const IRP_ASSOCIATED: u32 = 0x8;
const IRP_SYNCHRONOUS_PAGING: u32 = 0x40;

const CREATE_WRITE_THROUGH: u32 = 0x2;
const CREATE_NO_BUFFERING: u32 = 0x8;

/// Flags of an I/O on a disk with sectors of `sector_bytes`; `metadata`: to one of the file system's own files.
pub fn disk_flags(io: &DiskIo, sector_bytes: u32, metadata: bool) -> u32 {
    let mut flags = request_flags(io.irp_flags, metadata);
    let sector = i64::from(sector_bytes);
    let whole = io.size > 0
        && io.offset >= 0
        && io.offset % sector == 0
        && i64::from(io.size) % sector == 0;
    if io.op != Op::Flush && !whole {
        flags |= UNALIGNED;
    }
    flags
}

/// Flags of a read, write or flush of a file that was opened with `options` (0: not known).
pub fn file_flags(irp_flags: u32, options: u32, metadata: bool) -> u32 {
    let mut flags = request_flags(irp_flags, metadata);
    if options & CREATE_WRITE_THROUGH != 0 {
        flags |= WRITE_THROUGH;
    }
    if options & CREATE_NO_BUFFERING != 0 {
        flags |= NO_CACHE;
    }
    flags
}

/// What the system's own flags say in any layer.
fn request_flags(irp_flags: u32, metadata: bool) -> u32 {
    let mut flags = 0;
    for (theirs, ours) in [
        (IRP_NO_CACHE, NO_CACHE),
        (IRP_PAGING, PAGING),
        (IRP_SYNCHRONOUS, SYNCHRONOUS),
        (IRP_SYNCHRONOUS_PAGING, SYNCHRONOUS),
        (IRP_ASSOCIATED, SPLIT),
    ] {
        if irp_flags & theirs != 0 {
            flags |= ours;
        }
    }
    match irp_flags >> 17 & 7 {
        1 | 2 => flags |= PRIORITY_LOW,
        4 | 5 => flags |= PRIORITY_HIGH,
        _ => (),
    }
    if metadata {
        flags |= METADATA;
    }
    flags
}
