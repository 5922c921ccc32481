//! `perf script` of block tracepoints: `name  pid [cpu]  seconds: block:block_rq_issue: 8,0 R 4096 () 0 + 8 [name]`.
//!
//! The events' own texts are the print formats of include/trace/events/block.h in the Linux sources. Kernels from 6.9 on
//! add a priority (`none,0,0`) before the name, which is passed over.

use std::fs::File;

use iotrace_block::{Event, Kind, rwbs};

use super::event::{Facts, Happening, Source, What};
use super::lines::{Line, Lines, device, fields, number, remap_to, seconds, sectors};

pub struct Perf {
    lines: Lines,
}

impl Perf {
    pub fn new(file: File) -> Self {
        Self {
            lines: Lines::new(file),
        }
    }
}

/// What a line says. `Err` for a block event of another form, `Ok(None)` for what is none, or a driver's command.
pub fn happening(line: &[u8], facts: &mut Facts) -> Result<Option<Happening>, ()> {
    let Some(at) = find(line, b" block:block_") else {
        return Ok(None);
    };
    facts.events += 1;
    let mut parts = fields(&line[at + 13..]);
    let name = parts.next().ok_or(())?.strip_suffix(b":").ok_or(())?;
    let kind = match name {
        b"bio_queue" => Some(Kind::BioQueue),
        b"bio_complete" => Some(Kind::BioComplete),
        b"split" => Some(Kind::Split),
        b"rq_issue" => Some(Kind::RequestIssue),
        b"rq_requeue" => Some(Kind::RequestRequeue),
        b"rq_complete" => Some(Kind::RequestComplete),
        _ => None,
    };
    let (time_ns, thread) = asker(&line[..at], facts).ok_or(())?;
    let Some(kind) = kind else {
        let mut what = What::Other;
        if name == b"bio_remap" {
            let to = device(parts.next().ok_or(())?).ok_or(())?;
            let _letters = parts.next();
            let to_sector = parts.next().and_then(number).ok_or(())?;
            let (_plus, _sectors) = (parts.next(), parts.next());
            what = What::Remap(remap_to((to, to_sector), parts).ok_or(())?);
        }
        return Ok(Some(Happening { time_ns, what }));
    };

    let device = device(parts.next().ok_or(())?).ok_or(())?;
    let letters = parts.next().ok_or(())?;
    let mut field = parts.next().ok_or(())?;
    let mut told_bytes = None;
    if matches!(
        kind,
        Kind::RequestIssue | Kind::RequestRequeue | Kind::RequestComplete
    ) {
        if kind == Kind::RequestIssue {
            told_bytes = number(field);
            field = parts.next().ok_or(())?;
        }
        // The command's bytes, in parentheses, may hold blanks.
        while !field.ends_with(b")") {
            field = parts.next().ok_or(())?;
        }
        field = parts.next().ok_or(())?;
    }
    let sector = number(field)
        .or_else(|| (field == b"18446744073709551615").then_some(u64::MAX))
        .ok_or(())?;
    let separator = parts.next().ok_or(())?;
    let amount = parts.next().and_then(number).ok_or(())?;
    let sectors = sectors(sector, separator, amount).ok_or(())?;
    if told_bytes.is_some_and(|told| told > 0) && sectors == 0 {
        facts.passthrough += 1;
        return Ok(None);
    }
    let Some((op, flags)) = rwbs::from_letters(letters, sectors) else {
        facts.passthrough += 1;
        return Ok(None);
    };
    let mut error = 0;
    if matches!(kind, Kind::RequestComplete | Kind::BioComplete) {
        let last = line.trim_ascii_end();
        let bracket = last.iter().rposition(|byte| *byte == b'[');
        let inner = bracket
            .and_then(|at| last[at + 1..].strip_suffix(b"]"))
            .unwrap_or_default();
        error = number(inner.strip_prefix(b"-").unwrap_or(inner))
            .map_or(0, |code| code.min(4095) as i32);
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

/// Time and thread of what stands before an event, whose thread's name is noted.
fn asker(head: &[u8], facts: &mut Facts) -> Option<(u64, i32)> {
    let head = head.trim_ascii_end().strip_suffix(b":")?;
    let clock = head.iter().rposition(u8::is_ascii_whitespace)?;
    let time_ns = seconds(&head[clock + 1..])?;
    let mut before = head[..clock].trim_ascii_end();
    if before.ends_with(b"]") {
        before = before[..before.iter().rposition(|byte| *byte == b'[')?].trim_ascii_end();
    }
    let space = before.iter().rposition(u8::is_ascii_whitespace)?;
    // With -F pid,tid it is PID/TID.
    let thread = before[space + 1..].rsplit(|byte| *byte == b'/').next()?;
    let thread = number(thread).and_then(|thread| i32::try_from(thread).ok())?;
    facts.name(
        thread,
        &String::from_utf8_lossy(before[..space].trim_ascii()),
    );
    Some((time_ns, thread))
}

fn find(line: &[u8], text: &[u8]) -> Option<usize> {
    line.windows(text.len()).position(|window| window == text)
}

impl Source for Perf {
    fn next(&mut self, facts: &mut Facts) -> std::io::Result<Option<Happening>> {
        loop {
            let line = match self.lines.next()? {
                Line::Whole(line) => line,
                Line::Overlong => {
                    facts.rejected += 1;
                    continue;
                }
                Line::Cut => {
                    facts.truncated = true;
                    return Ok(None);
                }
                Line::End => return Ok(None),
            };
            match happening(line, facts) {
                Ok(Some(happening)) => return Ok(Some(happening)),
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
