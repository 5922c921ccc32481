//! Planted events with known outcomes; the orders of events are those Linux 6.18 emits on ext4 and XFS.

use super::*;

const DISK: u32 = 7 << 20;
const THREAD: i32 = 100;

struct Bench {
    calls: Calls,
    now_ns: u64,
    seen: Vec<Call>,
}

impl Bench {
    fn new() -> Self {
        Self {
            calls: Calls::new(|_| false),
            now_ns: 0,
            seen: Vec::new(),
        }
    }

    /// One event, ten nanoseconds after the one before.
    fn event(&mut self, thread: i32, what: What) -> &mut Self {
        self.now_ns += 10;
        let event = FileEvent {
            time_ns: self.now_ns,
            thread,
            what,
        };
        self.seen.extend(self.calls.on_event(&event));
        self
    }

    fn enter(&mut self, op: Op, offset: Option<u64>, asked: Option<u64>) -> &mut Self {
        let what = What::Enter {
            op,
            descriptor: Some(5),
            offset,
            asked,
        };
        self.event(THREAD, what)
    }

    fn touch(&mut self, inode: u64, offset: Option<u64>, direct_flags: Option<u32>) -> &mut Self {
        let what = What::Touch {
            number: DISK,
            inode,
            offset,
            direct_flags,
        };
        self.event(THREAD, what)
    }

    fn exit(&mut self, result: i64) -> &mut Self {
        self.event(THREAD, What::Exit { result })
    }

    fn begin(&mut self, thread: i32, offset: u64, bytes: u64, flags: u32) -> &mut Self {
        let what = What::DirectBegin {
            number: DISK,
            inode: 12,
            offset,
            bytes,
            flags,
        };
        self.event(thread, what)
    }

    fn end(&mut self, position: u64, result: i64) -> &mut Self {
        let what = What::DirectEnd {
            number: DISK,
            inode: 12,
            position,
            result,
        };
        self.event(1, what)
    }

    /// (inode, operation, from, to, offset, bytes)
    fn rows(&self) -> Vec<(u64, Op, u64, u64, Option<u64>, u64)> {
        let row = |call: &Call| {
            let Target::Inode(DISK, inode) = call.target else {
                panic!("{call:?}")
            };
            (
                inode,
                call.op,
                call.issued_ns,
                call.completed_ns,
                call.offset,
                call.bytes,
            )
        };
        self.seen.iter().map(row).collect()
    }
}

#[test]
fn a_call_is_of_the_file_its_thread_reached() {
    let mut bench = Bench::new();
    bench
        .enter(Op::Read, Some(8192), Some(4096))
        .touch(12, Some(8192), None)
        .exit(4096);
    bench
        .enter(Op::Write, None, Some(300))
        .touch(13, Some(77), None)
        .exit(300);
    bench
        .enter(Op::Flush, None, None)
        .touch(13, None, None)
        .exit(0);
    assert_eq!(
        bench.rows(),
        [
            (12, Op::Read, 10, 30, Some(8192), 4096),
            (13, Op::Write, 40, 60, Some(77), 300),
            (13, Op::Flush, 70, 90, None, 0),
        ]
    );
    assert!(
        bench
            .seen
            .iter()
            .all(|call| call.flags == flags::SYNCHRONOUS && call.error == 0)
    );
}

#[test]
fn a_call_that_reached_no_recorded_file_is_none() {
    let mut bench = Bench::new();
    bench.enter(Op::Read, None, Some(4096)).exit(100);
    bench.touch(12, Some(0), None); // a page fault between calls
    bench.exit(100); // the recording began in the middle of it
    bench.enter(Op::Write, None, Some(1)); // waits for ever
    bench.calls.resynchronise();
    assert_eq!(bench.rows(), []);
    assert_eq!(bench.calls.counts, CallCounts::default());
}

#[test]
fn the_first_file_reached_counts_and_large_calls_reach_it_often() {
    let mut bench = Bench::new();
    bench.enter(Op::Write, None, None);
    for page in 0..4 {
        bench.touch(12, Some(page * 4096), None);
    }
    bench.touch(99, Some(0), None).exit(16384);
    assert_eq!(bench.rows(), [(12, Op::Write, 10, 70, Some(0), 16384)]);
}

