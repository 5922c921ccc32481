//! Bindings of the tally: convert, release the interpreter, convert back. See `_tally.pyi`.

use iotrace_load::arrivals::Arrivals;
use pyo3::buffer::{Element, PyBuffer};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::busiest::{Best, LENGTHS_NS};
use crate::change_points;
use crate::classes::{self, Chosen, ClassColumns, LIMITS, SIZE_CLASSES, SlotsOfTime, WORDS_MAX};
use crate::course::{self, CourseColumns};
use crate::flight::Window;
use crate::layer_slots::{self, LayerColumns};
use crate::page::SLICES_MAX;
use crate::rows::{Column, Columns, Problem, STREAMS_MAX};
use crate::stream_slots::{self, SlotColumns, Span, Times};
use crate::streams::{Counts, Key, Place};
use crate::tally::{self, Metric};
use crate::touched::Touched;

/// Where a window of one length is fullest, and how much it holds there.
type Fullest = (i64, u64);

const READ: u8 = 0;
const WRITE: u8 = 1;
const KINDS_MAX: u32 = 256;
const SLOTS_MAX: i128 = 1_000_000;

/// Layer, operation, device, file, whether it is a transaction log, group of latencies; in the layer of load also group,
/// device, area and kind.
type Stream = (
    u8,
    u8,
    Option<i32>,
    Option<i32>,
    bool,
    u32,
    Option<(u32, u32, u32, Option<u32>)>,
);
/// How many, the variation of the gaps, and the fullest stretch of each length over the mean one.
type ArrivalFigures = (u64, Option<f64>, [Option<f64>; 3]);
/// Peak and integral.
type FlightFigures = (usize, i64);
/// I/Os, bytes touched, bytes first touched, share of the busiest hundredth.
type SliceFigures = (u64, u64, u64, Option<f64>);
/// Area, offset, I/Os, and these by slice.
type HotPage = (u32, u64, u64, Vec<u32>);

/// See `_tally.pyi`.
#[pyclass]
pub struct Tally {
    inner: tally::Tally,
}

#[pymethods]
#[expect(clippy::needless_pass_by_value, reason = "values come from Python")]
impl Tally {
    #[new]
    #[pyo3(signature = (streams, *, metrics, window_ns, cuts_ns, room_bytes, is_work_only=false))]
    fn new(
        streams: Vec<Stream>,
        metrics: Vec<String>,
        window_ns: (i64, i64),
        cuts_ns: Vec<i64>,
        room_bytes: usize,
        is_work_only: bool,
    ) -> PyResult<Self> {
        let metrics = metrics
            .iter()
            .map(|name| metric_named(name))
            .collect::<PyResult<Vec<_>>>()?;
        if cuts_ns.len() >= SLICES_MAX || !cuts_ns.is_sorted() {
            return Err(PyValueError::new_err(format!(
                "at most {SLICES_MAX} slices of time, in order"
            )));
        }
        let (keys, places, counts) = numbered(&streams)?;
        let touched = Touched::new(
            counts.areas,
            counts.kinds,
            cuts_ns,
            room_bytes,
            !is_work_only,
        );
        let (from_ns, until_ns) = window_ns;
        let window = Window { from_ns, until_ns };
        let inner = tally::Tally::new(
            &keys,
            places,
            counts,
            metrics,
            window,
            touched,
            is_work_only,
        );
        Ok(Self { inner })
    }

