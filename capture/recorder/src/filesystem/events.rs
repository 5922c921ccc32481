//! The events of the filesystem layer, and what is read from them.

use std::collections::HashMap;

use crate::buffers::{Buffers, SessionError};
use crate::event::Op;
use crate::format::Field;

/// Which tracing instance an event belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Instance {
    /// Only what the processes that use a recorded file system do.
    Calls,
    /// What anybody does to a recorded file system.
    Changes,
}

/// One event to be enabled: the kernel's names, and how it is limited to the recorded file systems.
#[derive(Clone, Copy, Debug)]
pub struct Source {
    pub instance: Instance,
    pub group: &'static str,
    pub name: &'static str,
    /// Field that holds the device number; none for system calls.
    pub device_field: Option<&'static str>,
    /// A further condition.
    pub condition: Option<&'static str>,
    /// File system it belongs to; none for any.
    pub filesystem: Option<&'static str>,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Enter(Op),
    Exit,
    /// Names of the fields that hold inode, offset and flags of the I/O, where there are any.
    Touch(&'static str, Option<Offset>),
    DirectBegin,
    DirectEnd,
    AllocatedExt,
    AllocatedXfs,
    GivenUp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Offset {
    Bytes(&'static str),
    Pages(&'static str),
}

const CALLS: [(&str, Op); 13] = [
    ("read", Op::Read),
    ("pread64", Op::Read),
    ("readv", Op::Read),
    ("preadv", Op::Read),
    ("preadv2", Op::Read),
    ("write", Op::Write),
    ("pwrite64", Op::Write),
    ("writev", Op::Write),
    ("pwritev", Op::Write),
    ("pwritev2", Op::Write),
    ("fsync", Op::Flush),
    ("fdatasync", Op::Flush),
    ("msync", Op::Flush),
];

const CALL_NAMES: [(&str, &str); 13] = [
    ("sys_enter_read", "sys_exit_read"),
    ("sys_enter_pread64", "sys_exit_pread64"),
    ("sys_enter_readv", "sys_exit_readv"),
    ("sys_enter_preadv", "sys_exit_preadv"),
    ("sys_enter_preadv2", "sys_exit_preadv2"),
    ("sys_enter_write", "sys_exit_write"),
    ("sys_enter_pwrite64", "sys_exit_pwrite64"),
    ("sys_enter_writev", "sys_exit_writev"),
    ("sys_enter_pwritev", "sys_exit_pwritev"),
    ("sys_enter_pwritev2", "sys_exit_pwritev2"),
    ("sys_enter_fsync", "sys_exit_fsync"),
    ("sys_enter_fdatasync", "sys_exit_fdatasync"),
    ("sys_enter_msync", "sys_exit_msync"),
];

const fn touch(
    group: &'static str,
    name: &'static str,
    filesystem: Option<&'static str>,
    offset: Option<Offset>,
) -> Source {
    Source {
        instance: Instance::Calls,
        group,
        name,
        device_field: Some("dev"),
        condition: None,
        filesystem,
        kind: Kind::Touch("ino", offset),
    }
}

const fn change(
    group: &'static str,
    name: &'static str,
    filesystem: Option<&'static str>,
    kind: Kind,
) -> Source {
    Source {
        instance: Instance::Changes,
        group,
        name,
        device_field: Some("dev"),
        condition: None,
        filesystem,
        kind,
    }
}

const POS: Option<Offset> = Some(Offset::Bytes("pos"));
const OFFSET: Option<Offset> = Some(Offset::Bytes("offset"));
const EXT4: Option<&str> = Some("ext4");
const XFS: Option<&str> = Some("xfs");

const OTHERS: [Source; 16] = [
    Source {
        device_field: Some("s_dev"),
        kind: Kind::Touch("i_ino", Some(Offset::Pages("index"))),
        ..touch("filemap", "mm_filemap_get_pages", EXT4, None)
    },
    touch("ext4", "ext4_da_write_begin", EXT4, POS),
    touch("ext4", "ext4_write_begin", EXT4, POS),
    touch("ext4", "ext4_sync_file_enter", EXT4, None),
    touch("xfs", "xfs_file_buffered_read", XFS, OFFSET),
    touch("xfs", "xfs_file_buffered_write", XFS, OFFSET),
    touch("xfs", "xfs_file_direct_read", XFS, OFFSET),
    touch("xfs", "xfs_file_direct_write", XFS, OFFSET),
    touch("xfs", "xfs_file_fsync", XFS, None),
    Source {
        condition: Some("aio == 0"),
        ..touch("iomap", "iomap_dio_rw_begin", None, POS)
    },
    Source {
        condition: Some("aio == 1"),
        ..change("iomap", "iomap_dio_rw_begin", None, Kind::DirectBegin)
    },
    Source {
        condition: Some("aio == 1"),
        ..change("iomap", "iomap_dio_complete", None, Kind::DirectEnd)
    },
    change("ext4", "ext4_allocate_blocks", EXT4, Kind::AllocatedExt),
    change("ext4", "ext4_free_inode", EXT4, Kind::GivenUp),
    change("xfs", "xfs_iext_insert", XFS, Kind::AllocatedXfs),
    change("xfs", "xfs_bmap_post_update", XFS, Kind::AllocatedXfs),
];

/// Numbers of XFS inodes are reused after this event, which also comes for files that live on.
const XFS_GIVEN_UP: Source = change("xfs", "xfs_inode_inactivating", XFS, Kind::GivenUp);

/// Everything that is to be enabled where the kernel has it.
#[must_use]
pub fn sources() -> Vec<Source> {
    let call = |name, kind| Source {
        instance: Instance::Calls,
        group: "syscalls",
        name,
        device_field: None,
        condition: None,
        filesystem: None,
        kind,
    };
    let calls = CALLS
        .iter()
        .zip(CALL_NAMES)
        .flat_map(|(&(_, op), (enter, exit))| {
            [call(enter, Kind::Enter(op)), call(exit, Kind::Exit)]
        });
    calls.chain(OTHERS).chain([XFS_GIVEN_UP]).collect()
}

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
