//! Windows event trace logs (.etl): I/O of the file system, disk and port driver, with its files, threads, processes and
//! disks, on any system.
//!
//! Method: the buffers of a log are independent, so threads decode them in any order, keeping names, threads, processes and
//! disks, and a bounded number of events of I/O; of other buffers with I/O only where they lie and when they begin. Then the
//! events of I/O are gone through in order of time, those left out being decoded again; what a reused file key, thread or
//! process number meant at that moment is known by now.
//!
//! Limits: memory grows with names, threads, processes and I/O in flight, not with I/O. Logs of Vista and older are not
//! read. No size in a file is trusted: a buffer never takes more than the session's buffer size, at most 64 MiB, and a whole
//! file no more than 100 times its own size plus 256 MiB.

mod clock;
mod container;
mod counts;
mod decode;
mod decode_files;
mod decode_requests;
mod devices;
mod events;
mod facts;
mod fields;
mod flags;
mod header;
mod inspect;
mod letters;
mod names;
mod operations;
mod pairing;
mod paths;
mod processes;
mod read;
mod requests;
mod rows;
mod sequence;
mod stream;
mod tables;
mod timeline;
mod trace;

pub use facts::Origin;
pub use header::{Compression, LogHeader};
pub use inspect::inspect;
pub use read::{KEPT_EVENTS, open, read};
pub use tables::{devices, files, ios, processes};
pub use trace::Trace;
