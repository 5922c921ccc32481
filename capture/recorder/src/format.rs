//! Layouts as the running kernel describes them: `events/header_page`, `events/header_event`, `events/*/*/format`.
//!
//! Offsets and sizes of trace records differ between kernel versions and architectures, so none is assumed.

use std::collections::HashMap;

/// A layout description that lacks what is needed.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{0}")]
pub struct FormatError(String);

/// Where a field lies in a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Bytes from the start of the record.
    pub offset: usize,
    /// Bytes.
    pub size: usize,
}

impl Field {
    /// The field as an unsigned number (native byte order), `None` if it lies outside `record` or is no integer.
    #[must_use]
    pub fn unsigned(self, record: &[u8]) -> Option<u64> {
        let bytes = record.get(self.offset..self.offset.checked_add(self.size)?)?;
        Some(match self.size {
            1 => u64::from(bytes[0]),
            2 => u64::from(u16::from_ne_bytes(bytes.try_into().ok()?)),
            4 => u64::from(u32::from_ne_bytes(bytes.try_into().ok()?)),
            8 => u64::from_ne_bytes(bytes.try_into().ok()?),
            _ => return None,
        })
    }

    /// The bytes of a fixed character array up to its first NUL.
    #[must_use]
    pub fn text(self, record: &[u8]) -> Option<&[u8]> {
        let bytes = record.get(self.offset..self.offset.checked_add(self.size)?)?;
        let end = bytes
            .iter()
            .position(|&byte| byte == 0)
            .unwrap_or(bytes.len());
        Some(&bytes[..end])
    }
}

/// One event's number and fields.
#[derive(Clone, Debug)]
pub struct EventFormat {
    /// Number in `common_type`.
    pub id: u16,
    /// Fields by name.
    pub fields: HashMap<String, Field>,
}

impl EventFormat {
    /// Parse a `format` file.
    pub fn parse(text: &str) -> Result<Self, FormatError> {
        let id = text
            .lines()
            .find_map(|line| line.strip_prefix("ID:"))
            .and_then(|number| number.trim().parse().ok())
            .ok_or_else(|| FormatError("event format has no ID".into()))?;
        Ok(Self {
            id,
            fields: parse_fields(text),
        })
    }

    /// A field that must be there.
    pub fn field(&self, name: &str) -> Result<Field, FormatError> {
        self.fields
            .get(name)
            .copied()
            .ok_or_else(|| FormatError(format!("event {} has no field {name}", self.id)))
    }
}

/// The ring buffer's page and event headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageFormat {
    /// Time of the page's first event.
    pub timestamp: Field,
    /// Bytes of events in the page, with flags in its high bits.
    pub commit: Field,
    /// Where events begin.
    pub data_offset: usize,
    /// The whole page.
    pub page_bytes: usize,
    /// `type_len` of padding.
    pub padding: u32,
    /// `type_len` of a time extension.
    pub time_extend: u32,
    /// `type_len` of an absolute time.
    pub time_stamp: u32,
}

impl PageFormat {
    /// Parse `header_page` and `header_event`.
    pub fn parse(header_page: &str, header_event: &str) -> Result<Self, FormatError> {
        let fields = parse_fields(header_page);
        let field = |name: &str| {
            fields
                .get(name)
                .copied()
                .ok_or_else(|| FormatError(format!("page header has no field {name}")))
        };
        // Bit fields of a C struct are laid out from the other end on big-endian machines.
        if cfg!(target_endian = "big") {
            return Err(FormatError("big-endian machines are not supported".into()));
        }
        for (name, bits) in [("type_len", 5), ("time_delta", 27)] {
            if labelled_number(header_event, name) != Some(bits) {
                return Err(FormatError(format!(
                    "event header: {name} is not {bits} bits"
                )));
            }
        }
        let kind = |name: &str| {
            labelled_number(header_event, name)
                .ok_or_else(|| FormatError(format!("event header has no {name}")))
        };
        let data = field("data")?;
        Ok(Self {
            timestamp: field("timestamp")?,
            commit: field("commit")?,
            data_offset: data.offset,
            page_bytes: data.offset + data.size,
            padding: kind("padding")?,
            time_extend: kind("time_extend")?,
            time_stamp: kind("time_stamp")?,
        })
    }
}

/// `name : 5 bits` or `name : type == 29`.
fn labelled_number(text: &str, name: &str) -> Option<u32> {
    let (_, value) = text
        .lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(label, _)| label.trim() == name)?;
    value.split_whitespace().find_map(|word| word.parse().ok())
}

/// Lines such as `field:char rwbs[10]; offset:28; size:10; signed:0;`.
fn parse_fields(text: &str) -> HashMap<String, Field> {
    text.lines().filter_map(parse_field).collect()
}

fn parse_field(line: &str) -> Option<(String, Field)> {
    let mut parts = line.trim().strip_prefix("field:")?.split(';');
    let name = parts
        .next()?
        .split_whitespace()
        .last()?
        .split('[')
        .next()?
        .trim_start_matches('*')
        .to_owned();
    let (mut offset, mut size) = (None, None);
    for part in parts {
        match part.trim().split_once(':') {
            Some(("offset", number)) => offset = number.trim().parse().ok(),
            Some(("size", number)) => size = number.trim().parse().ok(),
            _ => {}
        }
    }
    Some((
        name,
        Field {
            offset: offset?,
            size: size?,
        },
    ))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// As Linux 6.18 on x86-64 prints them.
    pub(crate) const HEADER_PAGE: &str = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;
\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;
\tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;
\tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;
";
    pub(crate) const HEADER_EVENT: &str = "# compressed entry header
\ttype_len    :    5 bits
\ttime_delta  :   27 bits
\tarray       :   32 bits

\tpadding     : type == 29
\ttime_extend : type == 30
\ttime_stamp : type == 31
\tdata max type_len  == 28
";

    #[test]
    fn page_header_of_a_real_kernel() {
        let format = PageFormat::parse(HEADER_PAGE, HEADER_EVENT).unwrap();
        assert_eq!(format.commit, Field { offset: 8, size: 8 });
        assert_eq!((format.data_offset, format.page_bytes), (16, 4096));
        assert_eq!(
            (format.padding, format.time_extend, format.time_stamp),
            (29, 30, 31)
        );
    }

    #[test]
    fn arrays_and_dynamic_fields_have_names() {
        let text = "name: x\nID: 2104\nformat:\n\tfield:char rwbs[10];\toffset:34;\tsize:10;\tsigned:0;\n\
                    \tfield:__data_loc char[] cmd;\toffset:60;\tsize:4;\tsigned:0;\n";
        let format = EventFormat::parse(text).unwrap();
        assert_eq!(format.id, 2104);
        assert_eq!(
            format.field("rwbs").unwrap(),
            Field {
                offset: 34,
                size: 10
            }
        );
        assert_eq!(format.field("cmd").unwrap().offset, 60);
        assert!(format.field("bytes").is_err());
    }

    #[test]
    fn incomplete_descriptions_are_refused() {
        assert!(PageFormat::parse("", HEADER_EVENT).is_err());
        assert!(PageFormat::parse(HEADER_PAGE, "").is_err());
        assert!(EventFormat::parse("format:").is_err());
    }
}
