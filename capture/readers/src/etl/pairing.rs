//! Which start event belongs to which completion.

use super::clock::Clock;
use super::decode::is_known;
use super::facts::{DiskInit, DiskIo};

use crate::hashing::NumberMap;

const IMPLAUSIBLE_HOURS: i64 = 24;

/// What is left over, and what was set right.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Pairing {
    pub paired: u64,
    /// Starts whose completion is not in the trace: in flight at its end, or lost.
    pub unpaired_inits: u64,
    /// Completions whose start is not in the trace.
    pub unpaired_completions: u64,
    /// Response times that made no sense and had no start event to replace them.
    pub responses_dropped: u64,
    /// Response times that made no sense and were taken from the start event instead.
    pub responses_replaced: u64,
}

/// Pairs starts and completions by Irp as they come in order of time, the latest start winning (addresses are reused
/// within microseconds). A completion without a thread gets its start's; an implausible response time is replaced by the
/// time since the start, or dropped.
///
/// Implausible is: negative, longer than a day, or beginning before the counter did.
pub struct Pairer {
    clock: Clock,
    /// Whether the trace has start events at all: without them nothing can be missing.
    has_inits: bool,
    open: NumberMap<u64, DiskInit>,
    /// Completions whose start may yet come at the same moment, from another processor.
    waiting: Vec<DiskIo>,
    pub pairing: Pairing,
}

impl Pairer {
    pub fn new(clock: Clock, has_inits: bool) -> Self {
        Self {
            clock,
            has_inits,
            open: NumberMap::default(),
            waiting: Vec::new(),
            pairing: Pairing::default(),
        }
    }

    /// An I/O began.
    pub fn begin(&mut self, init: DiskInit) {
        self.pairing.unpaired_inits += u64::from(self.open.insert(init.irp, init).is_some());
    }

    /// An I/O was completed: whether it is settled at once. If not, it is ready when time has moved on.
    #[inline]
    pub fn complete(&mut self, io: &mut DiskIo) -> bool {
        if !self.has_inits {
            settle(io, None, &self.clock, &mut self.pairing);
        } else if let Some(init) = self.open.remove(&io.irp) {
            self.pair(io, Some(init));
        } else {
            self.waiting.push(*io);
            return false;
        }
        true
    }

    /// Time has moved to `ticks`. To be called before what happens then.
    #[inline]
    pub fn advance(&mut self, ticks: i64, ready: &mut Vec<DiskIo>) {
        if self
            .waiting
            .first()
            .is_some_and(|first| first.completed < ticks)
        {
            self.release(ready);
        }
    }

    /// Nothing more comes.
    pub fn finish(&mut self, ready: &mut Vec<DiskIo>) {
        self.release(ready);
        self.pairing.unpaired_inits += self.open.len() as u64;
        self.open.clear();
    }

    fn release(&mut self, ready: &mut Vec<DiskIo>) {
        for mut io in std::mem::take(&mut self.waiting) {
            let init = self.open.remove(&io.irp);
            self.pair(&mut io, init);
            ready.push(io);
        }
    }

    fn pair(&mut self, io: &mut DiskIo, init: Option<DiskInit>) {
        // A start of another kind lost its completion, and this completion its start.
        self.pairing.unpaired_inits += u64::from(init.is_some_and(|init| init.op != io.op));
        let init = init.filter(|init| init.op == io.op);
        if init.is_some() {
            self.pairing.paired += 1;
        } else {
            self.pairing.unpaired_completions += 1;
        }
        settle(io, init, &self.clock, &mut self.pairing);
    }
}

#[inline]
fn settle(io: &mut DiskIo, init: Option<DiskInit>, clock: &Clock, pairing: &mut Pairing) {
    if let (false, Some(init)) = (is_known(io.thread), init) {
        io.thread = init.thread;
    }
    if is_plausible(io.response, io.completed, clock) {
        return;
    }
    let measured = init
        .and_then(|init| io.completed.checked_sub(init.ticks))
        .map(|raw| clock.raw_as_response(raw))
        .filter(|response| is_plausible(*response, io.completed, clock));
    if let Some(response) = measured {
        io.response = response;
        pairing.responses_replaced += 1;
    } else {
        io.response = 0;
        io.response_dropped = true;
        pairing.responses_dropped += 1;
    }
}

