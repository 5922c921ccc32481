//! Text lines of a file, bounded in length, and the numbers in them.

use std::fs::File;
use std::io::{BufRead, BufReader};

use iotrace_block::Event;

use super::remaps::Remap;

const LINE_BYTES_MAX: usize = 1 << 16;

/// Lines one after the other; a last one without an end is not handed out.
pub struct Lines {
    file: BufReader<File>,
    pub position: u64,
    line: Vec<u8>,
}

pub enum Line<'a> {
    Whole(&'a [u8]),
    Overlong,
    Cut,
    End,
}

impl Lines {
    pub fn new(file: File) -> Self {
        Self {
            file: BufReader::with_capacity(1 << 18, file),
            position: 0,
            line: Vec::new(),
        }
    }

    pub fn next(&mut self) -> std::io::Result<Line<'_>> {
        self.line.clear();
        let mut overlong = false;
        loop {
            let buffer = self.file.fill_buf()?;
            if buffer.is_empty() {
                return Ok(if self.line.is_empty() && !overlong {
                    Line::End
                } else {
                    Line::Cut
                });
            }
            let end = buffer.iter().position(|byte| *byte == b'\n');
            let taken = end.map_or(buffer.len(), |end| end + 1);
            if self.line.len() + taken > LINE_BYTES_MAX {
                overlong = true;
                self.line.clear();
            } else if !overlong {
                self.line.extend_from_slice(&buffer[..end.unwrap_or(taken)]);
            }
            self.file.consume(taken);
            self.position += taken as u64;
            if end.is_some() {
                return Ok(if overlong {
                    Line::Overlong
                } else {
                    Line::Whole(&self.line)
                });
            }
        }
    }
}

/// A whole number of at most 19 digits.
pub fn number(text: &[u8]) -> Option<u64> {
    if text.is_empty() || text.len() > 19 || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(
        text.iter()
            .fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0')),
    )
}

/// Seconds with up to nine decimals, in nanoseconds.
pub fn seconds(text: &[u8]) -> Option<u64> {
    let point = text.iter().position(|byte| *byte == b'.')?;
    let (whole, fraction) = (number(&text[..point])?, &text[point + 1..]);
    if fraction.is_empty() || fraction.len() > 9 || whole > 4_000_000_000 {
        return None;
    }
    let scale = 10_u64.pow(9 - fraction.len() as u32);
    Some(whole * 1_000_000_000 + number(fraction)? * scale)
}

/// Major and minor number, parted by a comma, as the kernel packs them.
pub fn device(text: &[u8]) -> Option<u32> {
    let comma = text.iter().position(|byte| *byte == b',')?;
    let (major, minor) = (number(&text[..comma])?, number(&text[comma + 1..])?);
    (major < 1 << 12 && minor < 1 << 20).then_some((major as u32) << 20 | minor as u32)
}

/// Fields parted by blanks, and where each begins.
pub fn fields(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(u8::is_ascii_whitespace)
        .filter(|field| !field.is_empty())
}

/// A remap to a device and sector, whose line ends with where it came from: `<- (8,1) 2048`.
pub fn remap_to<'line>(
    (to, to_sector): (u32, u64),
    mut parts: impl Iterator<Item = &'line [u8]>,
) -> Option<Remap> {
    parts.next().filter(|arrow| arrow == b"<-")?;
    let parent = parts.next()?.strip_prefix(b"(")?.strip_suffix(b")")?;
    Some(Remap {
        from: device(parent)?,
        from_sector: parts.next().and_then(number)?,
        to,
        to_sector,
    })
}

/// Sectors from a line: of a split (`100 / 110`) those of the first part, of anything else (`100 + 8`) all of them, which
/// are at most 4 GiB.
pub fn sectors(sector: u64, separator: &[u8], number: u64) -> Option<u64> {
    let sectors = match separator {
        b"/" => number.saturating_sub(sector),
        b"+" => number,
        _ => return None,
    };
    let is_place = sectors == 0 || sector <= Event::SECTORS_MAX;
    (is_place && sectors <= u64::from(u32::MAX) / 512).then_some(sectors)
}
