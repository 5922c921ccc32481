//! Planted event sequences with known outcomes; the flush sequences are those Linux 6.18 emits for a loop device.

use super::*;

const DEVICE: u32 = 7 << 20;

struct Bench {
    pairing: Pairing,
    rows: Vec<Row>,
    now_ns: u64,
    /// Whether the recorder itself asks.
    own: bool,
}

impl Bench {
    fn new() -> Self {
        Self {
            pairing: Pairing::new(1),
            rows: Vec::new(),
            now_ns: 0,
            own: false,
        }
    }

    /// One event, ten nanoseconds after the one before.
    fn event(&mut self, kind: Kind, rwbs: &str, sector: u64, sectors: u64) -> &mut Self {
        self.failing(kind, rwbs, sector, sectors, 0)
    }

    fn failing(
        &mut self,
        kind: Kind,
        rwbs: &str,
        sector: u64,
        sectors: u64,
        error: i32,
    ) -> &mut Self {
        self.now_ns += 10;
        let (op, flags) = crate::rwbs::from_letters(rwbs.as_bytes(), sectors).unwrap();
        let event = Event {
            time_ns: self.now_ns,
            kind,
            device: DEVICE,
            op,
            flags,
            sector,
            sectors,
            error,
            thread: self.now_ns as i32,
        };
        let own = self.own;
        let asker_of = |event: &Event| {
            Some(Asker {
                thread: event.thread,
                process: Some(event.thread),
                own,
            })
        };
        let rows = &mut self.rows;
        self.pairing
            .on_event(0, &event, asker_of, &mut |_, row| rows.push(row));
        self
    }

    fn give_up(&mut self) {
        let rows = &mut self.rows;
        self.pairing.give_up(&mut |_, row| rows.push(row));
    }

    /// (layer, op, issued, completed, first sector, bytes) of what has ended.
    fn seen(&self) -> Vec<(Layer, Op, u64, u64, Option<u64>, u32)> {
        let row = |row: &Row| {
            Some((
                row.layer,
                row.op,
                row.issued_ns,
                row.completed_ns?,
                row.offset_bytes.map(|at| at / 512),
                row.size_bytes,
            ))
        };
        self.rows.iter().filter_map(row).collect()
    }

    /// (layer, issued, completed), in order.
    fn times(&self) -> Vec<(Layer, u64, Option<u64>)> {
        let times = |row: &Row| (row.layer, row.issued_ns, row.completed_ns);
        let mut all: Vec<_> = self.rows.iter().map(times).collect();
        all.sort_unstable();
        all
    }

    fn flags(&self) -> Vec<u32> {
        self.rows.iter().map(|row| row.flags).collect()
    }
}

use Kind::{BioComplete, BioQueue, Complete, RequestComplete, RequestIssue, RequestRequeue, Split};
use Layer::{Block, Device as DeviceLayer};
use Op::{Flush, Read, Write};

#[test]
fn one_bio_one_request() {
    let mut bench = Bench::new();
    bench
        .event(BioQueue, "RS", 8, 8)
        .event(RequestIssue, "RS", 8, 8)
        .event(RequestComplete, "RS", 8, 8);
    assert_eq!(
        bench.seen(),
        [
            (Block, Read, 10, 30, Some(8), 4096),
            (DeviceLayer, Read, 20, 30, Some(8), 4096)
        ]
    );
    let device = bench.rows[1];
    assert_eq!((device.thread, device.process), (Some(10), Some(10))); // whoever queued the bio
    assert_eq!(bench.pairing.counts, Counts::default());
}

#[test]
fn merged_bios_end_with_their_request() {
    let mut bench = Bench::new();
    bench
        .event(BioQueue, "W", 0, 8)
        .event(BioQueue, "W", 8, 8)
        .event(BioQueue, "W", 16, 8);
    bench
        .event(RequestIssue, "W", 0, 24)
        .event(RequestComplete, "W", 0, 24);
    assert_eq!(
        bench.seen(),
        [
            (Block, Write, 10, 50, Some(0), 4096),
            (Block, Write, 20, 50, Some(8), 4096),
            (Block, Write, 30, 50, Some(16), 4096),
            (DeviceLayer, Write, 40, 50, Some(0), 3 * 4096),
        ]
    );
    assert_eq!(
        bench.flags(),
        [flags::MERGED, flags::MERGED, flags::MERGED, 0]
    );
}

