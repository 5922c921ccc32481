//! Block trace events: from a record's bytes to what happened to which sectors.

use crate::format::{EventFormat, Field, FormatError};

/// Half of what 64 bits of bytes can address.
const SECTORS_MAX: u64 = u64::MAX >> 10;

/// Position in the recording's word list `op`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(i8)]
pub enum Op {
    /// Read.
    Read = 0,
    /// Write.
    Write = 1,
    /// Cache flush.
    Flush = 2,
    /// Discard, secure erase and write-zeroes: no data is transferred.
    Discard = 3,
}

/// Bits of `io.flags`, as in `schemas/recording.json`.
pub mod flags {
    /// Somebody waits for it.
    pub const SYNCHRONOUS: u32 = 0x4;
    /// Forced unit access.
    pub const WRITE_THROUGH: u32 = 0x8;
    /// Speculative.
    pub const READAHEAD: u32 = 0x10;
    /// File system metadata.
    pub const METADATA: u32 = 0x20;
    /// The cache is flushed first.
    pub const PREFLUSH: u32 = 0x40;
    /// A part of a larger bio.
    pub const SPLIT: u32 = 0x100;
    /// Travelled inside a larger request.
    pub const MERGED: u32 = 0x200;
}

/// Operation and flags of the kernel's `rwbs` text; `None` for operations that are no data I/O (pass-through, zones).
///
/// `[F]` pre-flush, then `R`, `W`, `WZ`, `D[E]`, `F` or another operation, then `F` (FUA), `A` (read-ahead), `S` (sync),
/// `M` (metadata). Source: `blk_fill_rwbs` as documented for blktrace's RWBS field.
#[must_use]
pub fn parse_rwbs(text: &[u8]) -> Option<(Op, u32)> {
    let (mut bits, rest) = match text {
        [b'F', rest @ ..] if !rest.is_empty() => (flags::PREFLUSH, rest),
        _ => (0, text),
    };
    let (op, modifiers) = match rest {
        [b'W', b'Z', rest @ ..] | [b'D', b'E', rest @ ..] | [b'D', rest @ ..] => {
            (Op::Discard, rest)
        }
        [b'R', rest @ ..] => (Op::Read, rest),
        [b'W', rest @ ..] => (Op::Write, rest),
        [b'F', rest @ ..] => (Op::Flush, rest),
        _ => return None,
    };
    for modifier in modifiers {
        bits |= match modifier {
            b'F' => flags::WRITE_THROUGH,
            b'A' => flags::READAHEAD,
            b'S' => flags::SYNCHRONOUS,
            b'M' => flags::METADATA,
            _ => 0,
        };
    }
    if op == Op::Flush {
        bits &= !flags::PREFLUSH; // a flush is the flush
    }
    Some((op, bits))
}

/// The events that are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A bio reached the block layer.
    BioQueue,
    /// A bio that no request carried is done.
    BioComplete,
    /// A bio was cut in two.
    Split,
    /// A request was handed to the driver.
    RequestIssue,
    /// The driver could not take it yet.
    RequestRequeue,
    /// Bytes of a request are done.
    RequestComplete,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::BioQueue,
        Self::BioComplete,
        Self::Split,
        Self::RequestIssue,
        Self::RequestRequeue,
        Self::RequestComplete,
    ];

    /// The kernel's name.
    #[must_use]
    pub fn event_name(self) -> &'static str {
        match self {
            Self::BioQueue => "block_bio_queue",
            Self::BioComplete => "block_bio_complete",
            Self::Split => "block_split",
            Self::RequestIssue => "block_rq_issue",
            Self::RequestRequeue => "block_rq_requeue",
            Self::RequestComplete => "block_rq_complete",
        }
    }
}

/// One event.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    /// On the trace clock.
    pub time_ns: u64,
    /// What happened.
    pub kind: Kind,
    /// Kernel device number, major << 20 | minor.
    pub device: u32,
    /// Operation.
    pub op: Op,
    /// Bits of `io.flags`.
    pub flags: u32,
    /// First sector (512 bytes).
    pub sector: u64,
    /// Sectors; for a split the first sector of the second part.
    pub sectors: u64,
    /// Positive error number.
    pub error: i32,
    /// Thread in whose context it happened.
    pub thread: i32,
    /// That thread's name, where the event is a bio that is queued.
    pub comm: [u8; 16],
}

#[derive(Debug)]
struct Layout {
    kind: Kind,
    thread: Field,
    device: Field,
    sector: Field,
    sectors: Field,
    rwbs: Field,
    error: Option<Field>,
    comm: Option<Field>,
}

