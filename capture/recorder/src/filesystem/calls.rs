//! Pairs the beginnings and ends of calls on files into I/Os.
//!
//! A synchronous call is a system call from its entry to its exit; the file is the one the thread reached in between, as
//! the file system itself told. A call that reached no recorded file (a socket, a pipe, another disk) is dropped.
//! Asynchronous direct I/O, which a thread only submits, runs from the file system's beginning of it to its end.

use std::collections::{HashMap, VecDeque};

use super::events::{FileEvent, What};
use iotrace_block::{Op, flags};

const EAGAIN: i64 = -11;
const NO_CACHE: u32 = 0x1;
// Bits of the kernel's I/O control block (`ki_flags`), the same as those of `preadv2`'s flags.
const KI_DSYNC: u32 = 0x2;
const KI_SYNC: u32 = 0x4;
const KI_NOWAIT: u32 = 0x8;
/// Asynchronous I/Os held before all are given up: a bound on memory, reached only if ends never come.
const DIRECT_MAX: usize = 1 << 20;

/// How the file of a call is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Device number of its file system, and inode.
    Inode(u32, u64),
    /// What that descriptor of the thread leads to: the kernel did not say.
    Descriptor(i32),
}

/// One finished call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    pub target: Target,
    pub thread: i32,
    pub op: Op,
    pub issued_ns: u64,
    pub completed_ns: u64,
    /// In the file.
    pub offset: Option<u64>,
    /// Moved; asked for if it failed.
    pub bytes: u64,
    pub flags: u32,
    pub error: i32,
}

/// What did not become an I/O.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallCounts {
    /// Beginnings whose end was not seen, those under way at the end included.
    pub unpaired_issues: u64,
    /// Ends of asynchronous I/O whose beginning was not seen.
    pub unpaired_completions: u64,
    /// Turned away because they would have had to wait.
    pub would_block: u64,
    /// Moved nothing: reads at the end of a file.
    pub empty: u64,
}

#[derive(Clone, Copy, Debug)]
struct Entered {
    at_ns: u64,
    op: Op,
    descriptor: Option<i32>,
    offset: Option<u64>,
    asked: Option<u64>,
    touched: Option<Touched>,
}

#[derive(Clone, Copy, Debug)]
struct Touched {
    number: u32,
    inode: u64,
    offset: Option<u64>,
    flags: u32,
}

#[derive(Clone, Copy, Debug)]
struct Begun {
    at_ns: u64,
    thread: i32,
    bytes: u64,
    ki_flags: u32,
}

/// Calls under way.
#[derive(Debug)]
pub struct Calls {
    entered: HashMap<i32, Entered>,
    begun: HashMap<(u32, u64, u64), VecDeque<Begun>>,
    /// Whether calls of that operation are to be known by their descriptor where the kernel names no file.
    pub by_descriptor: fn(Op) -> bool,
    /// See [`CallCounts`].
    pub counts: CallCounts,
}

impl Calls {
    /// `by_descriptor`: see the field.
    #[must_use]
    pub fn new(by_descriptor: fn(Op) -> bool) -> Self {
        Self {
            entered: HashMap::new(),
            begun: HashMap::new(),
            by_descriptor,
            counts: CallCounts::default(),
        }
    }

    /// Take in one event; the call it ended, if any.
    pub fn on_event(&mut self, event: &FileEvent) -> Option<Call> {
        match event.what {
            What::Enter {
                op,
                descriptor,
                offset,
                asked,
            } => {
                let call = Entered {
                    at_ns: event.time_ns,
                    op,
                    descriptor,
                    offset,
                    asked,
                    touched: None,
                };
                self.entered.insert(event.thread, call);
                None
            }
            What::Touch {
                number,
                inode,
                offset,
                direct_flags,
            } => {
                let call = self.entered.get_mut(&event.thread)?;
                let flags = direct_flags.map_or(0, |bits| NO_CACHE | write_through(bits, call.op));
                let known = call.touched.get_or_insert(Touched {
                    number,
                    inode,
                    offset,
                    flags: 0,
                });
                known.flags |= flags; // XFS tells of direct I/O twice
                None
            }
            What::Exit { result } => self.on_exit(event, result),
            What::DirectBegin {
                number,
                inode,
                offset,
                bytes,
                flags,
            } => {
                self.on_begin((number, inode, offset), event, bytes, flags);
                None
            }
            What::DirectEnd {
                number,
                inode,
                position,
                result,
            } => self.on_end(number, inode, position, result, event),
            What::Allocated { .. } | What::GivenUp { .. } => None,
        }
    }