#[test]
fn a_split_bio_ends_with_its_last_part() {
    let mut bench = Bench::new();
    bench
        .event(BioQueue, "W", 100, 30)
        .event(Split, "W", 100, 110)
        .event(Split, "W", 110, 120);
    bench
        .event(RequestIssue, "W", 110, 10)
        .event(RequestIssue, "W", 100, 10)
        .event(RequestIssue, "W", 120, 10);
    bench
        .event(RequestComplete, "W", 120, 10)
        .event(RequestComplete, "W", 100, 10)
        .event(RequestComplete, "W", 110, 10);
    assert_eq!(
        bench.seen(),
        [
            (DeviceLayer, Write, 60, 70, Some(120), 5120),
            (DeviceLayer, Write, 50, 80, Some(100), 5120),
            (Block, Write, 10, 90, Some(100), 15360),
            (DeviceLayer, Write, 40, 90, Some(110), 5120),
        ]
    );
    assert_eq!(bench.flags(), [flags::SPLIT, flags::SPLIT, 0, flags::SPLIT]);
}

#[test]
fn of_two_alike_the_later_ends_first() {
    let mut bench = Bench::new();
    bench.event(BioQueue, "R", 8, 8).event(BioQueue, "R", 8, 8);
    bench
        .event(RequestIssue, "R", 8, 8)
        .event(RequestIssue, "R", 8, 8);
    bench
        .event(RequestComplete, "R", 8, 8)
        .event(RequestComplete, "R", 8, 8);
    assert_eq!(
        bench.times(),
        [
            (Block, 10, Some(50)),
            (Block, 20, Some(60)),
            (DeviceLayer, 30, Some(60)),
            (DeviceLayer, 40, Some(50))
        ]
    );
}

#[test]
fn an_issue_whose_completion_was_lost_hands_its_age_to_none() {
    let mut bench = Bench::new();
    bench
        .event(BioQueue, "W", 8, 8)
        .event(RequestIssue, "W", 8, 8); // its completion was lost
    bench.event(BioQueue, "FWS", 0, 0); // and so was that
    for _ in 0..3 {
        bench
            .event(BioQueue, "W", 8, 8)
            .event(RequestIssue, "W", 8, 8)
            .event(RequestComplete, "W", 8, 8);
        bench
            .event(BioQueue, "FWS", 0, 0)
            .event(RequestIssue, "FF", 0, 0)
            .event(RequestComplete, "FF", u64::MAX, 0)
            .event(RequestComplete, "WS", 0, 0);
    }
    assert_eq!(bench.seen().len(), 12);
    assert!(bench.seen().iter().all(|row| row.3 - row.2 <= 30));
    bench.give_up();
    let unfinished: Vec<_> = bench.times();
    let unfinished = unfinished.iter().filter(|row| row.2.is_none());
    let unfinished: Vec<_> = unfinished.map(|row| (row.0, row.1)).collect();
    assert_eq!(unfinished, [(Block, 10), (Block, 30), (DeviceLayer, 20)]);
}

#[test]
fn overlapping_sizes_are_told_apart() {
    let mut bench = Bench::new();
    bench.event(BioQueue, "R", 0, 64).event(BioQueue, "R", 0, 8);
    bench
        .event(RequestIssue, "R", 0, 8)
        .event(RequestComplete, "R", 0, 8);
    bench
        .event(RequestIssue, "R", 0, 64)
        .event(RequestComplete, "R", 0, 64);
    let blocks: Vec<_> = bench
        .seen()
        .into_iter()
        .filter(|row| row.0 == Block)
        .map(|row| (row.2, row.3, row.5))
        .collect();
    assert_eq!(blocks, [(20, 40, 4096), (10, 60, 32768)]);
    assert!(bench.flags().iter().all(|&bits| bits == 0));
}

