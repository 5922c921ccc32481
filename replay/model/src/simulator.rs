//! Takes arrivals in order of time and has what happens in between happen, event by event.
//!
//! An I/O is issued when it is due, or, once `in_flight_max` are under way, when the next of them completes, as in a
//! replay. That also bounds the memory: what has been issued and not completed is all there is, besides the batches that
//! hold such I/Os; and, where rows wait for one another, those that are looked ahead at.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use smallvec::SmallVec;
use thiserror::Error;

use crate::disk::{Disk, Request};
use crate::gate::{BUCKETS_MAX, Gate, Passing};
use crate::spec::{Spec, VolumeSpec};
use crate::straight::{UnderWay, is_straight};
use crate::summary::Summary;
use crate::waiting::{Arrival, LOOK_AHEAD, Waiting};

/// Stands for a time that there is not.
pub const NEVER: i64 = i64::MIN;
const FLUSH: u8 = 2;
const NONE: u32 = u32::MAX;

/// A model that cannot be played, or arrivals that cannot.
#[derive(Debug, Error)]
pub enum Problem {
    /// A position that is not there.
    #[error("the model names {0} {1} of {2}")]
    Position(&'static str, usize, usize),
    /// A volume without disks.
    #[error("volume {0} of the model has no disk")]
    NoDisk(usize),
    /// More buckets at one gate than are looked at.
    #[error("gate {0} of the model has {1} buckets")]
    Buckets(usize, usize),
    /// Rates, sizes and times are above 0.
    #[error("{0} of the model is {1}")]
    Value(&'static str, f64),
    /// Columns differ in length.
    #[error("the arrivals' columns differ in length")]
    Lengths,
    /// Time runs forward.
    #[error("arrival {0} is due before the one in front of it")]
    Unordered(usize),
    /// A volume that is not there.
    #[error("arrival {0} goes to volume {1} of {2}")]
    Volume(usize, u16, usize),
    /// A class that was not announced.
    #[error("arrival {0} is of class {1} of {2}")]
    Class(usize, u8, usize),
    /// Only some batches tell for whom rows wait.
    #[error("only some batches of the plan have the columns after and think_ns")]
    Waiting,
    /// What it waits for lies too far back, or before the plan.
    #[error("arrival {0} waits for one {1} rows earlier")]
    After(usize, u32),
}

/// Columns of a batch of arrivals.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "see `bindings`")]
pub struct Arrivals<'a> {
    pub intended_ns: &'a [i64],
    pub offset_bytes: &'a [u64],
    pub size_bytes: &'a [u32],
    pub op: &'a [u8],
    pub volume: &'a [u16],
    pub class: Option<&'a [u8]>,
    pub durable: Option<&'a arrow_array::BooleanArray>,
    /// For whom each waits, so many rows earlier (0: for none), and for how long afterwards.
    pub after: Option<(&'a [u32], &'a [i64])>,
}

/// What came of a batch, row by row; `completed_ns` is `NEVER` where it has not.
#[derive(Debug, Default)]
#[expect(missing_docs, reason = "named by what they hold")]
pub struct Outcome {
    /// When it was due; empty where that is as planned.
    pub due_ns: Vec<i64>,
    pub issued_ns: Vec<i64>,
    pub completed_ns: Vec<i64>,
    pub delayed: Vec<bool>,
    left: usize,
}

#[derive(Clone, Copy)]
struct Io {
    due_ns: i64,
    issued_ns: i64,
    /// Number of its batch, and its row there.
    batch: u64,
    row: u32,
    /// Its row in the plan.
    number: u64,
    pieces: u32,
    size_bytes: u32,
    class: u8,
}

/// What is under way: a whole I/O before its volume's gates, a part of one on a disk.
#[derive(Clone, Copy)]
struct Piece {
    io: u32,
    /// `NONE` before it is on a disk.
    disk: u32,
    volume: u16,
    stage: u16,
    op: u8,
    durable: bool,
    offset_bytes: u64,
    size_bytes: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Event {
    at_ns: i64,
    /// Events of one moment happen in the order in which they were made.
    number: u64,
    piece: u32,
    ends: bool,
}

/// See the module.
pub struct Simulator {
    /// Limits.
    pub gates: Vec<Gate>,
    /// Disks.
    pub disks: Vec<Disk>,
    volumes: Vec<VolumeSpec>,
    in_flight_max: usize,
    classes: usize,
    keep: bool,
    events: BinaryHeap<Reverse<Event>>,
    events_made: u64,
    ios: Vec<Io>,
    ios_free: Vec<u32>,
    pieces: Vec<Piece>,
    pieces_free: Vec<u32>,
    /// Where nobody overtakes, the whole way of an I/O is known when it is issued, and there are no events.
    straight: Option<UnderWay>,
    in_flight: usize,
    now_ns: i64,
    last_due_ns: i64,
    outcomes: VecDeque<Outcome>,
    first_batch: u64,
    /// None until the first batch tells.
    waits: Option<bool>,
    waiting: Waiting,
    /// What it adds up to.
    pub summary: Summary,
}

impl Simulator {
    /// A model at rest. `keep` outcomes row by row, for `take`.
    pub fn new(
        spec: &Spec,
        in_flight_max: usize,
        seed: u64,
        classes: usize,
        keep: bool,
    ) -> Result<Self, Problem> {
        check(spec)?;
        Ok(Self {
            gates: spec.gates.iter().map(Gate::new).collect(),
            disks: spec
                .disks
                .iter()
                .enumerate()
                .map(|(number, disk)| Disk::new(disk, seed.wrapping_add(1 + number as u64)))
                .collect(),
            volumes: spec.volumes.clone(),
            in_flight_max: in_flight_max.max(1),
            classes: classes.max(1),
            keep,
            events: BinaryHeap::new(),
            events_made: 0,
            ios: Vec::new(),
            ios_free: Vec::new(),
            pieces: Vec::new(),
            pieces_free: Vec::new(),
            straight: is_straight(spec).then(UnderWay::default),
            in_flight: 0,
            now_ns: i64::MIN,
            last_due_ns: i64::MIN,
            outcomes: VecDeque::new(),
            first_batch: 0,
            waits: None,
            waiting: Waiting::default(),
            summary: Summary::new(classes, keep),
        })
    }

