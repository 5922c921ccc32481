//! A disk: its queue, its servers, its write cache, and when it stands still.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::random::Random;
use crate::service::{Asked, Law};
use crate::spec::{CacheSpec, DiskSpec, SlcSpec, StallSpec};

/// What a disk has to know of an I/O.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// Read (0), write (1) or flush (2).
    pub op: u8,
    /// A write that must not stay in the cache.
    pub durable: bool,
    /// Where on this disk.
    pub offset_bytes: u64,
    /// How much.
    pub size_bytes: u64,
}

struct Cache {
    bytes: f64,
    ns_per_byte: f64,
    write: Law,
    flush_drains: bool,
    /// When it is empty if nothing more is written.
    empty_at_ns: f64,
    last_ns: i64,
}

impl Cache {
    fn new(spec: &CacheSpec) -> Self {
        Self {
            bytes: spec.bytes,
            ns_per_byte: 1e9 / spec.drain_bytes_per_s,
            write: Law::new(&spec.write),
            flush_drains: spec.flush_drains,
            empty_at_ns: 0.0,
            last_ns: i64::MIN / 4,
        }
    }

    /// When a write that comes now has room, in order of arrival.
    fn room_ns(&mut self, at_ns: i64, size_bytes: u64) -> i64 {
        let size = size_bytes as f64;
        let room_ns = self.empty_at_ns - (self.bytes - size).max(0.0) * self.ns_per_byte;
        let start_ns = (at_ns.max(self.last_ns) as f64).max(room_ns);
        self.empty_at_ns = self.empty_at_ns.max(start_ns) + size * self.ns_per_byte;
        self.last_ns = start_ns.ceil() as i64;
        self.last_ns
    }
}

/// Flash that is written with one bit a cell: fast while there is any, and made free again while the disk is idle.
struct Slc {
    bytes: f64,
    bytes_per_ns: f64,
    write: Law,
    used_bytes: f64,
    idle_since_ns: i64,
}

impl Slc {
    fn new(spec: &SlcSpec) -> Self {
        Self {
            bytes: spec.bytes,
            bytes_per_ns: spec.free_bytes_per_s / 1e9,
            write: Law::new(&spec.write),
            used_bytes: 0.0,
            idle_since_ns: i64::MIN / 4,
        }
    }

    /// The disk was idle until now.
    fn wake(&mut self, now_ns: i64) {
        let freed = (now_ns - self.idle_since_ns) as f64 * self.bytes_per_ns;
        self.used_bytes = (self.used_bytes - freed).max(0.0);
    }

    /// Whether a write still goes into it.
    fn takes(&mut self, size_bytes: u64) -> bool {
        let fits = self.used_bytes + size_bytes as f64 <= self.bytes;
        if fits {
            self.used_bytes += size_bytes as f64;
        }
        fits
    }
}

struct Stall {
    spec: StallSpec,
    /// Beginning and end of the next, or the one that is.
    at_ns: i64,
    until_ns: i64,
    written_bytes: u64,
    random: Random,
}

impl Stall {
    fn new(spec: StallSpec, seed: u64) -> Self {
        let mut stall = Self {
            spec,
            at_ns: i64::MAX / 4,
            until_ns: 0,
            written_bytes: 0,
            random: Random::new(seed ^ 0x57A1),
        };
        stall.plan_next();
        stall
    }

    fn plan_next(&mut self) {
        if self.spec.every_ns == 0 {
            self.at_ns = i64::MAX / 4;
            return;
        }
        let gap = if self.spec.random {
            (self.spec.every_ns as f64 * self.random.exponential()) as i64
        } else {
            self.spec.every_ns
        };
        self.at_ns = self.until_ns + gap;
        self.until_ns = self.at_ns + self.spec.for_ns;
    }

    fn note_written(&mut self, at_ns: i64, size_bytes: u64) {
        if self.spec.every_written_bytes == 0 {
            return;
        }
        self.written_bytes += size_bytes;
        if self.written_bytes >= self.spec.every_written_bytes {
            self.written_bytes -= self.spec.every_written_bytes;
            (self.at_ns, self.until_ns) = (at_ns, at_ns + self.spec.for_ns);
        }
    }

    /// When work that begins at `start_ns` and takes `work_ns` ends. What comes in one waits for its end; what is under
    /// way when one begins takes longer by its length. The one after that is left to later work.
    fn end_ns(&mut self, now_ns: i64, start_ns: i64, work_ns: i64) -> i64 {
        while self.until_ns <= now_ns && self.at_ns < i64::MAX / 4 {
            self.plan_next();
        }
        if start_ns >= self.at_ns && start_ns < self.until_ns {
            self.until_ns + work_ns
        } else if start_ns < self.at_ns && start_ns + work_ns > self.at_ns {
            start_ns + work_ns + self.spec.for_ns
        } else {
            start_ns + work_ns
        }
    }
}

