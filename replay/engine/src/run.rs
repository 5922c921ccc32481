//! Conducts a run: takes the plan, gives each submitter a thread, watches them, and hands out what came of it.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use arrow_schema::ArrowError;

use crate::backend::{self, Wish};
use crate::chunk::Chunk;
use crate::clock::{FakeClock, MonotonicClock, processor_time_ns};
use crate::device::RawFile;
use crate::device::simulated::{Law, SimulatedDevice};
use crate::lane::Lane;
use crate::pacer::{Settings, play};
use crate::plan::{Columns, Limits, PlanError};
use crate::progress::{Ended, Progress};
use crate::tally::Tally;

/// Time between the making of everything and the run's 0, so that the first deadlines are not overdue.
const LEAD_NS: i64 = 5_000_000;
/// Rows of the plan that are held ready beyond those issued.
const LOOKAHEAD_ROWS: u64 = 1 << 20;
/// How long a submitter that is told to stop may take beyond the time to drain before it is left behind.
const GRACE: Duration = Duration::from_secs(2);
const NS_PER_SECOND: i64 = 1_000_000_000;
/// How often the submitters are looked after.
const GLANCE: Duration = Duration::from_millis(50);

/// How a run was set up.
#[derive(Clone, Debug)]
pub struct SetUp {
    /// `io_uring`, `threads` or `simulated`.
    pub backend: &'static str,
    /// Why it is not the best there is.
    pub reason: Option<String>,
    /// Why transfers take the slower way through unregistered memory.
    pub unregistered: Option<String>,
    /// UTC at the run's 0, in nanoseconds since 1970.
    pub start_utc_ns: i64,
    /// The system's monotonic clock at the run's 0.
    pub start_ns: i64,
    /// The cap on I/Os in flight that holds: threads take fewer than asked for.
    pub in_flight_max: u32,
    /// Whether the submitters' threads go before others.
    pub preferred: bool,
    /// Threads that issue I/Os.
    pub submitters: usize,
}

/// What one submitter says when it is ready.
type Ready = (usize, io::Result<SetUp>);

struct Submitter {
    thread: JoinHandle<()>,
    /// Turns of its loop when last looked at, and when they last changed.
    turns: u64,
    changed: Instant,
    left_behind: bool,
}

/// A run. Offer the plan, `start`, then `wait` and `take` in turn until `wait` says that it is over.
pub struct Run {
    /// Counters that may be read at any time.
    pub progress: Arc<Progress>,
    wish: Wish,
    settings: Settings,
    limits: Limits,
    files: Vec<RawFile>,
    law: Option<Law>,
    /// For each submitter; none once the plan is complete.
    feeds: Vec<mpsc::Sender<Arc<Chunk>>>,
    lanes: Vec<Lane>,
    window: VecDeque<Arc<Chunk>>,
    rows_offered: u64,
    last_intended_ns: i64,
    depends: Option<bool>,
    clock: MonotonicClock,
    submitters: Vec<Submitter>,
    ended: mpsc::Receiver<usize>,
    announce_end: Option<mpsc::Sender<usize>>,
    stopping_since: Option<Instant>,
    over: bool,
    tally: Tally,
    /// Processor time of the process, by second of the run.
    processor_ns: Vec<i64>,
    /// At what time of the run it was read last, and what it was.
    processor_read: Option<(i64, i64)>,
}

impl Run {
    /// A run on open `files`, which must stay open until all its threads have ended; on a simulated disk instead with
    /// `law`.
    ///
    /// Reads take at most 64 MiB of memory and writes at most 272 MiB, or the largest single I/O where that is more.
    #[must_use]
    pub fn new(files: Vec<RawFile>, wish: Wish, settings: Settings, law: Option<Law>) -> Self {
        let submitters = if law.is_some() {
            1
        } else {
            wish.submitters.max(1)
        };
        let (feeds, lanes) = (0..submitters)
            .map(|number| {
                let (feed, incoming) = mpsc::channel();
                (feed, Lane::new(number, incoming))
            })
            .unzip();
        let (announce_end, ended) = mpsc::channel();
        Self {
            progress: Arc::new(Progress::new(submitters, settings.in_flight_max)),
            limits: Limits {
                targets: files.len().max(usize::from(law.is_some())),
                read_bytes_max: wish.read_bytes_max,
                write_bytes_max: wish.write_bytes_max,
            },
            wish: Wish { submitters, ..wish },
            settings,
            files,
            law,
            feeds,
            lanes,
            window: VecDeque::new(),
            rows_offered: 0,
            last_intended_ns: i64::MIN,
            depends: None,
            clock: MonotonicClock::default(),
            submitters: Vec::new(),
            ended,
            announce_end: Some(announce_end),
            stopping_since: None,
            over: false,
            tally: Tally::default(),
            processor_ns: Vec::new(),
            processor_read: None,
        }
    }