#[test]
fn bytes_are_those_moved_and_what_moved_none_is_no_io() {
    let mut bench = Bench::new();
    bench
        .enter(Op::Read, Some(0), Some(8192))
        .touch(12, Some(0), None)
        .exit(100);
    bench
        .enter(Op::Read, Some(100), Some(8192))
        .touch(12, Some(0), None)
        .exit(0);
    bench
        .enter(Op::Read, Some(0), Some(8192))
        .touch(12, Some(0), None)
        .exit(-11);
    bench
        .enter(Op::Read, Some(0), Some(8192))
        .touch(12, Some(0), None)
        .exit(-5);
    let seen: Vec<_> = bench
        .seen
        .iter()
        .map(|call| (call.bytes, call.error))
        .collect();
    assert_eq!(seen, [(100, 0), (8192, 5)]);
    let counts = bench.calls.counts;
    assert_eq!((counts.empty, counts.would_block), (1, 1));
}

#[test]
fn direct_io_is_told_from_cached() {
    let mut bench = Bench::new();
    bench.enter(Op::Write, Some(0), Some(512));
    bench
        .touch(12, Some(0), None)
        .touch(12, Some(0), Some(KI_DSYNC | KI_WRITE))
        .exit(512);
    bench
        .enter(Op::Read, Some(0), Some(512))
        .touch(12, Some(0), Some(0))
        .exit(512);
    let bits: Vec<_> = bench.seen.iter().map(|call| call.flags).collect();
    let direct = flags::SYNCHRONOUS | NO_CACHE;
    assert_eq!(bits, [direct | flags::WRITE_THROUGH, direct]);
}

#[test]
fn asynchronous_direct_io_runs_from_the_file_systems_beginning_to_its_end() {
    let mut bench = Bench::new();
    bench
        .begin(7, 0, 8192, KI_WRITE | KI_DSYNC)
        .begin(8, 8192, 4096, 0);
    bench.end(8192 + 4096, 4096).end(8192, 8192).end(5, 5);
    assert_eq!(
        bench.rows(),
        [
            (12, Op::Read, 20, 30, Some(8192), 4096),
            (12, Op::Write, 10, 40, Some(0), 8192)
        ]
    );
    assert_eq!(bench.seen[1].flags, NO_CACHE | flags::WRITE_THROUGH);
    assert_eq!((bench.seen[0].thread, bench.seen[1].thread), (8, 7));
    assert_eq!(bench.calls.counts.unpaired_completions, 1);
}

#[test]
fn what_must_not_wait_is_tried_again_by_another_thread() {
    let mut bench = Bench::new();
    bench
        .begin(7, 0, 4096, KI_NOWAIT)
        .begin(9, 0, 4096, 0)
        .end(4096, 4096);
    assert_eq!(bench.rows(), [(12, Op::Read, 10, 30, Some(0), 4096)]);
    assert!(bench.calls.begun.is_empty());
}

#[test]
fn failed_direct_io_has_its_error_and_the_bytes_it_was_to_move() {
    let mut bench = Bench::new();
    bench.begin(7, 4096, 4096, 0).end(4096, -5);
    assert_eq!(bench.rows(), [(12, Op::Read, 10, 20, Some(4096), 4096)]);
    assert_eq!(bench.seen[0].error, 5);
}

#[test]
fn a_gap_pairs_nothing_across_it() {
    let mut bench = Bench::new();
    bench
        .enter(Op::Read, Some(0), Some(10))
        .touch(12, Some(0), None)
        .begin(7, 0, 10, 0);
    bench.calls.resynchronise();
    bench.exit(10).end(10, 10);
    assert_eq!(bench.rows(), []);
    let counts = bench.calls.counts;
    assert_eq!(
        (counts.unpaired_issues, counts.unpaired_completions),
        (2, 1)
    );
}

#[test]
fn a_thread_is_known_to_make_a_file_durable_while_it_does() {
    let mut bench = Bench::new();
    bench.enter(Op::Flush, None, None);
    assert_eq!(bench.calls.flushing(THREAD, 15), None);
    bench.touch(12, None, None);
    let found = [9, 15].map(|at_ns| bench.calls.flushing(THREAD, at_ns));
    assert_eq!(found, [None, Some((DISK, 12))]);
    bench.exit(0);
    assert_eq!(bench.calls.flushing(THREAD, 15), None);
}

#[test]
fn where_the_kernel_names_no_file_the_descriptor_stands_for_it() {
    let mut bench = Bench::new();
    bench.calls.by_descriptor = |op| op == Op::Read;
    bench.enter(Op::Read, Some(0), Some(10)).exit(10);
    bench.enter(Op::Write, Some(0), Some(10)).exit(10);
    assert_eq!(bench.seen.len(), 1);
    assert_eq!(bench.seen[0].target, Target::Descriptor(5));
}
