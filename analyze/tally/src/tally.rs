//! The pass: rows in order of issue, each handed to whatever counts it.

use std::mem;
use std::thread;

use iotrace_load::arrivals::Arrivals;
use iotrace_load::sequence::Sequence;

use crate::busiest::Busiest;
use crate::flight::{Flight, Window};
use crate::latency::Latencies;
use crate::rows::{Columns, NEVER_NS, Problem, Row};
use crate::seconds::Seconds;
use crate::streams::{Counts, Key, Place, Streams};
use crate::touched::Touched;

/// I/Os that one kind of count after the other takes in: few enough to stay in the processor's cache, and so many that
/// what each kind waits for from memory is waited for together.
const TOGETHER: usize = 256;

/// How long an I/O took, between which two of its times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// From issued to completed.
    Service,
    /// From intended to completed.
    Response,
    /// From intended to issued.
    Lateness,
}

/// What one pass finds out.
pub struct Tally {
    streams: Streams,
    places: Vec<Place>,
    held: Vec<Row>,
    passed_ns: i64,
    /// What needs no blocks.
    pub load: Load,
    /// Blocks touched.
    pub touched: Touched,
}

/// What is counted I/O by I/O.
pub struct Load {
    metrics: Vec<Metric>,
    /// Per metric and group of latencies.
    pub latencies: Vec<Vec<Latencies>>,
    /// Per layer.
    pub seconds: Vec<Seconds>,
    groups: Vec<Arrivals>,
    devices: Vec<Arrivals>,
    all: Arrivals,
    /// Groups per device: where there is one only, it says what the device does.
    groups_of: Vec<Vec<usize>>,
    device_flight: Vec<Flight>,
    all_flight: Flight,
    /// Per group: time in flight within the window, as much as there was.
    group_flight_ns: Vec<i128>,
    window: Window,
    /// Per stream.
    pub sequences: Vec<Sequence>,
    /// The busiest windows.
    pub busiest: Busiest,
    /// Whether only what a comparison asks is counted: arrivals of all I/Os, and sequences.
    is_work_only: bool,
}

impl Tally {
    /// Nothing counted yet. Numbers in `places` are below their `counts`, and there are as many as keys.
    pub fn new(
        keys: &[Key],
        places: Vec<Place>,
        counts: Counts,
        metrics: Vec<Metric>,
        window: Window,
        touched: Touched,
        is_work_only: bool,
    ) -> Self {
        let mut groups_of = vec![Vec::new(); counts.devices];
        for place in places.iter().filter(|place| place.is_load) {
            let groups: &mut Vec<usize> = &mut groups_of[place.device as usize];
            if !groups.contains(&(place.group as usize)) {
                groups.push(place.group as usize);
            }
        }
        let load = Load {
            latencies: vec![vec![Latencies::default(); counts.latency_groups]; metrics.len()],
            metrics,
            seconds: vec![Seconds::default(); counts.layers],
            groups: vec![Arrivals::default(); counts.groups],
            devices: vec![Arrivals::default(); counts.devices],
            all: Arrivals::default(),
            groups_of,
            device_flight: vec![Flight::default(); counts.devices],
            all_flight: Flight::default(),
            group_flight_ns: vec![0; counts.groups],
            window,
            sequences: places
                .iter()
                .map(|place| Sequence::new(place.is_log_write))
                .collect(),
            busiest: Busiest::default(),
            is_work_only,
        };
        Self {
            streams: Streams::new(keys),
            places,
            held: Vec::new(),
            passed_ns: i64::MIN,
            load,
            touched,
        }
    }

    /// Takes in rows in any order; of one nanosecond those that come first go first. `advance` counts them.
    pub fn add(&mut self, columns: &Columns<'_>) -> Result<(), Problem> {
        columns.decode(&self.streams, &mut self.held)
    }

    /// Counts what was issued before `until_ns`, or everything: no row that `add` has yet to see was issued earlier.
    pub fn advance(&mut self, until_ns: Option<i64>) -> Result<(), Problem> {
        if !self.held.is_sorted_by_key(|row| row.issued_ns) {
            self.held.sort_by_key(|row| row.issued_ns);
        }
        let count = until_ns.map_or(self.held.len(), |until| {
            self.held.partition_point(|row| row.issued_ns < until)
        });
        let Some((first, last)) = self.held[..count].first().zip(self.held[..count].last()) else {
            return Ok(());
        };
        if first.issued_ns < self.passed_ns {
            return Err(Problem::Late(first.issued_ns));
        }
        self.passed_ns = last.issued_ns;
        let (rows, places) = (&self.held[..count], &self.places);
        let (load, touched) = (&mut self.load, &mut self.touched);
        thread::scope(|scope| {
            scope.spawn(|| touched.add(rows, places));
            load.add(rows, places);
        });
        self.held.drain(..count);
        Ok(())
    }

    /// Counts what is left.
    pub fn finish(&mut self) -> Result<(), Problem> {
        self.advance(None)?;
        self.touched.finish();
        self.held = Vec::new();
        Ok(())
    }
}

impl Load {
    fn add(&mut self, rows: &[Row], places: &[Place]) {
        if self.is_work_only {
            self.add_work(rows, places);
            return;
        }
        for rows in rows.chunks(TOGETHER) {
            self.add_latencies(rows, places);
            self.add_flight(rows, places);
            self.add_arrivals(rows, places);
        }
    }

