//! What is under way on one device: bios and the parts of them that wait for a request, requests, flushes.
//!
//! Of I/Os over the very same sectors the later is taken first everywhere; why is told at [`crate::Pairing`].

use std::collections::BTreeMap;
use std::collections::btree_map::Entry as Place;
use std::collections::hash_map::Entry as Cursor;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::event::Op;
use crate::pairing::Asker;

/// How many are looked at in search of one that fits: places before a sector, and of those at one place the latest. It is
/// met at once but in damaged traces.
const LOOKBACK: usize = 64;

/// The latest of `queue` that `fits`.
pub fn latest<T>(queue: &[T], fits: impl Fn(&T) -> bool) -> Option<usize> {
    let latest = queue.iter().enumerate().rev().take(LOOKBACK);
    latest
        .filter(|(_, one)| fits(one))
        .map(|(index, _)| index)
        .next()
}

/// A bio from queueing to completion. Times are on the trace clock, places in sectors.
#[derive(Clone, Copy, Debug)]
pub struct Bio {
    /// Position of its device.
    pub device: usize,
    pub queued_ns: u64,
    pub start: u64,
    pub sectors: u64,
    pub op: Op,
    pub flags: u32,
    pub asker: Option<Asker>,
    /// Fragments not completed yet.
    pub fragments: u32,
    pub error: i32,
}

impl Bio {
    /// Whether the recording leaves it out.
    pub fn is_own(&self) -> bool {
        self.asker.is_some_and(|asker| asker.own)
    }
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

    /// Take them all out, whatever device they are on.
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
    pub asker: Option<Asker>,
    /// Whether the recording leaves it out.
    pub own: bool,
}

/// A bio that asks for a flush and carries no data.
#[derive(Clone, Copy, Debug)]
pub struct FlushBio {
    pub bio: BioId,
    pub queued_ns: u64,
}

/// One device's state.
#[derive(Debug, Default)]
pub struct Device {
    /// Fragments no request has taken, by operation and first sector, in order of time.
    waiting: BTreeMap<(Op, u64), Few<Fragment>>,
    /// Requests with the driver, by operation and cursor, in order of time.
    issued: FxHashMap<(Op, u64), Few<Request>>,
    /// In order of time.
    pub flushes_waiting: Vec<FlushBio>,
    /// Flush requests with the driver, in order of time.
    pub flushes_issued: Vec<Request>,
    /// When the flush that ended last was issued.
    pub flushed_until_ns: Option<u64>,
    /// Writes whose data is down but whose flush sequence has not ended.
    pub sequenced: Vec<Fragment>,
    /// Whether it has been seen to work with requests.
    pub has_requests: bool,
}

impl Device {
    /// Queue a fragment for a request to take.
    pub fn wait(&mut self, op: Op, fragment: Fragment) {
        self.waiting
            .entry((op, fragment.start))
            .or_default()
            .push(fragment);
    }

    /// Whether a fragment waits that begins at `start`.
    pub fn has_waiting(&self, op: Op, start: u64) -> bool {
        self.waiting.contains_key(&(op, start))
    }

