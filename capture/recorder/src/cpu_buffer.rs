//! One processor's ring buffer: its events in order of time, page by page.

use std::io::{self, ErrorKind, Read};

use crate::format::PageFormat;
use crate::page::{Cursor, Damaged, Place};

/// An event this much younger than the present is a damaged time, and would hold up all that follows it.
const FUTURE_NS: u64 = 60_000_000_000;

/// Pages come from `pipe`, one by each read, in the layout `format`.
#[derive(Debug)]
pub struct CpuBuffer<P> {
    pipe: P,
    page: Vec<u8>,
    /// Bytes of `page` that the last read filled.
    filled: usize,
    cursor: Cursor,
    head: Option<Place>,
    /// Time of the last event taken.
    pub last_ns: u64,
    /// Pages that contradicted themselves.
    pub damaged_pages: u64,
    /// Events were lost after what the buffer holds from before this round of reading.
    pub has_gap: bool,
}

impl<P: Read> CpuBuffer<P> {
    /// Of pages up to those `format` tells.
    pub fn new(pipe: P, format: &PageFormat) -> Self {
        Self {
            pipe,
            page: vec![0; format.page_bytes],
            filled: 0,
            cursor: Cursor::default(),
            head: None,
            last_ns: 0,
            damaged_pages: 0,
            has_gap: false,
        }
    }

    /// What the pages are read from.
    pub fn pipe(&self) -> &P {
        &self.pipe
    }

    /// Time of the next event; `None` if there is none at present.
    #[inline]
    pub fn head_ns(&mut self, format: &PageFormat, now_ns: u64) -> io::Result<Option<u64>> {
        loop {
            if let Some(head) = self.head {
                return Ok(Some(head.time_ns));
            }
            let page = &self.page[..self.filled];
            match self.cursor.next(page, format) {
                Ok(Some(place)) if place.time_ns <= now_ns.saturating_add(FUTURE_NS) => {
                    self.head = Some(place);
                }
                Ok(None) => {
                    if !self.next_page(format)? {
                        return Ok(None);
                    }
                }
                Ok(Some(_)) | Err(Damaged) => {
                    self.damaged_pages += 1;
                    self.cursor = Cursor::default();
                }
            }
        }
    }

    /// Take the event whose time `head_ns` told.
    #[inline]
    pub fn take(&mut self) -> Option<(u64, &[u8])> {
        let Place {
            time_ns,
            start,
            end,
        } = self.head.take()?;
        self.last_ns = time_ns;
        Some((time_ns, &self.page[start..end]))
    }

    /// False if the pipe is empty.
    fn next_page(&mut self, format: &PageFormat) -> io::Result<bool> {
        self.filled = 0;
        self.cursor = Cursor::default();
        loop {
            match self.pipe.read(&mut self.page) {
                Ok(0) => return Ok(false),
                Ok(length) => {
                    self.filled = length;
                    let (cursor, outcome) = Cursor::open(&self.page[..length], format);
                    self.cursor = cursor;
                    self.damaged_pages += u64::from(outcome.damaged);
                    return Ok(true);
                }
                Err(problem) if problem.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(problem) if problem.kind() == ErrorKind::Interrupted => {}
                Err(problem) => return Err(problem),
            }
        }
    }
}

#[cfg(test)]
#[path = "cpu_buffer_tests.rs"]
pub(crate) mod tests;
