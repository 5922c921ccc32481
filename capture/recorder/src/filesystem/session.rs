//! Reads both tracing instances of the filesystem layer, and tells whose the sectors of the layers below are.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use rustix::time::ClockId;

use super::calls::{Call, CallCounts, Calls, Target};
use super::catalogue::{Catalogue, Mounted};
use super::descriptors::Descriptors;
use super::events::{Decoder, FileEvent, What};
use super::openers::{Openers, Traced, present};
use super::scan::scan;
use super::sources::Instance;
use super::syncs::Syncs;
use iotrace_block::{Layer, Op, Row};

use crate::buffers::{Buffers, SessionError, now_ns};
use crate::processes::SharedProcesses;
use crate::rows::{DeviceIds, Rows};
use crate::session::SETTLE_NS;

/// What to open.
pub struct Options {
    /// Folders of the tracing instances.
    pub calls: PathBuf,
    pub changes: PathBuf,
    /// Names of the events that are enabled.
    pub enabled: Vec<String>,
    pub mounted: Vec<Mounted>,
    pub first_file_id: i32,
    pub own_process: i32,
    /// How long a first look at each file system may take.
    pub scan_limit: Duration,
}

/// Numbers of the whole session.
#[derive(Clone, Copy, Debug, Default)]
pub struct FileStatistics {
    pub events: u64,
    pub events_lost: u64,
    pub damaged_pages: u64,
    /// Files seen by the first look, and whether it was cut short.
    pub files_scanned: u64,
    pub scan_is_cut: bool,
    /// Newcomers are told of at once.
    pub newcomers_are_seen: bool,
    pub counts: CallCounts,
    /// iotrace's own calls.
    pub own: u64,
    /// Files that saw I/O so far.
    pub files: u64,
    /// Reads and writes of the block layer and their bytes, and how many of each lead to a file.
    pub ios: u64,
    pub bytes: u64,
    pub attributed_ios: u64,
    pub attributed_bytes: u64,
}

/// The filesystem layer of a recording.
pub struct FileSession {
    instances: [(Buffers, Decoder); 2],
    events: Vec<FileEvent>,
    pub(super) calls: Calls,
    pub(super) syncs: Syncs,
    pub(super) catalogue: Catalogue,
    /// Those of the block layer; none until the recording begins.
    pub(super) processes: Option<SharedProcesses>,
    descriptors: Descriptors,
    rows: Rows,
    pub(super) start_ns: u64,
    spoilt: u64,
    pub(super) statistics: FileStatistics,
    _openers: Option<Openers>,
}

impl FileSession {
    /// Take a first look at the file systems and at who uses them. Both instances let events in already, so that no
    /// change is missed between that look and the recording.
    pub fn open(options: Options) -> Result<Self, SessionError> {
        let open = |folder: &Path, instance| -> Result<_, SessionError> {
            let buffers = Buffers::open(folder)?;
            let decoder = Decoder::new(instance, &options.enabled, &buffers)?;
            Ok((buffers, decoder))
        };
        let instances = [
            open(&options.calls, Instance::Calls)?,
            open(&options.changes, Instance::Changes)?,
        ];
        let points: Vec<PathBuf> = options
            .mounted
            .iter()
            .map(|one| one.point.clone())
            .collect();
        let numbers: Vec<u32> = options.mounted.iter().map(|one| one.number).collect();
        let fail = |path: &Path| {
            let path = path.to_owned();
            move |problem| SessionError::Io { path, problem }
        };
        let by_descriptor = by_descriptor(&options);
        let mut catalogue = Catalogue::open(options.mounted, options.first_file_id).map_err(
            fail(points.first().map_or(Path::new("/"), PathBuf::as_path)),
        )?;
        let (threads, open_files) = present(&numbers, options.own_process);
        let mut statistics = FileStatistics::default();
        for position in 0..numbers.len() {
            let until = Instant::now() + options.scan_limit;
            let outcome = scan(&mut catalogue, position, &open_files, until);
            statistics.files_scanned += outcome.files;
            statistics.scan_is_cut |= outcome.is_cut;
        }
        let traced = Traced::of(&options.calls);
        let openers = Openers::watch(&points, traced.clone(), options.own_process).ok();
        statistics.newcomers_are_seen = openers.is_some();
        traced.add(&threads).map_err(fail(&options.calls))?;
        Ok(Self {
            instances,
            events: Vec::new(),
            calls: Calls::new(by_descriptor),
            syncs: Syncs::default(),
            catalogue,
            processes: None,
            descriptors: Descriptors::default(),
            rows: Rows::default(),
            start_ns: u64::MAX,
            spoilt: 0,
            statistics,
            _openers: openers,
        })
    }

    /// Calls count from `start_ns` on `CLOCK_MONOTONIC`, and are those of `processes`.
    pub fn begin(&mut self, processes: SharedProcesses, start_ns: u64) {
        self.processes = Some(processes);
        self.start_ns = start_ns;
    }

