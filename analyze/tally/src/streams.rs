//! Which rows belong together: a row's layer, device, file and operation make its stream, a stream tells where it counts.

use std::collections::HashMap;

/// Operations there may be; their positions in the vocabulary are below this.
const OPS: u64 = 8;
const TABLE_MAX: u64 = 1 << 22;
const NONE: u32 = u32::MAX;

/// What a row says of its stream. Ids are `None` where unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// Position in the vocabulary.
    pub layer: u8,
    /// Position in the vocabulary.
    pub op: u8,
    /// Row of devices.
    pub device_id: Option<i32>,
    /// Row of files.
    pub file_id: Option<i32>,
}

/// Where the I/Os of a stream are counted: numbers below the counts of `Counts`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Place {
    /// Position in the vocabulary.
    pub layer: u32,
    /// Layer, device, role and operation.
    pub latency_group: u32,
    /// Whether the stream belongs to the layer whose load is described; if not, what follows means nothing.
    pub is_load: bool,
    /// Device and role.
    pub group: u32,
    /// Device.
    pub device: u32,
    /// Device, and above the block layer file: where equal offsets are the same block.
    pub area: u32,
    /// Role and operation; `None` for operations that move no data.
    pub kind: Option<u32>,
    /// Whether it reads.
    pub is_read: bool,
    /// Whether it writes a transaction log.
    pub is_log_write: bool,
}

/// How many of each number there are.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Layers.
    pub layers: usize,
    /// Groups of latencies.
    pub latency_groups: usize,
    /// Devices with roles.
    pub groups: usize,
    /// Devices.
    pub devices: usize,
    /// Areas of offsets.
    pub areas: usize,
    /// Roles with operations.
    pub kinds: usize,
}

/// Finds the number of a row's stream.
pub struct Streams {
    /// The layer of rows that do not say theirs: that of the first stream.
    pub only_layer: u8,
    devices: u64,
    files: u64,
    layers: u64,
    finder: Finder,
}

enum Finder {
    Table(Vec<u32>),
    /// Where ids are too far apart for a table.
    Map(HashMap<Key, u32>),
}

impl Streams {
    /// Numbers the keys in their order; of equal ones the first counts.
    pub fn new(keys: &[Key]) -> Self {
        let most = |code: fn(&Key) -> u64| keys.iter().map(code).max().unwrap_or(0) + 1;
        let (devices, files) = (
            most(|key| code(key.device_id)),
            most(|key| code(key.file_id)),
        );
        let layers = most(|key| u64::from(key.layer));
        let size = [devices, files, OPS]
            .iter()
            .try_fold(layers, |product, &factor| product.checked_mul(factor));
        let finder = match size {
            Some(size) if size <= TABLE_MAX => Finder::Table(vec![NONE; size as usize]),
            _ => Finder::Map(HashMap::new()),
        };
        let mut streams = Self {
            only_layer: keys.first().map_or(0, |key| key.layer),
            devices,
            files,
            layers,
            finder,
        };
        for (number, key) in keys.iter().enumerate() {
            if streams.number(key).is_some() {
                continue;
            }
            let place = streams.place(key);
            match (&mut streams.finder, place) {
                (Finder::Table(table), Some(place)) => table[place] = number as u32,
                (Finder::Table(_), None) => {}
                (Finder::Map(map), _) => {
                    map.insert(*key, number as u32);
                }
            }
        }
        streams
    }

    /// The number of a stream, `None` if it was not announced.
    #[inline]
    pub fn number(&self, key: &Key) -> Option<u32> {
        match &self.finder {
            Finder::Table(table) => {
                let number = *table.get(self.place(key)?)?;
                (number != NONE).then_some(number)
            }
            Finder::Map(map) => map.get(key).copied(),
        }
    }

    /// Where the key's number stands in the table; large without meaning where there is none.
    #[inline]
    fn place(&self, key: &Key) -> Option<usize> {
        let (device, file) = (code(key.device_id), code(key.file_id));
        let (layer, op) = (u64::from(key.layer), u64::from(key.op));
        let is_known =
            device < self.devices && file < self.files && layer < self.layers && op < OPS;
        is_known.then(|| {
            let pair = layer.wrapping_mul(self.devices).wrapping_add(device);
            let triple = pair.wrapping_mul(self.files).wrapping_add(file);
            triple.wrapping_mul(OPS).wrapping_add(op) as usize
        })
    }
}

#[inline]
fn code(id: Option<i32>) -> u64 {
    id.map_or(0, |id| u64::from(id as u32) + 1)
}
