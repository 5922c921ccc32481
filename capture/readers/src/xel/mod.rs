//! Extended Events files of SQL Server (.xel): two walks, one to learn what is there, one to hand it over.

#[cfg(feature = "python")]
mod bindings;
mod bytes;
mod container;
mod events;
mod meaning;
mod metadata;
mod rows;
mod scan;
mod sequence;
mod tables;
mod values;

#[cfg(feature = "python")]
pub use bindings::register;

/// Everything that is asked of a file, in small batches.
#[cfg(fuzzing)]
pub fn fuzz(path: &std::path::Path) -> Result<(), crate::error::Unreadable> {
    let scan = scan::scan(path, &mut |_, _| true)?;
    let mut reader = rows::Reader::new(path.to_owned(), scan);
    while let Some(batches) = reader.next(100)? {
        batches.finish().expect("tables");
    }
    reader.files();
    reader.counts();
    Ok(())
}
