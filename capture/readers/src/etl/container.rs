//! The container: a plain sequence of buffers, each with a 72-byte header, read in batches that several threads share.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

use super::fields::Fields;

/// Bytes of a buffer's header.
pub const HEADER_BYTES: usize = 72;
/// No session has larger buffers (the system's limit is 16 MiB); whatever a file says, no more is allocated.
pub const BUFFER_BYTES_MAX: usize = 64 << 20;
/// What is read at once is to stay in the processor's own cache.
const BATCH_BYTES: usize = 1 << 19;

pub const FLAG_EVENTS_LOST: u16 = 0x02;
pub const FLAG_BUFFER_LOST: u16 = 0x04;
pub const FLAG_COMPRESSED: u16 = 0x40;
const FLAG_PROCESSOR: u16 = 0x20;

/// The fields of a buffer header that mean anything in a file.
#[derive(Debug, Clone, Copy)]
pub struct BufferHeader {
    /// Number of the buffer in the log, over all processors.
    pub sequence: i64,
    /// In the first buffer of a compressed log: the compression format.
    pub state: u32,
    /// End of valid data in the (decompressed) buffer, this header included.
    pub filled: usize,
    /// `FLAG_…` bits.
    pub flags: u16,
    pub processor: u16,
}

impl BufferHeader {
    /// `bytes` start with the header. `None` if they are too short for one.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let fields = Fields(bytes.get(..HEADER_BYTES)?);
        Some(Self {
            sequence: fields.i64(0x18)?,
            state: fields.u32(0x2C)?,
            filled: fields.u32(0x30)? as usize,
            flags: fields.u16(0x34)?,
            // Windows 7 has the number in one byte, and an alignment in the next.
            processor: if fields.u16(0x34)? & FLAG_PROCESSOR == 0 {
                u16::from(fields.u8(0x28)?)
            } else {
                fields.u16(0x28)?
            },
        })
    }
}

/// Some whole buffers, as they lie in the file.
#[derive(Default)]
pub struct Batch {
    bytes: Vec<u8>,
    ranges: Vec<(usize, usize)>,
    /// Number of the first of them in the file.
    pub first_index: u64,
    /// Where in the file `bytes` begins.
    position: u64,
}

impl Batch {
    /// Each buffer, header included, and where in the file it begins.
    pub fn buffers(&self) -> impl Iterator<Item = (u64, &[u8])> {
        self.ranges
            .iter()
            .map(|(start, end)| (self.position + *start as u64, &self.bytes[*start..*end]))
    }
}

/// Walks the buffers of a file from its start.
pub struct Walker {
    file: File,
    position: u64,
    length: u64,
    buffers: u64,
    /// Distance of buffers in a log that is not compressed: where to go on after a damaged header.
    stride: Option<u64>,
    /// The file ends inside a buffer.
    pub truncated: bool,
    /// Buffer headers that made no sense.
    pub damaged: u64,
}

impl Walker {
    /// `stride` is the session's buffer size where all buffers have it.
    pub fn new(file: File, length: u64, stride: Option<u64>) -> Self {
        Self {
            file,
            position: 0,
            length,
            buffers: 0,
            stride,
            truncated: false,
            damaged: 0,
        }
    }

    /// Bytes walked so far.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Fill `batch` with the next buffers; `false` at the end.
    pub fn next(&mut self, batch: &mut Batch) -> io::Result<bool> {
        batch.ranges.clear();
        batch.first_index = self.buffers;
        let mut wanted = BATCH_BYTES;
        while batch.ranges.is_empty() && self.position < self.length {
            self.read_from_position(&mut batch.bytes, wanted)?;
            batch.position = self.position;
            let (walked, missing) = self.find_buffers(batch);
            self.position = (self.position + walked as u64).min(self.length);
            if walked == 0 && self.position < self.length {
                if missing > batch.bytes.len() && self.position + missing as u64 <= self.length {
                    // One buffer larger than a batch.
                    wanted = missing;
                } else {
                    self.truncated = true;
                    self.length = self.position;
                }
            }
        }
        self.buffers += batch.ranges.len() as u64;
        Ok(!batch.ranges.is_empty())
    }

    /// Find the whole buffers in the batch's bytes. Returns how many bytes are dealt with, and the size of the buffer
    /// that begins there but does not end (0: not even its size field is whole).
    fn find_buffers(&mut self, batch: &mut Batch) -> (usize, usize) {
        let mut at = 0;
        while let Some(size) = Fields(batch.bytes.get(at..).unwrap_or_default()).u32(0) {
            let size = size as usize;
            if size == 0 {
                // The unused rest of a preallocated file.
                self.length = self.position + at as u64;
                return (at, 0);
            }
            if (HEADER_BYTES..=BUFFER_BYTES_MAX).contains(&size) {
                if at + size > batch.bytes.len() {
                    return (at, size);
                }
                batch.ranges.push((at, at + size));
                at += size;
            } else {
                self.damaged += 1;
                let Some(stride) = self.stride else {
                    self.truncated = true;
                    self.length = self.position + at as u64;
                    return (at, 0);
                };
                let position = self.position + at as u64;
                at += (stride - position % stride) as usize;
            }
        }
        (at, 0)
    }

    fn read_from_position(&mut self, bytes: &mut Vec<u8>, wanted: usize) -> io::Result<()> {
        bytes.clear();
        self.file.seek(SeekFrom::Start(self.position))?;
        let wanted = (wanted as u64).min(self.length - self.position);
        Read::by_ref(&mut self.file)
            .take(wanted)
            .read_to_end(bytes)?;
        if (bytes.len() as u64) < wanted {
            // The file shrank while it was read.
            self.truncated = true;
            self.length = self.position + bytes.len() as u64;
        }
        Ok(())
    }
}
