//! `perf script` of block tracepoints: `name  pid [cpu]  seconds: block:block_rq_issue: 8,0 R 4096 () 0 + 8 [name]`.
//!
//! The events' own texts are the print formats of include/trace/events/block.h in the Linux sources. Kernels from 6.9 on
//! add a priority (`none,0,0`) before the name, which is passed over.

use std::fs::File;

use super::event::{Action, Event, Facts, Source, letters};
use super::lines::{Line, Lines, device, fields, number, seconds};

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

/// The event of a line. `Err` for a block event of another form, `Ok(None)` for what is no event that changes a clock.
pub fn event(line: &[u8], facts: &mut Facts) -> Result<Option<Event>, ()> {
    let Some(at) = find(line, b" block:block_") else {
        return Ok(None);
    };
    facts.events += 1;
    let mut parts = fields(&line[at + 13..]);
    let action = match parts.next().ok_or(())?.strip_suffix(b":").ok_or(())? {
        b"bio_queue" => Action::Queue,
        b"bio_backmerge" | b"bio_frontmerge" => Action::Merge,
        b"rq_requeue" => Action::Requeue,
        b"rq_issue" => Action::Issue,
        b"rq_complete" | b"bio_complete" => Action::Complete,
        b"split" => Action::Split,
        b"bio_remap" => Action::Remap,
        _ => return Ok(None),
    };
    // A bio's own completion repeats the request's, except on devices that have no requests.
    let is_bio_completion = line[at..].starts_with(b" block:block_bio_complete:");
    let (time_ns, thread) = asker(&line[..at], facts).ok_or(())?;

    let device_number = device(parts.next().ok_or(())?).ok_or(())?;
    let operation = parts.next().ok_or(())?;
    let mut field = parts.next().ok_or(())?;
    let mut told_bytes = None;
    if matches!(action, Action::Issue | Action::Requeue | Action::Complete) && !is_bio_completion {
        if action == Action::Issue {
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
    let count = parts.next().and_then(number).ok_or(())?;
    let sectors = if separator == b"+" { count } else { 0 };
    let bytes = sectors
        .checked_mul(512)
        .filter(|bytes| u32::try_from(*bytes).is_ok())
        .ok_or(())?;
    if told_bytes.is_some_and(|told| told > 0) && sectors == 0 {
        facts.passthrough += 1;
        return Ok(None);
    }
    let Some((op, flags)) = letters(operation, bytes) else {
        facts.passthrough += 1;
        return Ok(None);
    };
    let mut remapped_from = None;
    if action == Action::Remap && parts.next() == Some(b"<-") {
        let parent = parts.next().ok_or(())?;
        let parent = parent
            .strip_prefix(b"(")
            .and_then(|text| text.strip_suffix(b")"))
            .ok_or(())?;
        remapped_from = Some((
            device(parent).ok_or(())?,
            parts.next().and_then(number).ok_or(())?,
        ));
    }
    let mut error = 0;
    if action == Action::Complete {
        let last = line.trim_ascii_end();
        let inner = last
            .iter()
            .rposition(|byte| *byte == b'[')
            .map(|at| &last[at + 1..]);
        let inner = inner
            .and_then(|text| text.strip_suffix(b"]"))
            .unwrap_or_default();
        error = number(inner.strip_prefix(b"-").unwrap_or(inner))
            .map_or(0, |code| code.min(4095) as i32);
    }
    Ok(Some(Event {
        time_ns,
        device: device_number,
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

/// Time and thread of what stands before an event, whose thread's name is noted.
fn asker(head: &[u8], facts: &mut Facts) -> Option<(i64, i32)> {
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
    fn next(&mut self, facts: &mut Facts) -> std::io::Result<Option<Event>> {
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
