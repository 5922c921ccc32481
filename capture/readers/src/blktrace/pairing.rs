//! Starts and ends brought together: bios from Q to C (layer block), requests from D to C (layer device).
//!
//! A completion covers sectors, not a bio: merged bios end with their request, and a bio that was split ends with its
//! last part. Of two that look the same the later ends first: an issue whose completion the trace lost must not pass its
//! age on to everything that follows at its place. What is in flight at the trace's end keeps no end; completions of what
//! began before it are counted.

use std::collections::{BTreeMap, HashMap, VecDeque};

use super::event::{Action, Event, Op, flags};

const SECTOR_BYTES: u64 = 512;
const IN_FLIGHT_MAX: usize = 1 << 20;
/// How far before a completion's first sector split bios are looked for.
const SPLIT_LOOKBACK: usize = 64;
pub const BLOCK: i8 = 2;
pub const DEVICE: i8 = 3;

/// A row of `io`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    pub layer: i8,
    pub op: Op,
    pub issued_ns: i64,
    pub completed_ns: Option<i64>,
    pub sector: u64,
    pub bytes: u32,
    pub device: u32,
    pub thread: i32,
    pub flags: u32,
    pub error: i32,
}

#[derive(Debug)]
struct Waiting {
    row: Row,
    /// Sectors not yet done.
    left: u64,
}

type Places = BTreeMap<u64, VecDeque<Waiting>>;

/// What is in flight on one device at one layer: by first sector, and what moves no sectors apart.
#[derive(Debug, Default)]
struct InFlight {
    places: Places,
    /// Reads, and writes.
    empty: [VecDeque<Row>; 2],
}

#[derive(Debug, Default)]
pub struct Pairing {
    block: HashMap<u32, InFlight>,
    device: HashMap<u32, InFlight>,
    /// Rows that are finished, to be taken.
    pub rows: Vec<Row>,
    pub unpaired_issues: u64,
    pub unpaired_completions: u64,
    pub requeues: u64,
    pub backwards: u64,
    in_flight: usize,
    /// Parent and shift in sectors of each device that remaps come from; None once two shifts disagree.
    pub shifts: BTreeMap<u32, (u32, Option<u64>)>,
}

impl Pairing {
    pub fn take(&mut self, event: &Event) {
        match event.action {
            Action::Queue => self.start(event, BLOCK),
            Action::Issue => self.start(event, DEVICE),
            Action::Complete => self.complete(event),
            Action::Requeue => {
                self.requeues += 1;
                let device = self.device.entry(event.device).or_default();
                if device.remove(event).is_some() {
                    self.in_flight -= 1;
                }
            }
            Action::Merge => self.mark(event, flags::MERGED),
            Action::Split => self.mark(event, flags::SPLIT),
            Action::Remap => self.remap(event),
            Action::Other => {}
        }
    }

    /// Hand out what never ended.
    pub fn finish(&mut self) {
        for layer in [&mut self.block, &mut self.device] {
            for (_, waiting) in layer.drain() {
                let rows = waiting
                    .places
                    .into_values()
                    .flatten()
                    .map(|waiting| waiting.row);
                for row in rows.chain(waiting.empty.into_iter().flatten()) {
                    self.unpaired_issues += 1;
                    self.rows.push(row);
                }
            }
        }
        self.in_flight = 0;
        self.rows
            .sort_by_key(|row| (row.issued_ns, row.layer, row.sector));
    }

    fn start(&mut self, event: &Event, layer: i8) {
        if self.in_flight >= IN_FLIGHT_MAX {
            self.finish();
        }
        let mut thread = event.thread;
        if layer == DEVICE {
            // A kernel worker may issue what another thread asked for.
            let asker = self
                .block
                .get(&event.device)
                .and_then(|bios| bios.first(event.sector));
            thread = asker.map_or(thread, |row| row.thread);
        }
        let row = Row {
            layer,
            op: event.op,
            issued_ns: event.time_ns,
            completed_ns: None,
            sector: if event.bytes == 0 { 0 } else { event.sector },
            bytes: event.bytes as u32,
            device: event.device,
            thread,
            flags: event.flags,
            error: 0,
        };
        self.in_flight += 1;
        let layer = if layer == BLOCK {
            &mut self.block
        } else {
            &mut self.device
        };
        layer
            .entry(event.device)
            .or_default()
            .insert(row, event.writes);
    }

    fn complete(&mut self, event: &Event) {
        let before = self.rows.len();
        let mut touched = false;
        for layer in [&mut self.block, &mut self.device] {
            if let Some(waiting) = layer.get_mut(&event.device) {
                touched |= waiting.complete(event, &mut self.rows);
            }
        }
        self.in_flight -= self.rows.len() - before;
        if !touched {
            self.unpaired_completions += 1;
        }
    }

