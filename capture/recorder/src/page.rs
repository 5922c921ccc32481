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

/// Call `on_event(time_ns, record)` for each data record of `page`, in order.
pub fn read_page<'page>(
    page: &'page [u8],
    format: &PageFormat,
    mut on_event: impl FnMut(u64, &'page [u8]),
) -> PageOutcome {
    let (Some(start), Some(commit)) = (
        format.timestamp.unsigned(page),
        format.commit.unsigned(page),
    ) else {
        return PageOutcome {
            damaged: true,
            ..PageOutcome::default()
        };
    };
    let mut outcome = PageOutcome {
        missed: commit & MISSED_EVENTS != 0,
        ..PageOutcome::default()
    };
    let body = page.get(format.data_offset..).unwrap_or_default();
    let used = (commit & COMMIT_MASK) as usize;
    let Some(events) = body.get(..used) else {
        return PageOutcome {
            damaged: true,
            ..outcome
        };
    };
    if commit & MISSED_STORED != 0 {
        let count = Field {
            offset: format.data_offset + used,
            size: 8,
        };
        outcome.missed_events = count.unsigned(page).unwrap_or_default();
    }
    outcome.damaged = walk(events, start, format, &mut on_event).is_none();
    outcome
}

/// `None` when a record reaches past the end.
fn walk<'page>(
    events: &'page [u8],
    mut time_ns: u64,
    format: &PageFormat,
    on_event: &mut impl FnMut(u64, &'page [u8]),
) -> Option<()> {
    let mut at = 0;
    while at < events.len() {
        let word = u32_at(events, at)?;
        let (type_len, delta) = (word & 31, u64::from(word >> 5));
        if type_len == format.padding {
            if delta == 0 {
                return Some(()); // the rest of the page is unused
            }
            // A discarded event: what follows counts its time from it.
            time_ns = time_ns.wrapping_add(delta);
            at = at
                .checked_add(4)?
                .checked_add(u32_at(events, at + 4)? as usize)?;
        } else if type_len == format.time_extend {
            let high = u64::from(u32_at(events, at + 4)?);
            time_ns = time_ns.wrapping_add((high << DELTA_BITS) + delta);
            at += 8;
        } else if type_len == format.time_stamp {
            let high = u64::from(u32_at(events, at + 4)?);
            time_ns = with_high_bits((high << DELTA_BITS) + delta, time_ns);
            at += 8;
        } else {
            time_ns = time_ns.wrapping_add(delta);
            // type_len 0: the length, which counts its own four bytes, is in the next word.
            let (data, length) = if type_len == 0 {
                (
                    at + 8,
                    (u32_at(events, at + 4)? as usize)
                        .checked_sub(4)?
                        .next_multiple_of(4),
                )
            } else {
                (at + 4, type_len as usize * 4)
            };
            let end = data.checked_add(length)?;
            on_event(time_ns, events.get(data..end)?);
            at = end;
        }
    }
    Some(())
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
        page.resize(4096, 0);
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
