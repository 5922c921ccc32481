//! Block-layer events of Linux, from blktrace's binary files or the texts of blkparse and perf, as I/Os.

mod binary;
mod bindings;
mod blkparse;
mod event;
mod lines;
mod pairing;
mod perf;
mod reader;

pub use bindings::register;