    /// More arrivals, none earlier than the last. Plays on until the last of them is issued; where rows wait for one
    /// another, until no more than `LOOK_AHEAD` are known.
    pub fn offer(&mut self, arrivals: &Arrivals) -> Result<(), Problem> {
        self.check(arrivals)?;
        let rows = arrivals.intended_ns.len();
        let batch = self.first_batch + self.outcomes.len() as u64;
        if self.keep {
            self.outcomes.push_back(Outcome {
                due_ns: vec![NEVER; arrivals.after.map_or(0, |_| rows)],
                issued_ns: vec![NEVER; rows],
                completed_ns: vec![NEVER; rows],
                delayed: vec![false; rows],
                left: rows,
            });
        }
        for row in 0..rows {
            let op = arrivals.op[row];
            let arrival = Arrival {
                due_ns: arrivals.intended_ns[row],
                batch,
                row: row as u32,
                number: self.waiting.rows(),
                offset_bytes: arrivals.offset_bytes[row],
                size_bytes: if op >= FLUSH {
                    0
                } else {
                    arrivals.size_bytes[row]
                },
                op,
                volume: arrivals.volume[row],
                class: arrivals.class.map_or(0, |class| class[row]),
                durable: arrivals.durable.is_some_and(|durable| durable.value(row)),
            };
            self.last_due_ns = arrival.due_ns;
            if let Some((after, think_ns)) = arrivals.after {
                self.waiting
                    .offer(arrival, after[row], think_ns[row], self.now_ns);
                self.play_known(LOOK_AHEAD);
                continue;
            }
            if self.straight.is_some() {
                self.pass(&arrival);
                continue;
            }
            self.play_until(arrival.due_ns);
            while self.in_flight >= self.in_flight_max {
                self.next_event();
            }
            self.issue(&arrival);
        }
        Ok(())
    }

    /// No more will come: play to the end.
    pub fn end(&mut self) {
        self.play_known(0);
        while !self.events.is_empty() {
            self.next_event();
        }
    }

    /// The first batch that is not taken yet, once all of it has completed.
    pub fn take(&mut self) -> Option<Outcome> {
        if self.outcomes.front()?.left > 0 {
            return None;
        }
        self.first_batch += 1;
        self.outcomes.pop_front()
    }