/// Layouts of the block events by event number.
#[derive(Debug)]
pub struct Decoder {
    common_type: Field,
    /// A handful, faster looked through than hashed.
    layouts: Vec<(u16, Layout)>,
}

impl Decoder {
    /// From each kind's format file.
    pub fn new(formats: &[(Kind, EventFormat)]) -> Result<Self, FormatError> {
        let mut layouts = Vec::new();
        let mut common_type = Field { offset: 0, size: 2 };
        for (kind, format) in formats {
            common_type = format.field("common_type")?;
            let layout = Layout {
                kind: *kind,
                thread: format.field("common_pid")?,
                device: format.field("dev")?,
                sector: format.field("sector")?,
                sectors: format.field(if *kind == Kind::Split {
                    "new_sector"
                } else {
                    "nr_sector"
                })?,
                rwbs: format.field("rwbs")?,
                // `error` was called `errors` until Linux 4.14.
                error: format
                    .field("error")
                    .or_else(|_| format.field("errors"))
                    .ok(),
                // Whose it is, the bio tells.
                comm: format
                    .field("comm")
                    .ok()
                    .filter(|_| *kind == Kind::BioQueue),
            };
            layouts.push((format.id, layout));
        }
        Ok(Self {
            common_type,
            layouts,
        })
    }

