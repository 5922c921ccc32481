//! Threads that begin and end while the recording runs, as the kernel tells them.
//!
//! A thread may be gone before its first I/O is looked at; then its birth says which process it belonged to. Its end
//! says when its number may stand for somebody else.

use crate::format::{EventFormat, Field, FormatError};

/// Bit of `clone_flags` that makes a thread rather than a process (`man 2 clone`).
const CLONE_THREAD: u64 = 0x1_0000;

/// What happened to a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It was made.
    Began {
        /// The thread that made it.
        by: i32,
        /// It is a process of its own rather than a part of its maker's.
        is_process: bool,
    },
    /// It ended.
    Ended {
        /// Whether its process ended with it, where the kernel says so.
        with_process: Option<bool>,
    },
}

/// One change of one thread.
#[derive(Clone, Copy, Debug)]
pub struct ThreadEvent {
    /// On the trace clock.
    pub time_ns: u64,
    /// The thread.
    pub thread: i32,
    /// Its name at that moment; a new thread still has its maker's.
    pub comm: [u8; 16],
    /// What happened.
    pub change: Change,
}

/// The events that have to be enabled, as (group, name).
pub const EVENTS: [(&str, &str); 2] = [("task", "task_newtask"), ("sched", "sched_process_exit")];

/// Layouts of both events.
#[derive(Debug)]
pub struct Decoder {
    kind: Field,
    began_id: u16,
    ended_id: u16,
    by: Field,
    began: [Field; 3],
    ended: [Field; 2],
    group_dead: Option<Field>,
}

impl Decoder {
    /// From the format files of `EVENTS`, in their order.
    pub fn new([began, ended]: &[EventFormat; 2]) -> Result<Self, FormatError> {
        Ok(Self {
            kind: began.field("common_type")?,
            began_id: began.id,
            ended_id: ended.id,
            by: began.field("common_pid")?,
            began: [
                began.field("pid")?,
                began.field("comm")?,
                began.field("clone_flags")?,
            ],
            ended: [ended.field("pid")?, ended.field("comm")?],
            group_dead: ended.field("group_dead").ok(),
        })
    }

    /// The event in `record`, if it is one of these.
    #[must_use]
    pub fn decode(&self, time_ns: u64, record: &[u8]) -> Option<ThreadEvent> {
        let id = self.kind.unsigned(record)? as u16;
        let (thread, name, change) = if id == self.began_id {
            let [thread, name, flags] = self.began;
            let change = Change::Began {
                by: self.by.unsigned(record)? as i32,
                is_process: flags.unsigned(record)? & CLONE_THREAD == 0,
            };
            (thread, name, change)
        } else if id == self.ended_id {
            let with_process = self.group_dead.and_then(|field| field.unsigned(record));
            let change = Change::Ended {
                with_process: with_process.map(|dead| dead != 0),
            };
            (self.ended[0], self.ended[1], change)
        } else {
            return None;
        };
        let mut comm = [0; 16];
        let text = name.text(record)?;
        let length = text.len().min(comm.len());
        comm[..length].copy_from_slice(&text[..length]);
        Some(ThreadEvent {
            time_ns,
            thread: thread.unsigned(record)? as i32,
            comm,
            change,
        })
    }
}
