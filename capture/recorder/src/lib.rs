//! The live Linux recorder: block trace events out of tracefs ring buffers, paired into I/Os.
#![allow(
    clippy::missing_panics_doc,
    reason = "where it panics, it is itself at fault"
)]

#[cfg(target_os = "linux")]
pub mod buffers;
#[cfg(target_os = "linux")]
mod cpu_buffer;
pub mod event;
#[cfg(all(target_os = "linux", feature = "python"))]
mod filesystem;
pub mod format;
pub mod lifecycle;
#[cfg(target_os = "linux")]
mod merge;
pub mod page;
#[cfg(target_os = "linux")]
pub mod processes;
pub mod rows;
#[cfg(target_os = "linux")]
pub mod session;

#[cfg(feature = "python")]
mod bindings;