    fn check(&mut self, arrivals: &Arrivals) -> Result<(), Problem> {
        let rows = arrivals.intended_ns.len();
        let lengths = [
            arrivals.offset_bytes.len(),
            arrivals.size_bytes.len(),
            arrivals.op.len(),
            arrivals.volume.len(),
            arrivals.class.map_or(rows, <[u8]>::len),
            arrivals.durable.map_or(rows, arrow_array::Array::len),
            arrivals.after.map_or(rows, |after| after.0.len()),
            arrivals.after.map_or(rows, |after| after.1.len()),
        ];
        if lengths.iter().any(|length| *length != rows) {
            return Err(Problem::Lengths);
        }
        let waits = arrivals.after.is_some();
        if *self.waits.get_or_insert(waits) != waits {
            return Err(Problem::Waiting);
        }
        if waits {
            self.straight = None;
        }
        let mut before_ns = self.last_due_ns;
        for row in 0..rows {
            if arrivals.intended_ns[row] < before_ns {
                return Err(Problem::Unordered(row));
            }
            before_ns = arrivals.intended_ns[row];
            let volume = arrivals.volume[row];
            if usize::from(volume) >= self.volumes.len() {
                return Err(Problem::Volume(row, volume, self.volumes.len()));
            }
            if let Some(class) = arrivals.class
                && usize::from(class[row]) >= self.classes
            {
                return Err(Problem::Class(row, class[row], self.classes));
            }
            if let Some((after, _)) = arrivals.after {
                let known = self.waiting.rows() + row as u64;
                if u64::from(after[row]) > known.min(LOOK_AHEAD as u64) {
                    return Err(Problem::After(row, after[row]));
                }
            }
        }
        Ok(())
    }

    /// Play rows that wait for one another until no more than `most` are known and not issued.
    fn play_known(&mut self, most: usize) {
        while self.waiting.known() > most {
            let due_ns = self.waiting.next_due_ns();
            let at_ns = due_ns.map_or(i64::MAX, |due_ns| due_ns.max(self.now_ns));
            let event_first = self.events.peek().is_some_and(|event| {
                self.in_flight >= self.in_flight_max || event.0.at_ns <= at_ns
            });
            if event_first {
                self.next_event();
            } else if let Some(arrival) = self.waiting.take() {
                self.issue(&arrival);
            } else {
                return;
            }
        }
    }

    /// The whole way of an arrival, where nobody overtakes.
    fn pass(&mut self, arrival: &Arrival) {
        if let Some(under_way) = &mut self.straight {
            under_way.leave_until(arrival.due_ns);
            while under_way.len() >= self.in_flight_max {
                self.now_ns = self.now_ns.max(under_way.leave_first());
            }
        }
        self.note_issued(arrival);
        let completed_ns = self.end_of_way_ns(arrival);
        if completed_ns > self.now_ns
            && let Some(under_way) = &mut self.straight
        {
            under_way.enter(completed_ns);
        }
        self.summary.complete(
            arrival.due_ns,
            self.now_ns,
            completed_ns,
            arrival.class,
            u64::from(arrival.size_bytes),
        );
        if self.keep {
            self.note_completed(arrival.batch, arrival.row, completed_ns);
        }
    }

    /// When an arrival that is issued now has passed all gates; its disks take no time.
    fn end_of_way_ns(&mut self, arrival: &Arrival) -> i64 {
        if arrival.op >= FLUSH {
            return self.now_ns;
        }
        let volume = &self.volumes[usize::from(arrival.volume)];
        let gates = &mut self.gates;
        let mut through = |way: &[usize], from_ns: i64, offset_bytes: u64, size_bytes: u64| {
            let passing = Passing {
                op: arrival.op,
                due_ns: arrival.due_ns,
                offset_bytes,
                size_bytes,
            };
            way.iter().fold(from_ns, |at_ns, &gate| {
                gates[gate].release_ns(at_ns, &passing)
            })
        };
        let (offset_bytes, size_bytes) = (arrival.offset_bytes, u64::from(arrival.size_bytes));
        let split_ns = through(&volume.gates, self.now_ns, offset_bytes, size_bytes);
        parts(volume, offset_bytes, size_bytes)
            .map(|part| {
                let way = &self.disks[part.disk].gates;
                through(way, split_ns, part.offset_bytes, part.size_bytes)
            })
            .max()
            .unwrap_or(split_ns)
    }

    /// Issue what is due, no earlier than what was issued last.
    fn issue(&mut self, arrival: &Arrival) {
        let issued_ns = self.note_issued(arrival);
        let io = self.add_io(Io {
            due_ns: arrival.due_ns,
            issued_ns,
            batch: arrival.batch,
            row: arrival.row,
            number: arrival.number,
            pieces: 1,
            size_bytes: arrival.size_bytes,
            class: arrival.class,
        });
        let piece = self.add_piece(Piece {
            io,
            disk: NONE,
            volume: arrival.volume,
            stage: 0,
            op: arrival.op,
            durable: arrival.durable,
            offset_bytes: arrival.offset_bytes,
            size_bytes: u64::from(arrival.size_bytes),
        });
        self.in_flight += 1;
        self.go_on(piece);
    }

