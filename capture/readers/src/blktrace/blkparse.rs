//! blkparse(1)'s default output: `259,0  1  6  0.000001676 21279  D  RA 2348060440 + 8 [name]`.

use std::fs::File;

use super::event::{Action, Event, Facts, Source, letters};
use super::lines::{Line, Lines, device, fields, number, seconds};

pub struct Blkparse {
    lines: Lines,
    is_over: bool,
}

impl Blkparse {
    pub fn new(file: File) -> Self {
        Self {
            lines: Lines::new(file),
            is_over: false,
        }
    }
}

/// The event of a line. `Err` for a line of another form, `Ok(None)` for an event that moves nothing.
pub fn event(line: &[u8], facts: &mut Facts) -> Result<Option<Event>, ()> {
    let mut parts = fields(line);
    let mut next = || parts.next().ok_or(());
    let device_number = device(next()?).ok_or(())?;
    number(next()?).ok_or(())?;
    number(next()?).ok_or(())?;
    let time_ns = seconds(next()?).ok_or(())?;
    let thread = number(next()?)
        .and_then(|thread| i32::try_from(thread).ok())
        .ok_or(())?;
    let action = match next()? {
        b"Q" => Action::Queue,
        b"M" | b"F" => Action::Merge,
        b"R" => Action::Requeue,
        b"D" => Action::Issue,
        b"C" => Action::Complete,
        b"X" => Action::Split,
        b"A" => Action::Remap,
        name if name.len() <= 2 => Action::Other,
        _ => return Err(()),
    };
    if action == Action::Other {
        return Ok(None);
    }
    let operation = next()?;
    let sector = next()?;
    let Some(sector) = number(sector) else {
        // A passthrough command prints its bytes in parentheses, an empty flush nothing but its name.
        if sector.starts_with(b"[") {
            return finish(
                line,
                device_number,
                time_ns,
                thread,
                action,
                operation,
                (0, 0),
                None,
                facts,
            );
        }
        facts.passthrough += 1;
        return Ok(None);
    };
    let mut sectors = 0;
    let mut from = None;
    match parts.next() {
        Some(b"+") => {
            sectors = parts.next().and_then(number).ok_or(())?;
            if action == Action::Remap && parts.next() == Some(b"<-") {
                let parent = parts.next().ok_or(())?;
                let parent = parent
                    .strip_prefix(b"(")
                    .and_then(|text| text.strip_suffix(b")"))
                    .ok_or(())?;
                from = Some((
                    device(parent).ok_or(())?,
                    parts.next().and_then(number).ok_or(())?,
                ));
            }
        }
        Some(b"/") => {}
        // `C  FN 0 [0]`: no size where there is none.
        Some(rest) if rest.starts_with(b"[") => {}
        _ => return Err(()),
    }
    finish(
        line,
        device_number,
        time_ns,
        thread,
        action,
        operation,
        (sector, sectors),
        from,
        facts,
    )
}

#[expect(clippy::too_many_arguments, reason = "the columns of a line")]
fn finish(
    line: &[u8],
    device: u32,
    time_ns: i64,
    thread: i32,
    action: Action,
    operation: &[u8],
    (sector, sectors): (u64, u64),
    remapped_from: Option<(u32, u64)>,
    facts: &mut Facts,
) -> Result<Option<Event>, ()> {
    let bytes = sectors
        .checked_mul(512)
        .filter(|bytes| u32::try_from(*bytes).is_ok())
        .ok_or(())?;
    let Some((op, flags)) = letters(operation, bytes) else {
        facts.passthrough += 1;
        return Ok(None);
    };
    let last = line.trim_ascii_end();
    let bracket = last
        .iter()
        .rposition(|byte| *byte == b'[')
        .map(|at| &last[at + 1..]);
    let inner = bracket
        .and_then(|text| text.strip_suffix(b"]"))
        .unwrap_or_default();
    let mut error = 0;
    if action == Action::Complete {
        error = number(inner).map_or(0, |code| i32::from(code as u16 as i16).abs());
    } else {
        facts.name(thread, &String::from_utf8_lossy(inner));
    }
    Ok(Some(Event {
        time_ns,
        device,
        action,
        op,
        flags,
        sector,
        bytes,
        writes: operation.contains(&b'W'),
        thread,
        error,
        remapped_from,
    }))
}

impl Source for Blkparse {
    fn next(&mut self, facts: &mut Facts) -> std::io::Result<Option<Event>> {
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
            if self.is_over || line.trim_ascii().is_empty() {
                continue;
            }
            facts.events += 1;
            match event(line, facts) {
                Ok(Some(event)) => return Ok(Some(event)),
                Ok(None) => {}
                Err(()) => facts.rejected += 1,
            }
        }
    }

    fn finish(&mut self, _facts: &mut Facts) {}

    fn position(&self) -> u64 {
        self.lines.position
    }
}