#[test]
fn partial_completions_end_bios_as_they_go() {
    let mut bench = Bench::new();
    bench
        .event(BioQueue, "R", 0, 8)
        .event(BioQueue, "R", 8, 8)
        .event(RequestIssue, "R", 0, 16);
    bench
        .event(RequestComplete, "R", 0, 8)
        .event(RequestComplete, "R", 8, 8);
    let ends: Vec<_> = bench
        .seen()
        .into_iter()
        .map(|row| (row.0, row.3, row.5))
        .collect();
    assert_eq!(
        ends,
        [
            (Block, 40, 4096),
            (Block, 50, 4096),
            (DeviceLayer, 50, 8192)
        ]
    );
}

#[test]
fn a_part_of_a_request_is_told_by_where_it_ends_and_not_by_its_place() {
    let mut bench = Bench::new();
    bench
        .event(BioQueue, "R", 1000, 16)
        .event(RequestIssue, "R", 1000, 16)
        .event(RequestComplete, "R", 1000, 8)
        .event(RequestComplete, "R", 1008, 8);
    assert_eq!(
        bench.seen(),
        [
            (Block, Read, 10, 40, Some(1000), 8192),
            (DeviceLayer, Read, 20, 40, Some(1000), 8192)
        ]
    );
    assert_eq!(bench.pairing.counts, Counts::default());
}

#[test]
fn bios_at_one_place_end_with_the_completion_of_their_size() {
    for (first, second) in [(64, 8), (8, 64)] {
        let mut bench = Bench::new();
        bench
            .event(BioQueue, "R", 0, first)
            .event(BioQueue, "R", 0, second)
            .event(BioComplete, "R", 0, 8)
            .event(BioComplete, "R", 0, 64);
        let sizes: Vec<_> = bench.seen().iter().map(|row| (row.3, row.5)).collect();
        assert_eq!(sizes, [(30, 8 * 512), (40, 64 * 512)]);
    }
}

#[test]
fn what_has_ended_is_counted_as_the_kernel_does_and_the_recorders_own_apart() {
    let mut bench = Bench::new();
    let one = |bench: &mut Bench, rwbs: &str| {
        bench
            .event(BioQueue, rwbs, 8, 8)
            .event(RequestIssue, rwbs, 8, 8)
            .event(RequestComplete, rwbs, 8, 8);
    };
    one(&mut bench, "R");
    bench.own = true;
    one(&mut bench, "W");
    one(&mut bench, "W");
    bench.own = false;
    for _ in 0..2 {
        bench
            .event(BioQueue, "FWS", 0, 0)
            .event(RequestIssue, "FFS", 0, 0)
            .event(RequestComplete, "FFS", u64::MAX, 0)
            .event(RequestComplete, "WS", 0, 0);
    }
    assert_eq!(
        bench.pairing.ended(),
        [Ended {
            requests: 3,
            request_bytes: 3 * 4096,
            own_request_bytes: 2 * 4096,
            empty_flushes: 2,
            bio_bytes: 3 * 4096,
            own_bio_bytes: 2 * 4096,
        }]
    );
    let own = Counts {
        own: 2,
        ..Counts::default()
    };
    assert_eq!(bench.pairing.counts, own);
    // A flush is the flush: that one comes before it is no flag of its own.
    let sync = flags::SYNCHRONOUS;
    assert_eq!(bench.flags(), [0, 0, sync, sync, sync, sync]);
    assert_eq!(bench.seen().len(), 6);
}

