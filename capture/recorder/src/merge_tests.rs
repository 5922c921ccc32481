use super::*;
use crate::cpu_buffer::tests::{Pages, format, page_of};

fn cpus(pages: &[&[&[u64]]]) -> Vec<CpuBuffer<Pages>> {
    let of_one = |pages: &&[&[u64]]| {
        let pages = pages.iter().map(|times| page_of(times)).collect();
        CpuBuffer::new(Pages(pages), &format())
    };
    pages.iter().map(of_one).collect()
}

/// Times of the usable events, those of the others, and whether there was a gap.
fn merged(cpus: &mut [CpuBuffer<Pages>], until_ns: u64, now_ns: u64) -> (Vec<u64>, Vec<u64>, bool) {
    let (mut usable, mut spoilt) = (Vec::new(), Vec::new());
    let is_gap = merge(
        cpus,
        &format(),
        until_ns,
        now_ns,
        |time_ns, _, is_usable| {
            if is_usable { &mut usable } else { &mut spoilt }.push(time_ns);
        },
    );
    (usable, spoilt, is_gap.unwrap())
}

#[test]
fn events_of_all_processors_come_in_order_of_time() {
    let mut cpus = cpus(&[
        &[&[1, 4, 5], &[9, 20]],
        &[],
        &[&[2, 3], &[6], &[7, 8, 10, 21]],
    ]);
    let first = merged(&mut cpus, 9, 15);
    assert_eq!(first, ((1..=9).collect(), vec![], false));
    let rest = merged(&mut cpus, u64::MAX, 30);
    assert_eq!(rest, (vec![10, 20, 21], vec![], false));
}

#[test]
fn random_streams_are_merged_as_sorting_merges_them() {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = move |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    let (mut streams, mut all) = (Vec::new(), Vec::<u64>::new());
    for _ in 0..5 {
        let (mut pages, mut time_ns) = (Vec::new(), 0);
        for _ in 0..next(6) {
            let times: Vec<u64> = (0..=next(300))
                .map(|_| {
                    time_ns += next(20);
                    time_ns
                })
                .collect();
            all.extend(&times);
            pages.push(page_of(&times));
        }
        streams.push(CpuBuffer::new(Pages(pages), &format()));
    }
    all.sort_unstable();
    let mut seen = Vec::new();
    for until_ns in [500, 501, 1_300, u64::MAX] {
        seen.extend(merged(&mut streams, until_ns, 100_000).0);
        assert!(seen.iter().all(|&time_ns| time_ns <= until_ns));
    }
    assert!(all.len() > 1_000);
    assert_eq!(seen, all);
}

#[test]
fn behind_a_gap_nothing_is_usable() {
    // The first processor's buffer was full at 5; reading began at 30, and 31 is what it saw next.
    let mut cpus = cpus(&[&[&[1, 5], &[31]], &[&[2, 4, 6, 7, 28, 33]]]);
    cpus[0].has_gap = true;
    assert_eq!(
        merged(&mut cpus, 28, 30),
        (vec![1, 2, 4, 5], vec![6, 7, 28], true)
    );
    cpus[0].has_gap = false;
    assert_eq!(
        merged(&mut cpus, u64::MAX, 40),
        (vec![31, 33], vec![], false)
    );
}

#[test]
fn a_processor_that_lost_all_it_saw_spoils_the_others() {
    let mut cpus = cpus(&[&[], &[&[2, 4]]]);
    cpus[0].has_gap = true;
    assert_eq!(merged(&mut cpus, 28, 30), (vec![], vec![2, 4], true));
}