    #[pyo3(signature = (*, op, issued_ns, completed_ns, offset_bytes, size_bytes, device_id, file_id,
                        layer=None, error=None, intended_ns=None))]
    #[expect(clippy::too_many_arguments, reason = "named on the Python side")]
    fn add(
        &mut self,
        py: Python<'_>,
        op: PyBuffer<u8>,
        issued_ns: PyBuffer<i64>,
        completed_ns: PyBuffer<i64>,
        offset_bytes: PyBuffer<u64>,
        size_bytes: PyBuffer<u32>,
        device_id: PyBuffer<i32>,
        file_id: PyBuffer<i32>,
        layer: Option<PyBuffer<u8>>,
        error: Option<PyBuffer<i32>>,
        intended_ns: Option<PyBuffer<i64>>,
    ) -> PyResult<()> {
        let columns = Columns {
            layer: layer.as_ref().map(column).transpose()?,
            op: column(&op)?,
            issued_ns: column(&issued_ns)?,
            completed_ns: column(&completed_ns)?,
            intended_ns: intended_ns.as_ref().map(column).transpose()?,
            offset_bytes: column(&offset_bytes)?,
            size_bytes: column(&size_bytes)?,
            device_id: column(&device_id)?,
            file_id: column(&file_id)?,
            error: error.as_ref().map(column).transpose()?,
        };
        py.detach(|| self.inner.add(&columns)).map_err(refused)
    }

    fn advance(&mut self, py: Python<'_>, until_ns: i64) -> PyResult<()> {
        py.detach(|| self.inner.advance(Some(until_ns)))
            .map_err(refused)
    }

    fn finish(&mut self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.inner.finish()).map_err(refused)
    }

    fn arrivals(&self) -> (Vec<ArrivalFigures>, Vec<ArrivalFigures>, ArrivalFigures) {
        let load = &self.inner.load;
        let devices = load
            .device_arrivals()
            .into_iter()
            .map(arrival_figures)
            .collect();
        let groups = load.group_arrivals().iter().map(arrival_figures).collect();
        (groups, devices, arrival_figures(load.all_arrivals()))
    }

    fn flight(&self) -> (Vec<FlightFigures>, FlightFigures) {
        let load = &self.inner.load;
        (load.device_flight(), load.all_flight())
    }

    fn group_flight_ns(&self) -> Vec<i64> {
        self.inner.load.group_flight_ns()
    }

    fn busiest(&self) -> Vec<(i64, Fullest, Fullest)> {
        let lengths = LENGTHS_NS.into_iter().zip(self.inner.load.busiest.found());
        lengths
            .map(|(length_ns, (ios, bytes))| {
                let figures = |best: Best| (best.from_ns, best.amount);
                (length_ns, figures(ios), figures(bytes))
            })
            .collect()
    }

    fn sequences(&self) -> Vec<(u64, u64)> {
        let sequences = self.inner.load.sequences.iter();
        sequences
            .map(|of| (of.count, of.sequential_count))
            .collect()
    }

    fn histogram<'py>(&self, py: Python<'py>, metric: &str) -> PyResult<Bound<'py, PyBytes>> {
        let metric = metric_named(metric)?;
        let groups = self.inner.load.latencies(metric);
        let groups = groups.ok_or_else(|| PyValueError::new_err("this metric was not counted"))?;
        let rows = groups.iter().zip(0..).flat_map(|(of, group)| {
            let buckets = of.buckets().into_iter().enumerate();
            buckets.map(move |(place, (bucket_ns, io_count))| {
                let (sum_ns, max_ns) = if place == 0 {
                    (of.sum_ns, of.max_ns)
                } else {
                    (0, 0)
                };
                [group, bucket_ns, io_count as i64, sum_ns, max_ns]
            })
        });
        Ok(int64s(py, rows))
    }

    fn seconds<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        let layers = self.inner.load.seconds.iter().zip(0..);
        let rows = layers.flat_map(|(seconds, layer)| {
            seconds.found.iter().map(move |one| {
                let (ios, reads) = (one.io_count, one.read_count);
                let (measured, sum_ns) = (one.measured_count, one.latency_sum_ns);
                [
                    layer,
                    one.number,
                    ios,
                    one.size_bytes,
                    reads,
                    measured,
                    sum_ns,
                ]
            })
        });
        int64s(py, rows)
    }

    fn block_bytes(&self) -> u64 {
        self.inner.touched.block_bytes()
    }

    fn slices(&self) -> Vec<SliceFigures> {
        let slices = self.inner.touched.slices.iter();
        slices
            .map(|one| {
                (
                    one.io_count,
                    one.touched_bytes,
                    one.new_bytes,
                    one.hottest_share,
                )
            })
            .collect()
    }

    fn touched_bytes(&self, py: Python<'_>, kinds: Vec<usize>, areas: Option<Vec<u32>>) -> u64 {
        py.detach(|| self.inner.touched.touched_bytes(&kinds, areas.as_deref()))
    }

    fn share_of_busiest(&self, py: Python<'_>) -> Option<f64> {
        py.detach(|| self.inner.touched.share_of_busiest())
    }

    fn hot_pages(&self, most: usize) -> Vec<HotPage> {
        let touched = &self.inner.touched;
        let pages = touched.hot_pages(most).into_iter();
        pages
            .map(|(io_count, page)| {
                let by_slice = page.by_slice[..touched.slices.len()].to_vec();
                (page.key.0, touched.offset_bytes(page), io_count, by_slice)
            })
            .collect()
    }
}