    fn mark(&mut self, event: &Event, flag: u32) {
        if let Some(bios) = self.block.get_mut(&event.device)
            && let Some(bio) = bios
                .places
                .get_mut(&event.sector)
                .and_then(VecDeque::back_mut)
        {
            bio.row.flags |= flag;
        }
    }

    fn remap(&mut self, event: &Event) {
        let Some((from, sector)) = event.remapped_from else {
            return;
        };
        if from == event.device || from >> 20 != event.device >> 20 || self.shifts.len() > 1 << 12 {
            return;
        }
        let shift = event.sector.checked_sub(sector);
        let known = self.shifts.entry(from).or_insert((event.device, shift));
        if known.0 != event.device || known.1 != shift {
            known.1 = None;
        }
    }
}

impl InFlight {
    fn insert(&mut self, row: Row, writes: bool) {
        if row.bytes == 0 {
            self.empty[usize::from(writes)].push_back(row);
            return;
        }
        let left = sectors_of(u64::from(row.bytes));
        self.places
            .entry(row.sector)
            .or_default()
            .push_back(Waiting { row, left });
    }

    fn first(&self, sector: u64) -> Option<&Row> {
        self.places
            .get(&sector)
            .and_then(VecDeque::back)
            .map(|waiting| &waiting.row)
    }

    /// Take out the latest one that begins where the event does.
    fn remove(&mut self, event: &Event) -> Option<Row> {
        if event.bytes == 0 {
            return self.empty[usize::from(event.writes)].pop_front();
        }
        let queue = self.places.get_mut(&event.sector)?;
        let waiting = queue.pop_back();
        if queue.is_empty() {
            self.places.remove(&event.sector);
        }
        waiting.map(|waiting| waiting.row)
    }

    /// End everything the event's sectors cover; true if there was anything.
    fn complete(&mut self, event: &Event, rows: &mut Vec<Row>) -> bool {
        if event.bytes == 0 {
            // An empty flush ends as a write of nothing: by then its flush is done.
            let Some(row) = self.empty[usize::from(event.writes)].pop_front() else {
                return false;
            };
            rows.push(ended(row, event));
            return true;
        }
        let end = event.sector.saturating_add(sectors_of(event.bytes));
        let mut at = event.sector;
        let mut touched = false;
        while at < end {
            let start = if self.has(at, event.op) {
                Some(at)
            } else {
                self.spanning(at, event.op)
                    .or_else(|| self.following(at, end, event.op))
            };
            let Some(start) = start else { break };
            touched = true;
            at = self.done(start, at.max(start), end, event, rows);
        }
        touched
    }

    fn has(&self, start: u64, op: Op) -> bool {
        let queue = self.places.get(&start);
        queue.is_some_and(|queue| newest(queue, |waiting| waiting.row.op == op).is_some())
    }

    /// Where a bio begins that reaches over `at` and is not finished.
    fn spanning(&self, at: u64, op: Op) -> Option<u64> {
        let reaches = |start: u64, waiting: &Waiting| {
            waiting.row.op == op
                && start.saturating_add(sectors_of(u64::from(waiting.row.bytes))) > at
        };
        let mut before = self.places.range(..at).rev().take(SPLIT_LOOKBACK);
        before
            .find(|(start, queue)| newest(queue, |waiting| reaches(**start, waiting)).is_some())
            .map(|(start, _)| *start)
    }

    fn following(&self, at: u64, end: u64, op: Op) -> Option<u64> {
        let mut starts = self.places.range(at..end).take(SPLIT_LOOKBACK);
        starts
            .find(|(start, _)| self.has(**start, op))
            .map(|(start, _)| *start)
    }

    /// Count the sectors from `at` to `end` off one that begins at `start`; where the next may begin.
    fn done(&mut self, start: u64, at: u64, end: u64, event: &Event, rows: &mut Vec<Row>) -> u64 {
        let Some(queue) = self.places.get_mut(&start) else {
            return end;
        };
        let sectors = |waiting: &Waiting| sectors_of(u64::from(waiting.row.bytes));
        let is_same = |waiting: &Waiting| {
            waiting.row.op == event.op && start.saturating_add(sectors(waiting)) > at
        };
        // One that fits exactly is meant before one of another size.
        let place = newest(queue, |waiting| {
            is_same(waiting) && start == at && at.saturating_add(sectors(waiting)) == end
        })
        .or_else(|| newest(queue, is_same));
        let Some((place, waiting)) = place.and_then(|place| Some((place, queue.get_mut(place)?)))
        else {
            return at + 1;
        };
        let upper = start.saturating_add(sectors(waiting)).min(end);
        waiting.left = waiting.left.saturating_sub(upper.saturating_sub(at).max(1));
        waiting.row.error = waiting.row.error.max(event.error);
        if waiting.left == 0
            && let Some(waiting) = queue.remove(place)
        {
            rows.push(ended(waiting.row, event));
        }
        if self.places.get(&start).is_some_and(VecDeque::is_empty) {
            self.places.remove(&start);
        }
        upper.max(at + 1)
    }
}

