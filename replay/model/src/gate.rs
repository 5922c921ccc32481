//! Limits: a queue in order of arrival, and what each I/O has to wait for.
//!
//! Both kinds work out the time of release when an I/O arrives, since nobody overtakes: what comes later changes
//! nothing for it.
//!
//! Tokens: a bucket of capacity `c` fills at rate `r`. It is kept as the generic cell rate algorithm does (ITU-T I.371):
//! the time at which it would be full, which each I/O moves on by what it takes. Credits for bursts are a second bucket
//! beside it: one fills at the base rate and holds the credits, one at the burst rate and holds next to nothing.
//!
//! Slices: Linux' block throttle gives what a slice is worth at its beginning. A slice begins with the first I/O after
//! one that was not used up; while I/Os wait, the next follows on it, and of what earlier ones left over the last but
//! one is kept. Its clock has steps, and what has to wait is looked at again on one of them.

use crate::demand::Demand;
use crate::spec::{BucketSpec, Counted, GateSpec, SliceSpec};

/// What a gate has to know of an I/O.
#[derive(Clone, Copy, Debug)]
pub struct Passing {
    /// A read (0) or a write (1).
    pub op: u8,
    /// When it was due, whatever held it back since.
    pub due_ns: i64,
    /// Where.
    pub offset_bytes: u64,
    /// How much.
    pub size_bytes: u64,
}

/// What a limit did.
#[derive(Clone, Debug, Default)]
pub struct Held {
    /// I/Os that waited.
    pub ios: u64,
    /// Sum of what they waited, in the queue too.
    pub wait_ns: i128,
    /// Time during which any waited; of a bucket, during which the first one did for it.
    pub throttled_ns: i64,
    waited_until_ns: i64,
    /// The longest wait.
    pub wait_ns_max: i64,
}

impl Held {
    /// An I/O that arrived, was the first in the queue from `first_ns` on, and was let go.
    fn note(&mut self, arrived_ns: i64, first_ns: i64, until_ns: i64) {
        let wait_ns = until_ns - arrived_ns;
        self.ios += 1;
        self.wait_ns += i128::from(wait_ns);
        self.wait_ns_max = self.wait_ns_max.max(wait_ns);
        // Waits begin and end in order, so that their union is a running sum.
        if until_ns > self.waited_until_ns {
            self.throttled_ns += until_ns - first_ns.max(self.waited_until_ns);
            self.waited_until_ns = until_ns;
        }
    }
}

/// Tokens.
#[derive(Clone, Debug)]
pub struct Bucket {
    spec: BucketSpec,
    ns_per_token: f64,
    /// When it is full if nothing more is taken.
    full_at_ns: f64,
    /// Where the last I/O of each kind ended, and how many bytes it has been merged to.
    runs: [(u64, u64); 2],
    /// For how long it had to fill at most, when something was taken.
    full_in_ns_most: f64,
    /// What it did to the I/Os that it let go last.
    pub held: Held,
    /// Tokens asked for, by when the I/Os were due.
    pub demand: Demand,
}

impl Bucket {
    fn new(spec: &BucketSpec) -> Self {
        let ns_per_token = 1e9 / spec.rate_per_s;
        Self {
            ns_per_token,
            full_at_ns: (spec.capacity - spec.start) * ns_per_token,
            runs: [(u64::MAX, 0); 2],
            full_in_ns_most: 0.0,
            held: Held::default(),
            demand: Demand::default(),
            spec: spec.clone(),
        }
    }

    fn cost(&mut self, io: &Passing) -> f64 {
        match self.spec.counted {
            Counted::Bytes => io.size_bytes as f64,
            Counted::Ios => {
                if self.spec.merge_bytes > 0 {
                    let run = &mut self.runs[usize::from(io.op & 1)];
                    let (end, merged) = *run;
                    let goes_on =
                        end == io.offset_bytes && merged + io.size_bytes <= self.spec.merge_bytes;
                    *run = (
                        io.offset_bytes + io.size_bytes,
                        if goes_on { merged } else { 0 } + io.size_bytes,
                    );
                    if goes_on {
                        return 0.0;
                    }
                }
                match self.spec.unit_bytes {
                    unit if unit == 0 || io.size_bytes <= unit => 1.0,
                    unit => io.size_bytes.div_ceil(unit) as f64,
                }
            }
        }
    }

    /// When it has `tokens`, or is full where it never holds as many.
    fn ready_ns(&self, tokens: f64) -> f64 {
        self.full_at_ns - (self.spec.capacity - tokens).max(0.0) * self.ns_per_token
    }

    fn take(&mut self, at_ns: f64, tokens: f64) {
        self.full_at_ns = self.full_at_ns.max(at_ns) + tokens * self.ns_per_token;
        self.full_in_ns_most = self.full_in_ns_most.max(self.full_at_ns - at_ns);
    }

    /// Fewest tokens seen.
    #[must_use]
    pub fn least(&self) -> f64 {
        (self.spec.capacity - self.full_in_ns_most / self.ns_per_token).min(self.spec.start)
    }

    /// Tokens in it.
    #[must_use]
    pub fn tokens(&self, at_ns: f64) -> f64 {
        self.spec.capacity - (self.full_at_ns - at_ns).max(0.0) / self.ns_per_token
    }
}

/// The kernel's slices, in steps of its clock.
#[derive(Clone, Debug)]
struct Slices {
    spec: SliceSpec,
    slice: i64,
    per_tick: f64,
    start: i64,
    end: i64,
    used: f64,
}

