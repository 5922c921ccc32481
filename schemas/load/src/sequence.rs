//! Which I/Os are sequential: they begin where one of the last few of their stream ended.
//!
//! A stream is the I/Os of one operation in one file, where that is known, of one address space. Several sequential readers of one file take turns, so that
//! hardly any I/O continues the one just before it; looking back over some more shows them (windowed seek distance: Ahmad,
//! "Easy and Efficient Disk I/O Workload Characterization in `VMware` ESX Server", IISWC 2007). By chance, a random I/O
//! in a file of N blocks is taken for sequential once in N / 16.
//!
//! Databases write the last page of a log again until it is full: a log's write that begins within the one before it is
//! sequential too.

use std::collections::HashMap;

/// How many I/Os of the same stream are looked back over.
pub const LOOK_BACK_IOS: usize = 16;

const NO_END: i64 = -1;

/// I/Os of one stream that continue another.
#[derive(Clone, Debug)]
pub struct Sequence {
    ends: [i64; LOOK_BACK_IOS],
    last: usize,
    last_begin: i64,
    is_log: bool,
    /// I/Os with a place.
    pub count: u64,
    /// Those that are sequential.
    pub sequential_count: u64,
}

impl Sequence {
    /// No I/O yet. `is_log`: the stream is the writes of a transaction log.
    #[must_use]
    pub fn new(is_log: bool) -> Self {
        Self {
            ends: [NO_END; LOOK_BACK_IOS],
            last: 0,
            last_begin: 0,
            is_log,
            count: 0,
            sequential_count: 0,
        }
    }

    /// Takes in an I/O at an offset of at least 0; whether it is sequential.
    #[inline]
    pub fn add(&mut self, offset_bytes: i64, size_bytes: i64) -> bool {
        self.count += 1;
        // All of them, each time: that needs no branch.
        let follows = self.ends.iter().filter(|&&end| end == offset_bytes).count() > 0;
        let rewrites =
            self.is_log && (self.last_begin..self.ends[self.last]).contains(&offset_bytes);
        let is_sequential = follows || rewrites;
        self.sequential_count += u64::from(is_sequential);
        self.last = (self.last + 1) % LOOK_BACK_IOS;
        self.ends[self.last] = offset_bytes.saturating_add(size_bytes);
        self.last_begin = offset_bytes;
        is_sequential
    }
}

/// What tells streams apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stream {
    /// Where equal offsets are the same place.
    pub space: i64,
    /// Any number where no file is known.
    pub file_id: i32,
    /// Whether it writes.
    pub is_write: bool,
    /// Whether it is a transaction log.
    pub is_log: bool,
}

/// The sequences of all streams.
#[derive(Clone, Debug, Default)]
pub struct Sequences {
    numbers: HashMap<Stream, usize>,
    found: Vec<Sequence>,
    /// The stream of the I/O before: most I/Os come in runs.
    latest: Option<(Stream, usize)>,
}

impl Sequences {
    /// Takes in an I/O of at least offset 0; whether it is sequential.
    #[inline]
    pub fn add(&mut self, stream: Stream, offset_bytes: i64, size_bytes: i64) -> bool {
        let number = match self.latest {
            Some((latest, number)) if latest == stream => number,
            _ => *self.numbers.entry(stream).or_insert_with(|| {
                self.found
                    .push(Sequence::new(stream.is_log && stream.is_write));
                self.found.len() - 1
            }),
        };
        self.latest = Some((stream, number));
        self.found[number].add(offset_bytes, size_bytes)
    }

    /// I/Os with a place, and those of them that are sequential.
    #[must_use]
    pub fn counts(&self) -> (u64, u64) {
        self.found.iter().fold((0, 0), |(count, sequential), one| {
            (count + one.count, sequential + one.sequential_count)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{LOOK_BACK_IOS, Sequence, Sequences, Stream};

    #[test]
    fn sixteen_are_looked_back_over_and_not_seventeen() {
        for (between, is_sequential) in [(LOOK_BACK_IOS - 1, true), (LOOK_BACK_IOS, false)] {
            let mut sequence = Sequence::new(false);
            sequence.add(0, 8);
            (0..between).for_each(|place| {
                sequence.add(1000 + 100 * place as i64, 8);
            });
            assert_eq!(sequence.add(8, 8), is_sequential);
        }
    }

    #[test]
    fn the_first_continues_nothing() {
        let mut sequence = Sequence::new(true);
        assert!(!sequence.add(0, 0));
        assert!(sequence.add(0, 0));
        assert_eq!((sequence.count, sequence.sequential_count), (2, 1));
    }

    #[test]
    fn a_log_may_write_its_end_again_and_others_may_not() {
        for (is_log, begin, is_sequential) in [
            (true, 4096, true),
            (true, 8191, true),
            (true, 4095, false),
            (true, 8193, false),
            (false, 4096, false),
        ] {
            let mut sequence = Sequence::new(is_log);
            sequence.add(4096, 4096);
            assert_eq!(sequence.add(begin, 8192), is_sequential, "{is_log} {begin}");
        }
    }

    #[test]
    fn spaces_files_and_operations_are_streams_of_their_own() {
        let stream = |space, file_id, is_write, is_log| Stream {
            space,
            file_id,
            is_write,
            is_log,
        };
        let mut all = Sequences::default();
        assert!(!all.add(stream(1, 7, false, false), 0, 8));
        assert!(!all.add(stream(2, 7, false, false), 8, 8));
        assert!(!all.add(stream(1, 8, false, false), 8, 8));
        assert!(!all.add(stream(1, 7, true, false), 8, 8));
        assert!(all.add(stream(1, 7, false, false), 8, 8));
        // Reads of a log are not its writing.
        assert!(!all.add(stream(1, 9, false, true), 8, 8));
        assert!(!all.add(stream(1, 9, false, true), 12, 8));
        assert!(!all.add(stream(1, 9, true, true), 8, 8));
        assert!(all.add(stream(1, 9, true, true), 12, 8));
        assert_eq!(all.counts(), (9, 2));
    }
}
