//! Which file a flush was asked for: the one its thread was making durable just then.

use std::collections::{HashMap, VecDeque};

use super::calls::{Call, Target};
use iotrace_block::Op;

/// Calls of one thread that are remembered: more than a thread makes between two looks at the block layer.
const REMEMBERED: usize = 1 << 12;
/// Threads remembered before the memory of them starts anew.
const THREADS_MAX: usize = 1 << 12;

/// Calls that make files durable, by thread and in order of time.
#[derive(Debug, Default)]
pub struct Syncs(HashMap<i32, VecDeque<Sync>>);

#[derive(Clone, Copy, Debug)]
struct Sync {
    from_ns: u64,
    to_ns: u64,
    file: (u32, u64),
}

impl Syncs {
    /// A call has ended.
    pub fn add(&mut self, call: &Call) {
        let Target::Inode(number, inode) = call.target else {
            return;
        };
        if call.op != Op::Flush {
            return;
        }
        if self.0.len() >= THREADS_MAX {
            self.0.clear();
        }
        let calls = self.0.entry(call.thread).or_default();
        if calls.len() >= REMEMBERED {
            calls.pop_front();
        }
        calls.push_back(Sync {
            from_ns: call.issued_ns,
            to_ns: call.completed_ns,
            file: (number, inode),
        });
    }

    /// The file that `thread` was making durable at `at_ns`: its file system's number, and inode.
    #[must_use]
    pub fn at(&self, thread: i32, at_ns: u64) -> Option<(u32, u64)> {
        let calls = self.0.get(&thread)?;
        let after = calls.partition_point(|call| call.from_ns <= at_ns);
        let call = calls.get(after.checked_sub(1)?)?;
        (at_ns <= call.to_ns).then_some(call.file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flush_lies_within_the_call_that_asked_for_it() {
        let mut syncs = Syncs::default();
        for (from_ns, to_ns, inode) in [(10, 20, 12), (30, 50, 13)] {
            syncs.add(&Call {
                target: Target::Inode(7, inode),
                thread: 100,
                op: Op::Flush,
                issued_ns: from_ns,
                completed_ns: to_ns,
                offset: None,
                bytes: 0,
                flags: 0,
                error: 0,
            });
        }
        let found = [9, 10, 20, 25, 40, 51].map(|at_ns| syncs.at(100, at_ns));
        let expected = [
            None,
            Some((7, 12)),
            Some((7, 12)),
            None,
            Some((7, 13)),
            None,
        ];
        assert_eq!(found, expected);
        assert_eq!(syncs.at(101, 15), None);
    }
}