impl Slices {
    fn new(spec: &SliceSpec) -> Self {
        Self {
            slice: (spec.slice_ns / spec.tick_ns).max(1),
            per_tick: spec.rate_per_s * spec.tick_ns as f64 / 1e9,
            start: 0,
            end: -1,
            used: 0.0,
            spec: spec.clone(),
        }
    }

    fn release_ns(&mut self, arrived_ns: i64, last_ns: i64, io: &Passing) -> i64 {
        let cost = match self.spec.counted {
            Counted::Ios => 1.0,
            Counted::Bytes => io.size_bytes as f64,
        };
        let mut at_ns = arrived_ns.max(last_ns);
        let mut is_queued = last_ns > arrived_ns;
        loop {
            let now = at_ns.div_euclid(self.spec.tick_ns);
            if now > self.end && !is_queued {
                (self.start, self.end, self.used) = (now, now + self.slice, 0.0);
            } else {
                self.extend(now + self.slice);
            }
            let wait = self.wait(now, cost);
            if wait == 0 {
                self.used += cost;
                self.trim(now);
                return at_ns;
            }
            self.extend(now + wait);
            is_queued = true;
            at_ns = (now + wait) * self.spec.tick_ns;
        }
    }

    /// Ticks until it can go; 0: now.
    fn wait(&self, now: i64, cost: f64) -> i64 {
        let elapsed = now - self.start;
        match self.spec.counted {
            Counted::Ios => {
                let whole = round_up(elapsed + 1, self.slice);
                let allowed = (whole as f64 * self.per_tick).floor();
                if self.used + 1.0 <= allowed {
                    0
                } else {
                    whole - elapsed
                }
            }
            Counted::Bytes => {
                let whole = round_up(elapsed.max(1), self.slice);
                let extra = self.used + cost - whole as f64 * self.per_tick;
                if extra <= 0.0 {
                    0
                } else {
                    ((extra / self.per_tick).floor() as i64).max(1) + whole - elapsed
                }
            }
        }
    }

    fn extend(&mut self, end: i64) {
        if end > self.end {
            self.end = round_up(end, self.slice);
        }
    }

    fn trim(&mut self, now: i64) {
        self.end = round_up(now + self.slice, self.slice);
        let elapsed = (now - self.start) / self.slice * self.slice;
        if elapsed < 2 * self.slice {
            return;
        }
        let past = elapsed - self.slice;
        // The kernel takes whole I/Os and bytes: of 49.7 I/Os a slice it gives 49, which is felt at a full load.
        self.used = (self.used - (past as f64 * self.per_tick).floor()).max(0.0);
        self.start += past;
    }
}

fn round_up(value: i64, step: i64) -> i64 {
    (value + step - 1).div_euclid(step) * step
}

/// A limit, or several that are waited for together.
#[derive(Clone, Debug)]
pub struct Gate {
    reads: bool,
    writes: bool,
    /// Its buckets.
    pub buckets: Vec<Bucket>,
    slices: Option<Slices>,
    last_ns: i64,
    /// The bucket that the last I/O waited for.
    binding: usize,
    /// What it did.
    pub held: Held,
}

impl Gate {
    /// As described.
    #[must_use]
    pub fn new(spec: &GateSpec) -> Self {
        Self {
            reads: spec.reads,
            writes: spec.writes,
            buckets: spec.buckets.iter().map(Bucket::new).collect(),
            slices: spec.slices.as_ref().map(Slices::new),
            last_ns: i64::MIN / 4,
            binding: 0,
            held: Held::default(),
        }
    }

    /// When an I/O that arrives now may go on. Arrivals come in order of time.
    pub fn release_ns(&mut self, arrived_ns: i64, io: &Passing) -> i64 {
        if !(if io.op == 0 { self.reads } else { self.writes }) {
            return arrived_ns;
        }
        let release_ns = if let Some(slices) = &mut self.slices {
            slices.release_ns(arrived_ns, self.last_ns, io)
        } else {
            self.tokens_release_ns(arrived_ns, io)
        };
        self.last_ns = release_ns;
        if release_ns > arrived_ns {
            self.held.note(arrived_ns, arrived_ns, release_ns);
        }
        release_ns
    }

    fn tokens_release_ns(&mut self, arrived_ns: i64, io: &Passing) -> i64 {
        let first_ns = arrived_ns.max(self.last_ns) as f64;
        let mut release_ns = first_ns;
        let mut costs = [0.0; BUCKETS_MAX];
        for (number, bucket) in self.buckets.iter_mut().enumerate() {
            costs[number] = bucket.cost(io);
            bucket.demand.note(io.due_ns, costs[number]);
            let ready_ns = bucket.ready_ns(costs[number]);
            if ready_ns > release_ns {
                release_ns = ready_ns;
                self.binding = number;
            }
        }
        // A whole nanosecond, not before the tokens are there; errors of the last digit do not count as one.
        let whole_ns = if release_ns > first_ns {
            (release_ns - 1e-3).ceil()
        } else {
            first_ns
        };
        for (number, bucket) in self.buckets.iter_mut().enumerate() {
            // At the exact time: rounded up, each I/O would lose part of a token.
            bucket.take(release_ns, costs[number]);
        }
        let whole_ns = whole_ns as i64;
        // One that takes nothing goes on with the I/O before it, and has waited for the same bucket.
        if whole_ns > arrived_ns {
            let held = &mut self.buckets[self.binding].held;
            held.note(arrived_ns, first_ns as i64, whole_ns);
        }
        whole_ns
    }
}

/// Buckets of one gate at most.
pub const BUCKETS_MAX: usize = 8;
