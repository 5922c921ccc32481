//! Overlapped reads and writes, unbuffered, on a completion port.
//!
//! Every transfer that the system takes ends in a packet, also one that it ends at once: files are not set to skip the
//! port on success. That would spare a packet only where the cache or the driver answers within the call, which
//! unbuffered I/O to a disk does not do, and completions then would be seen in two places. What the system refuses
//! leaves no packet, and ends here.
//!
//! Windows takes one request per call, so each I/O is stamped right before its own call.

#[cfg(test)]
mod tests;

use std::cell::UnsafeCell;
use std::io;
use std::mem::ManuallyDrop;
use std::os::windows::io::AsRawHandle;
use std::ptr::{null, null_mut};
use std::sync::Arc;

use windows_sys::Win32::Foundation::{
    ERROR_ACCESS_DENIED, ERROR_IO_PENDING, ERROR_OPERATION_ABORTED, GetLastError,
    RtlNtStatusToDosError,
};
use windows_sys::Win32::Storage::FileSystem::{ReadFile, WriteFile};
use windows_sys::Win32::System::IO::{
    CancelIoEx, OVERLAPPED, OVERLAPPED_0, OVERLAPPED_0_0, OVERLAPPED_ENTRY,
};

use super::alarm::Alarm;
use super::errors::{EINVAL, errno_of};
use super::flusher::Flusher;
use super::port::{Key, Port};
use super::target::Target;
use crate::clock::{Clock, MonotonicClock};
use crate::device::{Completion, Device, ERROR_TARGET_ENDED, RawFile};
use crate::memory::{ReadMemory, WriteMemory};
use crate::plan::{Io, Op};

/// Packets taken with one call.
const PACKETS: usize = 64;
/// The port's own timeout ends a wait whose alarm did not.
const PATIENCE_MS: u32 = 50;
/// How long cancelled I/Os may take to end, in all.
const CANCEL_MS: u32 = 100;

/// What the kernel knows an I/O by. It comes first, so that its address is the slot's.
#[repr(C)]
struct Slot {
    overlapped: OVERLAPPED,
    io: Io,
    address: *mut u8,
    issued_ns: i64,
}

/// Files behind a completion port. See the module's description.
pub struct OverlappedDevice {
    port: Arc<Port>,
    alarm: ManuallyDrop<Alarm>,
    flusher: ManuallyDrop<Flusher>,
    targets: ManuallyDrop<Arc<Vec<Target>>>,
    reads: ManuallyDrop<ReadMemory>,
    writes: ManuallyDrop<WriteMemory>,
    slots: ManuallyDrop<Box<[UnsafeCell<Slot>]>>,
    clock: MonotonicClock,
    staged: Vec<u32>,
    ended: Vec<Completion>,
    /// I/Os whose packet has not come.
    pending: usize,
    abandoned: bool,
}

impl OverlappedDevice {
    /// A port over open `files`, for at most `slots` I/Os in flight, that bypasses the cache if `direct`.
    pub fn new(
        files: &[RawFile],
        direct: bool,
        slots: u32,
        reads: ReadMemory,
        writes: WriteMemory,
        clock: MonotonicClock,
    ) -> io::Result<Self> {
        let targets = files.iter().map(|&file| Target::reopen(file, direct));
        let targets = targets.collect::<io::Result<_>>()?;
        Self::over(targets, slots, reads, writes, clock)
    }

