//! Load and latency of every stream over slots of time: what incidents are looked for in.
//!
//! Rows may come in any order, so threads may share the row groups of a recording, each with `StreamSlots` of its own;
//! `merge` adds them up. Logarithms are added as whole numbers, so that sums are the same whichever comes first.

use std::collections::HashMap;

use crate::rows::{Column, NEVER_NS, Problem, known};
use crate::streams::{Key, Streams};

/// What a logarithm is multiplied by before it is rounded: twelve decimals, as query `incident_seconds` adds them.
const LOG_SCALE: f64 = 1e12;
/// Less waiting than that is merely an I/O that the end of the recording cut off.
const WAITING_NS_MIN: i64 = 1_000_000_000;
/// Cells made at a time.
const CHUNK: usize = 64;

/// Columns of `io`, as in `rows`.
pub struct SlotColumns<'a> {
    /// Position in the vocabulary; may be missing where there is one layer only.
    pub layer: Option<Column<'a, u8>>,
    /// Position in the vocabulary.
    pub op: Column<'a, u8>,
    /// Start.
    pub issued_ns: Column<'a, i64>,
    /// End, or `NEVER_NS`.
    pub completed_ns: Column<'a, i64>,
    /// When it was due, or `NEVER_NS`.
    pub intended_ns: Option<Column<'a, i64>>,
    /// Bytes asked for.
    pub size_bytes: Column<'a, u32>,
    /// Id or `NOBODY`.
    pub device_id: Column<'a, i32>,
    /// Id or `NOBODY`.
    pub file_id: Column<'a, i32>,
    /// 0 for success, as where it is missing.
    pub error: Option<Column<'a, i32>>,
}

/// Slots of one length, from `from_ns` until the one in which `until_ns` lies.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// Start of the first.
    pub from_ns: i64,
    /// The end, not included; later than the start.
    pub until_ns: i64,
    /// Length of each, more than 0.
    pub slot_ns: i64,
    /// An I/O counts in so many slots after its own at most.
    pub longest_slots: i64,
}

/// A number of times, their sum, and the sums of their logarithms and of the squares of these.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// How many.
    pub count: i64,
    /// Sum in ns; as much as fits.
    pub sum_ns: i64,
    /// Sum of ln(ns), in units of 1e-12.
    log_sum: i128,
    /// Sum of ln(ns)², in units of 1e-12.
    log_square_sum: i128,
}

/// What is counted of a stream in a slot; the columns of query `incident_seconds` say more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    /// I/Os that began.
    pub io_count: i64,
    /// Bytes they asked for.
    pub size_bytes: i64,
    /// Latencies of those that began.
    pub begun: Times,
    /// Latencies of those that were in flight from before it until after it.
    pub passing: Times,
    /// I/Os that ended in it less those of `begun`.
    pub ended_more: i64,
    /// Time in flight in it; as much as fits.
    pub in_flight_ns: i64,
}

/// Of those that began in a slot and never ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// How long they had waited when the span ended.
    pub waited: Times,
    /// What of that lies in the slot; as much as fits.
    pub in_flight_ns: i64,
}

/// Counts I/Os by stream and slot.
pub struct StreamSlots {
    span: Span,
    last_slot: i64,
    streams: Streams,
    /// The group of each stream.
    groups: Vec<u32>,
    chunks_per_group: usize,
    chunks: Vec<Option<Box<[Cell; CHUNK]>>>,
    waiting: HashMap<(u32, i64), Waiting>,
    recent: Recent,
}

/// The slot of the last I/O: the next is nearly always in the same.
#[derive(Clone, Copy, Debug)]
struct Recent {
    slot: i64,
    from_ns: i64,
}

impl Times {
    #[inline]
    fn add(&mut self, log: Log, sum_ns: i64) {
        self.count += 1;
        self.sum_ns = self.sum_ns.saturating_add(sum_ns);
        self.log_sum += i128::from(log.scaled);
        self.log_square_sum += i128::from(log.square_scaled);
    }

    fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
        self.log_sum += other.log_sum;
        self.log_square_sum += other.log_square_sum;
    }

    /// Sums of the logarithms and of their squares, of these times and others.
    pub fn log_sums(&self, other: &Self) -> [f64; 2] {
        let logs = (self.log_sum + other.log_sum) as f64;
        let squares = (self.log_square_sum + other.log_square_sum) as f64;
        [logs / LOG_SCALE, squares / LOG_SCALE]
    }
}

#[derive(Clone, Copy)]
struct Log {
    scaled: i64,
    square_scaled: i64,
}