/// See `_tally.pyi`.
#[pyclass]
pub struct Classes {
    inner: classes::Classes,
}

#[pymethods]
#[expect(clippy::needless_pass_by_value, reason = "values come from Python")]
impl Classes {
    #[new]
    #[pyo3(signature = (roles, role_count, *, layer, is_response, span_ns, slots=None, limits_ns=vec![]))]
    fn new(
        roles: Vec<(i32, u8)>,
        role_count: usize,
        layer: u8,
        is_response: bool,
        span_ns: (i64, i64),
        slots: Option<(i64, i64, usize)>,
        limits_ns: Vec<(usize, [i64; LIMITS])>,
    ) -> PyResult<Self> {
        let is_known = |class: usize| class < WORDS_MAX * role_count * SIZE_CLASSES;
        let is_sound = (1..=WORDS_MAX).contains(&role_count)
            && roles.iter().all(|one| usize::from(one.1) < role_count)
            && limits_ns.iter().all(|one| is_known(one.0))
            && slots.is_none_or(|(_, length_ns, count)| length_ns > 0 && count > 0);
        if !is_sound {
            return Err(PyValueError::new_err(
                "roles and classes are numbered from 0, and slots have a length",
            ));
        }
        let (from_ns, until_ns) = span_ns;
        let chosen = Chosen {
            layer,
            from_ns,
            until_ns,
            is_response,
        };
        let inner = classes::Classes::new(chosen, &roles, role_count);
        let inner = match slots {
            None => inner,
            Some((from_ns, length_ns, count)) => inner.in_slots(
                SlotsOfTime {
                    from_ns,
                    length_ns,
                    count,
                },
                &limits_ns,
            ),
        };
        Ok(Self { inner })
    }

    #[pyo3(signature = (*, op, issued_ns, completed_ns, size_bytes, file_id, layer=None, error=None, intended_ns=None))]
    #[expect(clippy::too_many_arguments, reason = "named on the Python side")]
    fn add(
        &mut self,
        py: Python<'_>,
        op: PyBuffer<u8>,
        issued_ns: PyBuffer<i64>,
        completed_ns: PyBuffer<i64>,
        size_bytes: PyBuffer<u32>,
        file_id: PyBuffer<i32>,
        layer: Option<PyBuffer<u8>>,
        error: Option<PyBuffer<i32>>,
        intended_ns: Option<PyBuffer<i64>>,
    ) -> PyResult<()> {
        let columns = ClassColumns {
            op: column(&op)?,
            issued_ns: column(&issued_ns)?,
            completed_ns: column(&completed_ns)?,
            intended_ns: intended_ns.as_ref().map(column).transpose()?,
            size_bytes: column(&size_bytes)?,
            file_id: column(&file_id)?,
            layer: layer.as_ref().map(column).transpose()?,
            error: error.as_ref().map(column).transpose()?,
        };
        if columns.op.iter().any(|&op| usize::from(op) >= WORDS_MAX) {
            return Err(PyValueError::new_err("no operation has this number"));
        }
        let is_sound = py.detach(|| self.inner.add(&columns));
        is_sound
            .then_some(())
            .ok_or_else(|| refused(Problem::Length))
    }

    fn histogram<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        let rows = self.inner.histograms().flat_map(|(class, of)| {
            let buckets = of.buckets().into_iter().enumerate();
            buckets.map(move |(place, (bucket_ns, io_count))| {
                let sum_ns = if place == 0 { of.sum_ns } else { 0 };
                [class as i64, bucket_ns, io_count as i64, sum_ns]
            })
        });
        int64s(py, rows)
    }

    fn course<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        let rows = self.inner.courses().map(|(class, slot, cell)| {
            let mut row = [
                class as i64,
                slot as i64,
                cell.io_count,
                cell.latency_sum_ns,
                0,
                0,
                0,
                0,
                0,
                0,
            ];
            row[4..].copy_from_slice(&cell.below);
            row
        });
        int64s(py, rows)
    }

    fn doublings<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        let rows = self.inner.doublings();
        let rows =
            rows.map(|(op, slot, bits, io_count)| [op as i64, slot as i64, bits as i64, io_count]);
        int64s(py, rows)
    }
}

