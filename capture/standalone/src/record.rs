//! Records until something ends it: the trace's reader, once a second a look at the host, and everything made safe.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use _recorder::buffers::{SessionError, now_ns};
use _recorder::rows::DeviceIds;
use _recorder::session::Session;
use arrow_array::{
    ArrayRef, BooleanArray, Int32Array, RecordBatch, StringArray, UInt32Array, UInt64Array,
};
use rustix::time::ClockId;
use serde_json::{Value, json};

use crate::arguments::Options;
use crate::counters::{Held, KernelCounts, Sampler};
use crate::devices::{Device, SECTOR_BYTES, Selection, resolve, text};
use crate::failure::Failure;
use crate::streams::{self, Growing};
use crate::tracefs::{Instance, processors};

const POLL_MS: u64 = 250;
const SECOND_NS: u64 = 1_000_000_000;
const NICENESS: i32 = 10;
/// Of the host's clock being set, in nanoseconds; slewing is one part in `DRIFT` of the time gone by.
const STEP_NS: u64 = 100_000_000;
const DRIFT: u64 = 2000;

static STOP: AtomicBool = AtomicBool::new(false);

extern "C" fn stop(_signal: i32) {
    STOP.store(true, Ordering::Relaxed);
}

/// The first signal ends the recording and keeps it; the next one does what it does to any program.
fn end_on_signals() {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        // SAFETY: all-zero is a valid value of the structures, and the handler does nothing but set a flag.
        unsafe {
            let mut before: libc::sigaction = std::mem::zeroed();
            libc::sigaction(signal, std::ptr::null(), &raw mut before);
            if signal == libc::SIGHUP && before.sa_sigaction == libc::SIG_IGN {
                continue; // under nohup a terminal that closes ends nothing
            }
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = stop as *const () as usize;
            action.sa_flags = libc::SA_RESETHAND;
            libc::sigaction(signal, &raw const action, std::ptr::null_mut());
        }
    }
}

/// What the run came to, for the last words on the screen.
#[derive(Debug)]
pub struct Outcome {
    pub ios: u64,
    pub seconds: f64,
    pub events_lost: u64,
    pub ended: String,
}

/// Record as asked. `report` is told about once a second: seconds, I/Os, bytes on disk, events lost.
pub fn record(
    options: &Options,
    report: &mut dyn FnMut(f64, u64, u64, u64),
) -> Result<Outcome, Failure> {
    let selection = Selection::new(&options.devices, &options.roles)?;
    let folder = &options.output;
    if folder.exists() {
        return Err(Failure::new(
            format!("'{}' is there already", folder.display()),
            "name a folder that is not there with -o; nothing is ever overwritten",
        ));
    }
    let instance = Instance::new(&selection)?;
    end_on_signals();
    streams::create_folder(folder).map_err(|problem| Failure::output(folder, &problem))?;
    // The recorder gives way to what it records; the kernel's buffers bridge the time.
    // SAFETY: sets this process's own priority.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, NICENESS) };
    let mut live = Live::new(options, &selection, &instance)?;
    if options.seconds.is_none() {
        eprintln!("recording until Ctrl-C");
    }
    let ran = live.run(&instance, report);
    instance.stop();
    ran?;
    live.finish(report)
}

struct Live<'a> {
    options: &'a Options,
    selection: &'a Selection,
    folder: PathBuf,
    session: Session,
    io: Growing,
    counters: Growing,
    sampler: Sampler,
    kernel: KernelCounts,
    held: Option<Held>,
    processes: Option<RecordBatch>,
    clock: Clock,
    start_ns: u64,
    window_start_ns: u64,
    ended: Option<String>,
    uuid: String,
}

impl<'a> Live<'a> {
    fn new(
        options: &'a Options,
        selection: &'a Selection,
        instance: &Instance,
    ) -> Result<Self, Failure> {
        let start_ns = now_ns(ClockId::Monotonic);
        let ids = (0..selection.disks.len())
            .map(|position| DeviceIds {
                device_id: position as i32,
                file_id: selection
                    .roles
                    .iter()
                    .position(|one| one.0 == position)
                    .map(|file_id| file_id as i32),
            })
            .collect();
        let own = std::process::id() as i32;
        let session = Session::open(&instance.folder, selection.positions(), ids, start_ns, own);
        let ring_ns = options.ring_minutes.map(|minutes| (minutes * 6e10) as u64);
        let folder = options.output.clone();
        Ok(Self {
            options,
            selection,
            session: session.map_err(|problem| unreadable(&problem))?,
            io: Growing::new(&folder, "io", ring_ns),
            counters: Growing::new(&folder, "counters", ring_ns),
            sampler: Sampler::new(selection, 0),
            kernel: KernelCounts::begin(selection),
            held: None,
            processes: None,
            clock: Clock::new(),
            start_ns,
            window_start_ns: 0,
            ended: None,
            uuid: text("/proc/sys/kernel/random/uuid".as_ref()).unwrap_or_default(),
            folder,
        })
    }

