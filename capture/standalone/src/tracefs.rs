//! A tracing instance of one's own: block events switched on for some devices, and everything put back afterwards.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use _recorder::buffers::clock_ahead_s;
use _recorder::event::EVENTS;
use _recorder::lifecycle;

use crate::devices::{Selection, text};
use crate::failure::Failure;

/// Where it belongs.
pub const PLACE: &str = "/sys/kernel/tracing";

const PREFIX: &str = "iotrace";
const BUFFERS_BYTES_MAX: u64 = 256 << 20;
const BUFFER_BYTES_MAX: u64 = 128 << 20;
const BUFFER_BYTES_MIN: u64 = 1 << 20;
/// Read at once, where the kernel lets pages of its buffers be larger than the machine's (Linux 6.8 and later).
const PAGE_KIB: u64 = 64;

/// An instance folder in tracefs. Dropping it removes the folder; so does a helper, however this process ends.
#[derive(Debug)]
pub struct Instance {
    pub folder: PathBuf,
    guard: Option<Guard>,
}

impl Instance {
    /// Make one for the selected devices, configured but switched off. No other thread may run yet.
    pub fn new(selection: &Selection) -> Result<Self, Failure> {
        let instances = find()?.join("instances");
        if lockdown().as_deref() == Some("confidentiality") {
            return Err(Failure::new(
                "this kernel is locked down (confidentiality) and lets nobody trace",
                "record on a host booted with lockdown=integrity or none",
            ));
        }
        if let Some((found, advice)) = clock_apart() {
            return Err(Failure::new(
                format!("{found}, by which nothing recorded would have its time"),
                advice,
            ));
        }
        remove_leftovers(&instances);
        let folder = instances.join(format!("{PREFIX}-{}-alone", std::process::id()));
        fs::create_dir(&folder).map_err(|problem| not_allowed(&folder, &problem))?;
        let guard = Guard::start(&folder);
        let instance = Self { folder, guard };
        instance.configure(selection)?;
        Ok(instance)
    }

    /// Let events in.
    pub fn start(&self) -> Result<(), Failure> {
        self.write("tracing_on", "1")
    }

    /// Let no more events in; what is in the buffers stays readable.
    pub fn stop(&self) {
        let _ = fs::write(self.folder.join("tracing_on"), "0");
    }

    fn configure(&self, selection: &Selection) -> Result<(), Failure> {
        self.write("tracing_on", "0")?;
        self.write("trace_clock", "mono")?;
        // When full, drop what is new: a reader that is pushed aside cannot say which end of an I/O it lost.
        self.write("options/overwrite", "0")?;
        self.size_buffers()?;
        // Linux 5.1 and later; without it the reader wakes by its timeout.
        let _ = fs::write(self.folder.join("buffer_percent"), "25");
        for (name, _) in EVENTS {
            self.write(
                &format!("events/block/{name}/filter"),
                &selection.trace_filter(name),
            )?;
            self.write(&format!("events/block/{name}/enable"), "1")?;
        }
        for (group, name) in lifecycle::EVENTS {
            self.write(&format!("events/{group}/{name}/enable"), "1")?;
        }
        Ok(())
    }

    fn size_buffers(&self) -> Result<(), Failure> {
        let path = self.folder.join("buffer_size_kb");
        let pages = self.folder.join("buffer_subbuf_size_kb");
        let mut size = buffer_bytes();
        let mut has_large_pages = fs::write(&pages, PAGE_KIB.to_string()).is_ok();
        loop {
            let Err(problem) = fs::write(&path, (size >> 10).to_string()) else {
                return Ok(());
            };
            if problem.raw_os_error() != Some(libc::ENOMEM) || size <= BUFFER_BYTES_MIN {
                return Err(not_allowed(&path, &problem));
            }
            if has_large_pages {
                has_large_pages = false; // memory may be there, but in pieces
                let _ = fs::write(&pages, (rustix::param::page_size() >> 10).to_string());
            } else {
                size /= 2;
            }
        }
    }

    fn write(&self, name: &str, value: &str) -> Result<(), Failure> {
        let path = self.folder.join(name);
        fs::write(&path, value).map_err(|problem| not_allowed(&path, &problem))
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        remove(&self.folder);
        drop(self.guard.take());
    }
}

/// A process that waits for the end of this one and then removes the instance, should it still be there.
#[derive(Debug)]
struct Guard {
    process: i32,
    input: i32,
}

