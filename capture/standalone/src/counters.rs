//! The kernel's own counters of the disks, /proc/diskstats: as rows of `counters`, and to hold the trace against.
//!
//! Field meanings: Documentation/admin-guide/iostats.rst of the Linux sources. A request is counted when it has ended,
//! as the device layer does; a flush that somebody asked for without data is a write of no sectors.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use _recorder::session::Ended;
use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};

use crate::devices::{Device, SECTOR_BYTES, Selection, text};

type Numbers = [u64; 17];
type Looks = HashMap<String, Numbers>;

// Positions after major, minor and name.
const READS: usize = 0;
const WRITES: usize = 4;
const IN_FLIGHT: usize = 8;
const BUSY_MS: usize = 9;
const QUEUED_MS: usize = 10;
const DISCARDS: usize = 11;
const FLUSHES: usize = 15;
// Behind the count of reads, writes or discards.
const MERGES: usize = 1;
const SECTORS: usize = 2;
const SPENT_MS: usize = 3;

const REQUEST_BYTES_MAX: u64 = 1 << 20;

fn look() -> Looks {
    let lines = text(Path::new("/proc/diskstats")).unwrap_or_default();
    lines.lines().filter_map(line).collect()
}

fn line(line: &str) -> Option<(String, Numbers)> {
    let mut fields = line.split_whitespace().skip(2);
    let name = fields.next()?.to_owned();
    let mut numbers = [0; 17]; // older kernels have fewer
    for (number, field) in numbers.iter_mut().zip(fields) {
        *number = field.parse().ok()?;
    }
    Some((name, numbers))
}

/// Differences between two looks, as means over the time between.
pub struct Sampler {
    names: Vec<String>,
    before: Looks,
    at_ns: u64,
}

impl Sampler {
    /// Begin with a look at `at_ns` of the recording.
    pub fn new(selection: &Selection, at_ns: u64) -> Self {
        Self {
            names: selection
                .disks
                .iter()
                .map(|disk| disk.name.clone())
                .collect(),
            before: look(),
            at_ns,
        }
    }

    /// Rows for the time since the last look.
    pub fn sample(&mut self, at_ns: u64) -> RecordBatch {
        let now = look();
        let interval_ns = at_ns.saturating_sub(self.at_ns);
        let mut rows = Rows::default();
        for name in &self.names {
            let (Some(before), Some(after)) = (self.before.get(name), now.get(name)) else {
                continue;
            };
            if interval_ns > 0 {
                rows.add_means(name, before, after, interval_ns);
            }
            let in_flight = after[IN_FLIGHT] as f64;
            rows.add(
                name,
                "in flight",
                in_flight,
                "I/Os",
                Some("in_flight"),
                None,
            );
        }
        self.before = now;
        self.at_ns = at_ns;
        rows.batch(at_ns)
    }
}

#[derive(Default)]
struct Rows {
    interval_ns: Vec<Option<i64>>,
    instance: Vec<String>,
    counter: Vec<String>,
    value: Vec<f64>,
    unit: Vec<&'static str>,
    metric: Vec<Option<String>>,
}

impl Rows {
    fn add(
        &mut self,
        name: &str,
        counter: &str,
        value: f64,
        unit: &'static str,
        metric: Option<&str>,
        interval_ns: Option<u64>,
    ) {
        self.interval_ns.push(interval_ns.map(|ns| ns as i64));
        self.instance.push(name.to_owned());
        self.counter.push(counter.to_owned());
        self.value.push(value);
        self.unit.push(unit);
        self.metric.push(metric.map(str::to_owned));
    }

