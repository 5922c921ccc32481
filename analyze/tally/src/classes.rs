//! Latencies by class of I/Os (operation, role, size), and their course over slots of time: what is compared with its like.
//!
//! Rows may come in any order, so threads may share the row groups of a recording, each with a `Classes` of its own.

use std::collections::HashMap;

use crate::latency::Latencies;
use crate::rows::{Column, NEVER_NS};

/// Size classes: powers of two from 4 KiB to 1 MiB, and what is larger.
pub const SIZE_CLASSES: usize = 10;
/// Limits whose I/Os are counted: those of a class, then those of its operation.
pub const LIMITS: usize = 6;
/// Doublings of latency: the last one is that of a latency of all 63 bits.
pub const DOUBLINGS: usize = 64;
/// Roles and operations there may be.
pub const WORDS_MAX: usize = 64;

const FILES_LISTED: usize = 1 << 16;

/// Columns of `io`, as in `rows`.
pub struct ClassColumns<'a> {
    /// Position in the vocabulary.
    pub op: Column<'a, u8>,
    /// Start.
    pub issued_ns: Column<'a, i64>,
    /// End, or `NEVER_NS`.
    pub completed_ns: Column<'a, i64>,
    /// When it was due, or `NEVER_NS`.
    pub intended_ns: Option<Column<'a, i64>>,
    /// Bytes asked for.
    pub size_bytes: Column<'a, u32>,
    /// Id or `NOBODY`.
    pub file_id: Column<'a, i32>,
    /// Position in the vocabulary; may be missing where all are of the layer that is chosen.
    pub layer: Option<Column<'a, u8>>,
    /// 0 for success, as where it is missing.
    pub error: Option<Column<'a, i32>>,
}

/// Which I/Os count, and from when on they took time.
#[derive(Clone, Copy, Debug)]
pub struct Chosen {
    /// Position in the vocabulary.
    pub layer: u8,
    /// First start.
    pub from_ns: i64,
    /// End of the starts, not included.
    pub until_ns: i64,
    /// Whether time runs from when an I/O was due.
    pub is_response: bool,
}

/// Slots of time that a course is counted in. What lies outside of them counts in the nearest.
#[derive(Clone, Copy, Debug)]
pub struct SlotsOfTime {
    /// Start of the first.
    pub from_ns: i64,
    /// Length of each.
    pub length_ns: i64,
    /// How many.
    pub count: usize,
}

/// A class in a slot.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cell {
    /// I/Os.
    pub io_count: i64,
    /// Sum of their latencies; as much as fits.
    pub latency_sum_ns: i64,
    /// I/Os that did not exceed each limit.
    pub below: [i64; LIMITS],
}

struct Course {
    limits_ns: [i64; LIMITS],
    cells: Vec<Cell>,
}

/// Counts I/Os by class.
pub struct Classes {
    chosen: Chosen,
    role_count: usize,
    listed: Vec<u8>,
    others: HashMap<i32, u8>,
    histograms: Vec<Latencies>,
    slots: Option<SlotsOfTime>,
    courses: Vec<Option<Course>>,
    /// By operation and slot: I/Os by how many bits their latency has, those of the classes whose courses are counted.
    doublings: Vec<[i64; DOUBLINGS]>,
    /// Which slot the last I/O was in, and when it begins: the next is nearly always in the same.
    recent: (i64, i64),
}

/// Latencies of each class, or their course where slots of time are given.
impl Classes {
    /// Nothing counted yet; ``roles`` has the number of each file's role, which is 0 for all others.
    pub fn new(chosen: Chosen, roles: &[(i32, u8)], role_count: usize) -> Self {
        let (mut listed, mut others) = (Vec::new(), HashMap::new());
        for &(file_id, role) in roles {
            match usize::try_from(file_id) {
                Ok(place) if place < FILES_LISTED => {
                    if listed.len() <= place {
                        listed.resize(place + 1, 0);
                    }
                    listed[place] = role;
                }
                _ => drop(others.insert(file_id, role)),
            }
        }
        Self {
            chosen,
            role_count,
            listed,
            others,
            histograms: Vec::new(),
            slots: None,
            courses: Vec::new(),
            doublings: Vec::new(),
            recent: (0, 0),
        }
    }