impl Log {
    /// Of a time; what took none took 1 ns.
    #[inline]
    fn of(ns: i64) -> Self {
        let log = (ns.max(1) as f64).ln();
        let scaled = |value: f64| (value * LOG_SCALE).round_ties_even() as i64;
        Self {
            scaled: scaled(log),
            square_scaled: scaled(log * log),
        }
    }
}

impl Cell {
    fn merge(&mut self, other: &Self) {
        self.io_count += other.io_count;
        self.size_bytes += other.size_bytes;
        self.begun.merge(&other.begun);
        self.passing.merge(&other.passing);
        self.ended_more += other.ended_more;
        self.in_flight_ns = self.in_flight_ns.saturating_add(other.in_flight_ns);
    }
}

impl StreamSlots {
    /// Nothing counted yet; `groups` has the group, below `group_count`, of each key.
    pub fn new(span: Span, keys: &[Key], groups: Vec<u32>, group_count: usize) -> Self {
        let length_ns = span.until_ns.saturating_sub(span.from_ns);
        let last_slot = (length_ns - 1) / span.slot_ns;
        let chunks_per_group = last_slot as usize / CHUNK + 1;
        let mut chunks = Vec::new();
        chunks.resize_with(group_count * chunks_per_group, || None);
        Self {
            span,
            last_slot,
            streams: Streams::new(keys),
            groups,
            chunks_per_group,
            chunks,
            waiting: HashMap::new(),
            recent: Recent {
                slot: 0,
                from_ns: 0,
            },
        }
    }

    /// Takes in rows.
    pub fn add(&mut self, columns: &SlotColumns<'_>) -> Result<(), Problem> {
        let count = columns.issued_ns.len();
        let lengths = [
            columns.layer.map_or(count, <[_]>::len),
            columns.op.len(),
            columns.completed_ns.len(),
            columns.intended_ns.map_or(count, <[_]>::len),
            columns.size_bytes.len(),
            columns.device_id.len(),
            columns.file_id.len(),
            columns.error.map_or(count, <[_]>::len),
        ];
        if lengths != [count; 8] {
            return Err(Problem::Length);
        }
        for place in 0..count {
            let due_ns = columns.intended_ns.map_or(NEVER_NS, |due| due[place]);
            let begun_ns = if due_ns == NEVER_NS {
                columns.issued_ns[place]
            } else {
                due_ns
            };
            if begun_ns >= self.span.until_ns {
                continue;
            }
            let key = Key {
                layer: columns
                    .layer
                    .map_or(self.streams.only_layer, |layer| layer[place]),
                op: columns.op[place],
                device_id: known(columns.device_id[place]),
                file_id: known(columns.file_id[place]),
            };
            let stream = self.streams.number(&key).ok_or(Problem::Stream {
                device: key.device_id,
                file: key.file_id,
            })?;
            let group = self.groups[stream as usize];
            let completed_ns = columns.completed_ns[place];
            let has_failed = columns.error.is_some_and(|error| error[place] != 0);
            self.count(
                group,
                begun_ns,
                completed_ns,
                has_failed,
                columns.size_bytes[place],
            );
        }
        Ok(())
    }

    #[inline]
    fn count(
        &mut self,
        group: u32,
        begun_ns: i64,
        completed_ns: i64,
        has_failed: bool,
        size_bytes: u32,
    ) {
        let since_ns = begun_ns.saturating_sub(self.span.from_ns);
        let slot = if since_ns < 0 {
            -1
        } else {
            self.slot_of(since_ns)
        };
        let ended_ns = (completed_ns != NEVER_NS && !has_failed)
            .then(|| completed_ns.max(begun_ns).saturating_sub(self.span.from_ns));
        let latency_ns = ended_ns.map_or(0, |ended_ns| ended_ns.saturating_sub(since_ns));
        let log = ended_ns.map(|_| Log::of(latency_ns));
        if slot >= 0 {
            let cell = self.cell(group, slot);
            cell.io_count += 1;
            cell.size_bytes += i64::from(size_bytes);
            if let Some(log) = log {
                cell.begun.add(log, latency_ns);
                cell.in_flight_ns = cell.in_flight_ns.saturating_add(latency_ns);
            }
            if completed_ns == NEVER_NS {
                self.wait(group, slot, begun_ns, since_ns);
            }
        }
        let slot_ns = self.span.slot_ns;
        let next_ns = (slot + 1).saturating_mul(slot_ns);
        if let Some((ended_ns, log)) = ended_ns.zip(log).filter(|one| one.0 >= next_ns) {
            self.reach(group, slot, ended_ns, log);
        }
    }

