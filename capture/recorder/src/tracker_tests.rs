//! Planted event sequences with known outcomes; the flush sequences are those Linux 6.18 emits for a loop device.

use super::*;

const DEVICE: u32 = 7 << 20;

struct Bench {
    tracker: Tracker,
    rows: Rows,
    now_ns: u64,
}

impl Bench {
    fn new() -> Self {
        let ids = vec![DeviceIds {
            device_id: 5,
            file_id: None,
        }];
        // 7:1 plays a partition of 7:0
        let numbers = HashMap::from([(DEVICE, 0), (DEVICE + 1, 0)]);
        Self {
            tracker: Tracker::new(numbers, ids),
            rows: Rows::default(),
            now_ns: 0,
        }
    }

    /// One event, ten nanoseconds after the one before.
    fn event(&mut self, kind: Kind, rwbs: &str, sector: u64, sectors: u64) -> &mut Self {
        self.event_on(DEVICE, kind, rwbs, sector, sectors, 0)
    }

    fn event_on(
        &mut self,
        device: u32,
        kind: Kind,
        rwbs: &str,
        sector: u64,
        sectors: u64,
        error: i32,
    ) -> &mut Self {
        self.now_ns += 10;
        let (op, flags) = crate::event::parse_rwbs(rwbs.as_bytes()).unwrap();
        let thread = self.now_ns as i32;
        let comm = [0; 16];
        let event = Event {
            time_ns: self.now_ns,
            kind,
            device,
            op,
            flags,
            sector,
            sectors,
            error,
            thread,
            comm,
        };
        self.tracker
            .on_event(&event, &mut self.rows, |event| (Some(event.thread), false));
        self
    }

    /// (layer, op, issued, completed, first sector, bytes)
    fn seen(&self) -> Vec<(Layer, Op, u64, u64, Option<u64>, u32)> {
        let row = |row: &Row| {
            (
                row.layer,
                row.op,
                row.issued_ns,
                row.completed_ns,
                row.offset_bytes.map(|at| at / 512),
                row.size_bytes,
            )
        };
        self.rows.as_slice().iter().map(row).collect()
    }

    fn flags(&self) -> Vec<u32> {
        self.rows.as_slice().iter().map(|row| row.flags).collect()
    }
}

use Kind::{BioComplete, BioQueue, RequestComplete, RequestIssue, RequestRequeue, Split};
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
    let device = bench.rows.as_slice()[1];
    assert_eq!((device.thread, device.process), (Some(10), Some(10))); // whoever queued the bio
    assert_eq!(bench.tracker.counts, Counts::default());
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
fn the_same_sectors_twice_end_one_by_one() {
    let mut bench = Bench::new();
    bench.event(BioQueue, "R", 8, 8).event(BioQueue, "R", 8, 8);
    bench
        .event(RequestIssue, "R", 8, 8)
        .event(RequestIssue, "R", 8, 8);
    bench
        .event(RequestComplete, "R", 8, 8)
        .event(RequestComplete, "R", 8, 8);
    let ends: Vec<_> = bench
        .seen()
        .into_iter()
        .map(|row| (row.0, row.2, row.3))
        .collect();
    assert_eq!(
        ends,
        [
            (Block, 10, 50),
            (DeviceLayer, 30, 50),
            (Block, 20, 60),
            (DeviceLayer, 40, 60)
        ]
    );
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
fn a_requeued_request_starts_again() {
    let mut bench = Bench::new();
    bench
        .event(BioQueue, "R", 0, 8)
        .event(RequestIssue, "R", 0, 8)
        .event(RequestRequeue, "R", 0, 8);
    bench
        .event(RequestIssue, "R", 0, 8)
        .event(RequestComplete, "R", 0, 8);
    assert_eq!(
        bench.seen(),
        [
            (Block, Read, 10, 50, Some(0), 4096),
            (DeviceLayer, Read, 40, 50, Some(0), 4096)
        ]
    );
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
    assert_eq!(bench.tracker.counts, Counts::default());
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
            (Block, Flush, 10, 50, None, 0),
            (Block, Flush, 20, 60, None, 0)
        ]
    );
}

#[test]
fn a_partitions_bios_meet_the_disks_requests() {
    let mut bench = Bench::new();
    bench.event_on(DEVICE + 1, BioQueue, "R", 2056, 8, 0);
    bench
        .event(RequestIssue, "R", 2056, 8)
        .event(RequestComplete, "R", 2056, 8);
    assert_eq!(bench.seen().len(), 2);
    assert_eq!(bench.rows.as_slice()[0].ids.device_id, 5);
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
    bench.event_on(DEVICE, RequestComplete, "R", 8, 8, 5);
    assert_eq!(
        bench
            .rows
            .as_slice()
            .iter()
            .map(|row| row.error)
            .collect::<Vec<_>>(),
        [5, 5]
    );
    bench
        .event(BioQueue, "RA", 8, 8)
        .event_on(DEVICE, BioComplete, "RA", 8, 8, EAGAIN);
    assert_eq!(bench.rows.as_slice().len(), 2);
    assert_eq!(
        bench.tracker.counts,
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
    bench.tracker.resynchronise();
    assert_eq!(bench.seen(), [(DeviceLayer, Read, 20, 30, Some(8), 4096)]);
    assert_eq!(
        bench.tracker.counts,
        Counts {
            unpaired_completions: 1,
            unpaired_issues: 2,
            ..Counts::default()
        }
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
    let words = ["R", "W", "FWFS", "FWS", "WFS", "FF", "D"];
    for _ in 0..50_000 {
        let kind = Kind::ALL[next(6) as usize];
        let (sector, sectors) = (next(20), next(6));
        bench.event(kind, words[next(7) as usize], sector, sectors);
    }
    assert!(
        bench
            .rows
            .as_slice()
            .iter()
            .all(|row| row.issued_ns <= row.completed_ns)
    );
}
