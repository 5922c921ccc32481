//! A completion port, as far as the device needs one.

use std::io;
use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};
use std::ptr::null_mut;

use windows_sys::Win32::Foundation::{HANDLE, INVALID_HANDLE_VALUE, WAIT_TIMEOUT};
use windows_sys::Win32::System::IO::{
    CreateIoCompletionPort, GetQueuedCompletionStatusEx, OVERLAPPED, OVERLAPPED_ENTRY,
    PostQueuedCompletionStatus,
};

/// What a packet tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Key {
    /// The system ended a transfer.
    Transfer = 0,
    /// A flusher ended a flush; the packet's byte count is the Windows error.
    Flush = 1,
    /// The alarm went off.
    Alarm = 2,
}

/// A queue in the kernel that takes packets from files and threads, and wakes the one thread that waits for them.
pub struct Port(OwnedHandle);

impl Port {
    /// An empty port for one waiting thread.
    pub fn new() -> io::Result<Self> {
        // SAFETY: makes a new port; nothing is passed but numbers.
        let port = unsafe { CreateIoCompletionPort(INVALID_HANDLE_VALUE, null_mut(), 0, 1) };
        owned(port).map(Self)
    }

    /// From now on the transfers on `file` end here.
    pub fn receive_from(&self, file: &OwnedHandle) -> io::Result<()> {
        // SAFETY: both handles are open.
        let port = unsafe {
            CreateIoCompletionPort(file.as_raw_handle(), self.raw(), Key::Transfer as usize, 0)
        };
        if port.is_null() {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }

    /// Put a packet into the queue.
    pub fn post(&self, key: Key, number: u32, overlapped: *const OVERLAPPED) -> io::Result<()> {
        // SAFETY: the port is open; the pointer is passed on and not followed.
        let posted =
            unsafe { PostQueuedCompletionStatus(self.raw(), number, key as usize, overlapped) };
        if posted == 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }

    /// Take packets, as many as there are and fit, waiting at most `milliseconds` for the first.
    pub fn take(&self, packets: &mut [OVERLAPPED_ENTRY], milliseconds: u32) -> io::Result<usize> {
        let mut taken = 0;
        // SAFETY: the port is open, and the packets have room for as many as is said.
        let done = unsafe {
            GetQueuedCompletionStatusEx(
                self.raw(),
                packets.as_mut_ptr(),
                packets.len() as u32,
                &raw mut taken,
                milliseconds,
                0,
            )
        };
        if done != 0 {
            return Ok(taken as usize);
        }
        match io::Error::last_os_error() {
            problem if problem.raw_os_error() == Some(WAIT_TIMEOUT as i32) => Ok(0),
            problem => Err(problem),
        }
    }

    fn raw(&self) -> HANDLE {
        self.0.as_raw_handle()
    }
}

/// A handle that the system has just made, to be closed when dropped; the last error where it made none.
pub fn owned(handle: HANDLE) -> io::Result<OwnedHandle> {
    if handle.is_null() || handle == INVALID_HANDLE_VALUE {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a valid handle that nobody else closes.
    Ok(unsafe { OwnedHandle::from_raw_handle(handle) })
}
