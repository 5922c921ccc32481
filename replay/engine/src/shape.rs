//! What the figures on the shape of a load are made of, counted in one pass over I/Os in order of time.

use std::collections::HashMap;

use iotrace_load::arrivals::Arrivals;
use iotrace_load::footprint::Footprint;
use iotrace_load::sequence::{Sequences, Stream};

/// Address spaces that places can tell apart.
pub const SPACES_MAX: usize = 1 << 18;

const READ: u8 = 0;
const WRITE: u8 = 1;

/// I/Os in columns, all of one length.
#[derive(Clone, Copy)]
#[expect(missing_docs, reason = "named as everywhere")]
pub struct Columns<'a> {
    pub at_ns: &'a [i64],
    /// Position in the vocabulary; what neither reads nor writes is counted, and no more.
    pub op: &'a [u8],
    /// Not 0 for I/Os of a transaction log.
    pub is_log: &'a [u8],
    pub space: &'a [i64],
    pub file_id: &'a [i32],
    pub offset_bytes: &'a [i64],
    pub size_bytes: &'a [i64],
    /// The slot under which what is touched is counted, where several spaces share one.
    pub medium: Option<&'a [i64]>,
}

/// Counts so far.
#[derive(Default)]
pub struct Shape {
    /// I/Os.
    pub count: u64,
    /// When the first was issued.
    pub first_ns: i64,
    /// When the last was.
    pub last_ns: i64,
    /// What reads and writes move.
    pub moved_bytes: i64,
    /// How reads and writes arrived.
    pub arrivals: Arrivals,
    /// Which of them are sequential.
    pub sequences: Sequences,
    /// What they touch, by the slot of their space or by medium.
    pub footprint: Footprint,
    /// Address spaces in order of first sight; a slot is a position here.
    pub spaces: Vec<i64>,
    slots: HashMap<i64, usize>,
}

impl Shape {
    /// Add I/Os issued after all those before. False where there are more address spaces than can be told apart.
    pub fn add(&mut self, rows: &Columns<'_>) -> bool {
        let Some((&first_ns, &last_ns)) = rows.at_ns.first().zip(rows.at_ns.last()) else {
            return true;
        };
        if self.count == 0 {
            self.first_ns = first_ns;
        }
        self.last_ns = last_ns;
        self.count += rows.at_ns.len() as u64;
        let mut slot = usize::MAX;
        for row in 0..rows.at_ns.len() {
            if rows.op[row] != READ && rows.op[row] != WRITE {
                continue;
            }
            self.arrivals.add(rows.at_ns[row]);
            if slot == usize::MAX || self.spaces[slot] != rows.space[row] {
                slot = self.slot_of(rows.space[row]);
                if slot >= SPACES_MAX {
                    return false;
                }
            }
            let (offset_bytes, size_bytes) = (rows.offset_bytes[row], rows.size_bytes[row]);
            self.moved_bytes += size_bytes;
            let stream = Stream {
                space: rows.space[row],
                file_id: rows.file_id[row],
                is_write: rows.op[row] == WRITE,
                is_log: rows.is_log[row] != 0,
            };
            self.sequences.add(stream, offset_bytes, size_bytes);
            let medium = rows.medium.map_or(slot as i64, |medium| medium[row]);
            self.footprint
                .add(medium as u32, offset_bytes as u64, size_bytes as u64);
        }
        true
    }

    fn slot_of(&mut self, space: i64) -> usize {
        *self.slots.entry(space).or_insert_with(|| {
            self.spaces.push(space);
            self.spaces.len() - 1
        })
    }
}
