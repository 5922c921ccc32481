//! What the pacer plays on: one shape, one file per way to reach a disk.

#[cfg(target_os = "linux")]
pub mod room;
pub mod simulated;
#[cfg(test)]
mod tests;
#[cfg(target_os = "linux")]
pub mod threads;
#[cfg(target_os = "linux")]
pub mod uring;
#[cfg(any(windows, test))]
pub mod windows;

use std::io;

use crate::plan::Io;

/// Error of a transfer that met the end of its target: `ENODATA`.
pub const ERROR_TARGET_ENDED: i32 = 61;

/// The end of one I/O.
#[derive(Clone, Copy, Debug)]
pub struct Completion {
    /// The slot it was staged in, free again.
    pub slot: u32,
    /// 0 or a Linux errno, also where the system is another one.
    pub error: i32,
    /// When it entered the kernel, where the device knows better than the pacer.
    pub issued_ns: Option<i64>,
    /// When it ended, where the device knows better than the pacer.
    pub completed_ns: Option<i64>,
}

/// What an open target is to the system: a file descriptor, or the value of a handle.
#[cfg(unix)]
pub type RawFile = std::os::fd::RawFd;
/// What an open target is to the system: a file descriptor, or the value of a handle.
#[cfg(windows)]
pub type RawFile = isize;

/// A disk, or several, that take I/Os in numbered slots. No call allocates; only `wait` blocks, or ought to.
pub trait Device {
    /// Note an I/O for the next `submit`, or hand it over already. The slot must be free and below the number the device was made for.
    fn stage(&mut self, slot: u32, io: &Io) -> io::Result<()>;
    /// Hand everything staged to the kernel. True if the kernel made this thread wait, because a disk had no room left.
    /// An error means that the device takes no I/O any more.
    fn submit(&mut self) -> io::Result<bool>;
    /// Collect what has completed, without waiting.
    fn reap(&mut self, seen: &mut Vec<Completion>) -> io::Result<()>;
    /// Hand over what is staged, and return once something completed, or after `timeout_ns`, whichever comes first. May
    /// return early.
    fn wait(&mut self, timeout_ns: i64) -> io::Result<()>;
    /// Called instead of a last `reap` when I/Os are left in flight: nothing they use may be freed.
    fn abandon(&mut self);
}
