//! The events in a payload, one after the other, and the values in each.

use super::bytes::Bytes;
use super::metadata::{Column, Event, Metadata, Type};
use super::values::{Value, value};

const HEADER_BYTES: usize = 24;
const HAS_ACTIONS: u32 = 1 << 31;
const VERSION_BITS: u32 = 0x3F;
const VERSION: u32 = 10;
const KIND_EVENT: u32 = 0;
const KIND_ACTION: u32 = 1;

/// An event as it lies in its payload.
#[derive(Clone, Copy)]
pub struct Raw<'a> {
    pub id: u32,
    pub ticks: u64,
    pub data: &'a [u8],
    /// The list of actions with its end, empty where there is none.
    actions: &'a [u8],
}

impl<'a> Raw<'a> {
    /// Action ids and their bytes.
    pub fn actions(&self) -> impl Iterator<Item = (u32, &'a [u8])> + use<'a> {
        let mut left = Bytes::new(self.actions);
        std::iter::from_fn(move || {
            let id = left.u32().filter(|id| id >> 28 == KIND_ACTION)?;
            let length = left.u32()? as usize;
            Some((id, left.take(length)?))
        })
    }
}

/// Takes events off a payload.
pub struct Events<'a> {
    payload: &'a [u8],
    position: usize,
}

impl<'a> Events<'a> {
    pub fn new(payload: &'a [u8]) -> Self {
        Self {
            payload,
            position: 0,
        }
    }

    /// Where the next event begins.
    pub fn position(&self) -> usize {
        self.position
    }

    /// The next event; `None` at the end, or where what follows is no whole event.
    pub fn next(&mut self) -> Option<Raw<'a>> {
        let mut fields = Bytes::new(self.payload.get(self.position..)?);
        let id = fields.u32()?;
        let flags = fields.u32()?;
        if id >> 28 != KIND_EVENT || flags & VERSION_BITS != VERSION {
            return None;
        }
        fields.skip(4)?;
        let ticks = fields.u64()?;
        let length = fields.u32()? as usize;
        let data = fields.take(length)?;
        let start = self.payload.len() - fields.len();
        if flags & HAS_ACTIONS != 0 {
            loop {
                let id = fields.u32()?;
                let length = fields.u32()? as usize;
                fields.skip(length)?;
                if id >> 28 != KIND_ACTION {
                    break;
                }
            }
        }
        let end = self.payload.len() - fields.len();
        debug_assert!(end >= self.position + HEADER_BYTES);
        self.position = end;
        Some(Raw {
            id,
            ticks,
            data,
            actions: &self.payload[start..end],
        })
    }

    /// Whether nothing but padding is left.
    pub fn is_at_end(&self) -> bool {
        self.payload[self.position..].iter().all(|byte| *byte == 0)
    }
}

/// Where a column's value lies in the event's data, and of what type it is; `None` past the data's end.
fn place<'a>(data: &'a [u8], column: &Column, metadata: &Metadata) -> Option<(&'a [u8], Type)> {
    let of = metadata.type_of(column.type_id)?;
    let mut here = Bytes::new(data.get(column.offset..)?);
    let bytes = if of.bytes > 0 {
        here.take(usize::from(of.bytes))?
    } else {
        let start = here.u32()? as usize;
        let length = here.u32()? as usize;
        data.get(start..)?.get(..length)?
    };
    Some((bytes, of))
}

/// The value of one column.
pub fn field<'a>(raw: &Raw<'a>, column: &Column, metadata: &Metadata) -> Option<Value<'a>> {
    let (bytes, of) = place(raw.data, column, metadata)?;
    value(bytes, of, metadata)
}

/// The values of an event's columns in order; a column past the event's data is `None`.
///
/// `None` if the columns claim more bytes than the event has: they would share them, which no event does.
pub fn fields<'a>(
    raw: &Raw<'a>,
    event: &Event,
    metadata: &Metadata,
) -> Option<Vec<Option<Value<'a>>>> {
    let mut left = raw.data.len();
    let mut values = Vec::with_capacity(event.columns.len());
    for column in &event.columns {
        let placed = place(raw.data, column, metadata);
        if let Some((bytes, _)) = placed {
            left = left.checked_sub(bytes.len())?;
        }
        values.push(placed.and_then(|(bytes, of)| value(bytes, of, metadata)));
    }
    Some(values)
}
