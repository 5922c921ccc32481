//! `io_uring`: registered files, registered memory, completions on demand of the one thread that submits.
//!
//! The ring is made with deferred task work where the kernel has it (6.1): completions are then posted when the pacer
//! looks or sleeps, instead of interrupting it between two deadlines.
//!
//! A wait that a completion ends leaves its alarm set for the next wait, which nearly always is for the same deadline: a
//! timer that is set, withdrawn and set again is most of what an I/O costs a virtual machine. So the alarm is a request
//! of the ring, not a time limit of the call.

use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::RawFd;
use std::time::{Duration, Instant};

use io_uring::types::{CancelBuilder, Fixed, FsyncFlags, SubmitArgs, Timespec};
use io_uring::{IoUring, opcode, squeue};

use super::room::Rooms;
use super::{Completion, Device, ERROR_TARGET_ENDED};
use crate::clock::monotonic_ns;
use crate::memory::{ReadMemory, WriteMemory};
use crate::plan::{Io, Op};

const INVALID_ARGUMENT: i32 = 22;
const INTERRUPTED: i32 = 4;
const BUSY: i32 = 16;
const TRY_AGAIN: i32 = 11;
const TIMED_OUT: i32 = 62;
/// Refusals in a row after which the kernel is taken at its word.
const TRIES_MAX: u32 = 1 << 20;
/// Per-I/O request for stable media, `RWF_DSYNC` of linux/fs.h.
const WRITE_DURABLE: i32 = 2;

const READ_BUFFER: u16 = 0;
const STAMPED_BUFFER: u16 = 1;
const SHARED_BUFFER: u16 = 2;

/// What a hand-over takes at most that did not wait for anything; only of a longer one is asked whether it did.
const WAIT_LEAST: Duration = Duration::from_micros(50);

/// Marks the flush that goes before a write: its end is not the I/O's.
const PREFLUSH: u64 = 1 << 32;
/// Marks the alarm, and what moves it: neither belongs to an I/O.
const ALARM: u64 = 1 << 33;
/// An alarm that rings so much before or after the time it is wanted for need not be moved.
const ALARM_TOLERANCE_NS: i64 = 2_000;

/// What a slot is busy with, so that a short transfer can be taken up where it ended.
#[derive(Clone, Copy)]
struct Slot {
    io: Io,
    address: *mut u8,
    buffer: u16,
    /// Its disk has no room for it: the kernel's workers are to hand it over.
    by_worker: bool,
    done_bytes: u32,
    /// Error of the flush before it, which is what the I/O failed with.
    preflush_error: i32,
}

/// The one timer of a ring, on the system's monotonic clock.
struct Alarm {
    /// Kernels before 5.17 post an event when an alarm was moved, which would end the wait it was moved for.
    is_kept: bool,
    /// When it rings; none once it did.
    at_ns: Option<i64>,
    /// The kernel reads it when it takes the request.
    time: Box<Timespec>,
}

/// Files or block devices behind an `io_uring`.
pub struct UringDevice {
    ring: ManuallyDrop<IoUring>,
    reads: ManuallyDrop<ReadMemory>,
    writes: ManuallyDrop<WriteMemory>,
    slots: Vec<Option<Slot>>,
    /// Whether the memory is registered with the ring; a small locked-memory limit can forbid it, for this reason.
    fixed: bool,
    unregistered: Option<String>,
    unfinished: Vec<u32>,
    rooms: Rooms,
    /// Whether a hand-over since the last `submit` had to wait.
    waited: bool,
    /// How often this thread had slept, if that was asked since it slept last.
    slept: Option<i64>,
    alarm: Alarm,
    abandoned: bool,
}