    /// The file that `thread` has been making durable since before `at_ns`, if it still is.
    #[must_use]
    pub fn flushing(&self, thread: i32, at_ns: u64) -> Option<(u32, u64)> {
        let call = self.entered.get(&thread)?;
        let touched = call.touched?;
        let is_flush = call.op == Op::Flush && call.at_ns <= at_ns;
        is_flush.then_some((touched.number, touched.inode))
    }

    /// Events were lost, or no more will come: what is under way stays unpaired.
    pub fn resynchronise(&mut self) {
        // A call that has reached no file may be on a socket, and wait for ever.
        let touched = self.entered.values().filter(|call| call.touched.is_some());
        self.counts.unpaired_issues += touched.count() as u64;
        self.counts.unpaired_issues += self
            .begun
            .values()
            .map(|queue| queue.len() as u64)
            .sum::<u64>();
        self.entered.clear();
        self.begun.clear();
    }

    fn on_exit(&mut self, event: &FileEvent, result: i64) -> Option<Call> {
        let call = self.entered.remove(&event.thread)?;
        let target = match (call.touched, call.descriptor) {
            (Some(touched), _) => Target::Inode(touched.number, touched.inode),
            (None, Some(descriptor)) if (self.by_descriptor)(call.op) => {
                Target::Descriptor(descriptor)
            }
            _ => return None,
        };
        let bytes = self.bytes(call.op, result, call.asked)?;
        let stated = call.touched.and_then(|touched| touched.offset);
        Some(Call {
            target,
            thread: event.thread,
            op: call.op,
            issued_ns: call.at_ns,
            completed_ns: event.time_ns,
            offset: if call.op == Op::Flush {
                None
            } else {
                call.offset.or(stated)
            },
            bytes,
            flags: flags::SYNCHRONOUS | call.touched.map_or(0, |touched| touched.flags),
            error: error_of(result),
        })
    }

    fn on_begin(&mut self, key: (u32, u64, u64), event: &FileEvent, bytes: u64, ki_flags: u32) {
        if self.begun.len() >= DIRECT_MAX {
            self.resynchronise();
        }
        let queue = self.begun.entry(key).or_default();
        // What may not wait and would have to is begun again by another thread: one I/O, since its first beginning.
        let tried = queue.iter_mut().find(|one| {
            one.ki_flags & KI_NOWAIT != 0 && ki_flags & KI_NOWAIT == 0 && one.bytes == bytes
        });
        if let Some(tried) = tried {
            tried.ki_flags = ki_flags;
            return;
        }
        queue.push_back(Begun {
            at_ns: event.time_ns,
            thread: event.thread,
            bytes,
            ki_flags,
        });
    }

    fn on_end(
        &mut self,
        number: u32,
        inode: u64,
        position: u64,
        result: i64,
        event: &FileEvent,
    ) -> Option<Call> {
        let offset = position.wrapping_sub(result.max(0) as u64);
        let key = (number, inode, offset);
        let Some(queue) = self.begun.get_mut(&key) else {
            self.counts.unpaired_completions += 1;
            return None;
        };
        let choice = queue
            .iter()
            .position(|one| one.bytes as i64 == result)
            .unwrap_or(0);
        let begun = queue.remove(choice)?;
        if queue.is_empty() {
            self.begun.remove(&key);
        }
        let op = if begun.ki_flags & KI_WRITE != 0 {
            Op::Write
        } else {
            Op::Read
        };
        let bytes = self.bytes(op, result, Some(begun.bytes))?;
        Some(Call {
            target: Target::Inode(number, inode),
            thread: begun.thread,
            op,
            issued_ns: begun.at_ns,
            completed_ns: event.time_ns,
            offset: Some(offset),
            bytes,
            flags: NO_CACHE | write_through(begun.ki_flags, op),
            error: error_of(result),
        })
    }

    /// Bytes of an I/O with this `result`; `None` if it is none.
    fn bytes(&mut self, op: Op, result: i64, asked: Option<u64>) -> Option<u64> {
        match result {
            EAGAIN => {
                self.counts.would_block += 1;
                None
            }
            _ if op == Op::Flush => Some(0),
            0 => {
                self.counts.empty += 1;
                None
            }
            1.. => Some(result as u64),
            _ => Some(asked.unwrap_or(0)),
        }
    }
}

/// `IOCB_WRITE`.
const KI_WRITE: u32 = 1 << 18;

fn write_through(ki_flags: u32, op: Op) -> u32 {
    if op == Op::Write && ki_flags & (KI_DSYNC | KI_SYNC) != 0 {
        flags::WRITE_THROUGH
    } else {
        0
    }
}

fn error_of(result: i64) -> i32 {
    if result < 0 {
        i32::try_from(result.unsigned_abs()).unwrap_or(i32::MAX)
    } else {
        0
    }
}

#[cfg(test)]
#[path = "calls_tests.rs"]
mod tests;
