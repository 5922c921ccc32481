//! What is under way on one device: bios and the parts of them that wait for a request, requests, flushes.

use std::collections::{BTreeMap, VecDeque};

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::event::Op;

/// A bio from queueing to completion. Times are on the trace clock, places in sectors.
#[derive(Clone, Copy, Debug)]
pub struct Bio {
    pub queued_ns: u64,
    pub start: u64,
    pub sectors: u64,
    pub op: Op,
    pub flags: u32,
    pub thread: i32,
    pub process: Option<i32>,
    /// iotrace's own.
    pub own: bool,
    /// Fragments not completed yet.
    pub fragments: u32,
    pub error: i32,
}

/// Names a bio under way. A slot is used again, its turn is not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BioId {
    slot: u32,
    turn: u32,
}

/// The bios under way on all devices.
#[derive(Debug, Default)]
pub struct Bios {
    slots: Vec<(u32, Option<Bio>)>,
    free: Vec<u32>,
}

impl Bios {
    /// Add one.
    pub fn insert(&mut self, bio: Bio) -> BioId {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push((0, None));
            self.slots.len() as u32 - 1
        });
        let (turn, place) = &mut self.slots[slot as usize];
        *place = Some(bio);
        BioId { slot, turn: *turn }
    }

    /// That one, if it is still under way.
    pub fn get(&self, id: BioId) -> Option<&Bio> {
        let (turn, bio) = self.slots.get(id.slot as usize)?;
        bio.as_ref().filter(|_| *turn == id.turn)
    }

    /// The same, to change it.
    pub fn get_mut(&mut self, id: BioId) -> Option<&mut Bio> {
        let (turn, bio) = self.slots.get_mut(id.slot as usize)?;
        bio.as_mut().filter(|_| *turn == id.turn)
    }

    /// Take it out.
    pub fn remove(&mut self, id: BioId) -> Option<Bio> {
        let (turn, place) = self.slots.get_mut(id.slot as usize)?;
        if *turn != id.turn {
            return None;
        }
        let bio = place.take()?;
        *turn = turn.wrapping_add(1);
        self.free.push(id.slot);
        Some(bio)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Take them all out.
    pub fn drain(&mut self) -> impl Iterator<Item = Bio> {
        self.free.clear();
        std::mem::take(&mut self.slots)
            .into_iter()
            .filter_map(|(_, bio)| bio)
    }
}

/// Nearly always one: I/Os at one place at one time are rare, and so are merges on fast devices.
pub type Few<T> = SmallVec<[T; 1]>;

/// A part of a bio; the whole of it unless it was split.
#[derive(Clone, Copy, Debug)]
pub struct Fragment {
    pub bio: BioId,
    pub start: u64,
    pub end: u64,
}

/// A request the driver has.
#[derive(Debug)]
pub struct Request {
    pub issued_ns: u64,
    pub op: Op,
    pub flags: u32,
    pub start: u64,
    pub end: u64,
    /// First sector not completed yet.
    pub cursor: u64,
    pub fragments: Few<Fragment>,
    pub error: i32,
    pub thread: Option<i32>,
    pub process: Option<i32>,
    pub own: bool,
}

/// One device's state.
#[derive(Debug, Default)]
pub struct Device {
    /// Fragments no request has taken, by operation and first sector, oldest first.
    pub waiting: BTreeMap<(Op, u64), Few<Fragment>>,
    /// Requests with the driver, by operation and cursor, oldest first.
    pub issued: FxHashMap<(Op, u64), Few<Request>>,
    /// Bios that ask for a flush and carry no data, oldest first.
    pub flushes_waiting: VecDeque<BioId>,
    /// Flush requests with the driver, oldest first.
    pub flushes_issued: VecDeque<Request>,
    /// Writes whose data is down but whose flush sequence has not ended.
    pub sequenced: Vec<Fragment>,
}

impl Device {
    /// Queue a fragment for a request to take.
    pub fn wait(&mut self, op: Op, fragment: Fragment) {
        self.waiting
            .entry((op, fragment.start))
            .or_default()
            .push(fragment);
    }

    /// Take the fragments a request over `start..end` is made of.
    ///
    /// Where several start at one sector, one that ends with the request is preferred, then one that fits, then the
    /// oldest: I/Os over the very same sectors at one time cannot be told apart and are taken in order. The part of
    /// a fragment that reaches past the request waits on (its split event was lost); `cut` hears of its bio.
    pub fn take(
        &mut self,
        op: Op,
        start: u64,
        end: u64,
        mut cut: impl FnMut(BioId),
    ) -> Few<Fragment> {
        let mut taken = Few::new();
        let mut position = start;
        while position < end {
            let Some((&(_, found), queue)) =
                self.waiting.range_mut((op, position)..(op, end)).next()
            else {
                break;
            };
            let choice = queue
                .iter()
                .position(|fragment| fragment.end == end)
                .or_else(|| queue.iter().position(|fragment| fragment.end < end))
                .unwrap_or(0);
            let mut fragment = queue.remove(choice);
            if queue.is_empty() {
                self.waiting.remove(&(op, found));
            }
            if fragment.end > end {
                cut(fragment.bio);
                self.wait(
                    op,
                    Fragment {
                        start: end,
                        ..fragment
                    },
                );
                fragment.end = end;
            }
            position = fragment.end;
            taken.push(fragment);
        }
        taken
    }

    /// Cut the newest waiting fragment that starts at `start` and reaches past `at`; its bio.
    pub fn split(&mut self, op: Op, start: u64, at: u64) -> Option<BioId> {
        let fragment = self
            .waiting
            .get_mut(&(op, start))?
            .iter_mut()
            .rev()
            .find(|part| at > start && part.end > at)?;
        let rest = Fragment {
            start: at,
            ..*fragment
        };
        fragment.end = at;
        self.wait(op, rest);
        Some(rest.bio)
    }

    /// Take the waiting fragment that ends (`sectors` 0: the kernel has advanced past it) or starts at `sector`.
    pub fn take_one(&mut self, op: Op, sector: u64, sectors: u64) -> Option<Fragment> {
        let key = if sectors > 0 {
            (op, sector)
        } else {
            *self
                .waiting
                .iter()
                .find(|(key, queue)| key.0 == op && queue.iter().any(|part| part.end == sector))?
                .0
        };
        let queue = self.waiting.get_mut(&key)?;
        let end = sector + sectors;
        let choice = queue.iter().position(|part| part.end == end).unwrap_or(0);
        let fragment = queue.remove(choice);
        if queue.is_empty() {
            self.waiting.remove(&key);
        }
        Some(fragment)
    }

    /// Give a request to the driver.
    pub fn issue(&mut self, request: Request) {
        self.issued
            .entry((request.op, request.cursor))
            .or_default()
            .push(request);
    }

    /// Take the request whose next sectors are these, one that they complete first.
    pub fn take_request(&mut self, op: Op, sector: u64, sectors: u64) -> Option<Request> {
        let queue = self.issued.get_mut(&(op, sector))?;
        let end = sector + sectors;
        let choice = queue.iter().position(|request| request.end == end);
        let request =
            queue.remove(choice.or_else(|| queue.iter().position(|request| request.end > end))?);
        if queue.is_empty() {
            self.issued.remove(&(op, sector));
        }
        Some(request)
    }

    /// Requests under way.
    pub fn requests(&self) -> usize {
        self.issued.values().map(SmallVec::len).sum::<usize>() + self.flushes_issued.len()
    }
}
