//! What a session's metadata tells: the events, actions, maps and types that its events refer to.

use std::collections::{BTreeSet, HashMap};

use super::bytes::{Bytes, unsigned};

/// Names and map texts longer than this are damage; the limit keeps small events from growing into long text.
const TEXT_BYTES_MAX: usize = 1024;
const KIND_TYPE: u32 = 6;
const KIND_MAP: u32 = 3;
const VERSION: u16 = 10;
const RECORD_HEADER_BYTES: usize = 48;

/// How a value is stored, by the object index of a type of package 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Signed,
    Unsigned,
    Float,
    Filetime,
    Pointer,
    Ansi,
    Unicode,
    Guid,
    Binary,
    Callstack,
    Activity,
    Boolean,
}

/// The type of a column or action.
#[derive(Clone, Copy, Debug)]
pub struct Type {
    pub form: Form,
    /// 0: the value's place and length are stored in its stead.
    pub bytes: u8,
    /// The map that gives the value its word.
    pub map: Option<u32>,
}

/// A data column of an event.
#[derive(Clone, Debug)]
pub struct Column {
    pub name: String,
    pub type_id: u32,
    pub offset: usize,
    pub description: String,
}

/// A kind of event.
#[derive(Clone, Debug)]
pub struct Event {
    pub name: String,
    pub package: String,
    pub description: String,
    pub uuid: Option<[u8; 16]>,
    pub columns: Vec<Column>,
}

#[derive(Clone, Debug)]
pub struct Action {
    pub name: String,
    pub package: String,
    pub type_id: u32,
}

#[derive(Clone, Debug)]
pub struct Map {
    pub value_bytes: u8,
    pub is_mask: bool,
    pub words: HashMap<u32, String>,
}

/// A session's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    /// FILETIME of tick 0.
    pub base_filetime: u64,
    /// Ticks a second; 0: a tick is 100 ns.
    pub frequency: u64,
}

impl Clock {
    /// Nanoseconds since 1970 of a tick, in steps of 100; `None` outside 1970 to 2262.
    pub fn utc_ns(&self, ticks: u64) -> Option<i64> {
        let ticks = u128::from(ticks);
        let elapsed = match self.frequency {
            0 => ticks,
            frequency => ticks * 10_000_000 / u128::from(frequency),
        };
        let since_1970 = (elapsed + u128::from(self.base_filetime))
            .checked_sub(116_444_736_000_000_000)?
            .checked_mul(100)?;
        i64::try_from(since_1970).ok()
    }
}

/// Everything described under one signature. Objects are keyed by id.
#[derive(Debug)]
pub struct Metadata {
    pub clock: Clock,
    /// Names and descriptions.
    pub packages: BTreeSet<(String, String)>,
    pub events: HashMap<u32, Event>,
    pub actions: HashMap<u32, Action>,
    pub maps: HashMap<u32, Map>,
    /// The action that numbers the session's events.
    pub sequence_action: Option<u32>,
    type_bytes: HashMap<u32, u8>,
}

impl Metadata {
    fn new(clock: Clock) -> Self {
        Self {
            clock,
            packages: BTreeSet::new(),
            events: HashMap::new(),
            actions: HashMap::new(),
            maps: HashMap::new(),
            sequence_action: None,
            type_bytes: HashMap::new(),
        }
    }

    /// The type behind a type id; maps are types too. `None` for an id that means neither.
    pub fn type_of(&self, id: u32) -> Option<Type> {
        match id >> 28 {
            KIND_MAP => Some(Type {
                form: Form::Unsigned,
                bytes: self.maps.get(&id).map_or(4, |map| map.value_bytes),
                map: Some(id),
            }),
            KIND_TYPE => {
                let (form, usual_bytes) = match (id & 0x3FF, id >> 10 & 0x3_FFFF) {
                    (0, 1) => (Form::Signed, 1),
                    (0, 2) => (Form::Signed, 2),
                    (0, 3) => (Form::Signed, 4),
                    (0, 4) => (Form::Signed, 8),
                    (0, 5) => (Form::Unsigned, 1),
                    (0, 6) => (Form::Unsigned, 2),
                    (0, 7) => (Form::Unsigned, 4),
                    (0, 8 | 11) => (Form::Unsigned, 8),
                    (0, 9) => (Form::Float, 4),
                    (0, 10) => (Form::Float, 8),
                    (0, 12) => (Form::Filetime, 8),
                    (0, 13) => (Form::Pointer, 8),
                    (0, 15 | 20 | 27) => (Form::Unicode, 0),
                    (0, 16 | 21) => (Form::Guid, 16),
                    (0, 19) => (Form::Ansi, 0),
                    (0, 23) => (Form::Callstack, 0),
                    (0, 24 | 25) => (Form::Activity, 20),
                    (0, 26) => (Form::Boolean, 1),
                    // Packages may bring types of their own, of which only the size is told.
                    _ => (Form::Binary, 0),
                };
                Some(Type {
                    form,
                    bytes: self.type_bytes.get(&id).copied().unwrap_or(usual_bytes),
                    map: None,
                })
            }
            _ => None,
        }
    }
}

/// Metadata of a file by signature.
pub type Known = HashMap<[u8; 16], Metadata>;

