//! Windows has no overlapped flush: `FlushFileBuffers` returns when it is done. So threads call it, and tell the port.

use std::io;
use std::os::windows::io::AsRawHandle;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

use windows_sys::Win32::Foundation::GetLastError;
use windows_sys::Win32::Storage::FileSystem::FlushFileBuffers;
use windows_sys::Win32::System::IO::OVERLAPPED;

use super::port::{Key, Port};
use super::target::Target;

/// Targets beyond this many share threads.
const THREADS_MAX: usize = 32;

/// A flush to carry out: which target, and the address that its packet is to carry.
struct Task {
    target: usize,
    overlapped: *const OVERLAPPED,
}

// SAFETY: the address is handed back to the port and never followed.
unsafe impl Send for Task {}

/// Threads that flush; flushes of one target are carried out in order.
pub struct Flusher {
    threads: Vec<(Sender<Task>, JoinHandle<()>)>,
}

impl Flusher {
    /// Threads for `targets`, one each while they are few; none where nothing can be written.
    pub fn new(targets: &Arc<Vec<Target>>, port: &Arc<Port>) -> io::Result<Self> {
        let many = if targets.iter().any(Target::writable) {
            targets.len().min(THREADS_MAX)
        } else {
            0
        };
        let mut threads = Vec::with_capacity(many);
        for _ in 0..many {
            let (sender, tasks) = channel::<Task>();
            let (targets, port) = (Arc::clone(targets), Arc::clone(port));
            let thread = std::thread::Builder::new()
                .name("iotrace-flusher".into())
                .stack_size(64 << 10)
                .spawn(move || {
                    for task in tasks {
                        let error = flush(&targets[task.target]);
                        if port.post(Key::Flush, error, task.overlapped).is_err() {
                            return;
                        }
                    }
                })?;
            threads.push((sender, thread));
        }
        Ok(Self { threads })
    }

    /// Flush a target; a packet with `overlapped` tells the end. False if no thread can.
    pub fn start(&self, target: usize, overlapped: *const OVERLAPPED) -> bool {
        !self.threads.is_empty()
            && self.threads[target % self.threads.len()]
                .0
                .send(Task { target, overlapped })
                .is_ok()
    }
}

fn flush(target: &Target) -> u32 {
    // SAFETY: the handle is open as long as this thread holds the targets.
    let done = unsafe { FlushFileBuffers(target.plain().as_raw_handle()) };
    if done == 0 {
        // SAFETY: reads the thread's own last error.
        unsafe { GetLastError() }
    } else {
        0
    }
}

impl Drop for Flusher {
    fn drop(&mut self) {
        for (sender, thread) in self.threads.drain(..) {
            drop(sender);
            let _ = thread.join();
        }
    }
}