    fn run(
        &mut self,
        instance: &Instance,
        report: &mut dyn FnMut(f64, u64, u64, u64),
    ) -> Result<(), Failure> {
        self.save("devices", &devices(self.selection))?;
        self.save("files", &files(self.selection)?)?;
        instance.start()?;
        self.kernel = KernelCounts::begin(self.selection);
        self.window_start_ns = self.now_ns();
        let length_ns = self.options.seconds.map(|seconds| (seconds * 1e9) as u64);
        let end_ns = length_ns.map_or(u64::MAX, |length_ns| self.window_start_ns + length_ns);
        let mut next_look_ns = 0;
        while !STOP.load(Ordering::Relaxed) && self.ended.is_none() {
            let at_ns = self.now_ns();
            if at_ns >= end_ns {
                break;
            }
            if at_ns >= next_look_ns {
                if at_ns >= next_look_ns + SECOND_NS && next_look_ns > 0 {
                    // Kept waiting for so long, the recorder no longer gives way.
                    // SAFETY: sets this process's own priority.
                    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 0) };
                }
                next_look_ns = at_ns - at_ns % SECOND_NS + SECOND_NS;
                self.look(at_ns)?;
                self.tell(at_ns, report);
            }
            let left_ms = next_look_ns.min(end_ns).saturating_sub(self.now_ns()) / 1_000_000 + 1;
            self.read(left_ms.min(POLL_MS) as u32, false)?;
        }
        self.kernel.end();
        Ok(())
    }

    fn finish(mut self, report: &mut dyn FnMut(f64, u64, u64, u64)) -> Result<Outcome, Failure> {
        let end_ns = self.now_ns();
        self.read(0, true)?;
        self.held = Some(self.kernel.hold(self.session.ended()));
        let sample = self.sampler.sample(end_ns);
        let written = self.counters.write(&sample);
        self.note_full(written)?;
        self.save_processes()?;
        self.clock.look(end_ns);
        for table in [&mut self.io, &mut self.counters] {
            table
                .close(end_ns)
                .map_err(|problem| Failure::output(&self.folder, &problem))?;
        }
        let ended = self.ended.take().unwrap_or_else(|| "normally".to_owned());
        self.save_manifest(end_ns, &ended)?;
        self.tell(end_ns, report);
        let statistics = self.session.statistics();
        Ok(Outcome {
            ios: statistics.totals.ios,
            seconds: end_ns.saturating_sub(self.window_start_ns) as f64 / 1e9,
            events_lost: statistics.events_lost,
            ended,
        })
    }

    fn read(&mut self, timeout_ms: u32, last: bool) -> Result<(), Failure> {
        let batch = match self.session.read(timeout_ms, last) {
            Ok(batch) => batch,
            Err(problem) => {
                self.ended = Some(format!("cannot read the kernel's trace ({problem})"));
                return Ok(());
            }
        };
        if batch.num_rows() == 0 && !last {
            return Ok(());
        }
        let written = self.io.write(&batch);
        self.note_full(written)
    }

    fn look(&mut self, at_ns: u64) -> Result<(), Failure> {
        if at_ns >= SECOND_NS / 2 {
            let sample = self.sampler.sample(at_ns);
            let written = self.counters.write(&sample);
            self.note_full(written)?;
        }
        self.clock.look(at_ns);
        let gone: Vec<&str> = self
            .selection
            .disks
            .iter()
            .filter(|disk| disk.sectors > 0 && !is_there(disk))
            .map(|disk| disk.name.as_str())
            .collect();
        if !gone.is_empty() {
            self.ended = Some(format!("{} vanished", gone.join(" and ")));
        }
        let turned = self.io.turn(at_ns).and_then(|start| {
            self.counters.turn(at_ns)?;
            Ok(start)
        });
        let dropped = turned.map_err(|problem| Failure::output(&self.folder, &problem))?;
        self.window_start_ns = dropped.unwrap_or(self.window_start_ns);
        while self
            .options
            .bytes_max
            .is_some_and(|most| self.bytes() > most)
        {
            if let Some(start_ns) = self.io.drop_oldest() {
                self.window_start_ns = start_ns;
            } else {
                self.ended = Some("it had reached its greatest size".to_owned());
                break;
            }
        }
        self.save_processes()?;
        self.save_manifest(at_ns, "the recorder was killed, or the machine went down")
    }

    fn tell(&self, at_ns: u64, report: &mut dyn FnMut(f64, u64, u64, u64)) {
        let statistics = self.session.statistics();
        report(
            at_ns as f64 / 1e9,
            statistics.totals.ios,
            self.bytes(),
            statistics.events_lost,
        );
    }

    fn bytes(&self) -> u64 {
        self.io.bytes() + self.counters.bytes()
    }

    /// A full disk ends the recording; any other failure is one.
    fn note_full(&mut self, written: io::Result<()>) -> Result<(), Failure> {
        match written {
            Ok(()) => Ok(()),
            Err(problem) if matches!(problem.raw_os_error(), Some(libc::ENOSPC | libc::EDQUOT)) => {
                self.ended = Some("the disk that the recording is written to was full".to_owned());
                Ok(())
            }
            Err(problem) => Err(Failure::output(&self.folder, &problem)),
        }
    }

    fn save(&mut self, table: &str, batch: &RecordBatch) -> Result<(), Failure> {
        let written = streams::replace_table(&self.folder, table, batch);
        self.note_full(written)
    }

    fn save_processes(&mut self) -> Result<(), Failure> {
        let batch = self.session.processes();
        if self.processes.as_ref() == Some(&batch) {
            return Ok(());
        }
        self.save("processes", &batch)?;
        self.processes = Some(batch);
        Ok(())
    }

    fn save_manifest(&mut self, at_ns: u64, ended: &str) -> Result<(), Failure> {
        let text = format!("{:#}\n", self.manifest(at_ns, ended));
        let written = streams::replace(&self.folder, "manifest.json", text.as_bytes());
        self.note_full(written)
    }

    /// See `schemas/manifest.schema.json`. Whoever imports it judges the quality.
    fn manifest(&self, at_ns: u64, ended: &str) -> Value {
        let statistics = self.session.statistics();
        let counts = statistics.counts;
        let mut notes = self.clock.notes.clone();
        if !self.selection.roles.is_empty() {
            let told = "roles are attributed by device: all I/O of a device belongs to its role";
            notes.push(told.to_owned());
        }
        for (word, parts) in &self.selection.beneath {
            let names: Vec<_> = parts.iter().map(|part| part.name.as_str()).collect();
            notes.push(format!(
                "{word} takes bios, not requests: its device layer is that of {}, with all that goes on there",
                names.join(", ")
            ));
        }
        if counts.own > 0 {
            notes.push(format!("{} I/Os of iotrace itself left out", counts.own));
        }
        if counts.would_block > 0 {
            notes.push(format!(
                "{} I/Os would have had to wait: turned away and retried",
                counts.would_block
            ));
        }
        let none = Held::default();
        let held = self.held.as_ref().unwrap_or(&none);
        notes.extend(held.notes.iter().cloned());
        let words: Vec<_> = self
            .selection
            .words
            .iter()
            .map(|(word, _)| word.as_str())
            .collect();
        let name = words.join(", ");
        let mut rows = BTreeMap::new();
        rows.insert("io", self.io.rows());
        rows.insert("counters", self.counters.rows());
        json!({
            "kind": "captured",
            "title": self.options.title.clone().unwrap_or_else(|| format!("I/O of {name}")),
            "clock": {
                "start_utc_ns": (self.start_ns as i64).wrapping_add(self.clock.start_offset_ns),
                "resolution_ns": 1.0,
                "name": "CLOCK_MONOTONIC (ftrace mono)",
                "start_utc_uncertainty_ns": self.clock.uncertainty_ns,
            },
            "window_start_ns": self.window_start_ns,
            "window_end_ns": at_ns,
            "host": host(self.options.host_name.as_deref()),
            "sources": [{"name": name, "kind": "ftrace block events", "events": statistics.events}],
            "quality": {
                "events_lost": statistics.events_lost,
                "damaged_buffers": statistics.damaged_pages,
                "unpaired_issues": counts.unpaired_issues,
                "unpaired_completions": counts.unpaired_completions,
                "clock_steps": self.clock.steps,
                "counted_ios": held.counted_ios,
                "missing_ios": held.missing_ios,
                "counted_bytes": held.counted_bytes,
                "missing_bytes": held.missing_bytes,
                "ended": ended,
                "notes": notes,
            },
            "tools": {"iotrace-recorder": env!("CARGO_PKG_VERSION")},
            "uuid": self.uuid,
            "rows": rows,
            "format_version": 1,
        })
    }

    fn now_ns(&self) -> u64 {
        now_ns(ClockId::Monotonic).saturating_sub(self.start_ns)
    }
}