impl Guard {
    /// In a session of its own: what is sent to the recorder's terminal does not reach it. None where there is no room.
    fn start(folder: &Path) -> Option<Self> {
        let mut ends = [0; 2];
        // SAFETY: `ends` has room for the two descriptors that are written to it.
        if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
            return None;
        }
        let [output, input] = ends;
        // SAFETY: no other thread runs (see `Instance::new`), so the child may do whatever this process may.
        let process = unsafe { libc::fork() };
        if process == 0 {
            let mut byte = 0_u8;
            // SAFETY: the descriptors are this process's own; one byte is read into a place for one byte.
            unsafe {
                libc::setsid();
                libc::close(input);
                while libc::read(output, (&raw mut byte).cast(), 1) == -1 {
                    if io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
                        break;
                    }
                }
            }
            if folder.exists() {
                remove(folder);
            }
            // SAFETY: ends the child without what the parent would do at its end.
            unsafe { libc::_exit(0) };
        }
        // SAFETY: this end is the child's.
        unsafe { libc::close(output) };
        (process > 0).then_some(Self { process, input })
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // SAFETY: the descriptor is closed once, and the child is one's own; it ends when its input does.
        unsafe {
            libc::close(self.input);
            libc::waitpid(self.process, std::ptr::null_mut(), 0);
        }
    }
}

fn remove(folder: &Path) {
    for name in ["tracing_on", "events/enable"] {
        let _ = fs::write(folder.join(name), "0");
    }
    for _ in 0..20 {
        match fs::remove_dir(folder) {
            Err(problem) if problem.kind() != io::ErrorKind::NotFound => {
                sleep(Duration::from_millis(50)); // a last reader is still letting go
            }
            _ => return,
        }
    }
}

/// How much memory each processor's buffer is to have on this host.
pub fn buffer_bytes() -> u64 {
    // SAFETY: asks for a number.
    let pages = unsafe { libc::sysconf(libc::_SC_PHYS_PAGES) };
    let memory = pages.max(0) as u64 * rustix::param::page_size() as u64;
    let size = BUFFERS_BYTES_MAX.min(memory / 32) / processors();
    size.clamp(BUFFER_BYTES_MIN, BUFFER_BYTES_MAX)
}

/// Processors of this host.
pub fn processors() -> u64 {
    // SAFETY: asks for a number.
    unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) }.max(1) as u64
}

/// Where tracefs is mounted.
pub fn find() -> Result<PathBuf, Failure> {
    let table = text(Path::new("/proc/self/mounts")).unwrap_or_default();
    // SAFETY: asks for a number.
    let is_root = unsafe { libc::geteuid() } == 0;
    for (kind, inside) in [("tracefs", ""), ("debugfs", "tracing")] {
        for line in table.lines() {
            let fields: Vec<_> = line.split_whitespace().collect();
            let [_, point, found, ..] = fields[..] else {
                continue;
            };
            let folder = if inside.is_empty() {
                PathBuf::from(point)
            } else {
                Path::new(point).join(inside)
            };
            if found == kind && (!is_root || folder.join("instances").is_dir()) {
                return Ok(folder);
            }
        }
    }
    Err(Failure::new(
        "the kernel's trace file system (tracefs) is not mounted",
        format!("sudo mount -t tracefs nodev {PLACE} (a container needs it from its host)"),
    ))
}

/// What to say where this container's clock is not the one that events are stamped with, and what to do about it.
pub fn clock_apart() -> Option<(String, &'static str)> {
    let ahead_s = clock_ahead_s();
    let way = if ahead_s > 0 { "ahead of" } else { "behind" };
    let found = format!(
        "this container's clock is set {} s {way} the kernel's (a time namespace)",
        ahead_s.unsigned_abs()
    );
    (ahead_s != 0).then_some((found, "record on its host, outside of the container"))
}

/// The kernel's lockdown mode: none, integrity or confidentiality; None where it has no such thing.
pub fn lockdown() -> Option<String> {
    let modes = text(Path::new("/sys/kernel/security/lockdown"))?;
    let (_, rest) = modes.split_once('[')?;
    Some(rest.split_once(']')?.0.to_owned())
}

/// Remove instances of recorders that were killed, and which trace on; tell which.
pub fn remove_leftovers(instances: &Path) -> Vec<String> {
    let entries = fs::read_dir(instances).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| {
            let words: Vec<_> = name.split('-').collect();
            let [PREFIX, process, made] = words[..] else {
                return false;
            };
            let is_process =
                !process.is_empty() && process.bytes().all(|digit| digit.is_ascii_digit());
            let is_hex = made.len() == 6 && made.bytes().all(|digit| digit.is_ascii_hexdigit());
            let is_ours = is_process && (is_hex || made == "doctor" || made == "alone");
            is_ours && !Path::new("/proc").join(process).exists()
        })
        .filter(|name| fs::remove_dir(instances.join(name)).is_ok())
        .collect()
}

fn not_allowed(path: &Path, problem: &io::Error) -> Failure {
    let path = path.display();
    match problem.raw_os_error() {
        Some(libc::EACCES | libc::EPERM | libc::EROFS) => Failure::new(
            format!("not allowed to trace block devices ({path}: {problem})"),
            "run it with sudo; in a container, mount /sys/kernel/tracing writable into it",
        ),
        Some(libc::ENOENT) => Failure::new(
            format!("this kernel lacks what the recorder needs: {path}"),
            "it needs block trace events (CONFIG_BLK_DEV_IO_TRACE) and trace instances",
        ),
        _ => Failure::new(
            format!("cannot set up tracing ({path}: {problem})"),
            "sudo dmesg may tell why",
        ),
    }
}