    fn add_means(&mut self, name: &str, before: &Numbers, after: &Numbers, interval_ns: u64) {
        let change: Vec<f64> = (0..before.len())
            .map(|field| after[field] as f64 - before[field] as f64)
            .collect();
        let seconds = interval_ns as f64 / 1e9;
        let mut add = |counter: &str, value: f64, unit, metric: Option<&str>| {
            self.add(name, counter, value, unit, metric, Some(interval_ns));
        };
        let bytes = SECTOR_BYTES as f64;
        for (op, first) in [("read", READS), ("write", WRITES)] {
            let done = change[first];
            let metric = format!("{op}_iops");
            add(
                &format!("{op}s per second"),
                done / seconds,
                "1/s",
                Some(&metric),
            );
            let metric = format!("{op}_bytes_per_second");
            let rate = change[first + SECTORS] * bytes / seconds;
            add(
                &format!("{op} bytes per second"),
                rate,
                "bytes/s",
                Some(&metric),
            );
            let merged = change[first + MERGES] / seconds;
            add(&format!("{op} merges per second"), merged, "1/s", None);
            if done > 0.0 {
                let metric = format!("{op}_latency_ns");
                let mean = change[first + SPENT_MS] * 1e6 / done;
                add(&format!("{op} latency"), mean, "ns", Some(&metric));
            }
        }
        add("flushes per second", change[FLUSHES] / seconds, "1/s", None);
        add(
            "discards per second",
            change[DISCARDS] / seconds,
            "1/s",
            None,
        );
        let discarded = change[DISCARDS + SECTORS] * bytes / seconds;
        add("discard bytes per second", discarded, "bytes/s", None);
        let queued = change[QUEUED_MS] * 1e6 / interval_ns as f64;
        add("queue length", queued, "I/Os", Some("queue_length"));
        let busy = (change[BUSY_MS] * 1e8 / interval_ns as f64).min(100.0);
        add("busy", busy, "percent", Some("busy_percent"));
    }

    fn batch(self, at_ns: u64) -> RecordBatch {
        let rows = self.value.len();
        let same = |word: &str| Arc::new(StringArray::from(vec![word; rows])) as ArrayRef;
        let columns: [(&str, ArrayRef); 10] = [
            (
                "at_ns",
                Arc::new(Int64Array::from(vec![at_ns as i64; rows])),
            ),
            ("interval_ns", Arc::new(Int64Array::from(self.interval_ns))),
            ("source", same("host")),
            ("object", same("diskstats")),
            ("instance", Arc::new(StringArray::from(self.instance))),
            ("counter", Arc::new(StringArray::from(self.counter))),
            ("value", Arc::new(Float64Array::from(self.value))),
            ("unit", Arc::new(StringArray::from(self.unit))),
            ("layer", same("block")),
            ("metric", Arc::new(StringArray::from(self.metric))),
        ];
        let columns = columns.map(|(name, column)| (name, column, true));
        RecordBatch::try_from_iter_with_nullable(columns).expect("columns of one length")
    }
}

/// What was counted and what is missing.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Held {
    pub counted_ios: u64,
    pub missing_ios: u64,
    pub counted_bytes: u64,
    pub missing_bytes: u64,
    pub notes: Vec<String>,
}

/// Looks at the counters of a selection's disks when tracing begins and before it ends.
pub struct KernelCounts {
    disks: Vec<HeldDisk>,
    before: Looks,
    after: Looks,
}

/// A disk that is held, and the lines of /proc/diskstats that count what is traced of it.
struct HeldDisk {
    disk: Device,
    position: usize,
    lines: Vec<String>,
    /// Whether I/Os can be held as well as bytes: what a volume sends down is traced as requests only.
    has_ios: bool,
}

