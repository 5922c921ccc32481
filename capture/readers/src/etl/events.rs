//! The events of a buffer: finding them, and the header forms that carry kernel events.

use super::fields::Fields;

pub const GROUP_HEADER: u8 = 0x00;
pub const GROUP_DISK: u8 = 0x01;
pub const GROUP_PROCESS: u8 = 0x03;
pub const GROUP_FILE: u8 = 0x04;
pub const GROUP_THREAD: u8 = 0x05;
pub const GROUP_CONFIG: u8 = 0x0B;
/// Marks of losses in real-time delivery: no kernel group either.
pub const GROUP_LOSSES: u8 = 0xFE;
/// Facts that a merge injects: not a kernel group, so numbered outside them.
pub const GROUP_MERGE_FACTS: u8 = 0xFF;

/// A thread or process the event does not tell.
pub const UNKNOWN: u32 = u32::MAX;

/// An event as it lies in its buffer.
#[derive(Clone, Copy)]
pub struct RawEvent<'a> {
    /// Type byte of its header; 0 for a trace message, which has none.
    pub kind: u8,
    /// Header and payload, without padding.
    pub bytes: &'a [u8],
}

/// Iterates over the events of a payload. `damaged` tells afterwards whether the rest of the buffer was dropped.
pub struct Events<'a> {
    payload: &'a [u8],
    position: usize,
    pub damaged: bool,
}

impl<'a> Events<'a> {
    pub fn new(payload: &'a [u8]) -> Self {
        Self {
            payload,
            position: 0,
            damaged: false,
        }
    }
}

impl<'a> Iterator for Events<'a> {
    type Item = RawEvent<'a>;

    #[inline]
    fn next(&mut self) -> Option<RawEvent<'a>> {
        let rest = self.payload.get(self.position..)?;
        let head = u64::from_le_bytes(*rest.first_chunk::<8>()?);
        let marker = head as u32;
        if marker == 0 || marker == u32::MAX {
            self.position = self.payload.len();
            return None;
        }
        let (kind, flags) = ((head >> 16) as u8, (head >> 24) as u8);
        let (kind, size, least) = if flags & 0xC0 == 0xC0 {
            match kind {
                0x01 | 0x02 => (kind, (head >> 32) as u16, 32),
                0x03 | 0x04 => (kind, (head >> 32) as u16, 24),
                0x0A | 0x14 => (kind, head as u16, 48),
                0x0B | 0x15 => (kind, head as u16, 72),
                0x0C => (kind, head as u16, 16),
                0x0D | 0x0F => (kind, head as u16, 8),
                0x10 | 0x11 => (kind, (head >> 32) as u16, 16),
                0x12 | 0x13 => (kind, head as u16, 80),
                _ => (kind, 0, 1),
            }
        } else if flags & 0xD0 == 0x90 {
            (0, head as u16, 8)
        } else {
            (0, 0, 1)
        };
        let size = size as usize;
        if size < least || size > rest.len() {
            self.damaged = true;
            self.position = self.payload.len();
            return None;
        }
        self.position += size.next_multiple_of(8);
        Some(RawEvent {
            kind,
            bytes: &rest[..size],
        })
    }
}

/// A kernel event, whichever header form carried it.
#[derive(Clone, Copy)]
pub struct KernelEvent<'a> {
    pub group: u8,
    pub kind: u8,
    pub version: u8,
    /// Bytes of a pointer in this event: the header's form tells, not the log's.
    pub pointer: usize,
    /// Thread of the header: who was running. `UNKNOWN` where the form has none.
    pub thread: u32,
    /// Process of the header. `UNKNOWN` where the form has none.
    pub process: u32,
    pub ticks: i64,
    pub payload: Fields<'a>,
}

/// An event of one of the manifest providers that are read.
#[derive(Clone, Copy)]
pub struct ManifestEvent<'a> {
    pub provider: Provider,
    pub id: u16,
    pub version: u8,
    /// Bytes of a pointer in this event.
    pub pointer: usize,
    pub thread: u32,
    pub process: u32,
    pub ticks: i64,
    pub payload: Fields<'a>,
}

/// Manifest providers that are read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Provider {
    KernelDisk,
    KernelFile,
    StorPort,
}

impl Provider {
    /// Its name as the system knows it.
    pub fn name(self) -> &'static str {
        match self {
            Self::KernelDisk => "Microsoft-Windows-Kernel-Disk",
            Self::KernelFile => "Microsoft-Windows-Kernel-File",
            Self::StorPort => "Microsoft-Windows-StorPort",
        }
    }
}

impl<'a> RawEvent<'a> {
    /// Group and type in one number, for the header forms that carry it.
    #[inline]
    pub fn hook(self) -> Option<u16> {
        matches!(self.kind, 0x01..=0x04 | 0x10 | 0x11)
            .then(|| u16::from_le_bytes([self.bytes[6], self.bytes[7]]))
    }

    /// Raw timestamp, for the header forms known to have one.
    pub fn ticks(self) -> Option<i64> {
        match self.kind {
            0x10 | 0x11 => Fields(self.bytes).i64(8),
            0x01..=0x04 | 0x0A | 0x0B | 0x12..=0x15 => Fields(self.bytes).i64(16),
            _ => None,
        }
    }

