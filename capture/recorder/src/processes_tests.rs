//! Threads that live, that are gone, and that are known only from their births and ends.

use super::*;

/// Beyond any process number Linux gives, so that /proc knows none of them.
const GONE: i32 = i32::MAX - 100;

fn comm(name: &str) -> Comm {
    let mut comm = [0; 16];
    comm[..name.len()].copy_from_slice(name.as_bytes());
    comm
}

fn began(processes: &mut Processes, time_ns: u64, thread: i32, by: i32, is_process: bool) {
    processes.on_change(&ThreadEvent {
        time_ns,
        thread,
        comm: comm("maker"),
        change: Change::Began { by, is_process },
    });
}

fn ended(processes: &mut Processes, time_ns: u64, thread: i32, with_process: Option<bool>) {
    processes.on_change(&ThreadEvent {
        time_ns,
        thread,
        comm: comm("renamed"),
        change: Change::Ended { with_process },
    });
}

#[test]
fn threads_of_one_process_share_its_row() {
    let own = std::process::id() as i32;
    let mut processes = Processes::new(own, 100, 0, 0);
    let first = processes.of_thread(own, Some(comm("main")), 1);
    assert_eq!(first, (Some(0), true));
    let second = processes.of_thread(own, Some(comm("renamed")), 2);
    assert_eq!(second, (Some(0), true));
    assert_eq!(processes.rows[0].os_process_id, own);
}

#[test]
fn a_thread_that_is_gone_stands_for_itself() {
    let mut processes = Processes::new(1, 100, 0, 0);
    let found = processes.of_thread(GONE, Some(comm("gone")), 1);
    assert_eq!(found, (Some(0), false));
    let row = &processes.rows[0];
    assert_eq!((row.name.as_str(), row.os_process_id), ("gone", GONE));
}

#[test]
fn a_thread_that_is_gone_belongs_to_the_process_it_was_born_into() {
    let mut processes = Processes::new(1, 100, 0, 1000);
    began(&mut processes, 10, GONE, 1, true);
    began(&mut processes, 20, GONE + 1, GONE, false);
    ended(&mut processes, 30, GONE + 1, Some(false));
    ended(&mut processes, 40, GONE, Some(true));
    let worker = processes.of_thread(GONE + 1, None, 25);
    assert_eq!(worker, processes.of_thread(GONE, None, 35));
    assert_eq!(processes.rows.len(), 1);
    let row = &processes.rows[0];
    assert_eq!((row.os_process_id, row.name.as_str()), (GONE, "renamed"));
    assert_eq!(row.os_parent_process_id, Some(1));
    assert_eq!((row.started_boot_ns, row.ended_ns), (Some(1010), Some(40)));
}

#[test]
fn a_process_ends_with_its_last_thread() {
    let mut processes = Processes::new(1, 100, 0, 0);
    began(&mut processes, 10, GONE, 1, true);
    began(&mut processes, 20, GONE + 1, GONE, false);
    processes.of_thread(GONE, Some(comm("a")), 25);
    processes.of_thread(GONE + 1, Some(comm("a")), 26);
    ended(&mut processes, 30, GONE, Some(false));
    assert_eq!(processes.rows[0].ended_ns, None);
    ended(&mut processes, 40, GONE + 1, Some(true));
    assert_eq!(processes.rows[0].ended_ns, Some(40));
}

#[test]
fn where_the_kernel_does_not_say_the_first_thread_ends_its_process() {
    let mut processes = Processes::new(1, 100, 0, 0);
    began(&mut processes, 10, GONE, 1, true);
    began(&mut processes, 20, GONE + 1, GONE, false);
    processes.of_thread(GONE + 1, Some(comm("a")), 26);
    ended(&mut processes, 30, GONE + 1, None);
    assert_eq!(processes.rows[0].ended_ns, None);
    ended(&mut processes, 40, GONE, None);
    assert_eq!(processes.rows[0].ended_ns, Some(40));
}

#[test]
fn a_number_used_again_is_another_process() {
    let mut processes = Processes::new(1, 100, 0, 0);
    began(&mut processes, 10, GONE, 1, true);
    assert_eq!(processes.of_thread(GONE, Some(comm("a")), 15).0, Some(0));
    ended(&mut processes, 20, GONE, Some(true));
    assert_eq!(processes.of_thread(GONE, None, 18).0, Some(0)); // looked at late
    began(&mut processes, 1_000_000_030, GONE, 1, true);
    let later = processes.of_thread(GONE, Some(comm("a")), 1_000_000_035);
    assert_eq!(later.0, Some(1));
}

#[test]
fn the_start_is_found_behind_any_name() {
    let stat = "7 (a) b 1) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4242 20";
    assert_eq!(started_ticks(stat), Some(4242));
}
