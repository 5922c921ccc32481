//! Which start event belongs to which completion.

use super::clock::Clock;
use super::decode::is_known;
use super::facts::{DiskInit, DiskIo, Facts};

use crate::hashing::NumberMap;

const IMPLAUSIBLE_HOURS: i64 = 24;

/// What is left over, and what was set right.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Pairing {
    /// Whether the trace has start events at all: without them nothing can be missing.
    pub has_inits: bool,
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

/// Pair starts and completions by Irp in order of time, the latest start winning (addresses are reused within
/// microseconds). A completion without a thread gets its start's; an implausible response time is replaced by the
/// time since the start, or dropped.
///
/// Implausible is: negative, longer than a day, or beginning before the counter did. Leaves `inits` empty and `ios` of each
/// worker in any order.
pub fn pair(facts: &mut [Facts], clock: &Clock) -> Pairing {
    let mut inits: Vec<DiskInit> =
        Vec::with_capacity(facts.iter().map(|facts| facts.inits.len()).sum());
    for facts in facts.iter_mut() {
        inits.append(&mut std::mem::take(&mut facts.inits));
    }
    if inits.is_empty() {
        let mut pairing = Pairing::default();
        for io in facts.iter_mut().flat_map(|facts| &mut facts.ios) {
            settle(io, None, clock, &mut pairing);
        }
        return pairing;
    }
    for facts in facts.iter_mut() {
        facts.ios.sort_by_key(completion_order);
    }
    inits.sort_by_key(|init| (init.ticks, init.irp));
    let mut pairing = Pairing {
        has_inits: !inits.is_empty(),
        ..Pairing::default()
    };
    let mut open: NumberMap<u64, DiskInit> = NumberMap::default();
    let mut inits = inits.into_iter().peekable();
    let mut heads = vec![0; facts.len()];
    while let Some(worker) = earliest(facts, &heads, completion_order) {
        let io = &mut facts[worker].ios[heads[worker]];
        heads[worker] += 1;
        let mut take_until = |ticks: i64, open: &mut NumberMap<u64, DiskInit>| {
            while let Some(init) = inits.next_if(|init| init.ticks < ticks) {
                pairing.unpaired_inits += u64::from(open.insert(init.irp, init).is_some());
            }
        };
        take_until(io.completed, &mut open);
        // At one and the same tick the completion comes first if its start is known, else after the starts.
        let init = open.remove(&io.irp).or_else(|| {
            take_until(io.completed.saturating_add(1), &mut open);
            open.remove(&io.irp)
        });
        // A start of another kind lost its completion, and this completion its start.
        pairing.unpaired_inits += u64::from(init.is_some_and(|init| init.op != io.op));
        let init = init.filter(|init| init.op == io.op);
        if init.is_some() {
            pairing.paired += 1;
        } else {
            pairing.unpaired_completions += 1;
        }
        settle(io, init, clock, &mut pairing);
    }
    for init in inits {
        pairing.unpaired_inits += u64::from(open.insert(init.irp, init).is_some());
    }
    pairing.unpaired_inits += open.len() as u64;
    pairing
}

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

fn completion_order(io: &DiskIo) -> (i64, u32, i64, u64) {
    (io.completed, io.disk, io.offset, io.irp)
}

/// The worker whose next I/O comes first.
pub fn earliest<K: Ord>(
    facts: &[Facts],
    heads: &[usize],
    order: impl Fn(&DiskIo) -> K,
) -> Option<usize> {
    let next = |worker: usize| facts[worker].ios.get(heads[worker]).map(&order);
    (0..facts.len())
        .filter_map(|worker| next(worker).map(|key| (key, worker)))
        .min()
        .map(|(_, worker)| worker)
}

#[cfg(test)]
mod tests {
    use super::super::clock::ClockKind;
    use super::super::events::UNKNOWN;
    use super::super::facts::Op;
    use super::*;

    const CLOCK: Clock = Clock {
        kind: ClockKind::Counter,
        start_ticks: 0,
        start_filetime: 132_404_692_206_236_160,
        counter_hz: 10_000_000,
        cpu_mhz: 1_000,
    };

    fn io(completed: i64, irp: u64, response: i64) -> DiskIo {
        DiskIo {
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
        }
    }

    fn facts(ios: &[DiskIo], inits: &[(i64, u64, u32)]) -> Facts {
        let inits = inits.iter().map(|(ticks, irp, thread)| DiskInit {
            ticks: *ticks,
            irp: *irp,
            thread: *thread,
            op: Op::Read,
        });
        Facts {
            ios: ios.to_vec(),
            inits: inits.collect(),
            ..Facts::default()
        }
    }

    #[test]
    fn a_reused_irp_pairs_with_its_latest_start_across_workers() {
        let mut all = [
            facts(&[io(40, 1, 5)], &[(30, 1, 12)]),
            facts(&[io(20, 1, 5)], &[(10, 1, 11)]),
        ];
        let pairing = pair(&mut all, &CLOCK);
        assert_eq!(
            (
                pairing.paired,
                pairing.unpaired_inits,
                pairing.unpaired_completions
            ),
            (2, 0, 0)
        );
        assert_eq!((all[0].ios[0].thread, all[1].ios[0].thread), (12, 11));
    }

    #[test]
    fn both_ends_of_a_trace_may_miss_a_half() {
        let mut all = [facts(
            &[io(5, 1, 3), io(20, 2, 3)],
            &[(18, 2, 1), (30, 3, 1), (31, 3, 1)],
        )];
        let pairing = pair(&mut all, &CLOCK);
        assert_eq!(
            (
                pairing.paired,
                pairing.unpaired_inits,
                pairing.unpaired_completions
            ),
            (1, 2, 1)
        );
    }

    #[test]
    fn at_one_tick_a_completion_precedes_the_next_start_of_its_irp() {
        let mut all = [facts(
            &[io(20, 1, 3), io(30, 1, 3)],
            &[(17, 1, 1), (20, 1, 2)],
        )];
        assert_eq!(pair(&mut all, &CLOCK).paired, 2);
        let mut at_once = [facts(&[io(20, 1, 0)], &[(20, 1, 1)])];
        assert_eq!(pair(&mut at_once, &CLOCK).paired, 1);
    }

    #[test]
    fn without_starts_nothing_is_missing() {
        let pairing = pair(&mut [facts(&[io(5, 1, 3)], &[])], &CLOCK);
        assert_eq!(pairing, Pairing::default());
    }

    #[test]
    fn implausible_responses_come_from_the_start_or_are_dropped() {
        let mut all = [facts(&[io(100, 1, -5), io(200, 2, 201)], &[(60, 1, 9)])];
        let pairing = pair(&mut all, &CLOCK);
        assert_eq!(
            (pairing.responses_replaced, pairing.responses_dropped),
            (1, 1)
        );
        assert_eq!(
            (all[0].ios[0].response, all[0].ios[0].response_dropped),
            (40, false)
        );
        assert_eq!(
            (all[0].ios[1].response, all[0].ios[1].response_dropped),
            (0, true)
        );
    }
}
