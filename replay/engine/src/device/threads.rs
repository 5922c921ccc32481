//! Blocking reads and writes on a pool of threads, for systems that do not permit `io_uring`.
//!
//! Each worker stamps its own I/O right before and right after the system call, so that a late worker shows as
//! lateness and not as a slow disk. At most as many I/Os are in flight as there are workers.

use std::collections::VecDeque;
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::RawFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::{Completion, Device, ERROR_TARGET_ENDED};
use crate::clock::{Clock, MonotonicClock};
use crate::memory::{ReadMemory, WriteMemory};
use crate::plan::{Io, Op};

/// Most workers, and so most I/Os in flight.
pub const WORKERS_MAX: u32 = 256;

const WRITE_DURABLE: i32 = libc::RWF_DSYNC;

struct Task {
    slot: u32,
    io: Io,
    address: Address,
}

/// Where a worker reads to or writes from.
struct Address(*mut u8);

// SAFETY: the address belongs to one slot, and a slot to one worker at a time; reads that share memory are never
// looked at.
unsafe impl Send for Address {}

#[derive(Default)]
struct Queues {
    tasks: VecDeque<Task>,
    ended: Vec<Completion>,
    closing: bool,
}

struct Shared {
    queues: Mutex<Queues>,
    work: Condvar,
    news: Condvar,
    files: Vec<RawFd>,
    clock: MonotonicClock,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queues> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Files or block devices behind threads.
pub struct ThreadsDevice {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
    staged: Vec<Task>,
    reads: ManuallyDrop<ReadMemory>,
    writes: ManuallyDrop<WriteMemory>,
    abandoned: bool,
}

impl ThreadsDevice {
    /// `slots` workers, at most `WORKERS_MAX`, over open `files`.
    pub fn new(
        files: &[RawFd],
        slots: u32,
        reads: ReadMemory,
        writes: WriteMemory,
        clock: MonotonicClock,
    ) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            queues: Mutex::default(),
            work: Condvar::new(),
            news: Condvar::new(),
            files: files.to_vec(),
            clock,
        });
        let mut device = Self {
            shared,
            workers: Vec::new(),
            staged: Vec::new(),
            reads: ManuallyDrop::new(reads),
            writes: ManuallyDrop::new(writes),
            abandoned: false,
        };
        for _ in 0..slots.min(WORKERS_MAX) {
            let shared = Arc::clone(&device.shared);
            let worker = std::thread::Builder::new()
                .name("iotrace-worker".into())
                .stack_size(128 << 10)
                .spawn(move || work(&shared))?;
            device.workers.push(worker);
        }
        Ok(device)
    }
}

fn work(shared: &Shared) {
    loop {
        let task = {
            let mut queues = shared.lock();
            loop {
                if let Some(task) = queues.tasks.pop_front() {
                    break task;
                }
                if queues.closing {
                    return;
                }
                queues = shared
                    .work
                    .wait(queues)
                    .unwrap_or_else(PoisonError::into_inner);
            }
        };
        let issued_ns = shared.clock.now_ns();
        let error = transfer(&task, shared.files[usize::from(task.io.target)]);
        let end = Completion {
            slot: task.slot,
            error,
            issued_ns: Some(issued_ns),
            completed_ns: Some(shared.clock.now_ns()),
        };
        shared.lock().ended.push(end);
        shared.news.notify_one();
    }
}

/// Carry out one I/O to its end and return 0 or the error.
fn transfer(task: &Task, file: RawFd) -> i32 {
    let io = &task.io;
    if io.preflush {
        let flush = Task {
            slot: task.slot,
            io: Io {
                op: Op::Flush,
                preflush: false,
                ..*io
            },
            address: Address(task.address.0),
        };
        match transfer(&flush, file) {
            0 => {}
            error => return error,
        }
    }
    let mut done = 0;
    while io.op == Op::Flush || done < io.size_bytes as usize {
        let piece = libc::iovec {
            iov_base: task.address.0.wrapping_add(done).cast(),
            iov_len: io.size_bytes as usize - done,
        };
        let offset = io.offset_bytes as i64 + done as i64;
        // SAFETY: the slot's memory holds `size_bytes` and stays until the worker has ended; the file stays open
        // until the run has.
        let moved = unsafe {
            match io.op {
                Op::Read => libc::preadv(file, &raw const piece, 1, offset),
                Op::Write => {
                    let flags = if io.durable { WRITE_DURABLE } else { 0 };
                    // musl has no pwritev2 before 1.2.5; the upper half of the offset is for 32-bit kernels.
                    let (pieces, upper): (libc::c_long, libc::c_long) = (1, 0);
                    libc::syscall(
                        libc::SYS_pwritev2,
                        file,
                        &raw const piece,
                        pieces,
                        offset,
                        upper,
                        flags,
                    ) as isize
                }
                Op::Flush => libc::fdatasync(file) as isize,
            }
        };
        match moved {
            ..0 => match io::Error::last_os_error()
                .raw_os_error()
                .unwrap_or(libc::EIO)
            {
                libc::EINTR => {}
                error => return error,
            },
            0 if io.op == Op::Flush => return 0,
            0 => return ERROR_TARGET_ENDED,
            moved => done += moved as usize,
        }
    }
    0
}

impl Device for ThreadsDevice {
    fn stage(&mut self, slot: u32, io: &Io) -> io::Result<()> {
        let address = match io.op {
            Op::Read => self.reads.address(slot),
            Op::Write => self.writes.prepare(slot, io.row, io.size_bytes as usize).0,
            Op::Flush => std::ptr::null_mut(),
        };
        self.staged.push(Task {
            slot,
            io: *io,
            address: Address(address),
        });
        Ok(())
    }

    fn submit(&mut self) -> io::Result<bool> {
        let many = self.staged.len();
        self.shared.lock().tasks.extend(self.staged.drain(..));
        for _ in 0..many {
            self.shared.work.notify_one();
        }
        Ok(false)
    }

    fn reap(&mut self, seen: &mut Vec<Completion>) -> io::Result<()> {
        seen.append(&mut self.shared.lock().ended);
        Ok(())
    }

    fn wait(&mut self, timeout_ns: i64) -> io::Result<()> {
        if !self.staged.is_empty() {
            self.submit()?;
        }
        let queues = self.shared.lock();
        if queues.ended.is_empty() {
            let patience = Duration::from_nanos(timeout_ns.max(0) as u64);
            drop(self.shared.news.wait_timeout(queues, patience));
        }
        Ok(())
    }

    fn abandon(&mut self) {
        self.abandoned = true;
    }
}

impl Drop for ThreadsDevice {
    fn drop(&mut self) {
        let mut queues = self.shared.lock();
        queues.closing = true;
        if self.abandoned {
            queues.tasks.clear();
        }
        drop(queues);
        self.shared.work.notify_all();
        if self.abandoned {
            return; // a worker that hangs in the kernel keeps its memory
        }
        for worker in self.workers.drain(..) {
            let _ = worker.join();
        }
        // SAFETY: all workers have ended, each is dropped once and not used again.
        unsafe {
            ManuallyDrop::drop(&mut self.reads);
            ManuallyDrop::drop(&mut self.writes);
        }
    }
}