    /// Take what the buffers hold: calls that have ended since, as rows of `io`.
    ///
    /// To be called after the block layer was read, so that every file that was given space before a block I/O is known
    /// when that is attributed. `last`: tracing is off.
    pub fn read(&mut self, last: bool) -> Result<RecordBatch, SessionError> {
        let settled_ns = if last {
            u64::MAX
        } else {
            now_ns(ClockId::Monotonic).saturating_sub(SETTLE_NS)
        };
        let mut gap_ns: Option<u64> = None;
        for (buffers, decoder) in &mut self.instances {
            let events = &mut self.events;
            let before = events.len();
            buffers.drain(|time_ns, record| events.extend(decoder.decode(time_ns, record)))?;
            self.statistics.events += (events.len() - before) as u64;
            let gap = buffers.find_gap()?;
            gap_ns = gap.map_or(gap_ns, |gap| {
                Some(gap_ns.map_or(gap, |known| known.min(gap)))
            });
        }
        self.events.sort_by_key(|event| event.time_ns);
        let usable = gap_ns.map_or(settled_ns, |gap_ns| gap_ns.min(settled_ns));
        let ready = self.events.partition_point(|event| event.time_ns <= usable);
        let events: Vec<FileEvent> = self.events.drain(..ready).collect();
        for event in &events {
            self.use_event(event);
        }
        if gap_ns.is_some() {
            // Calls on either side of a gap cannot be paired, but what was given to files stays given.
            let now_ns = now_ns(ClockId::Monotonic);
            let spoilt = self.events.partition_point(|event| event.time_ns <= now_ns);
            let spoilt_events: Vec<FileEvent> = self.events.drain(..spoilt).collect();
            self.spoilt += spoilt as u64;
            for event in &spoilt_events {
                self.use_change(event);
            }
        }
        if gap_ns.is_some() || last {
            self.calls.resynchronise();
        }
        self.catalogue.name_the_unnamed();
        self.count();
        Ok(self
            .rows
            .take_batch(self.start_ns)
            .expect("columns of one length"))
    }

    /// Rows of `files` for the files that saw I/O.
    #[must_use]
    pub fn files(&mut self) -> RecordBatch {
        self.catalogue.batch().expect("columns of one length")
    }

    /// Numbers so far.
    #[must_use]
    pub fn statistics(&self) -> FileStatistics {
        FileStatistics {
            files: self.catalogue.files_used(),
            ..self.statistics
        }
    }

    fn use_event(&mut self, event: &FileEvent) {
        self.use_change(event);
        if let Some(call) = self.calls.on_event(event)
            && call.issued_ns >= self.start_ns
        {
            self.syncs.add(&call);
            self.emit(&call);
        }
    }

    /// Take in what becomes of files.
    fn use_change(&mut self, event: &FileEvent) {
        match event.what {
            What::Allocated {
                number,
                inode,
                block,
                blocks,
            } => {
                let Some(position) = self.catalogue.position(number) else {
                    return;
                };
                let place = &self.catalogue.filesystems[position];
                let start = match place.xfs {
                    Some(geometry) => geometry.byte(block),
                    None => block.saturating_mul(place.block_bytes),
                };
                let end = start.saturating_add(blocks.saturating_mul(place.block_bytes));
                let entry = self.catalogue.of_inode(position, inode);
                self.catalogue.give(position, start, end, entry);
            }
            What::GivenUp { number, inode } => self.catalogue.forget(number, inode),
            _ => {}
        }
    }

    fn emit(&mut self, call: &Call) {
        let Some((number, inode)) = (match call.target {
            Target::Inode(number, inode) => Some((number, inode)),
            Target::Descriptor(descriptor) => self.descriptors.behind(call.thread, descriptor),
        }) else {
            return;
        };
        let Some(position) = self.catalogue.position(number) else {
            return;
        };
        let (process, own) = self.processes.as_ref().map_or((None, false), |all| {
            let mut all = all.lock().expect("no thread panicked");
            all.of_thread(call.thread, None, call.issued_ns)
        });
        if own {
            self.statistics.own += 1;
            return;
        }
        let entry = self.catalogue.of_inode(position, inode);
        let ids = DeviceIds {
            device_id: self.catalogue.filesystems[position].mounted.device_id,
            file_id: Some(self.catalogue.file_id(entry)),
        };
        let row = Row {
            layer: Layer::Filesystem,
            op: call.op,
            issued_ns: call.issued_ns,
            completed_ns: Some(call.completed_ns),
            offset_bytes: call.offset,
            size_bytes: u32::try_from(call.bytes).unwrap_or(u32::MAX),
            process,
            thread: Some(call.thread),
            flags: call.flags,
            error: call.error,
        };
        self.rows.push(&row, ids);
    }

    fn count(&mut self) {
        let lost: u64 = self.instances.iter().map(|(buffers, _)| buffers.lost).sum();
        let damaged = self
            .instances
            .iter()
            .map(|(buffers, _)| buffers.damaged_pages());
        self.statistics.damaged_pages = damaged.sum();
        self.statistics.events_lost = lost + self.spoilt;
        self.statistics.counts = self.calls.counts;
    }
}

/// Which calls have to be known by their descriptor, because this kernel does not name their file.
fn by_descriptor(options: &Options) -> fn(Op) -> bool {
    let has = |name: &str| options.enabled.iter().any(|one| one == name);
    if options.mounted.iter().all(|one| one.is_xfs) {
        return |_| false; // XFS has always named it
    }
    match (has("mm_filemap_get_pages"), has("iomap_dio_rw_begin")) {
        (true, true) => |_| false,
        (false, true) => |op| op == Op::Read,
        (_, false) => |op| op != Op::Flush,
    }
}
