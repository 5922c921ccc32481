//! Arrivals that wait for one another (mode `think`): such a one is due so long after another has completed, whatever the
//! clock says. What a plan has not handed over yet may be due before what is known, so that nothing is played until
//! `LOOK_AHEAD` rows are known; the engine that plays on real storage looks as far (`engine/src/lane.rs`).

use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, HashMap, VecDeque};

/// Rows that are known before the first of them is played; also how many rows back one may wait for another.
pub const LOOK_AHEAD: usize = 1 << 20;
const NEVER: i64 = i64::MIN;

/// An I/O that is to be issued.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "see `simulator::Arrivals`")]
pub struct Arrival {
    pub due_ns: i64,
    /// Number of its batch, its row there, and its row in the plan.
    pub batch: u64,
    pub row: u32,
    pub number: u64,
    pub offset_bytes: u64,
    pub size_bytes: u32,
    pub op: u8,
    pub volume: u16,
    pub class: u8,
    pub durable: bool,
}

/// By when it is due, and then by its row.
struct Ready(Arrival);

impl Ord for Ready {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.0.due_ns, self.0.number).cmp(&(other.0.due_ns, other.0.number))
    }
}

impl PartialOrd for Ready {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Ready {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Ready {}

/// See the module.
#[derive(Default)]
pub struct Waiting {
    ready: BinaryHeap<Reverse<Ready>>,
    /// By the row that is waited for, with the time to think.
    followers: HashMap<u64, Vec<(Arrival, i64)>>,
    followers_count: usize,
    /// Of the last `LOOK_AHEAD` rows; `NEVER` where one has not.
    completed_ns: VecDeque<i64>,
    rows: u64,
}

impl Waiting {
    /// Rows that were offered.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Rows that were offered and not taken.
    #[must_use]
    pub fn known(&self) -> usize {
        self.ready.len() + self.followers_count
    }

    /// The next row of the plan. It waits for the one `after` rows before it and then `think_ns`, or, with 0, for when it
    /// is due. What is known only once it was due goes at `now_ns`.
    pub fn offer(&mut self, arrival: Arrival, after: u32, think_ns: i64, now_ns: i64) {
        if self.completed_ns.len() == LOOK_AHEAD {
            self.completed_ns.pop_front();
        }
        self.completed_ns.push_back(NEVER);
        self.rows += 1;
        if after == 0 {
            self.ready.push(Reverse(Ready(arrival)));
            return;
        }
        let cause = arrival.number - u64::from(after);
        match self.place(cause).map(|place| self.completed_ns[place]) {
            Some(NEVER) => {
                self.followers
                    .entry(cause)
                    .or_default()
                    .push((arrival, think_ns));
                self.followers_count += 1;
            }
            Some(completed_ns) => {
                let due_ns = completed_ns.saturating_add(think_ns).max(now_ns);
                self.ready
                    .push(Reverse(Ready(Arrival { due_ns, ..arrival })));
            }
            None => self.ready.push(Reverse(Ready(Arrival {
                due_ns: now_ns,
                ..arrival
            }))),
        }
    }

    /// A row has completed: what waited for it is due once it has thought.
    pub fn complete(&mut self, number: u64, completed_ns: i64) {
        if let Some(place) = self.place(number) {
            self.completed_ns[place] = completed_ns;
        }
        for (arrival, think_ns) in self.followers.remove(&number).unwrap_or_default() {
            self.followers_count -= 1;
            let due_ns = completed_ns.saturating_add(think_ns);
            self.ready
                .push(Reverse(Ready(Arrival { due_ns, ..arrival })));
        }
    }

    /// When the next row is due, if one is.
    #[must_use]
    pub fn next_due_ns(&self) -> Option<i64> {
        self.ready.peek().map(|next| next.0.0.due_ns)
    }

    /// That row.
    pub fn take(&mut self) -> Option<Arrival> {
        self.ready.pop().map(|next| next.0.0)
    }

    fn place(&self, number: u64) -> Option<usize> {
        let first = self.rows - self.completed_ns.len() as u64;
        number.checked_sub(first).map(|place| place as usize)
    }
}
