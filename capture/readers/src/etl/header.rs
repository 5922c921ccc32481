//! The log header: the first event of the first buffer, which describes the whole log.

use super::clock::{Clock, ClockKind, filetime_utc_ns};
use super::container::{BufferHeader, HEADER_BYTES};
use super::fields::Fields;
use crate::error::Unreadable;

const MODE_CIRCULAR: u32 = 0x2;
const MODE_BUFFERING: u32 = 0x400;
const MODE_COMPRESSED: u32 = 0x0400_0000;
const SYSTEM_HEADER_BYTES: usize = 32;
const TIME_ZONE_BYTES: usize = 176;

/// Facts of a whole log.
#[derive(Debug, Clone)]
pub struct LogHeader {
    pub buffer_bytes: u32,
    pub os_major: u8,
    pub os_minor: u8,
    pub os_build: u32,
    pub processors: u32,
    /// FILETIME; 0 if the session was not closed properly.
    pub end_filetime: i64,
    pub boot_filetime: i64,
    pub mode: u32,
    pub buffers_written: u32,
    pub pointer_bytes: u32,
    pub events_lost: u32,
    pub buffers_lost: u32,
    /// UTC is local time plus this.
    pub utc_bias_minutes: i32,
    pub session: String,
    pub file: String,
    pub clock: Clock,
    /// How buffers flagged so are compressed.
    pub compression: Option<Compression>,
}

/// Compression formats, by the system's numbers for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Compression {
    Lznt1 = 2,
    Xpress = 3,
    XpressHuffman = 4,
}

impl Compression {
    /// Name for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Lznt1 => "LZNT1",
            Self::Xpress => "Xpress",
            Self::XpressHuffman => "Xpress with Huffman coding",
        }
    }
}

impl LogHeader {
    /// Read the header from the first bytes of a file (a first buffer of any size is at most 64 KiB of interest).
    pub fn parse(head: &[u8]) -> Result<Self, Unreadable> {
        let not_a_log = || {
            Unreadable::content(
                "is not a Windows event trace log, or its first buffer is damaged",
                "an .etl file starts with a log header; take it from the machine again, or check how it was copied",
            )
        };
        let cut_off = || {
            Unreadable::content(
                "ends before its log header is complete",
                "copy the file again; nothing can be read without the header",
            )
        };
        let first = BufferHeader::parse(head).ok_or_else(cut_off)?;
        let event = Fields(&head[HEADER_BYTES..]);
        let (Some(version), Some(kind), Some(flags)) = (event.u16(0), event.u8(2), event.u8(3))
        else {
            return Err(cut_off());
        };
        if !matches!(kind, 1 | 2) || flags & 0xC0 != 0xC0 || event.u16(6) != Some(0) {
            return Err(not_a_log());
        }
        let pointer = if kind == 1 { 4 } else { 8 };
        let size = event.u16(4).ok_or_else(cut_off)? as usize;
        let tail = SYSTEM_HEADER_BYTES + 56 + 2 * pointer + TIME_ZONE_BYTES;
        if size < tail + 32 {
            return Err(not_a_log());
        }
        let event = Fields(event.0.get(..size).ok_or_else(cut_off)?);
        Self::fields(event, pointer, version, first).ok_or_else(cut_off)?
    }