    /// An arrival is issued now, or when it is due, and when that is.
    fn note_issued(&mut self, arrival: &Arrival) -> i64 {
        self.now_ns = self.now_ns.max(arrival.due_ns);
        let issued_ns = self.now_ns;
        let delayed = issued_ns > arrival.due_ns;
        self.summary.issue(arrival.due_ns, issued_ns, delayed);
        if self.keep {
            let outcome = &mut self.outcomes[(arrival.batch - self.first_batch) as usize];
            let row = arrival.row as usize;
            if let Some(due_ns) = outcome.due_ns.get_mut(row) {
                *due_ns = arrival.due_ns;
            }
            outcome.issued_ns[row] = issued_ns;
            outcome.delayed[row] = delayed;
        }
        issued_ns
    }

    fn note_completed(&mut self, batch: u64, row: u32, completed_ns: i64) {
        let outcome = &mut self.outcomes[(batch - self.first_batch) as usize];
        outcome.completed_ns[row as usize] = completed_ns;
        outcome.left -= 1;
    }

    fn play_until(&mut self, at_ns: i64) {
        while self
            .events
            .peek()
            .is_some_and(|event| event.0.at_ns <= at_ns)
        {
            self.next_event();
        }
    }

    fn next_event(&mut self) {
        let Some(Reverse(event)) = self.events.pop() else {
            return;
        };
        self.now_ns = self.now_ns.max(event.at_ns);
        if event.ends {
            self.finish(event.piece);
        } else {
            self.go_on(event.piece);
        }
    }

    /// Take a piece through gates until one holds it, or to its disk.
    fn go_on(&mut self, number: u32) {
        loop {
            let piece = self.pieces[number as usize];
            let gates = if piece.disk == NONE {
                &self.volumes[usize::from(piece.volume)].gates
            } else {
                &self.disks[piece.disk as usize].gates
            };
            let Some(&gate) = gates.get(usize::from(piece.stage)) else {
                if piece.disk == NONE {
                    self.split(number);
                    continue;
                }
                let request = Request {
                    op: piece.op,
                    durable: piece.durable,
                    offset_bytes: piece.offset_bytes,
                    size_bytes: piece.size_bytes,
                };
                let end_ns = self.disks[piece.disk as usize].end_ns(self.now_ns, &request);
                self.add_event(end_ns, number, true);
                return;
            };
            self.pieces[number as usize].stage += 1;
            if piece.op >= FLUSH {
                continue;
            }
            let passing = Passing {
                op: piece.op,
                due_ns: self.ios[piece.io as usize].due_ns,
                offset_bytes: piece.offset_bytes,
                size_bytes: piece.size_bytes,
            };
            let release_ns = self.gates[gate].release_ns(self.now_ns, &passing);
            if release_ns > self.now_ns {
                self.add_event(release_ns, number, false);
                return;
            }
        }
    }

    /// Put a whole I/O on its disk, or a piece of it on each that it touches; `number` becomes the first of them.
    fn split(&mut self, number: u32) {
        let piece = self.pieces[number as usize];
        let volume = &self.volumes[usize::from(piece.volume)];
        if piece.op >= FLUSH {
            let all: Vec<u32> = volume.disks.iter().map(|disk| *disk as u32).collect();
            self.ios[piece.io as usize].pieces = all.len() as u32;
            for &disk in &all[1..] {
                let another = self.add_piece(Piece {
                    disk,
                    stage: 0,
                    ..piece
                });
                self.go_on(another);
            }
            let first = &mut self.pieces[number as usize];
            (first.disk, first.stage) = (all[0], 0);
            return;
        }
        let all: SmallVec<[Part; 4]> =
            parts(volume, piece.offset_bytes, piece.size_bytes).collect();
        self.ios[piece.io as usize].pieces = all.len() as u32;
        for (column, part) in all.into_iter().enumerate().rev() {
            let part = Piece {
                disk: part.disk as u32,
                stage: 0,
                offset_bytes: part.offset_bytes,
                size_bytes: part.size_bytes,
                ..piece
            };
            if column == 0 {
                self.pieces[number as usize] = part;
            } else {
                let another = self.add_piece(part);
                self.go_on(another);
            }
        }
    }

    fn finish(&mut self, number: u32) {
        let piece = self.pieces[number as usize];
        self.disks[piece.disk as usize].leave(self.now_ns);
        self.pieces_free.push(number);
        let io = &mut self.ios[piece.io as usize];
        io.pieces -= 1;
        if io.pieces > 0 {
            return;
        }
        let io = *io;
        self.ios_free.push(piece.io);
        self.in_flight -= 1;
        self.summary.complete(
            io.due_ns,
            io.issued_ns,
            self.now_ns,
            io.class,
            u64::from(io.size_bytes),
        );
        if self.keep {
            self.note_completed(io.batch, io.row, self.now_ns);
        }
        if self.waits == Some(true) {
            self.waiting.complete(io.number, self.now_ns);
        }
    }