/// See `_tally.pyi`.
#[pyclass]
pub struct Course {
    inner: course::Course,
}

#[pymethods]
#[expect(clippy::needless_pass_by_value, reason = "values come from Python")]
impl Course {
    #[new]
    #[pyo3(signature = (layer, span_ns, slot_ns))]
    fn new(layer: u8, span_ns: (i64, i64), slot_ns: i64) -> PyResult<Self> {
        let (from_ns, until_ns) = slotted(span_ns, slot_ns)?;
        let inner = course::Course::new(layer, from_ns, until_ns, slot_ns);
        Ok(Self { inner })
    }

    #[pyo3(signature = (*, op, issued_ns, completed_ns, size_bytes, layer, error, intended_ns=None))]
    #[expect(clippy::too_many_arguments, reason = "named on the Python side")]
    fn add(
        &mut self,
        py: Python<'_>,
        op: PyBuffer<u8>,
        issued_ns: PyBuffer<i64>,
        completed_ns: PyBuffer<i64>,
        size_bytes: PyBuffer<u32>,
        layer: PyBuffer<u8>,
        error: PyBuffer<i32>,
        intended_ns: Option<PyBuffer<i64>>,
    ) -> PyResult<()> {
        let columns = CourseColumns {
            op: column(&op)?,
            issued_ns: column(&issued_ns)?,
            completed_ns: column(&completed_ns)?,
            intended_ns: intended_ns.as_ref().map(column).transpose()?,
            size_bytes: column(&size_bytes)?,
            layer: column(&layer)?,
            error: column(&error)?,
        };
        let is_sound = py.detach(|| self.inner.add(&columns));
        is_sound
            .then_some(())
            .ok_or_else(|| refused(Problem::Length))
    }

    fn before(&self) -> i64 {
        self.inner.before()
    }

    fn slots<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        let rows = self.inner.slots().iter().map(|slot| {
            [
                slot.reads,
                slot.writes,
                slot.read_bytes,
                slot.written_bytes,
                slot.begun,
                slot.begun_rest_ns,
                slot.ended,
                slot.ended_rest_ns,
                slot.longest_ns,
            ]
        });
        int64s(py, rows)
    }

    fn bands<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        let counts = self.inner.bands().iter();
        let bytes: Vec<u8> = counts.flat_map(|count| count.to_ne_bytes()).collect();
        PyBytes::new(py, &bytes)
    }
}

/// See `_tally.pyi`.
#[pyclass]
pub struct LayerSlots {
    inner: layer_slots::LayerSlots,
}

#[pymethods]
#[expect(clippy::needless_pass_by_value, reason = "values come from Python")]
impl LayerSlots {
    #[new]
    #[pyo3(signature = (only_layer, span_ns, slot_ns))]
    fn new(only_layer: u8, span_ns: (i64, i64), slot_ns: i64) -> PyResult<Self> {
        let (from_ns, until_ns) = slotted(span_ns, slot_ns)?;
        let inner = layer_slots::LayerSlots::new(only_layer, from_ns, until_ns, slot_ns);
        Ok(Self { inner })
    }

    #[pyo3(signature = (*, op, issued_ns, completed_ns, layer=None, error=None))]
    fn add(
        &mut self,
        py: Python<'_>,
        op: PyBuffer<u8>,
        issued_ns: PyBuffer<i64>,
        completed_ns: PyBuffer<i64>,
        layer: Option<PyBuffer<u8>>,
        error: Option<PyBuffer<i32>>,
    ) -> PyResult<()> {
        let columns = LayerColumns {
            layer: layer.as_ref().map(column).transpose()?,
            op: column(&op)?,
            issued_ns: column(&issued_ns)?,
            completed_ns: column(&completed_ns)?,
            error: error.as_ref().map(column).transpose()?,
        };
        let is_sound = py.detach(|| self.inner.add(&columns));
        is_sound
            .then_some(())
            .ok_or_else(|| refused(Problem::Length))
    }

    fn slots<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        let rows = self.inner.slots().map(|(layer, op, number, slot)| {
            let place = [layer as i64, op as i64, number as i64];
            [
                place[0],
                place[1],
                place[2],
                slot.io_count,
                slot.latency_sum_ns,
            ]
        });
        int64s(py, rows)
    }
}