    /// More of the plan.
    pub fn offer(&mut self, batch: RecordBatch) -> Result<(), PlanError> {
        let plan = Columns::of(
            &batch,
            &self.limits,
            self.rows_offered,
            self.last_intended_ns,
        )?;
        if plan.is_empty() {
            return Ok(());
        }
        let depends = plan.dependencies.is_some();
        if *self.depends.get_or_insert(depends) != depends {
            return Err(PlanError::Mixed);
        }
        if depends && self.wish.submitters > 1 {
            return Err(PlanError::Shared);
        }
        let rows = plan.len();
        self.last_intended_ns = plan.intended_ns(rows - 1);
        let chunk = Arc::new(Chunk::new(
            batch,
            plan,
            self.rows_offered,
            self.wish.submitters,
        ));
        self.rows_offered += rows as u64;
        for feed in &self.feeds {
            // A submitter that ended early takes nothing; its rows stay as never issued.
            let _ = feed.send(Arc::clone(&chunk));
        }
        self.window.push_back(chunk);
        Ok(())
    }

    /// Rows that may be offered before the plan is held ready far enough ahead.
    #[must_use]
    pub fn wanted(&self) -> u64 {
        if self.feeds.is_empty() {
            return 0;
        }
        let ahead = self.rows_offered - self.progress.snapshot().issued.min(self.rows_offered);
        LOOKAHEAD_ROWS.saturating_sub(ahead)
    }

    /// Nothing more will be offered.
    pub fn end_plan(&mut self) {
        self.feeds.clear();
    }

    /// Make the submitters ready, and let the clock run: it reads 0 when the system's monotonic clock reads `at_ns`, or at
    /// once where that is None or over by the time that all are ready.
    pub fn start(&mut self, at_ns: Option<i64>) -> io::Result<SetUp> {
        let Some(announce_end) = self.announce_end.take() else {
            return Err(io::Error::other("the run was started before"));
        };
        let (ready, readiness) = mpsc::channel::<Ready>();
        let mut gates = Vec::new();
        for (number, lane) in self.lanes.drain(..).enumerate() {
            let (gate, opening) = mpsc::channel();
            gates.push(gate);
            let task = Task {
                number,
                lane,
                files: self.files.clone(),
                wish: self.wish,
                settings: self.settings,
                law: self.law,
                targets: self.limits.targets,
                clock: self.clock.clone(),
                progress: Arc::clone(&self.progress),
            };
            let (ready, announce_end) = (ready.clone(), announce_end.clone());
            let thread = std::thread::Builder::new()
                .name(format!("iotrace-io-{number}"))
                .spawn(move || {
                    task.run(&ready, &opening);
                    let _ = announce_end.send(number);
                })?;
            self.submitters.push(Submitter {
                thread,
                turns: 0,
                changed: Instant::now(),
                left_behind: false,
            });
        }
        drop(ready);
        let mut set_up: Option<SetUp> = None;
        for _ in &self.submitters {
            let one = readiness
                .recv()
                .map_err(|_| io::Error::other("a thread of the engine ended"))?;
            let one = one.1?;
            set_up = Some(match set_up {
                None => one,
                Some(all) => SetUp {
                    preferred: all.preferred && one.preferred,
                    unregistered: all.unregistered.or(one.unregistered),
                    ..all
                },
            });
        }
        self.clock.start_in(LEAD_NS);
        if let Some(at_ns) = at_ns.filter(|&at_ns| at_ns > self.clock.zero_ns()) {
            self.clock.start_at(at_ns);
        }
        let mut set_up = set_up.ok_or_else(|| io::Error::other("there is no submitter"))?;
        set_up.start_utc_ns = self.clock.zero_utc_ns();
        set_up.start_ns = self.clock.zero_ns();
        let most = set_up.in_flight_max * set_up.submitters as u32;
        set_up.in_flight_max = most.min(self.settings.in_flight_max);
        self.progress.room.store(set_up.in_flight_max, Relaxed);
        for gate in gates {
            let _ = gate.send(());
        }
        Ok(set_up)
    }

    /// Wait for the end; true once the run is over. Looks after the submitters meanwhile.
    pub fn wait(&mut self, patience: Duration) -> bool {
        let until = Instant::now() + patience;
        loop {
            let slice = until.saturating_duration_since(Instant::now()).min(GLANCE);
            let news = self.ended.recv_timeout(slice);
            self.look_after();
            // All submitters have said so, though perhaps not all of their threads are gone.
            self.over |= news == Err(mpsc::RecvTimeoutError::Disconnected) || self.are_finished();
            if self.over || Instant::now() >= until {
                return self.over;
            }
        }
    }

    /// The next finished batch of the plan with what came of it, in the plan's order; after the end of the run also what
    /// is unfinished. Rows that were never issued are left out.
    pub fn take(&mut self) -> Result<Option<RecordBatch>, ArrowError> {
        loop {
            if !(self.over || self.window.front().is_some_and(|chunk| chunk.is_complete())) {
                return Ok(None);
            }
            let Some(chunk) = self.window.pop_front() else {
                return Ok(None);
            };
            self.tally.add(&chunk);
            let outcome = chunk.outcome()?;
            if outcome.num_rows() > 0 {
                return Ok(Some(outcome));
            }
        }
    }

