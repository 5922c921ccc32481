//! Processes as they lived: a number used twice makes two.

use super::facts::{Process, Valid};
use super::timeline::Meaning;
use crate::hashing::NumberMap;

/// One process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Life {
    pub number: u32,
    key: u64,
    pub name: Option<String>,
    pub parent: Option<u32>,
    /// Raw timestamp of its start, if it started during the trace.
    pub started: Option<i64>,
    /// Raw timestamp of its end, if it ended during the trace.
    pub ended: Option<i64>,
    /// From when on its number means it.
    from: i64,
}

/// All processes; positions in `lives` are the recording's process ids.
#[derive(Default)]
pub struct Processes {
    pub lives: Vec<Life>,
    /// Positions by number, in order of time.
    by_number: NumberMap<u32, Vec<u32>>,
}

impl Processes {
    /// Sort out which events speak of the same process.
    pub fn from_events(mut events: Vec<Process>) -> Self {
        events.sort_by_key(|event| event.ticks);
        let mut processes = Self::default();
        for event in events {
            let known = processes
                .by_number
                .get(&event.number)
                .and_then(|all| all.last())
                .copied();
            match known.map(|index| &mut processes.lives[index as usize]) {
                Some(life) if life.is_spoken_of_by(&event) => life.learn(event),
                previous => {
                    let from = match (previous, event.valid, event.real) {
                        (_, Valid::From, true) => event.ticks,
                        // It was there before anything told: since its predecessor ended, or forever.
                        (Some(life), ..) => life.ended.unwrap_or(event.ticks),
                        (None, ..) => i64::MIN,
                    };
                    processes.add(event.number, from).learn(event);
                }
            }
        }
        processes
    }

    fn add(&mut self, number: u32, from: i64) -> &mut Life {
        let index = self.lives.len();
        self.by_number.entry(number).or_default().push(index as u32);
        let life = Life {
            number,
            key: 0,
            name: None,
            parent: None,
            started: None,
            ended: None,
            from,
        };
        self.lives.push(life);
        &mut self.lives[index]
    }

    /// Position of the process that had `number` around `ticks`; one that no event told of is added without a name.
    pub fn around(&mut self, number: u32, ticks: i64) -> Meaning<u32> {
        if let Some(all) = self.by_number.get(&number) {
            let began = |index: &u32| self.lives[*index as usize].from;
            // Before the first of them there was nobody else.
            let next = all.partition_point(|index| began(index) <= ticks).max(1);
            return Meaning {
                value: all[next - 1],
                from: if next == 1 {
                    i64::MIN
                } else {
                    began(&all[next - 1])
                },
                until: all
                    .get(next)
                    .map_or(i64::MAX, |index| began(index).saturating_sub(1)),
            };
        }
        self.add(number, i64::MIN);
        Meaning {
            value: self.lives.len() as u32 - 1,
            from: i64::MIN,
            until: i64::MAX,
        }
    }
}

impl Life {
    fn is_spoken_of_by(&self, event: &Process) -> bool {
        if event.valid == Valid::From && event.real {
            return self.started == Some(event.ticks);
        }
        self.key == event.key
            && (self.ended.is_none() || event.valid == Valid::Until && !event.real)
    }

    fn learn(&mut self, event: Process) {
        self.key = event.key;
        self.parent = Some(event.parent);
        if !event.name.is_empty() {
            self.name = Some(event.name);
        }
        match (event.valid, event.real) {
            (Valid::From, true) => self.started = Some(event.ticks),
            (Valid::Until, true) => self.ended = Some(event.ticks),
            _ => (),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(ticks: i64, key: u64, valid: Valid, real: bool, name: &str) -> Process {
        let name = name.to_owned();
        Process {
            ticks,
            key,
            number: 8,
            parent: 4,
            valid,
            real,
            name,
        }
    }

    fn meaning(value: u32, from: i64, until: i64) -> Meaning<u32> {
        Meaning { value, from, until }
    }

    #[test]
    fn a_reused_number_makes_two() {
        let mut processes = Processes::from_events(vec![
            event(50, 2, Valid::From, true, "new.exe"),
            event(10, 1, Valid::From, false, "old.exe"),
            event(30, 1, Valid::Until, true, "old.exe"),
            event(90, 2, Valid::Until, false, "new.exe"),
        ]);
        let names: Vec<_> = processes
            .lives
            .iter()
            .map(|life| life.name.as_deref())
            .collect();
        assert_eq!(names, [Some("old.exe"), Some("new.exe")]);
        assert_eq!(
            (processes.lives[0].started, processes.lives[0].ended),
            (None, Some(30))
        );
        assert_eq!(
            (processes.lives[1].started, processes.lives[1].ended),
            (Some(50), None)
        );
        assert_eq!(
            [0, 40, 50, 99].map(|ticks| processes.around(8, ticks)),
            [
                meaning(0, i64::MIN, 49),
                meaning(0, i64::MIN, 49),
                meaning(1, 50, i64::MAX),
                meaning(1, 50, i64::MAX)
            ]
        );
    }

    #[test]
    fn a_number_nobody_told_of_gets_a_row_without_a_name() {
        let mut processes = Processes::default();
        let always = meaning(0, i64::MIN, i64::MAX);
        assert_eq!([1, 2].map(|at| processes.around(5, at)), [always; 2]);
        assert_eq!(processes.lives[0].name, None);
    }
}
