//! Block trace events: from a record's bytes to what happened to which sectors.

use iotrace_block::{Event, Kind, rwbs};

use crate::format::{EventFormat, Field, FormatError};

/// A thread's name, padded with NUL.
pub type Comm = [u8; 16];

/// The kernel's names of the events that are read, and what they are.
pub const EVENTS: [(&str, Kind); 6] = [
    ("block_bio_queue", Kind::BioQueue),
    ("block_bio_complete", Kind::BioComplete),
    ("block_split", Kind::Split),
    ("block_rq_issue", Kind::RequestIssue),
    ("block_rq_requeue", Kind::RequestRequeue),
    ("block_rq_complete", Kind::RequestComplete),
];

#[derive(Debug)]
struct Layout {
    kind: Kind,
    thread: Field,
    device: Field,
    sector: Field,
    /// Of a split the first sector of the second part.
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

    /// The event in `record`, and the name of its thread where it is a bio that is queued; `None` if it is another one,
    /// no data I/O, or too short.
    #[must_use]
    pub fn decode(&self, time_ns: u64, record: &[u8]) -> Option<(Event, Comm)> {
        let id = self.common_type.unsigned(record)? as u16;
        let (_, layout) = self.layouts.iter().find(|(known, _)| *known == id)?;
        let (sector, mut sectors) = (
            layout.sector.unsigned(record)?,
            layout.sectors.unsigned(record)?,
        );
        if layout.kind == Kind::Split {
            sectors = sectors.saturating_sub(sector);
        }
        // Completed flushes carry sector -1; anything else beyond 2^64 bytes is no address.
        if sectors > 0 && sector.max(sectors) > Event::SECTORS_MAX {
            return None;
        }
        let (op, flags) = rwbs::from_letters(layout.rwbs.text(record)?, sectors)?;
        let mut comm = [0; 16];
        if let Some(name) = layout.comm.and_then(|field| field.text(record)) {
            let length = name.len().min(comm.len());
            comm[..length].copy_from_slice(&name[..length]);
        }
        let error = layout
            .error
            .and_then(|field| field.unsigned(record))
            .map_or(0, |error| (error as u32) as i32);
        let event = Event {
            time_ns,
            kind: layout.kind,
            device: layout.device.unsigned(record)? as u32,
            op,
            flags,
            sector,
            sectors,
            error: error.saturating_abs(),
            thread: layout.thread.unsigned(record)? as i32,
        };
        Some((event, comm))
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
    use iotrace_block::{Pairing, Row};

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
        let layouts = EVENTS.map(|(name, kind)| {
            let format = EventFormat::parse(&text(&format!("{name}.format")));
            (kind, format.unwrap())
        });
        let page = PageFormat::parse(&text("header_page"), &text("header_event")).unwrap();
        (page, Decoder::new(&layouts).unwrap())
    }

    /// The same of an event; of a split the line names the first sector of the second part.
    fn told(event: &Event) -> (String, i32, u64, u32, u64, u64) {
        let name = EVENTS.iter().find(|(_, kind)| *kind == event.kind);
        let is_split = event.kind == Kind::Split;
        (
            name.unwrap().0.to_owned(),
            event.thread,
            (event.time_ns + 500) / 1000,
            event.device,
            event.sector,
            if is_split { event.sector } else { 0 } + event.sectors,
        )
    }

    #[test]
    fn a_page_reads_as_the_kernel_prints_it() {
        let (format, decoder) = formats();
        let page = fixture("page.bin");
        let mut seen = Vec::new();
        let outcome = read_page(&page, &format, |time_ns, record| {
            seen.push(told(&decoder.decode(time_ns, record).unwrap().0));
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
            seen.push(told(&decoder.decode(time_ns, record).unwrap().0));
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
        let mut rows: Vec<Row> = Vec::new();
        for _ in 0..3_000 {
            let mut damaged = page.clone();
            for _ in 0..=next(30) {
                let at = next(damaged.len());
                damaged[at] = next(256) as u8;
            }
            damaged.truncate(page.len() - next(2) * next(page.len()));
            let mut pairing = Pairing::new(1);
            let _ = read_page(&damaged, &format, |time_ns, record| {
                if let Some((event, _)) = decoder.decode(time_ns, record) {
                    pairing.on_event(0, &event, |_| None, &mut |_, row| rows.push(row));
                }
            });
        }
        assert!(!rows.is_empty());
    }
}