#[test]
fn a_requeued_request_starts_again() {
    let mut bench = Bench::new();
    bench
        .event(BioQueue, "R", 0, 8)
        .event(RequestIssue, "R", 0, 8)
        .event(RequestRequeue, "R", 0, 8);
    bench
        .event(RequestIssue, "R", 0, 8)
        .event(RequestComplete, "R", 0, 8);
    let expected = [
        (Block, Read, 10, 50, Some(0), 4096),
        (DeviceLayer, Read, 40, 50, Some(0), 4096),
    ];
    assert_eq!(bench.seen(), expected);
    let mut without_event = Bench::new();
    without_event
        .event(BioQueue, "R", 0, 8)
        .event(RequestIssue, "R", 0, 8);
    without_event.now_ns += 10;
    without_event
        .event(RequestIssue, "R", 0, 8)
        .event(RequestComplete, "R", 0, 8);
    assert_eq!(without_event.seen(), expected);
    for mut bench in [bench, without_event] {
        bench.give_up();
        let counts = Counts {
            requeues: 1,
            ..Counts::default()
        };
        assert_eq!((bench.rows.len(), bench.pairing.counts), (2, counts));
    }
}

#[test]
fn a_requeued_flush_starts_again() {
    let mut bench = Bench::new();
    bench
        .event(BioQueue, "FWS", 0, 0)
        .event(RequestIssue, "FF", 0, 0)
        .event(RequestRequeue, "FF", 0, 0);
    bench
        .event(RequestIssue, "FF", 0, 0)
        .event(RequestComplete, "FF", u64::MAX, 0)
        .event(RequestComplete, "WS", 0, 0);
    bench.give_up();
    assert_eq!(
        bench.times(),
        [(Block, 10, Some(60)), (DeviceLayer, 40, Some(50))]
    );
}

#[test]
fn until_linux_4_8_an_empty_write_with_a_flush_before_it_was_the_flush() {
    let mut bench = Bench::new();
    bench
        .event(BioQueue, "FWS", 0, 0)
        .event(RequestIssue, "WS", 0, 0) // a write of nothing is none
        .event(RequestIssue, "FWS", 0, 0)
        .event(RequestComplete, "FWS", u64::MAX, 0)
        .event(RequestComplete, "WS", 0, 0);
    assert_eq!(
        bench.times(),
        [(Block, 10, Some(50)), (DeviceLayer, 30, Some(40))]
    );
    assert_eq!(bench.flags(), [flags::SYNCHRONOUS; 2]);
    bench.give_up();
    assert_eq!(bench.pairing.counts, Counts::default());
}

#[test]
fn a_write_between_two_flushes_ends_after_the_second() {
    let mut bench = Bench::new();
    bench.event(BioQueue, "FWFSM", 396, 2);
    bench
        .event(RequestIssue, "FF", 0, 0)
        .event(RequestComplete, "FF", u64::MAX, 0);
    bench
        .event(RequestIssue, "WSM", 396, 2)
        .event(RequestComplete, "WSM", 396, 2);
    bench
        .event(RequestIssue, "FF", 0, 0)
        .event(RequestComplete, "FF", u64::MAX, 0);
    bench.event(RequestComplete, "WSM", 396, 0);
    assert_eq!(
        bench.seen(),
        [
            (DeviceLayer, Flush, 20, 30, None, 0),
            (DeviceLayer, Write, 40, 50, Some(396), 1024),
            (DeviceLayer, Flush, 60, 70, None, 0),
            (Block, Write, 10, 80, Some(396), 1024),
        ]
    );
    assert_eq!(bench.pairing.counts, Counts::default());
}

#[test]
fn unit_access_the_device_has_needs_no_sequence() {
    let mut bench = Bench::new();
    bench
        .event(BioQueue, "WFS", 0, 8)
        .event(RequestIssue, "WFS", 0, 8)
        .event(RequestComplete, "WFS", 0, 8);
    assert_eq!(bench.seen()[0], (Block, Write, 10, 30, Some(0), 4096));
    assert_eq!(bench.flags()[0], flags::WRITE_THROUGH | flags::SYNCHRONOUS);
}

#[test]
fn one_flush_serves_two_bios() {
    let mut bench = Bench::new();
    bench
        .event(BioQueue, "FWS", 0, 0)
        .event(BioQueue, "FWS", 0, 0);
    bench
        .event(RequestIssue, "FF", 0, 0)
        .event(RequestComplete, "FF", u64::MAX, 0);
    bench
        .event(RequestComplete, "WS", 0, 0)
        .event(RequestComplete, "WS", 0, 0);
    assert_eq!(
        bench.seen(),
        [
            (DeviceLayer, Flush, 30, 40, None, 0),
            (Block, Flush, 20, 50, None, 0),
            (Block, Flush, 10, 60, None, 0)
        ]
    );
}