    /// Counts courses instead of histograms: of the classes whose limits are given.
    pub fn in_slots(mut self, slots: SlotsOfTime, limits_ns: &[(usize, [i64; LIMITS])]) -> Self {
        for &(class, limits_ns) in limits_ns {
            let cells = vec![Cell::default(); slots.count];
            grown(&mut self.courses, class).replace(Course { limits_ns, cells });
        }
        let ops = self.courses.len().div_ceil(self.role_count * SIZE_CLASSES);
        self.doublings = vec![[0; DOUBLINGS]; ops * slots.count];
        self.slots = Some(slots);
        self
    }

    /// Takes in rows; false if columns are of different lengths.
    pub fn add(&mut self, columns: &ClassColumns<'_>) -> bool {
        let count = columns.issued_ns.len();
        let lengths = [
            columns.op.len(),
            columns.completed_ns.len(),
            columns.intended_ns.map_or(count, <[_]>::len),
            columns.size_bytes.len(),
            columns.file_id.len(),
            columns.layer.map_or(count, <[_]>::len),
            columns.error.map_or(count, <[_]>::len),
        ];
        if lengths != [count; 7] {
            return false;
        }
        for place in 0..count {
            let (issued_ns, completed_ns) = (columns.issued_ns[place], columns.completed_ns[place]);
            let due_ns = columns.intended_ns.map_or(NEVER_NS, |due| due[place]);
            let begun_ns = if self.chosen.is_response {
                due_ns
            } else {
                issued_ns
            };
            let counts = columns
                .layer
                .is_none_or(|layer| layer[place] == self.chosen.layer)
                && columns.error.is_none_or(|error| error[place] == 0)
                && completed_ns != NEVER_NS
                && begun_ns != NEVER_NS
                && issued_ns >= self.chosen.from_ns
                && issued_ns < self.chosen.until_ns;
            if !counts {
                continue;
            }
            let class = self.class(
                columns.op[place],
                columns.file_id[place],
                columns.size_bytes[place],
            );
            let latency_ns = completed_ns.saturating_sub(begun_ns).max(0);
            let Some(slots) = self.slots else {
                grown(&mut self.histograms, class).add(latency_ns);
                continue;
            };
            if let Some(Some(course)) = self.courses.get_mut(class) {
                let at_ns = if due_ns == NEVER_NS {
                    issued_ns
                } else {
                    due_ns
                };
                let since_ns = at_ns.saturating_sub(slots.from_ns);
                if !(0..slots.length_ns).contains(&since_ns.wrapping_sub(self.recent.1)) {
                    let number = since_ns / slots.length_ns;
                    self.recent = (number, number.saturating_mul(slots.length_ns));
                }
                let slot = usize::try_from(self.recent.0).unwrap_or(0);
                let slot = slot.min(slots.count - 1);
                let cell = &mut course.cells[slot];
                cell.io_count += 1;
                cell.latency_sum_ns = cell.latency_sum_ns.saturating_add(latency_ns);
                for (below, limit_ns) in cell.below.iter_mut().zip(course.limits_ns) {
                    *below += i64::from(latency_ns <= limit_ns);
                }
                let bits = i64::BITS - latency_ns.leading_zeros();
                let op = usize::from(columns.op[place]);
                self.doublings[op * slots.count + slot][bits as usize] += 1;
            }
        }
        true
    }

    /// Latencies by class, those that have any.
    pub fn histograms(&self) -> impl Iterator<Item = (usize, &Latencies)> {
        let numbered = self.histograms.iter().enumerate();
        numbered.filter(|(_, latencies)| !latencies.is_empty())
    }

    /// Class, slot and what is in it, where anything is.
    pub fn courses(&self) -> impl Iterator<Item = (usize, usize, &Cell)> {
        let numbered = self.courses.iter().enumerate();
        numbered
            .filter_map(|(class, course)| Some((class, course.as_ref()?)))
            .flat_map(|(class, course)| {
                let cells = course.cells.iter().enumerate();
                cells.map(move |(slot, cell)| (class, slot, cell))
            })
            .filter(|(.., cell)| cell.io_count > 0)
    }