/// Compares the recording's clock, which stands still in sleep, with those of the day and since boot.
struct Clock {
    start_offset_ns: i64,
    uncertainty_ns: u64,
    noted_ns: i64,
    noted_at_ns: u64,
    asleep_ns: u64,
    steps: u64,
    notes: Vec<String>,
}

impl Clock {
    fn new() -> Self {
        let (offset_ns, uncertainty_ns) = utc_offset_ns();
        Self {
            start_offset_ns: offset_ns,
            uncertainty_ns,
            noted_ns: offset_ns,
            noted_at_ns: 0,
            asleep_ns: asleep_ns(),
            steps: 0,
            notes: Vec::new(),
        }
    }

    fn look(&mut self, at_ns: u64) {
        let slept_ns = asleep_ns().saturating_sub(self.asleep_ns);
        let offset_ns = utc_offset_ns().0;
        let moved_ns = offset_ns - self.noted_ns;
        let place = format!("{} s into the recording", at_ns / SECOND_NS);
        let note = if slept_ns > STEP_NS {
            self.asleep_ns += slept_ns;
            format!(
                "the machine slept for {:.1} s, {place}: its clock stood still, so times after that are as much \
                 earlier than UTC, and latencies across it are too short",
                slept_ns as f64 / 1e9
            )
        } else if moved_ns.unsigned_abs()
            > STEP_NS.max((at_ns - self.noted_at_ns.min(at_ns)) / DRIFT)
        {
            let seconds = moved_ns as f64 / 1e9;
            format!(
                "the host's clock was set by {seconds:+.3} s, {place}; the recording's own clock was not"
            )
        } else {
            return;
        };
        self.notes.push(note);
        self.steps += 1;
        self.noted_ns = offset_ns;
        self.noted_at_ns = at_ns;
    }
}

