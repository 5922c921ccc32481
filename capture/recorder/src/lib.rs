//! The live Linux recorder: block trace events out of tracefs ring buffers, paired into I/Os.

#[cfg(target_os = "linux")]
mod buffers;
#[cfg(target_os = "linux")]
mod cpu_buffer;
pub mod event;
#[cfg(target_os = "linux")]
mod filesystem;
pub mod format;
pub mod lifecycle;
#[cfg(target_os = "linux")]
mod merge;
pub mod page;
#[cfg(target_os = "linux")]
mod processes;
mod rows;
#[cfg(target_os = "linux")]
mod session;

mod bindings;
