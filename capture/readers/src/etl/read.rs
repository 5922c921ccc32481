//! Reads a log's buffers with several threads, each keeping the facts of the buffers it decoded.
//!
//! Names, threads, processes and the like are kept whatever their number. Events of I/O are kept only up to a fixed number;
//! of a buffer beyond that, the index says where it lies and when it begins, for `stream` to decode it again.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use super::container::{
    BUFFER_BYTES_MAX, Batch, BufferHeader, FLAG_BUFFER_LOST, FLAG_COMPRESSED, FLAG_EVENTS_LOST,
    HEADER_BYTES, Walker,
};
use super::decode;
use super::facts::{Facts, Indexed, Wanted};
use super::header::{Compression, LogHeader};
use crate::error::Unreadable;
use crate::{lznt1, xpress, xpress_huffman};

/// Enough of a file to hold its log header event, which is at most 64 KiB.
const HEAD_BYTES: u64 = 72 + 65_536;
const THREADS_MAX: usize = 8;
/// A thread is worth its start from about this many bytes.
const BYTES_PER_THREAD: u64 = 4 << 20;
const PROGRESS_INTERVAL: Duration = Duration::from_millis(50);
const COMPRESSION_RATIO_MAX: u64 = 100;
const COMPRESSION_ALLOWANCE_BYTES: u64 = 256 << 20;

/// How many events of I/O are kept (64 bytes each) rather than decoded again.
pub const KEPT_EVENTS: usize = 1 << 19;

/// A whole log: its header and what was found.
pub struct Log {
    pub header: LogHeader,
    pub facts: Facts,
    pub truncated: bool,
    /// To decode buffers again that `facts` only index.
    pub file: File,
    pub threads: usize,
}

/// How far reading is. Called from time to time with bytes done and in all; `false` ends the reading.
pub type Progress<'a> = &'a mut dyn FnMut(u64, u64) -> bool;

/// Open a log and read its header.
pub fn open(path: &Path) -> Result<(File, u64, LogHeader), Unreadable> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    let mut head = Vec::new();
    Read::by_ref(&mut file)
        .take(HEAD_BYTES)
        .read_to_end(&mut head)?;
    Ok((file, length, LogHeader::parse(&head)?))
}

/// Bytes of a buffer between its header and the end of its valid data.
pub enum Payload<'a> {
    Whole(&'a [u8]),
    /// The header claims more than the buffer holds: what there is.
    Clipped(&'a [u8]),
    Damaged,
}

/// Find, and if need be decompress, the payload of a buffer. Never allocates more than the session's buffer size.
pub fn payload<'a>(
    buffer: &'a [u8],
    header: BufferHeader,
    log: &LogHeader,
    scratch: &'a mut Vec<u8>,
) -> Payload<'a> {
    let Some(filled) = header.filled.checked_sub(HEADER_BYTES) else {
        return Payload::Damaged;
    };
    let stored = &buffer[HEADER_BYTES..];
    if header.flags & FLAG_COMPRESSED == 0 {
        return stored
            .get(..filled)
            .map_or(Payload::Clipped(stored), Payload::Whole);
    }
    if filled > (log.buffer_bytes as usize).min(BUFFER_BYTES_MAX) {
        return Payload::Damaged;
    }
    match log.compression.unwrap_or(Compression::Xpress) {
        Compression::Lznt1 => lznt1::decompress(stored, scratch, filled),
        Compression::Xpress => xpress::decompress(stored, scratch, filled),
        Compression::XpressHuffman => xpress_huffman::decompress(stored, scratch, filled),
    }
    .map_or(Payload::Damaged, Payload::Whole)
}

/// Refuse a file that decompresses to more than any trace does, once `made` bytes came out of it.
pub fn check_ratio(made: u64, file_bytes: u64) -> Result<(), Unreadable> {
    if made
        <= file_bytes
            .saturating_mul(COMPRESSION_RATIO_MAX)
            .saturating_add(COMPRESSION_ALLOWANCE_BYTES)
    {
        return Ok(());
    }
    Err(Unreadable::content(
        format!(
            "claims to decompress to more than {COMPRESSION_RATIO_MAX} times its size, which no trace does"
        ),
        "it is damaged or was made to exhaust its reader; take it from the machine again",
    ))
}

