//! A model as it comes from Python: numbers in base units, references resolved. `iotrace.schemas.models` explains them.

use serde::Deserialize;

/// Storage, and the machine in front of it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// All limits, known by their position.
    pub gates: Vec<GateSpec>,
    /// What arrivals are addressed to.
    pub volumes: Vec<VolumeSpec>,
    /// All disks, known by their position.
    pub disks: Vec<DiskSpec>,
}

/// One or several disks behind one address range.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VolumeSpec {
    /// Gates that a whole I/O goes through, in order.
    pub gates: Vec<usize>,
    /// Its disks.
    pub disks: Vec<usize>,
    /// Bytes on one disk before the next one's turn.
    pub stripe_bytes: u64,
}

/// A queue that lets I/Os go in the order in which they came, each when all buckets have what it takes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GateSpec {
    /// Whether reads have to go through.
    pub reads: bool,
    /// Whether writes have to go through.
    pub writes: bool,
    /// Token buckets; none where `slices` limit.
    #[serde(default)]
    pub buckets: Vec<BucketSpec>,
    /// The kernel's way to limit.
    #[serde(default)]
    pub slices: Option<SliceSpec>,
}

/// What tokens are counted in.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Counted {
    /// One for each I/O, or for each `unit_bytes` of it that were begun.
    Ios,
    /// One for each byte.
    Bytes,
}

/// A token bucket.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BucketSpec {
    /// What it counts.
    pub counted: Counted,
    /// An I/O larger than this counts as several; 0: never.
    #[serde(default)]
    pub unit_bytes: u64,
    /// I/Os that go on where the last one ended count as one with it up to so many bytes; 0: never.
    #[serde(default)]
    pub merge_bytes: u64,
    /// Tokens that come back in a second.
    pub rate_per_s: f64,
    /// Most tokens it holds.
    pub capacity: f64,
    /// Tokens it begins with.
    pub start: f64,
}

/// A limit that is counted in slices of time, as Linux' block throttle does.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SliceSpec {
    /// What it counts.
    pub counted: Counted,
    /// I/Os or bytes a second.
    pub rate_per_s: f64,
    /// Length of a slice.
    pub slice_ns: i64,
    /// The kernel looks at its clock in steps of this.
    pub tick_ns: i64,
}

/// A disk.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiskSpec {
    /// Gates before its queue, in order.
    pub gates: Vec<usize>,
    /// I/Os that are served at a time; 0: any number.
    pub servers: usize,
    /// How long a read takes.
    pub read: LawSpec,
    /// How long a write takes.
    pub write: LawSpec,
    /// How long a flush takes.
    pub flush: LawSpec,
    /// Memory that takes writes.
    #[serde(default)]
    pub cache: Option<CacheSpec>,
    /// Flash that is written fast while there is any.
    #[serde(default)]
    pub slc: Option<SlcSpec>,
    /// Times at which it stands still.
    #[serde(default)]
    pub stall: Option<StallSpec>,
}

/// A write cache.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CacheSpec {
    /// What it holds.
    pub bytes: f64,
    /// How fast it empties.
    pub drain_bytes_per_s: f64,
    /// How long it takes to put a write there.
    pub write: LawSpec,
    /// Whether a flush waits until it is empty.
    pub flush_drains: bool,
}

/// Flash that is written with one bit a cell.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SlcSpec {
    /// What it holds.
    pub bytes: f64,
    /// How fast it becomes free while the disk is idle.
    pub free_bytes_per_s: f64,
    /// How long a write into it takes.
    pub write: LawSpec,
}

/// When a disk stands still.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StallSpec {
    /// From the end of one to the beginning of the next; 0: time alone causes none.
    #[serde(default)]
    pub every_ns: i64,
    /// Once so many bytes more were written; 0: writes cause none.
    #[serde(default)]
    pub every_written_bytes: u64,
    /// For how long.
    pub for_ns: i64,
    /// Times between are exponentially distributed about `every_ns`.
    #[serde(default)]
    pub random: bool,
}

/// How long something takes: a time of this shape, and `ns_per_byte` for what is transferred.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LawSpec {
    /// The shape.
    pub shape: ShapeSpec,
    /// Transfer.
    #[serde(default)]
    pub ns_per_byte: f64,
}

/// The distribution of a time.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ShapeSpec {
    /// Always so long.
    Constant {
        /// Nanoseconds.
        ns: f64,
    },
    /// Memoryless.
    Exponential {
        /// Mean in nanoseconds.
        ns: f64,
    },
    /// Its logarithm is normal.
    Lognormal {
        /// Mean in nanoseconds.
        ns: f64,
        /// Standard deviation over mean.
        cv: f64,
    },
    /// An arm that moves and a platter that turns; what goes on where the last I/O ended is only transferred.
    Spindle {
        /// Move to the next track.
        seek_min_ns: f64,
        /// Move over the whole stroke.
        seek_max_ns: f64,
        /// One turn.
        turn_ns: f64,
        /// The stroke.
        capacity_bytes: f64,
    },
    /// Measured: quantiles for each size and number in flight.
    Table {
        /// Shares that the quantiles are for, rising from 0 to 1.
        shares: Vec<f64>,
        /// Sizes, rising.
        sizes_bytes: Vec<f64>,
        /// Numbers in flight, the I/O itself included, rising.
        in_flight: Vec<f64>,
        /// Quantiles in nanoseconds: `[size][in flight][share]`.
        ns: Vec<Vec<Vec<f64>>>,
    },
}