impl KernelCounts {
    /// The first look: tracing is on.
    pub fn begin(selection: &Selection) -> Self {
        let below: Vec<&Device> = selection
            .beneath
            .iter()
            .flat_map(|(_, parts)| parts)
            .collect();
        let mut disks = Vec::new();
        for (position, disk) in selection.disks.iter().enumerate() {
            // A volume's requests are those of the disks beneath.
            let is_volume = selection.beneath.iter().any(|(word, _)| {
                let of_word = |one: &&(String, Device)| one.0 == *word;
                let device = selection.words.iter().find(of_word);
                device.is_some_and(|(_, device)| device.disk_number == disk.number)
            });
            if is_volume {
                continue;
            }
            let is_below = below.iter().any(|one| one.disk_number == disk.number);
            let asked = selection.words.iter().map(|(_, device)| device);
            let mine: Vec<&Device> = asked
                .chain(below.iter().copied())
                .filter(|one| one.disk_number == disk.number)
                .collect();
            let mut lines = vec![disk.name.clone()];
            if mine.iter().all(|one| one.number != disk.number) {
                lines = mine.iter().map(|one| one.name.clone()).collect();
                lines.sort();
                lines.dedup();
            }
            disks.push(HeldDisk {
                has_ios: disk.takes_requests() && !is_below,
                disk: disk.clone(),
                position,
                lines,
            });
        }
        Self {
            disks,
            before: look(),
            after: Looks::new(),
        }
    }

    /// The last look: tracing is still on.
    pub fn end(&mut self) {
        self.after = look();
    }

    /// How many I/Os were counted, and how many of them the trace lacks beyond what was in flight when it began.
    pub fn hold(&self, ended: &[Ended]) -> Held {
        let mut held = Held::default();
        for one in &self.disks {
            let name = &one.disk.name;
            let looks: Option<Vec<_>> = one
                .lines
                .iter()
                .map(|line| Some((self.before.get(line)?, self.after.get(line)?)))
                .collect();
            let Some(looks) = looks else {
                held.notes.push(format!(
                    "{name} could not be held against the kernel's own counters"
                ));
                continue;
            };
            if one.disk.queue("iostats").as_deref() == Some("0") {
                held.notes.push(format!(
                    "the kernel does not count the I/O of {name} (queue/iostats is 0): whether the trace is whole \
                     cannot be told from its counters"
                ));
                continue;
            }
            let largest = one
                .disk
                .queue("max_sectors_kb")
                .and_then(|text| text.parse().ok());
            let largest = largest.map_or(REQUEST_BYTES_MAX, |kib: u64| kib << 10);
            held.add(&looks, &ended[one.position], one, largest);
        }
        held
    }
}

impl Held {
    fn add(&mut self, looks: &[(&Numbers, &Numbers)], told: &Ended, one: &HeldDisk, largest: u64) {
        let change = |field: usize| -> u64 {
            let changes = looks
                .iter()
                .map(|(before, after)| after[field].saturating_sub(before[field]));
            changes.sum()
        };
        let starts_unseen: u64 = looks.iter().map(|(before, _)| before[IN_FLIGHT]).sum();
        let groups = [READS, WRITES, DISCARDS];
        let counted_bytes = groups
            .map(|group| change(group + SECTORS))
            .iter()
            .sum::<u64>()
            * SECTOR_BYTES;
        let takes_requests = one.disk.takes_requests();
        let ended_bytes = if takes_requests {
            told.request_bytes
        } else {
            told.bio_bytes
        };
        self.counted_bytes += counted_bytes;
        let mut lacks_ios = false;
        if one.has_ios {
            let counted_ios = groups.map(change).iter().sum::<u64>();
            let missing = counted_ios.saturating_sub(told.requests + told.empty_flushes);
            self.counted_ios += counted_ios;
            lacks_ios = missing > starts_unseen;
            if lacks_ios {
                self.missing_ios += missing;
            }
        }
        let missing = counted_bytes.saturating_sub(ended_bytes);
        if missing > 0 && (lacks_ios || missing > starts_unseen * largest) {
            self.missing_bytes += missing;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_any_kernel_is_read() {
        let old = line(" 7 0 loop0 10 1 80 4 20 2 160 8 3 12 13").unwrap();
        assert_eq!(old.0, "loop0");
        assert_eq!(old.1[..11], [10, 1, 80, 4, 20, 2, 160, 8, 3, 12, 13]);
        assert_eq!(old.1[11..], [0; 6]);
        let new = line("8 0 sda 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18").unwrap();
        assert_eq!(new.1[FLUSHES], 16);
    }
}
