//! Which processes use a recorded file system: those that have files open there, and those that open one later.
//!
//! The kernel traces the calls of these alone, of the threads they make and of the processes they start. Who opens a file
//! later is told by fanotify, which watches a file system and nothing else.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;

use super::scan::kernel_number;

/// The watcher looks this often whether it is still wanted.
const IDLE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 200_000_000,
};
/// The kernel reads a list of numbers a page at a time.
const WRITE_BYTES_MAX: usize = 4000;

/// Threads of the processes that have a file or folder of the file systems `numbers` open, and these files.
#[must_use]
pub fn present(numbers: &[u32], own_process: i32) -> (Vec<i32>, Vec<PathBuf>) {
    let (mut threads, mut files) = (Vec::new(), HashSet::new());
    let is_there = |path: &Path| {
        std::fs::metadata(path).is_ok_and(|found| numbers.contains(&kernel_number(found.dev())))
    };
    for process in numbers_in(Path::new("/proc")) {
        if process == own_process {
            continue;
        }
        let folder = PathBuf::from(format!("/proc/{process}"));
        let mut uses = is_there(&folder.join("cwd"));
        for descriptor in std::fs::read_dir(folder.join("fd"))
            .into_iter()
            .flatten()
            .flatten()
        {
            let link = descriptor.path();
            if is_there(&link) {
                uses = true;
                files.extend(std::fs::read_link(&link));
            }
        }
        if uses {
            threads.extend(numbers_in(&folder.join("task")));
        }
    }
    (threads, files.into_iter().collect())
}

fn numbers_in(folder: &Path) -> Vec<i32> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

/// The list of threads that a tracing instance is limited to.
#[derive(Clone, Debug)]
pub struct Traced(PathBuf);

impl Traced {
    /// Of the instance in `folder`.
    #[must_use]
    pub fn of(folder: &Path) -> Self {
        Self(folder.join("set_event_pid"))
    }

    /// Add `threads`.
    pub fn add(&self, threads: &[i32]) -> io::Result<()> {
        let mut file = OpenOptions::new().append(true).open(&self.0)?;
        let mut line = String::new();
        for thread in threads {
            let _ = write!(line, "{thread} "); // a string takes everything
            if line.len() > WRITE_BYTES_MAX {
                file.write_all(line.as_bytes())?;
                line.clear();
            }
        }
        if line.is_empty() {
            Ok(())
        } else {
            file.write_all(line.as_bytes())
        }
    }
}

/// Watches for newcomers until it is dropped.
pub struct Openers {
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Openers {
    /// Watch the file systems mounted at `points`, and add who opens a file there to `traced`.
    pub fn watch(points: &[PathBuf], traced: Traced, own_process: i32) -> io::Result<Self> {
        let events = listen(points)?;
        let ended = Arc::new(AtomicBool::new(false));
        let is_over = Arc::clone(&ended);
        let thread = std::thread::Builder::new()
            .name("iotrace-openers".into())
            .spawn(move || follow(events, &traced, own_process, &is_over))?;
        Ok(Self {
            ended,
            thread: Some(thread),
        })
    }
}

impl Drop for Openers {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn listen(points: &[PathBuf]) -> io::Result<File> {
    // With a file identifier instead of a descriptor the kernel opens nothing on our behalf.
    let flags =
        libc::FAN_CLASS_NOTIF | libc::FAN_CLOEXEC | libc::FAN_NONBLOCK | libc::FAN_REPORT_FID;
    // SAFETY: no pointers are passed.
    let descriptor = unsafe { libc::fanotify_init(flags, libc::O_RDONLY as libc::c_uint) };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was just opened and is nobody else's.
    let events = unsafe { File::from_raw_fd(descriptor) };
    for point in points {
        let name = std::ffi::CString::new(point.as_os_str().as_bytes())?;
        // SAFETY: `name` ends with NUL and outlives the call.
        let result = unsafe {
            libc::fanotify_mark(
                events.as_raw_fd(),
                libc::FAN_MARK_ADD | libc::FAN_MARK_FILESYSTEM,
                libc::FAN_OPEN,
                libc::AT_FDCWD,
                name.as_ptr(),
            )
        };
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(events)
}

fn follow(mut events: File, traced: &Traced, own_process: i32, is_over: &AtomicBool) {
    let mut bytes = vec![0; 1 << 16];
    while !is_over.load(Ordering::Relaxed) {
        let mut wanted = [PollFd::new(&events, PollFlags::IN)];
        if poll(&mut wanted, Some(&IDLE)).is_ok_and(|ready| ready == 0) {
            continue;
        }
        let mut openers = HashSet::new();
        while let Ok(length @ 1..) = events.read(&mut bytes) {
            openers.extend(processes_in(&bytes[..length]));
        }
        openers.remove(&own_process);
        let threads: Vec<i32> = openers
            .into_iter()
            .flat_map(|process| numbers_in(Path::new(&format!("/proc/{process}/task"))))
            .collect();
        if !threads.is_empty() {
            let _ = traced.add(&threads); // the instance may be going away
        }
    }
}

/// Process numbers of a buffer of `struct fanotify_event_metadata`.
fn processes_in(mut bytes: &[u8]) -> Vec<i32> {
    const PROCESS: std::ops::Range<usize> = 20..24;
    let mut found = Vec::new();
    while let Some(length) = bytes
        .first_chunk::<4>()
        .map(|word| u32::from_ne_bytes(*word) as usize)
    {
        let (Some(process), Some(rest)) = (bytes.get(PROCESS), bytes.get(length..)) else {
            break;
        };
        let process = i32::from_ne_bytes(process.try_into().expect("four bytes"));
        if process > 0 {
            found.push(process); // 0: of another process namespace, or events were dropped
        }
        if length == 0 {
            break;
        }
        bytes = rest;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_with_an_open_file_is_found_on_its_file_system() {
        let path = std::env::current_exe().unwrap();
        let file = File::open(&path).unwrap();
        let number = kernel_number(file.metadata().unwrap().dev());
        let own = std::process::id() as i32;
        let (threads, files) = present(&[number], 0);
        assert!(threads.contains(&own));
        assert!(files.contains(&path));
        let (threads, _) = present(&[number], own);
        assert!(!threads.contains(&own));
        assert_eq!(present(&[u32::MAX], 0), (vec![], vec![]));
    }

    #[test]
    fn processes_are_read_from_any_bytes() {
        let mut event = vec![0_u8; 44];
        event[..4].copy_from_slice(&44_u32.to_ne_bytes());
        event[20..24].copy_from_slice(&77_i32.to_ne_bytes());
        let two = [event.clone(), event.clone()].concat();
        assert_eq!(processes_in(&two), [77, 77]);
        assert_eq!(processes_in(&two[..50]), [77]);
        event[..4].fill(0);
        assert_eq!(processes_in(&event), [77]);
        assert!(processes_in(&[9]).is_empty());
    }
}