/// What to add to `CLOCK_MONOTONIC` to get UTC, and how far that may be off. UTC is read between two readings of the
/// monotonic clock; of several such pairs the closest is kept.
fn utc_offset_ns() -> (i64, u64) {
    let pairs = (0..9).map(|_| {
        let before = now_ns(ClockId::Monotonic) as i64;
        let utc = now_ns(ClockId::Realtime) as i64;
        let after = now_ns(ClockId::Monotonic) as i64;
        (utc - i64::midpoint(before, after), (after - before) as u64)
    });
    pairs.min_by_key(|pair| pair.1).unwrap_or_default()
}

/// Time the machine has slept since it was started.
fn asleep_ns() -> u64 {
    now_ns(ClockId::Boottime).saturating_sub(now_ns(ClockId::Monotonic))
}

/// A loop device without a file has no size.
fn is_there(disk: &Device) -> bool {
    text(&disk.folder.join("size")).is_some_and(|size| size != "0")
}

fn host(name: Option<&str>) -> Value {
    let uname = rustix::system::uname();
    let words = |word: &std::ffi::CStr| word.to_string_lossy().into_owned();
    let cpuinfo = text("/proc/cpuinfo".as_ref()).unwrap_or_default();
    let model = cpuinfo.lines().find(|line| line.starts_with("model name"));
    let meminfo = text("/proc/meminfo".as_ref()).unwrap_or_default();
    let memory_kib: Option<u64> = meminfo
        .split_whitespace()
        .nth(1)
        .and_then(|text| text.parse().ok());
    json!({
        "name": name.map_or_else(|| words(uname.nodename()), str::to_owned),
        "system": words(uname.sysname()),
        "kernel": words(uname.release()),
        "machine": words(uname.machine()),
        "cpu_model": model.and_then(|line| line.split_once(':')).map(|(_, model)| model.trim()),
        "processors": processors(),
        "memory_bytes": memory_kib.map(|kib| kib << 10),
    })
}