/// Merge the packages of a metadata payload into `known`; `false` if some of it could not be read.
pub fn parse(payload: &[u8], known: &mut Known) -> bool {
    let mut left = payload;
    while left.len() > RECORD_HEADER_BYTES && left[..2] != [0, 0] {
        let bytes = u32::from_le_bytes([left[2], left[3], left[4], left[5]]) as usize;
        let Some(record) = left.get(..bytes).filter(|_| bytes > RECORD_HEADER_BYTES) else {
            return false;
        };
        if package(record, known).is_none() {
            return false;
        }
        left = &left[bytes..];
    }
    true
}

fn package(record: &[u8], known: &mut Known) -> Option<()> {
    let mut fields = Bytes::new(record);
    if fields.u16()? != VERSION {
        return None;
    }
    fields.skip(4)?;
    let signature = fields.guid()?;
    fields.skip(10)?;
    let clock = Clock {
        base_filetime: fields.u64()?,
        frequency: fields.u64()?,
    };
    let metadata = known
        .entry(signature)
        .or_insert_with(|| Metadata::new(clock));
    let own = object(&mut fields)?;
    let package = own.name;
    metadata.packages.insert((package.clone(), own.description));
    fields.skip(32 + 2)?;
    let collections = fields.u32()? as usize;
    fields.skip(collections.checked_mul(12)?)?;
    for _ in 0..fields.u32()? {
        let (id, event) = event(&mut fields, &package)?;
        metadata.events.insert(id, event);
    }
    for _ in 0..fields.u32()? {
        let object = object(&mut fields)?;
        let type_id = fields.u32()?;
        fields.skip(8)?;
        let action = Action {
            name: object.name,
            package: package.clone(),
            type_id,
        };
        if action.name == "event_sequence" {
            metadata.sequence_action = Some(object.id);
        }
        metadata.actions.insert(object.id, action);
    }
    for _ in 0..fields.u32()? {
        let object = object(&mut fields)?;
        let value_bytes = fields.u8()?;
        let entries = fields.u16()?;
        let mut words = HashMap::new();
        for _ in 0..entries {
            let key = fields.u32()?;
            words.insert(key, text(&mut fields)?);
        }
        let map = Map {
            value_bytes,
            is_mask: object.flags & 1 != 0,
            words,
        };
        metadata.maps.insert(object.id, map);
    }
    for _ in 0..fields.u32()? {
        let object = object(&mut fields)?;
        metadata.type_bytes.insert(object.id, fields.u8()?);
    }
    Some(())
}

struct Object {
    id: u32,
    flags: u8,
    name: String,
    description: String,
}

fn object(fields: &mut Bytes<'_>) -> Option<Object> {
    fields.skip(3)?;
    let flags = fields.u8()?;
    Some(Object {
        id: fields.u32()?,
        flags,
        name: text(fields)?,
        description: fields.text()?,
    })
}

fn text(fields: &mut Bytes<'_>) -> Option<String> {
    fields.text().filter(|text| text.len() <= TEXT_BYTES_MAX)
}

fn event(fields: &mut Bytes<'_>, package: &str) -> Option<(u32, Event)> {
    let object = object(fields)?;
    let read_only = fields.u16()?;
    let customizable = fields.u16()?;
    let data = fields.u16()?;
    fields.skip(2)?;
    let mut uuid = None;
    for _ in 0..read_only {
        let type_id = fields.u32()?;
        let name = text(fields)?;
        match type_id >> 10 & 0x3_FFFF {
            16 => {
                let value = fields.guid()?;
                if name == "UUID" {
                    uuid = Some(value);
                }
            }
            15 => drop(fields.text()?),
            _ => fields.skip(8)?,
        }
        fields.text()?;
    }
    for _ in 0..customizable {
        fields.skip(4)?;
        text(fields)?;
        fields.skip(8 + 8 + 4 + 4)?;
        fields.text()?;
    }
    let mut columns = Vec::new();
    for _ in 0..data {
        let type_id = fields.u32()?;
        let name = text(fields)?;
        let offset = usize::from(fields.u16()?);
        fields.skip(2)?;
        columns.push(Column {
            name,
            type_id,
            offset,
            description: fields.text()?,
        });
    }
    let event = Event {
        name: object.name,
        package: package.to_owned(),
        description: object.description,
        uuid,
        columns,
    };
    Some((object.id, event))
}

/// The word of a map's value; the number where the map has none, as the official reader shows it.
pub fn word(map: Option<&Map>, value: &[u8]) -> Option<String> {
    let number = unsigned(value)?;
    let Some(map) = map else {
        return Some(number.to_string());
    };
    if let Some(word) = u32::try_from(number)
        .ok()
        .and_then(|key| map.words.get(&key))
    {
        return Some(word.clone());
    }
    if !map.is_mask || number == 0 {
        return Some(number.to_string());
    }
    let mut left = number;
    let mut text = String::new();
    for bit in (0..32).filter(|bit| number >> bit & 1 == 1) {
        if let Some(word) = map.words.get(&(1 << bit))
            && text.len() + word.len() <= TEXT_BYTES_MAX
        {
            join(&mut text, word);
            left &= !(1 << bit);
        }
    }
    if left != 0 {
        join(&mut text, &left.to_string());
    }
    Some(text)
}

fn join(text: &mut String, word: &str) {
    if !text.is_empty() {
        text.push_str(" | ");
    }
    text.push_str(word);
}
