//! Block-layer events of Linux, from blktrace's binary files or the texts of blkparse and perf, as I/Os.

mod binary;
#[cfg(feature = "python")]
mod bindings;
mod blkparse;
mod event;
mod lines;
mod perf;
mod reader;
mod remaps;
mod sequences;

#[cfg(feature = "python")]
pub use bindings::register;

/// Everything that is asked of a file, in small batches.
#[cfg(fuzzing)]
pub fn fuzz(path: &std::path::Path, kind: &str) -> Result<(), crate::error::Unreadable> {
    let mut reader = reader::Reader::open(&[path.to_owned()], kind)?;
    while let Some(rows) = reader.next_rows(100)? {
        reader.ios(&rows).expect("rows");
        reader.take_devices();
        reader.take_threads().expect("threads");
    }
    reader.take_partitions();
    Ok(())
}
