//! The rows of one submitter, in the order in which they come due.
//!
//! Where no row waits for another this is the order of the plan, walked with a cursor. Otherwise rows are looked at up to
//! 2^20 ahead: each is put on a heap when it is known when it is due, which for a row that waits is the completion of
//! the one it waits for. Loading goes in small steps, so that it does not make the submitter late.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::time::Duration;

use crate::chunk::{Chunk, NEVER};
use crate::plan::AFTER_ROWS_MAX;

/// Rows looked at in one step.
const STEP_ROWS: usize = 128;

/// Where a row lies: which chunk of the run, and which row in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    chunk: u64,
    /// Row of the chunk.
    pub index: u32,
}

struct Part {
    chunk: Arc<Chunk>,
    /// Rows of this submitter in it, and how many of them have not completed.
    rows: usize,
    open: usize,
}

/// See the module.
pub struct Lane {
    number: usize,
    incoming: Receiver<Arc<Chunk>>,
    /// Nothing more will come.
    all_came: bool,
    parts: VecDeque<Part>,
    /// Number of the first of `parts`.
    first: u64,
    /// The next row in the plan's order: the next to issue, or, where rows wait, the next to look at.
    cursor: Place,
    waits: bool,
    ready: BinaryHeap<Reverse<(i64, Place)>>,
    /// Rows that wait, by the row of the plan they wait for.
    waiting: HashMap<u64, Vec<Place>>,
    waiting_rows: usize,
}

impl Lane {
    /// Submitter `number`, fed through `incoming`.
    #[must_use]
    pub fn new(number: usize, incoming: Receiver<Arc<Chunk>>) -> Self {
        Self {
            number,
            incoming,
            all_came: false,
            parts: VecDeque::new(),
            first: 0,
            cursor: Place::default(),
            waits: false,
            ready: BinaryHeap::new(),
            waiting: HashMap::new(),
            waiting_rows: 0,
        }
    }

    /// The chunk a place lies in.
    #[must_use]
    pub fn chunk(&self, place: Place) -> &Chunk {
        &self.parts[(place.chunk - self.first) as usize].chunk
    }