    /// Operation, slot, bits of a latency and how many I/Os of those took one of as many bits, where there are any.
    pub fn doublings(&self) -> impl Iterator<Item = (usize, usize, usize, i64)> {
        let slots = self.slots.map_or(1, |slots| slots.count);
        let numbered = self.doublings.iter().enumerate();
        numbered
            .flat_map(move |(place, counts)| {
                let counts = counts.iter().enumerate();
                counts.map(move |(bits, &count)| (place / slots, place % slots, bits, count))
            })
            .filter(|one| one.3 > 0)
    }

    #[inline]
    fn class(&self, op: u8, file_id: i32, size_bytes: u32) -> usize {
        let listed = usize::try_from(file_id)
            .ok()
            .and_then(|place| self.listed.get(place));
        let role = match listed {
            Some(&role) => role,
            None if self.others.is_empty() => 0,
            None => self.others.get(&file_id).copied().unwrap_or(0),
        };
        (usize::from(op) * self.role_count + usize::from(role)) * SIZE_CLASSES
            + size_class(size_bytes)
    }
}

#[inline]
fn size_class(size_bytes: u32) -> usize {
    let bits = u32::BITS - (size_bytes.max(1) - 1).leading_zeros();
    (bits.saturating_sub(12) as usize).min(SIZE_CLASSES - 1)
}

#[inline]
fn grown<T: Default>(places: &mut Vec<T>, place: usize) -> &mut T {
    if places.len() <= place {
        places.resize_with(place + 1, T::default);
    }
    &mut places[place]
}

#[cfg(test)]
mod tests {
    use super::{Chosen, ClassColumns, Classes, LIMITS, SlotsOfTime, size_class};
    use crate::rows::NEVER_NS;

    /// Operation, start, end, when it was due, bytes, file, layer, error.
    type Row = (u8, i64, i64, i64, u32, i32, u8, i32);

    const GOOD: [Row; 6] = [
        (0, 100, 130, 90, 4096, 7, 1, 0),
        (1, 150, 155, 140, 8192, 70_000, 1, 0),
        (1, 199, 299, 198, 8192, -3, 1, 0),
        // It ends before it begins, by the clocks of two processors.
        (0, 160, 150, 155, 512, 9, 1, 0),
        (0, 170, 171, 60, 4096, 3, 1, 0),
        (0, 180, 211, 250, 4096, 7, 1, 0),
    ];
    const LEFT_OUT: [Row; 5] = [
        (0, 150, 160, 150, 4096, 7, 2, 0),
        (0, 150, 160, 150, 4096, 7, 1, 5),
        (0, 150, NEVER_NS, 150, 4096, 7, 1, 0),
        (0, 99, 160, 150, 4096, 7, 1, 0),
        (0, 200, 260, 150, 4096, 7, 1, 0),
    ];

    fn classes(is_response: bool) -> Classes {
        let chosen = Chosen {
            layer: 1,
            from_ns: 100,
            until_ns: 200,
            is_response,
        };
        Classes::new(chosen, &[(7, 2), (70_000, 1), (-3, 2)], 3)
    }

    fn add(classes: &mut Classes, rows: &[Row], is_due: bool) -> bool {
        let due: Vec<i64> = rows.iter().map(|row| row.3).collect();
        classes.add(&ClassColumns {
            op: &rows.iter().map(|row| row.0).collect::<Vec<_>>(),
            issued_ns: &rows.iter().map(|row| row.1).collect::<Vec<_>>(),
            completed_ns: &rows.iter().map(|row| row.2).collect::<Vec<_>>(),
            intended_ns: is_due.then_some(&due[..]),
            size_bytes: &rows.iter().map(|row| row.4).collect::<Vec<_>>(),
            file_id: &rows.iter().map(|row| row.5).collect::<Vec<_>>(),
            layer: Some(&rows.iter().map(|row| row.6).collect::<Vec<_>>()),
            error: Some(&rows.iter().map(|row| row.7).collect::<Vec<_>>()),
        })
    }