#[test]
fn a_bio_ends_with_a_flush_that_began_after_it() {
    let mut bench = Bench::new();
    bench
        .event(BioQueue, "FWS", 0, 0)
        .event(RequestIssue, "FF", 0, 0)
        .event(BioQueue, "FWS", 0, 0) // comes too late for that flush
        .event(RequestComplete, "FF", u64::MAX, 0)
        .event(RequestComplete, "WS", 0, 0);
    bench
        .event(RequestIssue, "FF", 0, 0)
        .event(RequestComplete, "FF", u64::MAX, 0)
        .event(RequestComplete, "WS", 0, 0);
    assert_eq!(
        bench.times(),
        [
            (Block, 10, Some(50)),
            (Block, 30, Some(80)),
            (DeviceLayer, 20, Some(40)),
            (DeviceLayer, 60, Some(70))
        ]
    );
    let threads: Vec<_> = bench.rows.iter().map(|row| row.thread).collect();
    assert_eq!(threads, [Some(10), Some(10), Some(30), Some(30)]);
}

#[test]
fn a_split_without_its_event_is_found_by_its_requests_in_any_order() {
    for order in [[100, 108], [108, 100]] {
        let mut bench = Bench::new();
        bench.event(BioQueue, "W", 100, 16);
        for start in order {
            bench.event(RequestIssue, "W", start, 8);
        }
        bench
            .event(RequestComplete, "W", 108, 8)
            .event(RequestComplete, "W", 100, 8);
        let block: Vec<_> = bench
            .seen()
            .into_iter()
            .filter(|row| row.0 == Block)
            .collect();
        assert_eq!(block, [(Block, Write, 10, 50, Some(100), 8192)]);
        bench.give_up();
        assert_eq!(bench.pairing.counts, Counts::default());
    }
}

#[test]
fn a_completion_whose_request_was_not_traced_ends_its_bios() {
    let mut bench = Bench::new();
    bench
        .event(BioQueue, "W", 0, 8)
        .event(BioQueue, "W", 8, 8)
        .event(BioQueue, "FWS", 0, 0);
    bench
        .event(Complete, "W", 0, 16)
        .event(Complete, "FWS", 0, 0);
    assert_eq!(
        bench.times(),
        [
            (Block, 10, Some(40)),
            (Block, 20, Some(40)),
            (Block, 30, Some(50))
        ]
    );
    assert_eq!(
        bench.flags(),
        [flags::MERGED, flags::MERGED, flags::SYNCHRONOUS]
    );
    bench.failing(BioQueue, "RA", 8, 8, 0);
    bench.failing(Complete, "RA", 8, 8, EAGAIN);
    assert_eq!(bench.rows.len(), 3);
    assert_eq!(bench.pairing.counts.would_block, 1);
}

#[test]
fn a_bios_own_completion_after_its_requests_is_passed_over() {
    let mut bench = Bench::new();
    bench
        .event(BioQueue, "R", 8, 8)
        .event(RequestIssue, "R", 8, 8)
        .event(RequestComplete, "R", 8, 8)
        .event(BioComplete, "R", 8, 8);
    assert_eq!(bench.rows.len(), 2);
    assert_eq!(bench.pairing.counts, Counts::default());
}

#[test]
fn an_end_before_its_start_is_none() {
    let mut bench = Bench::new();
    bench.now_ns = 90;
    bench.event(BioQueue, "R", 8, 8);
    bench.now_ns = 0;
    bench.event(Complete, "R", 8, 8);
    assert_eq!(bench.times(), [(Block, 100, None)]);
}

#[test]
fn bios_without_requests_have_a_block_layer_only() {
    let mut bench = Bench::new();
    bench
        .event(BioQueue, "R", 8, 8)
        .event(BioComplete, "R", 8, 8);
    bench
        .event(BioQueue, "W", 8, 8)
        .event(BioComplete, "W", 16, 0); // advanced past its end
    assert_eq!(
        bench.seen(),
        [
            (Block, Read, 10, 20, Some(8), 4096),
            (Block, Write, 30, 40, Some(8), 4096)
        ]
    );
}

