//! Models in which nobody overtakes: disks that take no time behind limits that keep the order of arrival. When an I/O
//! arrives, all that holds it back is known, and no event is needed to find when it ends.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};

use crate::spec::{DiskSpec, GateSpec, LawSpec, ShapeSpec, Spec};

/// Whether every gate of the model sees I/Os in the order in which they were issued.
///
/// A gate keeps the order of those that go through it. So whoever comes to a later gate has to have come through all
/// earlier ones that hold any of them back; and where ways meet, they have to be the same up to there.
pub fn is_straight(spec: &Spec) -> bool {
    let mut way_to: HashMap<usize, Vec<usize>> = HashMap::new();
    let mut disk_of: HashMap<usize, usize> = HashMap::new();
    for volume in &spec.volumes {
        for &disk in &volume.disks {
            let own = &spec.disks[disk].gates;
            let way: Vec<usize> = volume.gates.iter().chain(own).copied().collect();
            for (stage, &gate) in way.iter().enumerate() {
                let before = way[..stage].to_vec();
                if before.contains(&gate)
                    || !before
                        .iter()
                        .all(|&one| keeps_order(&spec.gates[one], &spec.gates[gate]))
                    || *way_to.entry(gate).or_insert_with(|| before.clone()) != before
                {
                    return false;
                }
            }
            if own
                .iter()
                .any(|&gate| *disk_of.entry(gate).or_insert(disk) != disk)
            {
                return false;
            }
        }
        if (1..volume.disks.len()).any(|one| volume.disks[..one].contains(&volume.disks[one])) {
            return false;
        }
    }
    spec.disks.iter().all(takes_no_time)
}

/// What goes through `later` comes out of `earlier` in the order in which it came: all of it was there, or nothing.
fn keeps_order(earlier: &GateSpec, later: &GateSpec) -> bool {
    let either = [(earlier.reads, later.reads), (earlier.writes, later.writes)];
    either.iter().all(|&(was, is)| was || !is) || either.iter().all(|&(was, is)| !(was && is))
}

fn takes_no_time(disk: &DiskSpec) -> bool {
    let is_nothing = |law: &LawSpec| {
        matches!(law.shape, ShapeSpec::Constant { ns } if ns == 0.0) && law.ns_per_byte == 0.0
    };
    disk.servers == 0
        && disk.cache.is_none()
        && disk.slc.is_none()
        && disk.stall.is_none()
        && [&disk.read, &disk.write, &disk.flush]
            .into_iter()
            .all(is_nothing)
}

/// When I/Os under way will end. Most end in the order in which they came.
#[derive(Debug, Default)]
pub struct UnderWay {
    in_order_ns: VecDeque<i64>,
    others_ns: BinaryHeap<Reverse<i64>>,
}

impl UnderWay {
    /// How many.
    pub fn len(&self) -> usize {
        self.in_order_ns.len() + self.others_ns.len()
    }

    /// One more.
    pub fn enter(&mut self, completed_ns: i64) {
        if self
            .in_order_ns
            .back()
            .is_none_or(|&last_ns| last_ns <= completed_ns)
        {
            self.in_order_ns.push_back(completed_ns);
        } else {
            self.others_ns.push(Reverse(completed_ns));
        }
    }

    /// Those that have ended by then are gone.
    pub fn leave_until(&mut self, at_ns: i64) {
        while self
            .in_order_ns
            .front()
            .is_some_and(|&first_ns| first_ns <= at_ns)
        {
            self.in_order_ns.pop_front();
        }
        while self
            .others_ns
            .peek()
            .is_some_and(|first_ns| first_ns.0 <= at_ns)
        {
            self.others_ns.pop();
        }
    }