/// Read a whole log with at most `threads` workers (0: as many as there are processors, up to 8).
pub fn read(
    path: &Path,
    threads: usize,
    kept_events: usize,
    progress: Progress,
) -> Result<Log, Unreadable> {
    let (file, length, header) = open(path)?;
    let again = File::open(path)?;
    let shared = Shared {
        walker: Mutex::new(Walker::new(file, length, header.stride())),
        header: &header,
        kept_events,
        kept: AtomicUsize::new(0),
        decompressed: AtomicU64::new(0),
        file_bytes: length,
        done: AtomicU64::new(0),
        finished: AtomicUsize::new(0),
        stop: AtomicBool::new(false),
    };
    let available = thread::available_parallelism()
        .map_or(1, usize::from)
        .min(THREADS_MAX);
    let useful = usize::try_from(length / BYTES_PER_THREAD + 1).unwrap_or(usize::MAX);
    let workers = useful.min(if threads == 0 {
        available
    } else {
        threads.min(THREADS_MAX)
    });
    let caller = &thread::current();
    let found = thread::scope(|scope| {
        let shared = &shared;
        let handles: Vec<_> = (0..workers)
            .map(|_| {
                scope.spawn(move || {
                    let running = Running { shared, caller };
                    let facts = shared.work();
                    if facts.is_err() {
                        shared.stop.store(true, Ordering::Relaxed);
                    }
                    drop(running);
                    facts
                })
            })
            .collect();
        while shared.finished.load(Ordering::Acquire) < workers {
            thread::park_timeout(PROGRESS_INTERVAL);
            if !progress(shared.done.load(Ordering::Relaxed), length) {
                shared.stop.store(true, Ordering::Relaxed);
            }
        }
        handles
            .into_iter()
            .map(|handle| handle.join().unwrap_or_else(|_| Err(Unreadable::defect())))
            .collect::<Result<Vec<Facts>, Unreadable>>()
    })?;
    if shared.stop.load(Ordering::Relaxed) {
        return Err(Unreadable::Cancelled);
    }
    let walker = shared
        .walker
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner);
    let mut facts = Facts::default();
    for other in found {
        facts.absorb(other);
    }
    facts.counts.damaged_buffers += walker.damaged;
    Ok(Log {
        header,
        facts,
        truncated: walker.truncated,
        file: again,
        threads: workers,
    })
}

struct Shared<'a> {
    walker: Mutex<Walker>,
    header: &'a LogHeader,
    kept_events: usize,
    /// Events of I/O that all workers kept.
    kept: AtomicUsize,
    decompressed: AtomicU64,
    file_bytes: u64,
    done: AtomicU64,
    finished: AtomicUsize,
    stop: AtomicBool,
}

impl Shared<'_> {
    fn work(&self) -> Result<Facts, Unreadable> {
        let mut facts = Facts::default();
        let mut batch = Batch::default();
        let mut scratch = Vec::new();
        while !self.stop.load(Ordering::Relaxed) {
            {
                let mut walker = self.walker.lock().unwrap_or_else(PoisonError::into_inner);
                if !walker.next(&mut batch)? {
                    break;
                }
                self.done.store(walker.position(), Ordering::Relaxed);
            }
            for (number, (position, bytes)) in (batch.first_index..).zip(batch.buffers()) {
                let number = u32::try_from(number).unwrap_or(u32::MAX);
                self.buffer(number, position, bytes, &mut facts, &mut scratch)?;
            }
        }
        Ok(facts)
    }

    fn buffer(
        &self,
        number: u32,
        position: u64,
        bytes: &[u8],
        facts: &mut Facts,
        scratch: &mut Vec<u8>,
    ) -> Result<(), Unreadable> {
        let Some(header) = BufferHeader::parse(bytes) else {
            return Ok(());
        };
        facts.counts.buffers += 1;
        facts.counts.loss_flags +=
            u64::from(header.flags & (FLAG_EVENTS_LOST | FLAG_BUFFER_LOST) != 0);
        if number > 0 {
            facts.sequences.push(header.sequence);
        }
        if header.flags & FLAG_COMPRESSED != 0 {
            let made = self.decompressed.fetch_add(
                header.filled.min(self.header.buffer_bytes as usize) as u64,
                Ordering::Relaxed,
            );
            check_ratio(made, self.file_bytes)?;
        }
        let payload = match payload(bytes, header, self.header, scratch) {
            Payload::Whole(payload) => payload,
            Payload::Clipped(payload) => {
                facts.counts.damaged_buffers += 1;
                payload
            }
            Payload::Damaged => {
                facts.counts.damaged_buffers += 1;
                return Ok(());
            }
        };
        let before = facts.events.len();
        facts.earliest = None;
        facts.wanted = if self.kept.load(Ordering::Relaxed) > self.kept_events {
            Wanted::AllButEvents
        } else {
            Wanted::Everything
        };
        decode::buffer(payload, number, facts);
        let Some(earliest) = facts.earliest else {
            return Ok(());
        };
        let count = facts.events.len() - before;
        if self.kept.fetch_add(count, Ordering::Relaxed) + count > self.kept_events {
            facts.events.truncate(before);
        }
        facts.index.push(Indexed {
            number,
            position,
            // Behind the valid data of a stored buffer there is nothing.
            bytes: match header.flags & FLAG_COMPRESSED {
                0 => bytes.len().min(header.filled),
                _ => bytes.len(),
            } as u32,
            processor: header.processor,
            sequence: header.sequence,
            earliest,
            kept: (before, facts.events.len()),
        });
        Ok(())
    }
}

/// Counts a worker as finished and wakes the caller, even if the worker panics.
struct Running<'a> {
    shared: &'a Shared<'a>,
    caller: &'a thread::Thread,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.shared.finished.fetch_add(1, Ordering::Release);
        self.caller.unpark();
    }
}
