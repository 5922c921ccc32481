//! Looking up what a reused number meant at a moment, from facts that hold forwards or backwards in time.

use super::facts::Valid;
use crate::hashing::NumberMap;

/// What something meant, and from when until when (both included) it means just that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Meaning<T> {
    pub value: T,
    pub from: i64,
    pub until: i64,
}

/// What a key means, in order of time, each with the moment from which on it does; the first is the first there is.
type Answers = Box<[(i64, Option<u32>)]>;

/// Facts of one key, by their moments.
#[derive(Default)]
struct Facts {
    from: Vec<(i64, u32)>,
    until: Vec<(i64, u32)>,
}

impl Facts {
    /// Rule: the latest fact that holds from a moment at or before the one asked for, unless it is known to have ended
    /// and something later says what came next; else the earliest that holds until a moment at or after it. The rundown
    /// that names most things stands at the end of a trace, so looking only forwards finds next to nothing.
    fn at(&self, ticks: i64) -> Option<u32> {
        let Self { from, until } = self;
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

    fn answers(mut self) -> Answers {
        self.from.sort_by_key(|entry| entry.0);
        self.until.sort_by_key(|entry| entry.0);
        let changes = self.from.iter().map(|entry| entry.0);
        let ends = self.until.iter().map(|entry| entry.0.saturating_add(1));
        let mut moments: Vec<i64> = [i64::MIN].into_iter().chain(changes).chain(ends).collect();
        moments.sort_unstable();
        let mut answers: Vec<_> = moments
            .into_iter()
            .map(|moment| (moment, self.at(moment)))
            .collect();
        answers.dedup_by_key(|answer| answer.1);
        answers.into()
    }
}

/// Facts about keys, in whatever order.
#[derive(Default)]
pub struct Gathered {
    keys: NumberMap<u64, Facts>,
}

impl Gathered {
    /// Facts may come in any order; of two at one moment the later given wins.
    pub fn insert(&mut self, key: u64, ticks: i64, valid: Valid, value: u32) {
        let facts = self.keys.entry(key).or_default();
        match valid {
            Valid::From => facts.from.push((ticks, value)),
            Valid::Until => facts.until.push((ticks, value)),
        }
    }

    /// What follows from all facts.
    pub fn timeline(self) -> Timeline {
        let answers = |(key, facts): (u64, Facts)| (key, facts.answers());
        Timeline {
            keys: self.keys.into_iter().map(answers).collect(),
        }
    }
}

/// For each key, what it meant when.
#[derive(Default)]
pub struct Timeline {
    keys: NumberMap<u64, Answers>,
}

impl Timeline {
    /// Everything `key` ever meant.
    pub fn ever(&self, key: u64) -> impl Iterator<Item = u32> {
        let answers = self.keys.get(&key);
        answers
            .into_iter()
            .flat_map(|answers| answers.iter().filter_map(|answer| answer.1))
    }

    /// What `key` meant at `ticks`.
    pub fn at(&self, key: u64, ticks: i64) -> Option<u32> {
        self.around(key, ticks).value
    }

    /// What `key` meant around `ticks`.
    pub fn around(&self, key: u64, ticks: i64) -> Meaning<Option<u32>> {
        let answers = self.keys.get(&key).map_or(&[][..], |answers| answers);
        let next = answers.partition_point(|answer| answer.0 <= ticks);
        let (from, value) = next
            .checked_sub(1)
            .map_or((i64::MIN, None), |index| answers[index]);
        Meaning {
            value,
            from,
            until: answers
                .get(next)
                .map_or(i64::MAX, |answer| answer.0.saturating_sub(1)),
        }
    }
}

/// A power of two: what is asked again within as many others is mostly still there.
const RECENT: usize = 256;

/// Answers that were given lately. Most I/O goes where others just went, and comes from the same threads.
pub struct Recent<T>(Box<[(u64, Meaning<T>)]>);

impl<T: Copy + Default> Default for Recent<T> {
    fn default() -> Self {
        let never = Meaning {
            value: T::default(),
            from: i64::MAX,
            until: i64::MIN,
        };
        Self(vec![(0, never); RECENT].into())
    }
}

impl<T: Copy> Recent<T> {
    fn place(key: u64) -> usize {
        (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as usize % RECENT
    }

    /// What `key` means at `ticks`, if that was kept.
    #[inline]
    pub fn get(&self, key: u64, ticks: i64) -> Option<T> {
        let (known, meaning) = &self.0[Self::place(key)];
        (*known == key && meaning.from <= ticks && ticks <= meaning.until).then_some(meaning.value)
    }

    /// Keep what `key` means.
    pub fn keep(&mut self, key: u64, meaning: Meaning<T>) {
        self.0[Self::place(key)] = (key, meaning);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timeline(facts: &[(i64, Valid, u32)]) -> Timeline {
        let mut gathered = Gathered::default();
        for (ticks, valid, value) in facts {
            gathered.insert(7, *ticks, *valid, *value);
        }
        gathered.timeline()
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

    #[test]
    fn around_each_moment_the_answer_stays_the_same_just_as_long() {
        let facts: Vec<_> = [
            (3, Valid::From, 1),
            (5, Valid::Until, 1),
            (9, Valid::From, 2),
        ]
        .into_iter()
        .chain([(9, Valid::Until, 3), (i64::MAX, Valid::Until, 4)])
        .collect();
        let timeline = timeline(&facts);
        for ticks in -1..=12 {
            let Meaning { value, from, until } = timeline.around(7, ticks);
            assert!(from <= ticks && ticks <= until);
            for near in from.max(-1)..=until.min(12) {
                assert_eq!(timeline.at(7, near), value, "at {near}");
            }
            assert!(from == i64::MIN || timeline.at(7, from - 1) != value);
            assert!(until == i64::MAX || timeline.at(7, until + 1) != value);
        }
    }

    #[test]
    fn what_was_kept_holds_for_its_key_and_time_only() {
        let mut recent = Recent::default();
        assert_eq!(recent.get(0, 0), None);
        let meaning = Meaning {
            value: 5,
            from: 10,
            until: 20,
        };
        recent.keep(0, meaning);
        assert_eq!(
            [9, 10, 20, 21].map(|ticks| recent.get(0, ticks)),
            [None, Some(5), Some(5), None]
        );
        assert_eq!(recent.get(1, 15), None);
    }
}
