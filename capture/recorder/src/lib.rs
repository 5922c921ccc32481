//! The live Linux recorder: block trace events out of tracefs ring buffers, paired into I/Os.

pub mod event;
pub mod format;
pub mod page;
mod pending;
#[cfg(target_os = "linux")]
mod processes;
mod rows;
#[cfg(target_os = "linux")]
mod session;
mod tracker;

mod bindings;
