//! Ring-buffer pages as `trace_pipe_raw` hands them out.
//!
//! A page holds a start time, a commit word (bytes used; bit 31: events were lost before this page; bit 30: their
//! number follows the events) and events. An event opens with a 32-bit word: 5 bits `type_len`, 27 bits time since
//! the event before. Source: the comments in Linux `include/linux/ring_buffer.h` and the kernel's own description in
//! `events/header_event`. Any bytes are survived: a page that contradicts itself ends early and is counted.

use crate::format::{Field, PageFormat};

const COMMIT_MASK: u64 = (1 << 27) - 1;
const MISSED_STORED: u64 = 1 << 30;
const MISSED_EVENTS: u64 = 1 << 31;
const DELTA_BITS: u32 = 27;
/// An absolute time record holds the low 59 bits of the clock.
const ABSOLUTE_BITS: u32 = 59;

/// What one page said beside its events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageOutcome {
    /// Events were lost between the page before and this one.
    pub missed: bool,
    /// How many, where the kernel had room to say.
    pub missed_events: u64,
    /// The page contradicts itself; its remaining bytes were skipped.
    pub damaged: bool,
}

/// How far a page has been read. It holds no bytes: the same page has to be passed to every call.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cursor {
    at: usize,
    end: usize,
    time_ns: u64,
}

/// A record reaches past the end of its page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damaged;

/// Where a data record lies in its page, and when it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// On the trace clock.
    pub time_ns: u64,
    /// First byte.
    pub start: usize,
    /// Behind the last byte.
    pub end: usize,
}

impl Cursor {
    /// The start of `page`, and what the page says beside its events. A damaged page has none.
    #[must_use]
    pub fn open(page: &[u8], format: &PageFormat) -> (Self, PageOutcome) {
        let mut outcome = PageOutcome {
            damaged: true,
            ..PageOutcome::default()
        };
        let (Some(time_ns), Some(commit)) = (
            format.timestamp.unsigned(page),
            format.commit.unsigned(page),
        ) else {
            return (Self::default(), outcome);
        };
        outcome.missed = commit & MISSED_EVENTS != 0;
        let end = format.data_offset + (commit & COMMIT_MASK) as usize;
        if end > page.len() {
            return (Self::default(), outcome);
        }
        if commit & MISSED_STORED != 0 {
            let count = Field {
                offset: end,
                size: 8,
            };
            outcome.missed_events = count.unsigned(page).unwrap_or_default();
        }
        outcome.damaged = false;
        let cursor = Self {
            at: format.data_offset,
            end,
            time_ns,
        };
        (cursor, outcome)
    }

    /// The next data record; `None` at the end.
    #[inline]
    pub fn next(&mut self, page: &[u8], format: &PageFormat) -> Result<Option<Place>, Damaged> {
        let events = page.get(..self.end).ok_or(Damaged)?;
        while self.at < self.end {
            let place = self.step(events, format);
            if place == Err(Damaged) {
                self.at = self.end;
            }
            if place != Ok(None) {
                return place;
            }
        }
        Ok(None)
    }

    /// One record of any kind: its place if it holds data.
    #[inline]
    fn step(&mut self, events: &[u8], format: &PageFormat) -> Result<Option<Place>, Damaged> {
        let word = u32_at(events, self.at).ok_or(Damaged)?;
        let (type_len, delta) = (word & 31, u64::from(word >> 5));
        if type_len == format.padding {
            if delta == 0 {
                self.at = self.end; // the rest of the page is unused
                return Ok(None);
            }
            // A discarded event: what follows counts its time from it.
            self.time_ns = self.time_ns.wrapping_add(delta);
            let length = u32_at(events, self.at + 4).ok_or(Damaged)? as usize;
            self.at = self.at.saturating_add(4).saturating_add(length);
        } else if type_len == format.time_extend {
            let high = u64::from(u32_at(events, self.at + 4).ok_or(Damaged)?);
            self.time_ns = self.time_ns.wrapping_add((high << DELTA_BITS) + delta);
            self.at += 8;
        } else if type_len == format.time_stamp {
            let high = u64::from(u32_at(events, self.at + 4).ok_or(Damaged)?);
            self.time_ns = with_high_bits((high << DELTA_BITS) + delta, self.time_ns);
            self.at += 8;
        } else {
            self.time_ns = self.time_ns.wrapping_add(delta);
            // type_len 0: the length, which counts its own four bytes, is in the next word.
            let (start, length) = if type_len == 0 {
                let length = u32_at(events, self.at + 4).ok_or(Damaged)? as usize;
                (
                    self.at + 8,
                    length.checked_sub(4).ok_or(Damaged)?.next_multiple_of(4),
                )
            } else {
                (self.at + 4, type_len as usize * 4)
            };
            let end = start.saturating_add(length);
            if end > self.end {
                return Err(Damaged);
            }
            self.at = end;
            return Ok(Some(Place {
                time_ns: self.time_ns,
                start,
                end,
            }));
        }
        Ok(None)
    }
}

/// Call `on_event(time_ns, record)` for each data record of `page`, in order.
#[cfg(test)]
pub(crate) fn read_page<'page>(
    page: &'page [u8],
    format: &PageFormat,
    mut on_event: impl FnMut(u64, &'page [u8]),
) -> PageOutcome {
    let (mut cursor, mut outcome) = Cursor::open(page, format);
    loop {
        match cursor.next(page, format) {
            Ok(Some(place)) => on_event(place.time_ns, &page[place.start..place.end]),
            Ok(None) => return outcome,
            Err(Damaged) => {
                outcome.damaged = true;
                return outcome;
            }
        }
    }
}