impl UringDevice {
    /// A ring over open `files`, for at most `slots` I/Os in flight. Call it on the thread that will use it.
    ///
    /// An error means that this system has no `io_uring` to offer: `ENOSYS`, `EPERM` (switched off by sysctl or
    /// forbidden by a sandbox), or a kernel older than 5.11.
    pub fn new(
        files: &[RawFd],
        slots: u32,
        reads: ReadMemory,
        writes: WriteMemory,
    ) -> io::Result<Self> {
        let entries = 256.min(slots.next_power_of_two()).max(2);
        // A write may bring a flush with it.
        let completions = (slots * 2).next_power_of_two().max(entries * 2);
        let mut builder = IoUring::builder();
        builder.setup_cqsize(completions).setup_clamp();
        let mut modern = builder.clone();
        modern
            .setup_submit_all()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_taskrun_flag();
        let ring = match modern.build(entries) {
            Err(problem) if problem.raw_os_error() == Some(INVALID_ARGUMENT) => {
                builder.build(entries)?
            }
            built => built?,
        };
        if !ring.params().is_feature_ext_arg() || !ring.params().is_feature_nodrop() {
            return Err(io::Error::other("the kernel's io_uring is older than 5.11"));
        }
        let is_kept = ring.params().is_feature_skip_cqe_on_success();
        ring.submitter().register_files(files)?;
        let buffers = [&reads.region, &writes.stamped, &writes.shared].map(|region| libc::iovec {
            iov_base: region.at(0).cast(),
            iov_len: region.bytes(),
        });
        // SAFETY: the regions live as long as the ring: all are dropped together, or all are left alone.
        let registration = unsafe { ring.submitter().register_buffers(&buffers) };
        let unregistered = registration.as_ref().err().map(|problem| {
            if problem.raw_os_error() == Some(libc::ENOMEM) {
                "the limit on locked memory (ulimit -l) is too small".into()
            } else {
                problem.to_string()
            }
        });
        let fixed = registration.is_ok();
        // Sparing a lookup per call is not worth an error.
        let _ = ring.submitter().register_ring_fd();
        Ok(Self {
            ring: ManuallyDrop::new(ring),
            reads: ManuallyDrop::new(reads),
            writes: ManuallyDrop::new(writes),
            slots: vec![None; slots as usize],
            fixed,
            unregistered,
            unfinished: Vec::with_capacity(slots as usize),
            rooms: Rooms::new(
                &files
                    .iter()
                    .map(|&file| disk_number(file))
                    .collect::<Vec<_>>(),
            ),
            waited: false,
            slept: None,
            alarm: Alarm {
                is_kept,
                at_ns: None,
                time: Box::default(),
            },
            abandoned: false,
        })
    }

    /// Why each transfer takes the slower way through memory that the kernel must look up.
    #[must_use]
    pub fn unregistered(&self) -> Option<&str> {
        self.unregistered.as_deref()
    }

    fn push(&mut self, number: u32) -> io::Result<()> {
        let slot = self.slots[number as usize].expect("only busy slots are pushed");
        if slot.io.preflush && slot.done_bytes == 0 {
            // Links hold within one submission only, so both must fit in.
            let queue = self.ring.submission();
            let room = queue.capacity() - queue.len();
            drop(queue);
            if room < 2 {
                self.flush()?;
            }
            let flush = opcode::Fsync::new(Fixed(u32::from(slot.io.target)))
                .flags(FsyncFlags::DATASYNC)
                .build()
                .flags(squeue::Flags::IO_LINK)
                .user_data(u64::from(number) | PREFLUSH);
            // SAFETY: a flush uses no memory.
            unsafe { self.ring.submission().push(&flush) }
                .map_err(|_| io::Error::other("the ring is full"))?;
        }
        let mut entry = entry(&slot, self.fixed).user_data(u64::from(number));
        if slot.by_worker {
            entry = entry.flags(squeue::Flags::ASYNC);
        }
        // SAFETY: the slot's memory stays where it is, and unchanged, until its completion was reaped.
        while unsafe { self.ring.submission().push(&entry) }.is_err() {
            self.flush()?;
        }
        Ok(())
    }

