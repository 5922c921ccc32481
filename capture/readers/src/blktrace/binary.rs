//! blktrace's binary records, as `linux/blktrace_api.h` defines them (version 7): 48 bytes and a payload each.

use std::fs::File;
use std::io::{BufReader, Read};

use iotrace_block::{Event, Kind, rwbs};

use super::event::{Facts, Happening, Source, What, kind_of};
use super::remaps::Remap;
use super::sequences::Sequences;

const MAGIC: u32 = 0x6561_7407;
const RECORD_BYTES: usize = 48;
const NOTIFY: u32 = 1 << 10;
const READ_MASKS: usize = 1 << 18;

/// Whether the file's first bytes are a record, and in which byte order: true for big-endian.
pub fn byte_order(head: &[u8]) -> Option<bool> {
    let magic: [u8; 4] = head.get(..4)?.try_into().ok()?;
    match magic {
        _ if u32::from_le_bytes(magic) == MAGIC => Some(false),
        _ if u32::from_be_bytes(magic) == MAGIC => Some(true),
        _ => None,
    }
}

/// Records of one file, whatever processors they came from.
pub struct Binary {
    file: BufReader<File>,
    big_endian: bool,
    position: u64,
    sequences: Sequences,
    payload: Vec<u8>,
    /// The first bytes of the next record, once one was read: None at the end.
    ahead: Option<[u8; 4]>,
    is_begun: bool,
}

impl Binary {
    pub fn new(file: File, big_endian: bool) -> Self {
        Self {
            file: BufReader::with_capacity(READ_MASKS, file),
            big_endian,
            position: 0,
            sequences: Sequences::default(),
            payload: Vec::new(),
            ahead: None,
            is_begun: false,
        }
    }

    fn next_magic(&mut self, facts: &mut Facts) -> std::io::Result<Option<[u8; 4]>> {
        let mut magic = [0; 4];
        Ok(self.fill(&mut magic, facts, false)?.then_some(magic))
    }

    fn is_record(&self, magic: [u8; 4]) -> bool {
        self.u32(&magic, 0) == MAGIC
    }

    /// Fill `target`; false at the end, which is a cut if anything was left.
    fn fill(
        &mut self,
        target: &mut [u8],
        facts: &mut Facts,
        inside: bool,
    ) -> std::io::Result<bool> {
        let mut done = 0;
        while done < target.len() {
            let got = self.file.read(&mut target[done..])?;
            if got == 0 {
                facts.truncated |= inside || done > 0;
                return Ok(false);
            }
            done += got;
        }
        self.position += done as u64;
        Ok(true)
    }

    fn u32(&self, record: &[u8], at: usize) -> u32 {
        let bytes = [record[at], record[at + 1], record[at + 2], record[at + 3]];
        if self.big_endian {
            u32::from_be_bytes(bytes)
        } else {
            u32::from_le_bytes(bytes)
        }
    }

    fn u64(&self, record: &[u8], at: usize) -> u64 {
        let (low, high) = if self.big_endian {
            (at + 4, at)
        } else {
            (at, at + 4)
        };
        u64::from(self.u32(record, high)) << 32 | u64::from(self.u32(record, low))
    }

    fn u16(&self, record: &[u8], at: usize) -> u16 {
        let bytes = [record[at], record[at + 1]];
        if self.big_endian {
            u16::from_be_bytes(bytes)
        } else {
            u16::from_le_bytes(bytes)
        }
    }

    fn note(&self, record: &[u8], facts: &mut Facts) {
        match self.u32(record, 28) & 0xff {
            0 => {
                let end = self
                    .payload
                    .iter()
                    .position(|byte| *byte == 0)
                    .unwrap_or(self.payload.len());
                let name = String::from_utf8_lossy(&self.payload[..end]).into_owned();
                facts.name(self.u32(record, 32) as i32, &name);
            }
            1 if self.payload.len() >= 8 => {
                let seconds = i64::from(self.u32(&self.payload, 0));
                let wall = seconds * 1_000_000_000 + i64::from(self.u32(&self.payload, 4));
                let at = self.u64(record, 8).min(i64::MAX as u64 / 2) as i64;
                facts.utc_offset_ns.get_or_insert(wall - at);
            }
            _ => {}
        }
    }