/// Layer, operation, device, file, and the group that counts it.
type Grouped = (u8, u8, Option<i32>, Option<i32>, u32);

/// See `_tally.pyi`.
#[pyclass]
pub struct StreamSlots {
    inner: stream_slots::StreamSlots,
}

#[pymethods]
#[expect(clippy::needless_pass_by_value, reason = "values come from Python")]
impl StreamSlots {
    #[new]
    #[pyo3(signature = (streams, *, span_ns, slot_ns, longest_slots))]
    fn new(
        streams: Vec<Grouped>,
        span_ns: (i64, i64),
        slot_ns: i64,
        longest_slots: i64,
    ) -> PyResult<Self> {
        let (from_ns, until_ns) = slotted(span_ns, slot_ns)?;
        let is_dense = streams.iter().all(|one| (one.4 as usize) < streams.len());
        if longest_slots < 0 || !is_dense {
            return Err(PyValueError::new_err("groups are numbered from 0"));
        }
        let key = |one: &Grouped| Key {
            layer: one.0,
            op: one.1,
            device_id: one.2,
            file_id: one.3,
        };
        let keys: Vec<Key> = streams.iter().map(key).collect();
        let groups: Vec<u32> = streams.iter().map(|one| one.4).collect();
        let count = groups.iter().max().map_or(0, |most| *most as usize + 1);
        let span = Span {
            from_ns,
            until_ns,
            slot_ns,
            longest_slots,
        };
        let inner = stream_slots::StreamSlots::new(span, &keys, groups, count);
        Ok(Self { inner })
    }

    #[pyo3(signature = (*, op, issued_ns, completed_ns, size_bytes, device_id, file_id, layer=None, error=None, intended_ns=None))]
    #[expect(clippy::too_many_arguments, reason = "named on the Python side")]
    fn add(
        &mut self,
        py: Python<'_>,
        op: PyBuffer<u8>,
        issued_ns: PyBuffer<i64>,
        completed_ns: PyBuffer<i64>,
        size_bytes: PyBuffer<u32>,
        device_id: PyBuffer<i32>,
        file_id: PyBuffer<i32>,
        layer: Option<PyBuffer<u8>>,
        error: Option<PyBuffer<i32>>,
        intended_ns: Option<PyBuffer<i64>>,
    ) -> PyResult<()> {
        let columns = SlotColumns {
            layer: layer.as_ref().map(column).transpose()?,
            op: column(&op)?,
            issued_ns: column(&issued_ns)?,
            completed_ns: column(&completed_ns)?,
            intended_ns: intended_ns.as_ref().map(column).transpose()?,
            size_bytes: column(&size_bytes)?,
            device_id: column(&device_id)?,
            file_id: column(&file_id)?,
            error: error.as_ref().map(column).transpose()?,
        };
        py.detach(|| self.inner.add(&columns)).map_err(refused)
    }

    fn merge(&mut self, other: &mut Self) {
        self.inner.merge(&mut other.inner);
    }

    fn cells<'py>(&self, py: Python<'py>) -> (Bound<'py, PyBytes>, Bound<'py, PyBytes>) {
        let counts = self.inner.cells().map(|(group, slot, cell, waiting)| {
            [
                i64::from(group),
                slot,
                cell.io_count,
                cell.size_bytes,
                cell.begun.count + cell.ended_more,
                cell.begun.count + cell.passing.count,
                cell.begun.sum_ns,
                cell.begun.count,
                cell.in_flight_ns,
                waiting.waited.count,
                waiting.waited.sum_ns,
                waiting.in_flight_ns,
            ]
        });
        let logs = self.inner.cells().flat_map(|(.., cell, waiting)| {
            let [log, square] = cell.begun.log_sums(&cell.passing);
            let [waited_log, waited_square] = waiting.waited.log_sums(&Times::default());
            [log, square, waited_log, waited_square]
        });
        let logs: Vec<u8> = logs.flat_map(f64::to_ne_bytes).collect();
        (int64s(py, counts), PyBytes::new(py, &logs))
    }
}