    /// Let the ring wake this thread in `timeout_ns` at the latest.
    ///
    /// The kernel is told how long, never when: it takes an absolute time for the host's, whatever time namespace this
    /// process is in (seen with 6.18).
    fn set_alarm(&mut self, timeout_ns: i64) -> io::Result<()> {
        let at_ns = monotonic_ns() + timeout_ns;
        let entry = match self.alarm.at_ns {
            Some(set_ns) if set_ns <= at_ns + ALARM_TOLERANCE_NS => return Ok(()),
            set => {
                *self.alarm.time = timespec(timeout_ns);
                let time: *const Timespec = &raw const *self.alarm.time;
                if set.is_some() {
                    opcode::TimeoutUpdate::new(ALARM, time)
                        .build()
                        .flags(squeue::Flags::SKIP_SUCCESS)
                } else {
                    opcode::Timeout::new(time).build()
                }
            }
        };
        let entry = entry.user_data(ALARM);
        // SAFETY: the time lives on the heap as long as the ring, and is changed only once the kernel has read it or before it
        // is handed over at all, where the newer time is meant.
        while unsafe { self.ring.submission().push(&entry) }.is_err() {
            self.flush()?;
        }
        self.alarm.at_ns = Some(at_ns);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        for _ in 0..TRIES_MAX {
            if self.ring.submission().is_empty() {
                return Ok(());
            }
            self.enter()?;
        }
        Err(io::Error::from_raw_os_error(TRY_AGAIN))
    }

    /// Hand over what there is, and note whether that meant waiting.
    fn enter(&mut self) -> io::Result<()> {
        let may_wait = !self.ring.submission().is_empty() && self.rooms.may_wait();
        let before = may_wait.then(|| (*self.slept.get_or_insert_with(sleeps), Instant::now()));
        let result = self.ring.submit();
        let waited = before.is_some_and(|(slept, began)| {
            began.elapsed() > WAIT_LEAST && *self.slept.insert(sleeps()) > slept
        });
        self.rooms.handed_over(waited);
        self.waited |= waited;
        match result {
            Err(problem)
                if !matches!(problem.raw_os_error(), Some(INTERRUPTED | BUSY | TRY_AGAIN)) =>
            {
                Err(problem)
            }
            _ => Ok(()),
        }
    }
}

fn timespec(ns: i64) -> Timespec {
    let ns = ns.max(0);
    Timespec::new()
        .sec((ns / 1_000_000_000) as u64)
        .nsec((ns % 1_000_000_000) as u32)
}

/// How often this thread gave up its processor to wait for something.
fn sleeps() -> i64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::uninit();
    // SAFETY: the kernel fills the structure it is given.
    match unsafe { libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr()) } {
        // SAFETY: it did.
        0 => unsafe { usage.assume_init() }.ru_nvcsw,
        _ => 0,
    }
}

/// The block device that a file is or lies on; files of which the system does not tell share number 0.
fn disk_number(file: RawFd) -> u64 {
    let mut status = std::mem::MaybeUninit::<libc::stat>::uninit();
    // SAFETY: the kernel fills the structure it is given.
    if unsafe { libc::fstat(file, status.as_mut_ptr()) } != 0 {
        return 0;
    }
    // SAFETY: it did.
    let status = unsafe { status.assume_init() };
    if status.st_mode & libc::S_IFMT == libc::S_IFBLK {
        status.st_rdev
    } else {
        status.st_dev
    }
}

fn entry(slot: &Slot, fixed: bool) -> squeue::Entry {
    let target = Fixed(u32::from(slot.io.target));
    let done = slot.done_bytes;
    let (offset, bytes) = (
        slot.io.offset_bytes + u64::from(done),
        slot.io.size_bytes - done,
    );
    let address = slot.address.wrapping_add(done as usize);
    let durable = if slot.io.durable { WRITE_DURABLE } else { 0 };
    match (slot.io.op, fixed) {
        (Op::Read, true) => opcode::ReadFixed::new(target, address, bytes, slot.buffer)
            .offset(offset)
            .build(),
        (Op::Read, false) => opcode::Read::new(target, address, bytes)
            .offset(offset)
            .build(),
        (Op::Write, true) => opcode::WriteFixed::new(target, address, bytes, slot.buffer)
            .offset(offset)
            .rw_flags(durable)
            .build(),
        (Op::Write, false) => opcode::Write::new(target, address, bytes)
            .offset(offset)
            .rw_flags(durable)
            .build(),
        (Op::Flush, _) => opcode::Fsync::new(target)
            .flags(FsyncFlags::DATASYNC)
            .build(),
    }
}

