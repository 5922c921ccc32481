//! Ways to a disk that this system has, and what a submitter's thread asks of it.

use std::io;

use crate::clock::MonotonicClock;
use crate::device::{Device, RawFile};
use crate::memory::{ReadMemory, WriteMemory};
use crate::pacer::Pacing;

/// Which way to the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// The best that the system permits.
    Auto,
    /// `io_uring` or an error.
    Uring,
    /// Threads.
    Threads,
    /// Overlapped I/O on a completion port: Windows.
    CompletionPort,
}

/// A device to play on, and how it was come by.
pub struct Opened {
    /// The device.
    pub device: Box<dyn Device>,
    /// Its name: `io_uring`, `threads` or `completion_port`.
    pub name: &'static str,
    /// Why it is not the best there is.
    pub reason: Option<String>,
    /// Why its memory is not registered with the kernel, which costs time with each I/O; none if it is, or cannot be.
    pub unregistered: Option<String>,
    /// The cap on I/Os in flight that it keeps.
    pub in_flight_max: u32,
}

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Wish {
    /// The way.
    pub backend: Backend,
    /// I/Os in flight at most.
    pub in_flight_max: u32,
    /// Largest read.
    pub read_bytes_max: u32,
    /// Largest write.
    pub write_bytes_max: u32,
    /// How many submitters share the memory there is for all.
    pub submitters: usize,
    /// What written data is made from.
    pub seed: u64,
    /// Bypass the cache, on systems where that is said here and not when a file is opened: Windows.
    pub direct: bool,
}

impl Wish {
    fn memory(&self, slots: u32) -> (ReadMemory, WriteMemory) {
        let (slots, sharers) = (slots as usize, self.submitters);
        (
            ReadMemory::new(slots, self.read_bytes_max as usize, sharers),
            WriteMemory::new(slots, self.write_bytes_max as usize, self.seed, sharers),
        )
    }
}

/// Open a device over `files`, on the thread that will use it.
#[cfg(target_os = "linux")]
pub fn open(wish: &Wish, files: &[RawFile], clock: &MonotonicClock) -> io::Result<Opened> {
    use crate::device::threads::{ThreadsDevice, WORKERS_MAX};
    use crate::device::uring::UringDevice;

    if wish.backend == Backend::CompletionPort {
        return Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP));
    }
    let mut reason = None;
    if wish.backend != Backend::Threads {
        let (reads, writes) = wish.memory(wish.in_flight_max);
        match UringDevice::new(files, wish.in_flight_max, reads, writes) {
            Ok(device) => {
                return Ok(Opened {
                    unregistered: device.unregistered().map(String::from),
                    device: Box::new(device),
                    name: "io_uring",
                    reason: None,
                    in_flight_max: wish.in_flight_max,
                });
            }
            Err(problem) if wish.backend == Backend::Uring => return Err(problem),
            Err(problem) => reason = Some(likely_cause(&problem)),
        }
    }
    let most = WORKERS_MAX / wish.submitters.max(1) as u32;
    let slots = wish.in_flight_max.min(most);
    let (reads, writes) = wish.memory(slots);
    let device = ThreadsDevice::new(files, slots, reads, writes, clock.clone())?;
    Ok(Opened {
        device: Box::new(device),
        name: "threads",
        reason,
        unregistered: None,
        in_flight_max: slots,
    })
}

/// Open a device over `files`, on the thread that will use it.
#[cfg(windows)]
pub fn open(wish: &Wish, files: &[RawFile], clock: &MonotonicClock) -> io::Result<Opened> {
    use crate::device::windows::OverlappedDevice;

    if !matches!(wish.backend, Backend::Auto | Backend::CompletionPort) {
        let words = "Windows has completion ports, and neither io_uring nor a use for threads";
        return Err(io::Error::new(io::ErrorKind::Unsupported, words));
    }
    let slots = wish.in_flight_max;
    let (reads, writes) = wish.memory(slots);
    let device = OverlappedDevice::new(files, wish.direct, slots, reads, writes, clock.clone())?;
    Ok(Opened {
        device: Box::new(device),
        name: "completion_port",
        reason: None,
        unregistered: None,
        in_flight_max: slots,
    })
}

/// Make this thread wake up in time; true if it goes before others, which takes root and precise pacing: what goes before
/// others goes before the storage's own threads too.
#[cfg(target_os = "linux")]
#[must_use]
pub fn prefer_this_thread(pacing: Pacing) -> bool {
    /// The nicest value to oneself that nice(2) knows.
    const HIGHEST_PRIORITY: i32 = -20;
    // A thread's timers may be 50 µs late unless it asks for better.
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
    if pacing == Pacing::Gentle {
        take_short_turns();
        return false;
    }
    // Of this thread alone. Without it the run is as exact as the machine is quiet.
    rustix::process::setpriority_process(None, HIGHEST_PRIORITY).is_ok()
}

/// Ask for the processor for a short time at once, and get it the sooner: a waking thread whose time slice is shorter goes
/// before one that computes, at the same share of the processor (EEVDF, Linux 6.12; older kernels ignore it).
#[cfg(target_os = "linux")]
fn take_short_turns() {
    /// The shortest there is.
    const SLICE_NS: u64 = 100_000;
    /// `struct sched_attr` of linux/sched/types.h, first version.
    #[repr(C)]
    struct Attributes {
        size: u32,
        policy: u32,
        flags: u64,
        nice: i32,
        priority: u32,
        runtime_ns: u64,
        deadline_ns: u64,
        period_ns: u64,
    }
    // Given back as it is: the call sets all.
    let Ok(nice) = rustix::process::getpriority_process(None) else {
        return;
    };
    let wanted = Attributes {
        size: size_of::<Attributes>() as u32,
        policy: libc::SCHED_OTHER as u32,
        flags: 0,
        nice,
        priority: 0,
        runtime_ns: SLICE_NS,
        deadline_ns: 0,
        period_ns: 0,
    };
    // SAFETY: of this thread alone; the kernel reads the structure. SCHED_BATCH and its like are left as somebody chose them.
    unsafe {
        if libc::sched_getscheduler(0) == libc::SCHED_OTHER {
            libc::syscall(libc::SYS_sched_setattr, 0, &raw const wanted, 0);
        }
    }
}

/// Make this thread wake up in time; true if it goes before others.
#[cfg(windows)]
#[must_use]
pub fn prefer_this_thread(pacing: Pacing) -> bool {
    use windows_sys::Win32::System::Threading::{
        GetCurrentThread, SetThreadPriority, THREAD_PRIORITY_TIME_CRITICAL,
    };
    // SAFETY: of this thread alone; takes numbers.
    pacing == Pacing::Precise
        && unsafe { SetThreadPriority(GetCurrentThread(), THREAD_PRIORITY_TIME_CRITICAL) != 0 }
}

/// Why a system refuses to make an `io_uring`, in words.
#[cfg(target_os = "linux")]
fn likely_cause(problem: &io::Error) -> String {
    match problem.raw_os_error() {
        Some(libc::ENOSYS) => "this kernel has no io_uring".into(),
        Some(libc::EPERM) => {
            "io_uring is switched off (sysctl kernel.io_uring_disabled) or forbidden by a sandbox"
                .into()
        }
        Some(libc::EACCES) => "io_uring is forbidden by a security module".into(),
        Some(libc::ENOMEM) => "too little lockable memory for io_uring (ulimit -l)".into(),
        _ => format!("io_uring failed to start: {problem}"),
    }
}
