//! Starts a run: picks the device, gives the pacer a thread of its own, and hands back its outcome.

use std::io;
use std::num::NonZeroU64;
use std::os::fd::RawFd;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use crate::clock::MonotonicClock;
use crate::device::threads::{ThreadsDevice, WORKERS_MAX};
use crate::device::uring::UringDevice;
use crate::memory::{ReadMemory, WriteMemory};
use crate::outcome::Outcome;
use crate::pacer::{Settings, play};
use crate::plan::Plan;
use crate::progress::Progress;

/// Time between the making of everything and the run's 0, so that the first deadlines are not overdue.
const LEAD_NS: i64 = 5_000_000;

/// The nicest value to oneself that nice(2) knows.
const HIGHEST_PRIORITY: i32 = -20;

/// Which way to the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// `io_uring` where the system permits it, else threads.
    Auto,
    /// `io_uring` or an error.
    Uring,
    /// Threads.
    Threads,
}

/// How a run was set up.
#[derive(Clone, Debug)]
pub struct SetUp {
    /// `io_uring` or `threads`.
    pub backend: &'static str,
    /// Why it is not `io_uring`.
    pub reason: Option<String>,
    /// UTC at the run's 0, in nanoseconds since 1970.
    pub start_utc_ns: i64,
    /// The cap on I/Os in flight that holds: threads take fewer than asked for.
    pub in_flight_max: u32,
    /// Whether the pacer's thread goes before others.
    pub preferred: bool,
}

/// A run under way.
pub struct Run {
    /// Its counters.
    pub progress: Arc<Progress>,
    /// Its plan.
    pub plan: Arc<Plan>,
    /// How it was set up.
    pub set_up: SetUp,
    thread: JoinHandle<Outcome>,
}

impl Run {
    /// Start playing `plan` on open `files`, which must stay open until `finish` returns.
    ///
    /// Reads take at most 64 MiB of memory and writes at most 272 MiB, or the largest single I/O where that is more.
    pub fn start(
        plan: Plan,
        files: Vec<RawFd>,
        settings: Settings,
        backend: Backend,
        seed: u64,
        done: mpsc::Sender<()>,
    ) -> io::Result<Self> {
        let progress = Arc::new(Progress::default());
        let plan = Arc::new(plan);
        let (ready, started) = mpsc::channel();
        let (shared_plan, shared_progress) = (Arc::clone(&plan), Arc::clone(&progress));
        let thread = std::thread::Builder::new()
            .name("iotrace-pacer".into())
            .spawn(move || {
                let outcome = set_up_and_play(
                    &shared_plan,
                    &files,
                    settings,
                    backend,
                    seed,
                    &shared_progress,
                    &ready,
                );
                drop(done);
                outcome
            })?;
        let set_up = started
            .recv()
            .map_err(|_| io::Error::other("the engine's thread ended"))??;
        Ok(Self {
            progress,
            plan,
            set_up,
            thread,
        })
    }

    /// Wait for the end and return what came of it.
    #[must_use]
    pub fn finish(self) -> (Outcome, Arc<Plan>) {
        (
            self.thread
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            self.plan,
        )
    }
}

fn set_up_and_play(
    plan: &Plan,
    files: &[RawFd],
    settings: Settings,
    backend: Backend,
    seed: u64,
    progress: &Progress,
    ready: &mpsc::Sender<io::Result<SetUp>>,
) -> Outcome {
    // A thread's timers may be 50 µs late unless it asks for better.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
    // Of this thread alone. Only root may; without it the run is as exact as the machine is quiet.
    let preferred = rustix::process::setpriority_process(None, HIGHEST_PRIORITY).is_ok();
    let memory = |slots: u32| {
        (
            ReadMemory::new(slots as usize, plan.read_bytes_max as usize),
            WriteMemory::new(slots as usize, plan.write_bytes_max as usize, seed),
        )
    };
    let announce = |backend, reason, in_flight_max, clock: &MonotonicClock| {
        let set_up = SetUp {
            backend,
            reason,
            start_utc_ns: clock.zero_utc_ns(),
            in_flight_max,
            preferred,
        };
        let _ = ready.send(Ok(set_up));
    };
    let mut reason = None;
    if backend != Backend::Threads {
        let (read_memory, write_memory) = memory(settings.in_flight_max);
        match UringDevice::new(files, settings.in_flight_max, read_memory, write_memory) {
            Ok(mut device) => {
                let clock = MonotonicClock::starting_in(LEAD_NS);
                announce("io_uring", None, settings.in_flight_max, &clock);
                return play(plan, &clock, &mut device, settings, progress);
            }
            Err(problem) if backend == Backend::Uring => {
                let _ = ready.send(Err(problem));
                return Outcome::with_capacity(0);
            }
            Err(problem) => reason = Some(likely_cause(&problem)),
        }
    }
    let settings = Settings {
        in_flight_max: settings.in_flight_max.min(WORKERS_MAX),
        ..settings
    };
    let (read_memory, write_memory) = memory(settings.in_flight_max);
    let clock = MonotonicClock::starting_in(LEAD_NS);
    match ThreadsDevice::new(
        files,
        settings.in_flight_max,
        read_memory,
        write_memory,
        clock,
    ) {
        Ok(mut device) => {
            announce("threads", reason, settings.in_flight_max, &clock);
            play(plan, &clock, &mut device, settings, progress)
        }
        Err(problem) => {
            let _ = ready.send(Err(problem));
            Outcome::with_capacity(0)
        }
    }
}

/// Why a system refuses to make an `io_uring`, in words.
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
