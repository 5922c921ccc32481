//! How long I/Os took, counted in buckets of which each doubling has 1,024 (`analyze/stats/histogram.py` names them).

const PART_BITS: u32 = 10;
const PARTS: usize = 1 << PART_BITS;
const DOUBLINGS: usize = 63;
/// A group with no more than these keeps them one by one.
const FEW: usize = 256;

/// Latencies of one group.
#[derive(Clone, Debug, Default)]
pub struct Latencies {
    /// Sum; as much as fits.
    pub sum_ns: i64,
    /// The longest.
    pub max_ns: i64,
    few: Vec<u32>,
    zeros: u64,
    doublings: Vec<Option<Box<[u64; PARTS]>>>,
}

impl Latencies {
    /// Takes in a latency; a negative one counts as 0.
    #[inline]
    pub fn add(&mut self, latency_ns: i64) {
        let latency_ns = latency_ns.max(0);
        self.sum_ns = self.sum_ns.saturating_add(latency_ns);
        self.max_ns = self.max_ns.max(latency_ns);
        let position = position(latency_ns);
        if self.doublings.is_empty() {
            self.few.push(position);
            if self.few.len() > FEW {
                self.spread();
            }
        } else {
            self.count(position);
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.few.is_empty() && self.doublings.is_empty()
    }

    /// Names of the buckets that hold anything, ascending, with their counts.
    pub fn buckets(&self) -> Vec<(i64, u64)> {
        let mut whole = self.clone();
        whole.spread();
        let zeros = (whole.zeros > 0).then_some((0, whole.zeros));
        let others = whole
            .doublings
            .iter()
            .zip(0..)
            .filter_map(|(counts, exponent)| Some((counts.as_ref()?, exponent)));
        let others = others.flat_map(|(counts, exponent)| {
            let filled = counts.iter().zip(0..).filter(|(count, _)| **count > 0);
            filled.map(move |(&count, part)| (name_ns(exponent, part), count))
        });
        zeros.into_iter().chain(others).collect()
    }

    #[inline]
    fn count(&mut self, position: u32) {
        let (exponent, part) = (position as usize >> PART_BITS, position as usize % PARTS);
        if exponent == DOUBLINGS {
            self.zeros += 1;
        } else if let Some(counts) = &mut self.doublings[exponent] {
            counts[part] += 1;
        } else {
            self.doublings[exponent] = Some(Box::new([0; PARTS]));
            self.count(position);
        }
    }

    fn spread(&mut self) {
        if self.doublings.is_empty() {
            self.doublings.resize(DOUBLINGS, None);
        }
        for position in std::mem::take(&mut self.few) {
            self.count(position);
        }
    }
}

/// Exponent of the doubling and the ten bits that follow the first; 0 comes after all of them.
#[inline]
fn position(latency_ns: i64) -> u32 {
    let Some(exponent) = latency_ns.checked_ilog2() else {
        return (DOUBLINGS << PART_BITS) as u32;
    };
    let aligned = (latency_ns as u64) << (63 - exponent);
    (exponent << PART_BITS) | ((aligned >> (63 - PART_BITS)) as u32 & (PARTS as u32 - 1))
}

/// The middle of the bucket; the value itself where a bucket holds one only.
fn name_ns(exponent: u32, part: u32) -> i64 {
    let part = i64::from(part);
    match exponent.checked_sub(PART_BITS) {
        None => (1 << exponent) + (part >> (PART_BITS - exponent)),
        Some(0) => (1 << exponent) + part,
        Some(shift) => (1 << exponent) + (part << shift) + (1 << (shift - 1)),
    }
}

#[cfg(test)]
mod tests {
    use super::Latencies;

    /// The rule as `analyze/stats/histogram.py` states it.
    fn rule(value: i64) -> i64 {
        let shift = value.checked_ilog2().unwrap_or(0).saturating_sub(10);
        ((value >> shift) << shift) + ((1_i64 << shift) >> 1)
    }

    #[test]
    fn buckets_are_those_of_the_rule_up_to_the_longest_time() {
        let edges = (0..63).flat_map(|bit| [-1, 0, 1].map(|step| (1_i64 << bit) + step));
        let odd = (1..62).map(|bit| 0x5555_5555_5555_5555 >> bit);
        for value in edges.chain(odd).chain([0, i64::MAX]) {
            let mut latencies = Latencies::default();
            latencies.add(value);
            assert_eq!(latencies.buckets(), [(rule(value), 1)], "{value}");
        }
    }

    #[test]
    fn many_are_counted_as_few_are() {
        let mut latencies = Latencies::default();
        (-5..3000).for_each(|value| latencies.add(value));
        assert_eq!(latencies.sum_ns, 3000 * 2999 / 2);
        assert_eq!(latencies.max_ns, 2999);
        let found = latencies.buckets();
        assert_eq!(found[0], (0, 6));
        assert_eq!(found.iter().map(|bucket| bucket.1).sum::<u64>(), 3005);
        assert!(found.is_sorted_by(|one, other| one.0 < other.0));
    }

    #[test]
    fn it_is_empty_until_the_first_one() {
        let mut latencies = Latencies::default();
        assert!(latencies.is_empty());
        for _ in 0..300 {
            latencies.add(0);
            assert!(!latencies.is_empty());
        }
        assert_eq!(latencies.buckets(), [(0, 300)]);
    }
}