    fn add_event(&mut self, at_ns: i64, piece: u32, ends: bool) {
        self.events_made += 1;
        self.events.push(Reverse(Event {
            at_ns,
            number: self.events_made,
            piece,
            ends,
        }));
    }

    fn add_io(&mut self, io: Io) -> u32 {
        if let Some(free) = self.ios_free.pop() {
            self.ios[free as usize] = io;
            free
        } else {
            self.ios.push(io);
            self.ios.len() as u32 - 1
        }
    }

    fn add_piece(&mut self, piece: Piece) -> u32 {
        if let Some(free) = self.pieces_free.pop() {
            self.pieces[free as usize] = piece;
            free
        } else {
            self.pieces.push(piece);
            self.pieces.len() as u32 - 1
        }
    }
}

/// What of an I/O goes to one disk.
struct Part {
    disk: usize,
    offset_bytes: u64,
    size_bytes: u64,
}

/// A part for each disk that an I/O touches.
fn parts(
    volume: &VolumeSpec,
    offset_bytes: u64,
    size_bytes: u64,
) -> impl Iterator<Item = Part> + '_ {
    let (disks, stripe) = (volume.disks.len() as u64, volume.stripe_bytes.max(1));
    let (start, end) = if disks == 1 {
        (0, 0)
    } else {
        (
            offset_bytes / stripe,
            (offset_bytes + size_bytes.max(1) - 1) / stripe,
        )
    };
    (0..(end - start + 1).min(disks)).map(move |column| {
        if disks == 1 {
            return Part {
                disk: volume.disks[0],
                offset_bytes,
                size_bytes,
            };
        }
        let first_chunk = start + column;
        if start == end {
            return Part {
                disk: volume.disks[(start % disks) as usize],
                offset_bytes: start / disks * stripe + (offset_bytes - start * stripe),
                size_bytes,
            };
        }
        // The chunks of one disk lie side by side on it: one transfer.
        let last_chunk = end - (end - first_chunk) % disks;
        let into = offset_bytes.max(first_chunk * stripe) - first_chunk * stripe;
        let out = (offset_bytes + size_bytes).min((last_chunk + 1) * stripe) - last_chunk * stripe;
        let chunks = (last_chunk - first_chunk) / disks;
        Part {
            disk: volume.disks[(first_chunk % disks) as usize],
            offset_bytes: first_chunk / disks * stripe + into,
            size_bytes: chunks * stripe + out - into,
        }
    })
}

fn check(spec: &Spec) -> Result<(), Problem> {
    for volume in spec.volumes.iter().enumerate() {
        let (number, volume) = volume;
        if volume.disks.is_empty() {
            return Err(Problem::NoDisk(number));
        }
        positions("disk", &volume.disks, spec.disks.len())?;
        positions("gate", &volume.gates, spec.gates.len())?;
    }
    for disk in &spec.disks {
        positions("gate", &disk.gates, spec.gates.len())?;
        if let Some(cache) = &disk.cache {
            above_zero("the write cache's drain rate", cache.drain_bytes_per_s)?;
        }
        if let Some(slc) = &disk.slc {
            above_zero("the rate at which SLC becomes free", slc.free_bytes_per_s)?;
        }
    }
    for (number, gate) in spec.gates.iter().enumerate() {
        if gate.buckets.len() > BUCKETS_MAX {
            return Err(Problem::Buckets(number, gate.buckets.len()));
        }
        for bucket in &gate.buckets {
            above_zero("a limit's rate", bucket.rate_per_s)?;
            above_zero("a limit's capacity", bucket.capacity)?;
        }
        if let Some(slices) = &gate.slices {
            above_zero("a limit's rate", slices.rate_per_s)?;
            above_zero("a slice", slices.slice_ns as f64)?;
            above_zero("a tick", slices.tick_ns as f64)?;
        }
    }
    Ok(())
}

fn positions(what: &'static str, named: &[usize], there: usize) -> Result<(), Problem> {
    match named.iter().find(|&&one| one >= there) {
        Some(&one) => Err(Problem::Position(what, one, there)),
        None => Ok(()),
    }
}

fn above_zero(what: &'static str, value: f64) -> Result<(), Problem> {
    if value.is_finite() && value > 0.0 {
        Ok(())
    } else {
        Err(Problem::Value(what, value))
    }
}