    /// Totals and distributions of everything taken so far.
    pub fn tally(&mut self) -> &Tally {
        if self.window.is_empty() {
            self.tally.finish();
        }
        &self.tally
    }

    /// Processor time that the process took in each second of the run.
    #[must_use]
    pub fn processor_ns(&self) -> &[i64] {
        &self.processor_ns
    }

    /// Threads that hang in a system call, and will end when the system lets them.
    #[must_use]
    pub fn left_behind(&self) -> usize {
        self.submitters.iter().filter(|one| one.left_behind).count()
    }

    fn are_finished(&self) -> bool {
        let mut all = self.submitters.iter();
        !self.submitters.is_empty() && all.all(|one| one.left_behind || one.thread.is_finished())
    }

    fn look_after(&mut self) {
        self.read_processor_time();
        if self.progress.stopping() {
            self.stopping_since.get_or_insert_with(Instant::now);
        }
        let drain = Duration::from_nanos(self.settings.drain_ns.max(0) as u64);
        let patience = if self.progress.abandoning() {
            GRACE
        } else {
            drain.saturating_add(GRACE)
        };
        let stall = Duration::from_nanos(self.settings.stall_ns.max(0) as u64);
        for (submitter, counters) in self.submitters.iter_mut().zip(&self.progress.counters) {
            let turns = counters.turns.load(Relaxed);
            if turns != submitter.turns {
                (submitter.turns, submitter.changed) = (turns, Instant::now());
                continue;
            }
            if submitter.left_behind || submitter.thread.is_finished() || turns == 0 {
                continue;
            }
            // A submitter that lives turns its loop every 20 ms. One that does not is in a system call.
            let silent = submitter.changed.elapsed();
            let told = self.stopping_since.map(|since| since.elapsed());
            if silent >= stall + GRACE {
                self.progress.end(Ended::Hung);
                submitter.left_behind = true;
            } else if silent >= GRACE && told.is_some_and(|told| told >= patience) {
                submitter.left_behind = true;
            }
        }
    }

    fn read_processor_time(&mut self) {
        let elapsed_ns = self.progress.snapshot().elapsed_ns;
        if elapsed_ns < 0 || self.law.is_some() {
            return;
        }
        let taken_ns = processor_time_ns();
        let Some((before_ns, taken_before_ns)) = self.processor_read else {
            self.processor_read = Some((elapsed_ns, taken_ns));
            return;
        };
        let second = (elapsed_ns / NS_PER_SECOND) as usize;
        if second > (before_ns / NS_PER_SECOND) as usize {
            // It is read some time after a second began.
            let share = i128::from(taken_ns - taken_before_ns) * i128::from(NS_PER_SECOND)
                / i128::from(elapsed_ns - before_ns);
            self.processor_ns.resize(second, share as i64);
            self.processor_read = Some((elapsed_ns, taken_ns));
        }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.feeds.clear();
        self.progress.abandon();
        // No thread is joined. What it owned is gone once it says that it is over; but where the storage still holds I/Os of
        // its ring, the kernel lets the thread itself leave only with them.
        while !self.submitters.is_empty() && !self.wait(GLANCE) {}
    }
}

/// What a submitter's thread does.
struct Task {
    number: usize,
    lane: Lane,
    files: Vec<RawFile>,
    wish: Wish,
    settings: Settings,
    law: Option<Law>,
    targets: usize,
    clock: MonotonicClock,
    progress: Arc<Progress>,
}

impl Task {
    fn run(mut self, ready: &mpsc::Sender<Ready>, opening: &mpsc::Receiver<()>) {
        let preferred = backend::prefer_this_thread(self.settings.pacing);
        let mut set_up = SetUp {
            backend: "simulated",
            reason: None,
            unregistered: None,
            start_utc_ns: 0,
            start_ns: 0,
            in_flight_max: self.settings.in_flight_max,
            preferred,
            submitters: self.wish.submitters,
        };
        if let Some(law) = self.law {
            let clock = FakeClock::at(-LEAD_NS);
            let mut device = SimulatedDevice::new(&clock, law, self.wish.seed);
            let _ = ready.send((self.number, Ok(set_up)));
            if opening.recv().is_ok() {
                self.play(&clock, &mut device);
            }
            return;
        }
        match backend::open(&self.wish, &self.files, &self.clock) {
            Ok(mut opened) => {
                set_up.backend = opened.name;
                set_up.reason = opened.reason;
                set_up.unregistered = opened.unregistered;
                set_up.in_flight_max = opened.in_flight_max;
                self.settings.in_flight_max = opened.in_flight_max;
                let _ = ready.send((self.number, Ok(set_up)));
                if opening.recv().is_ok() {
                    let clock = self.clock.clone();
                    self.play(&clock, opened.device.as_mut());
                }
            }
            Err(problem) => {
                let _ = ready.send((self.number, Err(problem)));
            }
        }
    }

    fn play<C: crate::clock::Clock>(&mut self, clock: &C, device: &mut dyn crate::device::Device) {
        play(
            &mut self.lane,
            self.number,
            clock,
            device,
            self.targets,
            self.settings,
            &self.progress,
        );
    }
}