    fn over(
        targets: Vec<Target>,
        slots: u32,
        reads: ReadMemory,
        writes: WriteMemory,
        clock: MonotonicClock,
    ) -> io::Result<Self> {
        let port = Arc::new(Port::new()?);
        for file in targets.iter().flat_map(Target::handles) {
            port.receive_from(file)?;
        }
        let targets = Arc::new(targets);
        let idle = Io {
            row: 0,
            op: Op::Flush,
            target: 0,
            durable: false,
            preflush: false,
            offset_bytes: 0,
            size_bytes: 0,
        };
        let slots: Box<[UnsafeCell<Slot>]> = (0..slots)
            .map(|_| {
                UnsafeCell::new(Slot {
                    overlapped: OVERLAPPED::default(),
                    io: idle,
                    address: null_mut(),
                    issued_ns: 0,
                })
            })
            .collect();
        Ok(Self {
            alarm: ManuallyDrop::new(Alarm::new(Arc::clone(&port))?),
            flusher: ManuallyDrop::new(Flusher::new(&targets, &port)?),
            targets: ManuallyDrop::new(targets),
            port,
            reads: ManuallyDrop::new(reads),
            writes: ManuallyDrop::new(writes),
            staged: Vec::with_capacity(slots.len()),
            ended: Vec::with_capacity(slots.len()),
            slots: ManuallyDrop::new(slots),
            clock,
            pending: 0,
            abandoned: false,
        })
    }

    /// Begin with one I/O.
    fn start(&mut self, number: u32) {
        let slot = self.slots[number as usize].get();
        // SAFETY: a free slot, which the kernel does not know yet.
        let (io, address) = unsafe {
            (*slot).issued_ns = self.clock.now_ns();
            ((*slot).io, (*slot).address)
        };
        let target = &self.targets[usize::from(io.target)];
        let (offset, size) = (io.offset_bytes, io.size_bytes);
        if io.op != Op::Flush && !target.alignment.permits(offset, size, address as usize) {
            self.end(number, EINVAL);
        } else if io.op == Op::Flush || io.preflush {
            if target.writable() && self.flusher.start(io.target.into(), slot.cast()) {
                self.pending += 1;
            } else {
                self.end(number, errno_of(ERROR_ACCESS_DENIED));
            }
        } else {
            self.transfer(number);
        }
    }

    /// Hand a read or write to the system.
    fn transfer(&mut self, number: u32) {
        let slot = self.slots[number as usize].get();
        // SAFETY: the kernel does not know the slot at this time.
        let (io, address) = unsafe { ((*slot).io, (*slot).address) };
        let target = &self.targets[usize::from(io.target)];
        let (overlapped, size): (*mut OVERLAPPED, u32) = (slot.cast(), io.size_bytes);
        // SAFETY: memory and slot stay where they are until the packet came; the files stay open as long.
        let error = unsafe {
            let taken = if io.op == Op::Read {
                let file = target.plain().as_raw_handle();
                ReadFile(file, address, size, null_mut(), overlapped)
            } else {
                let file = target.for_write(io.durable).as_raw_handle();
                WriteFile(file, address, size, null_mut(), overlapped)
            };
            if taken == 0 { GetLastError() } else { 0 }
        };
        if error == 0 || error == ERROR_IO_PENDING {
            self.pending += 1; // also what is done already sends a packet
        } else {
            self.end(number, errno_of(error));
        }
    }

    fn end(&mut self, number: u32, error: i32) {
        // SAFETY: the kernel is done with the slot, or never knew it.
        let issued_ns = unsafe { (*self.slots[number as usize].get()).issued_ns };
        self.ended.push(Completion {
            slot: number,
            error,
            issued_ns: Some(issued_ns),
            completed_ns: Some(self.clock.now_ns()),
        });
    }

    /// Take what the port has, waiting at most `milliseconds` for the first packet.
    fn collect(&mut self, mut milliseconds: u32) -> io::Result<()> {
        let mut packets = [OVERLAPPED_ENTRY::default(); PACKETS];
        loop {
            let taken = self.port.take(&mut packets, milliseconds)?;
            for packet in &packets[..taken] {
                self.open(packet);
            }
            if taken < PACKETS {
                return Ok(());
            }
            milliseconds = 0;
        }
    }

