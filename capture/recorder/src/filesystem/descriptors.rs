//! What a thread's descriptor leads to, where the kernel's events do not name the file.

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use super::scan::kernel_number;

/// How long a descriptor is believed to lead to the same file.
const BELIEVED: Duration = Duration::from_millis(200);
/// Descriptors remembered before the memory of them starts anew.
const DESCRIPTORS_MAX: usize = 1 << 16;

/// Device number and inode; none for what is not a regular file.
type FileKey = Option<(u32, u64)>;

/// Descriptors seen lately, by thread.
#[derive(Debug, Default)]
pub struct Descriptors(HashMap<(i32, i32), (FileKey, Instant)>);

impl Descriptors {
    /// The file that a thread's descriptor leads to now, or led to a moment ago.
    pub fn behind(&mut self, thread: i32, descriptor: i32) -> FileKey {
        let key = (thread, descriptor);
        if let Some(&(known, at)) = self.0.get(&key)
            && at.elapsed() < BELIEVED
        {
            return known;
        }
        let found = std::fs::metadata(format!("/proc/{thread}/fd/{descriptor}")).ok();
        let found = found
            .filter(std::fs::Metadata::is_file)
            .map(|found| (kernel_number(found.dev()), found.ino()));
        if self.0.len() >= DESCRIPTORS_MAX {
            self.0.clear();
        }
        self.0.insert(key, (found, Instant::now()));
        found
    }
}