    /// The event in `record`; `None` if it is another one, no data I/O, or too short.
    #[must_use]
    pub fn decode(&self, time_ns: u64, record: &[u8]) -> Option<Event> {
        let id = self.common_type.unsigned(record)? as u16;
        let (_, layout) = self.layouts.iter().find(|(known, _)| *known == id)?;
        let (op, flags) = parse_rwbs(layout.rwbs.text(record)?)?;
        let mut comm = [0; 16];
        if let Some(name) = layout.comm.and_then(|field| field.text(record)) {
            let length = name.len().min(comm.len());
            comm[..length].copy_from_slice(&name[..length]);
        }
        let (sector, sectors) = (
            layout.sector.unsigned(record)?,
            layout.sectors.unsigned(record)?,
        );
        // Completed flushes carry sector -1; anything else beyond 2^64 bytes is no address.
        if sectors > 0 && sector.max(sectors) > SECTORS_MAX {
            return None;
        }
        let error = layout
            .error
            .and_then(|field| field.unsigned(record))
            .map_or(0, |error| (error as u32) as i32);
        Some(Event {
            time_ns,
            kind: layout.kind,
            device: layout.device.unsigned(record)? as u32,
            op,
            flags,
            sector,
            sectors,
            error: error.saturating_abs(),
            thread: layout.thread.unsigned(record)? as i32,
            comm,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rwbs_texts_seen_on_linux() {
        use flags::*;
        for (text, expected) in [
            ("R", Some((Op::Read, 0))),
            ("RA", Some((Op::Read, READAHEAD))),
            ("RSM", Some((Op::Read, SYNCHRONOUS | METADATA))),
            ("WS", Some((Op::Write, SYNCHRONOUS))),
            ("WFS", Some((Op::Write, WRITE_THROUGH | SYNCHRONOUS))),
            (
                "FWFSM",
                Some((Op::Write, PREFLUSH | WRITE_THROUGH | SYNCHRONOUS | METADATA)),
            ),
            ("FWS", Some((Op::Write, PREFLUSH | SYNCHRONOUS))),
            ("FF", Some((Op::Flush, 0))),
            ("F", Some((Op::Flush, 0))),
            ("D", Some((Op::Discard, 0))),
            ("DE", Some((Op::Discard, 0))),
            ("DS", Some((Op::Discard, SYNCHRONOUS))),
            ("WZS", Some((Op::Discard, SYNCHRONOUS))),
            ("N", None),
            ("ZR", None),
            ("", None),
        ] {
            assert_eq!(parse_rwbs(text.as_bytes()), expected, "{text}");
        }
    }
}

/// A page from Linux 6.18 against the kernel's own text of the same events; see `fixtures/README.md`.
#[cfg(test)]
mod real_page {
    use super::*;
    use crate::cpu_buffer::CpuBuffer;
    use crate::cpu_buffer::tests::Pages;
    use crate::format::PageFormat;
    use crate::page::{Cursor, read_page};
    use crate::rows::Rows;
    use crate::tracker::{DeviceIds, Tracker};

    fn fixture(name: &str) -> Vec<u8> {
        std::fs::read(format!("{}/fixtures/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
    }

    fn text(name: &str) -> String {
        String::from_utf8(fixture(name)).unwrap()
    }

    /// (event, thread, microseconds, device, sector, sectors) of a line of a `trace` file.
    fn from_line(line: &str) -> (String, i32, u64, u32, u64, u64) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let name = words
            .iter()
            .position(|word| word.starts_with("block_"))
            .unwrap();
        let (seconds, rest) = words[name - 1]
            .trim_end_matches(':')
            .split_once('.')
            .unwrap();
        let (major, minor) = words[name + 1].split_once(',').unwrap();
        let middle = words
            .iter()
            .position(|word| matches!(*word, "+" | "/"))
            .unwrap();
        (
            words[name].trim_end_matches(':').to_owned(),
            words[0].rsplit_once('-').unwrap().1.parse().unwrap(),
            seconds.parse::<u64>().unwrap() * 1_000_000 + rest.parse::<u64>().unwrap(),
            major.parse::<u32>().unwrap() << 20 | minor.parse::<u32>().unwrap(),
            words[middle - 1].parse().unwrap(),
            words[middle + 1].parse().unwrap(),
        )
    }

    fn formats() -> (PageFormat, Decoder) {
        let layouts = Kind::ALL.map(|kind| {
            let file = format!("{}.format", kind.event_name());
            (kind, EventFormat::parse(&text(&file)).unwrap())
        });
        let page = PageFormat::parse(&text("header_page"), &text("header_event")).unwrap();
        (page, Decoder::new(&layouts).unwrap())
    }

    #[test]
    fn a_page_reads_as_the_kernel_prints_it() {
        let (format, decoder) = formats();
        let page = fixture("page.bin");
        let mut seen = Vec::new();
        let outcome = read_page(&page, &format, |time_ns, record| {
            let event = decoder.decode(time_ns, record).unwrap();
            let name = event.kind.event_name().to_owned();
            let time_us = (event.time_ns + 500) / 1000;
            seen.push((
                name,
                event.thread,
                time_us,
                event.device,
                event.sector,
                event.sectors,
            ));
        });
        let expected: Vec<_> = text("trace.txt")
            .lines()
            .filter(|line| !line.starts_with('#'))
            .map(from_line)
            .collect();
        assert!(!outcome.damaged && !outcome.missed);
        assert!(seen.len() > 40);
        assert_eq!(seen, expected);
    }

    #[test]
    fn large_pages_of_a_buffer_that_wrapped_read_as_the_kernel_prints_them() {
        let (_, decoder) = formats();
        let format = PageFormat::parse(&text("header_page_8k"), &text("header_event")).unwrap();
        assert_eq!(format.page_bytes, 8192);
        let bytes = fixture("wrapped_8k.bin");
        let pages: Vec<Vec<u8>> = bytes.chunks(8192).map(<[u8]>::to_vec).collect();
        assert!(
            Cursor::open(&pages[0], &format).1.missed && !Cursor::open(&pages[1], &format).1.missed
        );
        let mut buffer = CpuBuffer::new(Pages(pages), &format);
        let mut seen = Vec::new();
        while buffer.head_ns(&format, u64::MAX).unwrap().is_some() {
            let (time_ns, record) = buffer.take().unwrap();
            let event = decoder.decode(time_ns, record).unwrap();
            seen.push((
                event.kind.event_name().to_owned(),
                event.thread,
                (time_ns + 500) / 1000,
                event.device,
                event.sector,
                event.sectors,
            ));
        }
        let lines = text("wrapped_8k.txt");
        let expected: Vec<_> = lines
            .lines()
            .filter(|line| !line.starts_with('#'))
            .map(from_line)
            .collect();
        assert!(seen.len() > 200 && buffer.damaged_pages == 0);
        assert_eq!(seen, expected);
    }

    #[test]
    fn a_damaged_page_is_survived_down_to_the_pairing() {
        let (format, decoder) = formats();
        let page = fixture("page.bin");
        let mut state = 0x2545_f491_4f6c_dd1d_u64; // xorshift, fixed seed
        let mut next = move |below: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state % below as u64) as usize
        };
        let mut rows = Rows::default();
        for _ in 0..3_000 {
            let mut damaged = page.clone();
            for _ in 0..=next(30) {
                let at = next(damaged.len());
                damaged[at] = next(256) as u8;
            }
            damaged.truncate(page.len() - next(2) * next(page.len()));
            let device = DeviceIds {
                device_id: 0,
                file_id: None,
            };
            let numbers = std::collections::HashMap::from([(7 << 20, 0)]);
            let mut tracker = Tracker::new(numbers, vec![device]);
            let _ = read_page(&damaged, &format, |time_ns, record| {
                if let Some(event) = decoder.decode(time_ns, record) {
                    tracker.on_event(&event, &mut rows, |_| (None, false));
                }
            });
        }
        assert!(rows.take_batch(0).unwrap().num_rows() > 0);
    }
}
