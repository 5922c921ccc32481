//! Values of fields and actions, and their JSON.

use std::fmt::Write as _;

use super::bytes::{unsigned, utf16};
use super::metadata::{Form, Metadata, Type, word};

/// One value of an event.
#[derive(Clone, Debug, PartialEq)]
pub enum Value<'a> {
    Signed(i64),
    Unsigned(u64),
    Float(f64),
    Boolean(bool),
    Text(String),
    Binary(&'a [u8]),
    /// Addresses from the innermost frame outwards.
    Callstack(&'a [u8]),
}

impl Value<'_> {
    pub fn unsigned(&self) -> Option<u64> {
        match self {
            Self::Unsigned(number) => Some(*number),
            Self::Signed(number) => u64::try_from(*number).ok(),
            _ => None,
        }
    }

    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }
}

/// The value that `bytes` hold; `None` if their number does not fit the type.
pub fn value<'a>(bytes: &'a [u8], of: Type, metadata: &Metadata) -> Option<Value<'a>> {
    if let Some(map) = of.map {
        return word(metadata.maps.get(&map), bytes).map(Value::Text);
    }
    Some(match of.form {
        Form::Signed => {
            let unused = 64_u32.checked_sub(8 * u32::try_from(bytes.len()).ok()?)?;
            let number = unsigned(bytes)?.checked_shl(unused).unwrap_or(0);
            Value::Signed(number.cast_signed() >> unused.min(63))
        }
        Form::Unsigned => Value::Unsigned(unsigned(bytes)?),
        Form::Float => Value::Float(match bytes.len() {
            4 => f64::from(f32::from_le_bytes(bytes.try_into().ok()?)),
            _ => f64::from_le_bytes(bytes.try_into().ok()?),
        }),
        Form::Filetime => Value::Text(filetime(unsigned(bytes)?)),
        Form::Pointer => Value::Text(format!("0x{:016X}", unsigned(bytes)?)),
        Form::Ansi => Value::Text(String::from_utf8_lossy(bytes).into_owned()),
        Form::Unicode => Value::Text(utf16(bytes)),
        Form::Guid => Value::Text(guid(bytes.try_into().ok()?)),
        Form::Activity => {
            let (id, sequence) = bytes.split_at_checked(16)?;
            let sequence = unsigned(sequence)?;
            Value::Text(format!("{}:{sequence}", guid(id.try_into().ok()?)))
        }
        Form::Boolean => Value::Boolean(unsigned(bytes)? != 0),
        Form::Binary => Value::Binary(bytes),
        Form::Callstack => Value::Callstack(bytes),
    })
}

/// A GUID in its usual letters.
pub fn guid(bytes: [u8; 16]) -> String {
    let number = u128::from_le_bytes(bytes);
    let rest = &bytes[8..];
    let mut text = format!(
        "{:08x}-{:04x}-{:04x}-{:02x}{:02x}-",
        number as u32,
        (number >> 32) as u16,
        (number >> 48) as u16,
        rest[0],
        rest[1]
    );
    for byte in &rest[2..] {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// A FILETIME as ISO 8601 in UTC; the civil date by days from 0000-03-01.
fn filetime(value: u64) -> String {
    let (seconds, fraction) = (value / 10_000_000, value % 10_000_000);
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let shifted = days + 584_694; // 1601-01-01 counted from 0000-03-01
    let era = shifted / 146_097;
    let of_era = shifted % 146_097;
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.{fraction:07}Z",
        second / 3600,
        second / 60 % 60,
        second % 60
    )
}

/// An object in JSON, written name by name into a buffer that is used again.
#[derive(Default)]
pub struct Object {
    text: String,
}

impl Object {
    pub fn begin(&mut self) {
        self.text.clear();
        self.text.push('{');
    }

    pub fn member(&mut self, name: &str, value: &Value<'_>) {
        if self.text.len() > 1 {
            self.text.push(',');
        }
        string(&mut self.text, name);
        self.text.push(':');
        let out = &mut self.text;
        let _ = match value {
            Value::Signed(number) => write!(out, "{number}"),
            Value::Unsigned(number) => write!(out, "{number}"),
            Value::Float(number) if number.is_finite() => write!(out, "{number:?}"),
            Value::Float(_) => write!(out, "null"),
            Value::Boolean(truth) => write!(out, "{truth}"),
            Value::Text(text) => {
                string(out, text);
                Ok(())
            }
            Value::Binary(bytes) => {
                hexadecimal(out, bytes);
                Ok(())
            }
            Value::Callstack(bytes) => {
                out.push('[');
                for (position, frame) in bytes.as_chunks::<8>().0.iter().enumerate() {
                    let separator = if position == 0 { "" } else { "," };
                    let _ = write!(out, "{separator}\"0x{:016X}\"", u64::from_le_bytes(*frame));
                }
                out.push(']');
                Ok(())
            }
        };
    }

    pub fn end(&mut self) -> &str {
        self.text.push('}');
        &self.text
    }
}

fn hexadecimal(out: &mut String, bytes: &[u8]) {
    const DIGITS: [char; 16] = [
        '0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'A', 'B', 'C', 'D', 'E', 'F',
    ];
    out.push_str("\"0x");
    for byte in bytes {
        out.push(DIGITS[usize::from(byte >> 4)]);
        out.push(DIGITS[usize::from(byte & 15)]);
    }
    out.push('"');
}

fn string(out: &mut String, text: &str) {
    out.push('"');
    for letter in text.chars() {
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            letter if letter < ' ' => {
                let _ = write!(out, "\\u{:04x}", letter as u32);
            }
            letter => out.push(letter),
        }
    }
    out.push('"');
}

#[test]
fn filetimes_are_dates() {
    assert_eq!(filetime(0), "1601-01-01T00:00:00.0000000Z");
    assert_eq!(
        filetime(116_444_736_000_000_001),
        "1970-01-01T00:00:00.0000001Z"
    );
    assert_eq!(
        filetime(133_536_384_000_000_000),
        "2024-02-29T00:00:00.0000000Z"
    );
}

#[test]
fn signed_numbers_keep_their_sign() {
    let metadata = |bytes: &[u8]| {
        let unused = 64 - 8 * bytes.len() as u32;
        (unsigned(bytes).unwrap() << unused).cast_signed() >> unused
    };
    assert_eq!(metadata(&[0xFF]), -1);
    assert_eq!(metadata(&[0xFE, 0xFF]), -2);
}
