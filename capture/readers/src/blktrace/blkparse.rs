//! blkparse(1)'s default output: `259,0  1  6  0.000001676 21279  D  RA 2348060440 + 8 [name]`.

use std::fs::File;

use iotrace_block::{Event, Kind, rwbs};

use super::event::{Facts, Happening, Source, What, kind_of};

use super::lines::{Line, Lines, device, fields, number, remap_to, seconds, sectors};
use super::sequences::Sequences;

pub struct Blkparse {
    lines: Lines,
    sequences: Sequences,
    is_over: bool,
}

impl Blkparse {
    pub fn new(file: File) -> Self {
        Self {
            lines: Lines::new(file),
            sequences: Sequences::default(),
            is_over: false,
        }
    }
}

/// What a line says. `Err` for a line of another form, `Ok(None)` for a command that moves no sectors.
pub fn happening(
    line: &[u8],
    sequences: &mut Sequences,
    facts: &mut Facts,
) -> Result<Option<Happening>, ()> {
    let mut parts = fields(line);
    let mut next = || parts.next().ok_or(());
    let device = device(next()?).ok_or(())?;
    let mut small = || {
        number(next()?)
            .and_then(|number| u32::try_from(number).ok())
            .ok_or(())
    };
    let (processor, sequence) = (small()?, small()?);
    let time_ns = seconds(next()?).ok_or(())?;
    let thread = number(next()?)
        .and_then(|thread| i32::try_from(thread).ok())
        .ok_or(())?;
    let action = next()?;
    let kind = match action {
        [letter] => kind_of(*letter),
        [_, _] => None,
        _ => return Err(()),
    };
    // Messages (m) have no number of their own.
    if action != b"m" && !sequences.count(device, processor, sequence, time_ns) {
        facts.repeated += 1;
        return Ok(None);
    }
    let is_remap = action == b"A";
    let Some(kind) = kind else {
        let mut what = What::Other;
        if is_remap {
            let _letters = next()?;
            let sector = next().map(number)?.ok_or(())?;
            let (_plus, _sectors) = (next()?, next()?);
            what = What::Remap(remap_to((device, sector), parts).ok_or(())?);
        }
        return Ok(Some(Happening { time_ns, what }));
    };
    let letters = next()?;
    let place = next()?;
    let (sector, sectors) = match number(place) {
        Some(sector) => match parts.next() {
            // `C  FN 0 [0]`: no size where there is none.
            Some(rest) if rest.starts_with(b"[") => (sector, 0),
            Some(separator) => {
                let amount = parts.next().and_then(number).ok_or(())?;
                (sector, sectors(sector, separator, amount).ok_or(())?)
            }
            None => return Err(()),
        },
        // An empty flush prints nothing but its name.
        None if place.starts_with(b"[") => (0, 0),
        // A passthrough command prints its bytes in parentheses.
        None => {
            facts.passthrough += 1;
            return Ok(None);
        }
    };
    let Some((op, flags)) = rwbs::from_letters(letters, sectors) else {
        facts.passthrough += 1;
        return Ok(None);
    };
    let last = line.trim_ascii_end();
    let bracket = last.iter().rposition(|byte| *byte == b'[');
    let inner = bracket
        .and_then(|at| last[at + 1..].strip_suffix(b"]"))
        .unwrap_or_default();
    let mut error = 0;
    if kind == Kind::Complete {
        error = number(inner).map_or(0, |code| i32::from(code as u16 as i16).abs());
    } else {
        facts.name(thread, &String::from_utf8_lossy(inner));
    }
    let event = Event {
        time_ns,
        kind,
        device,
        op,
        flags,
        sector,
        sectors,
        error,
        thread,
    };
    Ok(Some(Happening {
        time_ns,
        what: What::Event(event),
    }))
}

impl Source for Blkparse {
    fn next(&mut self, facts: &mut Facts) -> std::io::Result<Option<Happening>> {
        loop {
            let line = match self.lines.next()? {
                Line::Whole(line) => line,
                Line::Overlong => {
                    facts.rejected += 1;
                    continue;
                }
                Line::Cut => {
                    // The summary's last line says nothing that is kept.
                    facts.truncated |= !self.is_over;
                    return Ok(None);
                }
                Line::End => return Ok(None),
            };
            // What comes after the events: totals for each processor.
            self.is_over |= line.starts_with(b"CPU") || line.starts_with(b"Total (");
            if line.trim_ascii().is_empty() {
                continue;
            }
            match happening(line, &mut self.sequences, facts) {
                // Another trace may follow the totals of the one before.
                Err(()) if self.is_over => continue,
                Ok(Some(happening)) => {
                    facts.events += 1;
                    return Ok(Some(happening));
                }
                Ok(None) => {}
                Err(()) => facts.rejected += 1,
            }
            facts.events += 1;
        }
    }

    fn finish(&mut self, _facts: &mut Facts) {}

    fn position(&self) -> u64 {
        self.lines.position
    }
}