    /// Take the fragments a request over `start..end` is made of.
    ///
    /// Where several start at one sector, one that ends with the request is preferred, then one that fits. Of a fragment
    /// that reaches past the request, or began before it, the rest waits on: its split was not traced. `cut` hears of its
    /// bio, once for each part more.
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
            let Place::Occupied(mut place) = self.waiting.entry((op, position)) else {
                if let Some(bio) = self.cut_spanning(op, position) {
                    cut(bio);
                } else if let Some((&(_, next), _)) =
                    self.waiting.range((op, position)..(op, end)).next()
                {
                    position = next;
                } else {
                    break;
                }
                continue;
            };
            let queue = place.get_mut();
            let choice = latest(queue, |fragment| fragment.end == end)
                .or_else(|| latest(queue, |fragment| fragment.end < end))
                .unwrap_or(queue.len() - 1);
            let mut fragment = queue.remove(choice);
            if queue.is_empty() {
                place.remove();
            }
            if fragment.end > end {
                cut(fragment.bio);
                let rest = Fragment {
                    start: end,
                    ..fragment
                };
                self.wait(op, rest);
                fragment.end = end;
            }
            position = fragment.end;
            taken.push(fragment);
        }
        taken
    }

    /// Cut a fragment that begins before `at` and reaches past it, so that one begins there; its bio.
    fn cut_spanning(&mut self, op: Op, at: u64) -> Option<BioId> {
        let before = self.waiting.range((op, 0)..(op, at)).rev();
        let mut near = before.take(LOOKBACK);
        let spans = |queue: &[Fragment]| latest(queue, |part| part.end > at).is_some();
        let start = near.find(|(_, queue)| spans(queue))?.0.1;
        self.split(op, start, at)
    }

    /// Cut the newest waiting fragment that starts at `start` and reaches past `at`; its bio.
    pub fn split(&mut self, op: Op, start: u64, at: u64) -> Option<BioId> {
        let queue = self.waiting.get_mut(&(op, start))?;
        let choice = latest(queue, |part| at > start && part.end > at)?;
        let fragment = &mut queue[choice];
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
        let end = sector + sectors;
        let start = if sectors > 0 {
            sector
        } else {
            let before = self.waiting.range((op, 0)..(op, sector)).rev();
            let mut near = before.take(LOOKBACK);
            let ends = |queue: &[Fragment]| latest(queue, |part| part.end == end).is_some();
            near.find(|(_, queue)| ends(queue))?.0.1
        };
        let queue = self.waiting.get_mut(&(op, start))?;
        let choice = latest(queue, |part| part.end == end);
        let fragment = queue.remove(choice.unwrap_or(queue.len() - 1));
        if queue.is_empty() {
            self.waiting.remove(&(op, start));
        }
        Some(fragment)
    }

    /// How many of the bios that wait for a flush were queued before the flush that ended last was issued: it served them.
    fn flushes_served(&self) -> usize {
        let until_ns = self.flushed_until_ns;
        let is_served = |flush: &FlushBio| until_ns.is_some_and(|until| flush.queued_ns <= until);
        self.flushes_waiting.partition_point(is_served)
    }

    /// Take the bio that a completion without sectors ends: one that a flush has served, if there is one, for bios end with
    /// the flush that serves them.
    pub fn take_flush_bio(&mut self) -> Option<BioId> {
        let served = self.flushes_served().checked_sub(1);
        let choice = served.or(self.flushes_waiting.len().checked_sub(1))?;
        Some(self.flushes_waiting.remove(choice).bio)
    }

    /// The bio that has waited longest of those that no flush has served yet.
    pub fn unserved_flush_bio(&self) -> Option<BioId> {
        let flush = self.flushes_waiting.get(self.flushes_served())?;
        Some(flush.bio)
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
        self.take_if(op, sector, |request| request.end == sector + sectors)
            .or_else(|| self.take_if(op, sector, |request| request.end > sector + sectors))
    }

    /// Take the request that is issued again: it covers the same sectors, and the bios there are its own.
    pub fn take_issued_again(&mut self, op: Op, sector: u64, sectors: u64) -> Option<Request> {
        self.take_if(op, sector, |request| {
            request.end == sector + sectors && !request.fragments.is_empty()
        })
    }

    fn take_if(&mut self, op: Op, sector: u64, fits: impl Fn(&Request) -> bool) -> Option<Request> {
        let Cursor::Occupied(mut place) = self.issued.entry((op, sector)) else {
            return None;
        };
        let queue = place.get_mut();
        let request = queue.remove(latest(queue, fits)?);
        if queue.is_empty() {
            place.remove();
        }
        Some(request)
    }

    /// Take out all the requests under way.
    pub fn drain_requests(&mut self) -> impl Iterator<Item = Request> {
        let issued = std::mem::take(&mut self.issued);
        let flushes = std::mem::take(&mut self.flushes_issued);
        issued.into_values().flatten().chain(flushes)
    }
}