/// Rows of `devices`: the disks, in order, then their partitions.
fn devices(selection: &Selection) -> RecordBatch {
    let mut all: Vec<(Device, Option<i32>)> = selection
        .disks
        .iter()
        .map(|disk| (disk.clone(), None))
        .collect();
    for (position, disk) in selection.disks.iter().enumerate() {
        let parts = disk.partitions().into_iter();
        all.extend(parts.map(|part| (part, Some(position as i32))));
    }
    let number =
        |device: &Device, name: &str| device.queue(name).and_then(|text| text.parse::<u32>().ok());
    let devices = || all.iter().map(|(device, _)| device);
    let mounts: Vec<_> = devices().map(Device::mount).collect();
    let kinds = devices().map(|device| {
        if device.is_partition() {
            "partition"
        } else {
            "disk"
        }
    });
    let starts = devices().map(|device| {
        device
            .is_partition()
            .then_some(device.start_sector * SECTOR_BYTES)
    });
    let caches = devices().map(|device| Some(device.queue("write_cache")? == "write back"));
    table(vec![
        (
            "device_id",
            Arc::new(Int32Array::from_iter_values(0..all.len() as i32)),
        ),
        (
            "name",
            Arc::new(StringArray::from_iter_values(
                devices().map(|device| &device.name),
            )),
        ),
        ("kind", Arc::new(StringArray::from_iter_values(kinds))),
        (
            "parent_device_id",
            Arc::new(all.iter().map(|one| one.1).collect::<Int32Array>()),
        ),
        ("start_bytes", Arc::new(starts.collect::<UInt64Array>())),
        (
            "size_bytes",
            Arc::new(UInt64Array::from_iter_values(
                devices().map(|device| device.sectors * SECTOR_BYTES),
            )),
        ),
        (
            "logical_block_bytes",
            Arc::new(
                devices()
                    .map(|device| number(device, "logical_block_size"))
                    .collect::<UInt32Array>(),
            ),
        ),
        (
            "physical_block_bytes",
            Arc::new(
                devices()
                    .map(|device| number(device, "physical_block_size"))
                    .collect::<UInt32Array>(),
            ),
        ),
        (
            "mount",
            Arc::new(
                mounts
                    .iter()
                    .map(|one| Some(&one.as_ref()?.point))
                    .collect::<StringArray>(),
            ),
        ),
        (
            "filesystem",
            Arc::new(
                mounts
                    .iter()
                    .map(|one| Some(&one.as_ref()?.filesystem))
                    .collect::<StringArray>(),
            ),
        ),
        (
            "model",
            Arc::new(devices().map(Device::model).collect::<StringArray>()),
        ),
        ("write_cache", Arc::new(caches.collect::<BooleanArray>())),
    ])
}

/// Rows of `files`: one for each disk that was given a role, so `file_id` means "on this device".
fn files(selection: &Selection) -> Result<RecordBatch, Failure> {
    let (mut paths, mut sizes) = (Vec::new(), Vec::new());
    for (position, word, _) in &selection.roles {
        let device = resolve(word)?;
        let mount = device
            .mount()
            .or_else(|| selection.disks[*position].mount());
        paths.push(mount.map_or_else(|| format!("/dev/{}", device.name), |mount| mount.point));
        sizes.push(device.sectors * SECTOR_BYTES);
    }
    let roles = || selection.roles.iter();
    Ok(table(vec![
        (
            "file_id",
            Arc::new(Int32Array::from_iter_values(0..paths.len() as i32)),
        ),
        ("path", Arc::new(StringArray::from(paths))),
        (
            "role",
            Arc::new(StringArray::from_iter_values(roles().map(|one| &one.2))),
        ),
        (
            "device_id",
            Arc::new(Int32Array::from_iter_values(
                roles().map(|one| one.0 as i32),
            )),
        ),
        ("size_bytes", Arc::new(UInt64Array::from(sizes))),
    ]))
}

fn table(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    let columns = columns
        .into_iter()
        .map(|(name, column)| (name, column, true));
    RecordBatch::try_from_iter_with_nullable(columns).expect("columns of one length")
}

fn unreadable(problem: &SessionError) -> Failure {
    Failure::new(
        format!("cannot read the kernel's trace ({problem})"),
        "sudo dmesg may tell why; record again",
    )
}
