//! How many I/Os a disk takes before the kernel makes the submitter wait for it.
//!
//! A block device has a fixed number of requests (`nr_requests`). When all are taken, the kernel puts whoever submits to a
//! file on it to sleep until one is free; `io_uring` is no exception, since file systems do not hand its wish not to wait
//! down to the block layer (seen on ext4, Linux 6.18). Meanwhile nobody's I/O is issued, not even that of another disk.
//! So what goes beyond the disk's room is given to the kernel's own workers, which wait in the submitter's place. That
//! costs processor time and some microseconds, which does not matter on a disk that full, and would on any other: how
//! much room there is nobody tells, stacked devices least of all, so it is learnt from the waiting itself.

/// A wait takes away so much of what was in flight before it.
const SHRINK: (u32, u32) = (7, 8);
/// So many I/Os given to workers win room for one more: a wait may have had another cause, or others used the disk.
const REGAIN: u32 = 128;

#[derive(Clone, Copy, Debug)]
struct Disk {
    number: u64,
    in_flight: u32,
    /// Of those, the ones that `handed_over` has not been told of.
    fresh: u32,
    /// In I/Os times `REGAIN`.
    room: u32,
}

/// What each disk has in flight, and room for. Nothing here takes the time or asks the system.
#[derive(Clone, Debug)]
pub struct Rooms {
    disk_of: Vec<usize>,
    disks: Vec<Disk>,
}

impl Rooms {
    /// For targets on disks with these numbers; targets with the same number share the disk.
    #[must_use]
    pub fn new(disk_numbers: &[u64]) -> Self {
        let mut disks: Vec<Disk> = Vec::new();
        let mut disk_of = Vec::with_capacity(disk_numbers.len());
        for &number in disk_numbers {
            let known = disks.iter().position(|disk| disk.number == number);
            disk_of.push(known.unwrap_or(disks.len()));
            if known.is_none() {
                disks.push(Disk {
                    number,
                    in_flight: 0,
                    fresh: 0,
                    room: u32::MAX,
                });
            }
        }
        Self { disk_of, disks }
    }

    /// An I/O more for a target. True if its disk has no room for it.
    pub fn enter(&mut self, target: u16) -> bool {
        let disk = &mut self.disks[self.disk_of[usize::from(target)]];
        disk.in_flight += 1;
        disk.fresh += 1;
        let beyond = disk.in_flight.saturating_mul(REGAIN) > disk.room;
        if beyond {
            disk.room = disk.room.saturating_add(1);
        }
        beyond
    }

    /// An I/O of a target has completed.
    pub fn leave(&mut self, target: u16) {
        self.disks[self.disk_of[usize::from(target)]].in_flight -= 1;
    }

    /// Whether a hand-over may have to wait: a disk is at work already.
    #[must_use]
    pub fn may_wait(&self) -> bool {
        self.disks.iter().any(|disk| disk.in_flight > disk.fresh)
    }

    /// Everything that entered was handed over, and the kernel did or did not make the caller wait. If it did, the
    /// fullest disk was the cause.
    pub fn handed_over(&mut self, waited: bool) {
        if waited && let Some(disk) = self.disks.iter_mut().max_by_key(|disk| disk.in_flight) {
            let before = disk.in_flight.saturating_sub(disk.fresh);
            let (of, parts) = SHRINK;
            disk.room = disk.room.min((before * of / parts).max(1) * REGAIN);
        }
        for disk in &mut self.disks {
            disk.fresh = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BATCH: usize = 16;

    /// Put I/Os in flight on a disk with so many requests, of which none completes: how many of them went to workers, and
    /// how often a hand-over had to wait.
    fn crowd(rooms: &mut Rooms, ios: usize, requests: usize) -> (usize, usize) {
        let (mut direct, mut waits) = (0, 0);
        for _ in 0..ios / BATCH {
            let before = direct;
            direct += (0..BATCH).filter(|_| !rooms.enter(0)).count();
            let waited = direct > requests && direct > before;
            waits += usize::from(waited);
            rooms.handed_over(waited);
        }
        (ios / BATCH * BATCH - direct, waits)
    }

    #[test]
    fn a_full_disk_makes_the_submitter_wait_once() {
        let mut rooms = Rooms::new(&[7]);
        let (to_workers, waits) = crowd(&mut rooms, 1024, 256);
        assert_eq!((to_workers, waits), (1024 - 256 - BATCH, 1));
        // 7/8 of the 256 that were in flight before the batch that waited, and one more for each 128 given to workers.
        for _ in 0..1024 {
            rooms.leave(0);
        }
        assert!((0..224).all(|_| !rooms.enter(0)));
        assert_eq!((0..200).filter(|_| rooms.enter(0)).count(), 200 - 752 / 128);
    }

    #[test]
    fn a_wait_that_had_another_cause_is_forgotten() {
        let mut rooms = Rooms::new(&[7]);
        for _ in 0..9 {
            rooms.enter(0);
            rooms.handed_over(false);
        }
        rooms.enter(0);
        rooms.handed_over(true); // nine were in flight: room for seven
        let mut to_workers = 0;
        for _ in 0..1000 {
            rooms.leave(0);
            to_workers += u32::from(rooms.enter(0));
        }
        assert_eq!(to_workers, 3 * REGAIN);
    }

    #[test]
    fn each_disk_has_its_own_room_and_its_targets_share_it() {
        let mut rooms = Rooms::new(&[7, 9, 7]);
        assert!(!rooms.may_wait());
        for _ in 0..8 {
            rooms.enter(0);
        }
        assert!(!rooms.may_wait()); // all of them are new
        rooms.handed_over(false);
        assert!(rooms.may_wait());
        rooms.enter(1);
        rooms.handed_over(true);
        assert!(rooms.enter(2));
        assert!(!rooms.enter(1));
    }
}