/// See `_tally.pyi`.
#[pyfunction]
#[pyo3(signature = (values, weight, *, penalty, longest))]
#[expect(clippy::needless_pass_by_value, reason = "values come from Python")]
pub fn best_borders(
    py: Python<'_>,
    values: PyBuffer<f64>,
    weight: PyBuffer<f64>,
    penalty: f64,
    longest: usize,
) -> PyResult<Vec<usize>> {
    let (values, weight) = (values.to_vec(py)?, weight.to_vec(py)?);
    if values.len() != weight.len() || values.len() < 2 || longest < 4 {
        return Err(PyValueError::new_err(
            "two points or more, a weight for each, and segments of up to four or more",
        ));
    }
    Ok(py.detach(|| change_points::best_borders(&values, &weight, penalty, longest)))
}

/// The two times of a span, if slots of this length cover it and are not too many.
fn slotted(span_ns: (i64, i64), slot_ns: i64) -> PyResult<(i64, i64)> {
    let length_ns = i128::from(span_ns.1) - i128::from(span_ns.0);
    if slot_ns < 1 || length_ns < 1 || length_ns / i128::from(slot_ns) >= SLOTS_MAX {
        return Err(PyValueError::new_err(
            "slots have a length, and there are some but not too many",
        ));
    }
    Ok(span_ns)
}

#[expect(clippy::needless_pass_by_value, reason = "as map_err calls it")]
fn refused(problem: Problem) -> PyErr {
    PyValueError::new_err(problem.to_string())
}

fn metric_named(name: &str) -> PyResult<Metric> {
    match name {
        "service" => Ok(Metric::Service),
        "response" => Ok(Metric::Response),
        "lateness" => Ok(Metric::Lateness),
        other => Err(PyValueError::new_err(format!(
            "no metric is called '{other}'"
        ))),
    }
}

/// Numbers are dense, so that none is as large as there are streams; anything else would take memory without end.
fn numbered(streams: &[Stream]) -> PyResult<(Vec<Key>, Vec<Place>, Counts)> {
    let is_dense = |number: u32| (number as usize) < streams.len();
    let (mut keys, mut places) = (
        Vec::with_capacity(streams.len()),
        Vec::with_capacity(streams.len()),
    );
    let mut counts = Counts::default();
    let most = |count: &mut usize, number: u32| *count = (*count).max(number as usize + 1);
    for &(layer, op, device_id, file_id, is_log, latency_group, load) in streams {
        let (group, device, area, kind) = load.unwrap_or_default();
        let is_sound = [latency_group, group, device, area]
            .into_iter()
            .all(is_dense);
        if !is_sound || kind.is_some_and(|kind| kind >= KINDS_MAX) || streams.len() >= STREAMS_MAX {
            return Err(PyValueError::new_err(
                "streams, groups, devices, areas and kinds are numbered from 0",
            ));
        }
        keys.push(Key {
            layer,
            op,
            device_id,
            file_id,
        });
        most(&mut counts.layers, u32::from(layer));
        most(&mut counts.latency_groups, latency_group);
        if load.is_some() {
            most(&mut counts.groups, group);
            most(&mut counts.devices, device);
            most(&mut counts.areas, area);
        }
        if let Some(kind) = kind {
            most(&mut counts.kinds, kind);
        }
        places.push(Place {
            layer: u32::from(layer),
            latency_group,
            is_load: load.is_some(),
            group,
            device,
            area,
            kind,
            is_read: op == READ,
            is_log_write: is_log && op == WRITE,
        });
    }
    Ok((keys, places, counts))
}

fn arrival_figures(of: &Arrivals) -> ArrivalFigures {
    (of.count(), of.coefficient_of_variation(), of.peak_to_mean())
}

fn column<N: Element>(buffer: &PyBuffer<N>) -> PyResult<Column<'_, N>> {
    let is_flat = buffer.dimensions() == 1 && buffer.readonly();
    let values = buffer.as_slice_ptr().filter(|_| is_flat);
    let values = values.ok_or_else(|| {
        PyValueError::new_err("a column is read-only, of one dimension, without gaps")
    })?;
    // SAFETY: the memory is there, aligned and whole as long as the buffer is. It is read-only: nobody writes to what an
    // Arrow array holds, and `_tally.pyi` asks the same of every other array.
    Ok(unsafe { values.as_ref() })
}

fn int64s<const N: usize>(
    py: Python<'_>,
    rows: impl Iterator<Item = [i64; N]>,
) -> Bound<'_, PyBytes> {
    let bytes: Vec<u8> = rows.flatten().flat_map(i64::to_ne_bytes).collect();
    PyBytes::new(py, &bytes)
}