impl Device for UringDevice {
    fn stage(&mut self, number: u32, io: &Io) -> io::Result<()> {
        let (address, buffer) = match io.op {
            Op::Read => (self.reads.address(number), READ_BUFFER),
            Op::Write => {
                let (address, stamped) =
                    self.writes.prepare(number, io.row, io.size_bytes as usize);
                (
                    address,
                    if stamped {
                        STAMPED_BUFFER
                    } else {
                        SHARED_BUFFER
                    },
                )
            }
            Op::Flush => (std::ptr::null_mut(), READ_BUFFER),
        };
        self.slots[number as usize] = Some(Slot {
            io: *io,
            address,
            buffer,
            by_worker: self.rooms.enter(io.target),
            done_bytes: 0,
            preflush_error: 0,
        });
        self.push(number)
    }

    fn submit(&mut self) -> io::Result<bool> {
        self.flush()?;
        Ok(std::mem::take(&mut self.waited))
    }

    fn reap(&mut self, seen: &mut Vec<Completion>) -> io::Result<()> {
        if self.ring.submission().taskrun() {
            self.enter()?;
        }
        for entry in self.ring.completion() {
            if entry.user_data() == ALARM {
                // It rang, or had rung already when it was to be moved.
                self.alarm.at_ns = None;
                continue;
            }
            let number = entry.user_data() as u32;
            let Some(slot) = self.slots[number as usize].as_mut() else {
                continue;
            };
            let result = entry.result();
            if entry.user_data() & PREFLUSH != 0 {
                slot.preflush_error = (-result).max(0);
                continue;
            }
            let error = match (slot.io.op, result) {
                // The kernel goes on to the write after a flush that failed; the I/O failed all the same.
                _ if slot.preflush_error != 0 => slot.preflush_error,
                (_, ..0) => -result,
                (Op::Flush, _) => 0,
                (_, 0) => ERROR_TARGET_ENDED,
                (_, moved) => {
                    slot.done_bytes += moved as u32;
                    if slot.done_bytes < slot.io.size_bytes {
                        self.unfinished.push(number);
                        continue;
                    }
                    0
                }
            };
            self.rooms.leave(slot.io.target);
            self.slots[number as usize] = None;
            seen.push(Completion {
                slot: number,
                error,
                issued_ns: None,
                completed_ns: None,
            });
        }
        if !self.unfinished.is_empty() {
            while let Some(number) = self.unfinished.pop() {
                self.push(number)?;
            }
            self.flush()?;
        }
        Ok(())
    }

    fn wait(&mut self, timeout_ns: i64) -> io::Result<()> {
        self.rooms.handed_over(false);
        self.slept = None;
        let result = if self.alarm.is_kept {
            self.set_alarm(timeout_ns)?;
            self.ring.submitter().submit_and_wait(1)
        } else {
            let timeout = timespec(timeout_ns);
            let words = SubmitArgs::new().timespec(&timeout);
            self.ring.submitter().submit_with_args(1, &words)
        };
        match result {
            Err(problem)
                if matches!(
                    problem.raw_os_error(),
                    Some(TIMED_OUT | INTERRUPTED | BUSY | TRY_AGAIN)
                ) =>
            {
                Ok(())
            }
            other => other.map(drop),
        }
    }

    fn abandon(&mut self) {
        self.abandoned = true;
        let patience = Timespec::new().nsec(100_000_000);
        // What the kernel can call back is called back; the rest keeps its memory.
        let _ = self
            .ring
            .submitter()
            .register_sync_cancel(Some(patience), CancelBuilder::any());
    }
}

impl Drop for UringDevice {
    fn drop(&mut self) {
        if self.abandoned {
            return;
        }
        // The ring itself goes in the background; its files are let go now, so that others may have them for themselves.
        let _ = self.ring.submitter().unregister_files();
        // SAFETY: each is dropped once and not used again; the ring goes first, since it knows the others' addresses.
        unsafe {
            ManuallyDrop::drop(&mut self.ring);
            ManuallyDrop::drop(&mut self.reads);
            ManuallyDrop::drop(&mut self.writes);
        }
    }
}
