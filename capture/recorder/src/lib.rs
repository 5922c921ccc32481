//! The live Linux recorder: block trace events out of tracefs ring buffers, paired into I/Os.

#[cfg(target_os = "linux")]
mod buffers;
pub mod event;
#[cfg(target_os = "linux")]
mod filesystem;
pub mod format;
pub mod lifecycle;
pub mod page;
mod pending;
#[cfg(target_os = "linux")]
mod processes;
mod rows;
#[cfg(target_os = "linux")]
mod session;
mod tracker;

mod bindings;