/// Absolute records drop the clock's high bits: take them from the time before, which is never later.
fn with_high_bits(low: u64, before_ns: u64) -> u64 {
    let low = low & ((1 << ABSOLUTE_BITS) - 1);
    let high = before_ns >> ABSOLUTE_BITS << ABSOLUTE_BITS;
    if high == 0 {
        return low;
    }
    let time_ns = high | low;
    if time_ns < before_ns {
        time_ns.wrapping_add(1 << ABSOLUTE_BITS)
    } else {
        time_ns
    }
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(
        bytes.get(at..at.checked_add(4)?)?.try_into().ok()?,
    ))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::format::tests::{HEADER_EVENT, HEADER_PAGE};

    fn format() -> PageFormat {
        PageFormat::parse(HEADER_PAGE, HEADER_EVENT).unwrap()
    }

    fn word(type_len: u32, delta: u32) -> [u8; 4] {
        (type_len | delta << 5).to_ne_bytes()
    }

    pub(crate) fn page(start_ns: u64, flags: u64, events: &[u8], after: &[u8]) -> Vec<u8> {
        let mut page = Vec::new();
        page.extend(start_ns.to_ne_bytes());
        page.extend((events.len() as u64 | flags).to_ne_bytes());
        page.extend(events);
        page.extend(after);
        page.resize(page.len().max(4096), 0);
        page
    }

    fn read(page: &[u8]) -> (Vec<(u64, Vec<u8>)>, PageOutcome) {
        let mut events = Vec::new();
        let outcome = read_page(page, &format(), |time, data| {
            events.push((time, data.to_vec()));
        });
        (events, outcome)
    }

    #[test]
    fn every_kind_of_record() {
        let mut body = Vec::new();
        body.extend(word(1, 5)); // four bytes, 5 ns after the page's start
        body.extend(*b"aaaa");
        body.extend(word(30, 3)); // time extension of (2 << 27) + 3
        body.extend(2_u32.to_ne_bytes());
        body.extend(word(0, 7)); // long form: 8 bytes of data, length word says 12
        body.extend(12_u32.to_ne_bytes());
        body.extend(*b"bbbbbbbb");
        body.extend(word(29, 11)); // discarded, 8 bytes after its word
        body.extend(8_u32.to_ne_bytes());
        body.extend([0xff; 4]);
        body.extend(word(1, 1));
        body.extend(*b"cccc");
        body.extend(word(31, 9)); // absolute
        body.extend(64_u32.to_ne_bytes());
        body.extend(word(1, 0));
        body.extend(*b"dddd");
        body.extend(word(29, 0)); // rest unused
        body.extend([0xee; 12]);
        let (events, outcome) = read(&page(1000, 0, &body, &[]));
        let late = 1005 + (2 << 27) + 3 + 7;
        assert_eq!(
            events,
            [
                (1005, b"aaaa".to_vec()),
                (late, b"bbbbbbbb".to_vec()),
                (late + 12, b"cccc".to_vec()),
                ((64 << 27) + 9, b"dddd".to_vec()),
            ]
        );
        assert_eq!(outcome, PageOutcome::default());
    }

    #[test]
    fn lost_events_are_told() {
        let (_, outcome) = read(&page(
            0,
            MISSED_EVENTS | MISSED_STORED,
            &[],
            &41_u64.to_ne_bytes(),
        ));
        assert_eq!(
            outcome,
            PageOutcome {
                missed: true,
                missed_events: 41,
                damaged: false
            }
        );
        let (_, outcome) = read(&page(0, MISSED_EVENTS, &[], &41_u64.to_ne_bytes()));
        assert_eq!(
            outcome,
            PageOutcome {
                missed: true,
                missed_events: 0,
                damaged: false
            }
        );
    }

    #[test]
    fn absolute_times_keep_the_high_bits() {
        let high = 3 << ABSOLUTE_BITS;
        assert_eq!(with_high_bits(10, high | 0x5), high | 0xa);
        assert_eq!(with_high_bits(4, high | 0x5), (4 << ABSOLUTE_BITS) | 0x4); // wrapped around since
        assert_eq!(with_high_bits(4, 5), 4);
    }

    #[test]
    fn records_past_the_end_are_damage() {
        for body in [
            &word(4, 1)[..],
            &word(0, 1),
            &[&word(0, 1)[..], &3_u32.to_ne_bytes()].concat(),
            &[1, 2],
        ] {
            assert!(read(&page(0, 0, body, &[])).1.damaged);
        }
        assert!(read(&page(0, 5000, &[], &[])).1.damaged); // more bytes than the page has
        assert!(read(&[1, 2, 3]).1.damaged);
    }

    #[test]
    fn any_bytes_are_survived() {
        let mut state = 0x1234_5678_9abc_def1_u64; // xorshift, fixed seed
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        for _ in 0..20_000 {
            let mut bytes: Vec<u8> = (0..next() % 40)
                .flat_map(|_| next().to_ne_bytes())
                .collect();
            if bytes.len() > 16 {
                bytes[10..16].fill(0); // so that the commit word is often within the page
            }
            let _ = read(&bytes);
        }
    }
}