fn sectors_of(bytes: u64) -> u64 {
    bytes.div_ceil(SECTOR_BYTES)
}

/// The one that began last of the latest few that `fits`.
fn newest(queue: &VecDeque<Waiting>, fits: impl Fn(&Waiting) -> bool) -> Option<usize> {
    let latest = queue.iter().enumerate().rev().take(SPLIT_LOOKBACK);
    latest
        .filter(|(_, waiting)| fits(waiting))
        .map(|(place, _)| place)
        .next()
}

fn ended(mut row: Row, event: &Event) -> Row {
    // Processors' clocks may differ by a little: a negative duration is none.
    row.completed_ns = (event.time_ns >= row.issued_ns).then_some(event.time_ns);
    row.error = row.error.max(event.error);
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(time_ns: i64, action: Action, sector: u64, sectors: u64) -> Event {
        Event {
            time_ns,
            device: 8 << 20,
            action,
            op: if sectors == 0 { Op::Flush } else { Op::Write },
            flags: 0,
            sector,
            bytes: sectors * 512,
            writes: true,
            thread: 7,
            error: 0,
            remapped_from: None,
        }
    }

    /// Layer, start, end and sector.
    type Told = (i8, i64, Option<i64>, u64);

    fn rows(events: &[Event]) -> (Vec<Told>, Pairing) {
        let mut pairing = Pairing::default();
        for event in events {
            pairing.take(event);
        }
        pairing.finish();
        let mut rows: Vec<_> = pairing
            .rows
            .iter()
            .map(|r| (r.layer, r.issued_ns, r.completed_ns, r.sector))
            .collect();
        rows.sort_unstable();
        (rows, pairing)
    }

    #[test]
    fn merged_bios_end_with_their_request() {
        let (rows, pairing) = rows(&[
            event(1, Action::Queue, 100, 8),
            event(2, Action::Queue, 108, 8),
            event(2, Action::Merge, 108, 8),
            event(3, Action::Issue, 100, 16),
            event(9, Action::Complete, 100, 16),
        ]);
        assert_eq!(
            rows,
            [
                (2, 1, Some(9), 100),
                (2, 2, Some(9), 108),
                (3, 3, Some(9), 100)
            ]
        );
        assert_eq!(
            (pairing.unpaired_issues, pairing.unpaired_completions),
            (0, 0)
        );
    }

    #[test]
    fn a_split_bio_ends_with_its_last_part_in_any_order() {
        let (rows, _) = rows(&[
            event(1, Action::Queue, 100, 16),
            event(2, Action::Issue, 100, 8),
            event(2, Action::Issue, 108, 8),
            event(5, Action::Complete, 108, 8),
            event(9, Action::Complete, 100, 8),
        ]);
        assert_eq!(
            rows,
            [
                (2, 1, Some(9), 100),
                (3, 2, Some(5), 108),
                (3, 2, Some(9), 100)
            ]
        );
    }

    #[test]
    fn of_two_that_look_the_same_the_later_ends_first() {
        let (rows, _) = rows(&[
            event(1, Action::Queue, 100, 8),
            event(2, Action::Queue, 100, 8),
            event(5, Action::Complete, 100, 8),
            event(9, Action::Complete, 100, 8),
        ]);
        assert_eq!(rows, [(2, 1, Some(9), 100), (2, 2, Some(5), 100)]);
    }

    #[test]
    fn a_requeued_request_starts_anew_and_the_unfinished_keep_no_end() {
        let (rows, pairing) = rows(&[
            event(1, Action::Issue, 100, 8),
            event(2, Action::Requeue, 100, 8),
            event(3, Action::Issue, 100, 8),
            event(9, Action::Complete, 100, 8),
            event(10, Action::Complete, 500, 8),
            event(11, Action::Queue, 600, 8),
        ]);
        assert_eq!(rows, [(2, 11, None, 600), (3, 3, Some(9), 100)]);
        assert_eq!(
            (
                pairing.unpaired_issues,
                pairing.unpaired_completions,
                pairing.requeues
            ),
            (1, 1, 1)
        );
    }

    #[test]
    fn flushes_have_no_place() {
        let (rows, _) = rows(&[
            event(1, Action::Queue, u64::MAX, 0),
            event(4, Action::Complete, 0, 0),
        ]);
        assert_eq!(rows, [(2, 1, Some(4), 0)]);
    }
}
