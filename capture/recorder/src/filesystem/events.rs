//! The events of the filesystem layer, and what is read from them.

use std::collections::HashMap;

use super::sources::{Instance, Kind, Offset, Source, sources};
use crate::buffers::{Buffers, SessionError};
use crate::format::Field;
use iotrace_block::Op;

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A thread began a system call; `asked` bytes, at `offset` where the call states both.
    Enter {
        op: Op,
        descriptor: Option<i32>,
        offset: Option<u64>,
        asked: Option<u64>,
    },
    /// It ended.
    Exit { result: i64 },
    /// The thread reached a file of a recorded file system.
    Touch {
        number: u32,
        inode: u64,
        offset: Option<u64>,
        /// Flags of the kernel's I/O control block, where direct I/O tells them.
        direct_flags: Option<u32>,
    },
    /// Asynchronous direct I/O began.
    DirectBegin {
        number: u32,
        inode: u64,
        offset: u64,
        bytes: u64,
        flags: u32,
    },
    /// It ended; `result` bytes, or a negative error number.
    DirectEnd {
        number: u32,
        inode: u64,
        /// Where it had got to.
        position: u64,
        result: i64,
    },
    /// Blocks were given to a file.
    Allocated {
        number: u32,
        inode: u64,
        block: u64,
        blocks: u64,
    },
    /// An inode's number may belong to another file from now on.
    GivenUp { number: u32, inode: u64 },
}

/// One event.
#[derive(Clone, Copy, Debug)]
pub struct FileEvent {
    /// On the trace clock.
    pub time_ns: u64,
    /// In whose context it happened.
    pub thread: i32,
    pub what: What,
}

#[derive(Debug)]
struct Layout {
    kind: Kind,
    fields: HashMap<String, Field>,
}

impl Layout {
    fn number(&self, name: &str, record: &[u8]) -> Option<u64> {
        self.fields.get(name)?.unsigned(record)
    }
}

/// Layouts of one instance's events by event number.
#[derive(Debug)]
pub struct Decoder {
    kind: Field,
    thread: Field,
    page_bytes: u64,
    layouts: HashMap<u16, Layout>,
}

impl Decoder {
    /// For those events of `instance` whose names are `enabled`.
    pub fn new(
        instance: Instance,
        enabled: &[String],
        buffers: &Buffers,
    ) -> Result<Self, SessionError> {
        let mut layouts = HashMap::new();
        let mut common = None;
        let is_enabled = |one: &Source| enabled.iter().any(|name| name == one.name);
        for source in sources() {
            if source.instance != instance || !is_enabled(&source) {
                continue;
            }
            let format = buffers.event_format(source.group, source.name)?;
            common = Some((format.field("common_type")?, format.field("common_pid")?));
            let layout = Layout {
                kind: source.kind,
                fields: format.fields,
            };
            layouts.insert(format.id, layout);
        }
        let missing = Field { offset: 0, size: 0 };
        let (kind, thread) = common.unwrap_or((missing, missing));
        Ok(Self {
            kind,
            thread,
            page_bytes: rustix::param::page_size() as u64,
            layouts,
        })
    }

    /// The event in `record`, if it is one of these.
    #[must_use]
    pub fn decode(&self, time_ns: u64, record: &[u8]) -> Option<FileEvent> {
        let layout = self.layouts.get(&(self.kind.unsigned(record)? as u16))?;
        Some(FileEvent {
            time_ns,
            thread: self.thread.unsigned(record)? as i32,
            what: self.what(layout, record)?,
        })
    }

    fn what(&self, layout: &Layout, record: &[u8]) -> Option<What> {
        let number = |name: &str| layout.number(name, record);
        let file = || Some((number("dev")? as u32, number("ino")?));
        Some(match layout.kind {
            Kind::Enter(op) => What::Enter {
                op,
                descriptor: number("fd").map(|fd| fd as i32),
                // preadv2 and pwritev2 take -1 for the file's own position.
                offset: number("pos")
                    .or_else(|| number("pos_l"))
                    .filter(|&at| at != u64::MAX),
                asked: number("count"),
            },
            Kind::Exit => What::Exit {
                result: number("ret")? as i64,
            },
            Kind::Touch(inode, offset) => What::Touch {
                number: number("dev").or_else(|| number("s_dev"))? as u32,
                inode: number(inode)?,
                offset: match offset {
                    Some(Offset::Bytes(name)) => number(name),
                    Some(Offset::Pages(name)) => {
                        Some(number(name)?.saturating_mul(self.page_bytes))
                    }
                    None => None,
                },
                direct_flags: number("ki_flags").map(|flags| flags as u32),
            },
            Kind::DirectBegin => {
                let (device, inode) = file()?;
                What::DirectBegin {
                    number: device,
                    inode,
                    offset: number("pos")?,
                    bytes: number("count")?,
                    flags: number("ki_flags")? as u32,
                }
            }
            Kind::DirectEnd => {
                let (device, inode) = file()?;
                let error = number("error")? as i32;
                What::DirectEnd {
                    number: device,
                    inode,
                    position: number("pos")?,
                    result: if error < 0 {
                        i64::from(error)
                    } else {
                        number("ret")? as i64
                    },
                }
            }
            Kind::AllocatedExt => {
                let (device, inode) = file()?;
                What::Allocated {
                    number: device,
                    inode,
                    block: number("block")?,
                    blocks: number("len")?,
                }
            }
            Kind::AllocatedXfs => {
                let (device, inode) = file()?;
                let block = number("startblock")?;
                if is_no_place(block) {
                    return None;
                }
                What::Allocated {
                    number: device,
                    inode,
                    block,
                    blocks: number("blockcount")?,
                }
            }
            Kind::GivenUp => {
                let (device, inode) = file()?;
                What::GivenUp {
                    number: device,
                    inode,
                }
            }
        })
    }
}

/// XFS marks holes and delayed allocations by block numbers with these bits set (`isnullstartblock`).
fn is_no_place(block: u64) -> bool {
    const MASK: u64 = !0 << 17;
    block & (MASK & ((1 << 52) - 1)) == MASK & ((1 << 52) - 1)
}

#[cfg(test)]
#[path = "events_tests.rs"]
mod tests;