    fn found(classes: &Classes) -> Vec<(usize, Vec<(i64, u64)>)> {
        let histograms = classes.histograms();
        histograms
            .map(|(class, one)| (class, one.buckets()))
            .collect()
    }

    #[test]
    fn each_io_counts_in_the_class_of_its_operation_role_and_size() {
        let mut classes = classes(false);
        assert!(add(&mut classes, &GOOD, false));
        assert!(add(&mut classes, &LEFT_OUT, false));
        // Ten sizes of each of three roles of each operation.
        assert_eq!(
            found(&classes),
            [
                (0, vec![(0, 1), (1, 1)]),
                (20, vec![(30, 1), (31, 1)]),
                (41, vec![(5, 1)]),
                (51, vec![(100, 1)]),
            ]
        );
    }

    #[test]
    fn a_response_begins_when_an_io_was_due_and_what_never_was_has_none() {
        let mut classes = classes(true);
        let never = (0, 150, 160, NEVER_NS, 4096, 7, 1, 0);
        assert!(add(&mut classes, &[&GOOD[..3], &[never]].concat(), true));
        assert_eq!(
            found(&classes),
            [
                (20, vec![(40, 1)]),
                (41, vec![(15, 1)]),
                (51, vec![(101, 1)])
            ]
        );
    }

    #[test]
    fn a_course_counts_the_classes_that_are_asked_for_in_the_nearest_slot() {
        let slots = SlotsOfTime {
            from_ns: 100,
            length_ns: 25,
            count: 4,
        };
        let limits = [30, 31, 29, 0, 1, i64::MAX];
        let mut classes = classes(false).in_slots(slots, &[(20, limits), (0, limits)]);
        assert!(add(&mut classes, &GOOD, true));
        assert!(add(&mut classes, &LEFT_OUT, true));
        let mut found: Vec<_> = classes
            .courses()
            .map(|(class, slot, cell)| {
                (class, slot, cell.io_count, cell.latency_sum_ns, cell.below)
            })
            .collect();
        found.sort_unstable();
        assert_eq!(
            found,
            [
                (0, 0, 1, 1, [1, 1, 1, 0, 1, 1]),
                (0, 2, 1, 0, [1; LIMITS]),
                (20, 0, 1, 30, [1, 1, 0, 0, 0, 1]),
                (20, 3, 1, 31, [0, 1, 0, 0, 0, 1]),
            ]
        );
        // 1, 0, 30 and 31 ns have 1, 0, 5 and 5 bits.
        let found: Vec<_> = classes.doublings().collect();
        assert_eq!(
            found,
            [(0, 0, 1, 1), (0, 0, 5, 1), (0, 2, 0, 1), (0, 3, 5, 1)]
        );
        assert_eq!(self::classes(false).doublings().count(), 0);
        // Without a time at which they were due, their starts tell.
        let mut classes = self::classes(false).in_slots(slots, &[(20, limits)]);
        assert!(add(&mut classes, &GOOD, false));
        let found: Vec<_> = classes.courses().map(|(_, slot, _)| slot).collect();
        assert_eq!(found, [0, 3]);
        // The second operation's are apart from the first's.
        let mut classes = self::classes(false).in_slots(slots, &[(51, limits)]);
        assert!(add(&mut classes, &GOOD, false));
        assert_eq!(classes.doublings().collect::<Vec<_>>(), [(1, 3, 7, 1)]);
    }

    #[test]
    fn columns_of_other_lengths_are_refused() {
        let mut classes = classes(false);
        let columns = ClassColumns {
            op: &[0],
            issued_ns: &[150],
            completed_ns: &[160],
            intended_ns: Some(&[]),
            size_bytes: &[1],
            file_id: &[0],
            layer: Some(&[1]),
            error: Some(&[0]),
        };
        assert!(!classes.add(&columns));
        assert!(found(&classes).is_empty());
    }

    #[test]
    fn size_classes_are_powers_of_two_from_4_kib_to_1_mib() {
        let sizes = [0, 1, 4096, 4097, 8192, 1 << 20, (1 << 20) + 1, u32::MAX];
        assert_eq!(sizes.map(size_class), [0, 0, 0, 1, 1, 8, 9, 9]);
    }
}
