//! Windows: overlapped I/O past the cache, its completions collected on a port by the one thread that submits.
//!
//! `overlapped` is the device; `target` opens what it plays on, `port` and `alarm` wait, `flusher` makes durable.
//! `alignment` and `errors` are decided without the system, and so are tested everywhere.

mod alignment;
mod errors;

#[cfg(windows)]
mod alarm;
#[cfg(windows)]
mod flusher;
#[cfg(windows)]
mod overlapped;
#[cfg(windows)]
mod port;
#[cfg(windows)]
mod target;

#[cfg(windows)]
pub use overlapped::OverlappedDevice;
