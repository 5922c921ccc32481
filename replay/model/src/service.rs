//! How long a disk works on an I/O.

use crate::random::Random;
use crate::spec::{LawSpec, ShapeSpec};

/// A law that times are drawn from.
#[derive(Clone, Debug)]
pub struct Law {
    shape: Shape,
    ns_per_byte: f64,
}

#[derive(Clone, Debug)]
enum Shape {
    Constant(f64),
    Exponential(f64),
    /// Mean and standard deviation of the logarithm.
    Lognormal(f64, f64),
    Spindle {
        seek_min_ns: f64,
        seek_range_ns: f64,
        turn_ns: f64,
        capacity_bytes: f64,
    },
    Table(Table),
}

/// Quantiles on a grid of sizes and numbers in flight. Between its lines logarithms are interpolated; a larger number in
/// flight than any measured takes in proportion longer, as where a disk is full, and so does a larger size.
#[derive(Clone, Debug)]
struct Table {
    shares: Vec<f64>,
    sizes: Vec<f64>,
    in_flight: Vec<f64>,
    /// Logarithms of nanoseconds: `[size][in flight][share]`.
    ln_ns: Vec<Vec<Vec<f64>>>,
}

/// What is asked.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// Where.
    pub offset_bytes: u64,
    /// How much.
    pub size_bytes: u64,
    /// How many the disk has, this one included.
    pub in_flight: usize,
    /// Where the last I/O ended.
    pub last_end_bytes: u64,
}

impl Law {
    /// As described.
    #[must_use]
    pub fn new(spec: &LawSpec) -> Self {
        let shape = match &spec.shape {
            ShapeSpec::Constant { ns } => Shape::Constant(*ns),
            ShapeSpec::Exponential { ns } => Shape::Exponential(*ns),
            ShapeSpec::Lognormal { ns, cv } => {
                let variance = (1.0 + cv * cv).ln();
                Shape::Lognormal(ns.ln() - variance / 2.0, variance.sqrt())
            }
            ShapeSpec::Spindle {
                seek_min_ns,
                seek_max_ns,
                turn_ns,
                capacity_bytes,
            } => Shape::Spindle {
                seek_min_ns: *seek_min_ns,
                seek_range_ns: seek_max_ns - seek_min_ns,
                turn_ns: *turn_ns,
                capacity_bytes: *capacity_bytes,
            },
            ShapeSpec::Table {
                shares,
                sizes_bytes,
                in_flight,
                ns,
            } => Shape::Table(Table {
                shares: shares.clone(),
                sizes: sizes_bytes.iter().map(|size| size.ln()).collect(),
                in_flight: in_flight.iter().map(|number| number.ln()).collect(),
                ln_ns: ns
                    .iter()
                    .map(|of_size| {
                        of_size
                            .iter()
                            .map(|cell| cell.iter().map(|ns| ns.max(1.0).ln()).collect())
                            .collect()
                    })
                    .collect(),
            }),
        };
        Self {
            shape,
            ns_per_byte: spec.ns_per_byte,
        }
    }

    /// A time in nanoseconds.
    pub fn draw_ns(&self, asked: &Asked, random: &mut Random) -> f64 {
        let own_ns = match &self.shape {
            Shape::Constant(ns) => *ns,
            Shape::Exponential(ns) => ns * random.exponential(),
            Shape::Lognormal(mean, deviation) => (mean + deviation * random.normal()).exp(),
            Shape::Spindle {
                seek_min_ns,
                seek_range_ns,
                turn_ns,
                capacity_bytes,
            } => {
                if asked.offset_bytes == asked.last_end_bytes {
                    0.0
                } else {
                    let distance = asked.offset_bytes.abs_diff(asked.last_end_bytes) as f64;
                    let share = (distance / capacity_bytes).min(1.0);
                    // An arm accelerates: time goes with the root of the distance (Ruemmler and Wilkes 1994).
                    seek_min_ns + seek_range_ns * share.sqrt() + turn_ns * random.unit()
                }
            }
            Shape::Table(table) => table.draw_ns(asked, random.unit()),
        };
        own_ns + self.ns_per_byte * asked.size_bytes as f64
    }
}

impl Law {
    /// Whether more are in flight, or it is larger or smaller, than anything that was measured.
    #[must_use]
    pub fn is_beyond(&self, asked: &Asked) -> bool {
        let Shape::Table(table) = &self.shape else {
            return false;
        };
        let outside = |points: &[f64], at: f64| {
            at < points[0] - ROUNDING || at > points[points.len() - 1] + ROUNDING
        };
        let number = (asked.in_flight.max(1) as f64).ln();
        outside(&table.sizes, (asked.size_bytes.max(1) as f64).ln())
            || number > table.in_flight[table.in_flight.len() - 1] + LAST_LINE
    }
}

/// Of logarithms.
const ROUNDING: f64 = 1e-9;
/// The last line gathers all numbers in flight above it that are rare: it stands for those up to twice as many.
const LAST_LINE: f64 = std::f64::consts::LN_2;

/// Position in rising `points`: the point at or below, the share of the way to the next, and how far beyond the last.
fn place(points: &[f64], at: f64) -> (usize, f64, f64) {
    let last = points.len() - 1;
    if at <= points[0] {
        return (0, 0.0, 0.0);
    }
    if at >= points[last] {
        return (last, 0.0, at - points[last]);
    }
    let above = points.partition_point(|point| *point <= at);
    let (low, high) = (points[above - 1], points[above]);
    (above - 1, (at - low) / (high - low), 0.0)
}

impl Table {
    fn draw_ns(&self, asked: &Asked, share: f64) -> f64 {
        let (size, size_way, beyond_size) =
            place(&self.sizes, (asked.size_bytes.max(1) as f64).ln());
        let (number, number_way, beyond_number) =
            place(&self.in_flight, (asked.in_flight.max(1) as f64).ln());
        let (at, way, _) = place(&self.shares, share);
        let cell = |size: usize, number: usize| {
            let quantiles = &self.ln_ns[size][number];
            let low = quantiles[at];
            if way > 0.0 {
                low + way * (quantiles[at + 1] - low)
            } else {
                low
            }
        };
        let along_number = |size: usize| {
            let low = cell(size, number);
            if number_way > 0.0 {
                low + number_way * (cell(size, number + 1) - low)
            } else {
                low
            }
        };
        let low = along_number(size);
        let value = if size_way > 0.0 {
            low + size_way * (along_number(size + 1) - low)
        } else {
            low
        };
        (value + beyond_size + beyond_number).exp()
    }
}