    fn open(&mut self, packet: &OVERLAPPED_ENTRY) {
        if packet.lpOverlapped.is_null() || packet.lpCompletionKey == Key::Alarm as usize {
            return;
        }
        // SAFETY: every packet but the alarm's carries the address of one of the slots.
        let number = unsafe {
            let slot: *const UnsafeCell<Slot> = packet.lpOverlapped.cast();
            slot.offset_from(self.slots.as_ptr()) as u32
        };
        let moved = packet.dwNumberOfBytesTransferred;
        self.pending -= 1;
        // SAFETY: the kernel is done with the slot: its packet has come.
        let (status, io) = unsafe {
            let slot = self.slots[number as usize].get();
            ((*slot).overlapped.Internal as i32, (*slot).io)
        };
        if packet.lpCompletionKey == Key::Flush as usize {
            match (io.op, moved) {
                (Op::Write, 0) if self.abandoned => {
                    self.end(number, errno_of(ERROR_OPERATION_ABORTED))
                }
                (Op::Write, 0) => self.transfer(number), // the flush before the write is done
                (_, error) => self.end(number, errno_of(error)),
            }
            return;
        }
        let error = if status < 0 {
            // SAFETY: translates a number.
            errno_of(unsafe { RtlNtStatusToDosError(status) })
        } else if moved < io.size_bytes {
            ERROR_TARGET_ENDED // a file's transfer falls short at its end, and nowhere else
        } else {
            0
        };
        self.end(number, error);
    }
}

impl Device for OverlappedDevice {
    fn stage(&mut self, number: u32, io: &Io) -> io::Result<()> {
        let address = match io.op {
            Op::Read => self.reads.address(number),
            Op::Write => {
                self.writes
                    .prepare(number, io.row, io.size_bytes as usize)
                    .0
            }
            Op::Flush => null_mut(),
        };
        let overlapped = OVERLAPPED {
            Anonymous: OVERLAPPED_0 {
                Anonymous: OVERLAPPED_0_0 {
                    Offset: io.offset_bytes as u32,
                    OffsetHigh: (io.offset_bytes >> 32) as u32,
                },
            },
            ..OVERLAPPED::default()
        };
        // SAFETY: a free slot, which the kernel does not know.
        unsafe {
            *self.slots[number as usize].get() = Slot {
                overlapped,
                io: *io,
                address,
                issued_ns: 0,
            };
        }
        self.staged.push(number);
        Ok(())
    }

    fn submit(&mut self) -> io::Result<bool> {
        for at in 0..self.staged.len() {
            self.start(self.staged[at]);
        }
        self.staged.clear();
        Ok(false)
    }

    fn reap(&mut self, seen: &mut Vec<Completion>) -> io::Result<()> {
        if self.pending > 0 {
            self.collect(0)?;
        }
        seen.append(&mut self.ended);
        Ok(())
    }

    fn wait(&mut self, timeout_ns: i64) -> io::Result<()> {
        self.submit()?;
        if !self.ended.is_empty() {
            return Ok(());
        }
        let asleep_ns = timeout_ns - self.alarm.lateness_ns();
        if asleep_ns <= 0 {
            return self.collect(0);
        }
        self.alarm.set(asleep_ns)?;
        self.collect((asleep_ns / 1_000_000) as u32 + PATIENCE_MS)
    }

    fn abandon(&mut self) {
        self.abandoned = true;
        for file in self.targets.iter().flat_map(Target::handles) {
            // SAFETY: the file is open; null stands for everything this process has under way on it.
            unsafe { CancelIoEx(file.as_raw_handle(), null()) };
        }
        let until_ns = self.clock.now_ns() + i64::from(CANCEL_MS) * 1_000_000;
        while self.pending > 0 && self.clock.now_ns() < until_ns {
            if self.collect(CANCEL_MS).is_err() {
                return;
            }
        }
    }
}

impl Drop for OverlappedDevice {
    fn drop(&mut self) {
        if self.pending > 0 {
            return; // what the kernel may still write to stays
        }
        // SAFETY: each is dropped once and not used again; nothing is in flight.
        unsafe {
            ManuallyDrop::drop(&mut self.flusher);
            ManuallyDrop::drop(&mut self.alarm);
            ManuallyDrop::drop(&mut self.targets);
            ManuallyDrop::drop(&mut self.slots);
            ManuallyDrop::drop(&mut self.reads);
            ManuallyDrop::drop(&mut self.writes);
        }
    }
}