    /// The event if it comes from one of the manifest providers that are read.
    #[inline]
    pub fn manifest(self) -> Option<ManifestEvent<'a>> {
        if !matches!(self.kind, 0x12 | 0x13) {
            return None;
        }
        let provider = match self.bytes.get(24..40)?.first_chunk::<16>()? {
            guid if *guid == KERNEL_DISK => Provider::KernelDisk,
            guid if *guid == KERNEL_FILE => Provider::KernelFile,
            guid if *guid == STORPORT => Provider::StorPort,
            _ => return None,
        };
        let fields = Fields(self.bytes);
        let mut start = 80;
        if fields.u16(4)? & 1 != 0 {
            // Extended items, one after the other; each says whether another follows.
            loop {
                let (total, link) = (fields.u16(start)?, fields.u16(start + 4)?);
                start += usize::from(total).max(8);
                if link & 1 == 0 {
                    break;
                }
            }
        }
        Some(ManifestEvent {
            provider,
            id: fields.u16(40)?,
            version: fields.u8(42)?,
            pointer: if self.kind == 0x12 { 4 } else { 8 },
            thread: fields.u32(8)?,
            process: fields.u32(12)?,
            ticks: fields.i64(16)?,
            payload: Fields(self.bytes.get(start..)?),
        })
    }

    /// The event if it belongs to one of the groups that are read.
    #[inline]
    pub fn kernel(self) -> Option<KernelEvent<'a>> {
        match self.kind {
            0x01..=0x04 | 0x10 | 0x11 => {
                let group = self.bytes[7];
                if matches!(group, 0 | 1 | 3 | 4 | 5 | 0x0B) {
                    self.hooked(group)
                } else {
                    None
                }
            }
            0x0A | 0x0B | 0x14 | 0x15 => self.classic(),
            _ => None,
        }
    }

    fn hooked(self, group: u8) -> Option<KernelEvent<'a>> {
        let fields = Fields(self.bytes);
        let word = fields.u16(0)?;
        let (start, thread, process, ticks) = match self.kind {
            0x10 | 0x11 => {
                let extensions = (word >> 15) + (word >> 8 & 7);
                (
                    16 + 8 * extensions as usize,
                    UNKNOWN,
                    UNKNOWN,
                    fields.i64(8)?,
                )
            }
            0x01 | 0x02 => (32, fields.u32(8)?, fields.u32(12)?, fields.i64(16)?),
            _ => (24, fields.u32(8)?, fields.u32(12)?, fields.i64(16)?),
        };
        Some(KernelEvent {
            group,
            kind: self.bytes[6],
            version: word as u8,
            pointer: if matches!(self.kind, 0x01 | 0x03 | 0x10) {
                4
            } else {
                8
            },
            thread,
            process,
            ticks,
            payload: Fields(self.bytes.get(start..)?),
        })
    }

    fn classic(self) -> Option<KernelEvent<'a>> {
        let fields = Fields(self.bytes);
        let guid = self.bytes.get(24..40)?;
        let group = CLASSIC_GROUPS.iter().find(|(known, _)| known == guid)?.1;
        Some(KernelEvent {
            group,
            kind: fields.u8(4)?,
            version: fields.u16(6)? as u8,
            pointer: if matches!(self.kind, 0x0A | 0x0B) {
                4
            } else {
                8
            },
            thread: fields.u32(8)?,
            process: fields.u32(12)?,
            ticks: fields.i64(16)?,
            payload: Fields(self.bytes.get(
                if matches!(self.kind, 0x0A | 0x14) {
                    48
                } else {
                    72
                }..,
            )?),
        })
    }
}

/// Bytes of a GUID as they lie in a file, from its usual notation as one number.
const fn guid(text: u128) -> [u8; 16] {
    let b = text.to_be_bytes();
    [
        b[3], b[2], b[1], b[0], b[5], b[4], b[7], b[6], b[8], b[9], b[10], b[11], b[12], b[13],
        b[14], b[15],
    ]
}

const KERNEL_DISK: [u8; 16] = guid(0xc7bde69a_e1e0_4177_b6ef_283ad1525271);
const KERNEL_FILE: [u8; 16] = guid(0xedd08927_9cc4_4e65_b970_c2560fb5c289);
const STORPORT: [u8; 16] = guid(0xc4636a1e_7986_4646_bf10_7bc3b4a76e8e);

/// Kernel events that a re-logging program wrote in the full header form, and the facts a merge injects.
const CLASSIC_GROUPS: [([u8; 16], u8); 7] = [
    (
        guid(0x6a39_9ae0_4bc6_4de9_870b_3657_f894_7e7e),
        GROUP_LOSSES,
    ),
    (
        guid(0x9b79ee91_b5fd_41c0_a243_4248e266e9d0),
        GROUP_MERGE_FACTS,
    ),
    (guid(0x3d6fa8d4_fe05_11d0_9dda_00c04fd7ba7c), GROUP_DISK),
    (guid(0x90cbdc39_4a3e_11d1_84f4_0000f80464e3), GROUP_FILE),
    (guid(0x3d6fa8d0_fe05_11d0_9dda_00c04fd7ba7c), GROUP_PROCESS),
    (guid(0x3d6fa8d1_fe05_11d0_9dda_00c04fd7ba7c), GROUP_THREAD),
    (guid(0x01853a65_418f_4f36_aefc_dc0f1d2fd235), GROUP_CONFIG),
];