    /// An I/O that ends in a later slot than it began in, which has counted it as if it ended there.
    #[cold]
    fn reach(&mut self, group: u32, begun: i64, ended_ns: i64, log: Log) {
        let slot_ns = self.span.slot_ns;
        let ended = ended_ns / slot_ns;
        if begun >= 0 {
            let cell = self.cell(group, begun);
            cell.ended_more -= 1;
            let beyond_ns = ended_ns - (begun + 1) * slot_ns;
            cell.in_flight_ns = cell.in_flight_ns.saturating_sub(beyond_ns);
        }
        let last = ended
            .min(begun.saturating_add(self.span.longest_slots))
            .min(self.last_slot);
        for slot in begun + 1..=last {
            let cell = self.cell(group, slot);
            let part_ns = (ended_ns - slot * slot_ns).min(slot_ns);
            cell.in_flight_ns = cell.in_flight_ns.saturating_add(part_ns);
            if slot == ended {
                cell.ended_more += 1;
            } else {
                cell.passing.add(log, 0);
            }
        }
    }

    #[cold]
    fn wait(&mut self, group: u32, slot: i64, begun_ns: i64, since_ns: i64) {
        let waited_ns = self.span.until_ns.saturating_sub(begun_ns);
        if waited_ns < WAITING_NS_MIN {
            return;
        }
        let part_ns = waited_ns.min((slot + 1) * self.span.slot_ns - since_ns);
        let waiting = self.waiting.entry((group, slot)).or_default();
        waiting.waited.add(Log::of(waited_ns), waited_ns);
        waiting.in_flight_ns = waiting.in_flight_ns.saturating_add(part_ns);
    }

    /// The slot of a time since the first slot began, which is not before it.
    #[inline]
    fn slot_of(&mut self, since_ns: i64) -> i64 {
        let within_ns = since_ns.wrapping_sub(self.recent.from_ns);
        if !(0..self.span.slot_ns).contains(&within_ns) {
            let slot = since_ns / self.span.slot_ns;
            self.recent = Recent {
                slot,
                from_ns: slot * self.span.slot_ns,
            };
        }
        self.recent.slot
    }

    #[inline]
    fn cell(&mut self, group: u32, slot: i64) -> &mut Cell {
        let slot = slot as usize;
        let chunk = group as usize * self.chunks_per_group + slot / CHUNK;
        let cells = self.chunks[chunk].get_or_insert_with(|| Box::new([Cell::default(); CHUNK]));
        &mut cells[slot % CHUNK]
    }

    /// Adds what another counted of the same streams and slots, which has nothing afterwards.
    pub fn merge(&mut self, other: &mut Self) {
        for (mine, theirs) in self.chunks.iter_mut().zip(&mut other.chunks) {
            match (mine, theirs.take()) {
                (_, None) => {}
                (mine @ None, theirs) => *mine = theirs,
                (Some(mine), Some(theirs)) => {
                    let cells = mine.iter_mut().zip(theirs.iter());
                    cells.for_each(|(mine, theirs)| mine.merge(theirs));
                }
            }
        }
        for (place, theirs) in other.waiting.drain() {
            let mine = self.waiting.entry(place).or_default();
            mine.waited.merge(&theirs.waited);
            mine.in_flight_ns = mine.in_flight_ns.saturating_add(theirs.in_flight_ns);
        }
    }

    /// Group, slot and what is in it, where anything is; in order.
    pub fn cells(&self) -> impl Iterator<Item = (u32, i64, &Cell, Waiting)> {
        let chunks = self.chunks.iter().enumerate();
        let cells = chunks.flat_map(move |(number, chunk)| {
            let group = (number / self.chunks_per_group) as u32;
            let first = number % self.chunks_per_group * CHUNK;
            let cells = chunk.iter().flat_map(|cells| cells.iter()).enumerate();
            cells.map(move |(place, cell)| (group, (first + place) as i64, cell))
        });
        cells
            .filter(|(.., cell)| **cell != Cell::default())
            .map(|(group, slot, cell)| {
                let waiting = self.waiting.get(&(group, slot)).copied();
                (group, slot, cell, waiting.unwrap_or_default())
            })
    }
}

#[cfg(test)]
mod tests {
    use super::{Cell, SlotColumns, Span, StreamSlots};
    use crate::rows::{NEVER_NS, NOBODY, Problem};
    use crate::streams::Key;

    const MS: i64 = 1_000_000;
    const S: i64 = 1000 * MS;
    const SPAN: Span = Span {
        from_ns: 0,
        until_ns: 4 * S,
        slot_ns: S,
        longest_slots: 10,
    };
    const KEY: Key = Key {
        layer: 2,
        op: 0,
        device_id: Some(0),
        file_id: None,
    };

    fn slots(span: Span) -> StreamSlots {
        StreamSlots::new(span, &[KEY], vec![0], 1)
    }

