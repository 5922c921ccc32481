//! Which of several runs is next: a tournament whose winner is known after as many comparisons as it has rounds.

/// When a run's next event is: its raw timestamp, then the run's rank, in one number. Its low 32 bits are free.
pub type Moment = u128;

/// Later than any event.
pub const NEVER: Moment = Moment::MAX;

/// See `Moment`.
#[inline]
pub fn moment(ticks: i64, rank: u32) -> Moment {
    let ticks = ticks.cast_unsigned() ^ 1 << 63;
    u128::from(ticks) << 64 | u128::from(rank) << 32
}

/// Runs in their places, and the earliest of them.
pub struct Tournament {
    /// The two below `nodes[n]` are `nodes[2 * n]` and the next; the second half are the places. Low bits tell the place.
    nodes: Vec<Moment>,
    vacant: Vec<usize>,
}

impl Tournament {
    pub fn new() -> Self {
        Self {
            nodes: vec![NEVER; 2],
            vacant: vec![0],
        }
    }

    /// The earliest run's moment and its place, which is not a known key if that is never.
    #[inline]
    pub fn first(&self) -> (Moment, usize) {
        (self.nodes[1], self.nodes[1] as u32 as usize)
    }

    /// A place for a run.
    pub fn enter(&mut self, moment: Moment) -> usize {
        let place = match self.vacant.pop() {
            Some(place) => place,
            None => self.double(),
        };
        self.set(place, moment);
        place
    }

    /// The run in `place` has its next event at `moment`.
    #[inline]
    pub fn set(&mut self, place: usize, moment: Moment) {
        let mut node = self.nodes.len() / 2 + place;
        let mut winner = moment | place as u128;
        while node > 1 {
            self.nodes[node] = winner;
            winner = winner.min(self.nodes[node ^ 1]);
            node /= 2;
        }
        self.nodes[1] = winner;
    }

    /// The run in `place` is at its end.
    pub fn leave(&mut self, place: usize) {
        self.set(place, NEVER);
        self.vacant.push(place);
    }

    /// Make twice as many places; returns a vacant one.
    fn double(&mut self) -> usize {
        let places = self.nodes.len() / 2;
        let before = self.nodes.split_off(places);
        self.nodes = vec![NEVER; 4 * places];
        self.vacant.extend((places..2 * places).rev());
        for (place, moment) in before.into_iter().enumerate() {
            self.set(place, moment);
        }
        self.vacant.pop().unwrap_or(places)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_in_order_of_time_and_then_of_rank() {
        let mut moments = vec![
            moment(5, 0),
            moment(-5, 9),
            moment(5, 1),
            moment(i64::MIN, u32::MAX),
            moment(i64::MAX, u32::MAX),
        ];
        moments.sort_unstable();
        let expected = [
            moment(i64::MIN, u32::MAX),
            moment(-5, 9),
            moment(5, 0),
            moment(5, 1),
            moment(i64::MAX, u32::MAX),
        ];
        assert_eq!(moments, expected);
        assert!(expected.iter().all(|moment| *moment < NEVER));
    }

    #[test]
    fn runs_come_out_merged_however_many_there_are() {
        for count in [1, 2, 3, 7, 8, 9] {
            let mut tournament = Tournament::new();
            let run =
                |number: u32| (0..20).map(move |at| moment(at * i64::from(number % 4 + 1), number));
            let mut runs: Vec<_> = (0..count).map(run).collect();
            let mut at_place = vec![usize::MAX; 32];
            for (number, run) in runs.iter_mut().enumerate() {
                let place = tournament.enter(run.next().expect("an event"));
                at_place[place] = number;
            }
            let mut merged = Vec::new();
            while tournament.first().0 < NEVER {
                let (first, place) = tournament.first();
                merged.push(first >> 32 << 32);
                match runs[at_place[place]].next() {
                    Some(next) => tournament.set(place, next),
                    None => tournament.leave(place),
                }
            }
            let mut expected: Vec<_> = (0..count).flat_map(run).collect();
            expected.sort_unstable();
            assert_eq!(merged, expected, "{count} runs");
        }
    }
}
