//! What the figures on the shape of a load are made of, counted in one pass over I/Os in order of time.

use std::collections::HashMap;

use crate::touched::Touched;

/// Widths of the windows whose fullest is looked for: 10 ms, 100 ms, 1 s.
pub const WIDTHS_NS: [i64; 3] = [10_000_000, 100_000_000, 1_000_000_000];
/// Address spaces that places can tell apart.
pub const SPACES_MAX: usize = 1 << 18;

/// I/Os in columns, all of one length.
#[derive(Clone, Copy)]
#[expect(missing_docs, reason = "named as everywhere")]
pub struct Columns<'a> {
    pub at_ns: &'a [i64],
    pub space: &'a [i64],
    pub offset_bytes: &'a [i64],
    pub size_bytes: &'a [i64],
    /// 0 for what moves no data and counts for time alone.
    pub transfers: &'a [u8],
    /// The slot under which what is touched is counted, where several spaces share one.
    pub medium: Option<&'a [i64]>,
}

/// The fullest window of one width. Windows lie side by side from the first I/O on.
#[derive(Clone, Copy, Default)]
struct Peak {
    width_ns: i64,
    end_ns: i64,
    count: u64,
    most: u64,
}

impl Peak {
    fn add(&mut self, since_ns: i64) {
        if since_ns >= self.end_ns {
            self.most = self.most.max(self.count);
            self.count = 0;
            self.end_ns = (since_ns / self.width_ns + 1) * self.width_ns;
        }
        self.count += 1;
    }
}

/// Counts so far.
pub struct Shape {
    /// I/Os.
    pub count: u64,
    /// Reads and writes among them.
    pub transfers: u64,
    /// What these move.
    pub moved_bytes: i64,
    /// When the first was issued.
    pub first_ns: i64,
    /// When the last was.
    pub last_ns: i64,
    /// Sum of the squares of the times between arrivals.
    pub square_ns2: f64,
    /// Transfers that begin where the one before in their space ended.
    pub follows: u64,
    /// What transfers touch, by the slot of their space or by medium.
    pub touched: Touched,
    /// Address spaces in order of first sight; a slot is a position here.
    pub spaces: Vec<i64>,
    slots: HashMap<i64, usize>,
    /// Where the last transfer of each space ended.
    ends: Vec<i64>,
    peaks: [Peak; 3],
}

impl Shape {
    /// Nothing yet; see `Touched::new` for `stretches_max`.
    #[must_use]
    pub fn new(stretches_max: usize) -> Self {
        Self {
            count: 0,
            transfers: 0,
            moved_bytes: 0,
            first_ns: 0,
            last_ns: 0,
            square_ns2: 0.0,
            follows: 0,
            touched: Touched::new(stretches_max),
            spaces: Vec::new(),
            slots: HashMap::new(),
            ends: Vec::new(),
            peaks: WIDTHS_NS.map(|width_ns| Peak {
                width_ns,
                ..Peak::default()
            }),
        }
    }

    /// Add I/Os issued after all those before. False where there are more address spaces than can be told apart.
    pub fn add(&mut self, rows: &Columns<'_>) -> bool {
        let Some(&first_ns) = rows.at_ns.first() else {
            return true;
        };
        if self.count == 0 {
            (self.first_ns, self.last_ns) = (first_ns, first_ns);
        }
        let mut slot = usize::MAX;
        for row in 0..rows.at_ns.len() {
            let at_ns = rows.at_ns[row];
            let gap_ns = (at_ns - self.last_ns) as f64;
            self.square_ns2 += gap_ns * gap_ns;
            self.last_ns = at_ns;
            for peak in &mut self.peaks {
                peak.add(at_ns - self.first_ns);
            }
            if rows.transfers[row] == 0 {
                continue;
            }
            if slot == usize::MAX || self.spaces[slot] != rows.space[row] {
                slot = self.slot_of(rows.space[row]);
                if slot >= SPACES_MAX {
                    return false;
                }
            }
            let (offset_bytes, size_bytes) = (rows.offset_bytes[row], rows.size_bytes[row]);
            self.transfers += 1;
            self.moved_bytes += size_bytes;
            self.follows += u64::from(self.ends[slot] == offset_bytes);
            self.ends[slot] = offset_bytes + size_bytes;
            let medium = rows.medium.map_or(slot as i64, |medium| medium[row]);
            self.touched.add(medium, offset_bytes, size_bytes);
        }
        self.count += rows.at_ns.len() as u64;
        true
    }

    /// Most I/Os in one window, for each of `WIDTHS_NS`.
    #[must_use]
    pub fn most(&self) -> [u64; 3] {
        self.peaks.map(|peak| peak.most.max(peak.count))
    }

    fn slot_of(&mut self, space: i64) -> usize {
        *self.slots.entry(space).or_insert_with(|| {
            self.spaces.push(space);
            self.ends.push(-1);
            self.spaces.len() - 1
        })
    }
}