    fn add(to: &mut StreamSlots, ios: &[(i64, i64)]) {
        let count = ios.len();
        let (begun, ended): (Vec<_>, Vec<_>) = ios.iter().copied().unzip();
        to.add(&SlotColumns {
            layer: None,
            op: &vec![0; count],
            issued_ns: &begun,
            completed_ns: &ended,
            intended_ns: None,
            size_bytes: &vec![8192; count],
            device_id: &vec![0; count],
            file_id: &vec![NOBODY; count],
            error: None,
        })
        .unwrap();
    }

    fn found(of: &StreamSlots) -> Vec<(i64, Cell)> {
        of.cells().map(|(_, slot, cell, _)| (slot, *cell)).collect()
    }

    #[test]
    fn an_io_is_in_flight_in_every_slot_that_it_reaches() {
        let mut of = slots(SPAN);
        add(&mut of, &[(900 * MS, 2 * S + 400 * MS), (-S, 500 * MS)]);
        let cells = found(&of);
        let told: Vec<_> = cells
            .iter()
            .map(|(slot, cell)| {
                let ended = cell.begun.count + cell.ended_more;
                let ms = cell.in_flight_ns / MS;
                (*slot, cell.io_count, ended, cell.passing.count, ms)
            })
            .collect();
        assert_eq!(
            told,
            [
                (0, 1, 1, 0, 100 + 500),
                (1, 0, 0, 1, 1000),
                (2, 0, 1, 0, 400)
            ]
        );
        assert_eq!(cells[0].1.begun.sum_ns, 1500 * MS);
        let logs = cells[1].1.passing.log_sums(&cells[1].1.begun);
        assert!((logs[0] - (1.5e9_f64).ln()).abs() < 1e-11);
        assert!((logs[1] - (1.5e9_f64).ln().powi(2)).abs() < 1e-11);
    }

    #[test]
    fn the_end_of_the_span_and_the_longest_reach_bound_it() {
        for (until, longest, last) in [(4, 10, 3), (40, 10, 10), (40, 2, 2)] {
            let mut of = slots(Span {
                until_ns: until * S,
                longest_slots: longest,
                ..SPAN
            });
            add(&mut of, &[(0, 100 * S), (until * S, until * S + 1)]);
            assert_eq!(found(&of).last().unwrap().0, last);
            assert!(found(&of).iter().all(|(_, cell)| cell.in_flight_ns == S));
        }
    }

    #[test]
    fn what_has_no_end_waits_if_it_has_waited_for_a_second() {
        let mut of = slots(SPAN);
        add(
            &mut of,
            &[
                (3 * S - 200 * MS, NEVER_NS),
                (3 * S, NEVER_NS),
                (3 * S + 1, NEVER_NS),
            ],
        );
        let told: Vec<_> = of
            .cells()
            .map(|(_, slot, cell, waiting)| {
                let ms = (waiting.waited.sum_ns / MS, waiting.in_flight_ns / MS);
                (slot, cell.io_count, waiting.waited.count, ms)
            })
            .collect();
        assert_eq!(told, [(2, 1, 1, (1200, 200)), (3, 2, 1, (1000, 1000))]);
    }

    #[test]
    fn parts_add_up_to_the_whole() {
        let ios: Vec<_> = (0..300)
            .map(|number| {
                let begun = number * 13 * MS;
                let ended = if number % 7 == 0 {
                    NEVER_NS
                } else {
                    begun + number * number * 20_000
                };
                (begun, ended)
            })
            .collect();
        let (mut whole, mut one, mut other) = (slots(SPAN), slots(SPAN), slots(SPAN));
        add(&mut whole, &ios);
        add(&mut one, &ios[100..]);
        add(&mut other, &ios[..100]);
        one.merge(&mut other);
        assert_eq!(found(&one), found(&whole));
        assert!(one.cells().eq(whole.cells()));
        assert!(other.cells().next().is_none());
    }

    #[test]
    fn the_ends_of_time_and_strangers_are_no_trouble() {
        let mut of = slots(SPAN);
        add(
            &mut of,
            &[
                (i64::MIN + 1, i64::MAX),
                (i64::MIN + 1, 0),
                (i64::MAX, 5),
                (0, i64::MAX),
            ],
        );
        assert_eq!(of.cells().last().unwrap().1, 3);
        let stranger = of.add(&SlotColumns {
            layer: Some(&[1]),
            op: &[0],
            issued_ns: &[0],
            completed_ns: &[0],
            intended_ns: None,
            size_bytes: &[0],
            device_id: &[0],
            file_id: &[5],
            error: None,
        });
        assert_eq!(
            stranger,
            Err(Problem::Stream {
                device: Some(0),
                file: Some(5)
            })
        );
    }
}
