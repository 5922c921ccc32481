//! Windows: the performance counter, which is monotonic and the same on every processor, and the precise system time.

use std::sync::OnceLock;

use windows_sys::Win32::Foundation::FILETIME;
use windows_sys::Win32::System::Performance::{QueryPerformanceCounter, QueryPerformanceFrequency};
use windows_sys::Win32::System::SystemInformation::GetSystemTimePreciseAsFileTime;

use windows_sys::Win32::System::Threading::{GetCurrentProcess, GetProcessTimes};

use super::ticks::{ns_of_ticks, utc_ns_of_file_time};

/// Nanoseconds since some instant in the past.
pub fn monotonic_ns() -> i64 {
    static TICKS_PER_SECOND: OnceLock<i64> = OnceLock::new();
    let ticks_per_second = *TICKS_PER_SECOND.get_or_init(|| {
        let mut frequency = 0;
        // SAFETY: writes one number; cannot fail since Windows XP.
        unsafe { QueryPerformanceFrequency(&raw mut frequency) };
        frequency.max(1)
    });
    let mut ticks = 0;
    // SAFETY: writes one number; cannot fail since Windows XP.
    unsafe { QueryPerformanceCounter(&raw mut ticks) };
    ns_of_ticks(ticks, ticks_per_second)
}

/// Nanoseconds since 1970.
pub fn utc_ns() -> i64 {
    let mut time = FILETIME::default();
    // SAFETY: writes one structure.
    unsafe { GetSystemTimePreciseAsFileTime(&raw mut time) };
    utc_ns_of_file_time(intervals(time))
}

/// Processor time that this process has taken, in steps of the system's tick.
#[must_use]
pub fn processor_time_ns() -> i64 {
    let mut times = [FILETIME::default(); 4];
    let [created, exited, kernel, user] = &mut times;
    // SAFETY: writes four structures; a process may ask for its own times.
    unsafe { GetProcessTimes(GetCurrentProcess(), created, exited, kernel, user) };
    ((intervals(times[2]) + intervals(times[3])) * 100) as i64
}

/// A count of 100 ns intervals.
fn intervals(time: FILETIME) -> u64 {
    u64::from(time.dwHighDateTime) << 32 | u64::from(time.dwLowDateTime)
}