    fn add_latencies(&mut self, rows: &[Row], places: &[Place]) {
        let is_service_alone = self.metrics == [Metric::Service];
        for row in rows {
            let place = &places[row.stream()];
            let Some(latency_ns) = row.latency_ns() else {
                continue;
            };
            if is_service_alone {
                self.latencies[0][place.latency_group as usize].add(latency_ns);
            } else {
                self.measure(row, place.latency_group as usize);
            }
        }
    }

    fn add_flight(&mut self, rows: &[Row], places: &[Place]) {
        let is_one_device = self.devices.len() == 1;
        for row in rows {
            let place = &places[row.stream()];
            self.seconds[place.layer as usize].add(
                row.issued_ns,
                row.size_bytes,
                place.is_read,
                row.latency_ns(),
            );
            let part = self.window.part(row.issued_ns, row.completed_ns);
            let Some((begun_ns, ended_ns)) = part.filter(|_| place.is_load) else {
                continue;
            };
            self.group_flight_ns[place.group as usize] +=
                i128::from(ended_ns) - i128::from(begun_ns);
            self.device_flight[place.device as usize].add(begun_ns, ended_ns);
            if !is_one_device {
                self.all_flight.add(begun_ns, ended_ns);
            }
        }
    }

    /// What moves no data is in flight too, but is not the load: a flush comes with each write of a log.
    fn add_arrivals(&mut self, rows: &[Row], places: &[Place]) {
        let is_one_device = self.devices.len() == 1;
        for row in rows {
            let place = &places[row.stream()];
            if !place.is_load || place.kind.is_none() {
                continue;
            }
            self.groups[place.group as usize].add(row.issued_ns);
            if self.groups_of[place.device as usize].len() > 1 {
                self.devices[place.device as usize].add(row.issued_ns);
            }
            if !is_one_device {
                self.all.add(row.issued_ns);
            }
            self.busiest.add(row.issued_ns, row.size_bytes);
            if row.offset_bytes >= 0 {
                self.sequences[row.stream()].add(row.offset_bytes, i64::from(row.size_bytes));
            }
        }
    }

    fn add_work(&mut self, rows: &[Row], places: &[Place]) {
        for row in rows {
            let place = &places[row.stream()];
            if !place.is_load || place.kind.is_none() {
                continue;
            }
            self.all.add(row.issued_ns);
            if row.offset_bytes >= 0 {
                self.sequences[row.stream()].add(row.offset_bytes, i64::from(row.size_bytes));
            }
        }
    }

    fn measure(&mut self, row: &Row, group: usize) {
        for (metric, latencies) in self.metrics.iter().zip(&mut self.latencies) {
            let (begun, ended) = match metric {
                Metric::Service => (row.issued_ns, row.completed_ns),
                Metric::Response => (row.intended_ns, row.completed_ns),
                Metric::Lateness => (row.intended_ns, row.issued_ns),
            };
            if begun != NEVER_NS {
                latencies[group].add(ended.saturating_sub(begun));
            }
        }
    }

    /// Latencies of all groups by a metric, if it was counted.
    pub fn latencies(&self, metric: Metric) -> Option<&[Latencies]> {
        let number = self.metrics.iter().position(|&counted| counted == metric)?;
        self.latencies.get(number).map(Vec::as_slice)
    }

    /// How I/Os arrived: per device and role.
    pub fn group_arrivals(&self) -> &[Arrivals] {
        &self.groups
    }

    /// How I/Os arrived: per device.
    pub fn device_arrivals(&self) -> Vec<&Arrivals> {
        let devices = self.devices.iter().zip(&self.groups_of);
        devices
            .map(|(device, groups)| {
                if let [only] = groups[..] {
                    &self.groups[only]
                } else {
                    device
                }
            })
            .collect()
    }

    /// How all I/Os arrived.
    pub fn all_arrivals(&self) -> &Arrivals {
        match self.device_arrivals()[..] {
            [only] if !self.is_work_only => only,
            _ => &self.all,
        }
    }

    /// In flight: the most at once, and the time that all spent there; per device.
    pub fn device_flight(&self) -> Vec<(usize, i64)> {
        let flights = self.device_flight.iter().zip(&self.groups_of);
        flights
            .map(|(flight, groups)| {
                let spent = groups.iter().map(|&group| self.group_flight_ns[group]);
                (flight.peak, as_much_as_fits(spent.sum()))
            })
            .collect()
    }

    /// In flight: time per device and role.
    pub fn group_flight_ns(&self) -> Vec<i64> {
        let sums = self.group_flight_ns.iter();
        sums.copied().map(as_much_as_fits).collect()
    }

    /// In flight: the most at once, and the time that all spent there; all devices together.
    pub fn all_flight(&self) -> (usize, i64) {
        let peak = match &self.device_flight[..] {
            [only] => only.peak,
            _ => self.all_flight.peak,
        };
        (peak, as_much_as_fits(self.group_flight_ns.iter().sum()))
    }
}

fn as_much_as_fits(sum_ns: i128) -> i64 {
    i64::try_from(sum_ns).unwrap_or(i64::MAX)
}

const _: () = assert!(mem::size_of::<Row>() == 40);