fn is_plausible(response: i64, completed: i64, clock: &Clock) -> bool {
    let counts_from_boot = clock.kind == super::clock::ClockKind::Counter;
    response >= 0
        && response <= clock.counter_hz.saturating_mul(IMPLAUSIBLE_HOURS * 3600)
        && !(counts_from_boot && response > completed)
}

#[cfg(test)]
mod tests {
    use super::super::clock::ClockKind;
    use super::super::events::UNKNOWN;
    use super::super::facts::{Op, Origin};
    use super::*;

    const CLOCK: Clock = Clock {
        kind: ClockKind::Counter,
        start_ticks: 0,
        start_filetime: 132_404_692_206_236_160,
        counter_hz: 10_000_000,
        cpu_mhz: 1_000,
    };

    enum Half {
        /// Completion: ticks, Irp, response.
        Io(i64, u64, i64),
        /// Start: ticks, Irp, thread.
        Init(i64, u64, u32),
    }
    use Half::{Init, Io};

    fn pair(has_inits: bool, halves: &[Half]) -> (Pairing, Vec<DiskIo>) {
        let mut pairer = Pairer::new(CLOCK, has_inits);
        let mut ready = Vec::new();
        for half in halves {
            match *half {
                Io(completed, irp, response) => {
                    pairer.advance(completed, &mut ready);
                    let mut io = DiskIo {
                        completed,
                        response,
                        irp,
                        offset: 0,
                        key: 0,
                        size: 512,
                        irp_flags: 0,
                        thread: UNKNOWN,
                        disk: 0,
                        op: Op::Read,
                        response_dropped: false,
                        origin: Origin::Classic,
                    };
                    if pairer.complete(&mut io) {
                        ready.push(io);
                    }
                }
                Init(ticks, irp, thread) => {
                    pairer.advance(ticks, &mut ready);
                    pairer.begin(DiskInit {
                        ticks,
                        irp,
                        thread,
                        op: Op::Read,
                    });
                }
            }
        }
        pairer.finish(&mut ready);
        (pairer.pairing, ready)
    }

    fn counts(pairing: Pairing) -> (u64, u64, u64) {
        (
            pairing.paired,
            pairing.unpaired_inits,
            pairing.unpaired_completions,
        )
    }

    #[test]
    fn a_reused_irp_pairs_with_its_latest_start() {
        let halves = [Init(10, 1, 11), Io(20, 1, 5), Init(30, 1, 12), Io(40, 1, 5)];
        let (pairing, ios) = pair(true, &halves);
        assert_eq!(counts(pairing), (2, 0, 0));
        assert_eq!((ios[0].thread, ios[1].thread), (11, 12));
    }

    #[test]
    fn both_ends_of_a_trace_may_miss_a_half() {
        let halves = [
            Io(5, 1, 3),
            Init(18, 2, 1),
            Io(20, 2, 3),
            Init(30, 3, 1),
            Init(31, 3, 1),
        ];
        assert_eq!(counts(pair(true, &halves).0), (1, 2, 1));
    }

    #[test]
    fn at_one_tick_a_completion_precedes_the_next_start_of_its_irp() {
        let halves = [Init(17, 1, 1), Io(20, 1, 3), Init(20, 1, 2), Io(30, 1, 3)];
        assert_eq!(counts(pair(true, &halves).0), (2, 0, 0));
    }

    #[test]
    fn a_start_may_come_from_another_processor_at_the_tick_of_its_completion() {
        let (pairing, ios) = pair(true, &[Io(20, 1, 0), Init(20, 1, 7), Io(21, 2, 1)]);
        assert_eq!((counts(pairing), ios[0].thread), ((1, 0, 1), 7));
    }

    #[test]
    fn without_starts_nothing_is_missing() {
        assert_eq!(pair(false, &[Io(5, 1, 3)]).0, Pairing::default());
    }

    #[test]
    fn implausible_responses_come_from_the_start_or_are_dropped() {
        let (pairing, ios) = pair(true, &[Init(60, 1, 9), Io(100, 1, -5), Io(200, 2, 201)]);
        assert_eq!(
            (pairing.responses_replaced, pairing.responses_dropped),
            (1, 1)
        );
        assert_eq!((ios[0].response, ios[0].response_dropped), (40, false));
        assert_eq!((ios[1].response, ios[1].response_dropped), (0, true));
    }
}
