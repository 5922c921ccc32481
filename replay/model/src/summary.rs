//! What a run adds up to: distributions by class of I/O, and where it is wanted one row per second. Memory grows by those
//! 40 bytes a second, for twelve days.

use iotrace_load::distribution::Distribution;

const SECOND_NS: i64 = 1_000_000_000;
/// Twelve days. What comes later counts in the last: a model may be as slow as whoever wrote it likes.
const SECONDS_MAX: i64 = 1 << 20;

fn second_of(at_ns: i64) -> usize {
    (at_ns.max(0) / SECOND_NS).min(SECONDS_MAX - 1) as usize
}

/// One second. Issued ones count where they were issued, completed ones where they completed.
#[derive(Clone, Copy, Debug, Default)]
#[expect(missing_docs, reason = "named by what they count")]
pub struct Second {
    pub issued: u64,
    pub completed: u64,
    pub delayed: u64,
    pub bytes: u64,
}

/// What differs from the response once too many in flight have held an I/O back, and is the same before.
#[derive(Debug)]
struct Apart {
    service: Distribution,
    own_response: Distribution,
}

/// See the module.
#[derive(Debug, Default)]
#[expect(missing_docs, reason = "named by what they count")]
pub struct Summary {
    pub issued: u64,
    pub completed: u64,
    pub delayed: u64,
    pub bytes: u64,
    pub first_issued_ns: Option<i64>,
    pub last_issued_ns: Option<i64>,
    pub last_completed_ns: Option<i64>,
    /// From when it was due to its end, by class.
    pub response: Vec<Distribution>,
    /// Of those that were issued after they were due.
    late: Distribution,
    apart: Option<Apart>,
    /// By second; empty where that is not wanted.
    pub seconds: Vec<Second>,
    by_second: bool,
}

impl Summary {
    /// Of so many classes, and by second or not.
    #[must_use]
    pub fn new(classes: usize, by_second: bool) -> Self {
        Self {
            response: vec![Distribution::default(); classes.max(1)],
            by_second,
            ..Self::default()
        }
    }

    /// An I/O was issued.
    pub fn issue(&mut self, due_ns: i64, issued_ns: i64, delayed: bool) {
        self.issued += 1;
        self.delayed += u64::from(delayed);
        self.first_issued_ns.get_or_insert(issued_ns);
        self.last_issued_ns = Some(issued_ns);
        if delayed {
            self.late.add(issued_ns - due_ns);
        }
        if let Some(second) = self.second(issued_ns) {
            second.issued += 1;
            second.delayed += u64::from(delayed);
        }
    }

    /// An I/O has completed.
    pub fn complete(
        &mut self,
        due_ns: i64,
        issued_ns: i64,
        completed_ns: i64,
        class: u8,
        bytes: u64,
    ) {
        self.completed += 1;
        self.bytes += bytes;
        self.last_completed_ns = Some(
            self.last_completed_ns
                .map_or(completed_ns, |last| last.max(completed_ns)),
        );
        if issued_ns > due_ns && self.apart.is_none() {
            self.apart = Some(Apart {
                service: self.response_of_all(),
                own_response: self.response_of_all(),
            });
        }
        if let Some(apart) = &mut self.apart {
            apart.service.add(completed_ns - issued_ns);
            if issued_ns == due_ns {
                apart.own_response.add(completed_ns - due_ns);
            }
        }
        self.response[usize::from(class)].add(completed_ns - due_ns);
        if let Some(second) = self.second(completed_ns) {
            second.completed += 1;
            second.bytes += bytes;
        }
    }

    /// From when each was due to when it was issued.
    #[must_use]
    pub fn lateness(&self) -> Distribution {
        let mut all = self.late.clone();
        all.add_many(0, self.issued - self.delayed);
        all
    }

    /// Response of all classes together.
    #[must_use]
    pub fn response_of_all(&self) -> Distribution {
        let mut all = Distribution::default();
        for one in &self.response {
            all.merge(one);
        }
        all
    }

    /// From when each was issued to its end.
    #[must_use]
    pub fn service(&self) -> Distribution {
        match &self.apart {
            Some(apart) => apart.service.clone(),
            None => self.response_of_all(),
        }
    }

    /// Response of those that too many in flight did not hold back.
    #[must_use]
    pub fn own_response(&self) -> Distribution {
        match &self.apart {
            Some(apart) => apart.own_response.clone(),
            None => self.response_of_all(),
        }
    }

    fn second(&mut self, at_ns: i64) -> Option<&mut Second> {
        if !self.by_second {
            return None;
        }
        let number = second_of(at_ns);
        if number >= self.seconds.len() {
            self.seconds.resize(number + 1, Second::default());
        }
        Some(&mut self.seconds[number])
    }
}