    /// The next one ends: when. The smallest time there is where there is none.
    pub fn leave_first(&mut self) -> i64 {
        let other_ns = self.others_ns.peek().map(|first_ns| first_ns.0);
        match (self.in_order_ns.front().copied(), other_ns) {
            (Some(first_ns), other_ns) if other_ns.is_none_or(|other_ns| first_ns <= other_ns) => {
                self.in_order_ns.pop_front();
                first_ns
            }
            (_, Some(other_ns)) => {
                self.others_ns.pop();
                other_ns
            }
            _ => i64::MIN,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{UnderWay, is_straight};
    use crate::simulator::{Arrivals, Simulator};
    use crate::spec::Spec;

    /// Gates that cover reads, writes or both; ways to disks through them; and how long the disks' reads take.
    fn spec(gates: &[&str], volumes: &[(&[usize], &[&[usize]])], read_ns: f64) -> Spec {
        let law = |ns: f64| serde_json::json!({"shape": {"constant": {"ns": ns}}});
        let bytes_per_s = |number: usize| [6e7, 5e6, 1.2e7, 5e6, 5e6, 1.2e7][number];
        let (mut disks, mut ways) = (Vec::new(), Vec::new());
        for (own, parts) in volumes {
            let first = disks.len();
            disks.extend(parts.iter().map(|gates| {
                serde_json::json!({"gates": gates, "servers": 0, "read": law(read_ns),
                    "write": law(0.0), "flush": law(0.0)})
            }));
            let which: Vec<usize> = (first..disks.len()).collect();
            ways.push(serde_json::json!({"gates": own, "disks": which, "stripe_bytes": 65536}));
        }
        let gates: Vec<_> = gates
            .iter()
            .enumerate()
            .map(|(number, covers)| {
                serde_json::json!({"reads": covers.contains('r'), "writes": covers.contains('w'), "buckets": [
                    {"counted": "ios", "unit_bytes": 131_072, "rate_per_s": 900, "capacity": 20,
                        "start": 20},
                    {"counted": "bytes", "rate_per_s": bytes_per_s(number), "capacity": 1e6,
                        "start": 5e5},
                ]})
            })
            .collect();
        serde_json::from_value(serde_json::json!({"gates": gates, "volumes": ways, "disks": disks}))
            .unwrap()
    }

    #[test]
    fn whoever_may_overtake_makes_events_necessary() {
        for (gates, volumes, straight) in [
            (&["rw", "rw"][..], &[(&[0][..], &[&[1][..]][..])][..], true),
            (&["rw", "r", "w"], &[(&[0, 1, 2], &[&[]])], true),
            // What is not read comes to the disk's limit past reads that wait.
            (&["r", "rw"], &[(&[0], &[&[1]])], false),
            (&["r", "rw"], &[(&[1], &[&[0]])], true),
            // Two sets behind a machine, and one of them behind a limit of its own first.
            (
                &["rw", "rw", "rw"],
                &[(&[0], &[&[1]]), (&[0], &[&[2]])],
                true,
            ),
            (
                &["rw", "rw", "rw"],
                &[(&[1, 0], &[&[]]), (&[0], &[&[2]])],
                false,
            ),
            // Stripes over disks that share a limit.
            (&["rw", "rw"], &[(&[], &[&[0], &[1]])], true),
            (&["rw"], &[(&[], &[&[0], &[0]])], false),
        ] {
            assert_eq!(
                is_straight(&spec(gates, volumes, 0.0)),
                straight,
                "{gates:?} {volumes:?}"
            );
        }
        assert!(!is_straight(&spec(&["rw"], &[(&[0], &[&[]])], 1e6)));
    }

    #[test]
    fn the_first_to_end_leaves_first_wherever_it_was_kept() {
        let mut under_way = UnderWay::default();
        for ns in [5, 9, 7, 20, 6] {
            under_way.enter(ns);
        }
        under_way.leave_until(5);
        assert_eq!(under_way.len(), 4);
        let left: Vec<i64> = (0..4).map(|_| under_way.leave_first()).collect();
        assert_eq!(left, [6, 7, 9, 20]);
    }

    /// Disks whose reads take a time that rounds to nothing are played by events, and have to come to the same.
    #[test]
    fn the_short_way_comes_to_what_events_come_to() {
        let rows = 20_000_u64;
        let random = |row: u64, salt: u64| {
            (row + 1)
                .wrapping_mul(0x9E37_79B9_7F4A_7C15)
                .rotate_left(salt as u32)
                .wrapping_mul(0xD1B5_4A32_D192_ED03)
                >> 33
        };
        let mut due: Vec<i64> = (0..rows)
            .map(|row| (random(row, 1) % 30_000_000_000) as i64)
            .collect();
        due.sort_unstable();
        let offset: Vec<u64> = (0..rows)
            .map(|row| random(row, 2) % (1 << 22) * 512)
            .collect();
        let size: Vec<u32> = (0..rows)
            .map(|row| (random(row, 3) % 400 * 512) as u32)
            .collect();
        let op: Vec<u8> = (0..rows).map(|row| (random(row, 4) % 2) as u8).collect();
        let volume: Vec<u16> = (0..rows).map(|row| (random(row, 5) % 2) as u16).collect();
        let gates = ["rw", "rw", "r", "rw", "rw", "w"];
        let volumes: [(&[usize], &[&[usize]]); 2] =
            [(&[0], &[&[1], &[3], &[4]]), (&[0], &[&[2, 5]])];
        let played: Vec<_> = [0.0, 1e-9]
            .into_iter()
            .map(|read_ns| {
                let spec = spec(&gates, &volumes, read_ns);
                assert_eq!(is_straight(&spec), read_ns == 0.0);
                let mut simulator = Simulator::new(&spec, 64, 0, 1, true).unwrap();
                simulator
                    .offer(&Arrivals {
                        intended_ns: &due,
                        offset_bytes: &offset,
                        size_bytes: &size,
                        op: &op,
                        volume: &volume,
                        class: None,
                        durable: None,
                        after: None,
                    })
                    .unwrap();
                simulator.end();
                let outcome = simulator.take().unwrap();
                let held: Vec<_> = simulator
                    .gates
                    .iter()
                    .map(|gate| (gate.held.ios, gate.held.wait_ns, gate.held.throttled_ns))
                    .collect();
                assert!(
                    held.iter().all(|one| one.0 > 0) && simulator.summary.delayed > 1000,
                    "{held:?}"
                );
                (outcome.issued_ns, outcome.completed_ns, held)
            })
            .collect();
        assert!(played[0] == played[1]);
    }
}