    fn fields(
        event: Fields,
        pointer: usize,
        version: u16,
        first: BufferHeader,
    ) -> Option<Result<Self, Unreadable>> {
        let body = Fields(&event.0[SYSTEM_HEADER_BYTES..]);
        let zone = 56 + 2 * pointer;
        let tail = zone + TIME_ZONE_BYTES;
        let clock_number = body.u32(tail + 24)?;
        let (os_major, os_minor) = (body.u8(4)?, body.u8(5)?);
        let mode = body.u32(32)?;
        let (session, after) = body.wide(tail + 32).unwrap_or_default();
        let (file, _) = body.wide(after).unwrap_or_default();
        if let Err(problem) = check_kind(version, os_major, os_minor, clock_number) {
            return Some(Err(problem));
        }
        let compression = match first.state & 0xFFFF {
            _ if mode & MODE_COMPRESSED == 0 => None,
            2 => Some(Compression::Lznt1),
            3 => Some(Compression::Xpress),
            4 => Some(Compression::XpressHuffman),
            other => {
                return Some(Err(Unreadable::content(
                    format!("is compressed with format {other}, which is not known"),
                    "save it uncompressed on Windows (tracerpt FILE -o EVENTS.etl -of ETL, or wpa), or take it without compression",
                )));
            }
        };
        let clock = Clock {
            kind: match clock_number {
                1 => ClockKind::Counter,
                2 => ClockKind::SystemTime,
                _ => ClockKind::Cycles,
            },
            start_ticks: event.i64(16)?,
            start_filetime: body.i64(tail + 16)?,
            counter_hz: body.i64(tail + 8)?,
            cpu_mhz: body.u32(52)?,
        };
        if clock.counter_hz <= 0
            || (clock.kind == ClockKind::Cycles && clock.cpu_mhz == 0)
            || clock.start_utc_ns().is_none()
        {
            return Some(Err(Unreadable::content(
                "has a damaged log header: its clock has no usable frequency or start",
                "copy the file again, or take the trace again",
            )));
        }
        Some(Ok(Self {
            buffer_bytes: body.u32(0)?,
            os_major,
            os_minor,
            os_build: body.u32(8)?,
            processors: body.u32(12)?,
            end_filetime: body.i64(16)?,
            boot_filetime: body.i64(tail)?,
            mode,
            buffers_written: body.u32(36)?,
            pointer_bytes: body.u32(44)?,
            events_lost: body.u32(48)?,
            buffers_lost: body.u32(tail + 28)?,
            utc_bias_minutes: body.u32(zone)?.cast_signed(),
            session,
            file,
            clock,
            compression,
        }))
    }

    /// Nanoseconds from the start to the end the header names, if it names one that follows the start.
    pub fn end_ns(&self) -> Option<i64> {
        let length = self.end_filetime.checked_sub(self.clock.start_filetime)?;
        (self.end_filetime > 0 && length >= 0)
            .then(|| length.checked_mul(100))
            .flatten()
    }

    /// When the system started, in nanoseconds since 1970; rounded by the system, so no anchor for a clock.
    pub fn boot_utc_ns(&self) -> Option<i64> {
        (self.boot_filetime > 0)
            .then(|| filetime_utc_ns(self.boot_filetime))
            .flatten()
    }

    /// The session that wrote the log ended without closing it: its end was never filled in.
    pub fn is_unclosed(&self) -> bool {
        self.end_filetime == 0
    }

    /// Old buffers were overwritten by new ones: the log holds only the end of its session.
    pub fn is_circular(&self) -> bool {
        self.mode & (MODE_CIRCULAR | MODE_BUFFERING) != 0
    }

    /// Distance of buffers in the file, where it is fixed.
    pub fn stride(&self) -> Option<u64> {
        (self.compression.is_none() && self.buffer_bytes as usize >= HEADER_BYTES)
            .then_some(u64::from(self.buffer_bytes))
    }
}

/// Refuse logs whose container is the same but whose content is another.
fn check_kind(version: u16, major: u8, minor: u8, clock_number: u32) -> Result<(), Unreadable> {
    if version == 0 && clock_number == 2 {
        return Err(Unreadable::content(
            "is a counter log (.blg); this reader takes disk I/O from event traces",
            "bring the .etl of the same time for disk I/O",
        ));
    }
    if (major, minor) < (6, 1) {
        return Err(Unreadable::content(
            format!(
                "was written by Windows {major}.{minor} (Vista, Server 2008 or older), whose buffers differ"
            ),
            "open and save it with tracerpt or wpa on Windows 7 or later, or trace on a newer system",
        ));
    }
    if !matches!(clock_number, 1..=3) {
        return Err(Unreadable::content(
            format!(
                "counts time with a clock of unknown kind {clock_number}, so its times mean nothing"
            ),
            "take the trace again with the performance counter as its clock (logman -ct perf)",
        ));
    }
    Ok(())
}
