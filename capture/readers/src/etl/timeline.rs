//! Looking up what a reused number meant at a moment, from facts that hold forwards or backwards in time.

use super::facts::Valid;
use crate::hashing::NumberMap;

#[derive(Default)]
struct Entries {
    from: Vec<(i64, u32)>,
    until: Vec<(i64, u32)>,
}

/// For each key, what it meant when.
///
/// Rule: the latest fact that holds from a moment at or before the one asked for, unless it is known to have ended and
/// something later says what came next; else the earliest that holds until a moment at or after it. The rundown that
/// names most things stands at the end of a trace, so looking only forwards finds next to nothing.
#[derive(Default)]
pub struct Timeline {
    keys: NumberMap<u64, Entries>,
}

impl Timeline {
    /// Facts may come in any order; of two at one moment the later given wins.
    pub fn insert(&mut self, key: u64, ticks: i64, valid: Valid, value: u32) {
        let entries = self.keys.entry(key).or_default();
        match valid {
            Valid::From => entries.from.push((ticks, value)),
            Valid::Until => entries.until.push((ticks, value)),
        }
    }

    /// To be called between the last `insert` and the first `at`.
    pub fn sort(&mut self) {
        for entries in self.keys.values_mut() {
            entries.from.sort_by_key(|entry| entry.0);
            entries.until.sort_by_key(|entry| entry.0);
        }
    }

    /// Everything `key` ever meant.
    pub fn ever(&self, key: u64) -> impl Iterator<Item = u32> {
        let entries = self.keys.get(&key);
        entries
            .into_iter()
            .flat_map(|entries| entries.from.iter().chain(&entries.until))
            .map(|entry| entry.1)
    }

    /// What `key` meant at `ticks`.
    pub fn at(&self, key: u64, ticks: i64) -> Option<u32> {
        let Entries { from, until } = self.keys.get(&key)?;
        let next_end = until.partition_point(|entry| entry.0 < ticks);
        let backward = until.get(next_end).map(|entry| entry.1);
        let Some(&(since, value)) = from
            .partition_point(|entry| entry.0 <= ticks)
            .checked_sub(1)
            .map(|index| &from[index])
        else {
            return backward;
        };
        let ended = until.partition_point(|entry| entry.0 <= since) < next_end;
        if ended {
            backward.or(Some(value))
        } else {
            Some(value)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timeline(facts: &[(i64, Valid, u32)]) -> Timeline {
        let mut timeline = Timeline::default();
        for (ticks, valid, value) in facts {
            timeline.insert(7, *ticks, *valid, *value);
        }
        timeline.sort();
        timeline
    }

    #[test]
    fn a_rundown_at_the_end_names_what_came_before() {
        let timeline = timeline(&[(100, Valid::Until, 1)]);
        assert_eq!(timeline.at(7, 5), Some(1));
        assert_eq!(timeline.at(7, 100), Some(1));
        assert_eq!(timeline.at(7, 101), None);
        assert_eq!(timeline.at(8, 5), None);
    }

    #[test]
    fn a_reused_key_means_what_it_meant_then() {
        let timeline = timeline(&[
            (50, Valid::From, 2),
            (20, Valid::Until, 1),
            (80, Valid::Until, 2),
            (90, Valid::From, 3),
        ]);
        let meanings = [10, 20, 30, 50, 80, 85, 90].map(|ticks| timeline.at(7, ticks));
        assert_eq!(
            meanings,
            [
                Some(1),
                Some(1),
                Some(2),
                Some(2),
                Some(2),
                Some(2),
                Some(3)
            ]
        );
    }

    #[test]
    fn what_ended_gives_way_to_what_a_later_rundown_says() {
        let timeline = timeline(&[
            (10, Valid::From, 1),
            (20, Valid::Until, 1),
            (100, Valid::Until, 2),
        ]);
        assert_eq!(
            [15, 20, 21].map(|ticks| timeline.at(7, ticks)),
            [Some(1), Some(1), Some(2)]
        );
    }
}
