//! The file of an event session: a header, then buffers at multiples of 512 bytes.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use crate::crc32;
use crate::error::Unreadable;

use super::bytes::Bytes;

const MAGIC: u32 = 0xEFAB_375A;
const VERSION: u16 = 10;
const FILE_HEADER_BYTES: u64 = 0x200;
const BUFFER_HEADER_BYTES: usize = 0x30;
const SECTOR_BYTES: u64 = 512;
/// The largest buffer that is believed; larger lengths are damage.
const BUFFER_BYTES_MAX: u64 = 1 << 28;
const CHECKED_BYTES: usize = 1024;

/// What a buffer holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    Events,
    Metadata,
    /// Header and index buffers, which no file seen has.
    Other,
}

/// Where a buffer lies, and what its header tells.
#[derive(Clone, Debug)]
pub struct Buffer {
    pub payload_offset: u64,
    pub payload_bytes: usize,
    /// Whether the file ends before the payload does; `payload_bytes` is what is left.
    pub is_cut: bool,
    pub content: Content,
    /// Which of the session's buffers it was.
    pub id: u32,
    /// Counts from 1; −1 where it does not count.
    pub number: i32,
    pub signature: [u8; 16],
    pub checksum: u32,
}

/// Walks the buffers of a file.
pub struct Container {
    file: File,
    bytes: u64,
    next: u64,
    /// Stretches that hold no readable buffer.
    pub damaged: u64,
    /// The file ends inside a buffer.
    pub truncated: bool,
}

impl Container {
    pub fn open(path: &Path) -> Result<Self, Unreadable> {
        let mut file = File::open(path)?;
        let bytes = file.metadata()?.len();
        let mut head = [0; 8];
        let whole = file.read(&mut head)? == head.len();
        let mut fields = Bytes::new(&head);
        let (magic, version) = (fields.u32(), fields.u16());
        if !whole || magic != Some(MAGIC) {
            return Err(Unreadable::content(
                "is no Extended Events file of SQL Server 2012 or later",
                "SQL Server 2008 wrote another form (.xel with .xem), which is not read; else check that the \
                 file was copied completely",
            ));
        }
        if version != Some(VERSION) {
            return Err(Unreadable::content(
                format!(
                    "is an Extended Events file of version {}; only version {VERSION} is known",
                    version.unwrap_or(0)
                ),
                "please report it with the version of SQL Server that wrote it",
            ));
        }
        Ok(Self {
            file,
            bytes,
            next: FILE_HEADER_BYTES,
            damaged: 0,
            truncated: bytes < FILE_HEADER_BYTES,
        })
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// How far the walk has come.
    pub fn done(&self) -> u64 {
        self.next.min(self.bytes)
    }

    /// The next buffer. Damaged stretches are skipped: a buffer begins only at a sector.
    pub fn next_buffer(&mut self) -> Result<Option<Buffer>, Unreadable> {
        let mut is_lost = false;
        while self.next < self.bytes {
            let left = self.bytes - self.next;
            let mut header = [0; BUFFER_HEADER_BYTES];
            self.file.seek(SeekFrom::Start(self.next))?;
            let found = fill(&mut self.file, &mut header)?;
            if header[..found].iter().all(|byte| *byte == 0) {
                // A file that was made larger ahead of use ends in zeros; so may a hole within.
                self.next += SECTOR_BYTES;
                continue;
            }
            if found < BUFFER_HEADER_BYTES {
                self.truncated |= !is_lost;
                self.next = self.bytes;
                continue;
            }
            let Some((mut buffer, bytes)) = parse(&header, self.next) else {
                self.damaged += u64::from(!is_lost);
                is_lost = true;
                self.next += SECTOR_BYTES;
                continue;
            };
            if bytes > left {
                self.truncated = true;
                let available = self.bytes.saturating_sub(buffer.payload_offset) as usize;
                buffer.is_cut = available < buffer.payload_bytes;
                buffer.payload_bytes = buffer.payload_bytes.min(available);
            }
            self.next = (self.next + bytes).next_multiple_of(SECTOR_BYTES);
            return Ok(Some(buffer));
        }
        Ok(None)
    }

    /// A buffer's payload into `into`, and whether its checksum holds (of a cut one nothing is known).
    pub fn payload(
        &mut self,
        buffer: &Buffer,
        into: &mut Vec<u8>,
    ) -> Result<Option<bool>, Unreadable> {
        into.resize(buffer.payload_bytes, 0);
        self.file.seek(SeekFrom::Start(buffer.payload_offset))?;
        let found = fill(&mut self.file, into)?;
        into.truncate(found);
        if buffer.is_cut || found < buffer.payload_bytes {
            return Ok(None);
        }
        let tail = &into[into.len().saturating_sub(CHECKED_BYTES)..];
        // The session does not invert the result as the standard does.
        Ok(Some(!crc32::update(0, tail) == buffer.checksum))
    }
}

fn fill(file: &mut File, into: &mut [u8]) -> Result<usize, Unreadable> {
    let mut found = 0;
    while found < into.len() {
        match file.read(&mut into[found..]) {
            Ok(0) => break,
            Ok(count) => found += count,
            Err(problem) if problem.kind() == std::io::ErrorKind::Interrupted => {}
            Err(problem) => return Err(problem.into()),
        }
    }
    Ok(found)
}

/// A buffer and its length on disk, if `header` can be one.
fn parse(header: &[u8; BUFFER_HEADER_BYTES], offset: u64) -> Option<(Buffer, u64)> {
    let mut fields = Bytes::new(header);
    let zero = fields.u32()?;
    let id = fields.u32()?;
    let number = fields.u32()?.cast_signed();
    let version = fields.u16()?;
    let content = match fields.u16()? {
        0 => Content::Events,
        1 => Content::Metadata,
        2 | 3 => Content::Other,
        _ => return None,
    };
    let bytes = u64::from(fields.u32()?);
    fields.skip(2)?;
    let start = u64::from(fields.u16()?);
    let payload_bytes = u64::from(fields.u32()?);
    let checksum = fields.u32()?;
    let signature = fields.guid()?;
    let is_plausible = zero == 0
        && version == VERSION
        && start >= BUFFER_HEADER_BYTES as u64
        && bytes <= BUFFER_BYTES_MAX
        && start + payload_bytes <= bytes;
    is_plausible.then_some((
        Buffer {
            payload_offset: offset + start,
            payload_bytes: payload_bytes as usize,
            is_cut: false,
            content,
            id,
            number,
            signature,
            checksum,
        },
        bytes,
    ))
}