    fn event(&mut self, record: &[u8], facts: &mut Facts) -> Option<Happening> {
        let action = self.u32(record, 28);
        let category = action >> 16;
        if category & NOTIFY != 0 {
            self.note(record, facts);
            return None;
        }
        let device = self.u32(record, 36);
        let time_ns = self.u64(record, 8);
        let (processor, number) = (self.u32(record, 40), self.u32(record, 4));
        if !self.sequences.count(device, processor, number, time_ns) {
            facts.repeated += 1;
            return None;
        }
        if category & 1 << 9 != 0 {
            facts.passthrough += 1;
            return None;
        }
        if i64::try_from(time_ns).is_err() {
            return None;
        }
        let kind = match action & 0xff {
            1 => kind_of(b'Q'),
            6 => kind_of(b'R'),
            7 => kind_of(b'D'),
            8 => kind_of(b'C'),
            13 => kind_of(b'X'),
            _ => None,
        };
        let sector = self.u64(record, 16);
        // A cgroup id may come first in the payload.
        let payload = self
            .payload
            .get(if action & 0x100 != 0 { 8 } else { 0 }..)
            .unwrap_or_default();
        let mut what = What::Other;
        if action & 0xff == 15
            && let Some((remap, _)) = payload.split_first_chunk::<16>()
        {
            let from = u32::from_be_bytes([remap[0], remap[1], remap[2], remap[3]]);
            let sectors = remap[8..].iter();
            let from_sector = sectors.fold(0, |sum, byte| sum << 8 | u64::from(*byte));
            what = What::Remap(Remap {
                from,
                from_sector,
                to: device,
                to_sector: sector,
            });
        }
        let Some(kind) = kind else {
            return Some(Happening { time_ns, what });
        };
        let mut sectors = u64::from(self.u32(record, 24)).div_ceil(512);
        let Some((op, flags)) = rwbs::from_category(category, sectors) else {
            facts.passthrough += 1;
            return None;
        };
        if kind == Kind::Split {
            // The payload names the first sector of the second part.
            let second = payload.first_chunk::<8>();
            sectors = second.map_or(0, |at| u64::from_be_bytes(*at).saturating_sub(sector));
            sectors = sectors.min(Event::SECTORS_MAX);
        }
        if sectors > 0 && sector > Event::SECTORS_MAX {
            facts.rejected += 1;
            return None;
        }
        let error = i32::from(self.u16(record, 44) as i16).abs();
        let event = Event {
            time_ns,
            kind,
            device,
            op,
            flags,
            sector,
            sectors,
            error: if kind == Kind::Complete { error } else { 0 },
            thread: self.u32(record, 32) as i32,
        };
        Some(Happening {
            time_ns,
            what: What::Event(event),
        })
    }
}

impl Source for Binary {
    fn next(&mut self, facts: &mut Facts) -> std::io::Result<Option<Happening>> {
        let mut record = [0; RECORD_BYTES];
        if !self.is_begun {
            self.is_begun = true;
            self.ahead = self.next_magic(facts)?;
        }
        loop {
            let Some(magic) = self.ahead.take() else {
                return Ok(None);
            };
            if !self.is_record(magic) {
                // Lengths chain the records: after a broken one nothing can be found.
                facts.rejected += 1;
                facts.truncated = true;
                return Ok(None);
            }
            record[..4].copy_from_slice(&magic);
            if !self.fill(&mut record[4..], facts, true)? {
                return Ok(None);
            }
            let mut payload = std::mem::take(&mut self.payload);
            payload.resize(usize::from(self.u16(&record, 46)), 0);
            let whole = self.fill(&mut payload, facts, true)?;
            self.payload = payload;
            if !whole {
                return Ok(None);
            }
            self.ahead = self.next_magic(facts)?;
            if self.ahead.is_some_and(|magic| !self.is_record(magic)) {
                // What made the next one unreadable may have begun inside of this one.
                facts.rejected += 1;
                continue;
            }
            facts.events += 1;
            if let Some(event) = self.event(&record, facts) {
                return Ok(Some(event));
            }
        }
    }

    fn finish(&mut self, facts: &mut Facts) {
        facts.lost += self.sequences.lost();
    }

    fn position(&self) -> u64 {
        self.position
    }
}