/// A disk that takes I/Os in order of time and knows at once when each will end.
pub struct Disk {
    /// Gates before it.
    pub gates: Vec<usize>,
    servers_free_ns: BinaryHeap<Reverse<i64>>,
    unlimited: bool,
    laws: [Law; 3],
    cache: Option<Cache>,
    slc: Option<Slc>,
    stall: Option<Stall>,
    random: Random,
    in_flight: usize,
    last_end_bytes: u64,
    /// Sum of the times that servers worked.
    pub busy_ns: i128,
    /// Most it had at once.
    pub in_flight_max: usize,
    /// I/Os whose size, or number in flight, lies beyond what was measured.
    pub beyond_ios: u64,
}

impl Disk {
    /// As described.
    #[must_use]
    pub fn new(spec: &DiskSpec, seed: u64) -> Self {
        Self {
            gates: spec.gates.clone(),
            servers_free_ns: (0..spec.servers).map(|_| Reverse(i64::MIN / 4)).collect(),
            unlimited: spec.servers == 0,
            laws: [
                Law::new(&spec.read),
                Law::new(&spec.write),
                Law::new(&spec.flush),
            ],
            cache: spec.cache.as_ref().map(Cache::new),
            slc: spec.slc.as_ref().map(Slc::new),
            stall: spec.stall.map(|stall| Stall::new(stall, seed)),
            random: Random::new(seed),
            in_flight: 0,
            last_end_bytes: 0,
            busy_ns: 0,
            in_flight_max: 0,
            beyond_ios: 0,
        }
    }

    /// When an I/O that comes now ends. Arrivals come in order of time.
    pub fn end_ns(&mut self, now_ns: i64, io: &Request) -> i64 {
        if self.in_flight == 0
            && let Some(slc) = &mut self.slc
        {
            slc.wake(now_ns);
        }
        self.in_flight += 1;
        self.in_flight_max = self.in_flight_max.max(self.in_flight);
        let asked = Asked {
            offset_bytes: io.offset_bytes,
            size_bytes: io.size_bytes,
            in_flight: self.in_flight,
            last_end_bytes: self.last_end_bytes,
        };
        if io.op == 1
            && let Some(stall) = &mut self.stall
        {
            stall.note_written(now_ns, io.size_bytes);
        }
        if let Some(cache) = &mut self.cache {
            if io.op == 1 && !io.durable {
                let start_ns = cache.room_ns(now_ns, io.size_bytes);
                let work_ns = cache.write.draw_ns(&asked, &mut self.random).round() as i64;
                return self.through_stall(now_ns, start_ns, work_ns);
            }
            if io.op == 2 && cache.flush_drains {
                let start_ns = now_ns.max(cache.empty_at_ns.ceil() as i64);
                let work_ns = self.laws[2].draw_ns(&asked, &mut self.random).round() as i64;
                return self.through_stall(now_ns, start_ns, work_ns);
            }
        }
        if io.op != 2 {
            self.last_end_bytes = io.offset_bytes + io.size_bytes;
        }
        let is_fast = io.op == 1
            && self
                .slc
                .as_mut()
                .is_some_and(|slc| slc.takes(io.size_bytes));
        let law = match &self.slc {
            Some(slc) if is_fast => &slc.write,
            _ => &self.laws[usize::from(io.op.min(2))],
        };
        self.beyond_ios += u64::from(law.is_beyond(&asked));
        let work_ns = law.draw_ns(&asked, &mut self.random).round() as i64;
        self.busy_ns += i128::from(work_ns);
        if self.unlimited {
            return self.through_stall(now_ns, now_ns, work_ns);
        }
        let free_ns = self
            .servers_free_ns
            .pop()
            .map_or(now_ns, |Reverse(free_ns)| free_ns);
        let end_ns = self.through_stall(now_ns, free_ns.max(now_ns), work_ns);
        self.servers_free_ns.push(Reverse(end_ns));
        end_ns
    }

    fn through_stall(&mut self, now_ns: i64, start_ns: i64, work_ns: i64) -> i64 {
        match &mut self.stall {
            Some(stall) => stall.end_ns(now_ns, start_ns, work_ns),
            None => start_ns + work_ns,
        }
    }

    /// One of its I/Os has ended.
    pub fn leave(&mut self, now_ns: i64) {
        self.in_flight -= 1;
        if self.in_flight == 0
            && let Some(slc) = &mut self.slc
        {
            slc.idle_since_ns = now_ns;
        }
    }
}
