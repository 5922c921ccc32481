//! Waking a thread that waits at a completion port, to the fraction of a millisecond.
//!
//! The port's own timeout has the resolution of the system's tick, up to 15.6 ms. So a thread of its own waits for a
//! high-resolution timer (Windows 10 1803, Server 2019) and posts a packet when it expires. On older systems it is an
//! ordinary timer, and the tick is set to 1 ms while the alarm lives.

use std::io;
use std::os::windows::io::{AsRawHandle, OwnedHandle};
use std::ptr::{null, null_mut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use windows_sys::Win32::Foundation::WAIT_OBJECT_0;
use windows_sys::Win32::Media::{timeBeginPeriod, timeEndPeriod};
use windows_sys::Win32::System::Threading::{
    CREATE_WAITABLE_TIMER_HIGH_RESOLUTION, CreateWaitableTimerExW, GetCurrentThread, INFINITE,
    SetThreadPriority, SetWaitableTimer, THREAD_PRIORITY_TIME_CRITICAL, TIMER_ALL_ACCESS,
    WaitForSingleObject,
};

use super::port::{Key, Port, owned};

/// High-resolution timers have been seen to expire up to half a millisecond late.
const FINE_LATENESS_NS: i64 = 600_000;
/// An ordinary timer expires at the first tick of 1 ms after its time, give or take one.
const COARSE_LATENESS_NS: i64 = 2_000_000;

/// Posts a packet to a port at a given time.
pub struct Alarm {
    timer: Arc<OwnedHandle>,
    quit: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    coarse: bool,
}

impl Alarm {
    /// An alarm that is not set.
    pub fn new(port: Arc<Port>) -> io::Result<Self> {
        let (timer, coarse) = match timer(CREATE_WAITABLE_TIMER_HIGH_RESOLUTION) {
            Ok(timer) => (timer, false),
            Err(_) => (timer(0)?, true),
        };
        if coarse {
            // SAFETY: takes a number. Where it is refused, waits are longer and deadlines spun for sooner.
            unsafe { timeBeginPeriod(1) };
        }
        let timer = Arc::new(timer);
        let quit = Arc::new(AtomicBool::new(false));
        let mut alarm = Self {
            timer: Arc::clone(&timer),
            quit: Arc::clone(&quit),
            thread: None,
            coarse,
        };
        let thread = std::thread::Builder::new()
            .name("iotrace-alarm".into())
            .stack_size(64 << 10)
            .spawn(move || ring(&timer, &quit, &port))?;
        alarm.thread = Some(thread);
        Ok(alarm)
    }

    /// By how much it may go off late, and should be set early.
    pub fn lateness_ns(&self) -> i64 {
        if self.coarse {
            COARSE_LATENESS_NS
        } else {
            FINE_LATENESS_NS
        }
    }

    /// Go off in `delay_ns`, and not at the time set before.
    pub fn set(&self, delay_ns: i64) -> io::Result<()> {
        let relative = -(delay_ns / 100).max(1);
        // SAFETY: the timer is open, and reads one number.
        let set = unsafe {
            SetWaitableTimer(
                self.timer.as_raw_handle(),
                &raw const relative,
                0,
                None,
                null(),
                0,
            )
        };
        if set == 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }
}

/// A timer that lets one waiting thread go each time it expires.
fn timer(flags: u32) -> io::Result<OwnedHandle> {
    // SAFETY: neither attributes nor a name are given.
    owned(unsafe { CreateWaitableTimerExW(null_mut(), null(), flags, TIMER_ALL_ACCESS) })
}

fn ring(timer: &OwnedHandle, quit: &AtomicBool, port: &Port) {
    // SAFETY: of this thread. A refusal makes the alarm less exact on a busy machine.
    unsafe { SetThreadPriority(GetCurrentThread(), THREAD_PRIORITY_TIME_CRITICAL) };
    // SAFETY: the timer is open as long as this thread holds it.
    while unsafe { WaitForSingleObject(timer.as_raw_handle(), INFINITE) } == WAIT_OBJECT_0 {
        if quit.load(Ordering::Acquire) || port.post(Key::Alarm, 0, null()).is_err() {
            return;
        }
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        self.quit.store(true, Ordering::Release);
        let told = self.set(0).is_ok();
        if let Some(thread) = self.thread.take()
            && told
        {
            let _ = thread.join();
        }
        if self.coarse {
            // SAFETY: takes back what `new` asked for.
            unsafe { timeEndPeriod(1) };
        }
    }
}