    /// Whether every row there is or will be was issued.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.all_came
            && self.ready.is_empty()
            && self.waiting_rows == 0
            && self.cursor.chunk == self.first + self.parts.len() as u64
    }

    /// Take in what was offered meanwhile, and look at a few rows where rows wait for one another. `now_ns` is when rows
    /// are due whose row waited for has long been forgotten. True if there is more to look at.
    pub fn load(&mut self, now_ns: i64) -> bool {
        if !self.waits {
            if self.cursor.chunk < self.first + self.parts.len() as u64 {
                return false;
            }
            self.receive();
            if !self.waits {
                return false;
            }
        }
        let known = self.ready.len() + self.waiting_rows;
        if known + STEP_ROWS > AFTER_ROWS_MAX as usize {
            return false;
        }
        for _ in 0..STEP_ROWS {
            if self.cursor.chunk == self.first + self.parts.len() as u64 && !self.receive() {
                return false;
            }
            let place = self.cursor;
            self.step();
            self.look_at(place, now_ns);
        }
        true
    }

    /// Wait until something is offered; true if nothing was within `patience`.
    pub fn waits_in_vain(&mut self, patience: Duration) -> bool {
        match self.incoming.recv_timeout(patience) {
            Ok(chunk) => self.admit(chunk),
            Err(RecvTimeoutError::Disconnected) => self.all_came = true,
            Err(RecvTimeoutError::Timeout) => return true,
        }
        false
    }

    /// Whether the whole plan is here.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.all_came
    }

    /// Whether rows wait for one another.
    #[must_use]
    pub fn waits(&self) -> bool {
        self.waits
    }

    /// When the next row is due, if it is known.
    #[must_use]
    pub fn next_due_ns(&self) -> Option<i64> {
        if self.waits {
            return self.ready.peek().map(|next| next.0.0);
        }
        let part = self.parts.get((self.cursor.chunk - self.first) as usize)?;
        Some(part.chunk.plan.intended_ns(self.index(part)))
    }

    /// Take the next row.
    ///
    /// # Panics
    ///
    /// When there is none: `next_due_ns` tells.
    pub fn take(&mut self) -> Place {
        if self.waits {
            let Reverse((_, place)) = self.ready.pop().expect("the caller saw it");
            return place;
        }
        let part = &self.parts[(self.cursor.chunk - self.first) as usize];
        let place = Place {
            chunk: self.cursor.chunk,
            index: self.index(part) as u32,
        };
        self.step();
        place
    }

    /// A row has completed: rows that waited for it have a deadline now, and chunks that are done are let go.
    pub fn complete(&mut self, place: Place, completed_ns: i64) {
        if self.waiting_rows > 0 {
            let row = self.chunk(place).first_row + u64::from(place.index);
            for waiter in self.waiting.remove(&row).unwrap_or_default() {
                self.waiting_rows -= 1;
                self.make_ready(waiter, completed_ns);
            }
        }
        let part = &mut self.parts[(place.chunk - self.first) as usize];
        part.open -= 1;
        if part.open == 0 {
            part.chunk.leave();
            self.let_go();
        }
    }

    /// How many rows were due by `now_ns`, `issued` of which were issued. `from` and `due` are where the last count ended.
    #[must_use]
    pub fn count_due(&self, from: &mut Place, due: u64, issued: u64, now_ns: i64) -> u64 {
        if self.waits {
            return issued;
        }
        let mut due = due;
        if *from < self.cursor {
            *from = self.cursor;
            due = issued;
        }
        while let Some(part) = self.parts.get((from.chunk - self.first) as usize) {
            let index = self.share(part, from.index as usize);
            if part.chunk.plan.intended_ns(index) > now_ns {
                break;
            }
            due += 1;
            *from = next(*from, part.rows);
        }
        due
    }

    fn index(&self, part: &Part) -> usize {
        self.share(part, self.cursor.index as usize)
    }

    fn share(&self, part: &Part, at: usize) -> usize {
        match part.chunk.shares.get(self.number) {
            Some(share) => share[at] as usize,
            None => at,
        }
    }

    fn step(&mut self) {
        let rows = self.parts[(self.cursor.chunk - self.first) as usize].rows;
        self.cursor = next(self.cursor, rows);
    }

    fn receive(&mut self) -> bool {
        loop {
            match self.incoming.try_recv() {
                Ok(chunk) => {
                    let before = self.parts.len();
                    self.admit(chunk);
                    if self.parts.len() > before {
                        return true;
                    }
                }
                Err(TryRecvError::Empty) => return false,
                Err(TryRecvError::Disconnected) => {
                    self.all_came = true;
                    return false;
                }
            }
        }
    }

    fn admit(&mut self, chunk: Arc<Chunk>) {
        let rows = chunk
            .shares
            .get(self.number)
            .map_or(chunk.rows.len(), Vec::len);
        if rows == 0 {
            chunk.leave();
            return;
        }
        self.waits = chunk.plan.dependencies.is_some();
        self.parts.push_back(Part {
            chunk,
            rows,
            open: rows,
        });
    }

    /// Chunks are kept until all their rows have completed and no row to come can wait for one of them.
    fn let_go(&mut self) {
        while let Some(part) = self.parts.front()
            && part.open == 0
        {
            if self.waits {
                let end = part.chunk.first_row + part.rows as u64;
                let reached = match self.parts.get((self.cursor.chunk - self.first) as usize) {
                    Some(current) => current.chunk.first_row + u64::from(self.cursor.index),
                    None => self
                        .parts
                        .back()
                        .map_or(0, |last| last.chunk.first_row + last.rows as u64),
                };
                if reached < end + u64::from(AFTER_ROWS_MAX) {
                    return;
                }
            }
            self.parts.pop_front();
            self.first += 1;
        }
    }

    fn look_at(&mut self, place: Place, now_ns: i64) {
        let chunk = self.chunk(place);
        let row = chunk.first_row + u64::from(place.index);
        let dependencies = chunk.plan.dependencies.as_ref();
        let after = dependencies.map_or(0, |all| all.after.value(place.index as usize));
        if after == 0 {
            let due_ns = chunk.plan.intended_ns(place.index as usize);
            self.ready.push(Reverse((due_ns, place)));
            return;
        }
        let cause = row - u64::from(after);
        match self.completed_ns(cause) {
            Some(NEVER) => {
                self.waiting.entry(cause).or_default().push(place);
                self.waiting_rows += 1;
            }
            Some(completed_ns) => self.make_ready(place, completed_ns),
            None => self.ready.push(Reverse((now_ns, place))),
        }
    }

    fn make_ready(&mut self, place: Place, completed_ns: i64) {
        let think_ns = self
            .chunk(place)
            .plan
            .dependencies
            .as_ref()
            .map_or(0, |all| all.think_ns.value(place.index as usize));
        self.ready
            .push(Reverse((completed_ns.saturating_add(think_ns), place)));
    }

    /// When a row of the plan completed: `NEVER` if it has not, none if it is forgotten.
    fn completed_ns(&self, row: u64) -> Option<i64> {
        let at = self
            .parts
            .partition_point(|part| part.chunk.first_row <= row);
        let chunk = &self.parts.get(at.checked_sub(1)?)?.chunk;
        let outcome = chunk.rows.get((row - chunk.first_row) as usize)?;
        Some(outcome.completed_ns.load(Relaxed))
    }
}

fn next(place: Place, rows: usize) -> Place {
    if place.index as usize + 1 < rows {
        Place {
            index: place.index + 1,
            ..place
        }
    } else {
        Place {
            chunk: place.chunk + 1,
            index: 0,
        }
    }
}
