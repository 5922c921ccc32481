//! Windows event trace logs (.etl): disk I/O with its files, threads, processes and disks, on any system.
//!
//! Method: the buffers of a log are independent, so threads decode them in any order, keeping only what belongs to
//! disk I/O (about one event in fifty). What needs order is resolved afterwards by timestamp: which start belongs to a
//! completion, what a reused file key, thread or process number meant at that moment.
//!
//! Limits: 80 bytes of memory for each disk I/O, 30 more where starts are logged; LZNT1 and Xpress-Huffman compression,
//! logs of Vista and older, file-level and `StorPort` events are not read. No size in a file is trusted: a buffer never
//! takes more than the session's buffer size, at most 64 MiB, and a whole file no more than 100 times its own size plus
//! 256 MiB.

mod clock;
mod container;
mod decode;
mod events;
mod facts;
mod fields;
mod flags;
mod header;
mod inspect;
mod letters;
mod pairing;
mod paths;
mod processes;
mod read;
mod sequence;
mod tables;
mod timeline;
mod trace;

pub use header::LogHeader;
pub use inspect::inspect;
pub use read::{open, read};
pub use tables::{devices, files, next_io, processes};
pub use trace::Trace;
