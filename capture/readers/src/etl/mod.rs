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

#[cfg(feature = "python")]
mod bindings;
mod clock;
mod columns;
mod container;
mod counts;
mod decode;
mod decode_files;
mod decode_requests;
mod devices;
mod events;
mod extents;
mod facts;
mod fields;
mod flags;
mod header;
mod inspect;
mod letters;
mod merge;
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

#[cfg(feature = "python")]
pub use bindings::register;
use facts::Origin;
use header::{Compression, LogHeader};
use inspect::inspect;
use read::{KEPT_EVENTS, open, read};
use tables::{devices, files, processes};
use trace::Trace;

/// Everything that is asked of a log, in small batches and with most events decoded twice.
#[cfg(fuzzing)]
pub fn fuzz(path: &std::path::Path) -> Result<(), crate::error::Unreadable> {
    let inspected = inspect(path, &mut || true);
    let log = read(path, 1, 64, &mut |_, _| true)?;
    let mut trace = Trace::new(log);
    devices(&trace).expect("devices");
    let mut rows = 0;
    while let Some(batch) = trace.next_io(100)? {
        rows += batch.num_rows() as u64;
        files(&trace, 0).expect("files");
    }
    processes(&trace, 0).expect("processes");
    assert_eq!(trace.rows.iter().sum::<u64>(), rows);
    assert!(rows <= trace.counts.events);
    assert_eq!(inspected?.events, trace.counts.events);
    Ok(())
}