#[test]
fn errors_are_kept_and_refusals_to_wait_are_not_io() {
    let mut bench = Bench::new();
    bench
        .event(BioQueue, "R", 8, 8)
        .event(RequestIssue, "R", 8, 8);
    bench.failing(RequestComplete, "R", 8, 8, 5);
    assert_eq!(
        bench.rows.iter().map(|row| row.error).collect::<Vec<_>>(),
        [5, 5]
    );
    bench
        .event(BioQueue, "RA", 8, 8)
        .failing(BioComplete, "RA", 8, 8, EAGAIN);
    assert_eq!(bench.rows.len(), 2);
    assert_eq!(
        bench.pairing.counts,
        Counts {
            would_block: 1,
            ..Counts::default()
        }
    );
}

#[test]
fn what_is_half_seen_is_counted() {
    let mut bench = Bench::new();
    bench.event(RequestComplete, "R", 0, 8); // issued before the recording began
    bench
        .event(RequestIssue, "R", 8, 8)
        .event(RequestComplete, "R", 8, 8); // queued before it began
    bench
        .event(BioQueue, "R", 64, 8)
        .event(RequestIssue, "R", 64, 8); // never ends
    bench.give_up();
    assert_eq!(bench.seen(), [(DeviceLayer, Read, 20, 30, Some(8), 4096)]);
    assert_eq!(
        bench.pairing.counts,
        Counts {
            unpaired_completions: 1,
            unpaired_issues: 2,
            ..Counts::default()
        }
    );
}

#[test]
fn the_sum_of_times_is_right_whichever_ends_first() {
    let mut bench = Bench::new();
    let (mut issued, mut completed) = (Vec::new(), Vec::new());
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    for _ in 0..500 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        if issued.len() == completed.len() || (state.is_multiple_of(2) && issued.len() < 250) {
            bench
                .event(BioQueue, "R", 8, 8)
                .event(RequestIssue, "R", 8, 8);
            issued.push(bench.now_ns);
        } else {
            bench.event(RequestComplete, "R", 8, 8);
            completed.push(bench.now_ns);
        }
    }
    while completed.len() < issued.len() {
        bench.event(RequestComplete, "R", 8, 8);
        completed.push(bench.now_ns);
    }
    let took = |row: &(Layer, Op, u64, u64, Option<u64>, u32)| row.3 - row.2;
    let rows = bench.seen();
    let device = rows.iter().filter(|row| row.0 == DeviceLayer);
    assert_eq!(
        device.map(took).sum::<u64>(),
        completed.iter().sum::<u64>() - issued.iter().sum::<u64>()
    );
}

#[test]
fn any_sequence_of_events_is_survived() {
    let mut bench = Bench::new();
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = move |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    let kinds = [
        BioQueue,
        BioComplete,
        Split,
        RequestIssue,
        RequestRequeue,
        RequestComplete,
        Complete,
    ];
    let words = ["R", "W", "FWFS", "FWS", "WFS", "FF", "D"];
    let mut bios = 0;
    for _ in 0..50_000 {
        let (kind, word) = (kinds[next(7) as usize], words[next(7) as usize]);
        let (sector, sectors) = (next(20), next(6));
        let asks = sectors > 0 || word.starts_with('F');
        bios += usize::from(kind == BioQueue && asks);
        bench.event(kind, word, sector, sectors);
    }
    let ended = bench.rows.len();
    assert!(
        bench
            .rows
            .iter()
            .all(|row| row.completed_ns >= Some(row.issued_ns))
    );
    bench.give_up();
    // Every bio is one row, and every row without an end is counted.
    let blocks = bench.rows.iter().filter(|row| row.layer == Block).count();
    assert_eq!(blocks, bios);
    let unfinished = (bench.rows.len() - ended) as u64;
    assert_eq!(bench.pairing.counts.unpaired_issues, unfinished);
}
